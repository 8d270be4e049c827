"""The sentence that answers the morning: what was avoidable, how much more than before, and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, measures, parts
from gpuwatch.dashboards.shell.query import Query

NOT_TEAMS = ("__platform__", "__unallocated__", "__idle__", "__shared__")
BEFORE = {
    "24h": "the day before",
    "today": "yesterday by this time",
    "yesterday": "the day before",
    "7d": "the week before",
    "week": "last week by this time",
    "lastweek": "the week before",
    "month": "last month by this time",
    "lastmonth": "the month before",
}
SAME, MANY = Decimal("0.005"), 10
"""Changes below SAME are none; from MANY times on they are given as a multiple."""
UNEVEN = Decimal("0.01")
"""A difference of the covered time beyond this is explained."""
NAMED_TEAMS = 2
NAMED_MIN = Decimal("0.1")
"""Teams with a smaller part of the waste are not named."""


@dataclass(frozen=True)
class Waste:
    """What was avoidable: an amount of money, or of GPU-seconds where that has no price."""

    lost: Decimal
    whole: Decimal
    currency: str | None
    """None: GPU-seconds."""

    def words(self, size: Decimal) -> str:
        """An amount of it in words."""
        return formats.gpu_time(size) if self.currency is None else formats.rounded(size, self.currency)


def waste(side: Row) -> Waste | None:
    """What was avoidable of a ledger; None if nothing was measured."""
    found, currency = measures.measure(side, "avoidable"), side.get("currency")
    seconds, cost = formats.number(found.get("gpu_seconds")), formats.number(found.get("cost"))
    paid = formats.number(side.get("cost"))
    if seconds is None:
        return None
    if cost is not None and paid and currency:
        return Waste(cost, paid, str(currency))
    return Waste(seconds, formats.number(side.get("capacity_gpu_seconds")) or Decimal(0), None)


def change(answer: Row) -> Decimal | None:
    """The change of what was avoidable per covered hour (0.12: 12 % more); None if it cannot be compared."""
    before = answer.get("before")
    if not isinstance(before, dict):
        return None
    now, past = waste(answer["now"]), waste(before)
    if now is None or past is None or now.currency != past.currency or not past.lost:
        return None
    if measures.measured_partly(answer["now"]) or measures.measured_partly(before):
        return None
    hours = [formats.number(side.get("covered_seconds")) for side in (answer["now"], before)]
    if not hours[0] or not hours[1]:
        return None
    return (now.lost / hours[0]) / (past.lost / hours[1]) - 1


def change_words(ratio: Decimal | None, query: Query) -> str:
    """`12 % more than the week before`; empty if it is unknown."""
    if ratio is None:
        return ""
    before = BEFORE.get(query.window_name, "the period before")
    if abs(ratio) < SAME:
        return f"as much as {before}"
    if ratio + 1 >= MANY:
        return f"{ratio + 1:,.0f} times as much as {before}"
    return f"{abs(ratio) * 100:.0f} % {'more' if ratio > 0 else 'less'} than {before}"


def covered_words(answer: Row) -> str:
    """How much of the earlier period is covered, where that differs; else empty."""
    before = answer.get("before")
    if not isinstance(before, dict) or change(answer) is None:
        return ""
    now, then = (Decimal(str(side.get("covered_seconds"))) / 3600 for side in (answer["now"], before))
    if abs(now - then) <= now * UNEVEN:
        return ""
    return f"Compared per hour with data: {now:,.0f} hours now, {then:,.0f} before."


def answered(answer: Row, query: Query) -> Component:
    """The sentence as the title of the page."""
    return html.H1([*_lead(answer, query), "."], className="answer")


def _lead(answer: Row, query: Query) -> list[Any]:
    now = answer["now"]
    found, when = waste(now), query.window_words
    if measures.measured_partly(now):
        seen = formats.number(now.get("measured_ratio")) or Decimal(0)
        lead: list[Any] = [
            parts.link("Not measured", query.link("/quality")),
            f": {formats.percent(1 - seen)} of the GPU time held {when}",
        ]
        if found is None or not found.lost:
            return [*lead, ", so what was avoidable is unknown"]
        return [*lead, "; at least ", _size(found, query), " was avoidable"]
    if found is None:
        return [f"Nothing was measured {when}, so what was avoidable is unknown"]
    if not found.lost:
        return [f"Nothing of {found.words(found.whole)} was avoidable {when}"]
    more = change_words(change(answer), query)
    who = _owners(answer, found, query)
    return [
        _size(found, query),
        f" of {found.words(found.whole)} was avoidable {when}",
        f", {more}" if more else "",
        *(["; ", *who] if who else []),
    ]


def _size(found: Waste, query: Query) -> Component:
    exact = formats.exact(found.lost, found.currency) if found.currency else parts.exact_hours(found.lost)
    return html.Span(found.words(found.lost), className="lost nowrap", title=exact)


def _owners(answer: Row, found: Waste, query: Query) -> list[Any]:
    """The teams with the largest parts, as links; first the platform where its part is larger than theirs."""
    sizes = {str(row.get("team")): lost_of(row, found.currency) for row in answer.get("teams") or []}
    if query.get("team") or not found.lost or len(sizes) == 1:  # of one team it is all of it
        return []
    teams = sorted((name for name in sizes if name not in NOT_TEAMS and sizes[name]), key=lambda name: -sizes[name])
    named = [name for name in teams[:NAMED_TEAMS] if sizes[name] >= found.lost * NAMED_MIN]
    words: list[Any] = []
    if sizes.get("__platform__", Decimal(0)) > sum((sizes[name] for name in named), Decimal(0)):
        part = formats.percent(sizes["__platform__"] / found.lost)
        words = [parts.link("stranded free GPUs", query.link("/capacity")), f" are {part} of it"]
    if named:
        part = formats.percent(sum((sizes[name] for name in named), Decimal(0)) / found.lost)
        linked = [parts.link(formats.clip(name, 30), team_home(query, name)) for name in named]
        between = [" and ", linked[1]] if len(linked) > 1 else []
        verb = " " if words else " are " if between else " is "
        words += [", " if words else "", linked[0], *between, f"{verb}{part}", "" if words else " of it"]
    return words


def lost_of(row: Mapping[str, Any], currency: str | None) -> Decimal:
    """What was avoidable of a team: money, or GPU-seconds without a currency; zero if it is unknown."""
    found = row.get("avoidable") or {}
    return formats.number(found.get("gpu_seconds" if currency is None else "cost")) or Decimal(0)


def team_home(query: Query, name: str) -> str:
    """The page of a team."""
    return query.link(f"/team/{name}", team=None)
