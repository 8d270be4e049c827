"""What rows keep of a pod: its labels with those that gpuwatch adds, and its end, also where no container reports it."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Container
from dataclasses import dataclass, field
from typing import TypeVar

from gpuwatch.collectors.shared.json_fields import (
    Malformed,
    Object,
    integer,
    labels_of,
    mapping,
    mappings,
    moment,
    string,
)
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.core.clock import SECOND_US, rfc3339
from gpuwatch.core.model import RUN_US_MAX

ENDED_BY_LABEL = "gpuwatch.io/ended-by"
"""Marks an estimated end: the pod was alive at the end of the record, and gone at the time in this label."""
MAX_STOPPED = 20_000
"""Pods whose stop events are remembered until the pod is gone."""
MAX_ESTIMATED = 20_000
"""Pods with an estimated end that a late event may still correct."""
STOPS = frozenset({"Killing", "Evicted", "Preempted", "TaintManagerEviction"})
"""Reasons of events with which a pod ends."""
RESTARTED = "will be restarted"
"""In the message of a Killing event after which the kubelet starts the container again."""

MAX_LABELS = 200
SCHEDULER_LABEL = "gpuwatch.io/scheduler-name"
"""Records the pod's scheduler among its labels, unless it is the default scheduler."""
HOSTNAME_LABEL = "gpuwatch.io/hostname"
"""Records the host name that programs in the pod see, if it is not the pod's name."""
SLINKY_PREFIX = "nodeset.slinky.slurm.net/"
"""Labels that Slinky's operator gives to the pods that are Slurm nodes."""
PREEMPTED = ("PreemptionByScheduler", "PreemptionByKubeScheduler")
OUT_OF_MEMORY = "OOMKilled"
NO_IMAGE, CRASH_LOOP = "ImagePullBackOff", "CrashLoopBackOff"
BLOCKED = {
    **dict.fromkeys(("ErrImagePull", NO_IMAGE, "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"), NO_IMAGE),
    **{name: name for name in (CRASH_LOOP, "CreateContainerConfigError", "CreateContainerError", "RunContainerError")},
}
"""Reasons for which a container of an admitted pod does not run, and what stands for them: the kubelet alternates between some."""
RESTARTS_LABEL, LAST_EXIT_LABEL = "gpuwatch.io/restarts", "gpuwatch.io/last-exit"
"""Record how often a container with GPUs was started again, and the error with which it ended last."""
RESTARTS_MIN = 3
"""Fewer are not recorded: a container may fail once or twice and then run."""

T = TypeVar("T")
_utc = re.compile(r"20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ")


def kept_labels(pod: Object) -> dict[str, str]:
    """The first labels by name, the scheduler and the host name."""
    spec = mapping(pod, "spec")
    labels = labels_of(pod)
    kept = dict(sorted(labels.items())[:MAX_LABELS])
    binder = string(spec, "schedulerName")
    if binder not in (None, "", "default-scheduler"):
        kept[SCHEDULER_LABEL] = binder
    slinky = {key: value for key, value in labels.items() if key.startswith(SLINKY_PREFIX)}
    host = _slurm_node(spec, slinky) if slinky else string(spec, "hostname")
    if host and host != string(mapping(pod, "metadata"), "name"):
        # The prefix shows the ledger that the pod is Slinky's, wherever the limit cuts the labels.
        kept |= slinky | {HOSTNAME_LABEL: host}
    return kept


def _slurm_node(spec: Object, slinky: dict[str, str]) -> str | None:
    """The Slurm node that a Slinky pod is, as its operator names it."""
    node = string(spec, "nodeName")
    daemon_set = slinky.get(f"{SLINKY_PREFIX}scaling-mode", "").lower() == "daemonset"
    if spec.get("hostNetwork") is True and not daemon_set:
        return node
    host = string(spec, "hostname") or slinky.get(f"{SLINKY_PREFIX}pod-hostname")
    return host or (node.partition(".")[0] if node and daemon_set else None)


def end_of(pod: Object, status: Object, phase: str | None, start: int) -> int | None:
    """When the devices were released, None while a container may run.

    deletionTimestamp is a grace period after the request, so it counts only if all containers have ended and
    none reports when.
    """
    deleted = moment(mapping(pod, "metadata"), "deletionTimestamp")
    statuses = statuses_of(status)
    ended = [mapping(mapping(container, "state"), "terminated") for container in statuses]
    over = phase in ("Succeeded", "Failed") or (deleted is not None and bool(ended) and all(ended))
    if not over:
        return None
    finished = [t for t in (moment(state, "finishedAt") for state in ended) if t is not None]
    changed = [moment(c, "lastTransitionTime") for c in mappings(status, "conditions")]
    later = (t for t in changed if t is not None and t > start)
    return _valid_end(start, max(finished, default=None) or deleted or max(later, default=None))


def _valid_end(start: int, end: int | None) -> int:
    """The end of a run; refuses one without end time, before its start, or too late."""
    if end is None:
        raise Malformed("has ended, but has no end time")
    if end < start:
        raise Malformed("ends before it starts")
    if end - start > RUN_US_MAX:
        raise Malformed("lasts longer than five years")
    return end


def final_state(pod: Object, status: Object, phase: str | None) -> str | None:
    """How a pod ended: its phase, or what removed it (Preempted, Evicted, EvictionByEvictionAPI, ...).

    A failed pod whose container ran out of memory is OOMKilled, and one that was stopped by a request to delete it is Deleted.
    """
    if phase == "Succeeded":
        return phase
    taken = next((c for c in mappings(status, "conditions") if c.get("type") == "DisruptionTarget"), {})
    reason = string(taken, "reason") if taken.get("status") == "True" else None
    if reason in PREEMPTED:
        return "Preempted"
    ended = [mapping(mapping(container, "state"), "terminated") for container in statuses_of(status)]
    if any(state.get("reason") == OUT_OF_MEMORY for state in ended):
        return OUT_OF_MEMORY
    return string(status, "reason") or reason or ("Deleted" if _stopped_by_deletion(pod, ended) else phase)


def _stopped_by_deletion(pod: Object, ended: list[Object]) -> bool:
    """Whether the pod was to be deleted before its containers ended. deletionTimestamp is a grace period after the request."""
    metadata = mapping(pod, "metadata")
    deleted = moment(metadata, "deletionTimestamp")
    finished = [t for t in (moment(state, "finishedAt") for state in ended) if t is not None]
    if deleted is None or not finished:
        return deleted is not None
    return max(finished) >= deleted - (integer(metadata, "deletionGracePeriodSeconds") or 0) * SECOND_US


def statuses_of(status: Object) -> list[Object]:
    """The statuses of the pod's containers."""
    return mappings(status, "containerStatuses") + mappings(status, "initContainerStatuses")


def blocked_by(status: Object, gpu_containers: Container[str]) -> str | None:
    """Why none of the containers with GPUs runs, as kubectl names it. None if one runs, or may soon.

    Init containers count as well: while one of them fails, no other container starts.
    """
    main = [one for one in mappings(status, "containerStatuses") if string(one, "name") in gpu_containers]
    if any(mapping(mapping(one, "state"), "running") for one in main):
        return None
    both = main + mappings(status, "initContainerStatuses")
    reasons = (string(mapping(mapping(one, "state"), "waiting"), "reason") or "" for one in both)
    return next((BLOCKED[reason] for reason in reasons if reason in BLOCKED), None)


def failure_labels(status: Object, gpu_containers: Container[str]) -> dict[str, str]:
    """Restarts and last error where all containers with GPUs restarted with errors; those of the one that did least often.

    While another container with GPUs runs on, its devices are not those of the one that fails.
    """
    main = [one for one in mappings(status, "containerStatuses") if string(one, "name") in gpu_containers]
    main = main or mappings(status, "initContainerStatuses")
    ended = [(integer(one, "restartCount") or 0, _last_error(one)) for one in main]
    restarts, error = min(ended, key=lambda one: one[0], default=(0, None))
    if restarts < RESTARTS_MIN or error is None:
        return {}
    return {RESTARTS_LABEL: str(restarts), LAST_EXIT_LABEL: error}


def _last_error(container: Object) -> str | None:
    """`OOMKilled`, or `exit code 1`, or `Error` where the code is unknown; None if it did not end with an error."""
    for key in ("state", "lastState"):
        if over := mapping(mapping(container, key), "terminated"):
            code, reason = integer(over, "exitCode"), string(over, "reason")
            if reason == OUT_OF_MEMORY or (code is None and reason == "Error"):
                return reason
            return f"exit code {code}" if code else None
    return None


def newest_change(pod: Object) -> str:
    """The newest UTC time of a pod's creation, start, conditions and writes, as text; "" if there is none.

    Texts are compared as they are: a dump has many pods without GPUs, and this is all that is read of them.
    """
    metadata, status = mapping(pod, "metadata"), mapping(pod, "status")
    texts = [metadata.get("creationTimestamp"), status.get("startTime")]
    texts += [condition.get("lastTransitionTime") for condition in mappings(status, "conditions")]
    texts += [write.get("time") for write in mappings(metadata, "managedFields")]
    return max((text for text in texts if isinstance(text, str) and _utc.fullmatch(text)), default="")


@dataclass
class TrackedPod:
    """A pod that holds or waits for GPUs, as it was last written."""

    namespace: str | None
    name: str | None
    claims: list[Columns] = field(default_factory=list)
    waiting: list[Columns] = field(default_factory=list)
    deletion_us: int | None = None
    """Its deletionTimestamp, when it was last seen."""
    had_grace: bool = False
    """Whether it was ever to be deleted with a grace period."""

    @property
    def open(self) -> bool:
        """Whether it holds devices, as far as is known."""
        return bool(self.claims) and self.claims[0]["end_us"] is None


class PodEnds:
    """Stop events of pods, and pods whose end is estimated."""

    def __init__(self) -> None:
        self._stopped: OrderedDict[str, int] = OrderedDict()
        self._estimated: OrderedDict[str, tuple[list[Columns], int, int]] = OrderedDict()
        """Claims of a pod, when it was last alive, and when it was gone."""

    def close(self, uid: str, pod: TrackedPod, alive_us: int, at_us: int) -> list[Columns]:
        """The last rows of a pod that was alive at `alive_us` and gone at `at_us`.

        Its deletion counts, then its stop event, both limited to that range. Otherwise it is held up to the last sign of
        life, so that it never takes time from the next pod on its devices, and its record is marked.
        """
        stopped_us = self._stopped.pop(uid, None)
        if not pod.open:
            return []
        known_us = pod.deletion_us if pod.deletion_us is not None else stopped_us
        if known_us is None and alive_us < at_us:
            _remember(self._estimated, uid, (pod.claims, alive_us, at_us), MAX_ESTIMATED)
            return [_ended(_marked(row, at_us), alive_us) for row in pod.claims]
        end_us = min(max(at_us if known_us is None else known_us, alive_us), at_us)
        return [_ended(row, end_us) for row in pod.claims]

    def take_event(self, item: Object, row: Columns, tracked: Container[str]) -> list[Columns]:
        """Takes an event of any object; returns the corrected last rows if it dates the end of a pod that is gone."""
        if row["reason"] not in STOPS or RESTARTED in (row["message"] or ""):
            return []
        uid = string(mapping(item, "involvedObject") or mapping(item, "regarding"), "uid")
        if uid is None:
            return []
        if uid in tracked:
            _remember(self._stopped, uid, row["last_us"], MAX_STOPPED)
        claims, alive_us, at_us = self._estimated.pop(uid, ([], 0, 0))
        end_us = min(max(row["last_us"], alive_us), at_us)
        return [_ended(claim, end_us) for claim in claims]


def end_of_deleted(item: Object, alive_us: int, at_us: int) -> int:
    """When an object that existed at `alive_us` and was gone at `at_us` was deleted, or when it last existed.

    Raises Malformed.
    """
    deleted = moment(mapping(item, "metadata"), "deletionTimestamp")
    return alive_us if deleted is None else min(max(deleted, alive_us), at_us)


def _remember(known: OrderedDict[str, T], uid: str, value: T, most: int) -> None:
    known[uid] = value
    known.move_to_end(uid)
    if len(known) > most:
        known.popitem(last=False)


def _ended(row: Columns, end_us: int) -> Columns:
    last_us = max(end_us, row["start_us"])
    return row | {"end_us": last_us, "evidence_us": last_us}


def _marked(row: Columns, at_us: int) -> Columns:
    labels = json.loads(row.get("labels") or "{}") | {ENDED_BY_LABEL: rfc3339(at_us)}
    return row | {"labels": json.dumps(labels, separators=(",", ":"))}
