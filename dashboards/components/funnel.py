"""Overview: the funnel from owned to effective GPU time."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import columns, formats, ledger_math, measures, parts
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import AT_ROOF, BUCKETS, MEASURE_WORDS, STAGES

WORKING = "active, without what was avoidable"


def card(response: Row, fleet: Row | None, sums: Mapping[str, Sum], query: Query, currency: str) -> Component:
    """From owned to effective: GPU-hours and cost in the window, and GPUs right now.

    `response`: the ledger response, with the stages and measures as the API computes them.
    """
    priced = pool_stages(sums)
    # The buckets do not show which free GPUs report, only which allocated ones are measured.
    stages: Row = priced if query.get("pool") else {**(response.get("funnel") or {}), **priced}
    now, team = running(fleet or {}, query), query.get("team")
    whole = formats.number((stages.get("total") or {}).get("gpu_seconds"))
    renamed = {"total": "Held"} if team else {}
    rows: list[list[parts.Node]] = []
    places = formats.money_places([(priced["total"] or {}).get("cost")])
    for name, word, meaning in STAGES:
        # The API returns a cost of 0.00 even if no bucket of the stage has a price.
        known = (priced.get(name) or priced["total"])["cost"] is not None
        label = html.Span(renamed.get(name, word), title=meaning)
        rows.append([label, *amounts(name, stages.get(name) or {}, whole, currency if known else None, places)])
        if not team:
            rows[-1].append(current(now.get(name)))
        if name == "active":
            cells = amounts("working", worked(response), whole, currency if known else None, places)
            rows.append([html.Span(MEASURE_WORDS["working"], title=WORKING), *cells, *([] if team else [None])])
    heads = [
        parts.Column("Stage", "stage"),
        parts.Column("", "grow"),
        parts.Column("Share", "r"),
        parts.Column("GPU-h", "r"),
        parts.Column(f"Cost ({formats.sign_of(currency)})" if currency else "Cost", "r narrow-hide"),
    ]
    if not team:
        hint = "GPUs, and MIG slices of partitioned GPUs, in the latest minutes of the ledger"
        heads.append(parts.Column("Now", "r now", hint=hint))
    working, partial = measures.share(response, "working"), measures.measured_partly(response)
    note = not_measured(query) if partial else None
    table = parts.table(heads, rows, label="Funnel")
    words = measures.measured_words(response) if partial else ""
    return parts.card(title(working, words, "GPU time held" if team else "GPU time"), table, note=note, name="tight")


def worked(response: Row) -> Row:
    """The measure that the title names, between the stages; empty where it is unknown."""
    return measures.measure(response, "working") if measures.share(response, "working") is not None else {}


def amounts(name: str, stage: Row, whole: Decimal | None, currency: str | None, places: int) -> list[parts.Node]:
    """Share, GPU-hours and cost of a stage; without a currency its cost is unknown."""
    share = ledger_math.ratio(stage.get("gpu_seconds"), whole)
    return [
        parts.bar(float(share), f"f-{name}") if share is not None else None,
        parts.percent(share),
        parts.hours(stage.get("gpu_seconds")),
        columns.amount(None if currency is None else stage.get("cost"), places, currency),
    ]


def title(working: Decimal | None, unmeasured: str, held: str) -> str:
    """The working share; where too little is measured, these words."""
    if working is None:
        return unmeasured or "From all GPUs to effective GPU time"
    return f"{formats.percent(working)} of the {held} was working"


def not_measured(query: Query) -> Component:
    """A note that activity is not measured, linked to the fix."""
    return parts.link("SM activity is not measured", query.link("/quality"), "more", "See Data quality for the fix")


def pool_stages(sums: Mapping[str, Sum]) -> Row:
    """The funnel computed from buckets. They do not show which free GPUs report, so that stage is missing; the later
    stages are unknown if nearly all allocated time is unmeasured.
    """
    held = [bucket.name for bucket in BUCKETS if bucket.allocated and bucket.name != "unobserved"]
    stages = {
        "total": list(sums),
        "allocated": held,
        "active": [name for name in held if name != "hoarded"],
        "effective": list(AT_ROOF),
    }
    found = {name: ledger_math.total(sums, names) for name, names in stages.items()}
    rows: Row = {name: {"gpu_seconds": part.seconds, "cost": part.cost} for name, part in found.items()}
    if measures.unseen(sums) > ledger_math.UNSEEN_MAX:
        rows |= {name: {"gpu_seconds": None, "cost": None} for name in ("active", "effective")}
    return rows


def running(fleet: Row, query: Query) -> dict[str, tuple[Decimal | None, Decimal | None]]:
    """Current whole GPUs and MIG slices at each stage, within the filters."""
    items = [
        row
        for row in fleet.get("items") or []
        if query.get("cluster") in ("", row.get("cluster")) and query.get("pool") in ("", row.get("pool"))
    ]
    if query.get("team"):
        return {}
    keys = {name: "effective_known" if name == "allocated" else name for name, _, _ in STAGES}
    return {name: (added(items, "gpus", key), added(items, "slices", key)) for name, key in keys.items()}


def added(items: list[Row], kind: str, stage: str) -> Decimal | None:
    """The sum of the known values of a stage; None if there are none."""
    return formats.total((row.get(kind) or {}).get(stage) for row in items)


def current(counts: tuple[Decimal | None, Decimal | None] | None) -> Component:
    """`96 GPUs, 26 slices`, in two lines where there is no room."""
    gpus, slices = counts or (None, None)
    exact = f"{gpus} whole GPUs, {slices or 0} MIG slices" if gpus is not None else None
    if not slices:
        return parts.num(count(gpus), exact)
    whole: list[parts.Node] = [html.Span(f"{count(gpus)} GPUs,", className="nowrap"), " "] if gpus else []
    return html.Span([*whole, html.Span(f"{count(slices)} slices", className="nowrap")], className="num", title=exact)


def count(value: object) -> str:
    """A number of GPUs: whole numbers as such, averages with one decimal."""
    found = formats.number(value)
    return formats.MISSING if found is None else f"{found:,.0f}" if found == int(found) else f"{found:,.1f}"
