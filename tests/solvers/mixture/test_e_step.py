"""The E-step beside plain loops, in both forms of the arithmetic."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference_em as reference
from gramian.solvers.mixture.covariances import family
from gramian.solvers.mixture.e_step import FEW, evaluate, evaluate_few, expect, tally
from gramian.solvers.mixture.em import maximise
from gramian.solvers.mixture.exponential_family import Mixture
from gramian.solvers.mixture.row_tiles import Tiles
from mixture_problems import TYPES, plain, problem


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
    evaluate(Tiles.of(grid, centre=np.zeros(1)), mixture, workers, "log_density", values)
    assert np.trapezoid(np.exp(values), grid[:, 0]) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_statistics_of_parts_add_up_to_those_of_the_whole(covariance_type, form, workers):
    rows, mixture, X, w = problem(covariance_type)
    parts = [Tiles.of(X[part], w[part], rows.centre) for part in (slice(0, 20), slice(20, 21), slice(21, None))]
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


def test_rows_at_infinity_have_no_nan(workers):
    rows, mixture, _, _ = problem("full")
    away = Tiles.of(np.array([[1e300, 0, 0], [1e200, -1e200, 0]]), centre=rows.centre)
    densities, q = np.empty(2), np.empty((2, 3))
    evaluate(away, mixture, workers, "log_density", densities)
    evaluate(away, mixture, workers, "posterior", q)
    assert np.isfinite(densities).all()
    assert_allclose(q.sum(axis=1), 1)
    assert_array_equal(evaluate_few(away.X - rows.centre, mixture, "log_density"), densities)
