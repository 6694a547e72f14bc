"""Cross-fitted forests of boosted trees, against plain loops, and as columns of automatic models."""

from importlib.util import find_spec

import numpy as np
import pytest

import gramian
from gramian import AutoKernelClassifier, AutoKernelRegressor
from gramian.estimators.auto import forest as module
from gramian.estimators.auto.base import fit_by_clock
from gramian.estimators.auto.columns import encode
from gramian.estimators.auto.fits import Resources
from gramian.estimators.auto.forest import FOLDS, SETTINGS, Trees, add_trees, grow_forest, joined, level_codes
from gramian.estimators.auto.response import Classes, Numbers
from gramian.estimators.auto.row_hashes import Folds
from gramian.estimators.auto.scaling import fit_scaling
from gramian.estimators.auto.scoring import CLASSES, NUMBERS
from gramian.estimators.auto.tables import array_columns
from gramian.onnx import export
from gramian.progress import Clock

MEANS = Resources(10**9, 1, 0)


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    monkeypatch.setattr(module, "TREES", (10, 80))


def steps(rng, n=1500):
    """Rows, and a number that jumps where two columns exceed thresholds."""
    Z = rng.standard_normal((n, 4)).round(3)
    return Z, 1.0 * (Z[:, 0] > 0.3) * (Z[:, 1] > 0.0) + 0.2 * Z[:, 2]


def made(Z, response, limit=20.0, means=MEANS):
    scaling, encoding = fit_scaling("standard", Z, list(range(Z.shape[1]))), encode(array_columns(Z), named=False)
    return grow_forest(scaling, encoding, Z, response, limit, means)[0]


def told(forest, Z):
    """Predictions as a model asks for them."""
    return forest.predictions(Z, forest.folds(Z))


def by_loops(forest, Z, fold):
    """What the trees say, question by question."""
    rows, (codes, count) = (
        np.column_stack([*(c(Z) for c in forest.levels), Z]),
        (len(forest.levels), forest.deviation.size),
    )
    out = np.empty((len(Z), count))
    for i, z in enumerate(rows):
        each = []
        for k in range(FOLDS):
            total = forest.constants[k].copy()
            for t in range(forest.starts[k], forest.starts[k + 1]):
                node = forest.roots[t]
                while forest.columns[node] >= 0:
                    column, at = forest.columns[node], forest.thresholds[node]
                    yes = np.unpackbits(forest.sets[int(at)])[int(z[column])] if column < codes else z[column] <= at
                    node = forest.children[node, 0 if yes else 1]
                total[t % count] += forest.thresholds[node]
            each.append(total)
        out[i] = np.mean(each, axis=0) if fold[i] < 0 else each[fold[i]]
    return out


def levels_table(rng, n=2000, respond=Numbers):
    """Rows with a long category, half of whose levels turn a column around, as they are encoded."""
    level, x = rng.integers(0, 30, n), rng.standard_normal(n)
    y = np.where(level % 2 == 0, x, -x) + 0.1 * level
    table = array_columns(np.column_stack([np.array([f"level {v}" for v in level], dtype=object), x.astype(object)]))
    encoding = encode(table, targets=respond(y).targets, named=False, means=True)
    return encoding, encoding.transform(table), y, level


def test_trees_ask_for_levels_that_means_do_not_tell(rng):
    encoding, Z, y, level = levels_table(rng)
    (codes,), _ = level_codes(encoding, Z)
    own = codes(Z)
    assert all(np.unique(own[level == v]).size == 1 for v in range(30))
    assert np.unique(own).size == 30
    counts = np.bincount(own)[:30]
    np.testing.assert_array_equal(counts, np.sort(counts)[::-1])
    forest, seconds = grow_forest(fit_scaling("standard", Z, [0, 1]), encoding, Z, Numbers(y), 20.0, MEANS)
    assert forest.sets.shape[0] > 0
    assert seconds > 0.0
    some = slice(0, 15)
    np.testing.assert_allclose(
        forest.predictions(Z[some], fold := forest.folds(Z[some])), by_loops(forest, Z[some], fold), rtol=1e-12
    )
    left = np.mean((told(forest, Z)[:, 0] - Numbers(y).targets[:, 0]) ** 2)
    assert left < 0.2


@pytest.mark.parametrize("classes", [False, True])
def test_trees_say_what_those_of_scikit_learn_say(rng, monkeypatch, classes):
    def respond(y):
        return Classes(np.digitize(y, [0.5, 2.0]), 3) if classes else Numbers(y)

    encoding, Z, y, _ = levels_table(rng, respond=respond)
    kept = {}
    make = "HistGradientBoostingClassifier" if classes else "HistGradientBoostingRegressor"

    class Kept(getattr(module, make)):
        def fit(self, X, *others):
            kept[self.random_state] = self
            return super().fit(X, *others)

    monkeypatch.setattr(module, make, Kept)
    monkeypatch.setattr(module, "SETTINGS", SETTINGS[:1])
    monkeypatch.setattr(module, "TREES", (5, 20))
    response = respond(y)
    forest, _ = grow_forest(fit_scaling("standard", Z, [0, 1]), encoding, Z, response, 20.0, MEANS)
    rows, fold = np.column_stack([forest.levels[0](Z), Z]), forest.folds(Z)
    for k in range(FOLDS):
        size = (forest.starts[k + 1] - forest.starts[k]) // forest.deviation.size
        *_, theirs = (f for f, _ in zip(kept[k]._staged_raw_predict(rows[fold == k]), range(size), strict=False))
        np.testing.assert_allclose(forest.predictions(Z[fold == k], fold[fold == k]), theirs, rtol=1e-12, atol=1e-12)


def test_training_rows_have_the_trees_without_their_fold_and_new_rows_all(rng):
    Z, y = steps(rng)
    forest = made(Z, Numbers(y))
    new = rng.standard_normal((20, 4))
    fold = forest.folds(Z)
    assert set(fold) == set(range(FOLDS))
    assert np.all(forest.folds(new) == -1)
    np.testing.assert_allclose(told(forest, Z[:20]), by_loops(forest, Z[:20], fold[:20]), rtol=1e-12)
    np.testing.assert_allclose(told(forest, new), by_loops(forest, new, np.full(20, -1)), rtol=1e-12)
    columns = forest.transform(Z)
    assert columns.shape == (1500, 5)
    assert columns[:, 4].std() == pytest.approx(1.0)


def test_a_row_is_not_predicted_by_its_own_target(rng, monkeypatch):
    monkeypatch.setattr(module, "SETTINGS", SETTINGS[1:2])  # of several, the targets of the first fold choose one
    Z, y = steps(rng)
    noise = rng.standard_normal(y.size)
    forest = made(Z, Numbers(noise))
    assert abs(np.corrcoef(told(forest, Z)[:, 0], noise)[0, 1]) < 0.1
    before, changed = made(Z, Numbers(y)), y.copy()
    changed[0] += 1.0
    response = Numbers(y)
    vars(response).update(targets=(changed[:, None] - response.centre) / response.scale)
    k, after = before.folds(Z)[0], made(Z, response)
    own = [f.thresholds[f.roots[f.starts[k]] : f.roots[f.starts[k] + 3]] for f in (before, after)]
    np.testing.assert_array_equal(*own)  # trees of this fold have not seen it
    assert after.constants[k] == before.constants[k]
    assert np.count_nonzero(after.constants != before.constants) == FOLDS - 1


def test_trees_follow_jumps_of_numbers_and_classes(rng):
    Z, y = steps(rng, 3000)
    forest = made(Z[:2000], Numbers(y[:2000]))
    f = told(forest, Z[2000:])[:, 0] * y[:2000].std() + y[:2000].mean()
    assert np.mean((f - y[2000:]) ** 2) < 0.02 * y.var()
    codes = (y > 0.5).astype(np.intp) + (y > 1.0)
    for count in (2, 3):
        own = np.minimum(codes, count - 1)
        logs = made(Z[:2000], Classes(own[:2000], count)).predictions(Z[2000:], np.full(1000, -1))
        assert logs.shape[1] == (1 if count == 2 else 3)
        found = logs[:, 0] > 0 if count == 2 else logs.argmax(axis=1)
        assert np.mean(found == own[2000:]) > 0.95


def test_weights_count_as_repetitions_in_leaves(rng):
    Z, y = steps(rng)
    heavy = np.where(Z[:, 3] > 0, 1e6, 1.0)
    forest = made(Z, Numbers(np.where(Z[:, 3] > 0, y, -y), NUMBERS["rmse"], heavy))
    assert np.abs(forest.constants - np.average(forest.constants, axis=0)).max() < 0.2
    assert np.corrcoef(told(forest, Z)[Z[:, 3] > 0, 0], y[Z[:, 3] > 0])[0, 1] > 0.95


def test_few_rows_many_classes_and_no_time_give_no_forest(rng):
    Z, y = steps(rng)
    assert made(Z[:400], Numbers(y[:400])) is None
    assert made(Z, Classes(np.arange(1500) % 40, 40, CLASSES["error"])) is None
    assert made(Z, Numbers(y), limit=1e-3) is None
    late = Resources(10**9, 1, 0, clock=Clock(1e-9))
    assert made(Z, Numbers(y), means=late) is None


def test_constant_columns_and_the_same_seed(rng):
    Z, y = steps(rng)
    Z[:, 3] = 1.0
    a, b = (made(Z, Numbers(y), means=Resources(10**9, jobs, 0)) for jobs in (1, 2))
    np.testing.assert_array_equal(a.transform(Z), b.transform(Z))
    assert not np.any(a.columns == 3)


def test_folds_follow_from_values():
    Z = np.repeat(np.arange(50.0), 2)[:, None]
    folds = Folds.of_rows(Z, 4)
    fold = folds(Z)
    np.testing.assert_array_equal(fold[::2], fold[1::2])
    np.testing.assert_array_equal(folds.of_training_rows(Z), fold)
    np.testing.assert_array_equal(folds(Z + 0.5), -1)


def test_equal_rows_take_turns_in_folds_and_count_as_new_ones(rng):
    Z = np.r_[np.repeat(np.arange(20.0), 4), np.arange(20.0, 60.0)][:, None]
    folds, plain = Folds.of_rows(Z, 4, apart=True), Folds.of_rows(Z, 4)
    order = rng.permutation(120)
    fold = np.empty(120, np.intp)
    fold[order] = folds.of_training_rows(Z[order])
    assert all(set(fold[4 * i : 4 * i + 4]) == {0, 1, 2, 3} for i in range(20))
    np.testing.assert_array_equal(fold[80:], plain(Z[80:]))
    np.testing.assert_array_equal(folds(Z[:80]), -1)
    np.testing.assert_array_equal(folds(Z[80:]), plain(Z[80:]))
    np.testing.assert_array_equal(folds.of_training_rows(Z + 0.5), -1)


def test_trees_of_repeated_rows_know_the_others(rng):
    distinct = rng.standard_normal((300, 4)).round(3)  # too few for trees that cannot ask for each
    at = rng.permutation(np.repeat(np.arange(300), 8))
    value = rng.standard_normal(300)[at]
    y = value + 0.1 * rng.standard_normal(2400)
    forest = made(distinct[at], Numbers(y))
    left_out = forest.predictions(distinct[at], forest.folds.of_training_rows(distinct[at]))[:, 0]
    assert np.mean((y - (y.mean() + y.std() * left_out)) ** 2) < 0.2 * y.var()
    np.testing.assert_array_equal(forest.folds(distinct[at]), -1)


def test_mean_targets_in_trees_do_not_tell_the_target_of_a_row(rng, monkeypatch):
    monkeypatch.setattr(module, "SETTINGS", SETTINGS[:1])
    level, noise = rng.integers(0, 150, 2400), rng.standard_normal(2400)
    y = noise + 0.5 * rng.standard_normal(150)[level]
    cells = np.column_stack([[f"level {v}" for v in level], rng.standard_normal(2400)]).astype(object)
    table = array_columns(cells)
    encoding = encode(table, targets=Numbers(y).targets, named=False, means=True)
    Z = encoding.transform(table)
    _, (means,) = level_codes(encoding, Z)
    order = rng.permutation(2400)
    targets, place = Numbers(y).targets, np.argsort(order)
    told = means.encoder.in_order(means.at, targets, np.ones(2400), order)[:, 0]
    before = (level == level[:, None]) & (place < place[:, None])
    sums, counts = before @ targets[:, 0], before.sum(axis=1)
    prior = sums[counts > 0] / told[counts > 0] - counts[counts > 0]
    assert prior == pytest.approx(prior[0])
    assert np.all(told[counts == 0] == 0.0)
    forest = grow_forest(fit_scaling("standard", Z, [0, 1]), encoding, Z, Numbers(y), 20.0, MEANS)[0]
    left_out = forest.predictions(Z, forest.folds.of_training_rows(Z))[:, 0]
    assert abs(np.corrcoef(left_out, noise)[0, 1]) < 0.1


def test_add_trees_adds(rng):
    rows, out = np.column_stack([np.arange(10.0), rng.standard_normal(10)]), np.ones((10, 1))
    none, sets = np.zeros((0, 32), np.uint8), np.packbits(np.arange(256)[None] < 4, axis=1)
    children, root = np.array([[1, 2], [0, 0], [0, 0]], np.int32), np.zeros(1, np.int32)
    by_number = Trees(np.array([1, -1, -1], np.int32), np.array([0.0, 2.0, 3.0]), children, none, root)
    by_code = Trees(np.array([0, -1, -1], np.int32), np.array([0.0, 10.0, 20.0]), children, sets, root)
    add_trees(rows, 1, *joined([by_number, by_code, by_code], 1), out)
    numbers, codes = np.where(rows[:, 1] <= 0, 2.0, 3.0), np.where(np.arange(10) < 4, 10.0, 20.0)
    np.testing.assert_array_equal(out[:, 0], 1.0 + numbers + 2.0 * codes)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.filterwarnings("ignore:residuals grow")  # a line does not follow the jumps
def test_automatic_models_with_a_forest_are_saved_and_verified(rng, tmp_path, classes, monkeypatch):
    monkeypatch.setattr(module, "TREES", (10, 40))
    Z, y = steps(rng)
    table = np.column_stack([Z.astype(object), np.where(Z[:, 1] > 0, "north", "south")])
    new = table[rng.permutation(1500)[:30]].copy()
    new[:, 2] = rng.standard_normal(30)
    y = np.where(y > 0.5, "yes", "no") if classes else y + 0.1 * rng.standard_normal(1500)
    make = AutoKernelClassifier if classes else AutoKernelRegressor
    still = Clock(8.0, pace=1e-9)  # so that a busy machine finds the same
    model = fit_by_clock(make(8.0, machines=["gp", "linear"], random_state=0), table, y, still)
    assert isinstance(model.scaling_, module.Forest)
    gramian.save(model, tmp_path / "model")
    again = gramian.load(tmp_path / "model")
    np.testing.assert_array_equal(model.predict(new), again.predict(new))
    assert gramian.verify(model, table, y).converged
    for other in (
        {"machines": ["linear"]},
        {"groups": np.arange(1500) % 7},
    ):  # as asked for; splits that are not random
        plain = make(4.0, machines=other.get("machines", ["gp"]), random_state=0)
        fit_by_clock(plain, table, y, Clock(4.0, pace=1e-9), groups=other.get("groups"))
        assert not isinstance(plain.scaling_, module.Forest)


def test_a_forest_of_numbers_alone_joins_an_average_of_classes(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TREES", (10, 40))
    Z, y = steps(rng)
    labels = np.where(y + 0.3 * rng.standard_normal(1500) > 0.5, "yes", "no")
    still = Clock(8.0, pace=1e-9)
    model = fit_by_clock(AutoKernelClassifier(8.0, machines=["gp", "linear"], random_state=0), Z, labels, still)
    forests = [scaling for *_, scaling in model._parts if isinstance(scaling, module.Forest)]
    assert len(forests) == 1
    assert forests[0].transform(Z).shape == (1500, 1)
    assert not any(t.machine == "gp" and "forest" in t.name for t in model.leaderboard_)
    gramian.save(model, tmp_path / "model")
    np.testing.assert_array_equal(gramian.load(tmp_path / "model").predict_proba(Z), model.predict_proba(Z))
    assert "forest" in model.explain()
    if find_spec("onnxruntime"):
        assert export(model, tmp_path / "model.onnx", Z).difference <= 1e-9
    numbers = fit_by_clock(AutoKernelRegressor(8.0, machines=["gp", "linear"], random_state=0), Z, y, still)
    assert not any("forest" in t.name for t in numbers.leaderboard_)  # kernels are fitted to all rows


@pytest.mark.parametrize("what", ["elsewhere", "other"])
def test_trees_that_cannot_be_read_are_left_out_with_a_warning(rng, monkeypatch, what):
    class Changed(module.HistGradientBoostingRegressor):
        def fit(self, *rows):
            super().fit(*rows)
            if what == "elsewhere":
                del self._baseline_prediction
            return self

        def predict(self, X):
            return super().predict(X) + (0.1 if what == "other" else 0.0)

    monkeypatch.setattr(module, "HistGradientBoostingRegressor", Changed)
    Z, y = steps(rng)
    with pytest.warns(UserWarning, match="no forest joins the search: trees of scikit-learn"):
        assert made(Z, Numbers(y)) is None
