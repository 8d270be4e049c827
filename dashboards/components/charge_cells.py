"""Cells of the charges table: names, amounts and changes, linked to their details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import columns, formats, ledger_math, parts
from gpuwatch.dashboards.components.charge_lines import cause_word
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.shell.filters import custom
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


def names_of(answer: Row | None) -> dict[str, tuple[str, str]]:
    """The name and the user of each job, from charges by job, name and user."""
    return {
        str(row.get("job")): (str(row.get("name") or ""), str(row.get("user") or ""))
        for row in (answer or {}).get("items") or []
    }


def job_cell(job: str, cluster: object, query: Query, name: str, user: str) -> Component:
    """A job by its name, with its id and its user below."""
    shown = name if name and name not in job else job
    under = [word for word in (job if shown != job else "", user) if word]
    link = parts.link(formats.clip(shown, 60), job_link(query, cluster, job), "title", job)
    return html.Div([link, html.Div(formats.clip(" · ".join(under), 60), className="soft small") if under else None])


def name_cell(
    name: str, view: str, cluster: object, query: Query, inferred: str | None = None, known: Sequence[str] = ()
) -> Component:
    """The value of the row, linked one level down; a job links to its page. An inferred team says so. `known`: a job's name and user."""
    label = formats.clip(formats.owner("" if name in ("None", "") else name), 60)
    if view == "cause":
        return html.Span(cause_word(name), title=name)
    if name in ("None", "", "__platform__"):
        unnamed = UNNAMED.get(view, "None")
        return html.Span(label if name == "__platform__" else unnamed, className="soft", title=unnamed)
    if view == "job":
        return job_cell(name, cluster, query, *(known or ("", "")))
    if view == "slice":
        return parts.link(formats.clip(formats.device(name), 60), query.link(f"/mig/{name}", team=None), "mono", name)
    if view not in DRILL:
        return html.Span(label, title=name)
    within = query.link(**{view: name, "by": DRILL[view], "sort": None, "page": None})
    if view != "team" or name.startswith("__"):
        return parts.link(label, within, "title", name)
    mark = html.Span(f" {inferred}", className="soft", title=INFERRED) if inferred else None
    users = parts.link("users", within, "soft small nowrap narrow-hide", f"Charges of {label} by user")
    dot = html.Span(" · ", className="soft narrow-hide")
    return html.Span([parts.link(label, query.link(f"/team/{name}", team=None), "title", name), mark, dot, users])


def total_row(
    rows: Sequence[Row],
    sums: Mapping[str, Sum],
    kinds: Sequence[str],
    currency: str,
    places: int,
    width: int,
    lost: Sequence[parts.Node] = (),
) -> list[parts.Node]:
    """The sum of all rows, those of other pages too, in the columns that have one."""
    whole, of_kind = ledger_math.total(dict(sums)), ledger_math.by_key(rows, "kind")
    costs = [*(of_kind.get(kind, Sum()).cost for kind in kinds), whole.cost]
    cells: list[parts.Node] = [html.B(f"All {len(sums):,} rows"), html.B(parts.hours(whole.seconds))]
    cells += [html.B(columns.amount(cost, places, currency)) for cost in costs]
    cells += [html.B(cell) for cell in lost]
    return [*cells, *[None] * (width - len(cells))]


def columns_of(
    view: str,
    kinds: Sequence[str],
    wasted: bool,
    currency: str,
    query: Query,
    against: bool = True,
    compares: bool = False,
) -> list[parts.Column]:
    """The columns of the list: one per kind of charge; what was avoidable if known; the change of the cost if `against`,
    and that of what was avoidable if it `compares`.
    """
    sign = formats.sign_of(currency)
    unit = f" ({sign})" if sign else ""
    other = custom(query.get("vs")) if query.get("vs") else "the period before"
    found = [
        parts.Column(VIEWS[view], "wide", "name"),
        parts.Column("GPU-h", "r narrow-hide", "gpu_seconds"),
        *(parts.Column(f"{KINDS[kind][0]}{unit}", "r narrow-hide", hint=KINDS[kind][1]) for kind in kinds),
        parts.Column(f"Cost{unit}", "r", "cost"),
    ]
    if wasted:
        found += [
            parts.Column(
                f"Avoidable{unit}", "r", "avoidable", "Idle while held, busy without work, waiting, or stranded"
            ),
            parts.Column("% of cost", "r", "avoidable_share", "Avoidable part of the cost of what was held"),
        ]
    if against:
        found.append(parts.Column("Cost change", "r narrow-hide", hint=f"Cost against {other}"))
    if compares:
        found.append(parts.Column("Avoidable change", "r narrow-hide", hint=f"Avoidable cost against {other}"))
    return found
