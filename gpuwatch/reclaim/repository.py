"""Recorded steps of reclaims: which notice an owner got, and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from gpuwatch.alerts.outbox.tables import OUTBOX, QUEUED
from gpuwatch.core.clock import DAY_US
from gpuwatch.state.core import State

KEEP_US = 92 * DAY_US
"""How long steps are kept."""
KEYS_AT_ONCE = 500
LATEST_MAX = 20_000

_step = sa.Table(
    "reclaim_step",
    sa.MetaData(),
    sa.Column("finding_key", sa.String),
    sa.Column("idle_from_us", sa.BigInteger),
    sa.Column("step", sa.String),
    sa.Column("at_us", sa.BigInteger),
)


@dataclass(frozen=True)
class Reached:
    """One step of one idle period of a finding. `idle_from_us` is its start; a later idle period starts over."""

    key: str
    idle_from_us: int
    step: str
    at_us: int


class Reclaims:
    """The recorded steps. Every method is one transaction and raises StoreError if the state cannot be reached."""

    def __init__(self, state: State) -> None:
        self._state = state

    def of(self, keys: Iterable[str]) -> dict[tuple[str, int], list[Reached]]:
        """Recorded steps of some findings in time order, by key and start of the idle period."""
        wanted, found = sorted(set(keys)), defaultdict[tuple[str, int], list[Reached]](list)
        with self._state.transaction(write=False) as connection:
            for start in range(0, len(wanted), KEYS_AT_ONCE):
                part = wanted[start : start + KEYS_AT_ONCE]
                query = sa.select(_step).where(_step.c.finding_key.in_(part)).order_by(_step.c.at_us)
                for row in connection.execute(query):
                    reached = Reached(row.finding_key, row.idle_from_us, row.step, row.at_us)
                    found[reached.key, reached.idle_from_us].append(reached)
        return dict(found)

    def since(self, at_us: int) -> dict[tuple[str, int], Reached]:
        """The last step of each idle period with a step since a time, by key and start; at most LATEST_MAX."""
        query = sa.select(_step).where(_step.c.at_us >= at_us).order_by(_step.c.at_us.desc()).limit(LATEST_MAX)
        found: dict[tuple[str, int], Reached] = {}
        with self._state.transaction(write=False) as connection:
            for row in connection.execute(query):
                reached = Reached(row.finding_key, row.idle_from_us, row.step, row.at_us)
                found.setdefault((reached.key, reached.idle_from_us), reached)
        return found

    def messages(self, keys: Iterable[str]) -> dict[tuple[str, str], int | None]:
        """When messages were first delivered, by key and severity; None if they wait in the outbox. Messages without a
        channel, and those given up, are missing.
        """
        wanted, found = sorted(set(keys)), dict[tuple[str, str], int | None]()
        queued_or_sent = OUTBOX.c.state.in_((*QUEUED, "sent"))
        with self._state.transaction(write=False) as connection:
            for start in range(0, len(wanted), KEYS_AT_ONCE):
                mine = OUTBOX.c.finding_key.in_(wanted[start : start + KEYS_AT_ONCE])
                query = sa.select(OUTBOX.c.finding_key, OUTBOX.c.severity, sa.func.min(OUTBOX.c.sent_us))
                query = query.where(mine, queued_or_sent, OUTBOX.c.severity.is_not(None))
                for key, severity, sent_us in connection.execute(
                    query.group_by(OUTBOX.c.finding_key, OUTBOX.c.severity)
                ):
                    found[key, severity] = sent_us
        return found

    def add(self, steps: Iterable[Reached], now_us: int) -> None:
        """Records new steps and deletes those older than KEEP_US."""
        wanted = list(steps)
        with self._state.transaction(write=True) as connection:
            connection.execute(sa.delete(_step).where(_step.c.at_us < now_us - KEEP_US))
            for one in wanted:
                same = (
                    _step.c.finding_key == one.key,
                    _step.c.idle_from_us == one.idle_from_us,
                    _step.c.step == one.step,
                )
                if connection.execute(sa.select(_step.c.at_us).where(*same)).first() is None:
                    values = {"finding_key": one.key, "idle_from_us": one.idle_from_us, "step": one.step}
                    connection.execute(sa.insert(_step).values(**values, at_us=one.at_us))
