"""EM as a solver: against plain references, in both forms of the arithmetic, and what it promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference_em as reference
from gramian.progress import Clock
from gramian.solvers.mixture import em as em_module
from gramian.solvers.mixture.covariances import family
from gramian.solvers.mixture.e_step import expect
from gramian.solvers.mixture.em import em, gradient_norm, maximise
from gramian.solvers.mixture.exponential_family import Mixture
from gramian.solvers.mixture.row_tiles import Tiles
from mixture_problems import TYPES, plain, problem

# -- one step ---------------------------------------------------------------------------------------


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


# -- accuracy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance_type", TYPES)
def test_narrow_components_far_from_the_centre_lose_no_digits(covariance_type, workers):
    """Deviation 1e-3 at a distance of 1e6: expanded, the squares alone would drown the variances."""
    rng = np.random.default_rng(0)
    offsets = np.repeat([[-1e6, 1e6], [1e6, -1e6]], 50, axis=0)
    rows = Tiles.of(offsets + 1e-3 * rng.normal(size=(100, 2)))
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
    rows = Tiles.of(X)
    start = Mixture.of(family("full", 2, 1), np.array([0.5, 0.5]), np.array([[-1e6], [1e6]]), np.full((2, 1, 1), 1e10))
    solution = em(rows, start, workers, reg_covar=0.0, tol=0, max_iter=1)
    assert_allclose(solution.mixture.covariances.ravel(), [X[:100].var(), X[100:].var()], rtol=1e-6)


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
    rows = Tiles.of(X)

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
