"""What only a real GPU can show: memory that is given back, Ctrl-C, threads, and a card without free memory."""

import gc
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

from gramian.estimators.gp.classifier import GaussianProcessClassifier  # noqa: E402
from gramian.estimators.gp.regressor import GaussianProcessRegressor  # noqa: E402
from gramian.estimators.machine.classifier import KernelMachineClassifier  # noqa: E402
from gramian.estimators.mixture.gaussian import GaussianMixture  # noqa: E402
from gramian.estimators.pca import KernelPCA  # noqa: E402
from gramian.estimators.ridge import KernelRidge  # noqa: E402
from gramian.estimators.svm import SVC  # noqa: E402
from gramian.features.fourier import FourierFeatures  # noqa: E402
from gramian.kernels import RBF  # noqa: E402

MODELS = [
    KernelRidge(0.1, kernel=RBF(1.0), solver="pcg"),
    KernelRidge(0.1, kernel=RBF(1.0), solver="cholesky"),
    GaussianProcessRegressor(RBF(1.0), noise="learn"),
    GaussianProcessClassifier(RBF(1.0), optimizer=None),
    KernelMachineClassifier("logistic", lam=1e-3),
    SVC(),
    KernelPCA(3, kernel=RBF(1.0)),
    GaussianMixture(3, random_state=0),
    FourierFeatures(RBF(1.0), n_components=64, random_state=0),
]
CLASSIFIERS = GaussianProcessClassifier, KernelMachineClassifier, SVC


def data(n):
    X = np.random.default_rng(0).standard_normal((n, 8))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def allocated():
    """Bytes that torch has allocated, without the workspaces that cuBLAS keeps."""
    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    return torch.cuda.memory_allocated()


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_fit_leaves_nothing_on_the_card(model):
    X, y = data(3000)
    before = allocated()
    fitted = clone(model).set_params(device="cuda").fit(X, y > 0 if isinstance(model, CLASSIFIERS) else y)
    for name in ("predict", "transform"):
        if hasattr(fitted, name):
            getattr(fitted, name)(X[:100])
    if isinstance(fitted, GaussianProcessRegressor):
        del fitted  # it keeps its factor there, for deviations
    assert allocated() == before


def test_two_fits_in_two_threads_give_what_one_gives():
    X, y = data(30_000)

    def coefficients(_):
        model = KernelRidge(0.1, kernel=RBF(2.0), solver="pcg", random_state=0, device="cuda")
        return model.fit(X, y).dual_coef_

    alone = coefficients(0)
    with ThreadPoolExecutor(2) as pool:
        assert all(np.array_equal(alone, each) for each in pool.map(coefficients, range(2)))


@pytest.mark.parametrize("solver", ["pcg", "cholesky"])
def test_ctrl_c_ends_a_fit_and_gives_the_memory_back(solver):
    n = {"pcg": 1_000_000, "cholesky": 100_000}[solver]
    X, y = data(n)
    model = KernelRidge(1.0, kernel=RBF(2.0), solver=solver, memory="100GB", device="cuda")
    before = allocated()
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "dual_coef_")
    for _ in range(300):  # a factorisation is left to its end, on a thread of its own
        if allocated() == before:
            break
        time.sleep(0.1)
    assert allocated() == before


def test_a_card_without_free_memory_is_a_clear_error():
    X, y = data(30_000)
    before = allocated()
    torch.cuda.empty_cache()
    taken = torch.empty(torch.cuda.mem_get_info()[0] - 10**9, dtype=torch.uint8, device="cuda")
    try:
        with pytest.raises(MemoryError, match=r"the factor of 30,000 rows takes 3.6 GB .* room for \d+,\d+ rows"):
            GaussianProcessRegressor(RBF(2.0), optimizer=None, memory="50GB", device="cuda").fit(X, y)
        assert KernelRidge(0.1, kernel=RBF(2.0), solver="pcg", device="cuda").fit(X, y).certificate_.converged
    finally:
        del taken
    assert allocated() == before
    assert KernelRidge(0.1, kernel=RBF(2.0), solver="cholesky", device="cuda").fit(X, y).certificate_.converged
