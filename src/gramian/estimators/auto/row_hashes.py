"""Hashes of training rows, which tell whether a model has seen a row without keeping it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KEPT = 10_000
"""Hashes kept, the smallest ones: rows of any table whose hashes are at most the largest of these can be looked up."""
_GOLDEN, _MULTIPLIER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
"""Constants of SplitMix64 (Steele, Lea and Flood, 2014)."""


def row_hashes(Z: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the smallest hashes of the rows, in order: Z (n, d)."""
    return indexed_hashes(Z)[0]


def indexed_hashes(Z: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the smallest hashes of the rows, in order, and the first row of each: Z (n, d)."""
    hashes, first = np.unique(_hashes(Z), return_index=True)
    return hashes[:KEPT].view(np.int64), first[:KEPT]


def find_rows(kept: NDArray[np.int64], Z: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which rows are among those hashed, and their places there: kept (m,) ascending, Z (n, d)."""
    known, asked = kept.view(np.uint64), _hashes(Z)
    (rows,) = np.nonzero(np.isin(asked, known))
    return rows, np.searchsorted(known, asked[rows])


def share_seen(kept: NDArray[np.int64], Z: NDArray[np.float64]) -> float | None:
    """Return the share of rows among those hashed, or of those among the rows if larger; None if it cannot be told."""
    known, asked = kept.view(np.uint64), _hashes(Z)
    if known.size == KEPT:
        asked = asked[asked <= known[-1]]
    if not asked.size:
        return None
    return float(max(np.isin(asked, known).mean(), np.isin(known, asked).mean()))


def _hashes(Z: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A 64-bit hash of each row."""
    hashes = np.zeros(Z.shape[0], dtype=np.uint64)
    for column in Z.T:
        bits = np.ascontiguousarray(column + 0.0).view(np.uint64)  # without the sign of zero
        hashes = (hashes ^ bits) + _GOLDEN
        hashes = (hashes ^ (hashes >> np.uint64(30))) * _MULTIPLIER
        hashes ^= hashes >> np.uint64(31)
    return hashes


@dataclass(frozen=True, eq=False)
class Folds:
    """Training rows by their hashes: which fold a row was in follows from its values, and so does that it is new."""

    known: NDArray[np.int64]  # Hashes of the training rows, ascending
    count: int  # How many folds
    repeats: NDArray[np.int64] | None = None  # Those of rows that occur more than once, where these are in several
    # folds and so count as new rows; None where equal rows share a fold

    @classmethod
    def of_rows(cls, Z: NDArray[np.float64], count: int, *, apart: bool = False) -> Folds:
        """Return the folds of training rows, with ``apart`` those of equal rows apart: Z (n, d)."""
        known, counts = np.unique(_hashes(Z), return_counts=True)
        return cls(known.view(np.int64), count, known[counts > 1].view(np.int64) if apart else None)

    def __call__(self, Z: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the fold of each row, -1 of new ones: Z (n, d) → (n,)."""
        hashes, fold = self._known(Z)
        return fold if self.repeats is None else np.where(np.isin(hashes, self.repeats.view(np.uint64)), -1, fold)

    def of_training_rows(self, Z: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the fold of each training row, equal ones in turns if they are apart: Z (n, d) all of them → (n,)."""
        hashes, fold = self._known(Z)
        if self.repeats is None:
            return fold
        order, place = np.argsort(hashes, kind="stable"), np.arange(hashes.size)
        first = np.r_[True, np.diff(hashes[order]) != 0][: place.size]
        turn = np.empty_like(place)
        turn[order] = place - np.maximum.accumulate(np.where(first, place, 0))
        return np.where(fold < 0, -1, (fold + turn) % self.count)

    def _known(self, Z: NDArray[np.float64]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        """The hash of each row and the fold that follows from it, -1 of new rows."""
        hashes = _hashes(Z)
        seen = np.isin(hashes, self.known.view(np.uint64))
        return hashes, np.where(seen, (hashes % np.uint64(self.count)).astype(np.intp), -1)


@dataclass(frozen=True, eq=False)
class OneFold(Folds):
    """Folds for training rows of one fold with changed values: they still count as rows of it."""

    fold: int = 0

    def __call__(self, Z: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the fold for each row: Z (n, d) → (n,)."""
        return np.full(Z.shape[0], self.fold, dtype=np.intp)
