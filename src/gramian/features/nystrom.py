"""The Nyström approximation: ψ(x) = L⁻¹ k(landmarks, x), where L Lᵀ = k(landmarks, landmarks)."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from gramian.data.blocks import is_blocks
from gramian.features.base import ExplicitMap, constraints, parameters_checked, sampled_rows
from gramian.gram import Gram, Pivots, select
from gramian.gram.landmarks import RULES
from gramian.gram.operator import Deferred, wide
from gramian.gram.pivoted_cholesky import inverse, landmarks_and_factor
from gramian.gram.prepared import KEPT, columns_of
from gramian.kernels import Kernel, resolve
from gramian.kernels.points import dtype_of, objects
from gramian.kernels.resolve import holds_objects, is_precomputed
from gramian.resources import memory_budget, one_blas_thread, random_of, readable, spans
from gramian.warning import warn

FEW = 300
"""Up to this many landmarks, BLAS threads would wait for each other longer than they compute."""
FIRST = 16
"""Number of landmarks to begin with when ``tol`` is given and the rule cannot extend its choice."""


@dataclass(eq=False, repr=False)
class Nystroem(ClassNamePrefixFeaturesOutMixin, ExplicitMap):
    """Approximate a kernel by an explicit map from landmarks.

    ``<ψ(x), ψ(z)> = k(x, m) K_mm⁻¹ k(m, z)``, exact if x or z is a landmark. Parameters and attributes are those of
    scikit-learn; there is a choice of rules for the landmarks, and the map uses the Cholesky factor of K_mm, without
    landmarks that are linear combinations of the others up to rounding.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        The kernel.
    gamma : {"scale", "auto"}, float or None, default=None
        For a kernel given by name: ``"scale"`` is 1 / (d var(X)), ``"auto"`` and ``None`` are 1 / d.
    coef0 : float or None, default=None
        For a kernel given by name; ``None`` means 1.
    degree : float or None, default=None
        Degree of the polynomial kernel; ``None`` means 3.
    kernel_params : dict or None, default=None
        Further keyword arguments of a callable kernel.
    n_components : int, default=100
        Number of landmarks at most; reduced, with a warning, if there are fewer rows.
    selection : {"rpcholesky", "uniform", "greedy", "leverage", "kmeans"}, default="rpcholesky"
        How landmarks are chosen: among all rows, or, if there are many, among a uniform sample of 10,000 rows or ten
        for each landmark, whichever is more.
    tol : float or None, default=None
        Take only as many landmarks as a trace error of ``tol`` needs, and warn if ``n_components`` are too few.
        ``"rpcholesky"`` and ``"greedy"`` add landmarks until it is reached; the other rules start again with twice as
        many. With ``tol``, landmarks are chosen among all rows.
    memory : int, str or None, default=None
        The most bytes to hold, including the features of the rows of ``fit``.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the choice of landmarks.
    n_jobs : int or None, default=None
        Threads; ``None`` for every core.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which kernel values with the landmarks are computed, through torch (``pip install '.[gpu]'``);
        ``"auto"`` uses one if there is one and the kernel can run there. It is not saved with the model.

    Attributes
    ----------
    components_ : array of shape (n_components_, d), or array of object of shape (n_components_,)
        The landmarks.
    component_indices_ : array of shape (n_components_,)
        Indices of the landmarks among the rows of X.
    normalization_ : array of shape (n_components_, n_components_)
        L⁻¹, lower triangular: ``transform(X) = k(X, components_) @ normalization_.T``.
    trace_error_ : float
        ``tr(K - K̂) / tr K`` on the rows of ``fit``; for small data it is computed when first read.
    n_features_in_, feature_names_in_ : int, array of shape (n_features_in_,)
        Number of columns of X, and their names if X has names.
    kernel_ : Kernel
        The kernel that was used.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.features.nystrom import Nystroem
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> F = Nystroem(gamma=1.0, n_components=8, random_state=0).fit_transform(X)
    >>> F.shape, bool(abs(F @ F.T - np.exp(-((X - X.T) ** 2))).max() < 1e-6)
    ((50, 8), True)
    """

    kernel: Any = "rbf"
    _: KW_ONLY
    gamma: float | str | None = None
    coef0: float | None = None
    degree: float | None = None
    kernel_params: dict[str, Any] | None = None
    n_components: int = 100
    selection: str = "rpcholesky"
    tol: float | None = None
    memory: int | str | None = None
    random_state: Any = None
    n_jobs: int | None = None
    device: str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = constraints(
        *("kernel", "gamma", "n_components", "memory", "random_state", "n_jobs", "device"),
        coef0=[Interval(Real, None, None, closed="neither"), None],
        degree=[Interval(Real, 0, None, closed="left"), None],
        kernel_params=[dict, None],
        selection=[StrOptions(set(RULES))],
        tol=[Interval(Real, 0, None, closed="neither"), None],
    )

    _keeps_size = True
    """Whether to pad with zero features up to ``n_components`` if K has a lower rank; estimators do not need them."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

    @parameters_checked
    def fit_transform(self, X: Any, y: Any = None) -> NDArray[Any]:
        """Choose the landmarks and return the features of the same rows: X (n, d) → (n, n_components_)."""
        if is_blocks(X):
            return self.fit(X).transform(X)
        X = self._validated(X, reset=True)
        return self._with_error(X, *self._chosen(X))

    def _fit(self, X: Any) -> None:
        """Choose the landmarks; if X is small, keep it and compute ``trace_error_`` when it is first read."""
        factor, diagonal = self._chosen(X)
        numbers = isinstance(X, np.ndarray) and X.dtype != object and not is_precomputed(self.kernel_)
        if factor is None and self.memory is None and numbers and X.size <= KEPT:
            self._unseen = X.copy()
        else:
            self._with_error(X, factor, diagonal)

    def _chosen(self, X: Any) -> tuple[NDArray[np.float64] | None, NDArray[Any] | None]:
        """Choose the landmarks; return the features of all rows and the diagonal of K, each None if not computed."""
        kernel, among = self._resolved(X), None
        # ``tol`` bounds the trace error over all rows, so with it there is no sampling.
        if self.tol is None and not is_precomputed(kernel) and not holds_objects(self.kernel, X):
            among = sampled_rows(X.shape[0], self.n_components, self.memory, self.random_state)
        factor, gram = self._choose(kernel, X, among)
        return factor, gram.diagonal() if among is None else None

    def _with_error(self, X: Any, factor: NDArray[Any] | None, diagonal: NDArray[Any] | None) -> NDArray[Any]:
        """Set the trace error, and return the features of all rows."""
        F = self._features(X) if factor is None else factor.astype(dtype_of(X), copy=False)
        diagonal = (self.kernel_.diag(X) if diagonal is None else diagonal).astype(np.float64, copy=False)
        missed = np.maximum(diagonal - np.einsum("ij,ij->i", F, F, dtype=np.float64), 0.0)
        self.trace_error_ = float(missed.sum() / diagonal.sum()) if diagonal.any() else 0.0
        return F

    @cached_property
    def trace_error_(self) -> float:
        """The trace error; computed when first read if ``fit`` computed no features."""
        if "_unseen" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'trace_error_'")
        self._with_error(self.__dict__.pop("_unseen"), None, None)
        return float(vars(self)["trace_error_"])

    def __getstate__(self) -> Any:
        hasattr(self, "trace_error_")  # computes it, so that copies and files do not hold the rows
        return super().__getstate__()

    @parameters_checked
    def _fit_landmarks(self, X: Any) -> Self:
        """Choose the landmarks among all rows without computing features; the caller sets ``trace_error_``."""
        X = self._validated(X, reset=True)
        self._choose(self._resolved(X), X, None)
        self.trace_error_ = 0.0
        return self

    def _validated(self, X: Any, *, reset: bool) -> Any:
        if not holds_objects(self.kernel, X):
            return super()._validated(X, reset=reset)
        if reset:
            if self.selection == "kmeans":
                raise ValueError("selection='kmeans' needs means of rows, which objects do not have; use another rule.")
            self.n_features_in_ = 1
            self.__dict__.pop("feature_names_in_", None)
        return objects(X, kernel=type(self.kernel).__name__)

    def _resolved(self, X: Any) -> Kernel:
        named = isinstance(self.kernel, str) and self.kernel != "precomputed"
        if not named and not (self.gamma is self.coef0 is self.degree is None):
            raise ValueError(
                "Don't pass gamma, coef0 or degree to Nystroem if its kernel is not given by name; set them on the "
                "kernel itself."
            )
        degree, coef0 = 3 if self.degree is None else self.degree, 1.0 if self.coef0 is None else self.coef0
        return resolve(self.kernel, X, gamma=self.gamma, degree=degree, coef0=coef0, params=self.kernel_params)

    def _choose(
        self, kernel: Kernel, X: Any, among: NDArray[np.intp] | None
    ) -> tuple[NDArray[np.float64] | None, Gram]:
        """Choose landmarks among the rows ``among`` of X, or all of them.

        Returns the features of all rows if the rule computed them, and K of the rows that were chosen among.
        """
        for name in ("trace_error_", "_unseen"):
            self.__dict__.pop(name, None)
        rank = self._rank(X.shape[0])
        some = X if among is None else X[among]
        gram = self._square(kernel, some)
        with one_blas_thread() if rank <= FEW else nullcontext():
            index, lower, factor = self._landmarks(gram, some, rank)
            whitening = inverse(lower) if index.size else np.zeros((1, 1))
        if index.size == 0:  # K = 0: one zero feature
            index, factor = np.zeros(1, dtype=np.intp), None
        elif among is not None:
            index, factor = among[index], None
        if kernel.tells_copies:  # noise of a landmark with itself, which ``transform`` does not see
            factor = None
        if self._keeps_size and self.tol is None and (more := rank - index.size) > 0:
            # K has a lower rank: add further rows as landmarks, with zero features.
            index = np.concatenate([index, np.setdiff1d(np.arange(X.shape[0]), index)[:more]])
            whitening = np.pad(whitening, (0, more))
            factor = None if factor is None else np.pad(factor, ((0, 0), (0, more)))
        self.kernel_ = kernel
        self.component_indices_ = index
        self.components_ = X[index]
        self.normalization_ = whitening
        self._n_features_out = index.size
        return factor, gram

    def _square(self, kernel: Kernel, X: Any) -> Gram:
        """K of rows with themselves, which are prepared only if the choice of landmarks needs all of them."""
        if not self.needs_features and self.device is None and isinstance(X, np.ndarray):
            with suppress(TypeError):  # not stationary
                return Deferred(kernel, X, self.memory, self.n_jobs)
        return Gram(kernel, X, memory=self.memory, n_jobs=self.n_jobs, device=self.device)

    def _landmarks(self, gram: Gram, X: Any, rank: int) -> tuple[NDArray[np.intp], NDArray[Any], NDArray[Any] | None]:
        """Landmarks, the Cholesky factor of their block of K, and the features of all rows if already computed."""
        if not self.needs_features:
            return *landmarks_and_factor(gram, rank, random_of(self.random_state)), None
        pivots = self._pivots(gram, X, rank, random_of(self.random_state))
        return pivots.indices, np.tril(pivots.factor[pivots.indices]), pivots.factor

    @property
    def needs_features(self) -> bool:
        """Whether choosing the landmarks computes the features of all rows."""
        return self.selection != "rpcholesky" or self.tol is not None

    def _pivots(self, gram: Gram, X: Any, rank: int, rng: np.random.RandomState) -> Pivots:
        """Choose landmarks by pivots: ``n_components`` of them, or as many as ``tol`` needs."""
        if self.tol is None:
            return select(self.selection, gram, rank, rng, X=X)
        if self.selection in ("rpcholesky", "greedy"):
            pivots = RULES[self.selection](gram, rank, rng, tol=self.tol)
        else:
            size = min(FIRST, rank)
            pivots = select(self.selection, gram, size, rng, X=X)
            while pivots.trace_error > self.tol and size < rank:
                size = min(2 * size, rank)
                pivots = select(self.selection, gram, size, rng, X=X)
        if pivots.trace_error > self.tol:
            warn(
                f"Nystroem: {pivots.rank} landmarks leave a trace error of {pivots.trace_error:.1e}, above "
                f"tol={self.tol:.1e}; raise n_components.",
                ConvergenceWarning,
            )
        return pivots

    def _rank(self, n: int) -> int:
        if self.n_components > n:
            warn(f"n_components = {self.n_components} is more than the {n} rows; all rows are taken as landmarks.")
        rank, memory = int(min(self.n_components, n)), memory_budget(self.memory)
        if 8 * n * rank > memory:
            raise MemoryError(
                f"features of {n:,} rows by {rank:,} landmarks take {readable(8 * n * rank)} and memory is "
                f"{readable(memory)}; lower n_components or raise memory=."
            )
        return rank

    def _features(self, X: Any) -> NDArray[Any]:
        few = None if is_precomputed(self.kernel_) else columns_of(self, self.kernel_, self.components_).tile(X)
        if few is not None:
            return np.asarray(few @ self.normalization_.T)
        K = self._gram(X)
        out = np.empty(K.shape, dtype_of(X))
        height = max(memory_budget(self.memory) // (4 * 8 * K.shape[1]), 1)
        for rows in spans(K.shape[0], height):
            if K.card is not None:
                out[rows] = K.card.product(K.left[rows], K.right, self.normalization_.T, False)
                continue
            # K L⁻ᵀ as a triangular product, with half the operations of a full one.
            strip = np.ascontiguousarray(K.rows(rows), dtype=np.float64)
            out[rows] = scipy.linalg.blas.dtrmm(1.0, self.normalization_, strip.T, lower=1, overwrite_b=1).T
        return out

    def _gram(self, X: Any, memory: int | str | None = None) -> Gram:
        landmarks = self.components_
        if is_precomputed(self.kernel_):
            X, landmarks = X[:, self.component_indices_], landmarks[:, self.component_indices_]
        memory = self.memory if memory is None else memory
        return Gram(self.kernel_, X, landmarks, memory=memory, n_jobs=self.n_jobs, device=self.device)

    def values(self, X: Any) -> NDArray[np.float64]:
        """Return k(X, landmarks); the features are ``values(X) @ normalization_.T``: X (m, d) → (m, n_components_)."""
        return np.asarray(self._gram(self._validated(X, reset=False)).dense())

    def expansion(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``L⁻ᵀ w``, the coefficients of ``<w, ψ(·)>`` at the landmarks: w (n_components_, k) → the same."""
        check_is_fitted(self)
        return np.asarray(self.normalization_.T @ w)

    def evaluate(self, X: Any, w: NDArray[np.float64], memory: int | str | None = None) -> NDArray[np.float64]:
        coefficients = self.expansion(w)
        X = wide(self._validated(X, reset=False))
        return np.asarray(self._gram(X, memory) @ coefficients)
