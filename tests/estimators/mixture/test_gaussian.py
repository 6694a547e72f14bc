"""GaussianMixture: scikit-learn's contract, its peer's numbers, and what the peer does not have."""

from __future__ import annotations

import _thread
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context, mixture
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from gramian.estimators.mixture.gaussian import GaussianMixture
from mixtures import STARTS, TYPES, clusters, quietly, starting_parameters

# -- scikit-learn's contract -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "check"),
    list(estimator_checks_generator(GaussianMixture())),
    ids=lambda value: getattr(getattr(value, "func", None), "__name__", None),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_parameters_and_defaults_are_those_of_scikit_learn():
    theirs = mixture.GaussianMixture().get_params()
    ours = GaussianMixture().get_params()
    assert {name: ours[name] for name in theirs} == theirs
    assert set(ours) - set(theirs) == {"assignment", "device", "max_time", "n_jobs"}


def test_it_has_every_public_name_of_scikit_learn():
    X = clusters()
    theirs, ours = mixture.GaussianMixture(2).fit(X), GaussianMixture(2).fit(X)
    assert {name for name in dir(theirs) if not name.startswith("_")} <= set(dir(ours))
    for name in (name for name in vars(theirs) if name.endswith("_")):
        assert np.shape(getattr(ours, name)) == np.shape(getattr(theirs, name)), name


@pytest.mark.parametrize(
    "params",
    [
        {"n_components": 0},
        {"covariance_type": "round"},
        {"tol": -1},
        {"reg_covar": -1e-6},
        {"init_params": "luck"},
        {"assignment": "firm"},
        {"max_time": 0},
        {"n_jobs": 1.5},
        {"weights_init": [0.5, 0.6]},
        {"weights_init": [-0.5, 1.5]},
        {"weights_init": [1.0]},
        {"means_init": [[0.0, 0.0]]},
        {"precisions_init": np.ones((2, 3, 3))},
        {"precisions_init": np.tile([[1.0, 2.0, 0], [0, 1, 0], [0, 0, 1]], (2, 1, 1))},
        {"covariance_type": "diag", "precisions_init": -np.ones((2, 3))},
        {"init_params": np.zeros((1, 3))},
    ],
    ids=lambda params: "-".join(params),
)
def test_wrong_parameters_raise_value_errors(params):
    with pytest.raises(ValueError, match=list(params)[-1].removesuffix("_init").removesuffix("s")):
        GaussianMixture(**{"n_components": 2, **params}).fit(clusters())


def test_cloning_pipelines_searches_and_routing():
    X = clusters()
    assert clone(GaussianMixture(3, n_jobs=1)).get_params() == GaussianMixture(3, n_jobs=1).get_params()
    labels = make_pipeline(StandardScaler(), GaussianMixture(3, random_state=0)).fit_predict(X)
    assert set(labels) == {0, 1, 2}
    search = GridSearchCV(GaussianMixture(random_state=0), {"n_components": [1, 3]}, cv=3).fit(X)
    assert search.best_params_ == {"n_components": 3}
    weights = np.random.default_rng(0).integers(1, 3, len(X))
    with config_context(enable_metadata_routing=True):
        routed = GaussianMixture(3, random_state=0).set_fit_request(sample_weight=True)
        unweighted = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(unweighted, routed).fit(X, sample_weight=weights)
    direct = GaussianMixture(3, random_state=0).fit(StandardScaler().fit_transform(X), sample_weight=weights)
    assert_allclose(pipeline[-1].means_, direct.means_)


def test_names_of_columns():
    X = clusters()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = GaussianMixture(2, random_state=0).fit(frame)
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]
    assert list(GaussianMixture(2).fit(pl.DataFrame(X, schema=["a", "b", "c"])).feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[["b", "a", "c"]])


@pytest.mark.parametrize("covariance_type", TYPES)
def test_layout_and_writability_of_X_do_not_matter(covariance_type):
    X = clusters()
    expected = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(X)
    read_only = X.copy()
    read_only.flags.writeable = False
    for same in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], read_only, X.tolist()):
        fitted = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(same)
        assert_allclose(fitted.means_, expected.means_)
        assert_array_equal(fitted.predict(same), expected.predict(X))


def test_it_must_be_fitted_first():
    for method in ("predict", "predict_proba", "score", "score_samples", "bic", "aic"):
        with pytest.raises(NotFittedError):
            getattr(GaussianMixture(), method)([[1.0]])
    with pytest.raises(NotFittedError):
        GaussianMixture().sample()


# -- the peer's numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_same_start_gives_scikit_learns_likelihood_in_every_step(covariance_type):
    X = clusters(2000, d=4, K=5, shift=10.0)
    params = {"covariance_type": covariance_type, "tol": 0.0, "max_iter": 25}
    params |= starting_parameters(X, 5, covariance_type)
    ours = quietly(GaussianMixture(5, **params), X)
    theirs = quietly(mixture.GaussianMixture(5, **params), X)
    assert_allclose(ours.lower_bounds_, theirs.lower_bounds_, rtol=1e-8)
    assert_allclose(ours.means_, theirs.means_, rtol=1e-6)
    assert_allclose(ours.covariances_, theirs.covariances_, rtol=1e-6, atol=1e-8)
    assert_allclose(ours.precisions_, theirs.precisions_, rtol=1e-6, atol=1e-8)
    assert_allclose(ours.precisions_cholesky_, theirs.precisions_cholesky_, rtol=1e-6, atol=1e-8)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-7)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-7)
    assert ours.bic(X) == pytest.approx(theirs.bic(X), rel=1e-9)
    assert ours.aic(X) == pytest.approx(theirs.aic(X), rel=1e-9)


@pytest.mark.parametrize("init_params", STARTS)
@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_same_seed_gives_scikit_learns_fit(covariance_type, init_params):
    X = clusters(400)
    params = {"covariance_type": covariance_type, "init_params": init_params, "random_state": 3, "max_iter": 300}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="all components are nearly the same")
        ours = GaussianMixture(3, **params).fit(X)
    theirs = mixture.GaussianMixture(3, **params).fit(X)
    if covariance_type == "tied" and init_params in ("k-means++", "random_from_data"):
        # There scikit-learn divides the scatter of all rows by the count of the K chosen ones.
        assert ours.lower_bound_ >= theirs.lower_bound_ - 1e-3
    elif ours.n_iter_ > theirs.n_iter_:  # where components are alike, small steps are not the end for us
        assert init_params == "random"
        assert ours.lower_bound_ > theirs.lower_bound_
    else:
        assert ours.n_iter_ == theirs.n_iter_
        assert_allclose(ours.means_, theirs.means_, rtol=1e-6)
        assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, rel=1e-8)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_samples_are_scikit_learns(covariance_type):
    X = clusters(400)
    params = {"covariance_type": covariance_type, "random_state": 0}
    ours, theirs = (
        GaussianMixture(3, **params).fit(X).sample(50),
        mixture.GaussianMixture(3, **params).fit(X).sample(50),
    )
    assert_allclose(ours[0], theirs[0], rtol=1e-6)
    assert_array_equal(ours[1], theirs[1])
    with pytest.raises(ValueError, match="n_samples"):
        GaussianMixture(2).fit(X).sample(0)


@pytest.mark.parametrize("given", ["weights_init", "means_init", "precisions_init"])
def test_what_is_given_replaces_what_is_drawn(given):
    X = clusters()
    params = {"max_iter": 1, "random_state": 0, given: starting_parameters(X, 3, "full")[given]}
    ours, theirs = quietly(GaussianMixture(3, **params), X), quietly(mixture.GaussianMixture(3, **params), X)
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, rel=1e-10)
    assert_allclose(ours.means_, theirs.means_, rtol=1e-8)
    start = GaussianMixture(3, **{**params, "max_iter": 0}).fit(X)
    assert_allclose(getattr(start, given.replace("init", "")), params[given])


def test_of_several_starts_the_best_is_kept():
    X = clusters(300, K=6, spread=2.0)
    params = {"init_params": "random_from_data", "random_state": 0, "max_iter": 20}
    ours = quietly(GaussianMixture(6, n_init=5, **params), X)
    rng = np.random.RandomState(0)
    single = [quietly(GaussianMixture(6, **{**params, "random_state": rng}), X).lower_bound_ for _ in range(5)]
    assert ours.lower_bound_ == pytest.approx(max(single))


def test_warm_start_goes_on():
    X = clusters(400)
    whole = quietly(GaussianMixture(3, max_iter=6, tol=0, random_state=0), X)
    parts = GaussianMixture(3, max_iter=3, tol=0, random_state=0, warm_start=True)
    quietly(quietly(parts, X), X)
    assert_allclose(parts.means_, whole.means_)
    assert parts.lower_bound_ == pytest.approx(whole.lower_bound_)
    with pytest.raises(ValueError, match="warm_start"):
        parts.set_params(n_components=4).fit(X)


def test_a_fit_that_stops_short_warns_and_says_so():
    X = clusters(300, K=5, spread=1.0)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        fitted = GaussianMixture(5, max_iter=2, random_state=0).fit(X)
    assert not fitted.converged_
    assert "max_iter" in str(fitted.certificate_)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        GaussianMixture(5, max_time=1e-9, tol=0, n_init=3, random_state=0).fit(X)


# -- evidence --------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ["soft", "hard"])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_evidence_and_certificate(covariance_type, assignment):
    X = clusters(500, K=4)
    fitted = GaussianMixture(4, covariance_type=covariance_type, assignment=assignment, random_state=0).fit(X)
    assert len(fitted.evidence_) == fitted.n_iter_ == len(fitted.lower_bounds_)
    for record in fitted.evidence_:
        assert record.log_likelihood == pytest.approx(record.bound + record.kl, abs=1e-12)
        assert record.kl >= 0
    risen = "log_likelihood" if assignment == "soft" else "bound"
    values = [getattr(record, risen) for record in fitted.evidence_]
    assert np.all(np.diff(values) >= -1e-8)
    assert fitted.evidence_[-1].log_likelihood == pytest.approx(fitted.score(X), rel=1e-12)
    certificate = fitted.certificate_
    assert (certificate.kind, certificate.converged) == ("evidence", True)
    assert certificate.primal == fitted.evidence_[-1].log_likelihood
    assert certificate.dual == fitted.evidence_[-1].bound
    assert certificate.violation < 0.05
    assert "never fell" in str(certificate)


def test_hard_assignment_ends_where_nothing_moves():
    X = clusters(500, K=4)
    fitted = GaussianMixture(4, assignment="hard", tol=0, random_state=0).fit(X)
    counts = np.bincount(fitted.predict(X), minlength=4)
    assert_allclose(fitted.weights_, counts / len(X))
    assert fitted.certificate_.violation < 1e-10


# -- interruption, progress, memory ----------------------------------------------------------------


def test_interruption_is_answered_at_once_and_leaves_no_trace():
    X = np.random.default_rng(0).normal(size=(200_000, 10))
    endless = GaussianMixture(10, tol=0, max_iter=10**6, init_params="random_from_data", random_state=0)
    before, threads = vars(endless).copy(), set(threading.enumerate())
    asked = []

    def interrupt():
        asked.append(time.perf_counter())
        _thread.interrupt_main()

    timer = threading.Timer(1.0, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        endless.fit(X)
    assert time.perf_counter() - asked[0] < 5  # a second on an idle machine; the margin is for a busy one
    assert vars(endless) == before
    # The pool that all estimators share stays, with nothing to do.
    others = {thread for thread in threading.enumerate() if not thread.name.startswith("gramian")}
    assert others <= {*threads, timer}


def test_a_failed_fit_leaves_the_earlier_one():
    X = clusters(100)
    fitted = GaussianMixture(2, random_state=0).fit(X)
    before = fitted.predict(X)
    with pytest.raises(ValueError, match="n_components"):
        fitted.set_params(n_components=9).fit(np.zeros((5, 7)))
    fitted.set_params(n_components=2)
    assert fitted.n_features_in_ == 3
    assert_array_equal(fitted.predict(X), before)


def test_progress_is_shown_where_asked(capsys):
    X = clusters(100)
    GaussianMixture(2, random_state=0).fit(X)
    assert capsys.readouterr().out == ""
    quietly(GaussianMixture(2, random_state=0, verbose=1, verbose_interval=1, max_iter=3, tol=0), X)
    assert "Gaussian mixture" in capsys.readouterr().out


def test_memory_does_not_grow_with_rows_times_components():
    source = """
        import warnings
        import numpy as np
        from gramian.estimators.mixture.gaussian import GaussianMixture

        def peak():
            line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
            return int(line.split()[1]) * 1024

        warnings.simplefilter("ignore")
        X = np.random.default_rng(0).standard_normal((1_000_000, 4), dtype=np.float32)
        mixture = GaussianMixture(40, covariance_type="diag", init_params="random_from_data", max_iter=2)
        before = peak()
        mixture.fit(X)
        mixture.predict(X)
        mixture.score_samples(X)
        print(peak() - before)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=True)
    # One matrix of rows by components would be 320 MB.
    assert int(done.stdout) < 100e6


# -- data that no mixture fits well: told by name, never NaN ---------------------------------------


def finite(fitted, X):
    learned = [value for name, value in vars(fitted).items() if name.endswith("s_") and name != "feature_names_in_"]
    outputs = [fitted.score_samples(X), fitted.predict_proba(X), fitted.sample(5)[0]]
    return all(np.isfinite(np.asarray(value, dtype=float)).all() for value in [*learned, *outputs])


@pytest.mark.parametrize("assignment", ["soft", "hard"])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_collapse_is_named(covariance_type, assignment):
    X = np.vstack([clusters(50, K=1), np.full((5, 3), 100.0)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = GaussianMixture(2, covariance_type=covariance_type, assignment=assignment, random_state=0).fit(X)
    if covariance_type != "tied":  # whose components share their spread
        assert any("collapsed to a point" in str(warning.message) for warning in caught)
        assert "collapsed to a point" in fitted.certificate_.message
    assert finite(fitted, X)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_collapse_without_regularisation_is_a_named_error(covariance_type):
    X = np.vstack([clusters(50, K=1), np.full((5, 3), 100.0)])
    if covariance_type == "tied":
        X = X[-5:]
    with pytest.raises(ValueError, match=r"ill-defined empirical covariance.*(component|shared)"):
        GaussianMixture(1 if covariance_type == "tied" else 2, covariance_type=covariance_type, reg_covar=0).fit(X)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_constant_columns_are_named(covariance_type):
    X = clusters(200)
    X[:, 1] = 0.1
    with pytest.warns(ConvergenceWarning, match="column 1 is constant"):
        fitted = GaussianMixture(2, covariance_type=covariance_type, random_state=0).fit(X)
    assert finite(fitted, X)
    if covariance_type in ("full", "tied"):
        assert_allclose(fitted.covariances_[..., 1, 1], 1e-6)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag"])
def test_constant_columns_without_regularisation_are_a_named_error(covariance_type):
    X = clusters(200)
    X[:, 1] = 0.1
    with pytest.raises(ValueError, match="without variance in columns 1"):
        GaussianMixture(2, covariance_type=covariance_type, reg_covar=0, random_state=0).fit(X)


@pytest.mark.parametrize("init_params", STARTS)
@pytest.mark.parametrize("covariance_type", TYPES)
def test_fewer_distinct_rows_than_components(covariance_type, init_params):
    X = np.repeat([[0.0, 0.0], [1.0, 2.0]], 10, axis=0)
    with pytest.warns(ConvergenceWarning, match="collapsed|flat|empty|distinct"):
        fitted = GaussianMixture(4, covariance_type=covariance_type, init_params=init_params, random_state=0).fit(X)
    assert finite(fitted, X)
    assert fitted.weights_.sum() == pytest.approx(1)


def test_empty_components_are_named():
    X = clusters(100)
    far = np.vstack([X[:1], [[1e4, 1e4, 1e4]]])
    with pytest.warns(ConvergenceWarning, match="component 1 is empty"):
        fitted = GaussianMixture(2, means_init=far, precisions_init=np.tile(np.eye(3), (2, 1, 1)), random_state=0).fit(
            X
        )
    assert_array_equal(fitted.weights_, [1, 0])
    assert finite(fitted, X)


def test_too_few_rows():
    with pytest.raises(ValueError, match="n_samples >= n_components"):
        GaussianMixture(4).fit(clusters(3))
    with pytest.raises(ValueError, match="minimum of 2"):
        GaussianMixture(1).fit(clusters(1))
    with pytest.raises(ValueError, match="positive weight"):
        GaussianMixture(2).fit(clusters(3), sample_weight=[1, 0, 0])


def test_numbers_whose_squares_overflow_are_refused():
    with pytest.raises(ValueError, match="scale X"):
        GaussianMixture(1).fit([[1e200], [-1e200]])


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_private_starts_are_those_of_scikit_learn(covariance_type):
    rng = np.random.default_rng(0)
    X, q = rng.standard_normal((40, 3)), rng.random((40, 2))
    q /= q.sum(axis=1, keepdims=True)
    ours = GaussianMixture(2, covariance_type=covariance_type)
    peer = mixture.GaussianMixture(2, covariance_type=covariance_type)
    ours._initialize(X, q)
    peer._initialize(X, q)
    again = GaussianMixture(2, covariance_type=covariance_type)
    again._set_parameters((ours.weights_, ours.means_, ours.covariances_, ours.precisions_cholesky_))
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(peer, name), rtol=1e-9)
    peer._set_parameters(peer._get_parameters())
    np.testing.assert_allclose(again.precisions_, peer.precisions_, rtol=1e-8)


def three_heaps():
    rng = np.random.default_rng(0)
    return np.vstack([rng.standard_normal((60, 2)) + c for c in ([0, 0], [6, 0], [0, 6])])


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_the_certificate_knows_one_start_only(covariance_type):
    """From random responsibilities components begin nearly the same; small steps there are not taken for the end."""
    X = three_heaps()
    random = GaussianMixture(3, covariance_type=covariance_type, init_params="random", random_state=1)
    single = GaussianMixture(1, covariance_type=covariance_type).fit(X)
    if covariance_type == "tied":  # one matrix for all explains so much that EM does not leave
        with pytest.warns(ConvergenceWarning, match="components are nearly the same"):
            random.fit(X)
        assert random.lower_bound_ == pytest.approx(single.lower_bound_, abs=0.02)
        assert "components are nearly the same" in random.certificate_.message
    else:
        assert random.fit(X).lower_bound_ > single.lower_bound_ + 0.5
        assert random.converged_
        assert np.all(np.diff(random.lower_bounds_) > -1e-9)
        assert len(random.evidence_) == random.n_iter_ <= random.max_iter
    assert "stationary point of one start" in random.certificate_.message
    good = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(X)
    assert "nearly the same" not in good.certificate_.message
    assert "nearly the same" not in single.certificate_.message


def test_random_starts_go_on_until_they_agree():
    X = three_heaps()
    model = GaussianMixture(3, init_params="random", n_init=60, max_iter=300, random_state=0).fit(X)
    best = GaussianMixture(3, n_init=5, random_state=0, tol=1e-4).fit(X)
    assert 3 < model.starts_.size < 60
    assert model.lower_bound_ == model.starts_.max() == pytest.approx(best.lower_bound_, abs=1e-2)
    assert model.lower_bound_ - np.sort(model.starts_)[-3] <= 1e-2
    before = np.sort(model.starts_[:-1])
    assert before[-1] - before[-3] > 1e-2  # they did not agree any sooner
    low, high = model.starts_.min(), model.starts_.max()
    assert f"the best of {model.starts_.size} starts, which ended between {low:.4g} and {high:.4g}" in str(
        model.certificate_
    )
    assert best.starts_.size == 5  # others are all made


@pytest.mark.filterwarnings("ignore:components:sklearn.exceptions.ConvergenceWarning")
def test_a_likelihood_that_reg_covar_lets_fall_is_not_said_to_rise():
    X = 0.1 * np.random.default_rng(3).standard_normal((20, 2))
    model = GaussianMixture(3, reg_covar=0.1, random_state=0).fit(X)
    fell = -min(np.diff([record.log_likelihood for record in model.evidence_]))
    assert fell > 1e-5
    assert "fell by at most" in model.certificate_.message
