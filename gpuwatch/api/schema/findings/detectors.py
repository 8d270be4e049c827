"""Models of the detectors routes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.common import Bucket, Ratio, Strict, Time

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


class RefusedRule(Strict):
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
    refused: list[RefusedRule] = Field(description="Files of the site that are no rules. Not told to tokens of a team.")
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
