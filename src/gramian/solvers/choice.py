"""The choice of a solver by counted operations and bytes; nothing is timed."""

from __future__ import annotations

from dataclasses import dataclass

from gramian.gram import Gram
from gramian.resources import readable

DIRECT_ROWS = 3000
"""Rows up to which a factorisation is as fast as computing a preconditioner."""
DIRECT_TOL = 1e-10
"""Tolerance below which conjugate gradients are slow."""
DIRECT_RIDGE = 1e-6
"""Ridge, relative to k(x, x), below which conjugate gradients converge slowly."""
FACTOR_ROWS = 50_000
"""Rows up to which the posterior of a Gaussian process is exact, if its factor fits in memory."""
ROWS_PER_ITERATION = 50
"""A factorisation (n³/3 operations) takes about as long as n / 50 memory-bound products with a stored K."""
SPEED = 6e10
"""Operations per second of the nominal machine: two cores with 30 Gflop/s each in double precision."""
VALUE, STORED = 225, 18
"""Cost in operations of computing a kernel value or feature, and of reading a stored float32 one."""
ITERATIONS = 30
"""Expected iterations of conjugate gradients in the features of a map."""
SVM_VALUES, NEWTON_STEPS = 60, 10
"""Times that pair steps compute each kernel value, and Newton steps (factorisations) of a machine with any loss."""


@dataclass(frozen=True)
class Choice:
    """The solver used in a fit, and why."""

    name: str  # Its name
    reason: str  # Why it was chosen

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


def choose(gram: Gram, ridge: float, tol: float, *, factor: bool = False, asked: str = "auto") -> Choice:
    """Choose between ``cholesky`` and ``pcg`` for ``(K + ridge · I) x = b``; ``factor`` if L itself is needed."""
    n = gram.shape[0]
    if asked == "pcg" and (factor or ridge == 0):
        wanted = "store_loo=True" if factor else "alpha=0"
        raise ValueError(f"{wanted} needs a factorisation; use solver='cholesky' or 'auto' instead of 'pcg'.")
    if asked != "auto":
        return Choice(asked, "as asked")
    if ridge == 0:
        return Choice("cholesky", "alpha = 0 interpolates, and only a factorisation shows whether that is possible")
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


def choose_in_features(n: int, m: int, k: int, sample: int, asked: str = "auto") -> Choice:
    """Choose between normal equations and conjugate gradients for k targets in m features of n rows."""
    if asked != "auto":
        return Choice("pcg" if asked == "pcg" else "moments", "as asked")
    sums = n * m * (2.0 * m + VALUE) + m**3 / 3.0
    iterate = ITERATIONS * n * m * (4.0 * k + VALUE) + sample * m * (2.0 * m + VALUE) + m**3
    counted = f"{min(sums, iterate):.1e} operations, against {max(sums, iterate):.1e}"
    return Choice("moments" if sums <= iterate else "pcg", counted)


def choose_posterior(n: int, memory: int, asked: str = "auto") -> Choice:
    """Choose between the factor and conjugate gradients for the posterior of a Gaussian process."""
    needed = f"the factor of {n:,} rows takes {readable(factor_bytes(n))} and memory is {readable(memory)}"
    fits = factor_bytes(n) <= memory
    if asked == "cholesky" and not fits:
        raise MemoryError(f"{needed}; raise memory=, or take solver='pcg'.")
    if asked != "auto":
        return Choice(asked, "as asked")
    if fits and n <= FACTOR_ROWS:
        return Choice("cholesky", needed)
    limit = needed if n <= FACTOR_ROWS else f"{n:,} rows are more than {FACTOR_ROWS:,}"
    return Choice("pcg", f"the variance is computed from a projection of the data: {limit}")


def worthwhile_iterations(n: int) -> int:
    """Return the number of iterations of ``pcg`` that cost as much as a factorisation."""
    return max(n // ROWS_PER_ITERATION, 1)


# ---- counts -----------------------------------------------------------------------------------------------------


def nominal_seconds(operations: float) -> float:
    """Return the time of operations on the nominal machine, so that plans are the same on every machine."""
    return operations / SPEED


def factor_bytes(n: int) -> int:
    """Return the bytes of an n x n factor."""
    return 8 * n * n


def factor_operations(n: int, *, inverse: bool = False) -> float:
    """Count the operations of K and its Cholesky factor, with ``inverse`` also those of the inverse."""
    return VALUE * n**2 + (3.0 if inverse else 1.2) * n**3 / 3.0


def pcg_operations(n: int, targets: int, iterations: int, rank: int, memory: int) -> float:
    """Count the operations of conjugate gradients with a preconditioner of some rank."""
    # Blocks of K that do not fit in memory are recomputed in every iteration.
    stored = min(max((memory - 8.0 * n * rank) / (2.0 * n * n), 0.0), 1.0)
    step = n * n * (stored * STORED + (1.0 - stored) * 0.5 * VALUE) + 4.0 * n * rank * targets
    setup = 2.0 * n * rank**2 + VALUE * n * rank + (2.0 + stored) * 0.5 * VALUE * n * n
    return setup + iterations * step


def landmark_operations(n: int, m: int) -> float:
    """Count the operations of least squares on n rows through m landmarks."""
    return 2.0 * VALUE * n * m + 3.0 * n * m**2 + 3.0 * m**3


def svm_operations(n: int) -> float:
    """Estimate the operations of a support vector machine."""
    return float(SVM_VALUES * VALUE * n**2)


def newton_operations(n: int, functions: int = 1) -> float:
    """Estimate the operations of Newton steps for a machine with any loss."""
    return NEWTON_STEPS * functions * factor_operations(n)
