"""Hard cases drawn from seeds: fits of every estimator, whose certificates are computed again by ``gramian.verify``."""

from __future__ import annotations

import math
import traceback
import warnings
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sklearn.svm
from scipy.sparse import csr_array
from sklearn.decomposition import KernelPCA as PeerPCA
from sklearn.gaussian_process import GaussianProcessRegressor as PeerProcess
from sklearn.gaussian_process import kernels as peer_kernels
from sklearn.kernel_ridge import KernelRidge as PeerRidge
from sklearn.mixture import GaussianMixture as PeerMixture

import gramian
import gramian.kernels
from gramian import FourierFeatures, Nystroem, verify
from gramian.kernels import RBF, White
from gramian.verification import agree

KINDS = {
    "plain": 0.4,
    "duplicates": 0.12,
    "near-duplicates": 0.12,
    "offset": 0.1,
    "rank one": 0.1,
    "constant": 0.06,
    "grid": 0.1,
}
"""How rows lie, and how often."""


@dataclass(frozen=True)
class Case:
    """One fit as plain values; its ``repr`` is the line that makes it again.

    ``weights`` are decades over which weights are spread (0 for none), ``share`` that of the rows in the first class,
    ``empty`` columns of zeros that are added to sparse rows.
    """

    estimator: str
    params: tuple[tuple[str, Any], ...]
    n: int
    d: int
    seed: int
    kind: str = "plain"
    x_scale: float = 1.0
    y_scale: float = 1.0
    float32: bool = False
    weights: float = 0.0
    classes: int = 2
    share: float = 0.5
    targets: int = 1
    sparse: bool = False
    empty: int = 0
    device: str | None = None

    def rows(self) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        X = rng.standard_normal((self.n, self.d))
        if self.kind in ("duplicates", "near-duplicates"):
            X = X[rng.integers(0, max(self.n // 3, 1), self.n)]
            X += (self.kind == "near-duplicates") * 1e-9 * rng.standard_normal(X.shape)
        elif self.kind == "offset":
            X += 100.0
        elif self.kind == "rank one":
            X = np.outer(X[:, 0], np.ones(self.d))
        elif self.kind == "constant":
            X = np.ones_like(X)
        elif self.kind == "grid":
            X = np.round(X)
        X = X * self.x_scale
        return X.astype(np.float32) if self.float32 else X

    def numbers(self) -> np.ndarray:
        rng = np.random.default_rng(self.seed + 1)
        X = self.rows().astype(np.float64) / self.x_scale
        y = np.sin(2.0 * X[:, 0]) + X.mean(axis=1) + 0.3 * rng.standard_normal(self.n)
        if dict(self.params).get("loss") == "poisson":
            return np.floor(3.0 * np.abs(y))
        return self.y_scale * y

    def labels(self) -> np.ndarray:
        rng = np.random.default_rng(self.seed + 1)
        y = self.numbers() / self.y_scale
        found = np.searchsorted(np.quantile(y, np.linspace(self.share, 1.0, self.classes)[:-1]), y)
        found[rng.permutation(self.n)[: self.classes]] = np.arange(self.classes)[: self.n]
        return found

    def sample_weight(self) -> np.ndarray | None:
        if not self.weights:
            return None
        rng = np.random.default_rng(self.seed + 2)
        w = 10.0 ** rng.uniform(-self.weights, self.weights, self.n)
        w[rng.random(self.n) < 0.05] = 0.0
        return w if w.any() else np.ones(self.n)

    def gram(self, which: str) -> np.ndarray:
        """A precomputed matrix: of a Gaussian kernel, of rank one, or of no kernel at all."""
        Z = self.rows().astype(np.float64) / self.x_scale
        if which == "rank one":
            return np.outer(Z[:, 0], Z[:, 0])
        if which == "indefinite":
            A = np.random.default_rng(self.seed + 3).standard_normal((self.n, self.n))
            return A + A.T
        return np.exp(-0.5 * ((Z[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


# ---- draws ------------------------------------------------------------------------------------------------------


def power(rng: np.random.Generator, low: float, high: float) -> float:
    """A power of ten, rounded so that it prints."""
    return float(f"{10.0 ** rng.uniform(low, high):.3g}")


def draw_data(rng: np.random.Generator, most: int, least: int = 1, weighted: bool = True) -> dict[str, Any]:
    n = int(rng.choice([1, 2, 3, 5, *(int(x) for x in np.exp(rng.uniform(1.5, math.log(most), 8)))]))
    n = max(n, least)
    d = int(rng.choice([1, 2, 3, 8, 40, 2 * n] if n < 200 else [1, 2, 8, 40]))
    found: dict[str, Any] = {"n": n, "d": d, "seed": int(rng.integers(2**31))}
    found["kind"] = str(rng.choice(list(KINDS), p=list(KINDS.values())))
    for name in ("x_scale", "y_scale"):
        if rng.random() < 0.3:
            found[name] = power(rng, -8, 8)
    found["float32"] = bool(rng.random() < 0.2)
    if weighted and rng.random() < 0.25:
        found["weights"] = float(rng.choice([0.5, 2.0, 6.0]))
    return found


def draw_classes(rng: np.random.Generator) -> dict[str, Any]:
    return {"classes": int(rng.choice([2, 2, 2, 3])), "share": float(rng.choice([0.5, 0.5, 0.2, 0.02]))}


def draw_kernel(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, Any]:
    unit = data.get("x_scale", 1.0) ** -2
    which = rng.random()
    if which < 0.55:
        gamma = power(rng, -9, 6) if rng.random() < 0.4 else float(f"{power(rng, -3, 2) * unit:.3g}")
        return {"kernel": "rbf", "gamma": gamma}
    if which < 0.7:
        return {"kernel": "linear"}
    if which < 0.8:
        return {"kernel": "poly", "degree": 2, "gamma": float(f"{power(rng, -2, 1) * unit:.3g}"), "coef0": 1.0}
    return {"kernel": "precomputed:" + str(rng.choice(["rbf", "rank one", "indefinite"]))}


def draw_svm(rng: np.random.Generator, most: int) -> Case:
    name = str(rng.choice(["SVC", "SVC", "SVR", "SVR", "NuSVC", "NuSVR", "OneClassSVM"]))
    labels = name in ("SVC", "NuSVC")
    data = draw_data(rng, most, 4 if labels else 1)
    params = draw_kernel(rng, data)
    if name in ("SVC", "SVR", "NuSVR"):
        params["C"] = power(rng, -6, 6)
    if name == "SVR":
        unit = data.get("y_scale", 1.0) if rng.random() < 0.7 else 1.0
        params["epsilon"] = float(rng.choice([0.0, 0.01, 0.1, 1.0])) * unit
    if name.startswith("Nu") or name == "OneClassSVM":
        params["nu"] = float(np.round(rng.uniform(0.02, 0.95), 3))
    if labels:
        data |= draw_classes(rng)
        if rng.random() < 0.2:
            params["class_weight"] = "balanced"
    if rng.random() < 0.1 and not params["kernel"].startswith("pre"):
        params["approximation"] = 10
    if rng.random() < 0.2:
        params["tol"] = power(rng, -8, -2)
    params["max_iter"] = 200_000
    return Case(name, tuple(params.items()), **data)


def draw_ridge(rng: np.random.Generator, most: int) -> Case:
    name = str(rng.choice(["KernelRidge", "KernelRidge", "KernelRidge", "KernelInterpolator"]))
    data = draw_data(rng, most, weighted=name == "KernelRidge")
    params = draw_kernel(rng, data)
    if name == "KernelInterpolator":
        return Case(name, tuple(params.items()), **data)
    which = rng.random()
    params["alpha"] = "loo" if which < 0.15 else power(rng, -12, 6)
    if rng.random() < 0.2:
        params["approximation"] = int(rng.choice([1, 10, 50]))
    elif which > 0.8:
        params["solver"] = "pcg"
    elif which > 0.7:
        params["store_loo"] = True
    return Case(name, tuple(params.items()), **data)


LOSSES = ("squared", "absolute", "huber", "quantile", "epsilon_insensitive", "poisson")
MARGINS = ("hinge", "squared_hinge", "logistic", "ramp")


def draw_machine(rng: np.random.Generator, most: int) -> Case:
    labels = bool(rng.random() < 0.5)
    data = draw_data(rng, min(most, 200), 4 if labels else 1)
    params = draw_kernel(rng, data) | {"loss": str(rng.choice(MARGINS if labels else LOSSES))}
    data |= draw_classes(rng) if labels else {}
    params["penalty"] = str(rng.choice(["squared", "squared", "squared", "norm", "ball"]))
    if params["penalty"] == "ball":
        params["radius"] = power(rng, -3, 3)
    else:
        params["lam"] = power(rng, -12, 6)
    if rng.random() < 0.2:
        params["fit_intercept"] = False
    if rng.random() < 0.2:
        params["approximation"] = int(rng.choice([1, 10, 50]))
    params |= {"max_iter": 300, "max_time": 3.0}
    return Case("KernelMachineClassifier" if labels else "KernelMachineRegressor", tuple(params.items()), **data)


def draw_pegasos(rng: np.random.Generator, most: int) -> Case:
    data = draw_data(rng, most, 4) | draw_classes(rng)
    params = draw_kernel(rng, data) | {"lam": power(rng, -4, 2), "n_iter": 20_000, "random_state": 0}
    if rng.random() < 0.2:
        params["approximation"] = 10
    return Case("PegasosClassifier", tuple(params.items()), **data)


def draw_process(rng: np.random.Generator, most: int) -> Case:
    data = draw_data(rng, min(most, 60), 2, weighted=False)
    params: dict[str, Any] = {"kernel": "process", "lengthscale": power(rng, -2, 2) * data.get("x_scale", 1.0)}
    if rng.random() < 0.3:
        params["optimizer"] = None
    if rng.random() < 0.3:
        data["n"] = max(data["n"], 6)
        return Case("GaussianProcessClassifier", tuple(params.items()), **(data | draw_classes(rng)))
    params["normalize_y"] = bool(rng.random() < 0.5)
    if params.get("optimizer", "") == "" and rng.random() < 0.5:
        params["noise"] = "learn"
    else:
        params["alpha"] = power(rng, -12, 1)
    if rng.random() < 0.15:
        params["approximation"] = 10
        params["alpha"] = power(rng, -4, 0)
    return Case("GaussianProcessRegressor", tuple(params.items()), **data)


def draw_components(rng: np.random.Generator, most: int) -> Case:
    data = draw_data(rng, most, 2, weighted=False)
    params = draw_kernel(rng, data) | {"n_components": int(rng.choice([1, 2, 5])), "random_state": 0}
    if rng.random() < 0.3:
        params["center"] = False
    if rng.random() < 0.2 and not params["kernel"].startswith("pre"):
        params["approximation"] = 10
    elif rng.random() < 0.4:
        params["eigen_solver"] = str(rng.choice(["dense", "arpack", "lanczos", "randomized"]))
    return Case("KernelPCA", tuple(params.items()), **data)


def draw_mixture(rng: np.random.Generator, most: int) -> Case:
    data = draw_data(rng, most, 6)
    data["d"] = min(data["d"], 8)
    params: dict[str, Any] = {"n_components": int(rng.integers(1, 4)), "random_state": 0}
    params["covariance_type"] = str(rng.choice(["full", "tied", "diag", "spherical"]))
    params["reg_covar"] = float(f"{1e-6 * data.get('x_scale', 1.0) ** 2:.3g}")
    if rng.random() < 0.2:
        params["assignment"] = "hard"
    return Case("GaussianMixture", tuple(params.items()), **data)


FAMILIES = {
    "svm": (draw_svm, 8),
    "lsq": (draw_ridge, 5),
    "machine": (draw_machine, 5),
    "pegasos": (draw_pegasos, 1),
    "process": (draw_process, 3),
    "components": (draw_components, 2),
    "mixture": (draw_mixture, 1),
}
"""How to draw a case of each family, and how many of each in a round."""


def cases(seed: int, count: int, most: int, vary: bool = False) -> list[Case]:
    """So many cases, in rounds over the families; with ``vary``, every other one is varied."""
    rounds = [draw for draw, share in FAMILIES.values() for _ in range(share)]
    drawn = [rounds[i % len(rounds)](np.random.default_rng([seed, i]), most) for i in range(count)]
    odd = np.random.default_rng([seed, count]).random(count) < 0.5 * vary
    return [varied(case, np.random.default_rng([seed, i, 1])) if odd[i] else case for i, case in enumerate(drawn)]


KERNELS = (
    "Matern({0}, nu=0.5)",
    "Matern({0}, nu=1.5)",
    "3.0 * Matern({0}, nu=2.5) + Constant(10.0)",
    "Laplace({0})",
    "RationalQuadratic({0})",
    "PowerExponential({0})",
    "2.0 * RBF({0}) + Linear()",
    "RBF({0}) * Linear()",
    "RBF({0}) + White(0.1)",
    "Polynomial(3)",
)
"""Kernels in the algebra, by lengthscale."""


def varied(case: Case, rng: np.random.Generator) -> Case:
    """The case with another kernel, several targets, a trend, little memory, another map or sparse rows."""
    params, changed = dict(case.params), {}
    own, given = case.estimator, params.get("kernel", "")
    if given in ("rbf", "linear", "poly") and rng.random() < 0.4:
        text = str(rng.choice(KERNELS)).format(f"{power(rng, -1.5, 1.5) * case.x_scale:.3g}")
        params = {name: value for name, value in params.items() if name not in ("gamma", "degree", "coef0")}
        params["kernel"] = given = "=" + text
    exact = "approximation" not in params
    if own == "KernelRidge" and exact and rng.random() < 0.3:
        params["fit_intercept"] = True
    if own in ("KernelInterpolator", "GaussianProcessRegressor") and exact and rng.random() < 0.3:
        params["trend"] = str(rng.choice(["constant", "linear"]))
    if own == "KernelMachineClassifier" and rng.random() < 0.3:
        params["loss"] = "multinomial"
    if own in ("KernelRidge", "KernelInterpolator", "GaussianProcessRegressor") and rng.random() < 0.3:
        changed["targets"] = int(rng.choice([2, 3]))
    if own not in ("GaussianMixture",) and rng.random() < 0.3:
        params["memory"] = "200KB"
    if not given.startswith("pre") and own != "GaussianMixture" and rng.random() < 0.25:
        changed["sparse"] = True
    if not exact and given == "rbf" and rng.random() < 0.3:
        params["approximation"] = f"fourier {params['approximation']}"
    if changed.get("sparse") and rng.random() < 0.4 and "fourier" not in str(params.get("approximation")):
        changed["empty"] = int(rng.choice([3000, 5000]))
    return replace(case, params=tuple(params.items()), **changed)


def on_card(drawn: list[Case]) -> list[Case]:
    """The cases that a GPU can fit, on it."""
    able = [case for case in drawn if not (case.sparse or case.n < 2 or case.estimator == "PegasosClassifier")]
    exact = [case for case in able if "approximation" not in dict(case.params)]
    return [replace(case, device="cuda") for case in exact if ":" not in dict(case.params).get("kernel", "")]


# ---- the judgement ----------------------------------------------------------------------------------------------

LABELS = ("SVC", "NuSVC", "KernelMachineClassifier", "PegasosClassifier", "GaussianProcessClassifier")
NO_TARGET = ("OneClassSVM", "KernelPCA", "GaussianMixture")
REFUSALS = (ValueError, np.linalg.LinAlgError, MemoryError)
"""A fit may be refused, in words."""


def made(case: Case) -> tuple[Any, Any, Any, Any]:
    """The estimator of a case, unfitted, and what to fit it to."""
    params, X = dict(case.params), case.rows()
    kernel = params.get("kernel", "")
    if kernel == "process":
        params["kernel"] = 1.0 * RBF(params.pop("lengthscale"))
        if params.get("noise") is None and case.estimator.endswith("Regressor"):
            params["kernel"] += White(0.1)
    elif kernel.startswith("="):
        params["kernel"] = eval(kernel[1:], vars(gramian.kernels))
    elif kernel.startswith("precomputed:"):
        params["kernel"], X = "precomputed", case.gram(kernel.partition(":")[2])
    if "approximation" in params:
        kind, _, count = str(params["approximation"]).rpartition(" ")
        params["approximation"] = (FourierFeatures if kind else Nystroem)(n_components=int(count), random_state=0)
    model = getattr(gramian, case.estimator)(**params, **({} if case.device is None else {"device": case.device}))
    y = None if case.estimator in NO_TARGET else case.labels() if case.estimator in LABELS else case.numbers()
    if case.targets > 1:
        y = np.column_stack([y, 1e-3 * y[::-1], np.zeros_like(y)][: case.targets])
    if case.sparse:
        X = csr_array(X)
        X.resize(case.n, X.shape[1] + case.empty)
    return model, X, y, case.sample_weight()


def faults(case: Case) -> list[str]:
    """What is wrong with the certificate of a case; nothing where all is well or the fit is refused in words."""
    model, X, y, w = made(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y, **({} if w is None else {"sample_weight": w}))
        except REFUSALS as error:
            raised = traceback.extract_tb(error.__traceback__)[-1].line or ""  # not an accident inside NumPy
            return [] if raised.startswith("raise") else [f"refused without words: {error!r}"]
        found = verify(model, X, y, w)
        return [*compared(model, found), *(beside_peer(model, X, y, w, found) if has_peer(case) else [])]


def has_peer(case: Case) -> bool:
    """Whether scikit-learn can fit the same model."""
    params = dict(case.params)
    ours = params.get("kernel", "").startswith("=") or "trend" in params or params.get("fit_intercept")
    return not (ours or case.sparse or case.targets > 1)


def compared(model: Any, found: Any) -> list[str]:
    """Two certificates of one fit: the same verdict, and figures within three times, 1e-9 or rounding of each other.

    What rounding may change is in ``found.rounding``: an error in a value ``Σ c_j k(x_j, x)``, of ``4 eps max|k| Σ|c|``
    by the order of its sum and of k's own rounding, times what the figure makes of it. Of machines, ``verify`` has to
    make the dual point itself: there a fit may prove less than could be proved, but has to say what stopped it.
    """
    said = model.certificate_
    if said.converged and "infeasible" in found.message:
        return [found.message]
    if not agree(said, found, getattr(model, "tol", None)):
        return [f"said {said}; verified {found}; rounding {found.rounding:.1e}"]
    if (
        found.converged
        and not said.converged
        and not any(why in said.message for why in ("max_", "time", "rounding", "digits", "n_iter"))
    ):
        return [f"a false alarm: said {said}; verified {found}"]
    return []


def beside_peer(model: Any, X: Any, y: Any, w: Any, found: Any) -> list[str]:
    """Whether scikit-learn, where it claims to converge too, has a better objective."""
    if hasattr(model, "approximation_") or not found.converged:
        return []
    X = np.asarray(X, dtype=np.float64)
    svm = gramian.SVC | gramian.SVR | gramian.OneClassSVM | gramian.NuSVC | gramian.NuSVR
    same = not isinstance(model, gramian.NuSVC) or model.class_weight is None  # class weights change another problem
    if isinstance(model, svm) and same and found.kind == "duality gap":
        return _beside_svm(model, X, y, w, found)
    if isinstance(model, gramian.GaussianMixture) and w is None and model.assignment == "soft":
        return _beside_mixture(model, X)
    if isinstance(model, gramian.KernelPCA):
        return _beside_components(model, X)
    if isinstance(model, gramian.GaussianProcessRegressor) and model.optimizer is not None and model.noise is None:
        return _beside_process(model, X, y)
    if isinstance(model, gramian.KernelRidge) and model.kernel != "precomputed" and model.alpha != "loo":
        names = ("alpha", "kernel", "gamma", "degree", "coef0")
        peer = PeerRidge(**{name: getattr(model, name) for name in names}).fit(X, y, w)
        ours, theirs = (_ridge_objective(model, X, y, w, dual) for dual in (model.dual_coef_, peer.dual_coef_))
        return _worse(ours, theirs, model.tol, float(np.sum(y**2 if w is None else w * y**2)))
    return []


def _beside_components(model: Any, X: Any) -> list[str]:
    """The sum of the largest eigenvalues, where scikit-learn's solver is a dense one."""
    if not model.center or model.eigen_solver == "randomized":
        return []
    peer = PeerPCA(model.n_components, eigen_solver="dense", kernel="precomputed")
    try:
        theirs = float(peer.fit(model.kernel_(X)).eigenvalues_.sum())
    except ValueError:  # LAPACK's fast driver finds no eigenvalue where all coincide
        return []
    return _worse(-float(model.eigenvalues_.sum()), -theirs, 1e-5, float(np.abs(model.kernel_.diag(X)).sum()))


def _beside_mixture(model: Any, X: Any) -> list[str]:
    """The likelihood from the same start, which is some of the rows: both take the same steps."""
    names = ("n_components", "covariance_type", "reg_covar", "tol")
    params, k, d = {name: getattr(model, name) for name in names}, model.n_components, X.shape[1]
    precision = 1.0 / max(float(X.var(axis=0).max()), model.reg_covar, 1e-300)
    precisions = {
        "full": np.tile(precision * np.eye(d), (k, 1, 1)),
        "tied": precision * np.eye(d),
        "diag": np.full((k, d), precision),
        "spherical": np.full(k, precision),
    }[model.covariance_type]
    start = {"means_init": X[np.linspace(0, len(X) - 1, k).astype(int)], "weights_init": np.full(k, 1.0 / k)}
    options = {**start, "precisions_init": precisions, "random_state": 0, "max_iter": 1000}
    ours, theirs = (kind(**params, **options) for kind in (gramian.GaussianMixture, PeerMixture))
    try:
        theirs.fit(X)
    except ValueError:
        return []
    if not theirs.converged_ or not ours.fit(X).certificate_.converged:
        return []
    return _worse(-ours.score(X), -theirs.score(X), 1e-2, 1.0)


def _beside_process(model: Any, X: Any, y: Any) -> list[str]:
    """The evidence of the kernel that was learned, from the same start; a tenth of a nat is no difference."""
    amplitude, lengthscale, noise = np.exp(model.kernel.theta)
    kernel = peer_kernels.ConstantKernel(amplitude) * peer_kernels.RBF(lengthscale) + peer_kernels.WhiteKernel(noise)
    if not np.allclose(kernel.bounds, model.kernel.bounds):
        return []
    theirs = PeerProcess(kernel, alpha=model.alpha, normalize_y=model.normalize_y).fit(X, y)
    ours, best = model.log_marginal_likelihood_value_, theirs.log_marginal_likelihood_value_
    return [f"evidence {ours:.10g}, scikit-learn's {best:.10g}"] if best > ours + 0.1 else []


def _ridge_objective(model: Any, X: Any, y: Any, w: Any, dual: Any) -> float:
    f = model.kernel_(X) @ dual
    return float(np.sum((f - y) ** 2 * (1.0 if w is None else w)) + model.alpha * dual @ f)


def _worse(ours: float, theirs: float, tol: float, scale: float = 1e-9) -> list[str]:
    slack = tol * max(abs(ours), abs(theirs), scale)
    return [f"objective {ours:.10g}, scikit-learn's {theirs:.10g}"] if ours > theirs + slack else []


def _beside_svm(model: Any, X: Any, y: Any, w: Any, found: Any) -> list[str]:
    """scikit-learn's multipliers, of the rows that count, in the place of ours."""
    peer = getattr(sklearn.svm, type(model).__name__)
    params = {name: value for name, value in model.get_params(deep=False).items() if name in peer().get_params()}
    rows = np.arange(len(X)) if w is None else np.flatnonzero(w)
    few = X[np.ix_(rows, rows)] if model.kernel == "precomputed" else X[rows]
    try:
        other = peer(**params | {"max_iter": 50_000})
        other.fit(few, None if y is None else y[rows], None if w is None else w[rows])
    except ValueError:
        return []
    if other.fit_status_ or np.any(np.asarray(other.n_iter_) >= 50_000) or np.size(other.intercept_) > 1:
        return []
    theirs = copy(model)
    for name in ("dual_coef_", "intercept_", "offset_"):
        if hasattr(other, name):
            setattr(theirs, name, getattr(other, name))
    if isinstance(model, gramian.NuSVR):  # of all widths of the tube, the best for their function
        off = np.abs(y[rows] - other.predict(few))
        own = np.ones(rows.size) if w is None else w[rows]
        lost = [model.nu * e * own.sum() + np.sum(own * np.maximum(off - e, 0.0)) for e in (0.0, *off)]
        theirs.epsilon_ = (0.0, *off)[int(np.argmin(lost))]
    theirs.support_, theirs._n_support = rows[other.support_], other.n_support_
    theirs.support_vectors_ = model.support_vectors_ if model.kernel == "precomputed" else X[theirs.support_]
    best = verify(theirs, X, y, w)
    # What a gap is relative to: the objective or, if that is nearly zero, the scale of the data.
    scale = (found.primal - found.dual) / found.gap if found.gap > 0 else 1e-9
    return [] if "infeasible" in best.message else _worse(found.primal, best.primal, model.tol + found.rounding, scale)
