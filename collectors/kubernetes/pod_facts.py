"""What rows keep of a pod: its labels with two that gpuwatch adds, and its end."""

from __future__ import annotations

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
from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.model import RUN_US_MAX

MAX_LABELS = 200
SCHEDULER_LABEL = "gpuwatch.io/scheduler-name"
"""Records the pod's scheduler among its labels, unless it is the default scheduler."""
HOSTNAME_LABEL = "gpuwatch.io/hostname"
"""Records the host name that programs in the pod see, if it is not the pod's name."""
SLINKY_PREFIX = "nodeset.slinky.slurm.net/"
"""Labels that Slinky's operator gives to the pods that are Slurm nodes."""
PREEMPTED = ("PreemptionByScheduler", "PreemptionByKubeScheduler")
OUT_OF_MEMORY = "OOMKilled"


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
