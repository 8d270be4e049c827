"""A finding as a card or a table row, for lists and for other pages."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, gpu_facts, parts
from gpuwatch.dashboards.shell.query import Query, finding_link, job_link

STATE_WORDS = {
    "open": "Open",
    "resolved": "Resolved",
    "acked": "Acknowledged",
    "snoozed": "Snoozed",
    "exempt": "Exempt",
}
TAKEN_BACK = {
    "rule_changed": "Withdrawn: its rule changed",
    "records changed": "Withdrawn: later records contradict it",
}
"""Resolution reasons that withdraw a finding: it was not waste after all and has no cost."""
KINDS = {
    "job": "Job",
    "gpu": "GPU",
    "slice": "MIG slice",
    "node": "Node",
    "pool": "Pool",
    "team": "Team",
    "queue": "Queue",
}
"""Kinds of subjects."""

SAVING_RULES = ("right-sizing", "spot-suitability", "own-vs-cloud")
"""Rules that propose savings. Other rules without a bucket report waits, which waste no GPU time."""

SAVINGS = {"saving": "per 30 days", "saved_a_month": "per month", "saving_per_hour": "per hour of use"}
"""Evidence fields with the amount saved, and their time span."""


@dataclass(frozen=True)
class Saving:
    """What following a finding would save. `amount` is None if there is no price; `span` is the time span."""

    amount: Decimal | None
    currency: str
    span: str = ""


def taken_back(finding: Row) -> str | None:
    """Why a finding was withdrawn; None if it was not."""
    return TAKEN_BACK.get(str(finding.get("resolved_reason")))


def state_words(finding: Row) -> str:
    """The label of the state, or why the finding was withdrawn."""
    state = str(finding.get("state"))
    return taken_back(finding) or STATE_WORDS.get(state, state)


def saving(finding: Row) -> Saving | None:
    """The saving a finding proposes; None for one about waste."""
    if finding.get("bucket") is not None or finding.get("detector") not in SAVING_RULES:
        return None
    evidence: Row = finding.get("evidence") or {}
    currency = str(evidence.get("currency") or finding.get("currency") or "")
    for name, span in SAVINGS.items():
        amount = formats.number(evidence.get(name))
        if amount is not None:
            return Saving(amount, currency, span)
    return Saving(None, currency)


def per_day(finding: Row) -> Decimal | None:
    """The cost a day; None without a price, where there is no rate, and for money that could be saved."""
    return None if finding.get("saves") or no_rate(finding) else formats.number(finding.get("cost_a_day"))


def no_rate(finding: Row) -> str:
    """Why a finding has no cost a day; empty if it has one."""
    if (finding.get("evidence") or {}).get("lost_gpu_hours") is not None:
        return "Work is lost once, so it has no cost a day"
    if finding.get("state") == "resolved":
        return "It has ended, so it costs nothing now"
    if finding.get("day_rate") is False:
        return "It lasted less than a day, so it has no cost a day"
    return ""


def has_rate(finding: Row) -> bool:
    """Whether `daily` is more than a dash."""
    if finding.get("saves") or no_rate(finding):
        return False
    return per_day(finding) is not None or bool(formats.number(finding.get("gpu_hours_a_day")))


def daily(finding: Row) -> Component:
    """The cost a day, or GPU-hours a day without a price; a dash with the reason where there is no rate."""
    if (why := no_rate(finding)) and not finding.get("saves"):
        return parts.num(formats.MISSING, why)
    cost, hours = per_day(finding), formats.number(finding.get("gpu_hours_a_day"))
    if cost is None and hours and not finding.get("saves"):
        return parts.num(f"{formats.short(hours)} GPU-h", "No price for this")
    return parts.money(cost, day_currency(finding))


def spanned(amount: Row, over: bool = False) -> str:
    """`$41.20 a day`; `$41.20 so far` where one of the findings has not lasted a day, or some are `over`; empty without an amount."""
    rate = amount.get("day_rate") is not False and not over
    kind, word = ("a_day", "a day") if rate else ("so_far", "so far")
    if (cost := formats.number(amount.get(f"cost_{kind}"))) is not None:
        return f"{formats.money(cost, str(amount.get('currency') or ''))} {word}"
    hours = formats.number(amount.get(f"gpu_hours_{kind}"))
    return f"{formats.short(hours)} GPU-h {word}" if hours else ""


def day_currency(finding: Row) -> str:
    """The currency of `per_day`."""
    return str(finding.get("currency_a_day") or finding.get("currency") or "")


def wasted(finding: Row) -> Component:
    """The cost so far, or that of lost work; a dash where no waste was counted."""
    evidence: Row = finding.get("evidence") or {}
    lost = formats.number(evidence.get("lost_cost"))
    if lost is not None:
        money = parts.lost(lost, str(evidence.get("currency") or ""))
        return html.Span([money, html.Span(" of lost work", className="soft small spare")])
    if not formats.number(finding.get("wasted_cost")) and not formats.number(finding.get("wasted_gpu_seconds")):
        return parts.num(formats.MISSING, "Not counted as waste, so it has no cost")
    return parts.lost(finding.get("wasted_cost"), str(finding.get("currency") or ""))


def amount(finding: Row) -> Component:
    """The cost so far, or the proposed saving, which is never shown as a loss."""
    found = saving(finding)
    if found is None:
        return wasted(finding)
    if found.amount is None:
        return html.Span("Could save", className="soft", title="Amount unknown: no price")
    money = parts.money(found.amount, found.currency)
    return html.Span(
        [
            html.Span("could save ", className="soft small"),
            money,
            html.Span(f" {found.span}", className="soft small spare"),
        ],
        className="saves",
    )


def wasted_seconds(finding: Row) -> object:
    """Wasted GPU-seconds; None if there are none."""
    found = finding.get("wasted_gpu_seconds")
    return found if formats.number(found) else None


def subject(finding: Row, query: Query, length: int = 48, kind_word: bool = True) -> Component:
    """The subject of the finding, with its kind. Jobs, slices, pools and teams link to their pages."""
    about: Row = finding.get("subject") or {}
    kind, ident = str(about.get("kind") or ""), str(about.get("id") or "")
    name = str(about.get("name") or ident)
    known = name == ident or ident.startswith(("GPU-", "MIG-"))  # nobody knows a UUID
    label = formats.clip(name if known else f"{name} ({ident})", length)
    cluster = str(finding.get("cluster") or "") or None
    if kind == "job" and ident:
        return parts.link(label, job_link(query, finding.get("cluster"), ident), title=f"job {ident}")
    word = KINDS.get(kind, kind)
    href = {
        "team": query.link(f"/team/{ident}", team=None),
        "node": query.link("/fleet", q=ident, cluster=cluster),
        "pool": query.link("/capacity", cluster=cluster),
        "slice": query.link("/mig", cluster=cluster),
        "gpu": gpu_facts.gpu_link(query, {"gpu": ident, "cluster": cluster}),
    }.get(kind)
    if kind == "gpu":
        label = formats.clip(_gpu(finding, ident), length)
    title = f"{word} {ident}".strip()
    shown = parts.link(label, href, title=title) if href and ident else html.Span(label, title=title)
    return html.Span([html.Span(f"{word} ", className="soft") if kind_word else None, shown], className="about")


def _gpu(finding: Row, ident: str) -> str:
    """`7 on gpu-node-0042`; the start of its UUID where its index is not known."""
    index, nodes = finding.get("gpu_index"), finding.get("nodes") or []
    if len(nodes) != 1:
        return formats.device(ident)
    return f"{formats.device(ident) if index is None else index} on {nodes[0]}"


def ended(finding: Row) -> str:
    """The state of a finding that is not open, with its end."""
    until = finding.get("ended_at") if finding.get("state") == "resolved" else None
    return f"ended {formats.clock(until)}" if until and not taken_back(finding) else state_words(finding)


def card(finding: Row, query: Query, named: bool = False) -> Component:
    """Severity, summary, cost so far and per day, owner, start. The title links to the finding. `named`: with its subject."""
    rate = per_day(finding)
    facts = [
        parts.severity(finding.get("severity")),
        *([subject(finding, query)] if named else []),
        html.Span(formats.clip(formats.owner(finding.get("team")), 28)),
        html.Span(f"since {formats.when(finding.get('started_at'))}", className="soft"),
        *([parts.tag(ended(finding))] if finding.get("state") != "open" else []),
    ]
    money = [amount(finding)]
    if rate is not None:
        money.append(html.Span([parts.money(rate, day_currency(finding)), " per day"], className="soft"))
    return html.Div(
        [
            html.Div(
                [
                    parts.link(
                        formats.clip(finding.get("title"), 90),
                        finding_link(query, str(finding.get("key"))),
                        "title",
                    ),
                    html.Div(formats.clip(finding.get("summary"), 220), className="two-lines"),
                    html.Div(facts, className="facts"),
                ],
                className="what",
            ),
            html.Div(money, className="money"),
        ],
        className="finding",
    )
