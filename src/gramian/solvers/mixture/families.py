"""Families of component densities of a mixture, each given by its log density, weighted fit and sampler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

Array = NDArray[np.float64]


class Family:
    """A family of densities p(x | θ) for the components of a mixture.

    A subclass, or any object with these methods, defines ``log_density``, ``fit`` and ``sample``; ``check`` and
    ``n_parameters`` are optional. The parameters θ of one component may be any array.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.mixture.family_mixture import FamilyMixture
    >>> from gramian.solvers.mixture.families import Family
    >>> class Exponential(Family):
    ...     def log_density(self, X, theta):
    ...         return (np.log(theta) - theta * X).sum(axis=1)
    ...
    ...     def fit(self, X, weights):
    ...         return weights.sum() / (weights @ X)
    ...
    ...     def sample(self, theta, size, rng):
    ...         return rng.exponential(1 / theta, (size, len(theta)))
    >>> X = np.random.default_rng(0).exponential([[1.0]] * 200 + [[20.0]] * 200)
    >>> model = FamilyMixture(2, Exponential(), random_state=0, max_iter=500).fit(X)
    >>> np.sort(model.means_.ravel()).round(0)
    array([ 1., 23.])
    """

    def log_density(self, X: Array, theta: Any) -> Array:
        """Return log p(x | θ), which may be minus infinity: X (n, d), θ of one component → (n,)."""
        raise NotImplementedError(f"{type(self).__name__} must define log_density(X, theta).")

    def fit(self, X: Array, weights: Array) -> Any:
        """Return the θ that maximises ``Σ_i weights_i log p(x_i | θ)``: X (n, d), weights (n,) >= 0 → array θ."""
        raise NotImplementedError(f"{type(self).__name__} must define fit(X, weights).")

    def sample(self, theta: Any, size: int, rng: np.random.RandomState) -> Array:
        """Draw samples of one component: its θ, their number, the source of randomness → (size, d)."""
        raise NotImplementedError(f"{type(self).__name__} must define sample(theta, size, rng).")

    def check(self, X: Array) -> None:
        """Raise ``ValueError`` if samples are not in the support of this family: X (n, d) → None."""


def _means(X: Array, weights: Array) -> Array:
    """Weighted means, clipped to the range of the data so that rounding cannot leave it."""
    return np.asarray(np.clip((weights @ X) / weights.sum(), X.min(axis=0), X.max(axis=0)))


@dataclass(frozen=True)
class Gaussian(Family):
    """Independent Gaussian inputs, with parameters (2, d): means above variances.

    Parameters
    ----------
    least : float, default=1e-6
        The least variance, so that no component becomes infinitely narrow.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.solvers.mixture.families import Gaussian
    >>> Gaussian().fit(np.array([[0.0], [2.0]]), np.ones(2))
    array([[1.],
           [1.]])
    """

    least: float = 1e-6

    def log_density(self, X: Array, theta: Array) -> Array:
        mean, variance = theta
        return np.asarray(-0.5 * ((X - mean) ** 2 / variance + np.log(2.0 * np.pi * variance)).sum(axis=1))

    def fit(self, X: Array, weights: Array) -> Array:
        mean = _means(X, weights)
        variance = (weights @ (X - mean) ** 2) / weights.sum()
        return np.array([mean, np.maximum(variance, self.least)])

    def sample(self, theta: Array, size: int, rng: np.random.RandomState) -> Array:
        mean, variance = theta
        return np.asarray(mean + np.sqrt(variance) * rng.standard_normal((size, len(mean))))


@dataclass(frozen=True)
class Bernoulli(Family):
    """Independent inputs that are 0 or 1: ``Π_j θ_j^x_j (1 - θ_j)^(1 - x_j)``.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.solvers.mixture.families import Bernoulli
    >>> Bernoulli().fit(np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([3.0, 1.0]))
    array([0.25, 1.  ])
    """

    def log_density(self, X: Array, theta: Array) -> Array:
        return np.asarray((xlogy(X, theta) + xlog1py(1.0 - X, -theta)).sum(axis=1))

    def fit(self, X: Array, weights: Array) -> Array:
        return _means(X, weights)

    def sample(self, theta: Array, size: int, rng: np.random.RandomState) -> Array:
        return np.asarray(rng.random_sample((size, len(theta))) < theta, dtype=np.float64)

    def support(self, whole: Array) -> Array:
        """Return the values with a density among some whole numbers: → (m,)."""
        return np.array([0.0, 1.0])

    def check(self, X: Array) -> None:
        if not np.all((X == 0) | (X == 1)):
            raise ValueError("a mixture of Bernoulli components takes inputs that are 0 or 1; encode them so.")


@dataclass(frozen=True)
class Poisson(Family):
    """Independent counts: ``Π_j θ_j^x_j e^(-θ_j) / x_j!``.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.solvers.mixture.families import Poisson
    >>> Poisson().log_density(np.array([[0.0], [2.0]]), np.array([2.0])).round(4)
    array([-2.    , -1.3069])
    """

    def log_density(self, X: Array, theta: Array) -> Array:
        return np.asarray((xlogy(X, theta) - theta - gammaln(X + 1.0)).sum(axis=1))

    def fit(self, X: Array, weights: Array) -> Array:
        return _means(X, weights)

    def sample(self, theta: Array, size: int, rng: np.random.RandomState) -> Array:
        return rng.poisson(theta, (size, len(theta))).astype(np.float64)

    def support(self, whole: Array) -> Array:
        """Return the values with a density among some whole numbers: → (m,)."""
        return whole

    def check(self, X: Array) -> None:
        if not np.all((X >= 0) & (np.floor(X) == X)):
            raise ValueError("a mixture of Poisson components takes counts: whole numbers >= 0.")


FAMILIES: dict[str, type[Family]] = {"bernoulli": Bernoulli, "gaussian": Gaussian, "poisson": Poisson}
