"""The compiled parts of SMO against plain ones: pair steps end at the optimum."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.solvers.svm.pair_steps import pair_steps
from reference_svm import objective, smo


def problem(q, kink, split):
    rng = np.random.default_rng(q)
    X, y = rng.standard_normal((q, 3)), np.where(np.arange(q) % 3 == 1, -1.0, 1.0)
    K = np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2)) + 0.1 * np.eye(q)
    lower, upper = (-np.ones(q), np.ones(q)) if kink or split < q else np.sort([0 * y, y], axis=0)
    return K, -y, lower, upper


def steps_on(K, *rest):
    """Pair steps on a matrix of the variables themselves, all of whose rows are filled."""
    return pair_steps(K, np.arange(len(K)), K, np.ones(len(K), dtype=bool), K.diagonal().copy(), *rest)


# Loops take 32 variables at once: fewer, as many, and some more in the last group.
@pytest.mark.parametrize("q", [5, 32, 131])
@pytest.mark.parametrize("kink", [0.0, 0.1])
@pytest.mark.parametrize("second", [False, True])
def test_pair_steps_end_where_plain_smo_ends(q, kink, second):
    split = q - q // 3 if second else q
    K, linear, lower, upper = problem(q, kink, split)
    beta = np.zeros(q)
    steps, bent = steps_on(K, lower, upper, kink, split, 1e-9, 10**6, 1e-9, beta, linear.copy())
    assert 0 < steps < 10**6
    assert not bent
    assert np.all((lower <= beta) & (beta <= upper))
    group = (np.arange(q) >= split).astype(int)
    want = smo(K, linear, lower, upper, np.zeros(q), 1e-7, kink, group)
    np.testing.assert_allclose(beta, want, atol=1e-5)
    assert objective(K, linear, beta, kink) <= objective(K, linear, want, kink) + 1e-12
    for g in (slice(0, split), slice(split, None)):
        assert abs(beta[g].sum()) <= 1e-12


@pytest.mark.parametrize("kink", [0.0, 0.1])
def test_in_single_precision_steps_end_within_its_rounding_even_with_repeated_rows(kink):
    some, linear, lower, upper = problem(60, kink, 60)
    twice = np.arange(120) % 60
    K, linear, lower, upper = some[np.ix_(twice, twice)], linear[twice], lower[twice], upper[twice]
    narrow, beta, gradient = K.astype(np.float32), np.zeros(120), linear.astype(np.float32)
    steps, bent = steps_on(narrow, lower, upper, kink, 120, 1e-5, 10**6, 1e-5, beta, gradient)
    assert 0 < steps < 10**6
    assert not bent
    np.testing.assert_allclose(gradient, K @ beta + linear, atol=1e-5)
    want = smo(K, linear, lower, upper, np.zeros(120), 1e-7, kink, np.zeros(120, dtype=int))
    assert objective(K, linear, beta, kink) <= objective(K, linear, want, kink) + 1e-5
    assert abs(beta.sum()) <= 1e-12


def test_pair_steps_keep_to_their_limit_and_move_the_gradient_along():
    K, linear, lower, upper = problem(40, 0.0, 40)
    beta, gradient = np.zeros(40), linear.copy()
    steps, _ = steps_on(K, lower, upper, 0.0, 40, 1e-9, 3, 1e-9, beta, gradient)
    assert steps == 3
    np.testing.assert_allclose(gradient, K @ beta + linear, atol=1e-14)


def test_negative_curvature_is_told():
    K = np.array([[1.0, 3.0], [3.0, 1.0]])
    beta = np.zeros(2)
    lower, upper, gradient = np.array([[0.0, -1.0], [1.0, 0.0], [-1.0, 1.0]])
    _, bent = steps_on(K, lower, upper, 0.0, 2, 1e-3, 9, 1e-9, beta, gradient)
    assert bent
    np.testing.assert_array_equal(beta, [1.0, -1.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("split", [90, 60])
def test_rows_are_read_from_a_larger_matrix_when_they_are_needed(dtype, split):
    K, linear, lower, upper = problem(90, 0.0, split)
    ids = np.random.default_rng(0).permutation(200)[:90]
    larger = np.full((200, 200), np.nan)
    larger[np.ix_(ids, ids)] = K
    B, made, beta, gradient = np.full((90, 90), np.nan, dtype), np.zeros(90, dtype=bool), np.zeros(90), linear.copy()
    box = K.diagonal().copy(), lower, upper, 0.0, split
    steps, bent = pair_steps(larger, ids, B, made, *box, 1e-3, 8, 1e-5, beta, gradient)
    assert steps == 8
    assert not bent
    assert 2 <= made.sum() <= 17  # one row before the first step, and two for each step at most
    np.testing.assert_array_equal(B[made], K[made].astype(dtype))
    np.testing.assert_allclose(gradient, K @ beta + linear, atol=1e-13 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_units_of_kernel_and_target_do_not_matter(unit):
    K, linear, lower, upper = problem(50, 0.0, 50)
    beta, scaled = np.zeros(50), np.zeros(50)
    steps_on(K, lower, upper, 0.0, 50, 1e-6, 10**5, 1e-9, beta, linear.copy())
    # f and y in other units: K / unit, with the same f = Kβ.
    steps_on(unit * K, lower, upper, 0.0, 50, 1e-6 * unit, 10**5, 1e-9, scaled, unit * linear)
    np.testing.assert_allclose(scaled, beta, atol=1e-4)
