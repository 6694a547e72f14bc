"""With a budget far below one row of tiles, fits hold little more than the fixed tiles of their threads."""

import tracemalloc

import numpy as np
import pytest

from gramian import (
    GaussianProcessRegressor,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPCA,
    KernelRidge,
    Nystroem,
    PegasosClassifier,
)

FEW = Nystroem(n_components=50)
MODELS = {
    "ridge": KernelRidge(alpha=1.0, kernel="rbf"),
    "ridge, landmarks": KernelRidge(alpha=1.0, kernel="rbf", approximation=FEW),
    "machine": KernelMachineRegressor("huber", lam=1e-2),
    "machine, landmarks": KernelMachineRegressor("huber", lam=1e-2, approximation=FEW),
    "hinge": KernelMachineClassifier("hinge", lam=1e-2),
    "components": KernelPCA(3, kernel="rbf"),
    "components, landmarks": KernelPCA(3, kernel="rbf", approximation=FEW),
    "process, landmarks": GaussianProcessRegressor(alpha=0.1, optimizer=None, approximation=FEW),
    "pegasos": PegasosClassifier(n_iter=2000),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_with_hardly_any_memory(rng, name):
    model, X = MODELS[name].set_params(memory="1MB", n_jobs=1), rng.standard_normal((2500, 10))  # K takes 50 MB
    y = X[:, 0] > 0 if "Classifier" in type(model).__name__ else np.sin(X[:, 0])
    model.fit(X[:300], y[:300])  # imports and compiles
    tracemalloc.start()
    model.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6 + 8e6 + 4 * X.nbytes
