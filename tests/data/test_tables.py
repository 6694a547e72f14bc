"""Tables from files: every format gives the same rows, whole and in blocks; what is no table is refused in one line."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.feather
import pytest

from gramian.data import Blocks
from gramian.data.checkpoint import Checkpoint
from gramian.data.formats import FORMATS, Csv
from gramian.data.output import unfinished, writing
from gramian.data.passes import Sums
from gramian.data.tables import TableError, open_table, read_table, split_target

FRAME = pd.DataFrame(
    {
        "whole": np.arange(50),
        "real": np.arange(50) / 8,
        "text": [f"line {i}\nnext, {i}" for i in range(50)],
        "gaps": [None, 1.5] * 25,
        "flag": [True, False] * 25,
    }
)
ENDINGS = ["csv", "csv.gz", "tsv", "parquet", "feather", "arrow", "jsonl"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tables")
    FRAME.to_csv(made / "t.csv", index=False)
    (made / "t.csv.gz").write_bytes(gzip.compress((made / "t.csv").read_bytes()))
    FRAME.to_csv(made / "t.tsv", index=False, sep="\t")
    FRAME.to_parquet(made / "t.parquet", row_group_size=20)
    table = pyarrow.Table.from_pandas(FRAME)
    pyarrow.feather.write_feather(table, made / "t.feather", chunksize=20)
    with pyarrow.OSFile(str(made / "t.arrow"), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=20)
    FRAME.to_json(made / "t.jsonl", orient="records", lines=True)
    return made


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_holds_the_same(folder: Path, ending: str) -> None:
    table = read_table(folder / f"t.{ending}")
    pd.testing.assert_frame_equal(table.to_pandas(), FRAME, check_dtype=False)
    (some,) = open_table(folder / f"t.{ending}").iterate(["real", "text"])
    assert some.column_names == ["real", "text"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_blocks_together_are_the_table(folder: Path, ending: str) -> None:
    path = folder / f"t.{ending}"
    source = Csv.open(path, 300) if FORMATS[f".{ending}"] is Csv else open_table(path)
    blocks = list(source.iterate(["text", "gaps", "whole"], rows=7))
    assert len(blocks) > 7
    assert max(b.num_rows for b in blocks) <= 7
    together = pyarrow.concat_tables(blocks).to_pandas()
    pd.testing.assert_frame_equal(together, FRAME[["text", "gaps", "whole"]], check_dtype=False)


def test_types_of_a_csv_hold_for_all_blocks(tmp_path: Path) -> None:
    """Whole numbers may be followed by fractions, gaps by anything; what was text stays text."""
    rows = ["1,,7"] * 100 + ["2.5,late,x"]
    (tmp_path / "t.csv").write_text("a,b,c\n" + "\n".join(rows) + "\n")
    source = Csv.open(tmp_path / "t.csv", 100)
    with pytest.raises(TableError, match="column 'c' holds 'x', where a number was expected"):
        list(source.iterate())
    blocks = list(source.iterate(types={"c": "string"}))
    last = pyarrow.concat_tables(blocks).to_pylist()[-1]
    assert last == {"a": 2.5, "b": "late", "c": "x"}


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_mark_between_columns_is_found(mark: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"a{mark}b{mark}c\n1{mark}x{mark}2.5\n")
    assert read_table(tmp_path / "t.csv").to_pylist() == [{"a": 1, "b": "x", "c": 2.5}]


def test_without_pyarrow_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "gramian.data.formats")
    with pytest.raises(ImportError, match=r'pip install "\.\[data\]"'):
        Blocks(folder / "t.csv").names  # noqa: B018


def test_arrays(tmp_path: Path) -> None:
    X = np.arange(12.0).reshape(6, 2)
    np.save(tmp_path / "a.npy", X)
    assert read_table(tmp_path / "a.npy")["x1"].to_pylist() == X[:, 1].tolist()
    np.savez(tmp_path / "b.npz", X=X, label=np.array(["a", "b"] * 3), train=X)
    source = open_table(tmp_path / "b.npz")
    assert source.names == ("X0", "X1", "label", "train.0", "train.1")
    assert source.read().num_rows == 6


def test_targets() -> None:
    table = pyarrow.table({"a": [1, 2, 3], "y": [0.5, None, float("nan")], "c": ["u", None, "v"]})
    X, y = split_target(table, "y")
    assert y.tolist() == [0.5]
    assert X.column_names == ["a", "c"]
    _, y = split_target(table.set_column(2, "c", table["c"].dictionary_encode()), "c")
    assert y.tolist() == ["u", "v"]
    _, y = split_target(pyarrow.table({"y": pyarrow.array([1, None, 3])}), "y")
    assert y.tolist() == [1, 3]
    with pytest.raises(TableError, match="no column 'Y'; did you mean 'y'"):
        split_target(table, "Y")
    with pytest.raises(TableError, match="missing in every row"):
        split_target(pyarrow.table({"y": pyarrow.array([None, None], "float64")}), "y")


def binary(file: Path) -> None:
    file.write_bytes(b"a,b\n1,\0\n")


REFUSED: dict[str, tuple[Any, str]] = {
    "none.csv": (None, "there is no such file"),
    "empty.csv": (lambda f: f.write_bytes(b" \n"), "the file is empty"),
    "header.csv": (lambda f: f.write_text("a,b\n"), "holds no rows"),
    "zeros.csv": (binary, "binary file, not text"),
    "wide.csv": (lambda f: f.write_text("a,b\n1,2\n", "utf-16"), "text in UTF-16; convert the file"),
    "zip.jsonl": (lambda f: f.write_bytes(b"PK\x03\x04rest"), "starts like a zip file"),
    "ragged.csv": (lambda f: f.write_text("a,b\n1\n"), "line 2 has 1 value, but the first line names 2 columns"),
    "quoted.csv": (lambda f: f.write_text('a;b\r\n1;"x\r\n;y"\r\n\r\n3;4;5\r\n'), "line 5 has 3 values.* contains ';'"),
    "open.csv": (lambda f: f.write_text('a,b\n1,2\n"3,4\n5,6\n'), "line 3 has 1 value.* quotes must be closed"),
    "twice.csv": (lambda f: f.write_text("a,a\n1,2\n"), "two columns are called 'a'"),
    "latin.csv": (lambda f: f.write_bytes("a\né\n".encode("latin-1")), "not UTF-8"),
    "bad.parquet": (lambda f: f.write_text("hello"), "cannot be read as parquet"),
    "bad.arrow": (lambda f: f.write_text("hello"), "cannot be read as arrow"),
    "bad.jsonl": (lambda f: f.write_text("{a"), "line 1 is not JSON; correct it"),
    "list.jsonl": (lambda f: f.write_text('{"a": 1}\n\n[1]\n'), "line 3 is a list; correct it"),
    "mixed.jsonl": (
        lambda f: f.write_text('{"a": null}\n{"a": 1}\n{"a": "x"}\n'),
        "line 3 has text in column 'a', where the lines above have a number",
    ),
    "named.jsonl": (lambda f: f.write_text('{"a": 1, "a": 2}\n'), "specified twice in row 0; correct it"),
    "bad.csv.gz": (lambda f: f.write_text("hello"), "cannot be read"),
    "nested.jsonl": (lambda f: f.write_text('{"a": [1, 2]}\n'), "nested values"),
    "pickled.npy": (lambda f: np.save(f, np.array([{}], dtype=object)), "cannot be read as npy"),
    "cube.npy": (lambda f: np.save(f, np.zeros((2, 2, 2))), "a vector or a matrix"),
    "uneven.npz": (lambda f: np.savez(f, a=np.zeros(2), b=np.zeros(3)), "equally many rows"),
    "table.xls": (lambda f: f.write_text("x"), "the name should end in"),
    "folder.csv": (lambda f: f.mkdir(), "this is a folder"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_is_refused(name: str, tmp_path: Path) -> None:
    make, message = REFUSED[name]
    if make is not None:
        make(tmp_path / name)
    with pytest.raises(TableError, match=message) as raised:
        read_table(tmp_path / name)
    assert "\n" not in str(raised.value)
    assert name in str(raised.value)


def test_errors_of_later_blocks_name_the_line(tmp_path: Path) -> None:
    rows = 10 + (1 << 20) // 4  # more than pyarrow parses at a time
    wrong = {
        "t.csv": ("a,b\n" + "1,2\n" * rows + "1,2,3\n", f"line {rows + 2} has 3 values"),
        "t.jsonl": ('{"a": 1}\n' * rows + '{"a": "x"}\n', f"line {rows + 1} has text in column 'a'"),
        "word.csv": ("a,b\n" + "1,2\n" * rows + f"1,{'x' * 999}\n", r"column 'b' holds 'x{58}…, where a number was"),
        "open.csv": ("a,b\n" + "1,x\n" * rows + '1,"' + "x\n" * rows * 8, "see whether a quote is not closed"),
    }
    for name, (text, message) in wrong.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(TableError, match=message):
            list(open_table(tmp_path / name).iterate())
    (tmp_path / "latin.csv").write_bytes(b"a,b\n" + b"1,x\n" * rows + b"1,\xe9\n")
    with pytest.raises(TableError, match="column 'b' holds text that is not UTF-8; convert the file"):
        list(open_table(tmp_path / "latin.csv").iterate())


def test_a_misspelt_file_is_found(folder: Path) -> None:
    with pytest.raises(TableError, match=r"did you mean 't\.parquet'"):
        open_table(folder / "t.parqet")


def write_half(path: Path) -> None:
    with writing(path) as write:
        write(pyarrow.table({"a": [1]}))
        raise ZeroDivisionError


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("old")
    with pytest.raises(ZeroDivisionError):
        write_half(tmp_path / "t.csv")
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]
    assert (tmp_path / "t.csv").read_text() == "old"


def test_what_a_killed_writer_left_is_removed_once_it_is_old(tmp_path: Path) -> None:
    old, new = (unfinished(tmp_path / "t.csv") for _ in range(2))
    other = unfinished(tmp_path / "t.csv.csv")
    for draft in (old, new, other):
        draft.write_text("half")
    for draft in (old, other):
        os.utime(draft, (0, 0))
    with writing(tmp_path / "t.csv") as write:
        write(pyarrow.table({"a": [1]}))
    assert {p.name for p in tmp_path.iterdir()} == {"t.csv", new.name, other.name}


def test_a_checkpoint_is_emptied_of_drafts_too(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path / "c")
    kept.write(0, "fingerprint", 1, [(1, Sums.of(x=1.0))])
    (tmp_path / "c" / ".pass-00001.npz.123").write_text("half")  # its writer was killed
    kept.clear()
    assert not (tmp_path / "c").exists()
