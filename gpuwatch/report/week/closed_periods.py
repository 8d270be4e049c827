"""Closed periods in a report: whether its week is frozen, and which corrections of other periods are billed in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from gpuwatch.billing.periods.corrections import repository as posted
from gpuwatch.billing.periods.repository import FINE, Periods
from gpuwatch.billing.periods.view import forced_why
from gpuwatch.core.clock import Window
from gpuwatch.report.facts import Correction, amount_of
from gpuwatch.report.period_records import Closed
from gpuwatch.state import State


@dataclass(frozen=True)
class Frozen:
    """The closing of a week, if there is one, and the correction lines that are billed in the week."""

    closing: Closed | None
    lines: tuple[Correction, ...]

    @property
    def whole(self) -> bool:
        """Whether the frozen charges are used. Earlier releases froze only the sum of each team, to which jobs may not add
        up, so weeks closed by them use current data.
        """
        return self.closing is None or self.closing.whole

    def of(self, team: str | None) -> tuple[Correction, ...]:
        """The corrections of a team, or of all teams (None)."""
        return self.lines if team is None else tuple(line for line in self.lines if line.team == team)


def frozen(state: State, window: Window, teams: Collection[str] | None, bound: bool = False) -> Frozen:
    """The closing whose window is this one, and corrections of other periods; with `teams` theirs only.

    With `bound` without the digest: it covers the rows of every team, so it would confirm a guess of theirs.
    """
    periods = Periods(state)
    found = periods.at(window)
    closing = None
    if found is not None:
        signed = tuple(s.signer for s in periods.signatures(found.name) if s.number == found.number)
        versions = found.context.get("versions", {})
        forced = forced_why(found, teams)
        digest = None if bound else found.digest
        closing = Closed(found.closed_us, found.closed_by, digest, signed, found.level == FINE, versions, forced)
    if closing is not None and not closing.whole:
        return Frozen(closing, ())
    billed = posted.Corrections(state).billed(window, None if found is None else found.name)
    lines = [_line(one) for one in billed if teams is None or one.words["team"] in teams]
    lines.sort(key=lambda line: (line.period, -abs(sum((c for _, c in line.amount.costs), Decimal(0))), str(line)))
    return Frozen(closing, tuple(lines))


def _line(one: posted.Correction) -> Correction:
    words = one.words
    return Correction(
        period=one.period,
        why=one.why,
        billed_us=one.posted_us,
        team=words.get("team"),
        user=words.get("user"),
        cluster=words.get("cluster"),
        job=words.get("job"),
        gpu_model=words.get("gpu_model"),
        mig_profile=words.get("mig_profile"),
        amount=amount_of(one.gpu_seconds, one.cost, one.currency),
        cost_exact=one.cost_exact,
    )
