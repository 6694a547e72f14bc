"""Mixtures and convergence."""

import numpy as np
import pytest
from scipy.stats import chi2

from gramian import SVC, GaussianMixture, KernelMachineClassifier, KernelRidge, select_components
from gramian.kernels import RBF
from gramian.plots import ConvergenceDisplay, MixtureDisplay
from gramian.progress import Trace, recorded


@pytest.fixture
def heaps(rng):
    return np.concatenate(
        [
            rng.multivariate_normal([0, 0], [[2.0, 1.2], [1.2, 1.0]], 120),
            rng.multivariate_normal([9, 3], [[0.5, 0.0], [0.0, 3.0]], 60),
        ]
    )


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_ellipses_hold_their_share_of_the_mass(heaps, rng, covariance_type):
    mixture = GaussianMixture(2, covariance_type=covariance_type, random_state=0).fit(heaps)
    display = MixtureDisplay.from_estimator(mixture, heaps)
    assert len(display.ellipses_) == 4
    for c in range(2):
        draws = rng.multivariate_normal(display.means[c], display.covariances[c], 4000)
        for patch, mass in zip(display.ellipses_[2 * c : 2 * c + 2], (0.5, 0.9), strict=True):
            inside = patch.get_path().contains_points(patch.get_patch_transform().inverted().transform(draws))
            assert inside.mean() == pytest.approx(mass, abs=0.03)
    styles = {str(patch.get_linestyle()) for patch in display.ellipses_}
    assert len(styles) == 2  # readable in grey
    assert [len(s.get_offsets()) for s in display.scatters_] == list(np.bincount(mixture.predict(heaps)))


def test_more_inputs_are_projected_exactly(rng):
    X = rng.standard_normal((200, 4)) @ np.diag([5.0, 3.0, 1.0, 0.1])
    mixture = GaussianMixture(1).fit(X)
    display = MixtureDisplay.from_estimator(mixture, X)
    assert display.labels == ("principal direction 1", "principal direction 2")
    away = display.points - display.means[0]
    squared = np.einsum("nd,de,ne->n", away, np.linalg.inv(display.covariances[0]), away)
    assert np.mean(squared < chi2.ppf(0.9, 2)) == pytest.approx(0.9, abs=0.05)
    assert np.allclose(np.cov(display.points.T, bias=True), display.covariances[0], rtol=1e-3, atol=1e-3)
    cut = MixtureDisplay.from_estimator(mixture, X, features=(3, 0))
    assert np.allclose(cut.means[0], mixture.means_[0, [3, 0]])
    assert cut.labels == ("x4", "x1")
    with pytest.raises(ValueError, match="two different inputs"):
        MixtureDisplay.from_estimator(mixture, features=(0, 9))


def test_one_input_is_drawn_as_densities(rng):
    X = np.concatenate([rng.standard_normal(80), rng.standard_normal(80) + 6])[:, None]
    mixture = GaussianMixture(2, random_state=0).fit(X)
    display = MixtureDisplay.from_estimator(mixture, X)
    *parts, whole = display.lines_
    assert len(parts) == 2
    assert np.allclose(whole.get_ydata(), np.exp(mixture.score_samples(whole.get_xdata()[:, None])), rtol=1e-6)
    assert np.trapezoid(whole.get_ydata(), whole.get_xdata()) == pytest.approx(1.0, abs=1e-3)


def test_the_evidence_rises_above_its_bound(heaps):
    mixture = GaussianMixture(3, init_params="random", random_state=0, max_iter=400).fit(heaps)
    display = MixtureDisplay.from_estimator(mixture).plot(kind="evidence")
    above, below = (line.get_ydata() for line in display.lines_)
    assert len(above) == mixture.n_iter_
    assert np.all(np.diff(above) >= -1e-9)
    assert np.all(below <= above + 1e-9)


def test_the_criterion_is_lowest_where_it_was_chosen(heaps):
    selection = select_components(heaps, range(1, 5), random_state=0)
    display = MixtureDisplay.from_selection(selection, heaps).plot(kind="criterion")
    assert list(display.lines_[0].get_ydata()) == list(selection.curve)
    assert display.chosen_.get_xdata()[0] == selection.best.n_components == 2
    assert "BIC" in display.ax_.get_ylabel()
    alone = MixtureDisplay.from_estimator(selection.best)
    with pytest.raises(ValueError, match="needs several mixtures"):
        alone.plot(kind="criterion")
    with pytest.raises(ValueError, match="kind must be one of"):
        alone.plot(kind="bic")


def test_a_recording_keeps_what_solvers_report(heaps):
    with recorded() as traces:
        GaussianMixture(2, random_state=0, verbose_interval=1).fit(heaps)
    assert [trace.label for trace in traces] == ["Gaussian mixture"]
    assert set(traces[0].ticks[0][2]) == {"log_likelihood", "change"}
    seconds = [s for s, _, _ in traces[0].ticks]
    assert seconds == sorted(seconds)
    with recorded() as nothing:
        pass
    assert nothing == []


def test_a_fit_converges_below_its_tolerance(heaps):
    y = heaps[:, 0] + heaps[:, 1] > 6
    model = SVC(C=10.0, kernel=RBF(1.0))
    display = ConvergenceDisplay.from_estimator(model, heaps, y)
    assert not hasattr(model, "support_")
    assert list(display.lines_) == ["gap", "violation"]
    assert display.ax_.get_yscale() == "log"
    assert display.curve("gap")[1][-1] <= display.tol == 1e-3
    assert display.lines_["gap"].get_linestyle() != display.lines_["violation"].get_linestyle()


def test_other_figures_are_drawn_on_a_plain_scale():
    traces = [Trace("EM", [(0.1, 1, {"log_likelihood": -3.0}), (0.2, 2, {"log_likelihood": -2.0})])]
    display = ConvergenceDisplay(traces).plot()
    assert list(display.lines_) == ["log_likelihood"]
    assert display.ax_.get_yscale() == "linear"
    assert list(display.lines_["log_likelihood"].get_ydata()) == [-3.0, -2.0]
    with pytest.raises(ValueError, match="names must be among"):
        display.plot(names=["gap"])


def test_convergence_of_newton_and_of_nothing(heaps):
    display = ConvergenceDisplay.from_estimator(KernelMachineClassifier(kernel=RBF(1.0)), heaps, heaps[:, 0] > 4)
    assert display.names == ["gap"]
    with pytest.raises(ValueError, match="solved directly"):
        ConvergenceDisplay.from_estimator(KernelRidge(), heaps, heaps[:, 0])
