"""Fixtures that every test may use."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    """A generator of its own for every test, so that no test depends on another."""
    return np.random.default_rng(0)
