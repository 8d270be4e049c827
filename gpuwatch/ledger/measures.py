"""What GPU time was worth: working, avoidable, free or unknown. The only definition of waste."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from gpuwatch.core.money import CENT_PLACES, units_to_decimal
from gpuwatch.ledger.totals import SECOND_PLACES, Scale

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

WORKING = ("below_roof", "memory_roof", "compute")
"""The SMs did work."""
AT_ROOF = ("memory_roof", "compute")
"""Work at the roofline of the hardware: its part of the working time is the roofline efficiency."""
AVOIDABLE = ("hoarded", "gap", "communication", "stalled", "stranded")
"""Waste: held but idle, waiting, or busy without work; or free and unusable. Below-peak time that a finding claims is added."""
CLAIMABLE = "below_roof"
"""Working time, except what findings claim of it: that is avoidable."""
FREE = ("schedulable", "mig_remainder")
NOT_MEASURED = "unobserved"
OUT_OF_SERVICE = "out_of_service"
UNKNOWN = (NOT_MEASURED, OUT_OF_SERVICE)
UNHELD = (*FREE, "stranded", OUT_OF_SERVICE)
"""Of time that nobody held: records of schedulers and nodes show it without any measurement."""
WORDS = {
    "working": "Working",
    "avoidable": "Avoidable",
    "free": "Free",
    "not_measured": "Not measured",
    "out_of_service": "Out of service",
}
"""The measures that every GPU-second is in exactly one of, with their labels."""
MEASURED_MIN = Fraction(1, 2)
"""With a smaller measured part of the held time than this, no share of it is published."""
RATIO_PLACES = 6
NO_MONEY = units_to_decimal(0, CENT_PLACES)
NO_TIME = units_to_decimal(0, SECOND_PLACES)


def prepare(store: Store) -> None:
    """Makes the macros `working` and `avoidable` and the view `claimed_hour` for the SQL that follows."""
    store.run("views/measures")


@dataclass(frozen=True)
class Measure:
    """GPU-seconds of one measure and their cost by currency. None: nothing of it was measured."""

    gpu_seconds: Decimal | None
    costs: tuple[tuple[str, Decimal], ...] = ()
    unpriced_gpu_seconds: Decimal = Decimal(0)
    ratio: float | None = None
    """Its share of all GPU time; None if too little of the held time was measured."""

    def cost_in(self, currency: str | None) -> Decimal | None:
        """What it cost in this currency; None if it is unknown, or nothing of it has a price."""
        known = dict(self.costs)
        if self.gpu_seconds is None or currency is None or known.keys() - {currency}:
            return None
        if self.unpriced_gpu_seconds and not known:
            return None
        return known.get(currency, NO_MONEY)


@dataclass(frozen=True)
class Measures:
    """The measures of a window: their GPU-seconds add up to its capacity (of a team: to what it held)."""

    working: Measure
    avoidable: Measure
    free: Measure
    not_measured: Measure
    out_of_service: Measure
    roofline_efficiency: float | None
    """(compute + memory_roof) / working: a quality of the code, never waste. None without measured work, and where no
    share is published."""
    measured_ratio: float | None
    """Measured part of the held time; None if nothing was held."""
    claimed: Measure = Measure(NO_TIME)
    """What findings claim of the below-peak time: part of `avoidable`."""

    @property
    def shares_known(self) -> bool:
        """Whether enough of the held time was measured to publish shares."""
        return self.measured_ratio is None or self.measured_ratio >= MEASURED_MIN

    @classmethod
    def nothing(cls) -> Measures:
        """Of no time at all."""
        return cls.of((), Scale(1, 0))

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], scale: Scale) -> Measures:
        """From rows of billing/measure.sql: one for each currency, and one without a rate."""
        parts = list(rows)
        units = {name: sum(int(row[f"{name}_units"] or 0) for row in parts) for name in _SUMS}
        held_avoidable = units["avoidable"] - units["stranded"]
        seen = units["working"] + held_avoidable
        held = seen + units["not_measured"]
        unknown = bool(held) and not seen
        blank = {"working"} if unknown else set()
        if unknown and not units["stranded"]:
            blank.add("avoidable")
        shares_known = not held or seen >= MEASURED_MIN * held
        whole = sum(units[name] for name in WORDS) if shares_known else 0
        found = {
            name: Measure(None) if name in blank else _measure(parts, name, units[name], whole, scale) for name in WORDS
        }
        return cls(
            **found,
            roofline_efficiency=_ratio(units["at_roof"], units["working"] if shares_known else 0),
            measured_ratio=_ratio(seen, held),
            claimed=_measure(parts, "claimed", units["claimed"], whole, scale),
        )


_SUMS = (*WORDS, "stranded", "at_roof", "claimed")


def _measure(rows: Iterable[Mapping[str, Any]], name: str, units: int, whole: int, scale: Scale) -> Measure:
    amounts: dict[str, int] = {}
    lacking = 0
    for row in rows:
        own = int(row[f"{name}_units"] or 0)
        if row["lacks"]:
            lacking += own
        elif own:
            amounts[row["currency"]] = amounts.get(row["currency"], 0) + int(row[f"{name}_amount"])
    return Measure(
        gpu_seconds=scale.gpu_seconds(units),
        costs=tuple((currency, scale.money(amount)) for currency, amount in sorted(amounts.items())),
        unpriced_gpu_seconds=scale.gpu_seconds(lacking),
        ratio=_ratio(units, whole),
    )


def _ratio(part: int, whole: int) -> float | None:
    return round(part / whole, RATIO_PLACES) if whole else None
