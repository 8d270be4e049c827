"""One finding: the evidence over its window with the thresholds used, the remedy, and what to do about it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards import books, figures, parts, states, words
from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.findings_list import STATE_WORDS, per_day, subject, wasted, wasted_seconds
from gpuwatch.dashboards.page import page
from gpuwatch.dashboards.query import Query
from gpuwatch.dashboards.theme import Scheme

ACTIONS = {"ack": "Acknowledge", "snooze": "Snooze", "exempt": "Exempt", "reopen": "Reopen"}
SNOOZES = {"1": "for a day", "7": "for a week", "30": "for 30 days"}
MAX_REASON = 1000
MAX_LISTED = 12
SHORT = {
    "sm": "SMs",
    "gpu": "GPU",
    "dram": "memory",
    "gr": "graphics",
    "min": "at least",
    "max": "at most",
    "pcie": "PCIe",
}
MAX_EVIDENCE = 24


@dataclass(frozen=True)
class Data:
    """A finding with its series and actions, the rule it comes from, and who looks at it."""

    finding: Row
    rule: Row
    me: Row | None


async def load(api: Api, query: Query) -> Data:
    """The finding of the path's last part."""
    finding, detectors, me = await asyncio.gather(
        api.finding(key_of(query)), books.optional(api.detectors()), books.optional(api.me())
    )
    rules = {str(row.get("id")): row for row in (detectors or {}).get("items") or []}
    return Data(finding, rules.get(str(finding.get("detector")), {}), me)


def key_of(query: Query) -> str:
    """The finding's key in a path such as /findings/idle-hoarding-1a2b."""
    return query.path.removeprefix("/findings/")


@page("/findings/*", "Finding", load, filters=())
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """What, who and how much; then why we think so; then what to do."""
    finding = data.finding
    return html.Div(
        [
            parts.link("← Findings", query.link("/findings"), "back"),
            html.Div(
                [
                    html.Div([summary(data, query), chart(data, scheme)], className="column"),
                    html.Div([decide(data), facts(finding, data.rule)], className="column"),
                ],
                className="two-one",
            ),
        ]
    )


def summary(data: Data, query: Query) -> Component:
    """The card: severity, one sentence, dollars, owner, since when, remedy."""
    finding = data.finding
    currency, daily = str(finding.get("currency") or ""), per_day(finding)
    state = str(finding.get("state"))
    ended = finding.get("ended_at")
    since = f"since {words.when(finding.get('started_at'))}" + (f", ended {words.when(ended)}" if ended else "")
    return html.Section(
        [
            html.Div(
                [
                    parts.severity(finding.get("severity")),
                    parts.tag(STATE_WORDS.get(state, state)),
                    html.Span(since, className="soft"),
                ],
                className="facts",
            ),
            html.H1(words.clip(finding.get("title"), 120)),
            html.P(words.clip(finding.get("summary"), 600), className="lead"),
            html.Div(
                [
                    fact("So far", wasted(finding)),
                    fact(
                        "A day", parts.money(daily.quantize(Decimal("0.01")) if daily is not None else None, currency)
                    ),
                    fact("GPU time", parts.gpu_time(wasted_seconds(finding))),
                    fact("Team", parts.team_link(query, finding.get("team"))),
                    fact("User", words.clip(words.owner(finding.get("user")), 32)),
                    fact("Subject", subject(finding, query, 60)),
                ],
                className="keyfacts",
            ),
            html.Div([html.B("Do this: "), words.clip(finding.get("remedy"), 600)], className="remedy"),
        ],
        className="card",
    )


def fact(label: str, value: Any) -> Component:
    """A small label over its value."""
    return html.Div([html.Div(label, className="label"), html.Div(value)])


def chart(data: Data, scheme: Scheme) -> Component:
    """The evidence over the window; what was not measured is a gap."""
    series: Row = data.finding.get("series") or {}
    evidence: Row = data.finding.get("evidence") or {}
    thresholds = series.get("thresholds") or {}
    figure = figures.evidence(series, scheme, thresholds)
    if figure is None:
        return parts.card(
            "No readings to draw",
            states.advice(
                "This finding rests on what the scheduler said, or its readings are past their retention. "
                "The numbers it was judged by are in the table."
            ),
        )
    window: Row = evidence.get("window") or {}
    graph = parts.graph(figure, figures.TALL)
    limits = "; dashed: limits of the rule" if figure["layout"]["shapes"] else ""
    times = words.span(window.get("start"), window.get("end")) if window else "UTC"
    note = f"{times}{limits}; a gap was not measured"
    return parts.card("What was measured while it lasted", graph, note=note, name="late")


def decide(data: Data) -> Component:
    """Acknowledge, snooze or exempt, with a reason; what was decided before."""
    finding = data.finding
    state = str(finding.get("state"))
    history = [past(row) for row in (finding.get("actions") or [])[:MAX_LISTED]]
    done = [html.Ol(history, className="history")] if history else []
    actions = ["reopen"] if state in ("acked", "snoozed", "exempt") else ["ack", "snooze", "exempt"]
    if data.me is not None and data.me.get("scope") != "admin":
        # Only an administrator may say for good that a waste is none.
        actions = [name for name in actions if name != "exempt"]
    buttons = [
        html.Button(
            ACTIONS[name],
            id={"act": name},
            className="button primary" if place == 0 else "button",
            n_clicks=0,
            type="button",
        )
        for place, name in enumerate(actions)
    ]
    until = [
        dmc.Select(
            id={"until": "days"},
            data=[{"value": days, "label": f"Snooze {word}"} for days, word in SNOOZES.items()],
            value="7",
            allowDeselect=False,
            size="sm",
            w=190,
            **parts.aria("How long to snooze"),
        )
    ]
    return parts.card(
        "Decide",
        dmc.Textarea(
            id={"draft": "reason"},
            label="Reason",
            placeholder="Why, for the people who ask later",
            autosize=True,
            minRows=2,
            maxRows=6,
        ),
        html.Div([*buttons, *(until if "snooze" in actions else [])], className="buttons"),
        *done,
    )


def past(row: Row) -> Component:
    """A decision taken before."""
    until = f" until {words.when(row.get('until'))}" if row.get("until") else ""
    text = f"{words.clip(row.get('actor'), 40)}: {row.get('action')}{until}"
    return html.Li(
        [
            html.B(text),
            html.Span(f" {words.clip(row.get('reason') or '', 300)} "),
            html.Span(words.when(row.get("at")), className="soft"),
        ]
    )


def facts(finding: Row, rule: Row) -> Component:
    """The numbers the rule judged by, where it was, and why it matters."""
    evidence: Row = finding.get("evidence") or {}
    rows = [[label(name), value(name, entry)] for name, entry in list(evidence.items())[:MAX_EVIDENCE] if simple(entry)]
    rows.append(["Confidence", parts.percent(finding.get("confidence"))])
    if finding.get("bucket"):
        rows.append(["Ledger bucket", parts.bucket_word(str(finding["bucket"]))])
    limits = [
        [label(name), value(name, entry)]
        for name, entry in list((evidence.get("thresholds") or {}).items())[:MAX_EVIDENCE]
        if simple(entry)
    ]
    rule_limits = parts.table([parts.Column("Limit"), parts.Column("", "r")], limits, label="Limits of the rule")
    judged = html.Details([html.Summary(f"{len(limits)} limits of the rule"), rule_limits]) if limits else None
    where = [
        html.Details(
            [
                html.Summary(f"{len(listed)} {name if len(listed) > 1 else name[:-1]}"),
                html.Ul([html.Li(words.clip(entry, 60), className="mono") for entry in listed[:MAX_LISTED]]),
                html.P(f"and {len(listed) - MAX_LISTED} more", className="soft") if len(listed) > MAX_LISTED else None,
            ]
        )
        for name in ("nodes", "devices")
        if (listed := finding.get(name) or [])
    ]
    why = [html.P(str(rule.get("why")), className="soft")] if rule.get("why") else []
    columns = [parts.Column("Judged by"), parts.Column("", "r")]
    return parts.card("Why we say so", *why, parts.table(columns, rows, label="Evidence"), judged, *where, name="late")


def simple(entry: object) -> bool:
    """Whether an entry of the evidence fits in a cell."""
    return entry is not None and not isinstance(entry, dict | list)


def label(name: str) -> str:
    """A column's name in words: its unit goes to the value."""
    stem = name.removesuffix("_us").replace("_us_", "_").replace("_ratio", "")
    if f"{stem}{figures.RATIO}" in figures.LINES:
        return figures.LINES[f"{stem}{figures.RATIO}"]
    words_of = [SHORT.get(word, word) for word in stem.split("_") if word]
    said = " ".join(words_of)
    return said[:1].upper() + said[1:]


def value(name: str, entry: object) -> Component:
    """A value in its unit, exact on hover."""
    found = words.number(entry)
    if found is None:
        return html.Span(words.clip(entry, 60))
    if "_us" in name:
        return parts.num(words.duration(found / 1_000_000), f"{entry} µs")
    if "ratio" in name or (0 < found < 1):
        return parts.percent(found)
    return parts.num(f"{found.normalize():,f}" if found == found.to_integral_value() else f"{found:,.2f}", entry)


def until_after(days: str | None, now: str) -> str:
    """The end of a snooze that starts now (RFC 3339)."""
    start = words.moment(now)
    if start is None:
        raise ValueError(f"not a time: {now!r}")
    wanted = days if days in SNOOZES else "7"
    return (start + timedelta(days=int(wanted))).isoformat().replace("+00:00", "Z")
