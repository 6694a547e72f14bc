"""
Two sets on a line, made separable
==================================

No threshold splits these points by their sign, and after the map ψ(x) = (x, x²) a straight line does.
``PolynomialMap`` computes ψ; a kernel would compute the same inner products without it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from gramian import PolynomialMap

sets = {
    "five points": (np.array([-2.0, -1.0, 1.0, 2.0, 3.0]), np.array([-1, -1, 1, 1, -1])),
    "the ends of an interval": (np.arange(-10.0, 11.0), np.where(np.abs(np.arange(-10, 11)) > 2, 1, -1)),
}

figure, axes = plt.subplots(1, 2, figsize=(9, 4))
for ax, (name, (x, y)) in zip(axes, sets.items(), strict=True):
    X = x[:, None]
    psi = PolynomialMap(degree=2)
    # A linear machine on the features; a large C gives no point up where the points are separable.
    model = SVC(kernel="linear", C=1e6).fit(psi.fit_transform(X), y)
    right = int(np.sum(model.predict(psi.transform(X)) == y))
    print(f"{name}: {right} of {x.size} on the right side of the line")
    # The features are 1, √2 x and x²; the line is where their weighted sum is zero.
    c, b, a = model.coef_[0] * [1.0, np.sqrt(2.0), 1.0] + [model.intercept_[0], 0.0, 0.0]
    grid = np.linspace(x.min() - 0.5, x.max() + 0.5)
    ax.plot(grid, -(c + b * grid) / a, "k--", label="the line")
    for sign, colour in ((1, "C1"), (-1, "C0")):
        ax.scatter(x[y == sign], x[y == sign] ** 2, color=colour, label=f"{sign:+d}")
        ax.scatter(x[y == sign], np.full(np.sum(y == sign), -0.06 * (x**2).max()), color=colour, marker="|")
    ax.set(title=name, xlabel="x", ylabel="x²")
    ax.legend()
figure.tight_layout()
plt.show()
