"""Rule page: the back-test form and its results."""

from __future__ import annotations

from collections.abc import Mapping

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts, quantities
from gpuwatch.dashboards.components.findings_list import subject
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query, finding_link

PRESETS = ("default", "meta-rsc", "princeton", "gpu-pruner")
PRESET = "preset"
PREFIX = "t."
"""Prefix of threshold names in the URL, because a threshold may have the same name as a filter."""

TRY = "try"
MAX_VALUE = 40
MAX_ITEMS = 100
MAX_TEAMS = 20
CHANGES = {"new": "New", "same": "Unchanged", "gone": "Gone"}


def trial_search(query: Query, values: Mapping[str, str | None]) -> str:
    """The URL's query string for a back-test with these thresholds; empty fields keep the current value."""
    kept = {name: None for name in query.values if name.startswith(PREFIX) or name in (PRESET, "show")}
    wanted: dict[str, str | None] = {**kept, TRY: "1"}
    for name, text in values.items():
        wanted[PRESET if name == PRESET else f"{PREFIX}{name}"] = (text or "").strip()[:MAX_VALUE] or None
    _, mark, search = query.link(**wanted).partition("?")
    return f"{mark}{search}"


def request_body(rule: Row, query: Query) -> Row | None:
    """The request body of the back-test in the URL; None if there is none."""
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
    """A number as float; a duration such as 20m stays text."""
    found = formats.number(text)
    return text if found is None else float(found)


def form(rule: Row, query: Query) -> Component:
    """The preset and thresholds to try; window and cluster come from the filters."""
    preset = dmc.Select(
        id={"limit": PRESET},
        label="Preset",
        data=[{"value": "", "label": "Current"}, *({"value": name, "label": name} for name in PRESETS)],
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
            inputProps={"title": formats.clip((rule.get("sources") or {}).get(name), 200)},
        )
        for name, entry in (rule.get("thresholds") or {}).items()
    ]
    button = html.Button("Try it", id={TRY: "run"}, className="button primary", n_clicks=0, type="button")
    reset = parts.link("Reset", f"{query.link(query.path)}", "button") if query.get(TRY) else None
    return parts.card(
        f"{formats.clip(rule.get('title'), 80)}: back-test" if query.get(TRY) else "Try other thresholds on past data",
        html.Div([preset, *fields], className="assumptions", role="group", **parts.aria("Thresholds to try")),
        html.Div(
            [button, reset, html.Span("Nothing is stored and nobody is notified.", className="soft small")],
            className="buttons",
        ),
        note=f"Uses the data {query.window_words}, at most 31 days. Empty fields keep the current value.",
    )


def results(trial: Row, query: Query) -> list[Component]:
    """What would have been flagged, what it cost, and what is new, gone or unchanged."""
    changes: Row = trial.get("changes") or {}
    total: Row = trial.get("total") or {}
    today: Row = trial.get("today") or {}
    window: Row = trial.get("window") or {}
    if trial.get("thresholds") is None:
        return [states.empty("Disabled by this preset", "The rule would flag nothing.")]
    count = int(total.get("findings") or 0)
    title = f"{count:,} {'finding' if count == 1 else 'findings'} with these thresholds, {int(today.get('findings') or 0):,} with the current ones"
    heads = parts.headlines(
        [
            parts.Headline("Findings", parts.num(f"{count:,}"), note=f"currently {int(today.get('findings') or 0):,}"),
            parts.Headline(
                "GPU-hours", hours(total.get("gpu_hours")), note=f"currently {hours_text(today.get('gpu_hours'))}"
            ),
            parts.Headline("Cost", cost(total), note=f"currently {cost_text(today)}"),
            parts.Headline(
                "New and gone",
                parts.num(f"+{changes.get('new', 0)} / −{changes.get('gone', 0)}"),
                note=f"{changes.get('same', 0)} unchanged",
            ),
            parts.Headline(
                "Precision", parts.percent((trial.get("feedback") or {}).get("precision")), note=precision_note(trial)
            ),
        ]
    )
    unpriced = total.get("unpriced")
    missing = [html.P(f"{unpriced} of them have no price", className="soft small")] if unpriced else []
    return [
        html.H2(title, className="result"),
        html.P(
            f"{formats.span(window.get('start'), window.get('end'))}, preset {formats.clip(trial.get('preset'), 40)}",
            className="note",
        ),
        heads,
        *missing,
        html.Div([items(trial, query), teams(trial, query)], className="stack"),
    ]


def items(trial: Row, query: Query) -> Component:
    """The findings, most expensive first, filtered by kind of change if the URL has one."""
    rows: list[Row] = trial.get("items") or []
    chosen = query.get("show") if query.get("show") in CHANGES else ""
    shown = [row for row in rows if not chosen or row.get("change") == chosen]
    changes: Row = trial.get("changes") or {}
    picks = [("All", query.link(show=None), not chosen)]
    picks += [
        (f"{word} ({changes.get(name, 0)})", query.link(show=name), chosen == name) for name, word in CHANGES.items()
    ]
    if not shown:
        return html.Div(
            [
                parts.picks(picks, "Change"),
                states.empty("Nothing would be flagged", "In this window, with these thresholds."),
            ]
        )
    columns = [
        parts.Column("Subject", "wide"),
        parts.Column("Change"),
        parts.Column("Team", "narrow-hide"),
        parts.Column("Cost", "r"),
        parts.Column("GPU-h", "r"),
        parts.Column(f"Since ({formats.zone_word()})", "r narrow-hide"),
        parts.Column("Feedback", "narrow-hide"),
    ]
    table = [
        [
            subject_cell(row, query),
            change(row),
            parts.team_link(query, row.get("team")),
            parts.money(row.get("cost"), str(row.get("currency") or "")),
            hours(row.get("gpu_hours")),
            html.Span(formats.clock(row.get("started_at")), className="num nowrap"),
            verdict(row),
        ]
        for row in shown[:MAX_ITEMS]
    ]
    hidden = max(0, len(shown) - MAX_ITEMS) + int(trial.get("left_out") or 0)
    more = (
        html.P(
            f"and {hidden:,} smaller ones; run gpuwatch backtest {trial.get('detector')} for the full list",
            className="soft",
        )
        if hidden
        else None
    )
    return html.Div(
        [
            parts.picks(picks, "Change"),
            parts.plain(parts.table(columns, table, label="What would have been flagged"), more),
        ]
    )


def subject_cell(row: Row, query: Query) -> Component:
    """The subject and the summary, with a link to the current finding if there is one."""
    sentence = html.Div(formats.clip(row.get("summary"), 200), className="two-lines soft small")
    lead = (
        parts.link("finding", finding_link(query, str(row.get("key"))), "more small")
        if row.get("change") != "new"
        else None
    )
    return html.Div([html.Div([subject(row, query, 44), lead], className="jobname"), sentence])


def change(row: Row) -> Component:
    """New, gone or unchanged."""
    name = str(row.get("change"))
    return parts.tag(CHANGES.get(name, name), {"new": "warn", "gone": "ok"}.get(name, "plain"))


def verdict(row: Row) -> str:
    """The owner's feedback."""
    return {"true_positive": "correct", "false_positive": "false alarm"}.get(str(row.get("verdict")), "")


def teams(trial: Row, query: Query) -> Component | None:
    """Totals by team."""
    rows: list[Row] = trial.get("teams") or []
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
    """Rounded GPU-hours."""
    found = formats.number(entry)
    return formats.MISSING if found is None else formats.short(found.quantize(found.__class__("0.1")))


def cost_text(sums: Row) -> str:
    """Money by currency, as text."""
    amounts = [formats.money(one.get("amount"), str(one.get("currency") or "")) for one in sums.get("cost") or []]
    return " and ".join(amounts) or formats.MISSING


def cost(sums: Row) -> Component:
    """Money by currency."""
    exact = ", ".join(f"{one.get('amount')} {one.get('currency')}" for one in sums.get("cost") or [])
    return parts.num(cost_text(sums), exact or "No price for this")


def precision_note(trial: Row) -> str:
    """The number of reviewed findings, and the current precision."""
    feedback: Row = trial.get("feedback") or {}
    known = int(feedback.get("true_positives") or 0) + int(feedback.get("false_positives") or 0)
    if not known:
        return "not reviewed"
    today = formats.percent((trial.get("today_feedback") or {}).get("precision"))
    return f"of {known} reviewed; currently {today}"
