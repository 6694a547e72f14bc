"""What a type checker in strict mode says of a user's program."""

import re
from pathlib import Path

import pytest

import gramian

api = pytest.importorskip("mypy.api", reason="mypy, which is in the test extra, is not installed")

SOURCE = Path(gramian.__file__).parents[1]
PROGRAM = """\
import numpy as np
from gramian import SVC, KernelRidge
from gramian.certificates import Certificate
from gramian.kernels import RBF, Kernel
from gramian.model_selection import KernelSearchCV

X, y = np.zeros((4, 2)), np.arange(4.0)


def fitted(kernel: Kernel) -> KernelRidge:
    return KernelRidge(0.1, kernel=kernel, memory="1GB").fit(X, y)


def proof(model: KernelRidge) -> Certificate:
    return model.certificate_


print(proof(fitted(2.0 * RBF(0.5))).converged)
search: KernelSearchCV = KernelSearchCV(SVC(C=2.0), {"gamma": [0.1, 1.0]}).fit(X, y > 1)
KernelRidge().fit(y=y)
"""
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples", "transform")
OF_BLOCKS = """\
process = gramian.GaussianProcessRegressor().fit(X, y)
reveal_type(process.predict(X, return_std=True))
reveal_type(process.predict(X, return_interval=0.9))
reveal_type(process.predict("rows.parquet"))
reveal_type(KernelRidge().predict("rows.parquet"))
"""
ARRAY = r"numpy\.ndarray\["


@pytest.fixture(scope="module")
def said(tmp_path_factory, pytestconfig):
    """What mypy says of the program: the names of what was revealed, with their types, and its errors."""
    names = [name for name in gramian.__all__ if hasattr(getattr(gramian, name), "fit")]
    calls = [f"{name}().{m}" for name in names for m in METHODS if hasattr(getattr(gramian, name), m)]
    revealed = [f"{name}().fit" for name in names] + [f"{call}(X)" for call in calls]
    shown = "".join(f"reveal_type(gramian.{what})\n" for what in revealed)
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(f"{PROGRAM}import gramian\n{shown}{OF_BLOCKS}")
    cache = pytestconfig.cache.mkdir("mypy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPYPATH", str(SOURCE))
        patch.chdir(program.parent)
        out, err, _ = api.run(["--strict", "--follow-imports=silent", f"--cache-dir={cache}", str(program)])
    assert not err
    revealed += [line[12:-1] for line in OF_BLOCKS.splitlines()[1:]]
    types = dict(zip(revealed, re.findall(r'Revealed type is "(.*)"', out), strict=True))
    return types, [line for line in out.splitlines() if ": error:" in line]


def test_the_one_mistake_is_found_and_nothing_else(said):
    errors = said[1]
    assert len(errors) == 1
    assert 'Missing positional argument "X" in call to "fit" of "KernelRidge"' in errors[0]


def test_fit_returns_the_estimator_itself(said):
    fits = {what.partition("()")[0]: found for what, found in said[0].items() if what.endswith(".fit")}
    assert len(fits) > 15
    for name, found in fits.items():
        assert re.search(rf"-> gramian\.[\w.]*\b{name}$", found), found


def test_predictions_and_features_are_arrays(said):
    calls = {what: found for what, found in said[0].items() if what.endswith("(X)")}
    assert calls.pop("PolynomialMap().transform(X)") == "Any"  # of sparse rows it is sparse
    assert len(calls) > 40
    assert {what: found for what, found in calls.items() if not re.match(ARRAY, found)} == {}


def test_more_than_the_mean_is_a_tuple_and_of_blocks_there_are_results(said):
    std, interval, *of_blocks = list(said[0].values())[-4:]
    assert [len(re.findall(ARRAY, found)) for found in (std, interval)] == [2, 3]
    assert all(found.startswith("tuple[") for found in (std, interval))
    assert of_blocks == ["gramian.data.predictions.Results"] * 2
