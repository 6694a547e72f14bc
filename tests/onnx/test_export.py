"""ONNX files: the model's numbers in double precision, for every kernel and estimator that can be written."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gramian import (
    SVC,
    SVR,
    AutoKernelClassifier,
    AutoKernelRegressor,
    FourierFeatures,
    GaussianMixture,
    GaussianProcessRegressor,
    KernelInterpolator,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelRidge,
    NuSVC,
    NuSVR,
    Nystroem,
    PolynomialMap,
    save,
)
from gramian import kernels as gk
from gramian.cli import main
from gramian.estimators.auto.average import Member
from gramian.estimators.auto.forest import FewLevels, Forest, LevelCodes, Trees, joined
from gramian.estimators.auto.row_hashes import Folds
from gramian.estimators.auto.scaling import fit_scaling
from gramian.estimators.auto.tables import array_columns

runtime = pytest.importorskip("onnxruntime", reason="pip install '.[onnx]'")
from gramian.onnx import export  # noqa: E402
from gramian.onnx.forest import predictions  # noqa: E402
from gramian.onnx.graph import Graph  # noqa: E402
from gramian.onnx.machines import Output  # noqa: E402

RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(0.1, 2.0, (40, 3)), RNG.uniform(0.1, 2.0, (15, 3))
NUMBERS, COUNTS = np.sin(X[:, 0]) + X[:, 1], np.round(4 * X[:, 2])
TWO, THREE = np.where(X[:, 0] > 1, "yes", "no"), np.digitize(X.sum(axis=1), [2.5, 3.5]) * 10
SMALL = Nystroem(n_components=12, random_state=0)
WAVES = FourierFeatures(n_components=13, random_state=0)


def answers(path, rows=NEW):
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": np.asarray(rows, dtype=np.float64)}), strict=True))


KERNELS = [
    gk.RBF(0.7),
    gk.RBF([0.5, 1.0, 2.0]),
    *(gk.Matern(0.9, nu=nu) for nu in (0.5, 1.5, 2.5, np.inf)),
    gk.RationalQuadratic(0.8, 1.3),
    gk.Periodic(1.1, period=0.6),
    gk.Laplace([0.5, 1.0, 2.0]),
    gk.PowerExponential(0.7, p=1.5, q=1.0),
    gk.Categorical([1.0, 0.5, 2.0]),
    gk.Linear(),
    gk.Polynomial(2, 0.5, 1.0),
    2.0 * gk.RBF(0.5) + gk.Linear() * gk.Matern(1.0, nu=1.5) + gk.Constant(0.3) + gk.White(0.1),
    (gk.Linear() + 1.0) ** 3,
    gk.exp(gk.RBF(1.0)),
    gk.exp(gk.Linear()).normalized(),
    gk.Polynomial(2).normalized(),
    gk.polynomial(gk.RBF(1.0), [0.5, 0.2, 0.1]),
    gk.RBF(0.5).on(0, 2) * gk.Linear().on(1),
    gk.RBF(1.0).metric([[1.0, 0.5], [0.0, 1.0], [0.3, -0.2]]),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel_in_a_process(kernel, tmp_path):
    rows, new = (np.round(2 * X), np.round(2 * NEW)) if isinstance(kernel, gk.Categorical) else (X, NEW)
    model = GaussianProcessRegressor(kernel + gk.White(0.05), optimizer=None, normalize_y=True).fit(rows, NUMBERS)
    told = export(model, tmp_path / "model.onnx", new)
    found = answers(told.path, new)
    mean, deviation = model.predict(new, return_std=True)
    np.testing.assert_allclose(found["prediction"], mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["deviation"], deviation, rtol=1e-7)
    assert told.difference <= 1e-9


MODELS = {
    "ridge": (KernelRidge(0.1, kernel="rbf"), NUMBERS),
    "ridge of two targets, with constants": (
        KernelRidge(0.1, kernel="poly", degree=2, fit_intercept=True),
        np.column_stack([NUMBERS, COUNTS]),
    ),
    "ridge through landmarks": (KernelRidge(0.1, kernel="rbf", approximation=SMALL), NUMBERS),
    "ridge through waves": (KernelRidge(0.1, kernel="rbf", approximation=WAVES), NUMBERS),
    "linear": (KernelRidge(0.1, approximation=PolynomialMap(1)), NUMBERS),
    "interpolation": (KernelInterpolator(gk.Matern(0.3, nu=2.5)), NUMBERS),
    "process": (GaussianProcessRegressor(optimizer=None, alpha=0.1), NUMBERS),
    "svr": (SVR(), NUMBERS),
    "svr through landmarks": (SVR(approximation=SMALL), NUMBERS),
    "nu-svr": (NuSVR(kernel="linear"), NUMBERS),
    "svc": (SVC(), TWO),
    "svc of three": (SVC(), THREE),
    "svc of three, ties": (SVC(break_ties=True), THREE),
    "svc of three, pairs": (SVC(decision_function_shape="ovo", kernel="poly"), THREE),
    "svc through landmarks": (SVC(approximation=SMALL), THREE),
    "svc through waves": (SVC(approximation=WAVES), TWO),
    "nu-svc": (NuSVC(nu=0.2), TWO),
    "quantile": (KernelMachineRegressor("quantile"), NUMBERS),
    "poisson": (KernelMachineRegressor("poisson"), COUNTS),
    "huber through waves": (KernelMachineRegressor("huber", approximation=WAVES), NUMBERS),
    "logistic": (KernelMachineClassifier("logistic"), TWO),
    "logistic of three": (KernelMachineClassifier("logistic"), THREE),
    "hinge of three": (KernelMachineClassifier("hinge"), THREE),
    "logistic through landmarks": (KernelMachineClassifier("logistic", approximation=SMALL), TWO),
}


@pytest.mark.parametrize(("model", "y"), MODELS.values(), ids=MODELS)
def test_every_model(model, y, tmp_path):
    told = export(model.fit(X, y), tmp_path / "model.onnx")
    found = answers(told.path)
    assert tuple(found) == told.outputs
    if "prediction" in found:
        np.testing.assert_allclose(found["prediction"], model.predict(NEW), rtol=1e-9, atol=1e-12)
        return
    np.testing.assert_array_equal(found["label"], model.predict(NEW))
    np.testing.assert_allclose(found["decision"], model.decision_function(NEW), rtol=1e-9, atol=1e-10)
    if "probabilities" in found:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(NEW), rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GaussianMixture().fit(X), "these can: SVC"),
        (lambda: KernelRidge(kernel="precomputed").fit(X @ X.T, NUMBERS), "fitted to something else"),
        (lambda: SVC(kernel=gk.Spectrum(2)).fit(["ab", "ba", "aa", "bb"], [0, 1, 0, 1]), "fitted to something else"),
        (lambda: KernelRidge(kernel=gk.Matern(1.0, nu=0.7)).fit(X, NUMBERS), "cannot be written as ONNX; these can"),
        (lambda: GaussianProcessRegressor(trend="linear", optimizer=None).fit(X, NUMBERS), "without trend="),
        (lambda: KernelRidge(), "not fitted"),
    ],
)
def test_what_cannot_be_written_is_told(make, words, tmp_path):
    with pytest.raises((TypeError, ValueError), match=words):
        export(make(), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


GAPS, NEW_GAPS = (np.column_stack([np.exp(2 * rows), np.round(rows[:, 0])]) for rows in (X, NEW))
GAPS[::7, 1] = NEW_GAPS[::4, 1] = np.nan
AUTOMATIC = {
    "process": ("robust", AutoKernelRegressor, {"machines": ["gp"]}, NUMBERS),
    "ridge, log": ("normal", AutoKernelRegressor, {"machines": ["ridge"], "target_scale": "log"}, np.exp(NUMBERS)),
    "tube": ("standard", AutoKernelRegressor, {"machines": ["svm"], "scoring": "pinball-0.8"}, NUMBERS),
    "linear": ("robust", AutoKernelRegressor, {"machines": ["linear"]}, NUMBERS),
    "two classes": ("robust", AutoKernelClassifier, {"machines": ["machine"], "scoring": "f1"}, TWO),
    "pairs": ("normal", AutoKernelClassifier, {"machines": ["svm"], "class_weight": "balanced"}, THREE),
    "codes": ("robust", AutoKernelClassifier, {"machines": ["ridge"]}, THREE),
    "logistic": ("standard", AutoKernelClassifier, {"machines": ["linear"]}, TWO),
}


@pytest.mark.parametrize(("scaling", "make", "options", "y"), AUTOMATIC.values(), ids=AUTOMATIC)
def test_automatic_models_of_numbers(scaling, make, options, y, tmp_path):
    """Columns as they come, with gaps, on every scale; an average of two machines is made by hand."""
    model = make(None, cv=2, random_state=0, n_jobs=1, **options).fit(GAPS, y)
    places = list(range(model.columns_.width))
    model.scaling_ = fit_scaling(scaling, model.columns_.transform(array_columns(GAPS)), places)
    if scaling == "robust":
        other = Member("again", model.machine_, fit_scaling("standard", GAPS[:, [0, 1, 2, 3, 3]], places), model.best_)
        other = replace(other, scaling=replace(other.scaling, mean=np.zeros(5), deviation=np.full(5, 9.0)))
        model.others_, model.weights_ = (other,), np.array([0.7, 0.3])
    told = export(model, tmp_path / "model.onnx")
    assert told.difference <= 1e-9
    found = answers(told.path, NEW_GAPS)
    if make is AutoKernelRegressor:
        mean, std = model.predict(NEW_GAPS, return_std=True)
        np.testing.assert_allclose(found["prediction"], mean, rtol=1e-9)
        assert ("deviation" in found) == (model.machine_ == "gp")
        if "deviation" in found:
            np.testing.assert_allclose(found["deviation"], std, rtol=1e-7)
        return
    np.testing.assert_array_equal(found["label"], model.predict(NEW_GAPS))
    np.testing.assert_allclose(found["decision"], model.decision_function(NEW_GAPS), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(NEW_GAPS), rtol=1e-9)


@pytest.mark.parametrize("log", [False, True])
def test_deviations_far_below_the_prior_one_differ_by_its_rounding_only(log, tmp_path):
    """A smooth function without noise: its variance is a difference of two numbers that agree to eight digits."""
    rows = np.random.default_rng(0).standard_normal((150, 3))
    y, kernel = rows[:, 0] ** 2 + rows[:, 1], 300.0 * gk.Matern(40.0, nu=1.5) + gk.White(1e-6)
    options = {"kernel": kernel, "machines": ["gp"], "target_scale": "log" if log else "linear"}
    model = AutoKernelRegressor(None, cv=2, random_state=0, n_jobs=1, **options).fit(rows, np.exp(y) if log else y)
    told = export(model, tmp_path / "model.onnx")
    assert told.outputs == ("prediction", "deviation")
    assert told.difference <= 1e-9


def mixed(n, rng):
    """A table with numbers, dates, levels and gaps, and what it says about a number."""
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "size": rng.uniform(20, 200, n),
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "city": rng.choice(["Ulm", "Köln", "Bonn"], n),
            "street": rng.choice([f"s{i}" for i in range(15)], n),
            "zip": rng.choice([10115.0, 20095.0], n),
            "garden": rng.random(n) < 0.5,
        }
    )
    table.loc[::7, "size"] = np.nan
    table.loc[::5, "city"] = None
    y = np.nan_to_num(table["size"]) / 50 + (table["city"] == "Ulm") + table["street"].str[1:].astype(int) / 9
    return table, np.asarray(np.sin(y) + 0.01 * (table["sold"] - table["sold"][0]).dt.days) + rng.standard_normal(n)


@pytest.mark.parametrize("machine", ["gp", "linear"])
def test_tables_with_dates_and_levels(machine, tmp_path):
    """Each column is an input, categories as texts, dates as days since 1970."""
    table, y = mixed(600, np.random.default_rng(0))
    kernel = 2.0 * gk.Matern(3.0) + gk.White(0.1) if machine == "gp" else None
    options = {"columns": {"zip": "category"}, "machines": [machine], "random_state": 0, "n_jobs": 1}
    model = AutoKernelRegressor(None, cv=2, kernel=kernel, **options).fit(table, y)
    assert {type(column).__name__ for column in model.columns_.columns} > {"Category", "LevelMeans", "NumberColumn"}
    new = mixed(20, np.random.default_rng(1))[0]
    new.loc[3, ["city", "street"]] = "another"
    assert export(model, tmp_path / "model.onnx").difference <= 1e-9
    assert export(model, tmp_path / "model.onnx", table).difference <= 1e-9  # those of the fit too, as if they were new
    days = (new["sold"] - pd.Timestamp("1970-01-01")).dt.days
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    given = {"size": new["size"], "sold": days, "garden": new["garden"]}
    given = {name: values.to_numpy(dtype=float)[:, None] for name, values in given.items()}
    texts = {"city": new["city"].fillna(""), "street": new["street"], "zip": new["zip"].astype(int).astype(str)}
    given |= {name: values.to_numpy(dtype=object)[:, None] for name, values in texts.items()}
    assert {each.name for each in session.get_inputs()} == set(given)  # no id
    with pytest.warns(UserWarning, match="not seen"):
        np.testing.assert_allclose(session.run(["prediction"], given)[0], model.predict(new), rtol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 1e-3])
def test_rounding_of_large_terms_is_allowed_and_no_more(shift, tmp_path, monkeypatch):
    """A nearly linear process, whose terms are much larger than their sum."""
    model = GaussianProcessRegressor(1e6 * gk.Matern(1e3, nu=1.5) + gk.White(1e-4), optimizer=None).fit(X, NUMBERS)
    monkeypatch.setattr(type(model), "predict", shifted(type(model).predict, shift))
    if shift:
        with pytest.raises(ValueError, match="the graph differs from the model by"):
            export(model, tmp_path / "model.onnx")
    else:
        assert 1e-9 < export(model, tmp_path / "model.onnx").difference < 1e-6


def shifted(predict, shift):
    def moved(self, rows, return_std=False):
        found = predict(self, rows, return_std=return_std)
        return (found[0] + shift, found[1]) if return_std else found + shift

    return moved


def test_what_tables_cannot_hold_is_refused(tmp_path):
    words = [f"{a} {b} {c} number" for a in "abcde" for b in "fghi" for c in "jk"]
    table = pd.DataFrame({"size": X[:, 0], "decision": np.where(X[:, 1] > 1, "red", "blue"), "words": words})
    options = {"machines": ["linear"], "n_jobs": 1, "random_state": 0}
    model = AutoKernelClassifier(None, columns={"words": "text"}, **options).fit(table, TWO)
    with pytest.raises(ValueError, match=r"free text, but words is read as: text.*'drop'.*gramian serve"):
        export(model, tmp_path / "model.onnx")
    model = AutoKernelClassifier(None, columns={"words": "drop"}, **options).fit(table, TWO)
    with pytest.raises(ValueError, match="a column is called 'decision', as an output of the graph is; rename it"):
        export(model, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_forests(tmp_path):
    """Questions about numbers and about codes of levels, a tree of one leaf, two outputs, two folds."""
    rng = np.random.default_rng(0)
    means = np.sort(rng.standard_normal(9))
    levels = (LevelCodes(1, means, rng.permutation(9).astype(np.int32)), FewLevels(2, 3))
    sets = np.packbits(np.arange(256)[None] % np.array([[2], [3], [300]]) == 1, axis=1)
    sets[2] = 0  # a set without a code
    ask = Trees(*(np.array(each) for each in ([2, 0, -1, 0, -1, -1, -1], [0.3, 0, 1.0, 2, 2.0, 3.0, 4.0])), *[None] * 3)
    ask = ask._replace(
        columns=ask.columns.astype(np.int32),
        children=np.array([[1, 3], [2, 4], [0, 0], [5, 6], [0, 0], [0, 0], [0, 0]], np.int32),
        sets=sets,
        roots=np.zeros(1, np.int32),
    )
    leaf = Trees(np.array([-1], np.int32), np.array([7.0]), np.zeros((1, 2), np.int32), sets[:0], np.zeros(1, np.int32))
    few = ask._replace(columns=np.where(np.arange(7) == 3, 1, ask.columns), thresholds=ask.thresholds.copy())
    few.thresholds[3] = 1
    trees = joined([ask, leaf, few, ask], 2)
    constants, deviation = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([2.0, 0.5])
    folds = Folds(np.zeros(0, dtype=np.int64), 2)
    forest = Forest(None, levels, *trees, np.array([0, 2, 4]), constants, deviation, folds)
    Z = np.column_stack([rng.standard_normal(40), rng.choice(means, 40), np.eye(3)[rng.integers(0, 3, 40)]])
    g = Graph()
    value = predictions(g, forest, g.input("X", np.float64, 5))
    (tmp_path / "forest.onnx").write_bytes(g.model({"out": Output(value, 2)}, {}).SerializeToString())
    np.testing.assert_allclose(answers(tmp_path / "forest.onnx", Z)["out"], forest.transform(Z), rtol=1e-14)


def test_the_command(tmp_path, capsys):
    save(SVR().fit(X, NUMBERS), tmp_path / "model")
    out = tmp_path / "m.onnx"
    assert main(["export", str(tmp_path / "model"), "--onnx", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["outputs"] == ["prediction"]
    assert said["difference"] < 1e-9
    assert out.exists()
    assert main(["export", str(tmp_path / "model"), "--onnx", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    pd.DataFrame(NEW, columns=list("abc")).to_csv(tmp_path / "new.csv", index=False)
    assert main(["export", str(tmp_path / "model"), str(tmp_path / "new.csv"), "--onnx", str(out), "--force"]) == 0
    assert "on 15 rows within" in capsys.readouterr().out
