"""``KernelSearchCV`` finds what ``GridSearchCV`` finds, candidate by candidate and fold by fold."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian import (
    SVC,
    SVR,
    GaussianProcessRegressor,
    KernelInterpolator,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPCA,
    KernelRidge,
    NuSVC,
    NuSVR,
    Nystroem,
    OneClassSVM,
    PegasosClassifier,
)
from gramian.kernels import RBF, Linear, Matern, Spectrum, White
from gramian.model_selection import KernelSearchCV
from gramian.solvers import choice
from gramian.solvers.linear import folds

GAMMAS = [0.01, 0.1, 1.0]
Xc, yc = make_classification(60, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0)
Xr, yr = make_regression(60, 5, noise=10.0, random_state=0)
yr = yr / yr.std()
CLASSIFIERS = {
    "SVC": (SVC(), {"C": [0.1, 1.0, 10.0], "gamma": [*GAMMAS, "scale"]}),
    "SVC balanced": (SVC(class_weight="balanced"), {"C": [0.1, 1.0], "gamma": [0.1], "tol": [1e-3, 1e-5]}),
    "SVC names": (SVC(), {"C": [1.0, 0.1], "kernel": ["linear", "rbf", "poly"]}),
    "SVC through the origin": (SVC(fit_intercept=False), {"C": [0.1, 1.0, 10.0]}),
    "SVC hard": (SVC(gamma=1.0), {"C": [np.inf, 1.0]}),
    "NuSVC": (NuSVC(), {"nu": [0.1, 0.3], "gamma": GAMMAS}),
    "machine": (KernelMachineClassifier(), {"lam": [1e-3, 1e-1], "gamma": GAMMAS}),
}
REGRESSORS = {
    "SVR": (SVR(), {"C": [0.1, 10.0, 1.0], "epsilon": [0.1, 0.3], "gamma": GAMMAS}),
    "NuSVR": (NuSVR(), {"C": [0.1, 1.0], "nu": [0.2, 0.5], "gamma": GAMMAS}),
    "ridge": (KernelRidge(kernel="rbf"), {"alpha": [1e-3, 1.0, 0.1], "gamma": [*GAMMAS, None]}),
    "ridge loo": (KernelRidge(kernel="rbf"), {"alpha": [0.1, "loo"], "gamma": GAMMAS}),
    "ridge kernels": (KernelRidge(), {"alpha": [0.1, 1.0], "kernel": [Matern(1.0), Matern(3.0), RBF(1.0) + Linear()]}),
    "ridge nested": (KernelRidge(kernel=RBF(1.0)), {"alpha": [0.1], "kernel__lengthscale": [0.5, 1.0, 2.0]}),
    "ridge beside a constant": (KernelRidge(kernel="rbf", fit_intercept=True), {"alpha": [0.1, 1.0], "gamma": GAMMAS}),
    "machine": (KernelMachineRegressor(), {"lam": [1e-3, 1e-1], "gamma": GAMMAS}),
    "quantile": (KernelMachineRegressor("quantile", penalty="ball"), {"radius": [0.5, 2.0], "gamma": [0.1]}),
    "interpolator": (KernelInterpolator(), {"nugget": [1e-3, 1e-1], "gamma": GAMMAS}),
    "white": (KernelRidge(kernel=RBF(1.0) + White(0.1)), {"alpha": [0.1, 1.0]}),
    "process": (GaussianProcessRegressor(optimizer=None), {"alpha": [1e-2, 1e-1]}),
}


def both(estimator, grid, X, y=None, *, given=None, **means):
    """Two searches, fitted to the same."""
    means.setdefault("cv", 3)
    searches = [cls(clone(estimator), grid, **means) for cls in (KernelSearchCV, GridSearchCV)]
    return [search.fit(X, y, **(given or {})) for search in searches]


def agree(ours, theirs, tol=1e-8):
    """Assert that two searches found the same."""
    assert ours.cv_results_.keys() == theirs.cv_results_.keys()
    for name, value in theirs.cv_results_.items():
        if "_time" in name:
            assert np.all(ours.cv_results_[name] >= 0)
        elif name.startswith(("mean_", "std_", "split")):
            np.testing.assert_allclose(ours.cv_results_[name], value, atol=tol)
        else:
            np.testing.assert_array_equal(ours.cv_results_[name], value)
    assert ours.n_splits_ == theirs.n_splits_
    if ours.multimetric_ and not ours.refit:
        return
    assert ours.best_index_ == theirs.best_index_
    assert repr(ours.best_params_) == repr(theirs.best_params_)
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=tol)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name):
    estimator, grid = CLASSIFIERS[name]
    ours, theirs = both(estimator, grid, Xc, np.array(["a", "b", "c"])[yc])
    agree(ours, theirs)
    assert ours.shared_.all()
    np.testing.assert_array_equal(ours.predict(Xc), theirs.predict(Xc))


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name):
    estimator, grid = REGRESSORS[name]
    ours, theirs = both(estimator, grid, Xr, yr)
    agree(ours, theirs)
    assert ours.shared_.all() == (name != "process")
    np.testing.assert_allclose(ours.predict(Xr), theirs.predict(Xr), atol=1e-8)


@pytest.mark.parametrize(
    ("estimator", "grid", "X", "y"),
    [
        (SVC(), {"C": [0.1, 10.0], "gamma": ["scale", 0.1]}, Xc, yc),
        (SVC(memory=4000), {"C": [0.1, 10.0], "gamma": ["scale", 0.1]}, Xc, yc),
        (SVR(), {"C": [0.1, 10.0], "gamma": ["scale", 0.1]}, Xr, yr),
        (KernelRidge(kernel="rbf"), {"alpha": [0.1, 1.0], "gamma": [0.1, 1.0]}, Xr, yr),
        (KernelMachineRegressor(), {"lam": [1e-3, 0.1], "gamma": [0.1, 1.0]}, Xr, yr),
        (KernelMachineClassifier(), {"lam": [1e-3, 0.1], "gamma": [0.1, 1.0]}, Xc, yc),
    ],
    ids=lambda value: type(value).__name__,
)
def test_weights_go_to_the_fits_and_to_the_scores(estimator, grid, X, y):
    weights = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    ours, theirs = both(estimator, grid, X, y, given={"sample_weight": weights})
    agree(ours, theirs)
    assert ours.shared_.all()
    with pytest.raises(AssertionError):
        agree(both(estimator, grid, X, y)[0], theirs)


@pytest.mark.parametrize("estimator", [SVC(), KernelRidge(), KernelMachineRegressor(), SVR(), OneClassSVM()], ids=repr)
def test_precomputed_matrices(estimator):
    K = RBF(2.0)(Xc)
    name = {"OneClassSVM": "nu", "KernelRidge": "alpha", "KernelMachineRegressor": "lam"}.get(
        type(estimator).__name__, "C"
    )
    scoring = {"scoring": "accuracy"} if name == "nu" else {}
    y = np.where(yc > 0, 1, -1)
    ours, theirs = both(estimator.set_params(kernel="precomputed"), {name: [0.1, 0.5]}, K, y, **scoring)
    agree(ours, theirs)
    assert ours.shared_.all()


def test_a_precomputed_matrix_that_is_not_symmetric_is_refused_as_ever():
    K = RBF(2.0)(Xc)
    K[0] += 1.0
    search = KernelSearchCV(KernelRidge(kernel="precomputed"), {"alpha": [0.1, 1.0]}, error_score="raise")
    with pytest.raises(ValueError, match="not symmetric"):
        search.fit(K, yc)


@pytest.mark.parametrize("estimator", [SVC(), KernelMachineClassifier()], ids=repr)
def test_sparse_rows(estimator):
    name = "C" if isinstance(estimator, SVC) else "lam"
    X = sp.csr_matrix(np.where(np.abs(Xc) > 0.5, Xc, 0.0))
    ours, theirs = both(estimator, {name: [0.1, 1.0], "gamma": GAMMAS}, X, yc)
    agree(ours, theirs)
    assert ours.shared_.all()


def test_single_precision():
    ours, theirs = both(KernelRidge(kernel="rbf"), {"alpha": [0.1, 1.0], "gamma": GAMMAS}, Xr.astype(np.float32), yr)
    agree(ours, theirs, tol=1e-6)
    assert ours.shared_.all()


def test_several_targets():
    Y = np.column_stack([yr, yr**2, Xr[:, 0]])
    grid = {"alpha": [0.1, 1.0, [0.1, 1.0, 2.0]], "gamma": GAMMAS, "fit_intercept": [False, True]}
    ours, theirs = both(KernelRidge(kernel="rbf"), grid, Xr, Y)
    agree(ours, theirs)
    assert ours.shared_.all()


def test_objects_and_functions():
    words = [a + b + c for a in "abc" for b in "abc" for c in "abab"]
    y = [word.count("a") for word in words]
    agree(*both(KernelRidge(kernel=Spectrum(1)), {"alpha": [0.1, 1.0], "kernel__length": [1, 2]}, words, y))
    agree(*both(SVR(kernel=lambda A, B: A @ B.T), {"C": [0.1, 1.0]}, Xr, yr))


def test_tables_with_names():
    X = pd.DataFrame(Xr, columns=list("abcde"))
    ours, theirs = both(SVR(), {"C": [0.1, 1.0]}, X, pd.Series(yr, index=np.arange(60)[::-1]))
    agree(ours, theirs)
    assert list(ours.feature_names_in_) == list("abcde")


@pytest.mark.parametrize(
    "means",
    [
        {"scoring": ["r2", "neg_mean_absolute_error"], "refit": "r2"},
        {"scoring": {"a": "r2", "b": make_scorer(mean_absolute_error, greater_is_better=False)}, "refit": "b"},
        {"scoring": "r2", "return_train_score": True},
        {"scoring": lambda model, X, y: -float(np.abs(X[:, 0] * (model.predict(X) - y)).mean())},
        {"scoring": lambda model, X, y: {"a": model.score(X, y), "b": float(X.sum())}, "refit": "a"},
        {"refit": lambda results: int(np.argmin(results["mean_test_score"]))},
        {"cv": KFold(4, shuffle=True, random_state=0)},
        {"cv": [(np.arange(40), np.arange(30, 60)), (np.arange(20, 60), np.arange(10))]},
        {"cv": [(np.arange(80) % 40, np.arange(30, 60)), (np.arange(20, 60), np.arange(10))]},
    ],
    ids=["names", "dict", "train", "of rows", "dict of rows", "refit", "splitter", "overlapping", "repeated"],
)
@pytest.mark.parametrize("estimator", [SVR(), KernelRidge(kernel="rbf")], ids=repr)
def test_ways_to_score_and_split(estimator, means):
    grid = {"C" if isinstance(estimator, SVR) else "alpha": [0.1, 1.0], "gamma": GAMMAS}
    if callable(means.get("refit")):
        searches = [cls(estimator, grid, cv=3, **means).fit(Xr, yr) for cls in (KernelSearchCV, GridSearchCV)]
        assert searches[0].best_index_ == searches[1].best_index_
        assert not hasattr(searches[0], "best_score_")
        return
    ours, theirs = both(estimator, grid, Xr, yr, **means)
    agree(ours, theirs)
    assert ours.shared_.all()
    assert ours.multimetric_ == theirs.multimetric_
    assert ours.score(Xr, yr) == pytest.approx(theirs.score(Xr, yr))


def test_two_classes_are_scored_on_all_rows():
    means = {"scoring": ["accuracy", "roc_auc"], "refit": False, "return_train_score": True}
    agree(*both(SVC(), {"C": [0.1, 1.0, 10.0], "gamma": GAMMAS}, Xc, yc == 1, **means))


def test_groups_go_to_the_splitter():
    groups = np.arange(60) // 7
    agree(*both(SVR(), {"C": [0.1, 1.0]}, Xr, yr, given={"groups": groups}, cv=GroupKFold(3)))


@pytest.mark.parametrize("given", [{}, {"sample_weight": np.arange(1.0, 25.0)}], ids=["", "weights"])
def test_leave_one_out(given):
    means = {"cv": LeaveOneOut(), "scoring": "neg_mean_absolute_error", "return_train_score": True, "given": given}
    ours, theirs = both(KernelRidge(kernel="rbf"), {"alpha": [0.1, 1.0]}, Xr[:24], yr[:24], **means)
    agree(ours, theirs)
    assert ours.shared_.all()


def test_folds_as_columns_of_one_block(monkeypatch):
    for module in (folds, choice):  # as if these rows were many
        monkeypatch.setattr(module, "DIRECT_ROWS", 10)
    y, grid = np.column_stack([yr, Xr[:, 0]]), {"alpha": [1e-2, 1.0, 10.0], "gamma": GAMMAS}
    given, estimator = {"sample_weight": np.arange(60) % 4}, KernelRidge(kernel="rbf", tol=1e-9, random_state=0)
    agree(*both(estimator, grid, Xr, y, given=given, return_train_score=True), tol=1e-7)


def test_without_refit_nothing_is_fitted_at_the_end():
    ours, theirs = both(SVC(), {"C": [0.1, 1.0]}, Xc, yc, refit=False)
    agree(ours, theirs)
    assert not hasattr(ours, "best_estimator_")
    with pytest.raises(AttributeError, match="predict"):
        ours.predict(Xc)


@pytest.mark.parametrize(
    ("estimator", "grid", "X", "y"),
    [
        (SVR(approximation=Nystroem(n_components=20, random_state=0)), {"C": [0.1, 1.0]}, Xr, yr),
        (make_pipeline(StandardScaler(), SVR()), {"svr__C": [0.1, 1.0]}, Xr, yr),
        (PegasosClassifier(random_state=0), {"lam": [1e-2, 1e-1]}, Xc, yc > 0),
        (SVR(), {"C": [0.1, 1.0], "max_time": [60.0]}, Xr, yr),
        (KernelMachineRegressor(), {"lam": [1e-3, 0.1], "warm_start": [True]}, Xr, yr),
    ],
    ids=["map", "pipeline", "pegasos", "max_time", "warm_start"],
)
def test_what_cannot_share_is_fitted_by_itself(estimator, grid, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = both(estimator, grid, X, y)
    agree(ours, theirs)
    assert not ours.shared_.any()


def test_an_estimator_that_transforms():
    def explained(model, X, y=None):
        return float(model.transform(X).var())

    agree(*both(KernelPCA(2, kernel="rbf"), {"gamma": GAMMAS}, Xr, scoring=explained))


def test_a_fit_that_fails_has_the_score_of_errors():
    grid = {"nu": [0.2, 0.99], "gamma": [0.1, 1.0]}
    lopsided = (np.arange(60) < 12).astype(int)
    with pytest.warns(FitFailedWarning, match="6 fits failed out of a total of 12"):
        ours = KernelSearchCV(NuSVC(), grid, cv=3, error_score=-1.0).fit(Xc, lopsided)
    with pytest.warns(FitFailedWarning):
        theirs = GridSearchCV(NuSVC(), grid, cv=3, error_score=-1.0).fit(Xc, lopsided)
    agree(ours, theirs)
    with pytest.raises(ValueError, match="infeasible"):
        KernelSearchCV(NuSVC(), grid, cv=3, error_score="raise").fit(Xc, lopsided)


def test_a_parameter_that_is_wrong_fails_as_ever():
    with pytest.raises(ValueError, match="Invalid parameter 'D'"):
        KernelSearchCV(SVC(), {"D": [1.0]}).fit(Xc, yc)
    with pytest.raises(ValueError, match="'C' parameter of SVC"):
        KernelSearchCV(SVC(), {"C": [-1.0]}, error_score="raise").fit(Xc, yc)
    with pytest.raises(ValueError, match="refit"):
        KernelSearchCV(SVC(), {"C": [1.0]}, scoring=["accuracy", "f1_macro"]).fit(Xc, yc)


@pytest.mark.parametrize("memory", [30_000, "10KB"])
def test_within_memory(memory):
    grid = {"alpha": [0.1, 1.0], "gamma": GAMMAS}
    ours, theirs = both(KernelRidge(kernel="rbf", memory=memory, tol=1e-9, random_state=0), grid, Xr, yr)
    agree(ours, theirs)
    assert ours.shared_.all()


def test_threads_do_not_change_the_answer():
    grid = {"C": [0.1, 1.0, 10.0], "gamma": GAMMAS}
    one, two = (KernelSearchCV(SVR(), grid, n_jobs=n).fit(Xr, yr) for n in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])


def test_callbacks_hear_of_every_fit(capsys):
    callback = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    search = KernelSearchCV(SVR(), {"C": [0.1, 1.0]}, cv=3)
    search.set_callbacks(callback.ProgressBar())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an experiment of scikit-learn's, which says so
        search.fit(Xr, yr)
    assert not search.shared_.any()
    assert search.best_params_ == {"C": 1.0}


def test_a_search_is_not_changed_by_its_fit():
    search = KernelSearchCV(SVC(), [{"C": [0.1, 1.0]}, {"kernel": ["linear"]}], cv=3)
    before = repr(search.get_params())
    search.fit(Xc, yc)
    assert repr(search.get_params()) == before
    assert not hasattr(search.estimator, "classes_")
    assert repr(clone(search).get_params()) == before


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # of y = inf, in scikit-learn's check_cv
@parametrize_with_checks(
    [
        KernelSearchCV(KernelRidge(), {"alpha": [0.1, 1.0]}, cv=2, error_score="raise"),
        KernelSearchCV(SVC(), {"C": [0.1, 1.0]}, cv=2, error_score="raise"),
    ],
    # As GridSearchCV over the same: a search cannot warn of columns for an estimator that takes several targets, and
    # a fold, not the user's weights, leaves a class without rows.
    expected_failed_checks=lambda search: (
        {"check_classifiers_one_label_sample_weights": "the message is about the weights of a fold"}
        if isinstance(search.estimator, SVC)
        else {"check_supervised_y_2d": "KernelRidge takes several targets, which the tags of a search do not say"}
    ),
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
