"""The request of a back-test: a preset and thresholds, checked against the rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuwatch.core.errors import UsageError
from gpuwatch.findings.presets import PRESETS
from gpuwatch.findings.threshold_overrides import thresholds_of
from gpuwatch.rules.rule import Rule


def asked_thresholds(
    rule: Rule, preset: str | None, given: Mapping[str, Any]
) -> tuple[str | None, dict[str, float] | None]:
    """The preset and thresholds to test, None if neither was given. Raises UsageError naming what is wrong."""
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"preset {preset}: not known; known: {', '.join(PRESETS)}")
    return preset, thresholds_of(rule, given) or None


def pairs(words: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` words as a mapping; numbers where they are numbers. Raises UsageError for a word without `=`."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UsageError(f"--threshold {word}: write NAME=VALUE, such as idle_us_min=30m")
        text = value.strip()
        try:
            found[name.strip()] = float(text) if "." in text or "e" in text.lower() else int(text)
        except ValueError:
            found[name.strip()] = text
    return found
