"""Arrays of other libraries, such as torch, under scikit-learn's ``array_api_dispatch``.

Results come back as arrays of the same library on the same device. Estimators compute with NumPy, or on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from sklearn import get_config

from gramian.gram.device import wished
from gramian.kernels.points import Method, foreign_rows_by, is_foreign, namespace, to_numpy


def with_tensors(method: Method) -> Method:
    """Let a method of an estimator accept arrays of another library, and return such arrays."""
    return foreign_rows_by(_through_numpy, method)


def _through_numpy(method: Callable[..., Any], self: Any, X: Any, *args: Any, **options: Any) -> Any:
    """Call the method with NumPy arrays, and return what it returns as arrays of X's library."""
    on_card = is_torch_array(X) and X.device.type == "cuda"
    dispatched = get_config()["array_api_dispatch"]
    if on_card and not dispatched:
        raise TypeError(
            f"{type(self).__name__} got a tensor on {X.device}; tensors are taken, and returned where they were, "
            "after sklearn.set_config(array_api_dispatch=True). Otherwise pass X.cpu()."
        )
    args = tuple(_here(value) for value in args)
    options = {name: _here(value) for name, value in options.items()}
    estimator = _placed(self, X) if on_card else self
    found = method(estimator, to_numpy(X), *args, **options)
    if found is estimator:
        learned = {**vars(estimator), "device": self.device} if estimator is not self else vars(self).copy()
        vars(self).clear()
        vars(self).update(learned)
        return self
    return _like(found, X) if dispatched else found


def _here(value: Any) -> Any:
    return to_numpy(value) if is_foreign(value) else value


def _placed(estimator: Any, X: Any) -> Any:
    """A copy of the estimator on the device of a tensor, unless it has a device of its own."""
    if getattr(estimator, "device", "none of its own") is not None:
        return estimator
    moved = copy(estimator)
    moved.device = wished(X.device)
    return moved


def _like(found: Any, X: Any) -> Any:
    """Numbers as arrays of X's library on X's device; text labels stay NumPy arrays."""
    if isinstance(found, tuple):
        return tuple(_like(each, X) for each in found)
    if isinstance(found, np.ndarray) and found.dtype.kind in "fiub":
        return namespace(X).asarray(found, device=X.device)
    return found
