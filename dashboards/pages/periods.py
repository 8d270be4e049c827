"""Closed billing periods: hash, signatures and corrections, and a form that closes the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, Row, administers
from gpuwatch.dashboards.components import formats, ledger_math, parts
from gpuwatch.dashboards.editing import fields
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import CLOSED, Outcome, Values, acts_on
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

PAGE_SIZE = 26
DIGEST_SHOWN = 12
FORCE = (("no", "No, refuse then"), ("yes", "Yes, close it anyway"))
FIELDS = (
    Field("period", "Week or month", hint="Such as 2026-W47 or 2026-11; it must be over."),
    Field("force", "Close it if data or prices are missing?", "choice", options=FORCE),
)


@dataclass(frozen=True)
class Data:
    """A page of closed periods, and the current time, which determines the next period to close."""

    periods: Row
    now: datetime | None
    edits: bool = False
    """Whether the reader may close periods."""


async def load(api: Api, query: Query) -> Data:
    """A page of periods."""
    found, fleet, me = await asyncio.gather(
        api.periods(PAGE_SIZE, query.get("cursor")), ledger_math.optional(api.fleet()), api.me()
    )
    return Data(found, formats.moment((fleet or {}).get("at")), administers(me))


@page("/periods", "Periods", load, icon="periods", order=8, filters=(), under="/teams")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """One row per closed period, and the form to close one."""
    items: list[Row] = data.periods.get("items") or []
    close = parts.link("Close a period", fields.opened(query, "close"), "button primary") if data.edits else None
    if not items:
        empty = [parts.heading("Which bills are final?", None, close), form(data, query), nothing(data)]
        return html.Div(empty, className="setup")
    unsigned = sum(1 for item in items if not in_force(item))
    note = f"{unsigned} closed without a signature" if unsigned else "All closed periods are signed"
    return html.Div(
        [
            parts.heading("Which bills are final?", note, close),
            form(data, query),
            parts.plain(listing(items, query)),
            parts.pager(data.periods, query),
            next_ones(items, data.now),
        ],
        className="setup",
    )


def form(data: Data, query: Query) -> Component | None:
    """The form that closes a period."""
    if query.get("edit") != "close" or not data.edits:
        return None
    items: list[Row] = data.periods.get("items") or []
    week, month = over(data.now) if data.now else ("", "")
    name = month if items and "W" not in str(items[0].get("period")) else week
    note = "Its charges are frozen with a hash. What changes later is billed as a correction in the open period."
    buttons = [fields.button("close", "Close it", "primary"), fields.cancel(query)]
    return fields.form("Close a period", FIELDS, {"period": query.get("row") or name, "force": "no"}, buttons, note)


@acts_on("/periods")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Closes the period of the form."""
    if action != "close":
        raise PreventUpdate
    name = values.get("period", "")
    await api.change("POST", "periods", {"period": name, "force": values.get("force") == "yes"}, patient=True)
    return Outcome(message=f"{name} is closed. Its page has the form to sign it.", go=CLOSED)


def nothing(data: Data) -> Component:
    """No closed periods."""
    return states.empty(
        "No closed periods yet",
        "The bill of an open week or month changes as new data arrives. Closing freezes it with a hash; later changes "
        "are billed as corrections in the open period.",
    )


def over(now: datetime) -> tuple[str, str]:
    """The latest complete ISO week and calendar month at `now`, as period names."""
    at = now.astimezone(UTC)
    week = (at - timedelta(days=at.isoweekday())).isocalendar()
    month = at.replace(day=1) - timedelta(days=1)
    return f"{week.year}-W{week.week:02d}", f"{month:%Y-%m}"


def next_ones(items: Sequence[Row], now: datetime | None) -> Component | None:
    """Whether the latest complete period of the same kind is closed."""
    if now is None:
        return None
    week, month = over(now)
    newest = str(items[0].get("period"))
    name = week if "W" in newest else month
    if any(item.get("period") == name and item.get("state") == "closed" for item in items):
        return html.P(f"The latest complete period, {name}, is closed.", className="soft")
    return states.advice(f"{name} is complete but still open.")


def in_force(item: Row) -> list[Row]:
    """Signatures of the current closing."""
    return [one for one in item.get("signatures") or [] if one.get("number") == item.get("number")]


def state_tag(item: Row) -> Component:
    """Closed or reopened, with the number of the closing."""
    number = formats.number(item.get("number")) or Decimal(1)
    again = f", closing {number}" if number > 1 else ""
    return parts.tag(f"Closed{again}", "ok") if item.get("state") == "closed" else parts.tag("Reopened", "warn")


def corrected(item: Row) -> Decimal | None:
    """Total of all corrections so far; zero if there are none, None if they have no price."""
    lines: list[Row] = item.get("corrections") or []
    costs = [cost for line in lines if (cost := formats.number(line.get("cost"))) is not None]
    return sum(costs, Decimal(0)) if costs or not lines else None


def digest(text: object) -> Component:
    """The start of a hash, all of it on hover; the API leaves it out for team-scoped tokens."""
    shown = str(text or formats.MISSING)
    return html.Span(shown[:DIGEST_SHOWN], className="mono", title=shown)


def billed(value: object, item: Row) -> Component:
    """Money to the cent, since it is compared with a bill."""
    sign = formats.sign_of(str(item.get("currency") or ""))
    amount = formats.number(value)
    text = formats.fixed(None if amount is None else abs(amount), 2)
    minus = "-" if amount is not None and amount < 0 else ""
    return parts.num(
        text if amount is None else f"{minus}{sign}{text}", "No price for this" if amount is None else amount
    )


def listing(items: Sequence[Row], query: Query) -> Component:
    """One row per period."""
    columns = [
        parts.Column("Period"),
        parts.Column("State"),
        parts.Column("Bill", "r", hint="As frozen"),
        parts.Column("Corrected", "r", hint="Since closing; billed in the period in which each was found"),
        parts.Column("Closed", "narrow-hide"),
        parts.Column("Signed by", "narrow-hide"),
        parts.Column("Hash (SHA-256)", "narrow-hide"),
    ]
    rows = [
        [
            parts.link(str(item.get("period")), query.link(f"/periods/{item.get('period')}"), "title"),
            state_tag(item),
            billed(item.get("cost"), item),
            billed(corrected(item), item),
            html.Span(
                f"{formats.when(item.get('closed_at'))} by {formats.clip(item.get('closed_by'), 40)}",
                className="soft",
            ),
            signers(item),
            digest(item.get("digest")),
        ]
        for item in items
    ]
    return parts.table(columns, rows, label="Closed periods")


def signers(item: Row) -> Component:
    """Who signed the current closing."""
    found = [formats.clip(one.get("signer"), 40) for one in in_force(item)]
    return html.Span(", ".join(found[:3])) if found else html.Span("not signed", className="missing")
