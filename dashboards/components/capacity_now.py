"""Capacity page: GPUs free now, which of them are stranded and why, and the largest gang that could start."""

from __future__ import annotations

from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query

MAX_STRANDED = 10
MAX_ROWS = 400
MAX_NOTES = 12
LEVELS = {
    "node": "one node",
    "nvlink": "one NVLink domain",
    "leaf": "one leaf switch",
    "cluster": "the cluster",
}


def model_word(name: object) -> str:
    """A GPU model without the vendor name."""
    return formats.clip(str(name or "GPU of unknown model").removeprefix("NVIDIA ").removeprefix("NVIDIA-"), 40)


NOTES = {
    "cpu": "free CPU next to the GPUs",
    "links": "GPU links within nodes",
    "network": "network topology",
    "mig-layout": "MIG layouts",
    "price": "prices",
    "requests": "requested shapes",
    "request-size": "request sizes",
    "books": "ledger for this time",
}


def place_cell(row: Row) -> Component:
    """Pool and cluster of a row, its model below."""
    pool = formats.clip(row.get("pool") or "no pool", 40)
    under = f"{model_word(row.get('gpu_model'))} · {formats.clip(row.get('cluster'), 24)}"
    return html.Div([html.Div(pool), html.Div(under, className="soft small")])


def place_word(row: Row) -> str:
    """Cluster, pool and model of a row."""
    pool = (
        f" · {formats.clip(row.get('pool'), 40)}" if row.get("pool") and row.get("pool") != row.get("gpu_model") else ""
    )
    return f"{formats.clip(row.get('cluster'), 30)}{pool} · {model_word(row.get('gpu_model'))}"


def gpus(entry: object) -> Component:
    """A number of GPUs, with one decimal unless it is whole."""
    found = formats.number(entry)
    return parts.num(formats.MISSING if found is None else formats.short(found.quantize(Decimal("0.1"))), entry)


def count(entry: object) -> Component:
    """How many fit; unknown is a dash, zero is dimmed."""
    if entry is None:
        return parts.num(formats.MISSING, "Unknown; see the notes below for the fix")
    return parts.num(f"{int(formats.number(entry) or 0):,}", entry, "num" if formats.number(entry) else "num none")


def largest(clusters: list[Row], level: str = "node") -> Row | None:
    """The largest gang that could start now within one domain of a level."""
    known = [
        gang
        for one in clusters
        for gang in one.get("gangs") or []
        if gang.get("level") == level and formats.number(gang.get("gpus")) is not None
    ]
    return max(known, key=lambda gang: formats.number(gang["gpus"]) or Decimal(0), default=None)


def hourly(costs: object) -> str:
    """Money per hour, by currency."""
    amounts = [
        formats.money(one.get("amount"), str(one.get("currency") or ""))
        for one in (costs if isinstance(costs, list) else [])
    ]
    return " and ".join(amounts) or formats.MISSING


def headlines(data: Row) -> Component:
    """Free GPUs, stranded GPUs and their cost, the largest gang, and shapes that do not fit."""
    total: Row = data.get("total") or {}
    clusters: list[Row] = data.get("clusters") or []
    gang = largest(clusters)
    shapes = [shape for one in clusters for shape in (one.get("demand") or {}).get("shapes") or []]
    starved = sum(1 for shape in shapes if shape.get("starved"))
    usual = any((one.get("demand") or {}).get("usual") for one in clusters)
    price = hourly(total.get("cost_per_hour"))
    free = formats.number(total.get("free_gpus"))
    return parts.headlines(
        [
            parts.Headline("Free GPUs", gpus(total.get("free_gpus")), note=made_of(clusters)),
            parts.Headline(
                "Stranded GPUs",
                gpus(total.get("stranded_gpus")),
                note=f"{formats.percent(total.get('rate'))} of the free GPUs; parts of GPUs added up" if free else None,
            ),
            parts.Headline("Stranded cost per hour", parts.num(price, price), note=unpriced(total)),
            parts.Headline(
                "Largest gang on one node",
                gpus((gang or {}).get("gpus")),
                note=f"{model_word(gang.get('gpu_model'))}" if gang else "unknown",
            ),
            parts.Headline(
                "Shapes that don't fit",
                parts.num(f"{starved} of {len(shapes)}"),
                note="of usual sizes; no requests seen" if usual else "of the requested shapes",
            ),
        ]
    )


def made_of(clusters: list[Row]) -> str:
    """`97 whole, and MIG slices worth 5.1`: what the free GPUs are."""
    whole, sliced = (
        sum((formats.number((one.get(kind) or {}).get("free_gpus")) or Decimal(0) for one in clusters), Decimal(0))
        for kind in ("gpus", "slices")
    )
    if not sliced:
        return "in service and unallocated"
    return f"{formats.short(whole.quantize(Decimal('0.1')))} whole, and MIG slices worth {formats.short(sliced.quantize(Decimal('0.1')))}"


def unpriced(total: Row) -> str | None:
    """How many stranded GPUs have no price."""
    lacking = formats.number(total.get("unpriced_gpus"))
    return f"{formats.short(lacking)} GPUs have no price" if lacking else None


def stranded(data: Row, query: Query) -> Component | None:
    """Free GPUs that the usual requests cannot use, by pool with their cost, and by cause."""
    rows: list[Row] = data.get("stranded") or []
    if not rows:
        return None
    total: Row = data.get("total") or {}
    columns = [
        parts.Column("Pool"),
        parts.Column("Free", "r"),
        parts.Column("Stranded", "r"),
        parts.Column("Share", "grow narrow-hide", hint="Share of the free GPUs"),
        parts.Column("Per hour", "r"),
    ]
    ordered = sorted(rows, key=lambda row: -(formats.number(row.get("stranded_gpus")) or Decimal(0)))
    body = [
        [
            place_cell(row),
            gpus(row.get("free_gpus")),
            gpus(row.get("stranded_gpus")),
            html.Span(
                [
                    parts.bar(float(formats.number(row.get("rate")) or 0), "b-stranded"),
                    html.Span(formats.percent(row.get("rate")), className="soft small"),
                ],
                className="withbar",
            ),
            parts.money(row.get("cost_per_hour"), str(row.get("currency") or "")),
        ]
        for row in ordered[:MAX_STRANDED]
    ]
    amount = formats.number(total.get("stranded_gpus"))
    title = "No free GPU is stranded"
    if amount is None:
        title = "Stranded GPUs: unknown"
    elif amount:
        title = f"{formats.short(amount.quantize(Decimal('0.1')))} free GPUs can't be used by the usual requests, {hourly(total.get('cost_per_hour'))} per hour"
    return parts.card(
        title,
        parts.table(columns, body, label="Stranded by pool"),
        causes(data.get("clusters") or []),
        note="Of each free GPU, the part that the usual requests cannot use (FGD), added up: two GPUs of which half "
        "is of no use count as one. The map counts whole GPUs instead: those of which more than half is of no use.",
    )


def causes(clusters: list[Row]) -> Component | None:
    """Why GPUs are stranded, largest cause first."""
    sums: dict[str, tuple[Decimal, str, str]] = {}
    for one in clusters:
        for kind in ("gpus", "slices"):
            for cause in (one.get(kind) or {}).get("causes") or []:
                before = sums.get(str(cause.get("case")), (Decimal(0), "", ""))[0]
                sums[str(cause.get("case"))] = (
                    before + (formats.number(cause.get("gpus")) or Decimal(0)),
                    str(cause.get("means")),
                    str(cause.get("remedy")),
                )
    ordered = sorted(sums.values(), key=lambda one: -one[0])
    if not ordered:
        return None
    lines = [
        html.Li(
            [
                html.B(f"{formats.short(size.quantize(Decimal('0.1')))} GPUs: "),
                formats.clip(means, 120),
                ". ",
                html.Span(formats.clip(remedy, 160), className="soft"),
            ]
        )
        for size, means, remedy in ordered
    ]
    return html.Div([html.H3("Why"), html.Ul(lines, className="plainlist")])


def gang_table(data: Row) -> Component | None:
    """The largest gang at each level, and the free GPUs beyond it."""
    rows = [
        (one, gang)
        for one in data.get("clusters") or []
        for gang in one.get("gangs") or []
        if gang.get("gpus") is not None
    ]
    if not rows:
        return None
    columns = [
        parts.Column("Within"),
        parts.Column("Model", "narrow-hide"),
        parts.Column("Largest gang", "r"),
        parts.Column("Free beyond it", "r"),
    ]
    body = [
        [
            html.Div(
                [
                    LEVELS.get(str(gang.get("level")), str(gang.get("level"))),
                    html.Div(formats.clip(gang.get("domain") or "", 40), className="soft small mono"),
                ]
            ),
            f"{model_word(gang.get('gpu_model'))} · {formats.clip(one.get('cluster'), 24)}",
            count(gang.get("gpus")),
            count(gang.get("availability_gap")),
        ]
        for one, gang in rows[:MAX_ROWS]
    ]
    return parts.card(
        "Largest gang that could start now",
        html.Div(parts.table(columns, body, label="Largest gangs"), className="tight"),
    )


def notes(data: Row) -> Component | None:
    """Missing information, how many GPUs it affects, and the fix."""
    missing = [(str(one.get("cluster")), note) for one in data.get("clusters") or [] for note in one.get("notes") or []]
    if not missing:
        return None
    shown = [
        states.fix(
            str(note.get("fix") or ""),
            f"{cluster}: {NOTES.get(str(note.get('what')), str(note.get('what')))}"
            + (f", {note['gpus']} GPUs" if note.get("gpus") else "")
            + ". ",
        )
        for cluster, note in missing[:MAX_NOTES]
    ]
    return parts.card("Missing information", *shown)
