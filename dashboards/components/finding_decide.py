"""What somebody says of a finding: acknowledge it as true or false, snooze, exempt, reopen."""

from __future__ import annotations

from datetime import timedelta

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import text as components_text

ACTIONS = {"ack": "Acknowledge", "snooze": "Snooze", "exempt": "Exempt", "reopen": "Reopen"}
SNOOZES = {"1": "for a day", "7": "for a week", "30": "for 30 days"}
VERDICTS = {"true_positive": "It is true", "false_positive": "It is a false alarm"}
"""What an acknowledgement says of the rule; nothing may be said too."""

TOLD = {"true_positive": "called true", "false_positive": "called a false alarm"}
MAX_REASON = 1000
MAX_LISTED = 12


def form(finding: Row, me: Row | None, asked: str = "") -> Component:
    """Acknowledge, snooze or exempt, with a reason; what was decided before. `asked`: the action that a link came for."""
    state = str(finding.get("state"))
    done = [past(row) for row in (finding.get("actions") or [])[:MAX_LISTED]]
    actions = ["reopen"] if state in ("acked", "snoozed", "exempt") else ["ack", "snooze", "exempt"]
    if me is not None and me.get("scope") != "admin":
        # Only an administrator may say for good that a waste is none.
        actions = [name for name in actions if name != "exempt"]
    first = asked if asked in actions else actions[0]
    settled = asked and asked not in actions
    came = asked in actions and asked or ""
    return html.Section(
        [
            html.Header(html.H2(ACTIONS[came] if came else "Decide")),
            html.P(f"It is {state} already; what was decided stands below.", className="soft") if settled else None,
            html.P("Nothing is changed until you press the button.", className="soft small") if came else None,
            dmc.Textarea(
                id={"draft": "reason"},
                label="Reason",
                placeholder="Why, for the people who ask later",
                autosize=True,
                minRows=2,
                maxRows=6,
            ),
            html.Div([choices(name) for name in ("ack", "snooze") if name in actions], className="options"),
            html.Div(
                [button(name, name == first) for name in sorted(actions, key=lambda name: name != first)],
                className="buttons",
            ),
            html.Ol(done, className="history") if done else None,
        ],
        className="card asked" if came else "card",
        id="decide",
    )


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
    """What goes with an action: how long a snooze lasts, whether an acknowledged finding was true."""
    select: Component
    if action == "snooze":
        select = dmc.Select(
            id={"until": "days"},
            label="Snooze",
            data=[{"value": days, "label": components_text.sentence(word)} for days, word in SNOOZES.items()],
            value="7",
            allowDeselect=False,
            size="sm",
            comboboxProps={"transitionProps": {"duration": 0}},
        )
    else:
        select = dmc.Select(
            id={"verdict": "ack"},
            label="Acknowledged as",
            data=[
                {"value": "", "label": "Not said"},
                *({"value": v, "label": word} for v, word in VERDICTS.items()),
            ],
            value="",
            allowDeselect=False,
            size="sm",
            comboboxProps={"transitionProps": {"duration": 0}},
        )
    return html.Div(select, className="option")


def past(row: Row) -> Component:
    """A decision taken before."""
    until = f" until {components_text.when(row.get('until'))}" if row.get("until") else ""
    verdict = f", {TOLD[str(row['verdict'])]}" if row.get("verdict") in TOLD else ""
    text = f"{components_text.clip(row.get('actor'), 40)}: {row.get('action')}{until}{verdict}"
    return html.Li(
        [
            html.B(text),
            html.Span(f" {components_text.clip(row.get('reason') or '', 300)} "),
            html.Span(components_text.when(row.get("at")), className="soft"),
        ]
    )


def until_after(days: str | None, now: str) -> str:
    """The end of a snooze that starts now (RFC 3339)."""
    start = components_text.moment(now)
    if start is None:
        raise ValueError(f"not a time: {now!r}")
    wanted = days if days in SNOOZES else "7"
    return (start + timedelta(days=int(wanted))).isoformat().replace("+00:00", "Z")


def verdict_of(action: str, chosen: str | None) -> str | None:
    """The verdict that goes with an action: acknowledgements alone have one."""
    return chosen if action == "ack" and chosen in VERDICTS else None
