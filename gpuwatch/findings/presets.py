"""Presets: thresholds of detectors that others published, by name, each number with its source."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwatch.core.clock import MINUTE_US
from gpuwatch.rules.rule import Threshold, is_time

DEFAULT = "default"
RECLAIM = "reclaim"
"""The key of the reclaim steps, alongside the ids of detectors."""

LADDER = (
    Threshold("notice_us", 15 * MINUTE_US, "generic reclaim time: from here on a held GPU counts as hoarded"),
    Threshold("warn_us", 60 * MINUTE_US, "job_defense_shield, cancel_gpu_jobs: first warning 60 minutes"),
    Threshold("second_warning_us", 105 * MINUTE_US, "job_defense_shield, cancel_gpu_jobs: second warning 105 minutes"),
    Threshold("recommend_us", 120 * MINUTE_US, "job_defense_shield, cancel_gpu_jobs: cancels at 120 minutes"),
    Threshold("confidence_min", 0.5, "ours: below it a device sent neither profiling readings nor power"),
)
"""The steps of a reclaim: microseconds for which a job's devices have all been idle. What lies between notice and first
warning is grace."""


@dataclass(frozen=True)
class Value:
    """One threshold of a rule (or of RECLAIM) as a preset has it."""

    rule: str
    name: str
    value: float
    source: str


@dataclass(frozen=True)
class Preset:
    """A set of thresholds; the rule's own apply where it has none."""

    name: str
    title: str
    values: tuple[Value, ...] = ()


def _minutes(rule: str, name: str, minutes: float, source: str) -> Value:
    return Value(rule, name, minutes * MINUTE_US, source)


_HOARDING = "idle-hoarding"
_RSC = "Meta RSC, as others report it (no publication of theirs says so): idle GPUs are reclaimed after 10 minutes"
_PRUNER = "gpu-pruner: no activity for 30 minutes"
_PRUNER_CHECK = "gpu-pruner looks every 180 seconds: the step of one look later"
_JDS = "job_defense_shield, cancel_gpu_jobs"

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(DEFAULT, "The thresholds of each rule's page."),
        Preset(
            "meta-rsc",
            "Research clusters where idle GPUs are taken back after ten minutes.",
            (
                _minutes(_HOARDING, "idle_us_min", 10, _RSC),
                _minutes(_HOARDING, "warn_us", 15, "ours: five minutes after the published time"),
                _minutes(_HOARDING, "reclaim_us", 25, "ours: after two warnings, five minutes apart"),
                _minutes(RECLAIM, "notice_us", 10, _RSC),
                _minutes(RECLAIM, "warn_us", 15, "ours: nobody is asked to give up a job without two warnings"),
                _minutes(RECLAIM, "second_warning_us", 20, "ours: five minutes after the first warning"),
                _minutes(RECLAIM, "recommend_us", 25, "ours: five minutes after the second warning"),
            ),
        ),
        Preset(
            "princeton",
            "Princeton's job_defense_shield: two mails, then the job ends after two hours.",
            (
                _minutes(_HOARDING, "idle_us_min", 60, f"{_JDS}: silent until the first warning"),
                _minutes(_HOARDING, "warn_us", 60, f"{_JDS}: warns at 60 minutes"),
                _minutes(_HOARDING, "reclaim_us", 120, f"{_JDS}: cancels at 120 minutes"),
                _minutes(RECLAIM, "notice_us", 15, f"{_JDS}: looks every 15 minutes"),
                _minutes(RECLAIM, "warn_us", 60, f"{_JDS}: first warning 60 minutes"),
                _minutes(RECLAIM, "second_warning_us", 105, f"{_JDS}: second warning 105 minutes"),
                _minutes(RECLAIM, "recommend_us", 120, f"{_JDS}: cancels at 120 minutes"),
            ),
        ),
        Preset(
            "gpu-pruner",
            "gpu-pruner: idle pods are scaled to zero after half an hour and a grace of five minutes.",
            (
                _minutes(_HOARDING, "idle_us_min", 30, _PRUNER),
                _minutes(_HOARDING, "warn_us", 35, "gpu-pruner: 30 minutes and a grace of 300 seconds"),
                _minutes(_HOARDING, "reclaim_us", 41, _PRUNER_CHECK),
                _minutes(RECLAIM, "notice_us", 30, _PRUNER),
                _minutes(RECLAIM, "warn_us", 35, "gpu-pruner: 30 minutes and a grace of 300 seconds"),
                _minutes(RECLAIM, "second_warning_us", 38, _PRUNER_CHECK),
                _minutes(RECLAIM, "recommend_us", 41, _PRUNER_CHECK),
            ),
        ),
    )
}
"""Presets by name. A preset of 10 minutes and a ledger that records idle time from 15 on (the setting idle_minutes) agree
on the subjects; the waste of the finding is always what the ledger recorded."""


def source_of(preset: str, rule: str, name: str) -> str | None:
    """The source of a preset's threshold; None if the preset does not set it."""
    return next((v.source for v in PRESETS[preset].values if (v.rule, v.name) == (rule, name)), None)


def values_of(preset: str, rule: str) -> dict[str, float]:
    """The thresholds of one rule that a preset sets."""
    return {v.name: int(v.value) if is_time(v.name) else v.value for v in PRESETS[preset].values if v.rule == rule}


def thresholds_in(version: str) -> dict[str, float]:
    """`a=1,b=0.5` of ParameterSet.version as numbers by name: the thresholds in force at the evaluation."""
    pairs = (part.partition("=") for part in version.split(",") if "=" in part)
    return {name: float(value) for name, _, value in pairs}


def preset_in(version: str) -> str:
    """`preset:princeton` of it: what those thresholds begin with."""
    return next((part.removeprefix("preset:") for part in version.split(",") if part.startswith("preset:")), DEFAULT)
