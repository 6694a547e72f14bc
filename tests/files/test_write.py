"""What save refuses, and what an interrupted save leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.datasets import make_regression
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, LeaveOneOut, LeavePOut, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian
from fitted import NEW, X, y
from gramian import GaussianProcessRegressor, KernelMachineRegressor, KernelRidge
from gramian.data.output import unfinished
from gramian.files import ModelFileError, inspect
from gramian.kernels import RBF, Callable, Linear
from gramian.losses import Squared


class Own(Squared):
    pass


class OwnRidge(KernelRidge):
    pass


def similarity(a: Any, b: Any) -> float:
    return float(a @ b)


def own_search(objective: Any, start: Any, bounds: Any) -> Any:
    return start, objective(start, eval_gradient=False)


REFUSED = {
    "callable kernel": (lambda: KernelRidge(kernel=similarity).fit(X, y), "model.kernel is the function similarity"),
    "kernel of a function": (lambda: KernelRidge(kernel=Callable(similarity)).fit(X, y), "use a kernel of gramian"),
    "own map": (lambda: KernelRidge(kernel=Linear().compose(np.abs)).fit(X, y), "code that cannot be written"),
    "own loss": (lambda: KernelMachineRegressor(loss=Own()).fit(X, y), "Own.* use a loss of gramian.losses"),
    "own optimizer": (
        lambda: GaussianProcessRegressor(1.0 * RBF(1.0), optimizer=own_search).fit(X, y),
        "optimizer is the function own_search.*name an optimizer",
    ),
    "own class": (lambda: OwnRidge().fit(X, y), "expected a fitted estimator of gramian, got a .*OwnRidge"),
    "pipeline": (lambda: make_pipeline(StandardScaler(), KernelRidge()).fit(X, y), "Pipeline of scikit-learn"),
    "somebody else's": (lambda: Ridge().fit(X, y), "expected a fitted estimator of gramian, got a sklearn"),
    "an array": (lambda: X, "expected a fitted estimator"),
    "a part": (lambda: KernelRidge().fit(X, y).certificate_, "expected a fitted estimator"),
    "attached object": (lambda: _with(KernelRidge().fit(X, y), object()), "model.note_ is a builtins.object"),
    "structured array": (
        lambda: _with(KernelRidge().fit(X, y), np.zeros(2, "f8,f8")),
        "note_ is an array of dtype",
    ),
    "masked array": (lambda: _with(KernelRidge().fit(X, y), np.ma.masked_array([1.0], [True])), "masked array"),
    "circle": (lambda: _circle(), "more than 60 objects deep"),
}


def _with(model: Any, note: Any) -> Any:
    model.note_ = note
    return model


def _circle() -> Any:
    model = KernelRidge().fit(X, y)
    model.note_ = [model]
    return model


@pytest.mark.filterwarnings("ignore:GaussianProcessRegressor. NOT converged")  # by a search of its own
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_data_is_refused_and_nothing_is_written(case: str, tmp_path: Path) -> None:
    make, message = REFUSED[case]
    with pytest.raises(TypeError, match=message):
        gramian.save(make(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_unfitted_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="fit it first"):
        gramian.save(KernelRidge(), tmp_path / "model")


def test_parameters_made_invalid_after_the_fit_are_refused(tmp_path: Path) -> None:
    model = KernelRidge().fit(X, y).set_params(solver="none such")
    with pytest.raises(TypeError, match=r"could not be loaded again.*solver"):
        gramian.save(model, tmp_path / "model")


@pytest.mark.parametrize("kind", ["", "thesis.txt", "manifest.json"])
def test_what_is_no_model_is_not_replaced(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    kept = target / kind
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("years of work")
    with pytest.raises(FileExistsError, match="not a gramian model"):
        gramian.save(KernelRidge().fit(X, y), target)
    assert kept.read_text() == "years of work"


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="create it first"):
        gramian.save(KernelRidge().fit(X, y), tmp_path / "a" / "b")


def test_an_empty_folder_and_an_old_model_are_filled(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for alpha in (1.0, 2.0, 2.0):
        model = KernelRidge(alpha).fit(X, y)
        gramian.save(model, f"{folder}/")
        assert np.array_equal(gramian.load(folder).predict(NEW), model.predict(NEW))
        assert len(list(folder.iterdir())) == 2
        _grow_old(tmp_path)


def _grow_old(folder: Path) -> None:
    """Make all files two hours old."""
    for file in folder.rglob("*"):
        then = file.stat().st_mtime - 7200.0
        os.utime(file, (then, then))


class _PowerCutError(BaseException):
    pass


class _Cut:
    """Lets a number of calls pass, and fails in the next."""

    def __init__(self, passing: int) -> None:
        self.passing = passing

    def around(self, original: Any) -> Any:
        def call(*args: Any) -> Any:
            self.passing -= 1
            if self.passing < 0:
                raise _PowerCutError
            return original(*args)

        return call


TOUCHES = 8
"""Calls that put something on the disk for good, in a save into a new folder."""


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("passing", range(TOUCHES))
def test_an_interrupted_save_leaves_what_was_there(
    there: bool, passing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (KernelRidge(alpha, kernel="rbf").fit(X, y) for alpha in (1.0, 2.0))
    folder = tmp_path / "model"
    if there:
        gramian.save(old, folder)
    cut = _Cut(passing)
    for name in ("fsync", "rename", "replace"):
        monkeypatch.setattr(os, name, cut.around(getattr(os, name)))
    try:
        gramian.save(new, folder)
        assert (passing, there) in [(6, True), (7, True)]  # all calls passed
    except _PowerCutError:
        pass
    # Whole in any case: as before, or new where only the last flush of the folder was missing.
    assert not [p for p in tmp_path.rglob("*") if p.name.endswith(".tmp")]
    if there or folder.exists():
        late = passing >= 5 if there else passing >= 7
        assert gramian.load(folder).alpha == (2.0 if late else 1.0)


KILLED = """
import os, gramian
from gramian import KernelRidge
calls = iter(range(10))
def last_words(*args, original=os.replace):
    if next(calls) == WHICH:
        os._exit(9)  # no cleaning up, as after kill -9 or a loss of power
    return original(*args)
os.replace = last_words
gramian.save(KernelRidge(2.0).fit([[0.0], [1.0]], [0.0, 1.0]), "model")
"""


@pytest.mark.parametrize("which", [0, 1])
def test_a_killed_save_leaves_the_old_model(which: int, tmp_path: Path) -> None:
    gramian.save(KernelRidge(1.0).fit(X, y), tmp_path / "model")
    done = subprocess.run([sys.executable, "-c", KILLED.replace("WHICH", str(which))], cwd=tmp_path, check=False)
    assert done.returncode == 9
    assert gramian.load(tmp_path / "model").alpha == 1.0
    gramian.save(KernelRidge(3.0).fit(X, y), tmp_path / "model")
    assert gramian.load(tmp_path / "model").alpha == 3.0


WRITER = """
import sys, gramian
from gramian import KernelRidge
number, times = int(sys.argv[1]), int(sys.argv[2])
models = [KernelRidge(10.0 * number + i + 1).fit([[0.0], [1.0 + number + i]], [0.0, 1.0]) for i in range(2)]
print("ready", flush=True)
sys.stdin.readline()
for i in range(times):
    gramian.save(models[i % 2], "model")
    print(i, flush=True)
"""


@contextmanager
def _writers(folder: Path, times: int) -> Iterator[list[Any]]:
    """Two processes that save two models each in turn, all into one folder; they begin together."""
    with ExitStack() as stack:
        started = []
        for number in range(2):
            command = [sys.executable, "-c", WRITER, str(number), str(times)]
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
            started.append(stack.enter_context(subprocess.Popen(command, cwd=folder, **pipes)))
            stack.callback(started[-1].kill)
        assert [writer.stdout.readline() for writer in started] == ["ready\n"] * 2
        for writer in started:
            writer.stdin.write("\n")
        yield started


def test_two_writers_and_a_reader(tmp_path: Path) -> None:
    """No save fails, no load fails, and what stays is whole."""
    with _writers(tmp_path, 40) as writers:
        while any(writer.poll() is None for writer in writers):
            if (tmp_path / "model").exists():
                assert gramian.load(tmp_path / "model").alpha in (1.0, 2.0, 11.0, 12.0)
        assert [writer.wait() for writer in writers] == [0, 0]
    assert gramian.load(tmp_path / "model").alpha in (2.0, 12.0)
    _grow_old(tmp_path)
    gramian.save(KernelRidge(5.0).fit(X, y), tmp_path / "model")
    assert len(list((tmp_path / "model").iterdir())) == 2


def test_killed_writers_leave_nothing_for_ever(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for _ in range(2):
        with _writers(tmp_path, 10_000) as writers:
            for writer in writers:
                for _ in range(rng.integers(1, 20)):
                    writer.stdout.readline()
                writer.kill()
            assert [writer.wait() for writer in writers] == [-9, -9]
        assert gramian.load(tmp_path / "model").alpha in (1.0, 2.0, 11.0, 12.0)
    draft = unfinished(tmp_path / "model")  # as a first save leaves it that is killed
    draft.mkdir()
    (draft / "arrays").write_text("half")
    unfinished(tmp_path / "model" / "arrays").write_text("half")
    gramian.save(KernelRidge(5.0).fit(X, y), tmp_path / "model")
    assert draft.exists()  # it is new, and may be somebody's
    _grow_old(tmp_path)
    gramian.save(KernelRidge(6.0).fit(X, y), tmp_path / "model")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert len(list((tmp_path / "model").iterdir())) == 2


def test_arrays_that_vanish_during_a_save_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a writer slept for minutes between its arrays and its manifest."""
    folder = tmp_path / "model"
    gramian.save(KernelRidge(1.0).fit(X, y), folder)
    original, calls = os.replace, iter([False, True, *[False] * 20])

    def replace(source: Any, target: Any) -> None:
        if next(calls):
            for file in folder.glob("*.safetensors"):
                file.unlink()
        original(source, target)

    monkeypatch.setattr(os, "replace", replace)
    gramian.save(KernelRidge(2.0).fit(X, y), folder)
    assert gramian.load(folder).alpha == 2.0


def test_notes_about_the_data_are_kept(tmp_path: Path) -> None:
    rows, targets = make_regression(20, 3, random_state=0)
    gramian.save(
        KernelRidge(random_state=7).fit(rows, targets), tmp_path / "model", data={"source": "x.csv", "rows": 20}
    )
    contents = inspect(tmp_path / "model")
    assert contents.data["notes"] == {"source": "x.csv", "rows": 20}
    assert contents.data["rows"] == 20
    assert contents.seed == "7"
    assert contents.kernel == "Linear()"
    assert contents.certificate is not None
    assert "  source: x.csv" in str(contents)
    assert contents.to_dict()["model"] == "KernelRidge"


def test_notes_are_plain_values(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="data must hold plain JSON values"):
        gramian.save(KernelRidge().fit(X, y), tmp_path / "model", data={"rows": X})


def test_the_arrays_are_safetensors_that_others_can_read(tmp_path: Path) -> None:
    model = KernelRidge(kernel="rbf").fit(X, y)
    gramian.save(model, tmp_path / "model")
    (file,) = (tmp_path / "model").glob("*.safetensors")
    tensors = load_file(file)
    assert np.array_equal(tensors["dual_coef_"], model.dual_coef_)
    assert np.array_equal(tensors["X_fit_"], X)


def test_equal_memory_is_stored_once(tmp_path: Path) -> None:
    model = GaussianProcessRegressor(1.0 * RBF(1.0), optimizer=None).fit(X, y)
    gramian.save(model, tmp_path / "model")
    names = inspect(tmp_path / "model").arrays
    again = gramian.load(tmp_path / "model")
    assert again.L_ is again.posterior_.L
    assert again.X_train_ is again.posterior_.X
    assert sum("L" in name for name in names) == 1


def test_a_view_does_not_bring_the_whole_table_along(tmp_path: Path) -> None:
    secret = np.full((len(y), 50), 7.25)
    secret[:, :3], secret[:, -1] = X, y
    model = GaussianProcessRegressor(1.0 * RBF(1.0), optimizer=None).fit(secret[:, :3], secret[:, -1])
    gramian.save(model, tmp_path / "model")
    assert gramian.load(tmp_path / "model").predict(NEW).tolist() == model.predict(NEW).tolist()
    (file,) = (tmp_path / "model").glob("*.safetensors")
    assert np.float64(7.25).tobytes() not in file.read_bytes()


def test_a_kernel_of_ones_own_class_loads_where_it_is_defined(tmp_path: Path) -> None:
    from gramian.kernels import Dot, Kernel, kernel

    @kernel
    class Cubed(Dot):
        def profile(self, u: Any) -> Any:
            return u**3

    gramian.save(KernelRidge(kernel=Cubed()).fit(X, y), tmp_path / "model")
    assert gramian.load(tmp_path / "model").kernel == Cubed()
    del Kernel.registry["Cubed"]
    with pytest.raises(ModelFileError, match="unknown kernel 'Cubed'"):
        gramian.load(tmp_path / "model")


@pytest.mark.parametrize("cv", [LeaveOneOut(), LeavePOut(1), PredefinedSplit([0, 1, 2] * 4), KFold(3)], ids=repr)
def test_folds_are_kept(cv: Any, tmp_path: Path) -> None:
    rows, targets = X[:12], np.asarray(y[:12], dtype=np.float64)
    model = KernelMachineRegressor("squared", lam="cv", lams=[0.1, 0.01], cv=cv).fit(rows, targets)
    gramian.save(model, tmp_path / "model")
    again = gramian.load(tmp_path / "model").fit(rows, targets)
    np.testing.assert_array_equal(again.cv_path_, model.cv_path_)


def test_the_table_is_true() -> None:
    from gramian.files.classes import _PLACES, class_named, name_of

    for name in _PLACES:
        assert name_of(class_named(name)) == name
    with pytest.raises(ModelFileError, match="unknown name 'os'"):
        class_named("os")
    with pytest.raises(ModelFileError, match="unknown name 3"):
        class_named(3)
