"""Machines on a GPU: support vectors, components, classes, maps, many predictions; and GPyTorch beside our process."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.data import fashion_mnist, load
from gramian.estimators.auto.regressor import AutoKernelRegressor
from gramian.estimators.gp.classifier import GaussianProcessClassifier
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.mixture.gaussian import GaussianMixture
from gramian.estimators.pca import KernelPCA
from gramian.estimators.ridge import KernelRidge
from gramian.estimators.svm import SVC
from gramian.features.nystrom import Nystroem
from gramian.kernels import RBF

CHECKED = 3000
"""Rows on which the CPU fits the same."""
STEPS = 30
"""Of Adam, for GPyTorch."""


def fits(torch: Any) -> None:
    """Print a line for each machine: seconds with transfers, of the first and of the next fit."""
    print("\nMachines: seconds of the first fit and of the next; beside the CPU on fewer rows")
    split = load("kin40k")
    X, signs = split.X_train, np.sign(split.y_train)
    line(torch, "SVC, kin40k", SVC(C=10.0), X, signs)
    line(torch, "hinge, kin40k", KernelMachineClassifier("hinge", lam=1e-5, gamma="scale"), X, signs)
    line(torch, "logistic, kin40k", KernelMachineClassifier("logistic", lam=1e-4, gamma="scale"), X, signs)
    line(
        torch,
        "GaussianProcessClassifier",
        GaussianProcessClassifier(10.0 * RBF(2.0), optimizer=None),
        X[:20_000],
        signs[:20_000],
    )
    line(torch, "KernelRidge('loo'), 5,000 rows", KernelRidge("loo", kernel=RBF(2.0)), X[:5000], split.y_train[:5000])
    line(torch, "KernelPCA(50), kin40k", KernelPCA(50, kernel=RBF(3.0), random_state=0), np.r_[X, split.X_test])
    fashion(torch)
    line(torch, "GaussianMixture(20), 10^6 x 10", GaussianMixture(20, tol=0.0, max_iter=30, random_state=0), clouds())
    line(torch, "Nystroem(4000), kin40k", Nystroem(RBF(3.0), n_components=4000, random_state=0), X)
    predictions(torch)
    interrupts(torch)
    gpytorch(torch)
    automatic()


def seconds(torch: Any, work: Callable[[], Any]) -> tuple[Any, float]:
    """What some work makes, and the time that it takes."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return found, time.perf_counter() - start


def line(torch: Any, name: str, model: Any, X: Any, y: Any = None) -> None:
    """Fit twice on the card, and fewer rows there and here."""
    given = (X,) if y is None else (X, y)
    model.set_params(device="cuda")
    times = [seconds(torch, lambda: model.fit(*given))[1] for _ in range(2)]
    said = str(getattr(model, "certificate_", ""))
    few = tuple(part[:CHECKED] for part in given)
    ours, there = seconds(torch, lambda: model.fit(*few))
    values = outputs(ours, X[:500])
    theirs, here = seconds(torch, lambda: model.set_params(device=None).fit(*few))
    apart = np.abs(values - outputs(theirs, X[:500])).max()
    print(f"  {name:28s} {times[0]:7.2f} {times[1]:7.2f}  {said}", flush=True)
    print(f"    {CHECKED:,} rows: {there:.2f} there, {here:.2f} here, values apart by {apart:.1e}", flush=True)


def outputs(model: Any, X: Any) -> Any:
    """Whatever a fitted model says of rows."""
    name = next(n for n in ("decision_function", "predict_proba", "transform", "predict") if hasattr(model, n))
    return np.array(getattr(model, name)(X))


def images() -> tuple[Any, Any]:
    """Ten clusters of 60,000 points in 784 dimensions, which overlap."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 60_000)
    centres, shapes = rng.standard_normal((10, 784)), rng.standard_normal((10, 30, 784)) * 0.6
    hidden = rng.standard_normal((60_000, 30))
    X = centres[labels] * 0.35 + 0.3 * rng.standard_normal((60_000, 784))
    for label in range(10):
        own = labels == label
        X[own] += hidden[own] @ shapes[label]
    return X, labels


def fashion(torch: Any) -> None:
    """Support vectors of the ten classes of Fashion-MNIST, or of made-up rows where its files are not there."""
    split = fashion_mnist()
    if split is None:
        line(torch, "10 classes of 60,000 x 784", SVC(C=10.0, gamma="scale"), *images())
        return
    line(torch, f"SVC, {split.source}", SVC(C=10.0, gamma="scale"), split.X_train, split.y_train)
    model = SVC(C=10.0, gamma="scale", device="cuda").fit(split.X_train, split.y_train)
    found, took = seconds(torch, lambda: model.predict(split.X_test))
    error, vectors = np.mean(found != split.y_test), model.n_support_.sum()
    print(f"    test error {error:.4f}, {vectors:,} support vectors, predictions in {took:.2f} s", flush=True)


def interrupts(torch: Any) -> None:
    """How long Ctrl-C takes to end the fit of a million rows, after some seconds of it."""
    X = np.random.default_rng(0).standard_normal((1_000_000, 8))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    model, answered = KernelRidge(1e-2, kernel=RBF(1.0), tol=1e-4, random_state=0, device="cuda"), []
    for after in (1.0, 2.5, 4.0):
        pressed: list[float] = []

        def press(pressed: list[float] = pressed) -> None:
            pressed.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Timer(after, press).start()
        try:
            model.fit(X, y)
        except KeyboardInterrupt:
            answered.append(f"{time.perf_counter() - pressed[0]:.2f}")
    print(f"  Ctrl-C after 1, 2.5 and 4 s of the fit of a million rows: answered in {' '.join(answered)} s", flush=True)


def clouds() -> Any:
    """A million points around three centres, in ten dimensions."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((1_000_000, 10)) + 4.0 * rng.integers(0, 3, (1_000_000, 1))


def predictions(torch: Any) -> None:
    """Predictions for ten million rows, of which a million are on the card at a time."""
    split = load("kin40k")
    model = KernelRidge(1e-2, kernel="rbf", gamma=1 / 8, device="cuda").fit(split.X_train, split.y_train)
    Z = np.random.default_rng(0).standard_normal((10_000_000, 8))
    torch.cuda.reset_peak_memory_stats()
    found, took = seconds(torch, lambda: model.predict(Z))
    peak = torch.cuda.max_memory_allocated() / 1e9
    apart = np.abs(found[:200] - model.set_params(device=None).predict(Z[:200])).max()
    print(
        f"  predictions for 10^7 rows from 36,000: {took:.1f} s, {peak:.1f} GB, from the CPU's by {apart:.1e}",
        flush=True,
    )


def gpytorch(torch: Any) -> None:
    """GPyTorch's exact process on kin40k, by steps of Adam on the evidence of all rows."""
    try:
        import gpytorch as library
    except ImportError:
        print("  GPyTorch is not installed")
        return
    split = load("kin40k")
    X, y, Z = (
        torch.as_tensor(part, dtype=torch.float32, device="cuda")
        for part in (split.X_train, split.y_train, split.X_test)
    )

    class Process(library.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = library.means.ZeroMean()
            base = library.kernels.MaternKernel(nu=1.5, ard_num_dims=X.shape[1])
            self.covar_module = library.kernels.ScaleKernel(base)

        def forward(self, x: Any) -> Any:
            return library.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def fitted() -> Any:
        torch.manual_seed(0)
        likelihood = library.likelihoods.GaussianLikelihood().cuda()
        model = Process(likelihood).cuda()
        evidence, adam = (
            library.mlls.ExactMarginalLogLikelihood(likelihood, model),
            torch.optim.Adam(model.parameters(), lr=0.1),
        )
        for _ in range(STEPS):
            adam.zero_grad()
            (-evidence(model(X), y)).backward()
            adam.step()
        model.eval()
        likelihood.eval()
        with torch.no_grad(), library.settings.fast_pred_var():
            return likelihood(model(Z)).mean.cpu().numpy()

    mean, took = seconds(torch, fitted)
    gc.collect()  # its models refer to themselves, and keep the card's memory until then
    rmse = float(np.sqrt(np.mean((mean - split.y_test) ** 2)))
    print(f"  GPyTorch {library.__version__}, kin40k, {STEPS} steps of Adam: {took:.1f} s, RMSE {rmse:.4f}", flush=True)


def automatic() -> None:
    """The automatic estimator on protein."""
    split = load("protein")
    start = time.perf_counter()
    model = AutoKernelRegressor(20.0, random_state=0, device="cuda").fit(split.X_train, split.y_train)
    took = time.perf_counter() - start
    rmse = float(np.sqrt(np.mean((model.predict(split.X_test) - split.y_test) ** 2)))
    print(f"  AutoKernelRegressor(20), {split.source}: {took:.1f} s, RMSE {rmse:.4f}, {model.refit_}", flush=True)
