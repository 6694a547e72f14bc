"""Fits over blocks: equal to fits in memory, whatever the blocks; predictions that stream; refusals."""

from dataclasses import dataclass

import numpy as np
import pytest

import gramian
import gramian.features.base as landmark_sample
from gramian.data import Blocks
from gramian.kernels import RBF
from gramian.losses import Quantile

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N = 900
MAPS = [gramian.Nystroem(n_components=30), gramian.FourierFeatures(n_components=30)]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(N)
    w = rng.uniform(0.0, 2.0, N)
    w[::7] = 0.0
    return X, y, w


def labels(X, classes):
    return np.array(["a", "b", "c"])[np.digitize(X[:, 0] + X[:, 1] ** 2, [0.5, 1.5])[: len(X)] % classes]


def small_sample(monkeypatch, rows=200):
    """Landmarks from some of the rows, as with data beyond memory."""
    monkeypatch.setattr(landmark_sample, "LEAST", rows)
    monkeypatch.setattr(landmark_sample, "TIMES", 1)


def close(a, b, tol=1e-6):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol)


# ---- ridge ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("approximation", [*MAPS, gramian.PolynomialMap(degree=2)])
@pytest.mark.parametrize("alpha", [1e-2, "loo"])
def test_ridge_equals_the_fit_in_memory(data, approximation, alpha):
    X, y, w = data
    options = {"approximation": approximation, "random_state": 0}
    if not isinstance(approximation, gramian.PolynomialMap):
        options["kernel"] = RBF(1.0)
    Y = np.column_stack([y, y**2])
    one = gramian.KernelRidge(alpha, **options).fit(X, Y, sample_weight=w)
    other = gramian.KernelRidge(alpha, **options).fit(Blocks(X, Y, w, rows=130))
    close(one.predict(X), other.predict(X))
    close(one.alpha_, other.alpha_)
    assert other.certificate_.converged
    assert other.solver_.name == "moments"
    if alpha == "loo":
        close(one.loo_path_, other.loo_path_)
    if isinstance(approximation, gramian.Nystroem):
        np.testing.assert_array_equal(one.X_fit_, other.X_fit_)
        np.testing.assert_array_equal(X[other.approximation_.component_indices_], other.X_fit_)
        close(one.approximation_.trace_error_, other.approximation_.trace_error_)


@pytest.mark.parametrize("approximation", MAPS)
def test_conjugate_gradients_lead_to_the_same_function(data, approximation, monkeypatch):
    small_sample(monkeypatch)
    X, y, w = data
    options = {"kernel": RBF(1.0), "approximation": approximation, "random_state": 0, "tol": 1e-9}
    by_sums = gramian.KernelRidge(1e-2, **options).fit(Blocks(X, y, w, rows=130))
    by_pcg = gramian.KernelRidge(1e-2, solver="pcg", **options).fit(Blocks(X, y, w, rows=130))
    close(by_sums.predict(X), by_pcg.predict(X))
    assert by_pcg.solver_.name == "pcg"
    assert by_pcg.certificate_.iterations < 30


def test_ridge_goes_on_with_partial_fit_after_blocks(data):
    X, y, _ = data
    options = {"kernel": "rbf", "approximation": gramian.Nystroem(n_components=20), "random_state": 0}
    parts = gramian.KernelRidge(1e-2, **options).fit(Blocks(X, y, rows=100)).partial_fit(X[:100], y[:100])
    w = np.ones(N)
    w[:100] = 2.0
    close(parts.predict(X), gramian.KernelRidge(1e-2, **options).fit(X, y, sample_weight=w).predict(X), 1e-4)


# ---- machines -------------------------------------------------------------------------------------------------------


def as_certified(one, other, X):
    """Two fits of one problem are as near as their certificates say."""
    said = [model.certificate_ for model in (one, other)]
    assert all(each.converged and each.dual <= each.primal for each in said)
    slack = sum(each.primal - each.dual for each in said) + 1e-12
    assert abs(said[0].primal - said[1].primal) <= slack
    values = [model.decision_function(X) if hasattr(model, "classes_") else model.predict(X) for model in (one, other)]
    # Strong convexity: a gap g leaves a distance of at most the root of 2 g / lam, of functions with k(x, x) <= 1.
    assert np.abs((values[0] - one_constant(one)) - (values[1] - one_constant(other))).max() <= 2 * np.sqrt(
        2 * slack / one.lam
    )


def one_constant(model):
    return getattr(model, "intercept_", 0.0)


@pytest.mark.parametrize("loss", ["squared", "huber", "poisson"])
def test_smooth_regressors_equal_the_fit_in_memory(data, loss):
    X, y, w = data
    y = np.abs(y) if loss == "poisson" else y
    options = {"approximation": MAPS[0], "random_state": 0, "tol": 1e-13, "lam": 1e-2}
    one = gramian.KernelMachineRegressor(loss, **options).fit(X, y, sample_weight=w)
    other = gramian.KernelMachineRegressor(loss, **options).fit(Blocks(X, y, w, rows=130))
    close(one.predict(X), other.predict(X))
    assert other.certificate_.converged
    assert one.lam_ == other.lam_


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_smooth_classifiers_equal_the_fit_in_memory(data, loss, classes):
    X, _, w = data
    y = labels(X, classes)
    options = {"approximation": MAPS[0], "random_state": 0, "tol": 1e-13, "lam": 1e-2, "class_weight": "balanced"}
    one = gramian.KernelMachineClassifier(loss, **options).fit(X, y, sample_weight=w)
    other = gramian.KernelMachineClassifier(loss, **options).fit(Blocks(X, y, w, rows=130))
    if loss == "logistic":
        close(one.predict_proba(X), other.predict_proba(X))
        close(one.intercept_, other.intercept_)
        assert classes == 2 or abs(other.intercept_.sum()) < 1e-12
    else:
        close(one.decision_function(X), other.decision_function(X))
    np.testing.assert_array_equal(one.classes_, other.classes_)
    assert other.score(X, y) == one.score(X, y)


@pytest.mark.parametrize("approximation", MAPS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", ["absolute", "epsilon_insensitive", Quantile(0.9)])
def test_regressors_with_kinks_equal_the_fit_in_memory(data, loss, intercept, approximation):
    X, y, w = data
    options = {"approximation": approximation, "random_state": 0, "lam": 1e-3, "fit_intercept": intercept}
    one = gramian.KernelMachineRegressor(loss, **options).fit(X, y, sample_weight=w)
    other = gramian.KernelMachineRegressor(loss, **options).fit(Blocks(X, y, w, rows=300))
    as_certified(one, other, X)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_classifiers_with_kinks_equal_the_fit_in_memory(data, classes, intercept):
    X, _, w = data
    options = {"approximation": MAPS[0], "random_state": 0, "lam": 1e-3, "fit_intercept": intercept}
    one = gramian.KernelMachineClassifier("hinge", **options).fit(X, labels(X, classes), sample_weight=w)
    other = gramian.KernelMachineClassifier("hinge", **options).fit(Blocks(X, labels(X, classes), w, rows=300))
    as_certified(one, other, X)


@dataclass(frozen=True)
class Bent:
    """A kink and curvature: no straight pieces, so that envelopes have to do."""

    convex = True

    def value(self, f, y):
        return np.abs(f - y) + 0.5 * (f - y) ** 2

    def gradient(self, f, y):
        return np.sign(f - y) + (f - y)

    def prox(self, v, y, step):
        r = v - y
        return y + np.sign(r) * np.maximum(np.abs(r) - step, 0.0) / (1.0 + step)


def test_a_loss_with_kinks_and_curvature_reaches_the_same_objective(data):
    X, y, w = data
    options = {"approximation": MAPS[0], "random_state": 0, "tol": 1e-6, "lam": 1e-2}
    one = gramian.KernelMachineRegressor(Bent(), **options).fit(X, y, sample_weight=w)
    other = gramian.KernelMachineRegressor(Bent(), **options).fit(Blocks(X, y, w, rows=300))
    assert other.certificate_.converged
    assert abs(one.certificate_.primal - other.certificate_.primal) <= 2e-6 * one.certificate_.primal


@pytest.mark.parametrize("approximation", MAPS)
@pytest.mark.parametrize("classes", [2, 3])
def test_pegasos_equals_the_fit_in_memory(data, approximation, classes):
    X, _, weight = data
    y = labels(X, classes)
    options = {"approximation": approximation, "random_state": 0, "lam": 1e-2}
    one = gramian.PegasosClassifier(**options).fit(X, y, weight)
    other = gramian.PegasosClassifier(**options).fit(Blocks(X, y, weight, rows=300))
    as_certified(one, other, X)
    with pytest.raises(ValueError, match="max_support=5 bounds the rows"):
        gramian.PegasosClassifier(max_support=5, **options).fit(Blocks(X, y))


# ---- processes, components, mixtures --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The optimal value found")  # both fits end at the same bound
@pytest.mark.parametrize("approximation", MAPS)
def test_process_equals_the_fit_in_memory(data, approximation):
    X, y, _ = data
    options = {"noise": "learn", "approximation": approximation, "evidence": 100, "normalize_y": True}
    one = gramian.GaussianProcessRegressor(1.0 * RBF(1.0), random_state=0, **options).fit(X, 5.0 + y)
    other = gramian.GaussianProcessRegressor(1.0 * RBF(1.0), random_state=0, **options).fit(
        Blocks(X, 5.0 + y, rows=300)
    )
    for a, b in zip(one.predict(X, return_std=True), other.predict(X, return_std=True), strict=True):
        close(a, b)
    close(one.log_marginal_likelihood_value_, other.log_marginal_likelihood_value_)
    np.testing.assert_array_equal(one.evidence_rows_, other.evidence_rows_)
    with pytest.raises(ValueError, match="came by blocks"):
        other.log_marginal_likelihood(other.kernel_.theta)
    parts = other.predict(Blocks(X, rows=400), return_std=True).compute()
    close(parts[1], one.predict(X, return_std=True)[1])


@pytest.mark.parametrize("approximation", MAPS)
@pytest.mark.parametrize("center", [True, False])
def test_components_equal_the_fit_in_memory(data, approximation, center):
    X = data[0]
    options = {"n_components": 4, "kernel": "rbf", "approximation": approximation, "random_state": 0, "center": center}
    one, other = gramian.KernelPCA(**options).fit(X), gramian.KernelPCA(**options).fit(Blocks(X, rows=130))
    close(one.transform(X), other.transform(X))
    close(one.eigenvalues_, other.eigenvalues_)
    close(one.explained_variance_ratio_, other.explained_variance_ratio_)
    assert not hasattr(other, "eigenvectors_")
    close(other.fit_transform(Blocks(X, rows=500)), one.transform(X))


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_mixture_equals_the_fit_in_memory(data, kind):
    X, _, w = data
    X[:300] += 4.0
    options = {"n_components": 2, "covariance_type": kind, "random_state": 0}
    one = gramian.GaussianMixture(**options).fit(X, sample_weight=w)
    other = gramian.GaussianMixture(**options).fit(Blocks(X, weight=w, rows=130))
    close(one.score_samples(X), other.score_samples(X), 1e-9)
    assert one.n_iter_ == other.n_iter_
    close(one.lower_bounds_, other.lower_bounds_, 1e-9)
    np.testing.assert_array_equal(one.predict(X), np.asarray(other.predict(Blocks(X, rows=400))))


def test_mixture_far_from_the_origin(data):
    X = data[0] * 1e-4 + 1e6
    options = {"n_components": 2, "random_state": 0, "reg_covar": 1e-12}
    one, other = gramian.GaussianMixture(**options).fit(X), gramian.GaussianMixture(**options).fit(Blocks(X, rows=130))
    close((one.means_ - 1e6) * 1e4, (other.means_ - 1e6) * 1e4, 1e-5)


# ---- independent of blocks ------------------------------------------------------------------------------------------


FITS = [
    lambda b: gramian.KernelRidge(1e-2, kernel="rbf", approximation=MAPS[0], random_state=0).fit(b).predict,
    lambda b: gramian.KernelRidge(1e-2, kernel="rbf", approximation=MAPS[1], random_state=0).fit(b).predict,
    lambda b: gramian.KernelMachineRegressor(approximation=MAPS[0], lam=1e-2, tol=1e-13, random_state=0).fit(b).predict,
    lambda b: gramian.KernelPCA(3, kernel="rbf", approximation=MAPS[0], random_state=0).fit(b).transform,
    lambda b: gramian.GaussianMixture(2, random_state=0).fit(b).score_samples,
    lambda b: gramian.Nystroem(n_components=30, random_state=0).fit(b).transform,
    lambda b: gramian.RBFSampler(gamma="scale", n_components=30, random_state=0).fit(b).transform,
]


@pytest.mark.parametrize("fit", FITS)
def test_answers_do_not_depend_on_blocks_nor_threads(data, fit, monkeypatch):
    small_sample(monkeypatch, 150)
    X, y, _ = data
    found = [fit(Blocks(X, y, rows=rows))(X) for rows in (37, 400, 900)]
    close(found[0], found[1], 1e-8)
    close(found[0], found[2], 1e-8)


def test_kinked_losses_do_not_depend_on_blocks_beyond_their_certificates(data, monkeypatch):
    small_sample(monkeypatch, 150)
    X, y, _ = data
    model = gramian.KernelMachineRegressor("absolute", approximation=MAPS[0], lam=1e-2, random_state=0)
    found = [model.fit(Blocks(X, y, rows=rows)).predict(X) for rows in (37, 400)]
    close(found[0], found[1], 1e-4)


def test_pegasos_does_not_depend_on_blocks(data, monkeypatch):
    small_sample(monkeypatch, 150)
    X = data[0]
    model = gramian.PegasosClassifier(approximation=MAPS[0], lam=1e-2, random_state=0)
    found = [model.fit(Blocks(X, labels(X, 2), rows=rows)).decision_function(X) for rows in (37, 400, 900)]
    close(found[0], found[1], 1e-6)
    close(found[0], found[2], 1e-6)


def test_a_map_by_itself_averages_over_all_rows(data, monkeypatch):
    small_sample(monkeypatch, 100)
    X = data[0]
    one, other = (
        gramian.FourierFeatures(random_state=0).fit(X),
        gramian.FourierFeatures(random_state=0).fit(Blocks(X, rows=70)),
    )
    close(one.center_, other.center_, 1e-12)
    one, other = (gramian.RBFSampler(gamma="scale", random_state=0).fit(rows) for rows in (X, Blocks(X, rows=70)))
    close(one.transform(X), other.transform(X), 1e-10)
    landmarks = gramian.Nystroem(n_components=25, random_state=0).fit(Blocks(X, rows=70))
    np.testing.assert_array_equal(X[landmarks.component_indices_], landmarks.components_)
    F = landmarks.transform(X)
    close(landmarks.trace_error_, 1.0 - np.sum(F * F) / N, 1e-10)


# ---- files: names, streams, errors ----------------------------------------------------------------------------------


def write(folder, X, y, group=200):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    pq.write_table(pa.table({**columns, "y": y}), folder / "a.parquet", row_group_size=group)
    return folder


def test_a_folder_in_and_a_folder_out(data, tmp_path):
    X, y, _ = data
    source = tmp_path / "in"
    source.mkdir()
    write(source, X, y)
    model = gramian.KernelRidge(1e-2, kernel="rbf", approximation=gramian.Nystroem(n_components=20), random_state=0)
    model.fit(source, "y")
    assert list(model.feature_names_in_) == ["x0", "x1", "x2"]
    # The columns of the model, whatever others there are.
    written = model.predict(str(source / "*.parquet")).to_parquet(tmp_path / "out")
    table = pq.read_table(written)
    assert table.column_names == ["predict"]
    np.testing.assert_allclose(table["predict"].to_numpy(), model.predict(_named(X)))
    with pytest.raises(FileExistsError, match="exists"):
        model.predict(source).to_parquet(tmp_path / "out")
    with pytest.raises(ValueError, match="names must be 1"):
        model.predict(source).to_parquet(tmp_path / "other", names=["a", "b"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out"]


def _named(X):
    import pandas as pd

    return pd.DataFrame(X, columns=["x0", "x1", "x2"])


def test_dask_collections_are_taken_as_they_are(data):
    da = pytest.importorskip("dask.array")
    X, y, _ = data
    options = {"kernel": "rbf", "approximation": gramian.Nystroem(n_components=20), "random_state": 0}
    model = gramian.KernelRidge(1e-2, **options).fit(da.from_array(X, (250, 3)), da.from_array(y, 250))
    close(model.predict(X), gramian.KernelRidge(1e-2, **options).fit(X, y).predict(X))
    close(model.predict(da.from_array(X, (400, 2))), model.predict(X))


def test_nothing_is_half_written_where_a_block_is_bad(data, tmp_path):
    X, y, _ = data
    model = gramian.KernelRidge(
        1e-2, kernel="rbf", approximation=gramian.Nystroem(n_components=20), random_state=0
    ).fit(X, y)
    source = tmp_path / "in"
    source.mkdir()
    X[777, 2] = np.nan
    write(source, X, y)
    with pytest.raises(ValueError, match=r"a\.parquet, row group 3"):
        model.predict(Blocks(source, columns=["x0", "x1", "x2"], rows=200)).to_parquet(tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["in"]
    fresh = gramian.KernelRidge(1e-2, kernel="rbf", approximation=gramian.Nystroem(n_components=20), random_state=0)
    with pytest.raises(ValueError, match=r"a\.parquet, row group 3"):
        fresh.fit(Blocks(source, target="y", rows=200))
    assert not [name for name in vars(fresh) if name.endswith("_")]


def test_results_of_several_columns(data, tmp_path):
    X, _, _ = data
    y = labels(X, 3)
    model = gramian.KernelMachineClassifier(approximation=MAPS[0], lam=1e-2, random_state=0).fit(X, y)
    results = model.predict_proba(Blocks(X, rows=250))
    assert len(list(results)) == 4
    close(results, model.predict_proba(X), 1e-12)
    assert pq.read_table(results.to_parquet(tmp_path / "p")).num_columns == 3
    assert np.array_equal(np.asarray(model.predict(Blocks(X, rows=250))), model.predict(X))


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_exact_machines_name_the_map_to_add(data):
    X, y, _ = data
    for model in (
        gramian.KernelRidge(),
        gramian.KernelMachineRegressor(),
        gramian.KernelPCA(),
        gramian.GaussianProcessRegressor(),
        gramian.PegasosClassifier(),
    ):
        with pytest.raises(ValueError, match=r"approximation=Nystroem\(n_components=1000\)"):
            model.fit(Blocks(X, y))


@pytest.mark.parametrize(
    ("model", "instead"),
    [
        (gramian.SVC(), r"KernelMachineClassifier\('hinge'.*approximation=Nystroem"),
        (gramian.NuSVC(), "KernelMachineClassifier"),
        (gramian.SVR(), r"KernelMachineRegressor\('epsilon_insensitive'.*Nystroem"),
        (gramian.NuSVR(), "KernelMachineRegressor"),
        (gramian.OneClassSVM(), "GaussianMixture"),
        (gramian.GaussianProcessClassifier(), r"KernelMachineClassifier\('logistic', approximation=Nystroem"),
        (gramian.KernelInterpolator(), r"KernelRidge\(1e-6, approximation=Nystroem"),
    ],
)
def test_machines_that_are_exact_by_nature_name_what_to_use(data, model, instead):
    X, y, _ = data
    for rows in (Blocks(X, y), "folder/*.parquet"):
        with pytest.raises(ValueError, match=f"needs all rows in memory at once; over blocks use {instead}"):
            model.fit(rows)


def test_a_machine_fitted_in_memory_predicts_over_blocks(data):
    X = data[0]
    model = gramian.SVC().fit(X[:100], labels(X[:100], 2))
    np.testing.assert_array_equal(model.predict(X), np.asarray(model.predict(Blocks(X, rows=200))))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (gramian.KernelRidge(store_loo=True, approximation=MAPS[0]), "store_loo"),
        (gramian.KernelRidge(0, approximation=MAPS[0]), "alpha > 0"),
        (gramian.KernelRidge(kernel="precomputed", approximation=MAPS[0]), "precomputed"),
        (gramian.KernelMachineRegressor(lam="cv", approximation=MAPS[0]), "lam as a number"),
        (gramian.KernelPCA(fit_inverse_transform=True, approximation=MAPS[0]), "fit_inverse_transform"),
        (gramian.KernelPCA(eigen_solver="dense", approximation=MAPS[0]), "eigen_solver"),
        (gramian.GaussianProcessRegressor(alpha=np.ones(N), approximation=MAPS[0]), "one number"),
    ],
)
def test_parameters_that_have_no_part_over_blocks_are_refused(data, model, words):
    X, y, _ = data
    with pytest.raises(ValueError, match=words):
        model.fit(Blocks(X, y))


def test_targets_and_weights_must_fit(data):
    X, y, w = data
    model = gramian.KernelRidge(kernel="rbf", approximation=MAPS[0], random_state=0)
    with pytest.raises(ValueError, match="requires y"):
        model.fit(Blocks(X))
    with pytest.raises(ValueError, match="must be numbers"):
        model.fit(Blocks(X, labels(X, 3)))
    with pytest.raises(ValueError, match="hold their own"):
        model.fit(Blocks(X, y), y)
    with pytest.raises(ValueError, match="takes no weights"):
        gramian.KernelPCA(approximation=MAPS[0]).fit(Blocks(X, y, w))
    with pytest.raises(ValueError, match="two classes"):
        gramian.KernelMachineClassifier(approximation=MAPS[0]).fit(Blocks(X, np.ones(N, int)))
    with pytest.raises(ValueError, match="continuous"):
        gramian.KernelMachineClassifier(approximation=MAPS[0]).fit(Blocks(X, y))
