"""The table of the outbox, and when its messages are due."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

QUEUED = ("pending", "sending")
THROTTLED = ("opened", "worsened")
"""Events that are throttled."""

TABLES = sa.MetaData()
OUTBOX = sa.Table(
    "outbox",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("dedup", sa.String),
    sa.Column("channel", sa.String),
    sa.Column("finding_key", sa.String),
    sa.Column("event", sa.String),
    sa.Column("payload", sa.Text),
    sa.Column("state", sa.String),  # pending | sending | sent | dead
    sa.Column("created_us", sa.BigInteger),
    sa.Column("due_us", sa.BigInteger),  # while `sending`: how long its sender holds it
    sa.Column("attempts", sa.Integer),
    sa.Column("batch", sa.String),  # key of the message that carries this row
    sa.Column("tried_us", sa.BigInteger),
    sa.Column("last_error", sa.Text),
    sa.Column("sent_us", sa.BigInteger),
    sa.Column("wanted_us", sa.BigInteger),  # its first due time; NULL: when it was created
    sa.Column("severity", sa.Text),
    sa.Column("rule", sa.Text),
    sa.Column("team", sa.Text),
    sa.Column("username", sa.Text),
)

MARKS = sa.Table(
    "alert_mark",
    TABLES,
    sa.Column("channel", sa.String),
    sa.Column("finding_key", sa.String),
    sa.Column("state", sa.String),
    sa.Column("severity", sa.String),
    sa.Column("episode", sa.Integer),
    sa.Column("at_us", sa.BigInteger),
)


@dataclass(frozen=True)
class About:
    """The fields that messages are grouped and throttled by."""

    severity: str | None = None
    rule: str | None = None
    team: str | None = None
    username: str | None = None

    @property
    def cause(self) -> tuple[str | None, ...]:
        """The rule and the owner."""
        return self.rule, self.team, self.username


UNKNOWN = About()


def hasten(connection: Connection, channel: str, now_us: int) -> None:
    """Makes queued messages due, within a transaction: the channel's times changed."""
    waiting = (OUTBOX.c.channel == channel) & (OUTBOX.c.state == "pending") & (OUTBOX.c.attempts == 0)
    connection.execute(sa.update(OUTBOX).where(waiting, OUTBOX.c.due_us > now_us).values(due_us=now_us))


def schedule(
    connection: Connection,
    channel: str,
    written: Sequence[tuple[dict[str, Any], About]],
    now_us: int,
    urgent: Collection[str],
    throttle_us: int,
) -> None:
    """Sets the times of new messages.

    1. Urgent messages are due now, with everything queued about the same finding. 2. A message follows those queued
    about its finding: a resolution never overtakes the opening. 3. After a recent message about a rule and owner, the next
    one is throttled.
    """
    untried = (OUTBOX.c.channel == channel) & (OUTBOX.c.state == "pending") & (OUTBOX.c.attempts == 0)
    query = sa.select(OUTBOX.c.finding_key, sa.func.max(OUTBOX.c.due_us)).where(untried)
    waits = {key: due_us for key, due_us in connection.execute(query.group_by(OUTBOX.c.finding_key))}
    next_us = _next_by_cause(connection, channel, now_us, throttle_us) if throttle_us else {}
    for row, about in written:
        if about.severity in urgent:
            row["due_us"] = now_us
            if waits.get(row["finding_key"], now_us) > now_us:
                mine = untried & (OUTBOX.c.finding_key == row["finding_key"])
                connection.execute(sa.update(OUTBOX).where(mine).values(due_us=now_us))
        elif row["finding_key"] in waits:
            row["due_us"] = max(row["due_us"], waits[row["finding_key"]])
        elif row["event"] in THROTTLED:
            row["due_us"] = max(row["due_us"], next_us.get(about.cause, 0))
        row["wanted_us"] = row["due_us"]


def _next_by_cause(
    connection: Connection, channel: str, now_us: int, throttle_us: int
) -> dict[tuple[str | None, ...], int]:
    """The next time allowed by About.cause: with queued messages, or `throttle_us` after the last one."""
    cause = (OUTBOX.c.rule, OUTBOX.c.team, OUTBOX.c.username)
    mine = (OUTBOX.c.channel == channel) & OUTBOX.c.event.in_(THROTTLED)
    sent = mine & (OUTBOX.c.state == "sent") & (OUTBOX.c.sent_us > now_us - throttle_us)
    last = connection.execute(sa.select(*cause, sa.func.max(OUTBOX.c.sent_us)).where(sent).group_by(*cause))
    found = {(rule, team, user): sent_us + throttle_us for rule, team, user, sent_us in last}
    queued = connection.execute(
        sa.select(*cause, sa.func.max(OUTBOX.c.due_us))
        .where(mine, OUTBOX.c.state == "pending", OUTBOX.c.attempts == 0)
        .group_by(*cause)
    )
    sending = connection.execute(sa.select(*cause).where(mine, OUTBOX.c.state == "sending").distinct())
    found |= {(rule, team, user): now_us + throttle_us for rule, team, user in sending}
    return found | {(rule, team, user): due_us for rule, team, user, due_us in queued}
