"""Adapter for scikit-learn's Gaussian process kernels, including users' own, that have no counterpart here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from gramian.kernels import points
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.points import Array, Points
from gramian.kernels.tunable import Parameter


@kernel
class Adapted(Kernel):
    """A kernel object of scikit-learn, called as it is.

    Its gradient comes from ``eval_gradient=True``, which allocates an array of shape (n, n, p).

    Parameters
    ----------
    theirs : sklearn.gaussian_process.kernels.Kernel
        The object; its inputs may be of any type that it accepts.
    """

    theirs: Any
    buffers: ClassVar[int] = 3
    definite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "theirs", clone(self.theirs))

    def __hash__(self) -> int:
        return hash(repr(self.theirs))

    # ---- parameters ---------------------------------------------------------------------------------------------

    def _own_parameters(self) -> Iterator[Parameter]:
        values = self.theirs.get_params()
        for h in self.theirs.hyperparameters:
            for i, value in enumerate(np.atleast_1d(np.asarray(values[h.name], dtype=np.float64)).tolist()):
                bounds = "fixed" if h.fixed else tuple(np.atleast_2d(h.bounds)[i].tolist())
                yield Parameter(h.name if h.n_elements == 1 else f"{h.name}[{i}]", value, bounds)

    def with_fields(self, changes: dict[str, Any]) -> Self:
        theirs = clone(changes.get("theirs", self.theirs))
        for name, value in changes.items():
            field, element, place = name.partition("[")
            if element and not name.endswith("_bounds"):
                values = np.array(theirs.get_params()[field], dtype=np.float64)
                values[int(place[:-1])] = value
                theirs.set_params(**{field: values})
            elif name != "theirs":
                theirs.set_params(**{f"{field}_bounds" if element else name: value})
        return replace(self, theirs=theirs)

    # ---- values -------------------------------------------------------------------------------------------------

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        left = self._rows(X, "X")
        return points.paired((left,), (left if Y is None else self._rows(Y, "Y"),), Y is None)

    def _rows(self, X: Any, name: str) -> Any:
        if self.theirs.requires_vector_input or points.is_table(X):
            return points.vectors(X, kernel=repr(self.theirs), name=name)
        return points.objects(X, kernel=repr(self.theirs), name=name)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        K = np.array(self.theirs(A.parts[0], B.parts[0]), dtype=points.dtype_of(A.parts[0]))
        if K.shape != (len(A), len(B)):
            raise ValueError(f"{self.theirs!r} must return shape {(len(A), len(B))} for X and Y, got {K.shape}.")
        return points.store(K, out)

    def diagonal(self, A: Points) -> NDArray[Any]:
        return np.array(self.theirs.diag(A.parts[0]), dtype=points.dtype_of(A.parts[0]))

    def tile_vjp(self, A: Points, B: Points, W: Array) -> NDArray[np.float64]:
        if not self._size:
            return np.zeros(0)
        rows, columns, n = A.parts[0], B.parts[0], len(A)
        same = points.same_pairs(A, B)
        if same is not None and same[0].size == n:
            # Every row is also a column. scikit-learn gives gradients only for a set of rows with itself.
            slopes = self.theirs(columns, eval_gradient=True)[1][same[1][np.argsort(same[0])]]
        else:
            slopes = self.theirs(np.concatenate([rows, columns]), eval_gradient=True)[1][:n, n:]
        return np.einsum("ij,ijp->p", W, np.asarray(slopes).reshape(n, len(B), self._size))

    def diagonal_vjp(self, A: Points, w: Array) -> NDArray[np.float64]:
        slopes = [self.theirs(A.parts[0][i : i + 1], eval_gradient=True)[1].reshape(-1) for i in range(len(A))]
        return np.asarray(w, dtype=np.float64) @ np.array(slopes).reshape(len(A), self._size)


# ---- a kernel here, and the one there that it came from -------------------------------------------------------------


def remembering(ours: Kernel, theirs: Any) -> Kernel:
    """Return the kernel together with the scikit-learn kernel it was translated from, set to the same values."""
    made, like = replace(ours), clone(theirs)
    values = {p.name: p.value for p in ours.all_parameters()}
    for name, value in values.items():
        path, back = there(like, name)
        known = like.get_params()
        if path in known:
            like.set_params(**{path: back(np.asarray(value)) if np.ndim(value) else back(value)})
    object.__setattr__(made, "theirs", like)
    return made


_NAMES = {"lengthscale": "length_scale", "value": "constant_value", "noise": "noise_level", "period": "periodicity"}
_STEPS = {"left": "k1", "right": "k2", "kernel": "kernel"}
_GAMMAS: dict[str, Any] = {"rbf": lambda length: 0.5 / length**2, "laplacian": lambda length: 1.0 / length}


def there(theirs: Any, name: str) -> tuple[str, Any]:
    """Return the name of a parameter in scikit-learn's kernel, and the function from our value to theirs."""
    path = ""
    for part in name.split("."):
        kind = type(theirs).__name__
        if kind == "DotProduct":
            return f"{path}sigma_0", sqrt
        if kind == "PairwiseKernel":
            return f"{path}gamma", _GAMMAS.get(theirs.metric, float)
        step = _STEPS.get(part)
        if step is None or not hasattr(theirs, step):
            return path + _NAMES.get(part, part), lambda value: value
        path, theirs = f"{path}{step}__", getattr(theirs, step)
    return path, float
