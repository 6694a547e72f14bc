"""Rungs: what each learns from and is judged by."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gramian.estimators.auto.ladder import rungs
from gramian.estimators.auto.plans import Sizes
from gramian.estimators.auto.response import Classes, Numbers


@pytest.mark.parametrize("n", [10, 149, 150, 1000, 2000, 2001, 3500, 10_000])
def test_steps_hold_out_what_they_judge_by(n):
    rng = np.random.default_rng(0)
    for response in (Numbers(rng.standard_normal(n)), Classes(rng.integers(0, 3, n), 3)):
        steps = rungs(response, n, 5, 0)
        assert len(steps) == (1 if n < 150 else 2 if n <= 2000 else 3)
        for step in steps:
            for train, test in step.splits:
                assert not set(train) & set(test)
            assert sorted(np.concatenate(step.parts)) == list(range(step.held_out.size))
        assert all(a.training_rows <= b.training_rows for a, b in pairwise(steps))


def test_every_class_is_in_the_first_step():
    codes = np.zeros(5000, dtype=np.intp)
    codes[:40], codes[40:60] = 1, 2
    step = rungs(Classes(codes, 3), 5000, 5, 0)[0]
    assert set(codes[step.splits[0][0]]) == {0, 1, 2}


def test_a_short_limit_has_fewer_steps_whatever_the_machine():
    response = Numbers(np.arange(10_000.0))
    learning = {
        limit: [s.training_rows for s in rungs(response, 10_000, 5, 0, limit=limit)] for limit in (None, 60, 10, 0.1)
    }
    assert learning == {None: [500, 1500, 3000], 60: [500, 1500, 3000], 10: [500, 1500], 0.1: [500]}
    few = rungs(response, 10_000, 5, 0, Sizes(ladder=(60, 150)))
    assert [step.training_rows for step in few] == [60, 150]
