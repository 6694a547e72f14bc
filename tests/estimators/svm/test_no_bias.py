"""Support vector machines without a bias, beside a general optimiser and the machine for any loss."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import make_moons

import gramian
from gramian import SVC, KernelMachineClassifier, Nystroem, svm_path, verify
from gramian.kernels import RBF

X, labels = make_moons(40, noise=0.2, random_state=0)
y, k = 2.0 * labels - 1.0, RBF(0.7)
K = k(X)
three = np.where(X[:, 0] > 1.2, 2, labels)


def test_soft_margin_is_the_hinge_machine_without_a_constant():
    model = SVC(kernel=k, C=1.5, fit_intercept=False, tol=1e-8).fit(X, labels)
    same = KernelMachineClassifier("hinge", lam=1 / (40 * 1.5), kernel=k, fit_intercept=False, tol=1e-10).fit(X, labels)
    assert np.allclose(model.decision_function(X), same.decision_function(X), atol=1e-5)
    assert model.intercept_[0] == 0.0
    lam = model.multipliers_
    dual = minimize(
        lambda v: (0.5 * (v * y) @ K @ (v * y) - v.sum(), y * (K @ (v * y)) - 1),
        np.zeros(40),
        jac=True,
        bounds=[(0, 1.5)] * 40,
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    assert np.isclose(model.dual(lam), -dual.fun, rtol=1e-6)
    assert np.isclose(model.dual(lam), model.certificate_.primal, rtol=1e-6)
    assert model.kkt().worst < 1e-6
    assert np.isfinite(model.dual(0.5 * lam + 0.1 * (lam < 1)))  # nothing has to balance
    assert verify(model, X, labels).converged
    assert abs(lam @ y) > 1e-3  # with a bias it would be zero


def test_hard_margin_without_a_bias():
    far = np.array([[1.0, 0.2], [2.0, 1.0], [-1.0, 0.3], [-3.0, 1.0]])
    signs = np.array([1, 1, -1, -1])
    model = SVC(kernel="linear", C=np.inf, fit_intercept=False, tol=1e-8).fit(far, signs)
    w = minimize(
        lambda w: 0.5 * w @ w,
        [5.0, 0.0],
        constraints={"type": "ineq", "fun": lambda w: signs * (far @ w) - 1},
        tol=1e-12,
    ).x
    assert np.allclose(model.coef_[0], w, atol=1e-6)
    assert np.isclose(model.margin_, 1 / np.linalg.norm(w), rtol=1e-6)
    assert np.all(signs * model.decision_function(far) >= 1 - 1e-7)
    assert model.certificate_.converged
    assert verify(model, far, signs).converged
    assert np.isclose(model.dual(model.multipliers_), 0.5 * w @ w, rtol=1e-6)
    assert "violator" not in model.kinds_
    model.dual_coef_ = 1.1 * model.dual_coef_
    assert not verify(model, far, signs).converged


def test_what_only_a_bias_separates_is_refused():
    line, signs = np.array([[1.0], [2.0], [3.0], [4.0]]), [0, 0, 1, 1]
    assert SVC(kernel="linear", C=np.inf).fit(line, signs).score(line, signs) == 1.0
    with pytest.raises(ValueError, match="without a bias, so C=inf has no solution"):
        SVC(kernel="linear", C=np.inf, fit_intercept=False).fit(line, signs)


def test_hard_margin_of_a_kernel_that_separates_everything():
    model = SVC(kernel=RBF(0.2), C=np.inf, fit_intercept=False, tol=1e-6).fit(X, labels)
    assert np.all(y * model.decision_function(X) >= 1 - 1e-5)
    assert model.certificate_.converged
    assert verify(model, X, labels).converged


@pytest.mark.parametrize("options", [{}, {"C": np.inf, "kernel": RBF(0.2)}, {"class_weight": "balanced"}], ids=str)
def test_several_classes_weights_maps_and_files(options, tmp_path):
    w = np.random.default_rng(0).uniform(0.5, 2, 40)
    model = SVC(**{"kernel": k, "tol": 1e-6, **options}, fit_intercept=False).fit(X, three, sample_weight=w)
    assert np.array_equal(model.intercept_, np.zeros(3))
    assert verify(model, X, three, w).converged
    assert model.kkt().worst < 1e-4
    gramian.save(model, tmp_path / "model")
    again = gramian.load(tmp_path / "model")
    assert again.fit_intercept is False
    assert np.array_equal(again.decision_function(X), model.decision_function(X))


def test_paths_probabilities_and_approximations():
    for C, model in zip(
        [0.1, 10.0], svm_path(X, labels, [0.1, 10.0], kernel=k, fit_intercept=False, tol=1e-7), strict=True
    ):
        alone = SVC(kernel=k, C=C, fit_intercept=False, tol=1e-7).fit(X, labels)
        assert np.allclose(model.decision_function(X), alone.decision_function(X), atol=1e-4)
    likely = SVC(kernel=k, fit_intercept=False, probability=True, random_state=0).fit(X, labels).predict_proba(X)
    assert np.allclose(likely.sum(axis=1), 1)
    mapped = SVC(kernel=k, fit_intercept=False, tol=1e-7, approximation=Nystroem(n_components=40)).fit(X, labels)
    exact = SVC(kernel=k, fit_intercept=False, tol=1e-7).fit(X, labels)
    assert np.allclose(mapped.decision_function(X), exact.decision_function(X), atol=1e-3)
    assert verify(mapped, X, labels).converged


def test_a_cache_of_a_few_rows():
    rng = np.random.default_rng(1)
    rows, classes = rng.standard_normal((1000, 2)), rng.integers(0, 2, 1000)
    small = SVC(kernel=1e-8 * RBF(0.45), C=10.0, fit_intercept=False, cache_size=0.06, tol=1e-6).fit(rows, classes)
    large = SVC(kernel=1e-8 * RBF(0.45), C=10.0, fit_intercept=False, tol=1e-6).fit(rows, classes)
    assert small.certificate_.converged
    assert np.allclose(small.decision_function(rows), large.decision_function(rows), rtol=1e-5)
