"""The compiled waves are cosines and sines."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.gram.loops import fill_waves


@pytest.mark.parametrize(("m", "size"), [(7, 14), (7, 13), (5, 5), (64, 128)])
def test_cosines_then_sines(m, size):
    half = (50.0 * np.random.default_rng(m).standard_normal((9, m))).astype(np.float32)
    out = np.empty((9, size), np.float32)
    fill_waves(half, np.float32(0.25), out)
    phases = 2.0 * half.astype(np.float64)
    expected = np.hstack([np.cos(phases), np.sin(phases)])[:, :size]
    np.testing.assert_allclose(out, 0.25 * expected, atol=0.25 * 2e-6)
