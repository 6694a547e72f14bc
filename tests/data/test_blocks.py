"""Blocks: sources, samples, sums, checkpoints, and what errors say."""

import os
from functools import partial

import numpy as np
import pytest

from gramian.data import Blocks, connect
from gramian.data.blocks import as_blocks, is_blocks
from gramian.data.checkpoint import Checkpoint
from gramian.data.loaders import BlockError
from gramian.data.passes import Passes, Sums, ThreadExecutor
from gramian.data.tables import TableError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 3))
    return X, X @ [1.0, 2.0, 3.0], rng.integers(0, 3, 1000).astype(float)


def table(X, y, w=None):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y}
    return pa.table(columns if w is None else columns | {"w": w})


def write(folder, X, y, w=None, files=3, group=150):
    for i, rows in enumerate(np.array_split(np.arange(len(X)), files)):
        part = table(X[rows], y[rows], None if w is None else w[rows])
        pq.write_table(part, folder / f"part-{i}.parquet", row_group_size=group)
    return folder


def sums(part):
    return Sums.of(n=part.index.size, X=part.X.sum(axis=0), y=part.y.sum(), w=part.weights.sum())


def added(blocks):
    with blocks.passes(n_jobs=2) as passes:
        return passes.sum(sums)


# ---- sources --------------------------------------------------------------------------------------------------------


def sources(X, y, w, folder):
    """The same rows, every way that they can come."""
    import dask.array as da

    write(folder, X, y, w)
    (folder / "csv").mkdir()
    (folder / "arrow").mkdir()
    import pyarrow.csv
    import pyarrow.feather

    for i, rows in enumerate(np.array_split(np.arange(len(X)), 2)):
        part = table(X[rows], y[rows], w[rows])
        pyarrow.csv.write_csv(part, folder / "csv" / f"{i}.csv")
        pyarrow.feather.write_feather(part, str(folder / "arrow" / f"{i}.feather"))
    mapped = np.memmap(folder / "X.bin", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    named = {"target": "y", "weight": "w"}
    yield Blocks(X, y, w, rows=170)
    yield Blocks(mapped, y, w, rows=170)
    yield Blocks(str(folder / "*.parquet"), rows=200, **named)
    yield Blocks([folder / f"part-{i}.parquet" for i in range(3)], rows=1, **named)
    yield Blocks(folder / "csv", **named)
    yield Blocks(folder / "arrow", **named)
    yield Blocks(da.from_array(X, (300, 2)), da.from_array(y, 100), w)
    yield Blocks([partial(triple, X, y, w, i) for i in range(4)])
    yield Blocks([partial(frame, X, y, w, i) for i in range(4)], **named)


def triple(X, y, w, i):
    rows = slice(250 * i, 250 * (i + 1))
    return X[rows], y[rows], w[rows]


def frame(X, y, w, i):
    return table(*triple(X, y, w, i)).to_pandas()


def test_every_source_gives_the_same_sums_and_the_same_sample(data, tmp_path):
    X, y, w = data
    drawn = None
    for blocks in sources(X, y, w, tmp_path):
        found = added(blocks)
        assert blocks.n_rows == 1000
        assert blocks.n_columns == 3
        assert found["n"] == np.count_nonzero(w)
        np.testing.assert_allclose(found["X"], X[w > 0].sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose([found["y"], found["w"]], [y[w > 0].sum(), w.sum()], rtol=1e-9)
        sample = blocks.sample(50, random_state=3)
        drawn = sample.index if drawn is None else drawn
        np.testing.assert_array_equal(sample.index, drawn)
        np.testing.assert_allclose(sample.X, X[drawn], rtol=1e-12)
        assert np.all(w[drawn] > 0)


def test_dask_frames(data):
    dd = pytest.importorskip("dask.dataframe")
    X, y, _ = data
    frames = dd.from_pandas(table(X, y).to_pandas(), npartitions=4)
    blocks = Blocks(frames, target="y")
    assert blocks.names == ("x0", "x1", "x2")
    np.testing.assert_allclose(added(blocks)["X"], X.sum(axis=0), rtol=1e-12)
    assert is_blocks(frames)


def test_columns_are_chosen_by_name_and_only_these_are_read(data, tmp_path):
    X, y, _ = data
    write(tmp_path, X, y)
    blocks = Blocks(tmp_path, target=["y", "x0"], columns=["x2"])
    assert blocks.names == ("x2",)
    part = next(iter(blocks))
    np.testing.assert_array_equal(part.X[:, 0], X[: len(part.X), 2])
    assert part.y.shape == (len(part.X), 2)
    with pytest.raises(ValueError, match="both inputs and target"):
        len(Blocks(tmp_path, target="y", columns=["y"]).items)


def test_float32_stays_float32(tmp_path):
    pq.write_table(pa.table({"a": np.ones(5, np.float32), "y": np.ones(5)}), tmp_path / "a.parquet")
    assert next(iter(Blocks(tmp_path, target="y"))).X.dtype == np.float32


def test_row_groups_are_joined_up_to_rows_and_never_cut(data, tmp_path):
    X, y, _ = data
    write(tmp_path, X, y, files=1, group=150)
    assert len(Blocks(tmp_path, target="y", rows=300).items) == 4
    assert len(Blocks(tmp_path, target="y", rows=10).items) == 7
    assert "row groups 0-1" in Blocks(tmp_path, target="y", rows=300).items[0].loader.name
    assert "part-0.parquet, row group 2" in Blocks(tmp_path, target="y", rows=10).items[2].loader.name


def test_repr_and_refusal_of_an_array(data):
    X, y, _ = data
    assert repr(Blocks(X, y, rows=500)) == "Blocks(2 blocks, 1000 rows, 3 columns)"
    with pytest.raises(TypeError, match=r"blocks\.sample"):
        np.asarray(Blocks(X))
    with pytest.raises(ValueError, match="hold their own targets"):
        as_blocks(Blocks(X), y)
    with pytest.raises(ValueError, match="at least 1"):
        Blocks(X, rows=0)
    with pytest.raises(ValueError, match="must have 1,000 rows"):
        len(Blocks(X, y[:5]).items)


# ---- sums and samples -----------------------------------------------------------------------------------------------


def test_sample_with_most_weights_zero(data):
    X, y, _ = data
    w = np.zeros(1000)
    w[::50] = 1.0
    assert Blocks(X, y, w, rows=90).sample(15).index.size == 15
    assert Blocks(X, y, w, rows=90).sample(500).index.size == 20
    with pytest.raises(ValueError, match="all weights are zero"):
        Blocks(X, y, np.zeros(1000)).sample(5)
    with pytest.raises(ValueError, match="all weights are zero"):
        added(Blocks(X, y, np.zeros(1000), rows=100))


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
def test_an_arrow_file_is_read_by_its_record_batches(data, tmp_path, compression):
    import pyarrow.feather

    X, y, w = data
    path = tmp_path / "all.feather"
    pyarrow.feather.write_feather(table(X, y, w), str(path), compression=compression, chunksize=300)
    blocks = Blocks(path, target="y", weight="w", columns=["x2", "x0"], rows=650)
    assert [(item.first, item.rows) for item in blocks.items] == [(0, 600), (600, 400)]
    assert blocks.items[1].loader.name.endswith("all.feather, record batches 2-3")
    np.testing.assert_allclose(added(blocks)["X"], X[w > 0][:, [2, 0]].sum(axis=0), rtol=1e-12)
    X[700, 0] = np.nan
    pyarrow.feather.write_feather(table(X, y, w), str(path), compression=compression, chunksize=300)
    with pytest.raises(BlockError, match=r"all\.feather, record batch 2: column 'x0' holds NaN.*row 100"):
        added(Blocks(path, target="y", weight="w"))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(TableError, match=r"all\.feather: cannot be read as feather"):
        added(Blocks(path, target="y", weight="w"))


def test_a_truncated_file_is_named(data, tmp_path):
    X, y, _ = data
    write(tmp_path, X, y)
    file = tmp_path / "part-1.parquet"
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(TableError, match=r"part-1\.parquet: cannot be read as parquet"):
        added(Blocks(tmp_path, target="y"))


def test_a_damaged_row_group_is_named(data, tmp_path):
    X, y, _ = data
    write(tmp_path, X, y, files=1, group=500)
    file = tmp_path / "part-0.parquet"
    meta = pq.ParquetFile(file).metadata
    damaged = bytearray(file.read_bytes())
    start = meta.row_group(1).column(0).dictionary_page_offset or meta.row_group(1).column(0).data_page_offset
    damaged[start : start + 60] = b"\xff" * 60
    file.write_bytes(bytes(damaged))
    with pytest.raises(BlockError, match=r"part-0\.parquet, row group 1"):
        added(Blocks(tmp_path, target="y", rows=500))


def test_a_file_with_other_columns_is_named(data, tmp_path):
    X, y, _ = data
    write(tmp_path, X, y)
    pq.write_table(pa.table({"x0": [1.0], "x1": [1.0], "y": [1.0]}), tmp_path / "part-9.parquet")
    with pytest.raises(BlockError, match=r"part-9\.parquet: has no column 'x2'"):
        added(Blocks(tmp_path, target="y"))


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_nan_in_a_row_group_is_named(data, tmp_path, value, word):
    X, y, _ = data
    X[820, 1] = value
    write(tmp_path, X, y, files=2, group=100)
    with pytest.raises(BlockError, match=rf"part-1\.parquet, row group 3.*'x1' holds {word}"):
        added(Blocks(tmp_path, target="y"))


def test_missing_labels_and_columns_of_text_are_named(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "city": ["x", "y"], "y": ["u", None]}), tmp_path / "a.parquet")
    with pytest.raises(BlockError, match="column 'city' holds string"):
        next(iter(Blocks(tmp_path, target="y")))
    with pytest.raises(BlockError, match="target 'y' is missing in 1 rows"):
        next(iter(Blocks(tmp_path, target="y", columns=["a"])))


def test_other_misuse(tmp_path, data):
    X, y, w = data
    with pytest.raises(FileNotFoundError, match=r"no data at .*\.parquet"):
        len(Blocks(str(tmp_path / "*.parquet")).items)
    (tmp_path / "a.txt").write_text("1")
    with pytest.raises(ValueError, match="the name should end in"):
        len(Blocks(tmp_path / "a.txt").items)
    write(tmp_path, X, y)
    with pytest.raises(TypeError, match="name of a column"):
        len(Blocks(tmp_path, target=y).items)
    with pytest.raises(BlockError, match="X has 5 rows and y has 4"):
        added(Blocks([lambda: (X[:5], y[:4])]))
    w[7] = -1.0
    with pytest.raises(BlockError, match=r"rows 0 to 999: a weight is -1 < 0 \(row 7 there\)"):
        added(Blocks(X, y, w))


def test_a_file_that_shrinks_is_noticed(data, tmp_path):
    X, y, _ = data
    write(tmp_path, X, y, files=1, group=1000)
    blocks = Blocks(tmp_path, target="y")
    assert blocks.n_rows == 1000
    pq.write_table(table(X[:10], y[:10]), tmp_path / "part-0.parquet")
    with pytest.raises(BlockError, match="had 1,000 when"):
        added(blocks)


# ---- checkpoints and progress ---------------------------------------------------------------------------------------


def failing(part, folder, at):
    found = sums(part)
    marks = os.listdir(folder)
    if len(marks) >= at:
        raise RuntimeError("power is gone")
    with open(os.path.join(folder, str(len(marks)) + "-" + str(float(found["y"]))), "w"):
        return found


def test_a_checkpoint_goes_on_where_it_was_and_to_the_same_bits(data, tmp_path):
    X, y, w = data
    (tmp_path / "marks").mkdir()
    blocks = Blocks(X, y, w, rows=17, client=False, checkpoint=tmp_path / "kept")
    shared = (str(tmp_path / "marks"), 40)
    with pytest.raises(RuntimeError, match="power"), blocks.passes(n_jobs=1) as passes:
        passes.sum(failing, *shared)
    done, _ = Checkpoint(tmp_path / "kept").read(0, _fingerprint(blocks, shared))
    assert done == 32
    for mark in (tmp_path / "marks").iterdir():
        mark.unlink()
    with blocks.passes(n_jobs=1) as passes:
        again = passes.sum(failing, *shared)
    assert len(os.listdir(tmp_path / "marks")) == 59 - 32
    once = added(Blocks(X, y, w, rows=17))
    assert all(np.array_equal(again[name], once[name]) for name in ("X", "y", "w"))
    assert not (tmp_path / "kept").exists()


def _fingerprint(blocks, shared):
    return Passes(blocks, ThreadExecutor(1), Checkpoint(blocks.checkpoint))._fingerprint(failing, shared)


def test_a_checkpoint_of_another_problem_is_refused(data, tmp_path):
    X, y, w = data
    (tmp_path / "marks").mkdir()
    blocks = Blocks(X, y, w, rows=17, client=False, checkpoint=tmp_path / "kept")
    with pytest.raises(RuntimeError, match="power"), blocks.passes(n_jobs=1) as passes:
        passes.sum(failing, str(tmp_path / "marks"), 40)
    for other in (Blocks(X + 1, y, w, rows=17, client=False, checkpoint=tmp_path / "kept"), blocks):
        with pytest.raises(ValueError, match="another problem"), other.passes() as passes:
            passes.sum(failing, str(tmp_path / "marks"), 41)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        Checkpoint(tmp_path / "file")


def test_progress_is_told_in_rows(data):
    X, y, w = data
    told = []
    blocks = Blocks(X, y, w, rows=100)
    Passes(blocks, ThreadExecutor(2), None, lambda done, **figures: told.append((done, *figures))).sum(sums)
    assert told[-1] == (1000, "rows/s", "seconds left")
    assert len(told) == 10


def test_connect_needs_one_of_the_two():
    with pytest.raises(ValueError, match="address of a scheduler"), connect(workers=1, cluster="tcp://x"):
        pass
