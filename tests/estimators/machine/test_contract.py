"""KernelMachineRegressor and KernelMachineClassifier under scikit-learn's checks, none expected to fail."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.pegasos import PegasosClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.features.nystrom import Nystroem


@pytest.mark.filterwarnings("ignore:n_components = 100 is more than")
@pytest.mark.filterwarnings(
    "ignore:.*not positive semi-definite:sklearn.exceptions.ConvergenceWarning"
)  # one check's K
@parametrize_with_checks(
    [
        KernelMachineRegressor(),
        KernelMachineRegressor("absolute"),
        KernelMachineRegressor("poisson"),
        KernelMachineRegressor("squared", penalty="norm", approximation=Nystroem(selection="uniform")),
        KernelMachineClassifier(),
        KernelMachineClassifier("hinge"),
        KernelMachineClassifier("squared_hinge", kernel="precomputed", lam=1.0),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:.*NOT converged:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([PegasosClassifier(), PegasosClassifier(max_support=40, n_iter=10_000)])
def test_scikit_learn_contract_of_pegasos(estimator, check):
    check(estimator)


def test_several_columns_of_counts_still_fit():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 2)), rng.poisson(3.0, (40, 2))
    assert KernelMachineRegressor("poisson").fit(X, Y).predict(X).shape == (40, 2)
    with pytest.warns(DataConversionWarning):
        assert KernelMachineRegressor("poisson").fit(X, Y[:, :1]).predict(X).shape == (40,)
