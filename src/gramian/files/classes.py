"""The closed table of classes that a model file may name.

A class that moves keeps its name in this table, so that older files load.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gramian
from gramian import losses
from gramian.files.folder import ModelFileError
from gramian.numerals import nearest

_PUBLIC = {place: [name for name in names if name[0].isupper()] for place, names in gramian._PLACES.items()}
_PRIVATE = {
    "certificates": ["Certificate"],
    "estimators.auto.leaderboard": ["Leaderboard", "Trial"],
    "estimators.gp.classifier": ["BinaryLaplaceClassifier"],
    "features.polynomial": ["Monomials"],
    "gram.lowrank": ["LowRank"],
    "rkhs": ["Function"],
    "solvers.choice": ["Choice"],
    "solvers.in_features.sparse_gp": ["FeaturePosterior", "LandmarkPosterior"],
    "solvers.linear.ridge": ["Moments"],
    "solvers.machine.pegasos": ["Counts"],
    "solvers.gp.posterior": ["ExactPosterior", "ProjectedPosterior", "TrendPosterior"],
}
"""What public estimators hold, beside each other."""
_MIXTURE = {"families": ["Bernoulli", "Gaussian", "Poisson"]}
"""Families of a mixture's components, written as ``mixture.<name>``: a loss is called Poisson too."""
_AUTO = {
    "average": ["Member"],
    "columns": ["Encoding"],
    "forest": ["FewLevels", "Forest", "LevelCodes"],
    "row_hashes": ["Folds"],
    "encoders": ["Category", "Dropped", "LevelMeans", "NumberColumn", "Text"],
    "scaling": ["Normal", "Robust", "Standard"],
}
"""How automatic estimators read tables, written as ``auto.<name>``."""
_SKLEARN = {
    "gaussian_process.kernels": [
        *("ConstantKernel", "DotProduct", "ExpSineSquared", "Exponentiation", "Matern", "PairwiseKernel", "Product"),
        *("RBF", "RationalQuadratic", "Sum", "WhiteKernel"),
    ],
    "model_selection._split": [
        *("GroupKFold", "GroupShuffleSplit", "KFold", "LeaveOneOut", "LeavePOut", "PredefinedSplit", "RepeatedKFold"),
        *("RepeatedStratifiedKFold", "ShuffleSplit", "StratifiedGroupKFold", "StratifiedKFold"),
        *("StratifiedShuffleSplit", "TimeSeriesSplit"),
    ],
    "multiclass": ["OneVsOneClassifier", "OneVsRestClassifier", "_ConstantPredictor"],
    "preprocessing._label": ["LabelBinarizer"],
}
"""Parts of scikit-learn that fitted models hold, written as ``sklearn.<name>``."""

_PLACES = {
    f"{prefix}{name}": (f"{package}.{place}", name)
    for prefix, package, places in (
        ("", "gramian", _PUBLIC),
        ("", "gramian", _PRIVATE),
        ("auto.", "gramian.estimators.auto", _AUTO),
        ("mixture.", "gramian.solvers.mixture", _MIXTURE),
        ("sklearn.", "sklearn", _SKLEARN),
    )
    for place, names in places.items()
    for name in names
} | {
    name: (cls.__module__, name)
    for name, cls in vars(losses).items()
    if isinstance(cls, type) and issubclass(cls, losses.Loss) and cls is not losses.Loss
}
_PLACES["Evidence"] = ("gramian.solvers.mixture.em", "EvidenceSplit")  # as it was called once


def name_of(cls: type) -> str | None:
    """Return the name under which a class is written."""
    called = [name for name, (_, attribute) in _PLACES.items() if attribute == cls.__qualname__]
    return next((name for name in called if class_named(name) is cls), None)


def class_named(name: Any) -> Any:
    """Return the class that a name in a file stands for."""
    if not isinstance(name, str) or name not in _PLACES:
        raise ModelFileError(f"unknown name {name!r:.80}; {nearest(name, _PLACES) if isinstance(name, str) else ''}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
