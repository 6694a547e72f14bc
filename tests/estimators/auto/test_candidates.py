"""What the search tries: a cheap machine of each kind first, and one scale for columns that share a unit."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.estimators.auto.candidates import MACHINES, Candidate, candidates, metrics
from gramian.estimators.auto.columns import encode
from gramian.estimators.auto.encoders import NumberColumn
from gramian.estimators.auto.fits import Resources, behind_map, fit
from gramian.estimators.auto.regressor import AutoKernelRegressor
from gramian.estimators.auto.response import Numbers
from gramian.estimators.auto.scaling import fit_scaling, scalings_for
from gramian.estimators.auto.scoring import scoring_of
from gramian.estimators.auto.tables import columns_of
from gramian.kernels import RBF, Laplace, Linear, Matern, White

RMSE = scoring_of("rmse", classes=False)


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
    assert scalings_for(pixels, places) == ("standard", "normal", "robust", "common")
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
        assert scalings_for(X, at) == ("standard", "normal", "robust")
    assert encoding_of(pixels).places(NumberColumn) == places


def test_robust_columns_are_drawn_in():
    z = np.r_[np.linspace(-1, 1, 99), 1e6][:, None]
    s = fit_scaling("robust", z, [0]).transform(z)[:, 0]
    assert s[-1] == pytest.approx(3.0, rel=1e-6)
    assert np.all(np.diff(s) > 0)
    np.testing.assert_allclose(
        s[48:51], (z[48:51, 0] - np.median(z)) / (np.subtract(*np.quantile(z, [0.75, 0.25])) / 1.349), rtol=1e-3
    )
    sparse = np.r_[np.zeros(90), np.arange(10.0)][:, None]
    assert np.isfinite(fit_scaling("robust", sparse, [0]).transform(sparse)).all()


# ---- metrics ------------------------------------------------------------------------------------------------------

NOISY = White(0.01)


@pytest.mark.parametrize("lengthscale", [2.0, [1.0, 2.0, 4.0]])
def test_a_metric_begins_at_the_process_it_follows(lengthscale):
    X = np.random.default_rng(0).standard_normal((10, 3))
    kernel = 2.0 * Matern(lengthscale, nu=1.5)
    base, prior = behind_map(kernel + NOISY, 3)
    np.testing.assert_allclose(prior.kernel(base)(X), kernel(X), rtol=1e-12)
    assert prior.noise == 0.01
    same, again = behind_map(prior.kernel(base) + NOISY, 3)
    np.testing.assert_allclose(again.kernel(same)(X), kernel(X), rtol=1e-12)


def test_only_radial_kernels_of_all_columns_get_a_metric():
    leader = Candidate("gp, Matern-3/2 per column, robust", "gp", "robust", each=True)
    found = metrics(leader, 1.0 * Matern([1.0, 1.0]) + NOISY, 2, classes=False)
    assert [c.name.split("metric by ")[1] for c in found] == [
        "evidence, robust",
        "AGOP, robust",
        "AGOP squared, robust",
    ]
    assert len(metrics(leader, 1.0 * RBF(1.0) + NOISY, 2, classes=True)) == 1
    assert not metrics(found[0], 1.0 * RBF(1.0) + NOISY, 2, classes=False)
    assert not metrics(leader, 1.0 * RBF(1.0) + NOISY, 41, classes=False)
    for other in (1.0 * Laplace(1.0), 1.0 * RBF(1.0) + 0.1 * Linear(), (1.0 * RBF(1.0)).on(0)):
        assert not metrics(leader, other + NOISY, 2, classes=False)


@pytest.mark.parametrize("way", [0, 1, 2])
def test_a_metric_finds_the_direction(way):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((150, 3))
    response = Numbers(np.sin(2.0 * (Z[:, 0] + Z[:, 1])) + 0.05 * rng.standard_normal(150), RMSE)
    leader = Candidate("gp, RBF per column, standard", "gp", "standard", each=True)
    kernel = 1.0 * RBF([1.0, 1.0, 5.0]) + NOISY
    made = metrics(leader, kernel, 3, classes=False)[way]
    rows = np.arange(100)
    (found,) = fit(made, response, Z, rows, None, Resources(10**8, 1, 0))
    values, axes = np.linalg.eigh(behind_map(found.kernel, 3)[1].L @ behind_map(found.kernel, 3)[1].L.T)
    assert values[-1] > 5 * values[-2]
    np.testing.assert_allclose(np.abs(axes[:, -1]), np.r_[np.sqrt(0.5), np.sqrt(0.5), 0.0], atol=0.1)
    (more,) = fit(made, response, Z, np.arange(120), found.kernel, Resources(10**8, 1, 0))
    error = more.model.predict(Z[120:]).ravel() - response.targets[120:, 0]
    assert np.sqrt(np.mean(error**2)) < 0.25
    (noisy,) = fit(made, response, Z, rows, None, Resources(10**8, 1, 0, least_noise=0.3))
    assert noisy.settings["noise"] >= 0.299
