"""
Duality closing
===============

The dual function can be evaluated at multipliers of one's own: ``model.dual(lam)`` is a lower bound on the objective,
whatever they are. Here the dual of a support vector machine is climbed by hand, one multiplier at a time; the primal
value of the function that the multipliers stand for comes down to meet it, and where they meet, ``model.kkt()`` shows
why: each row has either no multiplier or no slack.
"""

# %%
# A machine without a constant, so that the multipliers are free of each other: 0 ≤ λᵢ ≤ C.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from gramian import SVC, KernelMachineClassifier
from gramian.kernels import RBF

X, labels = make_moons(100, noise=0.25, random_state=0)
y, n, C, k = 2.0 * labels - 1.0, len(X), 1.0, RBF(0.7)
K = k(X)
model = KernelMachineClassifier(
    "hinge", lam=1 / (n * C), kernel=k, fit_intercept=False, tol=1e-10
).fit(X, labels)

# %%
# Coordinate ascent: of one multiplier the dual is a parabola, and its best point is known. The model's objective is a
# mean, 1/(n C) of the textbook's, and its multipliers are the slopes u = -λ y of the losses.

lam, primal, dual = np.zeros(n), [], []
for _sweep in range(40):
    f = K @ (lam * y)
    primal.append(0.5 * lam * y @ f + C * np.maximum(0, 1 - y * f).sum())
    dual.append(n * C * model.dual(-lam * y / C))
    assert np.isclose(dual[-1], lam.sum() - 0.5 * (lam * y) @ K @ (lam * y))
    for i in range(n):
        lam[i] = np.clip(
            lam[i] + (1 - y[i] * (K[i] @ (lam * y))) / K[i, i], 0, C
        )

# %%
# Weak duality at every step: no dual value is above any primal value. Strong duality at the end: they meet, at the
# value that the library had found by another way.

assert max(dual) <= min(primal) + 1e-9
assert np.all(np.diff(dual) >= -1e-9)
best = n * C * model.certificate_.primal
assert np.isclose(dual[-1], best, rtol=1e-4)
assert np.isclose(min(primal), best, rtol=1e-2)

# %%
# With a constant, the multipliers must also balance, Σ λᵢ yᵢ = 0. The conditions of Karush, Kuhn and Tucker at the
# solution of ``SVC``, row by row; the sum of the last is the gap:

machine = SVC(kernel=k, C=C, tol=1e-10).fit(X, labels)
conditions = machine.kkt()
print(conditions)
gap = machine.certificate_.primal - machine.dual(machine.multipliers_)
assert np.isclose(conditions.complementary_slackness.sum(), gap, atol=1e-8)

# %%
# The picture
# -----------
# On the right, complementary slackness as a shape: every row is on one of three edges, which are its kinds.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
left.plot(primal, "o-", ms=3, label="primal: the objective of a function")
left.plot(dual, "s-", ms=3, label="dual: model.dual(lam)")
left.fill_between(range(len(dual)), dual, primal, alpha=0.15)
left.axhline(best, color="0.5", lw=0.8)
left.set(
    xlabel="sweeps over the multipliers", ylabel="objective", ylim=(0, 3 * best)
)
left.legend(fontsize=8)
margins = y * machine.decision_function(X)
for kind in ("peripheral", "margin", "violator"):
    rows = machine.kinds_ == kind
    right.plot(
        margins[rows],
        machine.multipliers_[rows],
        "o",
        ms=4,
        alpha=0.7,
        label=kind,
    )
right.set(xlabel="y f(x)", ylabel="λ")
right.legend(fontsize=8)
figure.tight_layout()
plt.show()
