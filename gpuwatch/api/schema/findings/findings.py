"""Models of the findings routes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpuwatch.api.schema.capacity.jobs import Series
from gpuwatch.api.schema.common import Bucket, FindingState, Money, Quantity, Ratio, Severity, Shape, Strict, Time


class Subject(Shape):
    kind: Literal["gpu", "slice", "job", "node", "pool", "cluster", "team", "queue"]
    id: str | None
    name: str | None


class Finding(Shape):
    key: str
    detector: str
    title: str
    severity: Severity
    state: FindingState
    confidence: Ratio
    cluster: str
    subject: Subject
    team: str
    user: str | None
    started_at: Time
    ended_at: Time | None
    last_seen_at: Time
    wasted_gpu_seconds: Quantity
    wasted_cost: Money | None
    currency: str | None
    bucket: Bucket | None
    """None: the finding is about savings or lost work, and claims no time."""
    summary: str
    remedy: str
    evidence: dict[str, Any]
    devices: list[str]
    nodes: list[str]
    suppressed_by: str | None
    resolved_reason: str | None
    """Why it is over; `records changed` and `rule_changed` take it back: it was no waste."""


class Findings(Shape):
    items: list[Finding]
    next: str | None


class ActionRow(Strict):
    action: Literal["ack", "snooze", "exempt", "reopen"]
    until: Time | None
    reason: str
    actor: str
    at: Time
    verdict: Literal["true_positive", "false_positive"] | None


class FindingDetail(Finding):
    series: Series | None
    actions: list[ActionRow]


class ActionBody(Strict):
    reason: str = Field(min_length=1, max_length=500, examples=["checkpoint migration until Friday"])
    until: Time | None = None
    verdict: Literal["true_positive", "false_positive"] | None = Field(
        None, description="With ack: whether the finding was true."
    )
