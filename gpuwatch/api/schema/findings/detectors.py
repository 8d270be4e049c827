"""Models of the detectors routes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.common import Bucket, Ratio, Strict, Time

Verdict = Literal["true_positive", "false_positive"]


class Feedback(Strict):
    true_positives: int
    false_positives: int
    precision: Ratio | None = Field(description="The share that owners marked as true; null without feedback.")
    precision_low: Ratio | None = Field(description="With precision_high: its 95 % confidence interval (Wilson).")
    precision_high: Ratio | None


class Detector(Strict):
    id: str
    title: str
    why: str
    remedy: str | None
    bucket: Bucket | None
    mode: str
    severities: list[Literal["info", "low", "medium", "high", "critical"]] = Field(
        description="Severities that its findings can have, lowest first."
    )
    origin: Literal["gpuwatch", "site"]
    file: str | None = Field(description="For a site rule.")
    preset: str = Field(description="The preset for pools and teams without an override.")
    off: bool = Field(description="Switched off in that preset.")
    thresholds: dict[str, float]
    sources: dict[str, str] = Field(description="The source of each threshold.")
    feedback: Feedback | None = Field(description="Hidden from team-scoped tokens.")
    doc: str


class RefusedRule(Strict):
    file: str
    line: int
    reason: str
    fix: str


class PresetValue(Strict):
    rule: str = Field(description="Id of a rule, or reclaim.")
    name: str
    value: float = Field(description="Microseconds where the name has _us.")
    source: str


class Preset(Strict):
    name: str
    title: str
    values: list[PresetValue] = Field(description="Everything else follows the rule.")


class Detectors(Strict):
    items: list[Detector]
    presets: list[Preset]
    refused: list[RefusedRule] = Field(
        description="Site files that are not valid rules. Hidden from team-scoped tokens."
    )
    next: str | None


class Layer(Strict):
    preset: str | None = Field(None, examples=["princeton"])
    off: list[str] = Field(default_factory=list, description="Ids of rules that are switched off.")
    thresholds: dict[str, dict[str, float | str]] = Field(
        default_factory=dict,
        description="By rule (or reclaim): a number, or a duration such as 20m.",
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
