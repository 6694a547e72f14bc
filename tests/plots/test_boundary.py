"""Decision boundaries: what is drawn is what the model says."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.datasets import load_iris, make_blobs, make_moons

from gramian import SVC, GaussianProcessClassifier, KernelMachineClassifier, NuSVC, Nystroem, OneClassSVM
from gramian.kernels import RBF
from gramian.plots import DecisionBoundaryDisplay
from gramian.plots.style import COLOURS, MARKERS


@pytest.fixture
def moons():
    return make_moons(80, noise=0.25, random_state=0)


def test_two_classes_have_three_lines_and_every_object_by_kind(moons):
    X, y = moons
    model = SVC(C=2.0, kernel=RBF(0.7)).fit(X, y)
    display = DecisionBoundaryDisplay.from_estimator(model, X, y, grid_resolution=80)
    assert display.levels == (-1.0, 0.0, 1.0)
    assert list(display.lines_.levels) == [-1.0, 0.0, 1.0]
    drawn = {key: len(points.get_offsets()) for key, points in display.scatters_.items()}
    expected = {
        (str(c), kind): int(np.sum((y == c) & (model.kinds_ == kind)))
        for c in (0, 1)
        for kind in ("peripheral", "margin", "violator")
    }
    assert drawn == {key: count for key, count in expected.items() if count}
    assert sum(drawn.values()) == len(X)
    assert [text.get_text() for text in display.legend_.get_texts()] == ["0", "1", "peripheral", "margin", "violator"]


def test_the_zero_line_is_where_the_model_turns(moons):
    X, y = moons
    model = SVC(kernel=RBF(0.7)).fit(X, y)
    display = DecisionBoundaryDisplay.from_estimator(model, X, y)
    zero = display.lines_.get_paths()[1].vertices
    assert np.abs(model.decision_function(zero)).max() < 0.02
    inside = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    assert np.allclose(model.decision_function(inside), display.response.ravel())
    assert display.ax_.get_xlim() == (display.xx0.min(), display.xx0.max())


def test_more_classes_are_regions_of_what_is_predicted():
    X, y = make_blobs(90, centers=3, random_state=1)
    names = np.array(["ant", "bee", "cat"])[y]
    model = SVC(kernel=RBF(2.0)).fit(X, names)
    display = DecisionBoundaryDisplay.from_estimator(model, X, names, grid_resolution=60)
    predicted = model.predict(np.column_stack([display.xx0.ravel(), display.xx1.ravel()]))
    assert np.array_equal(np.array(display.classes)[display.response.ravel().astype(int)], predicted)
    assert display.levels == ()
    assert len(display.surface_) == len(np.unique(predicted))
    hatches = [fill.hatches[0] for fill in display.surface_]
    assert len(set(hatches)) == 3  # readable in grey
    colours = {name: to_hex(points.get_facecolors()[0]).upper() for (name, _), points in display.scatters_.items()}
    assert set(colours.values()) == set(COLOURS[:3])


def test_classes_differ_in_marker_as_well_as_in_colour():
    X, y = make_blobs(60, centers=3, random_state=1)
    display = DecisionBoundaryDisplay.from_estimator(SVC().fit(X, y), X, y, grid_resolution=30)
    shapes = {name: points.get_paths()[0].vertices.tobytes() for (name, _), points in display.scatters_.items()}
    assert len(set(shapes.values())) == 3
    assert len(set(MARKERS)) == len(MARKERS) == len(COLOURS)


def test_kinds_of_rows_that_the_fit_has_not_seen_follow_from_their_margins(moons):
    X, y = moons
    model = SVC(kernel=RBF(0.7)).fit(X[:60], y[:60])
    display = DecisionBoundaryDisplay.from_estimator(model, X[60:], y[60:], grid_resolution=20)
    signed = np.where(y[60:] == 1, 1, -1) * model.decision_function(X[60:])
    assert np.array_equal(display.kinds == "violator", signed < 1 - 1e-6)


def test_more_inputs_are_drawn_on_a_kernel_pca_plane_or_a_slice():
    X, y = load_iris(return_X_y=True)
    model = NuSVC(nu=0.2).fit(X, y)
    plane = DecisionBoundaryDisplay.from_estimator(model, X, y, grid_resolution=30)
    assert plane.labels == ("kernel principal component 1", "kernel principal component 2")
    # Rows mostly stand in the region that the model gives them.
    cell = [
        np.abs(axis[None, :] - plane.points[:, [i]]).argmin(axis=1)
        for i, axis in enumerate((plane.xx0[0], plane.xx1[:, 0]))
    ]
    assert np.mean(plane.response[cell[1], cell[0]] == model.predict(X)) > 0.9
    cut = DecisionBoundaryDisplay.from_estimator(model, X, y, features=(2, 3), grid_resolution=30)
    assert np.array_equal(cut.points, X[:, 2:])
    assert (cut.ax_.get_xlabel(), cut.ax_.get_ylabel()) == ("x3", "x4")


def test_a_novelty_detector_has_one_line(moons):
    X, _ = moons
    model = OneClassSVM(nu=0.1).fit(X)
    display = DecisionBoundaryDisplay.from_estimator(model, X, grid_resolution=60)
    assert display.levels == (0.0,)
    assert display.codes is None
    assert {kind for _, kind in display.scatters_} == set(np.unique(model.kinds_))
    deep = np.column_stack([X, X[:, 0] * X[:, 1]])
    plane = DecisionBoundaryDisplay.from_estimator(OneClassSVM(nu=0.1).fit(deep), deep, margin=0.5)
    assert plane.labels[0] == "principal direction 1"
    assert plane.response[0, 0] < 0  # a corner, far from everything


def test_models_without_margins_have_probabilities_and_plain_objects(moons):
    X, y = moons
    gp = GaussianProcessClassifier(1.0 * RBF(0.7), optimizer=None).fit(X, y)
    display = DecisionBoundaryDisplay.from_estimator(gp, X, y, grid_resolution=30)
    assert display.method == "predict_proba"
    assert display.levels == (0.1, 0.5, 0.9)
    assert display.kinds is None
    machine = KernelMachineClassifier(kernel=RBF(0.7)).fit(X, y)
    assert DecisionBoundaryDisplay.from_estimator(machine, X, y, grid_resolution=20).levels == (-1.0, 0.0, 1.0)


def test_it_draws_on_axes_that_are_given(moons):
    _, ax = plt.subplots()
    display = DecisionBoundaryDisplay.from_estimator(SVC().fit(*moons), *moons, grid_resolution=20, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure


def test_without_data_it_draws_what_the_fit_keeps(moons):
    X, y = moons
    model = SVC().fit(X, y)
    assert len(DecisionBoundaryDisplay.from_estimator(model, grid_resolution=20).points) == len(model.support_)


def test_a_machine_in_the_space_of_a_map(moons):
    X, y = moons
    features = Nystroem(n_components=20, random_state=0)
    model = SVC(kernel=RBF(0.7), approximation=features).fit(X, y)
    display = DecisionBoundaryDisplay.from_estimator(model, X, y, grid_resolution=20)
    assert np.array_equal(display.kinds, model.kinds_)
    assert len(DecisionBoundaryDisplay.from_estimator(model, grid_resolution=20).points) == 20


def test_what_cannot_be_drawn_is_refused(moons):
    X, y = moons
    with pytest.raises(ValueError, match="needs two inputs"):
        DecisionBoundaryDisplay.from_estimator(SVC().fit(X[:, :1], y), X[:, :1], y)
    with pytest.raises(ValueError, match="two different inputs"):
        DecisionBoundaryDisplay.from_estimator(SVC().fit(X, y), X, y, features=(0, 5))
    with pytest.raises(ValueError, match="not fitted to: 7"):
        DecisionBoundaryDisplay.from_estimator(SVC().fit(X, y), X, np.full(len(X), 7))
    with pytest.raises(TypeError, match="rows of numbers"):
        DecisionBoundaryDisplay.from_estimator(SVC().fit(X, y), np.array([["a", "b"]]), None)
