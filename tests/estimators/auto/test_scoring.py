"""Scores as losses: each beside scikit-learn's own, weighted or not; scorers by name and of one's own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn import metrics as sk
from sklearn.metrics import make_scorer

from gramian.estimators.auto.scoring import scoring_of

THEIRS = {
    "error": lambda y, P, said, w: 1.0 - sk.accuracy_score(y, said, sample_weight=w),
    "log_loss": lambda y, P, said, w: sk.log_loss(y, P, sample_weight=w),
    "roc_auc": lambda y, P, said, w: 1.0 - sk.roc_auc_score(y, P[:, 1], sample_weight=w),
    "average_precision": lambda y, P, said, w: 1.0 - sk.average_precision_score(y, P[:, 1], sample_weight=w),
    "balanced_accuracy": lambda y, P, said, w: 1.0 - sk.balanced_accuracy_score(y, said, sample_weight=w),
    "f1": lambda y, P, said, w: 1.0 - sk.f1_score(y, said, sample_weight=w),
    "matthews_corrcoef": lambda y, P, said, w: 1.0 - sk.matthews_corrcoef(y, said, sample_weight=w),
    "neg_brier_score": lambda y, P, said, w: sk.brier_score_loss(y, P[:, 1], sample_weight=w),
    "recall": lambda y, P, said, w: 1.0 - sk.recall_score(y, said, sample_weight=w),
}
NUMBERS = {
    "rmse": sk.root_mean_squared_error,
    "mae": sk.mean_absolute_error,
    "r2": lambda y, f, sample_weight: 1.0 - sk.r2_score(y, f, sample_weight=sample_weight),
    "pinball-0.8": lambda y, f, sample_weight: sk.mean_pinball_loss(y, f, alpha=0.8, sample_weight=sample_weight),
    "neg_median_absolute_error": sk.median_absolute_error,
}


@pytest.fixture
def said(rng):
    codes = (rng.random(60) < 0.3).astype(int)
    logs = log_softmax(rng.standard_normal((60, 2)) + np.c_[1 - codes, codes], axis=1)
    return codes, logs, (logs[:, 1] > np.log(0.4)).astype(int), rng.uniform(0.1, 3.0, 60)


@pytest.mark.parametrize("name", THEIRS)
def test_classes_are_judged_as_by_scikit_learn(name, said):
    codes, logs, labels, weights = said
    scoring = scoring_of(name, classes=True, labels=np.array(["no", "yes"]))
    for w in (None, weights):
        assert scoring.loss(codes, logs, labels, w) == pytest.approx(THEIRS[name](codes, np.exp(logs), labels, w))
    assert scoring.labels == (name in ("balanced_accuracy", "f1", "matthews_corrcoef", "recall"))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_judged_as_by_scikit_learn(name, rng):
    y, f, weights = rng.standard_normal(50), rng.standard_normal(50), rng.uniform(0.1, 3.0, 50)
    scoring = scoring_of(name, classes=False)
    for w in (None, weights):
        assert scoring.loss(y, f, w) == pytest.approx(NUMBERS[name](y, f, sample_weight=w))


def test_several_classes(rng):
    codes, logs = rng.integers(0, 3, 90), log_softmax(rng.standard_normal((90, 3)), axis=1)
    labels, P = logs.argmax(axis=1), np.exp(logs)
    for name, theirs in (
        ("roc_auc", sk.roc_auc_score(codes, P, multi_class="ovr")),
        ("f1", sk.f1_score(codes, labels, average="macro")),
        ("balanced_accuracy", sk.balanced_accuracy_score(codes, labels)),
    ):
        assert scoring_of(name, classes=True).loss(codes, logs, labels, None) == pytest.approx(1.0 - theirs)


def test_scorers_of_ones_own(said):
    codes, logs, labels, weights = said

    def money(model, rows, y):
        return float(np.sum((model.predict(rows) == y) * (10.0 + rows[:, 0])))

    own = scoring_of(money, classes=True)
    assert (own.name, own.written(-3.0)) == ("money", 3.0)
    assert own.loss(codes, logs, labels, None) == -np.sum((labels == codes) * (10.0 + np.arange(60)))
    fbeta = scoring_of(make_scorer(sk.fbeta_score, beta=2.0), classes=True)
    assert fbeta.labels
    assert fbeta.loss(codes, logs, labels, weights) == -sk.fbeta_score(codes, labels, beta=2.0, sample_weight=weights)


def test_names_of_scikit_learn_mean_the_same():
    for theirs, ours in (("accuracy", "accuracy"), ("neg_log_loss", "log_loss"), ("f1", "f1")):
        assert scoring_of(theirs, classes=True).name == ours
    assert scoring_of("neg_root_mean_squared_error", classes=False).name == "rmse"
    assert scoring_of(None, classes=True).name == "log_loss"
    assert scoring_of("pinball", classes=False).level == 0.5


@pytest.mark.parametrize(("name", "classes"), [("rmse", True), ("roc_auc", False), ("auc", True), ("pinball-2", False)])
def test_names_that_make_no_sense(name, classes):
    with pytest.raises(ValueError, match=r"scoring must be one of (log_loss|rmse), .* the name of a scorer"):
        scoring_of(name, classes=classes)
