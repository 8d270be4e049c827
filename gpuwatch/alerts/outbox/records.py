"""What the outbox keeps: marks of findings, changes, messages, and the delivery status of a channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpuwatch.alerts.outbox.tables import UNKNOWN, About

ANSWERED = "answered"
"""State of a mark: an owner acted on the finding, or it moved to another team."""


@dataclass(frozen=True)
class Mark:
    """The last state of a finding that a channel was notified of."""

    state: str
    """open | resolved: notified; quiet: not notified, because it was below the channel's severity; or ANSWERED."""
    severity: str
    """The highest severity notified in this episode."""
    episode: int
    """How many times the finding opened."""
    at_us: int


@dataclass(frozen=True)
class Change:
    """A new mark of a finding, and the message that goes with it (event and payload), if any."""

    finding_key: str
    mark: Mark
    event: str | None = None
    payload: str | None = None
    about: About = UNKNOWN


FindChanges = Callable[[Mapping[str, Mark]], Sequence[Change]]
"""The changes, given the marks by finding key."""


@dataclass(frozen=True)
class Row:
    """One message of the outbox."""

    id: int
    dedup: str
    finding_key: str | None
    event: str
    payload: str
    created_us: int
    attempts: int
    severity: str | None = None
    rule: str | None = None
    team: str | None = None
    username: str | None = None


@dataclass(frozen=True)
class Batch:
    """Rows that are sent as one message. No other sender takes them before `held_until_us`."""

    channel: str
    key: str
    """The same after a crash, so that a receiver recognizes a repeated message."""
    rows: tuple[Row, ...]
    held_until_us: int


@dataclass(frozen=True)
class Status:
    """Delivery status of a channel."""

    last_sent_us: int | None = None
    last_error: str | None = None
    last_error_us: int | None = None
    pending: int = 0
    dead: int = 0


def batch_key(channel: str, rows: Sequence[Row]) -> str:
    """For one finding, the dedup key of its last event; for several, their first and last place in the outbox."""
    if len({row.finding_key for row in rows}) == 1:
        return rows[-1].dedup
    return f"{channel}|digest|{rows[0].id}-{rows[-1].id}|{rows[0].created_us}"
