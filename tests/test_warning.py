"""Warnings point at the line that called the library."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian
from gramian.kernels import RBF
from gramian.warning import warn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
Y, CLASSES = np.sin(3 * X[:, 0]), (X[:, 0] > 0).astype(int)
STOPPED = {"max_iter": 1, "tol": 1e-12}


def places(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert caught
    return {(each.filename, each.lineno) for each in caught}


@pytest.mark.parametrize(
    "call",
    [
        lambda: gramian.SVC(max_iter=1).fit(X, CLASSES),
        lambda: gramian.SVR(max_iter=1).fit(X, Y),
        lambda: gramian.OneClassSVM().fit(X, sample_weight=np.r_[-1.0, np.ones(39)]),
        lambda: gramian.KernelMachineClassifier(**STOPPED).fit(X, CLASSES),
        lambda: gramian.PegasosClassifier(n_iter=40, tol=1e-9).fit(X, CLASSES),
        lambda: gramian.KernelRidge(1e-9, kernel="rbf", solver="pcg", **STOPPED).fit(X, Y),
        lambda: gramian.KernelPCA(2, kernel="rbf", eigen_solver="lanczos", **STOPPED).fit_transform(X),
        lambda: gramian.KernelInterpolator(kernel=RBF(300.0)).fit(X, Y),
        lambda: gramian.GaussianProcessRegressor(noise="learn", **STOPPED).fit(X, Y),
        lambda: gramian.GaussianProcessClassifier(RBF(1.0), **STOPPED).fit(X, CLASSES),
        lambda: gramian.GaussianMixture(3, **STOPPED).fit(X),
        lambda: gramian.FamilyMixture(3, **STOPPED).fit(X),
        lambda: gramian.MetricMap(**STOPPED).fit(X, Y),
        lambda: gramian.Nystroem(RBF(1.0), n_components=50).fit(X),
        lambda: cross_val_score(make_pipeline(StandardScaler(), gramian.SVC(max_iter=1)), X, CLASSES, cv=2),
    ],
    ids=lambda call: inspect.getsource(call).strip()[8:50],
)
def test_a_warning_points_at_the_line_that_called(call):
    assert places(call) == {(__file__, call.__code__.co_firstlineno)}


def test_a_warning_of_a_category():
    with pytest.warns(RuntimeWarning, match="take care") as caught:
        warn("take care", RuntimeWarning)
    assert caught[0].filename == __file__
