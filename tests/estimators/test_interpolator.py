"""KernelInterpolator: through the data with the least norm, the limit of ridge, and honest about singular matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.estimators.interpolator import KernelInterpolator
from gramian.estimators.ridge import KernelRidge
from gramian.kernels import RBF, Linear, Matern, Polynomial, Spectrum
from gramian.rkhs import Function

KERNEL = Matern(1.0, nu=1.5)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((30, 2))
    return X, np.column_stack([np.sin(X[:, 0]), X[:, 1]]), rng.standard_normal((9, 2))


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([KernelInterpolator(), KernelInterpolator(nugget=1e-6)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_passes_through_the_data_with_the_least_norm(data, rng):
    X, Y, _ = data
    model = KernelInterpolator(KERNEL).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Y, atol=1e-9)
    assert model.certificate_.converged
    assert model.nugget_ == 0.0
    f = model.function_[0]
    # Adding anything that vanishes on the data makes the norm larger.
    for _ in range(5):
        g = Function(KERNEL, rng.standard_normal((4, 2)), rng.standard_normal(4))
        bump = g - KernelInterpolator(KERNEL).fit(X, g(X)).function_
        np.testing.assert_allclose(bump(X), 0.0, atol=1e-9)
        assert f.inner(bump) == pytest.approx(0.0, abs=1e-8)
        assert (f + bump).norm() > f.norm()


def test_is_the_limit_of_ridge(data):
    X, Y, Z = data
    limit = KernelInterpolator(KERNEL).fit(X, Y)
    gaps = [np.abs(KernelRidge(a, kernel=KERNEL).fit(X, Y).predict(Z) - limit.predict(Z)).max() for a in (1e-2, 1e-5)]
    assert gaps[1] < 1e-2 * gaps[0]
    np.testing.assert_allclose(KernelRidge(0, kernel=KERNEL).fit(X, Y).predict(Z), limit.predict(Z))
    with_nugget = KernelInterpolator(KERNEL, nugget=0.1).fit(X, Y)
    np.testing.assert_allclose(with_nugget.predict(Z), KernelRidge(0.1, kernel=KERNEL).fit(X, Y).predict(Z))


def test_error_stays_within_norm_times_power(data, rng):
    X, _, Z = data
    truth = Function(KERNEL, rng.standard_normal((5, 2)), rng.standard_normal(5))
    model = KernelInterpolator(KERNEL).fit(X, truth(X))
    power = model.function_.power(Z)
    assert np.all(np.abs(model.predict(Z) - truth(Z)) <= truth.norm() * power + 1e-9)
    other = KernelInterpolator(KERNEL).fit(X, rng.standard_normal(30))
    np.testing.assert_allclose(other.function_.power(Z), power)


def certified(model, X, y):
    """The certificate says how far the predictions are from the targets."""
    missed = np.abs(model.predict(X) - y).max()
    assert model.certificate_.violation == pytest.approx(missed / np.abs(y).max(), rel=1e-3, abs=1e-12)
    assert model.certificate_.converged == (missed <= model.tol * np.abs(y).max())


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), RBF(0.1), RBF(3.0), Matern(1.0, nu=1.5)])
@pytest.mark.parametrize("size", [1e-8, 1.0, 1e40])
def test_what_the_targets_are_missed_by_is_certified(rng, kernel, size):
    X, y = rng.standard_normal((25, 3)), size * rng.standard_normal(25)
    for rows in (X, X.astype(np.float32)):
        model = KernelInterpolator(kernel).fit(rows, y)
        single = rows.dtype == np.float32 and size < 1e38
        assert model.predict(rows).dtype == (np.float32 if single else np.float64)
        certified(model, rows.astype(np.float64), y)
    given = KernelInterpolator(Linear(), nugget=1e-3).fit(X, y)
    assert given.certificate_.converged
    assert f"misses its targets by up to {np.abs(given.predict(X) - y).max():.2g}" in given.certificate_.message


def test_coinciding_rows_are_named(data):
    X, Y, Z = data
    twice, values = np.vstack([X, X[[4, 7]]]), np.append(Y[:, 0], [2.0, 3.0])
    with pytest.raises(np.linalg.LinAlgError, match=r"rows coincide \(4 and 30, 7 and 31\).*nugget="):
        KernelInterpolator(KERNEL, nugget=0.0).fit(twice, values)
    with (
        pytest.warns(LinAlgWarning, match=r"4 and 30, 7 and 31.*nugget='auto' added 1.5e-08"),
        pytest.warns(ConvergenceWarning, match="f misses its targets by up to"),
    ):
        model = KernelInterpolator(KERNEL).fit(twice, values)
    certified(model, twice, values)
    assert model.nugget_ == pytest.approx(1.5e-8, rel=0.01)
    assert model.predict(X[[4]])[0] == pytest.approx((Y[4, 0] + 2.0) / 2, abs=1e-4)
    assert np.all(np.isfinite(model.predict(Z)))


def test_other_singular_matrices(data):
    X, Y, _ = data
    with pytest.raises(np.linalg.LinAlgError, match="no two rows coincide"):
        KernelInterpolator("linear", nugget=0.0).fit(X, Y)
    with pytest.raises(np.linalg.LinAlgError, match="not positive semi-definite"):
        KernelInterpolator("sigmoid", coef0=-1.0).fit(X, Y)


def test_objects_one_sample_and_misuse(data):
    X, Y, _ = data
    words = KernelInterpolator(Spectrum(2)).fit(["banana", "kernel"], [1.0, -1.0])
    np.testing.assert_allclose(words.predict(["kernel", "banana"]), [-1.0, 1.0])
    np.testing.assert_allclose(KernelInterpolator().fit([[1.0]], [3.0]).predict([[1.0]]), [3.0])
    with pytest.raises(ValueError, match="nugget"):
        KernelInterpolator(nugget=-1.0).fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        KernelInterpolator().fit(X, np.where(X < 9, np.nan, 1.0))
    with pytest.raises(MemoryError, match=r"takes 7\.2 KB and memory is 5 KB"):
        KernelInterpolator(memory=5000).fit(X, Y)
