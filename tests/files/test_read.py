"""A model that comes back from a file is the model that was saved, whatever it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gramian
from fitted import METHODS, VARIANTS, plain, public
from gramian.files import Contents, inspect

CASES = {**{name: (lambda name=name: plain(name)) for name in public()}, **VARIANTS}
pytestmark = pytest.mark.filterwarnings("ignore")  # of the fits, which are not the subject here


def text(value: Any) -> str:
    """What it prints, without addresses."""
    return re.sub(r"0x[0-9A-F]+", "", repr(value))


def values(model: Any, method: str, rows: Any) -> tuple[Any, ...]:
    try:
        result = getattr(model, method)(rows)
    except ValueError as error:  # what this model cannot do
        return str(error), ""
    a = np.asarray(result.toarray() if hasattr(result, "toarray") else result)
    return type(result), a.dtype, a.shape, a.tolist() if a.dtype == object else a.tobytes()


def check_same(model: Any, again: Any, rows: Any) -> None:
    assert type(again) is type(model)
    assert text(again) == text(model)
    assert text(again.get_params()) == text(model.get_params())
    assert text(getattr(again, "certificate_", None)) == text(getattr(model, "certificate_", None))
    assert vars(again).keys() == vars(model).keys() - {"_fitted_to"}  # rows by reference are not written
    for method in METHODS:
        if hasattr(model, method):
            assert values(again, method, rows) == values(model, method, rows), method


@pytest.mark.parametrize("name", CASES)
def test_models_come_back_to_the_last_bit(name: str, tmp_path: Path) -> None:
    model, rows = CASES[name]()
    gramian.save(model, tmp_path / "model")
    again = gramian.load(tmp_path / "model")
    check_same(model, again, rows)
    contents = inspect(tmp_path / "model")
    assert isinstance(contents, Contents)
    assert type(model).__name__ in str(contents)
    # What was loaded is saved as the same bytes, and so can be saved again.
    gramian.save(again, tmp_path / "again")
    first, second = (sorted(p.read_bytes() for p in (tmp_path / n).iterdir()) for n in ("model", "again"))
    assert first == second
