"""What every display shares."""

import builtins
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from gramian import SVC, GaussianProcessClassifier, GaussianProcessRegressor, plots
from gramian.inspection.fitted import input_names, kernel_of, sampled, training_rows
from gramian.kernels import RBF
from gramian.plots import style


def grey(colour):
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2


def test_nothing_is_told_by_colour_alone():
    assert len(set(style.COLOURS)) == len(set(style.MARKERS)) == len(set(map(str, style.LINES))) == 8
    assert len(set(style.HATCHES)) == 8
    assert all(0.05 < grey(colour) < 0.75 for colour in style.COLOURS)  # seen on white and on black


def test_every_display_is_a_display():
    for name in plots.__all__:
        display = getattr(plots, name)
        if name == "Run":
            continue
        assert name.endswith("Display")
        assert callable(display.plot)
        assert any(hasattr(display, way) for way in ("from_estimator", "from_predictions"))
        assert ">>> " in display.__doc__


def test_log_ticks_are_text_without_mathematics():
    figure, ax = plt.subplots()
    ax.plot([1e-6, 1e6], [2.0, 9.0])
    style.log_axis(ax, "x")
    style.log_axis(ax, "y")
    figure.canvas.draw()
    texts = [t.get_text() for t in ax.get_xticklabels()]
    assert "10⁻⁶" in texts
    assert "10⁶" in texts
    assert "1" in texts
    assert not any("$" in t for t in texts)
    assert "5" in [t.get_text() for t in ax.get_yticklabels(minor=True)]


def test_dollars_are_not_mathematics():
    figure, ax = plt.subplots()
    ax.set_title(style.plain("a $x_1$ b$"))
    figure.canvas.draw()
    assert ax.title.get_text() == r"a \$x_1\$ b\$"


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.split(".")[0] == "matplotlib":
            raise ImportError("no module named matplotlib")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    for name in [m for m in sys.modules if m.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r'pip install "\.\[report\]"'):
        style.axes()


def test_what_a_model_keeps(rng):
    X = rng.standard_normal((30, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    gp = GaussianProcessClassifier(1.0 * RBF(1.0), optimizer=None).fit(X, y)
    assert np.array_equal(training_rows(gp), X)
    assert kernel_of(gp) == 1.0 * RBF(1.0)
    assert np.array_equal(training_rows(SVC().fit(X, y)), SVC().fit(X, y).support_vectors_)
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert input_names(SVC().fit(frame, y), None, 2) == ["a", "b"]
    assert input_names(SVC().fit(X, y), frame, 2) == ["a", "b"]
    assert input_names(SVC().fit(X, y), X, 2) == ["x1", "x2"]


def test_a_sample_is_in_order_and_repeats():
    assert np.array_equal(sampled(5, 10), np.arange(5))
    some = sampled(100, 10)
    assert np.array_equal(some, sampled(100, 10))
    assert np.all(np.diff(some) > 0)


def test_models_of_named_columns_are_drawn_without_a_warning(rng):
    frame = pd.DataFrame(rng.standard_normal((40, 2)), columns=["age $", "height"])
    model = SVC().fit(frame, frame["height"] > 0)
    display = plots.DecisionBoundaryDisplay.from_estimator(model, frame, frame["height"] > 0, grid_resolution=20)
    assert display.labels == ("age $", "height")


def test_displays_draw_at_once_and_say_what_they_are_in_one_line(rng):
    X = rng.standard_normal((30, 2))
    display = plots.SpectrumDisplay.from_kernel(RBF(1.0), X)
    assert display.ax_.lines
    assert not hasattr(plots.SpectrumDisplay.from_kernel(RBF(1.0), X, ax=False), "ax_")
    gp = GaussianProcessRegressor(RBF(1.0), optimizer=None).fit(X, X[:, 0])
    process = plots.GaussianProcessDisplay.from_estimator(gp)
    for drawn in (display, process, plots.GramMatrixDisplay.from_kernel(RBF(1.0), X)):
        text = repr(drawn)
        assert text.startswith(type(drawn).__name__)
        assert len(text) < 300
        assert "\n" not in text
    assert "mean=array(300,)" in repr(process)
