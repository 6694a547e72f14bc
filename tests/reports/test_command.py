"""``gramian report`` from files to page."""

import numpy as np
import pandas as pd
import pytest

import gramian
from gramian.cli import main
from gramian.kernels import RBF


@pytest.fixture
def saved(tmp_path, rng):
    table = pd.DataFrame(rng.standard_normal((60, 2)), columns=["age <years>", "size"])
    table["price"] = np.sin(table["size"]) + 0.05 * rng.standard_normal(60)
    model = gramian.KernelRidge(0.1, kernel=RBF(1.0)).fit(table[["age <years>", "size"]][:40], table["price"][:40])
    gramian.save(model, tmp_path / "my model")
    table[40:].to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


def test_the_command_writes_the_page(saved, capsys):
    pytest.importorskip("pyarrow")
    model, data, page = (str(saved / name) for name in ("my model", "new.csv", "page.html"))
    assert main(["report", model, data, "--target", "price", "-o", page]) == 0
    assert page in capsys.readouterr().out.replace("\n", "")
    text = (saved / "page.html").read_text(encoding="utf-8")
    assert "on 20 rows new to the model" in text
    assert "age &lt;years&gt;" in text
    assert "new.csv" in text
    assert "my model" in text


def test_the_command_needs_no_data(saved, monkeypatch):
    monkeypatch.chdir(saved)
    assert main(["report", "my model"]) == 0
    assert "KernelRidge" in (saved / "report.html").read_text(encoding="utf-8")
