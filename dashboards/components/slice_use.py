"""MIG slices over a window. Pure; unknown stays unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats

NOBODY = ("__platform__", "__idle__")
BUSY_MIN = Decimal("0.05")
"""Engine-busy ratio below which a slice is drawn as barely used."""

IDLE_MIN = Decimal("0.5")
"""Idle share of the allocated time from which a slice is drawn as held idle."""

MEMORY_COLUMNS, COMPUTE_ROWS = 8, 7
METHODS = {
    "dominant": "the larger of compute and memory",
    "compute": "compute",
    "memory": "memory",
    "sm": "SMs",
}
"""What a slice's share of a GPU is measured by."""
SPLITS = {
    "bound": "split evenly among the pods bound to it",
    "replica": "split by replicas",
    "share": "split by Slurm shards",
    "claim": "split by resource claims",
    "process": "split by process usage",
    "fraction": "split by requested fractions",
}
"""How a slice is split among several owners."""


@dataclass(frozen=True)
class Slice:
    """One slice over a window. `owner` held it longest; None if it was unallocated."""

    ident: str
    gpu: str
    """Its GPU; of a slice that only a scheduler reports, its node."""
    cluster: str
    profile: str
    share: str
    placement: dict[str, Any] | None
    owner: str | None
    job: str | None
    others: int
    """Number of other owners in the window."""
    held_s: Decimal
    free_s: Decimal
    idle_s: Decimal | None
    busy: Decimal | None
    """Mean engine-busy ratio (0..1) of its measured allocated time."""
    cost: Decimal | None
    """What its owners pay."""
    currency: str
    method: str = ""
    """What its share is measured by: dominant, compute, memory or sm; empty if unknown."""
    split: str = ""
    """How it was split among several owners; empty if it had one."""
    memory_used: Decimal | None = None
    """Mean used part (0..1) of its memory while allocated and measured."""
    free_cost: Decimal | None = None
    """What it cost while nobody held it."""

    @property
    def instance(self) -> str:
        """Its number on the GPU and its profile: `GI-3 1g.10gb`."""
        number = self.ident.rpartition("/")[2]
        return f"{number} {self.profile}" if number.startswith("GI-") else self.profile

    @property
    def price(self) -> Decimal | None:
        """What an hour cost while it was held."""
        return self.cost * 3600 / self.held_s if self.cost is not None and self.held_s else None

    @property
    def state(self) -> str:
        """free, unmeasured, idle, low or used."""
        if self.owner is None:
            return "free"
        if self.idle_s is not None and self.held_s and self.idle_s / self.held_s >= IDLE_MIN:
            return "idle"
        if self.busy is None:
            return "unmeasured"
        return "used" if self.busy >= BUSY_MIN else "low"

    @property
    def start(self) -> int:
        """First memory column; slices of unknown position come last."""
        return whole((self.placement or {}).get("start"), MEMORY_COLUMNS)

    @property
    def words(self) -> str:
        """A one-line summary of the slice."""
        owner = formats.owner(self.owner) if self.owner else "free"
        more = f" and {self.others} more" if self.others else ""
        use = f"{formats.percent(self.busy)} busy" if self.busy is not None else "not measured"
        counted = f" by {self.method}" if self.method else ""
        divided = f", {SPLITS.get(self.split, self.split)}" if self.split else ""
        return (
            f"{self.profile}: {owner}{more}"
            + (f", {use}" if self.owner else "")
            + f", share {self.share}{counted}{divided}"
        )


def summed(gpu: Row, row: Row) -> Slice:
    """A slice of a GPU, which the API has added up over all who held it."""
    use: Row = row.get("utilisation") or {}
    placement, owner = row.get("placement"), row.get("owner")
    return Slice(
        ident=str(row.get("slice")),
        gpu=str(gpu.get("gpu") or gpu.get("node")),
        cluster=text(row, "cluster"),
        profile=text(row, "profile", formats.MISSING),
        share=text(row, "share", formats.MISSING),
        placement=placement if isinstance(placement, dict) else None,
        owner=str(owner) if owner else None,
        job=str(row["job"]) if row.get("job") else None,
        others=max(0, int(row.get("owners") or 0) - 1),
        held_s=seconds(row, "held_seconds"),
        free_s=seconds(row, "free_seconds"),
        idle_s=formats.number(row.get("idle_seconds")),
        busy=formats.number(use.get("gr_engine_ratio")),
        memory_used=formats.number(use.get("fb_used_ratio")),
        cost=formats.number(row.get("cost")),
        free_cost=formats.number(row.get("free_cost")),
        currency=text(row, "currency"),
        method=text(row, "share_method"),
        split=text(row, "split"),
    )


def owner_of(row: Row) -> str | None:
    """The team of a tenancy, or else its user; None while nobody held the slice."""
    if row.get("team") in NOBODY and not row.get("job"):
        return None
    return str(row.get("team") or row.get("user") or "__unallocated__")


def price_words(price: Decimal, currency: str) -> str:
    """The price of an hour, to the cent: `$0.41`."""
    return f"{formats.SIGNS.get(currency, f'{currency} ')}{price:,.2f}"


def text(row: Row, name: str, default: str = "") -> str:
    """A column as text."""
    return str(row.get(name) or default)


def mean_of(rows: Iterable[Row], name: str) -> Decimal | None:
    """Mean ratio of the measured tenancies, weighted by time."""
    top = bottom = Decimal(0)
    for row in rows:
        ratio = formats.number((row.get("utilisation") or {}).get(name))
        if ratio is not None:
            length = seconds(row, "device_seconds")
            top, bottom = top + ratio * length, bottom + length
    return top / bottom if bottom else None


def seconds(row: Row, name: str) -> Decimal:
    """A number of seconds; missing counts as zero."""
    return formats.number(row.get(name)) or Decimal(0)


def share(text: object) -> Fraction | None:
    """`1/7` or a number as a fraction."""
    try:
        return Fraction(str(text))
    except (ValueError, ZeroDivisionError):
        return None


def whole(value: object, default: int) -> int:
    """A whole number of slices from JSON."""
    found = formats.number(value)
    return int(found) if found is not None and 0 <= found <= MEMORY_COLUMNS else default
