"""Kubernetes: `kubectl get -o json` lists of the simulated half that Kubernetes runs."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Sequence

from gpuwatch.simulate.fleet import Fleet, Node
from gpuwatch.simulate.models import PROFILES
from gpuwatch.simulate.moments import Epoch
from gpuwatch.simulate.runs import Run

Json = dict[str, object]
CONTROLLER_APIS = {
    "Job": "batch/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "VolcanoJob": "batch.volcano.sh/v1alpha1",
    "RayCluster": "ray.io/v1",
}
CUDA_OF_BRANCH = {"535": "12.2", "550": "12.4", "560": "12.6", "570": "12.8"}
"""The newest CUDA version that a driver branch supports."""
CORDON = "node.kubernetes.io/unschedulable"
LAST_TRY_S, TRY_EVERY_S = 95, 300
"""How long before the dump the scheduler last tried a pending pod, and how often it retries."""
LAST_START_S, LAST_FAILURE_S = 300, 120
"""How long before the dump a container in a crash loop last began and last failed."""
RESTART_S = 41
"""How long a restarted container was down."""


def pods(runs: Sequence[Run], epoch: Epoch) -> str:
    """All pods that requested GPUs, including finished and pending ones."""
    return listing([_pod(run, epoch) for run in runs if run.scheduler == "kubernetes"])


def nodes(fleet: Fleet, epoch: Epoch) -> str:
    """The nodes with GPU labels and device-plugin resources (MIG strategy `mixed`)."""
    return listing([_node(n, epoch) for n in fleet.nodes if n.scheduler == "kubernetes" or n.also_kubernetes])


def events(runs: Sequence[Run], epoch: Epoch) -> str:
    """Scheduling events, one per pod whose events are kept."""
    return listing([_event(run, epoch) for run in runs if run.scheduler == "kubernetes" and run.events_kept])


def listing(items: list[Json]) -> str:
    """A List of objects as kubectl prints it."""
    whole = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"


def uid(*parts: str) -> str:
    """The same UID for the same names."""
    return str(uuid.UUID(bytes=hashlib.blake2b("/".join(parts).encode(), digest_size=16).digest()))


def _pod(run: Run, epoch: Epoch) -> Json:
    amount = {resource_of(run): str(run.gpus)}
    labels: Json = {"app": run.name, **dict(run.owner.labels)}
    metadata: Json = {
        "name": run.pod,
        "namespace": run.owner.namespace,
        "uid": run.pod_uid,
        "creationTimestamp": epoch.rfc3339(run.submit_s),
        "labels": labels,
    }
    if run.annotations:
        metadata["annotations"] = dict(run.annotations)
    if run.controller:
        name = run.pod.rsplit("-", 1)[0] if run.controller == "ReplicaSet" else run.workload or run.name
        if run.controller == "ReplicaSet":
            metadata["labels"] = {**labels, "pod-template-hash": name.rsplit("-", 1)[1]}
        api = CONTROLLER_APIS.get(run.controller, "apps/v1")
        metadata["ownerReferences"] = [
            {
                "apiVersion": api,
                "blockOwnerDeletion": True,
                "controller": True,
                "kind": "Job" if run.controller == "VolcanoJob" else run.controller,
                "name": name,
                "uid": uid(run.owner.namespace, run.controller, name),
            }
        ]
    spec: Json = {
        "containers": [
            {"name": "main", "image": "registry.example/ml:1", "resources": {"limits": amount, "requests": amount}}
        ],
        "restartPolicy": "Always" if run.controller in ("ReplicaSet", "StatefulSet") else "Never",
        "schedulerName": run.authority,
        **run.placement,
    }
    if run.nodes:
        spec["nodeName"] = run.nodes[0]
    elif run.creating:
        spec["nodeName"] = run.creating
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": _pod_status(run, epoch)}


def _pod_status(run: Run, epoch: Epoch) -> Json:
    if run.creating:
        pulling: Json = {"name": "main", "restartCount": 0, "ready": False, "image": "registry.example/ml:1"}
        pulling["state"] = {"waiting": {"reason": "ContainerCreating"}}
        bound = _condition("PodScheduled", "True", epoch.rfc3339(run.submit_s))
        return {"phase": "Pending", "conditions": [bound], "containerStatuses": [pulling]}
    if run.start_s is None:
        waiting = _condition("PodScheduled", "False", epoch.rfc3339(run.submit_s))
        waiting.update(reason="Unschedulable", message=run.reason or no_room(resource_of(run), 1))
        return {"phase": "Pending", "conditions": [waiting]}
    if run.blocked:
        return _blocked_status(run, epoch)
    started = epoch.rfc3339(run.start_s)
    failed = run.state in ("FAILED", "TIMEOUT", "PREEMPTED")
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
        code = run.exit_code if run.exit_code is not None else int(failed)
        container["state"] = {"terminated": _terminated(running_from, ended, code, _word(code, reason))}
        ready = _condition("Ready", "False", ended)
    conditions = [_condition("PodScheduled", "True", started), _condition("Initialized", "True", started), ready]
    if run.taken and run.end_s is not None:
        taken = _condition("DisruptionTarget", "True", epoch.rfc3339(run.end_s))
        taken.update(reason=run.taken, message=f"{run.authority}: {run.taken}")
        conditions.append(taken)
    status["conditions"] = conditions
    status["containerStatuses"] = [container]
    return status


def _blocked_status(run: Run, epoch: Epoch) -> Json:
    """A pod that holds its devices, and whose container does not run: never did, or failed `restarts` times."""
    bound = epoch.rfc3339(run.submit_s if run.start_s is None else run.start_s)
    container: Json = {"name": "main", "restartCount": run.restarts, "ready": False, "image": "registry.example/ml:1"}
    container["state"] = {"waiting": {"reason": run.blocked, "message": "back-off"}}
    if run.restarts:
        last = epoch.rfc3339(epoch.window_s - LAST_FAILURE_S)
        container["lastState"] = {
            "terminated": _terminated(epoch.rfc3339(epoch.window_s - LAST_START_S), last, 1, "Error")
        }
    conditions = [_condition(kind, "True", bound) for kind in ("PodScheduled", "Initialized")]
    conditions.append(_condition("Ready", "False", bound))
    phase = "Running" if run.restarts else "Pending"
    return {"phase": phase, "startTime": bound, "conditions": conditions, "containerStatuses": [container]}


def _terminated(started: str, finished: str, code: int, reason: str) -> Json:
    return {"startedAt": started, "finishedAt": finished, "exitCode": code, "reason": reason}


def _word(code: int, otherwise: str) -> str:
    return "OOMKilled" if code == 137 else otherwise


def _condition(kind: str, status: str, moment: str) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": moment}


def resource_of(run: Run) -> str:
    """What a pod asks for."""
    return f"nvidia.com/mig-{run.profile}" if run.profile else "nvidia.com/gpu"


def no_room(resource: str, lacking: int, others: int = 0) -> str:
    """The scheduler's message about a pod: so many nodes lack free devices, and others are not what it selects."""
    counted = f"{lacking} Insufficient {resource}"
    if others:
        counted = f"{others} node(s) didn't match Pod's node affinity/selector, {counted}"
    return f"0/{lacking + others} nodes are available: {counted}. preemption: no preemption victims found."


def _node(node: Node, epoch: Epoch) -> Json:
    model = node.model
    labels: dict[str, str] = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "nodepool": node.pool,
        "nvidia.com/cuda.driver-version.full": node.driver,
        "nvidia.com/cuda.runtime-version.full": CUDA_OF_BRANCH.get(node.driver.partition(".")[0], "12.4"),
        "nvidia.com/gpu.count": str(node.gpu_count),
        "nvidia.com/gpu.family": model.family,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": model.product + ("-SHARED" if node.replicas > 1 else ""),
        "nvidia.com/gpu.replicas": "0" if node.is_mig else str(node.replicas),
        "nvidia.com/gpu.sharing-strategy": "time-slicing" if node.replicas > 1 else "none",
        "nvidia.com/mig.capable": str(model.short != "l40s").lower(),
        "nvidia.com/mig.strategy": node.mig_strategy,
        **dict(node.labels),
    }
    whole = 0 if node.is_mig else node.gpu_count * node.replicas
    resources = {"cpu": "128", "memory": "2000000Mi", "nvidia.com/gpu": str(whole)}
    profiles = Counter(device.profile for device in node.devices if device.profile)
    for name, count in sorted(profiles.items()):
        resources[f"nvidia.com/mig-{name}"] = str(count)
        labels[f"nvidia.com/mig-{name}.count"] = str(count)
        labels[f"nvidia.com/mig-{name}.memory"] = str(PROFILES[name].fb_mib)
        labels[f"nvidia.com/mig-{name}.product"] = f"{model.product}-MIG-{name}"
        labels[f"nvidia.com/mig-{name}.slices.gi"] = str(PROFILES[name].compute)
    if profiles:
        labels["nvidia.com/mig.config.state"] = "success"
    ready = _condition("Ready", "True", epoch.rfc3339(node.from_s))
    spec: Json = {}
    taints: list[Json] = [{"key": key, "value": value, "effect": effect} for key, value, effect in node.taints]
    if node.outage and node.outage.down:
        ready.update(status="Unknown", lastTransitionTime=epoch.rfc3339(node.outage.since_s), reason=node.outage.reason)
    elif node.outage:
        spec["unschedulable"] = True
        taints.append({"key": CORDON, "effect": "NoSchedule", "timeAdded": epoch.rfc3339(node.outage.since_s)})
    if taints:
        spec["taints"] = taints
    ready.update(lastHeartbeatTime=epoch.rfc3339(epoch.window_s))
    ready.setdefault("reason", "KubeletReady")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "uid": uid("node", node.name),
            "creationTimestamp": epoch.rfc3339(node.from_s),
            "labels": labels,
        },
        "spec": spec,
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [ready],
            "nodeInfo": {"kernelVersion": "6.1.0", "kubeletVersion": "v1.33.1"},
        },
    }


def _event(run: Run, epoch: Epoch) -> Json:
    scheduled = run.start_s is not None or bool(run.creating)
    moment = epoch.rfc3339(run.submit_s if run.start_s is None else run.start_s)
    name = f"{run.pod}.{uid('event', run.pod_uid)[:8]}"
    place = f"{run.owner.namespace}/{run.pod} to {run.nodes[0] if run.nodes else run.creating}"
    last, count = moment, 1
    if run.reason:
        last = epoch.rfc3339(max(run.submit_s, epoch.window_s - LAST_TRY_S))
        count = 1 + (epoch.window_s - run.submit_s) // TRY_EVERY_S
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "count": count,
        "firstTimestamp": moment,
        "lastTimestamp": last,
        "involvedObject": {"kind": "Pod", "name": run.pod, "namespace": run.owner.namespace, "uid": run.pod_uid},
        "metadata": {
            "name": name,
            "namespace": run.owner.namespace,
            "uid": uid("event", run.pod_uid),
            "creationTimestamp": moment,
        },
        "reason": "Scheduled" if scheduled else "FailedScheduling",
        "message": f"Successfully assigned {place}" if scheduled else run.reason or no_room(resource_of(run), 1),
        "source": {"component": "default-scheduler"},
        "type": "Normal" if scheduled else "Warning",
    }
