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
    inferred: bool = Field(description="Whether its account or namespace names the team, because no rule decides.")
    gpu_index: int | None = Field(description="The index on its node of the one GPU that it is about.")
    headline: str = Field(
        description="What happens to whom, and where, in one sentence; empty where its rule has none."
    )


class ListedFinding(Finding):
    assignee: str | None = Field(description="Who looks after it.")
    verdict: Literal["true_positive", "false_positive"] | None = Field(description="Whether owners called it true.")
    cost_a_day: Money | None = Field(description="In currency_a_day; null without a price.")
    currency_a_day: str | None
    gpu_hours_a_day: Quantity
    day_rate: bool = Field(
        description="Whether it has lasted a day. If not, its cost a day is its cost so far, and no rate."
    )
    saves: bool = Field(description="cost_a_day could be saved; it is not waste.")


class Findings(Shape):
    items: list[ListedFinding]
    next: str | None


class ActionRow(Strict):
    action: Literal["ack", "snooze", "exempt", "reopen", "assign", "judge"]
    until: Time | None
    reason: str
    actor: str
    at: Time
    verdict: Literal["true_positive", "false_positive"] | None
    assignee: str | None


class EarlierFinding(Shape):
    key: str
    started_at: Time
    ended_at: Time


class FindingDetail(ListedFinding):
    earlier: list[EarlierFinding] = Field(
        description="Those of the same rule about the same subject that began in the 30 days before, the latest first, at most 10."
    )
    series: Series | None
    actions: list[ActionRow]


class ActionBody(Strict):
    reason: str = Field("", max_length=500, examples=["checkpoint migration until Friday"])
    until: Time | None = None
    verdict: Literal["true_positive", "false_positive"] | None = Field(
        None, description="With ack or judge: whether the finding was true."
    )
    assignee: str | None = Field(None, max_length=200, description="With assign.", examples=["ada@example.org"])
