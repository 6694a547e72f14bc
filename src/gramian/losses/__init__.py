"""Losses ℓ(f, y): value, gradient, curvature, conjugate with its domain, proximal point, link."""

from gramian.losses.base import Loss, check_gradient, missing, names, offers, prox, resolve
from gramian.losses.classification import Hinge, Logistic, Multinomial, Ramp, SquaredHinge
from gramian.losses.regression import Absolute, EpsilonInsensitive, Huber, Poisson, Quantile, Squared

__all__ = [
    "Absolute",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Multinomial",
    "Poisson",
    "Quantile",
    "Ramp",
    "Squared",
    "SquaredHinge",
    "check_gradient",
    "missing",
    "names",
    "offers",
    "prox",
    "resolve",
]
