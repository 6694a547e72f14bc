"""Models written by earlier versions must load, and predict what they predicted.

For a new format, or a class whose state has changed: ``python tests/files/test_fixtures.py v2`` writes new ones beside
those that are there, which stay.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import gramian
from gramian import SVC, GaussianProcessRegressor, KernelMachineClassifier, KernelRidge, Nystroem
from gramian.files import inspect
from gramian.kernels import RBF, Linear, Spectrum

FIXTURES = Path(__file__).parent / "fixtures"
ROWS = np.linspace(-1.0, 1.0, 24).reshape(12, 2)[:, ::-1] ** 3
NEW = [[0.25, -0.5], [0.0, 1.0]]
LABELS = np.array(["low", "middle", "high"])[np.arange(12) // 4]


def models() -> dict[str, tuple[Any, Any]]:
    y = np.sin(3.0 * ROWS[:, 0])
    return {
        "ridge": (KernelRidge(0.1, kernel=2.0 * RBF([0.5, 1.0]) + Linear().on(0)).fit(ROWS, np.c_[y, -y]), NEW),
        "svc": (SVC(C=10.0, kernel="rbf").fit(ROWS, LABELS), NEW),
        "gp": (
            GaussianProcessRegressor(1.0 * RBF(1.0), alpha=0.1, approximation=Nystroem(n_components=5)).fit(ROWS, y),
            NEW,
        ),
        "machine": (KernelMachineClassifier().fit(ROWS, LABELS.astype(object)), NEW),
        "texts": (KernelRidge(kernel=Spectrum(2)).fit(["aab", "abc", "ćab"], [1.0, 2.0, 3.0]), ["abb", ""]),
    }


@pytest.mark.parametrize("folder", sorted(p.parent for p in FIXTURES.glob("*/*/manifest.json")), ids=lambda p: p.name)
def test_models_of_earlier_versions_load(folder: Path) -> None:
    model = gramian.load(folder)
    expected = json.loads((folder / "expected.json").read_text())
    rows = expected["rows"]
    found = model.predict(pandas.DataFrame(rows) if isinstance(rows, dict) else rows)
    if found.dtype.kind == "f":
        # The last bits of sums and products are those of the machine.
        np.testing.assert_allclose(found, expected["predictions"], rtol=1e-11)
    else:
        assert found.tolist() == expected["predictions"]
    assert inspect(folder).model == type(model).__name__


def test_there_are_fixtures_of_every_kind() -> None:
    assert {p.name for p in (FIXTURES / "v1").iterdir()} == set(models())


if __name__ == "__main__":
    for name, (model, rows) in models().items():
        target = FIXTURES / sys.argv[1] / name
        target.parent.mkdir(parents=True, exist_ok=True)
        gramian.save(model, target)
        expected = {"rows": rows, "predictions": model.predict(rows).tolist()}
        (target / "expected.json").write_text(json.dumps(expected) + "\n")
