"""Queues announcements of weekly reports, and finds their recipients."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gpuwatch.alerts.channel import REPORT, Channel
from gpuwatch.alerts.outbox.records import Row
from gpuwatch.alerts.outbox.repository import Outbox
from gpuwatch.alerts.record import Note
from gpuwatch.alerts.report_recipients import FLEET, KIND, Recipients
from gpuwatch.alerts.repository import Channels
from gpuwatch.core.clock import rfc3339
from gpuwatch.report.files import SETTLE_US, last_week
from gpuwatch.report.summary import Summary
from gpuwatch.state import State

ANNOUNCED = "report:told"
"""State setting: the last announced week, with its recipients and channels."""


def enqueue(state: State, summaries: Sequence[Summary], now_us: int, *, mail_only: bool = False) -> int:
    """Queues each report for the channels that want it; returns how many messages were queued.

    A channel with `report` among its events gets the fleet's report, or those of its teams. An e-mail channel also sends to
    the recipients card; without any address it queues nothing. Calling it again queues nothing twice. `mail_only`: only
    e-mail channels.
    """
    outbox, card = Outbox(state), Recipients.read(state)
    written = 0
    for channel in Channels(state).list():
        if not channel.enabled or REPORT not in channel.events or (mail_only and channel.mail is None):
            continue
        for summary in summaries:
            to = addresses(channel, summary.team, card)
            if to is None:
                continue
            payload = json.dumps({"at": rfc3339(now_us), "report": summary.as_dict(), "to": list(to)})
            about = f"report {summary.week} {summary.stem.rpartition('/')[2]}"
            written += outbox.announce(channel.name, about, REPORT, payload, now_us)
    return written


def mark_announced(state: State, week: str) -> None:
    """Records that a week was announced to the current recipients."""
    state.note(ANNOUNCED, f"{week} {_readers(state)}")


def to_announce_again(state: State, now_us: int) -> str | None:
    """The last announced week if recipients or e-mail channels have changed since: new recipients still get it. None once
    the next week has ended.
    """
    week, _, readers = (state.setting(ANNOUNCED) or "").partition(" ")
    return week if week == last_week(now_us - SETTLE_US) and readers != _readers(state) else None


def _readers(state: State) -> str:
    """The version of the recipients card, and the e-mail channels that want reports."""
    channels = Channels(state).list()
    names = sorted(one.name for one in channels if one.enabled and one.mail is not None and REPORT in one.events)
    return json.dumps([state.card_version(KIND), names])


def addresses(channel: Channel, team: str | None, card: Recipients) -> tuple[str, ...] | None:
    """Recipients of a report through a channel: e-mail addresses, () for other kinds; None: none."""
    wanted = team is None if channel.teams is None else team in channel.teams
    if channel.mail is None:
        return () if wanted else None
    found = channel.mail.to if wanted else ()
    if channel.teams is None or team in channel.teams:
        found += card.of(FLEET if team is None else team)
    return tuple(dict.fromkeys(found)) or None


def read(row: Row) -> Note:
    """The note of a row. Raises ValueError when its payload is not one."""
    try:
        payload = json.loads(row.payload)
        return Note(Summary.of(payload["report"]), tuple(str(address) for address in payload["to"]))
    except (TypeError, KeyError) as error:
        raise ValueError(f"its payload is not a report ({type(error).__name__})") from error
