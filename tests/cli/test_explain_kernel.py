"""``gramian explain-kernel``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from gramian.cli import main


def test_explain_kernel(capsys: Any) -> None:
    assert main(["explain-kernel", "2*RBF(0.5) + Polynomial(2)*Matern(1)"]) == 0
    out = capsys.readouterr().out
    for part in ("Gaussian, of deviation 1/lengthscale", "Student's t", "monomials in 2 inputs: 6", "x1 x2", "learned"):
        assert part in out
    assert main(["explain-kernel", "rbf", "--inputs", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["amplitude"] == 1.0
    assert found["kernel"].startswith("RBF(")
    half = found["terms"][0]["spectrum"]["quantiles"]["0.5"]
    assert half == pytest.approx(0.6745 / np.sqrt(2.0), rel=0.02)
    assert main(["explain-kernel", "Polynomial(30)", "--inputs", "100"]) == 0
    assert "too many to list" in capsys.readouterr().out
