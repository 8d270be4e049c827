"""The outbox: every message of every channel, queued before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gpuwatch.alerts.outbox.records import ANSWERED, Batch, Change, FindChanges, Mark, Row, Status, batch_key
from gpuwatch.alerts.outbox.tables import MARKS, QUEUED, THROTTLED, schedule
from gpuwatch.alerts.outbox.tables import OUTBOX as _outbox
from gpuwatch.core.clock import DAY_US
from gpuwatch.core.errors import StoreError
from gpuwatch.state.core import State

MAX_QUEUED = 1000
"""Messages queued for one channel. Further changes are not marked, so a later pass finds them again."""

KEEP_US = 30 * DAY_US
"""How long delivered and abandoned messages are kept."""

GIVE_UP_US = 3 * DAY_US
"""How long after its due time an undeliverable message is abandoned."""

WITHDRAWN = "withdrawn"
"""State of a message that was queued until then: it is not sent."""


class Outbox:
    """The outbox and its marks. Each method is one transaction; all are safe in threads and in several processes."""

    def __init__(self, state: State) -> None:
        self._state = state

    def update(
        self,
        channel: str,
        find_changes: FindChanges,
        due_us: int,
        now_us: int,
        *,
        urgent: Collection[str] = (),
        throttle_us: int = 0,
    ) -> int:
        """Writes the changes that `find_changes` returns, messages and marks together; returns the number of messages.

        A message is written once for each dedup key. It is due now if its severity is one of `urgent`; `throttle_us` after
        the last message about the same rule and owner; else at `due_us`. Queued messages about an ANSWERED finding are
        withdrawn, and a resolution is not sent if nothing before it was delivered.
        """
        with self._state.transaction(write=True) as connection:
            settled = _outbox.c.state.not_in(QUEUED) & (_outbox.c.created_us < now_us - KEEP_US)
            connection.execute(sa.delete(_outbox).where(settled))
            marks = _marks(connection, channel)
            free = MAX_QUEUED - _count_queued(connection, channel)
            changes = _first_changes(find_changes(marks), free)
            _keep_marks(connection, channel, changes, marks)
            answered = [change.finding_key for change in changes if change.mark.state == ANSWERED]
            _withdraw(connection, channel, answered)
            messages = [change for change in changes if change.event is not None]
            rows = [(_row(channel, change, due_us, now_us), change.about) for change in messages]
            if rows:
                schedule(connection, channel, rows, now_us, urgent, throttle_us)
            return _queue(connection, channel, [row for row, _ in rows])

    def announce(self, channel: str, about: str, event: str, payload: str, now_us: int) -> bool:
        """Queues a message without a finding, once; False if the channel had a message `about` this before.

        Raises StoreError if too many messages are queued for the channel; a later pass tries again.
        """
        dedup = f"{channel}|{about}|{event}"
        with self._state.transaction(write=True) as connection:
            if _known(connection, [dedup]):
                return False
            if _count_queued(connection, channel) >= MAX_QUEUED:
                raise StoreError(f"channel {channel}: {MAX_QUEUED} messages wait; see its last error")
            row = {"dedup": dedup, "channel": channel, "finding_key": about, "event": event, "payload": payload}
            times = {"state": "pending", "created_us": now_us, "due_us": now_us, "attempts": 0}
            connection.execute(sa.insert(_outbox).values(**row, **times))
        return True

    def waiting(self) -> frozenset[str]:
        """Channels with queued messages, due or not."""
        query = sa.select(_outbox.c.channel).where(_outbox.c.state.in_(QUEUED)).distinct()
        with self._state.transaction(write=False) as connection:
            return frozenset(connection.scalars(query))

    def claim(
        self,
        channel: str,
        now_us: int,
        hold_us: int,
        limit: int,
        passing: Collection[str] | None,
        choose: Callable[[Sequence[Row]], Sequence[Row]],
    ) -> Batch | None:
        """The next message of a channel, held for the caller until now + `hold_us`; None when nothing is due.

        1. The oldest message that was tried or is due decides: while it waits for a retry, or another sender holds it, all
        later ones wait too. 2. A message whose sender vanished is taken again unchanged, with the same key. 3. Otherwise
        `choose` picks the due rows (of at most `limit`, oldest first) that go together. `passing`: in a quiet time, only
        findings of these severities are sent, with everything queued about them; None: no quiet time.
        """
        with self._state.transaction(write=True) as connection:
            mine = whole = _outbox.c.channel == channel
            if passing is not None:
                urgent = mine & _outbox.c.state.in_(QUEUED) & _outbox.c.severity.in_(list(passing))
                mine = mine & _outbox.c.finding_key.in_(sa.select(_outbox.c.finding_key).where(urgent))
            due = _outbox.c.due_us <= now_us
            begun = (_outbox.c.state == "sending") | (_outbox.c.attempts > 0)
            head = connection.execute(
                sa.select(_outbox).where(mine, _outbox.c.state.in_(QUEUED), begun | due).order_by(_outbox.c.id).limit(1)
            ).first()
            if head is None or head.due_us > now_us:
                return None
            query = sa.select(*(_outbox.c[n] for n in Row.__dataclass_fields__)).order_by(_outbox.c.id)
            if head.state == "sending":
                query = query.where(whole, _outbox.c.state == "sending", _outbox.c.batch == head.batch)
                rows = tuple(Row(*row) for row in connection.execute(query))
                key = head.batch
            else:
                found = connection.execute(query.where(mine, _outbox.c.state == "pending", due).limit(limit))
                rows = tuple(choose([Row(*row) for row in found]))
                key = batch_key(channel, rows)
            batch = Batch(channel, key, rows, now_us + hold_us)
            taken = connection.execute(
                sa.update(_outbox)
                .where(_outbox.c.id.in_([row.id for row in rows]), _outbox.c.state == head.state, due)
                .values(
                    state="sending",
                    batch=key,
                    due_us=batch.held_until_us,
                    attempts=_outbox.c.attempts + 1,
                    tried_us=now_us,
                )
            )
            return batch if taken.rowcount == len(rows) else None

    def sent(self, batch: Batch, now_us: int) -> None:
        """Records that the message of a batch was delivered."""
        with self._state.transaction(write=True) as connection:
            rows = _outbox.c.id.in_([row.id for row in batch.rows])
            connection.execute(sa.update(_outbox).where(rows).values(state="sent", sent_us=now_us, last_error=None))

    def failed(self, batch: Batch, error: str, retry_us: int | None, now_us: int) -> None:
        """Records a failed delivery: retried at `retry_us`, or never (None). Rows older than GIVE_UP_US are abandoned."""
        held = (
            _outbox.c.id.in_([row.id for row in batch.rows])
            & (_outbox.c.state == "sending")
            & (_outbox.c.due_us == batch.held_until_us)
        )
        wanted_us = sa.func.coalesce(_outbox.c.wanted_us, _outbox.c.created_us)
        old = held if retry_us is None else held & (wanted_us <= now_us - GIVE_UP_US)
        reason = error if retry_us is None else f"given up after {GIVE_UP_US // DAY_US} days: {error}"
        with self._state.transaction(write=True) as connection:
            connection.execute(sa.update(_outbox).where(old).values(state="dead", last_error=reason))
            if retry_us is not None:
                again = {"state": "pending", "batch": None, "due_us": retry_us, "last_error": error}
                connection.execute(sa.update(_outbox).where(held).values(**again))

    def discard(self, row: Row, error: str) -> None:
        """Marks a row that cannot become a message as dead, with its error."""
        with self._state.transaction(write=True) as connection:
            values = {"state": "dead", "last_error": error}
            connection.execute(sa.update(_outbox).where(_outbox.c.id == row.id).values(**values))

    def status(self) -> dict[str, Status]:
        """Delivery status by channel; channels that never had a message are absent."""
        count = sa.func.count
        with self._state.transaction(write=False) as connection:
            found = connection.execute(
                sa.select(
                    _outbox.c.channel,
                    sa.func.max(_outbox.c.sent_us),
                    count().filter(_outbox.c.state.in_(QUEUED)),
                    count().filter(_outbox.c.state == "dead"),
                ).group_by(_outbox.c.channel)
            ).all()
            result = {}
            for name, last_sent_us, pending, dead in found:
                query = sa.select(_outbox.c.last_error, _outbox.c.tried_us).where(
                    _outbox.c.channel == name, _outbox.c.last_error.is_not(None)
                )
                newest = query.order_by(_outbox.c.tried_us.desc().nulls_last(), _outbox.c.id.desc()).limit(1)
                error, error_us = connection.execute(newest).first() or (None, None)
                result[name] = Status(last_sent_us, error, error_us, pending, dead)
        return result


def drop(connection: Connection, channel: str) -> None:
    """Abandons the queued messages of a removed channel, within a transaction."""
    waiting = (_outbox.c.channel == channel) & _outbox.c.state.in_(QUEUED)
    connection.execute(sa.update(_outbox).where(waiting).values(state="dead", last_error="the channel was removed"))


def revive(connection: Connection, channel: str, now_us: int) -> None:
    """Queues recently undelivered messages again, within a transaction: the address was corrected."""
    lost = (_outbox.c.channel == channel) & (_outbox.c.state == "dead") & (_outbox.c.created_us > now_us - GIVE_UP_US)
    waiting = (_outbox.c.channel == channel) & (_outbox.c.state == "pending")
    again = {"state": "pending", "batch": None, "due_us": now_us, "attempts": 0}
    connection.execute(sa.update(_outbox).where(lost | waiting).values(**again))


def _first_changes(changes: Sequence[Change], messages: int) -> list[Change]:
    """All changes without a message, and the first ones with a message, up to this number of messages."""
    kept = []
    for change in changes:
        if change.event is not None:
            messages -= 1
        if change.event is None or messages >= 0:
            kept.append(change)
    return kept


def _marks(connection: Connection, channel: str) -> dict[str, Mark]:
    """The marks of a channel by finding key."""
    query = sa.select(*(MARKS.c[n] for n in ("finding_key", *Mark.__dataclass_fields__)))
    return {key: Mark(*rest) for key, *rest in connection.execute(query.where(MARKS.c.channel == channel))}


def _keep_marks(connection: Connection, channel: str, changes: Sequence[Change], marks: Mapping[str, Mark]) -> None:
    """Stores the new marks in place of the old ones."""
    old = [{"key": change.finding_key} for change in changes if change.finding_key in marks]
    if old:
        same = MARKS.c.channel == channel, MARKS.c.finding_key == sa.bindparam("key")
        connection.execute(sa.delete(MARKS).where(*same), old)
    new = [{"channel": channel, "finding_key": change.finding_key, **asdict(change.mark)} for change in changes]
    if new:
        connection.execute(sa.insert(MARKS), new)


def _queue(connection: Connection, channel: str, rows: Sequence[dict[str, Any]]) -> int:
    """Queues the rows that were not written before; returns how many are to be sent."""
    known = _known(connection, [row["dedup"] for row in rows])
    new = [row for row in rows if row["dedup"] not in known]
    resolved = [row for row in new if row["event"] == "resolved"]
    undelivered = _undelivered(connection, channel, [row["finding_key"] for row in resolved])
    for row in resolved:
        row["state"] = undelivered.get(row["finding_key"], row["state"])
    if new:
        connection.execute(sa.insert(_outbox), new)
    return sum(row["state"] == "pending" for row in new)


def _withdraw(connection: Connection, channel: str, keys: Sequence[str]) -> None:
    """Withdraws queued messages that were not tried yet."""
    waiting = (_outbox.c.channel == channel) & (_outbox.c.state == "pending") & (_outbox.c.attempts == 0)
    untried = waiting & _outbox.c.event.in_(THROTTLED)
    for start in range(0, len(keys), MAX_QUEUED):
        about = _outbox.c.finding_key.in_(keys[start : start + MAX_QUEUED])
        connection.execute(sa.update(_outbox).where(untried, about).values(state=WITHDRAWN))


def _undelivered(connection: Connection, channel: str, keys: Sequence[str]) -> dict[str, str]:
    """Findings with nothing delivered since they last resolved, and the state of the new resolution: dead like the
    opening, so that both are sent once the address is corrected; or withdrawn.
    """
    if not keys:
        return {}
    mine = (_outbox.c.channel == channel) & _outbox.c.finding_key.in_(keys)
    query = sa.select(_outbox.c.finding_key, _outbox.c.event, _outbox.c.state).where(mine).order_by(_outbox.c.id)
    since_end: dict[str, list[str]] = {}
    for key, event, state in connection.execute(query):
        since_end[key] = [] if event == "resolved" else [*since_end.get(key, []), state]
    lost = {key: states for key, states in since_end.items() if states and not {*states} - {"dead", WITHDRAWN}}
    return {key: "dead" if "dead" in states else WITHDRAWN for key, states in lost.items()}


def _row(channel: str, change: Change, due_us: int, now_us: int) -> dict[str, Any]:
    mark = change.mark
    return {
        "dedup": f"{channel}|{change.finding_key}|{change.event}|{mark.episode}|{mark.severity}",
        "channel": channel,
        "finding_key": change.finding_key,
        "event": change.event,
        "payload": change.payload,
        "state": "pending",
        "created_us": now_us,
        "due_us": due_us,
        "wanted_us": due_us,
        "attempts": 0,
        **asdict(change.about),
    }


def _count_queued(connection: Connection, channel: str) -> int:
    query = sa.select(sa.func.count()).select_from(_outbox)
    return int(connection.scalar(query.where(_outbox.c.channel == channel, _outbox.c.state.in_(QUEUED))) or 0)


def _known(connection: Connection, keys: Sequence[str]) -> set[str]:
    if not keys:
        return set()
    return set(connection.scalars(sa.select(_outbox.c.dedup).where(_outbox.c.dedup.in_(keys))))
