"""The findings inbox: a table of findings or of causes. A row opens on click; a checkbox selects it for an action."""

from __future__ import annotations

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts, quantities
from gpuwatch.dashboards.components.findings_list import amount, daily, has_rate, spanned, subject, taken_back
from gpuwatch.dashboards.components.proposals import counted
from gpuwatch.dashboards.shell.query import Query, finding_link

KEYS_MAX = 500
"""Findings that one action may have."""
RATE_HINT = "Of findings that last a day or longer and go on"
SEPARATOR = ","
"""Between the keys of one checkbox; no key has it."""


def rows(items: list[Row], query: Query, order: str) -> Component:
    """One row per finding, in the order of the list."""
    rates = any(has_rate(item) for item in items)
    columns = [
        parts.Column(everything(), "check"),
        parts.Column("Finding", "wide", "priority", "Most urgent first: severity, cost a day and certainty together"),
        parts.Column("Severity", "narrow-hide", "severity"),
        parts.Column("Subject", "narrow-hide of"),
        parts.Column("Team", "narrow-hide of-team"),
        parts.Column("Cost so far", "r", "cost"),
        *([parts.Column("Per day", "r narrow-hide", hint=RATE_HINT)] if rates else []),
        parts.Column("Certainty", "r narrow-hide"),
        parts.Column(f"Since ({formats.zone_word()})", "r narrow-hide", "started"),
    ]
    shown = [
        [
            check(str(item.get("key")), f"{item.get('title')}: {(item.get('subject') or {}).get('name')}"),
            what(item, query),
            parts.severity(item.get("severity")),
            html.Div(subject(item, query, 36), className="two-lines"),
            html.Div([whose(item, query), assigned(item)]),
            amount(item),
            *([daily(item)] if rates else []),
            parts.percent(item.get("confidence")),
            html.Span(formats.clock(item.get("started_at")), className="num nowrap"),
        ]
        for item in items
    ]
    return html.Div(parts.plain(parts.table(columns, shown, query, "Findings", order)), className="opens")


def what(item: Row, query: Query) -> Component:
    """The title, which opens the finding, the summary, and what a phone hides in columns."""
    taken, summary = taken_back(item), quantities.readable(item.get("summary"))
    mark = taken or (f"ended {formats.clock(item['ended_at'])}" if item.get("ended_at") else "")
    return html.Div(
        [
            html.Div(
                [
                    parts.link(
                        formats.clip(item.get("title"), 90), finding_link(query, str(item.get("key"))), "title row-link"
                    ),
                    parts.tag(mark) if mark else None,
                ],
                className="jobname",
            ),
            html.Div(formats.clip(summary, 200), className="two-lines first-line soft narrow-hide", title=summary),
            html.Div(subject(item, query, 60), className="about narrow-only"),
            html.Div(
                [parts.severity(item.get("severity")), html.Span(short_owner(item.get("team")))],
                className="facts narrow-only",
            ),
        ]
    )


def short_owner(team: object) -> str:
    """A team, or `Platform`: in a list of findings it is clear that its GPUs are unallocated."""
    return formats.clip(formats.owner(team), 24)


def whose(item: Row, query: Query) -> Component:
    """The team, linked to its page."""
    team = item.get("team")
    if not team:
        return html.Span(short_owner(team), className="missing")
    return parts.link(short_owner(team), query.link(f"/team/{team}", team=None), "two-lines", formats.owner(team))


def assigned(item: Row) -> Component | None:
    """Who looks after the finding."""
    name = item.get("assignee")
    return (
        html.Div(f"→ {formats.clip(name, 24)}", className="soft small", title=f"Assigned to {name}") if name else None
    )


def causes(inbox: Row, query: Query) -> Component:
    """One row per cause: findings of one rule, cluster and team."""
    columns = [
        parts.Column(everything(), "check"),
        parts.Column("Cause", "wide"),
        parts.Column("Findings", "r"),
        parts.Column("Severity", "narrow-hide"),
        parts.Column("Team", "narrow-hide"),
        parts.Column("Cost", "r"),
        parts.Column("Certainty", "r narrow-hide"),
        parts.Column(f"Since ({formats.zone_word()})", "r narrow-hide"),
    ]
    found: list[Row] = inbox.get("causes") or []
    shown = []
    for cause in found:
        keys, count = [str(key) for key in cause.get("keys") or []][:KEYS_MAX], int(cause.get("findings") or 0)
        href = finding_link(query, keys[0]) if count == 1 and keys else members(cause, query)
        shown.append(
            [
                check(SEPARATOR.join(keys), f"all {count} of {cause.get('title')}"),
                html.Div(
                    [
                        parts.link(formats.clip(cause.get("title"), 90), href, "title row-link"),
                        html.Div(
                            [parts.severity(cause.get("severity")), html.Span(short_owner(cause.get("team")))],
                            className="facts narrow-only",
                        ),
                    ]
                ),
                parts.num(f"{count:,}"),
                parts.severity(cause.get("severity")),
                whose(cause, query),
                cause_money(cause, query),
                parts.percent(cause.get("certainty")),
                html.Span(formats.clock(cause.get("since")), className="num nowrap"),
            ]
        )
    rest = int(inbox.get("causes_total") or 0) - len(found)
    note = html.P(f"and {rest:,} more causes; filter to see them", className="soft") if rest > 0 else None
    return html.Div([parts.plain(parts.table(columns, shown, label="Causes")), note], className="opens")


def members(cause: Row, query: Query) -> str:
    """The list of a cause's findings."""
    return query.link(
        view=None,
        cursor=None,
        detector=str(cause.get("detector")),
        team=str(cause.get("team") or "") or None,
        cluster=str(cause.get("cluster") or "") or None,
    )


def cause_money(cause: Row, query: Query) -> Component:
    """Money a day or so far, GPU-hours without a price, or the GPUs at risk."""
    cost, currency = formats.number(cause.get("cost_a_day")), str(cause.get("currency") or "")
    if cost is not None and cause.get("saves"):
        return html.Span([html.Span("could save ", className="soft small"), parts.money(cost, currency), " a day"])
    if amount := spanned(cause, query.get("state") in ("resolved", "all")):
        return html.Span(amount, className="num nowrap")
    if risk := formats.number(cause.get("at_risk_gpu_hours_a_day")):
        return html.Span(f"{counted(int(risk / 24), 'GPU')} at risk", className="nowrap")
    return parts.num(formats.MISSING, "Not counted as waste, so it has no cost")


def check(value: str, label: str) -> Component:
    """The checkbox of a row."""
    return tick({"pick": value[:200]}, value, f"Select {formats.clip(label, 120)}")


def everything() -> Component:
    """The checkbox that selects all rows shown."""
    return tick("pick-all", "all", "Select all shown")


def tick(ident: str | dict[str, str], value: str, label: str) -> Component:
    """A checkbox. The value of its group is a list: empty, or with the value of the box."""
    box = dmc.Checkbox(value=value, size="xs", **parts.aria(label))
    group: Component = dmc.CheckboxGroup([box], id=ident, value=[], className="tick")
    return group
