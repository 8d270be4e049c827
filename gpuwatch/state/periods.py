"""Billing periods: closed once, never changed; what comes later is a correction."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from gpuwatch.clock import Window, parse_window, rfc3339
from gpuwatch.errors import UsageError
from gpuwatch.state.core import State, record

BY = ("team", "cluster", "gpu_model", "mig_profile")
"""Dimensions of a frozen row, beside its kind and currency."""
MAX_PERIODS = 10_000
"""Periods that are listed: a week each for two centuries."""
MAX_ROWS = 1_000_000
"""Rows of one closed period."""

_NAME = re.compile(r"\d{4}-(W\d{2}|\d{2})", re.ASCII)

_tables = sa.MetaData()
_period = sa.Table(
    "period",
    _tables,
    sa.Column("name", sa.String(16), primary_key=True),
    sa.Column("start_us", sa.BigInteger),
    sa.Column("end_us", sa.BigInteger),
    sa.Column("closed_us", sa.BigInteger),
    sa.Column("closed_by", sa.Text),
    sa.Column("digest", sa.String(64)),
    sa.Column("content", sa.Text),
)

Row = Mapping[str, Any]
"""BY, kind and currency, with `gpu_seconds` and `cost` as decimal text; cost None where no rate covered the time."""


class PeriodConflict(UsageError):
    """The period cannot be closed as things stand: unfinished, closed already, or overlapping a closed one."""


@dataclass(frozen=True)
class Period:
    """A closed period. `digest` is the SHA-256 of its rows as they were frozen."""

    name: str
    window: Window
    closed_us: int
    closed_by: str
    digest: str
    rows: tuple[Row, ...]


class Periods:
    """The closed periods of a state. Every method is one transaction and raises StoreError where it cannot be reached."""

    def __init__(self, state: State) -> None:
        self._state = state

    def close(self, name: str, rows: Sequence[Row], actor: str, at_us: int) -> Period:
        """Freezes the rows of a finished ISO week (`2026-W47`) or month (`2026-11`), audited.

        Raises UsageError for another name, PeriodConflict for a period that is not over or touches a closed one.
        """
        window = finished(name, at_us)
        if len(rows) > MAX_ROWS:
            raise UsageError(f"period {name}: {len(rows)} rows; {MAX_ROWS} are the most that are frozen")
        frozen = tuple(sorted((dict(row) for row in rows), key=_order))
        content = json.dumps(frozen, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        digest = sha256(content.encode()).hexdigest()
        with self._state.transaction(write=True) as connection:
            touches = sa.and_(_period.c.start_us < window.end_us, _period.c.end_us > window.start_us)
            other: str | None = connection.scalar(sa.select(_period.c.name).where(touches).limit(1))
            if other is not None:
                said = "is closed already" if other == name else f"overlaps {other}, which is closed"
                raise PeriodConflict(f"period {name} {said}; what changes later is a correction")
            connection.execute(
                sa.insert(_period).values(
                    name=name,
                    start_us=window.start_us,
                    end_us=window.end_us,
                    closed_us=at_us,
                    closed_by=actor,
                    digest=digest,
                    content=content,
                )
            )
            after = json.dumps({"rows": len(frozen), "digest": digest})
            record(connection, at_us, actor, f"period {name} closed", None, after)
        return Period(name, window, at_us, actor, digest, frozen)

    def list(self) -> tuple[Period, ...]:
        """Every closed period, the newest first; at most MAX_PERIODS."""
        return self._read(sa.select(_period).order_by(_period.c.start_us.desc()).limit(MAX_PERIODS))

    def get(self, name: str) -> Period | None:
        """A closed period by name."""
        return next(iter(self._read(sa.select(_period).where(_period.c.name == name))), None)

    def _read(self, query: sa.Select[Any]) -> tuple[Period, ...]:
        with self._state.transaction(write=False) as connection:
            rows = connection.execute(query).all()
        return tuple(
            Period(
                r.name, Window(r.start_us, r.end_us), r.closed_us, r.closed_by, r.digest, tuple(json.loads(r.content))
            )
            for r in rows
        )


def finished(name: str, now_us: int) -> Window:
    """The window of a week or month that is over. Raises UsageError for another name, PeriodConflict for an open one."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"period {name!r}: name an ISO week such as 2026-W47 or a month such as 2026-11")
    window = parse_window(name, now_us)
    if window.end_us > now_us:
        raise PeriodConflict(f"period {name} is not over before {rfc3339(window.end_us)}; close it then")
    return window


def corrections(frozen: Iterable[Row], current: Iterable[Row]) -> list[dict[str, Any]]:
    """Current minus frozen by row, only where something differs; sorted, amounts as decimal text.

    A cost is None where only one side has a price, or neither has.
    """
    before, after = _by_key(frozen), _by_key(current)
    out: list[dict[str, Any]] = []
    for key in sorted(before.keys() | after.keys(), key=str):
        was, now = before.get(key), after.get(key)
        seconds = _seconds(now) - _seconds(was)
        cost = _difference(was, now)
        same_price = cost == 0 or (cost is None and _cost(was) is None and _cost(now) is None)
        if seconds == 0 and same_price:
            continue
        names = (*BY, "kind", "currency")
        out.append(
            dict(zip(names, key, strict=True))
            | {"gpu_seconds": f"{seconds:f}", "cost": None if cost is None else f"{cost:f}"}
        )
    return out


def _by_key(rows: Iterable[Row]) -> dict[tuple[str | None, ...], Row]:
    """Rows by BY, kind and currency; rows that differ in nothing else add up."""
    out: dict[tuple[str | None, ...], Row] = {}
    for row in rows:
        key = (*(row.get(name) for name in BY), row["kind"], row["currency"])
        known = out.get(key)
        if known is not None:
            costs = [c for c in (_cost(known), _cost(row)) if c is not None]
            row = dict(row) | {
                "gpu_seconds": f"{_seconds(known) + _seconds(row):f}",
                "cost": f"{sum(costs, Decimal(0)):f}" if costs else None,
            }
        out[key] = row
    return out


def _seconds(row: Row | None) -> Decimal:
    return Decimal(0) if row is None else Decimal(row["gpu_seconds"])


def _cost(row: Row | None) -> Decimal | None:
    return None if row is None or row["cost"] is None else Decimal(row["cost"])


def _difference(was: Row | None, now: Row | None) -> Decimal | None:
    """A side that is absent cost nothing; one without a price is unknown."""
    if (was is not None and was["cost"] is None) or (now is not None and now["cost"] is None):
        return None
    return (_cost(now) or Decimal(0)) - (_cost(was) or Decimal(0))


def _order(row: Row) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in (*BY, "kind", "currency"))
