"""Rows beyond memory: a folder of Parquet, a bare loop of the same products, two workers, and scikit-learn's tenth.

``GRAMIAN_BLOCKS_ROWS`` sets the rows (ten million by default) and ``GRAMIAN_BLOCKS_FOLDER`` where the files lie; by
default they are made in a temporary place, and removed at the end.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.folder import COLUMNS, make, rows
from benchmarks.harness import Comparison, case
from gramian import GaussianMixture, KernelRidge, Nystroem
from gramian.data import Blocks, connect
from gramian.kernels import RBF

ROWS = int(os.environ.get("GRAMIAN_BLOCKS_ROWS", 10_000_000))
LANDMARKS, ALPHA, CHUNK = 1000, 1e-2, 4096
KERNEL = RBF(3.0)


@case("blocks")
def blocks() -> Iterator[Comparison]:
    """A ridge in 1000 landmarks over files, against NumPy's products alone, one worker, and rows in memory; EM."""
    with tempfile.TemporaryDirectory() as place:
        base = Path(os.environ.get("GRAMIAN_BLOCKS_FOLDER", place))
        whole, tenth = make(base / "whole", ROWS), make(base / "tenth", ROWS // 10)
        costs: dict[int, float] = {}
        yield against_products(whole, costs)
        yield against_rows_in_memory(tenth, costs)
        yield from two_workers(tenth)
        yield mixture(whole, tenth)


def ridge(folder: Path, client: Any = False) -> KernelRidge:
    """Fit over the files of a folder."""
    approximation = Nystroem(n_components=LANDMARKS, selection="uniform")
    model = KernelRidge(ALPHA, kernel=KERNEL, approximation=approximation, random_state=0)
    return model.fit(Blocks(folder, target="y", client=client))


def timed(folder: Path, count: int, costs: dict[int, float]) -> KernelRidge:
    """Fit, and note the cost of a row."""
    start = time.perf_counter()
    model = ridge(folder)
    costs[count] = (time.perf_counter() - start) / count
    return model


def products(count: int) -> float:
    """The products of such a fit, and nothing else: rows with landmarks, with a square matrix, with themselves."""
    rng = np.random.default_rng(0)
    X, Z, N = (rng.standard_normal(shape) for shape in ((CHUNK, COLUMNS), (LANDMARKS, COLUMNS), (LANDMARKS, LANDMARKS)))
    total = np.zeros((LANDMARKS, LANDMARKS))
    for _ in range(count // CHUNK):
        F = (X @ Z.T) @ N.T
        total += F.T @ F
    return float(total[0, 0])


def error(model: Any) -> float:
    """Root-mean-square error on rows that nobody saw."""
    X, y = rows(20_000, 999)
    return float(np.sqrt(np.mean((model(X) - y) ** 2)))


def predict(model: KernelRidge) -> Any:
    """Predictions of rows without names, by a model that knows the names."""
    return lambda X: np.asarray(model.predict(Blocks(X)))


def against_products(folder: Path, costs: dict[int, float]) -> Comparison:
    """The whole folder; the ratio is the share of NumPy's own rate."""
    source = f"from pathlib import Path; from benchmarks.cases.blocks import *; ridge(Path({str(folder)!r}))"
    return Comparison(
        name=f"KernelRidge(Nystroem({LANDMARKS})), {ROWS:,} rows of Parquet, d={COLUMNS}",
        ours=lambda: timed(folder, ROWS, costs),
        peer=lambda: products(ROWS),
        against="the same products in a bare NumPy loop",
        quality=lambda model, _: f"RMSE {error(predict(model)):.4f}, {model.solver_.name}",
        once=True,
        snippets=(source, "pass"),
    )


def against_rows_in_memory(folder: Path, costs: dict[int, float]) -> Comparison:
    """A tenth of the rows, which the peer can hold."""
    from sklearn.kernel_approximation import Nystroem as PeerNystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    def theirs() -> Any:
        parts = list(Blocks(folder, target="y", client=False))
        X, y = np.concatenate([p.X for p in parts]), np.concatenate([p.y for p in parts])
        gamma = 0.5 / KERNEL.lengthscale**2
        landmarks = PeerNystroem(gamma=gamma, n_components=LANDMARKS, random_state=0)
        return make_pipeline(landmarks, Ridge(ALPHA, fit_intercept=False, copy_X=False)).fit(X, y)

    def quality(model: KernelRidge, other: Any) -> str:
        per_row = ", ".join(f"{1e6 * cost:.1f} µs a row of {count:,}" for count, cost in sorted(costs.items()))
        return f"RMSE {error(predict(model)):.4f} / {error(other.predict):.4f}; ours {per_row}"

    return Comparison(
        name=f"KernelRidge(Nystroem({LANDMARKS})), {ROWS // 10:,} rows of Parquet",
        ours=lambda: timed(folder, ROWS // 10, costs),
        peer=theirs,
        against="scikit-learn's Nystroem + Ridge in memory",
        quality=quality,
        once=True,
    )


def two_workers(folder: Path) -> Iterator[Comparison]:
    """Dask workers of one thread; the ratio is what the second one brings."""
    with connect(workers=2) as two, connect(workers=1) as one:
        yield Comparison(
            name=f"KernelRidge(Nystroem({LANDMARKS})), {ROWS // 10:,} rows, two Dask workers",
            ours=lambda: ridge(folder, two),
            peer=lambda: ridge(folder, one),
            against="one Dask worker",
            quality=lambda a, b: "same bits" if np.array_equal(a.dual_coef_, b.dual_coef_) else "OTHER BITS",
            repeats=1,
        )


def mixture(whole: Path, tenth: Path) -> Comparison:
    """Five steps of EM over all files, and the peer's on a tenth of the rows in memory."""
    from sklearn.mixture import GaussianMixture as Peer

    def theirs() -> Any:
        X = np.concatenate([p.X for p in Blocks(tenth, target="y", client=False)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return Peer(10, max_iter=5, init_params="k-means++", random_state=0).fit(X)

    source = f"from pathlib import Path; from benchmarks.cases.blocks import *; clusters(Path({str(whole)!r}))"
    return Comparison(
        name=f"GaussianMixture(10), 5 steps, {ROWS:,} rows of Parquet",
        ours=lambda: clusters(whole),
        peer=theirs,
        against=f"GaussianMixture on {ROWS // 10:,} rows in memory",
        quality=lambda a, b: f"log-likelihood {a.lower_bound_:.3f} / {b.lower_bound_:.3f}",
        once=True,
        snippets=(source, "pass"),
    )


def clusters(folder: Path) -> GaussianMixture:
    """Five steps of EM over the files of a folder."""
    model = GaussianMixture(10, max_iter=5, init_params="k-means++", random_state=0)
    columns = [f"x{j}" for j in range(COLUMNS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(Blocks(folder, columns=columns, client=False))
