"""Models as plain JSON values and back; class names come from a closed table, and every type is checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian.certificates import Certificate
from gramian.files.arrays import Packed, Unpacked
from gramian.files.classes import class_named, name_of
from gramian.files.folder import ModelFileError
from gramian.kernels import Kernel, from_dict

FORGOTTEN = "_sklearn_version"
"""Keys that scikit-learn adds to the state of its classes."""
MAX_DEPTH = 60
"""Deeper nesting of objects is refused."""
_INSTEAD = {
    "kernel": "use a kernel of gramian.kernels, or fit on its Gram matrix with kernel='precomputed'",
    "loss": "use a loss of gramian.losses",
    "penalty": "use a penalty that has a name",
    "trend": "use a name or a map of gramian",
    "cv": "use a splitter of scikit-learn, or a list of splits",
    "optimizer": "name an optimizer, or set it to None once the kernel is learned",
}
_ROWS = (np.ndarray, sp.spmatrix, sp.sparray)
KINDS: dict[str, Any] = {
    **dict.fromkeys(("X_fit_", "X_train_", "components_", "dual_coef_", "support_vectors_"), _ROWS),
    **dict.fromkeys(
        ("class_weight_", "coef_", "dual_point_", "eigenvalues_", "feature_names_in_", "frequencies_"), np.ndarray
    ),
    **dict.fromkeys(("means_", "normalization_", "support_", "weights_"), np.ndarray),
    **dict.fromkeys(("kernel_", "_kernel"), Kernel),
    "certificate_": Certificate,
    "certificates_": list,
    "classes_": (np.ndarray, list),
    "intercept_": (int, float, np.number, np.ndarray),
    "n_features_in_": int,
    "shape_fit_": tuple,
}
"""Required types of these attributes in any estimator."""
_FIELDS: dict[Any, Any] = {
    "float": (int, float, np.floating),
    "int": (int, np.integer),
    "bool": (bool, np.bool_),
    "str": str,
}
_BITS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


@dataclass
class ModelEncoder:
    """Turns values into plain JSON values and collects arrays."""

    arrays: Packed = field(default_factory=Packed)

    def encode(self, value: Any, path: str = "model", depth: int = 0) -> Any:
        """Return a value as a plain JSON value."""
        if depth > MAX_DEPTH:
            raise TypeError(f"{path} is nested more than {MAX_DEPTH} objects deep, which a model file cannot hold.")
        if value is None or type(value) in (bool, int, str):
            return value
        write = next(write for kinds, write, _ in _WORDS if isinstance(value, kinds))
        return write(self, value, path, depth + 1)

    def _scalar(self, value: np.generic, path: str, depth: int) -> Any:
        return {"scalar": self._array(np.asarray(value), path, depth)}

    def _float(self, value: float, path: str, depth: int) -> Any:
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}

    def _array(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(f"{path} is a masked array, which a model file cannot hold; fill it first.")
        if value.dtype.kind == "O" and not all(type(v) is str for v in value.ravel()):
            return {"objects": self._list(value.ravel(), path, depth), "shape": list(value.shape)}
        try:
            return self.arrays.add(value, path.partition(".")[2] or path)
        except TypeError as error:
            raise TypeError(f"{path} {error}") from None

    def _list(self, value: Any, path: str, depth: int) -> Any:
        return [self.encode(v, f"{path}[{i}]", depth) for i, v in enumerate(value)]

    def _tuple(self, value: tuple[Any, ...], path: str, depth: int) -> Any:
        return {"tuple": self._list(value, path, depth)}

    def _range(self, value: range, path: str, depth: int) -> Any:
        return {"range": [value.start, value.stop, value.step]}

    def _dict(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        pairs = ((k, v, f"{path}[{k!r:.40}]") for k, v in value.items())
        return {"dict": [[self.encode(k, path, depth), self.encode(v, place, depth)] for k, v, place in pairs]}

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
        value = value.here() if hasattr(value, "here") else value  # move it from a GPU
        name = name_of(type(value))
        if name is None:
            raise TypeError(_refusal(value, path))

        def named(values: dict[str, Any]) -> dict[str, Any]:
            return {name: self.encode(v, f"{path}.{name}", depth) for name, v in values.items()}

        if hasattr(value, "get_params"):
            given = value.get_params(deep=False)
            learned = {key: v for key, v in value.__getstate__().items() if key not in given and key != FORGOTTEN}
            given.pop("device", None)  # a model fitted on a GPU predicts anywhere
            return {"object": name, "parameters": named(given), "fitted": named(learned)}
        # Only the fields of a dataclass; cached properties can be computed again.
        kept = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else vars(value)
        return {"object": name, "fields": named(kept)}


@dataclass
class ModelDecoder:
    """Turns plain JSON values into a model."""

    arrays: Unpacked

    def decode(self, value: Any, depth: int = 0) -> Any:
        """Return the value that a plain JSON value stands for."""
        if depth > MAX_DEPTH:
            raise ModelFileError(f"objects are nested more than {MAX_DEPTH} deep.")
        if isinstance(value, list):
            return [self.decode(v, depth + 1) for v in value]
        if not isinstance(value, dict):
            return value
        read = _READERS.get(frozenset(value))
        if read is None:
            raise ModelFileError(f"a value with the keys {sorted(value)!r:.80} is unknown.")
        return read(self, value, depth + 1)

    def _scalar(self, value: dict[str, Any], depth: int) -> Any:
        a = _of(np.ndarray, self.decode(value["scalar"], depth), "a scalar")
        if a.shape != ():
            raise ModelFileError("a scalar must be an array without dimensions.")
        return a[()]

    def _float(self, value: dict[str, Any], depth: int) -> Any:
        if value["float"] not in ("nan", "inf", "-inf"):
            raise ModelFileError(f"the float {value['float']!r:.40} is unknown.")
        return float(value["float"])

    def _array(self, value: dict[str, Any], depth: int) -> Any:
        return self.arrays.get(value["array"])

    def _column(self, value: dict[str, Any], depth: int) -> Any:
        return self.arrays.column(value["array"], value["column"])

    def _objects(self, value: dict[str, Any], depth: int) -> Any:
        items, shape = _of(list, value["objects"], "an array of objects"), _of(list, value["shape"], "a shape")
        out = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            out[i] = self.decode(item, depth)
        return out.reshape([_of(int, s, "a shape") for s in shape])

    def _tuple(self, value: dict[str, Any], depth: int) -> Any:
        return tuple(self.decode(v, depth) for v in _of(list, value["tuple"], "a tuple"))

    def _range(self, value: dict[str, Any], depth: int) -> Any:
        return range(*(_of(int, v, "a range") for v in _of(list, value["range"], "a range")))

    def _dict(self, value: dict[str, Any], depth: int) -> Any:
        return {self.decode(k, depth): self.decode(v, depth) for k, v in _of(list, value["dict"], "a dictionary")}

    def _kernel(self, value: dict[str, Any], depth: int) -> Any:
        return from_dict(value["kernel"])

    def _random(self, value: dict[str, Any], depth: int) -> Any:
        state = _of(dict, self.decode(value["state"], depth), "a random state")
        if state["bit_generator"] not in _BITS:
            raise ModelFileError(f"the random numbers of {state['bit_generator']!r:.40} are unknown.")
        bits = getattr(np.random, state["bit_generator"])()
        if value["random"] == "Generator":
            bits.state = state
            return np.random.Generator(bits)
        made = np.random.RandomState(bits)
        made.set_state(state)
        return made

    def _estimator(self, value: dict[str, Any], depth: int) -> Any:
        cls = class_named(value["object"])
        if not hasattr(cls, "get_params"):
            raise ModelFileError(f"{cls.__name__} is not described by parameters.")
        made = cls(**self._named(value["parameters"], depth))
        learned = self._named(value["fitted"], depth)
        for name, what in learned.items():
            if name in KINDS:
                _of(KINDS[name], what, f"{cls.__name__}.{name}")
        if hasattr(made, "_parameter_constraints"):
            made._validate_params()
        return _filled(made, learned)

    def _object(self, value: dict[str, Any], depth: int) -> Any:
        cls: Any = class_named(value["object"])
        given = self._named(value["fields"], depth)
        if hasattr(cls, "get_params"):
            raise ModelFileError(f"{cls.__name__} is described by parameters, not by fields.")
        if not hasattr(cls, "__dataclass_fields__"):
            return _filled(cls.__new__(cls), given)
        for declared in fields(cls):
            if declared.type in _FIELDS and declared.name in given:
                _of(_FIELDS[declared.type], given[declared.name], f"{value['object']}.{declared.name}")
        return cls(**given)  # whose constructor checks its values

    def _named(self, values: Any, depth: int) -> dict[str, Any]:
        return {name: self.decode(value, depth) for name, value in _of(dict, values, "the state of an object").items()}


_Write = Callable[[ModelEncoder, Any, str, int], Any]
_Read = Callable[[ModelDecoder, dict[str, Any], int], Any]
_WORDS: list[tuple[Any, _Write, dict[tuple[str, ...], _Read]]] = [
    (np.generic, ModelEncoder._scalar, {("scalar",): ModelDecoder._scalar}),
    (float, ModelEncoder._float, {("float",): ModelDecoder._float}),
    (_ROWS, ModelEncoder._array, {("array",): ModelDecoder._array, ("array", "column"): ModelDecoder._column}),
    ((), ModelEncoder._array, {("objects", "shape"): ModelDecoder._objects}),
    (list, ModelEncoder._list, {}),
    (tuple, ModelEncoder._tuple, {("tuple",): ModelDecoder._tuple}),
    (range, ModelEncoder._range, {("range",): ModelDecoder._range}),
    (dict, ModelEncoder._dict, {("dict",): ModelDecoder._dict}),
    (Kernel, ModelEncoder._kernel, {("kernel",): ModelDecoder._kernel}),
    ((np.random.RandomState, np.random.Generator), ModelEncoder._random, {("random", "state"): ModelDecoder._random}),
    (object, ModelEncoder._object, {("object", "parameters", "fitted"): ModelDecoder._estimator}),
    ((), ModelEncoder._object, {("object", "fields"): ModelDecoder._object}),
]
"""Types of values, how to write them, and how to read values with these keys."""
_READERS = {frozenset(keys): read for _, _, readers in _WORDS for keys, read in readers.items()}


def _of(kind: Any, value: Any, what: str) -> Any:
    """The value, if it has the right type; else raise."""
    wrong = isinstance(value, bool) and kind in (int, _FIELDS["int"], _FIELDS["float"])
    if wrong or not isinstance(value, kind):
        raise ModelFileError(f"{what} has the wrong type, {type(value).__name__}.")
    return value


def _filled(made: Any, state: dict[str, Any]) -> Any:
    """Set attributes of an object; none may replace a method."""
    for name in state:
        in_class = getattr(type(made), name, None)
        bound = callable(in_class) or (hasattr(type(in_class), "__get__") and not isinstance(in_class, cached_property))
        if not name.isidentifier() or name.startswith("__") or bound:
            raise ModelFileError(f"{type(made).__name__} cannot hold an attribute called {name!r:.80}.")
    vars(made).update(state)
    return made


def _advice(path: str) -> str:
    advice = _INSTEAD.get(path.rpartition(".")[2].strip("_"), "replace it by data, or by a part of gramian")
    return f"To save the model, {advice}."


def _refusal(value: Any, path: str) -> str:
    kind = type(value)
    what = f"a {kind.__module__}.{kind.__qualname__}"
    if path == "model" and kind.__module__.startswith("sklearn.") and hasattr(value, "steps"):
        return (
            f"a {kind.__qualname__} of scikit-learn cannot be saved by gramian: save its gramian step, or use "
            "AutoKernelRegressor or AutoKernelClassifier, which keep the preparation of columns inside."
        )
    if path == "model":
        return f"expected a fitted estimator of gramian, got {what}; only those can be saved."
    if callable(value):
        what = f"the function {getattr(value, '__qualname__', value)!s:.60}"
    return f"{path} is {what}, and a model file holds data, never code or objects it does not know. {_advice(path)}"
