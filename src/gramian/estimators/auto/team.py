"""The choice between the best machine alone and an average of several, and their last fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from gramian.estimators.auto.average import Member, averaged, pruned
from gramian.estimators.auto.candidates import LINEAR
from gramian.estimators.auto.leaderboard import DONE, LATE, MEMBER, NO_HELP
from gramian.estimators.auto.plans import MEMBERS, Planner
from gramian.estimators.auto.refit import Refit, Winner, affordable
from gramian.estimators.auto.response import Classes
from gramian.estimators.auto.search import Found, Search, beats, by_forest

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

LEAST_NEW = 0.25
"""Last fits tell more than trials where they predict at least this share of their rows, not counting rows of trials."""
MANY_MORE = 2.0
"""Machines with a forest and without are compared by last fits where these have this many times the rows of trials."""


@dataclass(frozen=True, eq=False)
class Team:
    """Machines, how to fit them to all rows, and how much each counts."""

    found: Found  # The winner on the leaderboard: a trial, or an average of trials
    winners: Sequence[Winner]  # The first counts for most
    weights: Array  # (k,)

    def settled(self, search: Search, lasts: Sequence[Refit | None]) -> tuple[Team, list[Refit]]:
        """Return the machines that were fitted, their weights learned again where last fits tell more than trials."""
        there = [i for i, done in enumerate(lasts) if done is not None]
        winners, fitted = [self.winners[i] for i in there], [done for done in lasts if done is not None]
        weights, found, response = self.weights[there], self.found, winners[0].response
        if not isinstance(response, Classes) or len(there) == 1:
            weights = weights / weights.sum() if weights.any() else np.full(len(there), 1.0 / len(there))
        outputs, rows, anew = Team(found, winners, weights).outputs(fitted)
        if anew and len(there) > 1:
            weights = pruned(outputs, rows, response)
        elif len(there) == len(self.winners) and np.all(weights > 0):
            return self, fitted
        order = [i for i in np.argsort(-weights * outputs.std(axis=(1, 2)), kind="stable") if weights[i] > 0]
        winners, weights = [winners[i] for i in order], weights[order]
        if found.trial.machine == "average":
            search.mark(found, NO_HELP if len(there) == len(self.winners) else LATE)
        members = [p.found for p in winners]
        for p in self.winners:
            search.mark(p.found, MEMBER if p in winners and len(winners) > 1 else DONE)
        if len(members) == 1:
            weights, found = np.ones(1), members[0]
        else:
            held = np.tensordot(weights, np.stack([np.asarray(f.held) for f in members]), axes=1)
            rung = members[0].rung
            found = search.add_average(members, weights, response.judge(held, rung.held_out, rung.parts))
        return Team(found, winners, weights), [fitted[i] for i in order]

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

    def others(self, lasts: Sequence[Refit]) -> tuple[Member, ...]:
        """Return all machines but the first."""
        pairs = zip(self.winners[1:], lasts[1:], strict=True)
        return tuple(Member(p.found.candidate.name, done.machine, p.scaling, done.model) for p, done in pairs)

    def outputs(self, lasts: Sequence[Refit]) -> tuple[Array, Rows, bool]:
        """Return outputs (k, m, c) for rows not seen before, these rows, and whether they say more than trials.

        They are of trials where splits are a user's, which are more honest than others, and where too few rows are new
        to the kernels of the last fits as well.
        """
        rung, none = self.winners[0].found.rung, (np.zeros((0, 1)), np.zeros(0, np.intp))
        made = [none if d.held is None or d.rows is None else (np.asarray(d.held), np.asarray(d.rows)) for d in lasts]
        common: Rows = reduce(np.intersect1d, [rows for _, rows in made])
        one = len(rung.splits) == 1
        if one:
            common = np.setdiff1d(common, rung.splits[0][0])
        if rung.asked or common.size < max(LEAST_NEW * rung.held_out.size, 1.0):
            return np.stack([np.asarray(p.found.held) for p in self.winners]), rung.held_out, False
        found = []
        for held, rows in made:
            order = np.argsort(rows)
            found.append(held[order[np.searchsorted(rows[order], common)]])
        return np.stack(found), common, one


def _best_together(offered: Sequence[Winner], *, both: bool) -> list[Winner]:
    """The best alone, with ``both`` the best of the other kind, and those that count for most in an average of all."""
    average = averaged([p.found for p in offered], offered[0].response)
    others = [] if average is None else [offered[i] for i in average.members if i]
    kind = [p for p in offered if both and by_forest(p.found) is not by_forest(offered[0].found)][:1]
    return list(dict.fromkeys([offered[0], *kind, *others]))[:MEMBERS]


def chosen(search: Search, offered: Sequence[Winner], planner: Planner) -> Team:
    """Choose between the best machine alone and an average of those that can be fitted in time.

    A forest has seen all rows, kernels in trials have not: where last fits have many more, these are compared.
    """
    if len(offered) == 1:
        return Team(offered[0].found, offered, np.ones(1))
    many = planner.n >= MANY_MORE * offered[0].found.rung.training_rows
    team = affordable(_best_together(offered, both=many), planner)
    average = averaged([p.found for p in team], offered[0].response)
    if average is None:
        return Team(team[0].found, team[:1], np.ones(1))
    members = [team[i].found for i in average.members]
    linear = search.found[LINEAR]
    helps = average.helps and (linear.rung is not members[0].rung or beats(average.judged, linear.trial))
    found = search.add_average(members, average.weights, average.judged, DONE if helps else NO_HELP)
    order, weights = [0], np.eye(1, len(team))[0]
    if helps:
        order, weights = list(average.members), np.zeros(len(team))
        weights[order] = average.weights
        for member in members:
            search.mark(member, MEMBER)
    kinds = [by_forest(p.found) for p in team]
    if many and len(set(kinds)) > 1 and all(p.tells for p in team[:2]):
        order = list(dict.fromkeys([*order, kinds.index(True), kinds.index(False)]))
        order.sort(key=lambda i: team[i].machine == LINEAR)  # which is quick: time that is short goes to kernels
    return Team(found if helps else team[0].found, [team[i] for i in order], weights[order])
