"""The choice of a solver: by operations and bytes."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.gram import Gram
from gramian.kernels import RBF
from gramian.solvers import choice


def test_exact_systems():
    gram = Gram(RBF(1.0), np.zeros((4, 1)))
    assert choice.choose(gram, 0.0, 1e-6).name == "cholesky"
    assert choice.choose(gram, 1.0, 1e-6).name == "cholesky"
    little = Gram(RBF(1.0), np.zeros((400, 1)), memory=10_000)
    assert choice.choose(little, 1.0, 1e-6).name == "pcg"
    assert choice.choose(little, 1.0, 1e-6, factor=True).name == "cholesky"


def test_in_features():
    assert choice.choose_in_features(10**7, 1000, 1, 10**4).name == "moments"
    assert choice.choose_in_features(10**7, 10**4, 1, 10**5).name == "pcg"
    assert "operations" in choice.choose_in_features(10**7, 10**4, 1, 10**5).reason
    assert str(choice.choose_in_features(10, 10, 1, 10, "pcg")) == "pcg (as asked)"


def test_posteriors():
    assert choice.choose_posterior(1000, 10**8).name == "cholesky"
    assert choice.choose_posterior(10_000, 10**8).name == "pcg"
    assert "more than 50,000" in choice.choose_posterior(60_000, 10**12).reason
    with pytest.raises(MemoryError, match="raise memory="):
        choice.choose_posterior(10_000, 10**8, "cholesky")


def test_counts_grow_as_the_algorithms_do():
    assert choice.factor_operations(20_000) / choice.factor_operations(10_000) == pytest.approx(8.0, rel=0.1)
    assert choice.svm_operations(200) == 4 * choice.svm_operations(100)
    assert choice.landmark_operations(2000, 10) == pytest.approx(2 * choice.landmark_operations(1000, 10), rel=0.01)
    stored, made = (choice.pcg_operations(10_000, 1, 50, 100, memory) for memory in (10**9, 10**6))
    assert stored < made
    assert choice.newton_operations(100, 3) == 3 * choice.newton_operations(100)
    assert choice.nominal_seconds(choice.SPEED) == 1.0
