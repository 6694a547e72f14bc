"""Kernel principal components: exact, matrix-free or through a map, with pre-images and a certificate."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError, PositiveSpectrumWarning
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from gramian.data.blocks import by_blocks
from gramian.data.passes import Held, Passes
from gramian.data.tensors import with_tensors
from gramian.docstrings import documented
from gramian.estimators.base import (
    COMMON,
    DTYPES,
    KernelParameters,
    adapted,
    fitting,
    forget,
    is_blocks,
    kernel_tags,
    opened,
    refuse,
    refuse_device,
    resolved,
    sampled,
    validated,
)
from gramian.estimators.ridge import KernelRidge
from gramian.features.base import WorkerMap, fit_map, parameters_checked
from gramian.gram import Gram
from gramian.gram.operator import narrow, wide
from gramian.gram.prepared import columns_of
from gramian.kernels import RBF, Kernel
from gramian.kernels.algebra import Scaled
from gramian.kernels.points import dense, dtype_of
from gramian.kernels.resolve import holds_objects, is_precomputed, resolve_gamma
from gramian.progress import Clock, Tick, progress, silent
from gramian.resources import memory_budget, random_of, repeatable, spans
from gramian.solvers.spectral.components import by_features, by_gram
from gramian.solvers.spectral.eigen import Eigenpairs, Request, Rounding
from gramian.solvers.spectral.preimage import fixed_point
from gramian.warning import warn

NEGLIGIBLE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-7}
"""Eigenvalues below this fraction of the largest are set to zero; by the dtype of X, as in scikit-learn."""
NEGATIVE = 1e-5
"""An eigenvalue more negative than this fraction of the largest is not due to rounding."""
NEIGHBOURS = 10
"""Number of nearest training rows whose mean is the first guess of a pre-image."""


@documented
@dataclass(eq=False, repr=False)
class KernelPCA(KernelParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components in the feature space of a kernel.

    With ``K v_j = λ_j v_j``, ‖v_j‖ = 1, the projection of x on component j is ``λ_j^(-1/2) Σ_i v_ij k(x_i, x)``; K is
    centred in feature space unless ``center=False``. Parameters, defaults and attributes are those of scikit-learn. In
    addition, K need not fit in memory, and there are maps, fixed-point pre-images and a certificate.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; ``None`` for all with a positive eigenvalue.
    kernel : str, Kernel or callable, default="linear"
        The kernel; ``"precomputed"`` if X is the Gram matrix.
    alpha : float, default=1.0
        Regularisation of the ridge regression behind ``inverse="ridge"``.
    fit_inverse_transform : bool, default=False
        Whether to prepare ``inverse_transform``.
    eigen_solver : {"auto", "dense", "lanczos", "arpack", "randomized"}, default="auto"
        ``"dense"`` decomposes the n x n matrix; the others only multiply by it, within ``memory``. ``"lanczos"`` is
        block Lanczos with full reorthogonalisation; ``"auto"`` uses it if n > 1000 and at most a fifth of all
        components are requested, and ``"dense"`` otherwise.
    tol : float, default=0
        The relative eigen-residual to reach; zero means 1e-5 (``"lanczos"``) or machine precision (``"arpack"``).
        ``"randomized"`` does a fixed amount of work, and warns if its residual is above ``tol``, by default 0.01.
    max_iter : int or None, default=None
        The most block products of ``"lanczos"`` (by default 300) or restarts of ``"arpack"``.
    iterated_power : int or "auto", default="auto"
        Block products of ``"randomized"``; ``"auto"`` is 7 for fewer than a tenth of all components, else 4.
    remove_zero_eig : bool, default=False
        Whether to drop components with eigenvalue zero; always done if ``n_components`` is ``None``.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start of the iterative solvers, which is always the same with ``None``, and of ``approximation``.
    copy_X : bool, default=True
        Whether to keep a copy of X; if not, X must not be changed afterwards.
    center : bool, default=True
        Whether to subtract the mean in feature space.
    inverse : {"ridge", "fixed-point"}, default="ridge"
        How ``inverse_transform`` finds pre-images: by a ridge regression of rows on components, or, for the RBF
        kernel, by the fixed-point iteration of Mika et al. (1999) towards the nearest feature vector.
    approximation : map or None, default=None
        An unfitted ``FourierFeatures``, ``Nystroem`` or ``PolynomialMap``: the components are then those of its
        features, that is, of an approximate K; ``eigen_solver`` must then be ``"auto"``.
    memory : int, str or None, default=None
        The most bytes of K to hold, as a number or ``"1GB"``; by default half of what is available. The rows, their
        projections and up to 8 MB for each thread come on top.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which K is computed, multiplied and decomposed, through torch (``pip install '.[gpu]'``); ``"auto"``
        uses one if there is one and the kernel can run there. It is not saved with the model.
    max_time : float or None, default=None
        Seconds after which ``"lanczos"`` returns the best so far, with a warning.
    {those of KernelParameters}

    Attributes
    ----------
    eigenvalues_ : array of shape (r,)
        Eigenvalues in descending order; zero below 1e-12 λ₁ (of float32 rows 2e-7 λ₁, as in scikit-learn), or if
        rounding leaves them fewer than two digits.
    eigenvectors_ : array of shape (n, r)
        Eigenvectors of unit length, signed so that the entry of largest modulus is positive. Absent for blocks.
    explained_variance_ratio_ : array of shape (r,)
        Eigenvalues divided by the sum of all eigenvalues, computed or not.
    dual_coef_ : array of shape (n, d)
        With ``fit_inverse_transform`` and ``inverse="ridge"``: the coefficients of the ridge regression.
    X_transformed_fit_ : array of shape (n, r)
        With ``fit_inverse_transform``: projections of the training rows.
    X_fit_ : array or CSR of shape (n, d)
        The training rows. Absent for blocks.
    gamma_ : float
        The gamma used, if the kernel was given by name.
    approximation_ : map
        The fitted map, if there is one.
    certificate_ : Certificate
        The worst ``‖K v - λ v‖ / λ``; relative to λ₁ if the residual is only rounding, below 1.4e-14 (λ₁ + λ₀)
        with λ₀ the norm of what centring removed, ``Σ K_ij / n``.
    {those of KernelParameters}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.pca import KernelPCA
    >>> angle = np.linspace(0, 6, 200)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)]) * np.repeat([1.0, 3.0], 100)[:, None]
    >>> model = KernelPCA(2, kernel="rbf", gamma=1.0).fit(X)
    >>> model.transform(X).shape, model.certificate_.converged
    ((200, 2), True)
    """

    n_components: int | None = None
    _: KW_ONLY
    kernel: Any = "linear"
    alpha: float = 1.0
    fit_inverse_transform: bool = False
    eigen_solver: str = "auto"
    tol: float = 0
    max_iter: int | None = None
    iterated_power: int | str = "auto"
    remove_zero_eig: bool = False
    random_state: Any = None
    copy_X: bool = True
    center: bool = True
    inverse: str = "ridge"
    approximation: Any = None
    device: str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_inverse_transform": ["boolean"],
        "eigen_solver": [StrOptions({"auto", "dense", "lanczos", "arpack", "randomized"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "iterated_power": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "remove_zero_eig": ["boolean"],
        "copy_X": ["boolean"],
        "center": ["boolean"],
        "inverse": [StrOptions({"ridge", "fixed-point"})],
    }

    def __sklearn_tags__(self) -> Any:
        tags = kernel_tags(super().__sklearn_tags__(), self.kernel)
        tags.input_tags.sparse = not self.fit_inverse_transform
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.eigenvalues_.shape[0])

    # ---- fit ----------------------------------------------------------------------------------------------------

    @parameters_checked
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), Blocks, path or Dask collection
            Rows; the square Gram matrix if the kernel is precomputed; objects if the kernel compares objects.
        y : None
            Not used.
        """
        with fitting(self) as clock:
            refuse_device(self)
            if self.fit_inverse_transform and is_precomputed(self.kernel):
                raise ValueError("Cannot fit_inverse_transform with a precomputed kernel.")
            if self.approximation is None:
                self._fit_exactly(X, clock)
            else:
                with self._passes(X) as passes:
                    self._fit_in_features(passes, clock)
            if self.fit_inverse_transform:
                self._fit_inverse(self.X_fit_)
        return self

    def _training_rows(self, X: Any) -> Any:
        # Pre-images are dense rows of numbers, so other rows are refused if pre-images are requested.
        if self.fit_inverse_transform and holds_objects(self.kernel, X):
            raise ValueError("pre-images are rows of numbers, got objects; leave fit_inverse_transform=False.")
        sparse: Any = False if self.fit_inverse_transform else "csr"
        return validated(self, X, accept_sparse=sparse, copy=self.copy_X)

    def _request(self, X: Any, n: int, clock: Clock, tick: Tick) -> Request:
        return Request(
            n if self.n_components is None else min(self.n_components, n),
            self.tol,
            self.eigen_solver,
            self.center,
            self.max_iter,
            None if isinstance(self.iterated_power, str) else self.iterated_power,
            Rounding(floor=NEGLIGIBLE[dtype_of(X)]),
            random_of(repeatable(self.random_state)),
            clock,
            tick,
        )

    def _fit_exactly(self, X: Any, clock: Clock) -> None:
        if is_blocks(X):
            refuse(self)
        X = self._training_rows(X)
        kernel, rows, means = resolved(self, X), wide(X), None
        gram = Gram(kernel, rows, memory=self.memory, n_jobs=self.n_jobs, device=self.device)
        try:
            gram.check_symmetric()
        except ValueError as error:
            if not is_precomputed(kernel):
                raise
            message = f"{str(error).removesuffix('.')}. As in scikit-learn, it is centred and its lower half is taken."
            warn(message)
            rows, means = _lower_half(rows, self.center)
            gram = Gram(kernel, rows, memory=self.memory, n_jobs=self.n_jobs)
        with progress(self.verbose, "KernelPCA") as tick:
            ask = self._request(X, X.shape[0], clock, tick)
            if means is not None:  # centred already
                ask = replace(ask, center=self.center and not np.any(rows.mean(axis=0)))
            spectrum = by_gram(gram, rows, ask)
        if is_precomputed(kernel):
            self._refuse_negative(spectrum)
        self._keep(spectrum if means is None else replace(spectrum, means=means), kernel, X)

    def _refuse_negative(self, spectrum: Eigenpairs) -> None:
        """Raise if the user's Gram matrix has a negative eigenvalue among those requested, as scikit-learn does."""
        # With "randomized", as in scikit-learn, the eigenvalues of largest modulus are requested.
        by_size = np.count_nonzero(np.abs(spectrum.values) > -spectrum.smallest) < spectrum.values.size
        worst = spectrum.smallest if self.eigen_solver == "randomized" and by_size else spectrum.least
        if worst < -NEGATIVE * max(float(spectrum.values.max(initial=0.0)), -worst):
            raise ValueError(
                f"There are significant negative eigenvalues ({worst:.3g} beside {spectrum.values.max():.3g}). Either "
                "the matrix is not PSD, or there was an issue while computing the eigendecomposition of the matrix; "
                "ask for fewer components, or check the matrix with gramian.kernels.is_kernel."
            )

    def _passes(self, X: Any) -> AbstractContextManager[Passes]:
        """Open passes over rows, in memory or in blocks."""
        if self.eigen_solver != "auto":
            raise ValueError(
                f"eigen_solver={self.eigen_solver!r} cannot be combined with approximation=; leave eigen_solver='auto'."
            )
        if not is_blocks(X):
            X = Held(self._training_rows(X), memory=self.memory)
        elif self.fit_inverse_transform:
            raise ValueError("fit_inverse_transform keeps the projections of all rows; over blocks leave it at False.")
        return opened(self, X, targets=False)

    def _fit_in_features(self, passes: Passes, clock: Clock) -> None:
        if passes.blocks.weight is not None:
            raise ValueError("KernelPCA takes no weights; leave weight= out of Blocks.")
        sample, held = sampled(self, passes), isinstance(passes.blocks, Held)
        features = fit_map(adapted(self, resolved(self, wide(sample.X))), passes, sample, error=False)
        ask = self._request(sample.X, passes.blocks.n_rows, clock, silent)
        spectrum, error = by_features(passes, WorkerMap.of(features, sample.X[:1]), sample, ask, every=held)
        if hasattr(features, "trace_error_"):
            features.trace_error_ = error
        # Signs are such that the largest projection among the sample's rows is positive.
        self._keep(
            spectrum, features.kernel_, passes.blocks.all.X if held else sample.X, sample.index if held else None
        )
        self.approximation_ = features
        if not held:
            del self.X_fit_, self.eigenvectors_

    def _keep(self, spectrum: Eigenpairs, kernel: Kernel, X: Any, deciding_rows: NDArray[Any] | None = None) -> None:
        """Store the components, with signs such that the largest entry among ``deciding_rows`` is positive."""
        forget(self)
        self.gamma_ = 1.0 / self.n_features_in_ if self.gamma is None else self.gamma
        if isinstance(self.gamma, str):
            self.gamma_ = resolve_gamma(self.gamma, X)
        self.X_fit_, self.kernel_ = X, kernel
        self._warn_if_indefinite(spectrum)
        values = spectrum.values
        deciding = spectrum.vectors if deciding_rows is None else spectrum.vectors[deciding_rows]
        largest = np.argmax(np.abs(deciding), axis=0)
        signs = np.where(deciding[largest, np.arange(values.size)] < 0, -1.0, 1.0)
        kept = np.ones(values.size, dtype=bool)
        if self.remove_zero_eig or self.n_components is None:
            kept = values > 0
        self.certificate_ = spectrum.certificate
        self.eigenvalues_, self.eigenvectors_ = values[kept], (spectrum.vectors * signs)[:, kept]
        trace = spectrum.trace
        self.explained_variance_ratio_ = self.eigenvalues_ / trace if trace > 0 else np.zeros(self.eigenvalues_.size)
        if spectrum.directions is not None:
            self._projector = (spectrum.directions * signs)[:, kept]
        else:
            self._projector = self._expansion()
        self._shift = spectrum.means @ self._projector

    def _expansion(self) -> NDArray[np.float64]:
        """Coefficients of the principal directions at the training rows; zero if the eigenvalue is zero."""
        roots = np.sqrt(self.eigenvalues_)
        expansion = np.divide(self.eigenvectors_, roots, out=np.zeros(self.eigenvectors_.shape), where=roots > 0)
        if self.center:
            # The columns sum to zero up to rounding; if exactly, the mean of a new row's kernel values drops out.
            expansion -= expansion.mean(axis=0)
        return expansion

    def _warn_if_indefinite(self, spectrum: Eigenpairs) -> None:
        largest = float(spectrum.values.max(initial=0.0))
        if spectrum.smallest < -NEGATIVE * max(largest, -spectrum.smallest):
            warn(
                f"the Gram matrix has an eigenvalue of {spectrum.smallest:.3g} or less beside its largest, "
                f"{largest:.3g}, so the kernel is not positive semi-definite on these rows; negative "
                "eigenvalues are set to zero.",
                PositiveSpectrumWarning,
            )

    @with_tensors
    def fit_transform(self, X: Any, y: Any = None) -> NDArray[Any]:
        """Find the components and return the projections of the same rows, at no extra cost: X (n, d) → (n, r)."""
        self.fit(X)
        return self.transform(X) if is_blocks(X) else self._projections()

    def _projections(self) -> NDArray[Any]:
        return narrow(self.eigenvectors_ * np.sqrt(self.eigenvalues_), self.X_fit_)

    @by_blocks
    def transform(self, X: Any) -> NDArray[Any]:
        """Project rows on the components, by tiles of at most ``memory`` bytes.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d)
            Rows; k(new, train) if the kernel is precomputed.

        Returns
        -------
        array of shape (m, r)
            The projections, in the dtype of X.
        """
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        if hasattr(self, "approximation_"):
            projections = self.approximation_.transform(X) @ self._projector
        else:
            projections = columns_of(self, self.kernel_, self.X_fit_).times(wide(X), self._projector)
        return narrow(np.asarray(projections - self._shift), X)

    # ---- pre-images ---------------------------------------------------------------------------------------------

    def _fit_inverse(self, X: NDArray[Any]) -> None:
        self.X_transformed_fit_ = self._projections()
        if self.inverse == "fixed-point":
            inside = self.kernel_.kernel if isinstance(self.kernel_, Scaled) else self.kernel_
            if not isinstance(inside, RBF):
                raise ValueError(
                    f"inverse='fixed-point' is for the RBF kernel, but the kernel is {self.kernel_!r}; use 'ridge'."
                )
            return
        means: Any = {name: getattr(self, name) for name in ("memory", "n_jobs", "random_state", "device")}
        try:
            self._inverse = KernelRidge(self.alpha, kernel=self.kernel_, **means).fit(wide(self.X_transformed_fit_), X)
        except ValueError as error:
            raise ValueError(
                f"inverse='ridge' needs {self.kernel_!r} to take {self._n_features_out} components in place of "
                f"{X.shape[1]} inputs ({error}); use inverse='fixed-point', or one lengthscale for all inputs."
            ) from error
        self.dual_coef_ = self._inverse.dual_coef_

    @with_tensors
    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Find rows whose projections are close to the given ones, in the same dtype: X (m, r) → (m, d)."""
        check_is_fitted(self)
        if not self.fit_inverse_transform:
            raise NotFittedError(
                "The fit_inverse_transform parameter was not set to True when instantiating and hence the inverse "
                "transform is not available."
            )
        X = check_array(X, dtype=DTYPES)
        if X.shape[1] != self._n_features_out:
            raise ValueError(f"X must have one column for each of {self._n_features_out} components, got {X.shape}.")
        found = self._inverse.predict(X) if self.inverse == "ridge" else self._by_fixed_point(wide(X))
        return np.asarray(found).astype(X.dtype, copy=False)

    def _by_fixed_point(self, T: NDArray[np.float64]) -> NDArray[np.float64]:
        rows, n = wide(self.X_fit_), self.X_fit_.shape[0]
        expansion = self._expansion()
        out, stuck, clock = np.empty((T.shape[0], rows.shape[1])), 0, Clock(self.max_time)
        for part in spans(T.shape[0], max(memory_budget(self.memory) // (4 * 8 * n), 1)):
            weights = T[part] @ expansion.T + (1.0 / n if self.center else 0.0)
            start = self._first_guess(T[part], rows)
            out[part], converged = fixed_point(self.kernel_, rows, weights, start, clock=clock)
            stuck += int(np.count_nonzero(~converged))
        if stuck:
            warn(
                f"KernelPCA: {stuck} of {T.shape[0]} pre-images did not converge; these projections are far from those "
                "of any row. Keep more components, or use inverse='ridge'.",
                ConvergenceWarning,
            )
        return out

    def _first_guess(self, T: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean of the training rows whose projections are nearest."""
        from sklearn.neighbors import NearestNeighbors

        index = NearestNeighbors(n_neighbors=min(NEIGHBOURS, rows.shape[0])).fit(wide(self.X_transformed_fit_))
        return np.asarray(rows[index.kneighbors(T, return_distance=False)].mean(axis=1))


def _lower_half(K: Any, center: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The matrix that scikit-learn decomposes if K is not symmetric, and the means of the columns: K (n, n)."""
    K = dense(K)
    means, n = K.mean(axis=0) if center else np.zeros(K.shape[0]), K.shape[0]
    A = K - means - K.mean(axis=1)[:, None] + means.mean() if center else K.copy()
    upper = np.triu_indices(n, 1)
    A[upper] = A.T[upper]
    return A, means
