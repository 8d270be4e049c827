"""Models of the overview route."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.billing.ledger import Funnel, KnownAmount, LedgerRow, Measures
from gpuwatch.api.schema.common import Bucket, Money, Quantity, Ratio, Severity, Shape, Span, Time
from gpuwatch.api.schema.findings.findings import Subject
from gpuwatch.api.schema.findings.inbox import SoFar


class Side(Measures):
    """The ledger of one window by bucket. `covered_seconds`: how much of the window has data."""

    items: list[LedgerRow]
    capacity_gpu_seconds: Quantity
    window: Span
    funnel: Funnel
    currency: str | None
    cost: Money | None
    covered_seconds: int


class Step(LedgerRow):
    start: Time


class Steps(Shape):
    step: Literal["1h", "1d"]
    items: list[Step]


class TeamBucket(Shape):
    bucket: Bucket
    gpu_seconds: Quantity
    cost: Money | None


class TeamMeasures(Measures):
    """What a team held, or the platform had free."""

    team: str
    gpu_seconds: Quantity
    cost: Money | None
    buckets: list[TeamBucket]


class LossPart(KnownAmount):
    team: str
    kind: Literal["service", "session", "batch", "other"] | None = Field(
        description="Kind of work: servers, notebooks and sessions, training and batch jobs; null: not divided by it."
    )


class LargestLoss(KnownAmount):
    bucket: Bucket
    parts: list[LossPart] = Field(description="By team and kind of work, at most 10, the largest first.")
    parts_total: int


class Owner(Shape):
    team: str
    user: str | None
    cost_a_day: Money | None
    gpu_hours_a_day: Quantity


class Owners(Shape):
    items: list[Owner]
    total: int


class FirstAction(SoFar):
    """Open findings of one rule. `loss`: the largest loss of the window, with the findings of its bucket if they explain most of it."""

    rank: int
    id: str = Field(examples=["idle-hoarding", "loss:stranded"])
    title: str
    summary: str | None
    remedy: str
    severity: Severity
    certainty: Ratio
    cost_a_day: Money | None
    gpu_hours_a_day: Quantity
    at_risk_gpu_hours_a_day: Quantity
    currency: str | None
    saves: bool = Field(json_schema_extra={"description": "The cost a day could be saved; it is not waste."})
    loss: LargestLoss | None
    lost_work: KnownAmount | None = Field(
        description="Work lost with failed runs, since each finding began. Waste may have the same time."
    )
    findings: int
    keys: list[str]
    detectors: list[str]
    subject: Subject | None
    gpu_index: int | None = Field(description="Of the one GPU that a single finding is about.")
    nodes: list[str] = Field(description="Where the findings are, at most 5; those of the most urgent first.")
    nodes_total: int
    since: Time | None
    owners: Owners


class Overview(Shape):
    now: Side
    before: Side | None
    steps: Steps
    steps_before: Steps | None
    shift_seconds: int = Field(
        json_schema_extra={"description": "From the start of the period before to the start of the window."}
    )
    teams: list[TeamMeasures]
    teams_total: int
    actions: list[FirstAction]
    currency: str | None
    window: Span
