"""Messages about reclaims: what an owner is told at each step."""

from __future__ import annotations

from typing import Any

from gpuwatch.core.clock import DAY_US, MINUTE_US, rfc3339
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.presets import RECLAIM
from gpuwatch.findings.read import Finding
from gpuwatch.reclaim.repository import Reached, Reclaims
from gpuwatch.reclaim.state import Proposal, advance, as_dict, proposals
from gpuwatch.reclaim.steps import END, NOTICE, RECOMMENDATION, SECOND_WARNING, SEVERITY, STEPS, WARNING, message_key
from gpuwatch.state import State
from gpuwatch.store.database import Store

LATELY_US = 7 * DAY_US
"""How long the end of a reclaim is told."""
_WORDS = {
    NOTICE: "Notice",
    WARNING: "First warning",
    SECOND_WARNING: "Second and last warning",
    RECOMMENDATION: "Recommended: give the devices back",
}


def alerts(store: Store, state: State, now_us: int) -> list[Finding]:
    """Takes the steps that are due, and returns a message for every reclaim that has reached one and that nobody holds.

    Those that are over, because the devices work or are given back, are told as resolved for LATELY_US.
    """
    advance(store, state, now_us)
    found = proposals(store, state, now_us)
    lasting = {(one.finding.key, one.idle_from_us) for one in found}
    over = {at: last for at, last in Reclaims(state).since(now_us - LATELY_US).items() if at not in lasting}
    known = (
        {one.key: one for one in findings_read.page(store, keys=sorted({key for key, _ in over})).items} if over else {}
    )
    ended = [_over(known[key], last, now_us) for (key, _), last in over.items() if key in known]
    return [_told(one, now_us) for one in found if one.at.step in STEPS and one.held is None] + ended


def _told(one: Proposal, now_us: int) -> Finding:
    told, item = one.finding, as_dict(one)
    every = one.action == END
    which = "all" if every else f"{one.idle_devices} of"
    said = f"{which} {one.devices} devices of {told.subject['name'] or one.job_id} idle for {item['idle_minutes']:g} minutes"
    if one.contention is not None:
        waiting = one.contention.requests
        said += f" while {waiting} request{'' if waiting == 1 else 's'} of others waited"
    following = "" if item["next_step"] is None else f" Next: {item['next_step'].replace('_', ' ')}, {item['next_at']}."
    if one.at.step == RECOMMENDATION:
        do = "End the job or scale it to zero; nothing does it for you." if every else "Give the idle devices back."
    else:
        do = "Use the devices or give them back; snooze this if they are about to work."
    evidence: dict[str, Any] = {
        name: item[name]
        for name in (
            "step",
            "step_at",
            "next_step",
            "next_at",
            "idle_since",
            "idle_minutes",
            "action",
            "preset",
            "command",
        )
    }
    if item["contention"] is not None:
        evidence["contention"] = item["contention"]
    return _message(
        told,
        one.idle_from_us,
        one.at.step,
        summary=f"{said[0].upper()}{said[1:]}.{following}",
        remedy=do,
        evidence=evidence,
        state="open",
        ended_at=None,
        last_seen_at=rfc3339(min(one.known_us, now_us)),
        resolved_reason=None,
    )


def _over(told: Finding, last: Reached, now_us: int) -> Finding:
    minutes = (now_us - last.idle_from_us) // MINUTE_US
    return _message(
        told,
        last.idle_from_us,
        last.step,
        summary=f"{told.subject['name'] or told.subject['id']} holds no device that was idle all of {minutes} minutes.",
        remedy="Nothing is left to do.",
        evidence={"step": last.step, "step_at": rfc3339(last.at_us)},
        state="resolved",
        ended_at=told.ended_at or told.last_seen_at,
        last_seen_at=told.last_seen_at,
        resolved_reason="condition ended",
    )


def _message(told: Finding, idle_from_us: int, step: str, **words: Any) -> Finding:
    own = {
        "key": message_key(told.key, idle_from_us),
        "detector": RECLAIM,
        "title": f"{_WORDS[step]}: idle GPUs",
        "severity": SEVERITY[step],
        "started_at": rfc3339(idle_from_us),
    }
    return Finding(**{**told.__dict__, **own, **words})
