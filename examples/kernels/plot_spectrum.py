"""
How many directions do the data use?
====================================

The eigenvalues of K/n estimate those of the kernel's integral operator. The smoother the kernel, the faster they fall,
and the fewer directions a ridge of λ keeps: the effective dimension d(λ) = tr K (K + nλ)⁻¹. About as many landmarks
are enough for a Nyström approximation, and random pivots find them.
"""

# %%
# A smooth and a rough kernel on the same rows.

import matplotlib.pyplot as plt
import numpy as np

from gramian.kernels import RBF, Laplace
from gramian.plots import SpectrumDisplay

X = np.random.default_rng(0).uniform(-1, 1, size=(600, 2))
lam = 1e-4
smooth = SpectrumDisplay.from_kernel(RBF(0.5), X, lam=lam, ax=False)
rough = SpectrumDisplay.from_kernel(Laplace(0.5), X, lam=lam, ax=False)

# %%
# The effective dimension is a trace; it counts eigenvalues above λ, softly.

K = RBF(0.5)(X)
trace = np.trace(np.linalg.solve(K + len(X) * lam * np.eye(len(X)), K))
assert np.isclose(trace, smooth.effective_dimension(lam))
assert rough.effective_dimension(lam) > 4 * smooth.effective_dimension(lam)

# %%
# With twice d(λ) landmarks, what is missed of the trace is below nλ: less than the ridge adds.

enough = 2 * smooth.effective_dimension(lam)
missed = np.interp(enough, smooth.ranks, smooth.missed)
assert missed < len(X) * lam

# %%
# The picture
# -----------

figure, axes = plt.subplots(2, 3, figsize=(13, 7), layout="constrained")
for row, display, name in zip(
    axes, (smooth, rough), ("RBF, smooth", "Laplace, rough"), strict=True
):
    for ax, kind in zip(row, ("eigenvalues", "dimension", "rank"), strict=True):
        display.plot(ax, kind=kind)
    row[0].set_title(name)
plt.show()
