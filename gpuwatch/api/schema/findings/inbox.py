"""Models of the inbox routes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.common import Money, Quantity, Ratio, Severity, Shape, Strict, Time
from gpuwatch.api.schema.findings.findings import ActionBody, ActionRow


class StateCounts(Strict):
    open: int
    resolved: int
    acked: int
    snoozed: int
    exempt: int


class SoFar(Shape):
    day_rate: bool = Field(
        description="Whether each of the findings that cost something has lasted a day. If not, the amounts a day are no rates."
    )
    cost_so_far: Money | None
    gpu_hours_so_far: Quantity


class DailyAmount(SoFar):
    cost_a_day: Money | None
    gpu_hours_a_day: Quantity
    currency: str | None


class FindingCause(SoFar):
    """Findings of one rule, cluster and team."""

    detector: str
    title: str
    cluster: str
    team: str
    severity: Severity
    findings: int
    keys: list[str] = Field(description="At most 500, the most urgent first.")
    cost_a_day: Money | None
    gpu_hours_a_day: Quantity
    currency: str | None
    saves: bool = Field(description="The money could be saved; it is not waste.")
    at_risk_gpu_hours_a_day: Quantity
    certainty: Ratio
    since: Time


class Inbox(Shape):
    states: StateCounts
    total: DailyAmount = Field(description="Waste of the findings in `state`; savings are not part of it.")
    causes: list[FindingCause]
    causes_total: int


class BulkBody(ActionBody):
    keys: list[str] = Field(min_length=1, max_length=500, examples=[["idle-hoarding-0123456789abcdef"]])
    action: Literal["ack", "snooze", "exempt", "reopen", "assign", "judge"]


class BulkRow(ActionRow):
    key: str


class BulkActions(Strict):
    items: list[BulkRow]
