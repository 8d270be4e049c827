"""Messages to channels as a table: what, where to, whether it arrived, why not, and a button that tries it again."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, ledger_math, parts
from gpuwatch.dashboards.editing import fields
from gpuwatch.dashboards.editing.outcome import CLOSED, Outcome
from gpuwatch.dashboards.shell.query import Query, finding_link

SHOWN = 50
AGAIN = "again-"
"""Begins the action of a button; the id of its message follows."""
STATES = {
    "waiting": ("Waiting", "warn"),
    "sending": ("Sending", "plain"),
    "sent": ("Delivered", "ok"),
    "given_up": ("Given up", "bad"),
    "withdrawn": ("Withdrawn", "plain"),
}
EVENTS = {"opened": "New", "worsened": "Worse", "resolved": "Resolved"}
PICKS = {"": "All", "waiting": "Waiting", "given_up": "Given up", "sent": "Delivered"}
MAX_WORDS = 300


async def read(api: Api, query: Query) -> Row | None:
    """One page of messages, the newest first; None if they cannot be read."""
    state = query.get("state") if query.get("state") in PICKS else ""
    call = api.get("deliveries", limit=SHOWN, state=state, channel=query.get("of"), cursor=query.get("log"))
    return await ledger_math.optional(call)


def card(found: Row | None, query: Query, edits: bool) -> Component | None:
    """The messages of all channels or of one, and the choice of their state."""
    if found is None:
        return None
    items: list[Row] = found.get("items") or []
    chosen = query.get("state") if query.get("state") in PICKS else ""
    choices = [
        (word, query.link(state=name or None, log=None, edit=None), name == chosen) for name, word in PICKS.items()
    ]
    of = query.get("of")
    title = f"Messages of {formats.clip(of, 64)}" if of else "Messages"
    note = parts.link("All channels", query.link(of=None, log=None), "more") if of else "The newest first, of 30 days"
    body = table(items, query, edits) if items else html.P(nothing(chosen), className="soft")
    return parts.card(title, parts.picks(choices, "State"), body, pages(found, query), note=note)


def nothing(chosen: str) -> str:
    """What it means that there is none."""
    if chosen == "given_up":
        return "No message was given up."
    if chosen == "waiting":
        return "No message waits."
    return "No message yet: there is one for each finding that a channel takes, and for each report."


def table(items: list[Row], query: Query, edits: bool) -> Component:
    """One row per message."""
    heads = [
        parts.Column(f"When ({formats.zone_word()})", "nowrap narrow-hide"),
        parts.Column("Message", "wide"),
        parts.Column("Channel", "narrow-hide"),
        parts.Column("State"),
        parts.Column("Tries", "r narrow-hide"),
        parts.Column("Next try", "nowrap narrow-hide"),
        *([parts.Column("Change", "narrow-hide" if not any(again(one) for one in items) else "")] if edits else []),
    ]
    rows = [line(one, query, edits) for one in items]
    return parts.table(heads, rows, label="Messages")


def line(row: Row, query: Query, edits: bool) -> list[parts.Node]:
    """A message."""
    word, tone = STATES.get(str(row.get("state")), (str(row.get("state")), "plain"))
    at = row.get("sent_at") or row.get("tried_at") or row.get("created_at")
    subject, channel = str(row.get("subject") or ""), formats.clip(row.get("channel"), 64)
    shown: Component = html.Span(formats.clip(subject, 200), title=subject)
    if row.get("finding"):
        shown = parts.link(formats.clip(subject, 200), finding_link(query, str(row["finding"])), title=subject)
    event = EVENTS.get(str(row.get("event")), formats.sentence(str(row.get("event") or "")))
    lead = None if row.get("event") == "report" else html.Span(f"{event}: ", className="soft")
    to = formats.clip(", ".join(str(one) for one in row.get("to") or []), 80)
    why = formats.clip(row.get("last_error"), MAX_WORDS) if row.get("last_error") else None
    cells: list[parts.Node] = [
        html.Span(formats.clock(at), className="num nowrap"),
        html.Div(
            [
                html.Div([lead, shown], className="two-lines"),
                html.Div(f"to {to}", className="soft small breaks") if to else None,
                html.Div(f"{channel} · {formats.clock(at)}", className="soft small narrow-only"),
            ]
        ),
        parts.link(channel, query.link(of=str(row.get("channel")), log=None)),
        html.Div([parts.tag(word, tone), html.Div(why, className="small two-lines", title=why) if why else None]),
        parts.num(f"{row.get('tries') or 0}"),
        html.Span(formats.clock(row.get("next_at")) if row.get("next_at") else "", className="num"),
    ]
    return [*cells, button(row) if again(row) else None] if edits else cells


def again(row: Row) -> bool:
    """Whether it can be tried again: it was given up, or it waits after a failure."""
    return row.get("state") == "given_up" or (row.get("state") == "waiting" and bool(row.get("tries")))


def button(row: Row) -> Component:
    """Tries a message again."""
    found = fields.button(f"{AGAIN}{row.get('id')}", "Try again", "small")
    return html.Div([found], className="rowbuttons")


def pages(found: Row, query: Query) -> Component | None:
    """Links to older messages and back to the newest."""
    links = [parts.link("Newest", query.link(log=None), "button small")] if query.get("log") else []
    if found.get("next"):
        links.append(parts.link("Older", query.link(log=str(found["next"])), "button small"))
    return html.Div(links, className="pager") if links else None


async def act(api: Api, action: str) -> Outcome:
    """Tries the message of a button again."""
    ident = action.removeprefix(AGAIN)
    if not ident.isdecimal():
        raise PreventUpdate  # no button of ours
    done = await api.change("POST", f"deliveries/{ident}/retry")
    return Outcome(
        message=f"The message to {formats.clip(done.get('channel'), 64)} is tried again within seconds.", go=CLOSED
    )
