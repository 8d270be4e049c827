"""Pods that hold or wait for GPUs, as claim and pending rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gpuwatch.collectors.kubernetes.dra import DeviceGroup, PodDevices
from gpuwatch.collectors.kubernetes.node_rule import add_room, place_columns
from gpuwatch.collectors.kubernetes.owner import Owner, owner_of
from gpuwatch.collectors.kubernetes.pod_facts import (
    blocked_by,
    end_of,
    failure_labels,
    final_state,
    kept_labels,
    statuses_of,
)
from gpuwatch.collectors.shared.cloud_labels import model_asked
from gpuwatch.collectors.shared.json_fields import (
    Malformed,
    Object,
    integer,
    labels_of,
    mapping,
    mappings,
    moment,
    require_metadata,
    string,
)
from gpuwatch.collectors.shared.other_accelerators import MILLICORES, container_accelerators
from gpuwatch.collectors.shared.resource_lists import MIG_PREFIX, non_empty, profile_of, shortened
from gpuwatch.core.accelerators import INTEL, NAMES, REPLICA

GPU_RESOURCES = ("nvidia.com/gpu", REPLICA)
PRODUCT_LABEL = "nvidia.com/gpu.product"
NEVER_ADMITTED = re.compile(r"UnexpectedAdmissionError|OutOf\w+|NodeAffinity|Node\w+Mismatch|Topology\w+Error|Shutdown")
PLUGIN, DRA = "k8s-json", "dra"
"""Kinds of claim rows. Pods that share a device through a ResourceClaim do so on purpose."""

_uuid = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ignored_annotations = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


def require_complete(pod: Object) -> None:
    """Raises Malformed for a pod without identity or spec, which must not pass for a pod without GPUs."""
    require_metadata(pod, "name", "uid", "namespace")
    if not mapping(pod, "spec"):
        raise Malformed("has no spec")


def gpu_resources(pod: Object, of_container: Callable[[Object], dict[str, int]] | None = None) -> dict[str, int]:
    """Devices a pod holds by resource name, as the scheduler counts them; NVIDIA's, or what `of_container` gives.

    Containers and restartable init containers (sidecars) run together: their devices add up. Another init
    container runs alone with the sidecars started before it: the larger of the two counts.
    """
    spec, of_container = mapping(pod, "spec"), of_container or _container_gpus
    together: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in mappings(spec, "initContainers"):
        asked = of_container(container)
        if container.get("restartPolicy") == "Always":
            together = _plus(together, asked)
        else:
            peak = _most(peak, _plus(together, asked))
    for container in mappings(spec, "containers"):
        together = _plus(together, of_container(container))
    return {name: count for name, count in sorted(_most(peak, together).items()) if count}


def claim_rows(pod: Object, dra: PodDevices | None = None) -> Iterator[dict[str, Any]]:
    """Claim rows of a pod that is bound to a node and has started, one per MIG profile; `dra` has the devices of
    its ResourceClaims.

    The allocation starts with the first known container start, init containers included, since the kubelet
    assigns all devices of a pod at admission; a restart in place does not end it. It ends when the last
    container of a finished pod ended. A pod that is still pulling its images has no row yet; one whose image cannot be pulled, or
    whose container cannot be created, holds its devices since it was admitted. Raises Malformed.
    """
    node = string(mapping(pod, "spec"), "nodeName")
    others = gpu_resources(pod, container_accelerators)
    if not node or not (others or asks_for_gpus(pod, dra)):
        return
    status, milli = mapping(pod, "status"), others.pop(MILLICORES, None)
    held = _merged([*_plugin_devices(pod, status, dra), *(dra.held if dra else ())])
    held += [DeviceGroup(kind, count) for kind, count in others.items()]
    for row in rows_of_devices(pod, held, DRA if dra is not None and dra.held else PLUGIN):
        kind = row["profile"]
        named = {"gpu_type": NAMES[kind]} if kind in NAMES else {}
        part = {"fraction": milli / 1000} if milli and kind == INTEL and milli < 1000 * row["device_count"] else {}
        yield row | named | part


def rows_of_devices(pod: Object, held: Sequence[DeviceGroup], kind: str) -> Iterator[dict[str, Any]]:
    """Claim rows of a pod with these devices, none before a container has started, or cannot start. Raises Malformed."""
    status, main = mapping(pod, "status"), _gpu_containers(pod)
    phase, blocked = string(status, "phase"), blocked_by(status, main)
    start = _start(status, phase)
    if start is None and blocked and phase == "Pending":
        start = moment(status, "startTime") or _condition_time(status, "PodScheduled")
    if start is None and phase == "Running":
        start = moment(
            mapping(pod, "metadata"), "creationTimestamp"
        )  # the best estimate without any time in its status
    if start is None or not held:
        return
    end = end_of(pod, status, phase, start)
    row = _shared(pod, owner_of(pod), failure_labels(status, main)) | {
        "kind": kind,
        "node": string(mapping(pod, "spec"), "nodeName"),
        "start_us": start,
        "end_us": end,
        "state": blocked or phase if end is None else final_state(pod, status, phase),
        **place_columns(pod),
    }
    for devices in held:
        gpus = ",".join(devices.gpus) if devices.gpus else None
        yield row | {"profile": devices.profile, "device_count": devices.count, "gpus": gpus}


def devices_of_row(row: dict[str, Any]) -> DeviceGroup:
    """The devices of a claim row."""
    gpus = row.get("gpus")
    return DeviceGroup(row.get("profile"), row["device_count"], tuple(gpus.split(",")) if gpus else None)


def pending_rows(pod: Object, dra: PodDevices | None = None) -> Iterator[dict[str, Any]]:
    """Pending rows, one per MIG profile, of a pod that asks for GPUs and has no node. Raises Malformed."""
    status = mapping(pod, "status")
    if string(mapping(pod, "spec"), "nodeName") or string(status, "phase") not in (None, "Pending"):
        return
    others = gpu_resources(pod, container_accelerators)
    others.pop(MILLICORES, None)
    requested = _merged([*_plugin_devices(pod, status, dra, shared=REPLICA), *(dra.requested if dra else ())])
    requested += [DeviceGroup(kind, count) for kind, count in others.items()]
    if not requested:
        return
    conditions = mappings(status, "conditions")
    scheduled: Object = next((c for c in conditions if c.get("type") == "PodScheduled"), {})
    selector = mapping(mapping(pod, "spec"), "nodeSelector")
    model = string(selector, PRODUCT_LABEL) or model_asked(selector)
    row = _shared(pod, owner_of(pod)) | {"node_count": 1, "reason": string(scheduled, "reason"), "gpu_type": model}
    row |= non_empty(message=shortened(string(scheduled, "message"))) | place_columns(pod)
    for devices in requested:
        named = {"gpu_type": NAMES[devices.profile]} if devices.profile in NAMES else {}
        yield row | named | {"profile": devices.profile, "device_count": devices.count}


def asks_for_gpus(pod: Object, dra: PodDevices | None = None) -> bool:
    """Whether a pod asks for GPUs, as far as is known."""
    return bool(gpu_resources(pod)) or (dra is not None and bool(dra.held or dra.requested))


def holds_devices(pod: Object) -> bool:
    """Whether a pod asks for GPUs, or for accelerators of another vendor."""
    return bool(gpu_resources(pod) or gpu_resources(pod, container_accelerators))


def sum_by_job(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pending rows summed over the pods of a job: a gang is one request, submitted with its first pod."""
    jobs: dict[tuple[str, str | None], dict[str, Any]] = {}
    for row in rows:
        first = jobs.setdefault((row["job_id"], row["profile"]), row)
        if first is not row:
            first["device_count"] += row["device_count"]
            first["node_count"] += row["node_count"]
            first["submit_us"] = min((t for t in (first["submit_us"], row["submit_us"]) if t is not None), default=None)
            first["evidence_us"] = max(first["evidence_us"], row["evidence_us"])
            first["reason"] = first["reason"] or row["reason"]
            add_room(first, row)
            if "message" in row:
                first.setdefault("message", row["message"])
    return list(jobs.values())


def _plugin_devices(
    pod: Object, status: Object, dra: PodDevices | None, shared: str | None = None
) -> Iterator[DeviceGroup]:
    """Devices of the device plugin, without those that a ResourceClaim provides. `shared`: the profile of replicas."""
    resources = gpu_resources(pod)
    for resource, count in resources.items():
        if dra is None or resource not in dra.replaces or dra.unknown is not None:
            uuids = _device_uuids(pod, status, resource, alone=len(resources) == 1)
            profile = shared if resource == REPLICA else profile_of(resource)
            yield DeviceGroup(profile, count, tuple(uuids) if len(uuids) == count else None)


def _merged(parts: Sequence[DeviceGroup]) -> list[DeviceGroup]:
    """One group per profile: attribution counts devices of one profile once."""
    merged: dict[str | None, DeviceGroup] = {}
    for part in parts:
        seen = merged.get(part.profile)
        if seen is None:
            merged[part.profile] = part
        else:
            gpus = seen.gpus + part.gpus if seen.gpus and part.gpus else None
            merged[part.profile] = DeviceGroup(part.profile, seen.count + part.count, gpus)
    return [held for held in merged.values() if held.count]


def _gpu_containers(pod: Object) -> set[str]:
    """The containers that ask for devices."""
    return {
        string(one, "name") or ""
        for one in mappings(mapping(pod, "spec"), "containers")
        if _container_gpus(one) or container_accelerators(one) or mapping(one, "resources").get("claims")
    }


def _shared(pod: Object, owner: Owner, more: dict[str, str] | None = None) -> dict[str, Any]:
    metadata, kept = mapping(pod, "metadata"), kept_labels(pod) | (more or {})
    submit = moment(metadata, "creationTimestamp")
    evidence = max((t for t in [submit, *_times(mapping(pod, "status"))] if t is not None), default=None)
    if evidence is None:
        raise Malformed("no time in metadata or status")
    return {
        "scheduler": "kubernetes",
        "job_id": owner.job_id,
        "run_key": owner.run_key,
        "pod_uid": string(metadata, "uid"),
        "pod": string(metadata, "name"),
        "namespace": string(metadata, "namespace") or "default",
        "submit_us": submit,
        "evidence_us": evidence,
        "user_name": owner.user_name,
        "queue": owner.queue,
        "name": owner.name,
        "labels": json.dumps(kept, separators=(",", ":")) if kept else None,
    }


def _container_states(container: Object) -> Iterator[Object]:
    """The running or terminated states that a container status still has, the current one first."""
    for key in ("state", "lastState"):
        for phase in ("running", "terminated"):
            if state := mapping(mapping(container, key), phase):
                yield state


def _times(status: Object) -> list[int | None]:
    conditions = mappings(status, "conditions")
    states = [state for container in statuses_of(status) for state in _container_states(container)]
    return [
        moment(status, "startTime"),
        *(moment(c, key) for c in conditions for key in ("lastTransitionTime", "lastProbeTime")),
        *(moment(state, key) for state in states for key in ("startedAt", "finishedAt")),
    ]


def _condition_time(status: Object, name: str) -> int | None:
    return next(
        (moment(c, "lastTransitionTime") for c in mappings(status, "conditions") if c.get("type") == name),
        None,
    )


def _start(status: Object, phase: str | None) -> int | None:
    statuses = statuses_of(status)
    starts = [moment(state, "startedAt") for container in statuses for state in _container_states(container)]
    known = [t for t in starts if t is not None]
    bound = moment(status, "startTime")
    if any(integer(container, "restartCount") for container in statuses) and bound is not None:
        known.append(bound)
    if known:
        return min(known)
    if phase == "Pending" or (phase == "Failed" and NEVER_ADMITTED.match(string(status, "reason") or "")):
        return None
    return bound if bound is not None else _condition_time(status, "PodScheduled")


def _container_gpus(container: Object) -> dict[str, int]:
    resources = mapping(container, "resources")
    asked = mapping(resources, "requests") | mapping(resources, "limits")
    return {name: integer(asked, name) or 0 for name in asked if name in GPU_RESOURCES or name.startswith(MIG_PREFIX)}


def _plus(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in a | b}


def _most(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: max(a.get(name, 0), b.get(name, 0)) for name in a | b}


def _device_uuids(pod: Object, status: Object, resource: str, alone: bool) -> list[str]:
    """Device UUIDs of a resource from allocatedResourcesStatus, else from annotations if the pod asks for no other GPU resource."""
    uuids: dict[str, None] = {}
    for container in statuses_of(status):
        for entry in mappings(container, "allocatedResourcesStatus"):
            if entry.get("name") == resource:
                ids = (str(device.get("resourceID", "")) for device in mappings(entry, "resources"))
                uuids.update((uuid, None) for device_id in ids for uuid in _uuid.findall(device_id))
    if not uuids and alone:
        annotations = labels_of(pod, "annotations")
        texts = (text for key, text in sorted(annotations.items()) if key not in _ignored_annotations)
        uuids.update((uuid, None) for text in texts for uuid in _uuid.findall(text))
    return list(uuids)
