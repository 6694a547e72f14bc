"""Gaussian processes: learning an ARD kernel, one gradient of the evidence, and the mean without the variance."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier as PeerClassifier
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.gaussian_process import kernels as sk

from benchmarks.data import Split, load
from benchmarks.harness import Comparison, case, max_difference
from gramian.estimators.gp.classifier import GaussianProcessClassifier
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.kernels import RBF, White

FIT_ROWS = 2000
GRADIENT_ROWS = 5000
PREDICT_ROWS = 4000
CLASSIFIER_ROWS = 1000


@case("gp")
def gp() -> Iterator[Comparison]:
    """Fits and predictions of kin40k."""
    split = load("kin40k")
    yield learning(split)
    yield gradient(split)
    yield mean_alone(split)
    yield classification(split)


def ours(d: int) -> Any:
    """The prior: a constant times an ARD RBF, and noise."""
    return 1.0 * RBF([1.0] * d) + White(0.1)


def peers(d: int) -> Any:
    """The same for scikit-learn."""
    return sk.ConstantKernel(1.0) * sk.RBF([1.0] * d) + sk.WhiteKernel(0.1)


def learning(split: Split) -> Comparison:
    """Hyperparameters of the ARD kernel, by the evidence of all rows."""
    X, y = split.X_train[:FIT_ROWS], split.y_train[:FIT_ROWS]
    d = X.shape[1]
    return Comparison(
        name=f"GP regression, ARD RBF + constant + noise, n={FIT_ROWS} d={d}, fit",
        ours=lambda: GaussianProcessRegressor(ours(d), random_state=0).fit(X, y).log_marginal_likelihood_value_,
        peer=lambda: Peer(peers(d)).fit(X, y).log_marginal_likelihood_value_,
        against="scikit-learn",
        quality=lambda a, b: f"log evidence {a:.2f} / {b:.2f}",
        data=split.source,
        repeats=1,
    )


GRADIENT = """
from benchmarks.cases import gp
from benchmarks.data import load
X, y = (a[: gp.GRADIENT_ROWS] for a in (load("kin40k").X_train, load("kin40k").y_train))
model = gp.{model}(gp.{kernel}(X.shape[1]), optimizer=None).fit(X, y)
model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
"""


def gradient(split: Split) -> Comparison:
    """One value and gradient of the evidence, and the memory it takes."""
    X, y = split.X_train[:GRADIENT_ROWS], split.y_train[:GRADIENT_ROWS]
    d = X.shape[1]
    a = GaussianProcessRegressor(ours(d), optimizer=None).fit(X, y)
    b = Peer(peers(d), optimizer=None).fit(X, y)
    return Comparison(
        name=f"evidence and its gradient, n={GRADIENT_ROWS} d={d}",
        ours=lambda: a.log_marginal_likelihood(a.kernel_.theta, eval_gradient=True)[1],
        peer=lambda: b.log_marginal_likelihood(b.kernel_.theta, eval_gradient=True)[1],
        against="scikit-learn",
        quality=max_difference,
        data=split.source,
        repeats=2,
        snippets=(
            GRADIENT.format(model="GaussianProcessRegressor", kernel="ours"),
            GRADIENT.format(model="Peer", kernel="peers"),
        ),
    )


def mean_alone(split: Split) -> Comparison:
    """The mean does not pay for the variance."""
    X, y = split.X_train[:PREDICT_ROWS], split.y_train[:PREDICT_ROWS]
    model = GaussianProcessRegressor(ours(X.shape[1]), optimizer=None).fit(X, y)
    return Comparison(
        name=f"predict the mean, n={PREDICT_ROWS}, {len(split.X_test)} new rows",
        ours=lambda: model.predict(split.X_test),
        peer=lambda: model.predict(split.X_test, return_std=True)[0],
        against="ourselves with the deviation",
        data=split.source,
    )


def classification(split: Split) -> Comparison:
    """Target above its median, one lengthscale per input."""
    X = split.X_train[:CLASSIFIER_ROWS]
    y = split.y_train[:CLASSIFIER_ROWS] > np.median(split.y_train)
    d = X.shape[1]
    score = functools.partial(accuracy, split)
    return Comparison(
        name=f"GP classification, ARD RBF + constant, n={CLASSIFIER_ROWS} d={d}, fit and predict",
        ours=lambda: score(GaussianProcessClassifier(1.0 * RBF([1.0] * d), random_state=0).fit(X, y)),
        peer=lambda: score(PeerClassifier(sk.ConstantKernel(1.0) * sk.RBF([1.0] * d)).fit(X, y)),
        against="scikit-learn",
        quality=lambda a, b: f"log evidence {a[0]:.2f} / {b[0]:.2f}, accuracy {a[1]:.4f} / {b[1]:.4f}",
        data=split.source,
        repeats=1,
    )


def accuracy(split: Split, model: Any) -> tuple[float, float]:
    """Log evidence and test accuracy of a fitted classifier."""
    right = model.predict(split.X_test) == (split.y_test > np.median(split.y_train))
    return float(model.log_marginal_likelihood_value_), float(np.mean(right))
