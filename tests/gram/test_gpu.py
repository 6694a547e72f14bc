"""The engine on a GPU beside the NumPy engine: on a card where there is one, else on torch's CPU and in Triton's
interpreter, which runs every generated kernel statement by statement."""

import os
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    torch.set_num_threads(1)  # more would wait for each other's small pieces
pytest.importorskip("triton")

from gramian.gram import Gram, LowRank, SymmetricGram  # noqa: E402
from gramian.gram.device import wished  # noqa: E402
from gramian.gram.gpu import cuda, engine, fused, preconditioner  # noqa: E402
from gramian.gram.gpu.preconditioner import best_rank  # noqa: E402
from gramian.gram.gpu.triton_source import expression, generated  # noqa: E402
from gramian.kernels import (  # noqa: E402
    RBF,
    Constant,
    Laplace,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    PowerExponential,
    RationalQuadratic,
    Sigmoid,
    Spectrum,
    White,
    exp,
    polynomial,
)
from gramian.kernels.points import to_numpy  # noqa: E402

# The interpreter is NumPy, which says that log 0 = -∞; the exponential of that is what is meant.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero encountered in log")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N, M, D = 90, 70, 3
KERNELS = [
    RBF(1.5),
    RBF([1.0, 2.0, 0.5]),
    Matern(1.0, nu=0.5),
    Matern(1.2, nu=1.5),
    Matern(1.2, nu=2.5),
    Matern(1.0, nu=np.inf),
    RationalQuadratic(1.0, alpha=0.7),
    RationalQuadratic([1.0, 2.0, 3.0], alpha=90.0),
    Periodic(1.0, period=2.0),
    Linear(),
    Polynomial(5, scale=0.2),
    Laplace(1.5),
    Laplace([1.0, 2.0, 3.0]),
    PowerExponential(2.0),
    PowerExponential([1.0, 2.0, 3.0], p=1.3, q=0.9),
    PowerExponential(2.0, p=1.0, q=0.5) + PowerExponential(1.0, p=2.0, q=1.2),
    RBF(1.0).metric([[1.0, 0.5], [0.0, 2.0], [0.3, 0.3]]) + RBF(1.0),
    RBF(1.0) + Linear() * Periodic(1.0, period=3.0),
    2.0 * RBF(1.0) + White(0.3),
    RBF(1.0) + 3.0 * Matern(2.0, nu=1.5) + Constant(0.4),
    RBF(2.0) ** 3,
    exp(Linear()).normalized(),
    exp(RBF(1.0)),
    Polynomial(2).normalized(),
    polynomial(RBF(1.0), [1.0, 2.0, 0.5]),
    RBF(1.0).on(0, 2) * Linear().on(1) + RBF(1.0).on(1),
    Constant(2.0) + White(0.1),
]


@pytest.fixture(autouse=True)
def on_torch(monkeypatch):
    """``device="cuda"`` where there is no card: the same engine on torch's CPU."""
    monkeypatch.setattr(cuda, "found", lambda device: torch.device(DEVICE))
    monkeypatch.setattr(engine, "FEW", 0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((N, D)), rng.standard_normal((M, D))


def close(got, want, tol):
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, atol=tol * np.abs(want).max(), rtol=0)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(
    ("dtype", "tol", "columns"), [(np.float32, 5e-6, 1), (np.float32, 5e-6, 3), (np.float64, 1e-13, 2)]
)
def test_products(kernel, dtype, tol, columns, rows):
    X, Y = (side.astype(dtype) for side in rows)
    V = np.random.default_rng(columns).standard_normal((M, columns)).astype(dtype)
    ours = Gram(kernel, X, Y, device="cuda")
    close(ours @ V, (Gram(kernel, X.astype(float), Y.astype(float)) @ V).astype(dtype), tol)
    assert ours.dtype == Gram(kernel, X, Y).dtype


@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 5e-6), (np.float64, 1e-13)])
@pytest.mark.parametrize("columns", [1, 3])
def test_products_with_the_transpose(dtype, tol, columns, rows):
    kernel = RBF(1.0).on(0, 2) * Polynomial(2).normalized() + Laplace(2.0)
    X, Y = (side.astype(dtype) for side in rows)
    V = np.random.default_rng(columns).standard_normal((N, columns)).astype(dtype)
    want = Gram(kernel, X.astype(float), Y.astype(float)).T @ V
    close(Gram(kernel, X, Y, device="cuda").T @ V, want.astype(dtype), tol)


def test_many_columns_are_multiplied_by_tiles(rows, monkeypatch):
    monkeypatch.setattr(fused, "Fused", None)
    V = np.random.default_rng(0).standard_normal((M, 130))
    for dtype, tol in ((np.float32, 5e-6), (np.float64, 1e-13)):
        X, Y = (side.astype(dtype) for side in rows)
        want = Gram(RBF(1.0), X.astype(float), Y.astype(float)) @ V.astype(dtype)
        close(Gram(RBF(1.0), X, Y, device="cuda") @ V.astype(dtype), want.astype(dtype), tol)
    monkeypatch.setattr(engine, "FEW", N * M)  # and where there are few cells, nothing is compiled
    close(Gram(RBF(1.0), *rows, device="cuda") @ V[:, 0], Gram(RBF(1.0), *rows) @ V[:, 0], 1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 5e-6), (np.float64, 1e-13)])
def test_symmetric_products_have_the_exact_diagonal(kernel, dtype, tol, rows):
    X, V = rows[0], np.random.default_rng(1).standard_normal(N)
    ours = SymmetricGram(Gram(kernel, X, device="cuda"), dtype=dtype)
    close(ours @ V, SymmetricGram(Gram(kernel, X), dtype=np.float64) @ V, tol)
    assert ours.nbytes == 0


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kernel", [RBF(1.0) + White(0.2), Laplace(1.0)], ids=repr)
def test_half_of_the_tiles_give_the_product_of_all(kernel, double):
    rng = np.random.default_rng(0)
    X, v = rng.standard_normal((300, D)), torch.as_tensor(rng.standard_normal((300, 1)), device=DEVICE)
    K = Gram(kernel, X, device="cuda")
    half = fused.Fused(kernel, K.left, K.right, double, torch.device(DEVICE))
    assert half.symmetric
    found = half @ v
    assert torch.equal(found, half @ v)
    half.symmetric = False
    close(to_numpy(found), to_numpy(half @ v), 1e-14 if double else 1e-6)
    assert not fused.Fused(kernel, K.left[:200], K.right, double, torch.device(DEVICE)).symmetric


@pytest.mark.parametrize("little", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_parts_and_derivatives(kernel, little, rows, monkeypatch):
    if little:  # several panels
        monkeypatch.setattr(cuda, "MODEST", 0)
        monkeypatch.setattr(cuda, "SCRATCH", 200_000)
    (X, Y), rng = rows, np.random.default_rng(2)
    ours, theirs = Gram(kernel, X, device="cuda"), Gram(kernel, X)
    close(ours.dense(), theirs.dense(), 1e-12)
    close(ours.diagonal(), theirs.diagonal(), 1e-13)
    index = np.array([3, 1, 77])
    close(ours.rows(index, [1, 2, 3, 77]), theirs.rows(index, [1, 2, 3, 77]), 1e-12)
    W = rng.standard_normal((N, N))
    np.testing.assert_allclose(ours.vjp(W), theirs.vjp(W), rtol=1e-9, atol=1e-9 * N)
    v = rng.standard_normal(M)
    close(Gram(kernel, X, Y, device="cuda").grad_inputs(v), Gram(kernel, X, Y).grad_inputs(v), 1e-10)
    V = rng.standard_normal((N, 40))
    close(ours @ V, theirs @ V, 1e-12)
    close(Gram(kernel, X, Y, device="cuda").T @ V, Gram(kernel, X, Y).T @ V, 1e-12)


@pytest.mark.parametrize("d", [1, 20, 45, 70])
@pytest.mark.parametrize("kernel", [RBF(3.0), Matern(3.0, nu=0.5), Laplace(20.0), Polynomial(2, scale=0.1)], ids=repr)
def test_more_inputs_than_a_tile_is_deep(kernel, d):
    rng = np.random.default_rng(d)
    X, v = rng.standard_normal((100, d)), rng.standard_normal(100)
    want = Gram(kernel, X) @ v
    K = Gram(kernel, X, device="cuda")
    close(SymmetricGram(K, dtype=np.float32) @ v, want, 2e-6)
    close(K @ v, want, 1e-13)
    close(Gram(kernel, X[:60], X[60:], device="cuda").T @ v[:60], Gram(kernel, X[:60], X[60:]).T @ v[:60], 1e-13)


@pytest.mark.parametrize("kernel", [RBF(40.0), Laplace(900.0)], ids=repr)
def test_two_thousand_inputs_go_by_slices(kernel):
    rng = np.random.default_rng(0)
    X, v = rng.standard_normal((60, 2000)), rng.standard_normal(60)
    want = Gram(kernel, X) @ v
    K = Gram(kernel, X, device="cuda")
    close(SymmetricGram(K, dtype=np.float32) @ v, want, 2e-6)
    close(K @ v, want, 1e-13)


def test_far_from_the_origin_and_far_apart():
    """Where a product of matrices would lose the digits, differences are taken."""
    rng = np.random.default_rng(0)
    X, v = 1e4 + np.cumsum(rng.standard_normal((90, 2)), axis=0), rng.standard_normal(90)
    for kernel in (RBF(0.05), Matern(0.05, nu=2.5), RBF(50.0)):
        want = Gram(kernel, X) @ v
        close(SymmetricGram(Gram(kernel, X, device="cuda"), dtype=np.float32) @ v, want, 1e-5)
        close(Gram(kernel, X, device="cuda") @ v, want, 1e-12)


def test_near_duplicates_of_a_rough_kernel():
    """Their distances are rounding of a product of matrices, which the root makes large."""
    kernel = Matern(0.1, nu=0.5)
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((40, 2)), 2, axis=0) + 1e-9 * rng.standard_normal((80, 2))
    close(Gram(kernel, X, device="cuda").dense(), Gram(kernel, X).dense(), 1e-13)


@pytest.mark.parametrize("kernel", [RBF(0.3), Matern([0.3, 0.7], nu=2.5)], ids=repr)
def test_near_duplicates_among_rows_far_apart(kernel):
    rng = np.random.default_rng(0)
    X = np.repeat(1e7 * rng.standard_normal((40, 2)), 2, axis=0) + 0.01 * rng.standard_normal((80, 2))
    K = Gram(kernel, X, device="cuda")
    close(K.dense(), Gram(kernel, X).dense(), 1e-15)
    close(K @ np.ones(80), Gram(kernel, X) @ np.ones(80), 1e-8)  # centred, then differences


def test_rows_that_torch_does_not_take_as_they_are():
    X = np.linspace(0.0, 1.0, 30)[:, None]
    backwards, fixed = X[:, ::-1], X.copy()
    fixed.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (backwards, fixed):
            K = Gram(RBF(1.0), rows, device="cuda")
            close(K.dense(), Gram(RBF(1.0), X).dense(), 1e-15)
            close(K @ rows, Gram(RBF(1.0), X) @ X, 1e-14)


def test_many_columns_and_several_spans_and_launches(monkeypatch):
    monkeypatch.setattr(fused, "SPAN", 64)
    monkeypatch.setattr(fused, "LEAST_SPAN", 64)
    monkeypatch.setattr(fused, "CELLS", 128 * 256)
    rng = np.random.default_rng(0)
    X, V = rng.standard_normal((300, 2)), rng.standard_normal((300, 33)) * 10.0 ** rng.integers(-30, 30, 33)
    K = Gram(RBF(1.0) + White(0.5), X, device="cuda")
    want = Gram(RBF(1.0) + White(0.5), X) @ V
    scale = np.abs(want).max(axis=0)
    for columns in (slice(0, 33), slice(0, 1)):  # one column uses each tile twice
        single, double = SymmetricGram(K, dtype=np.float32) @ V[:, columns], K @ V[:, columns]
        np.testing.assert_allclose(single / scale[columns], want[:, columns] / scale[columns], atol=2e-6)
        np.testing.assert_allclose(double / scale[columns], want[:, columns] / scale[columns], atol=1e-13)


def test_another_lengthscale_needs_no_other_source(rows):
    X, v = rows[0], np.ones(N)
    _ = SymmetricGram(Gram(2.0 * RBF(1.0) + Matern(1.0, nu=1.5), X, device="cuda")) @ v
    before = fused.compiled.cache_info().misses
    _ = SymmetricGram(Gram(3.0 * RBF(0.7) + Matern(0.7, nu=1.5), X, device="cuda")) @ v
    assert fused.compiled.cache_info().misses == before


def test_kernels_with_one_metric_share_a_product(rows):
    kernel = RBF(1.0) + Matern(2.0, nu=2.5) * RationalQuadratic(0.5) + RBF([1.0, 2.0, 3.0])
    A, B = kernel.prepare(*map(torch.as_tensor, rows))
    assert len(expression(kernel, A, B, False, lambda pair: True).pairs) == 2


def test_a_preconditioner_grows_where_the_spectrum_and_the_ridge_ask_for_it():
    n, most = 10**6, 10_000
    slow, fast = np.full(1000, 0.7), 0.9 ** np.arange(1000.0)
    assert best_rank(slow, n, 1e-2, most) == most
    assert best_rank(slow, n, 1e6, most) == best_rank(fast, n, 1e-2, most) == 1000
    assert 1000 < best_rank(slow, n, 1e2, most) < most
    assert best_rank(slow[:3], 12, 1e-9, 1) == 3


def test_a_large_preconditioner_solves_with_its_low_rank_approximation(rows, monkeypatch):
    monkeypatch.setattr(preconditioner, "FIRST", 5)
    X, ridge = rows[0], np.array([1e-3])
    K = Gram(RBF(1.0), X, device="cuda")
    found = K.card.preconditioner(K.left, K.right, ridge, np.ones((1, 1)), False, 0)
    F, R = to_numpy(found.factor), np.random.default_rng(0).standard_normal((N, 2))
    assert 5 < F.shape[1] <= N // 4
    np.testing.assert_allclose(found.solve(R, np.repeat(ridge, 2)), LowRank(F, ridge[0]).solve(R), rtol=1e-8)
    chosen = np.random.RandomState(0).permutation(N)[: F.shape[1]]
    C = RBF(1.0)(X, X[chosen])
    np.testing.assert_allclose(F @ F.T, C @ np.linalg.solve(RBF(1.0)(X[chosen]), C.T), atol=1e-6)


@pytest.mark.parametrize("kernel", [Sigmoid(), Spectrum(2), RBF(1.0) + Matern(1.0, nu=0.7)], ids=repr)
def test_what_cannot_be_generated_says_so_or_runs_here(kernel, rows, monkeypatch):
    X = ["abc", "abd"] if isinstance(kernel, Spectrum) else rows[0]
    assert not generated(kernel)
    with pytest.raises(TypeError, match=r"no GPU code for .*device='auto'"):
        Gram(kernel, X, device="cuda")
    monkeypatch.setattr(cuda, "available", lambda: True)
    assert Gram(kernel, X, device="auto").engine.name is None
    assert Gram(RBF(1.0), rows[0], device="auto").engine.name == "cuda"
    monkeypatch.setattr(cuda, "available", lambda: False)
    assert Gram(RBF(1.0), rows[0], device="auto").engine.name is None


def test_one_of_several_cards_is_found_by_its_name(rows, monkeypatch):
    asked = []
    monkeypatch.setattr(cuda, "available", lambda: True)
    monkeypatch.setattr(cuda, "found", lambda name: asked.append(name) or torch.device(DEVICE))
    names = [Gram(RBF(1.0), rows[0], device=name).engine.name for name in ("cuda:1", "auto:1")]
    assert names == asked == ["cuda:1", "cuda:1"]
    assert Gram(Sigmoid(), rows[0], device="auto:1").engine.name is None
    assert wished(torch.device("cuda", 1)) == "auto:1"


def test_sparse_rows_are_refused(rows):
    import scipy.sparse as sp

    with pytest.raises(TypeError, match="dense rows"):
        Gram(RBF(1.0), sp.csr_array(rows[0]), device="cuda")


def test_a_full_card_is_a_clear_error(rows, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 10**11))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    with (
        pytest.raises(MemoryError, match=r"a 90 x 90 Gram matrix needs .*1 GB of 100 GB are free"),
        cuda.room(torch.device(DEVICE), "what a 90 x 90 Gram matrix needs"),
    ):
        raise torch.cuda.OutOfMemoryError("out of memory")
