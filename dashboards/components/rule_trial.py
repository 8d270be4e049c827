"""Trying limits of a rule on the past: the form, what it asks, and who would have been flagged."""

from __future__ import annotations

from collections.abc import Mapping

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import parts, quantities
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.components.findings_list import subject
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query, finding_link

PRESETS = ("default", "meta-rsc", "princeton", "gpu-pruner")
PRESET = "preset"
PREFIX = "t."
"""Before the names of limits in the address: they may be called as a filter is."""

TRY = "try"
MAX_VALUE = 40
MAX_ITEMS = 100
MAX_TEAMS = 20
CHANGES = {"new": "New", "same": "As today", "gone": "Gone"}


def tried(query: Query, values: Mapping[str, str | None]) -> str:
    """The search of the address that runs a back-test with these limits; empty ones stay as they are in force."""
    kept = {name: None for name in query.values if name.startswith(PREFIX) or name in (PRESET, "show")}
    wanted: dict[str, str | None] = {**kept, TRY: "1"}
    for name, text in values.items():
        said = (text or "").strip()[:MAX_VALUE]
        wanted[PRESET if name == PRESET else f"{PREFIX}{name}"] = said or None
    _, mark, search = query.link(**wanted).partition("?")
    return f"{mark}{search}"


def asked(rule: Row, query: Query) -> Row | None:
    """The body of the back-test that the address asks for; None where it asks for none."""
    if not query.get(TRY):
        return None
    limits = {name: text for name in rule.get("thresholds") or {} if (text := query.get(f"{PREFIX}{name}"))}
    body: Row = {"window": query.window}
    if query.get(PRESET):
        body["preset"] = query.get(PRESET)
    if limits:
        body["thresholds"] = {name: number_or_text(text) for name, text in limits.items()}
    if query.get("cluster"):
        body["cluster"] = query.get("cluster")
    return body


def number_or_text(text: str) -> float | str:
    """A number as one, a time such as 20m as it is."""
    found = components_text.number(text)
    return text if found is None else float(found)


def form(rule: Row, query: Query) -> Component:
    """Preset and limits to try; the window and the cluster are the filters above."""
    preset = dmc.Select(
        id={"limit": PRESET},
        label="Preset",
        data=[{"value": "", "label": "As it stands"}, *({"value": name, "label": name} for name in PRESETS)],
        value=query.get(PRESET),
        allowDeselect=False,
        size="xs",
        comboboxProps={"transitionProps": {"duration": 0}},
        className="assumed",
    )
    fields = [
        dmc.TextInput(
            id={"limit": name},
            label=quantities.label(name),
            value=query.get(f"{PREFIX}{name}"),
            placeholder=quantities.typed(name, entry),
            size="xs",
            className="assumed",
            inputProps={"title": components_text.clip((rule.get("sources") or {}).get(name), 200)},
        )
        for name, entry in (rule.get("thresholds") or {}).items()
    ]
    button = html.Button("Try it", id={TRY: "run"}, className="button primary", n_clicks=0, type="button")
    reset = parts.link("Reset", f"{query.link(query.path)}", "button") if query.get(TRY) else None
    return parts.card(
        f"{components_text.clip(rule.get('title'), 80)}: try it on the past"
        if query.get(TRY)
        else "Try it on the past",
        html.Div([preset, *fields], className="assumptions", role="group", **parts.aria("Limits to try")),
        html.Div(
            [button, reset, html.Span("Nothing is stored and nobody is told.", className="soft small")],
            className="buttons",
        ),
        note=f"On what is known {query.window_words}, at most 31 days; an empty field stays as it is in force",
    )


def answer(told: Row, query: Query) -> list[Component]:
    """Who would have been flagged, what that is worth, and what is new, gone or the same."""
    changes: Row = told.get("changes") or {}
    total: Row = told.get("total") or {}
    today: Row = told.get("today") or {}
    window: Row = told.get("window") or {}
    if told.get("thresholds") is None:
        return [states.empty("Switched off with this preset", "It would flag nobody.")]
    count = int(total.get("findings") or 0)
    title = f"It would have flagged {count:,} {'finding' if count == 1 else 'findings'}; today's limits flag {int(today.get('findings') or 0):,}"
    heads = parts.headlines(
        [
            parts.Headline("Findings", parts.num(f"{count:,}"), note=f"today {int(today.get('findings') or 0):,}"),
            parts.Headline(
                "GPU-hours", hours(total.get("gpu_hours")), note=f"today {hours_text(today.get('gpu_hours'))}"
            ),
            parts.Headline("Cost", cost(total), note=f"today {cost_text(today)}"),
            parts.Headline(
                "New and gone",
                parts.num(f"+{changes.get('new', 0)} / −{changes.get('gone', 0)}"),
                note=f"{changes.get('same', 0)} as today",
            ),
            parts.Headline("Precision", said_precision(told.get("feedback")), note=precision_note(told)),
        ]
    )
    unpriced = total.get("unpriced")
    missing = [html.P(f"{unpriced} of them without a price", className="soft small")] if unpriced else []
    return [
        html.H2(title, className="result"),
        html.P(
            f"{components_text.span(window.get('start'), window.get('end'))}, preset {components_text.clip(told.get('preset'), 40)}",
            className="note",
        ),
        heads,
        *missing,
        html.Div([items(told, query), teams(told, query)], className="stack"),
    ]


def items(told: Row, query: Query) -> Component:
    """The findings, the dearest first; one kind of change where the address asks for it."""
    rows: list[Row] = told.get("items") or []
    chosen = query.get("show") if query.get("show") in CHANGES else ""
    shown = [row for row in rows if not chosen or row.get("change") == chosen]
    changes: Row = told.get("changes") or {}
    picks = [("All", query.link(show=None), not chosen)]
    picks += [
        (f"{word} ({changes.get(name, 0)})", query.link(show=name), chosen == name) for name, word in CHANGES.items()
    ]
    if not shown:
        return html.Div(
            [
                parts.picks(picks, "Change"),
                states.empty("Nobody would be flagged", "In this window, with these limits."),
            ]
        )
    columns = [
        parts.Column("Who", "wide"),
        parts.Column("Change"),
        parts.Column("Team", "narrow-hide"),
        parts.Column("Cost", "r"),
        parts.Column("GPU-h", "r"),
        parts.Column("Since (UTC)", "r narrow-hide"),
        parts.Column("Owners said", "narrow-hide"),
    ]
    table = [
        [
            who(row, query),
            change(row),
            parts.team_link(query, row.get("team")),
            parts.money(row.get("cost"), str(row.get("currency") or "")),
            hours(row.get("gpu_hours")),
            html.Span(components_text.when(row.get("started_at")).removesuffix(" UTC"), className="num nowrap"),
            verdict(row),
        ]
        for row in shown[:MAX_ITEMS]
    ]
    hidden = max(0, len(shown) - MAX_ITEMS) + int(told.get("left_out") or 0)
    more = (
        html.P(f"and {hidden:,} cheaper ones: gpuwatch backtest {told.get('detector')} has all", className="soft")
        if hidden
        else None
    )
    return html.Div(
        [
            parts.picks(picks, "Change"),
            parts.plain(parts.table(columns, table, label="Who would have been flagged"), more),
        ]
    )


def who(row: Row, query: Query) -> Component:
    """The subject, and the sentence; one that is a finding today leads to it."""
    sentence = html.Div(components_text.clip(row.get("summary"), 200), className="two-lines soft small")
    lead = (
        parts.link("finding", finding_link(query, str(row.get("key"))), "more small")
        if row.get("change") != "new"
        else None
    )
    return html.Div([html.Div([subject(row, query, 44), lead], className="jobname"), sentence])


def change(row: Row) -> Component:
    """New, gone or as today."""
    name = str(row.get("change"))
    return parts.tag(CHANGES.get(name, name), {"new": "warn", "gone": "ok"}.get(name, "plain"))


def verdict(row: Row) -> str:
    """What its owner called it."""
    return {"true_positive": "true", "false_positive": "false alarm"}.get(str(row.get("verdict")), "")


def teams(told: Row, query: Query) -> Component | None:
    """Sums by team."""
    rows: list[Row] = told.get("teams") or []
    if not rows:
        return None
    columns = [
        parts.Column("Team"),
        parts.Column("Findings", "r"),
        parts.Column("GPU-h", "r"),
        parts.Column("Cost", "r"),
        parts.Column("Gone", "r"),
    ]
    table = [
        [
            parts.team_link(query, row.get("team")),
            parts.num(f"{row.get('findings')}"),
            hours(row.get("gpu_hours")),
            cost(row),
            parts.num(f"{row.get('gone')}"),
        ]
        for row in rows[:MAX_TEAMS]
    ]
    more = html.P(f"and {len(rows) - MAX_TEAMS} more", className="soft") if len(rows) > MAX_TEAMS else None
    return parts.card("By team", parts.table(columns, table, label="By team"), more)


def hours(entry: object) -> Component:
    """GPU-hours."""
    return parts.num(hours_text(entry), entry)


def hours_text(entry: object) -> str:
    """GPU-hours in words, exact ones stay on hover."""
    found = components_text.number(entry)
    return components_text.MISSING if found is None else components_text.short(found.quantize(found.__class__("0.1")))


def cost_text(sums: Row) -> str:
    """Money by currency, in words."""
    told = [components_text.money(one.get("amount"), str(one.get("currency") or "")) for one in sums.get("cost") or []]
    return " and ".join(told) or components_text.MISSING


def cost(sums: Row) -> Component:
    """Money by currency."""
    exact = ", ".join(f"{one.get('amount')} {one.get('currency')}" for one in sums.get("cost") or [])
    return parts.num(cost_text(sums), exact or "No price for this")


def said_precision(feedback: Row | None) -> Component:
    """The share that owners called true."""
    return parts.percent((feedback or {}).get("precision"))


def precision_note(told: Row) -> str:
    """Of how many, beside today's."""
    said: Row = told.get("feedback") or {}
    known = int(said.get("true_positives") or 0) + int(said.get("false_positives") or 0)
    if not known:
        return "nobody said anything"
    today = components_text.percent((told.get("today_feedback") or {}).get("precision"))
    return f"of {known} that owners judged; today {today}"
