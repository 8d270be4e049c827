"""Finding page: cards with ledger time, waiting requests, gang placement, possible moves and evidence."""

from __future__ import annotations

from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts, quantities
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import place

MAX_EVIDENCE = 40
MAX_LISTED = 12
ROOM = ("moves", "blockers", "shape", "waiting_job", "plan")
"""Evidence shown on the card about moves."""

SHOWN_ELSEWHERE = ("workload_class", "currency", "price", "saving", "saved_a_month", "saving_per_hour", "at")
PLACEMENT = (
    "spans", "best", "kind", "best_kind", "grade", "worst_level", "best_level", "levels", "best_gpus", "best_nodes",
    "gb_per_s", "mean_gb_per_s", "best_gb_per_s", "bandwidth_ratio", "slowdown_low", "slowdown_high",
    "lost_gpu_hours_low", "lost_gpu_hours_high", "exposed_ratio_low", "exposed_ratio_high", "measured_exposed_ratio",
    "free_gpus", "scheduler",
)  # fmt: skip
"""Evidence shown on the placement card."""


def is_placement(evidence: Row) -> bool:
    """Whether the evidence compares a gang's placement with a better one."""
    return bool(evidence.get("spans") and evidence.get("best"))


def claimed(finding: Row) -> Component | None:
    """The wasted GPU time of the finding, by ledger bucket; nothing if it has none."""
    by_bucket: Row = (finding.get("evidence") or {}).get("claimed_gpu_seconds") or {}
    sizes = {name: size for name, text in by_bucket.items() if (size := formats.number(text))}
    if not sizes:
        return None
    lines = [
        html.Div([parts.bucket_word(name), parts.gpu_time(sizes[name])], className="line")
        for name in sorted(sizes, key=place)
    ]
    strip = [parts.strip(sizes, "Wasted")] if len(sizes) > 1 else []
    whole = sum(sizes.values(), Decimal(0))
    note = "Each GPU-hour counts towards one finding only, so findings never add up to more than the ledger"
    title = f"{formats.gpu_time(whole)} of the ledger counted as waste"
    return parts.card(title, *strip, html.Div(lines, className="lines"), html.P(note, className="soft small"))


def contention(finding: Row) -> Component | None:
    """Requests that waited while these devices were idle; nothing if there were none."""
    waits: Row = (finding.get("evidence") or {}).get("contention") or {}
    if not formats.number(waits.get("requests")):
        return None
    hours = formats.number(waits.get("gpu_hours"))
    seconds = None if hours is None else hours * 3600
    count = int(formats.number(waits["requests"]) or 0)
    sentence = f"{count:,} request{'s' if count != 1 else ''} from others waited and would have fit"
    rows = [
        ("GPU time waited for", parts.gpu_time(seconds)),
        ("Its cost", parts.lost(waits.get("cost"), str(waits.get("currency") or ""))),
        ("Largest request", parts.num(f"{waits.get('requested_devices_max')} devices")),
    ]
    return parts.card(
        "Others waited while these GPUs were idle",
        html.P(sentence),
        keyfacts(rows),
        note="More urgent than idle GPUs that no one waits for",
        name="late",
    )


def placement(evidence: Row) -> Component | None:
    """A gang's placement, compared with the best one that was free, and the slowdown."""
    if not is_placement(evidence):
        return None
    count = formats.number(evidence.get("nodes"))
    nodes = formats.clip(evidence.get("best_nodes") or formats.MISSING, 160)
    columns = [parts.Column(""), parts.Column("Actual placement"), parts.Column("Best free at the time")]
    rows: list[list[Component | str]] = [
        ["Spans", word(evidence.get("spans")), word(evidence.get("best"))],
        ["Farthest pair", level(evidence, "worst_level"), level(evidence, "best_level")],
        ["Slowest link", speed(evidence.get("gb_per_s")), speed(evidence.get("best_gb_per_s"))],
        ["Nodes", parts.num(formats.MISSING if count is None else str(quantities.plain(count))),
         html.Span(nodes, className="mono")],
    ]  # fmt: skip
    facts = placement_facts(evidence)
    when = None
    if at := evidence.get("at"):
        free = f"Free there when the job started ({formats.when(at)}): {evidence.get('free_gpus')} GPUs"
        when = html.P(free, className="soft small")
    note = (
        "Low end: the measured share of a step spent waiting on the network; high end: published figures"
        if evidence.get("measured_exposed_ratio") is not None
        else "An estimate: the share of a step spent waiting on the network comes from published figures"
    )
    table = parts.table(columns, rows, label="Actual and best placement")
    shown = [table, keyfacts(facts) if facts else None, *([when] if when else [])]
    return parts.card(slowdown(evidence), *shown, note=note, name="late")


def slowdown(evidence: Row) -> str:
    """How much longer a step takes than with the best free placement, if known."""
    low, high = (formats.number(evidence.get(f"slowdown_{end}")) for end in ("low", "high"))
    if low is None or high is None:
        return "A closer placement was free"
    return f"Each step takes {between(f'{low:.2f}', f'{high:.2f}')} times as long as with the best free placement"


def placement_facts(evidence: Row) -> list[tuple[str, Component]]:
    """Lost work and network wait, each as a range; unknown ones are left out."""
    facts = []
    lost = [formats.number(evidence.get(f"lost_gpu_hours_{end}")) for end in ("low", "high")]
    if None not in lost:
        facts.append(("Work lost", parts.num(between(*(formats.short(one or Decimal(0)) for one in lost)) + " GPU-h")))
    exposed = [evidence.get(f"exposed_ratio_{end}") for end in ("low", "high")]
    if None not in exposed:
        facts.append(("Network wait", parts.num(between(*map(formats.percent, exposed)))))
    return facts


def between(*ends: str) -> str:
    """`1.05 to 1.20`, or only `1.05` if both ends read the same."""
    return " to ".join(dict.fromkeys(ends))


def word(entry: object) -> str:
    """A text value of the evidence."""
    return formats.clip(entry, 160) if entry not in (None, "") else formats.MISSING


def level(evidence: Row, name: str) -> Component:
    """A network level."""
    return html.Span(word(evidence.get(name)), className="mono")


def speed(entry: object) -> Component:
    """A bandwidth."""
    found = formats.number(entry)
    return parts.num(formats.MISSING if found is None else f"{formats.short(found)} GB/s", entry)


def room(finding: Row, query: Query) -> Component | None:
    """For fragmented free GPUs: the moves that would help, and a link to the capacity page."""
    evidence: Row = finding.get("evidence") or {}
    if finding.get("bucket") != "stranded":
        return None
    ratio, moves = evidence.get("fragmentation_ratio"), evidence.get("moves")
    title = "Moves that would help"
    if formats.number(ratio) and not evidence.get("waiting_job"):
        title = f"{formats.percent(ratio)} of the free GPUs could not be used by the usual requests"
    lines = []
    if evidence.get("waiting_job"):
        waited = formats.number(evidence.get("waited_minutes", evidence.get("starved_minutes")))
        shape = formats.clip(evidence.get("shape") or "", 60)
        for_ = f" for {shape} GPUs" if shape.isdecimal() else f" for {shape}" if shape else ""
        span = f", {formats.duration(waited * 60)}" if waited is not None else ""
        lines.append(html.P([html.B("Waiting: "), f"{formats.clip(evidence['waiting_job'], 80)}{for_}{span}"]))
    if moves:
        lines.append(html.P([html.B("Fewest moves: "), formats.clip(moves, 300)]))
    if evidence.get("blockers"):
        lines.append(html.P([html.B("In the way: "), formats.clip(evidence["blockers"], 300)]))
    way = parts.link(
        "See what fits now", query.link("/capacity", cluster=str(finding.get("cluster") or "") or None), "button"
    )
    return parts.card(title, *lines, html.Div(way, className="buttons"), name="late")


def keyfacts(rows: list[tuple[str, Component]]) -> Component:
    """Label and value pairs."""
    return html.Div(
        [html.Div([html.Div(name, className="label"), shown]) for name, shown in rows], className="keyfacts few"
    )


def facts(finding: Row, rule: Row) -> Component:
    """The numbers behind the finding, where it happened, and why it matters."""
    evidence: Row = finding.get("evidence") or {}
    hidden = (
        *SHOWN_ELSEWHERE,
        *(PLACEMENT if is_placement(evidence) else ()),
        *(ROOM if finding.get("bucket") == "stranded" else ()),
    )
    rows: list[list[Component | str]] = quantities.rows(
        {name: entry for name, entry in evidence.items() if name not in hidden}, MAX_EVIDENCE
    )
    rows.append(["Confidence", parts.percent(finding.get("confidence"))])
    if finding.get("bucket"):
        rows.append(["Ledger bucket", parts.bucket_word(str(finding["bucket"]))])
    else:
        rows.append(["Ledger bucket", html.Span("none; no GPU time counts as wasted", className="soft")])
    why = [html.P(formats.clip(rule.get("why"), 400), className="soft")] if rule.get("why") else []
    columns = [parts.Column("Evidence"), parts.Column("", "r")]
    priced = [states.advice(f"No price: {formats.clip(evidence['price'], 200)}")] if evidence.get("price") else []
    return parts.card(
        "Why this was flagged",
        *why,
        parts.table(columns, rows, label="Evidence"),
        *priced,
        limits(evidence),
        *where(finding),
        name="late",
    )


def limits(evidence: Row) -> Component | None:
    """The thresholds used in the evaluation."""
    rows = quantities.rows(evidence.get("thresholds") or {}, MAX_EVIDENCE)
    if not rows:
        return None
    table = parts.table([parts.Column("Threshold"), parts.Column("", "r")], rows, label="Thresholds of the rule")
    return html.Details([html.Summary(f"{len(rows)} thresholds of the rule"), table])


def where(finding: Row) -> list[Component]:
    """Nodes and devices, collapsed."""
    return [
        html.Details(
            [
                html.Summary(f"{len(listed)} {name if len(listed) > 1 else name[:-1]}"),
                html.Ul([html.Li(formats.clip(entry, 60), className="mono") for entry in listed[:MAX_LISTED]]),
                html.P(f"and {len(listed) - MAX_LISTED} more", className="soft") if len(listed) > MAX_LISTED else None,
            ]
        )
        for name in ("nodes", "devices")
        if (listed := finding.get(name) or [])
    ]
