"""Kueue and Volcano objects of scenes: queues with quotas, and workloads that were admitted or wait."""

from __future__ import annotations

from gpuwatch.simulate.kubernetes import uid
from gpuwatch.simulate.moments import Epoch

Json = dict[str, object]
GPU = "nvidia.com/gpu"
KUEUE = "kueue.x-k8s.io/v1beta1"
VOLCANO = "scheduling.volcano.sh/v1beta1"


def flavor(name: str, pool: str, epoch: Epoch) -> Json:
    """A ResourceFlavor: the nodes of a pool."""
    return _object(KUEUE, "ResourceFlavor", name, "", epoch.rfc3339(0), {"nodeLabels": {"nodepool": pool}})


def cluster_queue(
    name: str, cohort: str, flavor_name: str, nominal: int, used: int, pending: int, epoch: Epoch
) -> Json:
    """A ClusterQueue of a cohort that lends its unused quota and reclaims it."""
    spec: Json = {
        "cohort": cohort,
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            {
                "coveredResources": [GPU],
                "flavors": [{"name": flavor_name, "resources": [{"name": GPU, "nominalQuota": str(nominal)}]}],
            }
        ],
    }
    usage = {"name": GPU, "total": str(used), "borrowed": str(max(0, used - nominal))}
    made = _object(KUEUE, "ClusterQueue", name, "", epoch.rfc3339(0), spec)
    made["status"] = {
        "flavorsUsage": [{"name": flavor_name, "resources": [usage]}],
        "flavorsReservation": [{"name": flavor_name, "resources": [usage]}],
        "pendingWorkloads": pending,
        "admittedWorkloads": 1 if used else 0,
        "conditions": [_condition("Active", True, "Ready", "Can admit new workloads", epoch.rfc3339(0))],
    }
    return made


def local_queue(name: str, namespace: str, cluster: str, pending: int, epoch: Epoch) -> Json:
    """The LocalQueue of a namespace for a ClusterQueue."""
    made = _object(KUEUE, "LocalQueue", name, namespace, epoch.rfc3339(0), {"clusterQueue": cluster})
    made["status"] = {"pendingWorkloads": pending}
    return made


def workload(
    job: str,
    namespace: str,
    queue: str,
    cluster: str,
    flavor_name: str,
    gpus: int,
    epoch: Epoch,
    submit_s: int,
    admitted_s: int | None = None,
    ended_s: int | None = None,
    priority: int = 0,
    pods: int = 1,
    waits: tuple[str, str] = ("Pending", ""),
    preempted: int = 0,
    kind: str = "Job",
) -> Json:
    """The Workload of a Job of `pods` pods that ask for `gpus` GPUs in all.

    Without `admitted_s` it waits, for the reason and message `waits`; `preempted` times it was taken off for others.
    """
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {GPU: str(gpus // pods)}}}]}}
    spec: Json = {
        "queueName": queue,
        "priority": priority,
        "active": True,
        "podSets": [{"name": "main", "count": pods, "template": template}],
    }
    name = f"{kind.lower()}-{job}-{uid(namespace, job)[:5]}"
    made = _object(KUEUE, "Workload", name, namespace, epoch.rfc3339(submit_s), spec)
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": job, "uid": uid(namespace, kind, job), "controller": True}
    _metadata(made)["ownerReferences"] = [owner]
    status: Json = {}
    conditions: list[Json] = []
    if admitted_s is None:
        at = epoch.rfc3339(submit_s + 5)
        conditions.append(_condition("QuotaReserved", False, *waits, at))
    else:
        at = epoch.rfc3339(admitted_s)
        conditions.append(_condition("QuotaReserved", True, "QuotaReserved", f"Quota reserved in {cluster}", at))
        conditions.append(_condition("Admitted", True, "Admitted", f"The workload is admitted by {cluster}", at))
        conditions.append(_condition("PodsReady", True, "PodsReady", "All pods were ready or succeeded", at))
        usage = {"name": "main", "count": pods, "flavors": {GPU: flavor_name}, "resourceUsage": {GPU: str(gpus)}}
        status["admission"] = {"clusterQueue": cluster, "podSetAssignments": [usage]}
    if ended_s is not None:
        conditions.append(_condition("Finished", True, "Succeeded", "Job finished", epoch.rfc3339(ended_s)))
    if preempted:
        eviction = {"reason": "Preempted", "underlyingCause": "InCohortReclamation", "count": preempted}
        status["schedulingStats"] = {"evictions": [eviction]}
        status["requeueState"] = {"count": preempted}
    status["conditions"] = conditions
    made["status"] = status
    return made


def volcano_queue(name: str, deserved: int, allocated: int, pending: int, epoch: Epoch) -> Json:
    """A Volcano Queue that may use other queues' unused capacity and returns it."""
    spec = {"weight": 1, "reclaimable": True, "deserved": {GPU: str(deserved)}}
    made = _object(VOLCANO, "Queue", name, "", epoch.rfc3339(0), spec)
    made["status"] = {"state": "Open", "allocated": {GPU: str(allocated)}, "pending": pending, "running": 1}
    return made


def _object(api: str, kind: str, name: str, namespace: str, made: str, spec: Json) -> Json:
    metadata: Json = {"name": name, "uid": uid(kind, namespace, name), "creationTimestamp": made}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def _metadata(item: Json) -> Json:
    found = item["metadata"]
    assert isinstance(found, dict)
    return found


def _condition(kind: str, holds: bool, reason: str, message: str, at: str) -> Json:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": at,
    }
