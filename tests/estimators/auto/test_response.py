"""The response: outputs of machines as scores of classes, their calibration, and the reach of intervals."""

from __future__ import annotations

import numpy as np
import pytest

from gramian import SVC
from gramian.estimators.auto.response import Classes, conformal_reach, fit_softmax, fit_temperature
from gramian.kernels import RBF


def test_pairs_of_a_machine_rank_classes_better_than_votes(rng):
    """Three classes in a row: votes alone cannot tell a row near the boundary from one far away."""
    X = rng.uniform(-3.0, 3.0, (600, 1))
    codes = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(600), [-1.0, 1.0])
    response, train, test = Classes(codes, 3, "error"), np.arange(300), np.arange(300, 600)
    pairs, votes = (
        response.outputs(SVC(kernel=RBF(1.0), decision_function_shape=shape).fit(X[train], codes[train]), X[test])
        for shape in ("ovo", "ovr")
    )
    assert np.all(pairs.max(axis=1) <= 0.0)
    assert np.mean(pairs.argmax(axis=1) == votes.argmax(axis=1)) > 0.99
    a, b = (response.judge(each, test, [np.arange(300)]).figures["log_loss"] for each in (pairs, votes))
    assert a < 0.9 * b


def test_temperature_is_the_most_likely():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4000, 3))
    P = np.exp(2.0 * logits)
    P /= P.sum(axis=1, keepdims=True)
    codes = np.array([rng.choice(3, p=p) for p in P])
    assert fit_temperature(logits, codes) == pytest.approx(2.0, rel=0.1)
    sure = 10.0 * np.eye(3)[codes]
    assert fit_temperature(sure, codes) < 10.0


def test_constants_are_the_most_likely():
    rng = np.random.default_rng(0)
    logits, constants = rng.standard_normal((6000, 3)), np.array([0.8, -0.2, -0.6])
    P = np.exp(2.0 * logits + constants)
    P /= P.sum(axis=1, keepdims=True)
    codes = np.array([rng.choice(3, p=p) for p in P])
    factor, found = fit_softmax(logits, codes)
    assert factor == pytest.approx(2.0, rel=0.1)
    np.testing.assert_allclose(found, constants, atol=0.1)
    assert np.linalg.norm(found) < np.linalg.norm(constants)  # drawn to zero
    # A few rows hardly move them.
    assert np.abs(fit_softmax(np.zeros((20, 3)), np.zeros(20, dtype=int))[1]).max() < 0.2
    assert not fit_softmax(np.zeros((1, 3)), np.array([0]))[1].any()


def test_conformal_reach_covers():
    rng = np.random.default_rng(0)
    held, new = rng.standard_normal(500), rng.standard_normal(20_000)
    assert np.mean(np.abs(new) <= conformal_reach(held, 0.9)) == pytest.approx(0.9, abs=0.03)
    assert conformal_reach(np.array([1.0, -2.0]), 0.99) == 2.0
