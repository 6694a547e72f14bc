"""An estimator that fails to fit stays as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["restored_on_failure"]


@contextmanager
def restored_on_failure(estimator: object) -> Iterator[None]:
    """Undo what the block did to an estimator's attributes where it raises, by Ctrl-C too."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
