"""Dask: collections as blocks, and the execution of passes by the workers of a cluster.

Nothing is lost with a worker: blocks are read again from their source, and shared values are results of tasks that the
scheduler can repeat, so a worker that dies costs time and changes no bit of the answer.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakSet

import numpy as np

from gramian.data.loaders import ColumnRoles, Loader, Opened, check_matrix, is_dask, split_rows
from gramian.data.passes import Done, Executor, Item, Need, Sums, Task, tree_total, work
from gramian.resources import spans

FIRST = 100
"""Priority of additions over blocks, so that results are added up before more are computed."""
FAN = 8
"""Sums added up by one task; a power of two, so that the binary tree stays the same."""


@dataclass(frozen=True, eq=False)
class DaskBlock(Loader):
    """Partitions of Dask collections, computed by the worker that needs them."""

    pieces: tuple[Any, ...]  # Delayed X, and y and weight or ``None``
    columns: ColumnRoles | None  # Roles of the columns of a data frame
    token: str  # Dask's name for the collection
    persisted: bool = False  # Whether the cluster holds it, so that only its workers can read it

    def identity(self) -> str:
        return f"{self.token} {self.name} {self.columns}"

    def read(self, need: Need) -> Iterator[tuple[Any, Any, Any]]:
        import dask

        computed = dask.compute(*self.pieces, scheduler="synchronous")
        yield split_rows(computed if self.columns is None else computed[0], self.columns, self.name, need)


def opened_dask(source: Any, target: Any, weight: Any, columns: Any) -> Opened:
    """Split a Dask collection into its partitions."""
    chosen = None
    if hasattr(source, "npartitions") and hasattr(source, "columns"):
        chosen = ColumnRoles.among([str(c) for c in source.columns], columns, target, weight)
        source = source[chosen.wanted(Need())]
        pieces = [(piece,) for piece in source.to_delayed()]
        sizes: list[int | None] = [None] * len(pieces)
    else:
        check_matrix(source, columns, "a Dask array")
        source = source.rechunk({1: -1})
        sizes = [None if np.isnan(c) else int(c) for c in source.chunks[0]]
        aligned = [_aligned(what, v, source) for what, v in (("target", target), ("weight", weight))]
        pieces = list(zip(source.to_delayed().ravel(), *aligned, strict=True))
    token = str(getattr(source, "name", getattr(source, "_name", "")))
    persisted = any(type(value).__name__ == "Future" for value in dict(source.__dask_graph__()).values())
    parts = enumerate(zip(pieces, sizes, strict=True))
    loaders = [DaskBlock(f"partition {i}", n, piece, chosen, token, persisted) for i, (piece, n) in parts]
    names = None if chosen is None else chosen.inputs
    return Opened(loaders, names, int(source.shape[1]) if names is None else len(names), target is not None)


def _aligned(what: str, v: Any, X: Any) -> list[Any]:
    """Partitions of a target or weight, split like X."""
    if v is None:
        return [None] * X.numblocks[0]
    if not is_dask(v):
        import dask.array as da

        v = da.from_array(np.asarray(v), chunks=X.chunks[0] if np.ndim(v) == 1 else (X.chunks[0], -1))
    if v.shape[0] != X.shape[0] and not (np.isnan(v.shape[0]) or np.isnan(X.shape[0])):
        raise ValueError(f"{what} must have {X.shape[0]:,} rows, as the source has; got {v.shape[0]:,}.")
    if v.chunks[0] != X.chunks[0]:
        v = v.rechunk({0: X.chunks[0]})
    return list((v if v.ndim == 1 else v.rechunk({1: -1})).to_delayed().ravel())


class Cluster(Executor):
    """The workers behind a client of ``dask.distributed``."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._futures: WeakSet[Any] = WeakSet()

    @property
    def workers(self) -> int:
        """Threads of all workers."""
        with self._talking():
            return max(sum(self.client.nthreads().values()), 1)

    def broadcast(self, value: Any) -> Any:
        """Send a value to the workers as the result of a repeatable task."""
        with self._talking(), warnings.catch_warnings():
            # Sending several megabytes is intended.
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            return self._kept(self.client.submit(_same, value, key=_key("shared"), priority=FIRST))

    def map(self, task: Task, shared: Any, items: Sequence[Item], need: Need, done: Done) -> Iterator[Any]:
        with self._talking():
            futures = self._leaves(task, shared, items, need)
            for item in items:
                value = futures[0].result()
                # Only now, so that failed tasks are dropped too; explicitly, since Ctrl-C is lost in __del__.
                futures.pop(0).release()
                done(item)
                yield value

    def reduce(self, task: Task, shared: Any, items: Sequence[Item], need: Need, done: Done) -> Sums | None:
        """Return the sum of what a task returns for each block, added up on the workers."""
        from distributed import as_completed

        with self._talking():
            leaves = self._leaves(task, shared, items, need)
            sizes = {leaf.key: item for leaf, item in zip(leaves, items, strict=True)}
            root = self._tree(leaves)
            waiting = as_completed(leaves, loop=self.client.loop)
            # From here on, a block's result lives only until it has been added to its neighbour's.
            del leaves
            for leaf in waiting:
                if leaf.status != "finished":
                    leaf.result()
                leaf.release()
                done(sizes[leaf.key])
            value: Sums | None = root.result()
            return value

    def _leaves(self, task: Task, shared: Any, items: Sequence[Item], need: Need) -> list[Any]:
        keys = [_key("block") for _ in items]
        # A task gets rows that the cluster holds directly, not from their source.
        loaders: list[Any] = [item.loader if getattr(item.loader, "persisted", False) else None for item in items]
        held = [None if loader is None else self.client.compute(list(loader.pieces)) for loader in loaders]
        leaves = self.client.map(_leaf, items, held, key=keys, task=task, shared=shared, need=need)
        return [self._kept(leaf) for leaf in leaves]

    def _tree(self, nodes: list[Any]) -> Any:
        """The tree of ``parts.Tree``, with several neighbours in a task."""
        within: list[Any] = []
        while len(nodes) > 1:
            parts = [nodes[rows] for rows in spans(len(nodes), FAN)]
            # Neighbours are added first, then sums of neighbours, as if each addition were a task of its own.
            sums = [self.client.submit(tree_total, part, key=_key("sum"), priority=FIRST) for part in parts]
            nodes = [self._kept(each) for each in sums]
            within += nodes
        for node in within[:-1]:
            node.release()
        return nodes[0]

    def _kept(self, future: Any) -> Any:
        self._futures.add(future)
        return future

    def cancel(self) -> None:
        """Release all futures, so that the scheduler drops their tasks; ``Client.cancel`` fails on released sums."""
        for future in list(self._futures):
            future.release()

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Turn Dask's errors about lost workers and schedulers into helpful ones."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        try:
            yield
        except KilledWorker as error:
            raise RuntimeError(
                "a block killed every worker that tried it, probably for lack of memory; give the workers more memory, "
                f"or make the blocks smaller (rows=). Dask says: {error}"
            ) from error
        except (CancelledError, CommClosedError, TimeoutError) as error:
            address = getattr(getattr(self.client, "scheduler", None), "address", "") or "its address"
            raise ConnectionError(
                f"the Dask scheduler at {address} is gone, or dropped the work; nothing was fitted. Start it again and "
                "repeat the fit: with Blocks(..., checkpoint=path) it continues where it stopped."
            ) from error


def _key(word: str) -> str:
    return f"gramian-{word}-{uuid.uuid4().hex[:12]}"


def _same(value: Any) -> Any:
    return value


def _leaf(item: Item, held: list[Any] | None, *, task: Task, shared: Any, need: Need) -> Any:
    if held is not None and isinstance(item.loader, DaskBlock):
        item = replace(item, loader=replace(item.loader, pieces=tuple(held)))
    return work(task, shared, item, need)


@contextmanager
def connect(workers: int | None = None, cluster: str | None = None) -> Iterator[Any]:
    """Open a Dask client in a ``with`` block, for new local processes or a running cluster.

    Parameters
    ----------
    workers : int or None, default=None
        Processes of one thread each to start on this machine.
    cluster : str or None, default=None
        Address of a scheduler, such as ``"tcp://10.0.0.1:8786"``.

    Yields
    ------
    distributed.Client or False
        What ``Blocks`` takes as ``client=``; ``False``, for threads of this process, if neither was given.

    Examples
    --------
    >>> from gramian.data import connect
    >>> with connect() as client:
    ...     client
    False
    """
    if workers is not None and cluster is not None:
        raise ValueError("give either workers (processes of this machine) or cluster (the address of a scheduler).")
    if workers is None and cluster is None:
        yield False
        return
    try:
        from distributed import Client, LocalCluster
        from distributed.comm.addressing import resolve_address
    except ImportError as error:
        raise ImportError('a Dask cluster needs dask[distributed]; pip install ".[cluster]" in the clone.') from error
    if cluster is not None:
        try:
            resolve_address(cluster)  # a client with a wrong address takes a minute to fail
        except (OSError, ValueError) as error:
            raise ValueError(f"{cluster!r} is not a scheduler's address ({error}); write tcp://host:port.") from error
        with Client(cluster, set_as_default=False) as client:
            yield client
        return
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client
