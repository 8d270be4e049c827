"""Closed periods as JSON: the summary of a period, its frozen rows, and the lines of its corrections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from gpuwatch.billing.periods.corrections.repository import Correction, Corrections
from gpuwatch.billing.periods.frozen import COARSE, WORDS, canonical
from gpuwatch.billing.periods.repository import Closing, Periods
from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.state import State

Teams = Collection[str] | None
"""The row filter: None shows every team."""


def history(state: State, name: str) -> list[Closing]:
    """Every closing of a period, the newest first. Raises UsageError where there is none."""
    found = Periods(state).history(name)
    if not found:
        raise UsageError(f"period {name} was never closed; gpuwatch period list names those that were")
    return found


def period_dict(state: State, name: str, teams: Teams = None) -> dict[str, Any]:
    """The newest closing of a period as JSON: its rows with their sums, corrections, signatures, and all closings.

    With `teams` only their rows are included, and neither notes nor reasons, nor the digest: it covers the rows of every
    team, so it would confirm a guess of theirs.
    """
    closings = history(state, name)
    newest = closings[0]
    shown = [row for row in newest.summary if _mine(row, teams)]
    return {
        "period": name,
        "state": "closed" if newest.reopened_us is None else "reopened",
        "number": newest.number,
        "window": {"start": rfc3339(newest.window.start_us), "end": rfc3339(newest.window.end_us)},
        "closed_at": rfc3339(newest.closed_us),
        "closed_by": newest.closed_by,
        "digest": newest.digest if teams is None else None,
        "forced": newest.forced,
        "forced_why": forced_why(newest, teams),
        "versions": newest.context.get("versions", {}),
        **_sums(shown),
        "rows": shown,
        "corrections": _by_few(line for line in Corrections(state).of(name) if _mine(line.words, teams)),
        "signatures": [
            {
                "number": one.number,
                "digest": one.digest if teams is None else None,
                "signer": one.signer,
                "note": one.note if teams is None else None,
                "signed_at": rfc3339(one.at_us),
            }
            for one in Periods(state).signatures(name)
        ],
        "closings": [closing_words(one, teams) for one in closings],
    }


def _sums(shown: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """GPU-seconds and cost of rows; the cost is None where currencies differ."""
    currencies = {row["currency"] for row in shown} - {None}
    cost = sum((Decimal(row["cost"]) for row in shown if row["cost"] is not None), Decimal(0))
    return {
        "gpu_seconds": f"{sum((Decimal(row['gpu_seconds']) for row in shown), Decimal(0)):f}",
        "cost": f"{cost:f}" if len(currencies) <= 1 else None,
        "currency": currencies.pop() if len(currencies) == 1 else None,
    }


def closing_words(one: Closing, teams: Teams = None) -> dict[str, Any]:
    """A closing without its rows."""
    return {
        "number": one.number,
        "closed_at": rfc3339(one.closed_us),
        "closed_by": one.closed_by,
        "digest": one.digest if teams is None else None,
        "forced": one.forced,
        "forced_why": forced_why(one, teams),
        "reopened_at": None if one.reopened_us is None else rfc3339(one.reopened_us),
        "reopened_by": one.reopened_by,
        "reason": one.reason if teams is None else None,
    }


def forced_why(one: Closing, teams: Teams = None) -> str | None:
    """What was missing when a closing was forced, in words; None if it was not. With `teams`, without amounts."""
    if not one.forced:
        return None
    problems = []
    if count := int(one.context.get("days_without_books", 0)):
        days = ", ".join(one.context.get("missing_days", ()))
        problems.append(f"{count} {'day' if count == 1 else 'days'} without a whole ledger{': ' if days else ''}{days}")
    if (unpriced := Decimal(one.context.get("unpriced_gpu_seconds", 0))) > 0:
        problems.append(f"{unpriced:f} GPU-seconds without a price" if teams is None else "time without a price")
    return "; ".join(problems) or "nothing was missing"


def rows(state: State, name: str, teams: Teams = None) -> list[dict[str, Any]]:
    """Frozen rows of the newest closing with all dimensions; rows of earlier releases have only those that existed then."""
    blank: dict[str, Any] = dict.fromkeys((*WORDS, "cause", "origin"))
    frozen = Periods(state).rows(history(state, name)[0])["rows"]
    return [blank | {"cost_exact": row.get("cost")} | dict(row) for row in frozen if _mine(row, teams)]


def lines(state: State, name: str, teams: Teams = None) -> list[dict[str, Any]]:
    """Every correction line posted for a period, oldest first."""
    return [
        {
            **line.words,
            "number": line.number,
            "posted_at": rfc3339(line.posted_us),
            "why": line.why,
            "currency": line.currency,
            "gpu_seconds": f"{line.gpu_seconds:f}",
            "cost_exact": None if line.cost_exact is None else f"{line.cost_exact:f}",
            "cost": None if line.cost is None else f"{line.cost:f}",
        }
        for line in Corrections(state).of(name)
        if _mine(line.words, teams)
    ]


def _by_few(found: Iterable[Correction]) -> list[dict[str, Any]]:
    """Corrections by COARSE and kind, without those that were reversed."""
    sums: dict[str, tuple[dict[str, Any], Decimal, Decimal | None]] = {}
    for line in found:
        cause = line.words.get("cause") if line.words.get("origin") else None
        group = {name: line.words.get(name) for name in (*COARSE, "kind")}
        group |= {"cause": cause, "currency": line.currency}
        _, seconds, cost = sums.get(canonical(group), (group, Decimal(0), None))
        if line.cost is not None:
            cost = (cost or Decimal(0)) + line.cost
        sums[canonical(group)] = group, seconds + line.gpu_seconds, cost
    return [
        group | {"gpu_seconds": f"{seconds:f}", "cost": None if cost is None else f"{cost:f}"}
        for _, (group, seconds, cost) in sorted(sums.items())
        if seconds or cost
    ]


def _mine(row: Mapping[str, Any], teams: Teams) -> bool:
    return teams is None or row["team"] in teams
