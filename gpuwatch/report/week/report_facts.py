"""The facts of one report: what a week holds for the fleet, or for one team without anything about others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from gpuwatch.ledger.hours import HELD_BUCKETS
from gpuwatch.ledger.measures import Measures
from gpuwatch.report.facts import UNOWNED, Amount, Charge, Facts, Payer, Quality, Waited, added
from gpuwatch.report.period_records import Budget
from gpuwatch.report.week.bucket_costs import Buckets
from gpuwatch.report.week.idle_while_waiting import rounded
from gpuwatch.report.week.job_use import Job, Use
from gpuwatch.report.week.week_facts import OWN, Week

ORDER = ("allocated", "shared", "correction", "platform")
"""Kinds of charges in the order in which they are listed."""


def report_facts(week: Week, team: str | None, budget: Budget | None = None, forecast: Budget | None = None) -> Facts:
    """The facts of the fleet (None) or of one team, without anything about other teams."""
    charges = week.charges.of(team)
    payers = _payers(week, team, charges)
    buckets = _mine(week.buckets, team)
    bucket_sums = _sum_buckets(buckets)
    jobs = {(charge.cluster, charge.job) for charge in charges}
    waited = None if week.waited is None else {name: rounded(one) for name, one in week.waited.items()}
    return Facts(
        week=week.name,
        window=week.window,
        covered=week.covered,
        basis=week.basis,
        only_dumps=week.only_dumps,
        compared=week.compared,
        team=team,
        total=added(payer.amount for payer in payers),
        total_before=_total_before(week, team),
        corrections=added(payer.amount for payer in payers if payer.kind == "correction"),
        buckets=bucket_sums,
        buckets_before=None if week.compared is None else _sum_buckets(_mine(week.buckets_before, team)),
        findings=week.findings.of(team),
        slices=week.slices.of(team),
        payers=payers,
        jobs=() if team is None else _jobs(week, team),
        charges=charges,
        quality=_quality(week, team, charges, bucket_sums),
        versions=week.versions,
        ledger_from_us=week.ledger_from_us,
        priced={owner: added(found.values()) for owner, found in buckets.items()},
        measures=week.measures.get(team) or Measures.nothing(),
        measures_before=None if week.compared is None else week.measures_before.get(team) or Measures.nothing(),
        models=week.models.of(team),
        waited=_waited(waited, team),
        bound=week.bound,
        waited_by=waited if team is None and waited is not None else {},
        budget=budget,
        closed=week.frozen.closing,
        corrected=week.frozen.of(team),
        history=week.pasts.get(team, ()),
        forecast=forecast,
        job_names={key: week.job_names[key] for key in jobs if key in week.job_names},
        stranded=week.stranded if team is None else (),
        unmeasured=tuple(node for node, _ in week.unmeasured.get(team, ())),
    )


def _waited(waited: Mapping[str, Waited] | None, team: str | None) -> Waited | None:
    if waited is None:
        return None
    if team is not None:
        return waited.get(team, Waited(Amount(), 0))
    whole = added(w.amount for w in waited.values())
    return Waited(whole, max((w.requests for w in waited.values()), default=0))


def _payers(week: Week, team: str | None, mine: Sequence[Charge]) -> tuple[Payer, ...]:
    """Teams of the fleet, or users of the team; most expensive first, unallocated time last."""
    groups: dict[tuple[str | None, str], list[Charge]] = defaultdict(list)
    for charge in mine:
        groups[(charge.team if team is None else charge.user, charge.kind)].append(charge)
    rows = []
    for (name, kind), charges in groups.items():
        before = None
        if week.compared is not None and kind != "correction":
            old = week.teams_before.get((name, kind)) if team is None else week.users_before.get((team, kind, name))
            before = old or Amount()
        split = week.buckets.get(name, {}) if team is None else week.user_buckets.get((team, name), {})
        measures = week.measures.get(name) if team is None else week.user_measures.get((team, name))
        claimed = measures.claimed.gpu_seconds if measures is not None and kind in OWN else None
        # A correction belongs to another period, a shared cost to others: neither has buckets.
        own = split if kind in OWN else {}
        inferred = team is None and all(charge.inferred for charge in charges)
        payer = Payer(name, _sum(charges), before, own, kind, inferred=inferred)
        lost = measures.avoidable if measures is not None and kind in OWN else None
        wasted = (
            None
            if lost is None or lost.gpu_seconds is None or lost.ratio is None
            else Amount(lost.gpu_seconds, lost.costs, lost.unpriced_gpu_seconds)
        )
        rows.append(replace(payer, claimed_gpu_seconds=claimed or Decimal(0), avoidable=wasted))
    return tuple(sorted(rows, key=_order))


def _jobs(week: Week, team: str) -> tuple[Payer, ...]:
    groups: dict[Job, list[Charge]] = defaultdict(list)
    for charge in week.charges.of(team):
        if charge.kind == "allocated":
            groups[charge.place].append(charge)
    rows = [
        Payer(job, _sum(charges), None, use.buckets, "allocated", user, cluster, use.claimed_gpu_seconds)
        for key, charges in groups.items()
        for _, user, cluster, job in (key,)
        for use in (week.job_uses.get(key, Use()),)
    ]
    return tuple(sorted(rows, key=_order))


def _order(row: Payer) -> tuple[object, ...]:
    last = ORDER.index(row.kind) if row.name != UNOWNED else 1
    paid = sum((cost for _, cost in row.amount.costs), Decimal(0))
    return (last, -paid, -row.amount.gpu_seconds, str((row.name, row.user, row.cluster)))


def _quality(week: Week, team: str | None, charges: Sequence[Charge], buckets: Buckets) -> Quality:
    held = sum((buckets[b].gpu_seconds for b in HELD_BUCKETS if b in buckets), Decimal(0))
    unobserved = buckets["unobserved"].gpu_seconds if "unobserved" in buckets else Decimal(0)
    unowned = sum((c.gpu_seconds for c in charges if c.team == UNOWNED and c.kind == "allocated"), Decimal(0))
    return Quality(
        unobserved_ratio=float(unobserved / held) if held else None,
        unowned_ratio=float(unowned / held) if held and team is None else None,
        unpriced_gpu_seconds=sum((c.gpu_seconds for c in charges if c.cost is None), Decimal(0)),
        missing_rates=tuple(sorted({c.error for c in charges if c.error is not None})),
        stale_hours=week.stale_hours,
    )


def _sum(charges: Iterable[Charge]) -> Amount:
    """The sum of many charges, without an Amount for each."""
    seconds, lacking = Decimal(0), Decimal(0)
    costs: dict[str, Decimal] = {}
    for charge in charges:
        seconds += charge.gpu_seconds
        if charge.cost is None or charge.currency is None:
            lacking += charge.gpu_seconds
        else:
            costs[charge.currency] = costs.get(charge.currency, Decimal(0)) + charge.cost
    return Amount(seconds, tuple(sorted(costs.items())), lacking)


def _mine(buckets: Mapping[str | None, Buckets], team: str | None) -> Mapping[str | None, Buckets]:
    """The buckets of a team; None: of all teams."""
    return buckets if team is None else {team: buckets.get(team, {})}


def _total_before(week: Week, team: str | None) -> Amount | None:
    if week.compared is None:
        return None
    return added(amount for (owner, _), amount in week.teams_before.items() if team in (None, owner))


def _sum_buckets(by_team: Mapping[str | None, Buckets]) -> dict[str, Amount]:
    total: dict[str, Amount] = defaultdict(Amount)
    for buckets in by_team.values():
        for bucket, amount in buckets.items():
            total[bucket] += amount
    return dict(total)
