"""Above the charges: downloads, and the window to compare with."""

from __future__ import annotations

from urllib.parse import urlencode

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.shell.filters import custom
from gpuwatch.dashboards.shell.query import Query

EXPORTS = {"csv": "CSV", "xlsx": "Excel", "parquet": "Parquet"}
FOCUS = ("1.2", "1.4")
VERSUS = {"": "The period before", "lastweek": "Last week", "lastmonth": "Last month"}


def exports(query: Query, by: str) -> Component:
    """Links that download all rows, by these dimensions, and the page of the PDFs, which are of whole weeks."""
    return html.Div(
        [
            html.Span("Export ", className="soft"),
            *(export(word, query, by=by, format=form) for form, word in EXPORTS.items()),
            *(export(f"FOCUS {version}", query, format="focus", focus_version=version) for version in FOCUS),
            html.Span(
                "In FOCUS files, add up EffectiveCost. BilledCost, ListCost and ContractedCost also have the purchases of owned GPUs.",
                className="soft small",
            ),
            parts.link("Weekly reports (PDF)", query.link("/reports"), "button small", "PDFs are made of whole weeks"),
        ],
        className="exports",
    )


def export(word: str, query: Query, **form: str) -> Component:
    """A link that downloads all rows of this view."""
    pool = {"pool": query.get("pool")} if query.get("pool") else {}
    params = {"window": query.window, **query.scope, **pool, **form}
    return html.A(word, href=f"/api/v1/chargeback?{urlencode(params)}", download="", className="button small")


def versus(query: Query) -> Component:
    """The window to compare with."""
    chosen = query.get("vs")
    choices = [(word, query.link(vs=name or None), name == chosen) for name, word in VERSUS.items()]
    if chosen not in VERSUS:
        choices.append((custom(chosen), query.link(), True))
    return html.Div(
        [html.Span("Compare with", className="soft small"), parts.picks(choices, "Compare with")], className="versus"
    )
