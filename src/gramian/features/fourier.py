"""Random Fourier features: explicit maps whose inner products equal a stationary kernel in expectation (Bochner)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from gramian.features.accuracy import Components, components_for
from gramian.features.base import ExplicitMap, constraints
from gramian.features.frequencies import METHODS, draw
from gramian.features.waves import waves
from gramian.gram.device import device_for
from gramian.kernels import resolve
from gramian.kernels.resolve import resolve_gamma
from gramian.resources import random_of


@dataclass(eq=False, repr=False)
class FourierFeatures(ClassNamePrefixFeaturesOutMixin, ExplicitMap):
    """Random Fourier features of a stationary kernel, with a cosine and a sine for each frequency.

    ``ψ(x) = √(k(0)/D) (cos ω₁ᵀx … cos ω_Dᵀx, sin ω₁ᵀx … sin ω_Dᵀx)`` with D = ``n_components`` / 2 frequencies from
    the kernel's spectral measure, so that ``<ψ(x), ψ(z)>`` has expectation ``k(x, z)``, and equals it for z = x.
    ``center_`` is subtracted from the rows first, which changes no inner product and keeps float32 phases small.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        A kernel with a spectral measure: RBF, Matern, RationalQuadratic, Laplace, PowerExponential, Periodic, Constant;
        also their multiples, sums and products, and these kernels with a metric.
    n_components : int, default=100
        Number of features, two for each frequency. If it is odd, the last frequency has one feature, a cosine with
        a random phase.
    method : {"orthogonal", "iid", "sorf", "qmc"}, default="orthogonal"
        How frequencies are drawn. Orthogonal frequencies have a smaller error than independent ones at the same cost.
        ``"orthogonal"`` and ``"sorf"`` need a spectral measure with a rotation-invariant part (up to lengthscales),
        which Laplace, PowerExponential and Periodic on their own do not have.
    gamma : {"scale", "auto"}, float or None, default=None
        For a kernel given by name: ``"scale"`` is 1 / (d var(X)), ``"auto"`` and ``None`` are 1 / d.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the frequencies.
    n_jobs : int or None, default=None
        Threads; ``None`` for every core.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which the features are computed, through torch (``pip install '.[gpu]'``); ``"auto"`` uses one if
        there is one and the rows are dense. It is not saved with the model.

    Attributes
    ----------
    frequencies_ : array of shape (d, m)
        The frequencies ω, one in each column; m = ⌈n_components / 2⌉.
    offset_ : array of shape (m,)
        Phases: zero, except for a frequency without its sine.
    center_ : array of shape (d,)
        Mean of the rows of ``fit``; zero if they were sparse.
    n_features_in_, feature_names_in_ : int, array of shape (n_features_in_,)
        Number of columns of X, and their names if X has names.
    kernel_ : Kernel
        The kernel that is approximated.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.features.fourier import FourierFeatures
    >>> from gramian.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> F = FourierFeatures(RBF(2.0), n_components=4000, random_state=0).fit_transform(X)
    >>> F.shape, bool(abs(F @ F.T - RBF(2.0)(X)).max() < 0.05)
    ((50, 4000), True)
    """

    kernel: Any = "rbf"
    n_components: int = 100
    _: KW_ONLY
    method: str = "orthogonal"
    gamma: float | str | None = None
    random_state: Any = None
    n_jobs: int | None = None
    device: str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = constraints(
        *("kernel", "n_components", "gamma", "random_state", "n_jobs", "device"), method=[StrOptions(set(METHODS))]
    )

    def _fit(self, X: Any) -> None:
        if self.gamma is not None and not isinstance(self.kernel, str):
            raise ValueError("gamma belongs to a kernel given by name; set the lengthscale on the kernel itself.")
        kernel = resolve(self.kernel, X, gamma=self.gamma)
        rng = np.random.default_rng(random_of(self.random_state).randint(2**32, dtype=np.uint64))
        size = (self.n_components + 1) // 2
        self.frequencies_ = draw(kernel, X.shape[1], size, self.method, rng).T
        self.offset_ = np.zeros(size)
        if self.n_components % 2:
            self.offset_[-1] = rng.uniform(0.0, 2.0 * np.pi)
        dense = isinstance(X, np.ndarray)
        self.center_ = np.asarray(X.mean(axis=0, dtype=np.float64)) if dense else np.zeros(X.shape[1])
        self.kernel_ = kernel
        self._n_features_out = self.n_components

    def _features(self, X: Any) -> NDArray[Any]:
        size = self._n_features_out
        scale = math.sqrt(2.0 * self.kernel_.amplitude / size)
        if self.device is not None and (device := device_for(self.device, X)) is not None:
            from gramian.gram.gpu.waves import waves as on_card

            return on_card(X, self.frequencies_, self.offset_, scale, size, self.center_, device)
        return waves(X, self.frequencies_, self.offset_, scale, size, self.n_jobs, self.center_)

    def components_for(self, eps: float, X: Any, delta: float = 0.05) -> Components:
        """Return how many components keep the error within eps, with probability at least 1 - delta.

        Parameters
        ----------
        eps : float
            The permitted error, relative to k(x, x).
        X : array-like or CSR of shape (n, d)
            The rows on which the error is to be small.
        delta : float, default=0.05
            The probability of failure.

        Returns
        -------
        Components
            The numbers by the uniform bound and by the sharper empirical bound.
        """
        check_is_fitted(self)
        return components_for(self.kernel_, self._validated(X, reset=False), eps, delta)


@dataclass(eq=False, repr=False)
class RBFSampler(ClassNamePrefixFeaturesOutMixin, ExplicitMap):
    """Random Fourier features of the RBF kernel exp(-γ‖x - z‖²): for each frequency a cosine with a random phase.

    Parameters and attributes are those of scikit-learn, and so are the features for the same ``random_state``.
    :class:`FourierFeatures` has a smaller error with the same number of features.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float, default=1.0
        γ; ``"scale"`` is 1 / (d · var(X)), ``"auto"`` is 1 / d.
    n_components : int, default=100
        Number of features.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the frequencies and phases.
    n_jobs : int or None, default=None
        Threads; ``None`` for every core.

    Attributes
    ----------
    random_weights_ : array of shape (d, n_components)
        Frequencies.
    random_offset_ : array of shape (n_components,)
        Phases, between 0 and 2π.
    n_features_in_, feature_names_in_ : int, array of shape (n_features_in_,)
        Number of columns of X, and their names if X has names.
    kernel_ : Kernel
        The kernel that is approximated.

    Examples
    --------
    >>> from gramian.features.fourier import RBFSampler
    >>> RBFSampler(n_components=3, random_state=0).fit_transform([[0.0, 1.0]]).round(3)
    array([[ 0.763, -0.311, -0.032]])
    """

    _: KW_ONLY
    gamma: float | str = 1.0
    n_components: int = 100
    random_state: Any = None
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = constraints(
        *("n_components", "random_state", "n_jobs"),
        gamma=[StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
    )

    def _fit(self, X: Any) -> None:
        rng = random_of(self.random_state)
        self._gamma = gamma = resolve_gamma(self.gamma, X)
        weights = math.sqrt(2.0 * gamma) * rng.normal(size=(X.shape[1], self.n_components))
        self.random_weights_ = weights.astype(X.dtype, copy=False)
        self.random_offset_ = rng.uniform(0, 2 * np.pi, size=self.n_components).astype(X.dtype, copy=False)
        self.kernel_ = resolve("rbf", gamma=gamma)
        self._n_features_out = self.n_components

    def _features(self, X: Any) -> NDArray[Any]:
        size = self._n_features_out
        return waves(X, self.random_weights_, self.random_offset_, math.sqrt(2.0 / size), size, self.n_jobs)
