"""The steps of a reclaim: notice, grace, two warnings, recommendation. Pure; nothing here ends a job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuwatch.core.clock import MINUTE_US, SECOND_US
from gpuwatch.findings.presets import RECLAIM

NOTICE, WARNING, SECOND_WARNING, RECOMMENDATION = "notice", "warning", "second_warning", "recommendation"
STEPS = (NOTICE, WARNING, SECOND_WARNING, RECOMMENDATION)
IDLE = "idle"
"""Before the first step."""
SILENT_US = 30 * MINUTE_US
"""Of devices that nobody measured for longer nothing is said: they may work by now."""
THRESHOLDS = {
    NOTICE: "notice_us",
    WARNING: "warn_us",
    SECOND_WARNING: "second_warning_us",
    RECOMMENDATION: "recommend_us",
}
SEVERITY = {NOTICE: "info", WARNING: "low", SECOND_WARNING: "medium", RECOMMENDATION: "high"}
"""Of the message of each step: each is graver than the one before, so that channels that hear of it are told of each."""
END, SHRINK = "end", "shrink"
"""What is recommended: to end the job, or to give back the idle devices of one that works."""

_SLURM_JOB = re.compile(r"\d{1,18}(_\d{1,9})?")
_DNS = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True)
class Standing:
    """Where a reclaim stands: the last step reached and when, and what the next one waits for. Microseconds."""

    step: str
    step_us: int | None = None
    next_step: str | None = None
    idle_us: int | None = None
    """When the devices will have been idle for the time of the next step, by what is measured."""
    told_us: int | None = None
    """When the step before it will have been told long enough ago, by the clock; None where there is none."""
    untold: bool = False
    """Whether the message of the last step still waits to be delivered: until it is, there is no next step."""

    @property
    def next_us(self) -> int | None:
        """The earliest time of the next step."""
        if self.untold:
            return None
        return self.idle_us if self.idle_us is None or self.told_us is None else max(self.idle_us, self.told_us)


def standing(idle_from_us: int, reached: Sequence[tuple[str, int]], thresholds: Mapping[str, Any]) -> Standing:
    """Where a job stands whose devices have been idle since `idle_from_us`, of what was reached before: (step, when).

    The next step comes when the devices were idle for its time, and not earlier behind the step before it than their
    times lie apart: whoever looks late does not skip a warning.
    """
    told = dict(reached)
    last = max((STEPS.index(step) for step in told if step in STEPS), default=-1)
    step, step_us = (IDLE, None) if last < 0 else (STEPS[last], told[STEPS[last]])
    if last + 1 == len(STEPS):
        return Standing(step, step_us)
    following = STEPS[last + 1]
    after_us = int(thresholds[THRESHOLDS[following]])
    if step_us is None:
        return Standing(step, None, following, idle_from_us + after_us)
    apart_us = max(after_us - int(thresholds[THRESHOLDS[step]]), 0)
    return Standing(step, step_us, following, idle_from_us + after_us, step_us + apart_us)


def delivered(at: Standing, sent_us: int | None) -> Standing:
    """The same where the message of its last step was delivered at some time; None: it waits in the outbox."""
    if at.step_us is None or at.told_us is None:
        return at
    if sent_us is None:
        return replace(at, untold=True)
    return replace(at, told_us=at.told_us + max(sent_us - at.step_us, 0))


def due_step(at: Standing, known_us: int, now_us: int) -> str | None:
    """The step that is reached by now, None where none is. `known_us` is the end of what is measured."""
    if at.untold or is_silent(known_us, now_us):
        return None
    if at.idle_us is None or at.idle_us > known_us or (at.told_us is not None and at.told_us > now_us):
        return None
    return at.next_step


def is_silent(known_us: int, now_us: int) -> bool:
    """Whether the last measurement is too old to say that devices are idle now."""
    return now_us - known_us > SILENT_US


def message_key(finding_key: str, idle_from_us: int) -> str:
    """The key of the messages about one idle time of a finding."""
    return f"{RECLAIM}-{finding_key}-{idle_from_us // SECOND_US}"


def command(
    scheduler: str | None, job_id: str, labels: Mapping[str, Any], pods: Sequence[str], action: str
) -> str | None:
    """A line that whoever decides may paste to give the devices back; None where no such line is certain.

    Names are quoted, and only those that a scheduler can have given are repeated. A job of which some devices work gets
    none: ending it would end work.
    """
    if action != END:
        return None
    if scheduler == "slurm":
        return f"scancel {shlex.quote(job_id)}" if _SLURM_JOB.fullmatch(job_id) else None
    namespace, _, name = job_id.partition("/")
    if scheduler not in ("kubernetes", "kueue", "volcano") or not _DNS.fullmatch(namespace) or not _DNS.fullmatch(name):
        return None
    place = f"--namespace={shlex.quote(namespace)}"
    if "pod-template-hash" in labels:
        return f"kubectl {place} scale deployment {shlex.quote(name)} --replicas=0"
    if "statefulset.kubernetes.io/pod-name" in labels:
        return f"kubectl {place} scale statefulset {shlex.quote(name)} --replicas=0"
    if "batch.kubernetes.io/job-name" in labels or "job-name" in labels:
        return f"kubectl {place} delete job {shlex.quote(name)}"
    if name in pods:
        return f"kubectl {place} delete pod {shlex.quote(name)}"
    return None
