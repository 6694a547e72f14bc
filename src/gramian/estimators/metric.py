"""A learned metric as a linear map of the rows, by evidence or by average gradient outer products."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.certificates import certify
from gramian.data.tensors import with_tensors
from gramian.estimators.base import COMMON, DTYPES, fitting, refuse_blocks, row_weights
from gramian.features.base import check_means, parameters_checked
from gramian.gram.operator import narrow, wide
from gramian.kernels import Kernel, Matern
from gramian.kernels.tunable import Nested
from gramian.progress import Clock, Tick, progress
from gramian.resources import random_of
from gramian.solvers.gp.metric_learning import MapFit, MetricEvidence, Prior, agop_round, learn_map, moved, root
from gramian.warning import warn

Array = NDArray[np.float64]

FEW_CLASSES = 20
"""Number of distinct integers up to which ``target="auto"`` treats them as classes."""
VARIANCE_STEPS = 40
"""Optimisation steps over variances and scales, before L is learned and after each round."""
TOL = {"evidence": 1e-2, "agop": 0.2}
PERTURBATION = 0.3
"""Relative size of the random change of the initial map in a restart."""
DISAGREE = 0.2
"""Distance of two metrics above which restarts disagree."""


@dataclass(eq=False, repr=False)
class MetricMap(Nested, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A linear map x → Lᵀx, learned so that distances between mapped rows are relevant to the targets.

    Use it with a kernel of lengthscale one on the mapped rows: ``make_pipeline(MetricMap(), KernelRidge("loo",
    kernel=Matern(1.0, nu=1.5)))``. L is learned on a sample of rows by a Gaussian process on the mapped rows, starting
    from one lengthscale per input. ``method="evidence"`` maximises its evidence over all entries of L. ``"agop"``
    computes the mean G of ∇f ∇fᵀ over rows and targets, sets LLᵀ ∝ G^power, optimises scale, amplitude and noise, and
    repeats.

    Parameters
    ----------
    method : {"evidence", "agop"}, default="evidence"
        How L is learned. ``"evidence"`` is better for numbers with little noise; ``"agop"`` for classes, and for
        targets that depend on few inputs.
    rank : int or None, default=None
        Number of columns of L, at most d; ``None`` means d.
    rounds : int, default=3
        Number of rounds of ``"agop"``.
    power : float, default=0.5
        The power in ``"agop"``: 0.5 is safer, 1 has a stronger effect.
    kernel : Kernel or None, default=None
        Kernel on the mapped rows while L is learned; ``None`` for ``Matern(1.0, nu=1.5)``. It is not tuned.
    target : {"auto", "numbers", "classes"}, default="auto"
        What y holds. ``"auto"`` treats text, booleans, and up to 20 distinct integers as classes; their centred
        indicators are then the targets.
    n_rows : int, default=2000
        Number of rows, drawn at random, from which L is learned.
    n_restarts : int, default=0
        Further runs from random changes of the first initial map; the run with the highest evidence is kept, with a
        warning if the metrics disagree.
    tol : float or None, default=None
        For ``"evidence"``: the largest derivative per row at which L has converged, by default 0.01; for ``"agop"``:
        how far the last round may move the metric, by default 0.2.
    max_iter : int, default=100
        The most steps of the optimisation over the entries of L.
    max_time : float or None, default=None
        Seconds after which the optimisation stops, with a warning.
    memory : int, str or None, default=None
        The most bytes to hold, as a number or ``"1GB"``; by default half of what is available.
    n_jobs : int or None, default=None
        Threads; ``None`` for every core.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which the evidence is computed, through torch (``pip install '.[gpu]'``); ``"auto"`` uses one
        if there is one and the kernel can run there. It is not saved with the model.
    verbose : int or bool, default=False
        Whether to show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the rows and the restarts.

    Attributes
    ----------
    L_ : array of shape (d, k)
        The map: ``transform(X) = X @ L_``. Rows that belong to constant inputs are zero.
    metric_ : array of shape (d, d)
        ``L_ @ L_.T``.
    scale_ : array of shape (d,)
        Standard deviations of the inputs; ``scale_[:, None] * L_`` is dimensionless.
    kernel_ : Kernel
        The kernel of the Gaussian process, including the map: a kernel on rows of X.
    noise_ : float
        Noise variance of the process; the targets have variance one.
    evidence_ : float
        The log evidence reached.
    rows_, row_weights_ : array of shape (m,)
        Indices of the rows from which L was learned, without duplicates, and their weights.
    moves_ : array of shape (rounds,)
        For ``"agop"``: how far each round moved the metric, scaled to norm one.
    restarts_ : array of shape (n_restarts,)
        Distance of the metric of each further run from that of the first.
    classes_ : array of shape (c,)
        The classes, if the targets are classes.
    certificate_ : Certificate
        The largest derivative of the evidence per row, or the move of the last round.
    n_features_in_, feature_names_in_ : int, array of shape (n_features_in_,)
        Number of columns of X, and their names if X has names.
    n_iter_ : int
        Steps of the optimisation, or rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import MetricMap
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> found = MetricMap(rank=1).fit(X, np.sin(X[:, 0] + X[:, 1]) + 0.1 * rng.standard_normal(100))
    >>> direction = found.L_[:, 0] / np.abs(found.L_).max()
    >>> np.abs(direction).round(1) + 0.0
    array([1., 1., 0.])
    """

    method: str = "evidence"
    _: KW_ONLY
    rank: int | None = None
    rounds: int = 3
    power: float = 0.5
    kernel: Any = None
    target: str = "auto"
    n_rows: int = 2000
    n_restarts: int = 0
    tol: float | None = None
    max_iter: int = 100
    max_time: float | None = None
    memory: int | str | None = None
    n_jobs: int | None = None
    device: str | None = None
    verbose: int | bool = False
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "method": [StrOptions({"evidence", "agop"})],
        "rank": [None, Interval(Integral, 1, None, closed="left")],
        "rounds": [Interval(Integral, 1, None, closed="left")],
        "power": [Interval(Real, 0, None, closed="neither")],
        "kernel": [None, Kernel],
        "target": [StrOptions({"auto", "numbers", "classes"})],
        "n_rows": [Interval(Integral, 2, None, closed="left")],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
        "tol": [None, Interval(Real, 0, None, closed="neither")],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.L_.shape[1])

    @parameters_checked
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, k)
            Numbers, for one or several targets, or class labels.
        sample_weight : float, array-like of shape (n,) or None, default=None
            Weights >= 0: a row of weight two counts as two equal rows.
        """
        check_means(self)
        refuse_blocks(self, X, "a sample of them to learn the map, and transform() on the rest")
        options: Any = {"dtype": DTYPES, "order": "C", "multi_output": True, "ensure_min_samples": 2}
        with fitting(self) as clock, progress(self.verbose, "MetricMap") as tick:
            X, y = validate_data(self, X, y, **options)
            if self.rank is not None and self.rank > X.shape[1]:
                raise ValueError(f"rank must be at most the {X.shape[1]} columns of X, got rank={self.rank}.")
            weights = row_weights(sample_weight, X)
            self._learn(*self._sampled(wide(X), self._targets(y, weights), weights), clock, tick)
        return self

    def _targets(self, y: NDArray[Any], weights: Array) -> Array:
        """Numbers, or indicators of classes: → (n, t)."""
        self.__dict__.pop("classes_", None)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        few = y.ndim == 1 and kind in ("binary", "multiclass") and np.unique(y[weights > 0]).size <= FEW_CLASSES
        if self.target == "numbers" or (self.target == "auto" and y.dtype.kind not in "OUSb" and not few):
            return np.asarray(y, dtype=np.float64).reshape(y.shape[0], -1)
        if y.ndim != 1 or kind not in ("binary", "multiclass"):
            raise ValueError(f"target='classes' needs one column of labels, got a {kind} y of shape {y.shape}.")
        self.classes_ = np.unique(y[weights > 0])
        return np.asarray(y[:, None] == self.classes_, dtype=np.float64)

    def _sampled(self, X: Array, Y: Array, weights: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
        """The rows to learn from, standardised; equal rows are merged, so that the order of rows does not matter."""
        (kept,) = np.nonzero(weights)
        rng = random_of(self.random_state)
        kept = rng.permutation(kept)[: self.n_rows] if kept.size > self.n_rows else kept
        both, first, group = np.unique(np.c_[X[kept], Y[kept]], axis=0, return_index=True, return_inverse=True)
        self.rows_, counts = kept[first], np.bincount(group.ravel(), weights[kept])
        self.row_weights_: Array = np.asarray(counts, dtype=np.float64)
        X, Y = both[:, : X.shape[1]], both[:, X.shape[1] :]
        X, scale = _standardised(X, self.row_weights_)
        self.scale_ = np.where(scale > 0, scale, 1.0)
        Y, spread = _standardised(Y, self.row_weights_)
        if not np.any(spread > 0):
            what = "holds one class" if hasattr(self, "classes_") else "is constant"
            raise ValueError(f"y {what} on the rows of positive weight, so there is nothing to learn a metric from.")
        if hasattr(self, "classes_"):  # one scale for all classes, so that rare classes count less
            Y = Y * spread / np.sqrt(np.mean(spread**2))
        return np.where(scale > 0, X, 0.0), Y, scale > 0

    def _learn(self, X: Array, Y: Array, varies: NDArray[np.bool_], clock: Clock, tick: Tick) -> None:
        base = Matern(1.0, nu=1.5) if self.kernel is None else self.kernel
        evidence = MetricEvidence(base, X, Y, self.row_weights_, self.memory, self.n_jobs, self.device)
        start = self._start(evidence, clock, tick)
        best = self._run(evidence, start, clock, tick)
        best = self._restarted(evidence, start, best, clock, tick)
        self._keep(best, base, varies)
        why = "raise max_iter, or tol." if self.method == "evidence" else "raise rounds, or take power=0.5."
        why = "max_time passed; raise it, or learn from fewer rows (n_rows=)." if clock.expired else why
        figure, kind = (best.slope, "evidence") if self.method == "evidence" else (self.moves_[-1], "stationary")
        tol = TOL[self.method] if self.tol is None else self.tol
        counted: Any = {"iterations": self.n_iter_, "seconds": clock.seconds}
        self.certificate_ = certify(kind, figure, tol, why, **counted, primal=best.value)

    def _start(self, evidence: MetricEvidence, clock: Clock, tick: Tick) -> MapFit:
        """Fit one lengthscale, then one per input; for a lower rank, keep the directions in which f varies most."""
        d = evidence.X.shape[1]
        options: Any = {"max_iter": VARIANCE_STEPS, "clock": clock, "tick": tick}
        one = learn_map(evidence, Prior(np.eye(d) / np.sqrt(d)), "scale", **options)
        each = learn_map(evidence, one.prior, "rows", **options)
        if self.rank is None or self.rank == d:
            return each
        axes = root(evidence.outer_products(each.prior), 0.0, self.rank)
        L = axes @ root(axes.T @ np.diag(np.diagonal(each.prior.L) ** 2) @ axes, 1.0, None)
        return learn_map(evidence, Prior(L, each.prior.amplitude), "scale", **options)

    def _run(self, evidence: MetricEvidence, start: MapFit, clock: Clock, tick: Tick) -> MapFit:
        """One run of the method; sets ``moves_`` and ``n_iter_``."""
        options: Any = {"clock": clock, "tick": tick}
        self.__dict__.pop("moves_", None)
        if self.method == "evidence":
            found = learn_map(evidence, start.prior, "entries", max_iter=self.max_iter, **options)
            self.n_iter_ = max(found.iterations, 1)
            return found
        found, moves = start, []
        for _ in range(self.rounds):
            before = found.prior
            after = agop_round(evidence, before, self.power, self.rank)
            moves.append(moved(before.L, after.L))
            found = learn_map(evidence, after, "scale", max_iter=VARIANCE_STEPS, **options)
            if clock.expired:
                break
        self.moves_, self.n_iter_ = np.array(moves), len(moves)
        return found

    def _restarted(self, evidence: MetricEvidence, start: MapFit, best: MapFit, clock: Clock, tick: Tick) -> MapFit:
        """The best of the first run and of the restarts from random changes of its initial map."""
        rng = random_of(self.random_state)
        first, kept, apart = best, {n: getattr(self, n) for n in ("moves_", "n_iter_") if hasattr(self, n)}, []
        for _ in range(self.n_restarts):
            L = start.prior.L
            change = np.eye(len(L)) + PERTURBATION * rng.standard_normal((len(L), len(L))) / np.sqrt(len(L))
            there = MapFit(Prior(change @ L, start.prior.amplitude, start.prior.noise), start.value, 0.0, 0)
            again = self._run(evidence, there, clock, tick)
            apart.append(moved(first.prior.L, again.prior.L))
            if again.value > best.value:
                best, kept = again, {n: getattr(self, n) for n in kept}
        self.__dict__.update(kept)
        self.restarts_ = np.array(apart)
        if np.any(self.restarts_ > DISAGREE):
            warn(
                f"MetricMap: the metrics of {self.n_restarts + 1} runs disagree, by up to {self.restarts_.max():.2f} "
                "with each scaled to norm one; that of the highest evidence is kept. More rows (n_rows=) or a lower "
                "rank may help.",
            )
        return best

    def _keep(self, best: MapFit, base: Kernel, varies: NDArray[np.bool_]) -> None:
        self.L_ = np.where(varies[:, None], best.prior.L / self.scale_[:, None], 0.0)
        self.metric_ = self.L_ @ self.L_.T
        self.kernel_ = Prior(self.L_, best.prior.amplitude).kernel(base)
        self.noise_, self.evidence_ = best.prior.noise, best.value

    @with_tensors
    def transform(self, X: Any) -> NDArray[Any]:
        """Return ``X @ L_``, in the dtype of X: X (m, d) → (m, k)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=DTYPES, reset=False)
        return narrow(wide(X) @ self.L_, X)


def _standardised(X: Array, weights: Array) -> tuple[Array, Array]:
    """Columns of mean zero and deviation one, and the deviations; zero if a column is constant up to rounding."""
    centre = np.average(X, axis=0, weights=weights)
    spread = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weights))
    spread = np.where(spread > 1e-12 * np.abs(X).max(axis=0), spread, 0.0)
    return (X - centre) / np.where(spread > 0, spread, 1.0), spread
