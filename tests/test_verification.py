"""``gramian.verify``: every kind of certificate computed again, and told apart from a false one."""

import warnings

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

import gramian
from gramian import (
    SVC,
    SVR,
    AutoKernelClassifier,
    AutoKernelRegressor,
    FamilyMixture,
    FourierFeatures,
    GaussianMixture,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelInterpolator,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPCA,
    KernelRidge,
    MetricMap,
    NuSVC,
    NuSVR,
    Nystroem,
    OneClassSVM,
    PegasosClassifier,
    verify,
)
from gramian.kernels import RBF, Kernel, Periodic, Spectrum, ThinPlate, White
from gramian.verification import AUTOMATIC, CHECKS, agree
from gramian.verification.rows import Verified

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 2))
NUMBERS = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(90)
TWO = (NUMBERS > 0.2).astype(int)
THREE = np.digitize(NUMBERS, [-0.5, 0.5])
WEIGHTS = RNG.uniform(0.2, 3.0, 90) * (RNG.random(90) > 0.1)
MAP = Nystroem(n_components=15, random_state=0)
PROCESS = 1.0 * RBF(1.0) + White(0.1)

FITS = [
    (SVC(C=10.0), TWO),
    (SVC(C=2.0, class_weight="balanced"), THREE),
    (SVC(C=np.inf, kernel=RBF(0.05)), TWO),
    (SVC(approximation=MAP), TWO),
    (NuSVC(nu=0.3), TWO),
    (NuSVC(nu=0.3), THREE),
    (NuSVC(nu=0.3, class_weight={0: 2.0}), TWO),
    (SVR(C=10.0, epsilon=0.05), NUMBERS),
    (NuSVR(nu=0.4), NUMBERS),
    (OneClassSVM(nu=0.2), None),
    (KernelRidge(0.1, kernel="rbf"), NUMBERS),
    (KernelRidge([0.1, 3.0], kernel="rbf"), np.column_stack([NUMBERS, X[:, 0]])),
    (KernelRidge("loo", kernel="rbf"), NUMBERS),
    (KernelRidge(0.1, kernel="rbf", solver="pcg"), NUMBERS),
    (KernelRidge(0.1, kernel="rbf", approximation=MAP), NUMBERS),
    (KernelRidge(0.1, kernel="rbf", approximation=FourierFeatures(n_components=20, random_state=0)), NUMBERS),
    (KernelInterpolator(RBF(0.3)), NUMBERS),
    *[
        (KernelMachineRegressor(loss, lam=0.01), np.abs(np.round(3 * NUMBERS)) if loss == "poisson" else NUMBERS)
        for loss in ("squared", "absolute", "huber", "quantile", "epsilon_insensitive", "poisson")
    ],
    *[(KernelMachineClassifier(loss, lam=0.01), TWO) for loss in ("hinge", "squared_hinge", "logistic", "ramp")],
    (KernelMachineClassifier("logistic", lam=0.01), THREE),
    (KernelMachineClassifier("hinge", lam=0.01, class_weight="balanced"), THREE),
    (KernelMachineRegressor("huber", penalty="norm", lam=0.1), NUMBERS),
    (KernelMachineRegressor("absolute", penalty="ball", radius=2.0), NUMBERS),
    (KernelMachineRegressor("huber", lam=0.01, approximation=MAP), NUMBERS),
    (KernelMachineClassifier("hinge", lam=0.01, approximation=MAP, fit_intercept=False), TWO),
    (PegasosClassifier(lam=0.1, random_state=0), THREE),
    (PegasosClassifier(lam=0.1, approximation=MAP), TWO),
    (GaussianProcessRegressor(PROCESS, normalize_y=True), NUMBERS),
    (GaussianProcessRegressor(PROCESS, optimizer=None), NUMBERS),
    (GaussianProcessRegressor(PROCESS, optimizer=None, approximation=MAP), NUMBERS),
    (GaussianProcessClassifier(), TWO),
    (GaussianProcessClassifier(1.0 * RBF(1.0)), THREE),
    (KernelPCA(3, kernel="rbf"), None),
    (KernelPCA(3, kernel="rbf", center=False, approximation=MAP), None),
    *[(GaussianMixture(2, covariance_type=c, random_state=0), None) for c in ("full", "tied", "diag", "spherical")],
    (GaussianMixture(2, assignment="hard", random_state=0, tol=1e-6), None),
    (FamilyMixture(2, random_state=0), None),
    (SVC(fit_intercept=False), THREE),
    (SVC(C=np.inf, kernel=RBF(0.2), fit_intercept=False), TWO),
    (KernelRidge(0.1, kernel=RBF(1.0), fit_intercept=True), NUMBERS),
    (KernelInterpolator(ThinPlate()), NUMBERS),
    (GaussianProcessRegressor(PROCESS, trend="linear"), NUMBERS),
    (MetricMap(), NUMBERS),
    (MetricMap("agop"), THREE),
]
UNWEIGHTED = (KernelInterpolator, GaussianProcessRegressor, GaussianProcessClassifier, KernelPCA)


@pytest.mark.parametrize(("model", "y"), FITS, ids=lambda v: repr(v)[:60] if hasattr(v, "fit") else "")
def test_both_certificates_agree(model, y):
    for weights in (None, WEIGHTS):
        if weights is not None and isinstance(model, UNWEIGHTED):
            continue
        model.fit(X, y, **({} if weights is None else {"sample_weight": weights}))
        found = verify(model, X, y, weights)
        # A mixture's certificate always says how it went.
        assert found.converged, (model, found)
        assert agree(model.certificate_, found, getattr(model, "tol", None)), (model.certificate_, found)
        if not np.isnan(found.dual) and not np.isnan(model.certificate_.dual) and model.certificate_.kind != "evidence":
            np.testing.assert_allclose(found.primal, model.certificate_.primal, rtol=1e-3, atol=1e-9)


def test_every_estimator_with_a_certificate_has_a_check():
    known = {*CHECKS, *AUTOMATIC}
    maps = {"FourierFeatures", "KernelCenterer", "Nystroem", "PolynomialMap", "RBFSampler"}
    assert known | maps == {name for name in gramian.__all__ if name[0].isupper()}
    assert {type(model).__name__ for model, _ in FITS} == set(CHECKS)


def test_the_machine_inside_an_automatic_estimator():
    table = {"a": X[:, 0], "b": X[:, 1]}
    frame = pandas.DataFrame(table)
    for auto, y in ((AutoKernelRegressor, NUMBERS), (AutoKernelClassifier, THREE), (AutoKernelClassifier, TWO)):
        model = auto(time_limit=None, machines=["ridge"], random_state=0).fit(frame, y)
        found = verify(model, frame, y)
        assert found.converged
        assert agree(model.certificate_, found)


@pytest.mark.parametrize("machine", ["ridge", "svm", "gp", "linear"])
@pytest.mark.parametrize("splits", [5, list(KFold(3).split(X))])
@pytest.mark.parametrize("weights", [WEIGHTS, np.round(2.0 * WEIGHTS)])
def test_weights_and_splits_of_an_automatic_estimator(machine, splits, weights):
    """Rows of weight zero are left out, and within given splits whole weights are repetitions in an order of their own.

    The least-squares targets are standardised over the rows that count.
    """
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    for auto, y in ((AutoKernelRegressor, NUMBERS), (AutoKernelClassifier, TWO)):
        kernel = None if machine == "linear" else RBF(2.0)
        model = auto(time_limit=None, machines=[machine], kernel=kernel, random_state=0, cv=splits)
        found = verify(model.fit(frame, y, sample_weight=weights), frame, y, weights)
        assert found.converged, found
        assert agree(model.certificate_, found)


def test_sparse_rows_objects_float32_and_gram_matrices():
    text = ["kernel", "machine", "kernels", "machines", "gram", "grams"]
    model = KernelRidge(0.1, kernel=Spectrum(2)).fit(text, [0.0, 1, 0, 1, 2, 2])
    assert verify(model, text, [0.0, 1, 0, 1, 2, 2]).converged
    for rows in (sp.csr_array(X), X.astype(np.float32)):
        model = KernelRidge(0.1, kernel="rbf").fit(rows, NUMBERS)
        assert agree(model.certificate_, verify(model, rows, NUMBERS), model.tol)
    K = RBF(1.0)(X)
    for model in (SVC(kernel="precomputed"), SVC(kernel="precomputed", approximation=MAP)):
        model.fit(K, TWO, sample_weight=WEIGHTS)
        assert verify(model, K, TWO, WEIGHTS).converged
    model = KernelRidge(0.1, kernel="precomputed", approximation=MAP).fit(K, NUMBERS, WEIGHTS)
    assert verify(model, K, NUMBERS, WEIGHTS).converged


@pytest.mark.parametrize(
    "model",
    [
        GaussianProcessRegressor(RBF(1.0), alpha=0.1, optimizer=None, approximation=MAP),
        SVR(epsilon=10.0),  # without support vectors
        SVR(kernel=Periodic(1.0)),  # a kernel of dense rows
    ],
    ids=["landmarks", "no support", "dense kernel"],
)
def test_sparse_rows_of_every_kind(model):
    X = np.random.default_rng(0).standard_normal((20, 2))
    model = clone(model).fit(sp.csr_array(X), X[:, 0])
    assert agree(model.certificate_, verify(model, sp.csr_array(X), X[:, 0]))


def test_a_trend_that_fits_exactly_leaves_coefficients_of_rounding():
    X = np.random.default_rng(0).standard_normal((4, 3))
    model = KernelInterpolator(trend="linear").fit(X, X.sum(axis=1) + 100.0)
    assert verify(model, X, X.sum(axis=1) + 100.0).converged


@pytest.mark.parametrize("n", [10, 80, 300])
@pytest.mark.parametrize("value", [0.1, 5.0, 1e6])
@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(0.01, kernel=RBF(0.3), fit_intercept=True),
        KernelRidge(1e-6, kernel=RBF(0.1), fit_intercept=True),
        KernelInterpolator(RBF(0.1), trend="constant"),
    ],
)
def test_coefficients_of_a_constant_target_are_rounding_that_adds_up_over_the_rows(model, value, n):
    X = np.random.default_rng(0).standard_normal((n, 2))
    y = np.full(n, value)
    assert model.fit(X, y).certificate_.converged
    assert verify(model, X, y).converged
    model.dual_coef_ = model.dual_coef_ + 1e-10 * value
    assert "not orthogonal to the trend" in verify(model, X, y).message


def test_a_fit_over_blocks_is_verified_with_the_rows_in_memory(tmp_path):
    from gramian.data import Blocks

    pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": NUMBERS}).to_parquet(tmp_path / "rows.parquet")
    blocks = Blocks(str(tmp_path / "rows.parquet"), target="y", rows=40)
    model = KernelRidge(0.1, kernel=RBF(1.0), approximation=Nystroem(n_components=10, random_state=0)).fit(blocks)
    assert agree(model.certificate_, verify(model, pandas.DataFrame(X, columns=["a", "b"]), NUMBERS), model.tol)


# ---- false certificates -----------------------------------------------------------------------------------------


def spoil(model, y, name, change):
    model.fit(X, y)
    setattr(model, name, change(getattr(model, name)))
    return verify(model, X, y)


def test_multipliers_that_do_not_sum_to_zero_are_named():
    def pull(dual):
        dual = dual.copy()
        dual[0, 0] += 1e-3
        return dual

    found = spoil(SVC(C=10.0), TWO, "dual_coef_", pull)
    assert not found.converged
    assert "infeasible: the multipliers sum to" in found.message
    assert "infeasible" in spoil(SVR(), NUMBERS, "dual_coef_", pull).message
    assert "infeasible" in spoil(OneClassSVM(), None, "dual_coef_", pull).message


def test_multipliers_outside_the_box_are_named():
    found = spoil(SVC(C=10.0), TWO, "dual_coef_", lambda dual: 2.0 * dual)
    assert "outside their bounds" in found.message


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weight", [None, "balanced", {0: 2.0}])
@pytest.mark.parametrize("y", [TWO, THREE])
def test_an_empty_machine_is_no_optimum_for_a_positive_nu(weight, y):
    model = NuSVC(nu=0.1, kernel=RBF(1.0), class_weight=weight).fit(X, y)
    assert verify(model, X, y).converged
    model.dual_coef_ = 0.0 * model.dual_coef_
    assert not verify(model, X, y).converged


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_machine_out_of_time_before_its_weights_count_is_not_confirmed():
    rng = np.random.default_rng(59)
    X, y = rng.standard_normal((30, 3)), rng.integers(0, 2, 30)
    model = NuSVC(nu=0.1, kernel=RBF(1.0), class_weight="balanced", max_time=1e-6).fit(X, y)
    assert not model.certificate_.converged
    assert not verify(model, X, y).converged


def test_multipliers_are_judged_by_the_price_that_nu_gives():
    model = NuSVC(nu=0.3, class_weight={0: 2.0}).fit(X, TWO)
    model.C_ = 0.99 * model.C_
    assert "outside their bounds" in verify(model, X, TWO).message


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", [GaussianMixture(2, reg_covar=1.0, random_state=0), FamilyMixture(2, random_state=0)])
def test_one_iteration_of_em_shows_no_convergence_however_small_the_next_gain(model):
    model = clone(model).set_params(max_iter=1, tol=1e3).fit(X)
    assert not model.certificate_.converged
    assert "before its second iteration" in verify(model, X).message
    assert verify(clone(model).set_params(max_iter=9).fit(X), X).converged


TARGETS = {"two": TWO, "numbers": NUMBERS, "none": None}
BROKEN = [
    (SVC(C=10.0), "two", "dual_coef_", 10.0),
    (SVC(C=10.0), "two", "intercept_", 10.0),
    (SVC(approximation=MAP), "two", "_feature_weights", 10.0),
    (SVR(C=10.0, epsilon=0.05), "numbers", "dual_coef_", 10.0),
    (SVR(C=10.0, epsilon=0.05), "numbers", "intercept_", 10.0),
    (NuSVC(nu=0.3), "two", "intercept_", 10.0),
    (NuSVR(nu=0.4), "numbers", "dual_coef_", 10.0),
    (OneClassSVM(nu=0.2), "none", "dual_coef_", 10.0),
    (OneClassSVM(nu=0.2), "none", "offset_", 10.0),
    (KernelRidge(0.1, kernel="rbf"), "numbers", "dual_coef_", 10.0),
    (KernelRidge(0.1, kernel="rbf"), "numbers", "alpha_", 10.0),
    (KernelRidge(0.1, kernel="rbf", approximation=MAP), "numbers", "dual_coef_", 10.0),
    (KernelInterpolator(RBF(0.3)), "numbers", "dual_coef_", 10.0),
    (GaussianProcessRegressor(PROCESS, optimizer=None), "numbers", "alpha_", 10.0),
    (GaussianProcessRegressor(PROCESS, optimizer=None, approximation=MAP), "numbers", "alpha_", 10.0),
    (GaussianProcessRegressor(PROCESS), "numbers", "kernel_", None),
    (GaussianProcessClassifier(), "two", "base_estimator_.pi_", None),
    (KernelPCA(3, kernel="rbf"), "none", "eigenvalues_", 1e-7),
    (KernelPCA(3, kernel="rbf"), "none", "eigenvectors_", None),
    (KernelMachineRegressor("huber", lam=0.01), "numbers", "dual_coef_", None),
    (KernelMachineRegressor("huber", lam=0.01), "numbers", "intercept_", None),
    (KernelMachineRegressor("huber", penalty="ball"), "numbers", "dual_coef_", 10.0),
    (KernelMachineRegressor("absolute", lam=0.01), "numbers", "intercept_", 10.0),
    (KernelMachineRegressor("absolute", lam=0.01, approximation=MAP), "numbers", "intercept_", None),
    (KernelMachineClassifier("hinge", lam=0.01), "two", "dual_coef_", None),
    (KernelMachineClassifier("logistic", lam=0.01, approximation=MAP), "two", "dual_coef_", None),
    (GaussianProcessRegressor(PROCESS), "numbers", "L_", None),
    (GaussianProcessClassifier(), "two", "base_estimator_.L_", None),
    (GaussianProcessClassifier(), "two", "base_estimator_.W_sr_", None),
    (KernelPCA(3, kernel="rbf"), "none", "X_fit_", None),
    (GaussianMixture(2, random_state=0, tol=1e-6, max_iter=9999), "none", "precisions_cholesky_", None),
    (GaussianMixture(2, random_state=0, tol=1e-6, max_iter=9999), "none", "weights_", None),
    (GaussianMixture(2, random_state=0, tol=1e-6, max_iter=9999), "none", "means_", None),
    (GaussianMixture(2, random_state=0, tol=1e-6, max_iter=9999), "none", "covariances_", None),
]
"""What is broken, by one per cent each, and by so many times the tolerance where a figure feels that at first order."""


@pytest.mark.parametrize(("model", "y", "name", "times"), BROKEN, ids=lambda v: repr(v)[:50])
def test_a_model_that_is_off_by_one_per_cent_or_ten_tolerances_is_not_confirmed(model, y, name, times):
    y, rng = TARGETS[y], np.random.default_rng(0)
    for size in [0.01] if times is None else [0.01, times * model.tol if model.tol else times]:
        model.fit(X, y)
        assert verify(model, X, y).converged
        owner, _, last = name.rpartition(".")
        at = getattr(model, owner) if owner else model
        value = getattr(at, last)
        if last == "kernel_":
            changed = value.with_theta(value.theta + size)
        elif np.size(value) == 1 or last == "_feature_weights":
            changed = value + size * max(1.0, float(np.abs(value).max()))
        else:
            changed = value * (1.0 + size * rng.choice([-1.0, 1.0], np.shape(value)))
        setattr(at, last, changed)
        found = verify(model, X, y)
        assert not found.converged, (size, model.certificate_, found)
        assert found.message
        assert not agree(model.certificate_, found, model.tol)


@pytest.mark.parametrize("center", [True, False])
def test_components_that_leave_out_a_larger_one_are_not_confirmed(center):
    model = KernelPCA(3, kernel="rbf", center=center).fit(X)
    values, vectors = model.eigenvalues_, model.eigenvectors_
    model.eigenvalues_, model.eigenvectors_ = values[1:], vectors[:, 1:]
    assert "is missing" in verify(model, X).message
    model.eigenvalues_, model.eigenvectors_ = 0.0 * values, 0.0 * vectors
    assert "is missing" in verify(model, X).message


def test_answers_to_another_question_are_not_confirmed():
    ridge = KernelRidge(10.0, kernel="rbf").fit(X, NUMBERS)
    assert "not the alpha" in verify(ridge.set_params(alpha=0.1), X, NUMBERS).message
    machine = SVR().fit(X, NUMBERS)
    machine.certificate_ = ridge.certificate_
    assert "not the certificate of any" in verify(machine, X, NUMBERS).message


def test_a_process_by_conjugate_gradients_is_confirmed_to_its_tolerance():
    model = GaussianProcessRegressor(RBF(0.5), alpha=1e-3, optimizer=None, solver="pcg", tol=1e-3).fit(X, NUMBERS)
    assert model.certificate_.converged
    assert verify(model, X, NUMBERS).converged


def test_pegasos_far_from_its_optimum_is_not_confirmed():
    assert not spoil(PegasosClassifier(lam=0.1, random_state=0), TWO, "dual_coef_", lambda a: 2.0 * a).converged


def test_a_model_that_predicts_something_else_than_it_shows():
    class Liar(SVR):
        def predict(self, X):
            return super().predict(X) + 0.01

    assert "predictions differ" in verify(Liar().fit(X, NUMBERS), X, NUMBERS).message


def test_a_kernel_that_is_none_bounds_nothing():
    K = RNG.standard_normal((30, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SVC(kernel="precomputed").fit(K + K.T, TWO[:30])
    found = verify(model, K + K.T, TWO[:30])
    assert found.kind == "stationary" or not found.converged


def test_pegasos_on_a_matrix_of_no_kernel_claims_nothing():
    K = np.random.default_rng(1).standard_normal((12, 12))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PegasosClassifier(kernel="precomputed", random_state=0).fit(K + K.T, TWO[:12])
    assert "not positive semi-definite" in model.certificate_.message
    assert "not positive semi-definite" in verify(model, K + K.T, TWO[:12]).message


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "ramp"])
def test_a_machine_on_a_matrix_of_no_kernel_claims_nothing(loss):
    K = np.random.default_rng(1).standard_normal((12, 12))
    model = KernelMachineClassifier(loss, kernel="precomputed", lam=10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(K + K.T, TWO[:12])
        except ValueError:  # Newton's method has met negative curvature, and says so
            return
    found = verify(model, K + K.T, TWO[:12])
    assert not model.certificate_.converged
    assert "not positive semi-definite" in model.certificate_.message
    assert "not positive semi-definite" in found.message


def test_certificates_agree_within_three_times_or_rounding():
    def certificate(gap, converged=True, **more):
        return Verified(kind="duality gap", gap=gap, primal=1.0, converged=converged, iterations=1, seconds=0.0, **more)

    assert agree(certificate(1e-4), certificate(2.9e-4), 1e-3)
    assert agree(certificate(0.0), certificate(9e-10), 1e-3)
    assert not agree(certificate(1e-5), certificate(1e-4), 1e-3)
    assert not agree(certificate(1e-4), certificate(1e-5), 1e-3)
    assert agree(certificate(1e-5), certificate(1e-4, rounding=1e-4), 1e-3)
    assert not agree(certificate(9e-4), certificate(1.1e-3, converged=False), 1e-3)
    assert agree(certificate(9e-4), certificate(1.1e-3, converged=False, rounding=3e-4), 1e-3)
    assert not agree(certificate(1e-5), certificate(1e-5, converged=False), 1e-3)
    assert agree(certificate(2e-3, converged=False), certificate(1e-5, bound=True), 1e-3)
    assert not agree(certificate(1e-4), certificate(1e-2, converged=False, bound=True), 1e-3)
    assert agree(certificate(1e-5), certificate(1e-5, converged=False, doubt=2e-3), 1e-3)
    assert not agree(certificate(1e-5), certificate(1e-5, converged=False, doubt=2e-2), 1e-3)
    assert agree(certificate(1e-5, converged=False), certificate(1e-5, doubt=5e-4), 1e-3)
    assert not agree(certificate(1e-5, converged=False), certificate(1e-5, doubt=2e-5), 1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("kernel", "C", "offset"), [("rbf", 1e9, 0.0), ("rbf", 1e5, 0.0), ("linear", 1.0, 1e4), ("linear", 1.0, 3e3)]
)
def test_a_fit_and_its_check_count_the_same_rounding(kernel, C, offset):
    """From some tol on, rounding hides the optimum: both say so from there on, within a factor of four."""
    said, found, rows = [], [], X + offset
    for tol in 2.0 ** -np.arange(6.0, 46.0):
        model = SVC(C=C, kernel=kernel, tol=tol).fit(rows, TWO)
        said.append(model.certificate_.converged)
        found.append(verify(model, rows, TWO).converged)
    assert said[0]
    assert not said[-1]
    assert abs(sum(said) - sum(found)) <= 2


# ---- misuse -----------------------------------------------------------------------------------------------------


def test_misuse_is_told():
    with pytest.raises(TypeError, match=r"has a certificate_: .*SVC.*; got LinearRegression"):
        verify(LinearRegression().fit(X, NUMBERS), X, NUMBERS)
    with pytest.raises(TypeError, match="got Nystroem"):
        verify(Nystroem(n_components=5).fit(X), X)
    with pytest.raises(NotFittedError):
        verify(SVC(), X, TWO)
    model = SVC().fit(X, TWO)
    with pytest.raises(ValueError, match="pass y="):
        verify(model, X)
    with pytest.raises(ValueError, match="not among the classes"):
        verify(model, X, TWO + 5)
    with pytest.raises(ValueError, match="features"):
        verify(model, X[:, :1], TWO)
    with pytest.raises(ValueError, match=r"the same rows|inconsistent"):
        verify(model, X[:50], TWO)
    with pytest.raises(ValueError, match="not the rows"):
        verify(model, X[::-1], TWO)
    ridge = KernelRidge(0.1, kernel="rbf").fit(X, NUMBERS)
    with pytest.raises(ValueError, match="the same rows"):
        verify(ridge, X[:50], NUMBERS[:50])
    with pytest.raises(ValueError, match="pass y="):
        verify(ridge, X)


def test_memory_bounds_the_tiles(monkeypatch):
    cells = []
    tile = Kernel.tile

    def seen(self, A, B, *args, **kwargs):
        cells.append(len(A) * len(B))
        return tile(self, A, B, *args, **kwargs)

    rows = RNG.standard_normal((400, 2))
    model = KernelRidge(1.0, kernel=RBF(1.0), memory="64KB", solver="pcg").fit(rows, rows[:, 0])
    monkeypatch.setattr(Kernel, "tile", seen)
    assert verify(model, rows, rows[:, 0]).converged
    assert max(cells) * 8 <= 64_000


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("trend", [None, "constant", "linear"])
@pytest.mark.parametrize("alpha", [1e-11, 1e-10, 1e-9, 1e-6])
def test_the_residual_of_a_process_is_that_of_its_predictions(alpha, trend):
    """The kernel is so smooth that coefficients are large, and sums of them lose digits."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(150)
    model = GaussianProcessRegressor(RBF(10.0), alpha=alpha, optimizer=None, trend=trend).fit(X, y)
    said, found = model.certificate_, verify(model, X, y)
    residual = np.linalg.norm(model.predict(X) + alpha * model.alpha_ - y) / np.linalg.norm(y)
    assert found.violation == pytest.approx(residual, rel=1e-3)
    assert found.converged == (residual <= 1e-6)
    assert said.violation == pytest.approx(residual, rel=0.5)
    assert said.converged <= found.converged  # the fit also counts what rounding may add
    assert said.converged == (alpha > 1e-9)


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("radius", [5.0, 20.0])
def test_a_ball_that_does_not_bind_leaves_small_coefficients(loss, radius):
    """K has rank three: along its null space coefficients would grow as the multiplier of the ball falls."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(60)
    model = KernelMachineRegressor(loss, penalty="ball", radius=radius, kernel="linear").fit(X, y)
    assert model.certificate_.converged
    assert verify(model, X, y).converged
    if loss == "squared":
        np.testing.assert_allclose(model.predict(X), LinearRegression().fit(X, y).predict(X), atol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, 2])
def test_rounding_beside_large_inputs_is_not_blamed_on_the_kernel(seed):
    rng = np.random.default_rng(seed)
    X = 1e5 * rng.standard_normal((150, 5))
    y = np.where(X[:, 0] / 1e5 + rng.standard_normal(150) > 0, 1, -1)
    model = KernelMachineClassifier("squared_hinge", penalty="norm", kernel="linear", lam=10.0, fit_intercept=False)
    said = model.fit(X, y).certificate_
    assert said.converged or "rounding" in said.message


@pytest.mark.parametrize("loss", ["squared", "poisson", "huber"])
def test_a_norm_of_large_features_is_certified_by_the_values_that_are_returned(loss):
    X = 1e3 * np.random.default_rng(0).standard_normal((30, 3))
    y, share = np.floor(3e-3 * np.abs(X[:, 0]) + 1.0), Nystroem(n_components=10, random_state=0)
    for lam in (1e3, 1e12):
        params = {"penalty": "norm", "lam": lam, "kernel": "poly", "gamma": 1.0, "approximation": share}
        model = KernelMachineRegressor(loss, **params).fit(X, y)
        found = verify(model, X, y)
        assert model.certificate_.converged
        assert found.converged
        assert found.primal == pytest.approx(model.certificate_.primal, rel=1e-6)
