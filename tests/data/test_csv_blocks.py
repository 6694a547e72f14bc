"""CSV files as sources of blocks: the same numbers, whatever is quoted, and no more memory than a block."""

import csv

import numpy as np
import pytest

from gramian import KernelRidge, Nystroem
from gramian.data import Blocks
from peak import peak_bytes


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


def test_a_file_is_a_block_that_holds_the_rows_in_order(table):
    path, X, y = table
    blocks = Blocks(path, target="y", columns=["x", "z"], rows=7, client=False)
    parts = list(blocks)
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), X)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), y)
    np.testing.assert_array_equal(np.concatenate([part.index for part in parts]), np.arange(1000))
    assert len(blocks.items) == 1


def test_a_fit_is_that_of_memory(table):
    path, X, y = table
    model = KernelRidge(1e-2, kernel="rbf", approximation=Nystroem(n_components=20), random_state=0)
    expected = model.fit(X, y).predict(X)
    blocks = Blocks(path, target="y", columns=["x", "z"], client=False)
    found = np.asarray(model.fit(blocks).predict(blocks))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_other_delimiters_and_labels(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;kind\n" + "".join(f"{i},5;{'ab'[i % 2]}\n" for i in range(10)).replace(",5", ".5"))
    parts = list(Blocks(path, target="kind", client=False))
    assert np.concatenate([part.y for part in parts]).tolist() == list("ab" * 5)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,2,3\n", r"t\.csv: .*line \d+ has 3 values"),
        ("word,2\n", r"t\.csv: .*'word'"),
        (",2\n", r"t\.csv: column 'x' holds NaN or missing values"),
    ],
)
def test_the_error_for_a_bad_record_names_the_file(tmp_path, line, words):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "1,2\n" * 300_000 + line + "1,2\n" * 50)
    with pytest.raises(ValueError, match=words):
        list(Blocks(path, target="y", client=False))


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
        blocks = Blocks(file.name, target="y", client=False)
        model = KernelRidge(1.0, kernel="rbf", approximation=Nystroem(n_components=20), random_state=0, n_jobs=1)
        model.fit(blocks)
        print(len(blocks.items))
    """
    # pyarrow reads 32 MB ahead, which the shorter file has too.
    few, _ = peak_bytes(code.format(30))
    many, printed = peak_bytes(code.format(80))
    assert int(printed) == 1
    # 1,000,000 rows more: 70 MB of text, 80 MB of numbers.
    assert many - few < 40e6
