"""Models of the backtest routes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.common import Money, Quantity, Ratio, Span, Strict, Time
from gpuwatch.api.schema.findings.detectors import Feedback, Verdict


class BacktestBody(Strict):
    window: str = Field("7d", max_length=100, examples=["7d"])
    preset: str | None = Field(None, max_length=60, examples=["princeton"])
    thresholds: dict[str, float | str] | None = Field(None, examples=[{"idle_us_min": "30m"}])
    cluster: str | None = Field(None, min_length=1, max_length=256)


class Price(Strict):
    amount: Money
    currency: str


class BacktestSums(Strict):
    findings: int
    gpu_hours: Quantity
    cost: list[Price]
    unpriced: int


class TeamSums(BacktestSums):
    team: str
    gone: int


class TriedFinding(Strict):
    key: str
    change: Literal["new", "same", "gone"]
    cluster: str
    subject: dict[str, str | None]
    team: str
    started_at: Time
    ended_at: Time | None
    confidence: Ratio
    gpu_hours: Quantity
    cost: Money | None
    currency: str | None
    summary: str
    verdict: Verdict | None


class BacktestFeedback(Feedback):
    unsaid: int


class Backtest(Strict):
    detector: str
    window: Span
    preset: str
    thresholds: dict[str, float] | None = Field(description="null: switched off.")
    today_thresholds: dict[str, float] | None
    items: list[TriedFinding]
    left_out: int
    teams: list[TeamSums]
    changes: dict[str, int]
    total: BacktestSums
    today: BacktestSums
    feedback: BacktestFeedback
    today_feedback: BacktestFeedback
