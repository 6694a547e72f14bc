"""The ``gramian`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from gramian import __version__

__all__ = ["main"]


class _Parser(argparse.ArgumentParser):
    """Report a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"gramian: {message}; try gramian --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str or None, default=None
        Arguments; ``None`` for those of the process.

    Returns
    -------
    int
        Exit status: 0 where all went well, 2 for an error told in one line, 130 after Ctrl-C.
    """
    options = _parser().parse_args(argv)
    try:
        _demo(memory=options.memory)
    except KeyboardInterrupt:
        return 130
    except (ImportError, MemoryError, OSError, ValueError) as error:
        print("gramian:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


def _parser() -> _Parser:
    parser = _Parser(prog="gramian", description="Kernel machines, every fit with a certificate.")
    parser.add_argument("--version", action="version", version=f"gramian {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser("demo", help="a short tour on scikit-learn's digits")
    demo.add_argument("--memory", default="1MB", help="most memory for K in the product K @ v (default: %(default)s)")
    return parser


def _demo(memory: str) -> None:
    """Show the kernel algebra, the Gram operator, the pivots and two fits on the digits."""
    # Imported here so that --version and --help answer at once.
    import numpy as np
    from rich.console import Console
    from rich.padding import Padding
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from gramian import SVC, KernelRidge
    from gramian.gram import Gram, pivots
    from gramian.kernels import RBF, Linear, is_kernel

    console = Console(highlight=False, markup=False)  # what is printed is data, brackets included

    def heading(text: str) -> None:
        console.print(f"\n{text}", style="bold")

    def line(text: str) -> None:
        console.print(Padding(text, (0, 0, 0, 3), expand=False))

    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    n, d = X.shape
    console.print(f"gramian {__version__} on scikit-learn's digits: {n} images of {d} pixels")

    heading("1. Kernels are built by algebra")
    kernel = 2.0 * RBF(lengthscale=2.0) + 0.1 * Linear()
    line(f"kernel = {kernel!r}")
    line(f"theta  = {np.array2string(kernel.theta, precision=3)}, the logs of its free parameters")
    line(f"k(x₀, x₁) = {kernel(X[:1], X[1:2])[0, 0]:.4f}, k(x₀, x₀) = {kernel.diag(X[:1])[0]:.4f}")

    heading("2. Is it a kernel? Ask the data")
    line(f"{is_kernel(kernel, X[:500])}")

    heading("3. K need never exist")
    K = Gram(kernel, X, memory=memory)
    v = np.random.default_rng(0).standard_normal(n)
    line(f"‖K v‖ = {np.linalg.norm(K @ v):.4g}, holding at most {memory} of K")
    line(f"K itself would take {n * n * X.itemsize / 1e6:.1f} MB")

    heading("4. A few landmarks say most of it")
    for rank in (10, 50, 250):
        chosen = pivots.rpcholesky(K, rank, random_state=0)
        line(f"rank {rank:3d} leaves {chosen.trace_error:6.2%} of the trace of K")

    heading("5. Every fit carries a certificate")
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    ridge = KernelRidge(alpha=1e-2, kernel=RBF(2.0)).fit(X_train, np.eye(10)[y_train])
    right = np.mean(ridge.predict(X_test).argmax(axis=1) == y_test)
    line(f"KernelRidge on one-hot codes: {right:.1%} of {len(y_test)} new images right")
    line(f"   {ridge.certificate_}")
    svc = SVC(C=10.0, kernel=RBF(2.0)).fit(X_train, y_train)
    line(f"SVC: {svc.score(X_test, y_test):.1%} right, from {svc.support_.size} of {len(y_train)} images")
    line(f"   worst of {len(svc.certificates_)} pairs: {svc.certificate_}")
