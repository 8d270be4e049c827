"""The rules in lists: what they look for, the limits in force, how right owners found them, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import parts, quantities
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.components.findings_list import SAVING_RULES
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import SEVERITIES

MAX_LAYERS = 40
MAX_LIMITS = 40
MAX_REFUSED = 20
JUDGING = "detectors"
"""A word of the check of rules: another check of that name is about who owns what."""


@dataclass(frozen=True)
class Open:
    """Open findings of one rule."""

    count: int = 0
    worst: str = ""
    cost: Decimal | None = None
    currency: str = ""


def open_of(items: list[Row]) -> dict[str, Open]:
    """Open findings by rule: how many, the gravest severity, and money where it is all in one currency."""
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
            (cost, str(row.get("currency") or ""))
            for row in rows
            if (cost := components_text.number(row.get("wasted_cost")))
        ]
        currencies = {currency for _, currency in priced}
        cost = sum((cost for cost, _ in priced), Decimal(0)) if len(currencies) == 1 else None
        found[name] = Open(len(rows), worst, cost, currencies.pop() if len(currencies) == 1 else "")
    return found


def rules(items: list[Row], opened: Mapping[str, Open], query: Query) -> Component:
    """One rule a row; its title leads to its limits and its back-test."""
    columns = [
        parts.Column("Rule", "wide"),
        parts.Column("Claims", "narrow-hide"),
        parts.Column("Preset", "narrow-hide"),
        parts.Column("Limits in force", "narrow-hide limits"),
        parts.Column("Open", "r"),
        parts.Column("Worst", "narrow-hide"),
        parts.Column("So far", "r narrow-hide"),
        parts.Column("Precision", "r", hint="Of the findings that owners spoke of, the share that they called true"),
    ]
    rows = [row(item, opened.get(str(item.get("id")), Open()), query) for item in items]
    return parts.plain(parts.table(columns, rows, label="Rules"))


def row(item: Row, now: Open, query: Query) -> list[Component | str]:
    """A rule in a table."""
    ident = str(item.get("id"))
    marks: list[Component] = [html.Span(ident, className="soft mono")]
    if item.get("off"):
        marks.append(parts.tag("Off"))
    if item.get("origin") == "site":
        marks.append(parts.tag("Of this site"))
    title = parts.link(
        components_text.clip(item.get("title"), 90), query.link(f"/detectors/{ident}"), "title two-lines"
    )
    found = query.link("/findings", detector=ident)
    return [
        html.Div([title, html.Div(marks, className="jobname")]),
        claims(item),
        components_text.clip(item.get("preset") or components_text.MISSING, 24),
        html.Span(short_limits(item), className="two-lines soft small", title=all_limits(item)),
        parts.link(parts.num(f"{now.count:,}"), found) if now.count else parts.num("0", name="num soft"),
        parts.severity(now.worst) if now.worst else html.Span(),
        parts.lost(now.cost, now.currency) if now.cost else html.Span(),
        precision(item.get("feedback")),
    ]


def claims(item: Row) -> Component:
    """The bucket of the ledger that it claims."""
    if item.get("bucket"):
        return parts.bucket_word(str(item["bucket"]))
    if item.get("id") in SAVING_RULES:
        return html.Span("a saving", className="soft", title="It tells what could be saved; no time counts as wasted")
    return html.Span("no GPU time", className="soft", title="It tells of waits and conflicts; no time counts as wasted")


def short_limits(item: Row) -> str:
    """The first limits in a line."""
    told = list((item.get("thresholds") or {}).items())
    said = ", ".join(
        f"{components_text.inside(quantities.label(name))} {limit_text(name, entry)}" for name, entry in told[:4]
    )
    return f"{said}, and {len(told) - 4} more" if len(told) > 4 else said or "none"


def all_limits(item: Row) -> str:
    """All limits, for the hover."""
    told = list((item.get("thresholds") or {}).items())[:MAX_LIMITS]
    return "\n".join(f"{name} = {quantities.typed(name, entry)}" for name, entry in told)


def limit_text(name: str, entry: object) -> str:
    """A limit in words."""
    shown: object = getattr(quantities.value(name, entry), "children", "")
    return str(shown)


def precision(feedback: Row | None) -> Component:
    """The share that owners called true, and of how many."""
    if feedback is None:
        return parts.num(components_text.MISSING, "Not told to tokens of a team")
    true, false = int(feedback.get("true_positives") or 0), int(feedback.get("false_positives") or 0)
    if true + false == 0:
        return html.Span("nobody said", className="soft small nowrap")
    of = html.Span(f" of {true + false}", className="soft small")
    return html.Span(
        [parts.num(components_text.percent(feedback.get("precision")), f"{true} true, {false} false alarms"), of]
    )


def troubles(refused: list[Row], checks: list[Row]) -> Component | None:
    """Rules that could not judge, and files of the site that are no rules: never silent."""
    failing = [
        row
        for row in checks
        if row.get("id") == "detectors" and row.get("status") not in (None, "ok") and JUDGING in str(row.get("what"))
    ]
    if not refused and not failing:
        return None
    told = [
        states.advice(components_text.clip(row.get("what"), 800), components_text.clip(row.get("fix"), 400))
        for row in failing
    ]
    told += [
        states.advice(
            [
                html.Span(f"{components_text.clip(row.get('file'), 120)}, line {row.get('line')}", className="mono"),
                f": {components_text.clip(row.get('reason'), 400)}",
            ],
            components_text.clip(row.get("fix") or "", 400),
        )
        for row in refused[:MAX_REFUSED]
    ]
    more = html.P(f"and {len(refused) - MAX_REFUSED} more", className="soft") if len(refused) > MAX_REFUSED else None
    count = len(refused) + len(failing)
    title = "Rules that do not work as they should" if count > 1 else "A rule that does not work as it should"
    return parts.card(title, *told, more, note="All others go on", name="troubled")


def layers(card: Row | None) -> Component | None:
    """Which preset, limits and switched-off rules hold in general, in pools and for teams."""
    if card is None:
        return None
    found = [("Everybody", card)]
    found += [
        (f"Pool {entry.get('pool')}" + (f" of {entry['cluster']}" if entry.get("cluster") else ""), entry)
        for entry in card.get("pools") or []
    ]
    found += [(f"Team {components_text.owner(entry.get('team'))}", entry) for entry in card.get("teams") or []]
    columns = [
        parts.Column("For"),
        parts.Column("Preset"),
        parts.Column("Limits of its own"),
        parts.Column("Switched off"),
    ]
    rows = [
        [components_text.clip(name, 60), preset_word(entry, place == 0), own_limits(entry), off(entry)]
        for place, (name, entry) in enumerate(found[:MAX_LAYERS])
    ]
    more = html.P(f"and {len(found) - MAX_LAYERS} more", className="soft") if len(found) > MAX_LAYERS else None
    how = html.P(
        [
            "A team's word goes before its pool's, and that before everybody's. Set with ",
            html.Code("gpuwatch detectors set card.toml", className="mono"),
            " or PUT /api/v1/detectors/card.",
        ],
        className="soft small",
    )
    history = card.get("history") or []
    last = history[0] if history else None
    note = (
        f"Version {card.get('version')}, {components_text.when(last.get('at'))} by {components_text.clip(last.get('by'), 40)}"
        if last
        else "Never set: each rule's own limits"
    )
    return parts.card(
        "Which limits hold where", parts.table(columns, rows, label="Presets and limits"), more, how, note=note
    )


def preset_word(entry: Row, general: bool) -> str:
    """The preset of a layer, or where it gets it from."""
    return components_text.clip(entry.get("preset") or ("default" if general else "as before"), 40)


def own_limits(entry: Row) -> Component | str:
    """Single limits of a layer."""
    told = [
        f"{rule}: {components_text.inside(quantities.label(name))} {limit_text(name, size)}"
        for rule, sizes in (entry.get("thresholds") or {}).items()
        for name, size in sizes.items()
    ]
    return (
        html.Span(
            "; ".join(told[:6]) + (f"; and {len(told) - 6} more" if len(told) > 6 else ""),
            className="two-lines",
            title="\n".join(told),
        )
        if told
        else "none"
    )


def off(entry: Row) -> str:
    """Rules that a layer switches off."""
    return components_text.clip(", ".join(map(str, entry.get("off") or [])) or "none", 120)
