"""The Gram operator against the dense matrix: products, parts, threads, budgets."""

import os
import signal
import threading
import time
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg

import laws
from gramian import kernels as gk
from gramian.gram import Gram
from peak import peak_bytes

MIXTURE = 2.0 * gk.RBF(0.5) + gk.Linear() * gk.Matern(1.0) + gk.White(0.3)


@pytest.fixture(name="X")
def rows(rng):
    return rng.random((700, 3))


@pytest.mark.parametrize("k", [gk.RBF(0.5), MIXTURE, gk.Laplace(0.4)], ids=repr)
@pytest.mark.parametrize("memory", ["10KB", "1MB", None])
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_products_equal_the_dense_ones(k, memory, n_jobs, X, rng):
    X, Y = X[:350], rng.random((300, 3))  # just large enough for several threads
    for other in (None, Y):
        K = k(X, other)
        G = Gram(k, X, other, memory=memory, n_jobs=n_jobs)
        assert G.shape == K.shape
        for V in (rng.standard_normal(K.shape[1]), rng.standard_normal((K.shape[1], 5)), np.ones((K.shape[1], 1))):
            np.testing.assert_allclose(G @ V, K @ V, rtol=1e-11, atol=1e-11)
        U = rng.standard_normal((K.shape[0], 2))
        np.testing.assert_allclose(G.T @ U, K.T @ U, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(G.H @ U[:, 0], K.T @ U[:, 0], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(G.rmatvec(U[:, 0]), K.T @ U[:, 0], rtol=1e-11, atol=1e-11)


def test_parts_of_the_matrix(X):
    K, G = MIXTURE(X), Gram(MIXTURE, X, n_jobs=2)
    np.testing.assert_allclose(G.dense(), K, rtol=1e-13)
    np.testing.assert_allclose(G.diagonal(), np.diag(K), rtol=1e-13)
    index = np.array([5, 3, 3, -1, 699])
    np.testing.assert_allclose(G.rows(index), K[index], rtol=1e-12)
    np.testing.assert_allclose(G.rows(index, index), K[np.ix_(index, index)], rtol=1e-12)
    np.testing.assert_allclose(G.rows(slice(10, 20), slice(5, 15)), K[10:20, 5:15], rtol=1e-12)
    np.testing.assert_allclose(G.rows(4), K[[4]], rtol=1e-12)
    chosen = np.arange(700) % 7 == 0
    np.testing.assert_allclose(G.rows(chosen, columns=chosen), K[np.ix_(chosen, chosen)], rtol=1e-12)
    out = np.empty((5, 700))
    assert G.rows(index, out=out) is out
    np.testing.assert_allclose(out, K[index], rtol=1e-12)
    fortran = np.empty((700, 700), order="F")
    np.testing.assert_allclose(G.dense(out=fortran), K, rtol=1e-13)


def test_the_number_of_threads_changes_nothing_beyond_rounding(X, rng):
    V = rng.standard_normal((700, 3))
    products = [Gram(MIXTURE, X, n_jobs=j) @ V for j in (1, 2, 5)]
    for other in products[1:]:
        np.testing.assert_allclose(other, products[0], rtol=1e-13, atol=1e-12)


def test_precision(X, rng):
    v = rng.standard_normal(700)
    G = Gram(gk.RBF(0.5), X.astype(np.float32))
    assert G.dtype == np.float32
    assert (G @ v.astype(np.float32)).dtype == np.float32
    assert (G @ v).dtype == np.float64
    exact = gk.RBF(0.5)(X) @ v
    assert np.abs(G @ v - exact).max() < 1e-5 * np.abs(exact).max()
    assert (Gram(gk.RBF(0.5), X) @ np.arange(700)).dtype == np.float64


@pytest.mark.parametrize("case", [c for c in laws.cases() if c.Y is not None], ids=str)
def test_every_kernel_has_an_operator(case):
    G = Gram(case.kernel, case.X, case.Y)
    np.testing.assert_allclose(
        G @ np.ones(len(case.Y)), case.kernel(case.X, case.Y).sum(axis=1), rtol=1e-10, atol=1e-12
    )


def test_precomputed_and_sparse_rows(X, rng):
    K = gk.RBF(0.5)(X)
    v = rng.standard_normal(700)
    G = Gram(gk.Precomputed(), K, memory="50KB")
    np.testing.assert_allclose(G @ v, K @ v, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(G.rows([3, 5], [1, 2]), K[[3, 5]][:, [1, 2]])
    np.testing.assert_allclose(Gram(gk.Precomputed(), K[:4], K) @ v, K[:4] @ v, rtol=1e-12)
    np.testing.assert_allclose(Gram(gk.Precomputed(), K[:4], K).rows([0, 2], [-1, 4]), K[[0, 2]][:, [-1, 4]])
    S = sp.random_array((700, 30), density=0.1, rng=rng).tocsr()
    np.testing.assert_allclose(Gram(gk.RBF(1.0), S, memory="100KB") @ v, gk.RBF(1.0)(S.toarray()) @ v, rtol=1e-9)


def test_it_is_a_linear_operator(X, rng):
    G = Gram(gk.RBF(0.5), X)
    assert isinstance(G, LinearOperator)
    assert aslinearoperator(G) is G
    shifted = G + aslinearoperator(sp.eye_array(700))
    y = rng.standard_normal(700)
    solution, status = cg(shifted, y, rtol=1e-10)
    assert status == 0
    np.testing.assert_allclose(shifted @ solution, y, atol=1e-7)


def test_derivatives_by_panels(X, rng):
    k = 2.0 * gk.RBF([0.5, 1.0, 2.0]) + gk.White(0.3)
    W = rng.standard_normal((700, 700))
    np.testing.assert_allclose(Gram(k, X, memory="1MB").vjp(W), k.vjp(X, None, W), rtol=1e-9)
    Y, alpha = rng.random((300, 3)), rng.standard_normal(300)
    expected = k.grad_inputs(X, Y, np.broadcast_to(alpha, (700, 300)))
    np.testing.assert_allclose(Gram(k, X, Y, memory="100KB").grad_inputs(alpha), expected, rtol=1e-9, atol=1e-9)


def test_repr_and_size(X):
    G = Gram(gk.RBF(0.5), X, memory="1MB")
    assert repr(G) == "Gram(RBF(0.5), 700 x 700, float64, 3.92 MB of 1 MB)"
    assert not G.fits
    assert Gram(gk.RBF(0.5), X.astype(np.float32), memory="2MB").fits


def test_errors(X):
    G = Gram(gk.RBF(0.5), X, memory="1MB")
    with pytest.raises(MemoryError, match=r"700 x 700 Gram matrix takes 3.92 MB and memory is 1 MB; multiply by it"):
        G.dense()
    with pytest.raises(ValueError, match=r"multiplies \d+ rows, got V of shape"):
        G @ np.ones(3)
    with pytest.raises(TypeError, match="real numbers"):
        G @ np.full(700, 1j)
    with pytest.raises(IndexError, match=r"row indices must lie in \[0, 700\)"):
        G.rows([700])
    with pytest.raises(IndexError, match="boolean column index must have 700"):
        G.rows([1], columns=[True])
    with pytest.raises(IndexError, match="whole numbers"):
        G.rows([0.5])
    with pytest.raises(ValueError, match="has a diagonal"):
        Gram(gk.RBF(0.5), X, X[:3]).diagonal()
    with pytest.raises(ValueError, match="out must have shape"):
        G.rows([1], out=np.empty((2, 700)))
    with pytest.raises(ValueError, match="W must have shape"):
        G.vjp(np.ones((2, 2)))
    with pytest.raises(ValueError, match="V must have shape"):
        G.grad_inputs(np.ones(2))
    with pytest.raises(TypeError, match="kernel must be a Kernel, a name, or a callable"):
        Gram(3.0, X)
    with pytest.raises(ValueError, match="n_jobs must be"):
        Gram(gk.RBF(), X, n_jobs=0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_is_answered_at_once(rng):
    """Python itself loses an interrupt that meets a weak reference's callback; a person presses again."""
    G, ended = Gram(gk.RBF(1.0), rng.random((40_000, 20))), threading.Event()

    def press():
        ended.wait(0.3)
        while not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            ended.wait(2.0)

    keyboard = threading.Thread(target=press, daemon=True)
    start = time.perf_counter()
    keyboard.start()
    with pytest.raises(KeyboardInterrupt):
        G @ np.ones((40_000, 500))
    ended.set()
    keyboard.join()
    # A second on an idle machine; the margin is for a busy one.
    assert time.perf_counter() - start < 5.0


def peak_of(task):
    task()
    tracemalloc.start()
    try:
        task()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# A user's function makes what it makes.
OURS = [c for c in [*laws.vector_cases(), *laws.hard_cases()] if not isinstance(c.kernel, gk.Callable)]


@pytest.mark.parametrize("case", OURS, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_kernel_keeps_within_the_budget(case, dtype):
    n, budget = 300, 150_000  # K would take 720 KB
    X = np.tile(case.X, (n // len(case.X) + 1, 1))[:n].astype(dtype)
    G = Gram(case.kernel, X, memory=budget, n_jobs=1)
    v = np.ones(n)
    few = 60_000  # the vectors, slices of X, and what Python needs
    assert peak_of(lambda: G @ v) <= budget + few
    assert peak_of(lambda: G.T @ v) <= budget + few
    rows = np.arange(30)
    assert peak_of(lambda: G.rows(rows)) <= budget + few
    W = np.ones((n, n))
    assert peak_of(lambda: G.vjp(W)) <= budget + few
    whole = Gram(case.kernel, X, memory=n * n * 8, n_jobs=1)
    assert peak_of(whole.dense) <= whole.memory * 17 / 16 + few


def test_sparse_rows_keep_within_the_budget(rng):
    S = sp.random_array((600, 30), density=0.2, rng=rng).tocsr()
    for k in (gk.RBF(1.0), gk.Linear(), gk.Polynomial(2), gk.Matern(1.0)):
        G = Gram(k, S, memory=400_000, n_jobs=1)
        assert peak_of(lambda G=G: G @ np.ones(600)) <= 500_000


def test_a_product_at_a_size_where_the_matrix_would_not_fit():
    # 40,000 x 40,000 float64 is 12.8 GB.
    peak, printed = peak_bytes(
        """
        import numpy as np
        from gramian.gram import Gram
        from gramian.kernels import RBF

        rng = np.random.default_rng(0)
        X, v = rng.standard_normal((40_000, 8)), rng.standard_normal(40_000)
        got = Gram(RBF(2.0), X, memory="256MB") @ v
        rows = rng.choice(40_000, 200, replace=False)
        naive = np.array([np.exp(-((X[r] - X) ** 2).sum(axis=1) / 8.0) @ v for r in rows])
        print(np.abs(got[rows] - naive).max() / np.abs(naive).max())
        """
    )
    assert float(printed) < 1e-5
    assert peak < 700e6


@pytest.mark.parametrize("size", [1e39, 1e-50])
def test_wide_vectors_beyond_single_precision(rng, size):
    X = rng.standard_normal((30, 2)).astype(np.float32)
    K = Gram(gk.RBF(1.0), X, memory=4000)
    V, sizes = rng.standard_normal((30, 3)), np.array([1.0, size, 0.0])
    product = K @ (V * sizes)
    assert product.dtype == np.float64
    np.testing.assert_allclose(product, (K.dense().astype(np.float64) @ V) * sizes, rtol=1e-3)
