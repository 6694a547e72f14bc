"""Kernel machines: one algebra, any loss, every fit with a certificate."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramian.estimators.gp import GaussianProcessRegressor
    from gramian.estimators.gpc import GaussianProcessClassifier
    from gramian.estimators.interpolator import KernelInterpolator
    from gramian.estimators.mixture import GaussianMixture
    from gramian.estimators.mixture_selection import select_components
    from gramian.estimators.ridge import KernelRidge
    from gramian.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM, svm_path
    from gramian.features.nystrom import Nystroem

__version__ = "0.1.0"

__all__ = [
    "SVC",
    "SVR",
    "GaussianMixture",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "KernelInterpolator",
    "KernelRidge",
    "NuSVC",
    "NuSVR",
    "Nystroem",
    "OneClassSVM",
    "select_components",
    "svm_path",
]

_PLACES = {
    "estimators.gp": ["GaussianProcessRegressor"],
    "estimators.gpc": ["GaussianProcessClassifier"],
    "estimators.interpolator": ["KernelInterpolator"],
    "estimators.mixture": ["GaussianMixture"],
    "estimators.mixture_selection": ["select_components"],
    "estimators.ridge": ["KernelRidge"],
    "estimators.svm": ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "svm_path"],
    "features.nystrom": ["Nystroem"],
}
"""Where the public names live; each is imported when it is first asked for, so that none costs those who do not."""


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"gramian.{place}"), name)
    raise AttributeError(f"module 'gramian' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
