"""What the support vector machines promise about memory, measured in a process of its own."""

from __future__ import annotations

from functools import cache

import pytest

from peak import peak_bytes

DATA = """
import numpy as np
from gramian.estimators.svm import SVC, SVR
from gramian.features.nystrom import Nystroem
X = np.random.default_rng(0).standard_normal((7000, {inputs}))
y = np.sin(X[:, 0]) + 0.5 * np.random.default_rng(1).standard_normal(7000) > 0
SVC(gamma=0.2).fit(X[:200], y[:200]).predict(X[:2000])
"""


@cache
def floor(inputs: int) -> int:
    """The peak of a small fit."""
    return peak_bytes(DATA.format(inputs=inputs))[0]


def above_floor(work: str, inputs: int = 4) -> tuple[int, str]:
    """What some work adds to the peak of a small fit, and what it printed."""
    peak, printed = peak_bytes(DATA.format(inputs=inputs) + work)
    return peak - floor(inputs), printed


@pytest.mark.parametrize("inputs", [4, 100], ids=["cheap kernel", "cached rows"])
def test_the_cache_is_no_larger_than_asked(inputs):
    # The matrix takes 196 MB in float32, 392 MB in float64; beside the cache there are a working set's 1024 x 1024
    # kernel values, tiles, and copies of the rows.
    fit = f"print(SVC(C=1.0, gamma={1 / inputs}, cache_size=20, memory='20MB').fit(X, y).certificate_)"
    peak, printed = above_floor(fit, inputs)
    assert "NOT" not in printed
    assert peak < 20e6 + 70e6


def test_predict_holds_no_more_than_memory():
    # The kernel of 7,000 rows with some 4,000 support vectors takes 224 MB.
    fit = "machine = SVC(C=1.0, gamma=0.2, cache_size=20, memory='10MB').fit(X, y)\n"
    peak, _ = above_floor(fit + "for _ in range(3): machine.predict(X)")
    assert peak < 20e6 + 70e6


def test_a_map_keeps_features_only():
    # 7,000 rows by 200 features take 11 MB, and are there twice while they are put in the order of the classes.
    fit = "SVC(C=1.0, gamma=0.2, approximation=Nystroem(n_components=200), memory='60MB').fit(X, y).predict(X)"
    peak, _ = above_floor(fit)
    assert peak < 90e6
