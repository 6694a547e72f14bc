"""Kernel machines: one algebra, any loss, every fit with a certificate."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramian.estimators.auto import AutoKernelClassifier as AutoKernelClassifier
    from gramian.estimators.auto import AutoKernelRegressor as AutoKernelRegressor
    from gramian.estimators.centerer import KernelCenterer as KernelCenterer
    from gramian.estimators.gp.classifier import GaussianProcessClassifier as GaussianProcessClassifier
    from gramian.estimators.gp.regressor import GaussianProcessRegressor as GaussianProcessRegressor
    from gramian.estimators.interpolator import KernelInterpolator as KernelInterpolator
    from gramian.estimators.machine.classifier import KernelMachineClassifier as KernelMachineClassifier
    from gramian.estimators.machine.pegasos import PegasosClassifier as PegasosClassifier
    from gramian.estimators.machine.regressor import KernelMachineRegressor as KernelMachineRegressor
    from gramian.estimators.metric import MetricMap as MetricMap
    from gramian.estimators.mixture.family_mixture import FamilyMixture as FamilyMixture
    from gramian.estimators.mixture.gaussian import GaussianMixture as GaussianMixture
    from gramian.estimators.mixture.selection import select_components as select_components
    from gramian.estimators.pca import KernelPCA as KernelPCA
    from gramian.estimators.ridge import KernelRidge as KernelRidge
    from gramian.estimators.svm import SVC as SVC
    from gramian.estimators.svm import SVR as SVR
    from gramian.estimators.svm import NuSVC as NuSVC
    from gramian.estimators.svm import NuSVR as NuSVR
    from gramian.estimators.svm import OneClassSVM as OneClassSVM
    from gramian.estimators.svm import svm_path as svm_path
    from gramian.features.fourier import FourierFeatures as FourierFeatures
    from gramian.features.fourier import RBFSampler as RBFSampler
    from gramian.features.nystrom import Nystroem as Nystroem
    from gramian.features.polynomial import PolynomialMap as PolynomialMap
    from gramian.files import load as load
    from gramian.files import save as save
    from gramian.reports import report as report
    from gramian.verification import verify as verify

__version__ = "0.1.0"

_PLACES = {
    "estimators.auto": ["AutoKernelClassifier", "AutoKernelRegressor"],
    "estimators.centerer": ["KernelCenterer"],
    "estimators.gp.regressor": ["GaussianProcessRegressor"],
    "estimators.gp.classifier": ["GaussianProcessClassifier"],
    "estimators.interpolator": ["KernelInterpolator"],
    "estimators.machine.classifier": ["KernelMachineClassifier"],
    "estimators.machine.regressor": ["KernelMachineRegressor"],
    "estimators.metric": ["MetricMap"],
    "estimators.mixture.family_mixture": ["FamilyMixture"],
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
__all__ = sorted(name for names in _PLACES.values() for name in names)


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"gramian.{place}"), name)
            return value
    if not name.startswith("_") and find_spec(f"gramian.{name}"):
        return import_module(f"gramian.{name}")
    # With name and obj, Python suggests the most similar name.
    raise AttributeError(f"module 'gramian' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
