"""Dated exchange rates and the reporting currency."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from gpuwatch.core.clock import DAY_US, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.core.money import EXACT_PLACES, fraction_to_decimal
from gpuwatch.rates.csv_table import amount, moment, plain, read_rows
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists

CARD = "fx"
COLUMNS = ("from", "to", "rate", "valid_from")
MAX_AGE_DAYS = 35
"""Default maximum age of a rate in days: one month, plus some days until the next one arrives."""
MAX_AGE_DAYS_MAX = 3660
REPEATED = "two rates of the same pair begin at the same time"

_CURRENCY = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True)
class Exchange:
    """One unit of `base` is `rate` units of `quote` from `valid_from_us` on, until the next one of this pair."""

    base: str
    quote: str
    rate: Decimal
    valid_from_us: int
    line: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise UsageError(f"exchange rate {self.base} to {self.quote}: {problem}") from ValueError(problem)


@dataclass(frozen=True)
class Converted:
    """An amount, its currency, and the exchange rate used (None: it was in that currency already)."""

    amount: Decimal
    currency: str
    by: Exchange | None


Piece = tuple[int, int | None, Exchange | None]
"""(start_us, end_us or None for ever, the exchange rate or None where there is none)."""


@dataclass(frozen=True)
class Fx:
    """Exchange rates, the reporting currency (None: each price in its own), and the maximum age of a rate."""

    rates: tuple[Exchange, ...] = ()
    currency: str | None = None
    max_age_days: int = MAX_AGE_DAYS

    def __post_init__(self) -> None:
        if self.currency is not None and not _CURRENCY.fullmatch(self.currency):
            raise UsageError(f"reporting currency {self.currency!r}: write a three-letter ISO 4217 code such as USD")
        if not 0 < self.max_age_days <= MAX_AGE_DAYS_MAX:
            raise UsageError(f"max_age_days {self.max_age_days}: write a number from 1 to {MAX_AGE_DAYS_MAX}")

    @classmethod
    def read(cls, state: State) -> Fx:
        """The current exchange rates; Fx() without any."""
        rows = VersionedLists(state).rows(CARD)
        if not rows:
            return cls()
        head, *rates = rows
        return cls(
            tuple(Exchange(r["from"], r["to"], Decimal(r["rate"]), r["valid_from_us"]) for r in rates),
            head["currency"],
            head["max_age_days"],
        )

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], list[Exchange]]:
        pairs: dict[tuple[str, str], list[Exchange]] = {}
        for one in sorted(self.rates, key=lambda one: one.valid_from_us):
            pairs.setdefault((one.base, one.quote), []).append(one)
        return pairs

    def at(self, base: str, quote: str, at_us: int) -> Exchange:
        """The rate at an instant: the latest that began by then. Raises UsageError where there is none, or it is too old.

        A pair is never turned round and never put together of others: what was not given is not known.
        """
        known = self._pairs.get((base, quote), [])
        place = bisect_right(known, at_us, key=lambda one: one.valid_from_us)
        wanted = f"no exchange rate {base} to {quote} at {rfc3339(at_us)}"
        if not place:
            first = f"the first begins {rfc3339(known[0].valid_from_us)}" if known else "none of this pair is given"
            raise UsageError(f"{wanted}: {first}; add a line {base},{quote},RATE,{rfc3339(at_us)}")
        if at_us >= self._ends_us(known[place - 1]):
            began = rfc3339(known[place - 1].valid_from_us)
            raise UsageError(
                f"{wanted}: the latest is of {began}, older than {self.max_age_days} days; add a newer one"
            )
        return known[place - 1]

    def convert(self, value: Decimal, base: str, at_us: int) -> Converted | None:
        """An amount in the reporting currency, or its own without one; None without a rate (`at` raises the reason)."""
        if self.currency is None or base == self.currency:
            return Converted(value, base, None)
        try:
            by = self.at(base, self.currency, at_us)
        except UsageError:
            return None
        return Converted(exchanged(value, by), by.quote, by)

    def pieces(self, base: str, start_us: int, end_us: int | None) -> list[Piece]:
        """A span cut where the rate into the reporting currency changes: adjoining spans that cover it completely."""
        if self.currency is None or base == self.currency:
            return [(start_us, end_us, None)]
        edges: dict[int, Exchange | None] = {}
        for one in self._pairs.get((base, self.currency), []):
            edges[one.valid_from_us] = one  # replaces the end of the one before, where that is the same instant
            edges[self._ends_us(one)] = None
        pieces: list[Piece] = [(start_us, end_us, None)]
        running: Exchange | None = None
        for edge in sorted(edges):
            begun = edges[edge]
            if begun is None and running is not None and edge < self._ends_us(running):
                continue  # an older one would have ended here: a newer one runs
            running = begun
            if edge <= start_us:
                pieces = [(start_us, end_us, running)]
            elif end_us is None or edge < end_us:
                pieces[-1] = (pieces[-1][0], edge, pieces[-1][2])
                pieces.append((edge, end_us, running))
        return pieces

    def _ends_us(self, one: Exchange) -> int:
        return one.valid_from_us + self.max_age_days * DAY_US


def exchanged(value: Decimal, by: Exchange) -> Decimal:
    """`value` × the rate, exact where that has EXACT_PLACES or fewer, else rounded there, half to even."""
    return Decimal(plain(fraction_to_decimal(Fraction(value) * Fraction(by.rate), EXACT_PLACES)))


def parse_fx(text: str | bytes, file: str, rejects: Rejects) -> tuple[Exchange, ...]:
    """The exchange rates of a CSV file with COLUMNS, in file order; a bad line goes to `rejects` and the rest is kept.

    Raises UnreadableInput where the file is not CSV with these columns.
    """
    kept: dict[tuple[str, str, int], Exchange] = {}
    for line, row in read_rows(text, file, COLUMNS, (), rejects):
        shown = ",".join(row.values())
        try:
            one = exchange_of(row, line)
        except (ValueError, UsageError) as error:
            rejects.add(str(error.__cause__ or error), file, line, shown)
            continue
        first = kept.setdefault((one.base, one.quote, one.valid_from_us), one)
        if first is not one:
            rejects.add(REPEATED, file, line, f"line {line} repeats line {first.line}: {shown}")
    return tuple(kept.values())


def exchange_of(row: Mapping[str, str], line: int) -> Exchange:
    """A row of COLUMNS. Raises ValueError or UsageError with what is wrong."""
    at_us = moment(row["valid_from"], "valid_from")
    return Exchange(row["from"], row["to"], amount(row["rate"], "rate"), at_us, line)


def check_fx(rates: Iterable[Exchange]) -> None:
    """Raises UsageError naming two rates of one pair that begin at once."""
    first: dict[tuple[str, str, int], Exchange] = {}
    for one in rates:
        if first.setdefault((one.base, one.quote, one.valid_from_us), one) is not one:
            raise UsageError(f"fx: {REPEATED}: {one.base} to {one.quote}, {rfc3339(one.valid_from_us)}; keep one")


def replace(state: State, fx: Fx, actor: str, source: str, at_us: int, expected: Collection[str] | None = None) -> bool:
    """Makes `fx` the new version of the exchange rates. True if that changes them. Raises UsageError as check_fx does."""
    check_fx(fx.rates)
    rates = sorted(fx.rates, key=lambda one: (one.base, one.quote, one.valid_from_us))
    head: dict[str, Any] = {"currency": fx.currency, "max_age_days": fx.max_age_days}
    return VersionedLists(state).replace(CARD, [head, *map(_row, rates)], actor, source, at_us, expected)


def shown(rates: Sequence[Exchange]) -> list[dict[str, Any]]:
    """Exchange rates for API and command line."""
    return [
        {"from": one.base, "to": one.quote, "rate": plain(one.rate), "valid_from": rfc3339(one.valid_from_us)}
        for one in rates
    ]


def _row(one: Exchange) -> dict[str, Any]:
    rate = plain(one.rate)
    return {"from": one.base, "to": one.quote, "rate": rate, "valid_from_us": one.valid_from_us}


def _problems(one: Exchange) -> Iterable[str]:
    for name, currency in (("from", one.base), ("to", one.quote)):
        if not _CURRENCY.fullmatch(currency):
            yield f"{name} is not a three-letter ISO 4217 code such as USD"
    if one.base == one.quote:
        yield "from and to are the same currency"
    if not one.rate.is_finite() or one.rate <= 0:
        yield "rate is not above 0"
