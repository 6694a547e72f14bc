"""A Dask cluster of real processes: the same bits as threads, whoever dies."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from dask_processes import scheduler_and_workers
from gramian import GaussianMixture, KernelMachineClassifier, KernelRidge, Nystroem
from gramian.data import Blocks, connect
from gramian.data.blocks import active_client
from gramian.data.checkpoint import Checkpoint

pytest.importorskip("distributed")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

# What Dask itself leaves open or warns about where processes are killed.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Future .* was never awaited:RuntimeWarning"),
]

FILES, ROWS = 40, 1500


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for i in range(FILES):
        X = rng.standard_normal((ROWS, 4))
        columns = {f"x{j}": X[:, j] for j in range(4)}
        pq.write_table(
            pa.table({**columns, "y": np.sin(X[:, 0]), "c": (X[:, 1] > 0).astype(int)}), path / f"{i:02d}.parquet"
        )
    return path


@pytest.fixture(scope="module")
def client():
    import dask

    with dask.config.set({"distributed.worker.use-file-locking": False}), connect(workers=2) as client:
        yield client


def ridge(m=150):
    return KernelRidge(1e-2, kernel="rbf", approximation=Nystroem(n_components=m), random_state=0, n_jobs=1)


def blocks(folder, client, target="y", **options):
    return Blocks(folder, target=target, columns=["x0", "x1", "x2", "x3"], client=client, rows=ROWS, **options)


@pytest.fixture(scope="module")
def alone(folder):
    """The fit by threads, which nothing disturbs."""
    return ridge().fit(blocks(folder, False)).dual_coef_


@pytest.fixture
def held(monkeypatch):
    """Two events: a checkpoint has been written, and it was disturbed, for which the second write waits."""
    held = SimpleNamespace(written=threading.Event(), acted=threading.Event(), again=lambda: None)
    write = Checkpoint.write

    def writing(self, *args):
        if held.written.is_set():
            held.acted.wait(60.0)
            held.again()
        write(self, *args)
        held.written.set()

    monkeypatch.setattr(Checkpoint, "write", writing)
    return held


@contextmanager
def disturbed(ready, act):
    """Have a thread act once something is so, while the block runs."""

    def watch():
        end = time.monotonic() + 120.0
        while not ready() and time.monotonic() < end:
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield
    thread.join()


def test_a_cluster_gives_the_same_bits_as_threads(folder, client, alone):
    assert active_client() is None
    np.testing.assert_array_equal(ridge().fit(blocks(folder, client)).dual_coef_, alone)
    few = sorted(folder.iterdir())[:5]
    labels, mixtures = [], []
    for who in (client, False):
        labels.append(KernelMachineClassifier(approximation=Nystroem(n_components=20), lam=0.1, random_state=0))
        labels[-1].fit(blocks(few, who, "c"))
        mixtures.append(GaussianMixture(2, random_state=0, tol=0.1).fit(blocks(few, who)))
    np.testing.assert_array_equal(labels[0].dual_coef_, labels[1].dual_coef_)
    np.testing.assert_array_equal(mixtures[0].means_, mixtures[1].means_)


def test_persisted_collections_stay_where_they_are(client):
    import dask.array as da

    with client.as_current():
        X = da.random.default_rng(0).standard_normal((3000, 3), chunks=(1000, 3)).persist()
        found = ridge(20).fit(Blocks(X, X[:, 0], client=client)).dual_coef_
        rows = X.compute()
    np.testing.assert_array_equal(found, ridge(20).fit(Blocks(rows, rows[:, 0], rows=1000, client=False)).dual_coef_)


def test_predictions_stream_from_the_workers(folder, client, tmp_path):
    model = ridge(20).fit(blocks(folder, False))
    out = model.predict(blocks(folder, client)).to_parquet(tmp_path / "out")
    assert len(list(out.iterdir())) == FILES
    np.testing.assert_array_equal(pq.read_table(out)["predict"], np.asarray(model.predict(blocks(folder, False))))


def test_an_error_on_a_worker_names_the_file(folder, client, tmp_path):
    X = np.ones((10, 4))
    X[3, 1] = np.nan
    columns = {f"x{j}": X[:, j] for j in range(4)}
    pq.write_table(pa.table({**columns, "y": np.ones(10)}), tmp_path / "bad.parquet")
    paths = [*sorted(folder.iterdir())[:3], tmp_path / "bad.parquet"]
    with pytest.raises(ValueError, match=r"bad\.parquet, row group 0: column 'x1' holds NaN"):
        ridge().fit(blocks(paths, client))


def nothing_left(client):
    """Whether the scheduler knows nothing of ours any more, after a moment at most."""
    end = time.monotonic() + 20.0
    while time.monotonic() < end:
        left = client.run_on_scheduler(lambda dask_scheduler: [key for key in dask_scheduler.tasks if "gramian" in key])
        if not left:
            return True
        time.sleep(0.05)
    return False


def cut_short(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damaged(path):
    """The footer tells of row groups whose bytes are not theirs."""
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = b"\xff" * (len(content) // 2 - 4)
    path.write_bytes(bytes(content))


def renamed(path):
    table = pq.read_table(path)
    pq.write_table(table.rename_columns([name.replace("x2", "z") for name in table.column_names]), path)


def worded(path):
    table = pq.read_table(path)
    pq.write_table(table.set_column(2, "x2", pa.array(["word"] * table.num_rows)), path)


def removed(path):
    path.unlink()


@pytest.mark.parametrize(
    ("opened", "spoil", "words"),
    [
        (True, cut_short, r"09\.parquet, row group 0: cannot be read"),
        (True, damaged, r"09\.parquet, row group 0: cannot be read"),
        (True, renamed, r"09\.parquet, row group 0: has no column 'x2'; it has"),
        (True, worded, r"09\.parquet, row group 0: column 'x2' holds (large_)?string"),
        (True, removed, r"09\.parquet, row group 0: cannot be read"),
        (False, cut_short, r"09\.parquet: cannot be read as parquet"),
        (False, renamed, r"09\.parquet: has no column 'x2', which .*00\.parquet has"),
    ],
)
def test_a_file_that_went_bad_is_named_and_the_rest_is_dropped(folder, client, tmp_path, opened, spoil, words):
    source = tmp_path / "in"
    source.mkdir()
    for path in sorted(folder.iterdir())[:12]:
        (source / path.name).write_bytes(path.read_bytes())
    rows = blocks(source, client)
    if opened:
        # Known to the client as it was, so that it is a worker that finds out.
        assert rows.n_rows == 12 * ROWS
    fitted = ridge(20).fit(blocks(sorted(source.iterdir())[:2], client))
    spoil(source / "09.parquet")
    model = ridge(20)
    with pytest.raises(ValueError, match=words):
        model.fit(rows)
    assert not [name for name in vars(model) if name.endswith("_")]
    # Predictions open the folder anew, and would go on with the files that are left.
    if spoil is not removed:
        with pytest.raises(ValueError, match=r"09\.parquet"):
            fitted.predict(rows).to_parquet(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
    assert nothing_left(client)


def test_a_killed_worker_changes_nothing(folder, client, alone):
    workers = client.run(os.getpid)
    victim = next(iter(workers.values()))
    running = threading.Event()

    def some_done():
        tasks = client.run_on_scheduler(
            lambda dask_scheduler: [t.state for k, t in dask_scheduler.tasks.items() if "block" in k]
        )
        return "processing" in tasks and "memory" in tasks and len(tasks) >= FILES

    with disturbed(some_done, lambda: (os.kill(victim, signal.SIGKILL), running.set())):
        found = ridge().fit(blocks(folder, client)).dual_coef_
    assert running.is_set()
    np.testing.assert_array_equal(found, alone)


def test_interrupted_by_a_key_and_resumed(folder, client, alone, tmp_path, held):
    kept, model = tmp_path / "kept", ridge()

    def press():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        held.acted.set()

    held.again = press  # the first is lost where it falls into a finaliser of Dask's
    with pytest.raises(KeyboardInterrupt), disturbed(held.written.is_set, press):
        model.fit(blocks(folder, client, checkpoint=kept))
    held.again = lambda: None
    assert not hasattr(model, "dual_coef_")
    with pytest.raises(ValueError, match="another problem"):
        ridge(151).fit(blocks(folder, client, checkpoint=kept))
    found = ridge().fit(blocks(folder, False, checkpoint=kept)).dual_coef_
    np.testing.assert_array_equal(found, alone)
    assert not kept.exists()


def test_a_scheduler_that_is_gone_leaves_a_checkpoint(folder, alone, tmp_path, held):
    import dask

    kept = tmp_path / "kept"
    with (
        scheduler_and_workers(tmp_path, 1) as (address, scheduler),
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        connect(cluster=address) as client,
    ):
        client.wait_for_workers(1)
        with (
            pytest.raises(ConnectionError, match=r"scheduler at .* checkpoint=path"),
            disturbed(held.written.is_set, lambda: (scheduler.kill(), scheduler.wait(), held.acted.set())),
        ):
            ridge().fit(blocks(folder, client, checkpoint=kept))
    assert any(kept.glob("pass-*.npz"))
    found = ridge().fit(blocks(folder, False, checkpoint=kept)).dual_coef_
    np.testing.assert_array_equal(found, alone)
