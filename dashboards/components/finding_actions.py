"""Finding page: the form to acknowledge, snooze, exempt or reopen a finding."""

from __future__ import annotations

from datetime import timedelta

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.components.findings_list import STATE_WORDS

ACTIONS = {"ack": "Acknowledge", "snooze": "Snooze", "exempt": "Exempt", "reopen": "Reopen"}
SNOOZES = {"1": "1 day", "7": "1 week", "30": "30 days"}
VERDICTS = {"true_positive": "Correct", "false_positive": "False alarm"}
"""Optional feedback that goes with an acknowledgement."""

VERDICT_WORDS = {"true_positive": "marked correct", "false_positive": "marked a false alarm"}
MAX_REASON = 1000
MAX_LISTED = 12


def form(finding: Row, me: Row | None, chosen: str = "") -> Component:
    """Acknowledge, snooze or exempt with a reason, and past decisions. `chosen`: the action named in the link."""
    state = str(finding.get("state"))
    done = [past(row) for row in (finding.get("actions") or [])[:MAX_LISTED]]
    actions = allowed(state, me)
    preselected = chosen if chosen in actions else ""
    ordered = sorted(actions, key=lambda name: name != preselected)
    return html.Section(
        [
            html.Header(html.H2(ACTIONS.get(preselected, "Decide"))),
            hint(state, chosen, preselected),
            dmc.Textarea(
                id={"draft": "reason"},
                label="Reason",
                placeholder="Explain your decision for later readers",
                autosize=True,
                minRows=2,
                maxRows=6,
            ),
            html.Div([choices(name) for name in ("ack", "snooze") if name in actions], className="options"),
            html.Div([button(name, name == ordered[0]) for name in ordered], className="buttons"),
            html.Ol(done, className="history") if done else None,
        ],
        className="card chosen" if preselected else "card",
        id="decide",
    )


def allowed(state: str, me: Row | None) -> list[str]:
    """The actions for a finding in this state; only an administrator may exempt one permanently."""
    if state in ("acked", "snoozed", "exempt"):
        return ["reopen"]
    if me is not None and me.get("scope") != "admin":
        return ["ack", "snooze"]
    return ["ack", "snooze", "exempt"]


def hint(state: str, chosen: str, preselected: str) -> Component | None:
    """What the link's action leads to: nothing until the button is pressed, or nothing at all if already decided."""
    if preselected:
        return html.P("Nothing changes until you press the button.", className="soft small")
    if chosen:
        word = STATE_WORDS.get(state, state).lower()
        return html.P(f"This finding is already {word}; see the history below.", className="soft")
    return None


def button(name: str, first: bool) -> Component:
    """The button of an action."""
    return html.Button(
        ACTIONS[name],
        id={"act": name},
        className="button primary" if first else "button",
        n_clicks=0,
        type="button",
    )


def choices(action: str) -> Component:
    """The option of an action: how long to snooze, or whether an acknowledged finding was correct."""
    select: Component
    if action == "snooze":
        select = dmc.Select(
            id={"until": "days"},
            label="Snooze for",
            data=[{"value": days, "label": word} for days, word in SNOOZES.items()],
            value="7",
            allowDeselect=False,
            size="sm",
            comboboxProps={"transitionProps": {"duration": 0}},
        )
    else:
        select = dmc.Select(
            id={"verdict": "ack"},
            label="Acknowledge as",
            data=[
                {"value": "", "label": "Not reviewed"},
                *({"value": v, "label": word} for v, word in VERDICTS.items()),
            ],
            value="",
            allowDeselect=False,
            size="sm",
            comboboxProps={"transitionProps": {"duration": 0}},
        )
    return html.Div(select, className="option")


def past(row: Row) -> Component:
    """A past decision."""
    until = f" until {formats.when(row.get('until'))}" if row.get("until") else ""
    verdict = f", {VERDICT_WORDS[str(row['verdict'])]}" if row.get("verdict") in VERDICT_WORDS else ""
    text = f"{formats.clip(row.get('actor'), 40)}: {row.get('action')}{until}{verdict}"
    return html.Li(
        [
            html.B(text),
            html.Span(f" {formats.clip(row.get('reason') or '', 300)} "),
            html.Span(formats.when(row.get("at")), className="soft"),
        ]
    )


def until_after(days: str | None, now: str) -> str:
    """The end of a snooze that starts now (RFC 3339)."""
    start = formats.moment(now)
    if start is None:
        raise ValueError(f"not a time: {now!r}")
    wanted = days if days in SNOOZES else "7"
    return (start + timedelta(days=int(wanted))).isoformat().replace("+00:00", "Z")


def verdict_of(action: str, chosen: str | None) -> str | None:
    """The verdict to send; only acknowledgements have one."""
    return chosen if action == "ack" and chosen in VERDICTS else None
