"""What of the GPUs is free now, what of that is stranded and why, and the largest gang that could start."""

from __future__ import annotations

from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.components import text as components_text
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
    """A GPU model without its maker."""
    return components_text.clip(str(name or "GPU of unknown model").removeprefix("NVIDIA ").removeprefix("NVIDIA-"), 40)


NOTES = {
    "cpu": "CPU beside GPUs",
    "links": "what links the GPUs of a node",
    "network": "where nodes lie in the network",
    "mig-layout": "how MIG GPUs are laid out",
    "price": "the price",
    "requests": "what is asked for",
    "request-size": "the size of requests",
    "books": "this time",
}


def place_cell(row: Row) -> Component:
    """Pool and cluster of a row, its model below."""
    pool = components_text.clip(row.get("pool") or "no pool named", 40)
    under = f"{model_word(row.get('gpu_model'))} · {components_text.clip(row.get('cluster'), 24)}"
    return html.Div([html.Div(pool), html.Div(under, className="soft small")])


def place_word(row: Row) -> str:
    """Cluster, pool and model of a row."""
    pool = (
        f" · {components_text.clip(row.get('pool'), 40)}"
        if row.get("pool") and row.get("pool") != row.get("gpu_model")
        else ""
    )
    return f"{components_text.clip(row.get('cluster'), 30)}{pool} · {model_word(row.get('gpu_model'))}"


def gpus(entry: object) -> Component:
    """A number of GPUs, with a decimal where it is no whole one."""
    found = components_text.number(entry)
    return parts.num(
        components_text.MISSING if found is None else components_text.short(found.quantize(Decimal("0.1"))), entry
    )


def count(entry: object) -> Component:
    """How many fit; unknown is no zero, and none is soft."""
    if entry is None:
        return parts.num(components_text.MISSING, "Not known: the notes below have the fix")
    return parts.num(
        f"{int(components_text.number(entry) or 0):,}", entry, "num" if components_text.number(entry) else "num none"
    )


def largest(clusters: list[Row], level: str = "node") -> Row | None:
    """The largest gang that could start now at a level."""
    known = [
        gang
        for one in clusters
        for gang in one.get("gangs") or []
        if gang.get("level") == level and components_text.number(gang.get("gpus")) is not None
    ]
    return max(known, key=lambda gang: components_text.number(gang["gpus"]) or Decimal(0), default=None)


def hourly(costs: object) -> str:
    """Money an hour, by currency."""
    told = [
        components_text.money(one.get("amount"), str(one.get("currency") or ""))
        for one in (costs if isinstance(costs, list) else [])
    ]
    return " and ".join(told) or components_text.MISSING


def headlines(data: Row) -> Component:
    """Free, stranded, its price, the largest gang, and shapes that find no place."""
    total: Row = data.get("total") or {}
    clusters: list[Row] = data.get("clusters") or []
    gang = largest(clusters)
    shapes = [shape for one in clusters for shape in (one.get("demand") or {}).get("shapes") or []]
    starved = sum(1 for shape in shapes if shape.get("starved"))
    usual = any((one.get("demand") or {}).get("usual") for one in clusters)
    price = hourly(total.get("cost_per_hour"))
    free = components_text.number(total.get("free_gpus"))
    return parts.headlines(
        [
            parts.Headline("Free GPUs", gpus(total.get("free_gpus")), note="in service, held by nobody"),
            parts.Headline(
                "Stranded of them",
                gpus(total.get("stranded_gpus")),
                note=f"{components_text.percent(total.get('rate'))} of what is free" if free else None,
            ),
            parts.Headline("Stranded, an hour", parts.num(price, price), note=unpriced(total)),
            parts.Headline(
                "Largest gang on one node",
                gpus((gang or {}).get("gpus")),
                note=f"{model_word(gang.get('gpu_model'))}" if gang else "not known",
            ),
            parts.Headline(
                "Shapes without a place",
                parts.num(f"{starved} of {len(shapes)}"),
                note="of usual sizes: no request is known" if usual else "of those that are asked for",
            ),
        ]
    )


def unpriced(total: Row) -> str | None:
    """How many stranded GPUs have no price."""
    lacking = components_text.number(total.get("unpriced_gpus"))
    return f"{components_text.short(lacking)} GPUs without a price" if lacking else None


def stranded(data: Row, query: Query) -> Component | None:
    """What is free and of no use to the usual requests: by pool with its price, and by cause."""
    rows: list[Row] = data.get("stranded") or []
    if not rows:
        return None
    total: Row = data.get("total") or {}
    columns = [
        parts.Column("Pool"),
        parts.Column("Free", "r"),
        parts.Column("Stranded", "r"),
        parts.Column("Part", "grow narrow-hide"),
        parts.Column("An hour", "r"),
    ]
    ordered = sorted(rows, key=lambda row: -(components_text.number(row.get("stranded_gpus")) or Decimal(0)))
    body = [
        [
            place_cell(row),
            gpus(row.get("free_gpus")),
            gpus(row.get("stranded_gpus")),
            html.Span(
                [
                    parts.bar(float(components_text.number(row.get("rate")) or 0), "b-stranded"),
                    html.Span(components_text.percent(row.get("rate")), className="soft small"),
                ],
                className="withbar",
            ),
            parts.money(row.get("cost_per_hour"), str(row.get("currency") or "")),
        ]
        for row in ordered[:MAX_STRANDED]
    ]
    amount = components_text.number(total.get("stranded_gpus"))
    title = "Nothing of what is free is stranded"
    if amount is None:
        title = "How much is stranded is not known"
    elif amount:
        title = f"{components_text.short(amount.quantize(Decimal('0.1')))} free GPUs are of no use to the usual requests, {hourly(total.get('cost_per_hour'))} an hour"
    return parts.card(
        title,
        parts.table(columns, body, label="Stranded by pool"),
        causes(data.get("clusters") or []),
        note="FGD's expected fragmentation",
    )


def causes(clusters: list[Row]) -> Component | None:
    """Why it is stranded, the largest cause first."""
    sums: dict[str, tuple[Decimal, str, str]] = {}
    for one in clusters:
        for kind in ("gpus", "slices"):
            for cause in (one.get(kind) or {}).get("causes") or []:
                before = sums.get(str(cause.get("case")), (Decimal(0), "", ""))[0]
                sums[str(cause.get("case"))] = (
                    before + (components_text.number(cause.get("gpus")) or Decimal(0)),
                    str(cause.get("means")),
                    str(cause.get("remedy")),
                )
    ordered = sorted(sums.values(), key=lambda one: -one[0])
    if not ordered:
        return None
    lines = [
        html.Li(
            [
                html.B(f"{components_text.short(size.quantize(Decimal('0.1')))} GPUs: "),
                components_text.clip(means, 120),
                ". ",
                html.Span(components_text.clip(remedy, 160), className="soft"),
            ]
        )
        for size, means, remedy in ordered
    ]
    return html.Div([html.H3("Why"), html.Ul(lines, className="plainlist")])


def gang_table(data: Row) -> Component | None:
    """The largest gang at each level, and what is free beyond it."""
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
                    html.Div(components_text.clip(gang.get("domain") or "", 40), className="soft small mono"),
                ]
            ),
            f"{model_word(gang.get('gpu_model'))} · {components_text.clip(one.get('cluster'), 24)}",
            count(gang.get("gpus")),
            count(gang.get("availability_gap")),
        ]
        for one, gang in rows[:MAX_ROWS]
    ]
    return parts.card(
        "The largest gang that could start now",
        html.Div(parts.table(columns, body, label="Largest gangs"), className="tight"),
    )


def notes(data: Row) -> Component | None:
    """What is not known, for how many GPUs, and the fix."""
    told = [(str(one.get("cluster")), note) for one in data.get("clusters") or [] for note in one.get("notes") or []]
    if not told:
        return None
    shown = [
        states.fix(
            str(note.get("fix") or ""),
            f"{cluster}: {NOTES.get(str(note.get('what')), str(note.get('what')))}"
            + (f", {note['gpus']} GPUs" if note.get("gpus") else "")
            + ". ",
        )
        for cluster, note in told[:MAX_NOTES]
    ]
    return parts.card("What is not known", *shown)
