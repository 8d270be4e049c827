"""Records of chargeback and ledger answers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from gpuwatch.billing.inferred_teams import DECIDED, Mark
from gpuwatch.core.clock import Window
from gpuwatch.ledger.measures import Measures


@dataclass(frozen=True)
class Charge:
    """One published row: `cost` is rounded so that the rows add up to the total; `cost_exact` is not rounded.

    `cost` is None where no rate covers the time; `error` then names the missing rate. `gpu_seconds_exact` is not
    rounded to microseconds. `cause` is set if the query groups by it, and for external amounts.
    """

    group: dict[str, str | None]
    kind: str
    gpu_seconds: Decimal
    cost: Decimal | None
    cost_exact: Decimal | None
    currency: str | None
    error: str | None
    cause: str | None = None
    gpu_seconds_exact: Decimal | None = None
    external: bool = False
    """An amount that a policy adds on top of device costs."""
    mark: Mark = DECIDED
    """Whether some or all of its time has its team only by its account or namespace."""

    @property
    def inferred(self) -> bool:
        """Whether some of it has."""
        return self.mark.inferred


@dataclass(frozen=True)
class Chargeback:
    """Charges of a window and the totals of all of them; `cost` is None where currencies differ.

    `external_cost` is the part that policies add on top of device costs. The rest is rates x capacity.
    """

    items: tuple[Charge, ...]
    window: Window
    gpu_seconds: Decimal
    cost: Decimal | None
    currency: str | None
    unpriced_gpu_seconds: Decimal
    by: tuple[str, ...]
    next_offset: int | None
    """Where the next page starts, None after the last row."""
    external_cost: Decimal | None = Decimal(0)
    cluster: str | None = None
    pool: str | None = None


@dataclass(frozen=True)
class BucketRow:
    """GPU-seconds (share-weighted) of one bucket in one group, and what they cost.

    `cost` is None where no rate covers the time. `start_us` is the start of the step, None without steps.
    """

    group: dict[str, str | None]
    bucket: str
    gpu_seconds: Decimal
    cost: Decimal | None
    currency: str | None
    start_us: int | None
    avoidable_gpu_seconds: Decimal
    """Its part that is waste: all of an avoidable bucket, and what findings claim of below_roof."""
    mark: Mark = DECIDED
    """As in Charge."""


@dataclass(frozen=True)
class Amount:
    """Share-weighted GPU-seconds and their cost, without unpriced time. None: unknown, or currencies differ."""

    gpu_seconds: Decimal | None
    cost: Decimal | None


@dataclass(frozen=True)
class GroupMeasures:
    """The measures of one group of a ledger."""

    group: dict[str, str | None]
    measures: Measures


@dataclass(frozen=True)
class Ledger:
    """The ledger of a window; `capacity_gpu_seconds` is the sum of all rows, `cost` None where currencies differ.

    `funnel` narrows owned time (total) to time that a source measures (reporting), that a run held and was measured
    (allocated), that was active, and that ran at a roofline of the GPU (effective). The last two are unknown if less
    than a tenth of the held time was observed. `measures` are of the whole answer; `groups` are those of each group of
    `by` with the most avoidable time, empty without dimensions and in steps.
    """

    items: tuple[BucketRow, ...]
    window: Window
    capacity_gpu_seconds: Decimal
    cost: Decimal | None
    currency: str | None
    unpriced_gpu_seconds: Decimal
    funnel: dict[str, Amount]
    measures: Measures
    groups: tuple[GroupMeasures, ...]
    by: tuple[str, ...]
    step_us: int | None
    next_offset: int | None
    """Where the next page starts, None after the last row."""

    @property
    def mean_price(self) -> Fraction | None:
        """The cost of a GPU-hour that has a price; None without any."""
        hours = Fraction(self.capacity_gpu_seconds - self.unpriced_gpu_seconds) / 3600
        return Fraction(self.cost) / hours if self.cost and hours else None
