"""The morning's answer: what was avoidable in a window and in the one before, by whom, and what to do first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.advisor.stranded import STRANDED, Cause, causes
from gpuwatch.billing import chargeback as billing
from gpuwatch.billing.listings import ledger_listing, measures_dict, window_dict
from gpuwatch.billing.records import BucketRow, Ledger
from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US, Window, from_us, to_us
from gpuwatch.findings.priority import Rate
from gpuwatch.findings.read import Finding, page
from gpuwatch.findings.repository import Action
from gpuwatch.jobs.loss_parts import divided, kinds_of
from gpuwatch.ledger.measures import NOT_MEASURED
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report.first_actions import Loss, first_actions
from gpuwatch.report.text import GAP, percent
from gpuwatch.state import State
from gpuwatch.store.database import Store

TEAMS_MAX = 200
"""Teams in an answer; `teams_total` counts all."""
FINDINGS_MAX = 500
"""Open findings that actions are made of: the most severe and the most expensive ones."""
HOURLY_US_MAX = 3 * DAY_US
"""Steps of windows up to this length are hours, of longer ones days."""
COVERED_PARTS_MIN = 2
"""Windows are compared if the earlier one is covered for at least one part in this many of the later one's time."""


@dataclass(frozen=True)
class Scope:
    """Whose rows an answer has. `teams` None: everybody's, and those of the platform."""

    cluster: str | None = None
    pool: str | None = None
    teams: tuple[str, ...] | None = None


def overview(
    store: Store, state: State, window: Window, scope: Scope, now_us: int, actions: Mapping[str, Action], month: bool
) -> dict[str, Any]:
    """The answer of GET /overview. `month`: the window is a calendar month, and is compared with the month before.

    `now` and `before` are ledgers by bucket without their rows being cut; `before` is None where less than half as much time
    is covered as in the window. `covered_seconds` is how much of each the ledger covers.
    """
    known = span_of_data(store, scope)
    teams = None if scope.teams is None else list(scope.teams)
    where: dict[str, Any] = {"cluster": scope.cluster, "teams": teams, "pool": scope.pool}
    covered = cut(window, known)
    shift_us = _shift_us(window, month)
    past = None if covered is None else earlier(window, covered, known, shift_us)
    span = window.end_us - window.start_us
    step_us = HOUR_US if span <= HOURLY_US_MAX else DAY_US
    by_team, stepped = billing.ledger_in_steps(store, window, step_us, **where)
    before = None if past is None else billing.ledger(store, state, past, ("bucket",), **where, step_us=step_us)
    found = _findings(store, scope, actions)
    elapsed_us = 0 if covered is None else covered.end_us - covered.start_us
    loss = divided_loss(store, window, scope, largest_loss(by_team, elapsed_us))
    if loss is not None and loss.bucket == STRANDED:
        loss = with_cause(loss, causes(store, state, window, cluster=scope.cluster, pool=scope.pool))
    return {
        "now": _side(by_team, covered),
        "before": None if before is None or past is None else _side(before, past),
        "steps": _steps(stepped, step_us),
        "steps_before": None if before is None else _steps(before, step_us),
        "shift_seconds": shift_us // SECOND_US,
        "teams": _teams(by_team),
        "teams_total": len(by_team.groups),
        "actions": first_actions(found, loss, now_us, by_team.currency, by_team.mean_price),
        "currency": by_team.currency,
        "window": window_dict(window),
    }


def cut(window: Window, known: Window | None) -> Window | None:
    """The covered part of a window."""
    if known is None:
        return None
    start_us, end_us = max(window.start_us, known.start_us), min(window.end_us, known.end_us)
    return Window(start_us, end_us) if start_us < end_us else None


def _shift_us(window: Window, month: bool) -> int:
    """From the start of the period before to that of the window. The month before may be shorter or longer."""
    if not month:
        return window.end_us - window.start_us
    return window.start_us - to_us((from_us(window.start_us) - timedelta(days=1)).replace(day=1))


def earlier(window: Window, covered: Window, known: Window | None, shift_us: int) -> Window | None:
    """The covered part of the period that began `shift_us` before, up to the same point as this one.

    Eight hours of today are compared with the same eight hours of yesterday. None if too little of it is covered.
    """
    elapsed = min(covered.end_us - window.start_us, shift_us)
    start_us = window.start_us - shift_us
    past = cut(Window(start_us, start_us + elapsed), known) if elapsed > 0 and start_us >= 0 else None
    if past is None:
        return None
    enough = (past.end_us - past.start_us) * COVERED_PARTS_MIN >= covered.end_us - covered.start_us
    return past if enough else None


def largest_loss(by_team: Ledger, elapsed_us: int) -> Loss | None:
    """The bucket that wasted most, or that was not measured where nothing is known to be wasted; None without any."""
    wasted = [(row, Fraction(row.avoidable_gpu_seconds)) for row in by_team.items]
    if not any(seconds for _, seconds in wasted):
        wasted = [(row, Fraction(row.gpu_seconds)) for row in by_team.items if row.bucket == NOT_MEASURED]
    amounts: dict[str, Rate] = {}
    for row, seconds in wasted:
        if seconds:
            amounts[row.bucket] = amounts.get(row.bucket, Rate()) + _part(row, seconds, by_team.currency)
    if not amounts:
        return None
    bucket = max(amounts, key=lambda name: (amounts[name].cost or 0, amounts[name].hours, name))
    held: dict[str, Rate] = {}
    days = Fraction(max(elapsed_us, DAY_US), DAY_US)
    for row in by_team.items:
        seconds = Fraction(row.gpu_seconds if bucket == NOT_MEASURED else row.avoidable_gpu_seconds)
        if row.bucket == bucket and seconds:
            part = _part(row, seconds, by_team.currency)
            daily = Rate(None if part.cost is None else part.cost / days, part.hours / days)
            team = str(row.group["team"] or PLATFORM)
            held[team] = held.get(team, Rate()) + daily
    whole = amounts[bucket]
    ranked = sorted(held.items(), key=lambda item: (-(item[1].cost or 0), -item[1].hours, item[0]))
    return Loss(bucket, whole.cost, whole.hours * 3600, elapsed_us, tuple(ranked))


def divided_loss(store: Store, window: Window, scope: Scope, loss: Loss | None) -> Loss | None:
    """The loss with its parts by team and kind of work."""
    if loss is None:
        return None
    days = Fraction(max(loss.elapsed_us, DAY_US), DAY_US)
    held = [(team, Rate(None if one.cost is None else one.cost * days, one.hours * days)) for team, one in loss.teams]
    kinds = kinds_of(store, window, loss.bucket, scope.cluster, scope.pool, scope.teams)
    return replace(loss, parts=divided(held, kinds))


def with_cause(loss: Loss, found: Sequence[Cause]) -> Loss:
    """The loss with the words of its largest cause, and how much of it that is."""
    if not found:
        return loss
    first = found[0]
    hours = sum((one.gpu_hours for one in found), Fraction(0))
    share = percent(first.gpu_hours / hours).replace(GAP, " ")
    summary = f"{share} of it: {first.title[0].lower()}{first.title[1:]}. {first.summary}"
    return replace(loss, summary=summary, remedy=first.remedy)


def _part(row: BucketRow, seconds: Fraction, currency: str | None) -> Rate:
    """Some of the time of a row, at its price."""
    known = row.cost is not None and row.currency == currency and row.gpu_seconds
    cost = Fraction(row.cost or 0) * seconds / Fraction(row.gpu_seconds) if known else None
    return Rate(cost, seconds / 3600)


def span_of_data(store: Store, scope: Scope) -> Window | None:
    """From the first to the last instant of the ledger; None without any."""
    teams = None if scope.teams is None else list(scope.teams)
    (row,) = store.rows("report/covered", cluster=scope.cluster, teams=teams)
    first, last = row["first_us"], row["last_us"]
    return Window(first, last) if first is not None and last is not None and first < last else None


def _findings(store: Store, scope: Scope, actions: Mapping[str, Action]) -> list[Finding]:
    """The open findings that nobody has set aside: the most severe ones, and the most expensive ones."""
    wanted: dict[str, Any] = {
        "states": ["open"],
        "teams": scope.teams,
        "cluster": scope.cluster,
        "pool": scope.pool,
        "limit": FINDINGS_MAX,
        "actions": actions,
    }
    first = page(store, sort="cost", **wanted)
    found = {finding.key: finding for finding in first.items}
    if first.next is not None:
        found |= {finding.key: finding for finding in page(store, sort="severity", **wanted).items}
    return list(found.values())


def _side(answer: Ledger, covered: Window | None) -> dict[str, Any]:
    """A ledger of one window: its measures, its rows by bucket, and how much of the window is covered."""
    content = dict(ledger_listing(answer).extra)
    content.pop("groups")
    seconds = 0 if covered is None else (covered.end_us - covered.start_us) // SECOND_US
    return {
        **content,
        "items": _by_bucket(answer),
        "cost": None if answer.cost is None or answer.currency is None else f"{answer.cost:f}",
        "covered_seconds": seconds,
    }


def _by_bucket(answer: Ledger) -> list[dict[str, Any]]:
    """The rows of a ledger without its other dimensions."""
    sums: dict[tuple[str, str | None], list[Decimal]] = {}
    for row in answer.items:
        one = sums.setdefault((row.bucket, row.currency if row.cost is not None else None), [Decimal(0)] * 3)
        for place, part in enumerate((row.gpu_seconds, row.avoidable_gpu_seconds, row.cost or Decimal(0))):
            one[place] += part
    return [
        {
            "bucket": bucket,
            "gpu_seconds": f"{seconds:f}",
            "avoidable_gpu_seconds": f"{avoidable:f}",
            "cost": None if currency is None else f"{cost:f}",
            "currency": currency,
        }
        for (bucket, currency), (seconds, avoidable, cost) in sums.items()
    ]


def _steps(answer: Ledger, step_us: int) -> dict[str, Any]:
    return {"step": "1h" if step_us == HOUR_US else "1d", "items": list(ledger_listing(answer).items)}


def _teams(by_team: Ledger) -> list[dict[str, Any]]:
    """The measures and buckets of each team, those with the most avoidable time first."""
    rows: dict[str | None, list[BucketRow]] = {}
    for row in by_team.items:
        rows.setdefault(row.group["team"], []).append(row)
    found = []
    for one in by_team.groups[:TEAMS_MAX]:
        team = one.group["team"]
        mine = rows.get(team, [])
        found.append(
            {
                "team": team,
                **_total(mine, by_team.currency),
                **measures_dict(one.measures, by_team.currency),
                "buckets": [
                    {
                        "bucket": row.bucket,
                        "gpu_seconds": f"{row.gpu_seconds:f}",
                        "cost": None if row.cost is None else f"{row.cost:f}",
                    }
                    for row in mine
                ],
            }
        )
    return found


def _total(rows: Sequence[BucketRow], currency: str | None) -> dict[str, str | None]:
    costs = [row.cost for row in rows if row.cost is not None and row.currency == currency]
    return {
        "gpu_seconds": f"{sum((row.gpu_seconds for row in rows), Decimal(0)):f}",
        "cost": f"{sum(costs, Decimal(0)):f}" if costs else None,
    }
