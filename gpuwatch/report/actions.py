"""What to do, with its owner and the money it is expected to save. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from gpuwatch.advisor.stranded import STRANDED
from gpuwatch.findings.read import Finding
from gpuwatch.findings.texts import SEVERITY_ORDER, severity_of
from gpuwatch.jobs.loss_parts import REMEDIES
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report import text as report_text
from gpuwatch.report.data_quality import MEANINGS
from gpuwatch.report.document import Block, Card, Section, Text
from gpuwatch.report.facts import Facts
from gpuwatch.report.html.markup import name, owner_name
from gpuwatch.report.sections import certainty
from gpuwatch.report.steps import COST_MIN, Step, lost_cost, lost_work, named, proposed, steps, unnamed

__all__ = [
    "LOST_NOTE",
    "actions",
    "card",
    "lost_cost",
    "lost_work",
    "named",
    "owner_of",
    "proposed",
    "steps",
    "subject_name",
    "unnamed",
]

STEPS_SHOWN = 5
YOU = "your team"
UNKNOWN_USER = "unknown user"
"""Nobody to ask, and a part of what was held."""
NAMES_SHOWN = 3
"""Jobs and nodes that an action names."""
LOST_NOTE = (
    "Lost work is the cost of runs that failed, since each finding began. Without a known checkpoint, all of a run counts as lost. It is not added to waste, which "
    "may have the same time. " + certainty.SMALL_LOSSES
)


PROPOSAL_NOTE = (
    "The saving of a proposal (another size, price or place) is an estimate about GPU time that other actions may count too: it is "
    "added to nothing."
)


def actions(facts: Facts) -> Section | None:
    """The top actions as cards; None where nothing avoidable has a price."""
    found = steps(facts)
    if not found:
        return None
    listed = found[:STEPS_SHOWN]
    worth, notes = _worths(facts, listed, lost_work(found))
    if left := found[len(listed) :]:
        rest = named(left) + unnamed(left)
        value = f", {report_text.money(rest, facts.currency)} of waste a month," if rest >= COST_MIN else ""
        one = len(left) == 1
        notes.append(f"{len(left)} more {'action' if one else 'actions'}{value} {'is' if one else 'are'} not listed.")
    note: list[Block] = [Text(" ".join(notes), "soft")] if notes else []
    blocks = [*(card(facts, step) for step in listed), *note]
    title = "What to change" if facts.team is not None else "What to do"
    many = "one action" if len(listed) == 1 else f"{_COUNTS[len(listed)]} actions"
    return Section(f"{title}: {', '.join([many, *worth])}", (*blocks,))


_COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}


def _worths(facts: Facts, listed: Sequence[Step], lost: Fraction) -> tuple[list[str], list[str]]:
    """What the actions are worth, for the title, and how that is counted."""
    share, spent = named(listed) + unnamed(listed), sum((step.cost for step in listed), Fraction(0))
    worth, notes = [], []
    if share:
        bound = certainty.UP_TO if unnamed(listed) else ""  # as on the cards
        worth.append(f"{bound}{report_text.money(share, facts.currency)} of waste a month")
        over = facts.counted.words() if facts.counted.measured_us else ""
        notes.append(f"A month: the cost a day over {over or 'the days that were counted'}, times 30.4375.")
    elif spent:
        kinds = {_when(facts, _bucket(step)) for step in listed if step.cost}
        when = kinds.pop() if len(kinds) == 1 else f" this {facts.period_word}"
        worth.append(f"{report_text.money(spent, facts.currency)} of waste{when}")
    notes += [certainty.legend([certainty.UP_TO])] if any(step.saving and step.bucket for step in listed) else []
    notes += [PROPOSAL_NOTE] if any(step.proposal for step in listed) else []
    if lost:
        worth.append(f"{report_text.money(lost, facts.currency)} of work lost with failed runs")
        notes.append(LOST_NOTE)
    return worth, notes


def _bucket(step: Step) -> str | None:
    return step.bucket or step.findings[0].bucket


def _when(facts: Facts, bucket: str | None) -> str:
    """` in the 6 measured hours`, or ` this week`."""
    words = facts.counted.words(bucket)
    return f" in {words}" if words else f" this {facts.period_word}"


def card(facts: Facts, step: Step) -> Card:
    """An action as a card."""
    worth = f"{report_text.money(step.saving, facts.currency)} a month"
    cost = (
        f" · {report_text.money(step.cost, facts.currency)} this {facts.period_word}" if step.cost else " · a proposal"
    )
    if not step.saving:
        worth, cost = f"{report_text.money(step.cost, facts.currency)}{_when(facts, _bucket(step))}", ""
    if step.lost:
        worth, cost = f"{report_text.money(step.lost, facts.currency)} of lost work", ""
    if step.bucket is not None:
        title = BUCKET_WORDS[step.bucket]
        about = f"Owner: {_split(facts, step.bucket)}{cost}{_most_in(facts, step.bucket)}"
        meaning = MEANINGS[step.bucket]
        what = f"{meaning[0].upper()}{meaning[1:]}."
        severity = severity_of(step.cost, facts.counted.us(step.bucket))
        if (cause := step.cause) is not None:
            return Card(
                severity,
                cause.title,
                f"{certainty.UP_TO}{worth}" if step.saving else worth,
                cause.summary,
                about,
                cause.remedy,
            )
        return Card(
            severity, title, f"{certainty.UP_TO}{worth}" if step.saving else worth, what, about, REMEDIES[step.bucket]
        )
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
    names = [who for who, _ in _held(facts, bucket) if who != UNKNOWN_USER][:NAMES_SHOWN]
    return ", ".join(names) or ("unknown" if facts.team is None else YOU)


def _split(facts: Facts, bucket: str) -> str:
    """`vision (27 %), nlp (21 %), recsys (12 %) and 7 more (40 %)`: the shares of the cost of a bucket."""
    held = _held(facts, bucket)
    if bucket == STRANDED or len(held) < 2:
        return _holders(facts, bucket)
    whole = sum((cost for _, cost in held), Fraction(0))
    shown = [f"{who} ({report_text.percent(cost / whole)})" for who, cost in held[:NAMES_SHOWN]]
    rest = held[NAMES_SHOWN:]
    part = sum((cost for _, cost in rest), Fraction(0))
    return ", ".join(shown) + (f" and {len(rest)} more ({report_text.percent(part / whole)})" if rest else "")


def _held(facts: Facts, bucket: str) -> list[tuple[str, Fraction]]:
    """The teams of the fleet, or the users of a team, with what they paid for a bucket; the largest first."""
    held = [
        (Fraction(payer.of(bucket).cost_in(facts.currency) or 0), payer)
        for payer in facts.payers
        if payer.kind == "allocated"
    ]
    held.sort(key=lambda one: (-one[0], str(one[1].name)))
    return [
        (owner_name(payer.name) if facts.team is None else name(payer.name, UNKNOWN_USER), cost)
        for cost, payer in held
        if cost
    ]


def _most_in(facts: Facts, bucket: str) -> str:
    """The team's jobs with the most cost in a bucket, or time without prices, of those that the report lists."""
    held = sorted(
        (job for job in facts.jobs if job.of(bucket).gpu_seconds),
        key=lambda job: (-(job.of(bucket).cost_in(facts.currency) or 0), -job.of(bucket).gpu_seconds),
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
