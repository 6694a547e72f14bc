"""K(X, Y) as an operator that is never stored whole, and its low-rank approximations."""

from gramian.gram.landmarks import greedy, kmeans, leverage, select, uniform
from gramian.gram.lowrank import LowRank
from gramian.gram.operator import Gram
from gramian.gram.pivoted_cholesky import Pivots, draw_landmarks, rpcholesky
from gramian.gram.symmetric import SymmetricGram

__all__ = [
    "Gram",
    "LowRank",
    "Pivots",
    "SymmetricGram",
    "draw_landmarks",
    "greedy",
    "kmeans",
    "leverage",
    "rpcholesky",
    "select",
    "uniform",
]
