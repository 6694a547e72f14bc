"""Kernel ridge regression: against scikit-learn where its matrix fits, and alone in the memory beyond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import kernel_approximation, kernel_ridge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline

from benchmarks.data import Split, load
from benchmarks.harness import Comparison, case
from gramian.estimators.ridge import KernelRidge

ALPHA, GAMMA = 1e-2, 1 / 8
ROWS = 10_000
NEW_ROWS = 1_000_000
CHUNK = 4000


@case("ridge")
def ridge() -> Iterator[Comparison]:
    """Fit and predict on kin40k: 10,000 rows, then all of them, then a million predictions."""
    split = load("kin40k")
    yield fit_comparison(split)
    yield predict_comparison(split)
    yield all_rows_comparison(split)
    yield many_rows_comparison(split)


def fit_comparison(split: Split) -> Comparison:
    """Fit 10,000 rows to a certified residual of 1e-6, against a factorisation."""
    X, y = split.X_train[:ROWS], split.y_train[:ROWS]
    return Comparison(
        name=f"KernelRidge fit, n={ROWS} d=8, residual <= 1e-6",
        ours=lambda: ours(X, y),
        peer=lambda: peer(X, y),
        against="KernelRidge",
        quality=lambda a, b: f"{errors(a, b, split)}, {residual(a)}",
        data=split.source,
        repeats=3,
        snippets=tuple(f"from benchmarks.cases.ridge import *; {side}(*training_rows())" for side in ("ours", "peer")),
    )


def predict_comparison(split: Split) -> Comparison:
    """Predict the test rows from the same two models."""
    X, y = split.X_train[:ROWS], split.y_train[:ROWS]
    models = ours(X, y), peer(X, y)
    return Comparison(
        name=f"KernelRidge predict, 4,000 rows from n={ROWS}",
        ours=lambda: models[0].predict(split.X_test),
        peer=lambda: models[1].predict(split.X_test),
        against="KernelRidge",
        data=split.source,
    )


def all_rows_comparison(split: Split) -> Comparison:
    """Fit 36,000 rows in 3 GB, where scikit-learn's KernelRidge needs 10 GB for K alone."""
    X, y = split.X_train, split.y_train
    return Comparison(
        name=f"KernelRidge fit, n={len(X)}, memory='3GB', residual <= 1e-4",
        ours=lambda: all_rows_ours(X, y),
        peer=lambda: all_rows_peer(X, y),
        against="Nystroem + Ridge",
        quality=lambda a, b: f"{errors(a, b, split)}, {residual(a)}",
        data=split.source,
        repeats=1,
        snippets=tuple(
            f"from benchmarks.cases.ridge import *; all_rows_{side}(*training_rows(None))" for side in ("ours", "peer")
        ),
    )


def many_rows_comparison(split: Split) -> Comparison:
    """Predict a million rows in 500 MB, against a loop over chunks."""
    model, Z = ours(split.X_train[:ROWS], split.y_train[:ROWS]), new_rows()
    return Comparison(
        name=f"KernelRidge predict, {NEW_ROWS:,} rows from n={ROWS}, memory='500MB'",
        ours=lambda: many_rows_ours(model, Z),
        peer=lambda: many_rows_peer(model, Z),
        against="chunks of rbf_kernel",
        data=split.source,
        repeats=1,
        snippets=tuple(
            f"from benchmarks.cases.ridge import *; many_rows_{side}(ours(*training_rows()), new_rows())"
            for side in ("ours", "peer")
        ),
    )


def ours(X: np.ndarray, y: np.ndarray) -> KernelRidge:
    """The fit under test, with its default tolerance of 1e-6."""
    return KernelRidge(ALPHA, kernel="rbf", gamma=GAMMA, random_state=0).fit(X, y)


def peer(X: np.ndarray, y: np.ndarray) -> kernel_ridge.KernelRidge:
    """scikit-learn's fit."""
    return kernel_ridge.KernelRidge(alpha=ALPHA, kernel="rbf", gamma=GAMMA).fit(X, y)


def all_rows_ours(X: np.ndarray, y: np.ndarray) -> KernelRidge:
    """All rows under a memory budget that does not hold K."""
    return KernelRidge(ALPHA, kernel="rbf", gamma=GAMMA, memory="3GB", tol=1e-4, random_state=0).fit(X, y)


def all_rows_peer(X: np.ndarray, y: np.ndarray) -> Any:
    """What scikit-learn's users do with that many rows."""
    features = kernel_approximation.Nystroem(gamma=GAMMA, n_components=2000, random_state=0)
    return make_pipeline(features, Ridge(ALPHA, fit_intercept=False)).fit(X, y)


def many_rows_ours(model: KernelRidge, Z: np.ndarray) -> np.ndarray:
    """One call."""
    return model.set_params(memory="500MB").predict(Z)


def many_rows_peer(model: KernelRidge, Z: np.ndarray) -> np.ndarray:
    """As one would write it by hand for the same budget."""
    chunks = (Z[start : start + CHUNK] for start in range(0, len(Z), CHUNK))
    return np.concatenate([rbf_kernel(chunk, model.X_fit_, gamma=GAMMA) @ model.dual_coef_ for chunk in chunks])


def errors(a: Any, b: Any, split: Split) -> str:
    """Test RMSE of both."""
    ours_error, peer_error = (np.sqrt(np.mean((m.predict(split.X_test) - split.y_test) ** 2)) for m in (a, b))
    return f"RMSE {ours_error:.5f} / {peer_error:.5f}"


def residual(model: KernelRidge) -> str:
    """What the fit certifies."""
    return f"residual {model.certificate_.violation:.1e}"


def training_rows(rows: int | None = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """The first rows of the training part of kin40k; all where rows is None."""
    split = load("kin40k")
    return split.X_train[:rows], split.y_train[:rows]


def new_rows() -> np.ndarray:
    """As many standard normal rows as the model is to predict."""
    return np.random.default_rng(0).standard_normal((NEW_ROWS, 8))
