"""What a team changes about its jobs: one line for each job with the most avoidable cost. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from gpuwatch.ledger.hours import HELD_BUCKETS
from gpuwatch.ledger.measures import AVOIDABLE
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.document import Block, Column, Section, Table, Text, row
from gpuwatch.report.facts import Facts, Payer
from gpuwatch.report.html.markup import name

SHOWN = 5
WORTH = Fraction(1, 20)
"""A job is listed if at least this part of its time was avoidable."""
CHANGES = {
    "hoarded": "end it when its work is done, or release GPUs that it does not use.",
    "gap": "load data ahead of the GPU, and save checkpoints in the background.",
    "communication": "overlap communication with computing; if it ran on several nodes, use fewer.",
    "stalled": "use larger batches or fused kernels, or a MIG slice of the right size.",
}
"""What to change about a job, by its largest avoidable bucket."""


@dataclass(frozen=True)
class _Step:
    job: Payer
    cost: Decimal
    """The avoidable part of the job's time, at the mean price of the job."""
    bucket: str


def job_steps(facts: Facts) -> Section | None:
    """The jobs of a team with the most avoidable cost; None for the fleet, without prices, and where no job is worth it."""
    if facts.team is None:
        return None
    every = [step for job in facts.jobs if (step := _step(facts, job)) is not None]
    found = sorted(every, key=lambda one: (-one.cost, str(one.job.name)))[:SHOWN]
    if not found:
        return None
    columns = (
        Column("Job", part=2.4),
        Column("User", wide=True),
        Column("Avoidable", number=True, part=0.9),
        Column("Most of it, and what to change", part=4),
    )
    places = report_text.places_of([step.cost for step in found])
    rows = tuple(
        row(
            [
                _named(facts, step.job),
                name(step.job.user),
                report_text.figure(step.cost, places, facts.currency),
                f"{BUCKET_WORDS[step.bucket]}: {CHANGES[step.bucket]}",
            ]
        )
        for step in found
    )
    blocks: list[Block] = [Table(columns, rows, "jobs"), Text(_note(found), "soft")]
    return Section(f"Which jobs to change: {_named(facts, found[0].job)} first", tuple(blocks))


def _note(found: Sequence[_Step]) -> str:
    jobs = "job" if len(found) == 1 else f"{len(found)} jobs"
    return f"The {jobs} with the most avoidable cost of the jobs that this report lists, at the mean price of each job. It is part of the avoidable cost above."


def _step(facts: Facts, job: Payer) -> _Step | None:
    shares, cost = job.shares(), job.amount.cost_in(facts.currency)
    lost = {bucket: job.of(bucket).gpu_seconds for bucket in CHANGES if bucket in AVOIDABLE and bucket in HELD_BUCKETS}
    if job.kind != "allocated" or not job.name or shares is None or not cost or not any(lost.values()):
        return None
    if Fraction(shares[1]) < WORTH:
        return None
    return _Step(job, cost * shares[1], max(lost, key=lambda bucket: (lost[bucket], bucket)))


def _named(facts: Facts, job: Payer) -> str:
    known = facts.job_names.get((job.cluster, job.name))
    return name(job.name) if known is None or known == job.name else f"{name(known)} ({name(job.name)})"
