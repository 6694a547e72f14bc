"""Named arrays that add up over rows: all that a pass over blocks sends back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sums", "Tree", "plus", "total"]


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over some rows, by name; those of other rows are added with ``+``.

    Parameters
    ----------
    arrays : mapping of str to array
        The sums.

    Examples
    --------
    >>> from gramian.data.sums import Sums
    >>> both = Sums.of(count=2, right=[1.0, 2.0]) + Sums.of(count=3, right=[1.0, 1.0])
    >>> float(both["count"]), both["right"]
    (5.0, array([2., 3.]))
    """

    arrays: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, **arrays: Any) -> Sums:
        """Return sums by name.

        Parameters
        ----------
        **arrays : array-like
            The sums; float64.

        Returns
        -------
        Sums
            The value.
        """
        return cls({name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()})

    def __add__(self, other: Sums) -> Sums:
        return Sums({name: array + other.arrays[name] for name, array in self.arrays.items()})

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self.arrays[name]


def plus(a: Sums | None, b: Sums | None) -> Sums | None:
    """Add two sums, of which one may be of no rows at all.

    Parameters
    ----------
    a, b : Sums or None
        ``None`` where there were no rows.

    Returns
    -------
    Sums or None
        The sum.
    """
    if a is None or b is None:
        return b if a is None else a
    return a + b


def total(parts: Iterable[Sums]) -> Sums | None:
    """Return the sum of some values, in their order.

    Parameters
    ----------
    parts : iterable of Sums
        The values.

    Returns
    -------
    Sums or None
        ``None`` where there are none.
    """
    start: Sums | None = None
    return reduce(plus, parts, start)


class Tree:
    """A binary tree of sums whose shape depends on the number of leaves alone.

    Leaves are pushed in order. What is held are the sums of complete subtrees, at most one of each size, so the memory
    is logarithmic in the leaves, and the same additions are made however the leaves were computed.

    Parameters
    ----------
    held : iterable of (int, Sums or None), default=()
        Sizes and sums of complete subtrees, from a tree that was left unfinished.

    Examples
    --------
    >>> from gramian.data.sums import Sums, Tree
    >>> tree = Tree()
    >>> for leaf in range(5):
    ...     tree.push(Sums.of(x=leaf))
    >>> [size for size, _ in tree.held], float(tree.root()["x"])
    ([4, 1], 10.0)
    """

    def __init__(self, held: Iterable[tuple[int, Sums | None]] = ()) -> None:
        self.held: list[tuple[int, Sums | None]] = list(held)

    def push(self, value: Sums | None, size: int = 1) -> None:
        """Add the next leaf, or the next complete subtree.

        Parameters
        ----------
        value : Sums or None
            Its sum; ``None`` where it has no rows.
        size : int, default=1
            Its leaves; a power of two, unless it is the last.
        """
        while self.held and self.held[-1][0] == size:
            value = plus(self.held.pop()[1], value)
            size *= 2
        self.held.append((size, value))

    def root(self) -> Sums | None:
        """Return the sum of all leaves.

        Returns
        -------
        Sums or None
            The sum; the smallest subtrees are added first.
        """
        values = [value for _, value in self.held]
        while len(values) > 1:
            last = values.pop()
            values[-1] = plus(values[-1], last)
        return values[0] if values else None
