"""The steps that a report proposes: findings of one rule and one team, or a bucket's cost that no finding claims. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from gpuwatch.advisor.stranded import STRANDED, Cause
from gpuwatch.core.clock import DAY_US, parse_rfc3339
from gpuwatch.findings.monthly import Claimed, together
from gpuwatch.findings.priority import SAVING_DAYS, Rate, cost_a_day
from gpuwatch.findings.ranking import ENDED, Order, Part, order, order_of, part, ranked
from gpuwatch.findings.read import Finding, facts_of, lost_of
from gpuwatch.findings.texts import ELAPSED_US_MIN, is_waste
from gpuwatch.ledger.measures import AVOIDABLE
from gpuwatch.ledger.month import MONTH_DAYS, MONTH_FROM_US
from gpuwatch.report.facts import Facts

COST_MIN = Fraction(1, 2)
"""A month's saving below this many units of money is not worth an action: it would show as zero."""


@dataclass(frozen=True)
class Step:
    """Findings of one rule and one team, or a bucket's cost that no finding claims: `findings` is empty then.

    `cost` is of the period. `saving` is a month's: expected for findings, the most that is possible for a bucket, an estimate
    for a proposal. `lost` is work that failed runs lost since each finding began; waste may have the same GPU time, so it is
    never added to `cost`.
    """

    findings: tuple[Finding, ...]
    cost: Fraction
    saving: Fraction
    bucket: str | None = None
    lost: Fraction = Fraction(0)
    order: Order = (0, Fraction(0))
    cause: Cause | None = None
    """Of stranded time."""

    @property
    def proposal(self) -> bool:
        """Whether it proposes another size, price or place: GPU time that other actions may count too."""
        return bool(self.findings) and not any(map(_wastes, self.findings))

    @property
    def ended(self) -> bool:
        """Whether its waste is over."""
        return self.order[0] == ENDED


@dataclass(frozen=True)
class _Worth:
    """A finding with its cost in the period, what it could save a month, and the work that it lost."""

    finding: Finding
    cost: Fraction = Fraction(0)
    saving: Fraction = Fraction(0)
    lost: Fraction = Fraction(0)


def steps(facts: Facts) -> list[Step]:
    """The actions, the most urgent first (findings/ranking.py). Findings that owners exempted are left out.

    The saving is a month's (ledger/month.py): of open findings by their own mean a day; none of findings that are all over, nor
    where too little was measured. Rules that propose another size or another price count what they propose, unless a finding of
    waste about the same subject counts already. Lost work is not projected.
    """
    claimed: dict[str | None, Fraction] = defaultdict(Fraction)
    wasted = {_subject(one) for one in facts.findings if _wastes(one)}
    parts: list[Part[_Worth]] = []
    for finding in facts.findings:
        worth = _worth(facts, finding, wasted)
        claimed[finding.bucket] += worth.cost
        if (worth.saving > 0 or worth.cost > 0 or worth.lost > 0) and finding.state != "exempt":
            parts.append(_part(facts, worth))
    groups = ranked(parts, lambda one: (one.finding.finding.detector, one.finding.finding.team))
    made = [_of_findings(facts, members) for _, members in groups]
    if facts.measures.shares_known:
        made += [_of_bucket(facts, bucket, claimed[bucket]) for bucket in AVOIDABLE if bucket != STRANDED]
    if facts.team is None:
        made += _stranded(facts, claimed[STRANDED])
    made.sort(key=lambda step: (step.order, step.bucket or step.findings[0].key))
    return [step for step in made if max(step.saving, step.cost, step.lost) >= COST_MIN]


def _worth(facts: Facts, finding: Finding, wasted: Collection[tuple[str, str, str]]) -> _Worth:
    """What a finding costs in the period, would save a month, and lost; nothing in another currency."""
    if lost_of(finding) is not None:
        return _Worth(finding, lost=lost_cost(facts, finding))
    if _wastes(finding):
        cost = _cost_within(facts, finding)
        worth = _Worth(finding, cost)
        return replace(worth, saving=_claimed(worth).a_month(facts.counted) or Fraction(0))
    if _subject(finding) in wasted or finding.ended_at is not None or facts.counted.recorded_us < MONTH_FROM_US:
        return _Worth(finding)
    rate, saves = cost_a_day(facts_of(finding), facts.covered.end_us, facts.currency)
    return _Worth(finding, saving=rate.cost * SAVING_DAYS if saves and rate.cost is not None else Fraction(0))


def lost_cost(facts: Facts, finding: Finding) -> Fraction:
    """The cost of the work that a finding reports as lost; 0 without one in the report's currency."""
    lost = lost_of(finding)
    return lost.cost or Fraction(0) if lost is not None and lost.currency == facts.currency else Fraction(0)


def _claimed(worth: _Worth) -> Claimed:
    return Claimed(facts_of(worth.finding), worth.finding.ended_at is None, worth.cost)


def _part(facts: Facts, worth: _Worth) -> Part[_Worth]:
    """By what it cost a day of the time that was counted; an open finding by its own mean. Lost work is over: it does not end."""
    found = facts_of(worth.finding)
    rate, saves = Rate(worth.cost / facts.counted.days(worth.finding.bucket)), False
    if worth.lost:
        rate = Rate(worth.lost / Fraction(max(facts.counted.recorded_us, DAY_US), DAY_US))
    elif worth.saving:
        rate, saves = Rate(worth.saving / MONTH_DAYS), not worth.cost
    ended = worth.finding.ended_at is not None and not worth.lost
    return part(worth, worth.finding.key, found, rate, saves, Fraction(0), ended)


def named(found: Sequence[Step]) -> Fraction:
    """The waste of a month that findings name: what acting on them is expected to save."""
    return sum((step.saving for step in found if step.findings and not step.proposal), Fraction(0))


def unnamed(found: Sequence[Step]) -> Fraction:
    """The waste of a month that no finding names. Nobody knows how much of it can be saved."""
    return sum((step.saving for step in found if not step.findings), Fraction(0))


def proposed(found: Sequence[Step]) -> Fraction:
    """The largest saving of a month that one action proposes: proposals share GPU time with one another and with waste."""
    return max((step.saving for step in found if step.proposal), default=Fraction(0))


def lost_work(found: Sequence[Step]) -> Fraction:
    """The cost of work that failed runs lost."""
    return sum((step.lost for step in found), Fraction(0))


def _of_findings(facts: Facts, parts: Sequence[Part[_Worth]]) -> Step:
    members = [one.finding for one in parts]
    members.sort(key=lambda one: (-one.saving, -one.lost, one.finding.key))
    cost, saved, lost = (
        sum((getattr(one, field) for one in members), Fraction(0)) for field in ("cost", "saving", "lost")
    )
    if cost:
        saved = together(map(_claimed, members), facts.counted) or Fraction(0)
    return Step(tuple(one.finding for one in members), cost, saved, None, lost, order(parts))


def _of_bucket(facts: Facts, bucket: str, claimed: Fraction) -> Step:
    cost = facts.of(bucket).cost_in(facts.currency)
    rest = max(Fraction(cost or 0) - claimed, Fraction(0))
    monthly = facts.counted.a_month(rest, bucket) or Fraction(0)
    return Step((), rest, monthly, bucket, order=order_of(rest / facts.counted.days(bucket)))


def _stranded(facts: Facts, claimed: Fraction) -> list[Step]:
    """A step for each cause of stranded time, of the part that no finding claims."""
    whole = sum((one.cost or Fraction(0) for one in facts.stranded), Fraction(0))
    if not facts.stranded or not whole:
        return [_of_bucket(facts, STRANDED, claimed)]
    left = _of_bucket(facts, STRANDED, claimed)
    made = []
    for one in facts.stranded:
        part = (one.cost or Fraction(0)) / whole
        cost = left.cost * part
        made.append(
            replace(
                left,
                cost=cost,
                saving=left.saving * part,
                cause=one,
                order=order_of(cost / facts.counted.days(STRANDED)),
            )
        )
    return made


def _wastes(finding: Finding) -> bool:
    """Whether a finding claims waste; others propose savings."""
    return finding.bucket is not None and is_waste(finding.bucket)


def _subject(finding: Finding) -> tuple[str, str, str]:
    return finding.cluster, str(finding.subject["kind"]), str(finding.subject["id"])


def _cost_within(facts: Facts, finding: Finding) -> Fraction:
    """The part of a finding's cost that falls into the period: evenly over the time that it lasted."""
    if finding.wasted_cost is None or finding.currency != facts.currency:
        return Fraction(0)
    begun, seen = parse_rfc3339(finding.started_at), parse_rfc3339(finding.ended_at or finding.last_seen_at)
    lasted = max(seen - begun, ELAPSED_US_MIN)
    low, high = max(begun, facts.covered.start_us), min(begun + lasted, facts.covered.end_us)
    return Fraction(Decimal(finding.wasted_cost)) * max(high - low, 0) / lasted
