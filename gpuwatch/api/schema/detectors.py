"""Shapes of rules, of the card that sets them, of back-tests and of reclaims."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.answers import Bucket, Money, Quantity, Ratio, Span, Strict, Time

Verdict = Literal["true_positive", "false_positive"]


class Feedback(Strict):
    true_positives: int
    false_positives: int
    precision: Ratio | None = Field(description="The share that owners called true; null where nobody said.")
    precision_low: Ratio | None = Field(description="With precision_high: where the share lies by 95 % (Wilson).")
    precision_high: Ratio | None


class Detector(Strict):
    id: str
    title: str
    why: str
    remedy: str | None
    bucket: Bucket | None
    mode: str
    severities: list[Literal["info", "low", "medium", "high", "critical"]] = Field(
        description="Those that its findings can have, the least first; each finding has its own."
    )
    origin: Literal["gpuwatch", "site"]
    file: str | None = Field(description="Of a rule of the site.")
    preset: str = Field(description="The preset that holds where the card names no pool and no team.")
    off: bool = Field(description="Switched off there.")
    thresholds: dict[str, float]
    sources: dict[str, str] = Field(description="Where each of these numbers comes from.")
    feedback: Feedback | None = Field(description="Not told to tokens of a team.")
    doc: str


class Refused(Strict):
    file: str
    line: int
    reason: str
    fix: str


class PresetValue(Strict):
    rule: str = Field(description="Of a rule, or reclaim.")
    name: str
    value: float = Field(description="Microseconds where the name has _us.")
    source: str


class Preset(Strict):
    name: str
    title: str
    values: list[PresetValue] = Field(description="All else is as the rule has it.")


class Detectors(Strict):
    items: list[Detector]
    presets: list[Preset]
    refused: list[Refused] = Field(description="Files of the site that are no rules. Not told to tokens of a team.")
    next: str | None


class Layer(Strict):
    preset: str | None = Field(None, examples=["princeton"])
    off: list[str] = Field(default_factory=list, description="Ids of rules that are switched off.")
    thresholds: dict[str, dict[str, float | str]] = Field(
        default_factory=dict,
        description="By rule (or reclaim): a number, or a time such as 20m.",
        examples=[{"idle-hoarding": {"idle_us_min": "20m"}}],
    )


class PoolLayer(Layer):
    pool: str = Field(min_length=1, max_length=200)
    cluster: str | None = Field(None, max_length=200)


class TeamLayer(Layer):
    team: str = Field(min_length=1, max_length=200)


class DetectorsBody(Layer):
    pools: list[PoolLayer] = Field(default_factory=list, max_length=1000)
    teams: list[TeamLayer] = Field(default_factory=list, max_length=1000)


class CardVersion(Strict):
    version: int
    at: Time
    by: str
    source: str
    digest: str


class DetectorsCard(DetectorsBody):
    version: int
    history: list[CardVersion]


class BacktestBody(Strict):
    window: str = Field("7d", max_length=100, examples=["7d"])
    preset: str | None = Field(None, max_length=60, examples=["princeton"])
    thresholds: dict[str, float | str] | None = Field(None, examples=[{"idle_us_min": "30m"}])
    cluster: str | None = Field(None, min_length=1, max_length=256)


class Price(Strict):
    amount: Money
    currency: str


class Sums(Strict):
    findings: int
    gpu_hours: Quantity
    cost: list[Price]
    unpriced: int


class TeamSums(Sums):
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


class Said(Feedback):
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
    total: Sums
    today: Sums
    feedback: Said
    today_feedback: Said


class Contended(Strict):
    gpu_hours: Quantity = Field(
        description="Of the idle time: while requests waited that these devices would have taken."
    )
    cost: Money | None
    currency: str | None
    requests: int = Field(description="Requests that waited and would have fitted.")
    requested_devices_max: int


class Reclaim(Strict):
    key: str
    cluster: str
    job: str
    name: str | None
    scheduler: str | None
    team: str
    user: str | None
    nodes: list[str]
    devices: int
    idle_devices: int
    idle_since: Time
    idle_minutes: float
    step: str
    step_at: Time | None
    next_step: str | None
    next_at: Time | None
    held_by: str | None = Field(description="snoozed, exempt or acked: nothing is proposed until it ends.")
    held_until: Time | None
    action: str = Field(description="end: all of its devices are idle; shrink: some work, and it must not be ended.")
    preset: str
    confidence: Ratio
    wasted_gpu_hours: Quantity
    wasted_cost: Money | None
    currency: str | None
    contention: Contended | None
    command: str | None = Field(description="For whoever decides to follow the recommendation; nothing runs it.")


class Reclaims(Strict):
    items: list[Reclaim]
    at: Time
    next: str | None
