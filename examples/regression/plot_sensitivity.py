"""
Which inputs move the prediction?
=================================

A fitted function Σ αᵢ k(xᵢ, ·) can be differentiated as easily as evaluated. The mean absolute slope, in deviations of
the input, says which inputs the model uses, and the Gram matrix shows what it holds to be alike.
"""

# %%
# Ten measurements of 442 people, and how their diabetes went on.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from gramian import KernelRidge
from gramian.kernels import RBF
from gramian.plots import GramMatrixDisplay, SensitivityDisplay, TuningDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = KernelRidge(alpha="loo", kernel=RBF(0.2)).fit(X, y)
print(model.certificate_)

# %%
# The slopes are exact: they agree with differences of predictions.

display = SensitivityDisplay.from_estimator(model, X, scaled=False, ax=False)
rows, step = X.to_numpy()[:5], 1e-6
moved = rows.copy()
moved[:, 2] += step
slope = (model.function_(moved) - model.function_(rows)) / step
assert np.allclose(slope, model.function_.gradient(rows)[:, 2], rtol=1e-3)
assert display.names[int(np.argmax(display.importance))] in ("bmi", "s5")

# %%
# The picture
# -----------

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(14, 4.2), layout="constrained"
)
SensitivityDisplay.from_estimator(model, X, ax=left)
TuningDisplay.from_estimator(model, ax=middle)
GramMatrixDisplay.from_estimator(model, X, ax=right)
plt.show()
