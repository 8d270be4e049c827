"""Above the charges: the policy, downloads, and the window to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell.filters import custom
from gpuwatch.dashboards.shell.query import Query

EXPORTS = {"csv": "CSV", "xlsx": "Excel", "parquet": "Parquet"}
FOCUS = ("1.2", "1.4")
VERSUS = {"": "The period before", "lastweek": "Last calendar week", "lastmonth": "Last calendar month"}
BEFORE = {
    "24h": "The 24 hours before",
    "7d": "The 7 days before",
    "today": "Yesterday by this time",
    "yesterday": "The day before",
    "week": "Last week by this time",
    "lastweek": "The week before",
    "month": "Last month by this time",
    "lastmonth": "The month before",
}
"""The period before each named window."""


def policy_words(policies: Row | None, charges: Row) -> list[Component]:
    """The policy in effect at the end of the window, and the one before it; nothing if unknown."""
    if policies is None:
        return []
    window = charges.get("window") or {}
    start, end = str(window.get("start") or ""), str(window.get("end") or "")
    held = policies_between(policies.get("items") or [], start, end)
    name = formats.clip(held[-1].get("name"), 60) if held else ""
    if not name:
        return [html.Div("Policy: teams pay for what they hold, the platform pays for the rest")]
    since = f", since {formats.day(held[-1].get('valid_from'))}" if str(held[-1].get("valid_from")) > start else ""
    before = f"; before: {formats.clip(held[-2].get('name'), 60)}" if len(held) > 1 else ""
    return [html.Div(f"Policy: {name}{since}{before}", title=f"version {policies.get('version')}")]


def policies_between(items: Sequence[Row], start: str, end: str) -> list[Row]:
    """The policies in effect at some time between, oldest first; one without an end lasts until the next one starts."""
    ordered = sorted(items, key=lambda item: str(item.get("valid_from")))
    held = [item for item in ordered if str(item.get("valid_from")) < end and start < str(item.get("valid_to") or "9")]
    later = [str(item.get("valid_from")) for item in held[1:]] + ["9"]
    return [item for item, until in zip(held, later, strict=False) if until > start]


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
            pdf(query),
            parts.link("Weekly reports", query.link("/reports"), "button small", "PDFs and other files of whole weeks"),
        ],
        className="exports",
    )


def pdf(query: Query, team: str = "") -> Component | None:
    """A link to the report of the window shown, of the team or the fleet; nothing within a cluster or pool, which have none."""
    if query.get("cluster") or query.get("pool"):
        return None
    whose = team or query.get("team")
    if whose.startswith("__"):
        return None
    params = {"window": query.window, "format": "pdf", **({"team": whose} if whose else {})}
    title = f"What {formats.clip(whose, 40) or 'the fleet'} paid and wasted in this window, as a report"
    return html.A(
        "PDF",
        href=f"/api/v1/reports/weekly?{urlencode(params)}",
        className="button small",
        title=title,
        target="_blank",
        rel="noopener",
    )


def export(word: str, query: Query, **form: str) -> Component:
    """A link that downloads all rows of this view."""
    pool = {"pool": query.get("pool")} if query.get("pool") else {}
    params = {"window": query.window, **query.scope, **pool, **form}
    return html.A(word, href=f"/api/v1/chargeback?{urlencode(params)}", download="", className="button small")


def versus(query: Query) -> Component:
    """The window to compare with."""
    chosen = query.get("vs")
    words = VERSUS | {"": BEFORE.get(query.window_name, VERSUS[""])}
    words.pop(query.window_name, None)  # a window is not compared with itself
    choices = [(word, query.link(vs=name or None), name == chosen) for name, word in words.items()]
    if chosen not in words:
        choices.append((custom(chosen), query.link(), True))
    return html.Div(
        [html.Span("Compare with", className="soft small"), parts.picks(choices, "Compare with")], className="versus"
    )
