"""Which solver a loss gets, and the bounds that penalties of the norm have."""

from dataclasses import dataclass

import pytest

from gramian.losses import Multinomial, Ramp
from gramian.solvers.machine.penalties import NEEDS, bound, choose, is_convex, penalty_conjugate
from machine_problems import CONVEX


class Cubic:
    """r³ / 3, whose conjugate is (2/3) t^(3/2)."""

    def value(self, r):
        return r**3 / 3

    def derivative(self, r):
        return r**2


class Bounded:
    """r / (1 + r), which is not convex."""

    def value(self, r):
        return r / (1 + r)

    def derivative(self, r):
        return 1 / (1 + r) ** 2


@dataclass
class Slopes:
    """A dual point u with a conjugate that is linear along it."""

    norm: float
    slope: float

    def conjugate(self, share):
        return self.slope * share


def test_dispatch_is_by_what_a_loss_offers():
    assert {type(loss).__name__: choose(loss).name for loss in CONVEX if hasattr(loss, "curvature")} == {
        type(loss).__name__: "newton" for loss in CONVEX if hasattr(loss, "curvature")
    }
    assert choose(Ramp()).name == "ccp"
    assert set(NEEDS) == {"newton", "proximal", "ccp", "bundle"}
    with pytest.raises(ValueError, match="lacks what makes it convex"):
        choose(Multinomial(), "proximal")


def test_the_conjugate_of_a_penalty():
    for t in (1e-3, 0.5, 7.0):
        share, value = penalty_conjugate(Cubic(), t)
        assert share == 1.0
        assert value == pytest.approx(2 / 3 * t**1.5, rel=1e-9)
    assert is_convex(Cubic())
    assert is_convex("ball")
    assert not is_convex(Bounded())


def test_bounds_from_one_dual_point():
    """Weak duality for each penalty, beside the function zero, which is a dual point of value 0 here."""
    slopes = Slopes(norm=2.0, slope=-3.0)  # -Σ w ℓ*(s u / w) = 3 s
    assert bound(slopes, "squared", 0.1, 10.0) == pytest.approx((3.0 - 2.0**2 / (2 * 0.1 * 10), 1.0))
    assert bound(slopes, "ball", 0.1, 10.0) == pytest.approx((3.0 - 0.1 * 2.0, 1.0))
    assert bound(slopes, "norm", 0.1, 10.0) == pytest.approx((3.0 * 0.5, 0.5))  # half of u has the norm lam · total
    assert bound(Slopes(norm=0.0, slope=-3.0), "norm", 0.1, 10.0) == (3.0, 1.0)
    conjugate = 2 / 3 * (2.0 / (0.1 * 10)) ** 1.5
    assert bound(slopes, Cubic(), 0.1, 10.0) == pytest.approx((3.0 - 0.1 * 10 * conjugate, 1.0))
    assert bound(Slopes(norm=2.0, slope=5.0), "ball", 0.1, 10.0) == (0.0, 0.0)
