"""GaussianProcessRegressor: scikit-learn's contract and numbers, and what it lacks."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info

import reference_gp as reference
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.kernels import RBF, Constant, Linear, Matern, Precomputed, Sigmoid, Spectrum, White
from gramian.solvers.gp.hyperparameters import noise_of_repeats
from gramian.solvers.gp.posterior import exact_posterior


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@parametrize_with_checks(
    [
        GaussianProcessRegressor(),
        GaussianProcessRegressor(1.0 * Matern(1.0), noise="learn", normalize_y=True, random_state=0),
        GaussianProcessRegressor(alpha=0.1, solver="pcg", optimizer=None, random_state=0),
    ]
)
def test_scikit_learns_contract(estimator, check):
    check(estimator)


def data(n=60, targets=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2
    y = f + 0.1 * rng.standard_normal(n)
    if targets:
        y = np.column_stack([y * (t + 1) + t for t in range(targets)])
    return X, y, rng.uniform(-2, 2, (17, 3))


PAIRS = [
    (1.5 * RBF(0.7), sk.ConstantKernel(1.5) * sk.RBF(0.7)),
    (
        2.0 * RBF([0.5, 1.0, 2.0]) + White(0.1),
        sk.ConstantKernel(2.0) * sk.RBF([0.5, 1.0, 2.0]) + sk.WhiteKernel(0.1),
    ),
    (Matern(1.2, nu=2.5) + White(0.2), sk.Matern(1.2, nu=2.5) + sk.WhiteKernel(0.2)),
    (Linear() + RBF(1.0) + White(0.1), sk.DotProduct(0.0, "fixed") + sk.RBF(1.0) + sk.WhiteKernel(0.1)),
]


def outputs(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=repr)
@pytest.mark.parametrize(
    "options", [{}, {"normalize_y": True}, {"alpha": np.linspace(0.01, 0.5, 60)}], ids=["", "normalised", "noise each"]
)
@pytest.mark.parametrize("targets", [None, 1, 2])
def test_numbers_are_scikit_learns(ours, theirs, options, targets):
    X, y, Z = data(targets=targets)
    a = GaussianProcessRegressor(ours, optimizer=None, **options).fit(X, y)
    b = Peer(theirs, optimizer=None, **options).fit(X, y)
    for flag in ({}, {"return_std": True}, {"return_cov": True}):
        for left, right in zip(outputs(a.predict(Z, **flag)), outputs(b.predict(Z, **flag)), strict=True):
            np.testing.assert_allclose(left, right, atol=1e-7)
            assert left.shape == right.shape
    assert a.log_marginal_likelihood() == pytest.approx(b.log_marginal_likelihood(), rel=1e-8)
    ours_at = a.log_marginal_likelihood(a.kernel_.theta, eval_gradient=True)
    theirs_at = b.log_marginal_likelihood(b.kernel_.theta, eval_gradient=True)
    assert ours_at[0] == pytest.approx(theirs_at[0], rel=1e-8)
    np.testing.assert_allclose(ours_at[1], theirs_at[1], rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(a.L_, b.L_, atol=1e-8)
    np.testing.assert_allclose(a.alpha_, b.alpha_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(a.y_train_, b.y_train_)
    np.testing.assert_allclose(a.sample_y(Z, 3).shape, b.sample_y(Z, 3).shape)


# scikit-learn warns of an input that does not matter: its lengthscale goes to the bound.
@pytest.mark.filterwarnings("ignore:The optimal value")
@pytest.mark.parametrize("kernel", [theirs for _, theirs in PAIRS[:3]], ids=repr)
def test_scikit_learns_kernels_are_taken_and_learned_as_well(kernel):
    X, y, Z = data()
    ours = GaussianProcessRegressor(kernel, random_state=0, alpha=1e-2).fit(X, y)
    theirs = Peer(kernel, alpha=1e-2).fit(X, y)
    assert ours.log_marginal_likelihood_value_ >= theirs.log_marginal_likelihood_value_ - 1e-3
    assert ours.certificate_.converged
    assert ours.certificate_.kind == "evidence"
    np.testing.assert_allclose(ours.predict(Z), theirs.predict(Z), atol=0.1)


@pytest.mark.filterwarnings("ignore:The optimal value")
def test_start_given_reaches_the_peers_optimum():
    X, y, _ = data()
    ours = GaussianProcessRegressor(1.0 * RBF([1.0] * 3) + White(0.1), start="given", tol=1e-9).fit(X, y)
    theirs = Peer(sk.ConstantKernel() * sk.RBF([1.0] * 3) + sk.WhiteKernel(0.1)).fit(X, y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-3)


def test_starts_from_the_data_rescue_rows_in_other_units():
    X, y, Z = data(100)
    scales = np.array([1e3, 1e-2, 1.0])
    plain = GaussianProcessRegressor(1.0 * RBF([1.0] * 3), noise="learn", random_state=0).fit(X, y)
    other = clone(plain).fit(X * scales, 100 * y)
    np.testing.assert_allclose(other.predict(Z * scales) / 100, plain.predict(Z), atol=0.05)
    assert other.noise_ / 1e4 == pytest.approx(plain.noise_, rel=0.2)


def test_learned_noise_is_the_noise():
    X, y, Z = data(200)
    gp = GaussianProcessRegressor(1.0 * RBF([1.0] * 3), noise="learn", random_state=0).fit(X, y)
    assert gp.noise_ == pytest.approx(0.01, rel=0.5)
    assert gp.kernel_.right == White(gp.noise_, gp.kernel_.right.noise_bounds)
    _, std = gp.predict(Z, return_std=True)
    assert np.all(std**2 >= gp.noise_)


def test_interval_is_a_quantile():
    X, y, Z = data(targets=2)
    gp = GaussianProcessRegressor(RBF(1.0) + White(0.1), optimizer=None, normalize_y=True).fit(X, y)
    mean, lower, upper = gp.predict(Z, return_interval=0.9)
    _, std = gp.predict(Z, return_std=True)
    np.testing.assert_allclose(upper - mean, 1.6448536269514722 * std)
    np.testing.assert_allclose(mean - lower, upper - mean)


def test_interval_covers():
    X, y, _ = data(400)
    gp = GaussianProcessRegressor(1.0 * RBF([1.0] * 3), noise="learn", random_state=0).fit(X[:200], y[:200])
    _, lower, upper = gp.predict(X[200:], return_interval=0.9)
    assert 0.82 < np.mean((lower <= y[200:]) & (y[200:] <= upper)) < 0.97


def test_prior_before_a_fit():
    _, _, Z = data()
    for ours, theirs in (
        (GaussianProcessRegressor(), Peer()),
        (
            GaussianProcessRegressor(2.0 * RBF(0.5), n_targets=3),
            Peer(sk.ConstantKernel(2.0) * sk.RBF(0.5), n_targets=3),
        ),
    ):
        np.testing.assert_array_equal(ours.predict(Z), theirs.predict(Z))
        for flag in ("return_std", "return_cov"):
            for a, b in zip(ours.predict(Z, **{flag: True}), theirs.predict(Z, **{flag: True}), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)
        assert ours.sample_y(Z, 4).shape == theirs.sample_y(Z, 4).shape


def test_sampling_follows_the_posterior():
    X, y, Z = data()
    gp = GaussianProcessRegressor(RBF(1.0), alpha=0.01, optimizer=None).fit(X, y)
    mean, cov = gp.predict(Z[:4], return_cov=True)
    draws = gp.sample_y(Z[:4], 20_000, random_state=1)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(draws), cov, atol=0.02)
    np.testing.assert_array_equal(gp.sample_y(Z, 2, random_state=3), gp.sample_y(Z, 2, random_state=3))


def test_evidence_rows_fit_the_memory():
    X, y, _ = data(90)
    gp = GaussianProcessRegressor(RBF(1.0), noise="learn", memory=16 * 50**2, random_state=0).fit(X, y)
    assert gp.evidence_rows_.size == 50


@pytest.mark.parametrize("evidence", ["full", 40])
def test_evidence_rows(evidence):
    X, y, Z = data(90)
    gp = GaussianProcessRegressor(1.0 * RBF([1.0] * 3), noise="learn", evidence=evidence, random_state=0).fit(X, y)
    rows = {"full": 90, 40: 40}[evidence]
    assert gp.evidence_rows_.size == rows == np.unique(gp.evidence_rows_).size
    # The evidence rows chose the kernel, but the posterior, and the value reported, are those of all rows.
    assert gp.alpha_.shape == (90,)
    exact, _ = reference.posterior(gp.kernel_.left, X, y, gp.noise_ + 1e-10, Z)
    np.testing.assert_allclose(gp.predict(Z), exact, atol=1e-8)
    value = reference.log_evidence(gp.kernel_, X, y, 1e-10)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(value, rel=1e-8)
    again = clone(gp).fit(X, y)
    np.testing.assert_array_equal(gp.evidence_rows_, again.evidence_rows_)


def test_per_sample_noise_is_taken_with_the_evidence_rows():
    X, y, _ = data(90)
    noise = np.where(np.arange(90) < 45, 1e-3, 10.0)
    gp = GaussianProcessRegressor(1.0 * RBF(1.0), alpha=noise, evidence=30, random_state=0).fit(X, y)
    assert np.abs(gp.predict(X) - y)[:45].mean() < 0.1
    with pytest.raises(ValueError, match=r"same number of entries as y, 90; got shape \(3,\)"):
        GaussianProcessRegressor(alpha=[0.1] * 3).fit(X, y)


def test_the_memory_decides_between_the_solvers():
    X, y, Z = data(400)
    common = {"kernel": RBF(1.0) + White(0.05), "optimizer": None, "random_state": 0}
    exact = GaussianProcessRegressor(**common).fit(X, y)
    small = GaussianProcessRegressor(memory="500KB", tol=1e-8, **common).fit(X, y)
    assert str(exact.solver_).startswith("cholesky (the factor of 400 rows takes 1.28 MB")
    assert str(small.solver_).startswith(
        "pcg (the variance is computed from a projection of the data: the factor of 400 rows"
    )
    assert not hasattr(small, "L_")
    assert small.certificate_.converged
    np.testing.assert_allclose(small.predict(Z), exact.predict(Z), atol=1e-5)
    sure, unsure = (gp.predict(Z, return_std=True)[1] for gp in (exact, small))
    assert np.all(unsure >= sure - 1e-9)
    with pytest.raises(MemoryError, match=r"takes 1.28 MB and memory is 500 KB; raise memory="):
        GaussianProcessRegressor(memory="500KB", solver="cholesky", **common).fit(X, y)
    back = small.set_params(memory=None).fit(X, y)
    assert hasattr(back, "L_")


def test_memory_bounds_the_rows_that_auto_learns_from():
    X, y, _ = data(400)
    gp = GaussianProcessRegressor(1.0 * RBF(1.0), noise="learn", memory="1MB", random_state=0).fit(X, y)
    assert gp.evidence_rows_.size == 250
    with pytest.raises(MemoryError, match=r"learn from fewer rows"):
        GaussianProcessRegressor(1.0 * RBF(1.0), noise="learn", memory="1MB", evidence="full").fit(X, y)


def test_float32_and_sparse_rows():
    X, y, Z = data()
    X[np.abs(X) < 0.7] = 0.0
    common = {"kernel": RBF(1.0) + White(0.1), "optimizer": None}
    wide = GaussianProcessRegressor(**common).fit(X, y)
    narrow = GaussianProcessRegressor(**common).fit(X.astype(np.float32), y)
    mean, std = narrow.predict(Z.astype(np.float32), return_std=True)
    assert mean.dtype == std.dtype == narrow.X_train_.dtype == np.float32
    np.testing.assert_allclose(mean, wide.predict(Z), atol=1e-5)
    sparse = GaussianProcessRegressor(**common).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.predict(sp.csr_array(Z)), wide.predict(Z), atol=1e-9)
    np.testing.assert_allclose(sparse.predict(sp.csr_array(Z), return_std=True)[1], wide.predict(Z, return_std=True)[1])


def test_precomputed_and_objects():
    X, y, Z = data()
    kernel = RBF(1.0)
    vectors = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y)
    ready = GaussianProcessRegressor("precomputed", alpha=0.1).fit(kernel(X), y)
    np.testing.assert_allclose(ready.predict(kernel(Z, X)), vectors.predict(Z), atol=1e-10)
    with pytest.raises(ValueError, match=r"only the mean can be predicted"):
        ready.predict(kernel(Z, X), return_std=True)
    learned = GaussianProcessRegressor("precomputed", noise="learn", evidence=40, random_state=0).fit(kernel(X), y)
    assert 0 < learned.noise_ < 1
    many, target, _ = data(600)
    scaled = GaussianProcessRegressor(1.0 * Precomputed(), noise="learn", evidence=550, random_state=0)
    assert scaled.fit(kernel(many), target).noise_ == pytest.approx(0.01, rel=0.5)
    words = ["banana", "bandana", "cabana", "cobra"]
    strings = GaussianProcessRegressor(Spectrum(2).normalized(), alpha=1e-3).fit(words, [1.0, 1.0, 0.5, 0.0])
    mean, std = strings.predict(["banana", "zzz"], return_std=True)
    np.testing.assert_allclose(mean, [1.0, 0.0], atol=1e-2)
    assert std[0] < 0.05


def test_a_users_optimizer():
    X, y, _ = data()
    seen = []

    def optimizer(obj_func, initial_theta, bounds):
        seen.append((initial_theta.copy(), bounds.copy()))
        value, _ = obj_func(initial_theta)
        return initial_theta, value

    kernel = 2.0 * RBF(0.5)
    gp = GaussianProcessRegressor(
        kernel, optimizer=optimizer, n_restarts_optimizer=2, start="given", alpha=0.1, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="slope of the evidence"):  # it goes nowhere, and so it says
        gp.fit(X, y)
    assert len(seen) == 3
    np.testing.assert_array_equal(seen[0][0], kernel.theta)
    np.testing.assert_array_equal(seen[0][1][1], kernel.bounds[1])
    values = [gp.log_marginal_likelihood(theta) for theta, _ in seen]
    assert gp.log_marginal_likelihood_value_ == pytest.approx(max(values))


def test_log_marginal_likelihood_at_a_theta():
    X, y, _ = data()
    gp = GaussianProcessRegressor(1.0 * RBF(1.0), alpha=0.1, optimizer=None).fit(X, y)
    theta = np.log([2.0, 0.5])
    value = gp.log_marginal_likelihood(theta)
    assert value == pytest.approx(reference.log_evidence(2.0 * RBF(0.5), X, y, 0.1))
    assert gp.kernel_ == 1.0 * RBF(1.0)
    gp.log_marginal_likelihood(theta, clone_kernel=False)
    np.testing.assert_allclose(gp.kernel_.theta, theta)
    with pytest.raises(ValueError, match="Gradient can only be evaluated for theta!=None"):
        gp.log_marginal_likelihood(eval_gradient=True)


def test_duplicated_rows_without_noise_are_told():
    X, y, _ = data()
    X[7], y[7] = X[3], y[3]
    with pytest.raises(np.linalg.LinAlgError, match=r"^The kernel, RBF\(1.0\), is not .*rows coincide \(3 and 7\)"):
        GaussianProcessRegressor(RBF(1.0), alpha=0.0, optimizer=None).fit(X, y)
    with pytest.warns(UserWarning, match=r"rows coincide \(3 and 7\)"):
        gp = GaussianProcessRegressor(RBF(1.0), alpha=1e-18, optimizer=None).fit(X, y)
    assert gp.jitter_ >= 0
    assert "rows coincide (3 and 7)" in gp.certificate_.message
    assert np.all(gp.predict(X, return_std=True)[1] >= 0)


def test_bad_input():
    X, y, Z = data()
    with pytest.raises(ValueError, match="alpha"):
        GaussianProcessRegressor(alpha=-1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"alpha must be finite and >= 0, a variance; got -1 among"):
        GaussianProcessRegressor(alpha=np.full(60, -1.0)).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        GaussianProcessRegressor().fit(X, np.where(np.arange(60) == 3, np.nan, y))
    with pytest.raises(ValueError, match=r"^The number of targets seen in `y` is different .* 1 != 2"):
        GaussianProcessRegressor(n_targets=2).fit(X, y)
    with pytest.raises(np.linalg.LinAlgError, match=r"K has the eigenvalue -"):
        GaussianProcessRegressor(Sigmoid(1.0, -2.0), optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match=r"noise='learn' needs an optimizer"):
        GaussianProcessRegressor(noise="learn", optimizer=None).fit(X, y)
    with pytest.raises(TypeError, match=r"kernel must be a value, got the class RBF"):
        GaussianProcessRegressor(RBF).fit(X, y)
    gp = GaussianProcessRegressor(RBF(1.0), optimizer=None).fit(X, y)
    with pytest.raises(RuntimeError, match="At most one of"):
        gp.predict(Z, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match=r"probability between 0 and 1, got 90"):
        gp.predict(Z, return_interval=90)


def test_training_rows_are_copied_unless_told_otherwise():
    X, y, Z = data()
    kept = GaussianProcessRegressor(RBF(1.0), alpha=0.1, optimizer=None).fit(X, y)
    shared = GaussianProcessRegressor(RBF(1.0), alpha=0.1, optimizer=None, copy_X_train=False).fit(X, y)
    assert shared.X_train_ is X
    before = kept.predict(Z)
    X[:] = 0.0
    np.testing.assert_array_equal(kept.predict(Z), before)


def test_n_jobs_holds_lapack_too(monkeypatch):
    seen = []

    def watched(*args, **kwargs):
        seen.append({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
        return exact_posterior(*args, **kwargs)

    monkeypatch.setattr("gramian.estimators.gp.regressor.exact_posterior", watched)
    X, y, _ = data()
    GaussianProcessRegressor(RBF(1.0), alpha=0.1, optimizer=None, n_jobs=1).fit(X, y)
    assert seen == [{1}]


def test_one_sample():
    gp = GaussianProcessRegressor(RBF(1.0), optimizer=None).fit([[0.0]], [2.0])
    np.testing.assert_allclose(gp.predict([[0.0], [50.0]]), [2.0, 0.0], atol=1e-9)


def test_a_constant_target_is_normalised_without_harm():
    X, _, Z = data()
    gp = GaussianProcessRegressor(RBF(1.0), normalize_y=True, optimizer=None, alpha=1e-3).fit(X, np.full(60, 1 / 3))
    np.testing.assert_allclose(gp.predict(Z), 1 / 3)


def test_time_that_runs_out_is_told():
    X, y, Z = data()
    with pytest.warns(ConvergenceWarning, match="max_time passed"):
        gp = GaussianProcessRegressor(1.0 * RBF([1.0] * 3), noise="learn", max_time=1e-9).fit(X, y)
    assert np.all(np.isfinite(gp.predict(Z)))
    assert not gp.certificate_.converged


def test_an_interrupted_fit_leaves_the_last_one(monkeypatch):
    X, y, Z = data()
    gp = GaussianProcessRegressor(RBF(1.0), alpha=0.1, optimizer=None).fit(X, y)
    before = gp.predict(Z)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("gramian.estimators.gp.regressor.exact_posterior", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gp.fit(2 * X, y + 1)
    np.testing.assert_array_equal(gp.predict(Z), before)


def test_pickle_pipeline_and_grid():
    X, y, Z = data()
    gp = GaussianProcessRegressor(1.0 * RBF(1.0), noise="learn", random_state=0).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp)).predict(Z), gp.predict(Z))
    pipe = make_pipeline(StandardScaler(), GaussianProcessRegressor(optimizer=None))
    grid = {"gaussianprocessregressor__kernel": [RBF(0.1), RBF(1.0)], "gaussianprocessregressor__alpha": [1e-2, 1.0]}
    best = GridSearchCV(pipe, grid, cv=3).fit(X, y).best_params_
    assert best["gaussianprocessregressor__kernel"] == RBF(1.0)


def test_verbose_shows_the_evidence(capsys):
    X, y, _ = data(20)
    GaussianProcessRegressor(1.0 * RBF(1.0), noise="learn", verbose=1).fit(X, y)
    assert "evidence" in capsys.readouterr().out


def test_relevant_inputs_are_found():
    X, y = make_friedman1(200, n_features=7, noise=0.1, random_state=0)
    gp = GaussianProcessRegressor(1.0 * RBF([1.0] * 7), noise="learn", normalize_y=True, random_state=0).fit(X, y)
    scales = np.array(gp.kernel_.left.kernel.lengthscale)
    assert scales[:5].max() < scales[5:].min()


PEAK = """
import numpy as np, resource
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.kernels import RBF, White
X = np.random.default_rng(0).standard_normal((1500, 4))
gp = GaussianProcessRegressor(RBF(2.0) + White(0.1), optimizer=None, memory="40MB", n_jobs=2).fit(X, X[:, 0])
Z = np.random.default_rng(1).standard_normal((200_000, 4))
gp.predict(Z[:10])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
gp.predict(Z)
gp.predict(Z[:5000], return_std=True)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_predictions_keep_to_the_memory():
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    # K(Z, X) would be 2.4 GB; the answer and a few passes over Z itself are 20 MB.
    assert int(done.stdout) < 100e6


def test_rows_that_repeat_tell_of_the_noise_that_the_subset_does_not_see():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(0, 20, 300), 2)[:, None]
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(600)
    floor = noise_of_repeats(X, y[:, None])
    assert 0.05 < floor < 0.09
    learned = GaussianProcessRegressor(1.0 * RBF(0.01), noise="learn", evidence=10, random_state=0).fit(X, y)
    assert learned.noise_ >= floor * (1 - 1e-9)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_targets_of_any_size_are_normalised(rng, size):
    X = rng.uniform(-2.0, 2.0, (40, 1))
    y = np.sin(3.0 * X[:, 0])
    one = GaussianProcessRegressor(RBF(1.0), normalize_y=True, alpha=1e-4).fit(X, y)
    other = GaussianProcessRegressor(RBF(1.0), normalize_y=True, alpha=1e-4).fit(X, size * y)
    for a, b in zip(one.predict(X, return_std=True), other.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(b / size, a, rtol=1e-6)


def test_rounding_of_a_row_does_not_decide_where_a_flat_parameter_ends():
    kernel = Constant(0.1, value_bounds=(1e-2, 1e2)) * RBF(1.0) + Constant(1e-5, value_bounds=(1e-5, 1e2))
    X = np.array([1.0, 3.0, 5.0, 6.0, 7.0, 8.0, 1.0])[:, None]
    y = (X * np.sin(X))[:, 0] + np.eye(7)[6]
    new, near = np.linspace(0, 10, 50)[:, None], X + 1e-15 * np.eye(7)[:, 6:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bound is one of them
        one, two = (GaussianProcessRegressor(kernel, alpha=1e-2).fit(rows, y).predict(new) for rows in (X, near))
    np.testing.assert_allclose(one, two, atol=1e-7)
