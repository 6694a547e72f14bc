"""CSV files in blocks: cut where records end, whatever is quoted; the same numbers; no more memory than blocks."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian import KernelRidge, Nystroem
from gramian.data import Blocks, delimited
from gramian.data.delimited import record_ends
from peak import peak_bytes

pc = pytest.importorskip("pyarrow.csv")

FIELDS = st.text(alphabet='ab12.",;\n\r ', max_size=6)


def ends_of(path, delimiter=",", size=1 << 23):
    return [int(end) for ends in record_ends(str(path), delimiter, size) for end in ends]


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.lists(FIELDS, min_size=2, max_size=2), min_size=1, max_size=8),
    line=st.sampled_from(["\n", "\r\n"]),
    size=st.integers(1, 20),
    delimiter=st.sampled_from(",;\t"),
)
def test_records_end_where_the_writer_ended_them(tmp_path_factory, rows, line, size, delimiter):
    text = io.StringIO(newline="")
    writer, ends = csv.writer(text, lineterminator=line, delimiter=delimiter), []
    for row in rows:
        writer.writerow(row)
        ends.append(len(text.getvalue()))
    path = tmp_path_factory.getbasetemp() / "records.csv"
    path.write_bytes(text.getvalue().encode())
    assert ends_of(path, delimiter, size) == ends


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_quote_amid_text_opens_nothing(tmp_path, size):
    lines = ["a,b\n", '5" pipe,1\n', '6"" pipe,2\n', '"7"" pipe\nand more",3\n', 'x,"4"\n']
    path = tmp_path / "t.csv"
    path.write_text("".join(lines))
    assert ends_of(path, ",", size) == np.cumsum([len(line) for line in lines]).tolist()
    assert pc.read_csv(path, parse_options=pc.ParseOptions(newlines_in_values=True)).num_rows == 4


@pytest.fixture
def table(tmp_path):
    """Text with line ends in it, a column that looks whole at first, blank lines, and a target."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 2))
    X[:, 1] = np.where(np.arange(1000) < 600, np.rint(9 * X[:, 1]), X[:, 1])
    y = np.sin(X[:, 0])
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "note\nof mine", "z", "y"])
        for i, (x, z) in enumerate(X):
            writer.writerow(
                [repr(float(x)), f'said "{i}",\nand left', int(z) if i < 600 else repr(float(z)), repr(float(y[i]))]
            )
            if i % 100 == 7:
                file.write("\n")
    return tmp_path / "t.csv", X, y


@pytest.mark.parametrize("rows", [1, 7, 300, 1000, 5000])
def test_blocks_hold_the_rows_in_order(table, rows):
    path, X, y = table
    blocks = Blocks(path, target="y", columns=["x", "z"], rows=rows, client=False)
    parts = list(blocks)
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), X)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), y)
    np.testing.assert_array_equal(np.concatenate([part.index for part in parts]), np.arange(1000))
    assert 1000 / rows <= len(blocks.items) <= 1010 / rows + 1


def test_a_fit_is_that_of_memory_whatever_the_blocks(table):
    path, X, y = table
    model = KernelRidge(1e-2, kernel="rbf", approximation=Nystroem(n_components=20), random_state=0)
    expected = model.fit(X, y).predict(X)
    for rows in (90, 400):
        blocks = Blocks(path, target="y", columns=["x", "z"], rows=rows, client=False)
        found = np.asarray(model.fit(blocks).predict(blocks))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_other_delimiters_and_labels(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;kind\n" + "".join(f"{i},5;{'ab'[i % 2]}\n" for i in range(10)).replace(",5", ".5"))
    parts = list(Blocks(path, target="kind", rows=4, client=False))
    assert np.concatenate([part.y for part in parts]).tolist() == list("ab" * 5)
    assert [part.index.size for part in parts] == [4, 4, 2]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,2,3\n", r"t\.csv, bytes .*Expected 2 columns, got 3"),
        ("word,2\n", r"t\.csv, bytes .*'word'"),
        (",2\n", r"t\.csv, bytes .*column 'x' holds NaN or nothing"),
    ],
)
def test_a_bad_record_is_named_by_its_bytes(tmp_path, line, words, monkeypatch):
    monkeypatch.setattr(delimited, "BYTES", 50)
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "1,2\n" * 50 + line + "1,2\n" * 50)
    with pytest.raises(ValueError, match=words):
        list(Blocks(path, target="y", rows=20, client=False))


def test_memory_is_that_of_blocks():
    code = """
    import tempfile, numpy as np
    from gramian import KernelRidge, Nystroem
    from gramian.data import Blocks
    lines = "".join(",".join(f"{{i % (97 - j)}}.0625" for j in range(10)) + "\\n" for i in range(20_000))
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(",".join("abcdefghiy") + "\\n")
        for _ in range({}):
            file.write(lines)
        file.flush()
        blocks = Blocks(file.name, target="y", rows=20_000, client=False)
        model = KernelRidge(1.0, kernel="rbf", approximation=Nystroem(n_components=20), random_state=0, n_jobs=1)
        model.fit(blocks)
        print(len(blocks.items))
    """
    few, _ = peak_bytes(code.format(8))
    many, printed = peak_bytes(code.format(50))
    assert int(printed) == 50
    # 840,000 rows more: 60 MB of text, 67 MB of numbers; pyarrow keeps some tens of megabytes of what it was given.
    assert many - few < 35e6
