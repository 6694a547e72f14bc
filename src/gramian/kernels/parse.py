"""Kernels from text: ``2*RBF(0.5) + Linear()`` is read by a small grammar and never evaluated as Python."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from gramian.kernels.base import Kernel
from gramian.kernels.deserialize import known_kernels
from gramian.kernels.maps import Columns
from gramian.kernels.pointwise import exp, polynomial
from gramian.numerals import nearest

MAX_LENGTH = 10_000
"""Limit on the characters of an expression."""
MAX_DEPTH = 100
"""Limit on the nesting of brackets and operators."""
_OF_CODE = ("Callable", "Centred", "Composed", "RankOne")
"""Kernels that hold a function or rows, which text cannot express."""
_METHODS = ("compose", "fix", "metric", "normalized", "on")


def parse(text: str) -> Kernel:
    """Read a kernel from an expression of kernels, numbers, ``+``, ``*``, ``**``, ``exp`` and ``polynomial``.

    It reads what ``repr`` of a kernel shows, unless the kernel holds a user's function.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a kernel expression may have {MAX_LENGTH:,} characters, and this has {len(text):,}.")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        where = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        raise ValueError(
            f"{text!r:.80} is not a kernel expression{where}; write it like 2*RBF(0.5) + Linear()."
        ) from None
    found = _Reader(text.strip()).read(tree)
    if not isinstance(found, Kernel):
        raise ValueError(f"{text!r:.80} is {found!r:.40}, not a kernel; write it like 2*RBF(0.5) + Linear().")
    return found


class _Reader:
    """Evaluates a syntax tree; only a few kinds of node are allowed."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, node: ast.AST, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError(f"the kernel expression nests more than {MAX_DEPTH} levels deep.")
        read = _NODES.get(type(node))
        if read is None:
            raise ValueError(f"{self.of(node)}: a kernel expression has kernels, numbers, +, * and ** only.")
        return read(self, node, depth + 1)

    def of(self, node: ast.AST) -> str:
        """The text of a node, for errors."""
        segment = ast.get_source_segment(self.text, node) or type(node).__name__
        return segment if len(segment) <= 60 else f"{segment[:57]}..."

    def constant(self, node: ast.Constant, depth: int) -> Any:
        if node.value is None or isinstance(node.value, bool | int | float | str):
            return node.value
        raise ValueError(f"{self.of(node)}: expected a number or a text.")

    def sequence(self, node: ast.List | ast.Tuple, depth: int) -> Any:
        return tuple(self.read(item, depth) for item in node.elts)

    def unary(self, node: ast.UnaryOp, depth: int) -> Any:
        value = self.read(node.operand, depth)
        if not _is_number(value) or not isinstance(node.op, ast.USub | ast.UAdd):
            raise ValueError(f"{self.of(node)}: only a number may have a sign.")
        return -value if isinstance(node.op, ast.USub) else value

    def binary(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.read(node.left, depth), self.read(node.right, depth)
        apply = _OPERATORS.get(type(node.op))
        numbers = _is_number(left) and _is_number(right)
        fit = [isinstance(v, Kernel) or _is_number(v) for v in (left, right)]
        # Powers of numbers are left out: 9**9**9 would never end.
        if apply is None or not all(fit) or (isinstance(node.op, ast.Pow) and not isinstance(left, Kernel)):
            raise ValueError(f"{self.of(node)}: a kernel expression has kernels, numbers, +, * and ** only.")
        if isinstance(node.op, ast.Div) and not numbers:
            raise ValueError(f"{self.of(node)}: only numbers can be divided; multiply the kernel by 1/number.")
        return self.made(lambda: apply(left, right), node)

    def name(self, node: ast.Name, depth: int) -> Any:
        if node.id in known_kernels():
            raise ValueError(f"{node.id}: a kernel needs parentheses; write {node.id}().")
        raise ValueError(f"{node.id}: there is no such kernel; {nearest(node.id, _offered())}")

    def call(self, node: ast.Call, depth: int) -> Any:
        make = self.callee(node.func, depth)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise ValueError(f"{self.of(node)}: arguments cannot be unpacked with * or **; write them one by one.")
        given = [self.read(a, depth) for a in node.args]
        named = {str(k.arg): self.read(k.value, depth) for k in node.keywords}
        return self.made(lambda: make(*given, **named), node)

    def callee(self, node: ast.expr, depth: int) -> Callable[..., Any]:
        if isinstance(node, ast.Attribute):
            owner = self.read(node.value, depth)
            if not isinstance(owner, Kernel) or node.attr not in _METHODS:
                raise ValueError(f"{self.of(node)}: kernels have no {node.attr} here; {nearest(node.attr, _METHODS)}")
            return _composed(owner) if node.attr == "compose" else getattr(owner, node.attr)
        if not isinstance(node, ast.Name):
            raise ValueError(f"{self.of(node)}: only a kernel can be called.")
        if node.id in _OF_CODE:
            raise ValueError(
                f"{node.id}: it needs a function or data, which text cannot express; build this kernel in Python."
            )
        return _offered()[node.id] if node.id in _offered() else self.name(node, depth)

    def made(self, make: Callable[[], Any], node: ast.AST) -> Any:
        try:
            return make()
        except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise ValueError(f"{self.of(node)}: {error}") from error


def _offered() -> dict[str, Callable[..., Any]]:
    """The names that can be called: kernels, the functions of the algebra, and names that ``repr`` shows."""
    kernels = {name: cls for name, cls in known_kernels().items() if name not in _OF_CODE}
    return {**kernels, "Columns": Columns, "exp": exp, "float": _float, "polynomial": polynomial}


def _composed(kernel: Kernel) -> Callable[[Any], Kernel]:
    """``kernel.compose`` for the one map that text can express."""

    def compose(phi: Any) -> Kernel:
        if not isinstance(phi, Columns):
            raise ValueError("text cannot express a function; only Columns((0, 1)) is possible here.")
        return kernel.compose(phi)

    return compose


def _float(text: Any) -> float:
    if text not in ("inf", "-inf"):
        raise ValueError("only float('inf') is allowed; write other numbers as they are.")
    return float(text)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
_NODES: dict[type[ast.AST], Callable[[_Reader, Any, int], Any]] = {
    ast.BinOp: _Reader.binary,
    ast.Call: _Reader.call,
    ast.Constant: _Reader.constant,
    ast.List: _Reader.sequence,
    ast.Name: _Reader.name,
    ast.Tuple: _Reader.sequence,
    ast.UnaryOp: _Reader.unary,
}
