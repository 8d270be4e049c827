"""The page of a request that waits: what it asks for, why it waits, and what would let it start."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import MAX_LIMIT, Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.fleet import queue_requests
from gpuwatch.dashboards.fleet.capacity_place import shape_words
from gpuwatch.dashboards.shell.query import Query

PAGES_MAX = 20
"""Pages of requests that are searched for one."""
MAX_WORDS = 600
OTHER = "Free GPUs would not start it: it waits for something else."
UNKNOWN = "Whether free GPUs would start it is not known from what its scheduler reports."
OF_TEAMS = "What would let it start depends on other teams, so only those who see the whole fleet see it."


async def find(api: Api, job: str, cluster: str | None) -> Row:
    """The waiting request of a job; empty if none waits."""
    cursor = ""
    for _ in range(PAGES_MAX):
        found = await api.capacity("pending", cluster=cluster, limit=MAX_LIMIT, cursor=cursor)
        for row in found.get("items") or []:
            if row.get("job") == job:
                return dict(row)
        cursor = str(found.get("next") or "")
        if not cursor:
            return {}
    return {}


def layout(row: Row, query: Query) -> Component:
    """What it asks for beside why it waits."""
    return html.Div(
        [
            parts.link("← Queues", query.link("/queues", **{"in": None}), "back"),
            html.Div(
                [
                    html.Div([summary(row, query)], className="column"),
                    html.Div([why(row), start(row, query)], className="column"),
                ],
                className="two-one",
            ),
        ]
    )


def summary(row: Row, query: Query) -> Component:
    """Name, request, owner and queue."""
    ident, name = str(row.get("job")), str(row.get("name") or row.get("job"))
    word, tone = queue_requests.STATES.get(str(row.get("state")), ("Waits", "warn"))
    queue, cluster = row.get("queue"), row.get("cluster")
    seen = row.get("observed_at")
    reported = f"as last reported {formats.when(seen)}" if seen else "as last reported by its scheduler"
    way = query.link("/queues", queue=str(queue), **{"in": str(cluster)}) if queue else ""
    facts: list[tuple[str, parts.Node]] = [
        ("Asks for", wanted(row)),
        ("Waits", formats.duration(row.get("wait_seconds"))),
        ("Submitted", formats.when(row.get("submitted_at"))),
        ("Team", parts.team_link(query, row.get("team"))),
        ("User", formats.clip(formats.owner(row.get("user")), 32)),
        ("Queue", parts.link(formats.clip(queue, 32), way) if queue else formats.MISSING),
        ("Scheduler", formats.clip(row.get("scheduler"), 32)),
    ]
    return html.Section(
        [
            html.Div(
                [
                    parts.tag(word, tone),
                    html.Span(reported, className="soft"),
                ],
                className="facts",
            ),
            html.H1(formats.clip(name, 90), title=name),
            html.P(
                [html.Span(formats.clip(ident, 120), className="mono"), f" on {cluster or formats.MISSING}"],
                className="soft",
            ),
            html.Div(
                [html.Div([html.Div(label, className="label"), html.Div(value)]) for label, value in facts],
                className="keyfacts",
            ),
            html.P("It has no GPUs yet, so it has no cost.", className="soft"),
        ],
        className="card",
    )


def wanted(row: Row) -> str:
    """`4 GPUs on one node`, `1 × 1g.10gb`."""
    shape = str(row.get("shape") or "")
    if shape and not row.get("profile"):
        return shape_words(formats.clip(shape, 12))
    count = queue_requests.amount(queue_requests.asked([row]), none="GPUs, how many is not known")
    return f"{count} GPUs" if count.isdecimal() and count != "1" else "1 GPU" if count == "1" else count


def why(row: Row) -> Component:
    """The reason in words, and the scheduler's own."""
    words = formats.sentence(formats.clip(row.get("why") or row.get("reason") or "no reason reported", MAX_WORDS))
    reason = formats.clip(row.get("reason") or "", 120)
    own = html.P(f"Reason of the scheduler: {reason}", className="soft") if reason and row.get("why") else None
    return parts.card("Why it waits", html.P(words), own)


def rest(row: Row, query: Query) -> Component:
    """The members of a job that wait while others run: why, and what would let them start."""
    words = formats.sentence(formats.clip(row.get("why") or row.get("reason") or "no reason reported", MAX_WORDS))
    found = str((row.get("start") or {}).get("words") or "")
    title = f"The rest waits for {wanted(row)} since {formats.when(row.get('submitted_at'))}"
    return parts.card(title, html.P(words), html.P(formats.clip(found, MAX_WORDS), className="soft") if found else None)


def start(row: Row, query: Query) -> Component:
    """What would let it start, with the way to the map or to the instances."""
    found: Row = row.get("start") or {}
    best: Row = found.get("best") or {}
    words = str(found.get("words") or "")
    ways: list[parts.Node] = []
    if best.get("shape"):
        href = query.link(
            "/capacity",
            shape=str(best["shape"]),
            of_pool=best.get("pool"),
            model=best.get("gpu_model"),
            **{"in": None},
        )
        ways.append(parts.link("Show on the map", href, "button"))
    elif row.get("profile") and row.get("waits_for") == "gpus":
        words = (
            words
            or f"It starts when an instance of {formats.clip(row['profile'], 24)} is free on a node that it may use."
        )
        ways.append(parts.link("Instances of the fleet", query.link("/mig", **{"in": None}), "button"))
    if not words:
        words = {"other": OTHER, None: OF_TEAMS}.get(row.get("waits_for"), UNKNOWN)
    body = html.P(formats.clip(words, MAX_WORDS))
    return parts.card("What would let it start", body, html.Div(ways, className="buttons") if ways else None)
