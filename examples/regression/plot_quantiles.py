"""
Quantiles with coverage
=======================

The pinball loss ``q (y - f)⁺ + (1 - q) (f - y)⁺`` is least where a share q of the targets lies below f. So a kernel
machine with that loss learns a quantile, and two of them a band, with no model of the noise. Here the noise grows from
left to right and is skewed; a Gaussian process with one noise level for all is put beside it.
"""

# %%
# Data whose spread depends on x.

import matplotlib.pyplot as plt
import numpy as np

from gramian import GaussianProcessRegressor, KernelMachineRegressor
from gramian.kernels import RBF
from gramian.losses import Quantile

rng = np.random.default_rng(0)


def sample(n):
    """Rows, and targets with skewed noise that grows with x."""
    X = rng.uniform(0, 6, (n, 1))
    return X, np.sin(X[:, 0]) + (0.05 + 0.15 * X[:, 0]) * (
        rng.exponential(1.0, n) - 1.0
    )


X, y = sample(400)
X_new, y_new = sample(5000)

# %%
# Five quantiles in one fit
# -------------------------
# ``non_crossing`` puts the predictions in order; ``lam="cv"`` would choose the strength of the penalty by the pinball
# loss itself.

levels = [0.05, 0.25, 0.5, 0.75, 0.95]
model = KernelMachineRegressor(
    Quantile(levels, non_crossing=True), lam=1e-3, kernel=RBF(1.5)
).fit(X, y)
print(model.certificate_)

# %%
# On the training rows the shares are right by the optimality conditions, up to the rows that lie on the curve; on new
# rows they are right about as far as 400 rows can tell.

below = (y_new[:, None] < model.predict(X_new)).mean(axis=0)
for level, share in zip(levels, below, strict=True):
    print(f"quantile {level}: {share:.3f} of new targets below")
assert np.abs(below - levels).max() < 0.06

# %%
# Beside a process with one noise level
# -------------------------------------
# Its 90% intervals are about right on average, and far too wide on the left, where there is little noise.

process = GaussianProcessRegressor(
    1.0 * RBF(1.5), noise="learn", random_state=0
).fit(X, y)
_, lower, upper = process.predict(X_new, return_interval=0.9)
band = model.predict(X_new)[:, [0, -1]]
left = X_new[:, 0] < 2
for name, low, high in (("quantiles", *band.T), ("process", lower, upper)):
    inside = (low < y_new) & (y_new < high)
    print(
        f"{name}: {inside[left].mean():.2f} inside on the left, {inside[~left].mean():.2f} on the right"
    )
inside = (band[:, 0] < y_new) & (y_new < band[:, 1])
assert abs(inside[left].mean() - 0.9) < 0.06
assert ((lower < y_new) & (y_new < upper))[left].mean() > 0.97

# %%
# The picture
# -----------

grid = np.linspace(0, 6, 300)[:, None]
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
curves = model.predict(grid)
axes[0].fill_between(
    grid[:, 0], curves[:, 0], curves[:, -1], alpha=0.2, label="5% to 95%"
)
axes[0].fill_between(
    grid[:, 0], curves[:, 1], curves[:, -2], alpha=0.3, label="25% to 75%"
)
axes[0].plot(grid, curves[:, 2], label="median")
axes[0].set_title("quantiles")
mean, low, high = process.predict(grid, return_interval=0.9)
axes[1].fill_between(grid[:, 0], low, high, alpha=0.2, label="90%")
axes[1].plot(grid, mean, label="mean")
axes[1].set_title("a process with one noise level")
for ax in axes:
    ax.plot(X, y, "k.", ms=3, alpha=0.5)
    ax.legend(fontsize=8, loc="upper left")
figure.tight_layout()
plt.show()
