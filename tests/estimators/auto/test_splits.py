"""Splits that a user asks for: groups stay together, time goes forward, pairs of rows are taken as they are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold, TimeSeriesSplit

from gramian.estimators.auto.ladder import rungs
from gramian.estimators.auto.plans import Sizes
from gramian.estimators.auto.response import Numbers
from gramian.estimators.auto.splits import among, own_order, repeated, splits_asked_for


def test_a_number_alone_leaves_it_to_the_search():
    assert splits_asked_for(5, None, 20, None, 0) is None


@pytest.mark.parametrize("classes", [False, True])
def test_groups_stay_together(classes, rng):
    groups = np.repeat(["a", "b", "c", "d", "e", "f"], 10)
    codes = rng.integers(0, 2, 60) if classes else None
    splits = splits_asked_for(3, codes, 60, groups, 0)
    assert len(splits) == 3
    for train, test in splits:
        assert not set(groups[train]) & set(groups[test])
    with pytest.raises(ValueError, match="all rows are of one group"):
        splits_asked_for(3, codes, 60, np.zeros(60), 0)


def test_time_goes_forward_where_rows_are_many_too(rng):
    response = Numbers(rng.standard_normal(1000))
    splits = splits_asked_for(TimeSeriesSplit(4), None, 1000, None, 0)
    for sizes in (Sizes(), Sizes(ladder=(100, 300), folds=200)):
        steps = rungs(response, 1000, 5, 0, sizes, asked=splits)
        for step in steps:
            assert step.asked
            for train, test in step.splits:
                assert train.max() < test.min()
    assert [step.training_rows for step in steps] == [100, 300]


def test_the_largest_group_is_held_out_where_rows_are_many(rng):
    """The scores of a group of a few rows would say little."""
    groups = np.repeat([3, 0, 2, 1], [400, 350, 240, 10])
    splits, sizes = splits_asked_for(4, None, 1000, groups, 0), Sizes(ladder=(100, 300), folds=200)
    for step in rungs(Numbers(rng.standard_normal(1000)), 1000, 4, 0, sizes, asked=splits):
        assert set(groups[step.held_out]) == {3}


def test_pairs_of_rows_and_rows_that_do_not_count():
    pairs = [(np.array([0, 1, 2]), np.array([3, 4])), (np.arange(5) > 2, np.arange(5) < 2)]
    (first, _), (second, last) = splits_asked_for(pairs, None, 5, None, 0)
    assert list(first) == [0, 1, 2]
    assert (list(second), list(last)) == ([3, 4], [0, 1])
    (a, b), _ = among(pairs, np.array([0, 2, 3]), 5)
    assert (list(a), list(b)) == ([0, 1], [2])
    (a, b), _ = among(pairs, np.array([3, 0, 2, 0, 3]), 5)
    assert (list(a), list(b)) == ([1, 2, 3], [0, 4])
    assert among(KFold(3), np.array([0, 2]), 5).n_splits == 3
    for wrong in ([(np.array([0, 9]), np.array([1]))], [(np.array([], dtype=int), np.array([1]))], 7.5):
        with pytest.raises(ValueError, match=r"cv must|Expected `cv`"):
            splits_asked_for(wrong, None, 5, None, 0)


def test_whole_weights_of_few_rows_are_repetitions():
    rows, weights = repeated(np.array([2.0, 0.0, 1.0]), most=3)
    assert (list(rows), list(weights)) == ([0, 0, 2], [1.0, 1.0, 1.0])
    for given, most in (([2.0, 0.0, 1.0], 2), ([2.5, 0.0, 1.0], 9)):
        rows, weights = repeated(np.array(given), most)
        assert (list(rows), list(weights)) == ([0, 2], [given[0], 1.0])


def test_rows_have_an_order_of_their_own(rng):
    numbers, texts = rng.integers(0, 3, 30) + 0.5, rng.choice(np.array(["a", None, "b"], dtype=object), 30)
    mixed = rng.permutation(30)
    here, there = own_order([numbers, texts]), mixed[own_order([numbers[mixed], texts[mixed]])]
    np.testing.assert_array_equal(numbers[here], numbers[there])
    np.testing.assert_array_equal(texts[here], texts[there])
