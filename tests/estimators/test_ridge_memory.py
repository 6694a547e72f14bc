"""What KernelRidge promises about memory, measured in a process of its own."""

from __future__ import annotations

import pytest

from peak import peak_bytes

DATA = """
import numpy as np
from gramian.estimators.ridge import KernelRidge
X = np.random.default_rng(0).standard_normal((6000, 4))
y = np.sin(X[:, 0])
"""


@pytest.fixture(scope="module")
def floor():
    """What Python and the libraries take before any work, numba with its compiled products among them."""
    small = "KernelRidge(kernel='rbf').fit(X[:600], y[:600]).predict(X[:600])"
    compiled = "SymmetricGram(Gram(RBF(1.0), X[:2048]), 10**8) @ np.ones(2048)"
    names = "from gramian.gram import Gram, SymmetricGram\nfrom gramian.kernels import RBF\n"
    return peak_bytes(f"{DATA}{names}{small}\n{compiled}")[0]


def test_fit_holds_no_more_than_asked(floor):
    # K takes 288 MB in float64, half of it in float32 takes 74 MB.
    peak, printed = peak_bytes(
        DATA + "print(KernelRidge(1e-1, kernel='rbf', memory='60MB', tol=1e-4, random_state=0).fit(X, y).certificate_)"
    )
    assert "converged" in printed
    assert "NOT" not in printed
    assert peak - floor < 100e6


def test_factorisation_takes_one_matrix(floor):
    peak, _ = peak_bytes(DATA + "KernelRidge(1e-1, kernel='rbf', solver='cholesky').fit(X[:4000], y[:4000])")
    assert peak - floor < 1.5 * 8 * 4000**2


def test_prediction_holds_no_more_than_asked(floor):
    peak, _ = peak_bytes(
        DATA + "KernelRidge(kernel='rbf', memory='20MB', tol=1e-2, random_state=0).fit(X[:2000], y[:2000])"
        ".predict(np.ones((300_000, 4)))"
    )
    assert peak - floor < 20e6 + 2 * 300_000 * 6 * 8 + 40e6
