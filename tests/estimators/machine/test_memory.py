"""What the machines promise about memory, measured in a process of its own."""

from __future__ import annotations

import pytest

from peak import peak_bytes

DATA = """
import numpy as np
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.features.nystrom import Nystroem
X = np.random.default_rng(0).standard_normal((6000, 4))
y = np.digitize(np.sin(X[:, 0]) + 0.1 * X[:, 1], [-0.5, 0.5])
options = {"memory": "80MB", "tol": 1e-3, "lam": 1e-3, "random_state": 0}
"""


@pytest.fixture(scope="module")
def floor():
    """What Python and the libraries take before any work; what is compiled later is compiled here."""
    small = """
from gramian.gram import Gram, SymmetricGram
from gramian.kernels import RBF
KernelMachineClassifier("hinge", **options).fit(X[:1001], y[:1001] > 0).predict(X[:600])
SymmetricGram(Gram(RBF(), X[:600]), 10**7, np.float32) @ np.ones((600, 1))
"""
    return peak_bytes(DATA + small)[0]


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_fit_holds_no_more_than_asked(floor, loss):
    # K takes 288 MB in float64, half of it in float32 takes 74 MB.
    peak, printed = peak_bytes(DATA + f"print(KernelMachineClassifier('{loss}', **options).fit(X, y > 0).certificate_)")
    assert "NOT" not in printed
    assert peak - floor < 120e6
