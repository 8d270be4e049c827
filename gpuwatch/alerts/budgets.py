"""Alerts about budgets and quotas: thresholds crossed, and forecasts above the budget."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from gpuwatch.billing.budgets import PERIODS, Status, load_budgets, period_name, statuses
from gpuwatch.billing.spending import FLEET
from gpuwatch.core.clock import DAY_US, parse_window, rfc3339
from gpuwatch.findings.read import Finding
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.state import State
from gpuwatch.store.database import Store

DETECTOR = "budget"
EVIDENCE = ("spent", "amount", "runs_out", "gpu_hours", "gpu_hours_quota", "missing")
"""Fields of a status in the evidence, next to its forecast."""
NEARLY, WHOLE = 80, 100
"""Percent at which a budget is nearly spent, and exceeded."""
LATE_US = DAY_US
"""How long after its end a period is still checked: its last hours reach the ledger later."""


def alerts(store: Store, state: State, at_us: int) -> list[Finding]:
    """Alerts about budgets: one for each team and period, at the highest percentage crossed or where the forecast exceeds
    the budget; and one for the quota of GPU-hours. A period that has just ended is checked too.
    """
    known = load_budgets(state)
    found = statuses(store, state, at_us, budgets=known)
    for period in PERIODS:
        start_us = parse_window(period_name(period, at_us), at_us).start_us
        if at_us - start_us < LATE_US:
            mine = [budget for budget in known if budget.period == period]
            found += statuses(store, state, start_us, budgets=mine, ended=True)
    return [finding for status in found for finding in _findings(status)]


def _findings(status: Status) -> Iterator[Finding]:
    budget = status.budget
    if status.spent is not None:
        percent = int(status.spent * 100 / budget.amount)
        ahead = status.forecast.amount if status.forecast and status.forecast.low > budget.amount else None
        sentence = (
            f"has spent {status.spent:f} of its {budget.amount:f} {budget.currency} for {status.name}, {percent} %"
        )
        if ahead is not None and percent < WHOLE:
            sentence += f", and is expected to spend {ahead:f} by the end of the period"
            if status.forecast and status.forecast.change is not None:
                sentence += f". {status.forecast.change.sentence(budget.currency).removesuffix('.')}"
        yield from _finding(status, "Budget", "spent", percent, sentence, "" if ahead is None else "forecast")
    if budget.gpu_hours is not None:
        percent = int(status.gpu_hours * 100 / budget.gpu_hours)
        used, quota = _hours(status.gpu_hours), _hours(budget.gpu_hours)
        sentence = f"has used {used} of its {quota} GPU-hours for {status.name}, {percent} %"
        yield from _finding(status, "Quota", "used", percent, sentence, "", "hours:")


def _finding(
    status: Status, noun: str, verb: str, percent: int, sentence: str, otherwise: str, kind: str = ""
) -> Iterator[Finding]:
    """The alert at the highest percentage crossed; without any, the one called `otherwise` unless that is empty."""
    budget = status.budget
    passed = max((at for at in budget.alert_at if percent >= at), default=None)
    if passed is None and not otherwise:
        return
    if percent >= WHOLE:
        title = f"{noun} for {status.name} exceeded: {percent} % {verb}"
    elif passed is None:
        title = f"{noun} for {status.name} will not last: {percent} % {verb}"
    elif percent >= NEARLY:
        title = f"{noun} for {status.name} nearly {verb}: {percent} %"
    else:
        title = f"{noun} for {status.name}: {percent} % {verb}"
    fleet = budget.team == FLEET
    yield Finding(
        key=f"{DETECTOR}:{budget.team}:{status.name}:{kind}{passed or otherwise}",
        detector=DETECTOR,
        title=title,
        severity="high" if percent >= WHOLE else "medium",
        state="open",
        confidence=1.0,
        cluster="all",
        subject={"kind": "team", "id": budget.team, "name": "the fleet" if fleet else budget.team},
        team=PLATFORM if fleet else budget.team,
        user=None,
        started_at=rfc3339(status.window.start_us),
        ended_at=None,
        last_seen_at=rfc3339(status.at_us),
        wasted_gpu_seconds="0",
        # Zero, not None: the message says that no cost is claimed instead of an unknown cost.
        wasted_cost="0",
        currency=budget.currency,
        bucket="",
        summary=f"{'The fleet' if fleet else f'Team {budget.team}'} {sentence}.",
        remedy="Check what it was spent on (gpuwatch chargeback --by team,job), or change the budget.",
        evidence=_evidence(status),
        devices=[],
        nodes=[],
        suppressed_by=None,
        resolved_reason=None,
    )


def _evidence(status: Status) -> dict[str, Any]:
    fields = status.as_dict()
    forecast: dict[str, Any] = {} if status.forecast is None else {"forecast": f"{status.forecast.amount:f}"}
    if status.forecast is not None and status.forecast.change is not None:
        forecast["level_change"] = status.forecast.as_dict()["level_change"]
    return {name: fields[name] for name in EVIDENCE if fields[name] is not None} | forecast


def _hours(hours: Decimal) -> str:
    return f"{hours:.1f}"
