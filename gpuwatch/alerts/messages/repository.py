"""The delivery log: every message of the outbox with its channel, state, tries and last error; and trying one again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gpuwatch.alerts.channel import REPORT
from gpuwatch.alerts.outbox.tables import OUTBOX as _outbox
from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.state.core import State, record

WORDS = {"pending": "waiting", "sending": "sending", "sent": "sent", "dead": "given_up", "withdrawn": "withdrawn"}
"""States of the outbox, and what they are called outside."""
STATES = tuple(WORDS.values())
AGAIN = ("pending", "dead")
"""States of a message that may be tried again: one that waits is due at once."""
MAX_ROWS = 1000
MAX_WORDS = 500
"""Characters of a subject."""


def deliveries(
    state: State,
    *,
    channel: str | None = None,
    states: Sequence[str] = (),
    below: int | None = None,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Messages as JSON has them, the newest first. `states` are of STATES; `below` is the id of the last one of the page before."""
    query = sa.select(_outbox).order_by(_outbox.c.id.desc()).limit(max(0, min(limit, MAX_ROWS)))
    if channel is not None:
        query = query.where(_outbox.c.channel == channel)
    if states:
        query = query.where(_outbox.c.state.in_([name for name, word in WORDS.items() if word in states]))
    if below is not None:
        query = query.where(_outbox.c.id < below)
    with state.transaction(write=False) as connection:
        return [_shown(dict(row._mapping)) for row in connection.execute(query)]


def retry(state: State, ident: int, known: Sequence[str], actor: str, now_us: int) -> dict[str, Any] | None:
    """Makes a message due now, with an audit row; None if there is none of this id. `known`: names of channels.

    Raises UsageError for one that was sent or withdrawn, that is being sent, or whose channel is gone.
    """
    with state.transaction(write=True) as connection:
        row = _one(connection, ident)
        if row is None:
            return None
        if row["channel"] not in known:
            raise UsageError(f"message {ident}: its channel {row['channel']} no longer exists")
        if row["state"] not in AGAIN:
            raise UsageError(
                f"message {ident}: it is {WORDS[row['state']]}; only one that waits or was given up is tried again"
            )
        # A message that was given up starts with no tries; the order of a channel is that of the ids.
        values: dict[str, Any] = {"state": "pending", "batch": None, "due_us": now_us}
        values |= {"attempts": 0, "wanted_us": now_us} if row["state"] == "dead" else {}
        connection.execute(sa.update(_outbox).where(_outbox.c.id == ident).values(**values))
        record(connection, now_us, actor, f"channel {row['channel']} message {ident} tried again", None, _subject(row))
        after = _one(connection, ident)
    return None if after is None else _shown(after)


def _one(connection: Connection, ident: int) -> Mapping[str, Any] | None:
    row = connection.execute(sa.select(_outbox).where(_outbox.c.id == ident)).first()
    return None if row is None else dict(row._mapping)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    def time(name: str) -> str | None:
        return None if row[name] is None else rfc3339(row[name])

    report = row["event"] == REPORT
    return {
        "id": row["id"],
        "channel": row["channel"],
        "event": row["event"],
        "subject": _subject(row),
        "finding": None if report else row["finding_key"],
        "severity": row["severity"],
        "team": row["team"],
        "to": _recipients(row) if report else [],
        "state": WORDS[row["state"]],
        "tries": row["attempts"],
        "created_at": time("created_us"),
        "tried_at": time("tried_us"),
        "sent_at": time("sent_us"),
        "next_at": time("due_us") if row["state"] == "pending" else None,
        "last_error": row["last_error"],
    }


def _subject(row: Mapping[str, Any]) -> str:
    """What a message is about, in one sentence."""
    payload = _payload(row)
    found = payload.get("finding")
    if isinstance(found, dict):
        return str(found.get("summary") or found.get("title") or row["finding_key"])[:MAX_WORDS]
    report = payload.get("report")
    if isinstance(report, dict):
        whose = report.get("team") or "the fleet"
        return f"Report of week {report.get('week')} for {whose}"[:MAX_WORDS]
    return str(row["finding_key"] or row["event"])[:MAX_WORDS]


def _recipients(row: Mapping[str, Any]) -> list[str]:
    """Addresses of the recipients of a report; those of the channel are not named."""
    found = _payload(row).get("to")
    return [str(one) for one in found] if isinstance(found, list) else []


def _payload(row: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(row["payload"])
    except (ValueError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
