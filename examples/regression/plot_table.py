"""
A table, and nothing to choose
==============================

Flats with districts, dates and gaps. A search reads the columns, tries kernel machines beside a linear model, and fits
the best; then it says how sure it is of each new price, and which columns it needs.
"""

# %%
# The table: one column of numbers, two of categories, one of dates, and a gap here and there.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from gramian import AutoKernelRegressor
from gramian.plots import SensitivityDisplay

n, rng = 400, np.random.default_rng(0)
flats = pd.DataFrame(
    {
        "area": rng.uniform(25, 140, n).round(),
        "district": rng.choice(["centre", "docks", "hill", "north"], n),
        "heating": rng.choice(["gas", "oil", "heat pump"], n),
        "sold": pd.Timestamp("2018-01-01")
        + pd.to_timedelta(rng.integers(0, 2500, n), "D"),
    }
)
dear = flats["district"].map(
    {"centre": 5.2, "docks": 4.0, "hill": 4.6, "north": 2.9}
)
years = (flats["sold"] - flats["sold"].min()).dt.days / 365
price = dear * flats["area"] ** 0.9 * (1 + 0.15 * np.sin(years))  # thousands
price *= np.exp(0.06 * rng.standard_normal(n))
flats.loc[::15, "area"] = np.nan
flats.loc[4::20, "heating"] = None
old, new = slice(0, 300), slice(300, n)

# %%
# Errors of prices grow with the price, so their logarithm is learned (``"auto"`` decides it on held-out rows).

model = AutoKernelRegressor(
    5.0, machines=["gp", "linear"], cv=3, target_scale="log", random_state=0
)
model.fit(flats[old], price[old])
print(model.explain())

# %%
# New prices with 90% intervals.

mean, low, high = model.predict(flats[new], return_interval=0.9)
inside = (low < price[new]) & (price[new] < high)
print(f"{inside.mean():.0%} of the new prices are in their 90% intervals")
assert inside.mean() > 0.8
assert model.best_trial_.score < model.baseline_

# %%
# The picture
# -----------

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(14, 4.2), layout="constrained"
)
bars = np.abs(np.stack([low, high]) - mean)
left.errorbar(mean, price[new], xerr=bars, fmt="o", ms=3, lw=0.6)
left.axline((200, 200), slope=1, color="black", lw=0.8)
left.set(xlabel="predicted, with 90% interval", ylabel="true price, thousands")
board = [trial for trial in model.leaderboard_ if trial.ok][:8]
linear = next(trial for trial in model.leaderboard_ if trial.name == "linear")
middle.errorbar(
    [trial.score for trial in board],
    [trial.name for trial in board],
    xerr=[trial.spread for trial in board],
    fmt="o",
)
middle.axvline(linear.score, color="black", ls="--", lw=0.8, label="linear")
middle.set(xlabel="RMSE on rows held out")
middle.invert_yaxis()
middle.legend()
SensitivityDisplay.from_estimator(model, flats[new], price[new], ax=right)
plt.show()
