"""The choice between the best machine alone and an average of several, and their last fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from gramian.estimators.auto.average import Member, averaged
from gramian.estimators.auto.candidates import LINEAR
from gramian.estimators.auto.leaderboard import DONE, LATE, MEMBER, NO_HELP
from gramian.estimators.auto.plans import MEMBERS, Planner
from gramian.estimators.auto.refit import Refit, Winner, affordable
from gramian.estimators.auto.response import Classes
from gramian.estimators.auto.search import Found, Search, beats

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Team:
    """Machines, how to fit them to all rows, and how much each counts."""

    found: Found  # The winner on the leaderboard: a trial, or an average of trials
    winners: Sequence[Winner]  # The first counts for most
    weights: Array  # (k,)

    def saved(self, search: Search, lasts: Sequence[Refit | None]) -> Found:
        """Return the winner as a trial; where time left out machines, the average of the rest is judged."""
        there = [p.found for p, done in zip(self.winners, lasts, strict=True) if done is not None]
        if len(there) == len(self.winners):
            return self.found
        search.mark(self.found, LATE)
        for p in self.winners:
            search.mark(p.found, MEMBER if p.found in there and len(there) > 1 else DONE)
        if len(there) == 1:
            return there[0]
        weights, _ = self.weighted(lasts)
        outputs = np.tensordot(weights, np.stack([np.asarray(found.held) for found in there]), axes=1)
        judged = self.winners[0].response.judge(outputs, there[0].rung.held_out, there[0].rung.parts)
        return search.add_average(there, weights, judged)

    def note(self, lasts: Sequence[Refit | None]) -> str:
        """Say how the machines were fitted to all rows."""
        first, *others = lasts
        assert first is not None
        names = [p.found.candidate.name for p in self.winners]
        if not others:
            return first.note
        notes = ["time_limit left it out" if done is None else done.note for done in lasts]
        if len(set(notes)) == 1:
            return f"each of {len(notes)} machines to {notes[0]}"
        return "; ".join(f"“{name}”: {note}" for name, note in zip(names, notes, strict=True))

    def weighted(self, lasts: Sequence[Refit | None]) -> tuple[Array, tuple[Member, ...]]:
        """Return the weights of those that were fitted, and all of them but the first."""
        weights = np.where([done is not None for done in lasts], self.weights, 0.0)
        if not isinstance(self.winners[0].response, Classes) or np.count_nonzero(weights) == 1:
            weights = weights / weights.sum()
        members = [
            Member(p.found.candidate.name, done.machine, p.scaling, done.model)
            for p, done in zip(self.winners[1:], lasts[1:], strict=True)
            if done is not None
        ]
        return weights[weights > 0], tuple(members)

    def held(self, lasts: Sequence[Refit | None]) -> tuple[Array, Rows]:
        """Return outputs for rows that the fits had not seen: of the last fits where all have them, else of trials."""
        there = [(p, done) for p, done in zip(self.winners, lasts, strict=True) if done is not None]
        weights, _ = self.weighted(lasts)
        sets = [done.rows for _, done in there if done.held is not None and done.rows is not None]
        common: Rows = reduce(np.intersect1d, sets) if len(sets) == len(there) else np.zeros(0, dtype=np.intp)
        if not common.size or self.winners[0].found.rung.asked:  # splits that a user chose are more honest than others
            outputs = [np.asarray(p.found.held) for p, _ in there]
            return np.tensordot(weights, np.stack(outputs), axes=1), self.winners[0].found.rung.held_out
        total = np.zeros(1)
        for weight, (_, done) in zip(weights, there, strict=True):
            assert done.held is not None
            assert done.rows is not None
            order = np.argsort(done.rows)
            total = total + weight * done.held[order[np.searchsorted(done.rows[order], common)]]
        return total, common


def _best_together(offered: Sequence[Winner]) -> list[Winner]:
    """The best alone, and those that count for most in an average of all."""
    average = averaged([p.found for p in offered], offered[0].response)
    others = [] if average is None else [offered[i] for i in average.members if i]
    return [offered[0], *others][:MEMBERS]


def chosen(search: Search, offered: Sequence[Winner], planner: Planner) -> Team:
    """Choose between the best machine alone and an average of those that can be fitted in time."""
    if len(offered) == 1:
        return Team(offered[0].found, offered, np.ones(1))
    team = affordable(_best_together(offered), planner)
    alone = Team(team[0].found, team[:1], np.ones(1))
    average = averaged([p.found for p in team], offered[0].response)
    if average is None:
        return alone
    winners = [team[i] for i in average.members]
    members = [p.found for p in winners]
    linear = search.found[LINEAR]
    helps = average.helps and (linear.rung is not members[0].rung or beats(average.judged, linear.trial))
    found = search.add_average(members, average.weights, average.judged, DONE if helps else NO_HELP)
    if not helps:
        return alone
    for member in members:
        search.mark(member, MEMBER)
    return Team(found, winners, average.weights)
