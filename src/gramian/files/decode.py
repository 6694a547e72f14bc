"""Decoding of a manifest to a model: names from a closed table, and the type of every value checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian.certificates import Certificate
from gramian.files.arrays import Unpacked
from gramian.files.encode import MAX_DEPTH
from gramian.files.errors import ModelFileError
from gramian.files.table import class_named
from gramian.kernels import Kernel, from_dict

__all__ = ["Decoder"]

_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_ROWS = (np.ndarray, sp.spmatrix, sp.sparray)
_NUMBERS = (int, float, np.number, np.ndarray)
KINDS: dict[str, Any] = {
    "X_fit_": _ROWS,
    "X_train_": _ROWS,
    "certificate_": Certificate,
    "certificates_": list,
    "class_weight_": np.ndarray,
    "classes_": (np.ndarray, list),
    "coef_": np.ndarray,
    "components_": _ROWS,
    "dual_coef_": _ROWS,
    "eigenvalues_": np.ndarray,
    "feature_names_in_": np.ndarray,
    "frequencies_": np.ndarray,
    "intercept_": _NUMBERS,
    "kernel_": Kernel,
    "_kernel": Kernel,
    "means_": np.ndarray,
    "n_features_in_": int,
    "normalization_": np.ndarray,
    "shape_fit_": tuple,
    "support_": np.ndarray,
    "support_vectors_": _ROWS,
    "weights_": np.ndarray,
}
"""What these attributes are, in whatever estimator."""
_FIELDS: dict[str, Any] = {
    "float": (int, float, np.floating),
    "int": (int, np.integer),
    "bool": (bool, np.bool_),
    "str": str,
}


@dataclass
class Decoder:
    """Turns a manifest's plain values into a model."""

    arrays: Unpacked  # Where the arrays come from

    def decode(self, value: Any, depth: int = 0) -> Any:
        """Return what some plain words stand for."""
        if depth > MAX_DEPTH:
            raise ModelFileError(f"objects are nested more than {MAX_DEPTH} deep.")
        if isinstance(value, list):
            return [self.decode(v, depth + 1) for v in value]
        if not isinstance(value, dict):
            return value
        read = _WORDS.get(frozenset(value))
        if read is None:
            raise ModelFileError(f"a value with the keys {sorted(value)!r:.80} is unknown.")
        return read(self, value, depth + 1)

    def _float(self, value: dict[str, Any], depth: int) -> Any:
        return _FLOATS[_of(str, value["float"], "a float")]

    def _tuple(self, value: dict[str, Any], depth: int) -> Any:
        return tuple(self.decode(v, depth) for v in _of(list, value["tuple"], "a tuple"))

    def _range(self, value: dict[str, Any], depth: int) -> Any:
        return range(*(_of(int, v, "a range") for v in _of(list, value["range"], "a range")))

    def _dict(self, value: dict[str, Any], depth: int) -> Any:
        pairs = _of(list, value["dict"], "a dictionary")
        return {self.decode(k, depth): self.decode(v, depth) for k, v in pairs}

    def _array(self, value: dict[str, Any], depth: int) -> Any:
        return self.arrays.get(value["array"])

    def _column(self, value: dict[str, Any], depth: int) -> Any:
        return self.arrays.column(value["array"], value["column"])

    def _scalar(self, value: dict[str, Any], depth: int) -> Any:
        a = _of(np.ndarray, self.decode(value["scalar"], depth), "a scalar")
        if a.shape != ():
            raise ModelFileError("a scalar must be an array without dimensions.")
        return a[()]

    def _objects(self, value: dict[str, Any], depth: int) -> Any:
        items, shape = _of(list, value["objects"], "an array of objects"), _of(list, value["shape"], "a shape")
        out = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            out[i] = self.decode(item, depth)
        return out.reshape([_of(int, s, "a shape") for s in shape])

    def _kernel(self, value: dict[str, Any], depth: int) -> Any:
        return from_dict(value["kernel"])

    def _random(self, value: dict[str, Any], depth: int) -> Any:
        state = _of(dict, self.decode(value["state"], depth), "a random state")
        bits = _BIT_GENERATORS[state["bit_generator"]]()
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
        declared = {f.name: f.type for f in fields(cls)} if is_dataclass(cls) else None
        if declared is None:
            return _filled(cls.__new__(cls), given)
        for name, what in given.items():
            if declared.get(name) in _FIELDS:
                _of(_FIELDS[str(declared[name])], what, f"{value['object']}.{name}")
        return cls(**given)  # which checks the values that it knows how to check

    def _named(self, values: Any, depth: int) -> dict[str, Any]:
        return {name: self.decode(value, depth) for name, value in _of(dict, values, "the state of an object").items()}


_WORDS: dict[frozenset[str], Callable[[Decoder, dict[str, Any], int], Any]] = {
    frozenset({"float"}): Decoder._float,
    frozenset({"tuple"}): Decoder._tuple,
    frozenset({"range"}): Decoder._range,
    frozenset({"dict"}): Decoder._dict,
    frozenset({"array"}): Decoder._array,
    frozenset({"array", "column"}): Decoder._column,
    frozenset({"scalar"}): Decoder._scalar,
    frozenset({"objects", "shape"}): Decoder._objects,
    frozenset({"kernel"}): Decoder._kernel,
    frozenset({"random", "state"}): Decoder._random,
    frozenset({"object", "parameters", "fitted"}): Decoder._estimator,
    frozenset({"object", "fields"}): Decoder._object,
}
_BIT_GENERATORS: dict[str, Any] = {
    "MT19937": np.random.MT19937,
    "PCG64": np.random.PCG64,
    "PCG64DXSM": np.random.PCG64DXSM,
    "Philox": np.random.Philox,
    "SFC64": np.random.SFC64,
}


def _of(kind: Any, value: Any, what: str) -> Any:
    """The value, where it is of a kind."""
    wrong = isinstance(value, bool) and kind in (int, _FIELDS["int"], _FIELDS["float"])
    if wrong or not isinstance(value, kind):
        raise ModelFileError(f"{what} has the wrong type, {type(value).__name__}.")
    return value


def _filled(made: Any, state: dict[str, Any]) -> Any:
    """Give an object its attributes, none of which may take the place of a method."""
    for name in state:
        in_class = getattr(type(made), name, None)
        if not name.isidentifier() or name.startswith("__") or callable(in_class) or hasattr(type(in_class), "__get__"):
            raise ModelFileError(f"{type(made).__name__} cannot hold an attribute called {name!r:.80}.")
    vars(made).update(state)
    return made
