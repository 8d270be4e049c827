"""One job: what it held, where its time went, what it cost, what was found."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import figures, ledger_math, parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.components.findings_list import card as finding_card
from gpuwatch.dashboards.components.waterfall import waterfall
from gpuwatch.dashboards.pages.finding import fact
from gpuwatch.dashboards.pages.jobs import state_tag
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKET, Scheme

MAX_RUNS = 20
MAX_MISSING = 3
MAX_WHY = 400
MAX_DEVICES = 64
FEW = 8


async def load(api: Api, query: Query) -> Row:
    """The job of the path; `in` (or the filter) says on which cluster."""
    return await api.job(query.path.removeprefix("/jobs/"), query.get("in") or query.get("cluster") or None)


@page("/jobs/*", "Job", load, filters=())
def layout(data: Row, query: Query, scheme: Scheme) -> Component:
    """Facts, waterfall, series, findings, placement, runs."""
    return html.Div(
        [
            parts.link("← Jobs", query.link("/jobs"), "back"),
            html.Div(
                [
                    html.Div([summary(data, query), time(data), chart(data, scheme)], className="column"),
                    html.Div([found(data, query), placement(data), runs(data), devices(data)], className="column"),
                ],
                className="two-one",
            ),
        ]
    )


def summary(data: Row, query: Query) -> Component:
    """Name, owner, cost and time."""
    currency, ident = str(data.get("currency") or ""), str(data.get("id"))
    name = str(data.get("name") or ident)
    times = f"{components_text.when(data.get('started_at'))} to {components_text.when(data.get('ended_at')) if data.get('ended_at') else 'now'}"
    waited = ledger_math.ratio(seconds_between(data.get("submitted_at"), data.get("started_at")), 1)
    return html.Section(
        [
            html.Div([state_tag(data.get("state")), html.Span(times, className="soft")], className="facts"),
            html.H1(components_text.clip(name, 90), title=name),
            html.P(
                [
                    html.Span(components_text.clip(ident, 120), className="mono"),
                    f" on {data.get('cluster') or components_text.MISSING}",
                ],
                className="soft",
            ),
            html.Div(
                [
                    fact("Cost", parts.money(data.get("cost"), currency)),
                    fact("GPU time", parts.gpu_time(data.get("gpu_seconds"))),
                    fact("Effective", parts.percent(ledger_math.effective(data))),
                    fact(
                        "GPUs",
                        parts.num(str(data.get("gpus") if data.get("gpus") is not None else components_text.MISSING)),
                    ),
                    fact("Waited", parts.num(components_text.duration(waited))),
                    fact("Workload", components_text.workload(data.get("workload_class"))),
                    fact("Team", parts.team_link(query, data.get("team"))),
                    fact("User", components_text.clip(components_text.owner(data.get("user")), 32)),
                    fact("Account", components_text.clip(data.get("account"), 32)),
                    fact("Queue", components_text.clip(data.get("queue"), 32)),
                    fact("Scheduler", components_text.clip(data.get("scheduler"), 32)),
                ],
                className="keyfacts",
            ),
        ],
        className="card",
    )


def seconds_between(start: object, end: object) -> float | None:
    """Seconds from one time to another."""
    first, last = components_text.moment(start), components_text.moment(end)
    return (last - first).total_seconds() if first and last else None


def time(data: Row) -> Component:
    """Where the job's GPU time went."""
    sums = ledger_math.by_key(data.get("waterfall") or [], "bucket")
    whole = ledger_math.total(sums)
    if not whole.seconds:
        return parts.card("No booked time yet", states.advice("The books of its first minutes are being made."))
    largest = max(sums, key=lambda name: sums[name].seconds)
    word = BUCKET[largest].word if largest in BUCKET else largest
    title = f"Most of its time: {components_text.inside(word)}, {components_text.percent(sums[largest].seconds / whole.seconds)}"
    return parts.card(title, waterfall(sums, str(data.get("currency") or ""), "Waterfall of the job"), name="tight")


def chart(data: Row, scheme: Scheme) -> Component:
    """Readings over its life."""
    figure = figures.evidence(data.get("series") or {}, scheme)
    if figure is None:
        return parts.card(
            "No readings for this job",
            states.advice("Its GPUs were not measured, or the readings are past their retention."),
        )
    graph = parts.graph(figure, figures.TALL)
    return parts.card("What its GPUs did", graph, note="Mean over its devices, UTC; a gap was not measured")


def found(data: Row, query: Query) -> Component:
    """Findings that hang on it."""
    items: list[Row] = data.get("findings") or []
    if not items:
        return parts.card("Nothing found about this job")
    title = f"{len(items)} finding{'s' if len(items) > 1 else ''} about this job"
    return parts.card(title, html.Div([finding_card(item, query) for item in items], className="stack"))


def placement(data: Row) -> Component | None:
    """How near its GPUs are to each other beside what was free when it began; nothing for a single one."""
    told: Row = data.get("placement") or {}
    if (told.get("gpus") or 0) < 2:
        return None
    grade = told.get("grade")
    if grade is None:
        title = "Placement not graded"
    elif grade == "A":
        title = "Placed as near as could be"
    else:
        title = f"Placement {grade}: its GPUs could have been nearer"
    speed, slow = told.get("gb_per_s"), told.get("slowdown")
    rows = [
        fact("Grade", str(grade or components_text.MISSING)),
        fact("Farthest pair", components_text.clip(told.get("worst_level"), 24)),
        fact("Slowest link", parts.num(f"{speed:.0f} GB/s" if speed is not None else components_text.MISSING)),
    ]
    note = None
    if slow:
        lost = (
            f"{components_text.percent(slow['lost_ratio_low'])} to {components_text.percent(slow['lost_ratio_high'])}"
        )
        rows.append(fact("Work lost", parts.num(lost)))
        shares = f"{100 * slow['exposed_ratio_low']:.1f} to {100 * slow['exposed_ratio_high']:.1f} %"
        note = f"Estimated: {shares} of a step waits for links on the best placement; nobody measured that share"
    lacking = [
        states.fix(str(one.get("fix")), f"Not known: {one.get('what')}. ")
        for one in (told.get("missing") or [])[:MAX_MISSING]
    ]
    why = html.P(
        components_text.sentence(components_text.clip(str(told.get("why") or "").removeprefix("Not graded: "), MAX_WHY))
    )
    return parts.card(title, why, html.Div(rows, className="keyfacts"), *lacking, note=note)


def runs(data: Row) -> Component | None:
    """Its runs, where it was requeued or retried."""
    items: list[Row] = data.get("runs") or []
    if not items:
        return None
    columns = [parts.Column("Started"), parts.Column("Ended"), parts.Column("State"), parts.Column("GPUs", "r")]
    rows = [
        [
            components_text.when(item.get("started_at") or item.get("start")),
            components_text.when(item.get("ended_at") or item.get("end")),
            state_tag(item.get("state")),
            parts.num(str(item.get("gpus") if item.get("gpus") is not None else components_text.MISSING)),
        ]
        for item in items[:MAX_RUNS]
    ]
    title = f"{len(items)} run{'s' if len(items) > 1 else ''}"
    return parts.card(title, parts.table(columns, rows, label="Runs"))


def devices(data: Row) -> Component | None:
    """The devices it held."""
    items = data.get("devices") or []
    if not items:
        return None
    names = [device_name(item) for item in items]
    more = html.P(f"and {len(names) - MAX_DEVICES} more", className="soft") if len(names) > MAX_DEVICES else None
    shown = html.Ul([html.Li(components_text.clip(name, 70), className="mono") for name in names[:MAX_DEVICES]])
    title = f"{len(names)} device{'s' if len(names) > 1 else ''}"
    return html.Section(html.Details([html.Summary(title), shown, more], open=len(names) <= FEW), className="card")


def device_name(item: object) -> str:
    """A device as text, whether the API names it or describes it."""
    if not isinstance(item, dict):
        return str(item)
    ident = item.get("id") or item.get("device") or item.get("slice") or item.get("gpu")
    node = item.get("node")
    where = None if str(node) in str(ident) else node
    return " · ".join(str(part) for part in (ident, where, item.get("profile")) if part)
