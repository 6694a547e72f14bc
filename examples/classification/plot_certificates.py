"""
Certificates along a fit
========================

Every λ that obeys the constraints of the dual bounds the optimum from below, every function bounds it from above. A
solver that stops early therefore still knows how good its answer is. Here an SVM is stopped after more and more steps:
the two bounds close in on each other, and the test accuracy is settled long before they meet.
"""

# %%
# The same problem, stopped after 10, 20, 40, … steps. Each fit that stops short warns; here that is the point.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from gramian import SVC
from gramian.kernels import RBF

X, y = make_moons(400, noise=0.25, random_state=0)
X_new, y_new = make_moons(2000, noise=0.25, random_state=1)
steps = [10, 20, 40, 80, 160, 320, 640, -1]

fits = []
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    for most in steps:
        fits.append(
            SVC(C=10.0, kernel=RBF(0.5), tol=1e-6, max_iter=most).fit(X, y)
        )
certificates = [fit.certificate_ for fit in fits]
print(certificates[0])
print(certificates[-1])

# %%
# What theory says, and what is measured
# --------------------------------------
# Weak duality: every dual value is below every primal value, of any fit. The dual rises with the steps; the primal need
# not fall, but it ends where the dual does.

primal = np.array([certificate.primal for certificate in certificates])
dual = np.array([certificate.dual for certificate in certificates])
assert dual.max() <= primal.min() * (1 + 1e-9)
assert np.all(np.diff(dual) >= -1e-9)
assert certificates[-1].converged
assert not certificates[0].converged

# %%
# So the distance between the two, which a stopped fit knows, bounds what it lacks, which it cannot know:

lacking = primal - primal[-1]
assert np.all(lacking <= primal - dual + 1e-9)

# %%
# The picture
# -----------

done = [certificate.iterations for certificate in certificates]
accuracy = [fit.score(X_new, y_new) for fit in fits]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
left.loglog(done, primal, "o-", label="primal: the objective of the fit")
left.loglog(done, dual, "s-", label="dual: no function is below this")
left.fill_between(done, dual, primal, alpha=0.15)
left.set(xlabel="steps", ylabel="objective")
left.legend(fontsize=8)
right.semilogx(done, accuracy, "o-", color="C2")
right.set(xlabel="steps", ylabel="accuracy on new rows")
figure.tight_layout()
plt.show()
