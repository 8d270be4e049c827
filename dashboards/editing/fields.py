"""Fields and buttons of forms. A field shows what is wrong with it below itself, in the server's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dash_mantine_components as dmc  # type: ignore[import-untyped]
from dash import dcc, html
from dash.development.base_component import Component

from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.shell.query import Query

FORM = "form"
"""Stands for the whole form where a mistake is of no single field."""
MAX_TEXT = 4000


@dataclass(frozen=True)
class Field:
    """A field: `name` as the API calls it, so that the API's errors find it."""

    name: str
    label: str
    kind: str = "text"
    """text, secret, choice, area, or held: a value that the form keeps and nobody sees."""
    hint: str = ""
    options: Sequence[tuple[str, str]] = ()
    placeholder: str = ""


def form(
    title: str,
    fields: Sequence[Field],
    values: Mapping[str, str],
    buttons: Sequence[Component],
    note: parts.Node = None,
) -> Component:
    """A form with a place for what is wrong with all of it, and one for a preview."""
    shown = [one for one in fields if one.kind != "held"]
    held = [one for one in fields if one.kind == "held"]
    return html.Section(
        [
            html.Header(html.H2(title)),
            html.P(note, className="soft") if note is not None else None,
            html.Div([control(one, values.get(one.name, "")) for one in shown], className="editfields"),
            html.Div([control(one, values.get(one.name, "")) for one in held]),
            html.Div(id={"wrong": FORM}, className="wrong", role="alert"),
            html.Div(list(buttons), className="buttons"),
            html.Div(id={"below": FORM}, className="below-form", role="status"),
        ],
        className="card edit",
        id="edit",
        **parts.aria(title),
    )


def control(one: Field, value: str) -> Component:
    """The control of a field."""
    common: dict[str, Any] = {"id": {"field": one.name}, "label": one.label, "value": value, "size": "sm"}
    common["inputWrapperOrder"] = ["label", "input", "description", "error"]
    if one.kind == "held":
        hidden: Component = dcc.Input(id={"held": one.name}, type="hidden", value=value)
        return hidden
    if one.hint:
        common["description"] = one.hint
    if one.kind == "choice":
        options = list(one.options)
        if value and value not in {entry for entry, _ in options}:
            options.append((value, value))
        select: Component = dmc.Select(
            data=[{"value": entry, "label": word} for entry, word in options],
            allowDeselect=False,
            comboboxProps={"transitionProps": {"duration": 0}},
            **common,
        )
        return select
    if one.kind == "area":
        area: Component = dmc.Textarea(
            autosize=True, minRows=8, maxRows=30, className="whole", classNames={"input": "mono"}, **common
        )
        return area
    if one.kind == "secret":
        secret: Component = dmc.PasswordInput(inputProps={"autoComplete": "new-password"}, **common)
        return secret
    field: Component = dmc.TextInput(placeholder=one.placeholder, **common)
    return field


def button(action: str, label: str, kind: str = "") -> Component:
    """The button of an action. `kind`: primary or danger."""
    return html.Button(label, id={"edit": action}, className=f"button {kind}".strip(), n_clicks=0, type="button")


def cancel(query: Query) -> Component:
    """Leaves the form."""
    return parts.link("Cancel", closed(query), "button")


def controls(query: Query, row: object, label: str, names: Mapping[str, str]) -> Component:
    """Links that open the forms of a row, by action; screen readers add `label`, the name of the row."""
    links = [
        parts.link([text, html.Span(f" {label}", className="unseen")], opened(query, action, row), "button small")
        for action, text in names.items()
    ]
    return html.Div(links, className="rowbuttons")


def opened(query: Query, action: str, row: object = None) -> str:
    """The address of this page with a form open."""
    return query.link(edit=action, row=None if row is None else str(row))


def closed(query: Query) -> str:
    """The address of this page without a form."""
    return query.link(edit=None, row=None, kind=None)
