"""A GPU under the Gram matrix: fused products, exact ridge on a million rows; every answer beside the CPU's.

Without a card there is nothing to measure, and the case says so.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.cases.gpu_fits import fits
from benchmarks.data import load
from benchmarks.harness import Comparison, case
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.interpolator import KernelInterpolator
from gramian.estimators.ridge import KernelRidge
from gramian.gram import Gram
from gramian.kernels import RBF, Kernel, Laplace, Linear, Matern, Periodic, RationalQuadratic

N, M = 1_000_000, 20_000
CHECKED = 500
"""Rows of a product that are computed again by the CPU in float64."""
PRODUCTS: list[tuple[Kernel, int]] = [
    (RBF(2.0), 8),
    (Matern(2.0, nu=0.5), 8),
    (Matern(2.0, nu=1.5), 8),
    (Matern(2.0, nu=2.5), 8),
    (RationalQuadratic(2.0, alpha=1.0), 8),
    (RBF(2.0) + Linear() * Periodic(2.0, period=3.0), 8),
    (Laplace(8.0), 8),
    (RBF(4.0), 32),
    (RBF(8.0), 128),
    (RBF(20.0), 784),
    (RBF(60.0), 2000),
]

SYMMETRIC: list[tuple[Kernel, int, int, bool]] = [
    (RBF(2.0), 8, N, False),
    (Matern(2.0, nu=2.5), 8, 300_000, False),
    (Matern(2.0, nu=0.5), 8, 300_000, False),
    (RBF(4.0), 32, 300_000, False),
    (RBF(8.0), 128, 100_000, False),
    (RBF(20.0), 784, 40_000, False),
    (RBF(2.0), 8, 300_000, True),
]


@case("gpu")
def gpu() -> Iterator[Comparison]:
    """Print the tables; there is no peer to take turns with on another machine's CPU."""
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("gpu: needs torch and a GPU.", file=sys.stderr)
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    products(torch)
    symmetric(torch)
    ridge(torch)
    processes(torch)
    fits(torch)
    gc.collect()  # the class of GPyTorch's model refers to itself, and holds its rows until then
    torch._C._cuda_clearCublasWorkspaces()  # 32 MiB for each thread that multiplied there
    print(f"bytes left on the card after all fits: {torch.cuda.memory_allocated()}")
    yield from ()


def timed(work: Callable[[], Any], torch: Any, repeats: int = 3) -> tuple[Any, float, float]:
    """The result, the first time with what it compiles, and the best of the next."""
    times = []
    result = None
    for _ in range(1 + repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return result, times[0], min(times[1:], default=times[0])


def products(torch: Any) -> None:
    """``K(X, C) @ v`` in float32 with the rows on the card, beside plain torch and float64 on the CPU."""
    print(f"\nK(X, C) @ v, n = {N:,}, m = {M:,}, float32: ms on the card; first call; plain torch; error")
    for kernel, d in PRODUCTS:
        product(torch, kernel, N if d <= 128 else N // 10, d)
        torch.cuda.empty_cache()


def product(torch: Any, kernel: Kernel, n: int, d: int) -> None:
    """One line of the table."""
    rng = np.random.default_rng(0)
    X, C = (rng.standard_normal((rows, d)).astype(np.float32) for rows in (n, M))
    v = rng.standard_normal((M, 1)).astype(np.float32)
    K = Gram(kernel, X, C, device="cuda")
    card: Any = K.card
    moved = torch.as_tensor(v, device="cuda")
    result, first, best = timed(lambda: card.multiply(K.left, K.right, moved, False), torch)
    exact = Gram(kernel, X[:CHECKED].astype(float), C.astype(float)) @ v.astype(float)
    error = np.linalg.norm(result[:CHECKED].cpu().numpy() - exact) / np.linalg.norm(exact)
    A, B = kernel.prepare(*(torch.as_tensor(side, device="cuda") for side in (X, C)))
    step = 2 * 10**9 // M // 4
    plain = timed(lambda: [kernel.tile(A[s : s + step], B) @ moved for s in range(0, n, step)], torch, 1)[2]
    times = f"{best * 1e3:9.2f} {first * 1e3:9.1f} {plain * 1e3:9.1f}"
    print(f"  d={d:4d} n={n:9,} {kernel!r:48s} {times}  {error:.1e}", flush=True)


def symmetric(torch: Any) -> None:
    """``K(X, X) @ v`` from half of the tiles, each used twice, and from all of them."""
    from gramian.gram.gpu.fused import Fused

    print("\nK(X, X) @ v: ms from half of the tiles; from all; difference")
    for kernel, d, n, double in SYMMETRIC:
        X = np.random.default_rng(0).standard_normal((n, d))
        K = Gram(kernel, X, device="cuda")
        v = torch.as_tensor(np.random.default_rng(1).standard_normal((n, 1)), device="cuda")
        product = Fused(kernel, K.left, K.right, double, v.device)
        found, _, half = timed(lambda product=product, v=v: product @ v, torch, 2)
        product.symmetric = False
        every, _, whole = timed(lambda product=product, v=v: product @ v, torch, 2)
        apart = float((found - every).norm() / every.norm())
        what = f"d={d:4d} n={n:9,} {kernel!r:24s} {'double' if double else 'single'}"
        print(f"  {what} {half * 1e3:9.1f} {whole * 1e3:9.1f}  {apart:.1e}", flush=True)


def ridge(torch: Any) -> None:
    """Exact kernel ridge: kin40k by conjugate gradients and by Cholesky, and a million rows."""
    split = load("kin40k")
    print(f"\nKernelRidge, {split.source}, n = {len(split.X_train):,}")
    for solver in ("pcg", "cholesky"):
        how: Any = {"alpha": 1e-2, "kernel": "rbf", "gamma": 1 / 8, "solver": solver, "random_state": 0}
        model, first, best = timed(
            lambda how=how: KernelRidge(**how, device="cuda").fit(split.X_train, split.y_train), torch, 2
        )
        some = slice(0, CHECKED)
        got = model.predict(split.X_test[some])
        here = Gram(model.kernel_, split.X_test[some], split.X_train) @ model.dual_coef_
        rmse = float(np.sqrt(np.mean((model.predict(split.X_test) - split.y_test) ** 2)))
        print(
            f"  {solver:9s} {best:7.3f} s (first {first:.2f}), {model.certificate_}, test RMSE {rmse:.4f}, "
            f"predictions from the CPU by {np.abs(got - here).max():.1e}",
            flush=True,
        )
    model, first, best = timed(
        lambda: KernelInterpolator(Matern(3.0, nu=2.5), device="cuda").fit(split.X_train, split.y_train), torch, 0
    )
    print(f"  interpolate {first:.2f} s, {model.certificate_}")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 8))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(N)
    for lengthscale, alpha in ((2.0, 1.0), (1.0, 0.1)):  # the second is hard: a spectrum that decays slowly
        large = KernelRidge(alpha, kernel=RBF(lengthscale), tol=1e-4, random_state=0, device="cuda")
        model, first, _ = timed(lambda large=large: large.fit(X, y), torch, 0)
        some = slice(0, 50)
        here = Gram(RBF(lengthscale), X[some], X) @ model.dual_coef_
        apart = np.abs(model.predict(X[some]) - here).max()
        off = np.abs(here + alpha * model.dual_coef_[some] - y[some]).max()
        what = f"n = {N:,}, lengthscale {lengthscale:g}, alpha {alpha:g}: {first:.1f} s, {model.certificate_}"
        print(f"  {what}, f from the CPU by {apart:.1e}, (K + alpha) dual - y there {off:.1e}", flush=True)


def processes(torch: Any) -> None:
    """Gaussian processes: evidence of 4,000 rows, the posterior on all; the evidence of all rows; 100,000 rows."""
    print("\nGaussianProcessRegressor, Matern 3/2 with a lengthscale for each input, noise learned")
    for name in ("kin40k", "protein"):
        split = load(name)
        prior = 1.0 * Matern(np.ones(split.X_train.shape[1]), nu=1.5)
        how: Any = {"noise": "learn", "solver": "cholesky", "random_state": 0, "device": "cuda"}
        for evidence, most in ((4000, None), ("full", 90.0)):
            if evidence == "full" and name != "kin40k":
                continue

            def fitted(
                prior: Any = prior, how: Any = how, split: Any = split, evidence: Any = evidence, most: Any = most
            ) -> Any:
                model = GaussianProcessRegressor(prior, evidence=evidence, max_time=most, **how)
                return model.fit(split.X_train, split.y_train).predict(split.X_test, return_std=True), model

            ((mean, deviation), model), seconds, _ = timed(fitted, torch, 0)
            rmse = float(np.sqrt(np.mean((mean - split.y_test) ** 2)))
            score = -np.mean(-0.5 * ((mean - split.y_test) / deviation) ** 2 - np.log(deviation * np.sqrt(2 * np.pi)))
            print(
                f"  {split.source}, n = {len(split.X_train):,}, evidence of {evidence} rows: {seconds:.2f} s,", end=" "
            )
            print(f"RMSE {rmse:.4f}, NLPD {score:.3f}, {model.certificate_}", flush=True)
            kernel = model.kernel_
            del model
        some = slice(0, 3000)
        fixed: Any = {"optimizer": None, "solver": "cholesky"}
        both = [
            GaussianProcessRegressor(kernel, device=device, **fixed).fit(split.X_train[some], split.y_train[some])
            for device in ("cuda", None)
        ]
        (a, s), (b, t) = (gp.predict(split.X_test[:CHECKED], return_std=True) for gp in both)
        print(
            f"    at that kernel, 3,000 rows, from the CPU by {np.abs(a - b).max():.1e} and {np.abs(s - t).max():.1e}"
        )
        del both
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 8))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(len(X))
    large: Any = {"optimizer": None, "solver": "cholesky", "memory": "100GB", "device": "cuda"}
    for solver in ("cholesky", "pcg"):
        model = GaussianProcessRegressor(RBF(2.0), alpha=0.01, **large | {"solver": solver})
        model, seconds, _ = timed(lambda model=model: model.fit(X, y), torch, 0)
        (mean, deviation), after, _ = timed(
            lambda model=model: model.predict(X[:1000] + 0.01, return_std=True), torch, 0
        )
        apart = np.abs(mean[:50] - RBF(2.0)(X[:50] + 0.01, X) @ model.posterior_.alpha.ravel()).max()
        print(
            f"  posterior of 100,000 rows, {solver}: {seconds:.1f} s and {after:.1f} for 1,000 new rows, "
            f"{model.certificate_}, deviations {deviation.min():.3f} to {deviation.max():.3f}, mean from the CPU's by "
            f"{apart:.1e}",
            flush=True,
        )
