"""
One function, three views
=========================

Kernel ridge regression minimises a penalised sum of squares. Minimum-norm interpolation looks for the smallest function
through the data. A Gaussian process conditions a random function on noisy observations. They are the same object: the
ridge is the process's mean, interpolation is its limit as the noise goes to zero, and the deviation of the process
without noise is the worst error that the interpolant can make on any function of norm one. With noise, these are three
figures: the worst error of the ridge, the deviation, and the deviation of a new observation.
"""

# %%
# Twelve observations of a smooth function.

import matplotlib.pyplot as plt
import numpy as np

from gramian import GaussianProcessRegressor, KernelInterpolator, KernelRidge
from gramian.kernels import Matern

rng = np.random.default_rng(1)
X = (np.linspace(0.5, 9.5, 12) + rng.uniform(-0.2, 0.2, 12))[:, None]
noise = 0.05
y = np.sin(X[:, 0]) + np.sqrt(noise) * rng.standard_normal(12)
grid = np.linspace(-1.0, 11.0, 400)[:, None]
kernel = Matern(1.5, nu=2.5)

# %%
# Ridge and process
# -----------------
# With ``alpha = σ²`` the ridge is the posterior mean, and the power function of the ridge, which knows nothing of
# probability, is the posterior deviation. The worst error of the ridge over the unit ball is smaller, because its
# weights are made for values with noise, and the functions of the ball are seen without; a new observation adds the
# noise.

ridge = KernelRidge(alpha=noise, kernel=kernel).fit(X, y)
process = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(
    X, y
)
mean, deviation = process.predict(grid, return_std=True)

assert np.allclose(ridge.predict(grid), mean, atol=1e-8)
assert np.allclose(ridge.function_.power(grid), deviation, atol=1e-7)
assert np.allclose(process.function_.power(grid), deviation, atol=1e-7)
worst, observed = (
    ridge.function_.worst_error(grid),
    ridge.function_.power(grid, noisy=True),
)
assert np.all(worst <= deviation + 1e-9)
assert np.allclose(observed**2, deviation**2 + noise)

# %%
# The deviation does not depend on what was observed, only on where.

_, elsewhere = (
    GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    .fit(X, -3.0 * y)
    .predict(grid, return_std=True)
)
assert np.array_equal(deviation, elsewhere)

# %%
# The limit
# ---------
# As the noise goes to zero the mean passes through the data, and its norm grows towards that of the interpolant.

limit = KernelInterpolator(kernel=kernel).fit(X, y)
levels = [1.0, 1e-1, 1e-2, 1e-4, 1e-8]
means = [
    GaussianProcessRegressor(kernel, alpha=level, optimizer=None).fit(X, y)
    for level in levels
]
norms = [gp.function_.norm() for gp in means]

assert np.allclose(means[-1].predict(grid), limit.predict(grid), atol=1e-4)
assert np.all(np.diff(norms) > 0)
assert np.allclose(
    limit.function_.worst_error(grid), limit.function_.power(grid), atol=1e-6
)
assert norms[-1] <= limit.function_.norm() + 1e-6

# %%
# The picture
# -----------

figure, (left, right, below) = plt.subplots(1, 3, figsize=(14, 4))
left.fill_between(
    grid[:, 0],
    mean - 2 * deviation,
    mean + 2 * deviation,
    alpha=0.2,
    label="process: ±2 deviations",
)
left.plot(grid, ridge.predict(grid), label="ridge = mean of the process")
left.plot(X, y, "k.", label="data")
left.set_title(f"noise {noise}")
for level, gp in zip(levels, means, strict=True):
    right.plot(grid, gp.predict(grid), lw=1, label=f"noise {level:g}")
right.plot(grid, limit.predict(grid), "k--", lw=1, label="interpolant")
right.plot(X, y, "k.")
right.set_title("less and less noise")
below.plot(grid, observed, label="of a new observation")
below.plot(grid, deviation, label="deviation = power function")
below.plot(grid, worst, label="worst error of the ridge")
below.plot(
    grid,
    limit.function_.power(grid),
    "k--",
    lw=1,
    label="of the interpolant: one figure",
)
below.plot(X, np.zeros(12), "k.")
below.set_title("worst cases")
for axes in (left, right, below):
    axes.legend(fontsize=8)
plt.tight_layout()
plt.show()
