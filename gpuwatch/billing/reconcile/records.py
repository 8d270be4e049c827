"""Records of a comparison of bills with the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from gpuwatch.billing.reconcile.differences import Parts
from gpuwatch.billing.reconcile.names import Node
from gpuwatch.core.clock import Window

GROUPS = {
    "day": ("day", "provider", "cluster", "currency"),
    "node": ("cluster", "node", "provider", "resource", "currency"),
    "account": ("provider", "account", "sub_account", "currency"),
}
"""The dimensions of a row, by the value of `by`."""


@dataclass(frozen=True)
class Row:
    """A group: the bill, the charges, and the parts of their difference. final: the cloud no longer changes it."""

    group: dict[str, str | None]
    sums: Parts
    final: bool


@dataclass(frozen=True)
class Suggestion:
    """A price of the bill that differs from the rate card, per whole GPU-hour; `card` None: several rates or none."""

    gpu_model: str
    pricing: str
    provider: str
    gpu_hours: Decimal
    billed: Decimal
    card: Decimal | None
    currency: str
    line: str
    """For rates.csv with the columns of RATE_COLUMNS."""


RATE_COLUMNS = "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to,currency"


@dataclass(frozen=True)
class Reconciliation:
    """Rows by group, sums by currency, prices to correct, and notes for the reader."""

    rows: tuple[Row, ...]
    totals: dict[str, Parts]
    suggestions: tuple[Suggestion, ...]
    notes: tuple[str, ...]
    window: Window
    by: str
    cost: str
    unpriced_gpu_hours: Decimal


@dataclass
class Unit:
    """Nodes and resources that belong together."""

    nodes: set[Node] = field(default_factory=set)
    resources: dict[tuple[str, str | None], set[str]] = field(default_factory=dict)
    accounts: set[tuple[str, str | None, str | None]] = field(default_factory=set)


@dataclass
class Prices:
    """Sums of one model and pricing over the days that both sides have."""

    billed: Fraction = Fraction(0)
    billed_hours: Fraction = Fraction(0)
    ledger: Fraction = Fraction(0)
    ledger_hours: Fraction = Fraction(0)
