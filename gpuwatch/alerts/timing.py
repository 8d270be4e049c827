"""When a channel sends: quiet hours, holidays, digests and throttling, in its time zone. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, time, timedelta
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpuwatch.core.clock import HOUR_US, MINUTE_US, from_us, to_us

SEVERITIES = ("info", "low", "medium", "high", "critical")
"""From harmless to worst: contract.md section 4."""
DIGESTS = ("off", "hourly", "daily")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NOTHING = "none"
"""For `urgent`: no severity is urgent."""
MAX_HOLIDAYS = 400
MAX_THROTTLE_MINUTES = 7 * 24 * 60
MAX_ZONE = 64
MAX_STEPS = 2 * (MAX_HOLIDAYS + 366)
"""Consecutive quiet times to follow at most."""

_CLOCK = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d")
_SPAN = re.compile(rf"({_CLOCK.pattern})-({_CLOCK.pattern})")
_DATE = re.compile(r"(?:\d{4}-)?\d{2}-\d{2}")

Take = Callable[[str, Any, Callable[[Any], bool], str], Any]
"""Reads a field, given its name, default, test and what it must be."""


@dataclass(frozen=True)
class Timing:
    """Timing of a channel; clock times and days are in `timezone`."""

    digest: str = "off"
    digest_at: str = "08:00"
    """When daily digests go out."""
    quiet_hours: str | None = None
    """`22:00-07:00`: messages that are not urgent wait until its end."""
    quiet_days: tuple[str, ...] = ()
    """Days of the week that are quiet from midnight to midnight."""
    holidays: tuple[str, ...] = ()
    """Quiet dates: `2026-12-24`, or `12-25` for every year."""
    timezone: str = "UTC"
    urgent: str = "critical"
    """The lowest severity that ignores quiet times and throttling; NOTHING: none does."""
    throttle_minutes: int = 0
    """At most one message about a rule and an owner in this time."""

    def settings(self) -> dict[str, Any]:
        """The settings as JSON."""
        return asdict(self) | {"quiet_days": list(self.quiet_days), "holidays": list(self.holidays)}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Timing:
        """From what `settings` returned; missing settings have their defaults."""
        known: dict[str, Any] = {name: kept[name] for name in cls.__dataclass_fields__ if name in kept}
        return cls(**known | {name: tuple(known[name]) for name in ("quiet_days", "holidays") if name in known})

    @cached_property
    def passing(self) -> frozenset[str]:
        """Severities that ignore quiet times and throttling."""
        return frozenset() if self.urgent == NOTHING else frozenset(SEVERITIES[SEVERITIES.index(self.urgent) :])

    def due_us(self, now_us: int) -> int:
        """When a message created now is due: with the digest, and not in a quiet time."""
        due_us = self.digest_us(now_us)
        return self.quiet_until_us(due_us) or due_us

    def digest_us(self, now_us: int) -> int:
        """At once, at the next full hour, or at the next `digest_at`."""
        if self.digest == "hourly":
            offset = self._local(now_us).utcoffset() or timedelta()  # of some zones not whole hours
            return now_us - (now_us + offset // timedelta(microseconds=1)) % HOUR_US + HOUR_US
        if self.digest == "daily":
            local = self._local(now_us)
            at = datetime.combine(local.date(), time.fromisoformat(self.digest_at), local.tzinfo)
            due_us = to_us(at)
            return due_us if due_us > now_us else to_us(at + timedelta(days=1))
        return now_us

    def quiet_until_us(self, at_us: int) -> int | None:
        """The end of the quiet time at `at_us`, including quiet times that follow without a gap; None outside quiet times."""
        until_us = at_us
        for _ in range(MAX_STEPS):
            end = self._end(self._local(until_us))
            if end is None:
                break
            until_us = _instant(end, until_us)
        return None if until_us == at_us else until_us

    def _end(self, local: datetime) -> datetime | None:
        """The end of the quiet day or quiet hours at a local time."""
        midnight = datetime.combine(local.date() + timedelta(days=1), time(), local.tzinfo)
        dates = (f"{local:%Y-%m-%d}", f"{local:%m-%d}")
        if DAYS[local.weekday()] in self.quiet_days or any(date in self.holidays for date in dates):
            return midnight
        if self.quiet_hours is None:
            return None
        start, end = (time.fromisoformat(part) for part in self.quiet_hours.split("-"))
        now = local.time()
        if start < end:
            return datetime.combine(local.date(), end, local.tzinfo) if start <= now < end else None
        if now >= start:
            return datetime.combine(midnight.date(), end, local.tzinfo)
        return datetime.combine(local.date(), end, local.tzinfo) if now < end else None

    def _local(self, us: int) -> datetime:
        return from_us(us).astimezone(ZoneInfo(self.timezone))


def timing_of(take: Take, choice: Callable[[str, str, tuple[str, ...]], str]) -> Timing:
    """Reads the timing of a channel; `take` and `choice` record problems and return the default."""
    spell = "a time such as 08:00"
    hours = take("quiet_hours", None, _is_span, "two different times such as 22:00-07:00, or absent")
    days = take("quiet_days", [], _is_days, f"a list of at most six of {', '.join(DAYS)}")
    dates = take(
        "holidays", [], _is_dates, f"a list of at most {MAX_HOLIDAYS} dates such as 2026-12-24, or 12-25 for every year"
    )
    return Timing(
        digest=choice("digest", "off", DIGESTS),
        digest_at=take("digest_at", "08:00", lambda v: isinstance(v, str) and _CLOCK.fullmatch(v) is not None, spell),
        quiet_hours=hours,
        quiet_days=tuple(day for day in DAYS if day in days),
        holidays=tuple(sorted(set(dates))),
        timezone=take("timezone", "UTC", _is_zone, "a time zone that this machine knows, such as Europe/Berlin"),
        urgent=choice("urgent", "critical", (*SEVERITIES, NOTHING)),
        throttle_minutes=take(
            "throttle_minutes",
            0,
            lambda v: isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= MAX_THROTTLE_MINUTES,
            f"whole minutes from 0 to {MAX_THROTTLE_MINUTES}",
        ),
    )


def _instant(local: datetime, after_us: int) -> int:
    """The first instant of a local time after `after_us`: when clocks go back, a local time occurs twice."""
    for fold in (0, 1):
        if (found_us := to_us(local.replace(fold=fold))) > after_us:
            return found_us
    return after_us + MINUTE_US


def _is_span(value: object) -> bool:
    if value is None:
        return True
    match = _SPAN.fullmatch(value) if isinstance(value, str) else None
    return match is not None and match[1] != match[2]


def _is_days(value: object) -> bool:
    """Not all seven: nothing would ever be sent."""
    return isinstance(value, list | tuple) and len(value) < len(DAYS) and all(day in DAYS for day in value)


def _is_dates(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) <= MAX_HOLIDAYS and all(map(_is_date, value))


def _is_date(value: object) -> bool:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return False
    try:
        datetime.strptime(value if len(value) > 5 else f"2024-{value}", "%Y-%m-%d")  # 2024 has a 29 February
    except ValueError:
        return False
    return True


def _is_zone(value: object) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ZONE:
        return False
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
