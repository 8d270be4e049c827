"""Kubernetes: `kubectl get -o json` lists of the simulated half that Kubernetes runs."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Sequence

from gpuwatch.simulate.exposition import DRIVER
from gpuwatch.simulate.fleet import PROFILES, Fleet, Node
from gpuwatch.simulate.moments import Epoch
from gpuwatch.simulate.runs import Run

Json = dict[str, object]
RESTART_S = 41
"""How long a restarted container was down."""


def pods(runs: Sequence[Run], epoch: Epoch) -> str:
    """Every pod that asked for GPUs, finished and pending ones included."""
    return _list([_pod(run, epoch) for run in runs if run.scheduler == "kubernetes"])


def nodes(fleet: Fleet, epoch: Epoch) -> str:
    """The nodes with GPU labels and device-plugin resources (MIG strategy `mixed`)."""
    return _list([_node(node, epoch) for node in fleet.nodes if node.scheduler == "kubernetes"])


def events(runs: Sequence[Run], epoch: Epoch) -> str:
    """Scheduling events: one a pod."""
    return _list([_event(run, epoch) for run in runs if run.scheduler == "kubernetes"])


def _list(items: list[Json]) -> str:
    listing = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    return json.dumps(listing, indent=1, sort_keys=True) + "\n"


def _uid(*parts: str) -> str:
    return str(uuid.UUID(bytes=hashlib.blake2b("/".join(parts).encode(), digest_size=16).digest()))


def _pod(run: Run, epoch: Epoch) -> Json:
    resource = f"nvidia.com/mig-{run.profile}" if run.profile else "nvidia.com/gpu"
    amount = {resource: str(run.gpus)}
    labels: Json = {"app": run.name, **dict(run.owner.labels)}
    metadata: Json = {
        "name": run.pod,
        "namespace": run.owner.namespace,
        "uid": run.pod_uid,
        "creationTimestamp": epoch.rfc3339(run.submit_s),
        "labels": labels,
    }
    if run.controller:
        name = run.pod.rsplit("-", 1)[0] if run.controller == "ReplicaSet" else run.name
        if run.controller == "ReplicaSet":
            metadata["labels"] = {**labels, "pod-template-hash": name.rsplit("-", 1)[1]}
        api = "batch/v1" if run.controller == "Job" else "apps/v1"
        metadata["ownerReferences"] = [
            {
                "apiVersion": api,
                "blockOwnerDeletion": True,
                "controller": True,
                "kind": run.controller,
                "name": name,
                "uid": _uid(run.owner.namespace, run.controller, name),
            }
        ]
    spec: Json = {
        "containers": [
            {"name": "main", "image": "registry.example/ml:1", "resources": {"limits": amount, "requests": amount}}
        ],
        "restartPolicy": "Never" if run.controller in ("Job", "") else "Always",
        "schedulerName": "default-scheduler",
    }
    if run.nodes:
        spec["nodeName"] = run.nodes[0]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": _pod_status(run, epoch)}


def _pod_status(run: Run, epoch: Epoch) -> Json:
    if run.start_s is None:
        waiting = _condition("PodScheduled", "False", epoch.rfc3339(run.submit_s))
        waiting.update(reason="Unschedulable", message=_no_room(run))
        return {"phase": "Pending", "conditions": [waiting]}
    started = epoch.rfc3339(run.start_s)
    failed = run.state in ("FAILED", "TIMEOUT")
    status: Json = {"startTime": started, "hostIP": "10.0.0.1"}
    container: Json = {"name": "main", "restartCount": 0, "ready": run.end_s is None, "image": "registry.example/ml:1"}
    running_from = started
    if run.restarted_s is not None:
        running_from = epoch.rfc3339(run.restarted_s + RESTART_S)
        container["restartCount"] = 1
        container["lastState"] = {"terminated": _terminated(started, epoch.rfc3339(run.restarted_s), 137, "Error")}
    if run.end_s is None:
        status["phase"] = "Running"
        container["state"] = {"running": {"startedAt": running_from}}
        ready = _condition("Ready", "True", started)
    else:
        ended = epoch.rfc3339(run.end_s)
        status["phase"] = "Failed" if failed else "Succeeded"
        reason = "Error" if failed else "Completed"
        container["state"] = {"terminated": _terminated(running_from, ended, 1 if failed else 0, reason)}
        ready = _condition("Ready", "False", ended)
    status["conditions"] = [
        _condition("PodScheduled", "True", started),
        _condition("Initialized", "True", started),
        ready,
    ]
    status["containerStatuses"] = [container]
    return status


def _terminated(started: str, finished: str, code: int, reason: str) -> Json:
    return {"startedAt": started, "finishedAt": finished, "exitCode": code, "reason": reason}


def _condition(kind: str, status: str, moment: str) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": moment}


def _no_room(run: Run) -> str:
    resource = f"nvidia.com/mig-{run.profile}" if run.profile else "nvidia.com/gpu"
    return f"0/1 nodes are available: 1 Insufficient {resource}. preemption: no preemption victims found."


def _node(node: Node, epoch: Epoch) -> Json:
    model = node.model
    labels: dict[str, str] = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "nodepool": node.pool,
        "nvidia.com/cuda.driver-version.full": DRIVER,
        "nvidia.com/cuda.runtime-version.full": "12.4",
        "nvidia.com/gpu.count": str(node.gpu_count),
        "nvidia.com/gpu.family": model.family,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": model.product,
        "nvidia.com/gpu.replicas": "0" if node.is_mig else "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "mixed",
    }
    resources = {"cpu": "128", "memory": "2000000Mi", "nvidia.com/gpu": str(0 if node.is_mig else node.gpu_count)}
    profiles = Counter(device.profile for device in node.devices if device.profile)
    for name, count in sorted(profiles.items()):
        resources[f"nvidia.com/mig-{name}"] = str(count)
        labels[f"nvidia.com/mig-{name}.count"] = str(count)
        labels[f"nvidia.com/mig-{name}.memory"] = str(PROFILES[name].fb_mib)
        labels[f"nvidia.com/mig-{name}.product"] = f"{model.product}-MIG-{name}"
        labels[f"nvidia.com/mig-{name}.slices.gi"] = str(PROFILES[name].compute)
    if profiles:
        labels["nvidia.com/mig.config.state"] = "success"
    ready = _condition("Ready", "True", epoch.rfc3339(0))
    ready.update(lastHeartbeatTime=epoch.rfc3339(epoch.window_s), reason="KubeletReady")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "uid": _uid("node", node.name),
            "creationTimestamp": epoch.rfc3339(0),
            "labels": labels,
        },
        "spec": {},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [ready],
            "nodeInfo": {"kernelVersion": "6.1.0", "kubeletVersion": "v1.33.1"},
        },
    }


def _event(run: Run, epoch: Epoch) -> Json:
    scheduled = run.start_s is not None
    moment = epoch.rfc3339(run.submit_s if run.start_s is None else run.start_s)
    name = f"{run.pod}.{_uid('event', run.pod_uid)[:8]}"
    place = f"{run.owner.namespace}/{run.pod} to {run.nodes[0] if run.nodes else ''}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "count": 1,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "involvedObject": {"kind": "Pod", "name": run.pod, "namespace": run.owner.namespace, "uid": run.pod_uid},
        "metadata": {
            "name": name,
            "namespace": run.owner.namespace,
            "uid": _uid("event", run.pod_uid),
            "creationTimestamp": moment,
        },
        "reason": "Scheduled" if scheduled else "FailedScheduling",
        "message": f"Successfully assigned {place}" if scheduled else _no_room(run),
        "source": {"component": "default-scheduler"},
        "type": "Normal" if scheduled else "Warning",
    }
