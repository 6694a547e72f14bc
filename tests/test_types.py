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


@pytest.fixture(scope="module")
def said(tmp_path_factory, pytestconfig):
    """What mypy says of the program, with the type of every ``fit`` revealed."""
    names = [name for name in gramian.__all__ if hasattr(getattr(gramian, name), "fit")]
    shown = "".join(f"import gramian\nreveal_type(gramian.{name}().fit)\n" for name in names)
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM + shown)
    cache = pytestconfig.cache.mkdir("mypy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPYPATH", str(SOURCE))
        patch.chdir(program.parent)
        out, err, _ = api.run(["--strict", "--follow-imports=silent", f"--cache-dir={cache}", str(program)])
    assert not err
    return names, out


def test_the_one_mistake_is_found_and_nothing_else(said):
    errors = [line for line in said[1].splitlines() if ": error:" in line]
    assert len(errors) == 1
    assert 'Missing positional argument "X" in call to "fit" of "KernelRidge"' in errors[0]


def test_fit_returns_the_estimator_itself(said):
    names, out = said
    types = re.findall(r'Revealed type is "(.*)"', out)
    assert len(types) == len(names) > 15
    for name, found in zip(names, types, strict=True):
        assert re.search(rf"-> gramian\.[\w.]*\b{name}$", found), found
