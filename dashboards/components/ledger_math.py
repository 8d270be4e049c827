"""Arithmetic over ledger answers: sums by bucket, ratios, steps of time. Pure; unknown stays unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKETS, PRODUCTIVE

HEAD_PARTS = 24
"""The first such part of a window before tells whether the books had begun then."""

UNSEEN_MAX = Decimal("0.9")
"""Part of its time that nobody measured, above which a job's effect is unknown."""

HOURLY_UP_TO = timedelta(hours=72)
HOURLY = ("24h", "48h", "72h", "1d", "2d", "3d", "today", "yesterday")
MAX_STEPS = 400


@dataclass(frozen=True)
class Sum:
    """GPU-seconds and what they cost; cost None where nothing of it has a price."""

    seconds: Decimal = Decimal(0)
    cost: Decimal | None = None

    def plus(self, seconds: Decimal, cost: Decimal | None) -> Sum:
        """With another row added."""
        known = self.cost if cost is None else (self.cost or Decimal(0)) + cost
        return Sum(self.seconds + seconds, known)


def by_key(rows: Iterable[Row], key: str) -> dict[str, Sum]:
    """Rows added up by one of their columns."""
    found: dict[str, Sum] = {}
    for row in rows:
        name = str(row.get(key))
        seconds = components_text.number(row.get("gpu_seconds")) or Decimal(0)
        found[name] = found.get(name, Sum()).plus(seconds, components_text.number(row.get("cost")))
    return found


def mixes(rows: Iterable[Row], key: str) -> dict[str, dict[str, Decimal]]:
    """For each value of a column, GPU-seconds by bucket."""
    found: dict[str, dict[str, Decimal]] = {}
    for row in rows:
        mix = found.setdefault(str(row.get(key)), {})
        bucket = str(row.get("bucket"))
        mix[bucket] = mix.get(bucket, Decimal(0)) + (components_text.number(row.get("gpu_seconds")) or Decimal(0))
    return found


def total(sums: Mapping[str, Sum], names: Sequence[str] | None = None) -> Sum:
    """The sum over some names, or all."""
    whole = Sum()
    for name, part in sums.items():
        if names is None or name in names:
            whole = whole.plus(part.seconds, part.cost)
    return whole


def comparable(before: Sum, now: Sum) -> bool:
    """Whether the window before has enough in it to compare with: half of what this one has."""
    return bool(before.seconds) and before.seconds * 2 >= now.seconds


def ratio(part: object, whole: object) -> Decimal | None:
    """part / whole, None where it says nothing."""
    top, bottom = components_text.number(part), components_text.number(whole)
    return None if top is None or not bottom else top / bottom


def effective(job: Row) -> object:
    """Productive part of the time of a job that was measured (0..1); None where (nearly) none of it was."""
    mix = job.get("buckets")
    sizes = (
        {name: components_text.number(size) or Decimal(0) for name, size in mix.items()}
        if isinstance(mix, dict)
        else {}
    )
    whole, unseen = sum(sizes.values(), Decimal(0)), sizes.get("unobserved", Decimal(0))
    if not whole:
        return job.get("effective_ratio")
    seen = whole - unseen
    return None if unseen > whole * UNSEEN_MAX else sum(sizes.get(name, Decimal(0)) for name in PRODUCTIVE) / seen


def nothing_costs(part: Sum, whole: Sum) -> Decimal | None:
    """The cost of a part; zero where it has no time, though only where anything at all has a price."""
    return part.cost if part.cost is not None or part.seconds or whole.cost is None else Decimal(0)


def window_of(answer: Row) -> tuple[datetime, datetime] | None:
    """The window an answer is about."""
    window = answer.get("window") or {}
    start, end = components_text.moment(window.get("start")), components_text.moment(window.get("end"))
    return (start, end) if start and end and start < end else None


def text_of(start: datetime, end: datetime) -> str:
    """A window as the API takes it."""
    return ",".join(at.astimezone(UTC).isoformat().replace("+00:00", "Z") for at in (start, end))


def step_of(start: datetime, end: datetime) -> str:
    """Hours for short windows, days for others."""
    return "1h" if end - start <= HOURLY_UP_TO else "1d"


STEP_S = {"1h": 3600, "1d": 86400}


@dataclass(frozen=True)
class Trend:
    """Buckets over time: starts of steps, and GPU-hours of each bucket in each (None: no books there)."""

    starts: Sequence[str]
    hours: Mapping[str, Sequence[float | None]]
    step_s: int
    cut: frozenset[int] = frozenset()
    """Places of steps that the window's ends cut: they hold less than a whole step."""

    def share(self, names: Sequence[str], of: Sequence[str] | None = None) -> list[float | None]:
        """The part of some buckets in each step, of all or of others."""
        return [
            None if not whole else part / whole
            for part, whole in zip(self.sums(names), self.sums(of or list(self.hours)), strict=True)
        ]

    def sums(self, names: Sequence[str]) -> list[float]:
        """GPU-hours of some buckets in each step."""
        shown = [self.hours[name] for name in names if name in self.hours]
        return [sum(series[at] or 0.0 for series in shown) for at in range(len(self.starts))]


def trend(rows: Iterable[Row], step: str, window: tuple[datetime, datetime] | None = None) -> Trend:
    """A stepped ledger as series by bucket. A step without any row is a gap: None in every bucket."""
    cells: dict[str, dict[str, float]] = {}
    for row in rows:
        start, seconds = row.get("start"), components_text.number(row.get("gpu_seconds"))
        if isinstance(start, str) and seconds is not None:
            of = cells.setdefault(start, {})
            of[str(row.get("bucket"))] = of.get(str(row.get("bucket")), 0.0) + float(seconds) / 3600
    starts = sorted(cells)[-MAX_STEPS:]
    names = [bucket.name for bucket in BUCKETS if any(bucket.name in cells[start] for start in starts)]
    hours = {name: [cells[start].get(name) for start in starts] for name in names}
    return Trend(starts, hours, STEP_S[step], cut_by(window, starts, timedelta(seconds=STEP_S[step])))


def cut_by(window: tuple[datetime, datetime] | None, starts: Sequence[str], step: timedelta) -> frozenset[int]:
    """Places of the steps that reach past the window."""
    times = [components_text.moment(start) for start in starts]
    if window is None:
        return frozenset()
    return frozenset(at for at, time in enumerate(times) if time and (time < window[0] or time + step > window[1]))


def within(answer: Row | None, query: Query) -> list[Row]:
    """Rows of an answer, of the query's pool where it names one (they were asked `by` pool then)."""
    rows: list[Row] = (answer or {}).get("items") or []
    pool = query.get("pool")
    return [row for row in rows if str(row.get("pool")) == pool] if pool else rows


def asked(by: str, query: Query) -> str:
    """The dimensions to ask for, so that `within` can tell pools apart."""
    return f"{by},pool" if query.get("pool") else by


@dataclass(frozen=True)
class History:
    """The ledger of a window by bucket, of the period before it, and by steps, and the fleet; what failed is None."""

    now: Row
    before: Row | None
    stepped: Row | None
    step: str
    fleet: Row | None = None


async def history(api: Api, query: Query) -> History:
    """The steps do not stand for the window: money is rounded once an answer, not once a step."""
    by, step = asked("bucket", query), step_of_window(query.window)
    now, stepped, fleet = await asyncio.gather(
        api.ledger(query.window, by, **query.scope),
        optional(api.ledger(query.window, by, step, **query.scope)),
        optional(api.fleet()),
    )
    past = period_before(window_of(now), query.window, components_text.moment((fleet or {}).get("as_of")))
    before = await booked(api, past, query, api.ledger(text_of(*past), by, **query.scope) if past else None)
    # A first page of steps would read as if the window ended there.
    return History(now, before, None if stepped is None or stepped.get("next") else stepped, step, fleet)


Period = tuple[datetime, datetime]


def period_before(window: Period | None, name: str, as_of: datetime | None) -> Period | None:
    """What a window is compared with: as long as that part of it which has books (they end at `as_of`), in the period
    before. So eight hours of today are compared with the same eight of yesterday. None where nothing says what has books.
    """
    if window is None or as_of is None or as_of <= window[0]:
        return None
    start, end = window
    elapsed, shift = min(end, as_of) - start, end - start
    if name == "month":
        shift = max(start - (start - timedelta(days=1)).replace(day=1), elapsed)
    return start - shift, start - shift + elapsed


async def booked(api: Api, past: Period | None, query: Query, call: Awaitable[Row] | None) -> Row | None:
    """What `call` gives about a period, or None where the books had not begun when the period did."""
    if past is None or call is None:
        return None
    head, cluster = text_of(past[0], past[0] + (past[1] - past[0]) / HEAD_PARTS), query.get("cluster")
    first = api.ledger(head, "bucket", **({"cluster": cluster} if cluster else {}))
    found, begun = await asyncio.gather(optional(call), optional(first))
    return found if components_text.number((begun or {}).get("capacity_gpu_seconds")) else None


def step_of_window(window: str) -> str:
    """Hours for windows that are short by their name or their ends, days for others."""
    start, end = (components_text.moment(part) for part in (window.split(",", 1) if "," in window else ("", "")))
    if start and end:
        return step_of(start, end)
    return "1h" if window in HOURLY else "1d"


async def optional(call: Awaitable[Row] | None) -> Row | None:
    """What a call gives, or None where it fails or there is none: for what a page can do without."""
    if call is None:
        return None
    try:
        return await call
    except ApiFailure:
        return None
