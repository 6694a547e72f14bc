"""
Exact, Nyström or Fourier
=========================

The same ridge regression three ways: exactly, from landmarks, and from random waves. Where the kernel is smooth its
spectrum falls fast: few landmarks say all, and random waves need many more to say the same. Where it is rough no few
features say all; waves are then as good as landmarks and cheaper, and exact is best as long as memory allows.
"""

# %%
# Rows from a smooth function of four inputs, and the error on new rows against the number of features.

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from gramian import FourierFeatures, KernelRidge, Nystroem
from gramian.kernels import RBF, Matern

rng = np.random.default_rng(0)


def sample(n):
    """Rows, and a smooth function of them with a little noise."""
    X = rng.standard_normal((n, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[
        :, 2
    ] + 0.05 * rng.standard_normal(n)


X, y = sample(2500)
X_new, y_new = sample(1000)
sizes = [25, 50, 100, 200, 400, 800]


def measured(model):
    """Root-mean-square error on new rows, and seconds of the fit."""
    start = perf_counter()
    model.fit(X, y)
    seconds = perf_counter() - start
    return np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2)), seconds


# %%
# The measurements
# ----------------

figure, axes = plt.subplots(2, 2, figsize=(10, 7), sharey=True)
KernelRidge(kernel=RBF(2.0)).fit(
    X[:50], y[:50]
)  # the first call of a process loads libraries
for row, kernel in zip(axes, (RBF(2.0), Matern(2.0, nu=0.5)), strict=True):
    exact, exact_seconds = measured(KernelRidge(alpha=0.01, kernel=kernel))
    print(f"{kernel}: exact {exact:.3f} in {exact_seconds:.2f} s")
    for ax in row:
        ax.axhline(exact, color="k", ls=":", label="exact")
    row[1].plot(exact_seconds, exact, "k*", ms=12)
    errors = {}
    for approximation in (Nystroem, FourierFeatures):
        runs = [
            measured(
                KernelRidge(
                    0.01,
                    kernel=kernel,
                    approximation=approximation(n_components=m),
                    random_state=0,
                )
            )
            for m in sizes
        ]
        errors[approximation], seconds = np.array(runs).T
        name = approximation.__name__
        print(
            f"{kernel}: {name} {errors[approximation][-1]:.3f} with {sizes[-1]} features in {seconds[-1]:.2f} s"
        )
        row[0].loglog(sizes, errors[approximation], "o-", label=name)
        row[1].loglog(seconds, errors[approximation], "o-", label=name)
    row[0].set(
        title=repr(kernel), xlabel="features", ylabel="error on new rows"
    )
    row[1].set(title=repr(kernel), xlabel="seconds of the fit")
    row[0].legend(fontsize=8)
    if kernel == RBF(2.0):
        assert errors[Nystroem][-1] < 1.05 * exact < errors[FourierFeatures][-1]
    else:
        assert exact < min(errors[Nystroem][-1], errors[FourierFeatures][-1])
figure.tight_layout()
plt.show()
