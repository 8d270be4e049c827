"""Pods as claims and pending requests: who held how many devices, and from when until when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.files import parse_objects
from gpuwatch.collectors.kubernetes.owner import owner_of
from gpuwatch.collectors.kubernetes.pods import claim_rows, gpu_resources
from gpuwatch.collectors.shared.resource_lists import profile_of
from gpuwatch.core.clock import parse_rfc3339, rfc3339
from gpuwatch.core.model import Rejects, Source

DATA = Path(__file__).parents[2] / "data" / "k8s"
Json = dict[str, Any]
UUID = "GPU-00000000-1111-2222-3333-4444444444"


def at(clock: str) -> int:
    return parse_rfc3339(f"2026-11-02T{clock}Z")


@pytest.fixture(scope="module")
def tables() -> dict[str, list[dict[str, Any]]]:
    """Pods and nodes of one dump, as kubectl get pods,nodes gives them."""
    items = [item for name in ("pods", "nodes") for item in json.loads((DATA / f"{name}.json").read_text())["items"]]
    rejects = Rejects()
    found = parse_objects(json.dumps({"kind": "List", "items": items}), Source("pods.json", "c1"), rejects)
    assert {} == rejects.counts
    return found


@pytest.fixture(scope="module")
def held(tables: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    return {row["pod_uid"] + (row["profile"] or ""): row for row in tables["claim"]}


@pytest.mark.parametrize(
    "uid",
    [
        pytest.param("uid-cp", id="a pod without GPUs holds none"),
        pytest.param("uid-rf", id="a pod refused at admission never held a device"),
        pytest.param("uid-b0", id="a pod without a node holds none"),
    ],
)
def test_no_claim(held: dict[str, dict[str, Any]], uid: str) -> None:

    assert [] == [key for key in held if key.startswith(uid)]


@pytest.mark.parametrize(
    ("uid", "start", "end"),
    [
        pytest.param("uid-db-1", "08:00:10", "09:00:00", id="a finished pod ends with its last container"),
        pytest.param("uid-db-2", "09:05:10", None, id="a pod that came back under the same name holds anew"),
        pytest.param("uid-re", "08:00:02", None, id="a restart in place neither ends nor restarts the allocation"),
        pytest.param("uid-le", "08:00:20", "10:30:00", id="a deleted pod ends with its containers, not the grace"),
        pytest.param("uid-ls", "08:00:20", None, id="a deleted pod whose container still runs has not ended"),
        pytest.param(
            "uid-pu", "08:00:02", None, id="one whose image cannot be pulled holds devices since it was admitted"
        ),
        pytest.param("uid-in", "08:00:05", None, id="devices are held while the init container runs"),
    ],
)
def test_times(held: dict[str, dict[str, Any]], uid: str, start: str, end: str | None) -> None:

    assert (at(start), at(end) if end else None) == (held[uid]["start_us"], held[uid]["end_us"])


@pytest.mark.parametrize(
    ("uid", "job_id", "run_key", "queue", "user"),
    [
        pytest.param("uid-db-1", "ml/db", "uid-db-1", None, None, id="each StatefulSet pod UID is a run"),
        pytest.param("uid-db-2", "ml/db", "uid-db-2", None, None, id="the same name with another UID is another run"),
        pytest.param("uid-web", "ml/web", "uid-web", "serve", None, id="a ReplicaSet counts as its Deployment"),
        pytest.param("uid-t0", "ml/train", "job-1", "research", "ada", id="a Job's first pod is of the gang's run"),
        pytest.param("uid-t1", "ml/train", "job-1", "research", "ada", id="a Job's second pod is of the same run"),
        pytest.param("uid-ba", "ml/bare", "uid-ba", None, None, id="a bare pod is its own job"),
    ],
)
def test_owner(
    held: dict[str, dict[str, Any]], uid: str, job_id: str, run_key: str, queue: str | None, user: str | None
) -> None:
    row = held[uid]

    assert (job_id, run_key, queue, user) == tuple(row[k] for k in ("job_id", "run_key", "queue", "user_name"))


@pytest.mark.parametrize(
    ("key", "profile", "count"),
    [
        pytest.param("uid-t0", None, 8, id="whole GPUs have no profile"),
        pytest.param("uid-mi1g.10gb", "1g.10gb", 2, id="mixed strategy names the profile in the resource"),
        pytest.param("uid-mi1g.10gb+me", "1g.10gb+me", 1, id=".me is a profile of its own, printed +me"),
        pytest.param("uid-si1g.5gb", "1g.5gb", 1, id="on a single-strategy node one GPU is one slice"),
        pytest.param("uid-in", None, 4, id="the largest init container outweighs what runs together"),
    ],
)
def test_devices(held: dict[str, dict[str, Any]], key: str, profile: str | None, count: int) -> None:

    assert (profile, count) == (held[key]["profile"], held[key]["device_count"])


def test_evidence_is_the_latest_time_in_the_status() -> None:
    items = json.loads((DATA / "pods.json").read_text())["items"]
    [row] = claim_rows(next(item for item in items if item["metadata"]["uid"] == "uid-re"))

    assert at("10:00:00") == row["evidence_us"]


def test_pods_of_a_waiting_gang_are_one_request(tables: dict[str, list[dict[str, Any]]]) -> None:
    wanted = ("job_id", "submit_us", "start_us", "device_count", "node_count", "reason")

    assert [("ml/big", at("11:00:00"), None, 16, 2, "Unschedulable")] == [
        tuple(row.get(name) for name in wanted) for row in tables["pending"]
    ]


@pytest.mark.parametrize(
    ("inits", "mains", "expected"),
    [
        pytest.param([], [1, 1], 2, id="containers add up"),
        pytest.param([(2, False)], [1, 1], 2, id="an init container of the same size adds nothing"),
        pytest.param([(3, False)], [1, 1], 3, id="a larger init container decides"),
        pytest.param([(1, True)], [1, 1], 3, id="a sidecar is added to the containers"),
        pytest.param([(2, True), (3, False)], [1], 5, id="an init container runs beside the sidecars before it"),
        pytest.param([(3, False), (2, True)], [1], 3, id="a sidecar started later does not run beside it"),
    ],
)
def test_init_container_rule(inits: list[tuple[int, bool]], mains: list[int], expected: int) -> None:
    def container(count: int, always: bool = False) -> dict[str, Any]:
        policy = {"restartPolicy": "Always"} if always else {}
        return {"resources": {"limits": {"nvidia.com/gpu": str(count)}}} | policy

    spec = {"initContainers": [container(*i) for i in inits], "containers": [container(m) for m in mains]}

    assert {"nvidia.com/gpu": expected} == gpu_resources({"spec": spec})


@pytest.mark.parametrize(
    ("resource", "profile"),
    [
        ("nvidia.com/gpu", None),
        ("nvidia.com/gpu.shared", None),
        ("nvidia.com/mig-3g.40gb", "3g.40gb"),
        ("nvidia.com/mig-1g.10gb.me", "1g.10gb+me"),
        ("nvidia.com/mig-1g.5gb.shared", "1g.5gb"),
        ("nvidia.com/mig-1c.3g.40gb", "1c.3g.40gb"),
    ],
)
def test_profile_of_a_resource(resource: str, profile: str | None) -> None:

    assert profile == profile_of(resource)


def _bare() -> dict[str, Any]:
    pods = json.loads((DATA / "pods.json").read_text())["items"]
    return next(pod for pod in pods if pod["metadata"]["name"] == "bare")


def test_device_ids_in_the_status_are_kept() -> None:
    pod = _bare()
    listed = [{"resourceID": f"{UUID}a1"}, {"resourceID": f"{UUID}a2::3"}]
    pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"] = [
        {"name": "nvidia.com/gpu", "resources": listed}
    ]

    assert [f"{UUID}a1,{UUID}a2"] == [row["gpus"] for row in claim_rows(pod)]


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param({"hami.io/devices": f"{UUID}a1,NVIDIA,1"}, id="fewer ids than devices"),
        pytest.param(
            {"kubectl.kubernetes.io/last-applied-configuration": f"{UUID}a1 {UUID}a2"}, id="a wish, not an answer"
        ),
    ],
)
def test_doubtful_device_ids_stay_unknown(annotation: dict[str, str]) -> None:
    pod = _bare()
    pod["metadata"]["annotations"] = annotation

    assert [None] == [row["gpus"] for row in claim_rows(pod)]


@pytest.mark.parametrize(
    ("kind", "name", "labels", "job_id", "run_key"),
    [
        pytest.param("ReplicaSet", "solo-1", {}, "ml/solo-1", "u", id="a ReplicaSet without a template hash keeps its name"),
        pytest.param("Job", "js-w-0", {"jobset.sigs.k8s.io/jobset-name": "js"}, "ml/js", "o", id="a JobSet is the workload"),
        pytest.param("RayCluster", "rj-x", {"ray.io/originated-from-cr-name": "rj"}, "ml/rj", "o", id="a RayJob is the workload"),
        pytest.param("PyTorchJob", "ddp", {}, "ml/ddp", "o", id="a PyTorchJob is a gang"),
    ],
)  # fmt: skip
def test_workload(kind: str, name: str, labels: dict[str, str], job_id: str, run_key: str) -> None:
    owner = {"kind": kind, "name": name, "uid": "o", "controller": True}
    pod = {"metadata": {"name": "p", "namespace": "ml", "uid": "u", "labels": labels, "ownerReferences": [owner]}}

    assert (job_id, run_key) == (owner_of(pod).job_id, owner_of(pod).run_key)


def _ended(phase: str = "Failed", **status: Any) -> dict[str, Any]:
    """A pod of one GPU that ran for an hour."""
    spell = {"terminated": {"startedAt": "2026-11-02T08:00:00Z", "finishedAt": "2026-11-02T09:00:00Z"}}
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    return {
        "metadata": {"name": "p", "namespace": "ml", "uid": "u", "creationTimestamp": "2026-11-02T08:00:00Z"},
        "spec": {"nodeName": "n1", "containers": [{"name": "m", "resources": resources}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "m", "state": spell}]} | status,
    }


def _deleted(pod: dict[str, Any], at_: str) -> dict[str, Any]:
    """The same pod, deleted with a grace period of 30 seconds that ends at this time."""
    return pod | {"metadata": pod["metadata"] | {"deletionTimestamp": at_, "deletionGracePeriodSeconds": 30}}


OOM = {
    "terminated": {
        "startedAt": "2026-11-02T08:00:00Z", "finishedAt": "2026-11-02T09:00:00Z", "reason": "OOMKilled", "exitCode": 137,
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        pytest.param(_ended("Succeeded", conditions=[{"type": "DisruptionTarget", "status": "True"}]), "Succeeded", id="done before it was taken away"),
        pytest.param(_ended(), "Failed", id="failed by itself"),
        pytest.param(_ended(conditions=[{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]), "Failed", id="spared"),
        pytest.param(_ended(conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]), "Preempted", id="another pod took its place"),
        pytest.param(_ended(conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]), "EvictionByEvictionAPI", id="a drained node"),
        pytest.param(_ended(reason="Evicted"), "Evicted", id="the kubelet was short of memory"),
        pytest.param(_deleted(_ended(), "2026-11-02T09:00:20Z"), "Deleted", id="stopped by a request to delete it"),
        pytest.param(_deleted(_ended(), "2026-11-02T11:00:00Z"), "Failed", id="failed hours before it was deleted"),
        pytest.param(_deleted(_ended(reason="Evicted"), "2026-11-02T09:00:20Z"), "Evicted", id="evicted, then deleted"),
        pytest.param(_ended(containerStatuses=[{"name": "m", "state": OOM}]), "OOMKilled", id="the container ran out of memory"),
        pytest.param(_ended(reason="DeadlineExceeded"), "DeadlineExceeded", id="the deadline of its job"),
        pytest.param(_ended(reason="Terminated"), "Terminated", id="the node was shut down: a spot instance reclaimed"),
    ],
)  # fmt: skip
def test_how_a_pod_ended(pod: dict[str, Any], state: str) -> None:

    assert [(state, at("09:00:00"))] == [(row["state"], row["end_us"]) for row in claim_rows(pod)]


def test_a_pod_that_runs_on_while_it_is_to_be_preempted_still_runs() -> None:
    pod = _ended(
        "Running", conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    )
    pod["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": "2026-11-02T08:00:00Z"}}

    assert [("Running", None)] == [(row["state"], row["end_us"]) for row in claim_rows(pod)]


PULLING = {"waiting": {"reason": "ContainerCreating"}}
NO_IMAGE = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
LOOPS = {"waiting": {"reason": "CrashLoopBackOff"}}
RUNS = {"running": {"startedAt": "2026-11-02T10:00:00Z"}}


def spell(end: str, code: int, **more: str) -> Json:
    over = {"startedAt": "2026-11-02T09:00:00Z", "finishedAt": f"2026-11-02T{end}Z", "exitCode": code}
    return {"terminated": over | more}


def container(name: str, state: Json, restarts: int = 0, last: Json | None = None) -> Json:
    return {"name": name, "state": state, "restartCount": restarts, "lastState": last or {}}


def with_statuses(phase: str, *statuses: Json, init: tuple[Json, ...] = (), gpus: tuple[str, ...] = ("m",)) -> Json:
    """A pod with a container that asks for a GPU by each name in `gpus`, and one that asks for none."""
    pod = _ended(
        phase, startTime="2026-11-02T08:00:05Z", containerStatuses=list(statuses), initContainerStatuses=list(init)
    )
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    pod["spec"]["containers"] = [*({"name": name, "resources": limits} for name in gpus), {"name": "side"}]
    return pod


OFTEN = container("m", LOOPS, 9, spell("09:59:00", 1))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(with_statuses("Pending", container("m", PULLING)), None, id="pulls its image"),
        pytest.param(with_statuses("Pending", container("m", {})), None, id="was just bound"),
        pytest.param(with_statuses("Running", container("m", RUNS, 1, spell("09:59:00", 1))), "Running", id="restarted once"),
        pytest.param(with_statuses("Running", container("m", RUNS), container("side", LOOPS, 50, spell("09:59:00", 1))), "Running",
                     id="another container than the one with GPUs fails"),
        pytest.param(with_statuses("Running", container("m", RUNS), container("n", LOOPS, 50, spell("09:59:00", 1)), gpus=("m", "n")),
                     "Running", id="one of two containers with GPUs fails"),
        pytest.param(with_statuses("Running", container("m", RUNS, 50, spell("09:59:00", 0))), "Running", id="ends well and often"),
        pytest.param(with_statuses("Pending", container("m", NO_IMAGE)), "ImagePullBackOff", id="no image"),
        pytest.param(with_statuses("Pending", container("m", {"waiting": {"reason": "CreateContainerConfigError"}})),
                     "CreateContainerConfigError", id="a secret is missing"),
        pytest.param(with_statuses("Pending", container("m", {"waiting": {"reason": "PodInitializing"}}), init=(container("i", NO_IMAGE),)),
                     "ImagePullBackOff", id="no image of an init container"),
        pytest.param(with_statuses("Running", OFTEN), "CrashLoopBackOff", id="fails again and again"),
        pytest.param(with_statuses("Running", container("m", LOOPS, 1, spell("09:59:00", 1))), "CrashLoopBackOff", id="failed once now"),
    ],
)  # fmt: skip
def test_why_a_pod_with_gpus_does_not_run(pod: Json, expected: str | None) -> None:

    assert ([] if expected is None else [expected]) == [row["state"] for row in claim_rows(pod)]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(with_statuses("Running", container("m", LOOPS, 2, spell("09:59:00", 1))), {}, id="twice"),
        pytest.param(with_statuses("Running", container("m", RUNS, 50, spell("09:59:00", 0))), {}, id="without an error"),
        pytest.param(with_statuses("Running", container("m", RUNS), container("n", LOOPS, 50, spell("09:59:00", 1)), gpus=("m", "n")), {},
                     id="another one with GPUs runs on"),
        pytest.param(with_statuses("Running", OFTEN), {"restarts": "9", "last-exit": "exit code 1"}, id="with an error"),
        pytest.param(with_statuses("Running", container("m", RUNS, 12, spell("09:59:00", 137, reason="OOMKilled"))),
                     {"restarts": "12", "last-exit": "OOMKilled"}, id="runs just now"),
    ],
)  # fmt: skip
def test_restarts_are_kept_where_they_tell_of_failures(pod: Json, expected: dict[str, str]) -> None:
    (row,) = claim_rows(pod)

    labels = json.loads(row["labels"] or "{}")
    assert expected == {key.removeprefix("gpuwatch.io/"): value for key, value in labels.items()}
    assert at("08:00:05") == row["start_us"]


def test_whole_and_shared_gpus_of_one_pod_are_one_claim() -> None:
    """Attribution counts devices of one kind on a node once."""
    pod = _ended()
    pod["spec"]["containers"].append({"name": "s", "resources": {"limits": {"nvidia.com/gpu.shared": "1"}}})

    assert [(None, 2)] == [(row["profile"], row["device_count"]) for row in claim_rows(pod)]


# Dumps without metrics


def running(name: str, gpus: int = 1, **status: object) -> Json:
    item = pod_of(name, gpus)
    item["status"] = {"phase": "Running", **status}
    return item


def pod_of(name: str, gpus: int, created: str = "2026-11-02T08:00:00Z", **metadata: object) -> Json:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": name, "creationTimestamp": created, **metadata},
        "spec": {"nodeName": "n1", "containers": [{"name": "x", "resources": {"limits": limits}}]},
    }


def open_claims(*items: Json) -> list[tuple[str, str, str]]:
    """Pod, start and last evidence of the open claims of a dump."""
    tables = parse_objects(json.dumps({"kind": "List", "items": items}), Source("f", "c1"), Rejects())
    return [
        (r["pod"], rfc3339(r["start_us"]), rfc3339(r["evidence_us"])) for r in tables["claim"] if r["end_us"] is None
    ]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod_of("web", 0, "2026-11-02T12:00:00Z"), id="a younger pod without GPUs"),
        pytest.param(running("web", 0, startTime="2026-11-02T12:00:00Z"), id="its start"),
        pytest.param(
            running("web", 0, conditions=[{"type": "Ready", "lastTransitionTime": "2026-11-02T12:00:00Z"}]),
            id="its readiness",
        ),
        pytest.param(
            pod_of("web", 0, managedFields=[{"manager": "kubelet", "time": "2026-11-02T12:00:00Z"}]),
            id="its last write",
        ),
    ],
)
def test_a_running_pod_is_held_up_to_the_time_of_its_dump(other: Json) -> None:
    """Without metrics nothing else shows how long: the newest time of any pod is that of the dump."""
    known = running("a", startTime="2026-11-02T08:00:10Z")

    assert [("a", "2026-11-02T08:00:10Z", "2026-11-02T12:00:00Z")] == open_claims(known, other)


@pytest.mark.parametrize("text", ["9999-99-99T99:99:99Z", "2026-12-32T00:00:00Z", "2027-02-30T00:00:00Z"])
def test_a_time_that_is_none_does_not_date_a_dump(text: str) -> None:
    known, other = running("a", startTime="2026-11-02T08:00:10Z"), running("web", 0, startTime=text)

    assert [("a", "2026-11-02T08:00:10Z", "2026-11-02T08:00:10Z")] == open_claims(known, other)


def test_a_running_pod_without_times_in_its_status_holds_from_its_creation() -> None:
    other = pod_of("web", 0, "2026-11-02T12:00:00Z")

    assert [("a", "2026-11-02T08:00:00Z", "2026-11-02T12:00:00Z")] == open_claims(running("a"), other)
