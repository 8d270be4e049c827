"""Buckets and their cost by team, rounded so that they add up to what the team pays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal

from gpuwatch.billing.records import Ledger
from gpuwatch.core.money import CENT_PLACES
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report.facts import Amount, added, amount_of

CENT = Decimal(1).scaleb(-CENT_PLACES)
ROUNDING_CENTS = 2
"""Cents by which two roundings of one bucket may differ."""

Buckets = Mapping[str, Amount]


def user_buckets(by_user: Ledger) -> dict[tuple[str | None, str | None], Buckets]:
    """Buckets and their cost by team and user."""
    found: dict[tuple[str | None, str | None], dict[str, Amount]] = defaultdict(dict)
    for row in by_user.items:
        mine = found[row.group["team"], row.group["user"]]
        mine[row.bucket] = mine.get(row.bucket, Amount()) + amount_of(row.gpu_seconds, row.cost, row.currency)
    return dict(found)


def bucket_amounts(ledger: Ledger, paid: Mapping[str | None, Amount]) -> dict[str | None, Buckets]:
    """Buckets and their cost by team, from a ledger by team; the costs of a team's buckets add up to what it paid."""
    found: dict[str | None, dict[str, Amount]] = defaultdict(dict)
    for row in ledger.items:
        mine = found[row.group["team"]]
        mine[row.bucket] = mine.get(row.bucket, Amount()) + amount_of(row.gpu_seconds, row.cost, row.currency)
    settled = {team: _settled(buckets, paid.get(team, Amount())) for team, buckets in found.items()}
    before, after = (added(a for mine in side.values() for a in mine.values()) for side in (found, settled))
    own = dict(added(settled.get(PLATFORM, {}).values()).costs)
    if own != dict(paid.get(PLATFORM, Amount()).costs):
        # A policy lets others pay for it: cents that moved to them are taken from it, so that the total is unchanged.
        gap = {currency: cost - dict(after.costs).get(currency, Decimal(0)) for currency, cost in before.costs}
        whole = Amount(costs=tuple((currency, cost + gap.get(currency, Decimal(0))) for currency, cost in own.items()))
        settled[PLATFORM] = _settled(settled.get(PLATFORM, {}), whole, sum(len(mine) for mine in found.values()))
    return settled


def _settled(buckets: Buckets, paid: Amount, rows: int = 0) -> Buckets:
    """Adds the cents by which rounded rows differ from the rounded team total, one each to the largest buckets.

    `rows` is how many rows were rounded, if more than these. A larger difference comes from a policy: then the buckets
    stay at their price, and the report shows the difference to the charges.
    """
    settled = dict(buckets)
    for currency, total in paid.costs:
        mine = [(dict(a.costs)[currency], bucket) for bucket, a in buckets.items() if currency in dict(a.costs)]
        mine.sort(key=lambda pair: (-pair[0], pair[1]))
        missing = total - sum((amount for amount, _ in mine), Decimal(0))
        step = CENT if missing > 0 else -CENT
        cents = int(abs(missing) / CENT)
        most = ROUNDING_CENTS * max(rows, len(mine)) if mine else 0
        for number in range(cents if cents <= most else 0):
            bucket = mine[number % len(mine)][1]
            settled[bucket] += Amount(costs=((currency, step),))
    return settled
