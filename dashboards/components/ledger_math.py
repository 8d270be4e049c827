"""Arithmetic over ledger responses: sums by bucket, ratios, time steps. Pure; unknown stays unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import AT_ROOF, BUCKETS

HEAD_PARTS = 24
"""The first 1/24 of the previous window shows whether the ledger covers it."""

UNSEEN_MAX = Decimal("0.9")
"""With a larger unmeasured share than this, a job's effective share is unknown."""

MAX_STEPS = 400


@dataclass(frozen=True)
class Sum:
    """GPU-seconds and their cost; cost is None if none of it has a price."""

    seconds: Decimal = Decimal(0)
    cost: Decimal | None = None

    def plus(self, seconds: Decimal, cost: Decimal | None) -> Sum:
        """The sum with another row added."""
        known = self.cost if cost is None else (self.cost or Decimal(0)) + cost
        return Sum(self.seconds + seconds, known)


def by_key(rows: Iterable[Row], key: str) -> dict[str, Sum]:
    """Sums of rows by one of their columns."""
    found: dict[str, Sum] = {}
    for row in rows:
        name = str(row.get(key))
        seconds = formats.number(row.get("gpu_seconds")) or Decimal(0)
        found[name] = found.get(name, Sum()).plus(seconds, formats.number(row.get("cost")))
    return found


def total(sums: Mapping[str, Sum], names: Sequence[str] | None = None) -> Sum:
    """The sum over the given names, or over all."""
    whole = Sum()
    for name, part in sums.items():
        if names is None or name in names:
            whole = whole.plus(part.seconds, part.cost)
    return whole


def comparable(before: Sum, now: Sum) -> bool:
    """Whether the previous window has enough data to compare with: at least half as much as this one."""
    return bool(before.seconds) and before.seconds * 2 >= now.seconds


def ratio(part: object, whole: object) -> Decimal | None:
    """part / whole; None where it is undefined."""
    top, bottom = formats.number(part), formats.number(whole)
    return None if top is None or not bottom else top / bottom


def effective(job: Row) -> object:
    """Share of a job's measured time at the roofline (0..1); None if (nearly) nothing was measured."""
    mix = job.get("buckets")
    sizes = {name: formats.number(size) or Decimal(0) for name, size in mix.items()} if isinstance(mix, dict) else {}
    whole, unseen = sum(sizes.values(), Decimal(0)), sizes.get("unobserved", Decimal(0))
    if not whole:
        return job.get("effective_ratio")
    seen = whole - unseen
    return None if unseen > whole * UNSEEN_MAX else sum(sizes.get(name, Decimal(0)) for name in AT_ROOF) / seen


def nothing_costs(part: Sum, whole: Sum) -> Decimal | None:
    """The cost of a part; zero if it has no time, provided anything in the whole has a price."""
    return part.cost if part.cost is not None or part.seconds or whole.cost is None else Decimal(0)


def window_of(answer: Row) -> tuple[datetime, datetime] | None:
    """The window of a response."""
    window = answer.get("window") or {}
    start, end = formats.moment(window.get("start")), formats.moment(window.get("end"))
    return (start, end) if start and end and start < end else None


def text_of(start: datetime, end: datetime) -> str:
    """A window as the API takes it."""
    return ",".join(at.astimezone(UTC).isoformat().replace("+00:00", "Z") for at in (start, end))


STEP_S = {"1h": 3600, "1d": 86400}


@dataclass(frozen=True)
class Trend:
    """Buckets over time: starts of steps, and GPU-hours of each bucket per step (None: no ledger data)."""

    starts: Sequence[str]
    hours: Mapping[str, Sequence[float | None]]
    step_s: int
    cut: frozenset[int] = frozenset()
    """Indexes of the partial steps at the ends of the window."""
    claimed: Sequence[float] = ()
    """GPU-hours of below-peak time that findings claim, per step."""

    def share(self, names: Sequence[str], of: Sequence[str] | None = None) -> list[float | None]:
        """The share of some buckets in each step, out of all or out of others."""
        return [
            None if not whole else part / whole
            for part, whole in zip(self.sums(names), self.sums(of or list(self.hours)), strict=True)
        ]

    def sums(self, names: Sequence[str]) -> list[float]:
        """GPU-hours of some buckets per step."""
        shown = [self.hours[name] for name in names if name in self.hours]
        return [sum(series[at] or 0.0 for series in shown) for at in range(len(self.starts))]


def trend(rows: Iterable[Row], step: str, window: tuple[datetime, datetime] | None = None) -> Trend:
    """A stepped ledger as one series per bucket. A step without rows is a gap: None in every bucket."""
    cells: dict[str, dict[str, float]] = {}
    claimed: dict[str, float] = {}
    for row in rows:
        start, seconds = row.get("start"), formats.number(row.get("gpu_seconds"))
        if isinstance(start, str) and seconds is not None:
            of = cells.setdefault(start, {})
            of[str(row.get("bucket"))] = of.get(str(row.get("bucket")), 0.0) + float(seconds) / 3600
            if row.get("bucket") == "below_roof":
                lost = formats.number(row.get("avoidable_gpu_seconds")) or Decimal(0)
                claimed[start] = claimed.get(start, 0.0) + float(lost) / 3600
    starts = sorted(cells)[-MAX_STEPS:]
    names = [bucket.name for bucket in BUCKETS if any(bucket.name in cells[start] for start in starts)]
    hours = {name: [cells[start].get(name) for start in starts] for name in names}
    ends = cut_by(window, starts, timedelta(seconds=STEP_S[step]))
    return Trend(starts, hours, STEP_S[step], ends, [claimed.get(start, 0.0) for start in starts])


def cut_by(window: tuple[datetime, datetime] | None, starts: Sequence[str], step: timedelta) -> frozenset[int]:
    """Indexes of the steps that reach past the window."""
    times = [formats.moment(start) for start in starts]
    if window is None:
        return frozenset()
    return frozenset(at for at, time in enumerate(times) if time and (time < window[0] or time + step > window[1]))


Period = tuple[datetime, datetime]


def period_before(window: Period | None, name: str, as_of: datetime | None) -> Period | None:
    """The window to compare with: the previous period, cut to the part of this one that the ledger covers (up to
    `as_of`). So eight hours of today are compared with the same eight hours of yesterday. None if `as_of` is unknown.
    """
    if window is None or as_of is None or as_of <= window[0]:
        return None
    start, end = window
    elapsed, shift = min(end, as_of) - start, end - start
    if name == "month":
        shift = max(start - (start - timedelta(days=1)).replace(day=1), elapsed)
    return start - shift, start - shift + elapsed


async def if_recorded(api: Api, past: Period | None, query: Query, call: Awaitable[Row] | None) -> Row | None:
    """The result of `call` about a period, or None if the ledger starts later than the period."""
    if past is None or call is None:
        return None
    head, cluster = text_of(past[0], past[0] + (past[1] - past[0]) / HEAD_PARTS), query.get("cluster")
    first = api.ledger(head, "bucket", **({"cluster": cluster} if cluster else {}))
    found, begun = await asyncio.gather(optional(call), optional(first))
    return found if formats.number((begun or {}).get("capacity_gpu_seconds")) else None


async def optional(call: Awaitable[Row] | None) -> Row | None:
    """The result of a call, or None if it fails: for data that a page can do without."""
    if call is None:
        return None
    try:
        return await call
    except ApiFailure:
        return None
