"""The form that sets thresholds of a rule for everybody, a pool or a team, after a back-test of them."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, quantities, rule_trial
from gpuwatch.dashboards.editing import fields, list_actions
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import CLOSED, Outcome, Values
from gpuwatch.dashboards.shell.query import Query

EVERYBODY, POOL, TEAM = "all", "pool", "team"
DROP = "default"
"""What a field holds to drop its own value."""
STAYS = f"Empty: it stays. Write {DROP} to drop an own value."
SCOPE = (
    Field("scope", "For", "choice", options=((EVERYBODY, "Everybody"), (POOL, "One pool"), (TEAM, "One team"))),
    Field("where", "Pool or team", hint="Its name, unless it is for everybody."),
    Field("cluster", "Cluster of the pool", hint="Empty: pools of this name in all clusters."),
    Field("off", "Rule", "choice", options=(("", "As it is"), ("no", "Enabled"), ("yes", "Disabled"))),
)
HELD = (Field(list_actions.VERSION, "", "held"),)
OWN = tuple(one.name for one in (*SCOPE, *HELD))
DOCUMENT = ("preset", "off", "thresholds", "pools", "teams")
"""Fields of the card that PUT takes."""


def form(rule: Row, card: Row, query: Query) -> Component:
    """The thresholds with the values in effect as placeholders."""
    limits = [
        Field(name, quantities.label(name), placeholder=quantities.typed(name, entry))
        for name, entry in (rule.get("thresholds") or {}).items()
    ]
    buttons = [
        fields.button(list_actions.PREVIEW, "Back-test them"),
        fields.button(list_actions.SAVE, "Save", "primary"),
        fields.cancel(query),
    ]
    values = {"scope": EVERYBODY, "off": "", list_actions.VERSION: str(card.get("version"))}
    title = f"Set thresholds: {formats.clip(rule.get('title'), 80)}"
    return fields.form(title, [*limits, *SCOPE, *HELD], values, buttons, STAYS)


async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Back-tests the thresholds of the form, or sets them."""
    rule = query.path.removeprefix("/detectors/")
    limits = {name: text for name, text in values.items() if name not in OWN and text}
    if action == list_actions.PREVIEW:
        wanted = {name: rule_trial.number_or_text(text) for name, text in limits.items() if text != DROP}
        body: Row = {"window": query.window, "thresholds": wanted}
        return Outcome(below=html.Div(rule_trial.results(await api.backtest(rule, body), query)))
    if action != list_actions.SAVE:
        raise PreventUpdate
    if values.get("scope") in (POOL, TEAM) and not values.get("where"):
        return Outcome(wrong={"where": "Name the pool or the team."})
    card = await api.detectors_card()
    document = changed(card, rule, limits, values)
    done = await api.change("PUT", "detectors/card", document, version=values.get(list_actions.VERSION, ""))
    message = "The thresholds are set; the next analysis uses them." if done.get("changed") else "Nothing changed."
    return Outcome(message=message, go=CLOSED)


def changed(card: Row, rule: str, limits: Values, values: Values) -> Row:
    """The card with the thresholds of a form."""
    document: Row = {name: card.get(name) for name in DOCUMENT}
    scope = values.get("scope", EVERYBODY)
    if scope == EVERYBODY:
        return layered(document, rule, limits, values.get("off", ""))
    many = "pools" if scope == POOL else "teams"
    place: dict[str, Any] = {scope: values.get("where", "")}
    if scope == POOL:
        place["cluster"] = values.get("cluster") or None
    rows: list[Row] = list(document[many] or [])
    at = next((n for n, row in enumerate(rows) if all(row.get(k) == v for k, v in place.items())), len(rows))
    before: Row = rows[at] if at < len(rows) else {**place, "preset": None, "off": [], "thresholds": {}}
    rows[at : at + 1] = [layered(before, rule, limits, values.get("off", ""))]
    return document | {many: rows}


def layered(layer: Row, rule: str, limits: Values, off: str) -> Row:
    """One layer of the card with the thresholds of a form."""
    thresholds: dict[str, Row] = {name: dict(own) for name, own in (layer.get("thresholds") or {}).items()}
    own = thresholds.setdefault(rule, {})
    for name, text in limits.items():
        if text == DROP:
            own.pop(name, None)
        else:
            own[name] = rule_trial.number_or_text(text)
    if not own:
        del thresholds[rule]
    disabled = [name for name in layer.get("off") or [] if name != rule or not off]
    if off == "yes":
        disabled.append(rule)
    return layer | {"thresholds": thresholds, "off": disabled}
