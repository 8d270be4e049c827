"""Alerts that are firing: continuous channels push them again and again until they end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gpuwatch.alerts.outbox.records import Status
from gpuwatch.core.clock import DAY_US, MINUTE_US
from gpuwatch.state.core import State

MAX_FIRING = 10_000
"""Alerts of one channel; further ones are dropped."""
ENDED_US = 15 * MINUTE_US
"""How long a resolved alert is pushed again, in case the receiver was down."""
KEEP_US = DAY_US
"""How long a resolved alert that could not be pushed is kept: no Alertmanager holds an alert longer by itself."""

_tables = sa.MetaData()
_firing = sa.Table(
    "alert_firing",
    _tables,
    sa.Column("channel", sa.String, primary_key=True),
    sa.Column("finding_key", sa.String, primary_key=True),
    sa.Column("severity", sa.String, primary_key=True),
    sa.Column("content", sa.Text),
    sa.Column("at_us", sa.BigInteger),  # when it became so
    sa.Column("ended_us", sa.BigInteger),
    sa.Column("told_us", sa.BigInteger, key="pushed_us"),  # when it was last pushed in this state
)

_push = sa.Table(
    "alert_push",
    _tables,
    sa.Column("channel", sa.String, primary_key=True),
    sa.Column("sent_us", sa.BigInteger),
    sa.Column("error", sa.Text),
    sa.Column("error_us", sa.BigInteger),
)


@dataclass(frozen=True)
class FiringAlert:
    """A finding at one severity: severity is a label, and an alert is identified by its labels."""

    finding_key: str
    severity: str
    content: Mapping[str, Any]
    """The latest state of the finding (contract.md section 4)."""
    ended_us: int | None
    pushed_us: int | None


class Firing:
    """The alerts of all channels. Each method is one transaction."""

    def __init__(self, state: State) -> None:
        self._state = state

    def update(self, channel: str, findings: Sequence[Mapping[str, Any]], now_us: int) -> int:
        """Makes `findings` (JSON, at most MAX_FIRING) the firing alerts and resolves all others; returns the number of changes.

        An alert that was resolved before its first push is deleted; one that fires again is no longer resolved.
        """
        wanted = {(str(f["key"]), str(f["severity"])): json.dumps(f) for f in findings[:MAX_FIRING]}
        mine = _firing.c.channel == channel
        with self._state.transaction(write=True) as connection:
            known = {(row.finding_key, row.severity): row for row in connection.execute(sa.select(_firing).where(mine))}
            changed = {key: content for key, content in wanted.items() if not _fires(known.get(key), content)}
            written = [
                _row(channel, key, content, now_us, None, _pushed_us(known.get(key)))
                for key, content in changed.items()
            ]
            gone = {key: row for key, row in known.items() if key not in wanted and row.ended_us is None}
            written += [
                _row(channel, key, row.content, row.at_us, now_us, None)
                for key, row in gone.items()
                if row.pushed_us is not None
            ]
            connection.execute(sa.delete(_firing).where(mine, _firing.c.ended_us <= now_us - KEEP_US))
            _delete(connection, channel, [*filter(known.__contains__, changed), *gone])
            if written:
                connection.execute(sa.insert(_firing), written)
        return len(written)

    def list(self, channel: str, pushed_by_us: int | None = None) -> tuple[FiringAlert, ...]:
        """The alerts of a channel, resolved ones included; with `pushed_by_us` only those not pushed since that time."""
        mine = _firing.c.channel == channel
        if pushed_by_us is not None:
            mine &= _firing.c.pushed_us.is_(None) | (_firing.c.pushed_us <= pushed_by_us)
        query = sa.select(_firing).where(mine).order_by(_firing.c.finding_key, _firing.c.severity)
        with self._state.transaction(write=False) as connection:
            return tuple(
                FiringAlert(row.finding_key, row.severity, json.loads(row.content), row.ended_us, row.pushed_us)
                for row in connection.execute(query)
            )

    def pushed(self, channel: str, alerts: Sequence[FiringAlert], now_us: int) -> None:
        """Records that alerts were pushed as `list` returned them; resolved ones are deleted after ENDED_US."""
        values = [
            {"k": a.finding_key, "s": a.severity, "e": a.ended_us}
            for a in alerts
            if a.ended_us is None or now_us - a.ended_us < ENDED_US
        ]
        over = [
            (a.finding_key, a.severity) for a in alerts if a.ended_us is not None and now_us - a.ended_us >= ENDED_US
        ]
        same = (
            (_firing.c.channel == channel)
            & (_firing.c.finding_key == sa.bindparam("k"))
            & (_firing.c.severity == sa.bindparam("s"))
            & (sa.func.coalesce(_firing.c.ended_us, 0) == sa.func.coalesce(sa.bindparam("e", type_=sa.BigInteger), 0))
        )
        with self._state.transaction(write=True) as connection:
            if values:
                connection.execute(sa.update(_firing).where(same).values(pushed_us=now_us), values)
            _delete(connection, channel, over)

    def record_push(self, channel: str, error: str | None, now_us: int) -> None:
        """Records the outcome of a channel's last push; `error` None: accepted."""
        mine = _push.c.channel == channel
        values = {"sent_us": now_us, "error": None} if error is None else {"error": error, "error_us": now_us}
        with self._state.transaction(write=True) as connection:
            if connection.execute(sa.update(_push).where(mine).values(**values)).rowcount == 0:
                connection.execute(sa.insert(_push).values(channel=channel, **values))

    def status(self) -> dict[str, Status]:
        """Delivery status of each channel with alerts or pushes; `pending` counts alerts not pushed in their current state."""
        not_pushed = sa.select(_firing.c.channel, sa.func.count()).where(_firing.c.pushed_us.is_(None))
        with self._state.transaction(write=False) as connection:
            pending = {name: count for name, count in connection.execute(not_pushed.group_by(_firing.c.channel))}
            pushes = connection.execute(sa.select(_push)).all()
        found = {name: Status(pending=count) for name, count in pending.items()}
        return found | {
            row.channel: Status(
                row.sent_us, row.error, row.error_us if row.error else None, pending.get(row.channel, 0)
            )
            for row in pushes
        }


def push_again(connection: Connection, channel: str) -> None:
    """Makes all alerts of a channel due, within a transaction: its destination changed."""
    connection.execute(sa.update(_firing).where(_firing.c.channel == channel).values(pushed_us=None))


def drop(connection: Connection, channel: str) -> None:
    """Deletes the alerts of a removed channel, within a transaction."""
    for table in (_firing, _push):
        connection.execute(sa.delete(table).where(table.c.channel == channel))


def _fires(row: Any, content: str) -> bool:
    """Whether a stored alert fires already with this content."""
    return row is not None and row.ended_us is None and bool(row.content == content)


def _pushed_us(row: Any) -> int | None:
    """When an alert that still fires was last pushed."""
    return None if row is None or row.ended_us is not None else row.pushed_us


def _row(
    channel: str, key: tuple[str, str], content: str, at_us: int, ended_us: int | None, pushed_us: int | None
) -> dict[str, Any]:
    return {
        "channel": channel,
        "finding_key": key[0],
        "severity": key[1],
        "content": content,
        "at_us": at_us,
        "ended_us": ended_us,
        "pushed_us": pushed_us,
    }


def _delete(connection: Connection, channel: str, keys: Sequence[tuple[str, str]]) -> None:
    if not keys:
        return
    same = (_firing.c.finding_key == sa.bindparam("k")) & (_firing.c.severity == sa.bindparam("s"))
    connection.execute(
        sa.delete(_firing).where(_firing.c.channel == channel, same), [{"k": k, "s": s} for k, s in keys]
    )
