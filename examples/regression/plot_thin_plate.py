"""
A thin plate through scattered points
=====================================

A thin plate of metal that is held at some points bends as little as it can. Its shape is the function through them with
the least ∫ Σ (second derivatives)²; planes do not bend, so they are not penalised and stand beside the kernel:
``KernelInterpolator(ThinPlate())`` adds them. As a Gaussian process with a linear trend, universal kriging, the same
function comes with its uncertainty, which far from the data includes that of the plane.
"""

# %%
# Sixty points of a surface on a slope.

import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import RBFInterpolator

from gramian import GaussianProcessRegressor, KernelInterpolator
from gramian.kernels import ThinPlate

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (60, 2))
y = np.exp(-4 * ((X[:, 0] - 0.3) ** 2 + X[:, 1] ** 2)) + 0.5 * X[:, 0]
plate = KernelInterpolator(ThinPlate()).fit(X, y)
print(plate.certificate_)
print("1, x, z:", plate.trend_coef_.round(3))

# %%
# What theory says, and what is measured
# --------------------------------------
# It goes through the points; it is SciPy's thin plate spline; its coefficients are orthogonal to planes; and a plane
# comes back as it is, everywhere.

new = rng.uniform(-2, 2, (200, 2))
assert np.abs(plate.predict(X) - y).max() < 1e-8
assert np.allclose(
    plate.predict(new),
    RBFInterpolator(X, y, kernel="thin_plate_spline")(new),
    atol=1e-8,
)
assert np.allclose(
    np.column_stack([np.ones(60), X]).T @ plate.dual_coef_, 0, atol=1e-9
)
plane = KernelInterpolator(ThinPlate()).fit(X, 2 - X[:, 0] + 3 * X[:, 1])
assert np.allclose(plane.predict(new), 2 - new[:, 0] + 3 * new[:, 1], atol=1e-8)

# %%
# The same as a process, with the variance of the plate learned from the data. Its mean is the same function.

process = GaussianProcessRegressor(1.0 * ThinPlate(), alpha=0.0).fit(X, y)
assert np.allclose(process.predict(new), plate.predict(new), atol=1e-6)

# %%
# The picture
# -----------

side = np.linspace(-1.6, 1.6, 70)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
mean, deviation = process.predict(grid, return_std=True)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2))
for axis, values, title in zip(
    axes, (mean, deviation), ("the plate", "its deviation"), strict=True
):
    shown = axis.contourf(side, side, values.reshape(70, 70), levels=20)
    axis.plot(*X.T, "k.", ms=4)
    axis.set(title=title, aspect="equal")
    figure.colorbar(shown, ax=axis)
figure.tight_layout()
plt.show()
