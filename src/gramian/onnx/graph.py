"""A graph of ONNX operators, built by calls that return names of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import onnx
from onnx import helper, numpy_helper

if TYPE_CHECKING:
    from gramian.onnx.machines import Output

OPSET, IR = {"": 17, "ai.onnx.ml": 5}, 8
"""Versions of the operators, by their domain, and of the format, old enough for common runtimes."""


class Graph:
    """Inputs, operators and constants so far; only the names of inputs and outputs are without a slash."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def input(self, name: str, kind: Any, columns: int) -> str:
        """Add an input (n, columns) and return its name."""
        self.inputs.append(_told(name, kind, ["n", columns]))
        return name

    def constant(self, value: Any) -> str:
        """Add a constant and return its name; floats are in double precision."""
        name = f"gramian/c{len(self.constants)}"
        self.constants.append(self.tensor(value, name))
        return name

    @staticmethod
    def tensor(value: Any, name: str = "") -> Any:
        """Return an array as ONNX writes it; floats are in double precision."""
        array = np.asarray(value)
        return numpy_helper.from_array(array.astype(np.float64) if array.dtype.kind == "f" else array, name)

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Apply an operator to names, or to arrays, which become constants."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        name = f"gramian/v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [name], **attributes))
        return name

    def total(self, operator: str, values: Sequence[str]) -> str:
        """Combine several values by a binary operator."""
        found = values[0]
        for value in values[1:]:
            found = self(operator, found, value)
        return found

    def model(self, outputs: dict[str, Output], notes: dict[str, str]) -> Any:
        """Return the ONNX model, from its inputs to outputs by name."""
        if both := outputs.keys() & {each.name for each in self.inputs}:
            raise ValueError(
                f"a column is called {min(both)!r}, as an output of the graph is; rename it and fit again."
            )
        ends = [helper.make_node("Identity", [each.value], [name]) for name, each in outputs.items()]
        told = [_told(name, each.dtype, ["n", name][: each.rank]) for name, each in outputs.items()]
        graph = helper.make_graph([*self.nodes, *ends], "gramian", self.inputs, told, self.constants)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid(*each) for each in OPSET.items()], ir_version=IR
        )
        made.producer_name = "gramian"
        helper.set_model_props(made, notes)
        onnx.checker.check_model(made)
        return made


def _told(name: str, kind: Any, shape: list[Any]) -> Any:
    """The name, the type and the shape of an input or output."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
