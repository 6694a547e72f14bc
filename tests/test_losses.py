"""Laws over every loss, found by walking the classes; and what a user's own loss is told."""

from __future__ import annotations

import numpy as np
import pytest

from gramian import losses
from gramian.losses import Absolute, EpsilonInsensitive, Huber, Loss, Poisson, Quantile, Ramp, Squared

CASES = [cls() for cls in losses.names().values()] + [
    Huber(0.3),
    Quantile(0.9),
    EpsilonInsensitive(0.0),
    EpsilonInsensitive(1.0),
    Ramp(0.5),
]
CONVEX = [loss for loss in CASES if loss.convex]


def targets(loss, rng, n=400):
    """Targets of the loss, one-hot where it couples columns."""
    if loss.coupled:
        return np.eye(4)[rng.integers(0, 4, n)]
    if loss.task == "classification":
        return rng.choice([-1.0, 1.0], n)
    return rng.poisson(2.0, n).astype(float) if getattr(loss, "positive", False) else rng.normal(0.0, 2.0, n)


def values(loss, y, rng):
    return rng.normal(0.0, 1.5, y.shape)


def differences(function, f, y, rng, h=1e-6):
    """A random direction, and the slope of a function along it."""
    direction = rng.standard_normal(f.shape)
    return direction, (function(f + h * direction, y) - function(f - h * direction, y)) / (2 * h)


@pytest.mark.parametrize("loss", CASES, ids=repr)
def test_gradient_is_the_finite_difference(loss, rng):
    y = targets(loss, rng)
    f = values(loss, y, rng)
    direction, numeric = differences(loss.value, f, y, rng)
    exact = loss.gradient(f, y) * direction
    np.testing.assert_allclose(exact.sum(axis=1) if loss.coupled else exact, numeric, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("loss", [c for c in CASES if hasattr(c, "curvature")], ids=repr)
def test_curvature_is_the_finite_difference(loss, rng):
    y = targets(loss, rng)
    f = values(loss, y, rng)
    direction, numeric = differences(loss.gradient, f, y, rng)
    D = loss.curvature(f, y)
    exact = np.einsum("icd,id->ic", D, direction) if loss.coupled else D * direction
    wrong = np.abs(exact - numeric) > 1e-5 * (1 + np.abs(exact))
    assert wrong.mean() < 0.01  # a kink of the gradient lies between two points now and then


@pytest.mark.parametrize("loss", CONVEX, ids=repr)
def test_convex_on_chords(loss, rng):
    y = targets(loss, rng)
    f, g = values(loss, y, rng), 3.0 * values(loss, y, rng)
    t = rng.random(y.shape[0])
    t_ = t[:, None] if loss.coupled else t
    chord = (1 - t) * loss.value(f, y) + t * loss.value(g, y)
    assert np.all(loss.value((1 - t_) * f + t_ * g, y) <= chord + 1e-12)


def test_the_ramp_is_not_convex_and_says_so():
    f = np.array([-3.0, -1.0, 1.0])
    assert not Ramp().convex
    assert Ramp().value(f, np.ones(3))[1] > 0.5 * (Ramp().value(f, np.ones(3))[[0, 2]]).sum()


@pytest.mark.parametrize("loss", CONVEX, ids=repr)
def test_fenchel_young(loss, rng):
    y = targets(loss, rng)
    f = values(loss, y, rng)
    dot = (lambda u, f: (u * f).sum(axis=1)) if loss.coupled else (lambda u, f: u * f)
    for u in (loss.gradient(values(loss, y, rng), y), rng.standard_normal(y.shape)):
        assert np.all(loss.value(f, y) + loss.conjugate(u, y) - dot(u, f) >= -1e-12)
    u = loss.gradient(f, y)
    np.testing.assert_allclose(loss.value(f, y) + loss.conjugate(u, y), dot(u, f), atol=1e-10)


@pytest.mark.parametrize("loss", [c for c in CONVEX if not c.coupled], ids=repr)
def test_the_conjugate_of_the_conjugate_is_the_loss(loss, rng):
    y = targets(loss, rng, 20)
    f = values(loss, y, rng)
    low, high = loss.domain(y)
    u = np.linspace(np.maximum(low, -30.0), np.minimum(high, 30.0), 20_001)
    twice = np.max(u * f - loss.conjugate(u, y), axis=0)
    np.testing.assert_allclose(twice, loss.value(f, y), atol=2e-3)


@pytest.mark.parametrize("loss", [c for c in CONVEX if not c.coupled], ids=repr)
def test_the_domain_is_where_the_conjugate_is_finite(loss, rng):
    y = targets(loss, rng)
    low, high = loss.domain(y)
    u = rng.normal(0.0, 2.0, y.shape)
    inside = (u >= low) & (u <= high)
    np.testing.assert_array_equal(np.isfinite(loss.conjugate(u, y)), inside)


@pytest.mark.parametrize("loss", [c for c in CONVEX if not c.coupled], ids=repr)
def test_prox_is_optimal(loss, rng):
    y = targets(loss, rng)
    v, step = values(loss, y, rng), rng.uniform(0.1, 2.0, y.shape)
    z = losses.prox(loss, v, y, step)
    # (v - z) / step is a subgradient at z: Fenchel and Young hold with equality.
    u = (v - z) / step
    np.testing.assert_allclose(loss.value(z, y) + loss.conjugate(u, y), u * z, atol=1e-9)


@pytest.mark.parametrize("loss", [c for c in CASES if hasattr(c, "probability")], ids=repr)
def test_the_loss_is_minus_the_log_of_its_probability(loss, rng):
    y = targets(loss, rng)
    f = values(loss, y, rng)
    p = loss.probability(f)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    own = p[np.arange(len(y)), y.argmax(axis=1) if loss.coupled else (y > 0).astype(int)]
    np.testing.assert_allclose(-np.log(own), loss.value(f, y), atol=1e-12)


def test_quantiles_in_order():
    f = np.array([[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(Quantile([0.1, 0.9]).inverse_link(f), f)
    np.testing.assert_array_equal(Quantile([0.1, 0.9], non_crossing=True).inverse_link(f), [[0, 1], [0, 1]])
    assert [part.q for part in Quantile([0.1, 0.9]).parts] == [0.1, 0.9]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Huber(0), "delta must be a number > 0"),
        (lambda: Quantile(1.0), "q must be a number between 0 and 1"),
        (lambda: Quantile([0.9, 0.1]), "quantiles must increase"),
        (lambda: EpsilonInsensitive(-1), "epsilon must be a number >= 0"),
        (lambda: Ramp(1.0), "s must be a number < 1"),
        (lambda: Poisson().check_targets(np.array([-1.0, 2.0])), "counts >= 0, got -1"),
        (lambda: Poisson().check_targets(np.zeros(3)), "at least one count > 0"),
        (lambda: losses.Hinge().check_targets(np.array([0.0, 1.0])), "labels -1 and \\+1"),
        (lambda: losses.resolve("hubber"), "did you mean 'huber'"),
        (lambda: losses.resolve("zzzz"), "the known ones are absolute"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_objects():
    with pytest.raises(TypeError, match="the class Huber: pass an instance"):
        losses.resolve(Huber)
    with pytest.raises(TypeError, match="which lacks value and gradient"):
        losses.resolve(3)
    with pytest.raises(NotImplementedError, match="must define value"):
        Loss().value(np.zeros(1), np.zeros(1))


class Wrong(Absolute):
    def gradient(self, f, y):
        return -np.sign(f - y)


class Scalar(Squared):
    def value(self, f, y):
        return float(np.sum(super().value(f, y)))


def test_a_gradient_that_disagrees_is_told(rng):
    y = rng.standard_normal(50)
    for loss in (Absolute(), Squared(), Huber()):
        losses.check_gradient(loss, y)
    with pytest.raises(ValueError, match="Wrong: gradient disagrees with value at"):
        losses.check_gradient(Wrong(), y)
    with pytest.raises(ValueError, match="entry by entry"):
        losses.check_gradient(Scalar(), y)


def test_a_tube_is_what_the_conjugate_says(rng):
    with_tube = [cls() for cls in losses.names().values() if hasattr(cls, "tube")]
    assert {type(loss).__name__ for loss in with_tube} == {"Absolute", "Quantile", "EpsilonInsensitive", "Hinge"}
    y = rng.choice([-1.0, 1.0], 50)
    for loss in with_tube:
        low, high = loss.domain(y)
        u = low + rng.uniform(size=50) * (high - low)
        np.testing.assert_allclose(loss.conjugate(u, y), u * y + loss.tube() * np.abs(u))
