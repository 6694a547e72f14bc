"""KernelRidge: scikit-learn's answers, every solver the same, leave-one-out, weights, certificates, bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.linalg
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge as Peer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.features.fourier import FourierFeatures
from gramian.features.nystrom import Nystroem
from gramian.kernels import RBF, Callable, Chi2, Matern, Polynomial, Precomputed, Spectrum
from gramian.verification import verify
from reference_least_squares import leave_one_out, ridge_dual

TIGHT = {"tol": 1e-10, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]]) + 0.1 * rng.standard_normal((80, 2))
    return X, Y, rng.standard_normal((11, 3)), rng.uniform(0.2, 3.0, 80)


@pytest.mark.filterwarnings("ignore:n_components = 100 is more than")
@parametrize_with_checks(
    [
        KernelRidge(),
        KernelRidge(kernel="rbf", solver="pcg", tol=1e-9),
        # One alpha: leaving out a row of weight two is not leaving out one of two equal rows.
        KernelRidge(kernel="rbf", alpha="loo", alphas=[0.1]),
        KernelRidge(kernel="rbf", store_loo=True),
        KernelRidge(kernel=Matern(3.0, nu=1.5), alpha=0.1, approximation=Nystroem(selection="greedy")),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# ---- the same answers as scikit-learn and the dense reference ---------------------------------------------------


@pytest.mark.parametrize("solver", ["cholesky", "pcg"])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "linear"},
        {"kernel": "rbf"},
        {"kernel": "rbf", "gamma": 0.7},
        {"kernel": "poly", "degree": 2, "coef0": 0.5, "gamma": 0.3},
        {"kernel": "laplacian"},
        {"kernel": "cosine"},
        {"kernel": lambda a, b, c=0.0: c + float(a @ b) ** 2, "kernel_params": {"c": 1.0}},
    ],
)
def test_agrees_with_scikit_learn(data, solver, options):
    X, Y, Z, weights = data
    for y, alpha in ((Y[:, 0], 0.3), (Y, 0.3), (Y, [0.3, 2.0])):
        ours = KernelRidge(alpha, solver=solver, **options, **TIGHT).fit(X, y, weights)
        peer = Peer(alpha, **options).fit(X, y, weights)
        assert ours.dual_coef_.shape == peer.dual_coef_.shape
        np.testing.assert_allclose(ours.dual_coef_, peer.dual_coef_, atol=1e-7)
        np.testing.assert_allclose(ours.predict(Z), peer.predict(Z), atol=1e-8)
        assert ours.certificate_.converged
        assert ours.certificate_.violation <= 1e-10


def test_certificate_is_the_true_residual(data):
    X, Y, _, weights = data
    K = RBF(1.0)(X)
    for solver in ("cholesky", "pcg"):
        model = KernelRidge(0.2, kernel=RBF(1.0), solver=solver, random_state=0).fit(X, Y[:, 0], weights)
        s = np.sqrt(weights)
        r = s * (Y[:, 0] - K @ model.dual_coef_ - 0.2 * model.dual_coef_ / weights)
        measured = np.linalg.norm(r) / np.linalg.norm(s * Y[:, 0])
        assert model.certificate_.violation == pytest.approx(measured, rel=1e-2, abs=1e-12)
    np.testing.assert_allclose(model.dual_coef_, ridge_dual(K, Y[:, 0], 0.2, weights), atol=1e-5)


@pytest.mark.parametrize("solver", ["cholesky", "pcg"])
def test_weights_are_repetitions_and_zero_is_absence(data, solver):
    X, Y, Z, _ = data
    counts = np.random.default_rng(1).integers(0, 4, len(X))
    model = KernelRidge(0.5, kernel="rbf", solver=solver, **TIGHT)
    weighted = clone(model).fit(X, Y, counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    np.testing.assert_allclose(weighted.predict(Z), repeated.predict(Z), atol=1e-8)
    assert not weighted.dual_coef_[counts == 0].any()
    ready = KernelRidge(0.5, kernel="precomputed", solver=solver, **TIGHT)
    ready.fit(RBF(np.sqrt(1.5))(X), Y, counts)
    np.testing.assert_allclose(ready.predict(RBF(np.sqrt(1.5))(Z, X)), weighted.predict(Z), atol=1e-8)


# ---- leave-one-out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_is_refitting_each_time(data, weighted):
    X, Y, _, weights = data
    X, y, w = X[:25], Y[:25, 0], weights[:25] if weighted else None
    model = KernelRidge(0.3, kernel="rbf", store_loo=True).fit(X, y, w)
    expected = [
        y[i] - KernelRidge(0.3, kernel="rbf").fit(*(np.delete(a, i, 0) for a in (X, y)),
            None if w is None else np.delete(w, i)).predict(X[[i]])[0]
        for i in range(25)
    ]  # fmt: skip
    np.testing.assert_allclose(model.loo_residuals_, expected, atol=1e-10)
    assert "leave-one-out" in model.solver_.reason


def test_alpha_by_leave_one_out(data):
    X, Y, _, weights = data
    grid = [1e-3, 0.1, 3.0]
    model = KernelRidge("loo", kernel=RBF(1.0), alphas=grid).fit(X, Y, weights)
    K = RBF(1.0)(X)
    for j in range(2):
        scores = [np.average(leave_one_out(K, Y[:, j], a, weights) ** 2, weights=weights) for a in grid]
        np.testing.assert_allclose(model.loo_path_[:, j], scores, rtol=1e-8)
        assert model.alpha_[j] == grid[int(np.argmin(scores))]
    again = KernelRidge(model.alpha_, kernel=RBF(1.0), store_loo=True).fit(X, Y, weights)
    np.testing.assert_allclose(again.dual_coef_, model.dual_coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(again.loo_residuals_, model.loo_residuals_, rtol=1e-6, atol=1e-9)
    single = KernelRidge("loo", kernel=RBF(1.0)).fit(X, Y[:, 0])
    assert isinstance(single.alpha_, float)
    assert single.loo_path_.shape == single.alphas_.shape == (25,)
    assert single.loo_path_.min() == pytest.approx(np.mean(single.loo_residuals_**2))


def test_leave_one_out_of_absent_rows_is_nan_and_does_not_outlive_its_fit(data):
    X, Y, _, weights = data
    weights = np.where(np.arange(80) % 4, weights, 0.0)
    model = KernelRidge(kernel="rbf", store_loo=True).fit(X, Y[:, 0], weights)
    np.testing.assert_array_equal(np.isnan(model.loo_residuals_), weights == 0)
    model.set_params(store_loo=False).fit(X, Y[:, 0])
    assert not hasattr(model, "loo_residuals_")


# ---- approximation ----------------------------------------------------------------------------------------------


def test_nystrom_with_all_landmarks_is_exact(data):
    X, Y, Z, weights = data
    exact = KernelRidge(0.3, kernel="laplacian").fit(X, Y, weights)
    model = KernelRidge(0.3, kernel="laplacian", approximation=Nystroem(n_components=80)).fit(X, Y, weights)
    np.testing.assert_allclose(model.predict(Z), exact.predict(Z), atol=1e-9)
    assert model.certificate_.converged


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nystrom_solves_its_own_problem_and_keeps_landmarks_only(data, dtype):
    X, Y, Z, weights = (a.astype(dtype) for a in data)
    model = KernelRidge(0.3, kernel="rbf", approximation=Nystroem(n_components=15), random_state=0, store_loo=True)
    model.fit(X, Y, weights)
    assert model.X_fit_.shape == (15, 3)
    assert model.dual_coef_.shape == (15, 2)
    F, W = model.approximation_.transform(X.astype(float)), np.diag(weights.astype(float))
    w = np.linalg.solve(F.T @ W @ F + 0.3 * np.eye(15), F.T @ W @ Y)
    prediction = model.predict(Z)
    assert prediction.dtype == dtype
    np.testing.assert_allclose(
        prediction, model.approximation_.transform(Z) @ w, atol=1e-9 if dtype is np.float64 else 1e-4
    )
    assert model.loo_residuals_.shape == Y.shape
    with pytest.raises(ValueError, match=r"need the weights of a fit"):
        model.function_[0].power(Z)


def test_nystrom_on_a_precomputed_matrix_and_by_leave_one_out(data):
    X, Y, Z, _ = data
    kernel, weights = RBF(1.0), np.where(np.arange(80) % 5, 1.0, 0.0)
    nystroem = Nystroem(n_components=20)
    direct = KernelRidge("loo", kernel=kernel, approximation=nystroem, random_state=0).fit(X, Y, weights)
    ready = KernelRidge("loo", kernel=Precomputed(), approximation=nystroem, random_state=0)
    ready.fit(kernel(X), Y, weights)
    np.testing.assert_allclose(ready.predict(kernel(Z, X)), direct.predict(Z), atol=1e-8)
    assert not hasattr(nystroem, "components_")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"approximation": Nystroem(gamma=2.0)}, "leave gamma of Nystroem at the default"),
        ({"approximation": Nystroem(), "alpha": 0}, "use alpha > 0"),
        ({"approximation": Nystroem(), "solver": "pcg"}, "leave solver='auto'"),
        ({"approximation": StandardScaler()}, "'approximation' parameter"),
    ],
)
def test_nystrom_misuse(data, options, message):
    with pytest.raises(ValueError, match=message):
        KernelRidge(kernel="rbf").set_params(**options).fit(data[0], data[1])


# ---- kinds of input ---------------------------------------------------------------------------------------------


def test_kinds_of_rows(data):
    X, Y, Z, _ = data
    y = Y[:, 0]
    dense = KernelRidge(0.1, kernel="rbf").fit(X, y)
    expected = dense.predict(Z)
    for container in (sp.csr_array, sp.csc_matrix, np.asfortranarray, list):
        model = KernelRidge(0.1, kernel="rbf").fit(container(X), y)
        np.testing.assert_allclose(model.predict(container(Z)), expected, atol=1e-10)
    for frame in (pd.DataFrame, pl.DataFrame):
        named = frame({f"c{i}": X[:, i] for i in range(3)})
        model = KernelRidge(0.1, kernel="rbf").fit(named, y)
        assert list(model.feature_names_in_) == ["c0", "c1", "c2"]
        np.testing.assert_allclose(model.predict(frame({f"c{i}": Z[:, i] for i in range(3)})), expected)
    frozen = X.copy()
    frozen.flags.writeable = False
    KernelRidge(0.1, kernel="rbf").fit(frozen, y)
    ready = KernelRidge(0.1, kernel="precomputed").fit(dense.kernel_(X), y)
    np.testing.assert_allclose(ready.predict(dense.kernel_(Z, X)), expected)


@pytest.mark.parametrize("solver", ["cholesky", "pcg"])
def test_float32_in_float32_out(data, solver):
    X, Y, Z, _ = (a.astype(np.float32) for a in data)
    model = KernelRidge(0.1, kernel="rbf", solver=solver, random_state=0).fit(X, Y[:, 0])
    assert model.predict(Z).dtype == np.float32
    wide = KernelRidge(0.1, kernel="rbf").fit(X.astype(float), Y[:, 0])
    np.testing.assert_allclose(model.predict(Z), wide.predict(Z.astype(float)), atol=1e-4)
    assert model.certificate_.violation <= 1e-6


def test_objects():
    words = ["banana", "ananas", "bandana", "cabana", "havana"]
    y = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    model = KernelRidge(0.1, kernel=Spectrum(2)).fit(words, y)
    expected = ridge_dual(Spectrum(2)(words), y, 0.1)
    np.testing.assert_allclose(model.dual_coef_, expected)
    np.testing.assert_allclose(model.predict(["nana"]), Spectrum(2)(["nana"], words) @ expected)
    series = KernelRidge(0.1, kernel=Spectrum(2)).fit(pd.Series(words, index=range(5, 10)), y)
    np.testing.assert_allclose(series.dual_coef_, expected)
    sets = [{1, 2}, {2, 3}, {4}]
    overlap = Callable(lambda a, b: float(len(a & b)))
    assert KernelRidge(0.1, kernel=overlap).fit(sets, y[:3]).predict([{1, 2}]).shape == (1,)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        KernelRidge(kernel=Spectrum(2)).fit(words, y[:3])


def test_in_the_company_of_scikit_learn(data):
    X, Y, Z, weights = data
    pipe = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
    search = GridSearchCV(pipe, {"kernelridge__alpha": [0.1, 10.0]}, cv=3).fit(X, Y[:, 0])
    assert search.best_params_ == {"kernelridge__alpha": 0.1}
    ready = GridSearchCV(KernelRidge(kernel="precomputed"), {"alpha": [0.1, 10.0]}, cv=3).fit(RBF(1.0)(X), Y[:, 0])
    assert ready.predict(RBF(1.0)(Z, X)).shape == (11,)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        routed = make_pipeline(scaler, KernelRidge(kernel="rbf").set_fit_request(sample_weight=True))
        routed.fit(X, Y[:, 0], sample_weight=weights)
    direct = KernelRidge(kernel="rbf").fit(StandardScaler().fit_transform(X), Y[:, 0], weights)
    np.testing.assert_allclose(routed[-1].dual_coef_, direct.dual_coef_)
    copy = pickle.loads(pickle.dumps(direct))
    np.testing.assert_array_equal(copy.predict(Z), direct.predict(Z))


# ---- the function, the choice, the memory ----------------------------------------------------------------------


def test_function_is_the_prediction(data):
    X, Y, Z, weights = data
    model = KernelRidge(0.3, kernel="rbf").fit(X, Y, weights)
    assert model.function_.shape == (2,)
    np.testing.assert_allclose(np.column_stack([f(Z) for f in model.function_]), model.predict(Z))
    f = model.function_[0]
    assert f.norm() ** 2 == pytest.approx(f.coefficients @ model.kernel_(X) @ f.coefficients)
    A = model.kernel_(X) + 0.3 * np.diag(1 / weights)
    K = model.kernel_(Z, X)
    variance = 1.0 - np.einsum("ij,ji->i", K, np.linalg.solve(A, K.T))
    np.testing.assert_allclose(f.power(Z), np.sqrt(variance))
    np.testing.assert_allclose(f.power(Z, noisy=True), np.sqrt(variance + 0.3))
    np.testing.assert_allclose(f.power(Z), model.function_[1].power(Z))
    some = np.arange(80) % 3 > 0
    absent = KernelRidge(0.3, kernel="rbf").fit(X, Y[:, 0], weights * some).function_
    removed = KernelRidge(0.3, kernel="rbf").fit(X[some], Y[some, 0], weights[some]).function_
    np.testing.assert_allclose(absent.power(Z), removed.power(Z))
    np.testing.assert_allclose(absent(Z), removed(Z))
    path = [KernelRidge(alpha, kernel="rbf") for alpha in (0.3, 2.0)]
    KernelRidge._fit_path(path, X[some], Y[some, 0], weights[some])
    np.testing.assert_allclose(path[0].function_(Z), removed(Z), atol=1e-6)
    np.testing.assert_allclose(path[0].function_.power(Z), removed.power(Z))


def test_solver_is_chosen_and_told(data):
    X, Y, _, _ = data
    small = KernelRidge(kernel="rbf", random_state=0).fit(X, Y)
    assert str(small.solver_) == "cholesky (80 rows are at most 3,000)"
    tight = KernelRidge(kernel="rbf", memory=20_000, random_state=0).fit(X, Y)
    assert tight.solver_.name == "pcg"
    assert "memory is 20 KB" in tight.solver_.reason
    np.testing.assert_allclose(tight.predict(X), small.predict(X), atol=1e-5)
    assert str(KernelRidge(solver="pcg").fit(X, Y).solver_) == "pcg (as asked)"


def test_auto_turns_to_the_factor_where_iterations_cost_more(data, monkeypatch):
    X, Y, _, _ = data
    monkeypatch.setattr("gramian.solvers.choice.DIRECT_ROWS", 10)
    easy = KernelRidge(1e5, kernel="rbf", tol=1e-3, random_state=0).fit(X, Y)
    assert easy.solver_.name == "pcg"
    assert easy.certificate_.converged
    hard = KernelRidge(1e-3, kernel="laplacian", random_state=0).fit(X, Y)
    assert hard.solver_.name == "cholesky"
    assert "pcg was at residual" in hard.solver_.reason
    assert hard.certificate_.violation < 1e-10


def test_warm_start_begins_where_the_last_fit_ended(data):
    X, Y, _, _ = data
    model = KernelRidge(1e-2, kernel="rbf", solver="pcg", warm_start=True, random_state=0).fit(X, Y)
    cold = model.certificate_.iterations
    assert cold > 0
    assert model.fit(X, Y).certificate_.iterations == 0
    assert model.fit(X[:50], Y[:50]).certificate_.converged


@pytest.mark.parametrize("size", [1e40, 1e150, 1e300, 1e-150, 1e-300])
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "pcg", **TIGHT},
        {"solver": "cholesky"},
        {"alpha": "loo"},
        {"approximation": Nystroem(n_components=40, random_state=0)},
        {"alpha": "loo", "approximation": Nystroem(n_components=40, random_state=0)},
    ],
)
def test_the_size_of_the_targets_does_not_matter(data, options, size):
    X, Y, new, weights = data
    model = KernelRidge(**{"alpha": 0.1, "kernel": "rbf", **options})
    expected = model.fit(X, Y, weights).predict(new)
    model.fit(X, Y * [size, 1.0], weights)
    assert model.certificate_.converged
    np.testing.assert_allclose(model.predict(new) / [size, 1.0], expected, rtol=0, atol=1e-7)


def test_a_fit_that_stops_short_warns(data):
    X, Y, _, _ = data
    model = KernelRidge(1e-6, kernel="laplacian", solver="pcg", max_iter=1, random_state=0, memory=5_000)
    with pytest.warns(ConvergenceWarning, match="NOT converged.*max_iter=1 was reached"):
        model.fit(X, Y)
    assert not model.certificate_.converged
    with pytest.raises(TimeoutError, match="max_time"):
        KernelRidge(solver="cholesky", max_time=1e-9).fit(X, Y)


def test_verbose_shows_a_bar(data, capsys):
    for solver in ("cholesky", "pcg"):
        KernelRidge(kernel="rbf", solver=solver, verbose=True).fit(data[0], data[1])
        assert f"KernelRidge, {solver}" in capsys.readouterr().out


def test_an_interrupted_fit_leaves_the_estimator_as_it_was(data, monkeypatch):
    X, Y, Z, _ = data
    model = KernelRidge(kernel="rbf").fit(X, Y)
    before = model.predict(Z)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("gramian.estimators.ridge.RidgeProblem.by_cholesky", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], Y[:, 0])
    np.testing.assert_array_equal(model.predict(Z), before)
    fresh = KernelRidge(kernel="rbf")
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, Y)
    assert not hasattr(fresh, "n_features_in_")


# ---- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": [-1.0, 1.0]}, "alpha must be finite and >= 0"),
        ({"alpha": [1.0, 1.0, 1.0]}, "3,.*2 targets"),
        ({"alpha": "gcv"}, "alpha"),
        ({"alphas": [1.0]}, "grid of alpha='loo'"),
        ({"alpha": "loo", "alphas": [0.0]}, "finite numbers > 0"),
        ({"alpha": "loo", "solver": "pcg"}, "leave solver='auto'"),
        ({"solver": "pcg", "store_loo": True}, "store_loo=True needs a factorisation"),
        ({"solver": "pcg", "alpha": 0}, "alpha=0 needs a factorisation"),
        ({"kernel": "rfb"}, "unknown kernel 'rfb'"),
        ({"tol": 0.0}, "tol"),
        ({"memory": "lots"}, "memory"),
    ],
)
def test_misuse(data, options, message):
    with pytest.raises(ValueError, match=message):
        KernelRidge(kernel="rbf").set_params(**options).fit(data[0], data[1])


def test_bad_data(data):
    X, Y, _, _ = data
    bad = Y.copy()
    bad[3, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        KernelRidge().fit(X, bad)
    with pytest.raises(ValueError, match="zero or negative weights"):
        KernelRidge().fit(X, Y, np.zeros(80))
    with pytest.raises(ValueError, match="Negative values"):
        KernelRidge().fit(X, Y, -np.ones(80))
    with pytest.raises(MemoryError, match=r"needs 205 KB .* memory is 60 KB"):
        KernelRidge("loo", memory=60_000).fit(X, Y)
    with pytest.raises(ValueError, match="not symmetric"):
        KernelRidge(kernel=lambda a, b: float(a[0])).fit(X, Y)


def test_one_sample():
    for options in ({}, {"solver": "pcg"}, {"store_loo": True}, {"alpha": "loo"}):
        model = KernelRidge(kernel="rbf").set_params(**options).fit([[1.0, 2.0]], [3.0])
        assert model.predict([[1.0, 2.0]])[0] == pytest.approx(3.0 / (1.0 + model.alpha_), rel=1e-5)


def test_zero_alpha_interpolates_or_says_why_not(data):
    X, Y, _, _ = data
    np.testing.assert_allclose(KernelRidge(0, kernel="laplacian").fit(X, Y).predict(X), Y, atol=1e-8)
    with pytest.raises(np.linalg.LinAlgError, match=r"rows coincide .*0 and 80"):
        KernelRidge(0, kernel="laplacian", solver="cholesky").fit(np.vstack([X, X[:1]]), np.append(Y[:, 0], 1.0))
    # Without a solver asked for, least squares, as in scikit-learn.
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 80)
    with pytest.warns(UserWarning, match=r"^Singular matrix in solving dual problem.*of too low a rank"):
        model = KernelRidge(0, kernel="linear").fit(X, Y, weights)
    root = np.sqrt(weights)[:, None]
    np.testing.assert_allclose(model.predict(X), X @ np.linalg.lstsq(root * X, root * Y, rcond=None)[0], atol=1e-9)
    assert model.certificate_.converged
    assert verify(model, X, Y, weights).converged
    model.dual_coef_[0] += 1.0
    assert not verify(model, X, Y, weights).converged


def test_the_laplacian_takes_sparse_rows(data):
    X, Y, _, _ = data
    dense, sparse = (KernelRidge(0.1, kernel="laplacian").fit(Z, Y) for Z in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.predict(sp.csr_array(X)), dense.predict(X), rtol=1e-12)


@pytest.mark.parametrize("gamma", ["scale", "auto"])
def test_gamma_by_name_counts_weights_as_repetitions(data, gamma):
    X, Y, _, _ = data
    weights = np.arange(80) % 3
    model = KernelRidge(0.1, kernel="rbf", gamma=gamma).fit(X, Y, weights)
    again = KernelRidge(0.1, kernel="rbf", gamma=gamma).fit(
        np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0)
    )
    np.testing.assert_allclose(model.predict(X), again.predict(X), rtol=1e-7)
    machine = KernelMachineRegressor("squared", kernel="rbf", gamma=gamma).fit(X, Y[:, 0], weights)
    assert machine.kernel_ == model.kernel_
    assert (
        Nystroem(gamma=gamma, n_components=20).fit(X).kernel_
        == KernelRidge(kernel="rbf", gamma=gamma).fit(X, Y).kernel_
    )


def test_no_kernel_is_told(data):
    X, Y, _, _ = data
    with pytest.raises(np.linalg.LinAlgError, match=r"not positive semi-definite on these rows.*eigenvalue -"):
        KernelRidge(1e-3, kernel="sigmoid", coef0=-1.0).fit(X, Y)


def test_kernels_without_a_sparse_form_are_tagged_so():
    from sklearn.utils.estimator_checks import check_estimator_sparse_array, check_estimator_sparse_tag

    for kernel in ("chi2", Chi2(1.0)):
        model = KernelRidge(kernel=kernel)
        assert not model.__sklearn_tags__().input_tags.sparse
        check_estimator_sparse_tag("KernelRidge", model)
        check_estimator_sparse_array("KernelRidge", model)
    assert KernelRidge(kernel="rbf").__sklearn_tags__().input_tags.sparse


@pytest.mark.parametrize("approximation", [None, Nystroem(n_components=100), FourierFeatures(n_components=100)])
def test_float32_rows_predict_what_was_certified(rng, approximation):
    X = rng.standard_normal((300, 2)).astype(np.float32)
    y = np.sin(2 * X[:, 0].astype(np.float64)) + 0.3 * rng.standard_normal(300)
    model = KernelRidge(1e-7, kernel="rbf", gamma=0.5, approximation=approximation, random_state=0)
    wide = model.fit(X.astype(np.float64), y).predict(X.astype(np.float64))
    for shift in (1.0, 1e40, 1e-42):  # the last two are beyond float32: the predictions then stay float64
        narrow = model.fit(X, shift * y).predict(X)
        assert narrow.dtype == (np.float32 if shift == 1.0 else np.float64)
        np.testing.assert_allclose(narrow / shift, wide, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("approximation", [None, Nystroem(n_components=60, random_state=0)])
@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(10.0), Polynomial(3)])
@pytest.mark.parametrize("alpha", [1e-12, 1e-9, 1e-3, "loo"])
def test_the_residual_is_that_of_the_predictions(rng, approximation, kernel, alpha):
    X = rng.standard_normal((150, 3))
    X[75:] = X[:75] * (1 + 1e-9)  # large coefficients of both signs
    X, Y, w = X + 100.0, rng.standard_normal((150, 2)), 10.0 ** rng.uniform(-3, 3, 150)
    try:
        model = KernelRidge(alpha, kernel=kernel, approximation=approximation).fit(X, Y, w)
    except np.linalg.LinAlgError:
        return  # said in words
    missed = Y - model.predict(X)
    if approximation is None:
        R, B = (
            np.sqrt(w)[:, None] * missed - model.alpha_ * model.dual_coef_ / np.sqrt(w)[:, None],
            np.sqrt(w)[:, None] * Y,
        )
    else:
        F, lower = model.approximation_.transform(X), model.approximation_.normalization_
        weights = scipy.linalg.solve_triangular(lower, model.dual_coef_, lower=True, trans=1)
        R, B = F.T @ (w[:, None] * missed) - model.alpha_ * weights, F.T @ (w[:, None] * Y)
    true = (np.linalg.norm(R, axis=0) / np.linalg.norm(B, axis=0)).max()
    said = model.certificate_
    assert said.converged == (true <= model.tol)
    assert said.violation == pytest.approx(true, rel=2.0, abs=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("X", "params"),
    [
        (1e2 * np.arange(20.0)[:, None] + 4e4, {"kernel": "poly", "degree": 2, "gamma": 2.0}),
        (np.random.default_rng(1).standard_normal((20, 30)) + 4e2, {"kernel": "poly", "gamma": 2.0, "degree": 2}),
        (6e7 * np.random.default_rng(0).standard_normal((150, 1)), {"kernel": "linear"}),
    ],
)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_iterations_that_rounding_stops_do_not_blame_the_kernel(X, params, fit_intercept):
    model = KernelRidge(1e-6, solver="pcg", fit_intercept=fit_intercept, **params).fit(X, np.sin(X[:, 0]))
    assert not model.certificate_.converged
    assert "max_iter" in model.certificate_.message or "rounding" in model.certificate_.message


def test_least_squares_without_ridge_say_how_far_targets_are_missed():
    X, y = [[1.0], [2.0], [4.0]], [1.0, 0.0, 1.0]
    with pytest.warns(UserWarning, match="Singular matrix"):
        model = KernelRidge(alpha=0.0, kernel="linear").fit(X, y)
    missed = np.linalg.norm(model.predict(X) - y) / np.linalg.norm(y)
    assert f"of the normal equations; the targets are missed by {missed:.1e}" in model.certificate_.message
