"""Models of the scorecard routes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpuwatch.api.schema.common import Money, Quantity, Ratio, Severity, Shape, Span, Time


class AuditBucket(Shape):
    bucket: str
    waste: bool
    gpu_hours: Quantity
    cost: Money | None
    avoidable_gpu_hours: Quantity
    avoidable_cost: Money | None


class AuditWaste(Shape):
    gpu_hours: Quantity | None
    cost: Money | None
    cost_a_month: Money | None
    basis: str = Field(description="What it was counted in where that is short: `the 6 measured hours`; else empty.")
    ratio: Ratio | None
    measured_ratio: Ratio | None
    roofline_efficiency: Ratio | None
    explained_gpu_hours: Quantity | None = Field(description="The part of it that findings explain.")
    buckets: list[AuditBucket]


class AuditDecision(Shape):
    id: str
    title: str
    state: Literal["explicit", "in part", "default", "not known", "does not arise"]
    ratio: Ratio | None
    said: str
    fix: str
    effort: str


class AuditFinding(Shape):
    key: str
    detector: str
    title: str
    severity: Severity
    state: str
    cluster: str
    subject: dict[str, str | None]
    team: str
    summary: str
    remedy: str
    gpu_hours: Quantity
    cost: Money | None
    currency: str | None


class AuditClaimed(Shape):
    findings_count: int
    open_count: int
    worst: Severity | None = Field(description="Among findings that are neither resolved nor exempt.")
    gpu_hours: Quantity | None
    unpriced_gpu_hours: Quantity | None
    cost: Money | None
    cost_a_month: Money | None
    findings: list[AuditFinding] = Field(description="The ten most expensive.")


class AuditLayer(AuditClaimed):
    id: str
    name: str
    decides: str
    grade: Literal["A", "B", "C", "D", "F"] | None
    grade_words: str = Field(description="The grade, `not graded`, or `nothing to decide`.")
    not_graded: str | None = Field(description="What the grade lacks; null with a grade.")
    points: Ratio | None
    letters_lost: int
    decisions_judged: int
    decisions: list[AuditDecision]
    defaults: list[str]


class AuditPlace(Shape):
    """A pool and model with stranded time."""

    name: str
    cost: Money | None
    gpu_hours: Quantity


class AuditAction(Shape):
    rank: int
    kind: Literal["finding", "saving", "lost", "loss", "decision"]
    layer: str
    id: str = Field(description="A detector, a decision, or a cause of stranded time such as `stranded:model`.")
    title: str
    remedy: str
    effort: str
    team: str | None = Field(description="The team of all its findings; null where several have some.")
    severity: Severity | None
    findings: int
    open: int
    ended_at: Time | None = Field(description="When its last finding ended; null while one is open, and for lost work.")
    gpu_hours: Quantity | None
    unpriced_gpu_hours: Quantity | None
    currency: str | None
    cost: Money | None
    cost_a_month: Money | None = Field(description="Null where none of its findings lasts, or too little was measured.")
    counted: str = Field(description="The time that cost was counted in where it is short: `the 6 measured hours`.")
    saves_a_month: Money | None
    lost_cost: Money | None = Field(description="The cost of work lost with failed runs. Waste may have the same time.")
    lost_gpu_hours: Quantity | None
    keys: list[str]
    ratio: Ratio | None
    said: str | None
    summary: str = Field(description="What is stranded where, and what was requested; empty for other actions.")
    places: list[AuditPlace] = Field(description="The pools of stranded time, those with most of it first.")


class AuditUnknown(Shape):
    layer: str
    what: str
    fix: str


class AuditBasis(Shape):
    """What amounts a month are counted from: the cost a day of these hours, times 30.4375."""

    recorded_hours: Quantity
    measured_hours: Quantity


class AuditCard(Shape):
    window: Span | None
    known: Span | None
    currency: str | None
    gpu_hours: Quantity | None
    cost: Money | None
    unpriced_gpu_hours: Quantity | None
    waste: AuditWaste
    basis: AuditBasis | None
    layers: list[AuditLayer]
    other: AuditClaimed = Field(description="Findings of site rules: they have no layer and no grade.")
    costliest: str | None
    writers: list[dict[str, Any]]
    gangs: list[dict[str, Any]]
    topology: list[dict[str, Any]]
    mig: list[dict[str, Any]]
    actions: list[AuditAction]
    left_out: int = Field(description="Findings without an action: exempt, or marked as a false positive.")
    unknown: list[AuditUnknown]
    rule: list[str]
