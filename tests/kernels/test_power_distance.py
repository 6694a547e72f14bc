"""PowerExponential and Laplace: compiled loops beside plain ones, limits, spectral draws, errors."""

import numpy as np
import pytest
import scipy.sparse as sp

import laws
from gramian.gram import Gram
from gramian.kernels import RBF, Laplace, Matern, PowerExponential, power_distance

CASES = [
    laws.Case(k, np.random.default_rng(0).random((9, 3)), np.random.default_rng(1).random((6, 3)))
    for k in [*laws.EXAMPLES["PowerExponential"], *laws.EXAMPLES["Laplace"]]
]


LAWS = [
    laws.symmetric,
    laws.tile_is_the_double_loop,
    laws.any_tiling_gives_the_same_product,
    laws.vjp_is_the_finite_difference,
    laws.grad_inputs_is_the_finite_difference,
    laws.out_is_written,
    laws.float32_stays_float32,
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("law", LAWS)
def test_laws_hold_of_compiled_loops(law, case, monkeypatch):
    monkeypatch.setattr(power_distance, "COMPILED", 1)
    law(case)


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0])
def test_compiled_sums_are_the_plain_ones(p, monkeypatch):
    rng = np.random.default_rng(0)
    X, Y, W = rng.standard_normal((40, 5)), rng.standard_normal((30, 5)), rng.standard_normal((40, 30))
    k = PowerExponential(rng.uniform(0.5, 2.0, 5), p=p, q=0.5)
    plain = k(X, Y), k.vjp(X, Y, W), k.grad_inputs(X, Y, W)
    monkeypatch.setattr(power_distance, "COMPILED", 1)
    for compiled, expected in zip((k(X, Y), k.vjp(X, Y, W), k.grad_inputs(X, Y, W)), plain, strict=True):
        np.testing.assert_allclose(compiled, expected, rtol=1e-12, atol=1e-13)


def test_known_kernels_are_special_cases():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((8, 3)), rng.standard_normal((5, 3))
    ell = [0.5, 1.0, 3.0]
    np.testing.assert_array_equal(PowerExponential(ell, p=1.0, q=1.0)(X, Y), Laplace(ell)(X, Y))
    np.testing.assert_allclose(PowerExponential(ell, p=2.0, q=1.0)(X, Y), Matern(ell, nu=0.5)(X, Y), rtol=1e-12)
    np.testing.assert_allclose(PowerExponential(2.0, p=2.0, q=2.0)(X, Y), RBF(2.0**0.5)(X, Y), rtol=1e-12)


@pytest.mark.parametrize(("p", "q"), [(1.5, 1.0), (1.0, 1.0), (2.0, 2.0), (2.0, 0.8), (0.8, 0.4)])
def test_frequencies_are_drawn_from_its_spectral_measure(p, q):
    k = PowerExponential([0.7, 2.0], p=p, q=q)
    x = np.array([[0.3, -0.5], [1.0, 0.2], [0.0, 2.0]])
    omega = k.frequencies(2, 200_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.cos(x @ omega.T).mean(axis=1), k(x, np.zeros((1, 2)))[:, 0], atol=6e-3)


def test_tiles_keep_to_the_budget_and_agree():
    X = np.random.default_rng(0).standard_normal((400, 6)).astype(np.float32)
    k = PowerExponential(2.0)
    K = Gram(k, X, memory="100KB")
    assert K.dtype == np.float32
    np.testing.assert_allclose(K @ np.ones(400), k(X.astype(float)).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize(("p", "q"), [(2.5, 1.0), (1.0, 1.5), (1.5, 0.0), (-1.0, 0.5), (np.nan, 1.0)])
def test_powers_that_are_no_kernel_are_refused(p, q):
    with pytest.raises(ValueError, match="PowerExponential"):
        PowerExponential(1.0, p=p, q=q)


def test_q_is_learned_up_to_p_only():
    with pytest.raises(ValueError, match="q may be learned up to p"):
        PowerExponential(1.0, q_bounds=(0.1, 2.0))
    assert PowerExponential(1.0, q_bounds=(0.1, 1.5)).theta_names == ["lengthscale", "q"]
    rows = sp.eye_array(3).tocsr()
    for k in (PowerExponential(1.0), Laplace(1.0)):  # sparse rows are made dense
        np.testing.assert_allclose(k(rows), k(rows.toarray()))


def test_rows_at_any_distance_give_finite_values():
    K = PowerExponential(1e-3, p=1.5)([[0.0], [1e200], [1e-200]])
    assert np.all(np.isfinite(K))
    np.testing.assert_array_equal(K, K.T)
