"""Encoding of a fitted model as plain data for a manifest, and arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian.files.arrays import Packed
from gramian.files.table import name_of
from gramian.kernels import Kernel, from_dict

__all__ = ["MAX_DEPTH", "Encoder"]

MAX_DEPTH = 60
"""Objects within objects, beyond which a model is refused, and a file too."""

_INSTEAD = {
    "kernel": "use a kernel of gramian.kernels, or fit on its Gram matrix with kernel='precomputed'",
    "loss": "use a loss of gramian.losses",
    "optimizer": "name an optimizer, or set it to None once the kernel is learned",
}


@dataclass
class Encoder:
    """Turns values into JSON's plain ones and collects the arrays."""

    arrays: Packed = field(default_factory=Packed)

    def encode(self, value: Any, path: str = "model", depth: int = 0) -> Any:
        """Return the value in plain words."""
        if depth > MAX_DEPTH:
            raise TypeError(f"{path} is nested more than {MAX_DEPTH} objects deep, which a model file cannot hold.")
        if value is None or type(value) in (bool, int, str):
            return value
        for kinds, encode in _KINDS:
            if isinstance(value, kinds):
                return encode(self, value, path, depth + 1)
        return self._object(value, path, depth + 1)

    def _float(self, value: float, path: str, depth: int) -> Any:
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}

    def _scalar(self, value: np.generic, path: str, depth: int) -> Any:
        return {"scalar": self._array(np.asarray(value), path, depth)}

    def _array(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(f"{path} is a masked array, which a model file cannot hold; fill it first.")
        if value.dtype.kind == "O" and not all(type(v) is str for v in value.ravel()):
            items = [self.encode(v, f"{path}[{i}]", depth) for i, v in enumerate(value.ravel())]
            return {"objects": items, "shape": list(value.shape)}
        try:
            return self.arrays.add(value, path.partition(".")[2] or path)
        except TypeError as error:
            raise TypeError(f"{path} {error}") from None

    def _list(self, value: list[Any], path: str, depth: int) -> Any:
        return [self.encode(v, f"{path}[{i}]", depth) for i, v in enumerate(value)]

    def _tuple(self, value: tuple[Any, ...], path: str, depth: int) -> Any:
        return {"tuple": self._list(list(value), path, depth)}

    def _range(self, value: range, path: str, depth: int) -> Any:
        return {"range": [value.start, value.stop, value.step]}

    def _dict(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        return {
            "dict": [
                [self.encode(k, path, depth), self.encode(v, f"{path}[{k!r:.40}]", depth)] for k, v in value.items()
            ]
        }

    def _kernel(self, value: Kernel, path: str, depth: int) -> Any:
        try:
            tree = value.to_dict()
            from_dict(tree)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{path} cannot be saved: {error} {_advice(path)}") from None
        return {"kernel": tree}

    def _random(self, value: Any, path: str, depth: int) -> Any:
        old = isinstance(value, np.random.RandomState)
        state = value.get_state(legacy=False) if old else value.bit_generator.state
        return {"random": type(value).__name__, "state": self.encode(state, path, depth)}

    def _object(self, value: Any, path: str, depth: int) -> Any:
        name = name_of(type(value))
        if name is None:
            raise TypeError(_refusal(value, path))
        if hasattr(value, "get_params"):
            given = value.get_params(deep=False)
            learned = {key: v for key, v in vars(value).items() if key not in given}
            return {
                "object": name,
                "parameters": self._named(given, path, depth),
                "fitted": self._named(learned, path, depth),
            }
        # Of a dataclass, only the fields: what it has computed besides, it can compute again.
        kept = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else vars(value)
        return {"object": name, "fields": self._named(kept, path, depth)}

    def _named(self, values: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
        return {name: self.encode(value, f"{path}.{name}", depth) for name, value in values.items()}


_KINDS: list[tuple[Any, Callable[[Encoder, Any, str, int], Any]]] = [
    (np.generic, Encoder._scalar),
    (float, Encoder._float),
    (np.ndarray, Encoder._array),
    ((sp.spmatrix, sp.sparray), Encoder._array),
    (list, Encoder._list),
    (tuple, Encoder._tuple),
    (range, Encoder._range),
    (dict, Encoder._dict),
    (Kernel, Encoder._kernel),
    ((np.random.RandomState, np.random.Generator), Encoder._random),
]


def _advice(path: str) -> str:
    advice = _INSTEAD.get(path.rpartition(".")[2].strip("_"), "replace it by data, or by a part of gramian")
    return f"To save the model, {advice}."


def _refusal(value: Any, path: str) -> str:
    if path == "model":
        return _refused_model(value)
    if callable(value):
        what = f"the function {getattr(value, '__qualname__', value)!s:.60}"
    else:
        what = f"a {type(value).__module__}.{type(value).__qualname__}"
    return f"{path} is {what}, and a model file holds data, never code or objects it does not know. {_advice(path)}"


def _refused_model(value: Any) -> str:
    what = type(value).__qualname__
    if type(value).__module__.startswith("sklearn.") and hasattr(value, "steps"):
        return (
            f"a {what} of scikit-learn cannot be saved by gramian: save its gramian step, or use AutoKernelRegressor"
            " or AutoKernelClassifier, which keep the preparation of columns inside."
        )
    return f"expected a fitted estimator of gramian, got a {type(value).__module__}.{what}; only those can be saved."
