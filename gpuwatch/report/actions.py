"""What to do, with its owner and the money it is expected to save. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from gpuwatch.core.clock import DAY_US, parse_rfc3339
from gpuwatch.findings.priority import MONTH_DAYS, Rate, cost_a_day, priority
from gpuwatch.findings.ranking import Part, part, ranked, score
from gpuwatch.findings.read import Finding, facts_of, lost_of
from gpuwatch.findings.texts import ELAPSED_US_MIN, SEVERITY_ORDER, is_waste, severity_of
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.data_quality import MEANINGS
from gpuwatch.report.document import Block, Card, Section, Text
from gpuwatch.report.facts import PLATFORM, Facts
from gpuwatch.report.html.markup import name, owner_name

STEPS_SHOWN = 5
YOU = "your team"
NAMES_SHOWN = 3
"""Jobs and nodes that an action names."""
PROJECTED_DAYS_MIN = 2
"""Days of data that a month's saving needs."""
STRANDED = "stranded"
REMEDIES = {
    STRANDED: "Move small jobs onto fewer nodes: the capacity page lists the moves that free whole nodes for waiting requests.",
    "gap": "Load data ahead of the GPU and save checkpoints in the background, in the jobs with the largest gaps.",
    "communication": "Keep the GPUs of a job on one node or one switch.",
    "stalled": "Enlarge batches or fuse kernels; a MIG slice is enough for work this small.",
    "hoarded": "Release GPUs that idle, or let the scheduler reclaim them.",
}
"""What to do about avoidable time of a bucket that no finding explains."""
LOST_NOTE = "Lost work is the cost of runs that failed, since each finding began. It is not added to waste, which may have the same time."
COST_MIN = Fraction(1, 2)
"""A month's saving below this many units of money is not worth an action: it would show as zero."""


@dataclass(frozen=True)
class Step:
    """Findings of one rule and one team, or a bucket's cost that no finding claims: `findings` is empty then.

    `cost` is of the period. `saving` is a month's: expected for findings, the most that is possible for a bucket. `lost` is
    work that failed runs lost since each finding began; waste may have the same GPU time, so it is never added to `cost`.
    """

    findings: tuple[Finding, ...]
    cost: Fraction
    saving: Fraction
    bucket: str | None = None
    lost: Fraction = Fraction(0)
    score: Fraction = Fraction(0)


@dataclass(frozen=True)
class _Worth:
    """A finding with its cost in the period, what it could save a month, and the work that it lost."""

    finding: Finding
    cost: Fraction = Fraction(0)
    saving: Fraction = Fraction(0)
    lost: Fraction = Fraction(0)


def steps(facts: Facts) -> list[Step]:
    """The actions, the most urgent first (findings/ranking.py). Findings that owners exempted are left out.

    The saving is the waste of the period's covered days, projected to 30 days; none where less than PROJECTED_DAYS_MIN days
    are covered. Rules that propose another size or another price count what they propose, unless a finding of waste about the
    same subject counts already. Lost work is not projected.
    """
    projected = facts.covered.end_us - facts.covered.start_us >= PROJECTED_DAYS_MIN * DAY_US
    claimed: dict[str | None, Fraction] = defaultdict(Fraction)
    wasted = {_subject(one) for one in facts.findings if _wastes(one)}
    parts: list[Part[_Worth]] = []
    for finding in facts.findings:
        worth = _worth(facts, finding, wasted, projected)
        claimed[finding.bucket] += worth.cost
        if (worth.saving > 0 or worth.lost > 0) and finding.state != "exempt":
            parts.append(_part(facts, worth))
    groups = ranked(parts, lambda one: (one.finding.finding.detector, one.finding.finding.team))
    made = [_of_findings(members) for _, members in groups]
    if facts.measures.shares_known and projected:
        made += [
            _of_bucket(facts, bucket, claimed[bucket])
            for bucket in REMEDIES
            if facts.team is None or bucket != STRANDED
        ]
    made.sort(key=lambda step: (-step.score, step.bucket or step.findings[0].key))
    return [step for step in made if step.saving >= COST_MIN or step.lost >= COST_MIN]


def _worth(facts: Facts, finding: Finding, wasted: Collection[tuple[str, str, str]], projected: bool) -> _Worth:
    """What a finding costs in the period, would save a month, and lost; nothing in another currency."""
    lost = lost_of(finding)
    if lost is not None:
        return _Worth(finding, lost=(lost.cost or Fraction(0)) if lost.currency == facts.currency else Fraction(0))
    if not projected:
        return _Worth(finding)
    if _wastes(finding):
        cost = _cost_within(facts, finding)
        return _Worth(finding, cost, _monthly(facts, cost))
    if _subject(finding) in wasted or finding.ended_at is not None:
        return _Worth(finding)
    rate, saves = cost_a_day(facts_of(finding), facts.covered.end_us, facts.currency)
    return _Worth(finding, saving=rate.cost * MONTH_DAYS if saves and rate.cost is not None else Fraction(0))


def _part(facts: Facts, worth: _Worth) -> Part[_Worth]:
    found = facts_of(worth.finding)
    rate, saves = Rate(worth.saving / MONTH_DAYS), not worth.cost
    if worth.lost:
        rate, saves = cost_a_day(found, facts.covered.end_us, facts.currency)
    return part(worth, worth.finding.key, found, rate, saves, Fraction(0))


def saving(found: Sequence[Step]) -> Fraction:
    """What the findings are expected to save a month."""
    return sum((step.saving for step in found if step.findings), Fraction(0))


def lost_work(found: Sequence[Step]) -> Fraction:
    """The cost of work that failed runs lost."""
    return sum((step.lost for step in found), Fraction(0))


def most(found: Sequence[Step]) -> Fraction:
    """What all steps could save a month at most."""
    return sum((step.saving for step in found), Fraction(0))


def actions(facts: Facts) -> Section | None:
    """The top actions as cards; None where nothing avoidable has a price."""
    found = steps(facts)
    if not found:
        return None
    listed = found[:STEPS_SHOWN]
    share, lost = most(listed), lost_work(found)
    worth = [f"worth up to {report_text.money(share, facts.currency)} a month"] if share else []
    worth += [f"{report_text.money(lost, facts.currency)} of work lost with failed runs"] if lost else []
    notes = (
        [f"Savings project this {facts.period_word} to 30 days. “Up to”: no finding names the cause yet."]
        if share
        else []
    )
    notes += [LOST_NOTE] if lost else []
    note = " ".join(notes)
    if left := len(found) - len(listed):
        note += f" {left} smaller {'one is' if left == 1 else 'ones are'} not listed."
    blocks: list[Block] = [Text(note, "soft"), *(card(facts, step) for step in listed)]
    title = "What to change" if facts.team is not None else "What to do"
    many = "one action" if len(listed) == 1 else f"{_COUNTS[len(listed)]} actions"
    return Section(f"{title}: {', '.join([many, *worth])}", tuple(blocks))


_COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}


def _of_findings(parts: Sequence[Part[_Worth]]) -> Step:
    members = [one.finding for one in parts]
    members.sort(key=lambda one: (-one.saving, -one.lost, one.finding.key))
    cost, saved, lost = (
        sum((getattr(one, field) for one in members), Fraction(0)) for field in ("cost", "saving", "lost")
    )
    return Step(tuple(one.finding for one in members), cost, saved, None, lost, score(parts))


def _of_bucket(facts: Facts, bucket: str, claimed: Fraction) -> Step:
    cost = facts.of(bucket).cost_in(facts.currency)
    rest = max(Fraction(cost or 0) - claimed, Fraction(0))
    monthly = _monthly(facts, rest)
    severity = severity_of(rest, facts.covered.end_us - facts.covered.start_us)
    return Step((), rest, monthly, bucket, score=priority(severity, monthly / MONTH_DAYS))


def _monthly(facts: Facts, cost: Fraction) -> Fraction:
    return cost * MONTH_DAYS * DAY_US / (facts.covered.end_us - facts.covered.start_us)


def card(facts: Facts, step: Step) -> Card:
    """An action as a card."""
    worth = f"{report_text.money(step.saving, facts.currency)} a month"
    cost = (
        f" · {report_text.money(step.cost, facts.currency)} this {facts.period_word}" if step.cost else " · a proposal"
    )
    if step.lost:
        worth, cost = f"lost {report_text.money(step.lost, facts.currency)}", ""
    if step.bucket is not None:
        title = BUCKET_WORDS[step.bucket]
        about = f"Owner: {owner_of(facts, step)}{cost}{_most_in(facts, step.bucket)}"
        meaning = MEANINGS[step.bucket]
        what = f"{meaning[0].upper()}{meaning[1:]}."
        severity = severity_of(step.cost, facts.covered.end_us - facts.covered.start_us)
        return Card(severity, title, f"up to {worth}", what, about, REMEDIES[step.bucket])
    first = step.findings[0]
    worst = max((one.severity for one in step.findings), key=SEVERITY_ORDER.index)
    count = f"{len(step.findings):,} finding{'' if len(step.findings) == 1 else 's'}"
    return Card(
        severity=worst,
        title=f"{first.title}: {_names(facts, step)}",
        lost=worth,
        summary=first.summary,
        about=f"Owner: {owner_of(facts, step)}{cost} · {count}",
        remedy=first.remedy,
    )


def owner_of(facts: Facts, step: Step) -> str:
    """Whom to ask."""
    return _holders(facts, step.bucket) if step.bucket is not None else _owners(facts, step)


def _holders(facts: Facts, bucket: str) -> str:
    """Who held most of a bucket: teams of the fleet, users of a team."""
    if bucket == STRANDED:
        return "Platform"
    held = [
        (payer.of(bucket).cost_in(facts.currency) or 0, payer) for payer in facts.payers if payer.kind == "allocated"
    ]
    held.sort(key=lambda one: (-one[0], str(one[1].name)))
    if facts.team is None:
        return ", ".join([owner_name(payer.name) for cost, payer in held[:NAMES_SHOWN] if cost]) or "unknown"
    users = [name(payer.name) for cost, payer in held if cost and payer.name]
    return ", ".join(users[:NAMES_SHOWN]) or YOU


def _most_in(facts: Facts, bucket: str) -> str:
    """The team's jobs with the most time in a bucket, of those that the report lists."""
    held = sorted(
        (job for job in facts.jobs if job.of(bucket).gpu_seconds), key=lambda job: -job.of(bucket).gpu_seconds
    )
    named = dict.fromkeys(name(facts.job_names.get((job.cluster, job.name)) or job.name) for job in held if job.name)
    return f" · most in {', '.join(list(named)[:NAMES_SHOWN])}" if named else ""


def _names(facts: Facts, step: Step) -> str:
    named = list(dict.fromkeys(subject_name(facts, one) for one in step.findings))
    more = f" and {len(named) - NAMES_SHOWN} more" if len(named) > NAMES_SHOWN else ""
    return f"{', '.join(named[:NAMES_SHOWN])}{more}"


def subject_name(facts: Facts, finding: Finding) -> str:
    """A finding's subject as people call it: the job's name, the node of a GPU, the name of anything else."""
    identity, kind = str(finding.subject["id"]), finding.subject["kind"]
    if kind == "job":
        known = facts.job_names.get((finding.cluster, identity))
        return name(known or finding.subject.get("name") or identity)
    if kind in ("gpu", "slice"):
        where = f" on {name(finding.nodes[0])}" if finding.nodes else ""
        return f"{'GPU' if kind == 'gpu' else 'MIG slice'}{where}"
    return f"{kind} {name(identity)}"


def _owners(facts: Facts, step: Step) -> str:
    users = list(dict.fromkeys(name(one.user) for one in step.findings if one.user))
    shown = ", ".join(users[:NAMES_SHOWN])
    if facts.team is not None:
        return shown or YOU
    team = step.findings[0].team
    return f"{'Platform' if team == PLATFORM else owner_name(team)}{f' ({shown})' if shown else ''}"


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
