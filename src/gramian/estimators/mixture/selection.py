"""Selection of the number of components of a mixture by an information criterion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from gramian.estimators.base import row_weights
from gramian.estimators.mixture.gaussian import GaussianMixture
from gramian.resources import random_of


@dataclass(frozen=True, eq=False)
class Selection:
    """A choice among numbers of components."""

    criterion: str  # Name of the criterion
    n_components: tuple[int, ...]  # The numbers tried, ascending
    curve: tuple[float, ...]  # The criterion at each; lower is better
    best: GaussianMixture  # The fit where the curve is lowest

    def __str__(self) -> str:
        points = ", ".join(f"{k}: {value:.1f}" for k, value in zip(self.n_components, self.curve, strict=True))
        return f"{self.best.n_components} components by {self.criterion}: {points}"


def select_components(
    X: Any,
    n_components: Iterable[int] = range(1, 11),
    *,
    criterion: str = "bic",
    sample_weight: ArrayLike | None = None,
    **params: Any,
) -> Selection:
    """Fit mixtures of several sizes to the same data, and choose by an information criterion.

    All fits share one set of seeds, drawn once by k-means++: the mixture of K components starts from the clusters of
    k-means on the first K seeds. So each fit has the seeds of the smaller ones and one more, and the curve shows the
    effect of the number of components rather than of random starts.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples.
    n_components : iterable of int, default=range(1, 11)
        The numbers to try.
    criterion : {"bic", "aic"}, default="bic"
        What to minimise.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights.
    **params : dict
        Other parameters of ``GaussianMixture``; ``random_state`` also draws the seeds.

    Returns
    -------
    Selection
        The curve and the best fit.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.mixture.selection import select_components
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1, size=(100, 2)) for center in (0, 8, 16)])
    >>> select_components(X, range(1, 5), random_state=0).best.n_components
    3
    """
    from sklearn.cluster import kmeans_plusplus  # slow to import

    sizes = tuple(sorted(set(n_components)))
    if not sizes or sizes[0] < 1:
        raise ValueError(f"n_components must be whole numbers >= 1, got {sizes}.")
    if criterion not in ("bic", "aic"):
        raise ValueError(f"criterion must be one of ('bic', 'aic'), got {criterion!r}.")
    rows = check_array(X, dtype=[np.float64, np.float32])
    if sizes[-1] > len(rows):
        raise ValueError(
            f"n_components must be ≤ n_samples = {len(rows)}, got {sizes[-1]}; lower it or pass more rows."
        )
    weights = None if sample_weight is None else row_weights(sample_weight, rows)
    rng = random_of(params.get("random_state"))
    seeds, _ = kmeans_plusplus(rows, sizes[-1], sample_weight=weights, random_state=rng)
    fits = [GaussianMixture(k, init_params=seeds, **params).fit(X, sample_weight=weights) for k in sizes]
    curve = tuple(float(getattr(fit, criterion)(X, sample_weight=weights)) for fit in fits)
    return Selection(criterion, sizes, curve, fits[int(np.argmin(curve))])
