"""What must hold for every kernel, as functions that raise; and one example at least of every kernel class.

``EXAMPLES`` is checked against the registry, so a kernel added tomorrow fails the tests until it has an example and a
reference, and then obeys every law here.
"""

from __future__ import annotations

import copy
import pickle
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import reference
from gramian import kernels as gk
from gramian.gram import Gram
from gramian.kernels.deserialize import known_kernels

NOT_PSD = {"Sigmoid", "AdditiveChi2", "ThinPlate", "Multiquadric"}
"""Similarities that scikit-learn calls kernels and that are none, and kernels that are so conditionally."""


def first_column(X):
    return X[:, 0]


def first_axis(X):
    return X * 0 + np.eye(X.shape[1])[0]


def overlap(a, b):
    return float(np.minimum(a, b).sum())


def overlaps(X, Y):
    return np.minimum(X[:, None, :], Y[None, :, :]).sum(axis=-1)


TEXTS = ["kernel machine", "kernel ridge", "the ridge of the machine", "", "Nyström and the kernel", "aaaa"]

EXAMPLES: dict[str, list[gk.Kernel]] = {
    "RBF": [gk.RBF(0.7), gk.RBF([0.3, 1.0, 2.0])],
    "Matern": [
        gk.Matern(0.8, nu=0.5),
        gk.Matern([0.5, 1.0, 2.0], nu=1.5),
        gk.Matern(0.8, nu=2.5),
        gk.Matern(0.8, nu=float("inf")),
        gk.Matern([0.9, 0.4, 1.0], nu=0.8),
        gk.Matern(0.9, nu=3.7),
    ],
    "RationalQuadratic": [gk.RationalQuadratic(0.6, alpha=0.7), gk.RationalQuadratic([0.3, 1.0, 2.0], alpha=2.0)],
    "Periodic": [gk.Periodic(0.9, period=0.6), gk.Periodic([0.7, 1.0, 3.0], period=0.37)],
    "Laplace": [gk.Laplace(0.8), gk.Laplace([0.3, 1.0, 2.0])],
    "PowerExponential": [
        gk.PowerExponential(0.8),
        gk.PowerExponential([0.3, 1.0, 2.0], p=1.5, q=0.75, q_bounds=(0.1, 1.5)),
        gk.PowerExponential(0.8, p=1.0, q=1.0),
        gk.PowerExponential([0.5, 1.0, 2.0], p=2.0, q=1.3),
        gk.PowerExponential(0.9, p=1.2, q=0.9, q_bounds=(0.1, 1.2)),
    ],
    "Categorical": [gk.Categorical(0.7), gk.Categorical([0.3, 1.0, 2.0]), gk.Categorical(0.0)],
    "Metric": [
        gk.RBF(0.7).metric([[1.0, -0.5], [0.0, 2.0], [0.3, 0.4]]),
        gk.Matern([0.7, 1.0, 0.4], nu=1.5).metric(np.diag([1.0, 0.5, -1.5])) + gk.Linear(),
        gk.Metric(gk.Polynomial(2), [[0.5], [-1.0], [0.2]], L_bounds=(-3.0, 3.0)),
        gk.PowerExponential(0.8).metric([[1.0, 0.2], [-0.3, 1.0], [0.4, 0.4]]),
    ],
    "ThinPlate": [gk.ThinPlate(), gk.ThinPlate(3)],
    "Multiquadric": [gk.Multiquadric(0.8), gk.Multiquadric([0.3, 1.0, 2.0])],
    "White": [gk.White(0.3)],
    "Constant": [gk.Constant(1.7)],
    "Linear": [gk.Linear()],
    "Polynomial": [gk.Polynomial(3, scale=0.7, offset=0.4), gk.Polynomial(2, offset=0.0), gk.Polynomial(1)],
    "Sigmoid": [gk.Sigmoid(0.6, offset=-0.2)],
    "Chi2": [gk.Chi2(0.8)],
    "AdditiveChi2": [gk.AdditiveChi2()],
    "Sobolev": [gk.Sobolev()],
    "Spectrum": [gk.Spectrum(2)],
    "WordCount": [gk.WordCount(), gk.WordCount(lowercase=False)],
    "Precomputed": [gk.Precomputed()],
    "Callable": [gk.Callable(overlap), gk.Callable(overlaps, vectorized=True)],
    "RankOne": [gk.RankOne(first_column, gradient=first_axis)],
    "Sum": [gk.RBF(0.5) + gk.Linear(), gk.White(0.2) + (gk.RBF(0.4) + gk.Constant(0.5))],
    "Product": [gk.Linear() * gk.Periodic(1.0, period=0.7), (gk.RBF(0.4) + 1.0) * gk.Matern(0.6, nu=2.5)],
    "Scaled": [2.0 * gk.RBF(0.5), 0.3 * (2.0 * gk.Laplace(1.0))],
    "Power": [(gk.Linear() + 0.5) ** 3, gk.RBF(0.5) ** 2],
    "Exp": [gk.exp(gk.Linear()), gk.exp(0.5 * gk.RBF(0.4) + gk.White(0.1))],
    "PolynomialOf": [
        gk.polynomial(gk.RBF(0.5), [0.5, 0.0, 2.0]),
        gk.PolynomialOf(gk.Linear(), [0.5, 1.0, 2.0], (1e-3, 1e3)),
    ],
    "NormalizedExp": [gk.exp(gk.Linear()).normalized(), gk.exp(gk.RBF(0.5) + gk.White(0.3)).normalized()],
    "Normalized": [(gk.Polynomial(2) + gk.White(0.2)).normalized()],
    "Centred": [(gk.RBF(0.5) + gk.Linear()).centred(np.linspace(0.0, 1.0, 12).reshape(4, 3))],
    "Composed": [gk.RBF(0.5).compose(np.sin), gk.RBF([0.4, 1.0]).on(0, 2) + gk.Linear().on(1)],
}


@dataclass(frozen=True)
class Case:
    """A kernel and objects that it can compare."""

    kernel: gk.Kernel
    X: Any
    Y: Any

    def __str__(self):
        return repr(self.kernel)


def rows_for(k: gk.Kernel, n: int, seed: int) -> Any:
    """Return n objects of the sort that k compares."""
    rng = np.random.default_rng(seed)
    names = {type(node).__name__ for node in nodes(k)}
    if names & {"Spectrum", "WordCount"}:
        return [str(t) for t in rng.choice(TEXTS, size=n)]
    if "Precomputed" in names:
        F = rng.standard_normal((n, 4))
        return F @ F.T
    if "Sobolev" in names:
        return rng.random((n, 1))
    if "Categorical" in names:
        return rng.integers(0, 3, (n, 3)).astype(float)
    return rng.random((n, 3))


def nodes(k: gk.Kernel) -> list[gk.Kernel]:
    """Return the kernel and everything inside it."""
    return [k, *(node for child in k.children for node in nodes(child))]


def cases() -> list[Case]:
    """Return every example with rows for it."""
    made = []
    for examples in EXAMPLES.values():
        for k in examples:
            if isinstance(k, gk.Precomputed):
                K = rows_for(k, 9, 0)
                made.append(Case(k, K, None))
            else:
                made.append(Case(k, rows_for(k, 7, 0), rows_for(k, 5, 1)))
    return made


def vector_cases() -> list[Case]:
    """Return the examples that compare rows of numbers."""
    return [c for c in cases() if isinstance(c.X, np.ndarray) and not isinstance(c.kernel, gk.Precomputed)]


def hard_cases() -> list[Case]:
    """Return examples on rows where distances lose digits: far from zero, far apart, repeated."""
    rng = np.random.default_rng(9)
    X = rng.random((8, 3)) + np.array([2e4, 0.0, -3e3])
    X[5] = X[0]
    X[6] += 1e5
    Y = X[:5] + 0.1 * rng.random((5, 3))
    plain = (gk.RBF, gk.Matern, gk.RationalQuadratic, gk.Laplace, gk.PowerExponential)
    kernels = [k for cls in plain for k in EXAMPLES[cls.__name__]]
    kernels += [2.0 * gk.RBF([0.5, 1.0, 2.0]) * gk.Matern(1.0) + gk.White(0.1), gk.exp(gk.Matern(0.7, nu=0.5))]
    return [Case(k, X, Y) for k in kernels]


def differentiable_cases() -> list[Case]:
    """Return the examples that have input gradients."""
    return [
        c
        for c in vector_cases()
        if not any(isinstance(n, gk.Callable | gk.Centred | gk.Composed) and no_pullback(n) for n in nodes(c.kernel))
    ]


def no_pullback(node: gk.Kernel) -> bool:
    return isinstance(node, gk.Callable | gk.Centred) or not hasattr(node.phi, "pullback")


def every_class_has_an_example() -> None:
    # A class defined in a doctest claims the module, but is not in it.
    ours = {n for n, cls in known_kernels().items() if getattr(sys.modules.get(cls.__module__), n, None) is cls}
    ours = {n for n in ours if known_kernels()[n].__module__.startswith("gramian.")}
    missing = ours - set(EXAMPLES) - {"Adapted"}  # what it promises is what scikit-learn's object does
    assert not missing, f"add an example to tests/laws.py for {sorted(missing)}"


# ---- the laws -----------------------------------------------------------------------------------------------------


def is_psd(k: gk.Kernel) -> bool:
    return not any(type(node).__name__ in NOT_PSD for node in nodes(k))


def symmetric(c: Case) -> None:
    K = c.kernel(c.X)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-14 * np.abs(K).max())


def positive_semidefinite(c: Case) -> None:
    report = gk.is_kernel(c.kernel, c.X)
    assert report, str(report)
    assert report.tolerance < 1e-5 * max(report.largest_eigenvalue, 1e-290)


def diag_is_the_diagonal(c: Case) -> None:
    # Against the definition: a tile has its diagonal from diag itself.
    np.testing.assert_allclose(c.kernel.diag(c.X), np.diag(reference.gram(c.kernel, c.X)), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(c.kernel.diag(c.X), np.diag(c.kernel(c.X)), rtol=1e-13, atol=1e-15)


def tile_is_the_double_loop(c: Case) -> None:
    np.testing.assert_allclose(c.kernel(c.X), reference.gram(c.kernel, c.X), rtol=1e-9, atol=1e-12)
    if c.Y is not None:
        np.testing.assert_allclose(c.kernel(c.X, c.Y), reference.gram(c.kernel, c.X, c.Y), rtol=1e-9, atol=1e-12)


def out_is_written(c: Case) -> None:
    K = c.kernel(c.X)
    out = np.full(K.shape, np.nan)
    returned = c.kernel(c.X, out=out)
    assert returned is out
    np.testing.assert_array_equal(out, K)
    strided = np.full((K.shape[0], 2 * K.shape[1]), np.nan)[:, ::2]
    np.testing.assert_allclose(c.kernel(c.X, out=strided), K, rtol=1e-13)


def any_tiling_gives_the_same_product(c: Case) -> None:
    K, n = c.kernel(c.X), len(c.X)
    v = np.random.default_rng(3).standard_normal(n)
    A, B = c.kernel.prepare(c.X)
    for rows in (1, 2, n):
        for columns in (1, 3, n):
            product = np.zeros(n)
            for i in range(0, n, rows):
                for j in range(0, n, columns):
                    product[i : i + rows] += c.kernel.tile(A[i : i + rows], B[j : j + columns]) @ v[j : j + columns]
            np.testing.assert_allclose(product, K @ v, rtol=1e-10, atol=1e-12)
    shuffled = np.random.default_rng(4).permutation(n)
    np.testing.assert_allclose(c.kernel.tile(A[shuffled], B[shuffled]), K[np.ix_(shuffled, shuffled)], rtol=1e-12)
    np.testing.assert_allclose(Gram(c.kernel, c.X, memory=200) @ v, K @ v, rtol=1e-10, atol=1e-12)


def theta_round_trip(c: Case) -> None:
    k = c.kernel
    theta = k.theta
    assert theta.shape == (len(k.theta_names),)
    assert k.bounds.shape == (theta.size, 2)
    np.testing.assert_allclose(k.with_theta(theta).theta, theta, rtol=1e-14, atol=1e-14)
    moved = theta + np.linspace(0.1, 0.2, theta.size)
    np.testing.assert_allclose(k.with_theta(moved).theta, moved, rtol=1e-13)
    assert k.fix().theta.size == 0
    np.testing.assert_allclose(k.fix()(c.X), k(c.X))


def fields_round_trip(c: Case) -> None:
    assert c.kernel.with_fields(c.kernel.all_fields()) == c.kernel


def vjp_is_the_finite_difference(c: Case) -> None:
    rng = np.random.default_rng(5)
    for Y in (None, c.Y):
        if Y is None or not isinstance(c.kernel, gk.Precomputed):
            W = rng.standard_normal((len(c.X), len(c.X if Y is None else Y)))
            expected = reference.theta_gradient(c.kernel, c.X, Y, W)
            got = c.kernel.vjp(c.X, Y, W)
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-7 * max(1, np.abs(c.kernel(c.X)).max()))


def grad_inputs_is_the_finite_difference(c: Case) -> None:
    W = np.random.default_rng(6).standard_normal((len(c.X), len(c.Y)))
    expected = reference.input_gradient(c.kernel, c.X, c.Y, W)
    np.testing.assert_allclose(c.kernel.grad_inputs(c.X, c.Y, W), expected, rtol=1e-4, atol=1e-6)


def diagonal_gradient_is_the_finite_difference(c: Case) -> None:
    w = np.random.default_rng(7).standard_normal(len(c.X))
    A, _ = c.kernel.prepare(c.X)
    got = c.kernel.diagonal_gradient(A, w)
    for column in range(c.X.shape[1]):
        e = np.zeros(c.X.shape[1])
        e[column] = 1e-6
        slope = w * (c.kernel.diag(c.X + e) - c.kernel.diag(c.X - e)) / 2e-6
        np.testing.assert_allclose(got[:, column], slope, rtol=1e-4, atol=1e-6)


def survives_pickle_copy_and_clone(c: Case) -> None:
    from sklearn.base import clone

    for twin in (pickle.loads(pickle.dumps(c.kernel)), copy.deepcopy(c.kernel), clone(c.kernel, safe=False)):
        assert twin == c.kernel
        assert hash(twin) == hash(c.kernel)


def takes_readonly_and_fortran_rows(c: Case) -> None:
    K = c.kernel(c.X, c.Y)
    locked = c.X.copy()
    locked.setflags(write=False)
    strided = np.repeat(c.X, 2, axis=0)[::2]
    for X in (locked, np.asfortranarray(c.X), strided, c.X.tolist()):
        np.testing.assert_allclose(c.kernel(X, c.Y), K, rtol=1e-12)


def leaves_its_input_alone(c: Case) -> None:
    X, Y = c.X.copy(), c.Y.copy()
    W = np.ones((len(X), len(Y)))
    c.kernel(X, Y)
    c.kernel.vjp(X, Y, W)
    np.testing.assert_array_equal(X, c.X)
    np.testing.assert_array_equal(Y, c.Y)
    np.testing.assert_array_equal(W, 1.0)


def float32_stays_float32(c: Case) -> None:
    K = c.kernel(c.X.astype(np.float32), c.Y.astype(np.float32))
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, c.kernel(c.X, c.Y), rtol=1e-4, atol=1e-5)
    assert c.kernel.diag(c.X.astype(np.float32)).dtype == np.float32


def dictionary_round_trip(c: Case) -> None:
    import json

    assert gk.from_dict(json.loads(json.dumps(c.kernel.to_dict()))) == c.kernel


def repr_reads_back(c: Case) -> None:
    names = dict(vars(gk))
    assert eval(repr(c.kernel), names) == c.kernel  # an expression of our own making


def runs_on_strict_arrays(c: Case) -> None:
    import array_api_strict as xp

    X, Y = xp.asarray(c.X), xp.asarray(c.Y)
    W = np.random.default_rng(8).standard_normal((len(c.X), len(c.Y)))
    K = c.kernel(X, Y)
    assert type(K) is type(X)
    np.testing.assert_allclose(np.asarray(K), c.kernel(c.X, c.Y), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.asarray(c.kernel(X)), c.kernel(c.X), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.asarray(c.kernel.diag(X)), c.kernel.diag(c.X), rtol=1e-12)
    np.testing.assert_allclose(c.kernel.vjp(X, Y, xp.asarray(W)), c.kernel.vjp(c.X, c.Y, W), rtol=1e-9, atol=1e-12)


def strict_gradients(c: Case) -> None:
    import array_api_strict as xp

    W = np.random.default_rng(8).standard_normal((len(c.X), len(c.Y)))
    got = c.kernel.grad_inputs(xp.asarray(c.X), xp.asarray(c.Y), xp.asarray(W))
    np.testing.assert_allclose(np.asarray(got), c.kernel.grad_inputs(c.X, c.Y, W), rtol=1e-10, atol=1e-12)
