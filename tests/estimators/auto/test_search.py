"""The search: the best are judged again on many rows."""

from __future__ import annotations

import numpy as np
from sklearn.preprocessing import FunctionTransformer

from gramian.estimators.auto.candidates import Candidate
from gramian.estimators.auto.fits import Resources
from gramian.estimators.auto.ladder import larger, rungs
from gramian.estimators.auto.plans import Planner, Sizes
from gramian.estimators.auto.response import Numbers
from gramian.estimators.auto.search import ScaledRows, Search
from gramian.kernels import RBF


def test_the_best_are_judged_again_on_many_rows_with_what_they_learned(rng):
    X = rng.uniform(-2, 2, (4300, 2))
    response = Numbers(np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(4300))
    sizes = Sizes(ladder=(60,), many=300)
    assert larger(response, 159, 5, 0, 10**9, sizes).training_rows == 120
    assert larger(response, 158, 5, 0, 10**9, sizes) is None  # hardly more than on the rung before
    assert larger(response, 4300, 5, 0, 8 * sizes.many**2 - 1, sizes) is None
    (step,), many = rungs(response, 4300, 5, 0, sizes)[:1], larger(response, 4300, 5, 0, 10**9, sizes)
    assert not set(many.splits[0][0]) & set(many.splits[0][1])
    means, planner = Resources(10**8, 1, 0), Planner(4300, 1, 10**8, sizes=sizes)
    rows = {"standard": ScaledRows(X, FunctionTransformer())}
    group = [Candidate(f"gp, {i}", "gp", "standard", (1.0 * RBF(scale),)) for i, scale in enumerate((0.5, 1.0, 2.0))]
    before, ranked = (
        Search(response, rows, ["gp"], means, planner, lambda board, doing: None).run(group, [step], larger_step)
        for larger_step in (None, many)
    )
    assert {found.rung for found in ranked} == {many}
    assert ranked[0].trial.score < 0.7 * before[0].trial.score  # more rows predict better
    assert all(found.kernels[0] in [f.kernels[0] for f in before] for found in ranked)


def test_the_best_without_a_forest_is_judged_on_many_rows_too(rng, monkeypatch):
    monkeypatch.setattr("gramian.estimators.auto.search.OFFERED", 3)
    X = rng.uniform(-2, 2, (1000, 2))
    response = Numbers(np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(1000))
    sizes = Sizes(ladder=(60,), many=300)
    (step,), many = rungs(response, 1000, 5, 0, sizes)[:1], larger(response, 1000, 5, 0, 10**9, sizes)
    told = np.column_stack([X, response.targets + 0.1 * rng.standard_normal((1000, 1))])
    rows = {"standard": ScaledRows(X, FunctionTransformer()), "forest": ScaledRows(told, FunctionTransformer())}
    kinds = ("forest", "forest", "forest", "standard")
    group = [Candidate(f"gp, {i}, {kind}", "gp", kind, (1.0 * RBF(1.0 + i),)) for i, kind in enumerate(kinds)]
    search = Search(
        response, rows, ["gp"], Resources(10**8, 1, 0), Planner(1000, 1, 10**8, sizes=sizes), lambda *seen: None
    )
    ranked = search.run(group, [step], many)
    assert sorted(f.candidate.scaling for f in ranked if f.rung is many) == ["forest", "forest", "standard"]
