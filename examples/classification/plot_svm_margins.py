"""
Which objects hold a margin in place
====================================

A support vector machine is decided by few of its objects. Those on the margin hold it in place, those that violate it
pull at it, and the others, the periphery, could be left out without any change. The kinds are read off the dual
variables: zero, between the bounds, at the upper bound.
"""

# %%
# Two classes: f = 0 is the boundary, f = ±1 are the margins.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs, make_moons

from gramian import SVC
from gramian.kernels import RBF
from gramian.plots import DecisionBoundaryDisplay

X, y = make_moons(160, noise=0.22, random_state=0)
machine = SVC(C=3.0, kernel=RBF(0.7)).fit(X, y)
f = np.where(y == 1, 1, -1) * machine.decision_function(X)

assert np.all(f[machine.kinds_ == "peripheral"] >= 1 - 1e-3)
assert np.allclose(f[machine.kinds_ == "margin"], 1, atol=1e-3)
assert np.all(f[machine.kinds_ == "violator"] <= 1 + 1e-3)

# %%
# Leaving out the periphery changes nothing.

kept = machine.kinds_ != "peripheral"
fewer = SVC(C=3.0, kernel=RBF(0.7)).fit(X[kept], y[kept])
assert np.allclose(
    fewer.decision_function(X), machine.decision_function(X), atol=1e-3
)

# %%
# Three classes are told apart pair by pair; an object's kind is its gravest.

blobs, species = make_blobs(
    180,
    centers=[[0, 0], [2.6, 0.6], [1.0, 2.6]],
    cluster_std=0.75,
    random_state=1,
)
names = np.array(["ant", "bee", "cat"])[species]
three = SVC(C=1.0, kernel=RBF(1.5)).fit(blobs, names)

# %%
# The picture
# -----------

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.4), layout="constrained"
)
DecisionBoundaryDisplay.from_estimator(machine, X, y, ax=left)
DecisionBoundaryDisplay.from_estimator(three, blobs, names, ax=right)
left.set_title(f"{np.sum(kept)} of {len(X)} objects decide")
right.set_title("three classes")
plt.show()
