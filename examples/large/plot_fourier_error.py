"""
How the error of random features falls
======================================

The root-mean-square error of ``<ψ(x), ψ(z)>`` as k(x, z), against the number of features. Orthogonal frequencies err
less than independent ones at the same cost, and those from Hadamard matrices (SORF) as little.
"""

import matplotlib.pyplot as plt
import numpy as np

from gramian import FourierFeatures
from gramian.kernels import RBF

X = np.random.default_rng(0).standard_normal((300, 16))
sizes = [32, 64, 128, 256, 512, 1024]

figure, ax = plt.subplots(figsize=(6, 4))
for method in ("iid", "orthogonal", "sorf"):
    errors = [
        [
            FourierFeatures(RBF(4.0), D, method=method, random_state=seed)
            .fit(X)
            .error(X)
            .rms
            for seed in range(5)
        ]
        for D in sizes
    ]
    means = np.mean(errors, axis=1)
    ax.loglog(sizes, means, marker="o", label=method)
    print(
        f"{method}: {means[0]:.3f} at D = {sizes[0]}, {means[-1]:.4f} at D = {sizes[-1]}"
    )
ax.loglog(
    sizes, means[0] * np.sqrt(sizes[0] / np.array(sizes)), "k:", label="1/√D"
)
ax.set(xlabel="features D", ylabel="RMS error of the kernel")
ax.legend()

asked = FourierFeatures(RBF(4.0)).fit(X).components_for(0.1, X)
print(
    f"an error of 0.1 for all pairs: {asked.empirical:,} features by the empirical bound, {asked.uniform:,} uniformly"
)
figure.tight_layout()
plt.show()
