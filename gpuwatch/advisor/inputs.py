"""Inputs of advice: assumptions, and time and money by group and pricing from the ledger, before any policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import HOUR_US, Window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import fraction_to_decimal
from gpuwatch.ledger.totals import Scale, scale_of
from gpuwatch.rates.fx import Fx, exchanged
from gpuwatch.store.database import Store

RENTED = ("on_demand", "spot")
"""Pricings of what is paid by the hour: it costs nothing when it is given back."""
Group = tuple[str | None, ...]


@dataclass(frozen=True)
class Assumptions:
    """Unmeasured inputs: shown with every answer; the caller may override each of them.

    `cloud_price` is for a whole GPU-hour (None: the on-demand rate of the card), `spot_discount` what spot is cheaper
    than that (None: the spot rates of the card), `interruptions_an_hour` how often a node is taken away, `headroom` a
    part of what was used that is added to it.
    """

    cloud_price: Decimal | None = None
    spot_discount: Decimal | None = None
    interruptions_an_hour: Decimal = Decimal("0.05")
    headroom: Decimal = Decimal("0.10")

    def __post_init__(self) -> None:
        if self.cloud_price is not None and not 0 < self.cloud_price < 100_000:
            raise UsageError(f"cloud price {self.cloud_price}: give the price of a GPU-hour, such as 3.50")
        if self.spot_discount is not None and not 0 < self.spot_discount < 1:
            raise UsageError(f"spot discount {self.spot_discount}: give a part between 0 and 1, such as 0.6")
        if not 0 <= self.interruptions_an_hour <= 60:
            raise UsageError(f"interruptions {self.interruptions_an_hour}: give how many an hour, such as 0.05")
        if not 0 <= self.headroom <= 10:
            raise UsageError(f"headroom {self.headroom}: give a part of the use, such as 0.10")

    def as_dict(self) -> dict[str, str | None]:
        """As JSON has them."""
        return {name: None if value is None else f"{value:f}" for name, value in asdict(self).items()}


@dataclass
class PricedTime:
    """GPU-hours and money of a group: what was held and what was there, money by (pricing, currency)."""

    held: Fraction = Fraction(0)
    there: Fraction = Fraction(0)
    unpriced: Fraction = Fraction(0)
    hours: dict[tuple[str, str], Fraction] = field(default_factory=dict)
    money: dict[tuple[str, str], Fraction] = field(default_factory=dict)

    @property
    def used(self) -> Fraction | None:
        """The part of what was there that was held; None where nothing was."""
        return self.held / self.there if self.there else None

    @property
    def pricings(self) -> set[str]:
        """How its hours were paid."""
        return {pricing for pricing, _ in self.hours}

    @property
    def currency(self) -> str | None:
        """The one currency of all its prices; None where there are several, or none."""
        found = {currency for _, currency in self.hours}
        return found.pop() if len(found) == 1 else None

    @property
    def cost(self) -> Fraction | None:
        """What all of it costs; None where a part has no rate, or currencies differ."""
        return None if self.unpriced or self.currency is None else sum(self.money.values(), Fraction(0))

    @property
    def hourly(self) -> Fraction | None:
        """The mean price of a GPU-hour."""
        return None if self.cost is None or not self.there else self.cost / self.there


def priced_time(
    store: Store,
    window: Window,
    by: Sequence[str],
    *,
    by_job: bool = False,
    teams: Collection[str] | None = None,
) -> dict[Group, PricedTime]:
    """Rates x time of each group of `by` (columns of advisor/priced.sql). Raises UsageError: see ledger.totals.scale_of."""
    scale = scale_of(store, window)
    more = {"scale": scale.shares, "places": scale.places, "by_job": by_job}
    groups: dict[Group, PricedTime] = {}
    for row in store.rows("advisor/priced", **query_parameters(window, teams, None), **more):
        one = groups.setdefault(tuple(row[name] for name in by), PricedTime())
        hours = Fraction(int(row["units"]), scale.shares * HOUR_US)
        one.there += hours
        one.held += hours if row["held"] else 0
        if row["amount"] is None:
            one.unpriced += hours
            continue
        sort = row["pricing"], row["currency"]
        one.hours[sort] = one.hours.get(sort, Fraction(0)) + hours
        one.money[sort] = one.money.get(sort, Fraction(0)) + Fraction(int(row["amount"]), scale.hour)
    return groups


def priced_now(prices: Iterable[Mapping[str, Any]], scale: Scale) -> PricedTime:
    """The GPUs of a row of advisor/pool.sql for one hour, at the prices of that instant."""
    hour = PricedTime()
    for price in prices:
        gpus = Fraction(int(price["units"]), scale.shares)
        hour.there += gpus
        if price["amount"] is None:
            hour.unpriced += gpus
            continue
        hour.hours[price["pricing"], price["currency"]] = gpus
        hour.money[price["pricing"], price["currency"]] = Fraction(
            int(price["amount"]), scale.shares * 10**scale.places
        )
    return hour


def pools_at_end(store: Store, window: Window, scale: Scale, cluster: str | None = None) -> list[dict[str, Any]]:
    """The GPUs at the end of a window, by pool and model, with their prices."""
    more = {"scale": scale.shares, "places": scale.places}
    words = query_parameters(window, None, cluster)
    store.run("advisor/at_end", **words)
    return store.rows("advisor/pool", **words, **more)


def converted(fx: Fx, amount: Fraction, base: str, quote: str, at_us: int) -> Fraction | None:
    """An amount in another currency; None where no exchange rate is known."""
    if base == quote:
        return amount
    try:
        return Fraction(exchanged(fraction_to_decimal(amount), fx.at(base, quote, at_us)))
    except UsageError:
        return None


def query_parameters(window: Window, teams: Collection[str] | None, cluster: str | None = None) -> dict[str, Any]:
    """Parameters that every query of sql/advisor takes."""
    wanted = None if teams is None else sorted(teams)
    return {"start_us": window.start_us, "end_us": window.end_us, "teams": wanted, "cluster": cluster}


def sums(items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Savings by currency."""
    found: dict[str, Decimal] = {}
    for item in items:
        if item["currency"] is not None and item["saving"] is not None:
            found[item["currency"]] = found.get(item["currency"], Decimal(0)) + Decimal(item["saving"])
    return {currency: f"{amount:f}" for currency, amount in sorted(found.items())}


def answer(
    window: Window, assumed: Assumptions, items: list[dict[str, Any]], notes: Sequence[str], **extra: Any
) -> dict[str, Any]:
    """Items with the numbers and sentences that they stand on."""
    span = {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)}
    return {"items": items, **extra, "assumptions": assumed.as_dict(), "notes": list(notes), "window": span}


def money(amount: Fraction | None, places: int = 2) -> str | None:
    """Money as text."""
    return None if amount is None else f"{fraction_to_decimal(amount, places):f}"


def ratio(value: Fraction | None) -> str | None:
    """A ratio, a number of months or of GPUs as text."""
    return money(value, 4)
