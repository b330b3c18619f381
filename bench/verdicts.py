# SPDX-License-Identifier: Apache-2.0
"""Judges rows: whether each meets its goals, and how many of all do.

    verdict(outcome, needs=())            # "met", or "missed: 0.91x of 1.2x"
    tally(outcomes, reasons={...})        # the lines at the end of a run

A row meets its goals if it meets all that count. A goal for hardware that the machine lacks is
"not measured": it counts neither as met nor as missed.
"""

from collections.abc import Iterable, Mapping

from pto.bench.report import NOISY, duration, shape
from pto.bench.runner import Goal, Outcome

ENOUGH, LEAST = 0.8, 0.8  # of the rows are to be met; of its goal a row is to reach
ALWAYS, AIM = "always", "aim"  # kinds of Goal
OURS = "pto"


def share(goal: Goal, outcome: Outcome) -> float:
    """The part of the goal's speed that was reached; from 1 on it is met."""
    times = outcome.times()
    return goal.limit_s(times) / times[goal.ours]


def counted(outcome: Outcome) -> list[Goal]:
    return [goal for goal in outcome.goals if goal.kind != AIM]


def is_wrong(outcome: Outcome) -> bool:
    """Says whether ours was not measured, since its result is wrong."""
    return bool(outcome.wrong) and OURS not in outcome.seconds()


def label(outcome: Outcome) -> str:
    if not outcome.records:
        return outcome.wrong[0]
    first = outcome.records[0]
    return " ".join(filter(None, [
        first.case, shape(first.size), first.dtype, f"threads {first.threads}" * (first.threads > 0)
    ]))  # fmt: skip


def is_noisy(goal: Goal, outcome: Outcome) -> bool:
    """Says whether the samples of ours, or of the fastest that it is compared with, differ much."""
    times = outcome.times()
    theirs = (goal.theirs,) if isinstance(goal.theirs, str) else goal.theirs
    known = sorted((name for name in theirs if name in times), key=lambda name: times[name])
    spread = {r.contender: r.p90_s / r.p10_s for r in outcome.records}
    return any(spread[name] > NOISY for name in (goal.ours, *known[:1]))


def text(goal: Goal, outcome: Outcome) -> str:
    """What was reached of what is wanted, as ratios, or as shares of a ceiling."""
    if not goal.theirs:
        return f"{duration(outcome.seconds()[goal.ours])} of at most {duration(goal.at_most)}"
    wanted = 1 / goal.at_most
    names = {goal.theirs} if isinstance(goal.theirs, str) else set(goal.theirs)
    if names & outcome.ceilings.keys():
        return f"{wanted * share(goal, outcome):.0%} of {wanted:.0%}"
    return f"{wanted * share(goal, outcome):.2f}x of {wanted:.3g}x"


def verdict(outcome: Outcome, needs: Iterable[str] = ()) -> str:
    """The end of a row; `needs` is the hardware for which it has other goals."""
    missed = [goal for goal in outcome.goals if share(goal, outcome) < 1]
    aims = [text(goal, outcome) for goal in missed if goal.kind == AIM]
    goals = [goal for goal in missed if goal.kind != AIM]
    if is_wrong(outcome):
        said = "missed: the result is wrong"
    elif goals:
        said = f"missed: {', '.join(text(goal, outcome) for goal in goals)}"
        said += " (samples differ much)" * any(is_noisy(goal, outcome) for goal in goals)
    elif counted(outcome):
        said = "met"
    else:
        said = "; ".join(f"not measured: {one}" for one in needs)
    return said + f" (aim: {', '.join(aims)})" * bool(aims)


class _Rows:
    """Some rows, each with the least share of its goals."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}

    def add(self, outcome: Outcome, reached: float) -> None:
        name = label(outcome)
        self.shares[name] = min(reached, self.shares.get(name, reached))

    def met(self) -> str:
        return f"{sum(one >= 1 for one in self.shares.values())} of {len(self.shares)} rows met"

    def said(self) -> str:
        return f"{self.met()}, least {min(self.shares.values()):.2f} of the goal"

    def below(self, bound: float) -> list[str]:
        found = sorted(self.shares.items(), key=lambda pair: pair[1])
        return [f"{name}: {part:.2f}" for name, part in found if part < bound]


def tally(outcomes: list[Outcome], reasons: Mapping[str, str]) -> list[str]:
    """The rows that met their goals, by line of the table of goals and in all. `reasons` has the
    lines of the table that belong to this run, and why one may have no row in it."""
    rows, always = _Rows(), _Rows()
    by_line: dict[str, _Rows] = {}
    for outcome in outcomes:
        if is_wrong(outcome):
            rows.add(outcome, 0.0)
            always.add(outcome, 0.0)
        for goal in counted(outcome):
            reached = share(goal, outcome)
            rows.add(outcome, reached)
            by_line.setdefault(goal.line or outcome.records[0].case, _Rows()).add(outcome, reached)
            if goal.kind == ALWAYS:
                always.add(outcome, reached)
    lines = []
    for name in [*reasons, *(name for name in by_line if name not in reasons)]:
        found = by_line.get(name)
        said = found.said() if found else f"not measured: {reasons[name]}"
        lines.append(f"  {name:<44} {said}")
    if not rows.shares:
        return lines
    part = 1 - len(rows.below(1)) / len(rows.shares)
    return [
        *lines,
        f"goals: {rows.met()} ({part:.0%}; {ENOUGH:.0%} are to be)",
        f"below {LEAST}x of a goal: {'; '.join(rows.below(LEAST)) or 'none'}",
        f"missed, though no exception is made: {'; '.join(always.below(1)) or 'none'}",
    ]
