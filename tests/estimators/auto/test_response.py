"""The response: outputs of machines as scores of classes."""

from __future__ import annotations

import numpy as np

from gramian import SVC
from gramian.estimators.auto.response import Classes
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
