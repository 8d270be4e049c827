"""Reclaims: idle devices that should be given back, how far their owners were told, and what is next."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query, finding_link, job_link

PAGE_SIZE = 100
STEPS = {
    "idle": "Idle",
    "notice": "Notice",
    "warning": "Warning",
    "second_warning": "Second warning",
    "recommendation": "Recommendation",
}
"""In order: what the owner was told last."""

MARKS = {"warning": "warn", "second_warning": "warn", "recommendation": "bad"}
HELD = {"snoozed": "Snoozed", "exempt": "Exempt", "acked": "Called a false alarm"}
NEVER = "It ends, scales and signals no job: it tells owners, and people decide."


async def load(api: Api, query: Query) -> Row:
    """One page of proposals: those that others wait for first."""
    step = query.get("step") if query.get("step") in STEPS else ""
    return await api.reclaim(PAGE_SIZE, query.get("cursor"), step=step, **query.scope)


@page("/reclaim", "Reclaims", load, icon="reclaim", order=12, filters=("cluster", "team"), under="/findings")
def layout(data: Row, query: Query, scheme: str) -> Component:
    """Steps as tabs, then the proposals."""
    items: list[Row] = data.get("items") or []
    step = query.get("step") if query.get("step") in STEPS else ""
    choices = [("All", query.link(step=None, cursor=None), not step)]
    choices += [(word, query.link(step=name, cursor=None), step == name) for name, word in STEPS.items()]
    waited = sum(1 for item in items if item.get("contention"))
    note = f"{len(items)}{'+' if data.get('next') else ''} jobs hold idle GPUs" if items else None
    if note and waited:
        note += f", others waited for {waited} of them"
    body = listing(items, query) if items else nothing(step, query)
    pasted = lines(items)
    return html.Div(
        [
            parts.heading("Reclaims", note),
            html.P([html.B("Nothing is ever killed by gpuwatch. "), NEVER], className="promise"),
            parts.picks(choices, "Step"),
            html.Div([body, pasted], className="stack"),
            parts.pager(data, query),
        ]
    )


def listing(items: list[Row], query: Query) -> Component:
    """One job a row."""
    columns = [
        parts.Column("Job", "wide"),
        parts.Column("Step", hint="What its owner was told last"),
        parts.Column("Next (UTC)", "narrow-hide", hint="The earliest time of the next step"),
        parts.Column("Team", "narrow-hide"),
        parts.Column("Idle", "r narrow-hide", hint="Idle devices, of those that it holds"),
        parts.Column("For", "r narrow-hide", hint="How long all of them have lain idle without a break"),
        parts.Column(
            "Others waited", "r narrow-hide", hint="GPU-hours of the idle time that requests of others waited for"
        ),
        parts.Column("So far", "r"),
    ]
    return parts.plain(parts.table(columns, [row(item, query) for item in items], label="Reclaims"))


def row(item: Row, query: Query) -> list[Component | str]:
    """A proposal."""
    ident = str(item.get("job"))
    name = str(item.get("name") or ident)
    waited: Row = item.get("contention") or {}
    hours = components_text.number(waited.get("gpu_hours"))
    contended = (
        html.Div(
            [
                parts.gpu_time(None if hours is None else hours * 3600),
                html.Div(parts.money(waited.get("cost"), str(waited.get("currency") or "")), className="soft small"),
            ]
        )
        if waited
        else html.Span("nobody", className="soft")
    )
    idle = f"{item.get('idle_devices')} of {item.get('devices')}"
    under = [
        parts.link("finding", finding_link(query, str(item.get("key"))), "more small"),
        html.Span(ident, className="soft mono") if name != ident else None,
        parts.tag("Some of it works: shrink, never end") if item.get("action") == "shrink" else None,
    ]
    brief = html.Div(
        [
            html.Span(f"{idle} idle, {components_text.clip(components_text.owner(item.get('team')), 20)}"),
            following(item),
        ],
        className="facts narrow-only soft",
    )
    return [
        html.Div(
            [
                parts.link(
                    components_text.clip(name, 44), job_link(query, item.get("cluster"), ident), "title two-lines", name
                ),
                html.Div(under, className="jobname"),
                brief,
            ]
        ),
        stands(item),
        following(item),
        parts.team_link(query, item.get("team")),
        parts.num(idle, f"{idle} devices"),
        parts.num(
            components_text.duration((components_text.number(item.get("idle_minutes")) or 0) * 60),
            f"since {components_text.when(item.get('idle_since'))}",
        ),
        contended,
        parts.lost(item.get("wasted_cost"), str(item.get("currency") or "")),
    ]


def stands(item: Row) -> Component:
    """The step, and who holds it."""
    name = str(item.get("step"))
    held = HELD.get(str(item.get("held_by")))
    shown: list[Component] = [parts.tag(STEPS.get(name, name), MARKS.get(name, "plain"))]
    if held:
        until = f" until {components_text.when(item.get('held_until'))}" if item.get("held_until") else ""
        shown.append(html.Div(f"{held}{until}", className="soft small"))
    elif item.get("step_at"):
        shown.append(
            html.Div(
                f"since {components_text.when(item.get('step_at')).removesuffix(' UTC')}", className="soft small nowrap"
            )
        )
    return html.Div(shown)


def following(item: Row) -> Component:
    """The next step and its earliest time."""
    following = item.get("next_step")
    if not following:
        return html.Span("held" if item.get("held_by") else "none: people decide", className="soft")
    word = STEPS.get(str(following), str(following))
    when = (
        components_text.when(item.get("next_at")).removesuffix(" UTC")
        if item.get("next_at")
        else "when it was told long enough ago"
    )
    return html.Span([html.Span(f"{word} ", className="soft"), html.Span(when, className="num")], className="two-lines")


def lines(items: list[Row]) -> Component | None:
    """Commands for whoever decides to follow the recommendations."""
    told = [str(item["command"]) for item in items if item.get("command") and not item.get("held_by")]
    if not told:
        return None
    return parts.card(
        f"For whoever decides: {len(told)} command{'s' if len(told) != 1 else ''}",
        html.Pre("\n".join(components_text.clip(line, 400) for line in told), tabIndex="0"),
        html.P("Look at them before you run them. gpuwatch runs none.", className="soft small"),
        note="Jobs whose recommendation stands and that nobody holds",
    )


def nothing(step: str, query: Query) -> Component:
    """No reclaim."""
    if step or query.scope:
        return states.empty(
            "No reclaim here",
            "There may be some at other steps, or of other teams.",
            parts.link("Show all", query.link("/reclaim", team=None, cluster=None), "button"),
        )
    return states.empty(
        "Nobody holds idle GPUs now",
        "When a job does, its owner gets a notice, two warnings, and then people get a recommendation.",
        parts.link("Findings", query.link("/findings"), "button"),
    )
