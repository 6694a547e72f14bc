"""Which solver, and why: a decision that the fit keeps and can show."""

from __future__ import annotations

from dataclasses import dataclass

from gramian.gram import Gram
from gramian.resources import readable

__all__ = ["Choice", "choose", "worthwhile_iterations"]

DIRECT_ROWS = 3000
"""Rows up to which a factorisation takes no longer than making a preconditioner would."""
DIRECT_TOL = 1e-10
"""Residuals that conjugate gradients reach only slowly."""
DIRECT_RIDGE = 1e-6
"""Ridge, relative to k(x, x), below which conjugate gradients converge slowly."""

ROWS_PER_ITERATION = 50
"""n³/3 operations of a factorisation take about as long as n / 50 products with a stored K, which wait for memory."""


@dataclass(frozen=True)
class Choice:
    """The solver of a fit."""

    name: str  # Its name
    reason: str  # Why it was taken

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


def choose(gram: Gram, ridge: float, tol: float, *, factor: bool = False) -> Choice:
    """Choose between ``cholesky`` and ``pcg`` for ``(K + ridge · I) x = b``."""
    n = gram.shape[0]
    if ridge == 0:
        return Choice("cholesky", "alpha = 0 interpolates, and only a factorisation tells whether that is possible")
    if factor:
        return Choice("cholesky", "leave-one-out residuals need the factor")
    if not gram.fits:
        return Choice(
            "pcg", f"the {n:,} x {n:,} matrix takes {readable(gram.nbytes)}, memory is {readable(gram.memory)}"
        )
    if n <= DIRECT_ROWS:
        return Choice("cholesky", f"{n:,} rows are at most {DIRECT_ROWS:,}")
    if tol < DIRECT_TOL:
        return Choice("cholesky", f"tol={tol:.0e} is below {DIRECT_TOL:.0e}, and the matrix fits the memory")
    if ridge < DIRECT_RIDGE * float(gram.diagonal().mean()):
        return Choice("cholesky", f"alpha={ridge:.0e} is small next to k(x, x), and the matrix fits the memory")
    return Choice("pcg", f"{n:,} rows are more than {DIRECT_ROWS:,}")


def worthwhile_iterations(n: int) -> int:
    """Return how many iterations of ``pcg`` cost as much as a factorisation."""
    return max(n // ROWS_PER_ITERATION, 1)
