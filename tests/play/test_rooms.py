"""Every room: the Python that it shows gives the numbers that it shows, and a wrong question is explained."""

import contextlib
import io

import numpy as np
import pytest

from gramian.play import approximation, duality, feature_space, mixtures, own_data, plane, regression
from gramian.play.asked import MOST_POINTS, Asked
from gramian.play.rooms import ROOMS, warm_up

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def sample(name="moons", size=24, columns=3):
    return [row[:columns] for row in ROOMS["sample"](Asked({"sample": name, "size": size}))["points"]]


def reproduced(room, state):
    """The answer, after its script has given the same numbers."""
    answer = ROOMS[room](Asked(state))
    space = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(answer["python"], space)
    assert answer["numbers"].keys() == space["numbers"].keys()
    assert all(name in printed.getvalue() for name in answer["numbers"])
    for name, value in answer["numbers"].items():
        got = np.asarray(space["numbers"][name], dtype=float)
        np.testing.assert_allclose(got, np.asarray(value, dtype=float), rtol=1e-6, atol=1e-9, err_msg=name)
    return answer, space


@pytest.mark.parametrize("machine", plane.MACHINES)
@pytest.mark.parametrize("name", ["moons", "blobs"])
def test_plane_is_reproduced_by_its_script(machine, name):
    state = {"points": sample(name), "machine": machine, "kernel": "2*RBF(0.8) + Linear()", "C": 3.0, "steps": 50}
    answer, space = reproduced("plane", state)
    np.testing.assert_allclose(answer["picture"]["field"], space["field"], rtol=1e-6, atol=1e-9)
    assert len(answer["picture"]["field"]) == plane.GRID**2
    assert answer["numbers"]["errors"] <= 24


def test_plane_tells_kinds_and_weights():
    answer = plane.answer(Asked({"points": sample(), "C": 2.0}))
    kinds, weights = np.array(answer["picture"]["kinds"]), answer["numbers"]["lambda"]
    assert set(kinds) <= {"peripheral", "margin", "violator"}
    assert np.all(weights[kinds == "peripheral"] == 0.0)
    np.testing.assert_allclose(weights[kinds == "violator"], 2.0)
    steps = answer["picture"]["steps"]
    assert len(steps) > 1
    assert steps[-1][1] < steps[0][1]


@pytest.mark.parametrize("variant", plane.VARIANTS)
def test_pegasos_goes_on_from_where_it_was(variant):
    state = {"points": sample(), "machine": "pegasos", "variant": variant}
    gaps = [plane.answer(Asked({**state, "steps": steps}))["numbers"]["gap"] for steps in (5, 5000)]
    assert gaps[1] < gaps[0]


@pytest.mark.parametrize("model", regression.MODELS)
@pytest.mark.parametrize("loss", regression.LOSSES)
def test_regression_is_reproduced_by_its_script(model, loss):
    state = {"points": sample("wave", 12, 2), "model": model, "kernel": "1.0*RBF(0.7)", "loss": loss, "paths": 2}
    answer, _ = reproduced("regression", state)
    assert ("beside" in answer["numbers"]) == (loss != "none")
    assert ("paths" in answer["numbers"]) == (model == "process")


def test_process_and_ridge_are_one():
    state = {"points": sample("wave", 12, 2), "noise": 0.2}
    process, ridge = (regression.answer(Asked({**state, "model": m}))["numbers"] for m in ("process", "ridge"))
    for name in ("mean", "power", "worst_error"):
        np.testing.assert_allclose(process[name], ridge[name], atol=1e-6)
    assert np.all(ridge["worst_error"] < ridge["power"])


def test_map_of_the_evidence_has_the_evidence_of_the_process():
    points = sample("wave", 12, 2)
    columns, rows = np.logspace(*regression.OTHERS, regression.MAP), np.logspace(*regression.NOISES, regression.MAP)
    answer, _ = reproduced("evidence", {"points": points, "kernel": "RBF(1.0)", "row": 7})
    assert answer["picture"]["names"] == ["lengthscale", "noise"]
    for i in (0, 9, 20):
        state = {"points": points, "kernel": f"RBF({float(columns[i])!r})", "noise": float(rows[7])}
        evidence = regression.answer(Asked(state))["numbers"]["evidence"]
        assert answer["numbers"]["evidence"][i] == pytest.approx(evidence, rel=1e-6)


def test_learning_raises_the_evidence():
    state = {"points": sample("wave", 20, 2), "kernel": "1.0*RBF(5.0)", "noise": 1.0}
    before = regression.answer(Asked(state))["numbers"]["evidence"]
    found = regression.learn(Asked(state))
    after = regression.answer(Asked({**state, "kernel": found["kernel"]["text"], "noise": found["noise"]}))
    assert after["numbers"]["evidence"] > before + 1.0
    assert after["numbers"]["evidence"] == pytest.approx(found["numbers"]["evidence"], abs=0.01)


@pytest.mark.parametrize("covariance", mixtures.COVARIANCES)
@pytest.mark.parametrize("assignment", mixtures.ASSIGNMENTS)
@pytest.mark.parametrize("steps", [0, 6])
def test_mixtures_are_reproduced_by_their_script(covariance, assignment, steps):
    state = {"points": sample("blobs", 24, 2), "covariance": covariance, "assignment": assignment, "steps": steps}
    answer, _ = reproduced("mixtures", state)
    numbers = answer["numbers"]
    assert np.shape(numbers["covariances"]) == (3, 2, 2)
    if assignment == "soft":
        assert np.all(np.diff(numbers["log_likelihood"]) >= -1e-12)
        np.testing.assert_allclose(numbers["kl_e"], 0.0, atol=1e-9)  # an E-step closes the gap
    assert np.all(np.array(numbers["kl_e"]) >= -1e-9)
    assert np.all(np.array(numbers["kl_m"]) >= -1e-9)


@pytest.mark.parametrize("name", ["line", "moons", "blobs"])
def test_feature_space_is_reproduced_by_its_script(name):
    state = {"points": sample(name), "kernel": "RBF(0.8) + Polynomial(2)", "first": 4, "second": 18}
    answer, _ = reproduced("features", state)
    numbers = answer["numbers"]
    kernel, X = Asked(state).kernel, Asked(state).points
    a, b = X[3:4], X[17:18]
    assert numbers["k"] == pytest.approx(float(kernel(a, b)[0, 0]))
    square = kernel(a, a)[0, 0] - 2 * kernel(a, b)[0, 0] + kernel(b, b)[0, 0]
    assert numbers["distance"] ** 2 == pytest.approx(float(square))
    assert ("w" in numbers) == (name != "blobs")
    if name == "line":  # two thresholds would be needed; the square makes it one line
        assert numbers["errors_on_the_line"] > 0
        assert numbers["errors_lifted"] == 0


def test_best_threshold_against_all_thresholds():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, classes = rng.integers(-2, 3, 9).astype(float), np.append(rng.integers(0, 2, 7), [0, 1])
        cuts, positive = np.concatenate([[-3.0], np.arange(-2.0, 3.0) + 0.5]), classes == 1
        best = min(min(np.sum((x > c) != positive), np.sum((x <= c) != positive)) for c in cuts)
        points = np.column_stack([x, np.zeros(9), classes]).tolist()
        assert feature_space.answer(Asked({"points": points}))["numbers"]["errors_on_the_line"] == best


@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize("lam", [None, [0.3] * 8, [0.5, 0, 0, 0, 0, 0, 0.1, 0.9]])
def test_duality_is_reproduced_by_its_script(balance, lam):
    state = {"points": sample("moons", 8), "kernel": "RBF(1.0)", "C": 2.0, "lam": lam, "balance": balance}
    answer, _ = reproduced("duality", state)
    numbers = answer["numbers"]
    assert numbers["bound"] <= numbers["optimum"] * (1 + 1e-9) <= numbers["value"] * (1 + 1e-8)
    if balance:
        assert np.isfinite(numbers["bound"])
        assert numbers["balance"] == pytest.approx(0.0, abs=1e-12)
    assert np.all(np.diff(numbers["dual"]) >= -1e-9)
    assert numbers["primal"][-1] == pytest.approx(numbers["dual"][-1], rel=1e-3)
    assert len(numbers["primal"]) == len(answer["picture"]["steps"]) <= duality.SHOWN + 1


def test_duality_at_the_optimum_closes_the_bracket():
    state = {"points": sample("moons", 8), "kernel": "RBF(1.0)", "C": 2.0}
    best = duality.answer(Asked(state))["numbers"]
    numbers = duality.answer(Asked({**state, "lam": best["multipliers"].tolist()}))["numbers"]
    assert numbers["bound"] == pytest.approx(best["optimum"], rel=1e-6)
    assert numbers["value"] == pytest.approx(best["optimum"], rel=1e-6)


@pytest.mark.parametrize(
    "how",
    [
        *({"method": "fourier", "draw": draw, "features": 40} for draw in approximation.DRAWS),
        *({"method": "nystrom", "rule": rule, "landmarks": 6} for rule in approximation.RULES),
    ],
)
def test_approximation_is_reproduced_by_its_script(how):
    answer, _ = reproduced("approximation", {"points": sample("rings", 30), "kernel": "2*RBF(0.8)", **how})
    numbers = answer["numbers"]
    assert numbers["mean_error"] <= numbers["largest_error"]
    assert numbers["errors"][-1] < numbers["errors"][0]  # more is better
    if how["method"] == "nystrom":
        assert len(answer["picture"]["landmarks"]) == 6


@pytest.mark.parametrize("task", own_data.TASKS)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", ["moons", "blobs"])
def test_own_data_is_reproduced_by_its_script(task, which, name):
    view = [-300.0, 300.0, -3.0, 3.0]
    rows = [[100 * x, y, c] for x, y, c in sample(name)]
    targets = [x / 50 + y for x, y, _ in rows]
    machine = own_data.MACHINES[task][which]
    state = {"points": rows, "targets": targets, "view": view, "task": task, "machine": machine, "kernel": "RBF(0.5)"}
    answer, _ = reproduced("own", state)
    numbers = answer["numbers"]
    assert numbers["errors"] < 8 if task == "classes" else numbers["error"] < 0.5 * numbers["deviation"]


@pytest.mark.parametrize(
    ("room", "state"),
    [
        ("plane", {"machine": "svc"}),
        ("plane", {"machine": "logistic"}),
        ("plane", {"machine": "ramp"}),
        ("plane", {"machine": "pegasos", "steps": 5000}),
        ("regression", {"loss": "quantile"}),
        ("learn", {}),
        ("duality", {}),
        ("mixtures", {"steps": 60}),
        ("own", {"machine": "logistic"}),
    ],
)
def test_solvers_are_stopped_in_the_middle(room, state):
    """What the listener raises ends the solve at its first report."""
    heard = []

    def stop(trace):
        heard.append(trace.label)
        raise KeyError("nobody waits")

    with pytest.raises(KeyError, match="nobody waits"):
        ROOMS[room](Asked({"points": sample("moons", 12), **state}, stop))
    assert len(heard) == 1


def test_sliders_change_the_expression():
    state = {"points": sample(), "kernel": "2*RBF(0.5) + Linear()"}
    answer = plane.answer(Asked(state))
    assert [s["name"] for s in answer["kernel"]["sliders"]] == ["left.factor", "left.kernel.lengthscale"]
    moved = plane.answer(Asked({**state, "sliders": {"left.kernel.lengthscale": 0.123456}}))
    assert moved["kernel"]["text"] == "2.0 * RBF(0.1235) + Linear()"


def test_warming_up_asks_every_room():
    warm_up()


def test_samples_are_drawn_again_by_their_seed():
    for name in ("moons", "rings", "chessboard", "blobs", "line", "wave"):
        assert sample(name) == sample(name)
        assert len(Asked({"points": sample(name)}).points)  # all within the picture


POINTS = [[0.0, 0.0, 0], [1.0, 1.0, 1]]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"points": []}, "no points yet"),
        ({}, "no points yet"),
        ({"points": "x"}, "no points yet"),
        ({"points": [[0, 0, 0], [3.5, 0, 1]]}, "point 2 at .* lies outside the picture"),
        ({"points": [[0, 0, 0], [float("nan"), 0, 1]]}, "point 2 must be a number"),
        ({"points": [[0, 0, 0], ["a", 0, 1]]}, "point 2 must be a number"),
        ({"points": [[0, 0, 0], [1, 1]]}, "list of"),
        ({"points": [[0, 0], [1, 1]]}, "needs a class"),
        ({"points": [[0, 0, 0.5], [1, 1, 1]]}, "class is a whole number"),
        ({"points": [[0, 0, 0]] * (MOST_POINTS + 1)}, "at most"),
        ({"points": [[0, 0, 1], [1, 1, 1]]}, "two classes"),
        ({"points": POINTS, "kernel": "RBF("}, "not a kernel expression"),
        ({"points": POINTS, "kernel": "__import__('os').system('true')"}, "no such kernel"),
        ({"points": POINTS, "kernel": "RBFF(1.0)"}, "no such kernel"),
        ({"points": POINTS, "kernel": 3}, "kernel must be a text"),
        ({"points": POINTS, "kernel": "RBF(1.0)", "sliders": {"nothing": 1.0}}, "the sliders of"),
        ({"points": POINTS, "C": -1}, "C must be between"),
        ({"points": POINTS, "C": "big"}, "C must be a number"),
        ({"points": POINTS, "C": True}, "C must be a number"),
        ({"points": POINTS, "machine": "forest"}, "machine must be one of"),
        ({"points": POINTS, "machine": "pegasos", "steps": 1.5}, "steps must be a whole number"),
        ({"points": POINTS, "view": [1, 0, 0, 1]}, "left < right"),
        ({"points": POINTS, "view": "all"}, "view must be"),
    ],
)
def test_wrong_questions_are_explained(state, message):
    with pytest.raises(ValueError, match=message):
        plane.answer(Asked(state))


def test_a_mixture_needs_points():
    with pytest.raises(ValueError, match="3 components need at least 3 points"):
        mixtures.answer(Asked({"points": [[0, 0], [1, 1]]}))


def test_a_map_needs_two_sides():
    with pytest.raises(ValueError, match="different hyperparameters"):
        regression.evidence(Asked({"points": sample("wave", 12, 2), "across": 1, "up": 1}))


@pytest.mark.parametrize(
    ("room", "state", "message"),
    [
        ("features", {"points": POINTS}, "3 to 300 points"),
        ("duality", {"points": POINTS * 7}, "at most 12 points"),
        ("duality", {"points": [[0, 0, 0], [0, 1, 1], [1, 0, 2]]}, "exactly two classes"),
        ("duality", {"points": POINTS, "lam": [-1.0]}, "must be between 0"),
        ("approximation", {"points": POINTS[:1]}, "2 to 300 points"),
        ("approximation", {"points": POINTS, "kernel": "Linear()"}, "Linear"),
        ("own", {"points": POINTS, "task": "numbers", "targets": [1.0]}, "one for each point"),
        ("own", {"points": POINTS, "task": "numbers", "targets": [1.0, None]}, "must be a number"),
        ("own", {"points": POINTS, "task": "numbers", "targets": [1.0, 1.0]}, "two different targets"),
    ],
)
def test_wrong_questions_of_other_rooms(room, state, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ROOMS[room](Asked(state))
