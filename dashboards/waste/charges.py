"""What was avoidable of the rows of the charges table, from the ledger by the same dimension."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import columns, formats, ledger_math, parts
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.waste import teams as team_waste

LAST = ("__unallocated__", "__platform__", "__idle__", "__shared__")
"""Rows that are nobody's: below all others, in this order."""


@dataclass(frozen=True)
class Waste:
    """What was avoidable of a row. None: unknown, because too little was measured or nothing has a price."""

    cost: Decimal | None = None
    ratio: Decimal | None = None
    """Of the cost of what the row held; of its GPU time without prices."""
    seconds: Decimal | None = None
    buckets: Mapping[str, Sum] = field(default_factory=dict)


NOTHING = Waste()


def of(ledger: Row | None, fixed: Mapping[str, str], view: str) -> dict[str, Waste]:
    """By row of the table. `fixed` are the dimensions of a drill-down."""

    def within(row: Row) -> bool:
        return all(str(row.get(name)) == value for name, value in fixed.items())

    buckets: dict[str, list[Row]] = {}
    for row in (ledger or {}).get("items") or []:
        if within(row):
            buckets.setdefault(str(row.get(view)), []).append(row)
    found = {name: Waste(buckets=ledger_math.by_key(rows, "bucket")) for name, rows in buckets.items()}
    for group in (ledger or {}).get("groups") or []:
        if within(group):
            name, lost = str(group.get(view)), group.get("avoidable") or {}
            ratio = formats.number(lost.get("ratio"))
            known = formats.number(lost.get("gpu_seconds")) if ratio is not None else None
            cost = formats.number(lost.get("cost")) if ratio is not None else None
            held = found.get(name, NOTHING).buckets
            paid = ledger_math.total(held).cost
            found[name] = Waste(cost, ratio if cost is None or not paid else cost / paid, known, held)
    return found


def total(wasted: Mapping[str, Waste]) -> Waste:
    """The sum of the rows whose waste is known; of nothing known, unknown."""
    known = [one for one in wasted.values() if one.cost is not None]
    if not known:
        return NOTHING
    cost = sum((one.cost for one in known if one.cost is not None), Decimal(0))
    paid = sum((ledger_math.total(one.buckets).cost or Decimal(0) for one in known), Decimal(0))
    return Waste(cost, cost / paid if paid else None)


def whole(wasted: Mapping[str, Waste]) -> Waste | None:
    """The sum of all rows; unknown where a row with time is not known, None without rows."""
    if any(one.cost is None and one.buckets for one in wasted.values()):
        return NOTHING
    return total(wasted) if wasted else None


def change(now: Waste | None, then: Waste | None, currency: str) -> Component:
    """What was avoidable, compared with another window."""
    if then is None or then.cost is None or now is None or now.cost is None:
        return parts.num(formats.MISSING, "Not known for both windows")
    words = formats.change(now.cost, then.cost) or ("no change" if not now.cost else "new")
    return parts.num(words, f"previously {formats.exact(then.cost, currency)}")


def place(name: str, part: Sum, wasted: Mapping[str, Waste], sort: str) -> tuple[int, Decimal, str]:
    """Sort key: largest first, unknown last, or by name; what is nobody's at the end."""
    nobody = LAST.index(name) + 1 if name in LAST else 0
    if sort == "name":
        return nobody, Decimal(0), name.lower()
    waste = wasted.get(name, NOTHING)
    sizes = {"gpu_seconds": part.seconds, "avoidable": waste.cost if part.cost is not None else waste.seconds}
    size = waste.ratio if sort == "avoidable_share" else sizes.get(sort, part.cost)
    return nobody, Decimal(1) if size is None else -size, name.lower()


def cells(waste: Waste | None, currency: str, places: int) -> tuple[Component, Component]:
    """What was avoidable: its cost and its share of the time; unknown where too little was measured."""
    found = waste or NOTHING
    if found.ratio is None and found.buckets:
        unseen = html.Span(
            "not measured", className="soft small nowrap", title="Less than half of its time was measured"
        )
        return unseen, parts.num(formats.MISSING)
    return columns.amount(found.cost, places, currency, lost=True), columns.share(found.ratio)


def bar(waste: Waste | None, whole: Decimal, priced: bool, currency: str, top: Decimal, label: str) -> Component:
    """The buckets of a row, on the scale of the largest row: money if every row has a price, else GPU time."""
    parts_of = (waste or NOTHING).buckets
    sizes = {name: (part.cost or Decimal(0)) if priced else part.seconds for name, part in parts_of.items()}
    held = sum(sizes.values(), Decimal(0))
    # A policy may charge more or less than what was held: the bar is as long as the charge.
    scale = whole / held if held and whole > 0 else Decimal(1)
    return team_waste.bar(
        {name: size * scale for name, size in sizes.items()}, currency if priced else None, top, label
    )
