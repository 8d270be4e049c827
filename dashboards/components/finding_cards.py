"""What a finding rests on, a card each: what it claims of the ledger, who waited, where a gang lies, what made room."""

from __future__ import annotations

from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import parts, quantities
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import place

MAX_EVIDENCE = 40
MAX_LISTED = 12
ROOM = ("moves", "blockers", "shape", "waiting_job", "plan")
"""Evidence of free GPUs in pieces that its own card shows."""

TOLD_ELSEWHERE = ("workload_class", "currency", "price", "saving", "saved_a_month", "saving_per_hour", "at")
PLACEMENT = (
    "spans", "best", "kind", "best_kind", "grade", "worst_level", "best_level", "levels", "best_gpus", "best_nodes",
    "gb_per_s", "mean_gb_per_s", "best_gb_per_s", "bandwidth_ratio", "slowdown_low", "slowdown_high",
    "lost_gpu_hours_low", "lost_gpu_hours_high", "exposed_ratio_low", "exposed_ratio_high", "measured_exposed_ratio",
    "free_gpus", "scheduler",
)  # fmt: skip
"""Evidence of a placement that its own card shows."""


def is_placement(evidence: Row) -> bool:
    """Whether the evidence compares where a gang lies with a better place."""
    return bool(evidence.get("spans") and evidence.get("best"))


def claimed(finding: Row) -> Component | None:
    """GPU time that the finding claims, by bucket of the ledger; nothing where it claims none."""
    told: Row = (finding.get("evidence") or {}).get("claimed_gpu_seconds") or {}
    sizes = {name: size for name, text in told.items() if (size := components_text.number(text))}
    if not sizes:
        return None
    lines = [
        html.Div([parts.bucket_word(name), parts.gpu_time(sizes[name])], className="line")
        for name in sorted(sizes, key=place)
    ]
    strip = [parts.strip(sizes, "Claimed")] if len(sizes) > 1 else []
    whole = sum(sizes.values(), Decimal(0))
    note = "No other finding claims the same time, so findings add up to no more than the ledger"
    title = f"Claims {components_text.gpu_time(whole)} of the ledger"
    return parts.card(title, *strip, html.Div(lines, className="lines"), html.P(note, className="soft small"))


def contention(finding: Row) -> Component | None:
    """What others waited for while these devices lay idle; nothing where nobody did, or nobody asked."""
    told: Row = (finding.get("evidence") or {}).get("contention") or {}
    if not components_text.number(told.get("requests")):
        return None
    hours = components_text.number(told.get("gpu_hours"))
    seconds = None if hours is None else hours * 3600
    count = int(components_text.number(told["requests"]) or 0)
    who = f"{count:,} request{'s' if count != 1 else ''} of others waited and would have fitted"
    rows = [
        ("Contended", parts.gpu_time(seconds)),
        ("Its price", parts.lost(told.get("cost"), str(told.get("currency") or ""))),
        ("Largest request", parts.num(f"{told.get('requested_devices_max')} devices")),
    ]
    return parts.card(
        "Others waited while it lay idle",
        html.P(who),
        keyfacts(rows),
        note="Worse than idle beside nobody",
        name="late",
    )


def placement(evidence: Row) -> Component | None:
    """Where a gang lies beside the best place that was free, and how much slower that makes a step."""
    if not is_placement(evidence):
        return None
    low, high = (
        components_text.number(evidence.get("slowdown_low")),
        components_text.number(evidence.get("slowdown_high")),
    )
    title = "It could have lain nearer"
    if low is not None and high is not None:
        times = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
        title = f"A step takes {times} times as long as on the best free place"
    nodes = components_text.clip(evidence.get("best_nodes") or components_text.MISSING, 160)
    columns = [parts.Column(""), parts.Column("Where it lies"), parts.Column("Best place free then")]
    rows: list[list[Component | str]] = [
        ["Place", said(evidence.get("spans")), said(evidence.get("best"))],
        ["Farthest pair", level(evidence, "worst_level"), level(evidence, "best_level")],
        ["Slowest link", speed(evidence.get("gb_per_s")), speed(evidence.get("best_gb_per_s"))],
        ["Nodes", parts.num(str(quantities.plain(count)) if (count := components_text.number(evidence.get("nodes"))) else components_text.MISSING),
         html.Span(nodes, className="mono")],
    ]  # fmt: skip
    lost = [components_text.number(evidence.get(f"lost_gpu_hours_{end}")) for end in ("low", "high")]
    exposed = [evidence.get(f"exposed_ratio_{end}") for end in ("low", "high")]
    facts = []
    if None not in lost:
        facts.append(
            (
                "Work lost",
                parts.num(
                    " to ".join(dict.fromkeys(components_text.short(one or Decimal(0)) for one in lost)) + " GPU-h"
                ),
            )
        )
    if None not in exposed:
        facts.append(
            ("Waits for links", parts.num(" to ".join(dict.fromkeys(components_text.percent(one) for one in exposed))))
        )
    measured = evidence.get("measured_exposed_ratio")
    note = (
        "From the share of a step that was measured to wait for links, up to the one in published losses"
        if measured is not None
        else "An estimate: the share of a step that waits for links is taken from published losses"
    )
    at = evidence.get("at")
    when = (
        [
            html.P(
                f"Free when it began: {evidence.get('free_gpus')} GPUs there, {components_text.clip(at, 40)}",
                className="soft small",
            )
        ]
        if at
        else []
    )
    table = parts.table(columns, rows, label="Where it lies, and the best place")
    return parts.card(title, table, keyfacts(facts) if facts else None, *when, note=note, name="late")


def said(entry: object) -> str:
    """A word of the evidence."""
    return components_text.clip(entry, 160) if entry not in (None, "") else components_text.MISSING


def level(evidence: Row, name: str) -> Component:
    """A level of links, as the topology has it."""
    return html.Span(said(evidence.get(name)), className="mono")


def speed(entry: object) -> Component:
    """A bandwidth."""
    found = components_text.number(entry)
    return parts.num(components_text.MISSING if found is None else f"{components_text.short(found)} GB/s", entry)


def room(finding: Row, query: Query) -> Component | None:
    """Of free GPUs in pieces: what moving would make room, and the way to what could be placed now."""
    evidence: Row = finding.get("evidence") or {}
    if finding.get("bucket") != "stranded":
        return None
    ratio, moves = evidence.get("fragmentation_ratio"), evidence.get("moves")
    title = "What would make room"
    if components_text.number(ratio) and not evidence.get("waiting_job"):
        title = f"{components_text.percent(ratio)} of what is free was of no use to the usual requests"
    lines = []
    if evidence.get("waiting_job"):
        waited = components_text.number(evidence.get("starved_minutes"))
        shape = components_text.clip(evidence.get("shape") or "", 60)
        for_ = f" for {shape} GPUs" if shape.isdecimal() else f" for {shape}" if shape else ""
        span = f", {components_text.duration(waited * 60)}" if waited is not None else ""
        lines.append(html.P([html.B("Waits: "), f"{components_text.clip(evidence['waiting_job'], 80)}{for_}{span}"]))
    if moves:
        lines.append(html.P([html.B("Fewest moves: "), components_text.clip(moves, 300)]))
    if evidence.get("blockers"):
        lines.append(html.P([html.B("In the way: "), components_text.clip(evidence["blockers"], 300)]))
    way = parts.link(
        "What could be placed now", query.link("/capacity", cluster=str(finding.get("cluster") or "") or None), "button"
    )
    return parts.card(title, *lines, html.Div(way, className="buttons"), name="late")


def keyfacts(rows: list[tuple[str, Component]]) -> Component:
    """Small labels over their values."""
    return html.Div(
        [html.Div([html.Div(name, className="label"), shown]) for name, shown in rows], className="keyfacts few"
    )


def facts(finding: Row, rule: Row) -> Component:
    """The numbers the rule judged by, where it was, and why it matters."""
    evidence: Row = finding.get("evidence") or {}
    hidden = (
        *TOLD_ELSEWHERE,
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
        rows.append(["Ledger bucket", html.Span("none: no time counts as wasted", className="soft")])
    why = [html.P(components_text.clip(rule.get("why"), 400), className="soft")] if rule.get("why") else []
    columns = [parts.Column("Evidence"), parts.Column("", "r")]
    priced = (
        [states.advice(f"Without a price: {components_text.clip(evidence['price'], 200)}")]
        if evidence.get("price")
        else []
    )
    return parts.card(
        "Why we say so",
        *why,
        parts.table(columns, rows, label="Evidence"),
        *priced,
        limits(evidence),
        *where(finding),
        name="late",
    )


def limits(evidence: Row) -> Component | None:
    """The thresholds in force when it was judged."""
    rows = quantities.rows(evidence.get("thresholds") or {}, MAX_EVIDENCE)
    if not rows:
        return None
    table = parts.table([parts.Column("Limit"), parts.Column("", "r")], rows, label="Limits of the rule")
    return html.Details([html.Summary(f"{len(rows)} limits of the rule"), table])


def where(finding: Row) -> list[Component]:
    """Nodes and devices, folded."""
    return [
        html.Details(
            [
                html.Summary(f"{len(listed)} {name if len(listed) > 1 else name[:-1]}"),
                html.Ul([html.Li(components_text.clip(entry, 60), className="mono") for entry in listed[:MAX_LISTED]]),
                html.P(f"and {len(listed) - MAX_LISTED} more", className="soft") if len(listed) > MAX_LISTED else None,
            ]
        )
        for name in ("nodes", "devices")
        if (listed := finding.get(name) or [])
    ]
