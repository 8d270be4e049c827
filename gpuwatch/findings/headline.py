"""The first sentence about a finding: what happens to whom, and where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpuwatch.core.words import first_and_more
from gpuwatch.findings.texts import OLD_EVIDENCE
from gpuwatch.rules.rule import Rule

_TENSES = re.compile(r"\{([^|{}]*)\|([^|{}]*)\}")
_NO_TEAM = ("__platform__", "__unallocated__", "__shared__")


def headline(
    rule: Rule | None,
    evidence: Mapping[str, Any],
    row: Mapping[str, Any],
    met: tuple[str, str] | None = None,
) -> str:
    """`lattice-qcd (job 502002) of team physics on gpu-node-0080 holds 1 idle GPU`; in the past tense once it has ended.

    `row` is one of findings/finding.sql; `met` is the job, and its team, that a broken GPU met. Empty where the rule has no
    such sentence, or no longer understands its evidence.
    """
    if rule is None or rule.headline is None:
        return ""
    try:
        happens = rule.headline(evidence)
    except OLD_EVIDENCE:
        return ""
    over = row["ended_us"] is not None or row["state"] == "resolved"
    happens = _TENSES.sub(lambda found: found[2 if over else 1], happens)
    meeting = f" while {met[0]}{_of(met[1])} was running" if met else ""
    return f"{_subject(row)}{_where(row)} {happens}{meeting}"


def _subject(row: Mapping[str, Any]) -> str:
    kind, identity, name = row["subject_kind"], str(row["subject_id"]), row["name"]
    nodes = list(row["nodes"] or [])
    if kind == "job":
        # A Kubernetes id, namespace/name, has the name.
        known = name if name and name != identity and not identity.endswith(f"/{name}") else None
        return (f"{known} (job {identity})" if known else f"Job {identity}") + _of(row["team"])
    if kind == "gpu":
        index = row["gpu_index"]
        called = "A GPU" if index is None else f"GPU {index}"
        return called + (f" on {nodes[0]}" if nodes else "")
    if kind == "slice":
        return (name if name and not name.startswith("GPU-") else "A workload") + _of(row["team"])
    if kind == "team":
        return f"Team {identity}"
    if name and name != identity:
        return f"{name[:1].upper()}{name[1:]}"  # a leaf switch counts as a pool
    return f"{kind.capitalize()} {identity}"


def _where(row: Mapping[str, Any]) -> str:
    nodes = list(row["nodes"] or [])
    if row["subject_kind"] not in ("job", "slice") or not nodes:
        return ""
    return f" on {first_and_more(nodes, 'node')}"


def _of(team: str | None) -> str:
    return f" of team {team}" if team and team not in _NO_TEAM else ""
