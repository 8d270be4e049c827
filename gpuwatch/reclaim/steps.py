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
"""The state before the first step."""
SILENT_US = 30 * MINUTE_US
"""No step is taken for devices without recent measurements, which may be in use by now."""
THRESHOLDS = {
    NOTICE: "notice_us",
    WARNING: "warn_us",
    SECOND_WARNING: "second_warning_us",
    RECOMMENDATION: "recommend_us",
}
SEVERITY = {NOTICE: "info", WARNING: "low", SECOND_WARNING: "medium", RECOMMENDATION: "high"}
"""Severity of each step's message. It rises with each step, so that channels send every message."""
END, SHRINK = "end", "shrink"
"""Recommended action: end the job, or release the idle devices of a job that is partly in use."""

_SLURM_JOB = re.compile(r"\d{1,18}(_\d{1,9})?")
_DNS = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True)
class Standing:
    """The state of a reclaim: the last step with its time, and what the next one waits for. Microseconds."""

    step: str
    step_us: int | None = None
    next_step: str | None = None
    idle_us: int | None = None
    """When the devices will have been idle long enough for the next step, by measurement time."""
    wait_until_us: int | None = None
    """When enough time has passed since the previous message, by the clock; None without one."""
    untold: bool = False
    """Whether the last step's message is still undelivered; until then there is no next step."""

    @property
    def next_us(self) -> int | None:
        """The earliest time of the next step."""
        if self.untold:
            return None
        return (
            self.idle_us
            if self.idle_us is None or self.wait_until_us is None
            else max(self.idle_us, self.wait_until_us)
        )


def standing(idle_from_us: int, reached: Sequence[tuple[str, int]], thresholds: Mapping[str, Any]) -> Standing:
    """The state of a job with devices idle since `idle_from_us`, given the recorded (step, time) pairs.

    The next step comes when the devices have been idle for its time, and consecutive steps keep their configured
    distance, so that an owner who looks late does not miss a warning.
    """
    times = dict(reached)
    last = max((STEPS.index(step) for step in times if step in STEPS), default=-1)
    step, step_us = (IDLE, None) if last < 0 else (STEPS[last], times[STEPS[last]])
    if last + 1 == len(STEPS):
        return Standing(step, step_us)
    following = STEPS[last + 1]
    after_us = int(thresholds[THRESHOLDS[following]])
    if step_us is None:
        return Standing(step, None, following, idle_from_us + after_us)
    apart_us = max(after_us - int(thresholds[THRESHOLDS[step]]), 0)
    return Standing(step, step_us, following, idle_from_us + after_us, step_us + apart_us)


def delivered(at: Standing, sent_us: int | None) -> Standing:
    """The state, given when the last message was delivered; None: it waits in the outbox."""
    if at.step_us is None or at.wait_until_us is None:
        return at
    if sent_us is None:
        return replace(at, untold=True)
    return replace(at, wait_until_us=at.wait_until_us + max(sent_us - at.step_us, 0))


def due_step(at: Standing, known_us: int, now_us: int) -> str | None:
    """The step due now, or None. `known_us` is the time of the last measurement."""
    if at.untold or is_silent(known_us, now_us):
        return None
    if at.idle_us is None or at.idle_us > known_us or (at.wait_until_us is not None and at.wait_until_us > now_us):
        return None
    return at.next_step


def is_silent(known_us: int, now_us: int) -> bool:
    """Whether the last measurement is too old to conclude that devices are idle now."""
    return now_us - known_us > SILENT_US


def message_key(finding_key: str, idle_from_us: int) -> str:
    """The key of the messages about one idle period of a finding."""
    return f"{RECLAIM}-{finding_key}-{idle_from_us // SECOND_US}"


def command(
    scheduler: str | None, job_id: str, labels: Mapping[str, Any], pods: Sequence[str], action: str
) -> str | None:
    """A command that releases the devices; None if there is no safe one.

    Names are quoted, and used only if a scheduler could have assigned them. A job that is partly in use gets no
    command, because ending it would stop work.
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
