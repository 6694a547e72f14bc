"""select_components."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.estimators.mixture.gaussian import GaussianMixture
from gramian.estimators.mixture.selection import select_components


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(center, 1, size=(100, 2)) for center in ([0, 0], [9, 0], [0, 9])])


@pytest.mark.parametrize("criterion", ["bic", "aic"])
def test_the_curve_is_the_criterion_and_its_lowest_point_the_best(X, criterion):
    chosen = select_components(X, [4, 1, 3, 2], criterion=criterion, random_state=0)
    assert chosen.n_components == (1, 2, 3, 4)
    assert chosen.best.n_components == chosen.n_components[int(np.argmin(chosen.curve))]
    assert getattr(chosen.best, criterion)(X) == pytest.approx(min(chosen.curve))
    assert chosen.best.n_components >= 3
    assert criterion in str(chosen)


def test_all_sizes_start_from_the_same_seeds(X):
    few = select_components(X, [3], random_state=0)
    assert few.best.init_params.shape == (3, 2)
    alone = GaussianMixture(3, init_params=few.best.init_params, random_state=0).fit(X)
    assert alone.bic(X) == pytest.approx(few.curve[0])


def test_weights_and_other_parameters_are_passed_on(X):
    weights = np.r_[np.ones(200), np.zeros(100)]
    chosen = select_components(X, range(1, 4), sample_weight=weights, covariance_type="spherical", random_state=0)
    assert chosen.best.n_components == 2
    assert chosen.best.covariance_type == "spherical"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": []}, ">= 1"),
        ({"n_components": [0, 1]}, ">= 1"),
        ({"n_components": [301]}, "n_samples = 300"),
        ({"n_components": [1], "criterion": "icl"}, "criterion must be"),
    ],
)
def test_what_makes_no_sense_is_refused(X, arguments, message):
    with pytest.raises(ValueError, match=message):
        select_components(X, **arguments)
