"""Duality to touch: dual function, Lagrangian and KKT conditions beside dense algebra and a general optimiser."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import make_moons

import gramian
from gramian import SVC, SVR, KernelMachineClassifier, KernelMachineRegressor, NuSVC, NuSVR, Nystroem, OneClassSVM
from gramian.kernels import RBF
from gramian.losses import Loss, Quantile

k = RBF(0.7)
rng = np.random.default_rng(0)
X, labels = make_moons(60, noise=0.25, random_state=0)
y = 2.0 * labels - 1.0
t = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(60)
K = k(X)


def feasible(C, size=60):
    """Multipliers in the box, with Σ λ y = 0, drawn at random."""
    lam = rng.uniform(0, 1, size) * C
    for side, total in ((y > 0, 0.3 * C), (y < 0, 0.3 * C)):
        lam[side] *= total / lam[side].sum()
    return lam


def test_the_dual_of_a_support_vector_machine_is_the_textbooks_and_bounds_the_objective():
    C = 1.5
    model = SVC(kernel=k, C=C, tol=1e-10).fit(X, labels)
    best = model.certificate_.primal
    for _ in range(20):
        lam = feasible(C)
        textbook = lam.sum() - 0.5 * (lam * y) @ K @ (lam * y)
        assert np.isclose(model.dual(lam), textbook, rtol=1e-12)
        assert model.dual(lam) <= best
    assert np.isclose(model.dual(model.multipliers_), best, rtol=1e-9)
    assert np.array_equal(model.multipliers_ == 0, model.kinds_ == "peripheral")
    assert np.array_equal(model.multipliers_ == C, model.kinds_ == "violator")


def test_the_lagrangian_is_least_at_the_function_of_its_multipliers():
    C = 1.5
    model = SVC(kernel=k, C=C, tol=1e-10).fit(X, labels)
    lam = feasible(C)
    assert np.isclose(model.lagrangian(lam, lam * y, 3.0), model.dual(lam))  # b does not matter: Σ λ y = 0

    def whole(v):  # the one of the lectures, with slack and its multipliers η = C - λ
        a, b, xi = v[:60], v[60], v[61:]
        f = K @ a + b
        return 0.5 * a @ K @ a + C * xi.sum() - lam @ (y * f - 1 + xi) - (C - lam) @ xi

    for _ in range(10):
        a, b, xi = rng.standard_normal(60), rng.standard_normal(), rng.uniform(0, 1, 60)
        assert np.isclose(model.lagrangian(lam, a, b), whole(np.concatenate([a, [b], xi])))
        primal = 0.5 * a @ K @ a + C * np.maximum(0, 1 - y * (K @ a + b)).sum()
        assert model.dual(lam) <= model.lagrangian(lam, a, b) <= primal
    # A saddle point: at the solution's own multipliers the fitted function is best, and the other way round.
    own = model.multipliers_
    saddle = model.lagrangian(own)
    assert np.isclose(saddle, model.certificate_.primal, rtol=1e-8)
    assert model.lagrangian(lam) <= saddle + 1e-8 <= model.lagrangian(own, rng.standard_normal(60), 0.3) + 1e-7


def test_multipliers_outside_the_box_or_unbalanced_prove_nothing():
    model = SVC(kernel=k, C=1.0).fit(X, labels)
    lam = feasible(1.0)
    for wrong in (np.where(np.arange(60) == 0, 1.5, lam), -lam, lam + 1e-3 * (y > 0)):
        assert model.dual(wrong) == -np.inf
    with pytest.raises(ValueError, match=r"lam must have shape \(60,\)"):
        model.dual(lam[:-1])
    with pytest.raises(ValueError, match="finite"):
        model.dual(np.full(60, np.nan))


def test_kkt_conditions_by_hand_and_their_sum_is_the_gap():
    C = 0.7
    for tol in (1e-1, 1e-9):
        model = SVC(kernel=k, C=C, tol=tol, max_iter=-1).fit(X, labels)
        kkt, lam, f = model.kkt(), model.multipliers_, model.decision_function(X)
        xi = np.maximum(0, 1 - y * f)
        assert np.allclose(kkt.complementary_slackness, lam * (y * f - 1 + xi) + (C - lam) * xi, atol=1e-12)
        primal = 0.5 * (lam * y) @ K @ (lam * y) + C * xi.sum()
        assert np.isclose(kkt.complementary_slackness.sum(), primal - model.dual(lam), atol=1e-10)
        assert np.all(kkt.dual_feasibility <= 1e-12)
        assert np.all(kkt.primal_feasibility == 0)
        assert kkt.balance < 1e-10
        assert np.all(kkt.stationarity < 1e-10)
        assert kkt.worst == max(np.abs(v).max() for v in vars(kkt).values())
    assert "complementary slackness" in str(kkt)


def test_kkt_sees_a_model_that_was_tampered_with():
    model = SVC(kernel=k, C=1.0, tol=1e-9).fit(X, labels)
    model.dual_coef_ = 1.5 * model.dual_coef_
    kkt = model.kkt()
    assert kkt.dual_feasibility.max() == pytest.approx(0.5)
    assert kkt.complementary_slackness.max() > 0.1
    assert model.dual(model.multipliers_) == -np.inf


def test_the_hard_margin_has_no_box_and_its_constraints_are_seen():
    far = np.array([[0.0], [1.0], [3.0], [4.0]])
    model = SVC(kernel="linear", C=np.inf, tol=1e-10).fit(far, [0, 0, 1, 1])
    assert np.isclose(model.dual(model.multipliers_), 0.5)
    assert model.kkt().worst < 1e-9
    assert np.isclose(model.dual([0, 2.0, 2.0, 0]), 4 - 0.5 * 16)  # far beyond any box, and a bound all the same
    model.intercept_ = model.intercept_ + 0.25
    assert np.isclose(model.kkt().primal_feasibility.max(), 0.25)


def test_several_classes_have_a_dual_for_each_pair():
    three = np.where(X[:, 0] > 1.2, 2, labels)
    model = SVC(kernel=k, C=1.0, tol=1e-9).fit(X, three)
    assert model.multipliers_.shape == (60, 3)
    assert np.allclose(model.dual(model.multipliers_), [c.dual for c in model.certificates_], rtol=1e-8)
    assert model.kkt().complementary_slackness.shape == (60, 3)
    assert model.kkt().worst < 1e-6
    lam = model.multipliers_.copy()
    lam[three == 2, 0] = 0.1  # rows of a third class have no constraint in this pair
    assert model.dual(lam)[0] == -np.inf


def test_weights_classes_and_maps_are_counted():
    w = rng.integers(0, 3, 60).astype(float)
    model = SVC(kernel=k, C=1.0, tol=1e-9, class_weight={0: 2.0, 1: 0.5}).fit(X, labels, sample_weight=w)
    assert np.isclose(model.dual(model.multipliers_), model.certificate_.dual, rtol=1e-8)
    assert model.kkt().worst < 1e-6
    lam = np.where(w == 0, 0.01, model.multipliers_)
    assert model.dual(lam) == -np.inf
    mapped = SVC(kernel=k, C=1.0, tol=1e-9, approximation=Nystroem(n_components=20, random_state=0)).fit(X, labels)
    assert np.isclose(mapped.dual(mapped.multipliers_), mapped.certificate_.dual, rtol=1e-8)
    assert mapped.kkt().worst < 1e-6


@pytest.mark.parametrize("model", [SVR(kernel=k, C=2.0, epsilon=0.1, tol=1e-10), NuSVR(kernel=k, C=2.0, tol=1e-9)])
def test_regression_has_two_multipliers_for_each_row(model):
    model.fit(X, t)
    tube = getattr(model, "epsilon_", 0.1)
    lam = model.multipliers_
    beta = lam[:, 0] - lam[:, 1]
    dual = t @ beta - tube * np.abs(beta).sum() - 0.5 * beta @ K @ beta
    assert np.isclose(model.dual(lam), dual)
    assert np.isclose(model.dual(beta), dual)
    primal = 0.5 * beta @ K @ beta + 2.0 * np.maximum(np.abs(t - model.predict(X)) - tube, 0).sum()
    assert np.isclose(dual, primal, rtol=1e-6)
    assert model.kkt().worst < 1e-5
    both = lam + 0.01 * (lam.max(axis=1, keepdims=True) < 1.9)
    assert np.isclose(model.dual(both), dual - 2 * tube * both.min(axis=1).sum())
    assert model.dual(-lam) == -np.inf


def test_one_class_and_nu_machines():
    model = OneClassSVM(kernel=k, nu=0.3, tol=1e-10).fit(X)
    lam = model.multipliers_
    assert np.isclose(model.dual(lam), -0.5 * lam @ K @ lam)
    assert np.isclose(lam.sum(), 0.3 * 60)
    assert np.isclose(model.dual(lam), model.certificate_.primal, rtol=1e-8)
    assert model.kkt().worst < 1e-6
    assert model.dual(0.5 * lam) == -np.inf
    nu = NuSVC(kernel=k, nu=0.4, tol=1e-10).fit(X, labels)
    same = SVC(kernel=k, C=nu.C_[0], tol=1e-10).fit(X, labels)
    assert np.isclose(nu.dual(nu.multipliers_), same.certificate_.dual, rtol=1e-6)
    assert nu.kkt().worst < 1e-5


@pytest.mark.parametrize(
    ("loss", "penalty"), [("huber", "squared"), ("absolute", "squared"), ("huber", "norm"), ("squared", "ball")]
)
@pytest.mark.parametrize("intercept", [True, False])
def test_machines_with_any_loss(loss, penalty, intercept):
    model = KernelMachineRegressor(loss, penalty=penalty, lam=0.05, kernel=k, fit_intercept=intercept, tol=1e-9)
    model.fit(X, t)
    u = model.dual_point_
    assert np.isclose(model.dual(u), model.certificate_.dual, rtol=1e-6)
    conjugate, size = model.loss_.conjugate(u, t).sum(), np.sqrt(u @ K @ u)
    own = {"squared": size**2 / (2 * 0.05 * 60), "norm": 0.0, "ball": size}[penalty]
    assert np.isclose(model.dual(u), -(conjugate + own) / 60, rtol=1e-10)
    kkt = model.kkt()
    assert kkt.worst < 1e-5
    assert np.all(kkt.complementary_slackness > -1e-12)
    other = 0.8 * u if intercept else 0.8 * u * rng.uniform(0, 1, 60)
    assert model.dual(other) <= model.lagrangian(other) + 1e-12
    assert model.dual(other) <= model.certificate_.primal
    if intercept:
        assert model.dual(u + 1e-3) == -np.inf


def test_the_dual_function_is_the_least_of_the_lagrangian_by_a_general_optimiser():
    model = KernelMachineRegressor("huber", lam=0.05, kernel=k, fit_intercept=False).fit(X[:6], t[:6])
    u = 0.5 * np.clip(rng.standard_normal(6), -1, 1)
    found = minimize(lambda a: model.lagrangian(u, a), np.zeros(6), method="BFGS", options={"gtol": 1e-10})
    assert np.isclose(found.fun, model.dual(u), atol=1e-7)


def test_several_functions_and_coupled_losses_are_one_problem():
    three = np.where(X[:, 0] > 1.2, 2, labels)
    for loss in ("logistic", "hinge"):
        model = KernelMachineClassifier(loss, lam=0.05, kernel=k, tol=1e-9).fit(X, three)
        assert np.isclose(model.dual(model.dual_point_), model.certificate_.dual, rtol=1e-6)
        assert model.kkt().worst < 1e-4
    two = KernelMachineRegressor(Quantile([0.2, 0.8]), lam=0.05, kernel=k, tol=1e-9).fit(X, t)
    assert np.isclose(two.dual(two.dual_point_), two.certificate_.dual, rtol=1e-6)


def test_a_model_that_was_copied_needs_its_rows(tmp_path):
    model = SVC(kernel=k).fit(X, labels)
    gramian.save(model, tmp_path / "model")
    machine = KernelMachineRegressor(lam=0.1, kernel=k).fit(X, t)
    for made, own, targets in (
        (pickle.loads(pickle.dumps(model)), model.multipliers_, labels),
        (gramian.load(tmp_path / "model"), model.multipliers_, labels),
        (pickle.loads(pickle.dumps(machine)), machine.dual_point_, t),
    ):
        assert "_fitted_to" not in vars(made)
        with pytest.raises(ValueError, match="pass them as X=, y="):
            made.dual(own)
        assert np.isclose(made.dual(own, X=X, y=targets), (model if targets is labels else machine).dual(own))


def test_what_has_no_dual_says_so():
    class Fair(Loss):
        def value(self, f, y):
            return np.abs(f - y) - np.log1p(np.abs(f - y))

        def gradient(self, f, y):
            return (f - y) / (1 + np.abs(f - y))

    with pytest.raises(ValueError, match="conjugate"):
        KernelMachineRegressor(Fair(), kernel=k).fit(X, t).kkt()
    with pytest.raises(ValueError, match="Ramp"):
        KernelMachineClassifier("ramp", kernel=k, lam=0.1).fit(X, labels).dual(np.zeros(60))
    with pytest.raises(ValueError, match="approximation"):
        KernelMachineRegressor(kernel=k, approximation=Nystroem(n_components=10)).fit(X, t).kkt()
    with pytest.raises(ValueError, match="among classes_"):
        SVC(kernel=k).fit(X, labels).dual(np.zeros(60), X=X, y=labels + 1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_tube_that_must_hold_has_no_box():
    model = SVR(kernel=k, C=np.inf, epsilon=0.3, tol=1e-6).fit(X, t)
    lam = model.multipliers_
    beta = lam[:, 0] - lam[:, 1]
    dual = t @ beta - 0.3 * np.abs(beta).sum() - 0.5 * beta @ K @ beta
    assert np.isclose(model.dual(lam), dual)
    assert np.isclose(dual, 0.5 * beta @ K @ beta, rtol=1e-6)  # no slack: the objective is the norm alone
    assert model.kkt().worst < 1e-5
    assert -np.inf < model.dual(50.0 * lam) < dual  # far beyond any box, and a bound all the same
    model.intercept_ = model.intercept_ + 0.25
    assert model.kkt().primal_feasibility.max() == pytest.approx(0.25, abs=1e-6)
