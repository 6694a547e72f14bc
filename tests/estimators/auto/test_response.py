"""The response: outputs of machines as scores of classes, their calibration, and the reach of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from gramian import SVC
from gramian.estimators.auto.response import (
    Classes,
    Numbers,
    conformal_reach,
    fit_softmax,
    fit_temperature,
    weighted_quantile,
)
from gramian.estimators.auto.scoring import CLASSES, NUMBERS, pinball
from gramian.kernels import RBF


def test_pairs_of_a_machine_rank_classes_better_than_votes(rng):
    """Three classes in a row: votes alone cannot tell a row near the boundary from one far away."""
    X = rng.uniform(-3.0, 3.0, (600, 1))
    codes = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(600), [-1.0, 1.0])
    response, train, test = Classes(codes, 3), np.arange(300), np.arange(300, 600)
    pairs, votes = (
        response.outputs(SVC(kernel=RBF(1.0), decision_function_shape=shape).fit(X[train], codes[train]), X[test])
        for shape in ("ovo", "ovr")
    )
    assert np.all(pairs.max(axis=1) <= 0.0)
    assert np.mean(pairs.argmax(axis=1) == votes.argmax(axis=1)) > 0.99
    a, b = (response.judge(each, test, [np.arange(300)]).figures["log_loss"] for each in (pairs, votes))
    assert a < 0.9 * b


def test_temperature_is_the_most_likely():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4000, 3))
    P = np.exp(2.0 * logits)
    P /= P.sum(axis=1, keepdims=True)
    codes = np.array([rng.choice(3, p=p) for p in P])
    assert fit_temperature(logits, codes) == pytest.approx(2.0, rel=0.1)
    sure = 10.0 * np.eye(3)[codes]
    assert fit_temperature(sure, codes) < 10.0


def test_constants_are_the_most_likely():
    rng = np.random.default_rng(0)
    logits, constants = rng.standard_normal((6000, 3)), np.array([0.8, -0.2, -0.6])
    P = np.exp(2.0 * logits + constants)
    P /= P.sum(axis=1, keepdims=True)
    codes = np.array([rng.choice(3, p=p) for p in P])
    factor, found = fit_softmax(logits, codes)
    assert factor == pytest.approx(2.0, rel=0.1)
    np.testing.assert_allclose(found, constants, atol=0.1)
    assert np.linalg.norm(found) < np.linalg.norm(constants)  # drawn to zero
    # A few rows hardly move them.
    assert np.abs(fit_softmax(np.zeros((20, 3)), np.zeros(20, dtype=int))[1]).max() < 0.2
    assert not fit_softmax(np.zeros((1, 3)), np.array([0]))[1].any()


def test_outputs_that_hardly_differ_are_calibrated_about_the_shares():
    """A support vector machine of a rare class with a small C ranks rows well, by outputs close to -1."""
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.standard_normal(2000) - 4.0
    codes = (rng.random(2000) < 1.0 / (1.0 + np.exp(-logits))).astype(int)
    flat = np.outer(0.01 * (logits + 4.0) - 1.0, [-0.5, 0.5])
    factor, constants = fit_softmax(flat, codes)
    assert factor == pytest.approx(100.0, rel=0.15)
    assert np.exp(log_softmax(factor * flat + constants, axis=1))[:, 1].mean() == pytest.approx(codes.mean(), rel=0.05)


def test_conformal_reach_covers():
    rng = np.random.default_rng(0)
    held, new = rng.standard_normal(500), rng.standard_normal(20_000)
    assert np.mean(np.abs(new) <= conformal_reach(held, 0.9)) == pytest.approx(0.9, abs=0.03)
    assert conformal_reach(np.array([1.0, -2.0]), 0.99) == 2.0


# ---- thresholds, scales and weights -------------------------------------------------------------------------------


def test_a_threshold_suits_the_metric_and_is_judged_on_rows_it_was_not_chosen_on(rng):
    n = 2000
    signal = rng.standard_normal(n)
    codes = (rng.random(n) < 1.0 / (1.0 + np.exp(3.0 - 1.5 * signal))).astype(int)  # one in ten
    logs = log_softmax(np.c_[np.zeros(n), 1.5 * signal - 3.0], axis=1)
    for name, least in (("f1", 0.15), ("balanced_accuracy", 0.05)):
        response = Classes(codes, 2, CLASSES[name])
        threshold, labels = response.decided(logs, codes, None)
        assert least < threshold < 0.45
        tried = {t: response.scorer.loss(codes, logs, response.labels_by(logs, t), None) for t in (threshold, 0.5)}
        assert tried[threshold] < tried[0.5] - 0.03
        judged = response.scorer.loss(codes, logs, labels, None)
        assert tried[threshold] - 1e-12 <= judged < tried[0.5]
    for name in ("error", "log_loss", "roc_auc"):
        assert Classes(codes, 2, CLASSES[name]).decided(logs, codes, None)[0] == 0.5
    assert Classes(codes, 2, costs=np.array([1.0, 9.0])).decided(logs, codes, None)[0] == pytest.approx(0.1)


def test_a_threshold_that_does_not_help_is_left_alone(rng):
    codes, logs = rng.integers(0, 2, 30), log_softmax(rng.standard_normal((30, 2)), axis=1)
    response = Classes(codes, 2, CLASSES["f1"])
    threshold, labels = response.decided(logs, codes, None)
    plain = response.scorer.loss(codes, logs, response.labels_by(logs, 0.5), None)
    assert response.scorer.loss(codes, logs, labels, None) <= plain
    assert (threshold == 0.5) == np.array_equal(labels, response.labels_by(logs, 0.5))


def test_weights_count_as_rows_do(rng):
    """Calibration and scores of weighted rows are those of repeated ones."""
    outputs, codes, counts = rng.standard_normal((40, 3)), rng.integers(0, 3, 40), rng.integers(1, 4, 40)
    again = np.repeat(np.arange(40), counts)
    assert fit_temperature(outputs, codes, counts.astype(float)) == pytest.approx(
        fit_temperature(outputs[again], codes[again]), rel=0.05
    )  # but for the prior
    weighted = Classes(codes, 3, weights=counts.astype(float)).judge(outputs, np.arange(40), [np.arange(40)])
    repeated = Classes(codes[again], 3).judge(outputs[again], np.arange(again.size), [np.arange(again.size)])
    assert weighted.score == pytest.approx(repeated.score, rel=1e-3)
    y = rng.standard_normal(40)
    weighted = Numbers(y, weights=counts.astype(float)).judge(outputs[:, :1], np.arange(40), [np.arange(40)])
    one = Numbers(y)
    e = one.predictions(outputs[:, :1])[again] - y[again]
    assert weighted.score == pytest.approx(np.sqrt(np.mean(e**2)))
    assert weighted_quantile(y, 0.3, counts.astype(float)) == np.sort(y[again])[int(np.ceil(0.3 * again.size)) - 1]


def test_shifts_suit_the_metric(rng):
    f = rng.standard_normal((3000, 1))
    y = np.exp(1.0 + f[:, 0] + 0.7 * rng.standard_normal(3000))
    rows = np.arange(3000)

    def best(scorer, shift):
        response = Numbers(y, scorer, log=True)
        outputs = (1.0 + f - response.centre) / response.scale
        found = response.shift(outputs, rows)
        losses = [scorer.loss(y, response.predictions(outputs, s), None) for s in (found, found - 0.1, found + 0.1)]
        assert losses[0] == min(losses)
        assert found == pytest.approx(shift, abs=0.1)

    best(NUMBERS["rmse"], 0.7**2 / 2)  # the mean of a log-normal law
    best(pinball(0.9), 0.7 * 1.2816)
    response = Numbers(y, log=True)
    assert Numbers(y, NUMBERS["mae"], log=True).shift(response.targets, rows) == 0.0
    assert Numbers(y).shift(Numbers(y).targets, rows) == 0.0
