"""The support vector machines: scikit-learn's contract, scikit-learn's answers, certificates, bad input."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm as peers
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM, svm_path
from gramian.estimators.svm.base import FeatureMatrix, TrainingRows
from gramian.estimators.svm.classifier import Pairs, rounds
from gramian.kernels import RBF, Linear, Spectrum, resolve
from gramian.progress import Clock
from reference_svm import fast_svc_gap, svr_gap

X, y = load_iris(return_X_y=True)
TARGET = X[:, 0]
PAIRS = [
    (SVC(), peers.SVC()),
    (SVC(C=2.0, kernel="linear"), peers.SVC(C=2.0, kernel="linear")),
    (SVC(kernel="poly", degree=2, coef0=1.0), peers.SVC(kernel="poly", degree=2, coef0=1.0)),
    (
        SVC(class_weight="balanced", decision_function_shape="ovo"),
        peers.SVC(class_weight="balanced", decision_function_shape="ovo"),
    ),
    (SVC(class_weight={1: 3.0}, gamma="auto"), peers.SVC(class_weight={1: 3.0}, gamma="auto")),
    (NuSVC(nu=0.31), peers.NuSVC(nu=0.31)),
]


@parametrize_with_checks(
    [
        SVC(),
        NuSVC(),
        SVR(),
        NuSVR(),
        OneClassSVM(),
        SVC(kernel="linear"),
        SVC(kernel="precomputed"),
        SVR(kernel="precomputed"),
    ]
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize(("ours", "peer"), PAIRS, ids=lambda e: str(e))
@pytest.mark.parametrize("rows", [slice(None), slice(30, 130), slice(0, 100)], ids=["three", "uneven", "two"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_classifiers_have_scikit_learns_attributes(ours, peer, rows, container):
    a = clone(ours).fit(container(X[rows]), y[rows])
    b = clone(peer).set_params(tol=1e-9).fit(container(X[rows]), y[rows])
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=3e-4)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    np.testing.assert_array_equal(a.support_, b.support_)
    np.testing.assert_array_equal(a.n_support_, b.n_support_)
    np.testing.assert_allclose(a.intercept_, b.intercept_, atol=1e-3)
    np.testing.assert_allclose(a.class_weight_, b.class_weight_)
    assert a.dual_coef_.shape == b.dual_coef_.shape
    assert sp.issparse(a.dual_coef_) == sp.issparse(b.dual_coef_)
    assert a.n_iter_.shape == b.n_iter_.shape
    assert a.fit_status_ == 0
    assert a.shape_fit_ == b.shape_fit_
    assert a.certificate_.converged
    if a.kernel == "linear":
        dense = [c.toarray() if sp.issparse(c) else c for c in (a.coef_, b.coef_)]
        np.testing.assert_allclose(*dense, atol=1e-3)


@pytest.mark.parametrize(
    ("ours", "peer"),
    [
        (SVR(C=3.0), peers.SVR(C=3.0)),
        (SVR(kernel="linear", C=0.1), peers.SVR(kernel="linear", C=0.1)),
        (NuSVR(nu=0.3, C=2.0), peers.NuSVR(nu=0.3, C=2.0)),
        (OneClassSVM(nu=0.2), peers.OneClassSVM(nu=0.2)),
    ],
    ids=lambda e: str(e),
)
@pytest.mark.parametrize("weight", [None, "weights"])
def test_the_others_have_scikit_learns_attributes(ours, peer, weight):
    weight = None if weight is None else np.linspace(0.5, 2.0, 150)
    # With weights, gamma="scale" goes by weighted variance here; pass the number to compare.
    gamma = {"gamma": 0.4}
    a = clone(ours).set_params(**gamma).fit(X[:, 1:], TARGET, sample_weight=weight)
    b = clone(peer).set_params(tol=1e-9, **gamma).fit(X[:, 1:], TARGET, sample_weight=weight)
    method = "predict" if hasattr(a, "C") else "decision_function"
    np.testing.assert_allclose(getattr(a, method)(X[:, 1:]), getattr(b, method)(X[:, 1:]), atol=1e-4)
    np.testing.assert_allclose(a.intercept_, b.intercept_, atol=1e-3)
    if a.kernel != "linear":
        np.testing.assert_array_equal(a.support_, b.support_)
    assert isinstance(a.n_iter_, int)
    if isinstance(a, OneClassSVM):
        np.testing.assert_allclose(a.score_samples(X[:, 1:]), b.score_samples(X[:, 1:]), atol=1e-4)
        np.testing.assert_allclose(a.offset_, b.offset_, rtol=1e-5)


@pytest.mark.parametrize(
    "machine", [SVC(), NuSVC(nu=0.1), SVR(), NuSVR(), OneClassSVM()], ids=lambda e: type(e).__name__
)
def test_kernels_of_every_sort_agree(machine):
    gamma = 0.5
    K = rbf_kernel(X, gamma=gamma)
    want = clone(machine).set_params(kernel="rbf", gamma=gamma).fit(X, y).predict(X)
    for kernel, rows in (
        (RBF(1.0), X),
        (lambda A, B: rbf_kernel(A, B, gamma=gamma), X),
        ("precomputed", K),
    ):
        got = clone(machine).set_params(kernel=kernel).fit(rows, y).predict(rows)
        np.testing.assert_allclose(got, want, atol=1e-8)
    narrow = clone(machine).set_params(gamma=gamma).fit(X.astype(np.float32), y)
    assert narrow.support_vectors_.dtype == np.float32
    for name in {"decision_function", "score_samples"} & set(dir(narrow)) or {"predict"}:
        assert getattr(narrow, name)(X.astype(np.float32)).dtype == np.float64  # as scikit-learn


def test_objects_that_are_not_vectors():
    texts = ["abab", "abba", "baba", "cdcd", "dcdc", "cddc"]
    machine = SVC(kernel=Spectrum(2), C=10).fit(texts, [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(machine.predict(["abab", "cdcd", "bab"]), [0, 1, 0])


@pytest.mark.parametrize("labels", [["a", "b", "c"], [True, False, True], [-5, 0, 7], [0.0, 1.0, 2.0]])
def test_any_label(labels):
    y_ = np.asarray(labels)[y] if not isinstance(labels[0], bool) else y > 0
    machine = SVC().fit(X, y_)
    np.testing.assert_array_equal(
        machine.classes_, np.unique(y_) if not isinstance(labels[0], float) else machine.classes_
    )
    assert machine.score(X, y_) > 0.9


def test_break_ties_and_shapes():
    with pytest.raises(ValueError, match="break_ties must be False"):
        SVC(break_ties=True, decision_function_shape="ovo").fit(X, y).predict(X)
    machine = SVC(break_ties=True).fit(X, y)
    np.testing.assert_array_equal(machine.predict(X), machine.decision_function(X).argmax(axis=1))
    assert SVC(decision_function_shape="ovo").fit(X, y).decision_function(X).shape == (150, 3)


def binary(n=400, seed=0):
    return make_classification(n, 6, flip_y=0.1, random_state=seed)


@pytest.mark.parametrize("n", [300, 2500])
def test_the_gap_reported_is_the_gap_from_scratch(n):
    A, b = binary(n)
    machine = SVC(C=10, gamma=0.2).fit(A, b)
    alpha = np.zeros(n)
    alpha[machine.support_] = np.abs(machine.dual_coef_[0])
    primal, dual, gap = fast_svc_gap(
        rbf_kernel(A, gamma=0.2), 2.0 * b - 1, alpha, machine.intercept_[0], np.full(n, 10.0)
    )
    assert gap <= 1e-3
    np.testing.assert_allclose([machine.certificate_.primal, machine.certificate_.dual], [primal, dual], rtol=1e-5)
    target = A[:, 0] + np.sin(A[:, 1])
    regressor = SVR(gamma=0.2).fit(A, target)
    beta = np.zeros(n)
    beta[regressor.support_] = regressor.dual_coef_[0]
    *_, gap = svr_gap(rbf_kernel(A, gamma=0.2), target, beta, regressor.intercept_[0], np.ones(n), 0.1)
    assert gap <= 1e-3


def test_kinds_and_margin():
    A, b = binary()
    machine = SVC(C=2.0, gamma=0.2).fit(A, b)
    distance = (2.0 * b - 1) * machine.decision_function(A)
    assert np.all(distance[machine.kinds_ == "peripheral"] >= 1 - 1e-6)
    np.testing.assert_allclose(distance[machine.kinds_ == "margin"], 1.0, atol=1e-6)
    assert np.all(distance[machine.kinds_ == "violator"] <= 1 + 1e-6)
    np.testing.assert_array_equal(np.sort(machine.support_), np.flatnonzero(machine.kinds_ != "peripheral"))
    linear = SVC(kernel="linear").fit(A, b)
    np.testing.assert_allclose(linear.margin_, 1 / np.linalg.norm(linear.coef_))
    assert SVC().fit(X, y).margin_.shape == (3,)
    assert len(SVC().fit(X, y).certificates_) == 3


def test_order_of_rows_does_not_matter():
    order = np.random.default_rng(0).permutation(150)
    for machine in (SVC(), SVR(), NuSVC(nu=0.1)):
        one, two = clone(machine).fit(X, y), clone(machine).fit(X[order], y[order])
        method = "predict" if isinstance(machine, SVR) else "decision_function"
        np.testing.assert_allclose(getattr(one, method)(X), getattr(two, method)(X), atol=1e-8)


def test_a_finite_C_that_no_multiplier_reaches(rng):
    """1e10 times the rounding of a prediction is no small loss, and with C=inf there is none."""
    Z = rng.standard_normal((60, 2))
    labels = Z[:, 0] > 0
    with pytest.warns(ConvergenceWarning, match="no multiplier reaches C, so set C=inf"):
        soft = SVC(C=1e10, gamma=10.0).fit(Z, labels)
    hard = SVC(C=np.inf, gamma=10.0).fit(Z, labels)
    assert hard.certificate_.converged
    np.testing.assert_allclose(hard.decision_function(Z), soft.decision_function(Z), atol=1e-6)


def test_hard_margin():
    machine = SVC(C=np.inf, kernel="linear").fit(X[:100], y[:100])
    soft = SVC(C=1e6, kernel="linear").fit(X[:100], y[:100])
    np.testing.assert_allclose(machine.coef_, soft.coef_, atol=1e-8)
    assert "violator" not in machine.kinds_
    assert machine.certificate_.gap <= 1e-3
    with pytest.raises(ValueError, match=r"classes 1 and 2 cannot be separated.*rows in conflict are \d+"):
        SVC(C=np.inf, kernel="linear").fit(X[50:], y[50:])
    with pytest.raises(ValueError, match="rows in conflict are"):
        SVC(C=np.inf).fit([[0.0], [1.0], [1.0], [2.0]], [0, 0, 1, 1])


def test_path_equals_separate_fits():
    Cs = [10.0, 0.1, 1.0]
    A, b = binary(700)
    for machine, C in zip(svm_path(A, b, Cs, gamma=0.2, tol=1e-5), Cs, strict=True):
        alone = SVC(C=C, gamma=0.2, tol=1e-5).fit(A, b)
        assert machine.C == C
        assert machine.certificate_.converged
        np.testing.assert_allclose(machine.certificate_.dual, alone.certificate_.dual, rtol=1e-5)
        np.testing.assert_allclose(machine.decision_function(A), alone.decision_function(A), atol=1e-3)
    assert [m.n_features_in_ for m in svm_path(X, y, [1.0])] == [4]
    with pytest.raises(ValueError, match="Cs is empty"):
        svm_path(X, y, [])
    with pytest.raises(TypeError, match="leave out C"):
        svm_path(X, y, [1.0], C=2.0)


@pytest.mark.parametrize("machine", [SVC(probability=True), NuSVC(nu=0.2, probability=True)])
@pytest.mark.parametrize("rows", [slice(None), slice(50, 150)])
def test_probabilities(machine, rows):
    machine = clone(machine).set_params(random_state=0)
    p = machine.fit(X[rows], y[rows]).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert p.min() >= 0
    np.testing.assert_array_equal(p, clone(machine).fit(X[rows], y[rows]).predict_proba(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        name = type(machine).__name__
        peer = getattr(peers, name)(**{k: v for k, v in machine.get_params().items() if k in ("nu", "probability")})
        q = peer.set_params(random_state=0).fit(X[rows], y[rows]).predict_proba(X)
    assert np.abs(p - q).mean() < 0.05
    np.testing.assert_allclose(machine.predict_log_proba(X), np.log(p))


def test_consistent_probabilities_agree_with_predict():
    A, b = make_classification(300, 8, n_informative=4, n_classes=3, flip_y=0.3, random_state=1)
    machine = SVC(probability="consistent", random_state=0).fit(A, b)
    np.testing.assert_array_equal(machine.predict(A), machine.classes_[machine.predict_proba(A).argmax(axis=1)])
    assert not hasattr(SVC(), "predict_proba")


def test_weights():
    weight = np.random.default_rng(0).integers(0, 4, 150)
    again = np.repeat(np.arange(150), weight)
    for machine in (SVC(class_weight="balanced"), SVR(), NuSVC(nu=0.1), NuSVR(), OneClassSVM()):
        one = clone(machine).fit(X, y, sample_weight=weight)
        two = clone(machine).fit(X[again], y[again])
        method = "predict" if isinstance(machine, SVR | NuSVR) else "decision_function"
        np.testing.assert_allclose(getattr(one, method)(X), getattr(two, method)(X), rtol=1e-6, atol=1e-8)
    assert np.all(SVC().fit(X, y, weight).kinds_[weight == 0] == "peripheral")


@pytest.mark.parametrize(
    ("machine", "rows", "labels", "weight", "message"),
    [
        (SVC(), X, np.ones(150), None, "number of classes has to be greater than one; got 1 class \\(1.0\\)"),
        (SVC(C=0.0), X, y, None, "'C' parameter of SVC must be"),
        (SVR(C=-1.0), X, y, None, "'C' parameter of SVR must be"),
        (NuSVC(nu=0.9), X[:60], y[:60], None, "specified nu is infeasible.*at most 0.3333"),
        (NuSVC(nu=1.5), X, y, None, "'nu' parameter of NuSVC must be"),
        (SVC(), X, y, np.where(y == 0, 0.0, 1.0), r"class \[0\] have zero weight"),
        (SVR(), X, y, np.zeros(150), "zero"),
        (SVC(kernel="precomputed"), X, y, None, "must be a square matrix. Input is a 150x4 matrix"),
        (SVC(kernel="rfb"), X, y, None, "unknown kernel 'rfb'"),
        (SVC(tol=0.0), X, y, None, "'tol' parameter"),
    ],
)
def test_bad_input_is_named(machine, rows, labels, weight, message):
    with pytest.raises(ValueError, match=message):
        machine.fit(rows, labels, sample_weight=weight)
    assert not hasattr(machine, "support_")


def test_precomputed_predict_of_the_wrong_width():
    machine = SVC(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="149 features, but SVC is expecting 150"):
        machine.predict((X @ X.T)[:, :149])


def test_coef_only_for_linear():
    with pytest.raises(AttributeError, match="only available when using a linear kernel"):
        _ = SVC().fit(X, y).coef_


def test_a_kernel_that_is_none_finishes_with_a_warning():
    with pytest.warns(ConvergenceWarning, match="not positive semi-definite"):
        machine = SVC(kernel="sigmoid", gamma=2.0, coef0=-1.0).fit(StandardScaler().fit_transform(X), y)
    assert machine.certificate_.kind == "stationary"


def test_stopping_short_is_told():
    A, b = binary()
    for limit in ({"max_iter": 2}, {"max_time": 1e-9}):
        with pytest.warns(ConvergenceWarning, match=next(iter(limit))):
            machine = SVC(C=100.0, **limit).fit(A, b)
        assert machine.fit_status_ == 1


def test_ctrl_c_is_answered_and_leaves_the_estimator_as_it_was():
    A, b = make_classification(6000, 20, flip_y=0.4, random_state=0)
    machine = SVC().fit(X, y)
    before = machine.decision_function(X)
    machine.set_params(C=1e5, tol=1e-9)
    sent = []

    def interrupt():
        sent.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(1.0, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        machine.fit(A, b)
    timer.join()
    assert sent
    np.testing.assert_array_equal(machine.decision_function(X), before)


def test_grid_search_pipeline_and_verbose(capsys):
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 10.0]}).fit(X, y)
    assert search.best_score_ > 0.9
    SVC(verbose=True).fit(X, y)
    SVC(kernel=Linear()).fit(X, y)


def test_the_functions_behind_the_decision_values():
    X, y = load_iris(return_X_y=True)
    three = SVC(decision_function_shape="ovo").fit(X, y)
    values = np.column_stack([f(X) for f in three.function_]) + three.intercept_
    np.testing.assert_allclose(values, three.decision_function(X), atol=1e-9)
    two = SVC().fit(X[:100], y[:100])
    np.testing.assert_allclose(two.function_(X) + two.intercept_[0], two.decision_function(X), atol=1e-9)
    alpha = two.dual_coef_[0]
    K = resolve("rbf", X, gamma=1 / (4 * X[:100].var()))(two.support_vectors_)
    assert two.function_.norm() == pytest.approx(np.sqrt(alpha @ K @ alpha))
    for machine in (SVR(), OneClassSVM()):
        f = machine.fit(X, y).function_
        direct = machine.predict(X) - machine.intercept_ if isinstance(machine, SVR) else machine.score_samples(X)
        np.testing.assert_allclose(f(X), direct, atol=1e-9)
    with pytest.raises(AttributeError, match="function_ needs the support vectors"):
        _ = SVC(kernel="precomputed").fit(X @ X.T, y).function_


# ---- pairs side by side ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 4, 5, 9, 10])
def test_rounds_hold_every_pair_once_and_no_class_twice(k):
    found = rounds(k)
    assert sorted(pair for part in found for pair in part) == list(combinations(range(k), 2))
    for part in found:
        classes = [c for pair in part for c in pair]
        assert len(set(classes)) == len(classes)


def test_pairs_with_a_class_in_common_wait_for_one_another():
    held, seen, lock = set(), [], threading.Lock()
    rows = FeatureMatrix(np.ones((6, 1)), None, np.arange(6), workers=3)
    pairs = Pairs(None, TrainingRows(np.arange(6), np.ones(6), None, rows), [1] * 6, 1.0, np.ones(6))

    def work(pair, clock):
        with lock:
            assert held.isdisjoint(pair)
            held.update(pair)
            seen.append(pair)
        time.sleep(1e-3)
        with lock:
            held.difference_update(pair)
        return pair

    assert pairs.map(work, Clock()) == list(combinations(range(6), 2))
    order = [pair for part in rounds(6) for pair in part]
    for c in range(6):
        assert [pair for pair in seen if c in pair] == [pair for pair in order if c in pair]


def test_an_error_in_one_pair_ends_them_all(monkeypatch):
    X, y = load_digits(return_X_y=True)
    monkeypatch.setattr(Pairs, "solve", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        SVC(n_jobs=2, max_time=1e3).fit(X[:300], y[:300])  # with a limit, one pair after the other


def test_threads_do_not_change_the_machines():
    X, y = load_digits(return_X_y=True)
    one, two, again = (
        SVC(gamma=1e-3, n_jobs=jobs, probability=True, random_state=0).fit(X[:600], y[:600]) for jobs in (1, 2, 2)
    )
    np.testing.assert_array_equal(two.dual_coef_, again.dual_coef_)
    np.testing.assert_array_equal(two.probA_, again.probA_)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=2e-3)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-2)


def test_ctrl_c_stops_all_pairs(monkeypatch):
    """Threads that are busy with a pair learn of it through their clock."""
    X, y = load_digits(return_X_y=True)
    busy, seen = threading.Event(), []

    def endless(self, pairs, pair, *, clock, **options):
        if pair[0] == 0:
            assert busy.wait(timeout=10)
            raise KeyboardInterrupt
        busy.set()
        while not clock.expired:
            time.sleep(0.001)
        seen.append(pair)

    model = SVC(n_jobs=2, max_time=1e3).fit(X[:200], y[:200])  # with a limit, one pair after the other
    before = model.dual_coef_.copy()
    monkeypatch.setattr(SVC, "_machine", endless)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert seen
    np.testing.assert_array_equal(model.dual_coef_, before)


def test_labels_that_look_like_numbers_are_told():
    with pytest.raises(ValueError, match="Unknown label type"):
        SVC().fit(X[:40], np.linspace(0.0, 1.0, 40))
    with pytest.warns(UserWarning, match="unique classes is greater than 50%"):
        SVC().fit(X[:40], np.arange(40) // 2 + np.arange(40) % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SVC().fit(X, np.array(["a", "b", "c"])[y])


@pytest.mark.parametrize("rows", [X, sp.csr_array(X)], ids=["dense", "sparse"])
def test_machines_without_support_vectors_predict(rows):
    with pytest.warns(ConvergenceWarning):
        machine = SVC(max_time=1e-9).fit(rows, y)
    assert machine.support_.size == 0
    assert machine.predict(rows).shape == y.shape
    assert machine.decision_function(rows).shape == (len(y), 3)


@pytest.mark.parametrize(("seed", "power"), [(8877, 0), (10485, 2)])
def test_doubt_about_rows_that_weigh_much_is_told(seed, power):
    rng = np.random.default_rng([7, seed])
    d = int(rng.choice([1, 2, 3, 5, 10]))
    rows = (rng.standard_normal((30, d)) * 10 ** rng.uniform(-1, 1) + rng.choice([0, 5])).astype(np.float32)
    labels = np.digitize(rows[:, 0] + 0.7 * rng.standard_normal(30), np.quantile(rows[:, 0], [1 / 3, 2 / 3]))
    weight, _, gamma = 10.0 ** rng.uniform(-6, 6, 30), rng.choice(3), float(10 ** rng.uniform(-3, 1))
    model = SVC(C=5e4, gamma=gamma, kernel="poly" if power else "rbf", degree=2, coef0=1.0, tol=1e-6)
    with pytest.warns(ConvergenceWarning, match="rounding"):  # the true gap is 1.3e-6
        model.fit(rows, labels, sample_weight=weight)
