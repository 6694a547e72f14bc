"""A graph of ONNX operators, built by calls that return names of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from gramian.onnx.machines import Output

OPSET, IR = 17, 8
"""Versions of the operators and of the format, old enough for common runtimes."""


class Graph:
    """Operators and constants so far."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any) -> str:
        """Add a constant and return its name; floats are in double precision."""
        array = np.asarray(value)
        array = array.astype(np.float64) if array.dtype.kind == "f" else array
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Apply an operator to names, or to arrays, which become constants."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [name], **attributes))
        return name

    def total(self, operator: str, values: Sequence[str]) -> str:
        """Combine several values by a binary operator."""
        found = values[0]
        for value in values[1:]:
            found = self(operator, found, value)
        return found

    def model(self, columns: int, outputs: dict[str, Output], notes: dict[str, str]) -> Any:
        """Return the ONNX model, from rows ``X`` (n, columns) to outputs by name."""
        ends = [helper.make_node("Identity", [each.value], [name]) for name, each in outputs.items()]
        rows = helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["n", columns])
        told = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(each.dtype)), ["n", name][: each.rank]
            )
            for name, each in outputs.items()
        ]
        graph = helper.make_graph([*self.nodes, *ends], "gramian", [rows], told, self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
        made.producer_name = "gramian"
        helper.set_model_props(made, notes)
        onnx.checker.check_model(made)
        return made
