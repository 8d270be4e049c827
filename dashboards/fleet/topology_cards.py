"""Topology page: the chosen job and node, jobs on several nodes, and the drawing as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.components.capacity_moves import count
from gpuwatch.dashboards.fleet import faulty_gpus, node_links
from gpuwatch.dashboards.fleet.faulty_gpus import Faults
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query, finding_link, job_link
from gpuwatch.dashboards.shell.theme import BUCKET

MAX_LEAVES = 60
MAX_JOBS = 12
MAX_GPUS = 64
FREE_COLUMN = 3
"""The place of the free GPUs among the numbers of a leaf switch."""
STATES = {
    "free": "Free",
    "stranded": "Free, of no use to most requests",
    "partitioned": "MIG slices, none held",
    "out_of_service": "Out of service",
    "other": "Not shown",
}


def job_card(job: Row | None, query: Query) -> Component:
    """Where the chosen job lies, and where it could have been."""
    name = formats.clip(query.get("job"), 60)
    if job is None:
        return parts.card(
            f"Job {name} held no GPU that is known", parts.link("Show no job", query.link(job=None), "button")
        )
    best = job.get("best")
    facts = [
        parts.tag(f"Placement {job['grade']}", "ok" if job["grade"] in ("A", "B") else "warn")
        if job.get("grade")
        else None,
        html.Span(f"{len(job['gpus'])} GPUs at {formats.when(job['at'])}", className="soft"),
    ]
    lines: list[Component] = [html.P(f"{job['spans']}.")] if job.get("spans") else []
    if job.get("why"):
        lines.append(html.P(f"Not graded: {job['why']}.", className="soft"))
    if best:
        place = f"{best['words']} {formats.clip(best['name'] or '', 40)}".strip()
        lines.append(
            html.P([html.B("When it started, "), f"{place} had {best['free_gpus']} free GPUs: the dashed outline."])
        )
        now, then = formats.number(best.get("gb_per_s_now")), formats.number(best.get("gb_per_s"))
        if now and then:
            lines.append(html.P(f"Its slowest link there: {then:g} GB/s instead of {now:g} GB/s.", className="soft"))
    elif job.get("grade"):
        lines.append(html.P("Nothing nearer was free when it started."))
    return parts.card(
        f"Job {name}",
        html.Div([one for one in facts if one], className="facts"),
        *lines,
        html.Div(
            [
                parts.link("Open the job", job_link(query, job["cluster"], str(job["job"])), "button"),
                parts.link("Show no job", query.link(job=None), "button"),
            ],
            className="buttons",
        ),
    )


def node_cards(
    fleet: Row, node: Row, view: Row | None, touched: Sequence[Row], query: Query, faults: Faults | None = None
) -> list[Component | None]:
    """The chosen node: its GPUs, faults of the last days, its links, and what they touch."""
    past = [one for one in faulty_gpus.of(faults or {}, node["cluster"], node["gpus"]) if not faulty_gpus.is_open(one)]
    numbers = dict(zip(node["gpus"], node["index"], strict=True))
    inside = ", ".join(
        f"{node_links.KINDS.get(one['kind'], one['kind'])} {formats.clip(one['name'], 30)}"
        for one in (view or {}).get("inside") or []
    )
    where = " · ".join(
        part
        for part in (inside, node.get("pool") or "", str(node.get("gpu_model") or "").removeprefix("NVIDIA "))
        if part
    )
    cards: list[Component | None] = [
        parts.card(
            formats.clip(node["node"], 60),
            html.P(where, className="soft") if where else None,
            gpu_table(fleet, node, query),
            html.Div([html.H3("Faults of the last 7 days"), *(faulty_gpus.line(one, query) for one in past)])
            if past
            else None,
            parts.link("Close", query.link(node=None, **{"in": None}), "button small"),
        )
    ]
    if view:
        cards.append(node_links.matrix(view, numbers))
    if touched:
        cards.append(parts.card("If a link fails", *(node_links.reach(one, query) for one in touched)))
    return cards


def gpu_table(fleet: Row, node: Row, query: Query) -> Component:
    """Each GPU of a node: who holds it, what it did, how hot it is, its finding."""
    columns = [
        parts.Column("GPU", "nowrap"),
        parts.Column("Held by"),
        parts.Column("Mostly", hint="What most of the last hours was"),
        parts.Column("°C", "r"),
    ]
    body = [
        [
            html.Span(
                str(n if node["index"][n] is None else node["index"][n]),
                title=node["gpus"][n],
                className="mono",
            ),
            holder(fleet, node, n, query),
            bucket_word(node, n),
            parts.num(formats.MISSING if node["celsius"][n] is None else f"{node['celsius'][n]:.0f}"),
        ]
        for n in range(min(len(node["gpus"]), MAX_GPUS))
    ]
    return html.Div(parts.table(columns, body, label=f"GPUs of {node['node']}"), className="tight")


def holder(fleet: Row, node: Row, n: int, query: Query) -> Component:
    """The job and team of a GPU, or its state, and its worst finding."""
    lines: list[Component] = []
    job, team = node["job"][n], node["team"][n]
    if job is not None:
        name = str(fleet["jobs"][job]["job"])
        lines.append(parts.link(formats.clip(name, 36), job_link(query, node["cluster"], name), "title", name))
        more = node["jobs"][n] - 1
        under: list[Component | str] = [parts.team_link(query, fleet["teams"][team])] if team is not None else []
        under += [f" and {count(more, 'more job')}"] if more > 0 else []
        under += (
            [" · ", parts.link("on the map", query.link(job=name, **{"in": node["cluster"]}))]
            if fleet["jobs"][job]["gpus"] > 1
            else []
        )
        lines.append(html.Div(under, className="soft small"))
    else:
        lines.append(html.Span(STATES.get(node["state"][n], "Held, job unknown"), className="soft"))
    for place in dict.fromkeys(one for one in (node["fault"][n], node["finding"][n]) if one is not None):
        found = fleet["findings"][place]
        lines.append(
            html.Div(
                [
                    parts.severity(found["severity"]),
                    " ",
                    parts.link(formats.clip(found["title"], 60), finding_link(query, found["key"])),
                ],
                className="small",
            )
        )
    return html.Div(lines)


def bucket_word(node: Row, n: int) -> Component | str:
    """What most of its last hours was."""
    bucket = node["bucket"][n]
    return parts.bucket_word(bucket) if bucket in BUCKET else formats.MISSING


def spread_jobs(fleet: Row, query: Query) -> Component:
    """Jobs on several nodes, those that reach over most leaf switches first."""
    jobs = [job for job in fleet.get("jobs") or [] if job["nodes"] > 1]
    jobs.sort(key=lambda job: (-(job["leaves"] or 0), -job["nodes"], -job["gpus"], job["job"]))
    if not jobs:
        return parts.card(
            "No job runs on several nodes now", states.advice("Click a node of the drawing for its GPUs and links.")
        )
    columns = [
        parts.Column("Job"),
        parts.Column("GPUs", "r"),
        parts.Column("Nodes", "r"),
        parts.Column("Leaves", "r", hint="Leaf switches that it reaches over"),
    ]
    body = [
        [
            html.Div(
                [
                    parts.link(
                        formats.clip(job["job"], 34),
                        query.link(job=job["job"], node=None, **{"in": job["cluster"]}),
                        "title",
                        str(job["job"]),
                    ),
                    html.Div(
                        formats.owner(fleet["teams"][job["team"]]) if job["team"] is not None else "No team assigned",
                        className="soft small",
                    ),
                ]
            ),
            parts.num(f"{job['gpus']:,}"),
            parts.num(f"{job['nodes']:,}"),
            parts.num(formats.MISSING if job["leaves"] is None else f"{job['leaves']:,}"),
        ]
        for job in jobs[:MAX_JOBS]
    ]
    wide = sum(1 for job in jobs if (job["leaves"] or 0) > 1)
    title = (
        f"{wide} job{'s' if wide != 1 else ''} reach{'es' if wide == 1 else ''} over several leaf switches"
        if wide
        else f"{len(jobs)} job{'s run' if len(jobs) != 1 else ' runs'} on several nodes"
    )
    more = html.P(f"and {len(jobs) - MAX_JOBS} more", className="soft") if len(jobs) > MAX_JOBS else None
    return parts.card(
        title,
        parts.table(columns, body, label="Jobs on several nodes"),
        more,
        note="Choose one to see it beside its best place",
    )


def leaves(fleet: Row, query: Query) -> Component:
    """The drawing as a table: leaf switches with their GPUs by state."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for node in fleet.get("nodes") or []:
        groups.setdefault((node["cluster"], node["leaf"] or ""), []).append(node)
    columns = [
        parts.Column("Leaf switch"),
        parts.Column("Nodes", "r"),
        parts.Column("GPUs", "r"),
        parts.Column("Held", "r"),
        parts.Column("Free", "r", hint="In service and unallocated, with those that have a fault"),
        parts.Column("Stranded", "r narrow-hide"),
        parts.Column("Out of service", "r narrow-hide"),
        parts.Column("Faults", "r narrow-hide", hint="GPUs with an open finding about hardware, links or driver"),
    ]
    body = []
    for (cluster, leaf), nodes in sorted(groups.items(), key=lambda one: (one[0][0], not one[0][1], one[0][1]))[
        :MAX_LEAVES
    ]:
        counts = Counter(state for node in nodes for state in node["state"])
        faults = sum(fault is not None for node in nodes for fault in node["fault"])
        broken = free_with_fault(nodes)
        names = html.Details(
            [
                html.Summary(
                    [
                        formats.clip(leaf, 40) or "Not known",
                        html.Span(f" · {formats.clip(cluster, 24)}", className="soft"),
                    ]
                ),
                html.Div([link for node in nodes for link in (node_link(node, query), " ")], className="small"),
            ]
        )
        values = (len(nodes), counts.total(), counts["held"], counts["stranded"], counts["out_of_service"], faults)
        cells: list[Component] = [parts.num(f"{value:,}", None, "num" if value else "num none") for value in values]
        cells.insert(FREE_COLUMN, free_cell(counts["free"] + counts["stranded"], broken))
        body.append([names, *cells])
    more = html.P(f"and {len(groups) - MAX_LEAVES} more", className="soft") if len(groups) > MAX_LEAVES else None
    return parts.card(
        "The same as a table",
        parts.table(columns, body, label="Leaf switches"),
        more,
        note="Open a leaf switch for its nodes",
        name="late",
    )


def free_with_fault(nodes: Sequence[Row]) -> int:
    """How many free GPUs have an open finding about hardware, links or driver."""
    return sum(
        fault is not None and state in ("free", "stranded")
        for node in nodes
        for state, fault in zip(node["state"], node["fault"], strict=True)
    )


def free_cell(free: int, broken: int) -> Component:
    """How many are free, and below it how many of these have a fault."""
    count = parts.num(f"{free:,}", None, "num" if free else "num none")
    return (
        html.Div([count, html.Div(parts.tag(f"{broken:,} with a fault", "bad"), className="small nowrap")])
        if broken
        else count
    )


def node_link(node: Row, query: Query) -> Component:
    """A node, which a click chooses."""
    return parts.link(
        formats.clip(node["node"], 40), query.link(node=str(node["node"]), **{"in": str(node["cluster"])}), "nodelink"
    )
