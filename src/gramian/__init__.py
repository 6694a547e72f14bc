"""Kernel machines: one algebra, any loss, every fit with a certificate."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramian.estimators.auto import AutoKernelClassifier, AutoKernelRegressor
    from gramian.estimators.gp.classifier import GaussianProcessClassifier
    from gramian.estimators.gp.regressor import GaussianProcessRegressor
    from gramian.estimators.interpolator import KernelInterpolator
    from gramian.estimators.machine.classifier import KernelMachineClassifier
    from gramian.estimators.machine.pegasos import PegasosClassifier
    from gramian.estimators.machine.regressor import KernelMachineRegressor
    from gramian.estimators.mixture.gaussian import GaussianMixture
    from gramian.estimators.mixture.selection import select_components
    from gramian.estimators.pca import KernelPCA
    from gramian.estimators.ridge import KernelRidge
    from gramian.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM, svm_path
    from gramian.features.fourier import FourierFeatures, RBFSampler
    from gramian.features.nystrom import Nystroem
    from gramian.features.polynomial import PolynomialMap
    from gramian.files import load, save
    from gramian.reports import report
    from gramian.verification import verify

__version__ = "0.1.0"

__all__ = [
    "SVC",
    "SVR",
    "AutoKernelClassifier",
    "AutoKernelRegressor",
    "FourierFeatures",
    "GaussianMixture",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "KernelInterpolator",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelPCA",
    "KernelRidge",
    "NuSVC",
    "NuSVR",
    "Nystroem",
    "OneClassSVM",
    "PegasosClassifier",
    "PolynomialMap",
    "RBFSampler",
    "load",
    "report",
    "save",
    "select_components",
    "svm_path",
    "verify",
]

_PLACES = {
    "estimators.auto": ["AutoKernelClassifier", "AutoKernelRegressor"],
    "estimators.gp.regressor": ["GaussianProcessRegressor"],
    "estimators.gp.classifier": ["GaussianProcessClassifier"],
    "estimators.interpolator": ["KernelInterpolator"],
    "estimators.machine.classifier": ["KernelMachineClassifier"],
    "estimators.machine.regressor": ["KernelMachineRegressor"],
    "estimators.mixture.gaussian": ["GaussianMixture"],
    "estimators.mixture.selection": ["select_components"],
    "estimators.pca": ["KernelPCA"],
    "estimators.machine.pegasos": ["PegasosClassifier"],
    "estimators.ridge": ["KernelRidge"],
    "estimators.svm": ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "svm_path"],
    "features.fourier": ["FourierFeatures", "RBFSampler"],
    "features.nystrom": ["Nystroem"],
    "features.polynomial": ["PolynomialMap"],
    "files": ["load", "save"],
    "reports": ["report"],
    "verification": ["verify"],
}
"""Where the public names live; each is imported when it is first asked for, so that none costs those who do not."""


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"gramian.{place}"), name)
            return value
    raise AttributeError(f"module 'gramian' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
