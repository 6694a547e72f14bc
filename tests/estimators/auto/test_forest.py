"""Cross-fitted forests of boosted trees, against plain loops, and as columns of automatic models."""

import numpy as np
import pytest

import gramian
from gramian import AutoKernelClassifier, AutoKernelRegressor
from gramian.estimators.auto import forest as module
from gramian.estimators.auto.candidates import Means
from gramian.estimators.auto.forest import FOLDS, add_trees, grow_forest, grow_tree, leaf_values
from gramian.estimators.auto.metrics import CLASSES, NUMBERS
from gramian.estimators.auto.response import Classes, Numbers
from gramian.estimators.auto.row_hashes import Folds
from gramian.estimators.auto.scaling import fit_scaling
from gramian.progress import Clock

MEANS = Means(10**9, 1, 0)


def steps(rng, n=1500):
    """Rows, and a number that jumps where two columns exceed thresholds."""
    Z = rng.standard_normal((n, 4)).round(3)
    return Z, 1.0 * (Z[:, 0] > 0.3) * (Z[:, 1] > 0.0) + 0.2 * Z[:, 2]


def made(Z, response, limit=20.0, means=MEANS):
    return grow_forest(fit_scaling("standard", Z, list(range(Z.shape[1]))), Z, response, limit, means)[0]


def by_loops(forest, Z, fold):
    """What the trees say, question by question."""
    out = np.empty((len(Z), forest.values.shape[2]))
    for i, z in enumerate(Z):
        each = []
        for k in range(FOLDS):
            total = forest.constants[k].copy()
            for t in range(forest.starts[k], forest.starts[k + 1]):
                answers = [z[c] > b for c, b in zip(forest.columns[t], forest.thresholds[t], strict=True)]
                total += forest.values[t, sum(1 << level for level, yes in enumerate(answers) if yes)]
            each.append(total)
        out[i] = np.mean(each, axis=0) if fold[i] < 0 else each[fold[i]]
    return out


def test_training_rows_have_the_trees_without_their_fold_and_new_rows_all(rng):
    Z, y = steps(rng)
    forest = made(Z, Numbers(y))
    new = rng.standard_normal((20, 4))
    fold = forest.folds(Z)
    assert set(fold) == set(range(FOLDS))
    assert np.all(forest.folds(new) == -1)
    np.testing.assert_allclose(forest.predictions(Z[:20]), by_loops(forest, Z[:20], fold[:20]), rtol=1e-12)
    np.testing.assert_allclose(forest.predictions(new), by_loops(forest, new, np.full(20, -1)), rtol=1e-12)
    columns = forest.transform(Z)
    assert columns.shape == (1500, 5)
    assert columns[:, 4].std() == pytest.approx(1.0)


def test_a_row_is_not_predicted_by_its_own_target(rng):
    Z, y = steps(rng)
    noise = rng.standard_normal(y.size)
    forest = made(Z, Numbers(noise))
    assert abs(np.corrcoef(forest.predictions(Z)[:, 0], noise)[0, 1]) < 0.1
    before, changed = made(Z, Numbers(y)), y.copy()
    changed[0] += 100.0
    fold = before.folds(Z)
    after = made(Z, Numbers(changed))
    k = fold[0]
    own = slice(after.starts[k], after.starts[k + 1])
    assert after.constants[k] == pytest.approx(after.constants.min())  # trees of this fold have not seen it
    assert np.abs(after.values[own]).max() * 10 < np.abs(after.values).max()


def test_the_question_is_the_one_of_the_largest_gain(rng):
    Z, G, w = rng.integers(0, 6, (3, 80)), rng.standard_normal((80, 2)), rng.exponential(size=80)
    asked = np.array([[0, 1, 2]])
    columns, bins, leaves = grow_tree(Z.astype(np.uint8), np.array([6, 6, 6]), G, w, asked, 2.0)

    def gain(f, b):
        parts = [Z[f] <= b, Z[f] > b]
        return sum(np.sum((w[p] @ G[p]) ** 2) / (w[p].sum() + 2.0) for p in parts)

    best = max(((f, b) for f in range(3) for b in range(5)), key=lambda each: gain(*each))
    assert (columns[0], bins[0]) == best
    np.testing.assert_array_equal(leaves, Z[best[0]] > best[1])
    H = rng.uniform(0.1, 1.0, G.shape)
    slow = [G[leaves == k].sum(axis=0) / (0.5 + H[leaves == k].sum(axis=0)) for k in range(2)]
    np.testing.assert_allclose(leaf_values(leaves, G, H, 0.5, 2), slow, rtol=1e-12)


def test_trees_follow_jumps_of_numbers_and_classes(rng):
    Z, y = steps(rng, 3000)
    forest = made(Z[:2000], Numbers(y[:2000]))
    f = forest.predictions(Z[2000:])[:, 0] * y[:2000].std() + y[:2000].mean()
    assert np.mean((f - y[2000:]) ** 2) < 0.02 * y.var()
    codes = (y > 0.5).astype(np.intp) + (y > 1.0)
    for count in (2, 3):
        own = np.minimum(codes, count - 1)
        logs = made(Z[:2000], Classes(own[:2000], count)).predictions(Z[2000:])
        assert logs.shape[1] == (1 if count == 2 else 3)
        found = logs[:, 0] > 0 if count == 2 else logs.argmax(axis=1)
        assert np.mean(found == own[2000:]) > 0.95


def test_weights_count_as_repetitions_in_leaves(rng):
    Z, y = steps(rng)
    heavy = np.where(Z[:, 3] > 0, 1e6, 1.0)
    forest = made(Z, Numbers(np.where(Z[:, 3] > 0, y, -y), NUMBERS["rmse"], heavy))
    assert np.abs(forest.constants - np.average(forest.constants, axis=0)).max() < 0.2
    assert np.corrcoef(forest.predictions(Z)[Z[:, 3] > 0, 0], y[Z[:, 3] > 0])[0, 1] > 0.95


def test_few_rows_many_classes_and_no_time_give_no_forest(rng):
    Z, y = steps(rng)
    assert made(Z[:900], Numbers(y[:900])) is None
    assert made(Z, Classes(np.arange(1500) % 20, 20, CLASSES["error"])) is None
    assert made(Z, Numbers(y), limit=1e-3) is None
    late = Means(10**9, 1, 0, clock=Clock(1e-9))
    assert made(Z, Numbers(y), means=late) is None


def test_constant_columns_and_the_same_seed(rng):
    Z, y = steps(rng)
    Z[:, 3] = 1.0
    a, b = (made(Z, Numbers(y), means=Means(10**9, jobs, 0)) for jobs in (1, 2))
    np.testing.assert_array_equal(a.transform(Z), b.transform(Z))
    assert not np.any(a.columns[np.isfinite(a.thresholds)] == 3)
    blank = np.ones((1500, 1))
    assert made(blank, Numbers(y)) is None


def test_folds_follow_from_values():
    Z = np.repeat(np.arange(50.0), 2)[:, None]
    folds = Folds.of_rows(Z, 4)
    fold = folds(Z)
    np.testing.assert_array_equal(fold[::2], fold[1::2])
    np.testing.assert_array_equal(folds(Z + 0.5), -1)


def test_add_trees_adds(rng):
    Z, out = rng.standard_normal((2, 10)), np.ones((10, 1))
    add_trees(Z, np.array([[1]]), np.array([[0.0]]), np.array([[[2.0], [3.0]]]), out)
    np.testing.assert_array_equal(out[:, 0], 1.0 + np.where(Z[1] > 0, 3.0, 2.0))


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
    model = make(8.0, machines=["gp", "linear"], random_state=0).fit(table, y)
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
        assert not isinstance(plain.fit(table, y, groups=other.get("groups")).scaling_, module.Forest)
