"""What the search tries: a cheap machine of each kind first, and one scale for columns that share a unit."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.estimators.auto.candidates import MACHINES, candidates
from gramian.estimators.auto.columns import NumberColumn, encode, fit_scaling, scalings_for
from gramian.estimators.auto.regressor import AutoKernelRegressor
from gramian.estimators.auto.tables import columns_of


@pytest.fixture
def pixels():
    """Columns of one unit whose deviations differ."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((200, 10)) * np.r_[0.01, 0.1, np.full(8, 3.0)] + np.arange(10.0)


def encoding_of(X):
    return encode(columns_of(AutoKernelRegressor(), X, reset=True))


@pytest.mark.parametrize(
    ("classes", "n", "first"),
    [
        (10, 1000, ["ridge, RBF typical, standard", "svm, RBF typical, standard", "gp"]),
        (0, 1000, ["ridge, RBF typical, standard", "gp"]),
        (500, 1000, ["ridge, RBF typical, standard", "gp"]),
        (3, 100, ["gp"]),
    ],
)
def test_cheap_machines_come_first(pixels, classes, n, first):
    found = candidates(encoding_of(pixels), n, MACHINES, None, classes)
    assert all(c.name.startswith(name) for c, name in zip(found, first, strict=False))
    assert len({c.name for c in found}) == len(found)
    assert all(len(c.kernels) == 1 for c in found if "typical" in c.name)


def test_columns_of_one_unit_have_one_scale(pixels):
    places = list(range(10))
    assert scalings_for(pixels, places) == ("standard", "normal", "common")
    Z = fit_scaling("common", pixels, places).transform(pixels)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-12)
    assert Z.var(axis=0).mean() == pytest.approx(1.0)
    np.testing.assert_allclose(Z.std(axis=0) / Z[:, 9].std(), pixels.std(axis=0) / pixels[:, 9].std())
    found = candidates(encoding_of(pixels), 1000, MACHINES, None, 10, ("standard", "normal", "common"))
    assert [c.scaling for c in found[:3]] == ["common"] * 3


def test_other_columns_are_not_offered_it(pixels):
    places = list(range(10))
    dominated = pixels * np.r_[100.0 / 3.0, np.ones(9)] * np.r_[1000.0, np.ones(9)]
    for X, at in (
        (dominated, places),
        (pixels[:, :4], places[:4]),
        (pixels / pixels.std(axis=0), places),
        (pixels, []),
    ):
        assert scalings_for(X, at) == ("standard", "normal")
    assert encoding_of(pixels).places(NumberColumn) == places
