"""Conjugate gradients against dense solves, for columns that share a matrix but for their ridge."""

import numpy as np
import pytest

from gramian.solvers.conjugate_gradients import conjugate_gradients


def problem(rng, n=40, k=3):
    A = rng.standard_normal((n, n))
    return A @ A.T, np.array([1.0, 10.0, 100.0])[:k], rng.standard_normal((n, k))


def test_every_column_reaches_its_goal(rng):
    A, ridge, B = problem(rng)
    goal = 1e-9 * np.linalg.norm(B, axis=0)
    found = conjugate_gradients(
        B, lambda V, c: A @ V + ridge[c] * V, lambda R, c: R / np.diagonal(A)[:, None], goal, proceed=lambda: True
    )
    for j, mu in enumerate(ridge):
        np.testing.assert_allclose(found[:, j], np.linalg.solve(A + mu * np.eye(40), B[:, j]), rtol=1e-6)


def test_it_takes_as_many_steps_as_there_are_distinct_eigenvalues(rng):
    steps = []
    values = np.repeat([1.0, 2.0, 5.0], 10)[:, None]

    def times(V, columns):
        steps.append(columns.size)
        return values * V

    B = rng.standard_normal((30, 1))
    found = conjugate_gradients(B, times, lambda R, _: R, 1e-10, proceed=lambda: True)
    np.testing.assert_allclose(found, B / values, atol=1e-9)
    assert len(steps) == 3


def test_it_stops_where_it_is_told_to(rng):
    A, _, B = problem(rng)
    assert not np.any(conjugate_gradients(B, lambda V, _: A @ V, lambda R, _: R, 1e-9, proceed=lambda: False))
    assert not np.any(conjugate_gradients(B, lambda V, _: A @ V, lambda R, _: R, 1e9, proceed=lambda: True))


def test_an_indefinite_matrix_is_named(rng):
    B = np.ones((2, 1))
    times = lambda V, _: np.array([[1.0], [-5.0]]) * V  # noqa: E731
    with pytest.raises(np.linalg.LinAlgError, match="not positive semi-definite"):
        conjugate_gradients(B, times, lambda R, _: R, 1e-9, proceed=lambda: True, rounding=0.0)
