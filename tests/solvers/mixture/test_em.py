"""EM as a solver: against plain references, in both forms of the arithmetic, and what it promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference_em as reference
from gramian.progress import Clock
from gramian.solvers.mixture import e_step as expectation
from gramian.solvers.mixture import em as em_module
from gramian.solvers.mixture.covariances import family, quadratics
from gramian.solvers.mixture.e_step import FEW, evaluate, evaluate_few, expect, tally
from gramian.solvers.mixture.em import em, gradient_norm, maximise
from gramian.solvers.mixture.gaussians import Mixture
from gramian.solvers.mixture.row_tiles import Rows, Workers

TYPES = ["full", "tied", "diag", "spherical"]
FORMS = ["expanded", "residuals"]


@pytest.fixture(params=FORMS)
def form(request, monkeypatch):
    """Have every density evaluated in one form."""
    expanded = request.param == "expanded"
    monkeypatch.setattr(expectation, "_worthwhile", lambda family: expanded)
    return request.param


@pytest.fixture
def workers():
    return Workers(2)


def problem(covariance_type, n=90, d=3, K=3, seed=0, weighted=True):
    """Rows, a mixture to start from, and both in the reference's terms."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 4 * rng.normal(size=(K, d))[rng.integers(K, size=n)] + 50
    sample_weight = rng.uniform(0.5, 2, size=n) if weighted else np.ones(n)
    rows = Rows.of(X, sample_weight if weighted else None)
    kind = family(covariance_type, K, d)
    weights = rng.dirichlet(np.full(K, 5.0))
    second = np.stack([quadratics(kind, rng.normal(size=(20, d)) * 3).mean(axis=0) for _ in range(K)])
    mixture = Mixture.of(kind, weights, X[:K] - rows.centre, kind.covariances(second, weights, 0.1))
    return rows, mixture, X, sample_weight


def plain(mixture, rows):
    """A mixture's parameters as the reference takes them."""
    kind = mixture.family
    covariances = reference.matrices(mixture.covariances, kind.name, kind.n_components, kind.n_features)
    return mixture.weights, rows.centre + mixture.means, covariances


# -- one step ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance_type", TYPES)
def test_densities_posteriors_and_labels_equal_the_reference(covariance_type, form, workers):
    rows, mixture, X, _ = problem(covariance_type)
    n, K = len(X), 3
    densities, q, best = np.empty(n), np.empty((n, K)), np.empty(n, dtype=int)
    evaluate(rows, mixture, workers, "log_density", densities)
    evaluate(rows, mixture, workers, "posterior", q)
    evaluate(rows, mixture, workers, "labels", best)
    parameters = plain(mixture, rows)
    assert_allclose(densities, reference.log_densities(X, *parameters), rtol=1e-10)
    assert_allclose(q, reference.posterior(X, *parameters), atol=1e-10)
    assert_array_equal(best, reference.posterior(X, *parameters).argmax(axis=1))
    for figure, expected in {"log_density": densities, "posterior": q, "labels": best}.items():
        assert_allclose(evaluate_few(X - rows.centre, mixture, figure), expected, rtol=1e-9, atol=1e-12)
    assert evaluate_few(np.zeros((FEW // 9 + 1, 3)), mixture, "labels") is None


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_one_iteration_equals_the_reference(covariance_type, hard, form, workers):
    rows, mixture, X, sample_weight = problem(covariance_type)
    statistics = expect(rows, mixture, workers, hard=hard)
    following = maximise(statistics, reg_covar=1e-3)

    parameters = plain(mixture, rows)
    q = reference.posterior(X, *parameters)
    densities = reference.log_densities(X, *parameters)
    assert statistics.log_likelihood == pytest.approx(sample_weight @ densities, rel=1e-12)
    expected = reference.m_step(X, reference.harden(q) if hard else q, sample_weight, covariance_type, 1e-3)
    for ours, theirs in zip(plain(following, rows), expected, strict=True):
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_a_density_integrates_to_one(covariance_type, workers):
    rng = np.random.default_rng(0)
    kind = family(covariance_type, 2, 1)
    weights = np.array([0.3, 0.7])
    mixture = Mixture.of(
        kind, weights, np.array([[-1.0], [2.0]]), kind.covariances(rng.uniform(1, 2, (2, 1)), weights, 0)
    )
    grid = np.linspace(-15, 15, 4001)[:, None]
    values = np.empty(len(grid))
    evaluate(Rows.of(grid, centre=np.zeros(1)), mixture, workers, "log_density", values)
    assert np.trapezoid(np.exp(values), grid[:, 0]) == pytest.approx(1, abs=1e-10)


# -- statistics -------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance_type", TYPES)
def test_statistics_of_parts_add_up_to_those_of_the_whole(covariance_type, form, workers):
    rows, mixture, X, w = problem(covariance_type)
    parts = [Rows.of(X[part], w[part], rows.centre) for part in (slice(0, 20), slice(20, 21), slice(21, None))]
    whole = expect(rows, mixture, workers)
    first, second, third = (expect(part, mixture, workers) for part in parts)
    total = first + second + third
    assert_allclose(total.moments, whole.moments, rtol=1e-10, atol=1e-10)
    assert total.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    assert total.entropy == pytest.approx(whole.entropy, rel=1e-10)


def test_statistics_about_different_origins_do_not_add_up(workers):
    rows, mixture, _, _ = problem("full")
    with pytest.raises(ValueError, match="origin"):
        expect(rows, mixture, workers) + expect(rows, mixture, workers, origin=mixture.means)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_origin_does_not_matter(covariance_type, form, workers):
    rows, mixture, _, _ = problem(covariance_type)
    here = expect(rows, mixture, workers)
    there = expect(rows, mixture, workers, origin=mixture.means + 1)
    assert_allclose(here.means, there.means, rtol=1e-10)
    assert_allclose(here.second, there.second, rtol=1e-9)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_tally_of_the_posterior_is_the_e_step(covariance_type, form, workers):
    rows, mixture, X, _ = problem(covariance_type)
    q = reference.posterior(X, *plain(mixture, rows))

    def assignment(block):
        return q[block.rows].reshape(block.tiles, block.size, -1).transpose(0, 2, 1)

    expected = expect(rows, mixture, workers)
    for origin in (None, expected.origin):
        assert_allclose(tally(rows, mixture.family, assignment, workers, origin).means, expected.means, rtol=1e-9)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_an_empty_component_has_no_weight_and_the_spread_of_all_rows(covariance_type, workers):
    rows, mixture, X, w = problem(covariance_type)
    kind = mixture.family

    def assignment(block):
        q = np.zeros((block.tiles, 3, block.size))
        q[:, 0] = 1.0
        return q

    statistics = tally(rows, kind, assignment, workers)
    fitted = maximise(statistics, reg_covar=0.0)
    assert_array_equal(fitted.weights, [1, 0, 0])
    overall = np.average(X, axis=0, weights=w) - rows.centre
    assert_allclose(fitted.means, np.tile(overall, (3, 1)), atol=1e-10)
    assert np.isfinite(fitted.natural).all()


# -- accuracy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance_type", TYPES)
def test_narrow_components_far_from_the_centre_lose_no_digits(covariance_type, workers):
    """Deviation 1e-3 at a distance of 1e6: expanded, the squares alone would drown the variances."""
    rng = np.random.default_rng(0)
    offsets = np.repeat([[-1e6, 1e6], [1e6, -1e6]], 50, axis=0)
    rows = Rows.of(offsets + 1e-3 * rng.normal(size=(100, 2)))
    kind, weights = family(covariance_type, 2, 2), np.array([0.5, 0.5])
    covariances = kind.covariances(np.zeros((2, kind.size)), weights, 1e-6)
    start = Mixture.of(kind, weights, offsets[[0, 50]] - rows.centre, covariances)
    solution = em(rows, start, workers, reg_covar=0.0, tol=0, max_iter=3)

    noise = rows.X - offsets  # exact
    component = np.repeat([0, 1], 50)
    expected = reference.m_step(noise, np.eye(2)[component], np.ones(100), covariance_type, 0.0)
    fitted = reference.matrices(solution.mixture.covariances, covariance_type, 2, 2)
    assert_allclose(fitted, expected[2], rtol=1e-9, atol=1e-15)
    likelihood = reference.log_joint(noise, *expected)[np.arange(100), component].mean()
    assert solution.log_likelihood == pytest.approx(likelihood, rel=1e-9)


def test_moments_that_cancel_are_taken_again(workers):
    """A wide start becomes narrow in one step: the sums about the centre are then worthless."""
    rng = np.random.default_rng(0)
    X = np.repeat([[-1e6], [1e6]], 100, axis=0) + 1e-3 * rng.normal(size=(200, 1))
    rows = Rows.of(X)
    start = Mixture.of(family("full", 2, 1), np.array([0.5, 0.5]), np.array([[-1e6], [1e6]]), np.full((2, 1, 1), 1e10))
    solution = em(rows, start, workers, reg_covar=0.0, tol=0, max_iter=1)
    assert_allclose(solution.mixture.covariances.ravel(), [X[:100].var(), X[100:].var()], rtol=1e-6)


def test_rows_at_infinity_have_no_nan(workers):
    rows, mixture, _, _ = problem("full")
    away = Rows.of(np.array([[1e300, 0, 0], [1e200, -1e200, 0]]), centre=rows.centre)
    densities, q = np.empty(2), np.empty((2, 3))
    evaluate(away, mixture, workers, "log_density", densities)
    evaluate(away, mixture, workers, "posterior", q)
    assert np.isfinite(densities).all()
    assert_allclose(q.sum(axis=1), 1)
    assert_array_equal(evaluate_few(away.X - rows.centre, mixture, "log_density"), densities)


# -- the course of EM -------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_evidence_splits_into_bound_and_divergence(covariance_type, hard, form, workers):
    rows, start, X, w = problem(covariance_type)
    options = {"reg_covar": 1e-3, "tol": 0.0, "hard": hard}
    solution = em(rows, start, workers, max_iter=4, **options)
    mixture = start
    for step, record in enumerate(solution.evidence, start=1):
        q = reference.posterior(X, *plain(mixture, rows))
        q = reference.harden(q) if hard else q
        mixture = em(rows, start, workers, max_iter=step, **options).mixture
        parameters = plain(mixture, rows)
        likelihood = np.average(reference.log_densities(X, *parameters), weights=w)
        assert record.log_likelihood == pytest.approx(likelihood, rel=1e-10)
        assert record.bound == pytest.approx(reference.bound(X, q, w, *parameters), rel=1e-10)
        assert record.kl == pytest.approx(reference.divergence(X, q, w, *parameters), abs=1e-10)
        assert record.log_likelihood == pytest.approx(record.bound + record.kl, abs=1e-12)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_objective_never_falls(covariance_type, hard, workers):
    for seed in range(5):
        rows, start, _, _ = problem(covariance_type, seed=seed)
        values = em(rows, start, workers, reg_covar=1e-6, tol=1e-9, max_iter=60, hard=hard).values
        assert np.all(np.diff(values) >= -1e-8)


def test_a_fall_that_nothing_explains_raises(workers, monkeypatch):
    rows, start, _, _ = problem("full")

    def wrong(statistics, reg_covar):
        fitted = maximise(statistics, reg_covar)
        return Mixture.of(fitted.family, fitted.weights, fitted.means + 5, fitted.covariances)

    monkeypatch.setattr(em_module, "maximise", wrong)
    with pytest.raises(ArithmeticError, match="fell from"):
        em(rows, start, workers, reg_covar=1e-6, tol=0, max_iter=5)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_regularisation_lowers_the_likelihood_by_no_more_than_it_may(covariance_type, workers):
    """From the optimum without it, a large ``reg_covar`` must lower the likelihood; EM lets it pass."""
    rows, start, _, _ = problem(covariance_type)
    optimum = em(rows, start, workers, reg_covar=0.0, tol=1e-10, max_iter=500)
    step = em(rows, optimum.mixture, workers, reg_covar=1.0, tol=0, max_iter=1)
    fall = optimum.log_likelihood - step.log_likelihood
    before, after = optimum.mixture.traces, step.mixture.traces
    assert 0 < fall <= 0.5 * float(step.mixture.weights @ (before - after)) + 1e-12


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_gradient_vanishes_where_em_stands_still(covariance_type, workers):
    rows, start, _, _ = problem(covariance_type)
    solution = em(rows, start, workers, reg_covar=1e-2, tol=1e-15, max_iter=3000)
    assert solution.converged
    assert solution.gradient_norm < 1e-5
    assert em(rows, start, workers, reg_covar=1e-2, tol=0, max_iter=1).gradient_norm > 1e-2


def test_the_gradient_is_that_of_the_likelihood(workers):
    """One Gaussian in one dimension: differences of the likelihood in μ/σ and σ²/σ²."""
    X = np.array([[0.0], [1.0], [4.0]])
    rows = Rows.of(X)

    def mixture(mean, variance):
        return Mixture.of(family("full", 1, 1), np.ones(1), np.array([[mean]]), np.array([[[variance]]]))

    def likelihood(mean, variance):
        return expect(rows, mixture(mean, variance), workers).log_likelihood / 3

    mean, variance, h = 0.7, 2.5, 1e-5
    in_mean = (likelihood(mean + h, variance) - likelihood(mean - h, variance)) / (2 * h) * math.sqrt(variance)
    in_variance = (likelihood(mean, variance + h) - likelihood(mean, variance - h)) / (2 * h) * variance
    here = mixture(mean, variance)
    norm = gradient_norm(expect(rows, here, workers), here, reg_covar=0.0)
    assert norm == pytest.approx(abs(in_mean) + abs(in_variance), rel=1e-6)


def test_em_stops_when_the_change_is_below_tol_and_not_before(workers):
    rows, start, _, _ = problem("full")
    solution = em(rows, start, workers, reg_covar=1e-6, tol=1e-4, max_iter=500)
    changes = np.abs(np.diff(solution.values))
    assert solution.converged
    assert changes[-1] < 1e-4
    assert np.all(changes[:-1] >= 1e-4)


def test_hard_em_stops_at_a_fixed_point_even_without_a_tolerance(workers):
    rows, start, _, _ = problem("full")
    solution = em(rows, start, workers, reg_covar=1e-6, tol=0.0, max_iter=500, hard=True)
    assert solution.converged
    assert len(solution.values) < 500
    assert solution.gain == 0


def test_time_runs_out(workers):
    rows, start, _, _ = problem("full")
    solution = em(rows, start, workers, reg_covar=0.0, tol=0.0, max_iter=500, clock=Clock(max_time=1e-9))
    assert solution.expired
    assert not solution.converged
    assert len(solution.values) == 1


def test_every_iteration_is_told(workers):
    rows, start, _, _ = problem("full")
    told = []
    em(
        rows,
        start,
        workers,
        reg_covar=0.0,
        tol=0.0,
        max_iter=5,
        tick=lambda done, **figures: told.append((done, figures)),
    )
    assert [done for done, _ in told] == [1, 2, 3, 4, 5]
    assert set(told[0][1]) == {"log_likelihood", "change"}


def test_without_iterations_the_start_is_the_solution(workers):
    rows, start, _, _ = problem("full")
    solution = em(rows, start, workers, reg_covar=0.0, tol=0.0, max_iter=0)
    assert solution.mixture is start
    assert solution.evidence == solution.values == ()
    assert math.isnan(solution.gain)
