"""Correction lines: later changes to closed periods, each posted once to an open period."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gpuwatch.billing.periods.tables import closing, correction, first_open
from gpuwatch.core.clock import Window, parse_window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.state.core import State, record

MAX_LINES = 1_000_000
"""Lines of one posting, or of one answer."""
REOPENED = "reopened"
"""The reason of lines that reverse the corrections of a reopened period."""

Line = Mapping[str, Any]
"""`words` (a row's words), `currency`, and the differences `gpu_seconds`, `cost_exact` and `cost` as decimal text."""


@dataclass(frozen=True)
class Correction:
    """A posted difference of one frozen row: exact, and in cents; both None where the time has no price.

    `period` and `number` identify the corrected closing; it is billed in the window that contains `posted_us`.
    """

    id: int
    period: str
    number: int
    posted_us: int
    why: str
    words: Mapping[str, str | None]
    currency: str | None
    gpu_seconds: Decimal
    cost_exact: Decimal | None
    cost: Decimal | None

    def as_dict(self) -> dict[str, Any]:
        """The correction in the content of the period that it is billed in."""
        return {
            "id": self.id,
            "corrects": self.period,
            "closing": self.number,
            "posted": rfc3339(self.posted_us),
            **self.words,
            "currency": self.currency,
            "gpu_seconds": f"{self.gpu_seconds:f}",
            "cost_exact": None if self.cost_exact is None else f"{self.cost_exact:f}",
            "cost": None if self.cost is None else f"{self.cost:f}",
        }


class Corrections:
    """The corrections of a state. Every method is one transaction, and raises StoreError if the state is unreachable."""

    def __init__(self, state: State) -> None:
        self._state = state

    def of(self, period: str) -> list[Correction]:
        """All lines ever posted for a period, oldest first."""
        return self._read(correction.c.name == period)

    def posted(self, window: Window) -> list[Correction]:
        """The lines billed in a window, for any period, oldest first."""
        return self._read(inside(window))

    def billed(self, window: Window, own: str | None = None) -> list[Correction]:
        """The corrections to add to the live ledger of a window, so that any windows add up to the billed total."""
        with self._state.transaction(write=False) as connection:
            return billed(connection, window, own)

    def post(self, period: str, number: int, seen: int, lines: Sequence[Line], why: str, at_us: int) -> int:
        """Posts lines at `at_us`, or at the first later instant outside closed periods. Returns the number of lines.

        `seen` is the id of the newest line of the period (0: none) that the lines are based on. If another line was posted
        since, or the closing is no longer in force, nothing is posted; the next comparison finds the difference again.
        """
        if not lines:
            return 0
        if len(lines) > MAX_LINES:
            raise UsageError(f"period {period}: {len(lines)} correction lines; {MAX_LINES} are the most")
        with self._state.transaction(write=True) as connection:
            in_force = connection.scalar(
                sa.select(closing.c.number).where(closing.c.name == period, closing.c.reopened_us.is_(None))
            )
            if in_force != number or newest(connection, period) != seen:
                return 0
            insert(connection, period, number, lines, why, at_us)
        return len(lines)

    def _read(self, found: sa.ColumnElement[bool]) -> list[Correction]:
        with self._state.transaction(write=False) as connection:
            return read(connection, found)


def billed(connection: Connection, window: Window, own: str | None = None) -> list[Correction]:
    """What corrections add to the live ledger of a window, in the order of posting.

    The live ledger of a period has its changes already. So each line counts twice: at the instant it is billed in, and
    with its sign turned at the period's start; in a window that has both it is nothing. `own` is the period that is
    answered from its frozen rows: its lines do not count.
    """
    begun = sa.select(closing.c.name).where(closing.c.start_us >= window.start_us, closing.c.start_us < window.end_us)
    here, known = inside(window), correction.c.name.in_(begun)
    found = sa.or_(sa.and_(here, ~known), sa.and_(~here, known))
    if own is not None:
        found = sa.and_(found, correction.c.name != own)
    lines = read(connection, found)
    return [one if window.start_us <= one.posted_us < window.end_us else _turned(one) for one in lines]


def _turned(one: Correction) -> Correction:
    """A line that takes a change out of the window of its own period: it is billed elsewhere."""
    return replace(
        one,
        posted_us=parse_window(one.period, 0).start_us,
        why=f"{one.why}, billed {rfc3339(one.posted_us)[:10]}",
        gpu_seconds=-one.gpu_seconds,
        cost_exact=None if one.cost_exact is None else -one.cost_exact,
        cost=None if one.cost is None else -one.cost,
    )


def inside(window: Window) -> sa.ColumnElement[bool]:
    """Lines that are billed in a window."""
    return sa.and_(correction.c.posted_us >= window.start_us, correction.c.posted_us < window.end_us)


def read(connection: Connection, found: sa.ColumnElement[bool]) -> list[Correction]:
    """Lines within a transaction, in the order of posting."""
    rows = connection.execute(sa.select(correction).where(found).order_by(correction.c.id).limit(MAX_LINES))
    return [
        Correction(
            id=row.id,
            period=row.name,
            number=row.number,
            posted_us=row.posted_us,
            why=row.why,
            words=json.loads(row.words),
            currency=row.currency,
            gpu_seconds=Decimal(row.gpu_seconds),
            cost_exact=None if row.cost_exact is None else Decimal(row.cost_exact),
            cost=None if row.cost is None else Decimal(row.cost),
        )
        for row in rows
    ]


def newest(connection: Connection, period: str) -> int:
    """The id of the newest line of a period, 0 where there is none."""
    found: int | None = connection.scalar(sa.select(sa.func.max(correction.c.id)).where(correction.c.name == period))
    return found or 0


def insert(connection: Connection, period: str, number: int, lines: Sequence[Line], why: str, at_us: int) -> None:
    """Posts lines within a transaction, audited."""
    posted_us = first_open(connection, at_us)
    head = {"name": period, "number": number, "posted_us": posted_us, "why": why}
    connection.execute(
        sa.insert(correction),
        [
            head
            | {name: line[name] for name in ("currency", "gpu_seconds", "cost_exact", "cost")}
            | {"words": json.dumps(line["words"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)}
            for line in lines
        ],
    )
    after = json.dumps({"lines": len(lines), "posted_us": posted_us, "why": why})
    record(connection, at_us, "gpuwatch", f"period {period} corrected", None, after)
