"""
A series with bands that can be believed
========================================

Fifteen years of a monthly series: a trend that wanders, a yearly wave whose shape drifts, and noise. A kernel says just
that. Its parameters are learned from the evidence of what is shown, and the bands widen where nothing is known.
"""

# %%
# The series is drawn from such a prior. One year in the middle, and the last five, are not shown to the model.

import matplotlib.pyplot as plt
import numpy as np

from gramian import GaussianProcessRegressor
from gramian.kernels import RBF, Matern, Periodic
from gramian.plots import CoverageDisplay, GaussianProcessDisplay

rng = np.random.default_rng(0)
years = np.arange(0, 15, 1 / 12)


def prior(trend: float, wave: float) -> object:
    """A trend, plus a wave of period one whose shape may drift."""
    return 3.0 * Matern(trend, nu=1.5) + 1.0 * Periodic(
        wave, period=1.0, period_bounds="fixed"
    ) * RBF(20.0)


truth = GaussianProcessRegressor(prior(8.0, 1.0), optimizer=None).sample_y(
    years[:, None], random_state=4
)[:, 0]
series = truth + 0.25 * rng.standard_normal(years.size)
shown = (years < 10) & ((years < 5) | (years > 6))

# %%
# The model knows the form of the prior, and begins with other parameters.

process = GaussianProcessRegressor(
    prior(5.0, 2.0), noise="learn", normalize_y=True, random_state=0
)
process.fit(years[shown, None], series[shown])
print(process.kernel_)
print(process.certificate_)

# %%
# The noise is found again, and the bands hold what they promise: in the gap and in the next two years. Errors of
# neighbouring months go together, so on one series the share inside may wander further from the promise than the grey
# area, which is for independent rows.

deviation = np.sqrt(process.noise_) * series[shown].std()
assert 0.2 < deviation < 0.3
new = ~shown & (years < 12)
coverage = CoverageDisplay.from_estimator(
    process, years[new, None], series[new], ax=False
)
assert np.abs(coverage.observed - coverage.levels).max() < 0.25

# %%
# The picture
# -----------

figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4), layout="constrained", width_ratios=[2.4, 1]
)
GaussianProcessDisplay.from_estimator(
    process, years[:, None], series, n_points=500, n_samples=2, ax=left
)
left.axvspan(10, 15, color="0.5", alpha=0.12, lw=0)
left.set(
    xlabel="year",
    ylabel="level",
    title="the grey years were not shown to the model",
)
coverage.plot(right)
right.set_title("the gap and two years ahead")
plt.show()
