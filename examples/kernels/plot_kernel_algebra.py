"""
Kernels closed under algebra
============================

Sums, products, polynomials, exponentials, maps and normalisations of kernels are kernels: the smallest eigenvalue of
the Gram matrix is never below zero by more than rounding. A difference of kernels need not be one, and here is one that
is not. What a kernel means is best seen in random functions that have it for a covariance, so two are drawn for each.
"""

# %%
# The bricks, and what they are built into.

import matplotlib.pyplot as plt
import numpy as np

from gramian import GaussianProcessRegressor
from gramian.kernels import (
    RBF,
    Constant,
    Linear,
    Matern,
    Periodic,
    exp,
    is_kernel,
    polynomial,
)

smooth, rough, wave = RBF(1.0), Matern(1.0, nu=0.5), Periodic(0.8, period=2.0)
kernels = {
    "RBF(1)": smooth,
    "Matern(1, nu=0.5)": rough,
    "Periodic, period 2": wave,
    "RBF(3) + 0.05 Matern": RBF(3.0) + 0.05 * rough,
    "Periodic · RBF(3)": wave * RBF(3.0),
    "(Linear + 1) · Periodic": (0.05 * Linear() + Constant(0.1)) * wave,
    "(1 + RBF)³": polynomial(smooth, [1.0, 3.0, 3.0, 1.0]),
    "exp(Linear / 4), normalised": exp(0.25 * Linear()).normalized(),
    "RBF of |x|": smooth.compose(np.abs),
}

# %%
# Every one of them is a kernel on these points
# ---------------------------------------------

grid = np.linspace(-5, 5, 200)[:, None]
for name, kernel in kernels.items():
    report = is_kernel(kernel, grid)
    print(f"{name}: {report}")
    assert report

# %%
# The Gaussian kernel is an exponential, normalised.

assert np.allclose(exp(0.25 * Linear()).normalized()(grid), RBF(2.0)(grid))

# %%
# A difference is not on the list.

difference = is_kernel(RBF(1.0)(grid) - RBF(2.0)(grid))
print("a difference:", difference)
assert not difference

# %%
# Random functions
# ----------------
# Those of ``RBF of |x|`` are mirror images about zero; those of a product with a wide RBF are waves that change slowly.

figure, axes = plt.subplots(3, 3, figsize=(10, 6.5), sharex=True)
for ax, (name, kernel) in zip(axes.flat, kernels.items(), strict=True):
    draws = GaussianProcessRegressor(kernel).sample_y(
        grid, n_samples=2, random_state=3
    )
    ax.plot(grid, draws, lw=1)
    ax.set_title(name, fontsize=9)
figure.tight_layout()
plt.show()
