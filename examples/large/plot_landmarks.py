"""
Landmarks on uneven data
========================

Sixty clusters, most of them small. Landmarks drawn uniformly miss the small ones; greedy pivots run after outliers;
random pivots (RPCholesky) do neither, and leave the least of the kernel's trace.
"""

import matplotlib.pyplot as plt
import numpy as np

from gramian import Nystroem
from gramian.kernels import RBF

rng = np.random.default_rng(0)
sizes = np.maximum((1200 * 0.85 ** np.arange(60)).astype(int), 4)
centres = rng.uniform(-10, 10, (60, 2))
X = np.concatenate(
    [
        c + 0.3 * rng.standard_normal((s, 2))
        for c, s in zip(centres, sizes, strict=True)
    ]
)

figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), sharex=True, sharey=True)
for ax, selection in zip(
    axes, ("uniform", "greedy", "leverage", "rpcholesky"), strict=True
):
    model = Nystroem(
        RBF(1.0), n_components=100, selection=selection, random_state=0
    ).fit(X)
    print(f"{selection}: trace error {model.trace_error_:.4f}")
    ax.scatter(*X.T, s=2, color="0.8")
    ax.scatter(*model.components_.T, s=10, color="C3")
    ax.set_title(f"{selection}: {model.trace_error_:.3f}")
figure.tight_layout()
plt.show()
