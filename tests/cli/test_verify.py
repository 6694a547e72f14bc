"""``gramian verify``: both certificates side by side, and the exit code."""

import json

import numpy as np

from gramian import SVR, KernelRidge, load, save
from gramian.cli import main

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = X[:, 0] + 0.1 * RNG.standard_normal(60)


def table(path, **more):
    names = ["x0", "x1", "y", *more]
    values = np.column_stack([X, Y, *more.values()])
    np.savetxt(path, values, delimiter=",", header=",".join(names), comments="", fmt="%.17g")
    return str(path)


def test_two_certificates_side_by_side(tmp_path, capsys):
    data = table(tmp_path / "rows.csv")
    save(KernelRidge(0.1, kernel="rbf").fit(X, Y), tmp_path / "model")
    assert main(["verify", str(tmp_path / "model"), data, "--target", "y"]) == 0
    out = capsys.readouterr().out
    assert "violation  saved" in out
    assert "They agree." in out


def test_a_false_certificate_is_exit_code_1(tmp_path, capsys):
    data = table(tmp_path / "rows.csv")
    model = SVR().fit(X, Y)
    model.dual_coef_ = 1.5 * model.dual_coef_
    save(model, tmp_path / "model")
    assert main(["verify", str(tmp_path / "model"), data, "--target", "y", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["agree"] is False
    assert found["said"]["converged"]
    assert "infeasible" in found["verified"]["message"] or "gap" in found["verified"]["message"]


def test_the_fitted_model_of_the_command_and_weights(tmp_path):
    data = table(tmp_path / "rows.csv")
    folder = str(tmp_path / "auto")
    assert main(["fit", data, "--target", "y", "--out", folder, "--time-limit", "3", "--model", "ridge"]) == 0
    assert load(folder).certificate_.converged
    assert main(["verify", folder, data]) == 0
    weight = RNG.uniform(0.5, 2.0, 60)
    weighted = table(tmp_path / "weighted.csv", w=weight)
    save(KernelRidge(0.1, kernel="rbf").fit(X, Y, weight), tmp_path / "model")
    assert main(["verify", str(tmp_path / "model"), weighted, "--target", "y", "--weight", "w"]) == 0


def test_weights_and_an_order_in_time_are_remembered(tmp_path, capsys):
    noise = np.random.default_rng(1)
    data = table(tmp_path / "rows.csv", w=noise.uniform(0.5, 2.0, 60), day=noise.permutation(60))
    fit = ["fit", data, "--target", "y", "--model", "ridge", "--kernel", "RBF(2.0)", "--time-column", "day"]
    for name, options in {"plain": [], "weighted": ["--weight", "w"]}.items():
        assert main([*fit, *options, "--out", str(tmp_path / name)]) == 0
        assert main(["verify", str(tmp_path / name), data]) == 0
    capsys.readouterr()
    names, values = ["x0", "w", "y"], np.ones((9, 3))
    np.savetxt(tmp_path / "other.csv", values, delimiter=",", header=",".join(names), comments="")
    for name in ("plain", "weighted"):
        assert main(["verify", str(tmp_path / name), str(tmp_path / "other.csv")]) == 2
        assert "other.csv has no column 'day'" in capsys.readouterr().err
    np.savetxt(tmp_path / "other.csv", values, delimiter=",", header="day,w,y", comments="")
    assert main(["verify", str(tmp_path / "plain"), str(tmp_path / "other.csv")]) == 2
    assert "other.csv has no column 'x0'" in capsys.readouterr().err
