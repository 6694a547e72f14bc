"""
How many clusters?
==================

A mixture of Gaussians describes clusters as ellipses with weights. More components always fit better; the Bayesian
information criterion charges for each and finds the number that the data ask for. On the way, expectation-maximisation
raises the evidence in every step, by closing the gap between the log-likelihood and its bound.
"""

# %%
# Three heaps of different size and shape.

import matplotlib.pyplot as plt
import numpy as np

from gramian import GaussianMixture, select_components
from gramian.plots import MixtureDisplay

rng = np.random.default_rng(0)
X = np.concatenate(
    [
        rng.multivariate_normal([0, 0], [[1.0, 0.6], [0.6, 1.0]], 200),
        rng.multivariate_normal([4, 1], [[0.4, 0.0], [0.0, 1.5]], 120),
        rng.multivariate_normal([1, 5], [[1.5, -0.9], [-0.9, 1.0]], 80),
    ]
)

# %%
# One set of seeds for all sizes, so that the curve shows the effect of the number and not of luck.

selection = select_components(X, range(1, 9), random_state=0)
print(selection)
assert selection.best.n_components == 3

# %%
# From a bad start, EM needs more steps; the likelihood never falls, and never below its bound.

slow = GaussianMixture(
    3, init_params="random", random_state=1, max_iter=500
).fit(X)
evidence = np.array([step.log_likelihood for step in slow.evidence_])
bounds = np.array([step.bound for step in slow.evidence_])
assert np.all(np.diff(evidence) > -1e-9)
assert np.all(bounds <= evidence)

# %%
# The picture
# -----------

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(13, 4), layout="constrained"
)
display = MixtureDisplay.from_selection(selection, X, ax=False)
display.plot(left, kind="components")
display.plot(middle, kind="criterion")
MixtureDisplay.from_estimator(slow, ax=False).plot(right, kind="evidence")
for axes, title in zip(
    (left, middle, right),
    ("the best mixture", "what BIC says", "EM from a bad start"),
    strict=True,
):
    axes.set_title(title)
plt.show()
