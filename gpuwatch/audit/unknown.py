"""What the scorecard could not grade, with the fix for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuwatch.audit.decision import PART, UNKNOWN, Decision, named
from gpuwatch.audit.evidence import lacking, too_few
from gpuwatch.audit.figures import hours_phrase

Row = Mapping[str, Any]

_PLACES = (("links", "placement", "the links between their GPUs"), ("network", "fabric", "their place in the network"))
"""What nodes may lack: its name in topology.gaps.missing, the layer whose decision has the fix, and a phrase."""


def unknown(facts: Row, decided: Mapping[str, Sequence[Decision]]) -> list[dict[str, str]]:
    """What could not be graded: layer (empty: none), what, and fix."""
    ungraded = [
        (layer, f"{one.title}: {one.sentence}", one.fix)
        for layer, many in decided.items()
        for one in many
        if one.state == UNKNOWN
    ]
    found = [
        *_no_grades(facts, decided),
        *ungraded,
        *_unmeasured_hours(facts),
        *_unplaced_nodes(facts, decided),
        *_unclear_gangs(facts),
    ]
    return [{"layer": layer, "what": what, "fix": fix} for layer, what, fix in found]


def _no_grades(facts: Row, decided: Mapping[str, Sequence[Decision]]) -> Iterator[tuple[str, str, str]]:
    """Layers without a grade; the decisions that each lacks follow on their own."""
    for layer, many in decided.items():
        if (lack := lacking(facts, layer, many)) is not None and not too_few(many):
            what, fix = lack
            yield layer, f"Not graded: {what}", fix


def _unmeasured_hours(facts: Row) -> Iterator[tuple[str, str, str]]:
    """GPU-hours without a rate, and held ones without measurements."""
    if facts["unpriced_gpu_hours"]:
        hours = hours_phrase(facts["unpriced_gpu_hours"])
        fix = "Add their models to rates.csv (gpuwatch doctor prints the lines)."
        yield "", f"{hours} GPU-hours have no rate, so their cost is unknown.", fix
    if blind := facts["buckets"].get("unobserved", {}).get("gpu_hours"):
        what = f"{hours_phrase(blind)} held GPU-hours were not measured: they count neither as work nor as waste."
        yield "", what, "Run dcgm-exporter on these nodes (gpuwatch doctor names them)."


def _unplaced_nodes(facts: Row, decided: Mapping[str, Sequence[Decision]]) -> Iterator[tuple[str, str, str]]:
    """Nodes without known links, or without a known place in the network."""
    for kind, layer, what in _PLACES:
        nodes = [str(row["node"]) for row in facts["missing"] if row["what"] == kind]
        own = next(one for one in decided[layer] if one.id == f"{kind}-told")
        if nodes and own.state == PART:
            lack = "node lacks" if len(nodes) == 1 else "nodes lack"
            yield layer, f"{len(nodes)} {lack} {what}: {named(nodes)}.", own.fix


def _unclear_gangs(facts: Row) -> Iterator[tuple[str, str, str]]:
    """Jobs that may or may not have been gangs."""
    if jobs := sum(row["runs"] for row in facts["gang"] if not row["known"]):
        noun = "job" if jobs == 1 else "jobs"
        what = f"{jobs} {noun} held GPUs in several pods or nodes, and no record shows whether that was one gang."
        yield "scheduling", what, "Label them (training.kubeflow.org/job-name), or give them a PodGroup."
