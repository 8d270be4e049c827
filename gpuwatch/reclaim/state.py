"""Reclaims: jobs that should release idle devices, the notices sent to their owners, and the cost."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import MINUTE_US, SECOND_US, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import format_quantity
from gpuwatch.findings import contention
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.contention import Contention
from gpuwatch.findings.effective_thresholds import steps
from gpuwatch.findings.read import Finding
from gpuwatch.findings.repository import Action, Actions
from gpuwatch.findings.selection import SHOWN_AS
from gpuwatch.findings.threshold_overrides import layers
from gpuwatch.reclaim.repository import Reached, Reclaims
from gpuwatch.reclaim.steps import (
    END,
    IDLE,
    SEVERITY,
    SHRINK,
    STEPS,
    Standing,
    command,
    delivered,
    due_step,
    is_silent,
    message_key,
    standing,
)
from gpuwatch.state import State
from gpuwatch.store.database import Store

OPEN_MAX = contention.KEYS_MAX
"""Limit of jobs to consider, more than any fleet runs at once."""
STILL_US = 5 * MINUTE_US
"""A device idle at most this long before the last measurement still counts as idle."""
LATENCY_CRITICAL = "latency-critical"
KEEPS_WAITING = {
    LATENCY_CRITICAL: "true",
    f"gpuwatch.io/{LATENCY_CRITICAL}": "true",
    "workload-class": LATENCY_CRITICAL,
    "gpuwatch.io/workload-class": LATENCY_CRITICAL,
}
"""Labels, with values, of servers that must stay ready for requests and are never proposed."""


@dataclass(frozen=True)
class Proposal:
    """A job with idle devices, and the current step of its reclaim."""

    finding: Finding
    cluster: str
    job_id: str
    scheduler: str | None
    nodes: list[str]
    devices: int
    idle_devices: int
    idle_from_us: int
    known_us: int
    at: Standing
    held: Action | None
    """The owner's action that puts the reclaim on hold until it ends."""
    preset: str
    contention: Contention | None = None
    command: str | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)

    @property
    def action(self) -> str:
        """END if all devices are idle, SHRINK if some are in use."""
        return END if self.idle_devices == self.devices else SHRINK


def proposals(
    store: Store,
    state: State,
    now_us: int,
    *,
    teams: Collection[str] | None = None,
    cluster: str | None = None,
    contended: bool = True,
) -> list[Proposal]:
    """Open reclaims: first those that others wait for, then the most expensive. Writes nothing, notifies nobody.

    Leaves out jobs whose finding is below the confidence of their preset, and servers labelled as latency-critical.
    `teams` limits the result to these teams. Without `contended`, requests of other teams are not read.
    """
    rows = _open_rows(store, teams, cluster)
    keys = [row["key"] for row in rows]
    actions = Actions(state).current(now_us)
    findings = {one.key: one for one in findings_read.page(store, keys=keys, actions=actions).items}
    rows = [row for row in rows if row["key"] in findings]
    reached, card = Reclaims(state).of(keys), layers(state)
    sent = Reclaims(state).messages(message_key(row["key"], row["idle_from_us"]) for row in rows)
    waited = contention.of(store, state, keys, now_us) if contended else {}
    found = []
    for row in rows:
        labels = _object(row["labels"])
        known = steps(card, row["cluster"], row["pool"], row["team"])
        limits = known.parameters or {}
        if row["confidence"] < limits["confidence_min"] or _serves(labels):
            continue
        one = Proposal(
            finding=findings[row["key"]],
            cluster=row["cluster"],
            job_id=row["job_id"],
            scheduler=row["scheduler"],
            nodes=row["nodes"] or [],
            devices=row["devices"],
            idle_devices=row["idle_devices"],
            idle_from_us=row["idle_from_us"],
            known_us=row["known_us"],
            at=_standing(row, reached.get((row["key"], row["idle_from_us"]), ()), sent, limits),
            held=_holds(actions.get(row["key"])),
            preset=known.preset,
            contention=waited.get(row["key"]),
            labels=labels,
        )
        if one.at.step == STEPS[-1] and not is_silent(one.known_us, now_us):
            one = replace(one, command=command(one.scheduler, one.job_id, labels, row["pods"] or (), one.action))
        found.append(one)
    return sorted(found, key=_rank)


def _open_rows(store: Store, teams: Collection[str] | None, cluster: str | None) -> list[dict[str, Any]]:
    rows = store.rows("reclaim/open", cluster=cluster, still_us=STILL_US, limit=OPEN_MAX)
    return [row for row in rows if teams is None or row["team"] in teams]


def _standing(
    row: Mapping[str, Any],
    reached: Iterable[Reached],
    sent: Mapping[tuple[str, str], int | None],
    limits: Mapping[str, Any],
) -> Standing:
    """The reached step and the next one, after the delivery of the step's message."""
    at = standing(row["idle_from_us"], [(one.step, one.at_us) for one in reached], limits)
    message = message_key(row["key"], row["idle_from_us"]), SEVERITY.get(at.step, "")
    return delivered(at, sent[message]) if message in sent else at


def advance(store: Store, state: State, now_us: int) -> list[Proposal]:
    """Records the steps reached by now, one per job and call, and returns these proposals with their new step.

    Findings that an owner snoozed, exempted or marked false do not advance. Running it again changes nothing.
    """
    fresh = []
    for one in proposals(store, state, now_us):
        step = due_step(one.at, one.known_us, now_us)
        if step is not None and one.held is None:
            fresh.append((one, Reached(one.finding.key, one.idle_from_us, step, now_us)))
    Reclaims(state).add([reached for _, reached in fresh], now_us)
    if not fresh:
        return []
    moved = {reached.key for _, reached in fresh}
    return [one for one in proposals(store, state, now_us) if one.finding.key in moved]


def as_dict(one: Proposal) -> dict[str, Any]:
    """A proposal as a JSON object."""
    finding = one.finding
    held = None if one.held is None else SHOWN_AS[one.held.action]
    until = None if one.held is None or one.held.until_us is None else rfc3339(one.held.until_us)
    return {
        "key": finding.key,
        "cluster": one.cluster,
        "job": one.job_id,
        "name": finding.subject["name"],
        "scheduler": one.scheduler,
        "team": finding.team,
        "user": finding.user,
        "nodes": one.nodes,
        "devices": one.devices,
        "idle_devices": one.idle_devices,
        "idle_since": rfc3339(one.idle_from_us),
        "idle_minutes": round((one.known_us - one.idle_from_us) / MINUTE_US, 1),
        "step": one.at.step,
        "step_at": None if one.at.step_us is None else rfc3339(one.at.step_us),
        "next_step": None if held else one.at.next_step,
        "next_at": None if held or one.at.next_us is None else rfc3339(one.at.next_us),
        "held_by": held,
        "held_until": until,
        "action": one.action,
        "preset": one.preset,
        "confidence": finding.confidence,
        "wasted_gpu_hours": format_quantity(Fraction(finding.wasted_gpu_seconds) / 3600),
        "wasted_cost": finding.wasted_cost,
        "currency": finding.currency,
        "contention": None if one.contention is None else one.contention.as_dict(),
        "command": one.command,
    }


def check_step(text: str | None) -> str | None:
    """Checks a step to filter by. Raises UsageError."""
    if text is not None and text not in (IDLE, *STEPS):
        raise UsageError(f"step {text}: unknown; known: {', '.join((IDLE, *STEPS))}")
    return text


def _rank(one: Proposal) -> tuple[Any, ...]:
    """Sort key: reclaims that others wait for first, by the cost of waiting; then by wasted cost."""
    waited = one.contention
    return (
        waited is None,
        0 if waited is None else -(waited.cost if waited.cost is not None else Fraction(-1)),
        0 if waited is None else -waited.gpu_hours,
        -Fraction(one.finding.wasted_cost or "-1"),
        -Fraction(one.finding.wasted_gpu_seconds) / SECOND_US,
        one.finding.key,
    )


def _holds(action: Action | None) -> Action | None:
    """A snooze or exemption in effect, or feedback that the finding is false."""
    if action is None or (action.action == "ack" and action.verdict != "false_positive"):
        return None
    return action


def _object(text: str | None) -> dict[str, Any]:
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def _serves(labels: Mapping[str, Any]) -> bool:
    return any(str(labels.get(name)).lower() == value for name, value in KEEPS_WAITING.items())
