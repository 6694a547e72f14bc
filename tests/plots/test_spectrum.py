"""Spectra, Gram matrices and sensitivities."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from gramian import (
    SVC,
    FourierFeatures,
    GaussianMixture,
    GaussianProcessRegressor,
    KernelMachineRegressor,
    KernelPCA,
    KernelRidge,
)
from gramian.gram import Gram, rpcholesky
from gramian.kernels import RBF, Linear, Precomputed, White
from gramian.plots import GramMatrixDisplay, SensitivityDisplay, SpectrumDisplay


def test_the_spectrum_is_that_of_the_matrix(rng):
    X = rng.standard_normal((60, 2))
    display = SpectrumDisplay.from_kernel(RBF(1.0), X, lam=1e-3)
    values = np.linalg.eigvalsh(RBF(1.0)(X) / 60)[::-1]
    assert np.allclose(display.eigenvalues, values, atol=1e-14)
    dimension = np.trace(np.linalg.solve(RBF(1.0)(X) / 60 + 1e-3 * np.eye(60), RBF(1.0)(X) / 60))
    assert display.effective_dimension(1e-3) == pytest.approx(dimension)
    assert np.all(np.diff(display.dimension) >= 0)  # lambdas fall
    (line,) = display.lines_
    assert np.array_equal(line.get_ydata(), display.eigenvalues[display.eigenvalues > 0])
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("log", "log")


def test_every_kind_of_curve(rng):
    X = rng.standard_normal((80, 2))
    model = KernelRidge(alpha=0.8, kernel=RBF(1.0)).fit(X, X[:, 0])
    display = SpectrumDisplay.from_estimator(model)
    assert display.lam == pytest.approx(0.01)
    display.plot(kind="dimension")
    assert display.chosen_.get_xdata()[0] == display.lam
    assert display.chosen_.get_ydata()[0] == pytest.approx(display.effective_dimension(0.01))
    display.plot(kind="rank")
    best, drawn = display.lines_
    for rank, missed in zip(drawn.get_xdata(), drawn.get_ydata(), strict=True):
        assert missed >= best.get_ydata()[int(rank) - 1] - 1e-9  # Eckart and Young
    pivots = rpcholesky(Gram(RBF(1.0), X), 80, random_state=0, tol=1e-12)
    assert display.missed[-1] == pytest.approx(pivots.trace_error, abs=1e-9)
    with pytest.raises(ValueError, match="kind must be one of"):
        display.plot(kind="decay")


def test_lam_is_read_from_models_that_have_one(rng):
    X = rng.standard_normal((30, 2))
    assert SpectrumDisplay.from_estimator(KernelMachineRegressor(lam=0.02).fit(X, X[:, 0])).lam == 0.02
    assert SpectrumDisplay.from_estimator(SVC().fit(X, X[:, 0] > 0)).lam is None
    assert SpectrumDisplay.from_estimator(KernelPCA(2, kernel="rbf").fit(X)).lam is None


def test_the_noise_of_a_process_is_its_lam(rng):
    X = rng.standard_normal((40, 1))
    gp = GaussianProcessRegressor(2.0 * RBF(1.0) + White(0.4), alpha=0.1, optimizer=None).fit(X, X[:, 0])
    display = SpectrumDisplay.from_estimator(gp)
    assert display.lam == pytest.approx(0.5 / 40)
    assert np.allclose(display.eigenvalues, np.linalg.eigvalsh(2.0 * RBF(1.0)(X) / 40)[::-1], atol=1e-13)


def test_other_rows(rng):
    X = rng.standard_normal((40, 3)) * (rng.random((40, 3)) < 0.5)
    dense = SpectrumDisplay.from_kernel(Linear(), X).eigenvalues
    assert np.allclose(SpectrumDisplay.from_kernel(Linear(), sp.csr_array(X)).eigenvalues, dense, atol=1e-12)
    assert np.allclose(SpectrumDisplay.from_kernel(Precomputed(), X @ X.T).eigenvalues, dense, atol=1e-12)
    assert np.count_nonzero(dense) == 3
    with pytest.raises(TypeError, match="has no kernel"):
        SpectrumDisplay.from_estimator(GaussianMixture().fit(X), X)
    fourier = KernelRidge(kernel=RBF(1.0), approximation=FourierFeatures(n_components=10, random_state=0))
    with pytest.raises(ValueError, match="keeps none; pass X"):
        SpectrumDisplay.from_estimator(fourier.fit(X, X[:, 0]))


def test_a_gram_matrix_is_ordered_by_class():
    X, y = load_iris(return_X_y=True)
    shuffled = np.random.default_rng(0).permutation(150)
    X, y = X[shuffled], np.array(["se$t", "versi", "virgi"])[y[shuffled]]
    display = GramMatrixDisplay.from_kernel(RBF(1.0), X, y)
    assert display.groups == ["se$t", "versi", "virgi"]
    assert np.array_equal(y[display.order], np.repeat(display.groups, display.sizes))
    assert np.allclose(display.matrix, RBF(1.0)(X[display.order]))
    assert np.array_equal(display.image_.get_array(), display.matrix)
    assert len(display.lines_) == 4
    assert display.lines_[0].get_ydata()[0] == 49.5
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == [r"se\$t", "versi", "virgi"]


def test_a_gram_matrix_without_classes_is_ordered_by_cluster(rng):
    X = np.concatenate([rng.standard_normal((30, 2)), rng.standard_normal((30, 2)) + 20])[rng.permutation(60)]
    display = GramMatrixDisplay.from_estimator(SVC(kernel=RBF(2.0)).fit(X, X[:, 0] > 10), X)
    assert display.by == "cluster"
    sides = X[display.order, 0] > 10
    assert np.count_nonzero(np.diff(sides)) == 1  # the two heaps stand together
    assert sum(display.sizes) == 60


def test_large_and_signed_matrices(rng):
    X = rng.standard_normal((700, 2))
    display = GramMatrixDisplay.from_kernel(Linear(), X)
    assert display.matrix.shape == (500, 500)
    assert display.image_.norm.vmin == -display.image_.norm.vmax
    assert GramMatrixDisplay.from_kernel(RBF(1.0), X[:1]).sizes == [1]


@pytest.mark.parametrize("scaled", [True, False])
def test_sensitivities_are_mean_slopes(rng, scaled):
    X = rng.standard_normal((50, 3)) * [1.0, 10.0, 0.1]
    model = KernelRidge(1e-3, kernel=RBF([2.0, 20.0, 0.2])).fit(X, np.sin(X[:, 0]) + X[:, 1])
    display = SensitivityDisplay.from_estimator(model, X, scaled=scaled)
    step = 1e-5 * np.eye(3)
    slopes = np.column_stack([(model.predict(X + h) - model.predict(X - h)) / 2e-5 for h in step])
    expected = np.abs(slopes).mean(axis=0) * (X.std(axis=0) if scaled else 1.0)
    assert np.allclose(display.importance, expected, rtol=1e-4)
    assert [bar.get_width() for bar in display.bars_] == sorted(display.importance, reverse=True)
    labels = [t.get_text() for t in display.ax_.get_yticklabels()]
    assert labels == [f"x{j + 1}" for j in np.argsort(-display.importance)]


def test_sensitivities_without_an_expansion_are_differences(rng):
    X = rng.standard_normal((60, 2))
    fourier = FourierFeatures(n_components=200, random_state=0)
    model = KernelRidge(1e-2, kernel=RBF(2.0), approximation=fourier).fit(X, 3 * X[:, 0])
    assert np.allclose(SensitivityDisplay.from_estimator(model, X, scaled=False).importance, [3, 0], atol=0.15)


def test_sensitivities_of_several_functions_and_many_inputs(rng):
    X = rng.standard_normal((60, 25))
    display = SensitivityDisplay.from_estimator(SVC().fit(X, np.digitize(X[:, 4], [-0.5, 0.5])))
    assert len(display.bars_) == 20
    assert display.importance.argmax() == 4
