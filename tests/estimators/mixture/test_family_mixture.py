"""Mixtures of any family, and the split of the evidence at any q: by hand, by another library and by the law of EM."""

import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramian
from gramian import FamilyMixture, GaussianMixture, verify
from gramian.plots import MixtureDisplay
from gramian.solvers.mixture.families import Family

rng = np.random.default_rng(0)
BITS = (
    rng.random((200, 6)) < np.repeat([[0.9, 0.8, 0.1, 0.2, 0.5, 0.9], [0.1, 0.3, 0.9, 0.7, 0.5, 0.2]], 100, axis=0)
) * 1.0
COUNTS = rng.poisson(np.repeat([[1.0, 9.0], [8.0, 2.0]], 100, axis=0)).astype(float)
NUMBERS = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(4, 0.5, (100, 2))])
CASES = {"bernoulli": BITS, "poisson": COUNTS, "gaussian": NUMBERS}


def log_joint(model, X):
    """log π_k p(x | θ_k) by SciPy."""
    of = {
        "bernoulli": lambda t: stats.bernoulli.logpmf(X, t),
        "poisson": lambda t: stats.poisson.logpmf(X, t),
        "gaussian": lambda t: stats.norm.logpdf(X, t[0], np.sqrt(t[1])),
    }[model.family]
    return np.column_stack([of(t).sum(axis=1) for t in model.parameters_]) + np.log(model.weights_)


class Exponential(Family):
    def log_density(self, X, theta):
        return (np.log(theta) - theta * X).sum(axis=1)

    def fit(self, X, weights):
        return weights.sum() / (weights @ X)

    def sample(self, theta, size, rng):
        return rng.exponential(1 / theta, (size, len(theta)))


@parametrize_with_checks([FamilyMixture()])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("family", CASES)
def test_em_by_hand(family):
    X = CASES[family]
    w = rng.uniform(0.5, 2, len(X))
    model = FamilyMixture(2, family, random_state=0, tol=1e-10).fit(X, sample_weight=w)
    joint = log_joint(model, X)
    assert np.allclose(model.score_samples(X), logsumexp(joint, axis=1))
    r = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    assert np.allclose(model.predict_proba(X), r)
    assert np.array_equal(model.predict(X), r.argmax(axis=1))
    # A fixed point: weights and parameters are the weighted averages.
    mass = w[:, None] * r
    assert np.allclose(model.weights_, mass.sum(axis=0) / w.sum(), atol=1e-4)
    means = (mass.T @ X) / mass.sum(axis=0)[:, None]
    own = model.parameters_[:, 0] if family == "gaussian" else model.parameters_
    assert np.allclose(own, means, atol=1e-3)
    assert np.allclose(model.means_, means, atol=1e-3)
    trace = [e.log_likelihood for e in model.evidence_]
    assert np.all(np.diff(trace) >= -1e-10)
    assert all(np.isclose(e.log_likelihood, e.bound + e.kl) and e.kl >= 0 for e in model.evidence_)
    assert np.isclose(model.score(X, sample_weight=w), trace[-1])
    assert model.certificate_.converged
    assert verify(model, X, sample_weight=w).converged
    model.parameters_ = 0.9 * model.parameters_
    assert not verify(model, X, sample_weight=w).converged


def test_gaussian_components_are_those_of_the_gaussian_mixture():
    ours = FamilyMixture(2, random_state=0, tol=1e-10).fit(NUMBERS)
    theirs = GaussianMixture(2, covariance_type="diag", random_state=0, tol=1e-10, max_iter=1000, reg_covar=0).fit(
        NUMBERS
    )
    assert np.isclose(ours.score(NUMBERS), theirs.score(NUMBERS), atol=1e-6)


def test_the_likelihood_is_at_a_maximum():
    model = FamilyMixture(2, "poisson", random_state=0, tol=1e-12).fit(COUNTS)
    best = model.score(COUNTS)
    for _ in range(20):
        other = pickle.loads(pickle.dumps(model))
        other.parameters_ = model.parameters_ * np.exp(0.05 * rng.standard_normal(model.parameters_.shape))
        assert other.score(COUNTS) < best


def test_a_family_of_ones_own():
    X = rng.exponential(np.repeat([[1.0], [20.0]], 300, axis=0))
    model = FamilyMixture(2, Exponential(), random_state=0, max_iter=3000).fit(X)
    assert np.allclose(np.sort(1 / model.parameters_.ravel()), [1, 20], rtol=0.3)
    assert verify(model, X).converged
    drawn, codes = model.sample(1000)
    assert drawn.shape == (1000, 1)
    assert np.isclose(drawn.mean(), X.mean(), rtol=0.2)
    assert codes.size == 1000


@pytest.mark.parametrize("family", CASES)
def test_samples_have_the_moments_of_the_mixture(family):
    model = FamilyMixture(2, family, random_state=0).fit(CASES[family])
    drawn, _ = model.sample(20_000)
    assert np.allclose(drawn.mean(axis=0), CASES[family].mean(axis=0), atol=0.15)
    assert np.allclose(np.cov(drawn.T), np.cov(CASES[family].T), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("family", CASES)
def test_files_displays_and_starts(family, tmp_path):
    X = CASES[family]
    model = FamilyMixture(2, family, random_state=0, n_init=3).fit(X)
    gramian.save(model, tmp_path / "model")
    assert np.array_equal(gramian.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))
    assert len(MixtureDisplay.from_estimator(model, X).ellipses_) == 4
    assert len(MixtureDisplay.from_estimator(model, X, ax=False).plot(kind="evidence").lines_) == 2
    one = FamilyMixture(2, family, random_state=0).fit(X[:, :1])
    lines = MixtureDisplay.from_estimator(one, X[:, :1]).lines_
    x, total = lines[-1].get_data()
    assert np.allclose(total, np.exp(one.score_samples(np.asarray(x)[:, None])))
    again = FamilyMixture(2, family, random_state=0, n_init=3).fit(X)
    assert np.array_equal(again.parameters_, model.parameters_)


def test_weights_are_repetitions_and_zeros_are_absent():
    w = rng.integers(0, 3, 200)
    a = FamilyMixture(1, "poisson").fit(COUNTS, sample_weight=w)
    b = FamilyMixture(1, "poisson").fit(np.repeat(COUNTS, w, axis=0))
    assert np.allclose(a.parameters_, b.parameters_)


# ---- the split of the evidence --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "X"),
    [(FamilyMixture(2, "bernoulli", random_state=0), BITS)]
    + [(GaussianMixture(3, covariance_type=c, random_state=0), NUMBERS) for c in ("full", "tied", "diag", "spherical")],
    ids=lambda v: str(v)[:60],
)
def test_the_evidence_is_bound_plus_divergence_at_any_q(model, X):
    model.fit(X)
    r, w = model.predict_proba(X), rng.uniform(0.5, 2, len(X))
    for q in (rng.dirichlet(np.ones(r.shape[1]), len(X)), r, np.full(r.shape, 1 / r.shape[1])):
        split = model.lower_bound(X, q, sample_weight=w)
        kl = np.average((q * (np.log(q + 1e-300) - np.log(r + 1e-300))).sum(axis=1), weights=w)
        assert np.isclose(split.kl, kl, atol=1e-6, rtol=1e-4)
        assert np.isclose(split.bound + split.kl, model.score(X, sample_weight=w))
        assert split.log_likelihood == pytest.approx(model.score(X, sample_weight=w))
    assert model.lower_bound(X, r).kl < 1e-9
    hard = np.eye(r.shape[1])[r.argmax(axis=1)]
    joint = np.log(r + 1e-300) + model.score_samples(X)[:, None]
    assert np.isclose(model.lower_bound(X, hard).bound, joint.max(axis=1).mean())


def test_a_far_component_has_a_large_but_finite_divergence():
    X = np.concatenate([rng.normal(0, 1, (50, 1)), rng.normal(1000, 1, (50, 1))])
    model = GaussianMixture(2, random_state=0).fit(X)
    split = model.lower_bound(X, np.full((100, 2), 0.5))
    assert 1e5 < split.kl < 1e6
    assert np.isclose(split.bound + split.kl, model.score(X))


def test_a_q_that_is_no_distribution_is_refused():
    model = GaussianMixture(2, random_state=0).fit(NUMBERS)
    q = np.full((200, 2), 0.5)
    with pytest.raises(ValueError, match=r"q must have shape \(200, 2\)"):
        model.lower_bound(NUMBERS, q[:, :1])
    for wrong in (0.9 * q, np.array([[1.5, -0.5]]).repeat(200, axis=0), np.full((200, 2), np.nan)):
        with pytest.raises(ValueError, match="every row of q must be a distribution"):
            model.lower_bound(NUMBERS, wrong)


# ---- bad input ------------------------------------------------------------------------------------------------------


def test_samples_of_another_kind_and_wrong_families_are_refused():
    with pytest.raises(ValueError, match="0 or 1"):
        FamilyMixture(2, "bernoulli").fit(COUNTS)
    with pytest.raises(ValueError, match="whole numbers >= 0"):
        FamilyMixture(2, "poisson").fit(NUMBERS)
    with pytest.raises(ValueError, match="n_samples >= n_components"):
        FamilyMixture(5).fit(NUMBERS[:3])

    class Wrong(Exponential):
        def fit(self, X, weights):
            return (weights @ X) / weights.sum()

    with pytest.raises(ValueError, match="does not maximise"):
        FamilyMixture(2, Wrong(), random_state=0).fit(np.abs(NUMBERS) + 0.1)

    class Short(Exponential):
        def log_density(self, X, theta):
            return super().log_density(X, theta)[:-1]

    with pytest.raises(ValueError, match="must return 200 numbers"):
        FamilyMixture(2, Short()).fit(COUNTS + 1)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        FamilyMixture(2, "poisson", max_iter=2, random_state=0).fit(COUNTS)


def test_a_sample_that_no_component_can_have_made():
    model = FamilyMixture(1, "bernoulli").fit(np.zeros((5, 2)))
    assert np.array_equal(model.predict_proba([[1.0, 0.0]]), [[1.0]])
    assert model.score_samples([[1.0, 0.0]])[0] == -np.inf
