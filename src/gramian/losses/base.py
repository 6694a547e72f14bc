"""``Loss``: the interface of a loss ℓ(f, y), with defaults derived from its gradient."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.numerals import nearest

Array = NDArray[np.float64]

BISECTIONS = 60
"""Bisection steps, enough to reach rounding from any bracket."""
CHECK_POINTS = 64
"""Points at which a gradient is compared with finite differences of the value."""


class Loss:
    """A loss ℓ(f, y) of a value f and a target y, convex in f unless ``convex`` says otherwise.

    Methods take arrays of one shape and work entry by entry. A loss may also have ``curvature(f, y)``, and is then
    minimised by Newton's method; ``conjugate(u, y)``, and its fits then have a duality gap; ``prox(v, y, step)``,
    which otherwise the proximal method computes from the gradient; ``probability(f)``.

    Attributes
    ----------
    convex : bool
        Whether ℓ is convex in f.
    joint : bool
        Whether ℓ depends on all values jointly, ``ℓ(f(x_1), ..., f(x_n))``: ``value`` then returns one number and
        ``gradient`` one for each row; the fit minimises ℓ itself, not a mean, by cutting planes.
    coupled : bool
        Whether f has one column per class, and ℓ is a function of a whole row.
    task : {"regression", "classification"}
        Whether targets are numbers or labels; losses of the margin take labels -1 and +1.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.losses import Loss
    >>> class Fair(Loss):
    ...     def value(self, f, y):
    ...         return abs(f - y) - np.log1p(abs(f - y))
    ...
    ...     def gradient(self, f, y):
    ...         return (f - y) / (1 + abs(f - y))
    >>> Fair().gradient(np.array([1.0]), np.array([0.0]))
    array([0.5])
    """

    convex: ClassVar[bool] = True
    joint: ClassVar[bool] = False
    coupled: ClassVar[bool] = False
    task: ClassVar[str] = "regression"

    def value(self, f: Array, y: Array) -> Array:
        """Return ℓ(f, y): values and targets → array of their shape."""
        raise NotImplementedError(f"{type(self).__name__} must define value(f, y).")

    def gradient(self, f: Array, y: Array) -> Array:
        """Return ∂ℓ/∂f, or one subgradient at a kink: values and targets → array of their shape."""
        raise NotImplementedError(f"{type(self).__name__} must define gradient(f, y).")

    def domain(self, y: Array) -> tuple[Array, Array]:
        """Return the ends of the interval of u where the conjugate is finite: targets → two arrays of their shape."""
        return np.full(np.shape(y), -np.inf), np.full(np.shape(y), np.inf)

    def inverse_link(self, f: Array) -> Array:
        """Return the predictions for fitted values, such as exp(f) for counts: values → array of their shape."""
        return f

    def check_targets(self, y: Array) -> None:
        """Raise ``ValueError`` if a target is invalid for this loss: targets → None."""


def inside(u: Array, low: Array | float, high: Array | float, value: Array) -> Array:
    """Return a conjugate: its value on the domain [low, high] up to rounding, infinity outside."""
    slack = 1e-9 * (1.0 + np.abs(u))
    return np.where((u >= low - slack) & (u <= high + slack), value, np.inf)


class _Smooth(Loss):
    """A loss with second derivatives and a conjugate, so that Newton's method applies and fits have a duality gap."""

    def curvature(self, f: Array, y: Array) -> Array:
        """Return ∂²ℓ/∂f²: values and targets → array of their shape, or (n, c, c) if the loss is coupled."""
        raise NotImplementedError

    def conjugate(self, u: Array, y: Array) -> Array:
        """Return ``sup_f u f - ℓ(f, y)``, infinite outside its domain: slopes and targets → their shape, or (n,)."""
        raise NotImplementedError


class _PiecewiseLinear(Loss):
    """A loss with ``ℓ*(u) = u y + ε |u|`` on its domain [low, high]: slope low below y - ε, high above y + ε."""

    def value(self, f: Array, y: Array) -> Array:
        (low, high), r, tube = self.domain(y), f - y, self.tube()
        return np.asarray(high * np.maximum(r - tube, 0.0) + low * np.minimum(r + tube, 0.0))

    def gradient(self, f: Array, y: Array) -> Array:
        (low, high), r, tube = self.domain(y), f - y, self.tube()
        return np.asarray(high * (r > tube) + low * (r < -tube))

    def domain(self, y: Array) -> tuple[Array, Array]:
        return -np.ones(np.shape(y)), np.ones(np.shape(y))

    def tube(self) -> float:
        """Return the ε of the conjugate ``u y + ε |u|``: half the width of the tube in which the loss is zero."""
        return 0.0

    def conjugate(self, u: Array, y: Array) -> Array:
        """Return ``u y + ε |u|`` on the domain, infinity elsewhere: slopes and targets → array of their shape."""
        return inside(u, *self.domain(y), u * y + self.tube() * np.abs(u))

    def prox(self, v: Array, y: Array, step: Array | float) -> Array:
        """Return argmin_z ``ℓ(z, y) + (z - v)² / (2 step)``: points v, targets, step > 0 → array of their shape."""
        (low, high), r, tube = self.domain(y), v - y, self.tube()
        return np.asarray(v - np.clip(r - tube, 0.0, step * high) - np.clip(r + tube, step * low, 0.0))


def prox(loss: Any, v: Array, y: Array, step: Array | float) -> Array:
    """Return the z that minimises ``ℓ(z, y) + (z - v)² / (2 step)``, for a convex ℓ.

    Uses the loss's own ``prox`` if it has one, else bisection for the root of ``z - v + step ℓ'(z)``, which increases
    in z and has its root between v and ``v - step ℓ'(v)``.

    Parameters
    ----------
    loss : object
        With ``prox``, or with ``gradient``.
    v : array
        The point whose proximal point is sought.
    y : array
        Targets.
    step : float or array
        Step size > 0.

    Returns
    -------
    array
        Of the shape of v.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.losses import Absolute, prox
    >>> prox(Absolute(), np.array([2.0]), np.array([0.0]), 0.5)
    array([1.5])
    """
    if offers(loss, "prox"):
        return np.asarray(loss.prox(v, y, step))
    other = v - step * loss.gradient(v, y)
    low, high = np.minimum(v, other), np.maximum(v, other)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        above = middle - v + step * loss.gradient(middle, y) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))


# ---- names and methods of losses --------------------------------------------------------------------------------


def _classes(parent: type[Loss]) -> Iterable[type[Loss]]:
    for child in parent.__subclasses__():
        if child.__module__.startswith("gramian.") and not child.__name__.startswith("_"):
            yield child
        yield from _classes(child)


def names() -> dict[str, type[Loss]]:
    """Return the losses that can be given by name.

    Returns
    -------
    dict
        Classes by names such as ``"squared_hinge"``.

    Examples
    --------
    >>> from gramian.losses import names
    >>> names()["squared_hinge"].__name__
    'SquaredHinge'
    """
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", c.__name__).lower(): c for c in _classes(Loss)}


def resolve(loss: Any) -> Any:
    """Return a loss from its name, or the object itself if it has a value and a gradient.

    Parameters
    ----------
    loss : str or object
        A name, or a loss.

    Returns
    -------
    object
        A loss.

    Examples
    --------
    >>> from gramian.losses import resolve
    >>> resolve("huber")
    Huber(delta=1.0)
    """
    if isinstance(loss, str):
        known = names()
        if loss not in known:
            hint = nearest(loss, known)
            if re.sub(r"[\W_]", "", loss).lower() in ("01", "zeroone", "zerooneloss", "misclassification"):
                hint = "to minimise the 0-1 loss is NP-hard; 'ramp' stands in for it, and finds a stationary point."
            raise ValueError(f"unknown loss {loss!r}; {hint}")
        return known[loss]()
    lacking = missing(loss, ("value", "gradient"))
    if isinstance(loss, type) or lacking:
        what = f"the class {loss.__name__}: pass an instance" if isinstance(loss, type) else repr(loss)
        need = "" if isinstance(loss, type) else f", which lacks {' and '.join(lacking)}"
        raise TypeError(f"loss must be a name or an object with value(f, y) and gradient(f, y); got {what}{need}.")
    return loss


def offers(loss: Any, piece: str) -> bool:
    """Return whether a loss has a method.

    Parameters
    ----------
    loss : object
        The loss.
    piece : str
        Name of the method.

    Returns
    -------
    bool
        Whether it has the method.

    Examples
    --------
    >>> from gramian.losses import Hinge, offers
    >>> offers(Hinge(), "conjugate"), offers(Hinge(), "curvature")
    (True, False)
    """
    return callable(getattr(loss, piece, None))


def missing(loss: Any, pieces: Iterable[str]) -> list[str]:
    """Return which of the required methods a loss lacks.

    Parameters
    ----------
    loss : object
        The loss.
    pieces : iterable of str
        Names of methods.

    Returns
    -------
    list of str
        The methods that it lacks.

    Examples
    --------
    >>> from gramian.losses import Hinge, missing
    >>> missing(Hinge(), ["gradient", "curvature"])
    ['curvature']
    """
    return [piece for piece in pieces if not offers(loss, piece)]


def check_gradient(loss: Any, y: Array) -> None:
    """Raise ``ValueError`` if a loss's gradient is not the derivative of its value.

    Parameters
    ----------
    loss : object
        A loss with ``value`` and ``gradient`` that work entry by entry.
    y : array of shape (n,)
        Targets.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.losses import Huber, check_gradient
    >>> check_gradient(Huber(), np.linspace(-1, 1, 20))
    """
    rng = np.random.RandomState(0)
    y = y[rng.randint(y.size, size=CHECK_POINTS)].astype(np.float64)
    centre = np.log1p(y) if getattr(loss, "positive", False) else y  # counts have mean exp(f)
    scale = max(float(np.abs(centre).max()), 1.0)
    f = np.clip(centre + scale * rng.standard_normal(y.shape), -5.0 * scale, 5.0 * scale)
    step = 1e-5 * scale
    slope = (np.asarray(loss.value(f + step, y)) - loss.value(f - step, y)) / (2 * step)
    given = np.asarray(loss.gradient(f, y), dtype=np.float64)
    if given.shape != f.shape or slope.shape != f.shape:
        raise ValueError(
            f"{type(loss).__name__}: value and gradient must work entry by entry; for f of shape {f.shape} they "
            f"returned shapes {slope.shape} and {given.shape}."
        )
    wrong = ~(np.abs(slope - given) <= 1e-3 * (1.0 + np.abs(slope) + np.abs(given)))
    # A few points may have a kink between f - step and f + step; a wrong gradient shows at most points.
    if wrong.mean() > 0.1:
        i = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{type(loss).__name__}: gradient disagrees with value at {wrong.sum()} of {f.size} points; at "
            f"f={f[i]:.4g}, y={y[i]:.4g} gradient returns {given[i]:.4g}, differences of value give {slope[i]:.4g}. "
            "Correct one of them."
        )
