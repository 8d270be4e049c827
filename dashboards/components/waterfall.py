"""The waterfall: all buckets in ledger order, each bar starting where the previous one ends."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.components import columns, formats, ledger_math, parts
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.shell.theme import MEASURES, place


def waterfall(sums: Mapping[str, Sum], currency: str, label: str) -> Component:
    """A table of buckets with share, GPU-hours and cost, red where it is avoidable, and a total row."""
    whole, done, rows = ledger_math.total(sums), Decimal(0), []
    places, sign = formats.money_places(part.cost for part in sums.values()), formats.sign_of(currency)
    for name in sorted(sums, key=place):
        part = sums[name]
        if not part.seconds:
            continue
        share = part.seconds / whole.seconds
        style = {"marginLeft": f"{float(done / whole.seconds) * 100:.2f}%", **parts.width(float(share))}
        done += part.seconds
        rows.append(
            [
                parts.bucket_word(name),
                html.Span(html.Span(className=f"bar b-{name}", style=style), className="track"),
                parts.percent(share),
                parts.hours(part.seconds),
                columns.amount(part.cost, places, currency, lost=name in MEASURES["avoidable"]),
            ]
        )
    rows.append(
        [
            html.B("Total"),
            html.Span(html.Span(className="bar f-total", style=parts.width(1)), className="track"),
            parts.percent(1),
            parts.hours(whole.seconds),
            columns.amount(whole.cost, places, currency),
        ]
    )
    heads = [
        parts.Column("Bucket"),
        parts.Column("", "grow"),
        parts.Column("Share", "r"),
        parts.Column("GPU-h", "r"),
        parts.Column(f"Cost ({sign})" if sign else "Cost", "r"),
    ]
    return parts.table(heads, rows, label=label)
