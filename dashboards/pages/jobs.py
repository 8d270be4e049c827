"""Jobs: what ran, its cost and its effective share; and what waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import MAX_LIMIT, Api, ApiFailure, Row
from gpuwatch.dashboards.components import columns, formats, ledger_math, parts
from gpuwatch.dashboards.fleet import queue_requests
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query, job_link
from gpuwatch.dashboards.shell.theme import BUCKET
from gpuwatch.dashboards.waste import jobs as work

PAGE_SIZE = 50
BY_BUCKET = ("hoarded", "gap", "communication", "stalled")
"""Buckets by which the list may be sorted: their time is then a column."""
STATES = ("running", "completed", "failed")
WAITING = "waiting"
"""The choice of the requests that wait now, whatever the window: they are no jobs that ran."""
FILTERS = ("window", "cluster", "pool", "team", "q")


async def load(api: Api, query: Query) -> Row:
    """One page of jobs in the window, most expensive first; or the requests that wait now."""
    if query.get("state") == WAITING:
        return {WAITING: await waiting(api, query)}
    filters = {name: query.get(name) for name in ("user", "queue", "state", "q", "cursor") if query.get(name)}
    ran, waits = await asyncio.gather(
        api.jobs(
            query.window, PAGE_SIZE, sort=query.get("sort", "cost"), pool=query.get("pool"), **filters, **query.scope
        ),
        count_of_waiting(api, query),
    )
    return ran | {"also_waiting": waits}


async def count_of_waiting(api: Api, query: Query) -> int:
    """How many of the requests that wait match the search; none without one, and if they cannot be read."""
    if not query.get("q") or query.get("state"):
        return 0
    try:
        return len(await waiting(api, query))
    except ApiFailure:
        return 0


async def waiting(api: Api, query: Query) -> list[Row]:
    """What waits, of the thousand workloads that wait longest, with the filters of the page."""
    found = await api.get("workloads", limit=MAX_LIMIT, **query.scope)
    words, user, queues = query.get("q").lower(), query.get("user"), query.get("queue").split(",")
    return [
        row
        for row in found.get("items") or []
        if row.get("state") in queue_requests.WAITING
        and (not words or any(words in str(row.get(part) or "").lower() for part in ("job", "name")))
        and (not user or row.get("user") == user)
        and (queues == [""] or {row.get("queue"), row.get("cluster_queue")} & set(queues))
    ]


@page("/jobs", "Jobs", load, icon="jobs", order=5, filters=FILTERS)
def layout(data: Row, query: Query, scheme: str) -> Component:
    """One row per job; its name links to its page."""
    items: list[Row] = data.get("items") or []
    state = query.get("state")
    choices = [("All", query.link(state=None, cursor=None, page=None), not state)]
    choices += [
        (name.capitalize(), query.link(state=name, cursor=None, page=None), state == name)
        for name in (*STATES, WAITING)
    ]
    if state == WAITING:
        rows: list[Row] = data.get(WAITING) or []
        filtered = any(query.get(name) for name in ("team", "user", "queue", "q", "cluster"))
        listed = (
            states.empty("No waiting job matches these filters", "Others may wait.")
            if filtered and not rows
            else queue_requests.listing(rows, query, jobs=True)
        )
        note = "As last reported by the schedulers; whatever the window is"
        return html.Div([parts.heading("Jobs", note), parts.picks(choices, "State"), listed])
    note = f"{len(items)}{'+' if data.get('next') else ''} {query.window_words}"
    if query.get("user"):
        note += f", user {formats.clip(query.get('user'), 40)}"
    if query.get("queue"):
        note += f", queue {formats.clip(query.get('queue'), 60)}"
    also = data.get("also_waiting")
    body = listing(items, query) if items else nothing(query)
    return html.Div(
        [
            parts.heading("Jobs", note),
            parts.picks(choices, "State"),
            waits_too(int(also), query) if also else None,
            body if items or not also else None,
            parts.pager(data, query),
        ]
    )


def waits_too(count: int, query: Query) -> Component:
    """What the search found among the requests that wait: they are in no list of jobs that ran."""
    words = "1 request that waits matches" if count == 1 else f"{count:,} requests that wait match"
    href = query.link(state=WAITING, cursor=None, page=None)
    return html.P([f"{words}: ", parts.link("show", href, "more")], className="soft")


def listing(items: list[Row], query: Query) -> Component:
    """The table of jobs."""
    currencies = {str(item["currency"]) for item in items if item.get("currency")}
    currency = currencies.pop() if len(currencies) == 1 else ""
    places = formats.money_places(item.get("cost") for item in items)
    bucket = query.get("sort") if query.get("sort") in BY_BUCKET else ""
    heads = [
        parts.Column("Job", "wide"),
        parts.Column("Team", "narrow-hide"),
        parts.Column("User", "narrow-hide"),
        parts.Column("State", "narrow-hide"),
        parts.Column("GPUs", "r narrow-hide"),
        parts.Column("GPU-h", "r narrow-hide", "gpu_seconds"),
        parts.Column(f"Cost ({formats.sign_of(currency)})" if currency else "Cost", "r", "cost"),
        parts.Column(f"Avoidable ({formats.sign_of(currency)})" if currency else "Avoidable (GPU-h)", "r", "avoidable"),
        *([parts.Column(f"{BUCKET[bucket].word} (GPU-h)", "r", bucket)] if bucket else []),
        parts.Column(
            "Effective",
            "r narrow-hide",
            "effective_ratio",
            "Share of the measured time close to peak compute or memory bandwidth",
        ),
        parts.Column("Where it went", "mix narrow-hide"),
        parts.Column(f"Started ({formats.zone_word()})", "r narrow-hide", "started"),
    ]
    rows = [
        [
            title(item, query),
            parts.team_link(query, item.get("team")),
            user(item, query),
            state_tag(item.get("state")),
            parts.num(formats.MISSING if item.get("gpus") is None else str(item["gpus"]), item.get("gpus")),
            parts.hours(item.get("gpu_seconds")),
            columns.amount(item.get("cost"), places, currency)
            if currency
            else parts.money(item.get("cost"), str(item.get("currency") or "")),
            work.avoidable(work.of(item), currency, places),
            *([parts.hours(buckets(item).get(bucket) or 0)] if bucket else []),
            parts.percent(ledger_math.effective(item)),
            parts.strip(buckets(item), f"job {item.get('id')}"),
            html.Span(formats.clock(item.get("started_at")), className="num nowrap"),
        ]
        for item in items
    ]
    return parts.plain(legend(items), parts.table(heads, rows, query, "Jobs", "cost"))


def legend(items: list[Row]) -> Component:
    """What the colors of the strips mean."""
    found = {name for item in items for name in buckets(item)}
    return parts.legend(found)


def title(item: Row, query: Query) -> Component:
    """Name and id, with a tag for findings."""
    ident, found = str(item.get("id")), len(item.get("findings") or [])
    name = str(item.get("name") or ident)
    under = [html.Span(formats.clip(ident, 44), className="soft mono")] if name != ident else []
    team = html.Span(formats.clip(formats.owner(item.get("team")), 24), className="narrow-only soft")
    mark = [parts.tag(f"{found} finding{'s' if found > 1 else ''}", "warn")] if found else []
    return html.Div(
        [
            parts.link(formats.clip(name, 44), job_link(query, item.get("cluster"), ident), "title two-lines", name),
            html.Div([*under, team, *mark], className="jobname"),
        ]
    )


def user(item: Row, query: Query) -> Component:
    """A user, linked to their jobs."""
    name = item.get("user")
    if not name:
        return html.Span(formats.MISSING, className="missing", title="No source reports the user")
    return parts.link(formats.clip(name, 28), query.link(user=str(name), cursor=None), title=str(name))


def state_tag(state: object) -> Component:
    """The scheduler's state."""
    text = str(state or "unknown")
    lowered = text.lower()
    kind = (
        "ok"
        if lowered.startswith(("run", "complet", "succe"))
        else "bad"
        if lowered.startswith(("fail", "out_of", "node_f"))
        else "plain"
    )
    return parts.tag(formats.clip(text.replace("_", " ").capitalize(), 20), kind)


def buckets(item: Row) -> Mapping[str, object]:
    """GPU-seconds of a job by bucket."""
    found = item.get("buckets") or {}
    return found if isinstance(found, dict) else {}


def nothing(query: Query) -> Component:
    """No jobs."""
    if any(query.get(name) for name in ("team", "user", "queue", "state", "q", "cluster")):
        return states.empty(
            "No jobs match these filters",
            "Choose a longer window or remove a filter.",
            parts.link("Show all", query.link("/jobs", team=None, cluster=None), "button"),
        )
    return states.empty(
        "No jobs in this window",
        "Either nothing ran, or no scheduler is connected.",
        parts.link("Data quality", query.link("/quality"), "button"),
    )
