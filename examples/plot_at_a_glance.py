"""
Four pictures of one idea
=========================

One kernel algebra, four machines: a margin with the objects that hold it, a process with its bands, a mixture with its
ellipses, and the spectrum that says how many directions the data use. Each picture is one call.
"""

# %%
# Data and fits.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from gramian import SVC, GaussianMixture, GaussianProcessRegressor
from gramian.kernels import RBF, Matern
from gramian.plots import (
    DecisionBoundaryDisplay,
    GaussianProcessDisplay,
    MixtureDisplay,
    SpectrumDisplay,
)

rng = np.random.default_rng(0)
moons, side = make_moons(140, noise=0.2, random_state=0)
margin = SVC(C=3.0, kernel=RBF(0.7)).fit(moons, side)

x = np.sort(rng.uniform(0, 12, 80))
x = x[(x < 5.5) | (x > 8.0)]
y = np.sin(x) + 0.25 * x + 0.2 * rng.standard_normal(x.size)
process = GaussianProcessRegressor(
    1.0 * Matern(1.0, nu=2.5), noise="learn", normalize_y=True
).fit(x[:, None], y)

heaps = np.concatenate(
    [
        rng.multivariate_normal([0, 0], [[1.0, 0.6], [0.6, 1.0]], 150),
        rng.multivariate_normal([4, 1], [[0.4, 0.0], [0.0, 1.5]], 90),
        rng.multivariate_normal([1, 5], [[1.5, -0.9], [-0.9, 1.0]], 60),
    ]
)
mixture = GaussianMixture(3, random_state=0).fit(heaps)

assert margin.certificate_.converged
assert process.certificate_.converged
assert mixture.certificate_.converged

# %%
# The picture
# -----------

figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
DecisionBoundaryDisplay.from_estimator(margin, moons, side, ax=axes[0, 0])
GaussianProcessDisplay.from_estimator(process, n_samples=2, ax=axes[0, 1])
MixtureDisplay.from_estimator(mixture, heaps, ax=axes[1, 0])
SpectrumDisplay.from_kernel(RBF(0.7), moons, lam=1e-3, ax=axes[1, 1])
titles = (
    "objects by kind: SVC",
    "bands of 50% and 90%: Gaussian process",
    "shares: GaussianMixture",
    "spectrum of K/n",
)
for ax, title in zip(axes.flat, titles, strict=True):
    ax.set_title(title)
plt.show()
