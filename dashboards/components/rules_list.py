"""Rules in tables: thresholds in effect, precision, open findings and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts, quantities
from gpuwatch.dashboards.components.findings_list import SAVING_RULES
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import SEVERITIES

MAX_LAYERS = 40
MAX_REFUSED = 20
JUDGING = "detectors"
"""Word that identifies the check of rules; the check on ownership rules has the same id."""


@dataclass(frozen=True)
class Open:
    """Open findings of one rule."""

    count: int = 0
    worst: str = ""
    cost: Decimal | None = None
    currency: str = ""


def open_of(items: list[Row]) -> dict[str, Open]:
    """Open findings by rule: count, worst severity, and cost if all of it is in one currency."""
    grouped: dict[str, list[Row]] = {}
    for item in items:
        grouped.setdefault(str(item.get("detector")), []).append(item)
    order = list(SEVERITIES)
    found = {}
    for name, rows in grouped.items():
        worst = min(
            (str(row.get("severity")) for row in rows),
            key=lambda word: order.index(word) if word in order else len(order),
        )
        priced = [
            (cost, str(row.get("currency") or "")) for row in rows if (cost := formats.number(row.get("wasted_cost")))
        ]
        currencies = {currency for _, currency in priced}
        cost = sum((cost for cost, _ in priced), Decimal(0)) if len(currencies) == 1 else None
        found[name] = Open(len(rows), worst, cost, currencies.pop() if len(currencies) == 1 else "")
    return found


def rules(items: list[Row], opened: Mapping[str, Open], query: Query) -> Component:
    """One row per rule; its title links to the rule page."""
    columns = [
        parts.Column("Rule", "wide"),
        parts.Column("Ledger bucket", "narrow-hide"),
        parts.Column("Preset", "narrow-hide"),
        parts.Column("Why it matters", "narrow-hide why-rule"),
        parts.Column("Open", "r"),
        parts.Column("Worst", "narrow-hide"),
        parts.Column("Cost so far", "r narrow-hide"),
        parts.Column("Precision", "r", hint="Share of reviewed findings that owners marked correct"),
    ]
    rows = [row(item, opened.get(str(item.get("id")), Open()), query) for item in items]
    return parts.plain(parts.table(columns, rows, label="Rules"))


def row(item: Row, now: Open, query: Query) -> list[Component | str]:
    """A table row for one rule."""
    ident = str(item.get("id"))
    marks: list[Component] = [html.Span(ident, className="soft mono")]
    if item.get("off"):
        marks.append(parts.tag("Off"))
    if item.get("origin") == "site":
        marks.append(parts.tag("Custom rule"))
    title = parts.link(formats.clip(item.get("title"), 90), query.link(f"/detectors/{ident}"), "title two-lines")
    found = query.link("/findings", detector=ident)
    return [
        html.Div([title, html.Div(marks, className="jobname")]),
        claims(item),
        formats.clip(item.get("preset") or formats.MISSING, 24),
        html.Span(
            formats.clip(item.get("why"), 300), className="two-lines soft small", title=str(item.get("why") or "")
        ),
        parts.link(parts.num(f"{now.count:,}"), found) if now.count else parts.num("0", name="num soft"),
        parts.severity(now.worst) if now.worst else html.Span(),
        parts.lost(now.cost, now.currency) if now.cost else html.Span(),
        precision(item.get("feedback")),
    ]


def claims(item: Row) -> Component:
    """The ledger bucket that the rule marks as waste."""
    if item.get("bucket"):
        return parts.bucket_word(str(item["bucket"]))
    if item.get("id") in SAVING_RULES:
        return html.Span("saving", className="soft", title="Proposes a saving; no GPU time counts as wasted")
    return html.Span("none", className="soft", title="Reports waits and conflicts; no GPU time counts as wasted")


def limit_text(name: str, entry: object) -> str:
    """A threshold with its unit, as text."""
    shown: object = getattr(quantities.value(name, entry), "children", "")
    return str(shown)


def precision(feedback: Row | None) -> Component:
    """The share of reviewed findings that were correct, and how many were reviewed."""
    if feedback is None:
        return parts.num(formats.MISSING, "Not available to team tokens")
    true, false = int(feedback.get("true_positives") or 0), int(feedback.get("false_positives") or 0)
    if true + false == 0:
        return html.Span("not reviewed", className="soft small nowrap")
    low, high = (formats.percent(feedback.get(f"precision_{end}")) for end in ("low", "high"))
    title = f"{formats.percent(feedback.get('precision'))} true; 95 % interval {low} to {high}"
    return html.Span(f"{true} of {true + false} judged true", className="num nowrap", title=title)


def troubles(refused: list[Row], checks: list[Row]) -> Component | None:
    """Rules that could not run, and custom rule files that could not be loaded."""
    failing = [
        row
        for row in checks
        if row.get("id") == "detectors" and row.get("status") not in (None, "ok") and JUDGING in str(row.get("what"))
    ]
    if not refused and not failing:
        return None
    notices = [states.advice(formats.clip(row.get("what"), 800), formats.clip(row.get("fix"), 400)) for row in failing]
    notices += [
        states.advice(
            [
                html.Span(f"{formats.clip(row.get('file'), 120)}, line {row.get('line')}", className="mono"),
                f": {formats.clip(row.get('reason'), 400)}",
            ],
            formats.clip(row.get("fix") or "", 400),
        )
        for row in refused[:MAX_REFUSED]
    ]
    more = html.P(f"and {len(refused) - MAX_REFUSED} more", className="soft") if len(refused) > MAX_REFUSED else None
    count = len(refused) + len(failing)
    title = f"{count} rules have problems" if count > 1 else "1 rule has a problem"
    return parts.card(title, *notices, more, note="All other rules run normally", name="troubled")


def layers(card: Row | None) -> Component | None:
    """Presets, thresholds and disabled rules: global, per pool and per team."""
    if card is None:
        return None
    found = [("Everyone", card)]
    found += [
        (f"Pool {entry.get('pool')}" + (f" in {entry['cluster']}" if entry.get("cluster") else ""), entry)
        for entry in card.get("pools") or []
    ]
    found += [(f"Team {formats.owner(entry.get('team'))}", entry) for entry in card.get("teams") or []]
    columns = [
        parts.Column("Applies to"),
        parts.Column("Preset"),
        parts.Column("Own thresholds"),
        parts.Column("Disabled"),
    ]
    rows = [
        [formats.clip(name, 60), preset_word(entry, place == 0), own_limits(entry), off(entry)]
        for place, (name, entry) in enumerate(found[:MAX_LAYERS])
    ]
    more = html.P(f"and {len(found) - MAX_LAYERS} more", className="soft") if len(found) > MAX_LAYERS else None
    how = html.P(
        [
            "Team settings override pool settings, which override the settings for everyone. ",
            "An administrator changes them on the page of a rule.",
        ],
        className="soft small",
    )
    history = card.get("history") or []
    last = history[0] if history else None
    note = (
        f"Version {card.get('version')}, {formats.when(last.get('at'))} by {formats.clip(last.get('by'), 40)}"
        if last
        else "Not set: each rule uses its defaults"
    )
    return parts.card(
        "Presets and thresholds by scope",
        parts.table(columns, rows, label="Presets and thresholds"),
        more,
        how,
        note=note,
    )


def preset_word(entry: Row, general: bool) -> str:
    """The preset of a scope."""
    return formats.clip(entry.get("preset") or ("default" if general else "inherited"), 40)


def own_limits(entry: Row) -> Component | str:
    """The individual thresholds of a scope."""
    limits = [
        f"{rule}: {formats.inside(quantities.label(name))} {limit_text(name, size)}"
        for rule, sizes in (entry.get("thresholds") or {}).items()
        for name, size in sizes.items()
    ]
    return (
        html.Span(
            "; ".join(limits[:6]) + (f"; and {len(limits) - 6} more" if len(limits) > 6 else ""),
            className="two-lines",
            title="\n".join(limits),
        )
        if limits
        else "none"
    )


def off(entry: Row) -> str:
    """Rules that a scope disables."""
    return formats.clip(", ".join(map(str, entry.get("off") or [])) or "none", 120)
