"""Fixtures of the tests of EM."""

import pytest

from gramian.solvers.mixture import e_step
from gramian.solvers.mixture.row_tiles import Workers


@pytest.fixture(params=["expanded", "residuals"])
def form(request, monkeypatch):
    """Have every density evaluated in one form."""
    expanded = request.param == "expanded"
    monkeypatch.setattr(e_step, "_worthwhile", lambda family: expanded)
    return request.param


@pytest.fixture
def workers():
    return Workers(2)
