"""Tuning curves: a score against one setting or two, and the settings chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gramian.inspection.fitted import Array
from gramian.plots.style import Display, log_axis, paper, plain

WRITTEN = 60
"""Heat maps with at most this many cells show their values."""


@dataclass(eq=False, repr=False)
class TuningDisplay(Display):
    """The scores of a search: a curve over one setting, or a heat map over two, with the chosen point.

    Parameters
    ----------
    names : tuple of str
        The settings, one or two.
    values : tuple of list
        What was tried of each.
    scores : array of shape (a,) or (a, b)
        The best score with these values, whatever the other settings were; nan where nothing was tried.
    spread : array of the same shape, or None
        Deviation of the score over folds.
    chosen : tuple of int
        Position of the chosen values.
    score_name : str, default="score"
        What the scores are.
    higher_is_better : bool, default=True
        If not, they are losses.

    Attributes
    ----------
    {figure}
    line_ : line
        The curve.
    mesh_, colorbar_ : heat map and its scale
        The map.
    chosen_ : line
        The chosen point.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gramian import KernelRidge
    >>> from gramian.plots import TuningDisplay
    >>> model = KernelRidge(alpha="loo", kernel="rbf").fit(*load_diabetes(return_X_y=True))
    >>> display = TuningDisplay.from_estimator(model)
    >>> display.names, display.scores.shape, display.higher_is_better
    (('alpha',), (25,), False)
    """

    names: tuple[str, ...]
    values: tuple[list[Any], ...]
    scores: Array
    spread: Array | None
    chosen: tuple[int, ...]
    score_name: str = "score"
    higher_is_better: bool = True

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Take the regularisation path of a fit that chose its own strength, or a search that is fitted.

        Parameters
        ----------
        estimator : estimator
            ``KernelRidge(alpha="loo")``, ``KernelMachineRegressor(lam="cv")``, ``KernelMachineClassifier(lam="cv")``,
            an automatic estimator, or anything with ``cv_results_``.
        {ax}
        """
        if hasattr(estimator, "cv_results_"):
            return cls.from_search(estimator, ax=ax)
        if hasattr(estimator, "leaderboard_"):
            return cls.from_leaderboard(estimator.leaderboard_, ax=ax)
        for name, grid, path, what in (
            ("alpha", "alphas_", "loo_path_", "mean squared leave-one-out error"),
            ("lam", "lams_", "cv_path_", "loss under cross-validation"),
        ):
            if hasattr(estimator, path) and hasattr(estimator, grid):
                losses = np.asarray(getattr(estimator, path), dtype=np.float64)
                losses = losses.reshape(len(losses), -1).mean(axis=1)
                order = np.argsort(np.asarray(getattr(estimator, grid), dtype=np.float64))
                values, losses = [float(v) for v in np.asarray(getattr(estimator, grid))[order]], losses[order]
                return cls((name,), (values,), losses, None, (int(np.nanargmin(losses)),), what, False)._drawn(ax)
        raise TypeError(
            f"{type(estimator).__name__} keeps no path: fit KernelRidge(alpha='loo') or a machine with lam='cv', or "
            "pass a search of scikit-learn."
        )

    @classmethod
    def from_search(cls, search: Any, *, params: Sequence[str] | None = None, ax: Any = None) -> Self:
        """Take the results of ``GridSearchCV`` and its kin.

        Parameters
        ----------
        search : estimator
            Fitted, with ``cv_results_``.
        params : sequence of str or None, default=None
            One or two of its parameters; by default those that were varied, the first two of more.
        {ax}
        """
        results = search.cv_results_
        trials = list(zip(results["params"], results["mean_test_score"], results["std_test_score"], strict=True))
        return cls.from_trials(trials, results["params"][search.best_index_], params=params, ax=ax)

    @classmethod
    def from_leaderboard(cls, leaderboard: Any, *, ax: Any = None) -> Self:
        """Take the trials of an automatic estimator: kernels against machines and scalings.

        Only those that were judged on as many rows as the winner are drawn, for others do not compare.

        Parameters
        ----------
        leaderboard : Leaderboard
            An automatic estimator's ``leaderboard_``.
        {ax}
        """
        best = leaderboard.best
        compared = [t for t in leaderboard if t.ok and not t.baseline and t.rows == best.rows]
        trials = [(_parts(t.name), float(t.score), float(t.spread)) for t in compared]
        return cls.from_trials(
            trials,
            _parts(best.name),
            params=["machine", "kernel"],
            score_name=leaderboard.metric_name,
            higher_is_better=leaderboard.greater_is_better,
            ax=ax,
        )

    @classmethod
    def from_trials(
        cls,
        trials: Sequence[tuple[Mapping[str, Any], float, float]],
        best: Mapping[str, Any],
        *,
        params: Sequence[str] | None = None,
        score_name: str = "score",
        higher_is_better: bool = True,
        ax: Any = None,
    ) -> Self:
        """Take settings with their scores.

        Parameters
        ----------
        trials : sequence of (dict, float, float)
            Settings, score and spread of each trial.
        best : dict
            The settings that were chosen.
        params : sequence of str or None, default=None
            One or two settings to draw; by default those that were varied, the first two of more.
        score_name : str, default="score"
            What the scores are.
        higher_is_better : bool, default=True
            If not, they are losses.
        {ax}
        """
        tried = {
            name: {_key(settings.get(name)) for settings, _, _ in trials}
            for name in params or dict.fromkeys(name for settings, _, _ in trials for name in settings)
        }
        names = [name for name, values in tried.items() if len(values) > 1][:2] if params is None else list(params)
        if not names or len(names) > 2:
            raise ValueError(f"a search is drawn over one or two settings, got {names}; pass params=.")
        values = tuple(sorted(tried[name], key=lambda v: (isinstance(v, str), v)) for name in names)

        def position(settings: Mapping[str, Any]) -> tuple[int, ...]:
            return tuple(v.index(_key(settings.get(name))) for name, v in zip(names, values, strict=True))

        scores = np.full([len(v) for v in values], np.nan)
        spread = np.full(scores.shape, np.nan)
        for settings, score, deviation in trials:
            at = position(settings)
            better = score > scores[at] if higher_is_better else score < scores[at]
            if better or np.isnan(scores[at]):
                scores[at], spread[at] = score, deviation
        return cls(tuple(names), values, scores, spread, position(best), score_name, higher_is_better)._drawn(ax)

    def _draw(self) -> None:
        (self._draw_curve if self.scores.ndim == 1 else self._draw_map)()

    def _draw_curve(self) -> None:
        values, at = self.values[0], self.chosen[0]
        numbers = all(isinstance(v, int | float) for v in values)
        x = np.asarray(values, dtype=np.float64) if numbers else np.arange(len(values), dtype=np.float64)
        if self.spread is not None and np.isfinite(self.spread).any():
            low, high = self.scores - self.spread, self.scores + self.spread
            self.band_ = self._band(x, low, high, "± spread")
        self.line_ = self._line(x, self.scores, marker="o", ms=4, label="tried")
        self._chosen(x[at], self.scores[at], f"chosen: {_text(values[at])}")
        if not numbers:
            self.ax_.set_xticks(x, [plain(_text(v)) for v in values])
        elif len(x) > 2 and x.min() > 0 and x.max() >= 50 * x.min():
            log_axis(self.ax_, "x")
        if not self.higher_is_better and 0 < 20 * np.nanmin(self.scores) < np.nanmax(self.scores):
            log_axis(self.ax_, "y")
        self._finish(self.names[0], self.score_name)

    def _draw_map(self) -> None:
        # The best are bright.
        shades = "cividis" if self.higher_is_better else "cividis_r"
        self.mesh_ = self.ax_.pcolormesh(np.ma.masked_invalid(self.scores.T), cmap=shades, edgecolors=paper(), lw=0.5)
        for axis, name, values in zip((self.ax_.xaxis, self.ax_.yaxis), self.names, self.values, strict=True):
            axis.set_ticks(np.arange(len(values)) + 0.5, [plain(_text(v)) for v in values])
            axis.set_label_text(plain(name))
        if len(self.values[0]) > 6:
            self.ax_.tick_params(axis="x", labelrotation=45)
        if self.scores.size <= WRITTEN:
            self._write()
        at = [place + 0.5 for place in self.chosen]
        self._chosen(at[0], at[1] + 0.27, "chosen")
        self.chosen_.set(markeredgecolor="white", markeredgewidth=1.2)
        self._colorbar(self.mesh_, self.score_name)
        self.legend_ = self.ax_.legend(fontsize="small", loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)

    def _write(self) -> None:
        low, high = np.nanmin(self.scores), np.nanmax(self.scores)
        for (i, j), score in np.ndenumerate(self.scores):
            if np.isfinite(score):
                place = (score - low) / (high - low) if high > low else 1.0
                dark = place < 0.55 if self.higher_is_better else place > 0.45
                text = self.ax_.text(i + 0.5, j + 0.45, f"{score:.3g}", color="white" if dark else "black")
                text.set(ha="center", va="center", fontsize="x-small")


def _key(value: Any) -> Any:
    """A setting as a sortable value: a number, or its text."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return float(value) if number else str(value)


def _parts(name: str) -> dict[str, str]:
    """Machine and kernel of a trial named "machine, kernel, scaling", or longer if it borrows a kernel."""
    machine, *middle, scaling = name.split(", ") if name.count(", ") > 1 else (*name.split(", "), "")
    return {"machine": f"{machine}, {scaling}" if scaling else machine, "kernel": middle[-1] if middle else ""}


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else str(value)
