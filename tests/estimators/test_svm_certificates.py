"""What the support vector machines say of themselves, against dense sums that share no code with the solver."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from sklearn import svm as peers
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.preprocessing import StandardScaler

from gramian.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from gramian.features.fourier import FourierFeatures
from gramian.features.nystrom import Nystroem

KERNELS = [{"gamma": 0.01}, {"gamma": 0.5}, {"gamma": 5.0}, {"kernel": "linear"}]


def draw(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.where(X[:, 0] + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0), np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]


def test_rows_that_are_equal_but_for_rounding_do_not_loop():
    X = np.tile(np.random.default_rng(0).standard_normal((1, 8)), (3, 1))
    for seed in range(20):
        rows = X + 1e-9 * np.random.default_rng(seed).standard_normal((3, 8))
        assert OneClassSVM(kernel="linear", nu=0.91).fit(rows).certificate_.converged


def gram(machine, X):
    return linear_kernel(X) if machine.kernel == "linear" else rbf_kernel(X, gamma=machine.gamma)


def expansion(machine, n):
    alpha = np.zeros(n)
    alpha[machine.support_] = machine.dual_coef_[0]
    return alpha


def classification(machine, K, y, C):
    """Primal value, dual value, and how far from feasible, relative to the multipliers."""
    beta = expansion(machine, len(y))
    square = beta @ K @ beta
    primal = 0.5 * square + np.sum(C * np.maximum(0.0, 1.0 - y * (K @ beta + machine.intercept_[0])))
    outside = np.max(np.abs(beta * y - np.clip(beta * y, 0.0, C)))
    return primal, np.sum(beta * y) - 0.5 * square, max(abs(beta.sum()), outside) / np.abs(beta).sum()


def regression(machine, K, y, C, epsilon):
    beta = expansion(machine, len(y))
    square = beta @ K @ beta
    primal = 0.5 * square + C * np.sum(np.maximum(0.0, np.abs(y - K @ beta - machine.intercept_[0]) - epsilon))
    outside = np.max(np.abs(beta) - C)
    return primal, y @ beta - epsilon * np.abs(beta).sum() - 0.5 * square, max(abs(beta.sum()), outside) / C


def agrees(machine, primal, dual, infeasible, peer=None):
    """The certificate is the truth: feasible, the gap it says, no worse than scikit-learn."""
    said, size = machine.certificate_, max(abs(primal), abs(dual))
    gap = (primal - dual) / size
    assert infeasible < 1e-9
    assert said.converged, str(said)
    assert gap <= machine.tol
    assert abs(said.gap - gap) <= 1e-8 or gap / 3 <= said.gap <= 3 * gap
    np.testing.assert_allclose([said.primal, said.dual], [primal, dual], rtol=1e-6)
    if peer is not None:
        assert primal <= peer + machine.tol * size


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("C", [1.0, 1e3, 1e4, 1e5, 1e6])
def test_classification_is_feasible_and_as_good_as_it_says(C, kernel):
    X, y, _ = draw(3, 160)
    machine = SVC(C=C, **kernel).fit(X, y)
    K = gram(machine, X)
    peer = peers.SVC(C=C, max_iter=20_000, **kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer.fit(X, y)
    agrees(machine, *classification(machine, K, y, C), classification(peer, K, y, C)[0])


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("C", [1.0, 1e3, 1e5])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_regression_is_feasible_and_as_good_as_it_says(C, kernel, scale):
    X, _, y = draw(4, 120)
    C, epsilon = scale * C, scale * 0.1
    machine = SVR(C=C, epsilon=epsilon, **kernel).fit(X, scale * y)
    agrees(machine, *regression(machine, gram(machine, X), scale * y, C, epsilon))


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=str)
@pytest.mark.parametrize("nu", [0.1, 0.5])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_nu_regression_is_the_regression_of_the_tube_it_found(C, nu, kernel):
    X, _, y = draw(5, 90)
    machine = NuSVR(C=C, nu=nu, **kernel).fit(X, y)
    primal, dual, infeasible = regression(machine, gram(machine, X), y, C, machine.epsilon_)
    used = np.abs(machine.dual_coef_).sum()
    assert infeasible < 1e-9
    assert used <= nu * C * len(y) * (1 + 1e-9)
    assert machine.certificate_.converged
    assert primal - dual <= machine.tol * abs(primal + machine.epsilon_ * nu * C * len(y))


@pytest.mark.parametrize("kernel", [*KERNELS[:3], {"gamma": 1e-6}], ids=str)
@pytest.mark.parametrize("nu", [0.7, 0.8])
def test_nu_classification_is_the_classification_of_the_c_it_found(nu, kernel):
    X, y, _ = draw(6, 120)
    machine = NuSVC(nu=nu, **kernel).fit(X, y)
    C = np.abs(machine.dual_coef_).sum() / (nu * len(y))
    primal, dual, infeasible = classification(machine, gram(machine, X), y, C * (1 + 1e-12))
    assert infeasible < 1e-9
    assert machine.certificate_.converged
    assert primal - dual <= machine.tol * primal


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("nu", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_novelty_is_feasible_and_zero_where_the_origin_is_inside(nu, kernel, scale):
    X, _, _ = draw(7, 150)
    X = X * scale if "kernel" in kernel else X
    machine = OneClassSVM(nu=nu, **kernel).fit(X)
    K, alpha, rho = gram(machine, X), expansion(machine, len(X)), machine.offset_
    np.testing.assert_allclose(alpha.sum(), nu * len(X), rtol=1e-12)
    assert alpha.min() >= 0.0
    assert alpha.max() <= 1.0
    primal = 0.5 * alpha @ K @ alpha - rho * nu * len(X) + np.sum(np.maximum(0.0, rho - K @ alpha))
    size = max(abs(primal), 1e-9 * K.max() * alpha.sum() ** 2)
    assert primal + 0.5 * alpha @ K @ alpha <= machine.tol * size
    assert machine.certificate_.converged, str(machine.certificate_)


@pytest.mark.parametrize(
    "features", [Nystroem(n_components=60, random_state=0), FourierFeatures(n_components=60, random_state=0)]
)
@pytest.mark.parametrize("C", [1.0, 1e5])
def test_with_a_map_too(C, features):
    X, y, _ = draw(8, 150)
    machine = SVC(C=C, gamma=0.3, approximation=features, random_state=0).fit(X, y)
    f = machine.decision_function(X)
    square = float(np.sum(machine.coef_**2))
    primal = 0.5 * square + C * np.sum(np.maximum(0.0, 1.0 - y * f))
    assert machine.certificate_.converged
    np.testing.assert_allclose(machine.certificate_.primal, primal, rtol=1e-6)
    np.testing.assert_allclose(machine.certificate_.dual, primal, rtol=1e-3)
    assert abs(machine.dual_coef_.sum()) <= 1e-9 * np.abs(machine.dual_coef_).sum()


def test_single_precision_rows_are_as_good_as_their_certificate():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X).astype(np.float32)
    machine = SVC(C=1e6, gamma=0.03).fit(X, y)
    K = rbf_kernel(X.astype(np.float64), gamma=0.03)
    agrees(machine, *classification(machine, K, 2.0 * y - 1.0, 1e6))
    expected = K @ expansion(machine, len(y)) + machine.intercept_[0]
    np.testing.assert_allclose(machine.decision_function(X), expected, rtol=1e-9, atol=1e-9)
    assert np.isfinite(SVR().fit(X, y * 1e40).predict(X)).all()


def test_advice_of_a_machine_without_C_does_not_name_it():
    X = np.random.default_rng(0).standard_normal((30, 2))
    with pytest.warns(ConvergenceWarning):
        said = OneClassSVM(kernel="linear", tol=1e-30).fit(X).certificate_
    assert said.message.endswith("raise tol or scale the inputs")


def test_returned_values_of_single_precision_rows_have_the_gap_that_is_said():
    X = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    y, C, epsilon = 1e-6 * np.sin(X[:, 0].astype(np.float64)), 300.0, 1e-7
    machine = SVR(gamma=0.5, C=C, epsilon=epsilon).fit(X, y)
    b, K = expansion(machine, 60), rbf_kernel(X.astype(np.float64), gamma=0.5)
    dual = b @ y - epsilon * np.abs(b).sum() - 0.5 * b @ K @ b
    primal = 0.5 * b @ K @ b + C * np.maximum(np.abs(machine.predict(X) - y) - epsilon, 0.0).sum()
    assert (primal - dual) / primal <= 1e-3


def test_small_targets_are_fitted_and_targets_inside_the_tube_are_done():
    X, _, y = draw(9, 80)
    assert SVR(epsilon=0.1).fit(X, 1e-8 * y).certificate_.converged
    machine = SVR(epsilon=1e-10).fit(X, 1e-8 * y)
    assert machine.certificate_.converged
    assert np.corrcoef(machine.predict(X), y)[0, 1] > 0.9


def test_a_matrix_with_a_negative_eigenvalue_is_stationary_at_best():
    X, y, _ = draw(10, 60)
    K = rbf_kernel(X)
    values, vectors = np.linalg.eigh(K)
    values[0] = -0.02 * values[-1]
    with pytest.warns(ConvergenceWarning, match="semi-definite"):
        machine = SVC(kernel="precomputed").fit((vectors * values) @ vectors.T, y)
    assert machine.certificate_.kind == "stationary"


def test_what_cannot_be_told_for_rounding_is_not_certified():
    X, y, _ = draw(11, 80)
    with pytest.warns(ConvergenceWarning, match="rounding"):
        machine = SVC(C=1e14, gamma=1e-3).fit(X, y)
    assert not machine.certificate_.converged


@pytest.mark.parametrize("machine", [SVC(), SVR(), OneClassSVM()], ids=str)
def test_a_matrix_that_is_not_symmetric_is_refused(machine):
    K = np.eye(4)
    K[3, 0] = 0.5
    with pytest.raises(ValueError, match=r"not symmetric: entries \(0, 3\)"):
        machine.set_params(kernel="precomputed").fit(K, [0, 1, 0, 1])


def test_the_nu_that_an_error_names_works():
    X, y, _ = draw(12, 91)
    for nu, pattern in ((0.01, r"\((\S+) is enough\)"), (1.0, r"at most (\S+),")):
        with pytest.raises(ValueError, match=pattern) as error:
            NuSVC(nu=nu, gamma=1e-9).fit(X, y)
        named = float(re.search(pattern, str(error.value))[1])
        assert NuSVC(nu=named, gamma=1e-9).fit(X, y).certificate_.converged
    with pytest.raises(ValueError, match="no larger nu helps"):
        NuSVC(nu=0.5).fit(np.ones((20, 2)), [0, 1] * 10)


def test_no_support_vector_among_many_rows():
    X = np.random.default_rng(13).standard_normal((2100, 2))
    machine = SVR().fit(X, np.full(2100, 3.0))
    assert machine.certificate_.converged
    np.testing.assert_allclose(machine.predict(X[:5]), 3.0)


@pytest.mark.parametrize("class_weight", [None, {0: 3.0}])
def test_nu_svc_shows_the_c_that_bounds_its_coefficients(class_weight):
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((60, 2)), rng.uniform(0.5, 2.0, 60)
    y = (X[:, 0] + rng.standard_normal(60) > 0).astype(int)
    machine = NuSVC(nu=0.4, class_weight=class_weight).fit(X, y, sample_weight=w)
    room = machine.C_[0] * (w * machine.class_weight_[y])[machine.support_]
    used = np.abs(machine.dual_coef_[0]) / room
    assert used.max() == pytest.approx(1.0, rel=1e-12)
    assert (machine.kinds_[machine.support_[used > 1 - 1e-12]] == "violator").all()


def test_a_gap_below_the_rounding_of_kernel_values_is_not_certified():
    rng = np.random.default_rng(1)
    X = (100.0 + rng.standard_normal((8, 3))) * 1e7
    with pytest.warns(ConvergenceWarning, match="rounding"):
        machine = SVC(kernel="linear", C=1e3).fit(X, [0, 1] * 4)
    assert not machine.certificate_.converged


@pytest.mark.parametrize("scale", [1.0, 1e-8])
def test_nu_svr_through_all_targets_has_no_tube(scale):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((60, 8)), scale * rng.standard_normal(60)
    machine = NuSVR(C=1e6, nu=0.5).fit(X, y)
    assert machine.certificate_.converged
    assert machine.epsilon_ == 0.0
    np.testing.assert_allclose(machine.predict(X), y, atol=1e-6 * scale)
