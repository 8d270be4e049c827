"""The least that must be known of a layer before it gets a grade. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from gpuwatch.audit.decision import NONE, UNKNOWN, Decision, Row, percent
from gpuwatch.ledger.hours import HELD_BUCKETS

MEASURED_MIN = 0.5
"""Measured part of the held GPU time below which no layer has a grade: findings could not lower it."""
GRADED_MIN = 0.5
"""A layer has no grade when a smaller part of its decisions can be graded,"""
GRADED_COUNT_MIN = 2
"""or when only one of several can."""
REQUIRED = {"placement": "links-told", "fabric": "links-measured"}
"""The decision of a layer without which its grade would say nothing: the links are known; their traffic is measured."""
MEASURE = "Run dcgm-exporter on every node with GPUs and scrape it (gpuwatch doctor names the nodes)."


def too_few(decided: Sequence[Decision]) -> bool:
    """Whether too few of the decisions that arise can be graded."""
    arise = [one for one in decided if one.state != NONE]
    graded = sum(one.ratio is not None for one in arise)
    return graded < len(arise) and (graded < GRADED_COUNT_MIN or graded < GRADED_MIN * len(arise))


def lacking(facts: Row, layer: str, decided: Sequence[Decision]) -> tuple[str, str] | None:
    """What a layer's grade lacks, and the fix; None if it has the least evidence, or nothing is to be decided."""
    arise = [one for one in decided if one.state != NONE]
    if not arise:
        return None
    measured = measured_ratio(facts)
    if measured is not None and measured < MEASURED_MIN:
        what = (
            f"{percent(float(measured))} of the held GPU time was measured, and a grade needs {percent(MEASURED_MIN)}."
        )
        return what, MEASURE
    for one in arise:
        if one.id == REQUIRED.get(layer) and one.state == UNKNOWN:
            return f"{one.title}: {one.sentence}", one.fix
    if too_few(decided):
        graded = [one for one in arise if one.ratio is not None]
        first = next(one for one in arise if one.ratio is None)
        return f"{len(graded)} of {len(arise)} decisions can be graded.", first.fix
    return None


def measured_ratio(facts: Row) -> Fraction | None:
    """The measured part of the held GPU time; None if nothing was held."""
    hours = {name: facts["buckets"].get(name, {}).get("gpu_hours", 0) for name in HELD_BUCKETS}
    held = Fraction(sum(hours.values()))
    return 1 - Fraction(hours["unobserved"]) / held if held else None
