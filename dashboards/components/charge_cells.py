"""Cells of the charges table: names, amounts and changes, linked to their details."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import columns, formats, parts
from gpuwatch.dashboards.components.charge_lines import cause_word
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.shell.query import Query, job_link

VIEWS = {
    "team": "Team",
    "user": "User",
    "job": "Job",
    "slice": "MIG slice",
    "queue": "Queue",
    "namespace": "Namespace",
    "account": "Account",
    "gpu_model": "GPU model",
    "pool": "Pool",
    "cluster": "Cluster",
    "cause": "Cause",
}

DRILL = {"team": "user", "user": "job", "queue": "user", "namespace": "user", "account": "user", "pool": "team"}
"""The view that a row opens."""

NARROWING = ("pool", "user", "queue", "namespace", "account", "gpu_model")
"""Dimensions that a drill-down can fix, in addition to team and cluster, which are API parameters."""

INFERRED = "No ownership rule decides: its account or namespace names the team"
UNNAMED = {"slice": "Whole GPUs", "job": "No job", "user": "No user", "team": "No team", "pool": "No pool"}
"""Labels of rows without a value in their view."""

ALLOCATED, PLATFORM, SHARED, CORRECTION = "allocated", "platform", "shared", "correction"

KINDS = {
    ALLOCATED: ("Held", "GPU time held by teams, at its price"),
    PLATFORM: ("Platform", "Unallocated, or paid by the platform by policy"),
    SHARED: ("Shared", "Passed on to teams by policy, such as idle time and shared contracts"),
    CORRECTION: ("Corrections", "Corrections of closed periods, billed when found"),
}
"""Kinds of charges in column order: label and tooltip."""


def shown_kinds(rows: Sequence[Row]) -> list[str]:
    """The kinds that get a column; none if every row has only one kind."""
    present = {str(row.get("kind")) for row in rows}
    return [kind for kind in KINDS if kind in present] if present & {SHARED, CORRECTION} else []


def charges_of(rows: Sequence[Row], view: str) -> dict[tuple[str, str], list[Row]]:
    """API rows by table row and kind."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((str(row.get(view)), str(row.get("kind"))), []).append(row)
    return found


def every(opened: dict[tuple[str, str], list[Row]], name: str) -> list[Row]:
    """All charges of a table row."""
    return [row for kind in KINDS for row in opened.get((name, kind), [])]


def amount_cell(
    charges: Sequence[Row], name: str, view: str, currency: str, query: Query, places: int = 2
) -> Component:
    """A cost with `places` decimals, linked to how it was computed or, if it sums several charges, to the rows by cause."""
    if not charges:
        return html.Span()
    costs = [cost for row in charges if (cost := formats.number(row.get("cost"))) is not None]
    amount = columns.amount(sum(costs, Decimal(0)) if costs else None, places, currency)
    if len(charges) == 1:
        if not charges[0].get("charge"):
            return amount
        href = query.link(f"/charges/{charges[0]['charge']}")
        return parts.link(amount, href, "why", "How this was computed")
    if view == "cause" or name in ("None", "") or view not in (*NARROWING, "team", "cluster"):
        return amount
    return parts.link(amount, query.link(**{view: name, "by": "cause", "sort": None}), "why", "Show the parts")


def change_cell(now: Sum, then: Sum | None, known: bool) -> Component:
    """The cost compared with the previous window."""
    if not known:
        return parts.num(formats.MISSING, "No earlier data to compare with")
    if then is not None and then.seconds and not then.cost:
        return parts.num(formats.MISSING, "No price in the previous window")
    if then is None or not then.cost:
        return html.Span("new", className="soft", title="Nothing in the previous window")
    return parts.num(formats.change(now.cost, then.cost) or formats.MISSING, f"previously {formats.exact(then.cost)}")


def inferred_words(rows: Iterable[Row]) -> dict[str, str]:
    """`inferred` or `partly inferred` by team, for teams with time that no ownership rule decides."""
    found: dict[str, set[object]] = {}
    for row in rows:
        kinds = {True, False} if row.get("partly_inferred") else {bool(row.get("inferred"))}
        found.setdefault(str(row.get("team")), set()).update(kinds)
    return {
        team: "inferred" if len(kinds) == 1 else "partly inferred" for team, kinds in found.items() if True in kinds
    }


def name_cell(name: str, view: str, cluster: object, query: Query, inferred: str | None = None) -> Component:
    """The value of the row, linked one level down; a job links to its page. An inferred team says so."""
    label = formats.clip(formats.owner("" if name in ("None", "") else name), 60)
    if view == "cause":
        return html.Span(cause_word(name), title=name)
    if name in ("None", "", "__platform__"):
        unnamed = UNNAMED.get(view, "None")
        return html.Span(label if name == "__platform__" else unnamed, className="soft", title=unnamed)
    if view == "job":
        return parts.link(label, job_link(query, cluster, name), "title", name)
    if view == "slice":
        return html.Span(formats.clip(formats.device(name), 60), title=name, className="mono")
    if view not in DRILL:
        return html.Span(label, title=name)
    link = parts.link(label, query.link(**{view: name, "by": DRILL[view], "sort": None}), "title", name)
    mark = html.Span(f" {inferred}", className="soft", title=INFERRED) if inferred else None
    return html.Span([link, mark]) if inferred else link
