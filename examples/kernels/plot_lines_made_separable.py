"""
Two sets on a line, made separable
==================================

No threshold splits these points by their sign, and after the map ψ(x) = (x, x²) a straight line does.
``PolynomialMap`` computes ψ, and the support vector machine with a hard margin, ``C=inf``, proves both halves: it says
when there is no line, and finds the widest one when there is.
"""

import matplotlib.pyplot as plt
import numpy as np

from gramian import SVC, PolynomialMap

sets = {
    "five points": (
        np.array([-2.0, -1.0, 1.0, 2.0, 3.0]),
        np.array([-1, -1, 1, 1, -1]),
    ),
    "the ends of an interval": (
        np.arange(-10.0, 11.0),
        np.where(np.abs(np.arange(-10, 11)) > 2, 1, -1),
    ),
}
psi = PolynomialMap(2, "box", include_constant=False)
assert np.array_equal(psi.fit_transform([[3.0]]), [[3.0, 9.0]])

figure, axes = plt.subplots(1, 2, figsize=(9, 4))
for ax, (name, (x, y)) in zip(axes, sets.items(), strict=True):
    X = x[:, None]
    try:
        SVC(kernel="linear", C=np.inf).fit(X, y)
    except ValueError as refusal:
        print(f"{name}, as they are: {refusal}")
    else:
        raise AssertionError("a threshold splits them after all")
    model = SVC(kernel="linear", C=np.inf).fit(psi.fit_transform(X), y)
    margins = y * model.decision_function(psi.transform(X))
    assert (
        margins.min() > 1.0 - 1e-3
    )  # every point on its side, and none within the margin
    print(
        f"{name}, lifted: {np.sum(margins > 0)} of {x.size} on the right side; {model.certificate_}"
    )
    (b, a), c = model.coef_[0], model.intercept_[0]
    grid = np.linspace(x.min() - 0.5, x.max() + 0.5)
    ax.plot(grid, -(c + b * grid) / a, "k--", label="the line")
    for sign, colour in ((1, "C1"), (-1, "C0")):
        ax.scatter(
            x[y == sign], x[y == sign] ** 2, color=colour, label=f"{sign:+d}"
        )
        ax.scatter(
            x[y == sign],
            np.full(np.sum(y == sign), -0.06 * (x**2).max()),
            color=colour,
            marker="|",
        )
    on_margin = model.support_
    ax.scatter(
        x[on_margin],
        x[on_margin] ** 2,
        s=120,
        facecolors="none",
        edgecolors="k",
        label="on the margin",
    )
    ax.set(title=name, xlabel="x", ylabel="x²")
    ax.legend()
figure.tight_layout()
plt.show()
