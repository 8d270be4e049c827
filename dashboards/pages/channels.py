"""Channels: where messages go, whether they arrived, forms that change them, and a button that sends a test message."""

from __future__ import annotations

import asyncio

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row, administers
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import delivery_log, fields, history
from gpuwatch.dashboards.editing.outcome import Outcome, Values, acts_on
from gpuwatch.dashboards.pages.setup import channel_form
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

PAGE_SIZE = 100
READ_ONLY = "Only a token with the scope admin may send a test message."


async def load(api: Api, query: Query) -> Row:
    """One page of channels, and who looks at it."""
    listed, me = await asyncio.gather(api.get("channels", limit=PAGE_SIZE, cursor=query.get("cursor")), api.me())
    changes, messages = await asyncio.gather(history.read(api, me, "channels"), delivery_log.read(api, query))
    return {**listed, "me": me, "changes": changes, "deliveries": messages}


@page("/channels", "Channels", load, icon="channels", order=54, filters=(), under="/setup", whole_fleet=True)
def layout(data: Row, query: Query, scheme: str) -> Component:
    """One row per channel; administrators have a button in each."""
    items: list[Row] = data.get("items") or []
    may_test = administers(data.get("me") or {})
    kinds = [
        parts.link(word, query.link(edit="add", kind=name, row=None), "button small")
        for name, word in channel_form.KINDS
    ]
    add = html.Div([html.Span("Add:", className="soft"), *kinds], className="rowbuttons") if may_test else None
    form = channel_form.form(items, str(data.get("version") or ""), query) if may_test else None
    if not items:
        empty = states.empty("No channels set", "An administrator can add one here, or in gpuwatch.toml.")
        return html.Div([parts.heading("Channels", None, add), form, empty], className="setup")
    failing = sum(1 for item in items if status(item)[0] == "bad")
    note = f"The last delivery failed in {failing} of {len(items)}" if failing else None
    columns = [
        parts.Column("Channel", "wide"),
        parts.Column("Severity", "narrow-hide", hint="Findings of this range are sent"),
        parts.Column("Deliveries"),
        parts.Column("Waiting", "r narrow-hide", hint="Messages that are yet to be delivered"),
        parts.Column("Given up", "r narrow-hide", hint="Messages that could not be delivered in time"),
        *([parts.Column("Test"), parts.Column("Change", "r")] if may_test else []),
    ]
    rows = [row(item, may_test, query) for item in items]
    return html.Div(
        [
            parts.heading("Channels", note, add),
            form,
            None if may_test else html.P(READ_ONLY, className="soft"),
            parts.plain(parts.table(columns, rows, label="Channels")),
            parts.pager(data, query),
            delivery_log.card(data.get("deliveries"), query, may_test),
            history.card(data.get("changes"), query, "channels"),
        ],
        className="setup",
    )


def status(item: Row) -> tuple[str, str]:
    """The status tag: its kind and label. An error counts until a later message has arrived."""
    found: Row = item.get("status") or {}
    sent, failed = found.get("last_sent_at"), found.get("last_error_at")
    if not item.get("enabled"):
        return "plain", "Off"
    if failed and (not sent or str(failed) > str(sent)):
        return "bad", "Failed"
    return ("ok", "Delivered") if sent else ("plain", "Nothing sent yet")


def row(item: Row, may_test: bool, query: Query) -> list[parts.Node]:
    """A channel."""
    found: Row = item.get("status") or {}
    name, (kind, word) = str(item.get("name")), status(item)
    at = found.get("last_error_at") if kind == "bad" else found.get("last_sent_at")
    why = formats.clip(found.get("last_error"), 300) if kind == "bad" else None
    under = " · ".join(str(part) for part in (item.get("kind"), item.get("url_hint")) if part)
    cells: list[parts.Node] = [
        html.Div([html.B(name), html.Div(formats.clip(under, 80), className="soft small")]),
        f"{item.get('severity_min')} to {item.get('severity_max')}",
        html.Div(
            [
                parts.tag(word, kind),
                html.Span(f" {formats.when(at)}", className="soft small") if at else None,
                html.Div(why, className="small") if why else None,
            ]
        ),
        parts.num(str(found.get("pending", formats.MISSING))),
        parts.num(str(found.get("dead", formats.MISSING))),
    ]
    return [*cells, button(name), controls(item, query)] if may_test else cells


def controls(item: Row, query: Query) -> Component:
    """Edit and remove; a channel of gpuwatch.toml is changed there."""
    if item.get("origin") == "file":
        return html.Span("in gpuwatch.toml", className="soft small")
    name = str(item.get("name"))
    links = [
        parts.link(
            [word, html.Span(f" {name}", className="unseen")], fields.opened(query, action, name), "button small"
        )
        for action, word in (("change", "Edit"), ("remove", "Remove"))
    ]
    return html.Div(links, className="rowbuttons")


def button(name: str) -> Component:
    """Sends a test message. The id has the name in hexadecimal, because Dash splits ids at dots."""
    label = parts.aria(f"Send a test message through {name}")
    return html.Button(
        "Send a test", id={"test": name.encode().hex()}, className="button", n_clicks=0, type="button", **label
    )


@acts_on("/channels")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Saves the form of the address, or tries a message again."""
    if action.startswith(delivery_log.AGAIN):
        return await delivery_log.act(api, action)
    return await channel_form.act(api, query, action, values)


async def send_test(api: Api, name: str) -> Component:
    """Sends a test message. Returns the message to show: delivered, or the reason why not."""
    sent = await api.test_channel(name)
    if sent.get("ok"):
        return parts.tag(f"{name}: the test message was delivered.", "ok")
    why = str(sent.get("error") or "").removeprefix(f"channel {name}: ")
    return parts.tag(f"{name}: not delivered. {formats.clip(why, 300)}", "bad")
