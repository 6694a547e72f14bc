"""PegasosClassifier: the kernel SVM without intercept by stochastic subgradient steps, also on a stream."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets

from gramian.certificates import Certificate, together
from gramian.docstrings import documented
from gramian.estimators.base import (
    COMMON,
    Expansion,
    forget,
    is_blocks,
    restored_on_failure,
    row_weights,
    rows_of,
    validated,
    warn_unless_converged,
)
from gramian.estimators.machine.base import indefinite
from gramian.estimators.machine.classifier import Deciding, KernelMachineClassifier, check_classes, signs_of
from gramian.features.base import parameters_checked
from gramian.gram import Gram
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.losses import Hinge
from gramian.progress import Clock, progress
from gramian.resources import random_of
from gramian.rkhs import stacked
from gramian.solvers.machine.pegasos import Counts, descend, duality_gap, walk_of

OWN = ("n_iter", "max_support", "variant")
"""Parameters that are not passed to the machine fitted with an approximation."""
TAKEN = {
    *("classes_", "kernel_", "certificate_", "n_iter_", "n_features_in_", "feature_names_in_"),
    *("approximation_", "coef_", "dual_coef_", "X_fit_", "_landmarks"),
}
"""Attributes taken over from such a machine."""


class _Hinges(KernelMachineClassifier):
    """The machine for the objective of Pegasos."""


_Hinges.__name__ = "PegasosClassifier"  # the name that messages show


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PegasosClassifier(Deciding, Expansion, ClassifierMixin, BaseEstimator):
    """Kernel SVM without intercept: ``mean hinge + (lam/2) ‖f‖²`` by stochastic subgradient steps.

    Each step takes a row, in random order over all rows, and adds it to the support if its margin is below one. The
    averaged function converges to the SVC without intercept and ``C = 1 / (n lam)``; the duality gap, at the dual point
    of its coefficients, bounds how far from there it is: usually ten to twenty times as far as it really is. More than
    two classes are fitted one against the rest.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        The kernel; ``"precomputed"`` if X is the Gram matrix.
    approximation : map or None, default=None
        An unfitted ``Nystroem``, ``FourierFeatures`` or ``PolynomialMap``: f is then a linear function of its
        features, and as these are few the same objective is minimised to the optimum by Newton steps on all rows.
        Required if the rows come by blocks.
    lam : float, default=1e-3
        The strength of the penalty, > 0.
    n_iter : int, default=1000000
        Most steps for each function; Newton steps with a map. The gap is computed each time their number has doubled.
    max_support : int or None, default=None
        Most support rows of each function; those with the smallest coefficients are merged into their nearest rows,
        and the certificate includes the cost. Not with a map.
    variant : {"passes", "textbook"}, default="passes"
        ``"textbook"`` is the algorithm as published: each step draws from all rows, and the result is the plain
        average of the iterates. ``"passes"`` goes through all rows in random order and weights iterate t by t, which
        converges faster. Not with a map.
    tol : float, default=1e-2
        Relative duality gap at which to stop.
    memory : int, str or None, default=None
        The most bytes to hold; K is stored if it fits, else computed by blocks of rows.
    n_jobs : int or None, default=None
        Threads that compute K.
    random_state : int, RandomState, Generator or None, default=None
        The randomness of the order of rows.
    {those of KernelParameters}

    Attributes
    ----------
    classes_ : array of shape (c,)
        The labels.
    dual_coef_ : array of shape (s,) or (s, c)
        Coefficients of the averaged functions.
    X_fit_ : array or CSR of shape (s, d)
        The support, or the landmarks of a map; all rows of the Gram matrix if the kernel is precomputed.
    support_ : array of shape (s,)
        Their indices among the rows of ``fit``; of equal rows with the same label, one stands for all. Not with a map
        nor after ``partial_fit``.
    coef_ : array of shape (m,) or (m, c)
        With a map that has no landmarks: the weights of its features, instead of ``dual_coef_``, ``X_fit_`` and
        ``function_``.
    approximation_ : map
        The fitted map, if ``approximation`` is given.
    function_ : Function or array of Function
        The fitted functions.
    certificate_ : Certificate
        The duality gap, the worst of several functions; after ``partial_fit``, of kind "stationary".
    n_iter_ : int
        Steps taken.
    {those of KernelParameters}

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from gramian.estimators.machine.pegasos import PegasosClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = PegasosClassifier(gamma=2.0, lam=1e-2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95, model.certificate_.gap < 0.01
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "lam": [Interval(Real, 0, None, closed="neither")],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "max_support": [Interval(Integral, 1, None, closed="left"), None],
        "variant": [StrOptions({"passes", "textbook"})],
    }

    kernel: Any = field(default="rbf", kw_only=False)
    approximation: Any = None
    lam: float = 1e-3
    n_iter: int = 1_000_000
    max_support: int | None = None
    variant: str = "passes"
    tol: float = 1e-2
    random_state: Any = None

    # ---- fit ----------------------------------------------------------------------------------------------------

    @parameters_checked
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the functions.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), Blocks, path or Dask collection
            Rows; the square Gram matrix if the kernel is precomputed; a sequence of objects for a kernel on objects.
        y : array-like of shape (n,)
            Labels.
        sample_weight : float, array-like of shape (n,) or None, default=None
            Weights >= 0, which set how often rows are drawn; zero leaves a row out, a whole number repeats it.
        """
        with restored_on_failure(self):
            if self.approximation is not None or is_blocks(X):
                self._fit_in_features(X, y, sample_weight)
            else:
                self._fit_steps(X, y, sample_weight, Clock(self.max_time))
        warn_unless_converged(self.certificate_, self)
        return self

    def _fit_steps(self, X: Any, y: Any, sample_weight: Any, clock: Clock) -> None:
        """Fit by stochastic steps, row by row."""
        X, y = validated(self, X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        weights = row_weights(sample_weight, X)
        kernel = self._resolved(X, weights)
        check_classes(type(self).__name__, self.classes_, codes[weights > 0])
        rows, weights = _distinct(None if is_precomputed(kernel) or kernel.tells_copies else X, codes, weights)
        points = rows_of(kernel, X, rows)
        gram, random = self._gram(kernel, points), random_of(self.random_state)
        with progress(self.verbose, type(self).__name__, self.n_iter) as tick:
            functions = signs_of(codes[rows], self.classes_.size)
            done = [self._run(gram, signs, weights, random, clock, tick) for signs in functions]
        if is_precomputed(kernel):
            done = [(_spread(counts, rows, y.size), certificate) for counts, certificate in done]
            points, rows = X, np.arange(y.size)
        used = self._keep(kernel, points, [counts for counts, _ in done])
        self.support_ = rows[used]
        self.certificate_ = together([certificate for _, certificate in done])
        if why := indefinite(gram):
            self.certificate_ = replace(self.certificate_, converged=False, message=why)

    def _fit_in_features(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Minimise the same objective on the features of a map, with all rows at once."""
        if self.max_support is not None:
            raise ValueError(
                f"max_support={self.max_support} bounds the rows of a kernel expansion, and a fit with approximation= "
                "has none: set its n_components, and leave max_support=None."
            )
        if self.variant != "passes":
            raise ValueError(
                "variant='textbook' goes from row to row, but a fit with approximation= takes all rows at once; leave "
                "variant='passes'."
            )
        if is_precomputed(self.kernel):
            raise ValueError("approximation= needs rows, not a precomputed Gram matrix.")
        shared = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        machine = _Hinges(Hinge(), solver="proximal", fit_intercept=False, max_iter=self.n_iter, **shared)
        machine._fit(X, y, sample_weight)
        forget(self)
        for name in vars(machine).keys() & TAKEN:
            setattr(self, name, getattr(machine, name))

    def _run(
        self,
        gram: Gram,
        y: NDArray[np.float64],
        weights: NDArray[np.float64],
        random: np.random.RandomState,
        clock: Clock,
        tick: Any,
    ) -> tuple[Counts, Certificate]:
        """Fit one function: passes in random order until the gap is small enough."""
        n = y.size
        K = gram.dense() if gram.fits else None
        rows = gram.rows if K is None else K.__getitem__
        textbook = self.variant == "textbook"
        counts, values = Counts(np.zeros(n), np.zeros(n), textbook=textbook), np.zeros(n)
        options = self._budget(gram, clock)
        due, shares = n, weights / weights.sum()
        while True:
            order = walk_of(weights, random, self.n_iter - counts.steps, textbook=textbook)
            counts = descend(rows, y, values, counts, order, self.lam, **options)
            ended = counts.steps >= self.n_iter or clock.expired
            if counts.steps >= due or ended:
                times = gram.__matmul__ if K is None else K.__matmul__
                alpha = counts.average(self.lam)
                certificate = duality_gap(alpha, times, y, shares, self.lam, self.tol, counts.steps, clock)
                tick(counts.steps, gap=certificate.gap)
                due = 2 * counts.steps
                if certificate.converged or ended:
                    return counts, certificate

    def _budget(self, gram: Gram, clock: Clock) -> dict[str, Any]:
        """Keywords of ``descend`` on the support; blocks are small, as the budget may be exceeded within a block."""
        affordable = int(np.clip(gram.memory // (2 * 8 * gram.shape[0]), 1, 256))
        if self.max_support is None:
            return {"clock": clock, "block": affordable}
        block = int(np.clip(self.max_support // 10, 1, affordable))
        diagonal = np.maximum(gram.diagonal(), np.finfo(np.float64).tiny)
        return {"clock": clock, "max_support": self.max_support, "diagonal": diagonal, "block": block}

    @parameters_checked
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Take one step for every row of a batch, continuing from the batches before; only the support is kept.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels.
        classes : array-like of shape (c,) or None, default=None
            All labels that will occur; required in the first call.
        sample_weight : float, array-like of shape (n,) or None, default=None
            Weights >= 0: the number of steps of each row if all are whole numbers, else n rows drawn by weight.
        """
        clock = Clock(self.max_time)
        with restored_on_failure(self):
            first = _check_partial_fit_first_call(self, classes)
            X, y = validated(self, X, y, reset=first)
            self._check_batch(y)
            weights = row_weights(sample_weight, X)
            kept = np.flatnonzero(weights)
            self.kernel_ = self._resolved(X, weights) if first else self.kernel_
            self._step_through(X[kept], y[kept], weights[kept], [] if first else self._counts, clock)
        return self

    def _check_batch(self, y: NDArray[Any]) -> None:
        if self.approximation is not None:
            raise ValueError("partial_fit works on kernel expansions only; leave approximation=None, or use fit.")
        if is_precomputed(self.kernel):
            raise ValueError(
                "partial_fit needs rows, not a Gram matrix: kernel='precomputed' can only be fitted at once."
            )
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(
                f"The target labels {unknown[:5]} in y do not exist in the initial classes {self.classes_}."
            )

    def _step_through(
        self, X: Any, y: NDArray[Any], weights: NDArray[np.float64], before: list[Counts], clock: Clock
    ) -> None:
        """Take steps over the rows of the batch, stacked below the present support."""
        held = before[0].beta.size if before else 0
        points = stacked(self.X_fit_, X) if held else X
        gram = self._gram(self.kernel_, points)
        textbook = self.variant == "textbook"
        order = held + walk_of(weights, random_of(self.random_state), sys.maxsize, textbook=textbook)
        done, losses = [], []
        for c, signs in enumerate(signs_of(np.searchsorted(self.classes_, y), self.classes_.size)):
            old = before[c] if before else Counts(np.zeros(0), np.zeros(0), textbook=textbook)
            pad = np.zeros(y.size)
            counts = replace(old, beta=np.concatenate([old.beta, pad]), late=np.concatenate([old.late, pad]))
            labels = np.concatenate([np.sign(old.beta), signs])
            options = self._budget(gram, clock)
            done.append(descend(gram.rows, labels, gram @ counts.beta, counts, order, self.lam, **options))
            f = gram @ done[-1].average(self.lam)
            losses.append(float(np.average(np.maximum(1.0 - signs * f[held:], 0.0), weights=weights)))
        self._keep(self.kernel_, points, done)
        cut = "max_time passed, so some rows may not have been used; " if clock.expired else ""
        self.certificate_ = Certificate(
            kind="stationary",
            primal=float(np.sum(losses)),
            converged=False,
            iterations=self.n_iter_,
            seconds=clock.seconds,
            message=f"{cut}primal is the mean hinge on the last batch; earlier rows are not kept, so there is no gap.",
        )

    def _keep(self, kernel: Kernel, X: Any, counts: list[Counts]) -> NDArray[np.bool_]:
        """Set the learned attributes, without rows of coefficient zero unless the kernel is precomputed: → (n,)."""
        forget(self)
        used = np.any([(each.beta != 0) | (each.late != 0) for each in counts], axis=0)
        used |= not used.any()
        if is_precomputed(kernel):
            used[:] = True
        self._counts = [replace(each, beta=each.beta[used], late=each.late[used]) for each in counts]
        dual = np.column_stack([each.average(self.lam) for each in self._counts])
        self.kernel_, self.X_fit_ = kernel, X[used]
        self.dual_coef_ = dual.ravel() if dual.shape[1] == 1 else dual
        self.n_iter_ = max(each.steps for each in counts)
        return used

    def _decision(self, X: Any) -> NDArray[np.float64]:
        return self._evaluate(X)


def _spread(counts: Counts, rows: NDArray[np.intp], n: int) -> Counts:
    """Extend the counts of some rows to all n rows, with zeros."""
    beta, late = np.zeros(n), np.zeros(n)
    beta[rows], late[rows] = counts.beta, counts.late
    return replace(counts, beta=beta, late=late)


def _distinct(
    X: Any, codes: NDArray[Any], weights: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The distinct pairs of row and label of positive weight, sorted, and the sums of their weights.

    So a row of weight two gives the same steps as the row twice. If X is ``None``, equal rows are not merged.
    """
    kept = np.flatnonzero(weights)
    if X is None:
        return kept, weights[kept]
    codes = codes[kept]
    keys = _keys(X[kept])
    order = np.lexsort((*keys, codes))
    same = codes[order][1:] == codes[order][:-1]
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    return kept[order[starts]], np.add.reduceat(weights[kept][order], starts)


def _keys(X: Any) -> list[NDArray[Any]]:
    """Sort keys of rows: their columns, or the ranks of sparse rows as bytes."""
    if isinstance(X, np.ndarray) and X.ndim == 1:  # objects: only texts can be compared
        text = all(isinstance(x, str) for x in X)
        return [np.unique(X.astype(str), return_inverse=True)[1] if text else np.arange(X.size)]
    if isinstance(X, np.ndarray):
        return list(X.T)
    X = X.astype(np.float64)
    X.sum_duplicates()
    X.eliminate_zeros()
    # Bytes that sort as dense rows do, by the last column first: positive entries after zeros, negative ones before.
    places = np.copysign(X.indices + 1.0, X.data)
    numbers, end = _sortable(np.column_stack([places, X.data])), _sortable(np.zeros(1)).tobytes()
    held = [numbers[a:b][::-1].tobytes() + end for a, b in zip(X.indptr, X.indptr[1:], strict=False)]
    return [np.unique(np.array(held, dtype=object), return_inverse=True)[1]]


def _sortable(numbers: NDArray[np.float64]) -> NDArray[Any]:
    """Integers whose big-endian bytes sort in the order of the numbers."""
    bits = np.ascontiguousarray(numbers).view(np.int64)
    bits = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return (bits.view(np.uint64) ^ np.uint64(2**63)).astype(">u8")
