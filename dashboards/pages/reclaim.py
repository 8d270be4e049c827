"""Reclaims: idle devices that should be released, the notices sent to their owners, and the next step."""

from __future__ import annotations

import asyncio

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import findings_list, formats, ledger_math, parts
from gpuwatch.dashboards.components.proposals import counted
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query, finding_link, job_link

PAGE_SIZE = 100
GANGS_SHOWN = 20
STEPS = {
    "idle": "Idle",
    "notice": "Notice",
    "warning": "Warning",
    "second_warning": "Second warning",
    "recommendation": "Recommendation",
}
"""The steps in order."""

MARKS = {"warning": "warn", "second_warning": "warn", "recommendation": "bad"}
HELD = {"snoozed": "Snoozed", "exempt": "Exempt", "acked": "Marked a false alarm"}
NEVER = "It only notifies owners and recommends commands; people decide."


async def load(api: Api, query: Query) -> Row:
    """One page of proposals, those that others wait for first."""
    step = query.get("step") if query.get("step") in STEPS else ""
    answer, gangs = await asyncio.gather(
        api.reclaim(PAGE_SIZE, query.get("cursor"), step=step, **query.scope),
        ledger_math.optional(api.findings(limit=GANGS_SHOWN, detector="gang-partial", state="open", **query.scope)),
    )
    return answer | {"gangs": (gangs or {}).get("items") or []}


@page("/reclaim", "Reclaims", load, icon="reclaim", order=12, filters=("cluster", "team"), under="/findings")
def layout(data: Row, query: Query, scheme: str) -> Component:
    """Tabs by step, then the proposals."""
    items: list[Row] = data.get("items") or []
    step = query.get("step") if query.get("step") in STEPS else ""
    choices = [("All", query.link(step=None, cursor=None), not step)]
    choices += [(word, query.link(step=name, cursor=None), step == name) for name, word in STEPS.items()]
    waited = sum(1 for item in items if item.get("contention"))
    note = None
    if items:
        note = (
            "1 job holds idle GPUs"
            if len(items) == 1
            else f"{len(items)}{'+' if data.get('next') else ''} jobs hold idle GPUs"
        )
        note += f"; others waited for those of {counted(waited, 'job')}" if waited else ""
    body = listing(items, query) if items else nothing(step, query, data.get("not_measured"))
    pasted = lines(items)
    return html.Div(
        [
            parts.heading("Reclaims", note),
            html.P([html.B("gpuwatch never stops, scales or signals a job. "), NEVER], className="promise"),
            parts.picks(choices, "Step"),
            html.Div([body, gangs(data["gangs"], query), pasted], className="stack"),
            parts.pager(data, query),
        ]
    )


def gangs(items: list[Row], query: Query) -> Component | None:
    """The GPUs that idle because the other members of their job wait: no notice is sent for them, since the job is not done."""
    if not items:
        return None
    return parts.card(
        "Also idle: jobs of which some members wait for a place",
        html.Div([findings_list.card(item, query, named=True) for item in items], className="stack"),
        note="Their owners get no notice",
    )


def listing(items: list[Row], query: Query) -> Component:
    """One row per job."""
    columns = [
        parts.Column("Job", "wide"),
        parts.Column("Step", hint="The last notice sent to the owner"),
        parts.Column(f"Next ({formats.zone_word()})", "narrow-hide", hint="The earliest time of the next step"),
        parts.Column("Team", "narrow-hide"),
        parts.Column("Idle", "r narrow-hide", hint="Idle devices out of those the job holds"),
        parts.Column("Idle for", "r narrow-hide", hint="How long all of these devices have been idle without a break"),
        parts.Column("Others waited", "r narrow-hide", hint="Idle GPU-hours during which other requests waited"),
        parts.Column("Cost so far", "r"),
    ]
    return parts.plain(parts.table(columns, [row(item, query) for item in items], label="Reclaims"))


def row(item: Row, query: Query) -> list[Component | str]:
    """A proposal."""
    ident = str(item.get("job"))
    name = str(item.get("name") or ident)
    waited: Row = item.get("contention") or {}
    hours = formats.number(waited.get("gpu_hours"))
    contended = (
        html.Div(
            [
                parts.gpu_time(None if hours is None else hours * 3600),
                html.Div(parts.money(waited.get("cost"), str(waited.get("currency") or "")), className="soft small"),
            ]
        )
        if waited
        else html.Span("none", className="soft")
    )
    idle = f"{item.get('idle_devices')} of {item.get('devices')}"
    under = [
        parts.link("finding", finding_link(query, str(item.get("key"))), "more small"),
        html.Span(ident, className="soft mono") if name != ident else None,
        parts.tag("Partly in use: shrink only") if item.get("action") == "shrink" else None,
    ]
    brief = html.Div(
        [
            html.Span(f"{idle} idle, {formats.clip(formats.owner(item.get('team')), 20)}"),
            following(item),
        ],
        className="facts narrow-only soft",
    )
    return [
        html.Div(
            [
                parts.link(
                    formats.clip(name, 44), job_link(query, item.get("cluster"), ident), "title two-lines", name
                ),
                html.Div(under, className="jobname"),
                brief,
            ]
        ),
        step_cell(item),
        following(item),
        parts.team_link(query, item.get("team")),
        parts.num(idle, f"{idle} devices"),
        parts.num(
            formats.duration((formats.number(item.get("idle_minutes")) or 0) * 60),
            f"since {formats.when(item.get('idle_since'))}",
        ),
        contended,
        parts.lost(item.get("wasted_cost"), str(item.get("currency") or "")),
    ]


def step_cell(item: Row) -> Component:
    """The current step, or why it is on hold."""
    name = str(item.get("step"))
    held = HELD.get(str(item.get("held_by")))
    shown: list[Component] = [parts.tag(STEPS.get(name, name), MARKS.get(name, "plain"))]
    if held:
        until = f" until {formats.when(item.get('held_until'))}" if item.get("held_until") else ""
        shown.append(html.Div(f"{held}{until}", className="soft small"))
    elif item.get("step_at"):
        shown.append(html.Div(f"since {formats.clock(item.get('step_at'))}", className="soft small nowrap"))
    return html.Div(shown)


def following(item: Row) -> Component:
    """The next step and its earliest time."""
    following = item.get("next_step")
    if not following:
        return html.Span("on hold" if item.get("held_by") else "none; your decision", className="soft")
    word = STEPS.get(str(following), str(following))
    when = formats.clock(item.get("next_at")) if item.get("next_at") else "after the waiting period"
    return html.Span([html.Span(f"{word} ", className="soft"), html.Span(when, className="num")], className="two-lines")


def lines(items: list[Row]) -> Component | None:
    """Commands that carry out the recommendations."""
    commands = [str(item["command"]) for item in items if item.get("command") and not item.get("held_by")]
    if not commands:
        return None
    return parts.card(
        f"{len(commands)} command{'s' if len(commands) != 1 else ''} to carry out the recommendations",
        html.Pre("\n".join(formats.clip(line, 400) for line in commands), tabIndex="0"),
        html.P("Review before running. gpuwatch runs none of these itself.", className="soft small"),
        note="Jobs with a recommendation that are not on hold",
    )


def nothing(step: str, query: Query, not_measured: object = None) -> Component:
    """No reclaims, or nothing that tells whether there are any."""
    if not_measured:
        return states.empty(
            "Not measured", str(not_measured), parts.link("Data quality", query.link("/quality"), "button")
        )
    if step or query.scope:
        return states.empty(
            "No reclaims here",
            "There may be some at other steps or for other teams.",
            parts.link("Show all", query.link("/reclaim", team=None, cluster=None), "button"),
        )
    return states.empty(
        "No idle GPUs to reclaim",
        "When a job holds idle GPUs, its owner gets a notice and two warnings, followed by a recommendation.",
        parts.link("Findings", query.link("/findings"), "button"),
    )
