"""Ledger sums in whole numbers: their units, their totals, and the published rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from math import lcm
from typing import TYPE_CHECKING, Any

from gpuwatch.core.clock import HOUR_US, SECOND_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import CENT_PLACES, EXACT_PLACES, quotient_to_decimal, units_to_decimal
from gpuwatch.ledger.dimensions import LABEL, RUN_WORDS, WORDS, parameters

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

SECOND_PLACES = 6
"""Decimal places of published GPU-seconds: whole microseconds."""
EVER_PLACES = 10
"""Minimum decimal places of prices when amounts are divided; rounding errors stay far below 12 places."""
AMOUNT_MAX = 2**126
"""Sums are made in 128 bits with a sign; one bit is kept for doubling in the rounding."""


@dataclass(frozen=True)
class Scale:
    """What sums of a window are counted in: every share is a whole number of 1 / `shares` of a GPU, and every price of
    10^-`places` of the currency. Units are microseconds × shares; amounts are units × price.
    """

    shares: int
    places: int

    @property
    def cent(self) -> int:
        """Amount that makes 0.01 of the currency: prices are per hour."""
        return int(self.hour // 10**CENT_PLACES)

    @property
    def hour(self) -> int:
        """Amount that makes 1 of the currency."""
        return int(self.shares * HOUR_US * 10**self.places)

    def gpu_seconds(self, units: int) -> Decimal:
        """Units as published GPU-seconds."""
        return quotient_to_decimal(units, self.shares * SECOND_US, SECOND_PLACES)

    def gpu_seconds_exact(self, units: int) -> Decimal:
        """Units as GPU-seconds that are not rounded to microseconds."""
        return quotient_to_decimal(units, self.shares * SECOND_US, EXACT_PLACES)

    def money(self, amount: int, places: int = CENT_PLACES) -> Decimal:
        """An amount as money."""
        return quotient_to_decimal(amount, self.hour, places)

    def money_exact(self, amount: int) -> Decimal:
        """An amount as money that is not rounded to cents."""
        return self.money(amount, EXACT_PLACES)


def ledger_window(store: Store) -> Window | None:
    """From the first to the last whole hour of the ledger; None if it is empty."""
    low, high = store.sql("select min(hour_us), max(hour_us) from ledger_hour")[0]
    return None if low is None else Window(low, high + HOUR_US)


def scale_of(store: Store, window: Window, finer_places: int | None = None) -> Scale:
    """The scale in which all time and all prices of a window are whole numbers.

    With `finer_places` prices have so many decimal places more, EVER_PLACES at least, and the scale is that of the whole
    history: what is rounded in it is rounded alike in every window. Raises UsageError where its sums would not fit in
    128 bits: years of a large fleet at prices of many decimals.
    """
    span = {"start_us": window.start_us, "end_us": window.end_us}
    ever = {"ever": finer_places is not None}
    found = store.rows("ledger/totals/scale", **span, **ever)[0]
    prices = [Decimal(text) for text in found["prices"] or ()]
    places = max((-int(price.as_tuple().exponent) for price in prices), default=0)
    places = max(places, 0) if finer_places is None else max(places + finer_places, EVER_PLACES)
    scale = Scale(lcm(1, *(found["share_dens"] or ())), places)
    highest_price = int(max(prices, default=Decimal(0)).scaleb(scale.places))
    if max(int(found["capacity_us"] or 0) * scale.shares * highest_price, scale.hour) > AMOUNT_MAX:
        raise UsageError("window: too long to add up exactly at these prices and shares; ask for a shorter one")
    return scale


def question(
    window: Window,
    by: Sequence[str],
    cluster: str | None,
    teams: Collection[str] | None,
    scale: Scale,
    *,
    pool: str | None = None,
    step_us: int | None = None,
    by_run: bool = False,
) -> dict[str, object]:
    """The parameters that the SQL of sums takes. `teams` is the row filter: None is everybody. With `by_run`, whole days are
    read by run, so that teams are those of `run_team` at the time of the query.
    """
    return {
        "start_us": window.start_us,
        "end_us": window.end_us,
        "step_us": step_us,
        "cluster": cluster,
        "pool": pool,
        "teams": None if teams is None else sorted(teams),
        "scale": scale.shares,
        "places": scale.places,
        "rolled": "book_day" if by_run else _rolled(by),
        **parameters(window, by),
    }


def _rolled(by: Sequence[str]) -> str:
    """The smallest table of whole days with the requested dimensions: sums of book_day, or book_day itself."""
    if any(name in WORDS or name.startswith(LABEL) for name in by):
        return "book_day"
    if RUN_WORDS.isdisjoint(by):
        return "slice_day" if "slice" in by else "team_day"
    return "book_day" if "job" in by or "slice" in by else "word_day"


@contextmanager
def working_tables(store: Store) -> Iterator[None]:
    """The statements of one query see a single state of the ledger, regardless of concurrent writes; its temporary tables are
    dropped when it is answered, or has failed. A transaction that the caller has begun is used as it is.
    """
    with nullcontext() if store.within else store.transaction():
        yield
        store.drop_made("ledger/totals/drop")


def page(
    store: Store, scale: Scale, limit: int | None, offset: int, *, largest_first: bool
) -> tuple[list[dict[str, Any]], int | None]:
    """Published rows of `keyed` (ledger/totals/round.sql) from `offset` on, and the offset of the next page or None."""
    round_rows(store, scale)
    rows = store.rows(
        "ledger/totals/publish",
        largest_first=largest_first,
        limit=None if limit is None else limit + 1,
        offset=offset,
    )
    if limit is None or len(rows) <= limit:
        return rows, None
    return rows[:limit], offset + limit


def round_rows(store: Store, scale: Scale) -> None:
    """Fills the temporary table `rounded` from `keyed`: microseconds and cents that add up to the total."""
    divided = store.rows("ledger/totals/round", scale=scale.shares, cent=scale.cent)
    store.run("ledger/totals/step_row" if divided else "ledger/totals/no_step_row")
    store.run("ledger/totals/rounded")


@dataclass(frozen=True)
class Totals:
    """Sums of published rows; `cost` and `currency` are None where currencies differ or nothing has a price."""

    gpu_seconds: Decimal
    cost: Decimal | None
    currency: str | None
    unpriced_gpu_seconds: Decimal
    external_cost: Decimal | None = Decimal(0)
    """What of `cost` no device costs: amounts that a policy adds."""

    @classmethod
    def of(cls, sums: Iterable[Mapping[str, Any]]) -> Totals:
        """From rows of `currency`, `lacks`, `external`, `micros` and `cents`."""
        rows = list(sums)
        currencies = sorted({row["currency"] for row in rows if not row["lacks"]})
        external = sum(int(row["cents"]) for row in rows if row.get("external"))
        micros, cents = sum(int(row["micros"]) for row in rows), sum(int(row["cents"]) for row in rows)
        return cls(
            gpu_seconds=units_to_decimal(micros, SECOND_PLACES),
            # Where nothing has a price the cost is unknown, not zero.
            cost=units_to_decimal(cents, CENT_PLACES) if len(currencies) == 1 or not micros else None,
            currency=currencies[0] if len(currencies) == 1 else None,
            unpriced_gpu_seconds=units_to_decimal(
                sum(int(row["micros"]) for row in rows if row["lacks"]), SECOND_PLACES
            ),
            external_cost=units_to_decimal(external, CENT_PLACES) if len(currencies) <= 1 else None,
        )
