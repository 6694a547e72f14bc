"""Fits in memory and over blocks are equal where the rows are more than landmarks and starts are chosen among."""

from __future__ import annotations

import numpy as np
import pytest

import gramian.estimators.mixture.starts as mixture_init
import gramian.features.base as landmark_sample
from gramian import (
    FourierFeatures,
    GaussianMixture,
    GaussianProcessRegressor,
    KernelPCA,
    KernelRidge,
    Nystroem,
)
from gramian.data import Blocks
from gramian.data.passes import sample_rows
from gramian.kernels import RBF

N = 1500
MAPS = [Nystroem(n_components=30), FourierFeatures(n_components=30)]


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    monkeypatch.setattr(landmark_sample, "LEAST", 200)
    monkeypatch.setattr(landmark_sample, "TIMES", 1)
    monkeypatch.setattr(mixture_init, "SAMPLE", 200)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(N)


def process(approximation, evidence):
    options = {"noise": "learn", "normalize_y": True, "evidence": evidence, "random_state": 0}
    return GaussianProcessRegressor(1.0 * RBF(1.0), approximation=approximation, **options)


FITS = {
    "ridge": lambda m: KernelRidge(1e-2, kernel=RBF(1.0), approximation=m, random_state=0),
    "loo": lambda m: KernelRidge("loo", kernel=RBF(1.0), approximation=m, random_state=0),
    "few evidence rows": lambda m: process(m, 100),
    "many evidence rows": lambda m: process(m, 400),
}


def equal(make, X, y, answer, tol=1e-6):
    one, other = make().fit(X, y), make().fit(Blocks(X, y, rows=400))
    a, b = np.asarray(answer(one)), np.asarray(answer(other))
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol * np.abs(a).max())
    return one, other


@pytest.mark.filterwarnings("ignore:The optimal value found")  # both fits end at the same bound
@pytest.mark.parametrize("approximation", MAPS)
@pytest.mark.parametrize("fit", FITS)
def test_numbers(data, fit, approximation):
    X, y = data
    one, other = equal(lambda: FITS[fit](approximation), X, y, lambda model: model.predict(X))
    if isinstance(approximation, Nystroem):
        found = [model.approximation_ for model in (one, other)]
        np.testing.assert_array_equal(found[0].component_indices_, found[1].component_indices_)
        assert found[0].trace_error_ == pytest.approx(found[1].trace_error_, rel=1e-8)
    if "evidence" in fit:
        np.testing.assert_array_equal(one.evidence_rows_, other.evidence_rows_)


@pytest.mark.parametrize("approximation", MAPS)
def test_components(data, approximation):
    X, _ = data
    make = lambda: KernelPCA(3, kernel=RBF(1.0), approximation=approximation, random_state=0)  # noqa: E731
    equal(make, X, None, lambda model: model.transform(X))


@pytest.mark.parametrize("selection", ["rpcholesky", "uniform", "greedy", "leverage", "kmeans"])
def test_maps(data, selection):
    X, _ = data
    make = lambda: Nystroem(RBF(1.0), n_components=20, selection=selection, random_state=0)  # noqa: E731
    one, _ = equal(make, X, None, lambda model: model.transform(X))
    among = sample_rows(N, 200, int(np.random.RandomState(0).randint(2**31 - 1)))
    assert set(one.component_indices_) <= set(among)
    F = make().fit_transform(X)
    np.testing.assert_allclose(F, one.transform(X), atol=1e-10)
    assert one.trace_error_ == pytest.approx(1.0 - np.sum(F * F) / N, rel=1e-10)


def test_a_tolerance_is_a_promise_about_all_rows_in_memory(data):
    X, _ = data
    model = Nystroem(RBF(1.0), n_components=200, tol=0.05, random_state=0).fit(X)
    F = model.transform(X)
    assert 1.0 - np.sum(F * F) / N <= 0.05


def test_mixtures(data):
    X, _ = data
    equal(lambda: GaussianMixture(3, random_state=0), X, None, lambda model: model.score_samples(X))
