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
"""Hours of the month that a monthly cost is for: 365 days of 24 hours in twelve."""


@dataclass
class Part:
    """What one subject held in one pool during one step, or what nobody held there. Amounts are those of books.Scale."""

    step: int
    subject: Subject
    name: str
    """The row that it is counted in."""
    held: bool
    pool: tuple[str, str | None]
    """(cluster, node); the node is None where idle is that of a cluster."""
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
    """Whether the filter lets it through."""
    sharing: bool = False
    """Whether its cost is that of the others."""
    shared_idle_units: int = 0
    shared_idle_amount: int = 0
    shared_amount: int = 0


def deal(total: int, weights: Sequence[int]) -> Iterator[int]:
    """`total` in whole parts by weight, which sum to it: each end is rounded, not each part. No weights, no parts."""
    whole, done, before = sum(weights), 0, 0
    for weight in weights:
        done += weight
        end = (2 * total * done + whole) // (2 * whole)
        yield end - before
        before = end


def deal_idle(query: Query, parts: Sequence[Part]) -> list[Part]:
    """Divides the idle cost of each pool, or reduces it to the share of the rows that pass the filter; returns the idle rows.

    Shared by weight, a part gets idle of its pool in proportion to its own cost; evenly, each row of the pool gets as
    much as another. Idle of a pool that nobody used stays idle: who has no GPU pays for none.
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
    amounts = _dealt(sum(part.amount for part in rows), users, names, evenly=evenly)
    units = _dealt(sum(part.units for part in rows), users, names, evenly=evenly)
    for part, amount, length in zip(users, amounts, units, strict=True):
        part.shared_idle_amount += amount
        part.shared_idle_units += length


def _dealt(total: int, parts: Sequence[Part], names: Sequence[str | None], *, evenly: bool) -> list[int]:
    """`total` by the cost of each part; or the same for each name, and by cost among the parts of a name."""
    if not evenly:
        return list(deal(total, [part.amount for part in parts]))
    members: dict[str | None, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        members[name].append(place)
    found = [0] * len(parts)
    for places, amount in zip(members.values(), deal(total, [1] * len(members)), strict=True):
        weights = [parts[place].amount for place in places]
        for place, part in zip(places, deal(amount, weights if any(weights) else [1] * len(places)), strict=True):
            found[place] = part
    return found


def _reduced(rows: Sequence[Part], users: Sequence[Part]) -> list[Part]:
    """Idle as far as it would go to the users that are kept."""
    kept = sum(part.amount for part in users if part.kept)
    dropped = sum(part.amount for part in users if not part.kept)
    if not dropped:
        return list(rows)
    for part in rows:
        part.amount, part.units, part.priced_units = (
            next(deal(value, (kept, dropped))) for value in (part.amount, part.units, part.priced_units)
        )
    return [part for part in rows if part.units]


def deal_shared(query: Query, parts: Sequence[Part], scale: Scale, length_us: int) -> list[Part]:
    """Deals what is shared (namespaces, labels, a monthly cost) to the rows; parts that found nobody to pay for them.

    By weight in proportion to the cost of a row, evenly the same for each. What would go to rows that the filter drops
    is dropped with them.
    """
    pots = [part for part in parts if part.sharing]
    cost = round(Fraction(query.share_cost) * scale.hour * length_us / (MONTH_HOURS * HOUR_US))
    total = cost + sum(part.amount + part.shared_idle_amount for part in pots)
    payers = sorted((part for part in parts if part.held and not part.sharing), key=lambda part: part.name)
    if not total:
        return []
    if not payers or not (query.share_evenly or any(part.amount for part in payers)):
        return pots
    names = [part.name if part.kept else None for part in payers]
    for part, amount in zip(payers, _dealt(total, payers, names, evenly=query.share_evenly), strict=True):
        part.shared_amount += amount
    return []
