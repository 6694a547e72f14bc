"""Polynomial maps whose inner products are polynomial kernels exactly."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from itertools import groupby
from numbers import Integral, Real
from operator import add, mul
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from gramian.data.blocks import MethodOfRows
from gramian.features.base import ExplicitMap, constraints
from gramian.kernels import Kernel, Linear, Polynomial, polynomial
from gramian.resources import memory_budget, readable, run, spans, worker_count

CELLS = 1 << 18
"""Number of features, over all rows of a block, that are computed at a time."""
LISTED = 40
"""Bytes for each monomial in the list: its parent, input and weight, and two temporaries."""


@dataclass(frozen=True, eq=False)
class Monomials:
    """Monomials in order of degree, each a monomial of the degree below (its parent) times one input."""

    parents: list[NDArray[np.intp]]  # For each degree from 1: indices of the parents, in the degree below
    inputs: list[NDArray[np.intp]]  # For each degree from 1: indices of the inputs that multiply the parents
    log_factorials: NDArray[np.float64]  # (m,): log Π_i j_i!, where j_i is the power of input i

    @property
    def degrees(self) -> NDArray[np.intp]:
        """Degree of every monomial."""
        return np.repeat(np.arange(len(self.parents) + 1), [1, *(p.size for p in self.parents)])

    def levels(self, X: Any) -> list[Any]:
        """Evaluate the monomials, one array per degree; CSC if X is CSC."""
        ones = np.ones((X.shape[0], 1), X.dtype)
        levels = [ones if isinstance(X, np.ndarray) else sp.csc_array(ones)]
        for parents, inputs in zip(self.parents, self.inputs, strict=True):
            levels.append(levels[-1][:, parents] * X[:, inputs])
        return levels

    @classmethod
    def of(cls, basis: str, d: int, degree: int) -> Monomials:
        """List the monomials of a basis."""
        parents, inputs, factorials = [], [], [np.zeros(1)]
        last, run_length = np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)
        for _ in range(degree * d if basis == "box" else degree):
            # A child appends an input: any if "ordered", otherwise one not before the parent's last input.
            first = np.zeros_like(last) if basis == "ordered" else last
            if basis == "box":
                first = last + (run_length == degree)
            counts = np.maximum(d - first, 0)
            parent = np.repeat(np.arange(last.size), counts)
            if parent.size == 0:
                break
            offset = np.arange(parent.size) - np.repeat(np.cumsum(counts) - counts, counts)
            child = first[parent] + offset
            longer = np.where(child == last[parent], run_length[parent] + 1, 1)
            factorials.append(factorials[-1][parent] + np.log(longer))
            parents.append(parent)
            inputs.append(child)
            last, run_length = child, longer
        return cls(parents, inputs, np.concatenate(factorials))


@dataclass(eq=False, repr=False)
class PolynomialMap(ExplicitMap):
    """Monomials of the inputs, weighted so that inner products equal a polynomial kernel exactly.

    With k = ``degree`` and d inputs:

    - ``"total"``: monomials of total degree at most k, weighted so that ``<ψ(x), ψ(z)> = (offset + <x, z>)^k``;
      C(d+k, k) of them (if ``offset`` is zero, only those of degree k, C(d+k-1, k) of them).
    - ``"box"``: every ``Π_i x_i^{j_i}`` with 0 ≤ j_i ≤ k, (k+1)^d of them; the kernel is ``Π_i Σ_{j≤k} (x_i z_i)^j``.
    - ``"ordered"``: every product ``x_{J1} … x_{Jr}`` of r ≤ k inputs in order, (d^(k+1) - 1)/(d - 1) of them; the
      kernel is ``Σ_{r≤k} <x, z>^r``.

    Parameters
    ----------
    degree : int, default=2
        The degree k.
    basis : {"total", "box", "ordered"}, default="total"
        Which monomials.
    offset : float, default=1.0
        For ``"total"``, >= 0: the larger, the smaller the share of high degrees.
    include_constant : bool, default=True
        Whether the constant, the empty product, is one of the features; without it, its square is missing from the
        kernel. ``PolynomialMap(2, "box", include_constant=False)`` of one input is ``(x, x²)``.
    memory : int, str or None, default=None
        Bytes that the features of the rows of ``fit`` may take; by default half of what is available.
    n_jobs : int or None, default=None
        Threads; ``None`` for every core.

    Attributes
    ----------
    n_output_features_ : int
        Number of features.
    n_features_in_, feature_names_in_ : int, array of shape (n_features_in_,)
        Number of columns of X, and their names if X has names.
    kernel_ : Kernel
        The kernel that the map makes explicit.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.features.polynomial import PolynomialMap
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> psi = PolynomialMap(degree=2).fit(X)
    >>> psi.get_feature_names_out().tolist()
    ['1', 'x0', 'x1', 'x0^2', 'x0 x1', 'x1^2']
    >>> psi.transform(X) @ psi.transform(X).T
    array([[ 36., 144.],
           [144., 676.]])
    >>> psi.kernel_
    Polynomial(2)
    """

    degree: int = 2
    basis: str = "total"
    offset: float = 1.0
    _: KW_ONLY
    include_constant: bool = True
    memory: int | str | None = None
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = constraints(
        *("memory", "n_jobs"),
        degree=[Interval(Integral, 1, None, closed="left")],
        basis=[StrOptions({"total", "box", "ordered"})],
        offset=[Interval(Real, 0, None, closed="left")],
        include_constant=["boolean"],
    )

    if TYPE_CHECKING:
        transform: ClassVar[MethodOfRows[Any]]  # CSR for CSR rows

    def output_size(self, d: int) -> int:
        """Return the number of features of d inputs, without computing any: d → number.

        Examples
        --------
        >>> from gramian.features.polynomial import PolynomialMap
        >>> PolynomialMap(3).output_size(100), PolynomialMap(3, "box").output_size(100) > 10**60
        (176851, True)
        """
        k, without = self.degree, int(not self.include_constant)
        if self.basis == "box":
            return int((k + 1) ** d) - without
        if self.basis == "ordered":
            return int(sum(d**r for r in range(k + 1))) - without
        return math.comb(d + k, k) - without if self.offset > 0 else math.comb(d + k - 1, k)

    def _fit(self, X: Any) -> None:
        if self.basis != "total" and self.offset != 1.0:
            raise ValueError(f"offset belongs to basis='total', got offset={self.offset} with basis={self.basis!r}.")
        n, d = X.shape
        size = self.output_size(d)
        # For sparse rows only nonzero products are stored, but the list of all products must still fit.
        listed, made = LISTED * size, X.dtype.itemsize * n * size if isinstance(X, np.ndarray) else 0
        if listed + made > memory_budget(self.memory):
            rows = f", and {n:,} rows of them {readable(made)}" if made else ""
            raise MemoryError(
                f"basis={self.basis!r} of degree {self.degree} on {d} inputs has {size:,} features. The list of their "
                f"products takes {readable(listed)}{rows}; memory is "
                f"{readable(memory_budget(self.memory))}. Lower degree, raise memory=, or use the kernel "
                "(kernel=Polynomial(...)), which never computes them."
            )
        self.n_output_features_ = size
        self.kernel_ = self._kernel(d)
        self._monomials = Monomials.of(self.basis, d, self.degree)
        self._weights = self._weighting(self._monomials)

    def _kernel(self, d: int) -> Kernel:
        k, offset = self.degree, float(self.offset)
        powers = polynomial(Linear(), [1.0] * (k + 1))
        if self.include_constant or (self.basis == "total" and offset == 0):
            if self.basis == "total":
                return Polynomial(k, 1.0, offset)
            return powers if self.basis == "ordered" else reduce(mul, [powers.on(i) for i in range(d)])
        if self.basis == "total":
            return polynomial(Linear(), [0.0, *(math.comb(k, r) * offset ** (k - r) for r in range(1, k + 1))])
        without = polynomial(Linear(), [0.0] + [1.0] * k)
        if self.basis == "ordered":
            return without
        # A sum over the last input i that occurs in a product, with a power of at least one.
        return reduce(add, [reduce(mul, [*(powers.on(j) for j in range(i)), without.on(i)]) for i in range(d)])

    def _weighting(self, monomials: Monomials) -> NDArray[np.float64]:
        """Weight of every monomial; zero for those that are left out."""
        if self.basis != "total":
            weights = np.ones(monomials.log_factorials.size)
            weights[0] = float(self.include_constant)
            return weights
        k, r = self.degree, monomials.degrees
        squared = np.exp(gammaln(k + 1) - gammaln(k - r + 1) - monomials.log_factorials)
        # The squares are multinomial coefficients: round away the error of the logarithms.
        weights = np.sqrt(np.round(squared) * np.power(float(self.offset), k - r))
        weights[0] *= float(self.include_constant)
        return weights

    def _features(self, X: Any) -> Any:
        kept = np.flatnonzero(self._weights)
        weights = self._weights[kept].astype(X.dtype)
        if not isinstance(X, np.ndarray):
            with np.errstate(over="ignore", invalid="ignore"):
                levels = sp.hstack(self._monomials.levels(sp.csc_array(X)), format="csc")
                features = levels[:, kept] @ sp.diags_array(weights)
            _check_finite(features.data)
            return sp.csr_array(features)
        out = np.empty((X.shape[0], self.n_output_features_), X.dtype)

        def block(rows: slice) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                levels = np.concatenate(self._monomials.levels(X[rows]), axis=1)
                np.multiply(levels[:, kept], weights, out=out[rows])
            _check_finite(out[rows])

        blocks = spans(X.shape[0], max(CELLS // self._weights.size, 1))
        run(block, blocks, worker_count(self.n_jobs) if out.size > CELLS else 1)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the products, such as ``1`` or ``x0^2 x1``: names of inputs → (n_output_features_,)."""
        check_is_fitted(self)
        inputs = _check_feature_names_in(self, input_features)
        words: list[tuple[int, ...]] = [()]
        level = words
        for parents, appended in zip(self._monomials.parents, self._monomials.inputs, strict=True):
            level = [(*level[p], i) for p, i in zip(parents.tolist(), appended.tolist(), strict=True)]
            words = words + level
        return np.array([_name(words[j], inputs) for j in np.flatnonzero(self._weights)], dtype=object)


def _check_finite(features: NDArray[Any]) -> None:
    if not np.isfinite(features).all():
        raise ValueError(f"products of these inputs overflow {features.dtype}; scale the rows down, or lower degree.")


def _name(word: tuple[int, ...], inputs: Any) -> str:
    """Name of a product, with repeated neighbours as powers; the order of inputs is kept."""
    powers = [(inputs[i], len(list(same))) for i, same in groupby(word)]
    return " ".join(f"{name}^{power}" if power > 1 else str(name) for name, power in powers) or "1"
