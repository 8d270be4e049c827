"""Divides the idle and shared costs of one set among allocations as OpenCost does, exactly to the last unit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from gpuwatch.billing.opencost.query import Query
from gpuwatch.billing.opencost.subject import Subject
from gpuwatch.core.clock import HOUR_US
from gpuwatch.ledger.totals import Scale

MONTH_HOURS = 730
"""Hours of a month for monthly costs: a twelfth of 365 days."""


@dataclass
class Part:
    """The time that one subject held in one pool during one step, or the unallocated time there.

    Amounts are in units of ledger.totals.Scale.
    """

    step: int
    subject: Subject
    name: str
    """The row that it counts in."""
    held: bool
    pool: tuple[str, str | None]
    """(cluster, node); the node is None where idle costs are those of a cluster."""
    first_us: int
    last_us: int
    units: int
    priced_units: int
    amount: int
    idle_amount: int = 0
    waste_amount: int = 0
    is_shared: bool = False
    buckets: dict[str, int] = field(default_factory=dict)
    devices: set[int] = field(default_factory=set)
    kept: bool = True
    """Whether it passes the filter."""
    sharing: bool = False
    """Whether its cost is divided among the others."""
    shared_idle_units: int = 0
    shared_idle_amount: int = 0
    shared_amount: int = 0


def divide(total: int, weights: Sequence[int]) -> Iterator[int]:
    """Divides `total` into whole numbers by weight; running sums are rounded, so the parts add up. No weights, no parts."""
    whole, done, before = sum(weights), 0, 0
    for weight in weights:
        done += weight
        end = (2 * total * done + whole) // (2 * whole)
        yield end - before
        before = end


def divide_idle(query: Query, parts: Sequence[Part]) -> list[Part]:
    """Divides the idle cost of each pool, or reduces it to the share of the rows that pass the filter; returns the idle rows.

    Shared by weight, a part gets idle of its pool in proportion to its own cost; evenly, each row of the pool gets as
    much as another. The idle cost of an unused pool stays idle.
    """
    pools: dict[tuple[str, str | None], list[Part]] = defaultdict(list)
    idle: dict[tuple[str, str | None], list[Part]] = defaultdict(list)
    for part in parts:
        (pools if part.held else idle)[part.pool].append(part)
    kept: list[Part] = []
    for pool, rows in sorted(idle.items(), key=str):
        users = sorted((part for part in pools.get(pool, ()) if part.amount > 0), key=lambda part: part.name)
        if query.share_idle != "none" and users:
            _share(rows, users, evenly=query.share_idle == "even")
        elif users:
            kept += _reduced(rows, users)
        else:
            kept += [part for part in rows if query.filter.matches(part.subject)]
    return kept


def _share(rows: Sequence[Part], users: Sequence[Part], *, evenly: bool) -> None:
    names = [part.name for part in users]
    amounts = _divided(sum(part.amount for part in rows), users, names, evenly=evenly)
    units = _divided(sum(part.units for part in rows), users, names, evenly=evenly)
    for part, amount, length in zip(users, amounts, units, strict=True):
        part.shared_idle_amount += amount
        part.shared_idle_units += length


def _divided(total: int, parts: Sequence[Part], names: Sequence[str | None], *, evenly: bool) -> list[int]:
    """`total` by the cost of each part; or the same for each name, and by cost among the parts of a name."""
    if not evenly:
        return list(divide(total, [part.amount for part in parts]))
    members: dict[str | None, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        members[name].append(place)
    found = [0] * len(parts)
    for places, amount in zip(members.values(), divide(total, [1] * len(members)), strict=True):
        weights = [parts[place].amount for place in places]
        for place, part in zip(places, divide(amount, weights if any(weights) else [1] * len(places)), strict=True):
            found[place] = part
    return found


def _reduced(rows: Sequence[Part], users: Sequence[Part]) -> list[Part]:
    """The part of the idle cost that would go to users who pass the filter."""
    kept = sum(part.amount for part in users if part.kept)
    dropped = sum(part.amount for part in users if not part.kept)
    if not dropped:
        return list(rows)
    for part in rows:
        part.amount, part.units, part.priced_units = (
            next(divide(value, (kept, dropped))) for value in (part.amount, part.units, part.priced_units)
        )
    return [part for part in rows if part.units]


def divide_shared(query: Query, parts: Sequence[Part], scale: Scale, length_us: int) -> list[Part]:
    """Divides shared costs (namespaces, labels, a monthly cost) among rows; returns the parts without anyone to pay for them.

    Weighted: in proportion to the cost of a row. Evenly: the same for each. The shares of rows that the filter drops are
    dropped with them.
    """
    shared_parts = [part for part in parts if part.sharing]
    cost = round(Fraction(query.share_cost) * scale.hour * length_us / (MONTH_HOURS * HOUR_US))
    total = cost + sum(part.amount + part.shared_idle_amount for part in shared_parts)
    payers = sorted((part for part in parts if part.held and not part.sharing), key=lambda part: part.name)
    if not total:
        return []
    if not payers or not (query.share_evenly or any(part.amount for part in payers)):
        return shared_parts
    names = [part.name if part.kept else None for part in payers]
    for part, amount in zip(payers, _divided(total, payers, names, evenly=query.share_evenly), strict=True):
        part.shared_amount += amount
    return []
