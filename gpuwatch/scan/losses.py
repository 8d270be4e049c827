"""The waste that no finding names: by bucket, with the teams that have it and what to look at. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from gpuwatch.audit.figures import hours_text, money_text
from gpuwatch.billing.records import BucketRow
from gpuwatch.ledger.measures import AVOIDABLE
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report.actions import REMEDIES

LOSSES_MAX = 3
TEAMS_MAX = 3
LEAST_SHARE = Fraction(1, 20)
"""Of all waste: less is not listed."""
Json = dict[str, Any]


def unnamed_losses(
    rows: Iterable[BucketRow], findings: Iterable[Mapping[str, Any]], currency: str | None
) -> list[Json]:
    """At most LOSSES_MAX avoidable buckets by what findings do not claim of them, the largest first.

    `rows` are of the ledger by team; a finding's `hours` are {bucket: GPU-hours}. The cost is that of the bucket's mean hour, None
    without a price. Money and hours are decimal text.
    """
    hours: dict[str, dict[str, Fraction]] = {}
    costs: dict[str, Fraction | None] = {}
    for row in rows:
        wasted = Fraction(row.avoidable_gpu_seconds) / 3600
        if row.bucket not in AVOIDABLE or not wasted:
            continue
        by_team = hours.setdefault(row.bucket, {})
        team = row.group["team"] or ""
        by_team[team] = by_team.get(team, Fraction(0)) + wasted
        known = costs.get(row.bucket, Fraction(0))
        priced = row.cost is not None and row.currency == currency
        costs[row.bucket] = known + Fraction(row.cost or 0) if priced and known is not None else None
    claimed: dict[str, Fraction] = {}
    for found in findings:
        for bucket, amount in found["hours"].items():
            claimed[bucket] = claimed.get(bucket, Fraction(0)) + amount
    whole = sum((sum(teams.values(), Fraction(0)) for teams in hours.values()), Fraction(0))
    left = {bucket: sum(teams.values(), Fraction(0)) - claimed.get(bucket, 0) for bucket, teams in hours.items()}
    shown = sorted((b for b in left if left[b] > LEAST_SHARE * whole), key=lambda b: (-left[b], b))
    return [_loss(bucket, left[bucket], hours[bucket], costs[bucket]) for bucket in shown[:LOSSES_MAX]]


def _loss(bucket: str, left: Fraction, teams: Mapping[str, Fraction], cost: Fraction | None) -> Json:
    whole = sum(teams.values(), Fraction(0))
    return {
        "bucket": bucket,
        "title": BUCKET_WORDS[bucket],
        "remedy": REMEDIES[bucket],
        "gpu_hours": hours_text(left),
        "cost": None if cost is None else money_text(cost * left / whole),
        "teams": _largest(teams),
    }


def _largest(teams: Mapping[str, Fraction]) -> Sequence[str]:
    return sorted(teams, key=lambda team: (-teams[team], team))[:TEAMS_MAX]
