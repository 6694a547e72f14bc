"""Pictures are drawn without a screen, and thrown away after every test."""

import pytest


@pytest.fixture(autouse=True)
def no_screen():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")
