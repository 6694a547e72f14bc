"""Blocks: rows that need not fit in memory, and passes over them."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

from numpy.typing import NDArray

from gramian.data.checkpoint import Checkpoint
from gramian.data.loaders import Mapped, Opened, is_dask, opened
from gramian.data.passes import Executor, Item, Need, Part, Passes, ThreadExecutor
from gramian.data.tensors import with_tensors
from gramian.numerals import counted

if TYPE_CHECKING:
    from gramian.data.predictions import Results

ROWS = 131_072
"""Rows of a block: seconds of work with a thousand features, so that the overhead of a task is negligible."""


class Blocks:
    """Rows that need not fit in memory, as a sequence of blocks that can be read again.

    ``model.fit(Blocks("folder", target="y"))`` fits over all files of a folder. Only what is worked on is in memory.

    Parameters
    ----------
    source : array, memory map, path, list of path, Dask array or data frame, or list of callable
        The data: arrays; files that ``gramian.data.tables`` reads (Parquet, Arrow, CSV, ...), folders of them or
        patterns such as ``"data/*.parquet"``; Dask collections; functions without arguments that return X, (X, y),
        (X, y, weight) or a table. A CSV file is one block, read as a stream.
    target : str, list of str, array or None, default=None
        y: names of columns, or an array for arrays.
    weight : str, array or None, default=None
        Weights >= 0; a row of weight zero is as good as absent.
    columns : list of str or None, default=None
        Columns of X; by default all others.
    client : distributed.Client, False or None, default=None
        Who works: a Dask cluster; ``None`` for the active Dask client if there is one, else threads; ``False`` for
        threads in any case. With a cluster, its workers must be able to read the source.
    rows : int or None, default=None
        Rows of a block, about; 131,072 by default. Row groups of Parquet and record batches of Arrow are joined up to
        this and never cut; partitions of Dask and results of functions are blocks as they are. Answers depend on it by
        rounding only.
    checkpoint : str, path or None, default=None
        A folder in which a fit keeps what it has, so that after a failure, Ctrl-C or loss of power the same fit of the
        same data goes on where it was; it is emptied at the end. Give the estimator a ``random_state``, or it will be
        another fit. A checkpoint of another problem is refused.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import KernelRidge, Nystroem
    >>> from gramian.data import Blocks
    >>> X = np.linspace(0, 6, 5000)[:, None]
    >>> blocks = Blocks(X, target=np.sin(X[:, 0]), rows=1000)
    >>> blocks
    Blocks(5 blocks, 5000 rows, 1 column)
    >>> model = KernelRidge(1e-3, kernel="rbf", approximation=Nystroem(n_components=20), random_state=0).fit(blocks)
    >>> model.predict([[1.0]]).round(3)
    array([0.841])
    """

    def __init__(
        self,
        source: Any,
        target: Any = None,
        weight: Any = None,
        columns: Sequence[str] | None = None,
        client: Any = None,
        *,
        rows: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        if rows is not None and rows < 1:
            raise ValueError(f"rows, the size of a block, must be at least 1, got {rows!r}.")
        self.source, self.target, self.weight, self.columns = source, target, weight, columns
        self.client, self.rows, self.checkpoint = client, rows, checkpoint

    def with_columns(self, columns: Sequence[str]) -> Blocks:
        """Return the same rows with other inputs, without target and weight, not yet opened: column names → Blocks."""
        return Blocks(self.source, None, None, list(columns), self.client, rows=self.rows)

    def mapped(self, function: Callable[[Any, Any], tuple[Any, Any]]) -> Blocks:
        """Return the rows transformed by a function.

        Parameters
        ----------
        function : callable
            From inputs and targets of some rows, either of which may be ``None``, to such; a row stays a row.

        Returns
        -------
        Blocks
            Read through the function, which travels to the workers.
        """
        other = Blocks(self.source, self.target, self.weight, None, self.client, checkpoint=self.checkpoint)
        held = ((item, item.loader) for item in self.items)
        items = [Item(Mapped(of.name, of.rows, of, function), item.first, item.rows) for item, of in held]
        vars(other)["items"] = items
        vars(other)["_opened"] = Opened([item.loader for item in items], None, None, self.has_targets)
        return other

    @cached_property
    def _opened(self) -> Opened:
        return opened(self.source, self.target, self.weight, self.columns, self.rows or ROWS)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the inputs; None if they have none."""
        return self._opened.names

    @property
    def has_targets(self) -> bool:
        """Whether there are targets."""
        return self._opened.targets

    @cached_property
    def items(self) -> list[Item]:
        """The blocks in order, each with the number of its first row; reads data if row counts are not known."""
        loaders = self._opened.loaders
        unknown = [Item(loader, 0, 0) for loader in loaders if loader.rows is None]
        need = Need(X=False, y=False, weight=False)
        counted = iter(list(executor_for(self.client, None).map(_count, None, unknown, need, lambda _: None)))
        items, first = [], 0
        for loader in loaders:
            rows = next(counted) if loader.rows is None else loader.rows
            if rows:
                items.append(Item(loader, first, rows))
            first += rows
        if not items:
            raise ValueError("there are no rows in the data; pass at least one.")
        return items

    @property
    def n_rows(self) -> int:
        """Number of rows, including those of weight zero."""
        return self.items[-1].first + self.items[-1].rows

    @cached_property
    def n_columns(self) -> int:
        """Number of inputs."""
        width = self._opened.width
        return int(next(iter(self)).X.shape[1]) if width is None else width

    def __repr__(self) -> str:
        blocks, columns = counted(len(self.items), "block"), counted(self.n_columns, "column")
        return f"Blocks({blocks}, {self.n_rows} rows, {columns})"

    def __iter__(self) -> Iterator[Part]:
        """Yield the rows in order, at most 8192 at a time."""
        for item in self.items:
            yield from item.parts(Need())

    def __array__(self, *args: Any, **options: Any) -> NDArray[Any]:
        raise TypeError(
            "Blocks may not fit in memory, but all rows are needed at once here; take some with "
            "blocks.sample(size), or use an estimator with approximation=Nystroem(...)."
        )

    def sample(self, size: int, random_state: int = 0) -> Part:
        """Draw rows of positive weight uniformly, in one pass, the same whatever the blocks: size, seed → Part."""
        with self.passes() as passes:
            return passes.sample(size, random_state)

    def passes(
        self, *, n_jobs: int | None = None, verbose: int | bool = False, label: str = "blocks"
    ) -> AbstractContextManager[Passes]:
        """Open passes over the blocks in a ``with`` block; an error or Ctrl-C cancels running tasks: → Passes."""
        kept = None if self.checkpoint is None else Checkpoint(self.checkpoint)
        return Passes(self, executor_for(self.client, n_jobs), kept).running(verbose, label)


def active_client() -> Any:
    """Return the active Dask client, or None, without importing Dask."""
    distributed = sys.modules.get("distributed")
    try:
        return None if distributed is None else distributed.default_client()
    except ValueError:
        return None


def executor_for(client: Any, n_jobs: int | None) -> Executor:
    """Return the executor: the given client, the active one, or threads."""
    client = active_client() if client is None else client
    if client is None or client is False:
        return ThreadExecutor(n_jobs)
    from gramian.data.cluster import Cluster

    return Cluster(client)


def _count(shared: None, parts: Iterator[Part]) -> int:
    return max((int(part.index[-1]) + 1 for part in parts), default=0)


def is_blocks(X: Any) -> bool:
    """Whether rows are given as ``Blocks``, a path, or a Dask collection."""
    return isinstance(X, Blocks | str | os.PathLike) or is_dask(X)


def as_blocks(X: Any, y: Any = None, weight: Any = None) -> Blocks:
    """Return ``Blocks`` of anything that ``is_blocks`` accepts."""
    if not isinstance(X, Blocks):
        return Blocks(X, y, weight)
    if y is not None or weight is not None:
        raise ValueError("Blocks hold their own targets and weights: give them as Blocks(..., target=..., weight=...).")
    return X


Stream = Blocks | str | os.PathLike[str]
"""Rows in blocks for type checkers; Dask collections are ``Any`` to them."""
Array = TypeVar("Array", covariant=True)


class _OfRows(Protocol[Array]):
    """A bound method that returns arrays for rows, and ``Results`` for blocks."""

    @overload
    def __call__(self, X: Stream) -> Results: ...
    @overload
    def __call__(self, X: Any) -> Array: ...


class MethodOfRows(Protocol[Array]):
    """The same method on the class."""

    def __get__(self, instance: Any, owner: Any = None) -> _OfRows[Array]: ...
    def __call__(self, *args: Any, **options: Any) -> Any: ...


def by_blocks(method: Callable[[Any, Any], Array]) -> MethodOfRows[Array]:
    """Let a method of an estimator accept blocks, for which it returns ``Results``, and arrays of other libraries."""
    direct = with_tensors(method)

    @functools.wraps(method)
    def streamed(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_blocks(X):
            return direct(self, X, *args, **options)
        if args:
            raise TypeError(f"with blocks, pass the options of {method.__name__} by name.")
        from gramian.data.predictions import results_of

        return results_of(self, method.__name__, X, options)

    return cast(MethodOfRows[Array], streamed)
