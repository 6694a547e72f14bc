"""
What accuracy costs
===================

An exact kernel ridge costs O(n²) memory and O(n³) time. Landmarks (Nyström) and waves (Fourier) of size m cost O(nm)
and O(nm²), and lose some accuracy. Which is best depends on how much of each one has; the frontier holds the fits that
no other beats.
"""

# %%
# A smooth function of three inputs, with noise.

import matplotlib.pyplot as plt
import numpy as np

from gramian import KernelRidge
from gramian.kernels import RBF
from gramian.plots import FrontierDisplay

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(2000, 3))
y = (
    np.sin(2 * X[:, 0]) * X[:, 1]
    + X[:, 2] ** 2
    + 0.1 * rng.standard_normal(2000)
)

# %%
# Every fit runs twice: once with a clock, once with its memory counted.

display = FrontierDisplay.from_estimator(
    KernelRidge(1e-2, kernel=RBF(1.0)), X, y, sizes=(10, 30, 100, 300), ax=False
)
for run in display.runs:
    print(
        f"{run.method:8s} {run.size:4d}  R² {run.score:6.3f}  {run.seconds:7.4f} s  {run.memory / 1e6:6.1f} MB"
    )

# %%
# Landmarks come close to the exact fit with a fraction of its memory.

exact = next(run for run in display.runs if run.method == "exact")
landmarks = next(
    run for run in display.runs if run.method == "Nyström" and run.size == 300
)
assert exact.score - landmarks.score < 0.02
assert landmarks.memory < 2 * exact.memory / 3

# %%
# The picture
# -----------

figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.2), layout="constrained"
)
display.plot(left, kind="time")
display.plot(right, kind="memory")
plt.show()
