"""An estimator that fails to fit stays as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["restored_on_failure"]


@contextmanager
def restored_on_failure(estimator: object) -> Iterator[None]:
    """Undo what the block did to an estimator's attributes where it raises, by Ctrl-C too.

    Parameters
    ----------
    estimator : object
        Its attributes are kept; what they hold is not copied.

    Yields
    ------
    None
        For the length of the block.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from gramian.estimators.restore import restored_on_failure
    >>> estimator = SimpleNamespace(alpha=1.0)
    >>> try:
    ...     with restored_on_failure(estimator):
    ...         estimator.coef_ = 1 / 0
    ... except ZeroDivisionError:
    ...     print(estimator)
    namespace(alpha=1.0)
    """
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
