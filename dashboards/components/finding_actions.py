"""Forms to acknowledge, snooze, exempt, reopen, assign or judge findings: one on its page, many in the inbox."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row, administers
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.components.findings_list import STATE_WORDS

DECIDED = {"ack": "Acknowledge", "snooze": "Snooze", "exempt": "Exempt", "reopen": "Reopen"}
JUDGED = {"true": "Correct", "false": "False alarm", "dismiss": "False alarm"}
ACTIONS = {**DECIDED, "assign": "Assign", **JUDGED}
"""Buttons. `dismiss` acknowledges an open finding as a false alarm; `false` judges one whose state stays."""
SNOOZES = {"1": "1 day", "7": "1 week", "30": "30 days"}
EXEMPTIONS = {"30": "30 days", "90": "90 days", "365": "1 year", "": "no end"}
ENDS = {"snooze": (SNOOZES, "7"), "exempt": (EXEMPTIONS, "90")}
"""The ends that may be chosen, and the default."""

VERDICT_WORDS = {"true_positive": "marked correct", "false_positive": "marked a false alarm"}
SENT = {
    "true": ("judge", "true_positive"),
    "false": ("judge", "false_positive"),
    "dismiss": ("ack", "false_positive"),
}
"""The action and the verdict that a button sends, if other than its name."""
UNEXPLAINED = ("reopen", "assign", "true", "false", "dismiss")
"""Buttons that need no reason."""
DEFAULT_REASONS = {"reopen": "reopened", "dismiss": "false alarm"}
DONE_WORDS = {"ack": "acknowledged", "snooze": "snoozed", "exempt": "exempted", "reopen": "reopened", "judge": "judged"}
"""Past decisions in words."""
COVERS = (
    "Exempt sets this one finding aside, and no other of the job or rule. To exempt a job beforehand, give it the label "
    "gpuwatch.io/exempt-until with a date."
)
MAX_REASON = 500
MAX_LISTED = 12


def form(finding: Row, me: Row | None, chosen: str = "", rated: str = "") -> Component:
    """The form of one finding, with past decisions. `chosen`: the action named in the link; `rated`: how often findings of
    this rule were right.
    """
    state = str(finding.get("state"))
    done = [past(row) for row in (finding.get("actions") or [])[:MAX_LISTED]]
    actions = allowed(state, me)
    preselected = chosen if chosen in actions else ""
    ordered = sorted(actions, key=lambda name: name != preselected)
    right = judging("dismiss" if state == "open" else "false", str(finding.get("verdict") or ""))
    return html.Section(
        [
            html.Header(html.H2(ACTIONS.get(preselected, "Decide"))),
            hint(state, chosen, preselected),
            reason(),
            html.Div([end(name) for name in ENDS if name in actions], className="options")
            if len(actions) > 1
            else None,
            html.Div([button(name, name == ordered[0]) for name in ordered], className="buttons") if ordered else None,
            html.P(COVERS, className="soft small") if "exempt" in actions else None,
            html.Div(assigning(str(finding.get("assignee") or "")), className="assign"),
            html.Div([html.Span("Was it right?", className="strong"), *right], className="buttons judge"),
            html.P(rated, className="soft small") if rated else None,
            html.Ol(done, className="history") if done else None,
        ],
        className="card chosen" if preselected else "card",
        id="decide",
    )


def bulk(state: str, me: Row | None) -> Component:
    """The form for the findings that are checked in a list."""
    actions = allowed(state, me)
    ends = [end(name) for name in ENDS if name in actions] if len(actions) > 1 else []
    return html.Section(
        [
            html.Div([reason(rows=1), *ends], className="fields"),
            html.Div([button(name, name == "ack") for name in actions], className="buttons") if actions else None,
            html.Div(
                [
                    html.Div(assigning(""), className="assign"),
                    html.Div(judging("dismiss" if state == "open" else "false", ""), className="buttons"),
                ],
                className="more",
            ),
        ],
        className="card bulk",
        id="decide",
        **parts.aria("Act on the selected findings"),
    )


def reason(rows: int = 2) -> Component:
    """The field for the reason."""
    field: Component = dmc.Textarea(
        id={"draft": "reason"},
        label="Reason (required to acknowledge, snooze or exempt)",
        placeholder="Explain your decision for later readers",
        autosize=True,
        minRows=rows,
        maxRows=6,
    )
    return field


def assigning(name: str) -> list[Component]:
    """The field for who looks after it, and its button."""
    field: Component = dmc.TextInput(
        id={"assignee": "name"}, label="Assigned to", placeholder="Nobody", value=name, size="sm"
    )
    return [field, button("assign", False)]


def judging(wrong: str, verdict: str) -> list[Component]:
    """The buttons that say whether a finding is right; the current judgement is marked."""
    chosen = {"true_positive": "true", "false_positive": wrong}.get(verdict)
    return [button(name, False, name == chosen) for name in ("true", wrong)]


def allowed(state: str, me: Row | None) -> list[str]:
    """The decisions about a finding in this state; only an administrator may exempt one."""
    if state in ("acked", "snoozed", "exempt"):
        return ["reopen"]
    if state == "resolved":
        return []
    if me is not None and not administers(me):
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


def button(name: str, first: bool, pressed: bool = False) -> Component:
    """The button of an action."""
    state: dict[str, Any] = {"aria-pressed": "true"} if pressed else {}
    classes = ["button", *(["primary"] if first else []), *(["pressed"] if pressed else [])]
    return html.Button(
        ACTIONS[name],
        id={"act": name},
        className=" ".join(classes),
        n_clicks=0,
        type="button",
        **state,
    )


def end(action: str) -> Component:
    """How long to snooze or exempt."""
    options, default = ENDS[action]
    select: Component = dmc.Select(
        id={"until": action},
        label="Snooze for" if action == "snooze" else "Exempt for",
        data=[{"value": days, "label": word} for days, word in options.items()],
        value=default,
        allowDeselect=False,
        size="sm",
        comboboxProps={"transitionProps": {"duration": 0}},
    )
    return html.Div(select, className="option")


def past(row: Row) -> Component:
    """A past decision."""
    until = f" until {formats.when(row.get('until'))}" if row.get("until") else ""
    verdict = f", {VERDICT_WORDS[str(row['verdict'])]}" if row.get("verdict") in VERDICT_WORDS else ""
    to = f" to {formats.clip(row['assignee'], 60)}" if row.get("assignee") else ""
    action = str(row.get("action"))
    word = ("assigned" if to else "unassigned") if action == "assign" else DONE_WORDS.get(action, action)
    note = str(row.get("reason") or "")
    note = "" if note in DEFAULT_REASONS.values() else note  # the word before it has it
    text = f"{formats.clip(row.get('actor'), 40)}: {word}{to}{until}{verdict}"
    return html.Li(
        [
            html.B(text),
            html.Span(f" {formats.clip(note, 300)} "),
            html.Span(formats.when(row.get("at")), className="soft"),
        ]
    )


def until_after(action: str, days: str | None, now: str) -> str | None:
    """The end of a snooze or an exemption that starts now (RFC 3339); None for none."""
    options, default = ENDS[action]
    wanted = days if days is not None and days in options else default
    if not wanted:
        return None
    start = formats.moment(now)
    if start is None:
        raise ValueError(f"not a time: {now!r}")
    return (start + timedelta(days=int(wanted))).isoformat().replace("+00:00", "Z")
