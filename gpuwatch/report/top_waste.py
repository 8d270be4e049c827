"""The largest waste and its owners: top findings with their remedy, and idle GPUs that others waited for. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from gpuwatch.core.clock import DAY_US, parse_rfc3339
from gpuwatch.core.words import joined
from gpuwatch.findings.read import Finding, lost_of
from gpuwatch.findings.texts import SEVERITY_ORDER, is_waste
from gpuwatch.ledger.month import MONTH_FROM_US
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report import text as report_text
from gpuwatch.report.actions import LOST_NOTE, subject_name
from gpuwatch.report.document import Block, Card, Column, Section, Table, Text, row
from gpuwatch.report.facts import UNOWNED, Facts
from gpuwatch.report.html.markup import name
from gpuwatch.report.sections.certainty import AT_LEAST

FINDINGS_SHOWN, NODES_SHOWN, TITLES_SHOWN = 5, 2, 4
WAITED_SHOWN = 10
COST_MIN = Fraction(5, 1000)
"""A finding that cost less shows no money."""


def wastes(facts: Facts) -> Section:
    """The most expensive findings of the week, each with its owner and remedy; lost work, which is no waste, after them. Exempt
    ones are only counted.

    Findings about missing measurements are in the data files; the section on data quality has the fix.
    """
    wasteful = [f for f in facts.findings if is_waste(f.bucket)]
    counted = [f for f in wasteful if f.state != "exempt"]
    exempt = len(wasteful) - len(counted)
    listed = sorted((f for f in counted if _costs(f)), key=lambda f: (lost_of(f) is not None, -(_cost(f) or 0)))
    notes = [f"{exempt} more {'is' if exempt == 1 else 'are'} exempt by the owner's decision."] if exempt else []
    if not listed:
        text = _none_listed(facts, len(counted))
        found = "not measured" if facts.measures.measured_ratio == 0 else "none found"
        return Section(f"Largest waste: {found}", tuple(Text(t) for t in (text, *notes)))
    shown = listed[:FINDINGS_SHOWN]
    if len(listed) > len(shown):
        rest = len(listed) - len(shown)
        notes.insert(0, f"{rest:,} smaller {'one is' if rest == 1 else 'ones are'} in the data files.")
    notes += _without_cost([f for f in counted if not _costs(f)])
    count = f"{len(listed):,} {'finding' if len(listed) == 1 else 'findings'}"
    since = f"Amounts count from the start of each finding, which may be before this {facts.period_word}."
    since += f" {LOST_NOTE}" if any(lost_of(f) for f in listed) else ""
    blocks: list[Block] = [Text(" ".join([since, *notes]), "soft"), *(_card(facts, finding) for finding in shown)]
    return Section(f"Largest waste: {count}{_sum(facts, listed)}", tuple(blocks))


def _without_cost(found: Sequence[Finding]) -> list[str]:
    """`Without a cost of their own: GPU loses memory (2, high) and …`: what else was found, the most severe first."""
    by_title: dict[str, list[str]] = defaultdict(list)
    for one in sorted(found, key=lambda f: (-SEVERITY_ORDER.index(f.severity), f.title)):
        by_title[one.title].append(one.severity)
    parts = [f"{title} ({len(severities):,}, {severities[0]})" for title, severities in by_title.items()]
    if len(parts) > TITLES_SHOWN:
        parts = [*parts[:TITLES_SHOWN], f"{len(parts) - TITLES_SHOWN} more kinds"]
    return [f"Without a cost of their own: {joined(parts)}. They are in the data files."] if parts else []


def _none_listed(facts: Facts, counted: int) -> str:
    """Why no finding is listed."""
    rest = "Data quality, below, lists what could not be evaluated."
    if not counted:
        return f"No findings this {facts.period_word}. {rest}"
    many = "1 finding has" if counted == 1 else f"{counted:,} findings have"
    return f"{many} no cost: the data files list {'it' if counted == 1 else 'them'}. {rest}"


def _cost(finding: Finding) -> Fraction | None:
    """What a finding wasted, or the work that it lost; None without a price."""
    lost = lost_of(finding)
    if lost is not None:
        return lost.cost
    return None if finding.wasted_cost is None else Fraction(Decimal(finding.wasted_cost))


def _costs(finding: Finding) -> bool:
    """Whether a finding shows money, or has time without a price."""
    cost = _cost(finding)
    return cost is None or cost >= COST_MIN


def waited(facts: Facts) -> Section:
    """Idle time that was held while requests of other teams waited; unknown without data on waiting requests."""
    found = facts.waited
    title = "Held idle while others waited"
    if found is None:
        text = f"No scheduler reported waiting requests this {facts.period_word}. Import sacct, or the queue's objects."
        return Section(f"{title}: unknown", (Text(text),))
    if not found.amount.gpu_seconds and facts.measures.measured_ratio == 0:
        text = f"None of the held time was measured this {facts.period_word}, so nobody knows which GPUs were idle while others waited."
        return Section(f"{title}: not measured", (Text(text),))
    if not found.amount.gpu_seconds:
        text = "No GPU was idle for a whole hour while a request of another team waited that it could have served."
        return Section(f"{title}: none", (Text(text),))
    cost = report_text.amount_money(found.amount, facts.currency)
    hours = report_text.hours(found.amount.gpu_hours)
    requests = f"{found.requests:,} {'request' if found.requests == 1 else 'requests'}"
    if facts.team is None:
        text = f"At least {hours} were held idle while requests of other teams waited that these GPUs could have "
        text += f"served ({cost}). Only hours that were idle throughout count, so the true number may be higher."
    else:
        text = f"At least {hours} that you held idle could have served {requests} of other teams that were waiting "
        text += f"({cost}). Only hours that were idle throughout count."
    blocks: list[Block] = [Text(text)]
    if facts.team is None:
        ranked = sorted(facts.waited_by.items(), key=lambda item: (-item[1].amount.gpu_seconds, item[0]))
        columns = (
            Column("Held by team", part=3),
            Column("GPU-hours", number=True),
            Column("Cost", number=True),
            Column("Waiting requests", number=True, part=1.5),
        )
        shown = ranked[:WAITED_SHOWN]
        rows = [
            row(
                [
                    "No team assigned" if team == UNOWNED else name(team),
                    report_text.count(each.amount.gpu_hours),
                    report_text.amount_money(each.amount, facts.currency),
                    f"{each.requests:,}",
                ]
            )
            for team, each in shown
        ]
        blocks.append(Table(columns, tuple(rows)))
        if len(ranked) > len(shown):
            blocks.append(Text(f"{len(ranked) - len(shown)} more teams are in the data files.", "soft"))
    return Section(f"{title}: {AT_LEAST}{cost}", tuple(blocks))


def _sum(facts: Facts, listed: Sequence[Finding]) -> str:
    """The waste of the listed findings since they began, and the lost work, which is not waste."""
    wasted = [f for f in listed if lost_of(f) is None]
    known = [_cost(f) for f in wasted if f.currency == facts.currency]
    lost = [one for f in listed if (one := lost_of(f)) is not None]
    priced = [one.cost for one in lost if one.cost is not None and one.currency == facts.currency]
    text = ""
    if wasted and None not in known and len(known) == len(wasted):
        text = (
            f", {report_text.money(sum((cost or 0 for cost in known), Fraction(0)), facts.currency)} since they began"
        )
    if lost and len(priced) == len(lost):
        text += f", {report_text.money(sum(priced, Fraction(0)), facts.currency)} of lost work"
    return text


def a_day(finding: Finding) -> Fraction | None:
    """Cost a day of what goes on; None without a price, for what is over, and for what has not lasted long enough to say."""
    elapsed = parse_rfc3339(finding.last_seen_at) - parse_rfc3339(finding.started_at)
    if finding.wasted_cost is None or finding.ended_at is not None or elapsed < MONTH_FROM_US:
        return None
    return Fraction(Decimal(finding.wasted_cost)) * DAY_US / max(elapsed, DAY_US)


def owner(facts: Facts, finding: Finding) -> str:
    """`team search, user ann`; in a team's own report only the user. An unknown user is left out."""
    words = {UNOWNED: "no team assigned", PLATFORM: "platform"}
    parts = [] if facts.team is not None else [words.get(finding.team) or f"team {name(finding.team)}"]
    parts += [f"user {name(finding.user)}"] if finding.user else []
    return ", ".join(parts)


def _card(facts: Facts, finding: Finding) -> Card:
    begun, hours, daily, lost = parse_rfc3339(finding.started_at), *_amounts(finding)
    ongoing = "ongoing since" if lost_of(finding) is None else "since"  # a run that failed is over
    over = (
        f"{ongoing} {report_text.instant(begun)} UTC"
        if finding.ended_at is None
        else f"{report_text.span(begun, parse_rfc3339(finding.ended_at))} UTC"
    )
    subject = f"{finding.subject['kind']} {name(finding.subject['id'])}"
    if (called := subject_name(facts, finding)) not in subject:
        subject += f" ({called})"
    subject += f" on {', '.join(finding.nodes[:NODES_SHOWN])}" if finding.nodes else ""
    per_day = "" if daily is None else f", {report_text.money(daily, finding.currency)} a day"
    acted = "" if finding.state in ("open", "resolved") else f" · {finding.state}"
    return Card(
        severity=finding.severity,
        title=finding.title,
        lost=lost,
        summary=finding.summary,
        about=f"{', '.join(part for part in (subject, owner(facts, finding)) if part)} · {over} · {report_text.hours(hours)}{per_day}{acted}",
        remedy=finding.remedy,
    )


def _amounts(finding: Finding) -> tuple[Fraction, Fraction | None, str]:
    """GPU-hours, cost a day and the cost in words. Work is lost once, so lost work has no cost a day."""
    cost, lost = _cost(finding), lost_of(finding)
    if lost is not None:
        words = report_text.NO_PRICE if cost is None else f"{report_text.money(cost, lost.currency)} of lost work"
        return lost.hours, None, words
    words = report_text.NO_PRICE if cost is None else report_text.money(cost, finding.currency)
    return Fraction(Decimal(finding.wasted_gpu_seconds)) / 3600, a_day(finding), words
