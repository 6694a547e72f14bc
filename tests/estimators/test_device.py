"""Estimators on a GPU beside the same ones on the CPU: where there is no card, on torch's CPU and in Triton's
interpreter."""

import os
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
pytest.importorskip("triton")

from gramian.estimators.gp.regressor import GaussianProcessRegressor  # noqa: E402
from gramian.estimators.interpolator import KernelInterpolator  # noqa: E402
from gramian.estimators.ridge import KernelRidge  # noqa: E402
from gramian.features.nystrom import Nystroem  # noqa: E402
from gramian.files import load, save  # noqa: E402
from gramian.gram import card  # noqa: E402
from gramian.kernels import RBF, Matern, Sigmoid, White  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def on_torch(monkeypatch):
    monkeypatch.setattr(card, "found", lambda device: torch.device(DEVICE))


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


def test_the_same_seed_gives_the_same_answer(data):
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


def test_a_process_by_conjugate_gradients(data, tmp_path):
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
    with pytest.raises(ValueError, match="no trend= yet"):
        GaussianProcessRegressor(RBF(1.0), trend="constant", device="cuda").fit(X, y)


def test_a_constant_beside_the_ridge(data):
    X, y, _ = data
    how = {"alpha": 0.1, "kernel": RBF(1.0), "fit_intercept": True}
    for solver in ("cholesky", "pcg"):
        ours, theirs = (
            KernelRidge(**how, solver=solver, device=device).fit(X, y[:, 0] + 9.0) for device in ("cuda", None)
        )
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)


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


def test_a_matrix_too_large_names_what_would_fit(data, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(card, "free_memory", lambda device: 80_000)
    with pytest.raises(MemoryError, match=r"factor of 120 rows takes 115 KB and 80 KB .* room for 100 rows"):
        KernelRidge(0.1, kernel="rbf", solver="cholesky", device="cuda", memory="1GB").fit(X, y)
