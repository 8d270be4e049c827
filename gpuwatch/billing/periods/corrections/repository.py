"""Correction lines: what changed in closed periods, posted once to a period that is open."""

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
"""Lines that one posting, or one answer, has."""
REOPENED = "reopened"
"""Why lines take back what was posted of a period that is open again."""

Line = Mapping[str, Any]
"""`words` (a row's words), `currency`, and the differences `gpu_seconds`, `cost_exact` and `cost` as decimal text."""


@dataclass(frozen=True)
class Correction:
    """A posted difference of one frozen row: exact, and in cents; both None where the time has no price.

    `period` and `number` say which closing it corrects, `posted_us` in which window it is billed.
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


class Corrections:
    """The corrections of a state. Every method is one transaction and raises StoreError where it cannot be reached."""

    def __init__(self, state: State) -> None:
        self._state = state

    def of(self, period: str) -> list[Correction]:
        """All lines ever posted of a period, in the order of posting."""
        return self._read(correction.c.name == period)

    def posted(self, window: Window) -> list[Correction]:
        """The lines that are billed in a window, of whatever period they are, in the order of posting."""
        return self._read(inside(window))

    def billed(self, window: Window, own: str | None = None) -> list[Correction]:
        """What corrections add to the live books of a window, so that windows add up to what was billed, however they cut."""
        with self._state.transaction(write=False) as connection:
            return billed(connection, window, own)

    def post(self, period: str, number: int, seen: int, lines: Sequence[Line], why: str, at_us: int) -> int:
        """Posts lines to `at_us`, or to the first instant after it that is in no closed period. Returns how many.

        `seen` is the id of the newest line of the period (0: none) that the lines follow from. Where another one was
        posted since, or the closing is no longer in force, nothing is posted: the next look finds what is left.
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
    """What corrections add to the live books of a window, in the order of posting.

    The live books of a period have its changes already. So each line counts twice: at the instant it is billed in, and
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
