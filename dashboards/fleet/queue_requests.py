"""Requests of queues: what waits, the longest first, and what runs, with the job of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell.query import Query, job_link

WAITING = ("pending", "inadmissible", "evicted")
STATES = {
    "pending": ("Waits", "warn"),
    "inadmissible": ("Refused", "bad"),
    "evicted": ("Displaced", "warn"),
    "reserved": ("Has quota", "plain"),
    "admitted": ("Admitted", "plain"),
    "running": ("Runs", "ok"),
}
PAGE_SIZE = 50
MAX_WORDS = 300


def listing(rows: Sequence[Row], query: Query, jobs: bool = False) -> Component:
    """What waits, the longest first, then what runs; each links to its job. `jobs`: only what waits is listed, of any queue."""
    of_queue = bool(query.get("queue")) and not jobs
    if not rows:
        words_of = "Nothing waits or runs in this queue" if of_queue else "No request is waiting"
        return parts.card(words_of)
    heads = [
        parts.Column("Request", "wide"),
        parts.Column("Team", "narrow-hide"),
        parts.Column("Queue", "narrow-hide"),
        parts.Column("State", "narrow-hide"),
        parts.Column("GPUs", "r"),
        parts.Column("Waited", "r", hint="From its submission until it was admitted, or until now"),
        parts.Column("Why", "grow narrow-hide"),
    ]
    shown, links = parts.numbered(rows, PAGE_SIZE, query)
    name = "What waits and runs in it" if of_queue else "Requests that wait"
    listed = parts.table(heads, [request(row, query) for row in shown], label=name)
    return parts.card(name, listed, links, note="The longest wait first")


def request(row: Row, query: Query) -> list[parts.Node]:
    """A workload."""
    job, name = row.get("job"), str(row.get("name") or row.get("job") or row.get("uid") or "")
    waits = row.get("state") in WAITING
    why = formats.sentence(formats.clip(reason(row), MAX_WORDS)) if waits or row.get("why") else ""
    shown: Component = html.Span(formats.clip(name, 32), title=name, className="strong two-lines")
    if job:
        shown = parts.link(
            formats.clip(name, 32), job_link(query, row.get("cluster"), str(job)), "title two-lines", name
        )
    under = [str(row[part]) for part in ("namespace", "user") if row.get(part)]
    word, tone = STATES.get(str(row.get("state")), (formats.sentence(str(row.get("state") or "unknown")), "plain"))
    return [
        html.Div(
            [
                shown,
                html.Div(formats.clip(" · ".join(under), 60), className="soft small") if under else None,
                html.Div(why, className="small two-lines narrow-only", title=why) if why else None,
            ]
        ),
        parts.team_link(query, row.get("team")),
        html.Span(formats.clip(row.get("queue") or row.get("cluster_queue"), 40), className="nowrap"),
        parts.tag(formats.clip(word, 20), tone),
        html.Span(amount(asked([row]), none=formats.MISSING), className="num"),
        parts.num(formats.duration(row.get("wait_seconds"))),
        html.Div(why, className="two-lines small", title=why or None),
    ]


def reason(row: Row) -> str:
    """Why a request waits."""
    return str(row.get("why") or row.get("reason") or "no reason reported")


def asked(waiting: Sequence[Row]) -> dict[str, int]:
    """How many devices requests want together, by MIG profile; "" for whole GPUs."""
    devices: Counter[str] = Counter()
    for row in waiting:
        if isinstance(counts := row.get("devices"), dict):
            devices.update({str(kind): count for kind, count in counts.items() if isinstance(count, int)})
        elif isinstance(count := row.get("gpus"), int):
            devices[str(row.get("profile") or "")] += count
    return {kind: count for kind, count in sorted(devices.items()) if count}


def amount(counts: Mapping[str, int], none: str) -> str:
    """`16`, `16 + 4 × 1g.10gb`."""
    words_of = [
        f"{count:,}" if not kind else f"{count:,} × {formats.clip(kind, 24)}" for kind, count in sorted(counts.items())
    ]
    return " + ".join(words_of) or none
