"""Channels: where messages go, whether they arrived, and a button that sends a test message."""

from __future__ import annotations

import asyncio

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

PAGE_SIZE = 100
READ_ONLY = "Only a token with the scope admin may send a test message."


async def load(api: Api, query: Query) -> Row:
    """One page of channels, and who looks at it."""
    listed, me = await asyncio.gather(api.get("channels", limit=PAGE_SIZE, cursor=query.get("cursor")), api.me())
    return {**listed, "me": me}


@page("/channels", "Channels", load, icon="channels", order=13, filters=(), under="/findings")
def layout(data: Row, query: Query, scheme: str) -> Component:
    """One row per channel; administrators have a button in each."""
    items: list[Row] = data.get("items") or []
    if not items:
        text = "An administrator can add one in gpuwatch.toml or with PUT /api/v1/channels."
        return html.Div([parts.heading("Channels"), states.empty("No channels set", text)])
    may_test = (data.get("me") or {}).get("scope") == "admin"
    failing = sum(1 for item in items if status(item)[0] == "bad")
    note = f"The last delivery failed in {failing} of {len(items)}" if failing else None
    columns = [
        parts.Column("Channel", "wide"),
        parts.Column("Severity", "narrow-hide", hint="Findings of this range are sent"),
        parts.Column("Deliveries"),
        parts.Column("Waiting", "r narrow-hide", hint="Messages that are yet to be delivered"),
        parts.Column("Given up", "r narrow-hide", hint="Messages that could not be delivered in time"),
        *([parts.Column("Test")] if may_test else []),
    ]
    rows = [row(item, may_test) for item in items]
    return html.Div(
        [
            parts.heading("Channels", note),
            None if may_test else html.P(READ_ONLY, className="soft"),
            parts.plain(parts.table(columns, rows, label="Channels")),
            parts.pager(data, query),
        ]
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


def row(item: Row, may_test: bool) -> list[parts.Node]:
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
    return [*cells, button(name)] if may_test else cells


def button(name: str) -> Component:
    """Sends a test message. The id has the name in hexadecimal, because Dash splits ids at dots."""
    label = parts.aria(f"Send a test message through {name}")
    return html.Button(
        "Send a test", id={"test": name.encode().hex()}, className="button", n_clicks=0, type="button", **label
    )


async def send_test(api: Api, name: str) -> Component:
    """Sends a test message. Returns the message to show: delivered, or the reason why not."""
    sent = await api.test_channel(name)
    if sent.get("ok"):
        return parts.tag(f"{name}: the test message was delivered.", "ok")
    why = str(sent.get("error") or "").removeprefix(f"channel {name}: ")
    return parts.tag(f"{name}: not delivered. {formats.clip(why, 300)}", "bad")
