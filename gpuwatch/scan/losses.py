"""The waste of held GPUs that no finding names: an action of a scan for each team. Pure.

Stranded time is the platform's, and is divided by its cause (audit/losses.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.advisor.stranded import STRANDED
from gpuwatch.audit.losses import Loss
from gpuwatch.billing.records import BucketRow
from gpuwatch.findings.priority import Rate
from gpuwatch.jobs.loss_parts import REMEDIES, divided, remedy
from gpuwatch.ledger.measures import AVOIDABLE
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.data_quality import MEANINGS
from gpuwatch.rules.layers import OTHER

LEAST_SHARE = Fraction(1, 100)
"""Of all waste: less of a team is not listed."""
TITLE = "Waste spread over many jobs"

Kinds = Callable[[str], Sequence[Mapping[str, Any]]]
"""The rows of jobs/loss_kind.sql for a bucket: by which kinds of work its time divides."""


def unnamed_losses(
    rows: Iterable[BucketRow], findings: Iterable[Mapping[str, Any]], currency: str | None, kinds: Kinds
) -> list[Loss]:
    """What findings do not claim of each team's avoidable buckets, the most expensive team first; without what is too small to list.

    `rows` are of the ledger by team; a finding's `hours` are {bucket: GPU-hours}. The cost is that of the team's mean hour in
    the bucket, None without a price.
    """
    hours: dict[tuple[str, str], Fraction] = {}
    costs: dict[tuple[str, str], Fraction | None] = {}
    whole = Fraction(0)
    for row in rows:
        wasted = Fraction(row.avoidable_gpu_seconds) / 3600
        if row.bucket not in AVOIDABLE or not wasted:
            continue
        whole += wasted
        key = row.group["team"] or "", row.bucket
        hours[key] = hours.get(key, Fraction(0)) + wasted
        known = costs.get(key, Fraction(0))
        priced = row.cost is not None and row.currency == currency
        costs[key] = known + Fraction(row.cost or 0) if priced and known is not None else None
    claimed: dict[tuple[str, str], Fraction] = {}
    for found in findings:
        for bucket, amount in found["hours"].items():
            key = found["team"], bucket
            claimed[key] = claimed.get(key, Fraction(0)) + amount
    left = {key: amount - claimed.get(key, 0) for key, amount in hours.items() if key[1] != STRANDED}
    by_team: dict[str, list[str]] = {}
    for team, bucket in sorted((key for key in left if left[key] > 0), key=lambda key: (-left[key], key)):
        by_team.setdefault(team, []).append(bucket)
    made = []
    for team, buckets in by_team.items():
        parts = [
            _Part(bucket, left[team, bucket], _paid(costs[team, bucket], left[team, bucket] / hours[team, bucket]))
            for bucket in buckets
        ]
        if sum((one.hours for one in parts), Fraction(0)) > LEAST_SHARE * whole:
            made.append(_loss(team, sorted(parts, key=lambda one: (-(one.cost or 0), -one.hours)), currency, kinds))
    return sorted(made, key=lambda one: (-(one.cost or 0), -one.gpu_hours, one.team))


@dataclass(frozen=True)
class _Part:
    """What findings leave of a team's bucket."""

    bucket: str
    hours: Fraction
    cost: Fraction | None


def _paid(cost: Fraction | None, part: Fraction) -> Fraction | None:
    return None if cost is None else cost * part


def _loss(team: str, parts: Sequence[_Part], currency: str | None, kinds: Kinds) -> Loss:
    """One team's waste: named by its buckets, with the remedy of the largest, by the kinds of the team's work."""
    first = parts[0].bucket
    work = divided([(team, Rate(parts[0].cost, parts[0].hours))], kinds(first))
    advice = remedy(first, work, lambda size: report_text.worth(size.cost, size.hours, currency)) or REMEDIES[first]
    meaning = MEANINGS[first]
    places = tuple({"name": BUCKET_WORDS[one.bucket], "cost": one.cost, "gpu_hours": one.hours} for one in parts)
    costs = [one.cost for one in parts]
    cost = None if None in costs else sum((one for one in costs if one is not None), Fraction(0))
    hours = sum((one.hours for one in parts), Fraction(0))
    summary = f"{BUCKET_WORDS[first]}: {meaning}. It is spread over the jobs, so no finding names it."
    return Loss(f"loss:{team}", OTHER, TITLE, advice, summary, team, first, hours, cost, currency, places)
