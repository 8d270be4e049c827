"""Severity, summary and remedy of a finding, from its rule and evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.findings import custom_rules
from gpuwatch.findings.presets import thresholds_in
from gpuwatch.rules.rule import Rule, rules

SEVERITY_ORDER = ("info", "low", "medium", "high", "critical")
SEVERITIES = ((Fraction(10), "info"), (Fraction(100), "low"), (Fraction(1000), "medium"))
"""Upper limits of the cost per day for each severity; above the last it is high."""
UNPRICED_SEVERITY = "low"
ELAPSED_US_MIN = HOUR_US
"""A shorter waste counts as an hour's: a minute at $100 is not $144,000 a day."""
OLD_EVIDENCE = (KeyError, TypeError, ValueError)
"""Raised by a rule that reads evidence of its earlier versions; one old row must not hide the others."""
SUMMARIES_KEPT = 20_000
"""Summaries cached between searches."""


def is_waste(bucket: str | None) -> bool:
    """Whether a finding that claims this bucket reports waste or a saving; False for missing measurements."""
    return bucket != "unobserved"


@cache
def built_in() -> dict[str, Rule]:
    """The rules of this version. Cached, because discovering modules is slow."""
    return rules()


def rule_of(detector: str) -> Rule | None:
    """The rule of a finding; None if this version no longer has it."""
    return built_in().get(detector) or custom_rules.known().get(detector)


def severity_of(cost: Fraction | None, elapsed_us: int) -> str:
    """Severity by cost per day, over at least an hour; UNPRICED_SEVERITY without a price."""
    if cost is None:
        return UNPRICED_SEVERITY
    a_day = cost * DAY_US / max(elapsed_us, ELAPSED_US_MIN)
    return next((name for limit, name in SEVERITIES if a_day < limit), "high")


def severity(detector: str, evidence: str | None, elapsed_us: int, cost: Fraction | None = None) -> str:
    """The rule's own severity, or one by cost per day if the rule has none."""
    rule = rule_of(detector)
    if rule is not None and rule.severity is not None:
        try:
            return rule.severity(json.loads(evidence or "{}"), elapsed_us / HOUR_US)
        except OLD_EVIDENCE:
            pass
    return severity_of(cost, elapsed_us)


@lru_cache(maxsize=SUMMARIES_KEPT)
def summary(detector: str, evidence: str | None, version: str) -> str:
    """What was found, in one sentence; only the rule's title for evidence that it no longer understands."""
    rule = rule_of(detector)
    if rule is None:
        return ""
    try:
        return rule.summary({**json.loads(evidence or "{}"), "thresholds": thresholds_in(version)})
    except OLD_EVIDENCE:
        return f"{rule.title}."


def remedy(rule: Rule | None, evidence: Mapping[str, Any]) -> str:
    """How to end the waste; why it matters for evidence that the rule no longer understands.

    `evidence` may have `job_ended` and `is_serving`: what has ended cannot be released, and a service is never to be ended.
    """
    if rule is None:
        return ""
    try:
        return rule.remedy(evidence)
    except OLD_EVIDENCE:
        return rule.why
