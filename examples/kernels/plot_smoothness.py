"""
Smoothness
==========

The spectral density of a kernel says what each frequency costs, and so which functions are in its space: those whose
norm, as an integral over frequencies, is finite. Matérn's spaces are Sobolev spaces, one for each order of smoothness.
A process with the same kernel draws functions that are rougher than those of the space.
"""

# %%
# Four kernels, from rough to smooth.

import matplotlib.pyplot as plt
import numpy as np

from gramian import GaussianProcessRegressor
from gramian.kernels import RBF, Matern
from gramian.rkhs import fourier_norm

kernels = {
    "ν = 1/2": Matern(1.0, nu=0.5),
    "ν = 3/2": Matern(1.0, nu=1.5),
    "ν = 5/2": Matern(1.0, nu=2.5),
}
kernels["RBF"] = RBF(1.0)

# %%
# What a frequency costs
# ----------------------
# Matérn's density falls like a power, :math:`\omega^{-(2\nu+1)}`, the Gaussian's like an exponential.

omega = np.geomspace(0.1, 60.0, 200)
densities = {
    name: k.spectral_density(omega[:, None]) for name, k in kernels.items()
}
for nu, name in zip((0.5, 1.5, 2.5), kernels, strict=False):
    slope = np.diff(np.log(densities[name][-2:])) / np.diff(np.log(omega[-2:]))
    assert np.isclose(slope, -(2 * nu + 1), atol=0.02)

# %%
# Which functions are in the space
# --------------------------------
# A hat, which has a kink, is in the space of Matérn 1/2 only. On finer and finer grids its norm there settles, and that
# in smoother spaces grows without end, like a power of the spacing: :math:`h^{-(\nu - 1)}`.

spacings = np.array([0.08, 0.04, 0.02, 0.01, 0.005])


def norms_of_a_hat(kernel):
    """Return the norm of max(0, 1 - |x|) on each grid."""
    grids = (np.arange(-6.0, 6.0, h) for h in spacings)
    hats = (np.maximum(1.0 - np.abs(x), 0.0) for x in grids)
    return np.array(
        [
            fourier_norm(kernel, hat, h)
            for hat, h in zip(hats, spacings, strict=True)
        ]
    )


norms = {
    name: norms_of_a_hat(k) for name, k in kernels.items() if name != "RBF"
}
exact = np.sqrt(0.5 * (2 / 3) + 0.5 * 2)  # ∫ f²/2 + f'²/2
assert np.isclose(norms["ν = 1/2"][-1], exact, rtol=0.01)
for nu, name in ((1.5, "ν = 3/2"), (2.5, "ν = 5/2")):
    rate = np.log(norms[name][-1] / norms[name][-2]) / np.log(2.0)
    assert np.isclose(rate, nu - 1.0, atol=0.05)

# %%
# What a process draws
# --------------------
# Paths of Matérn 1/2 have no derivative anywhere, those of 3/2 have one, those of 5/2 two. None is in the space of its
# kernel: the least norm through ever more values of a path grows like their number.

grid = np.linspace(0.0, 6.0, 400)[:, None]
paths = {
    name: GaussianProcessRegressor(k).sample_y(grid, random_state=4)[:, 0]
    for name, k in kernels.items()
}
rough, smooth = (
    np.abs(np.diff(paths[name])).mean() for name in ("ν = 1/2", "ν = 5/2")
)
assert rough > 3 * smooth

path = GaussianProcessRegressor(kernels["ν = 1/2"]).sample_y(
    grid, random_state=4
)[:, 0]
for n in (50, 100, 200, 400):
    some = np.linspace(0, 399, n).astype(int)
    squared = path[some] @ np.linalg.solve(
        kernels["ν = 1/2"](grid[some]), path[some]
    )
    assert 0.6 * n < squared < 1.5 * n

# %%
# The picture
# -----------

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4))
for i, (name, S) in enumerate(densities.items()):
    left.loglog(omega, S, ls=("-", "--", "-.", ":")[i], label=name)
left.set(title="spectral density", xlabel="frequency ω", ylim=(1e-12, 1.0))
for i, (name, found) in enumerate(norms.items()):
    middle.loglog(spacings, found, marker="os^"[i], label=name)
middle.axhline(exact, color="grey", lw=0.8, ls=":")
middle.invert_xaxis()
middle.set(title="norm of a hat on finer grids", xlabel="spacing")
for i, (name, path) in enumerate(paths.items()):
    right.plot(grid, path + 4.0 * i, lw=1, label=name)
right.set(title="paths of the process", yticks=[])
for axes in (left, middle, right):
    axes.legend(fontsize=8)
figure.tight_layout()
plt.show()
