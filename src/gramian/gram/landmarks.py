"""Rules that choose landmarks, the few rows of X that represent all of them; each returns ``Pivots``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gramian.docstrings import filled
from gramian.gram.operator import Gram
from gramian.gram.pivoted_cholesky import (
    SHARED,
    Pivots,
    Seed,
    checked,
    checked_tol,
    done,
    factorise,
    rounding_floor,
    rpcholesky,
)
from gramian.resources import openmp_threads, random_of

Rule = TypeVar("Rule", bound=Callable[..., Pivots])
RULES: dict[str, Callable[..., Pivots]] = {"rpcholesky": rpcholesky}
"""The rules by name."""


def rule(choose: Rule) -> Rule:
    """Add a rule to ``RULES``, and the shared sections to its docstring."""
    filled(choose, SHARED)
    RULES[choose.__name__] = choose
    return choose


@rule
def greedy(gram: Gram, rank: int, random_state: Seed = None, *, tol: float = 0.0) -> Pivots:
    """Choose landmarks by pivoted Cholesky: always the row that is worst represented.

    Deterministic, and misled by outliers. O(n rank²) operations, one row of K at a time.

    {parameters}
    tol : float, default=0.0
        Stop once the trace error falls below this.

    {returns}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, greedy
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> greedy(Gram(RBF(0.3), X), 10).trace_error < 1e-4
    True
    """
    diagonal = checked(gram, rank)
    tol = checked_tol(tol)
    factor = np.zeros((gram.shape[0], rank))
    residual = diagonal.copy()
    floor = rounding_floor(gram, diagonal)
    chosen: list[int] = []
    while len(chosen) < rank and residual.sum() > tol * diagonal.sum() and residual.max() > floor:
        i, r = int(np.argmax(residual)), len(chosen)
        column = gram.rows([i], out=np.empty((1, gram.shape[1])))[0] - factor[:, :r] @ factor[i, :r]
        column /= np.sqrt(residual[i])
        factor[:, r] = column
        residual = np.maximum(residual - column**2, 0.0)
        chosen.append(i)
        residual[chosen] = 0.0
    return done(chosen, factor[:, : len(chosen)].copy(), diagonal, residual)


@rule
def uniform(gram: Gram, rank: int, random_state: Seed = None) -> Pivots:
    """Choose landmarks uniformly without replacement.

    {parameters}

    {returns}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, uniform
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> uniform(Gram(RBF(0.3), X), 10, random_state=0).rank <= 10
    True
    """
    diagonal = checked(gram, rank)
    return factorise(gram, random_of(random_state).choice(gram.shape[0], rank, replace=False), diagonal)


@rule
def leverage(gram: Gram, rank: int, random_state: Seed = None) -> Pivots:
    """Choose landmarks by approximate ridge leverage scores.

    A row's score is how much it counts in a ridge fit at the level where a quarter of ``rank`` directions do. The
    scores come from a uniform pilot of the same rank (El Alaoui and Mahoney, 2015), with what the pilot misses of a
    row added to its score, and are refined once from the landmarks they give. Three times the cost of ``uniform``.

    {parameters}

    {returns}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, leverage
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> leverage(Gram(RBF(0.3), X), 10, random_state=0).trace_error < 0.1
    True
    """
    rng = random_of(random_state)
    pivots = uniform(gram, rank, rng)
    for _ in range(2 if pivots.rank else 0):
        scores = _leverage_scores(pivots, rank / 4.0)
        drawn = rng.choice(scores.size, min(rank, np.count_nonzero(scores)), replace=False, p=scores / scores.sum())
        pivots = factorise(gram, drawn)
    return pivots


def _leverage_scores(pivots: Pivots, dimension: float) -> NDArray[np.float64]:
    """Leverage in F Fᵀ at the ridge of a given effective dimension, plus what F misses, at most one."""
    eigenvalues, vectors = np.linalg.eigh(pivots.factor.T @ pivots.factor)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    ridge = _ridge_of_dimension(eigenvalues, min(dimension, 0.9 * np.count_nonzero(eigenvalues)))
    projected = pivots.factor @ (vectors / np.sqrt(eigenvalues + ridge))
    return np.minimum(np.einsum("ij,ij->i", projected, projected) + pivots.residual / ridge, 1.0)


def _ridge_of_dimension(eigenvalues: NDArray[np.float64], dimension: float) -> float:
    """Solve Σ λ/(λ + ridge) = dimension by bisection on the logarithm."""
    low, high = np.log(1e-16 * eigenvalues.max() + 1e-300), np.log(eigenvalues.sum() / dimension + 1e-300)
    for _ in range(60):
        middle = (low + high) / 2.0
        above = np.sum(eigenvalues / (eigenvalues + np.exp(middle))) > dimension
        low, high = (middle, high) if above else (low, middle)
    return float(np.exp(high))


@rule
def kmeans(gram: Gram, rank: int, random_state: Seed = None, *, X: Any = None) -> Pivots:
    """Choose as landmarks the rows nearest to the centres of k-means.

    {parameters}
    X : array-like of shape (n, d)
        The rows, which must be vectors.

    {returns}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, kmeans
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> kmeans(Gram(RBF(0.3), X), 5, random_state=0, X=X).trace_error < 0.1
    True
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import pairwise_distances_argmin

    diagonal = checked(gram, rank)
    if X is None or np.shape(X)[0] != gram.shape[0]:
        raise ValueError(f"kmeans needs the {gram.shape[0]} rows themselves: pass X=.")
    batch = max(1024, 4 * rank)
    with openmp_threads(min(batch, gram.shape[0]) * rank, gram.workers):
        model = MiniBatchKMeans(rank, random_state=random_state, batch_size=batch, n_init=1, max_iter=20).fit(X)
        nearest = pairwise_distances_argmin(model.cluster_centers_, X)
    return factorise(gram, np.unique(nearest), diagonal)


def select(rule: str, gram: Gram, rank: int, random_state: Seed = None, *, X: Any = None) -> Pivots:
    """Choose landmarks by the name of a rule.

    Parameters
    ----------
    rule : str
        One of ``RULES``.
    gram : Gram
        K of X with itself.
    rank : int
        How many landmarks.
    random_state : int, RandomState, Generator or None, default=None
        Seed.
    X : array-like of shape (n, d), optional
        The rows, for ``"kmeans"``.

    Returns
    -------
    Pivots
        Landmarks, factor and trace error.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.gram import Gram, select
    >>> from gramian.kernels import RBF
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> select("rpcholesky", Gram(RBF(0.3), X), 10, random_state=0).rank <= 10
    True
    """
    if rule not in RULES:
        raise ValueError(f"selection must be one of {sorted(RULES)}, got {rule!r}.")
    return RULES[rule](gram, rank, random_state, **({"X": X} if rule == "kmeans" else {}))
