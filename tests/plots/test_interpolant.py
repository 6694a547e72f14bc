"""An interpolant and its band: other functions through the data stay inside."""

import numpy as np
import pytest

from gramian import KernelInterpolator
from gramian.kernels import Matern
from gramian.plots import InterpolantDisplay
from gramian.rkhs import Function

KERNEL = Matern(1.0, nu=1.5)


def test_functions_through_the_data_stay_in_the_band(rng):
    X = np.sort(rng.uniform(0, 6, 8))[:, None]
    model = KernelInterpolator(kernel=KERNEL).fit(X, np.sin(X[:, 0]))
    display = InterpolantDisplay.from_estimator(model, n_points=60)
    f = model.function_
    assert display.radius == pytest.approx(f.norm())
    assert np.allclose(display.values, model.predict(display.x[:, None]))
    for _ in range(20):  # g = f + r with r zero at the data, and of the norm that the band allows
        Z = rng.uniform(-1, 7, (4, 1))
        both = np.vstack([X, Z])
        bump = np.linalg.solve(KERNEL(both), np.append(np.zeros(8), rng.standard_normal(4)))
        r = Function(KERNEL, both, bump)
        r = r * (display.radius / r.norm())
        assert np.all(np.abs(r(display.x[:, None])) <= display.radius * display.power + 1e-6)
    assert np.allclose(display.data_.get_xdata(), X[:, 0])
    assert np.allclose(display.data_.get_ydata(), np.sin(X[:, 0]))
    band = display.band_.get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx((display.values + display.radius * display.power).max())


def test_several_inputs_and_misuse(rng):
    X = rng.standard_normal((9, 2))
    model = KernelInterpolator(kernel=KERNEL).fit(X, X[:, 0])
    display = InterpolantDisplay.from_estimator(model, feature=1, radius=2.0, ax=False)
    assert not hasattr(display, "ax_")
    middle = np.column_stack([np.full(300, np.median(X[:, 0])), display.x])
    assert np.allclose(display.values, model.predict(middle))
    assert display.plot().ax_.get_xlabel() == "x2"
    with pytest.raises(ValueError, match="feature must be one of"):
        InterpolantDisplay.from_estimator(model, feature=2)
    with pytest.raises(ValueError, match="one target"):
        InterpolantDisplay.from_estimator(KernelInterpolator(kernel=KERNEL).fit(X, X))
