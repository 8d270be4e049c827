"""Queues: what each may use and uses, what waits in it and why, and the requests of one queue with their jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import MAX_LIMIT, Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.fleet import queue_requests
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

KINDS = {
    "local_queue": "local queue",
    "cluster_queue": "cluster queue",
    "cohort": "cohort",
    "queue": "queue",
    "partition": "partition",
}
"""Kinds of rows that are queues; the others are users, groups and flavors of hardware."""
PAGE_SIZE = 50
MAX_WORDS = 300


@dataclass(frozen=True)
class Data:
    """The queues, and what waits and runs in them; `more`: whether there are more of either than were read."""

    queues: list[Row]
    workloads: list[Row]
    more: bool


async def load(api: Api, query: Query) -> Data:
    """The first thousand queues, and the thousand workloads that wait longest: of all, or of one queue and those below it."""
    scope = query.scope | ({"cluster": query.get("in")} if query.get("in") else {})
    queues = await api.get("queues", limit=MAX_LIMIT, **scope)
    found = [row for row in queues.get("items") or [] if row.get("kind") in KINDS]
    name = query.get("queue")
    names = below(found, name) if name else set()
    # The API knows the workloads of a queue by its name, but not those of the queues below it.
    one = name if len(names) == 1 else None
    workloads = await api.get("workloads", limit=MAX_LIMIT, queue=one, **scope)
    items = [
        row for row in workloads.get("items") or [] if not name or {row.get("queue"), row.get("cluster_queue")} & names
    ]
    return Data(found, items, bool(queues.get("next") or workloads.get("next")))


def below(queues: Sequence[Row], name: str) -> set[str]:
    """The names of a queue and of all queues below it."""
    names, before = {name}, 0
    while len(names) > before:
        before = len(names)
        names |= {str(row.get("name")) for row in queues if row.get("parent") in names}
    return names


@page("/queues", "Queues", load, icon="queues", order=4, filters=("cluster", "team"), under="/capacity")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """How much waits, the queues, and the requests of all or of one."""
    name = query.get("queue")
    listed = [row for row in data.queues if row.get("name") == name] if name else [*data.queues, *unreported(data)]
    if not listed and not data.workloads and not name:
        return html.Div([parts.heading("Queues"), nothing(query)])
    waiting = [row for row in data.workloads if row.get("state") in queue_requests.WAITING]
    back = parts.link("← All queues", query.link(queue=None, page=None, **{"in": None}), "back") if name else None
    place = parts.link("What would let them start", query.link("/capacity"), "button") if waiting else None
    jobs = None
    if name:
        found = ",".join(sorted(below(data.queues, name)))
        jobs = parts.link("Jobs of this queue", query.link("/jobs", queue=found, page=None, **{"in": None}), "button")
    about = [
        states.advice("Only the first 1,000 queues and the 1,000 requests that wait longest are shown.")
        if data.more
        else None,
        table(listed, query) if listed else None,
    ]
    return html.Div(
        [
            back,
            parts.heading(
                f"Queue {formats.clip(name, 60)}" if name else "Queues",
                "As last reported by the schedulers",
                jobs,
                place,
            ),
            headlines(waiting, data.more),
            html.Div([*about, queue_requests.listing(data.workloads if name else waiting, query)], className="stack"),
        ]
    )


def headlines(waiting: Sequence[Row], more: bool) -> Component:
    """How many requests wait, for how many devices, how long at most, and why most of them."""
    least = "at least " if more and waiting else ""
    longest = max(
        (wait for row in waiting if (wait := formats.number(row.get("wait_seconds"))) is not None), default=None
    )
    unknown = sum(1 for row in waiting if row.get("gpus") is None)
    wanted = queue_requests.asked(waiting)
    reason, count = next(iter(Counter(queue_requests.reason(row) for row in waiting).most_common(1)), ("", 0))
    return parts.headlines(
        [
            parts.Headline("Requests that wait", parts.num(f"{len(waiting):,}"), note=least.strip() or "as of now"),
            parts.Headline(
                "GPUs they ask for",
                parts.num(f"{wanted.pop('', 0):,}"),
                note="; ".join(
                    one
                    for one in (queue_requests.amount(wanted, none=""), f"{unknown} not known" if unknown else "")
                    if one
                ),
            ),
            parts.Headline(
                "Longest wait",
                parts.num(formats.duration(longest) if waiting else "none"),
                note="since it was submitted",
            ),
            parts.Headline(
                "Most frequent reason",
                html.Span(formats.sentence(formats.clip(reason, 90)) if reason else "none", className="in-words"),
                note=f"{count} of {len(waiting)} requests" if count else None,
            ),
        ]
    )


def unreported(data: Data) -> list[Row]:
    """Queues that only requests name, as those of schedulers without quota do: what waits in each."""
    known = {(row.get("cluster"), row.get("name")) for row in data.queues}
    found: dict[tuple[str, str], list[Row]] = {}
    for row in data.workloads:
        place = (str(row.get("cluster")), str(row.get("queue") or ""))
        if place[1] and place not in known and (place[0], row.get("cluster_queue")) not in known:
            found.setdefault(place, []).append(row)
    return [
        {"cluster": cluster, "name": name, "scheduler": rows[0].get("scheduler"), "waiting": sums(rows)}
        for (cluster, name), rows in found.items()
    ]


def sums(rows: Sequence[Row]) -> Row:
    """What waits among workloads, as the API counts it for a queue."""
    waiting = [row for row in rows if row.get("state") in queue_requests.WAITING]
    waits = [wait for row in waiting if (wait := formats.number(row.get("wait_seconds"))) is not None]
    why = Counter(queue_requests.reason(row) for row in waiting).most_common(1)
    return {
        "workloads": len(waiting),
        "devices": queue_requests.asked(waiting),
        "unknown": sum(1 for row in waiting if row.get("gpus") is None),
        "longest_seconds": max(waits, default=None),
        "why": why[0][0] if why else None,
    }


def table(queues: Sequence[Row], query: Query) -> Component:
    """The queues, the one with the longest wait first; each opens its requests."""
    heads = [
        parts.Column("Queue", "wide"),
        parts.Column("Quota", "r narrow-hide", hint="GPUs that it may use by itself; slices by profile"),
        parts.Column("Held", "r narrow-hide", hint="GPUs that its workloads hold"),
        parts.Column("Borrowed", "r narrow-hide", hint="Held beyond its quota, lent by other queues"),
        parts.Column("Waiting", "r", hint="Requests that wait, also in queues below it"),
        parts.Column("GPUs wanted", "r narrow-hide"),
        parts.Column("Longest wait", "r narrow-hide"),
        parts.Column("Why most wait", "grow narrow-hide"),
    ]
    shown, links = parts.numbered(sorted(queues, key=place_of), PAGE_SIZE, query)
    return html.Div([parts.plain(parts.table(heads, [line(row, query) for row in shown], label="Queues")), links])


def place_of(row: Row) -> tuple[Decimal, str, str]:
    """Sort key: the longest wait first, then by name."""
    wait = formats.number((row.get("waiting") or {}).get("longest_seconds"))
    return Decimal(1) if wait is None else -wait, str(row.get("cluster")), str(row.get("name"))


def line(row: Row, query: Query) -> list[parts.Node]:
    """A queue."""
    waiting: Row = row.get("waiting") or {}
    count, why = int(waiting.get("workloads") or 0), str(waiting.get("why") or "")
    longest = formats.duration(waiting.get("longest_seconds")) if count else ""
    wanted = queue_requests.amount(waiting.get("devices") or {}, none="")
    unknown = int(waiting.get("unknown") or 0)
    return [
        title(row, query, f"{longest}: {why}" if count and why else longest and f"{longest} at most"),
        devices(row.get("quota")),
        held(row),
        devices(row.get("borrowed")),
        parts.num(f"{count:,}") if count else html.Span("0", className="num soft"),
        html.Span(
            wanted or ("unknown" if unknown else ""), className="num", title=f"{unknown} unknown" if unknown else None
        ),
        html.Span(longest, className="num"),
        html.Div(formats.sentence(formats.clip(why, MAX_WORDS)), className="two-lines small", title=why or None),
    ]


def title(row: Row, query: Query, waits: str) -> Component:
    """The name with its kind, its namespace and what is above it; on a phone also how long what waits."""
    name = str(row.get("name"))
    kind = KINDS.get(str(row.get("kind")), "no quota reported")
    stopped = [] if row.get("state") in (None, "active", "Active", "Open", "open", "running") else [str(row["state"])]
    above = [f"in {row['parent']}"] if row.get("parent") else []
    under = [
        kind,
        *([str(row["namespace"])] if row.get("namespace") else []),
        *above,
        str(row.get("cluster")),
        *stopped,
    ]
    return html.Div(
        [
            parts.link(
                formats.clip(name, 60),
                query.link(queue=name, page=None, **{"in": str(row.get("cluster"))}),
                "title",
                name,
            ),
            html.Div(formats.clip(" · ".join(under), 100), className="soft small two-lines"),
            html.Div(used_words(row), className="small narrow-only"),
            html.Div(formats.clip(waits, 120), className="small two-lines narrow-only") if waits else None,
        ]
    )


def held(row: Row) -> Component:
    """What is in use, with a bar of it in the quota."""
    used, quota = row.get("used"), row.get("quota") or row.get("quota_max")
    whole, part = (sum(counts.values()) if isinstance(counts, dict) else 0 for counts in (quota, used))
    level = parts.bar(part / whole, "b-stalled" if part > whole else "") if whole and isinstance(used, dict) else None
    return html.Div([devices(used), level])


def used_words(row: Row) -> str | None:
    """What a queue holds, for a phone; None if nothing is reported."""
    used, quota = row.get("used"), row.get("quota")
    if not isinstance(used, dict):
        return None
    return f"{queue_requests.amount(used, none='0')} held" + (
        f" of {queue_requests.amount(quota, none='0')}" if isinstance(quota, dict) else ""
    )


def devices(counts: object) -> Component:
    """Counts of devices by profile; what no scheduler reports is not zero."""
    if not isinstance(counts, dict):
        return parts.num(formats.MISSING, "Not reported")
    return html.Span(queue_requests.amount(counts, none="0"), className="num")


def nothing(query: Query) -> Component:
    """No queues."""
    return states.empty(
        "No queues and no requests that wait",
        "Kueue, Volcano, YuniKorn and Slurm report them; docs/connect/queues.md says how to connect them.",
        parts.link("Data quality", query.link("/quality"), "button"),
    )
