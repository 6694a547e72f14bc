"""Estimators on a GPU beside the same ones on the CPU: where there is no card, on torch's CPU and in Triton's
interpreter."""

import os
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    torch.set_num_threads(1)  # more would wait for each other's small pieces
pytest.importorskip("triton")

from fuzzing import cases, faults, on_card  # noqa: E402
from gramian.data import Blocks  # noqa: E402
from gramian.estimators.gp.classifier import GaussianProcessClassifier  # noqa: E402
from gramian.estimators.gp.regressor import GaussianProcessRegressor  # noqa: E402
from gramian.estimators.interpolator import KernelInterpolator  # noqa: E402
from gramian.estimators.machine.classifier import KernelMachineClassifier  # noqa: E402
from gramian.estimators.machine.regressor import KernelMachineRegressor  # noqa: E402
from gramian.estimators.metric import MetricMap  # noqa: E402
from gramian.estimators.mixture.gaussian import GaussianMixture  # noqa: E402
from gramian.estimators.pca import KernelPCA  # noqa: E402
from gramian.estimators.ridge import KernelRidge  # noqa: E402
from gramian.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM  # noqa: E402
from gramian.estimators.svm import base as svm_base  # noqa: E402
from gramian.features.fourier import FourierFeatures  # noqa: E402
from gramian.features.nystrom import Nystroem  # noqa: E402
from gramian.files import load, save  # noqa: E402
from gramian.gram import Gram  # noqa: E402
from gramian.gram.gpu import cuda, engine  # noqa: E402
from gramian.kernels import RBF, Linear, Matern, Sigmoid, White  # noqa: E402
from gramian.model_selection import KernelSearchCV  # noqa: E402
from gramian.model_selection.gram_matrices import Tables  # noqa: E402
from gramian.solvers.gp import hyperparameters  # noqa: E402
from gramian.solvers.gp.posterior import CardPosterior  # noqa: E402
from gramian.solvers.machine import function_space  # noqa: E402
from gramian.solvers.svm import smo  # noqa: E402
from gramian.solvers.svm.row_cache import CardCache, CardRows  # noqa: E402
from gramian.verification import verify  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def on_torch(monkeypatch):
    """Without a card, products by torch's tiles: what is generated is compared in tests/gram."""
    monkeypatch.setattr(cuda, "found", lambda device: torch.device(DEVICE))
    monkeypatch.setattr(engine, "FEW", 0)
    monkeypatch.setattr(engine.Card, "_runs_triton", lambda card: DEVICE == "cuda")


@pytest.fixture
def interpreted(monkeypatch):
    """Generated products, in Triton's interpreter where there is no card."""
    monkeypatch.setattr(engine.Card, "_runs_triton", lambda card: True)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2))
    return X, np.stack([np.sin(X[:, 0]), X[:, 1] ** 2], axis=1) + 0.1 * rng.standard_normal((120, 2)), rng.random(120)


@pytest.mark.parametrize("solver", ["cholesky", "pcg"])
@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(2.0, nu=1.5) + 0.5 * RBF(0.7) + White(0.1)], ids=repr)
def test_ridge_is_that_of_the_cpu(solver, kernel, data):
    X, y, weights = data
    weights = np.where(weights < 0.1, 0.0, weights)
    how = {"alpha": [0.1, 0.5], "kernel": kernel, "solver": solver, "tol": 1e-9, "random_state": 0}
    theirs = KernelRidge(**how).fit(X, y, weights)
    ours = KernelRidge(**how, device="cuda").fit(X, y, weights)
    assert ours.certificate_.converged
    assert ours.certificate_.violation <= 1e-9
    size = np.abs(theirs.dual_coef_).max()
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-6 * size)
    np.testing.assert_allclose(ours.predict(X[:7] + 0.1), theirs.predict(X[:7] + 0.1), atol=1e-7)


def test_leave_one_out(data):
    X, y, _ = data
    theirs = KernelRidge(0.1, kernel=RBF(1.0), store_loo=True).fit(X, y[:, 0])
    ours = KernelRidge(0.1, kernel=RBF(1.0), store_loo=True, device="cuda").fit(X, y[:, 0])
    np.testing.assert_allclose(ours.loo_residuals_, theirs.loo_residuals_, atol=1e-10)
    chosen = KernelRidge("loo", kernel=RBF(1.0), device="cuda").fit(X, y[:, 0])
    assert chosen.alpha_ == pytest.approx(KernelRidge("loo", kernel=RBF(1.0)).fit(X, y[:, 0]).alpha_)


def test_leave_one_out_by_eigenvectors_of_the_card(data, monkeypatch):
    X, y, weights = data
    theirs = KernelRidge("loo", kernel=RBF(1.0), fit_intercept=True).fit(X, y, weights)
    monkeypatch.setattr(np.linalg, "eigh", None)
    ours = KernelRidge("loo", kernel=RBF(1.0), fit_intercept=True, device="cuda").fit(X, y, weights)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-8)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 10**11))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.linalg, "eigh", _full)
    with pytest.raises(MemoryError, match="the decomposition of 120 rows does not fit the memory of the GPU"):
        ours.fit(X, y, weights)


def _full(matrix):
    raise torch.cuda.OutOfMemoryError("out of memory")


@pytest.mark.parametrize("model", [KernelRidge(), SVR()], ids=repr)
def test_a_search_fits_on_the_card(model, data, monkeypatch):
    X, y, _ = data
    made = []
    monkeypatch.setattr(Tables, "of", lambda tables, kernel, *rest: made.append(kernel))
    grid = {"alpha": [0.01, 1.0]} if isinstance(model, KernelRidge) else {"C": [0.1, 10.0]}
    model.set_params(kernel="rbf", gamma=0.5)
    ours, theirs = (
        KernelSearchCV(clone(model).set_params(device=d), grid, cv=3, error_score="raise").fit(X, y[:, 0])
        for d in ("cuda", None)
    )
    assert ours.best_estimator_.device == "cuda"
    assert len(made) == 1  # for the CPU
    score = "mean_test_score"
    np.testing.assert_allclose(ours.cv_results_[score], theirs.cv_results_[score], atol=1e-3)


def test_interpolation(data):
    X, y, _ = data
    model = KernelInterpolator(Matern(1.0, nu=1.5), device="cuda").fit(X, y)
    assert model.certificate_.converged
    np.testing.assert_allclose(model.predict(X), y, atol=1e-8)


def test_a_singular_matrix_is_told_with_its_rows(data):
    X, y, _ = data
    X = np.concatenate([X, X[3:4]])
    with pytest.raises(np.linalg.LinAlgError, match=r"rows coincide \(3 and 120\)"):
        KernelInterpolator(RBF(1.0), nugget=0.0, device="cuda").fit(X, np.r_[y[:, 0], 5.0])


def test_float32_rows_give_float32_predictions(data):
    X, y, _ = (part.astype(np.float32) for part in data)
    model = KernelRidge(0.1, kernel="rbf", device="cuda").fit(X, y[:, 0])
    assert model.predict(X).dtype == np.float32


def test_the_same_seed_gives_the_same_answer(data, interpreted):
    X, y, _ = data
    a, b = (
        KernelRidge(0.1, kernel=RBF(1.0), solver="pcg", random_state=0, device="cuda").fit(X, y).dual_coef_
        for _ in range(2)
    )
    assert np.array_equal(a, b)


PROCESSES = [
    {"kernel": 1.0 * RBF(1.0), "noise": "learn"},
    {"kernel": 1.0 * Matern([1.0, 1.0], nu=2.5) + White(0.1), "alpha": np.linspace(1e-4, 1e-3, 120)},
]


@pytest.mark.parametrize("how", PROCESSES, ids=["noise", "ard"])
def test_a_process_is_that_of_the_cpu(how, data, tmp_path):
    X, y, _ = data
    theirs = GaussianProcessRegressor(**how, random_state=0).fit(X, y)
    ours = GaussianProcessRegressor(**how, random_state=0, device="cuda").fit(X, y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-6)
    np.testing.assert_allclose(ours.kernel_.theta, theirs.kernel_.theta, atol=1e-2)
    same = GaussianProcessRegressor(**how | {"kernel": theirs.kernel_, "noise": None}, optimizer=None, device="cuda")
    same.fit(X, y)
    Z = X[:9] + 0.3
    for option in ({"return_std": True}, {"return_cov": True}):
        for a, b in zip(same.predict(Z, **option), theirs.predict(Z, **option), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-8)
    np.testing.assert_allclose(same.L_, theirs.L_, atol=1e-10)
    at = theirs.kernel_.theta + 0.3
    for a, b in zip(same.log_marginal_likelihood(at, True), theirs.log_marginal_likelihood(at, True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    save(same, tmp_path / "model")
    assert load(tmp_path / "model").device is None
    for back in (load(tmp_path / "model"), pickle.loads(pickle.dumps(same)).set_params(device=None)):
        assert back.posterior_.device is None
        np.testing.assert_allclose(
            back.predict(Z, return_std=True)[1], theirs.predict(Z, return_std=True)[1], atol=1e-8
        )


def test_a_process_by_conjugate_gradients(data, tmp_path, interpreted):
    X, y, _ = data
    how = {"kernel": RBF(1.0) + White(0.1, "fixed"), "solver": "pcg", "optimizer": None, "random_state": 0, "tol": 1e-9}
    ours, theirs = (GaussianProcessRegressor(**how, device=device).fit(X, y) for device in ("cuda", None))
    np.testing.assert_allclose(ours.predict(X[:9] + 0.1), theirs.predict(X[:9] + 0.1), atol=1e-7)
    save(ours, tmp_path / "model")
    assert load(tmp_path / "model").posterior_.device is None


def test_a_singular_process_says_so(data):
    X, y, _ = data
    X, y = np.repeat(X[:20], 2, axis=0), np.repeat(y[:20, 0], 2)
    with pytest.raises(np.linalg.LinAlgError, match="rows coincide"):
        GaussianProcessRegressor(RBF(1.0), alpha=0.0, optimizer=None, device="cuda").fit(X, y)
    with pytest.warns(UserWarning, match="rows coincide"):
        model = GaussianProcessRegressor(RBF(1.0), alpha=1e-18, optimizer=None, device="cuda").fit(X, y)
    assert model.jitter_ > 0


def test_a_process_beside_a_trend(data, tmp_path):
    X, y, _ = data
    y, Z = y + 3.0 + X[:, :1], X[:9] + 0.3
    how = {"kernel": 1.0 * RBF([1.0, 1.0]), "trend": "linear", "alpha": np.linspace(0.01, 0.1, 120), "optimizer": None}
    ours, theirs = (GaussianProcessRegressor(**how, device=d).fit(X, y) for d in ("cuda", None))
    assert ours.certificate_.violation <= 1e-8
    np.testing.assert_allclose(ours.trend_coef_, theirs.trend_coef_, atol=1e-8)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-10)
    at = theirs.kernel_.theta + 0.3
    for a, b in zip(ours.log_marginal_likelihood(at, True), theirs.log_marginal_likelihood(at, True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    save(ours, tmp_path / "model")
    for model in (ours, load(tmp_path / "model"), pickle.loads(pickle.dumps(ours)).set_params(device=None)):
        for option in ({"return_std": True}, {"return_cov": True}):
            for a, b in zip(model.predict(Z, **option), theirs.predict(Z, **option), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-8)


def test_a_constant_beside_the_ridge(data):
    X, y, weights = data
    for solver, tol in (("cholesky", 1e-9), ("pcg", 1e-4)):
        how = {"alpha": 0.1, "kernel": RBF(1.0), "fit_intercept": True, "store_loo": solver == "cholesky"}
        ours, theirs = (
            KernelRidge(**how, solver=solver, device=device).fit(X, y[:, 0] + 9.0, weights) for device in ("cuda", None)
        )
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=tol)
    model, same = (KernelRidge(**how | {"store_loo": True}, device=d).fit(X, y + 9.0, weights) for d in ("cuda", None))
    np.testing.assert_allclose(model.loo_residuals_, same.loo_residuals_, atol=1e-8)


def test_files_know_nothing_of_devices(data, tmp_path):
    X, y, _ = data
    model = KernelRidge(0.1, kernel=RBF(1.0), device="cuda").fit(X, y)
    save(model, tmp_path / "model")
    back = load(tmp_path / "model")
    assert back.device is None
    np.testing.assert_allclose(back.predict(X), model.predict(X), atol=1e-12)


def test_what_cannot_run_there_says_so(data):
    X, y, _ = data
    with pytest.raises(TypeError, match="no GPU code for Sigmoid"):
        KernelRidge(kernel=Sigmoid(), device="cuda").fit(X, y)
    with pytest.raises(ValueError, match="device must be None"):
        KernelRidge(kernel="rbf", device="gpu").fit(X, y)
    with pytest.raises(ValueError, match="exact fits"):
        KernelRidge(kernel="rbf", approximation=Nystroem(n_components=10), device="cuda").fit(X, y)


@pytest.mark.parametrize("alpha", [0.1, 1e-5])
def test_a_factor_in_single_precision_is_refined_where_no_other_fits(alpha, data, monkeypatch):
    X, y, weights = data
    how = {"alpha": alpha, "kernel": RBF(1.0), "solver": "cholesky", "memory": "1GB"}
    theirs = KernelRidge(**how).fit(X, y, weights)
    monkeypatch.setattr(cuda, "free_memory", lambda device: 80_000)
    ours = KernelRidge(**how, device="cuda").fit(X, y, weights)
    assert ours.certificate_.converged
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-8)


@pytest.mark.parametrize("alpha", [0.1, 1e-4])
def test_a_process_in_single_precision_is_refined_where_no_other_fits(alpha, data, monkeypatch):
    X, y, weights = data
    how = {"optimizer": None, "solver": "cholesky", "alpha": alpha * (0.5 + weights)}
    theirs = GaussianProcessRegressor(RBF(1.0), **how).fit(X, y)
    with monkeypatch.context() as little:
        little.setattr(cuda, "free_memory", lambda device: 80_000)
        ours = GaussianProcessRegressor(RBF(1.0), **how, device="cuda").fit(X, y)
    assert isinstance(ours.posterior_, CardPosterior)
    assert ours.posterior_.evidence is None
    assert ours.certificate_.converged
    assert np.isnan(ours.log_marginal_likelihood_value_)
    assert not hasattr(ours, "L_")
    Z = X[:20] + 0.3
    mean, covariance = theirs.predict(Z, return_cov=True)
    np.testing.assert_allclose(ours.predict(Z), mean, atol=1e-8)
    np.testing.assert_allclose(ours.predict(Z, return_cov=True)[1], covariance, atol=1e-10)
    np.testing.assert_allclose(
        ours.predict(Z, return_std=True)[1] ** 2, theirs.predict(Z, return_std=True)[1] ** 2, atol=1e-10
    )
    with pytest.raises(MemoryError, match="such a model cannot be saved"):
        pickle.dumps(ours)


def test_a_matrix_too_large_names_what_would_fit(data, monkeypatch):
    X, y, _ = data
    how = {"kernel": "rbf", "solver": "cholesky", "device": "cuda", "memory": "1GB"}
    monkeypatch.setattr(cuda, "free_memory", lambda device: 40_000)
    with pytest.raises(MemoryError, match=r"factor of 120 rows takes 57.6 KB and 40 KB .* room for 100 rows"):
        KernelRidge(0.1, **how).fit(X, y)
    with pytest.raises(MemoryError, match=r"factor of 120 rows takes 115 KB and 40 KB .* room for 70 rows"):
        KernelRidge(0.1, store_loo=True, **how).fit(X, y)


# ---- support vectors --------------------------------------------------------------------------------------------


def labels(data):
    X, y, _ = data
    return X, (y[:, 0] > 0.2).astype(int) + (y[:, 1] > 1.0)


@pytest.fixture
def by_descent(monkeypatch):
    """The solver for many rows, on few."""
    monkeypatch.setattr(smo, "POLISHED", 0)
    monkeypatch.setattr(svm_base, "SMALL", 0)


MACHINES = [
    (SVC, {"C": 3.0}),
    (SVC, {"C": 3.0, "fit_intercept": False}),
    (NuSVC, {"nu": 0.3}),
    (SVR, {"C": 3.0}),
    (NuSVR, {"C": 3.0}),
    (OneClassSVM, {"nu": 0.3}),
]


@pytest.mark.parametrize(("make", "how"), MACHINES)
@pytest.mark.parametrize("small", [True, False])
def test_support_vectors_are_those_of_the_cpu(make, how, small, data, request, tmp_path):
    if not small:
        request.getfixturevalue("by_descent")
    X, y = labels(data)
    y = data[1][:, 0] if make in (SVR, NuSVR) else y
    ours, theirs = (make(**how, kernel=RBF(1.0), tol=1e-8, device=d).fit(X, y, data[2]) for d in ("cuda", None))
    assert ours.certificate_.converged
    values = "predict" if make in (SVR, NuSVR) else "decision_function"
    Z = np.concatenate([X, X + 0.1] * 2)
    np.testing.assert_allclose(getattr(ours, values)(Z), getattr(theirs, values)(Z), atol=1e-5)
    assert verify(ours, X, y, data[2]).converged
    save(ours, tmp_path / "model")
    back = load(tmp_path / "model")
    assert back.device is None
    np.testing.assert_allclose(getattr(back, values)(Z), getattr(ours, values)(Z), atol=1e-12)


def test_kernel_rows_are_kept_on_the_card(data):
    X = data[0]
    K, gram = RBF(1.0)(X), Gram(RBF(1.0), X, device="cuda")
    parts = np.arange(0, 50), np.arange(50, 120)
    rows = CardRows([CardCache(gram, part, 8 * 7 * part.size) for part in parts])
    some, weights = np.array([3, 60, 119]), np.array([1.0, -2.0, 0.5])
    for _ in range(2):
        total = np.ones(120)
        rows.add(some, weights, total)
        np.testing.assert_allclose(total, 1.0 + weights @ K[some], atol=1e-13)
    assert [cache.computed for cache in rows.caches] == [3, 3]
    every = np.arange(120)
    np.testing.assert_allclose(rows.exact_sum(every, X[:, 0]), K @ X[:, 0], atol=1e-12)
    assert all(tuple(cache.store.shape) == (7, cache.columns.size) for cache in rows.caches)
    for dtype, error in ((np.float64, 1e-14), (np.float32, 1e-7)):
        block = rows.scratch(9, np.dtype(dtype)).reshape(3, 3)
        rows.square(some, block)
        np.testing.assert_allclose(block, K[np.ix_(some, some)], atol=error)


def test_support_vectors_with_little_memory_for_rows(data, by_descent):
    X, y, weights = data
    how = {"C": 3.0, "kernel": RBF(1.0), "tol": 1e-8, "device": "cuda"}
    ours, theirs = (SVC(**how, memory=memory).fit(X, y[:, 0] > 0, weights) for memory in (4096, None))
    assert ours.certificate_.converged
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-7)


def test_noise_is_on_the_diagonal_of_kernel_rows(data, by_descent):
    X, y = labels(data)
    kernel = RBF(1.0) + White(0.5)
    ours, theirs = (SVC(kernel=kernel, tol=1e-8, device=d).fit(X, y) for d in ("cuda", None))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)


# ---- other machines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [40, 120])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_machines_are_those_of_the_cpu(loss, rows, data, monkeypatch):
    monkeypatch.setattr(function_space, "DENSE_ROWS", 50)
    X, y = labels(data)
    X, y = X[:rows], y[:rows] > 0
    ours, theirs = (KernelMachineClassifier(loss, lam=0.01, device=d).fit(X, y) for d in ("cuda", None))
    assert ours.certificate_.converged
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    many = np.repeat(X, 3, axis=0) + 0.1
    np.testing.assert_allclose(ours.decision_function(many), theirs.decision_function(many), atol=1e-4)


def test_a_robust_regression(data):
    X, y, weights = data
    ours, theirs = (
        KernelMachineRegressor("huber", lam=1e-3, kernel=Matern(1.0, nu=1.5), device=d).fit(X, y[:, 0], weights)
        for d in ("cuda", None)
    )
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)


@pytest.mark.parametrize(("solver", "kernel"), [("dense", RBF(1.0)), ("lanczos", RBF(1.0)), ("lanczos", Linear())])
def test_principal_components(solver, kernel, data):
    X, _, _ = data
    how = {"kernel": kernel, "eigen_solver": solver, "random_state": 0}
    ours, theirs = (KernelPCA(5, **how, device=d).fit(X) for d in ("cuda", None))
    assert ours.certificate_.converged
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-6, atol=1e-9)
    Z = np.repeat(X, 2, axis=0) + 0.1
    np.testing.assert_allclose(ours.transform(Z), theirs.transform(Z), atol=1e-5)


def test_one_principal_component(data):
    ours, theirs = (
        KernelPCA(1, kernel=RBF(1.0), eigen_solver="lanczos", device=d).fit(data[0]) for d in ("cuda", None)
    )
    np.testing.assert_allclose(ours.transform(data[0]), theirs.transform(data[0]), atol=1e-5)


def test_a_process_for_classes(data, tmp_path):
    X, y = labels(data)
    X, y = X[:60], y[:60]
    how = {"kernel": 1.0 * RBF([1.0, 1.0]), "optimizer": None}
    ours, theirs = (GaussianProcessClassifier(**how, device=d).fit(X, y > 0) for d in ("cuda", None))
    assert ours.certificate_.converged
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-7)
    at = theirs.kernel_.theta + 0.3
    for a, b in zip(ours.log_marginal_likelihood(at, True), theirs.log_marginal_likelihood(at, True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(ours.predict_proba(X + 0.1), theirs.predict_proba(X + 0.1), atol=1e-3)
    save(ours, tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").predict_proba(X), ours.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("method", ["evidence", "agop"])
def test_a_metric(method, data):
    X, y, weights = data
    how = {"method": method, "rounds": 1, "max_iter": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours, theirs = (MetricMap(**how, device=d).fit(X[:30], y[:30], weights[:30]) for d in ("cuda", None))
    np.testing.assert_allclose(ours.metric_, theirs.metric_, rtol=1e-3)
    assert ours.evidence_ == pytest.approx(theirs.evidence_, rel=1e-5)


# ---- mixtures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1.0, 1e4], ids=["by products", "by residuals"])
@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical"])
def test_a_mixture_is_that_of_the_cpu(shape, far, data, tmp_path, monkeypatch):
    X = np.concatenate([data[0], data[0] * [0.3, 0.1] + far])
    weights = np.concatenate([data[2], data[2]])
    how = {"covariance_type": shape, "random_state": 0, "assignment": "hard" if shape == "diag" else "soft"}
    monkeypatch.setattr(cuda, "SCRATCH", 20_000)  # several blocks
    monkeypatch.setattr(cuda, "MODEST", 0)
    ours, theirs = (GaussianMixture(3, **how, device=d).fit(X, sample_weight=weights) for d in ("cuda", None))
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.lower_bounds_, theirs.lower_bounds_, rtol=1e-9)
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-7 * far)
    np.testing.assert_allclose(ours.covariances_, theirs.covariances_, atol=1e-7)
    Z = np.repeat(X, 30, axis=0) + 0.1
    for name in ("predict", "predict_proba", "score_samples"):
        np.testing.assert_allclose(getattr(ours, name)(Z), getattr(theirs, name)(Z), rtol=1e-6, atol=1e-7)
    save(ours, tmp_path / "model")
    assert load(tmp_path / "model").device is None
    with pytest.raises(ValueError, match="needs all rows in memory"):
        ours.fit(Blocks(X))


# ---- maps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_maps(dtype, data):
    X = data[0].astype(dtype)
    for make in (partial(Nystroem, RBF(1.0), n_components=20), partial(FourierFeatures, RBF(1.0), n_components=21)):
        ours, theirs = (make(random_state=0, device=d).fit(X) for d in ("cuda", None))
        got = ours.transform(X)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, theirs.transform(X), atol=1e-8 if dtype == np.float64 else 1e-3)
    maps = [Nystroem(n_components=20, random_state=0, device=d) for d in ("cuda", None)]
    a, b = (KernelRidge(0.1, kernel=RBF(1.0), approximation=m).fit(X, data[1]).predict(X) for m in maps)
    np.testing.assert_allclose(a, b, atol=1e-6 if dtype == np.float64 else 1e-4)


def test_waves_need_dense_rows(data):
    X = sp.csr_array(data[0])
    with pytest.raises(TypeError, match="dense rows"):
        FourierFeatures(RBF(1.0), device="cuda").fit(X).transform(X)
    assert FourierFeatures(RBF(1.0), device="auto").fit(X).transform(X).shape == (120, 100)


# ---- hard cases -------------------------------------------------------------------------------------------------

PAST = {
    401: [1349630886, 2076203029, 1902264923, 1583270197, 1544737088, 1275059754],  # one component; near duplicates
    402: [1278526849],  # rounding of a rough kernel
    412: [272493400],  # near duplicates among rows far apart
}
"""Cases that once were wrong on a GPU."""


def hard():
    past = [case for seed, own in PAST.items() for case in cases(seed, 2000, 600, vary=True) if case.seed in own]
    return on_card([*past, *cases(0, 120, 100, vary=True)])


@pytest.mark.parametrize("case", hard(), ids=lambda case: f"{case.estimator}-{case.seed}")
def test_the_certificate_is_true(case):
    assert not faults(case)


# ---- predictions ------------------------------------------------------------------------------------------------


def test_predictions_are_streamed(data, monkeypatch):
    from gramian.gram import prepared

    X, y, _ = data
    model = KernelRidge(0.1, kernel=RBF(1.0), device="cuda").fit(X, y)
    Z = np.repeat(X, 3, axis=0) + 0.1
    whole = model.predict(Z)
    monkeypatch.setattr(prepared, "STREAMED", 100)
    np.testing.assert_allclose(model.predict(Z), whole, atol=1e-12)


def test_tensors_in_and_out(data, monkeypatch):
    """As scikit-learn's estimators do with ``array_api_dispatch``: what came on a device goes back there."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X, y, weights = (torch.as_tensor(part, device=DEVICE) for part in data)
    theirs = GaussianProcessRegressor(RBF(1.0), optimizer=None, alpha=0.1).fit(data[0], data[1])
    with config_context(array_api_dispatch=True):
        gp = GaussianProcessRegressor(RBF(1.0), optimizer=None, alpha=0.1).fit(X, y)
        mean, deviation = gp.predict(X[:5] + 0.1, return_std=True)
        assert gp.device is None
        assert mean.device == deviation.device == X.device
        np.testing.assert_allclose(mean.cpu(), theirs.predict(data[0][:5] + 0.1), atol=1e-9)
        machine = SVC(kernel=RBF(1.0)).fit(X, (y[:, 0] > 0).to(torch.int64), sample_weight=weights)
        assert machine.predict(X).dtype == torch.int64
        assert machine.predict(X).device == X.device
        F = Nystroem(RBF(1.0), n_components=5, random_state=0).fit_transform(X.to(torch.float32))
        assert (F.dtype, F.device) == (torch.float32, X.device)
        assert KernelRidge(0.1, kernel="rbf").fit(X, y[:, 0]).score(X, y[:, 0]) > 0.5
        assert KernelPCA(2, kernel=RBF(1.0)).fit_transform(X).device == X.device
        mixture = GaussianMixture(2, random_state=0).fit(X, sample_weight=weights)
        assert mixture.predict_proba(X).device == mixture.fit_predict(X).device == X.device
    if DEVICE == "cpu":
        assert isinstance(gp.predict(X[:5]), np.ndarray)
    else:
        with pytest.raises(TypeError, match="array_api_dispatch=True"):
            gp.predict(X[:5])


def test_all_rows_begin_where_few_have_ended(data, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(hyperparameters, "LARGE", 100)
    monkeypatch.setattr(hyperparameters, "SMALL", 60)
    ours, theirs = (
        GaussianProcessRegressor(1.0 * RBF(1.0), noise="learn", evidence="full", random_state=0, device=d)
        for d in ("cuda", None)
    )
    ours.fit(X, y)
    monkeypatch.undo()
    assert ours.certificate_.converged
    assert ours.log_marginal_likelihood_value_ == pytest.approx(
        theirs.fit(X, y).log_marginal_likelihood_value_, rel=1e-6
    )
