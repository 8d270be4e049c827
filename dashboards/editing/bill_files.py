"""Files of cloud bills: those that were imported, and buttons that send more to the API (assets/bills.js)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row, administers
from gpuwatch.dashboards.components import formats, parts

KINDS = {
    "bill-aws-cur": "AWS",
    "bill-azure": "Azure",
    "bill-gcp": "Google Cloud",
    "bill-oci": "Oracle",
    "bill-focus": "FOCUS",
}
PREFIX = "bill-"
MAX_FILES = 12


def files(me: Row, bills: Sequence[Row]) -> Component:
    """The imported files, and buttons that upload one."""
    buttons: list[Component] = []
    if administers(me):
        buttons = [
            html.Button(word, className="button small", type="button", **chooses(kind)) for kind, word in KINDS.items()
        ]
    rows = [
        [
            html.Span(formats.clip(row.get("path"), 80), title=str(row.get("path")), className="breaks"),
            KINDS.get(str(row.get("kind")), str(row.get("kind"))),
            parts.num(f"{int(row.get('records') or 0):,}"),
            html.Span(formats.when(row.get("imported_at")), className="num nowrap"),
        ]
        for row in bills[:MAX_FILES]
    ]
    heads = [
        parts.Column("File", "wide"),
        parts.Column("From"),
        parts.Column("Lines", "r"),
        parts.Column("Imported", "narrow-hide"),
    ]
    listed = parts.table(heads, rows, label="Imported bills") if rows else html.P("None yet.", className="soft")
    rest = len(bills) - MAX_FILES
    return parts.card(
        "Imported bills",
        html.Div([html.Span("Upload a bill of", className="soft"), *buttons], className="buttons") if buttons else None,
        listed,
        html.P(f"and {rest} more on the page Imports", className="soft") if rest > 0 else None,
    )


def chooses(kind: str) -> dict[str, Any]:
    """What assets/bills.js reads of a button: it lets the browser choose files, and sends them."""
    return {"data-bill": kind, **parts.aria(f"Upload a bill: {KINDS[kind]}")}
