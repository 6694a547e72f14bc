"""Predictions for rows in blocks, to iterate over, to gather, or to write to Parquet."""

from __future__ import annotations

import copy
import functools
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.blocks import Blocks, as_blocks
from gramian.data.output import unfinished, writing
from gramian.data.passes import Need, Part

TRIES = 50
"""Attempts to remove a folder, a tenth of a second apart."""
FILE = "part-{:05d}.parquet"


@dataclass(frozen=True, eq=False)
class Results:
    """Predictions over blocks, computed lazily.

    Parameters
    ----------
    blocks : Blocks
        The rows.
    call : callable
        From rows to an array, or to several.
    label : str
        What is computed, such as ``"predict"``.
    n_jobs : int or None, default=None
        Threads.
    verbose : int or bool, default=False
        Whether to show a progress bar.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.data import Blocks
    >>> from gramian.data.predictions import Results
    >>> results = Results(Blocks(np.ones((5, 2)), rows=2), lambda X: X.sum(axis=1), "sum")
    >>> [len(block) for block in results]
    [2, 2, 1]
    >>> results.compute()
    array([2., 2., 2., 2., 2.])
    """

    blocks: Blocks
    call: Callable[[NDArray[Any]], Any]
    label: str
    n_jobs: int | None = None
    verbose: int | bool = False

    def __iter__(self) -> Iterator[Any]:
        """Yield the results of one block after the other: an array, or a tuple of them."""
        with self._passes() as passes:
            yield from passes.map(_computed, self.call, need=Need(y=False, weight=False))

    def _passes(self) -> Any:
        return self.blocks.passes(n_jobs=self.n_jobs, verbose=self.verbose, label=self.label)

    def compute(self) -> Any:
        """Return the results of all rows, which must fit in memory, in the order of the rows."""
        return _together(list(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.compute(), dtype=dtype)

    def to_parquet(self, folder: str | os.PathLike[str], names: Sequence[str] | None = None) -> Path:
        """Write the results to a new folder, one Parquet file for each block.

        The folder appears when it is complete. Workers of a cluster must be able to write there.

        Parameters
        ----------
        folder : str or path
            Must not exist.
        names : sequence of str or None, default=None
            Columns; by default what was computed (``predict``), numbered if there are several.

        Returns
        -------
        Path
            The folder.
        """
        final = Path(folder).absolute()
        if final.exists():
            raise FileExistsError(f"{final} exists; name a new folder, or remove it first.")
        draft = unfinished(final)
        draft.mkdir(parents=True)
        try:
            with self._passes() as passes:
                shared = (self.call, str(draft), None if names is None else list(names), self.label)
                written = list(passes.map(_written, shared, need=Need(y=False, weight=False)))
            for number, name in enumerate(sorted(filter(None, written))):
                (draft / name).rename(draft / FILE.format(number))
            draft.rename(final)
        finally:
            _remove(draft)
        return final


def _remove(draft: Path) -> None:
    """Remove a folder in which stopped workers may still be writing."""
    for _ in range(TRIES):
        shutil.rmtree(draft, ignore_errors=True)
        if not draft.exists():
            break
        time.sleep(0.1)


def _computed(call: Callable[[NDArray[Any]], Any], parts: Iterator[Part]) -> Any:
    return _together([call(part.X) for part in parts])


def _together(values: list[Any]) -> Any:
    """Concatenate arrays, or tuples of arrays."""
    if isinstance(values[0], tuple):
        return tuple(np.concatenate(column) for column in zip(*values, strict=True))
    return np.concatenate(values)


def _written(shared: tuple[Any, str, list[str] | None, str], parts: Iterator[Part]) -> str:
    """Write the results of a block to a file named after its first row."""
    call, folder, names, label = shared
    first = next(parts)
    file = Path(folder, f"rows-{int(first.index[0]):015d}.parquet")
    with writing(file) as write:
        for part in itertools.chain([first], parts):
            write(_table(call(part.X), names, label))
    return file.name


def _table(values: Any, names: list[str] | None, label: str) -> Any:
    import pyarrow as pa

    arrays = values if isinstance(values, tuple) else (values,)
    columns = [column for array in arrays for column in np.asarray(array).reshape(len(array), -1).T]
    if names is None:
        names = [label] if len(columns) == 1 else [f"{label}_{j}" for j in range(len(columns))]
    if len(names) != len(columns):
        raise ValueError(f"names must be {len(columns)}, one for each column of {label}; got {len(names)}.")
    return pa.table(dict(zip(names, (pa.array(column) for column in columns), strict=True)))


def results_of(estimator: Any, method: str, X: Any, options: dict[str, Any]) -> Results:
    """Return the lazy results of an estimator's method for rows in blocks."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    blocks, names = as_blocks(X), getattr(estimator, "feature_names_in_", None)
    if names is not None and _has_columns(blocks):
        blocks = blocks.with_columns([str(name) for name in names])
    # A copy that accepts rows without names and uses one thread, since blocks run in parallel.
    model = copy.copy(estimator)
    vars(model).pop("feature_names_in_", None)
    if hasattr(model, "n_jobs"):
        model.n_jobs = 1
    n_jobs, verbose = getattr(estimator, "n_jobs", None), getattr(estimator, "verbose", False)
    call = functools.partial(getattr(model, method), **options)
    return Results(blocks, call, method, n_jobs, verbose)


def _has_columns(blocks: Blocks) -> bool:
    """Whether columns can be selected by name."""
    if isinstance(blocks.source, str | os.PathLike) or hasattr(blocks.source, "columns"):
        return True
    first = blocks.source[0] if isinstance(blocks.source, list | tuple) and blocks.source else None
    return isinstance(first, str | os.PathLike)
