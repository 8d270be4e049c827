"""The labels that a pod's rows keep: the pod's own, and two that gpuwatch adds."""

from __future__ import annotations

from gpuwatch.collectors.shared.json_fields import Object, labels_of, mapping, string

MAX_LABELS = 200
SCHEDULER_LABEL = "gpuwatch.io/scheduler-name"
"""Records the pod's scheduler among its labels, unless it is the default scheduler."""
HOSTNAME_LABEL = "gpuwatch.io/hostname"
"""Records the host name that programs in the pod see, if it is not the pod's name."""
SLINKY_PREFIX = "nodeset.slinky.slurm.net/"
"""Labels that Slinky's operator gives to the pods that are Slurm nodes."""


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
