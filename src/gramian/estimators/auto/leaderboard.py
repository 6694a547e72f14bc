"""The leaderboard of a search: every trial and its score, to print, to sort and to save."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gramian.certificates import Certificate
from gramian.numerals import written

DONE, DROPPED, WINNER, TOO_SLOW = "done", "dropped", "winner", "too slow for all rows"
MEMBER, NO_HELP, LATE = "in the average", "no better than one alone", "no time for all its machines"
"""Statuses beside ``"failed: ..."``: judged on the most rows; left behind on fewer rows; refitted on everything;
better than that, but without the time for it; part of the winner; and averages that do not win."""
METRICS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "log_loss": "log-loss",
    "roc_auc": "ROC AUC",
    "f1": "F1",
    "average_precision": "average precision",
    "balanced_accuracy": "balanced accuracy",
}
"""How scores are written; those not listed are shown under their own name."""
COLUMNS = ("", "trial", "score", "rows", "fit", "predict", "certificate", "status")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One machine with one kernel and its settings, judged by cross-validation."""

    name: str  # In a few words, unique on its leaderboard
    machine: str  # ``"ridge"``, ``"gp"``, ``"svm"``, ``"machine"``, ``"linear"``, ``"average"`` or ``"baseline"``
    kernel: str = ""  # The kernel, as an expression; empty for a baseline
    settings: dict[str, Any] = field(default_factory=dict)  # What else was chosen or learned: plain values
    score: float  # Mean over the held-out parts
    spread: float  # Standard deviation over the parts
    fit_seconds: float = 0.0  # All parts together
    predict_seconds: float = 0.0  # All parts together
    certificate: Certificate | None = None  # Of the last fit; ``None`` for a baseline
    rows: int  # How many rows it was judged on: cheap subsets come first
    status: str = DONE  # ``"done"``
    baseline: bool = False  # Whether it is there to compare with; of those, only a linear model can win
    figures: dict[str, float] = field(default_factory=dict)  # Further measures of the same predictions

    @property
    def ok(self) -> bool:
        """Whether there is a score."""
        return math.isfinite(self.score)

    @property
    def outcome(self) -> str:
        """What became of it, in words."""
        return "baseline" if self.baseline and self.ok and self.status == DONE else self.status

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        certificate = None if self.certificate is None else self.certificate.to_dict()
        return asdict(self) | {"certificate": certificate}


@dataclass(frozen=True)
class Leaderboard(Sequence[Trial]):
    """Trials: the winner, then those judged on more rows before those on fewer, the better first, the failed last.

    ``str()`` is a table.
    """

    trials: Iterable[Trial]  # In any order
    metric: str  # What the scores are: a name that ``scoring=`` takes, or that of a scorer
    greater_is_better: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "trials", tuple(sorted(self.trials, key=self._place)))

    def __getitem__(self, index: Any) -> Any:
        return tuple(self.trials)[index]

    def __len__(self) -> int:
        return len(tuple(self.trials))

    def __str__(self) -> str:
        return self.table()

    def table(self, columns: Sequence[str] = COLUMNS, most: int | None = None) -> str:
        """Return some columns of the first trials as text."""
        rows = [COLUMNS, *(self.cells(place) for place in range(len(self))[:most])]
        shown = [COLUMNS.index(name) for name in columns]
        widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
        lines = ["  ".join(row[column].ljust(widths[column]) for column in shown).rstrip() for row in rows]
        return "\n".join([f"{self.metric_name}, {self.better} is better", *lines])

    @property
    def metric_name(self) -> str:
        """What the scores are, as people write it."""
        return METRICS.get(self.metric, self.metric.replace("_", " "))

    @property
    def better(self) -> str:
        """Which scores are better: ``"higher"`` or ``"lower"``."""
        return "higher" if self.greater_is_better else "lower"

    def gain(self, trial: Trial, other: Trial) -> float:
        """Return by how much the score of a trial is better than that of another; negative where it is worse."""
        return trial.score - other.score if self.greater_is_better else other.score - trial.score

    @property
    def seconds(self) -> float:
        """What all trials took together; an average takes its members' time, which is not counted twice."""
        return float(sum(t.fit_seconds + t.predict_seconds for t in self if t.machine != "average"))

    @property
    def best(self) -> Trial | None:
        """The first that can win; ``None`` before there is one."""
        return next((t for t in self if t.ok and (not t.baseline or t.status == WINNER)), None)

    @property
    def baseline(self) -> Trial | None:
        """The best of the baselines; ``None`` before there is one."""
        return min((t for t in self if t.ok and t.baseline), key=self._place, default=None)

    def cells(self, place: int) -> tuple[str, ...]:
        """Return one line of the table."""
        trial = self[place]
        proof = "" if trial.certificate is None else ("converged" if trial.certificate.converged else "NOT converged")
        score = written(trial.score, trial.spread)
        seconds = (f"{trial.fit_seconds:.2g} s", f"{trial.predict_seconds:.2g} s")
        return (str(place + 1), trial.name, score, f"{trial.rows:,}", *seconds, proof, trial.outcome)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return every trial as plain values, in order."""
        return [trial.to_dict() for trial in self]

    def _place(self, trial: Trial) -> tuple[bool, bool, bool, int, float, float]:
        """More rows first, then the better score, then the smaller log-loss where scores are equal."""
        score, tie = trial.score if trial.ok else 0.0, trial.figures.get("log_loss", 0.0)
        score = -score if self.greater_is_better else score
        return trial.status != WINNER, not trial.ok, trial.status in (DROPPED, NO_HELP), -trial.rows, score, tie
