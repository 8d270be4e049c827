"""A finding in a line: for lists, and inside other pages."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.shell.query import Query, finding_link, job_link

DAY_S = 86400
STATE_WORDS = {
    "open": "Open",
    "resolved": "Resolved",
    "acked": "Acknowledged",
    "snoozed": "Snoozed",
    "exempt": "Exempt",
}
TAKEN_BACK = {
    "rule_changed": "Withdrawn: its rule changed",
    "records changed": "Withdrawn: later records say otherwise",
}
"""Reasons to resolve that take a finding back: it costs nothing, and was no waste."""
KINDS = {
    "job": "Job",
    "gpu": "GPU",
    "slice": "MIG slice",
    "node": "Node",
    "pool": "Pool",
    "team": "Team",
    "queue": "Queue",
}
"""What a finding can be about."""

SAVING_RULES = ("right-sizing", "spot-suitability", "own-vs-cloud")
"""Rules that say what would be cheaper. Others without a bucket tell of waits: nobody wastes the time they are about."""

SAVINGS = {"saving": "in 30 days", "saved_a_month": "a month", "saving_per_hour": "an hour of use"}
"""Numbers of the evidence that say what a remedy saves."""


@dataclass(frozen=True)
class Saving:
    """What following a finding would save: money, and of which time. `amount` None: nobody knows a price."""

    amount: Decimal | None
    currency: str
    span: str = ""


def taken_back(finding: Row) -> str | None:
    """Why a finding was taken back, in words; None of one that was not. Only what is resolved has a reason."""
    return TAKEN_BACK.get(str(finding.get("resolved_reason")))


def state_words(finding: Row) -> str:
    """The state in words; of what was resolved, whether it was taken back."""
    state = str(finding.get("state"))
    return taken_back(finding) or STATE_WORDS.get(state, state)


def saving(finding: Row) -> Saving | None:
    """What a finding that tells of savings would save; None for one that tells of waste."""
    if finding.get("bucket") is not None or finding.get("detector") not in SAVING_RULES:
        return None
    evidence: Row = finding.get("evidence") or {}
    currency = str(evidence.get("currency") or finding.get("currency") or "")
    for name, span in SAVINGS.items():
        amount = components_text.number(evidence.get(name))
        if amount is not None:
            return Saving(amount, currency, span)
    return Saving(None, currency)


def per_day(finding: Row) -> Decimal | None:
    """Money a day that the condition has cost so far; None where it is unknown, nothing, or lasted under a minute."""
    cost = components_text.number(finding.get("wasted_cost"))
    start = components_text.moment(finding.get("started_at"))
    end = components_text.moment(finding.get("ended_at") or finding.get("last_seen_at"))
    if cost is None or start is None or end is None or (end - start).total_seconds() < 60 or not cost:
        return None
    return cost / Decimal((end - start).total_seconds()) * DAY_S


def wasted(finding: Row) -> Component:
    """Money so far. Missing where no waste was counted: what nobody measured is neither work nor waste."""
    if not components_text.number(finding.get("wasted_cost")) and not components_text.number(
        finding.get("wasted_gpu_seconds")
    ):
        return parts.num(components_text.MISSING, "Not counted as waste, so without a price")
    return parts.lost(finding.get("wasted_cost"), str(finding.get("currency") or ""))


def amount(finding: Row) -> Component:
    """What it cost so far, or, of a finding that tells of savings, what could be saved: never as a loss."""
    found = saving(finding)
    if found is None:
        return wasted(finding)
    if found.amount is None:
        return html.Span("Could save", className="soft", title="No price says how much")
    money = parts.money(found.amount, found.currency)
    return html.Span(
        [html.Span("could save ", className="soft small"), money, html.Span(f" {found.span}", className="soft small")],
        className="saves",
    )


def wasted_seconds(finding: Row) -> object:
    """GPU-seconds wasted; None where none was counted."""
    found = finding.get("wasted_gpu_seconds")
    return found if components_text.number(found) else None


def subject(finding: Row, query: Query, length: int = 48, kind_word: bool = True) -> Component:
    """What the finding is about, with the word of its kind. A job leads to its page, a slice to the slices, a pool and a team to what is theirs."""
    about: Row = finding.get("subject") or {}
    kind, ident = str(about.get("kind") or ""), str(about.get("id") or "")
    name = str(about.get("name") or ident)
    said = components_text.clip(name if name == ident else f"{name} ({ident})", length)
    cluster = str(finding.get("cluster") or "") or None
    if kind == "job" and ident:
        return parts.link(said, job_link(query, finding.get("cluster"), ident), title=f"job {ident}")
    word = KINDS.get(kind, kind)
    href = {
        "team": query.link("/teams", team=ident, by="user"),
        "pool": query.link("/capacity", cluster=cluster),
        "slice": query.link("/mig", cluster=cluster),
    }.get(kind)
    if kind == "gpu" and name == ident:
        said = components_text.clip(components_text.device(ident), length)
    title = f"{word} {ident}".strip()
    shown = parts.link(said, href, title=title) if href and ident else html.Span(said, title=title)
    return html.Span([html.Span(f"{word} ", className="soft") if kind_word else None, shown], className="about")


def card(finding: Row, query: Query) -> Component:
    """Severity, one sentence, dollars so far and a day, owner, since when. All of it leads to the detail."""
    currency = str(finding.get("currency") or "")
    daily = per_day(finding)
    facts = [
        parts.severity(finding.get("severity")),
        html.Span(components_text.clip(components_text.owner(finding.get("team")), 28)),
        html.Span(f"since {components_text.when(finding.get('started_at'))}", className="soft"),
    ]
    money = [amount(finding)]
    if daily is not None:
        money.append(html.Span([parts.money(daily.quantize(Decimal("0.01")), currency), " a day"], className="soft"))
    return html.Div(
        [
            html.Div(
                [
                    parts.link(
                        components_text.clip(finding.get("title"), 90),
                        finding_link(query, str(finding.get("key"))),
                        "title",
                    ),
                    html.Div(components_text.clip(finding.get("summary"), 220), className="two-lines"),
                    html.Div(facts, className="facts"),
                ],
                className="what",
            ),
            html.Div(money, className="money"),
        ],
        className="finding",
    )
