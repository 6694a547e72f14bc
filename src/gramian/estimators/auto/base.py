"""What the two automatic estimators share: parameters, the search, the refit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from gramian.estimators.auto.leaderboard import Leaderboard
from gramian.estimators.base import COMMON
from gramian.kernels import Kernel

__all__ = ["AutoKernel", "Observer"]

Observer = Callable[[Leaderboard], None]
"""Called with the leaderboard after every trial."""


class AutoKernel(BaseEstimator):
    """Parameters and the search; a subclass knows its targets."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "machines": [StrOptions({"auto"}), list, tuple],
        "kernel": [None, str, Kernel],
        "scoring": [None, str],
        **{name: COMMON[name] for name in ("memory", "random_state", "n_jobs", "verbose")},
    }

    _observer: Observer | None = None
    """For a live view: set on the instance, called with the leaderboard after every trial."""

    def __init__(
        self,
        time_limit: float | None = 60.0,
        *,
        memory: int | str | None = None,
        cv: int = 5,
        machines: str | Sequence[str] = "auto",
        kernel: Any = None,
        scoring: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.time_limit = time_limit
        self.memory = memory
        self.cv = cv
        self.machines = machines
        self.kernel = kernel
        self.scoring = scoring
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
