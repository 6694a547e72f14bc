"""Kernels from text: what repr shows can be read again, and nothing else happens."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laws
from gramian.kernels import RBF, Columns, Kernel, Linear, Matern, Periodic, exp, polynomial
from gramian.kernels.parse import MAX_LENGTH, parse

OF_CODE = ("Callable", "Centred", "RankOne", "Composed")
READABLE = [k for name, ks in laws.EXAMPLES.items() for k in ks if name not in OF_CODE]


@pytest.mark.parametrize("kernel", READABLE, ids=repr)
def test_what_repr_shows_can_be_read(kernel: Kernel) -> None:
    try:
        kernel.to_dict()
    except TypeError:
        pytest.skip("holds a function")
    assert parse(repr(kernel)) == kernel


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("2*RBF(0.5)+Linear()", 2.0 * RBF(0.5) + Linear()),
        ("  RBF(lengthscale=[1, 2.5]) ", RBF([1.0, 2.5])),
        ("1/2 * RBF(1e-2)", 0.5 * RBF(0.01)),
        ("(RBF() + 1) * Linear() ** 3", (RBF() + 1) * Linear() ** 3),
        ("exp(0.1*Linear()).normalized()", exp(0.1 * Linear()).normalized()),
        ("polynomial(RBF(), (0, 1, 2))", polynomial(RBF(), [0, 1, 2])),
        ("Linear().on(0, 2) + Linear().compose(Columns((1,)))", Linear().on(0, 2) + Linear().compose(Columns((1,)))),
        ("Matern(1, nu=float('inf')).fix()", Matern(1.0, nu=float("inf")).fix()),
        ("Periodic(1.0, period=7, period_bounds='fixed')", Periodic(1.0, period=7.0, period_bounds="fixed")),
    ],
)
def test_expressions(text: str, kernel: Kernel) -> None:
    assert parse(text) == kernel


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RFB(1.0)", r"RFB: there is no such kernel; did you mean 'RBF'\?"),
        ("RBF", r"write RBF\(\)"),
        ("rbf(1)", "did you mean 'RBF'"),
        ("RBF(lenghtscale=1)", "lenghtscale"),
        ("RBF(-1)", "RBF"),
        ("RBF('a')", "RBF"),
        ("2", "is 2, not a kernel"),
        ("", "not a kernel expression"),
        ("RBF(", "not a kernel expression"),
        ("RBF() Linear()", "at character"),
        ("RBF() - Linear()", "kernels, numbers"),
        ("RBF() / 2", "only numbers can be divided"),
        ("1/0 * RBF()", "division by zero"),
        ("9**9**9 * RBF()", "kernels, numbers"),
        ("RBF()**0.5", r"RBF\(\)\*\*0.5"),
        ("-RBF()", "only a number may have a sign"),
        ("RBF() if 1 else Linear()", "kernels, numbers"),
        ("[k for k in (1,)]", "kernels, numbers"),
        ("lambda: RBF()", "kernels, numbers"),
        ("RBF().__class__", "kernels, numbers"),
        ("RBF().__class__()", "kernels have no __class__"),
        ("RBF().to_dict()", "kernels have no to_dict"),
        ("__import__('os').system('true')", "only a kernel can be called|no such kernel|kernels have no"),
        ("open('x')", "no such kernel"),
        ("eval('1')", "no such kernel"),
        ("Callable(1)", "it needs a function"),
        ("Composed(RBF(), Columns((0,)))", "it needs a function"),
        ("Linear().compose(RBF())", "text cannot express a function"),
        ("RBF(*[1])", "cannot be unpacked"),
        ("RBF(**{})", "cannot be unpacked|kernels, numbers"),
        ("float('1')", "only float"),
        ("RBF(1j)", "expected a number or a text"),
        ("RBF(b'')", "expected a number or a text"),
        ("RBF(1)(2)", "only a kernel can be called"),
        ("(" * 500 + "RBF()" + ")" * 500, "not a kernel expression|levels deep"),
        ("RBF()" + " + RBF()" * 200, "levels deep"),
        ("RBF() + " * 2000 + "RBF()", f"{MAX_LENGTH:,} characters"),
        ("RBF(\0)", "not a kernel expression"),
    ],
)
def test_what_is_no_kernel_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


@given(st.text(alphabet="RBFLinear().+*2,[]'=_ \n0-9x", max_size=40))
def test_any_text_gives_a_kernel_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse(text), Kernel)
