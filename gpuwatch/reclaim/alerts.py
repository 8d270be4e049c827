"""Messages to owners at each step of a reclaim."""

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
"""How long the end of a reclaim is reported."""
_WORDS = {
    NOTICE: "Notice",
    WARNING: "First warning",
    SECOND_WARNING: "Second and last warning",
    RECOMMENDATION: "Recommended: release the devices",
}


def alerts(store: Store, state: State, now_us: int) -> list[Finding]:
    """Records the steps that are due, and returns a message for every reclaim at a step that is not on hold.

    Reclaims that ended, because the devices are in use or released, are reported as resolved for LATELY_US.
    """
    advance(store, state, now_us)
    found = proposals(store, state, now_us)
    lasting = {(one.finding.key, one.idle_from_us) for one in found}
    over = {at: last for at, last in Reclaims(state).since(now_us - LATELY_US).items() if at not in lasting}
    known = (
        {one.key: one for one in findings_read.page(store, keys=sorted({key for key, _ in over})).items} if over else {}
    )
    ended = [_over(known[key], last, now_us) for (key, _), last in over.items() if key in known]
    return [_step_message(one, now_us) for one in found if one.at.step in STEPS and one.held is None] + ended


def _step_message(one: Proposal, now_us: int) -> Finding:
    finding, item = one.finding, as_dict(one)
    every = one.action == END
    which = "all" if every else f"{one.idle_devices} of"
    summary = f"{which} {one.devices} devices of {finding.subject['name'] or one.job_id} idle for {item['idle_minutes']:g} minutes"
    if one.contention is not None:
        waiting = one.contention.requests
        summary += f" while {waiting} request{'' if waiting == 1 else 's'} from others waited"
    following = "" if item["next_step"] is None else f" Next: {item['next_step'].replace('_', ' ')}, {item['next_at']}."
    if one.at.step == RECOMMENDATION:
        do = (
            "End the job or scale it to zero; this is never done automatically."
            if every
            else "Release the idle devices."
        )
    else:
        do = "Use the devices or release them; snooze this if they are about to be used."
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
        finding,
        one.idle_from_us,
        one.at.step,
        summary=f"{summary[0].upper()}{summary[1:]}.{following}",
        remedy=do,
        evidence=evidence,
        state="open",
        ended_at=None,
        last_seen_at=rfc3339(min(one.known_us, now_us)),
        resolved_reason=None,
    )


def _over(finding: Finding, last: Reached, now_us: int) -> Finding:
    minutes = (now_us - last.idle_from_us) // MINUTE_US
    return _message(
        finding,
        last.idle_from_us,
        last.step,
        summary=f"{finding.subject['name'] or finding.subject['id']} no longer holds devices that were idle for {minutes} minutes.",
        remedy="Nothing to do.",
        evidence={"step": last.step, "step_at": rfc3339(last.at_us)},
        state="resolved",
        ended_at=finding.ended_at or finding.last_seen_at,
        last_seen_at=finding.last_seen_at,
        resolved_reason="condition ended",
    )


def _message(finding: Finding, idle_from_us: int, step: str, **words: Any) -> Finding:
    own = {
        "key": message_key(finding.key, idle_from_us),
        "detector": RECLAIM,
        "title": f"{_WORDS[step]}: idle GPUs",
        "severity": SEVERITY[step],
        "started_at": rfc3339(idle_from_us),
    }
    return Finding(**{**finding.__dict__, **own, **words})
