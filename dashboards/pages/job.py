"""One job: its GPUs, time, cost, findings, placement and runs."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import figures, finding_cards, formats, ledger_math, parts
from gpuwatch.dashboards.components.findings_list import card as finding_card
from gpuwatch.dashboards.components.waterfall import waterfall
from gpuwatch.dashboards.fleet import waiting_request
from gpuwatch.dashboards.pages.finding import fact
from gpuwatch.dashboards.pages.jobs import state_tag
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query, address
from gpuwatch.dashboards.shell.theme import BUCKET, Scheme

MAX_RUNS = 20
MAX_MISSING = 3
MAX_WHY = 400
PLACEMENT_RULE = "topology-blind-placement"
MAX_DEVICES = 64
FEW = 8
MAX_NODES = 3
UNMEASURED, UNMEASURED_RULE = "unobserved", "blind-spot"
UNMEASURED_FROM = Decimal("0.05")
"""A smaller part that was not measured is not mentioned."""
GANG_RULE = "gang-partial"


async def load(api: Api, query: Query) -> Row:
    """The job in the path, on the cluster given by `in` or the filter; or its request, under `waiting`, if it has no GPU yet."""
    job, cluster = query.path.removeprefix("/jobs/"), query.get("in") or query.get("cluster") or None
    try:
        data = await api.job(job, cluster)
    except ApiFailure as error:
        if error.status != 404:
            raise
    else:
        rest, unseen = await asyncio.gather(
            ledger_math.optional(waiting_request.find(api, job, cluster) if runs_in_part(data) else None),
            of_nodes(api, data),
        )
        return data | {"rest": rest or None, "unmeasured": unseen}
    waiting = await ledger_math.optional(waiting_request.find(api, job, cluster))
    if not waiting:
        words = f"Job {formats.clip(job, 100)} held no GPU that is known, and it is not waiting for one now."
        raise ApiFailure(404, "not_found", words, "Its records may be too old to be kept, or of another cluster.")
    return {"waiting": waiting}


async def of_nodes(api: Api, data: Row) -> list[Row]:
    """The findings about unmeasured GPUs of the nodes of a job of which a part was not measured."""
    if unmeasured_part(data) < UNMEASURED_FROM:
        return []
    nodes = {
        str(item["node"]): None for item in data.get("devices") or [] if isinstance(item, dict) and item.get("node")
    }
    cluster = {"cluster": str(data["cluster"])} if data.get("cluster") else {}
    answers = await asyncio.gather(
        *(
            ledger_math.optional(api.findings(limit=MAX_NODES, detector=UNMEASURED_RULE, q=node, **cluster))
            for node in list(nodes)[:MAX_NODES]
        )
    )
    own = {item.get("key") for item in data.get("findings") or []}
    found = {
        str(item.get("key")): item
        for answer in answers
        for item in (answer or {}).get("items") or []
        if nodes.keys() & set(item.get("nodes") or []) and item.get("key") not in own
    }
    return list(found.values())


def unmeasured_part(data: Row) -> Decimal:
    """The share (0..1) of the job's GPU time that was not measured."""
    sums = ledger_math.by_key(data.get("waterfall") or [], "bucket")
    whole = ledger_math.total(sums).seconds
    return sums[UNMEASURED].seconds / whole if whole and UNMEASURED in sums else Decimal(0)


def runs_in_part(data: Row) -> bool:
    """Whether some members of the job wait while others hold GPUs."""
    return any(one.get("detector") == GANG_RULE and one.get("state") == "open" for one in data.get("findings") or [])


@page("/jobs/*", "Job", load, filters=())
def layout(data: Row, query: Query, scheme: Scheme) -> Component:
    """Summary, waterfall and readings on the left; findings, placement, runs and devices on the right. What waits: why."""
    if data.get("waiting"):
        return waiting_request.layout(data["waiting"], query)
    return html.Div(
        [
            parts.link("← Jobs", query.link("/jobs"), "back"),
            html.Div(
                [
                    html.Div([summary(data, query), time(data), chart(data, scheme)], className="column"),
                    html.Div(
                        [
                            found(data, query),
                            waiting_request.rest(data["rest"], query) if data.get("rest") else None,
                            placement(data),
                            runs(data),
                            devices(data),
                        ],
                        className="column",
                    ),
                ],
                className="two-one",
            ),
        ]
    )


def summary(data: Row, query: Query) -> Component:
    """Name, state, cost, owner and queue."""
    currency, ident = str(data.get("currency") or ""), str(data.get("id"))
    name = str(data.get("name") or ident)
    times = f"{formats.when(data.get('started_at'))} to {formats.when(data.get('ended_at')) if data.get('ended_at') else 'now'}"
    waited = ledger_math.ratio(seconds_between(data.get("submitted_at"), data.get("started_at")), 1)
    return html.Section(
        [
            html.Div([state_tag(data.get("state")), html.Span(times, className="soft")], className="facts"),
            html.H1(formats.clip(name, 90), title=name),
            html.P(
                [
                    html.Span(formats.clip(ident, 120), className="mono"),
                    f" on {data.get('cluster') or formats.MISSING}",
                ],
                className="soft",
            ),
            html.Div(
                [
                    fact("Total cost", parts.money(data.get("cost"), currency)),
                    fact("Total GPU time", parts.gpu_time(data.get("gpu_seconds"))),
                    fact("Effective", parts.percent(ledger_math.effective(data))),
                    fact(
                        "GPUs",
                        parts.num(str(data.get("gpus") if data.get("gpus") is not None else formats.MISSING)),
                    ),
                    fact("Waited", parts.num(formats.duration(waited))),
                    fact("Workload", formats.workload(data.get("workload_class"))),
                    fact("Team", parts.team_link(query, data.get("team"))),
                    fact("User", formats.clip(formats.owner(data.get("user")), 32)),
                    fact("Account", formats.clip(data.get("account"), 32)),
                    fact("Queue", formats.clip(data.get("queue"), 32)),
                    fact("Scheduler", formats.clip(data.get("scheduler"), 32)),
                ],
                className="keyfacts",
            ),
        ],
        className="card",
    )


def seconds_between(start: object, end: object) -> float | None:
    """Seconds from one time to another."""
    first, last = formats.moment(start), formats.moment(end)
    return (last - first).total_seconds() if first and last else None


def time(data: Row) -> Component:
    """The job's GPU time by bucket."""
    sums = ledger_math.by_key(data.get("waterfall") or [], "bucket")
    whole = ledger_math.total(sums)
    if not whole.seconds:
        return parts.card(
            "No GPU time in the ledger yet", states.advice("The first minutes of a job take a moment to appear.")
        )
    largest = max(sums, key=lambda name: sums[name].seconds)
    word = BUCKET[largest].word if largest in BUCKET else largest
    title = f"Largest part of the GPU time: {formats.inside(word)}, {formats.percent(sums[largest].seconds / whole.seconds)}"
    return parts.card(title, waterfall(sums, str(data.get("currency") or ""), "Waterfall of the job"), name="tight")


def chart(data: Row, scheme: Scheme) -> Component:
    """The readings over the job's lifetime."""
    figure = figures.evidence(data.get("series") or {}, scheme)
    if figure is None:
        return parts.card(
            "No readings for this job",
            states.advice("Its GPUs were not measured, or the readings have expired."),
        )
    graph = parts.graph(figure, figures.TALL)
    return parts.card(
        "GPU activity", graph, note=f"Mean over all devices, {formats.zone_word()}; gaps: no measurements"
    )


def found(data: Row, query: Query) -> Component:
    """The findings about this job."""
    items: list[Row] = data.get("findings") or []
    unseen = not_measured(data, query)
    if not items:
        return parts.card("No findings about this job", unseen)
    title = f"{len(items)} finding{'s' if len(items) > 1 else ''} about this job"
    return parts.card(title, html.Div([finding_card(item, query) for item in items], className="stack"), unseen)


def not_measured(data: Row, query: Query) -> Component | None:
    """How much of the job was not measured, and the findings about the nodes that did not report it."""
    part = unmeasured_part(data)
    if part < UNMEASURED_FROM:
        return None
    about: list[Row] = data.get("unmeasured") or []
    links = [finding_card(item, query) for item in about]
    more = None if about else parts.link("Data quality", query.link("/quality"), "more")
    words = f"{formats.percent(part)} of its GPU time was not measured, so waste in it is not known. "
    return html.Div([html.P([words, more], className="soft"), *links], className="stack")


def placement(data: Row) -> Component | None:
    """How close together its GPUs are, compared with what was free at its start; nothing for a single GPU."""
    found: Row = data.get("placement") or {}
    if (found.get("gpus") or 0) < 2:
        return None
    grade = found.get("grade")
    if grade is None:
        title = "Placement not graded"
    elif grade == "A":
        title = "Best possible placement"
    else:
        title = f"Placement {grade}: a closer placement was possible"
    speed, slow = found.get("gb_per_s"), found.get("slowdown")
    rows = [
        fact("Grade", str(grade or formats.MISSING)),
        fact("Farthest pair", formats.clip(found.get("worst_level"), 24)),
        fact("Slowest link", parts.num(f"{speed:.0f} GB/s" if speed is not None else formats.MISSING)),
    ]
    more, note = estimate(slow, data.get("findings") or []) if slow else ([], None)
    rows += more
    lacking = [
        states.fix(str(one.get("fix")), f"Missing: {one.get('what')}. ")
        for one in (found.get("missing") or [])[:MAX_MISSING]
    ]
    why = html.P(formats.sentence(formats.clip(str(found.get("why") or "").removeprefix("Not graded: "), MAX_WHY)))
    where = {"job": str(data["id"]), "in": str(data.get("cluster") or "")} if data.get("id") else None
    shown = html.P(parts.link("Show it on the map", address("/topology", where), "why")) if where else None
    return parts.card(title, why, html.Div(rows, className="keyfacts"), *lacking, shown, note=note)


def estimate(slow: Row, findings: list[Row]) -> tuple[list[Component], str]:
    """The work lost and how that is known: the numbers of the finding about this placement, if there is one."""
    about = next((item for item in findings if item.get("detector") == PLACEMENT_RULE), None)
    if about is not None:
        facts = finding_cards.placement_facts(about.get("evidence") or {})
        return [fact(word, shown) for word, shown in facts], "From the finding about this placement"
    lost = f"{formats.percent(slow['lost_ratio_low'])} to {formats.percent(slow['lost_ratio_high'])}"
    shares = f"{100 * slow['exposed_ratio_low']:.1f} to {100 * slow['exposed_ratio_high']:.1f} %"
    return [fact("Work lost", parts.num(lost))], (
        f"Estimate, assuming {shares} of each step waits on the network even with the best placement (not measured)"
    )


def runs(data: Row) -> Component | None:
    """The job's runs, if it was requeued or retried."""
    if not (items := data.get("runs") or []):
        return None
    columns = [parts.Column("Started"), parts.Column("Ended"), parts.Column("State"), parts.Column("GPUs", "r")]
    stopped = any(item.get("suspended_seconds") for item in items)
    rows = [
        [
            formats.when(item.get("started_at") or item.get("start")),
            formats.when(item.get("ended_at") or item.get("end")),
            state_tag(item.get("state")),
            parts.num(str(item.get("gpus") if item.get("gpus") is not None else formats.MISSING)),
            *([formats.duration(item.get("suspended_seconds"))] if stopped else []),
        ]
        for item in items[:MAX_RUNS]
    ]
    columns += [parts.Column("Suspended", "r")] if stopped else []
    return parts.card(f"{len(items)} run{'s' if len(items) > 1 else ''}", parts.table(columns, rows, label="Runs"))


def devices(data: Row) -> Component | None:
    """The devices of the job."""
    items = data.get("devices") or []
    if not items:
        return None
    names = [device_name(item) for item in items]
    more = html.P(f"and {len(names) - MAX_DEVICES} more", className="soft") if len(names) > MAX_DEVICES else None
    shown = html.Ul([html.Li(formats.clip(name, 70), className="mono") for name in names[:MAX_DEVICES]])
    title = f"{len(names)} device{'s' if len(names) > 1 else ''}"
    return html.Section(html.Details([html.Summary(title), shown, more], open=len(names) <= FEW), className="card")


def device_name(item: object) -> str:
    """A device as text; the API returns a name or an object."""
    if not isinstance(item, dict):
        return str(item)
    ident = item.get("id") or item.get("device") or item.get("slice") or item.get("gpu")
    node = item.get("node")
    where = None if str(node) in str(ident) else node
    return " · ".join(str(part) for part in (ident, where, item.get("profile")) if part)
