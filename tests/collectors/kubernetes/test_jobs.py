"""Jobs as workloads: how large, what they ask for, how far they got."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.files import parse_objects
from gpuwatch.collectors.kubernetes.kinds import find_kind
from gpuwatch.collectors.kubernetes.owner import owner_of
from gpuwatch.collectors.shared.json_fields import Malformed
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.model import Rejects, Source

Json = dict[str, Any]
CREATED, STARTED, ENDED = (f"2026-11-02T{clock}Z" for clock in ("08:00:00", "08:05:00", "09:00:00"))


def template(gpus: int = 1, resource: str = "nvidia.com/gpu", **spec: Any) -> Json:
    limits = {resource: str(gpus)} if gpus else {"cpu": "1"}
    return {"spec": {"containers": [{"name": "m", "resources": {"limits": limits}}]} | spec}


def made(kind: str, version: str, spec: Json, status: Json | None = None, **metadata: Any) -> Json:
    named = {"name": "train", "namespace": "lab", "uid": "u1", "creationTimestamp": CREATED}
    return {"apiVersion": version, "kind": kind, "metadata": named | metadata, "spec": spec, "status": status or {}}


def condition(kind: str, **words: str) -> Json:
    return {"type": kind, "status": "True", "lastTransitionTime": ENDED} | words


def job(status: Json | None = None, gpus: int = 1, **spec: Any) -> Json:
    return made("Job", "batch/v1", {"parallelism": 4, "completions": 4, "template": template(gpus)} | spec, status)


def row_of(item: Json) -> Json | None:
    known = find_kind(item)
    assert known is not None
    rows = list(known.rows(item, 5))
    assert ["workload"] * len(rows) == [table for table, _ in rows]
    return rows[0][1] if rows else None


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(job(gpus=0), id="a job without GPUs"),
        pytest.param(
            job() | {"metadata": {"name": "j", "uid": "u", "ownerReferences": [{"kind": "JobSet", "controller": True}]}},
            id="a job of a JobSet is part of it",
        ),
        pytest.param(
            job() | {"metadata": {"name": "j", "uid": "u", "ownerReferences": [{"kind": "MPIJob", "controller": True}]}},
            id="the launcher of an MPIJob is part of it",
        ),
        pytest.param(made("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": {"Worker": {"template": template(0)}}}), id="training without GPUs"),
    ],
)  # fmt: skip
def test_no_workload(item: Json) -> None:

    assert row_of(item) is None


def test_a_job_of_a_cron_job_is_a_workload_of_its_own() -> None:
    owner = {"kind": "CronJob", "name": "nightly", "uid": "c", "controller": True}
    row = row_of(made("Job", "batch/v1", {"template": template()}, ownerReferences=[owner]))

    assert row is not None
    assert ("lab/train", 1, 1) == (row["job_id"], row["pod_count"], row["device_count"])


@pytest.mark.parametrize(
    ("item", "pods", "devices", "profile"),
    [
        pytest.param(job(), 4, 4, None, id="as many pods at once as are parallel"),
        pytest.param(job(completions=2), 2, 2, None, id="no more than are to complete"),
        pytest.param(job(completions=None, parallelism=None), 1, 1, None, id="one where nothing is said"),
        pytest.param(job(template=template(2, "nvidia.com/mig-1g.10gb")), 4, 8, "1g.10gb", id="slices"),
        pytest.param(job(template=template(0, resourceClaims=[{"name": "g"}])), 4, None, None, id="DRA: the template does not say how many"),
        pytest.param(
            made("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [
                {"name": "leader", "template": {"spec": {"template": template(0)}}},
                {"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 4, "template": template(8)}}},
            ]}), 9, 64, None, id="a JobSet is its replicas of jobs",
        ),
        pytest.param(
            made("MPIJob", "kubeflow.org/v2beta1", {"mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": template(0)}, "Worker": {"replicas": 2, "template": template(8)}}}),
            3, 16, None, id="an MPIJob's launcher needs none",
        ),
        pytest.param(
            made("TFJob", "kubeflow.org/v1", {"tfReplicaSpecs": {
                "Chief": {"template": template(1)}, "Worker": {"replicas": 3, "template": template(2, "nvidia.com/mig-1g.10gb")}}}),
            4, 7, None, id="GPUs and slices: the detail tells them apart",
        ),
        pytest.param(
            made("TrainJob", "trainer.kubeflow.org/v1alpha1", {"trainer": {
                "numNodes": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}}}), 4, 32, None, id="a TrainJob says it by node"),
        pytest.param(made("TrainJob", "trainer.kubeflow.org/v1alpha1", {}), None, None, None, id="a TrainJob leaves it to its runtime"),
    ],
)  # fmt: skip
def test_size(item: Json, pods: int | None, devices: int | None, profile: str | None) -> None:
    row = row_of(item)

    assert row is not None
    assert (pods, devices, profile) == (row["pod_count"], row["device_count"], row["profile"])


def test_gpus_and_slices_are_distinguished() -> None:
    specs = {"Chief": {"template": template(1)}, "Worker": {"template": template(2, "nvidia.com/mig-1g.10gb")}}
    row = row_of(made("TFJob", "kubeflow.org/v1", {"tfReplicaSpecs": specs}))

    assert row is not None
    assert {"devices": {"": 1, "1g.10gb": 2}, "roles": {"Chief": 1, "Worker": 1}} == json.loads(row["detail"])


@pytest.mark.parametrize(
    ("item", "state", "reason", "start", "end"),
    [
        pytest.param(job(), "pending", None, None, None, id="made"),
        pytest.param(job(suspend=True), "pending", "Suspended", None, None, id="suspended: it waits"),
        pytest.param(job({"startTime": STARTED, "active": 4}), "running", None, STARTED, None, id="pods run"),
        pytest.param(
            job({"startTime": STARTED, "completionTime": ENDED, "conditions": [condition("Complete", reason="CompletionsReached")]}),
            "finished", "CompletionsReached", STARTED, ENDED, id="complete",
        ),
        pytest.param(
            job({"startTime": STARTED, "conditions": [condition("Failed", reason="BackoffLimitExceeded")]}),
            "finished", "BackoffLimitExceeded", STARTED, ENDED, id="failed: its condition says when",
        ),
        pytest.param(
            made("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": {"Worker": {"template": template()}}},
                 {"startTime": STARTED, "conditions": [condition("Created"), condition("Running")]}),
            "running", None, STARTED, None, id="training",
        ),
        pytest.param(
            made("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": {"Worker": {"template": template()}}, "runPolicy": {"suspend": True}}),
            "pending", "Suspended", None, None, id="training held back",
        ),
        pytest.param(
            made("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [{"template": {"spec": {"template": template()}}}]},
                 {"conditions": [condition("Completed", reason="AllJobsCompleted")]}),
            "finished", "AllJobsCompleted", None, ENDED, id="a JobSet's condition says when",
        ),
    ],
)  # fmt: skip
def test_state(item: Json, state: str, reason: str | None, start: str | None, end: str | None) -> None:
    row = row_of(item)
    times = [parse_rfc3339(t) if t else None for t in (start, end)]

    assert row is not None
    assert (state, reason, *times) == (row["state"], row.get("reason"), row.get("start_us"), row.get("end_us"))


def test_the_gang_its_queue_and_its_priority() -> None:
    gang = {"minAvailable": 3, "queue": "research", "priorityClass": "high"}
    spec = {
        "pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": template()}},
        "runPolicy": {"schedulingPolicy": gang},
    }
    row = row_of(made("PyTorchJob", "kubeflow.org/v1", spec))

    assert row is not None
    assert (4, 3, "research", "high") == tuple(row[k] for k in ("pod_count", "min_count", "queue", "priority_class"))


def test_a_kueue_label_names_the_queue() -> None:
    row = row_of(
        made("Job", "batch/v1", {"template": template(priority=100)}, labels={"kueue.x-k8s.io/queue-name": "team-a"})
    )

    assert row is not None
    assert ("team-a", 100, parse_rfc3339(CREATED)) == (row["queue"], row["priority"], row["submit_us"])


@pytest.mark.parametrize(
    ("owner", "labels", "expected"),
    [
        pytest.param("Job", {}, "lab/train", id="a Job"),
        pytest.param("PyTorchJob", {"training.kubeflow.org/job-name": "train"}, "lab/train", id="a training job"),
        pytest.param(
            "Job", {"jobset.sigs.k8s.io/jobset-name": "train"}, "lab/train", id="a JobSet, or the TrainJob that made it"
        ),
    ],
)
def test_a_workload_has_the_job_id_of_its_pods(owner: str, labels: dict[str, str], expected: str) -> None:
    """So the two tables join."""
    name = "train" if not labels or owner == "PyTorchJob" else "train-worker-0"
    reference = {"kind": owner, "name": name, "uid": "o", "controller": True}
    pod = {"metadata": {"name": "p", "namespace": "lab", "uid": "p", "labels": labels, "ownerReferences": [reference]}}
    row = row_of(job())

    assert row is not None
    assert expected == owner_of(pod).job_id == row["job_id"]


def test_an_mpi_launcher_belongs_to_its_mpi_job() -> None:
    labels = {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/job-role": "launcher"}
    reference = {"kind": "Job", "name": "train-launcher", "uid": "o", "controller": True}
    pod = {"metadata": {"name": "p", "namespace": "lab", "uid": "p", "labels": labels, "ownerReferences": [reference]}}

    assert "lab/train" == owner_of(pod).job_id


def test_files_hold_jobs_too() -> None:
    rejects = Rejects()
    tables = parse_objects(
        json.dumps({"kind": "List", "items": [job()]}), Source("j.json", "c1", observed_us=7), rejects
    )

    assert [("Job", "u1", 7)] == [(row["kind"], row["uid"], row["observed_us"]) for row in tables["workload"]]
    assert {} == rejects.counts


@pytest.mark.parametrize("kind", [[], {}, ["JobSet"], 7])
def test_an_owner_whose_kind_is_no_word_is_refused(kind: object) -> None:
    """Not an error that would stop the source."""
    item = job() | {"metadata": job()["metadata"] | {"ownerReferences": [{"controller": True, "kind": kind}]}}

    with pytest.raises(Malformed):
        row_of(item)
