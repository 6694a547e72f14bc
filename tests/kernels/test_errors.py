"""Wrong kernels and wrong inputs: each a clear error, at construction where it can be."""

import numpy as np
import pytest

from gramian import kernels as gk
from gramian.gram import Gram

CONSTRUCTION = [
    (lambda: gk.RBF(0.0), ValueError, r"RBF: lengthscale must be finite and > 0, got 0.0"),
    (lambda: gk.RBF(-1.0), ValueError, "lengthscale must be finite and > 0"),
    (lambda: gk.RBF([1.0, 0.0]), ValueError, "lengthscale must be finite and > 0"),
    (lambda: gk.RBF(np.nan), ValueError, "finite"),
    (lambda: gk.RBF(np.inf), ValueError, "finite"),
    (lambda: gk.RBF("a"), TypeError, "must be a number, got 'a'"),
    (lambda: gk.RBF([]), ValueError, "a number or one number per input"),
    (lambda: gk.RBF([[1.0]]), ValueError, "a number or one number per input"),
    (lambda: gk.Matern(1.0, nu=0.0), ValueError, "nu must be positive"),
    (lambda: gk.Matern(1.0, nu=np.nan), ValueError, "nu must be positive"),
    (lambda: gk.Periodic(1.0, period=[1.0, 2.0]), ValueError, "period must be one number"),
    (lambda: gk.Polynomial(2.5), ValueError, "degree must be a natural number"),
    (lambda: gk.Polynomial(0), ValueError, "degree must be a natural number"),
    (lambda: gk.Polynomial(2, offset=-1.0), ValueError, "offset must be finite and >= 0"),
    (lambda: gk.Constant(-1.0), ValueError, "value must be finite and >= 0"),
    (lambda: gk.White(-0.1), ValueError, "noise must be finite and >= 0"),
    (lambda: -1.0 * gk.RBF(), ValueError, "factor must be finite and >= 0"),
    (lambda: gk.RBF() * -2, ValueError, "factor must be finite and >= 0"),
    (lambda: gk.RBF() + -1.0, ValueError, "value must be finite and >= 0"),
    (lambda: -1.0 + gk.RBF(), ValueError, "value must be finite and >= 0"),
    (lambda: gk.RBF() + "a", TypeError, "unsupported operand"),
    (lambda: gk.RBF() * None, TypeError, "unsupported operand"),
    (lambda: gk.RBF() ** 0.5, ValueError, "natural number"),
    (lambda: gk.RBF() ** 0, ValueError, "natural number"),
    (lambda: gk.polynomial(gk.RBF(), [1.0, -1.0]), ValueError, "coefficients must be finite and >= 0"),
    (lambda: gk.polynomial(gk.RBF(), []), ValueError, "coefficients must be"),
    (lambda: gk.Spectrum(0), ValueError, "length must be a natural number"),
    (lambda: gk.RBF(1.0, (1.0, 0.1)), ValueError, "lengthscale_bounds must be"),
    (lambda: gk.RBF(1.0, "free"), ValueError, "lengthscale_bounds must be"),
    (lambda: gk.Sum(gk.RBF(), 2.0), TypeError, r"Sum: right must be a kernel, got 2.0"),
    (lambda: gk.exp(2.0), TypeError, "Exp: kernel must be a kernel"),
    (lambda: gk.Power(2.0, 2), TypeError, "Power: kernel must be a kernel"),
    (lambda: gk.RBF("2"), TypeError, "must be a number"),
    (lambda: gk.Sigmoid(offset="a"), TypeError, "offset must be a finite number"),
    (lambda: gk.Sigmoid(offset=np.nan), TypeError, "offset must be a finite number"),
    (lambda: gk.Callable(3), TypeError, "f must be a function of two objects"),
    (lambda: gk.RankOne(3), TypeError, "must be functions of rows"),
    (lambda: gk.RBF().compose(3), TypeError, "phi must be a function of rows"),
    (lambda: gk.WordCount("no"), TypeError, "lowercase must be True or False"),
    (lambda: gk.RBF().on(1.5), ValueError, "columns must be positions"),
    (lambda: np.ones(2) * gk.RBF(), TypeError, "unsupported operand"),
    (lambda: type("RBF", (gk.Radial,), {}), TypeError, "already defined in gramian.kernels.radial"),
    (lambda: gk.RBF(1.0).on(), ValueError, "at least one"),
    (lambda: gk.RBF(1.0).on("age"), ValueError, r"positions >= 0, at least one; got \('age',\)"),
    (lambda: gk.Columns(0), ValueError, "positions >= 0, at least one; got 0"),
    (lambda: gk.RBF(1.0).fix("gamma"), ValueError, "has parameters"),
    (lambda: gk.RBF(1.0).with_theta([0.0, 1.0]), ValueError, "theta must have shape"),
]


@pytest.mark.parametrize(("make", "error", "message"), CONSTRUCTION)
def test_construction(make, error, message):
    with pytest.raises(error, match=message):
        make()


NAN = np.array([[1.0, np.nan], [0.0, 1.0]])
INPUTS = [
    (gk.RBF(), NAN, None, ValueError, "contains NaN"),
    (gk.RBF(), [[1.0, np.inf]], None, ValueError, "infinity"),
    (gk.RBF(), [["a", "b"]], None, TypeError, "compares rows of numbers, but X holds text"),
    (gk.RBF(), ["a", "b"], None, TypeError, "compares rows of numbers, but X holds text"),
    (gk.RBF(), np.ones((2, 3)), np.ones((2, 4)), ValueError, "same number of columns, got 3 and 4"),
    (gk.RBF(), np.ones((0, 3)), None, ValueError, r"0 sample\(s\)"),
    (gk.RBF(), np.ones((3, 0)), None, ValueError, r"0 feature\(s\)"),
    (gk.RBF(), np.ones(3), None, ValueError, "Expected 2D array, got 1D array"),
    (gk.RBF([1.0, 2.0]), np.ones((2, 3)), None, ValueError, "2 lengthscales but X has 3 columns"),
    (gk.Laplace([1.0, 2.0]), np.ones((2, 3)), None, ValueError, "2 lengthscales but X has 3 columns"),
    (gk.Linear(), NAN, None, ValueError, "contains NaN"),
    (gk.Linear(), np.ones((2, 2)), NAN, ValueError, "Input Y contains NaN"),
    (gk.RBF() + gk.Linear(), NAN, None, ValueError, "contains NaN"),
    (gk.Constant(1.0), NAN, None, ValueError, "contains NaN"),
    (gk.Sobolev(), [[1.5]], None, ValueError, r"inputs in \[0, 1\], got X in \[1.5, 1.5\]"),
    (gk.Sobolev(), [[0.5, 0.5]], None, ValueError, "one input, got X with 2 columns"),
    (gk.Chi2(1.0), [[-1.0]], None, ValueError, "X has negative entries"),
    (gk.Spectrum(2), [1, 2], None, TypeError, r"compares str objects, but X\[0\] is 1"),
    (gk.Spectrum(2), "abc", None, TypeError, "expects a sequence of objects"),
    (gk.Spectrum(2), [], None, ValueError, "at least one object"),
    (gk.WordCount(), np.array([["a", "b"]]), None, ValueError, "one object per row, got X with 2 columns"),
    (gk.Precomputed(), np.ones((2, 3)), None, ValueError, "must be square"),
    (gk.Precomputed(), np.ones((2, 3)), np.ones((2, 2)), ValueError, "one column per training row, 2; got 3"),
    (gk.RankOne(lambda X: X), np.ones((2, 2)), None, ValueError, "one number per row"),
    (gk.RankOne(lambda X: X[:, 0] * np.nan), np.ones((2, 2)), None, ValueError, "NaN or infinity"),
    (gk.Callable(lambda a, b: np.nan), np.ones((2, 2)), None, ValueError, "NaN or infinity"),
    (gk.Callable(lambda X, Y: X, vectorized=True), np.ones((2, 3)), None, ValueError, "must have shape"),
    (gk.RBF().on(5), np.ones((2, 3)), None, ValueError, r"columns \(5,\) were asked for"),
    (
        gk.Sigmoid(1.0, offset=-5.0).normalized(),
        np.ones((2, 3)),
        None,
        ValueError,
        "not positive semi-definite and has no norm",
    ),
]


@pytest.mark.parametrize(("k", "X", "Y", "error", "message"), INPUTS)
def test_inputs(k, X, Y, error, message):
    with pytest.raises(error, match=message):
        k(X, Y)
    with pytest.raises(error, match=message):
        Gram(k, X, Y)


def test_shapes_of_out_and_weights():
    k, X = gk.RBF(), np.ones((3, 2))
    with pytest.raises(ValueError, match=r"out must have shape \(3, 3\), got \(2, 3\)"):
        k(X, out=np.empty((2, 3)))
    with pytest.raises(TypeError, match="out must be float32 or float64, got int64"):
        k(X, out=np.zeros((3, 3), dtype=np.int64))
    with pytest.raises(TypeError, match="out must be float32 or float64"):
        Gram(k, X).rows([0], out=np.zeros((1, 3), dtype=np.int64))
    with pytest.raises(ValueError, match="phi must keep the rows, 3 of them; it returned 2"):
        k.compose(lambda X: X[:2])(X)
    with pytest.raises(ValueError, match="W must have shape"):
        k.vjp(X, None, np.ones((2, 3)))
    with pytest.raises(ValueError, match="W must have shape"):
        k.grad_inputs(X, None, np.ones((2, 3)))


def test_no_gradient_where_there_is_none():
    X = np.ones((2, 2))
    for k in (gk.Callable(lambda a, b: 1.0), gk.RBF().compose(np.sin), gk.RankOne(lambda X: X[:, 0])):
        with pytest.raises(TypeError, match=r"input gradient|gradient with respect"):
            k.grad_inputs(X, None, np.ones((2, 2)))


def test_strict_arrays_are_checked_too():
    import array_api_strict as xp

    for X, message in (
        (xp.asarray([1.0, 2.0]), "expects 2-D X"),
        (xp.asarray([[1.0, float("nan")]]), "NaN or infinity"),
        (xp.zeros((0, 2)), "at least one row"),
    ):
        with pytest.raises(ValueError, match=message):
            gk.RBF()(X)
    with pytest.raises(TypeError, match="Gram takes NumPy or SciPy arrays"):
        Gram(gk.RBF(), xp.ones((2, 2)))
    assert gk.RBF()(xp.asarray([[1, 2]])).dtype == xp.float64


def test_unknown_names_suggest_the_near_one():
    with pytest.raises(ValueError, match="unknown kernel 'RFB'; did you mean 'RBF'"):
        gk.from_dict({"kernel": "RFB"})
    with pytest.raises(ValueError, match="no field 'lengthscales'; did you mean 'lengthscale'"):
        gk.from_dict({"kernel": "RBF", "lengthscales": 1.0})
    with pytest.raises(ValueError, match="needs"):
        gk.from_dict({"kernel": "Sum", "left": {"kernel": "Linear"}})
    deep = {"kernel": "Linear"}
    for _ in range(3000):
        deep = {"kernel": "Exp", "of": deep}
    for wrong in (
        None,
        [],
        {"name": "RBF"},
        {"kernel": 3},
        {"kernel": "os.system"},
        {"kernel": "Kernel"},
        {"kernel": "Callable", "f": "os.system"},
        {"kernel": "Composed", "of": {"kernel": "RBF"}, "phi": {"map": "Columns"}},
        deep,
    ):
        with pytest.raises(ValueError, match="kernel"):
            gk.from_dict(wrong)


def test_code_is_not_data():
    for k in (gk.Callable(min), gk.RankOne(len), gk.RBF().compose(np.sin)):
        with pytest.raises(TypeError, match="cannot be written as data"):
            k.to_dict()


def test_kernels_are_frozen():
    from dataclasses import FrozenInstanceError

    with pytest.raises(FrozenInstanceError):
        gk.RBF(1.0).lengthscale = 2.0
