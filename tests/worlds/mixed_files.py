"""The files that schedulers and exporters would leave of a mixed fleet, each in its own format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gpuwatch.core.clock import SECOND_US, rfc3339
from tests.worlds.mixed_fleet import Device, Fleet, Spans
from tests.worlds.world import H100, HOUR, T0_US

Json = dict[str, Any]
STEP_S = 60


class File(NamedTuple):
    """What is imported at once."""

    kind: str
    cluster: str
    path: Path


def at(seconds: int) -> str:
    return rfc3339(T0_US + seconds * SECOND_US)


def metrics(fleet: Fleet, cluster: str, labelled: bool) -> str:
    """What exporters said every minute, with the owners they knew."""
    lines: dict[str, list[str]] = {"GR_ENGINE_ACTIVE": [], "SM_ACTIVE": []}
    for device in fleet.devices:
        if device.cluster != cluster:
            continue
        for second in range(STEP_S // 2, HOUR, STEP_S):
            labels = {
                "gpu": str(device.number),
                "UUID": device.gpu,
                "modelName": H100,
                "Hostname": device.node,
                **({"GPU_I_ID": str(device.gi), "GPU_I_PROFILE": device.profile} if device.profile else {}),
            }
            for hold in fleet.holds:
                if labelled and hold.device == device and hold.start <= second < hold.end:
                    labels |= dict(hold.label)
            text = ",".join(f'{key}="{value}"' for key, value in labels.items())
            for name, entry in lines.items():
                entry.append(f"DCGM_FI_PROF_{name}{{{text}}} 0.9 {(T0_US // SECOND_US) + second}")
    blocks = [f"# TYPE DCGM_FI_PROF_{name} gauge\n" + "\n".join(entry) for name, entry in lines.items()]
    return "\n".join([*blocks, "# EOF\n"])


def k8s_node(name: str, labels: Json, **devices: int) -> Json:
    amounts = {f"nvidia.com/{key}": str(count) for key, count in devices.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"} | labels},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(0), "lastHeartbeatTime": at(HOUR)}],
        },
    }  # fmt: skip


def k8s_pod(
    name: str,
    node: str,
    start: int,
    end: int,
    limits: Json,
    owner: tuple[str, str, str] | None = None,
    namespace: str = "ml",
    **spec: Any,
) -> Json:
    metadata: Json = {
        "namespace": namespace,
        "name": name,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": at(start),
    }
    if owner:
        version, kind, of = owner
        metadata |= {
            "ownerReferences": [
                {"apiVersion": version, "kind": kind, "name": of, "uid": f"uid-of-{of}", "controller": True}
            ]
        }
    ran = {"terminated": {"startedAt": at(start), "finishedAt": at(end), "exitCode": 0}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [{"name": "m", "resources": {"limits": limits}}]} | spec,
        "status": {"phase": "Succeeded", "containerStatuses": [{"name": "m", "state": ran}]},
    }


def kubernetes(spans: Spans) -> Iterator[tuple[str, list[Json]]]:
    """Files of objects: nodes, pods, Kueue's, those of resource claims, and Ray's."""
    yield (
        "nodes",
        [
            k8s_node("kw", {}, gpu=2),
            k8s_node("km", {"nvidia.com/mig.strategy": "mixed"}, **{"gpu": 0, "mig-1g.10gb": 2, "mig-3g.40gb": 1}),
            k8s_node(
                "kt",
                {
                    "nvidia.com/gpu.sharing-strategy": "time-slicing",
                    "nvidia.com/gpu.replicas": "4",
                    "nvidia.com/gpu.count": "1",
                },
                gpu=4,
            ),
            k8s_node("kd", {}, gpu=2),
            k8s_node("kr", {}, gpu=2),
            k8s_node("ks", {}, gpu=2),
        ],
    )
    one, two = {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}
    yield (
        "pods",
        [
            k8s_pod("train-0", "kw", *spans["train"], two, ("batch/v1", "Job", "train")),
            k8s_pod("mig-a", "km", *spans["mig-a"], {"nvidia.com/mig-1g.10gb": "1"}),
            k8s_pod("mig-b", "km", *spans["mig-b"], {"nvidia.com/mig-3g.40gb": "1"}),
            k8s_pod("train-0", "kd", *spans["other"], one, namespace="other"),
            k8s_pod("no-gpu", "kw", 0, HOUR, {"cpu": "4"}),
            k8s_pod("slice-a", "kt", *spans["slice-a"], one),
            k8s_pod("slice-b", "kt", *spans["slice-b"], one),
            k8s_pod("rays-head-0", "kr", *spans["rays"], two, ("ray.io/v1", "RayCluster", "rays")),
            # As Slinky's chart does, the pod and its host have different names.
            k8s_pod(
                "slurm-worker-slurmd-0",
                "ks",
                0,
                HOUR,
                two,
                ("apps/v1", "StatefulSet", "slurmd"),
                "slinky",
                hostname="slurmd-0",
            ),
        ],
    )
    yield "drawn", [
        k8s_pod(
            "drawn", "kd", *spans["drawn"], {}, resourceClaims=[{"name": "c", "resourceClaimName": "c"}]
        ),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": "ml", "name": "c", "uid": "uid-c"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
            "status": {
                "allocation": {
                    "devices": {
                        "results": [{"request": "r", "driver": "gpu.nvidia.com", "pool": "kd", "device": "gpu-1"}]
                    }
                },
                "reservedFor": [{"resource": "pods", "name": "drawn", "uid": "uid-ml-drawn"}],
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "kd-1", "uid": "uid-kd-1"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": "kd",
                "pool": {"name": "kd", "generation": 1},
                "devices": [
                    {
                        "name": f"gpu-{index}",
                        "attributes": {
                            "type": {"string": "gpu"},
                            "uuid": {"string": Device("k1", "kd", index).gpu},
                            "productName": {"string": H100},
                        },
                    }
                    for index in range(2)
                ],
            },
        },
    ]  # fmt: skip
    yield "kueue", [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": {
                "namespace": "ml",
                "name": "job-train",
                "uid": "uid-wl",
                "creationTimestamp": at(100),
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-of-train", "controller": True}],
            },
            "spec": {
                "queueName": "q",
                "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "m", "resources": {"requests": two}}]}}}],
            },
            "status": {"conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": at(290), "reason": "Admitted"}]},
        }
    ]  # fmt: skip
    yield (
        "raycluster",
        [
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "metadata": {"namespace": "ml", "name": "rays", "uid": "uid-of-rays", "creationTimestamp": at(0)},
                "spec": {"headGroupSpec": {"template": {"spec": {"containers": [{"resources": {"limits": two}}]}}}},
                "status": {"state": "ready"},
            }
        ],
    )


def ray(host: str, gpus: int, *jobs: tuple[str, str | None, list[tuple[float, int, int]]]) -> Json:
    """Answers of one head on one host, by file name: jobs with their team and their actors (GPUs, start, end)."""
    node_id = host.encode().hex().ljust(56, "0")
    listed: Json = {"nodes": [], "jobs": [], "actors": {}}
    listed["nodes"] = [
        {
            "node_id": node_id,
            "node_ip": "192.0.2.7",
            "state": "ALIVE",
            "resources_total": {"CPU": 4.0, "GPU": float(gpus)},
            "node_name": host,
            "is_head_node": True,
            "start_time_ms": T0_US // 1000,
            "end_time_ms": 0,
        }
    ]
    number = 0
    for place, (key, team, actors) in enumerate(jobs, start=2):
        driver = f"{place:02d}000000"
        start, end = min(a[1] for a in actors), max(a[2] for a in actors)
        listed["jobs"].append(
            {
                "type": "SUBMISSION",
                "job_id": driver,
                "submission_id": key,
                "status": "SUCCEEDED",
                "entrypoint": "x",
                "start_time": T0_US // 1000 + start * 1000,
                "end_time": T0_US // 1000 + end * 1000,
                "metadata": {"gpuwatch.io/team": team} if team else {},
                "message": None,
            }
        )
        for amount, began, ended in actors:
            number += 1
            listed["actors"][f"{number:032x}"] = {
                "actorId": f"{number:032x}",
                "jobId": driver,
                "className": "W",
                "state": "DEAD",
                "name": "",
                "startTime": T0_US // 1000 + began * 1000,
                "endTime": T0_US // 1000 + ended * 1000,
                "address": {"nodeId": node_id, "workerId": f"{number:056x}"},
                "requiredResources": {"GPU": amount},
            }
    return {
        "version": {"version": "4", "ray_version": "2.60.0", "session_name": f"session_{host}"},
        "nodes": {"result": True, "data": {"result": {"result": listed["nodes"], "total": 1}}},
        "jobs": listed["jobs"],
        "actors": {"result": True, "data": {"actors": listed["actors"]}},
    }


SACCT = "JobID|JobIDRaw|User|Account|Partition|QOS|JobName|State|Submit|Start|End|ElapsedRaw|Suspended|NNodes|NodeList|AllocTRES"


def sacct(*jobs: tuple[str, int, str, int, int, str, str, str]) -> str:
    """Printed id, raw id, account, start, end, state, node, TRES."""
    lines = [SACCT]
    for printed, raw, account, start, end, state, node, tres in jobs:
        times = "|".join(at(s)[:19] for s in (0, start, end))
        lines.append(
            f"{printed}|{raw}|ann|{account}|batch|normal|x|{state}|{times}|{end - start}|00:00:00|1|{node}|{tres}"
        )
        lines.append(lines[-1].replace(f"{printed}|{raw}|", f"{printed}.batch|{raw}.batch|", 1))
    return "\n".join(lines) + "\n"


def scontrol_job(raw: int, account: str, start: int, end: int, node: str, count: int, indexes: str) -> str:
    times = [at(s)[:19] for s in (0, start, end)]
    length = f"{(end - start) // 3600:02d}:{(end - start) // 60 % 60:02d}:{(end - start) % 60:02d}"
    return f"""JobId={raw} JobName=x
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   Priority=1 Nice=0 Account={account} QOS=normal
   JobState=COMPLETED Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime={length} TimeLimit=1-00:00:00 TimeMin=N/A
   SubmitTime={times[0]} EligibleTime={times[0]}
   StartTime={times[1]} EndTime={times[2]} Deadline=N/A
   Partition=batch AllocNode:Sid=login:1
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList={node}
   NumNodes=1 NumCPUs=4 NumTasks=1 CPUs/Task=4 ReqB:S:C:T=0:0:*:*
   TRES=cpu=4,node=1,billing=4,gres/gpu={count}
   JOB_GRES=gpu:{count}
     Nodes={node} CPU_IDs=0-3 Mem=0 GRES=gpu:{count}(IDX:{indexes})
   MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0

"""


def files(fleet: Fleet, spans: Spans, folder: Path, *, labels: bool = True) -> list[File]:
    """Everything as the schedulers and exporters would leave it, a cluster's word in several files."""
    made: list[File] = []

    def write(kind: str, cluster: str, name: str, text: str) -> None:
        path = folder / cluster / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        made.append(File(kind, cluster, path))

    def write_ray(cluster: str, answers: Json) -> None:
        host = answers["nodes"]["data"]["result"]["result"][0]["node_name"]
        for name, value in answers.items():
            path = folder / cluster / host / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value))
        made.append(File("ray-json", cluster, folder / cluster / host))

    for cluster in ("k1", "s1", "r1"):
        write("openmetrics", cluster, "metrics.prom", metrics(fleet, cluster, labels))
    for name, items in kubernetes(spans):
        write("k8s-json", "k1", f"{name}.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    write_ray(
        "k1",
        ray(
            "rays-head-0",
            2,
            ("tune", None, [(1, *spans["k1-tune"])]),
            ("serve", "serving", [(2, *spans["serve"])]),
            ("quarter", None, [(0.25, *spans["k1-quarter"])]),
        ),
    )
    inside = sacct(
        ("501", 501, "vision", *spans["501"], "COMPLETED", "slurmd-0", "gres/gpu=2"),
        ("502", 502, "nlp", *spans["502"], "COMPLETED", "slurmd-0", "gres/gpu=1"),
    )
    write("sacct", "k1", "sacct.txt", inside)
    result = scontrol_job(501, "vision", *spans["501"], "slurmd-0", 2, "0-1") + scontrol_job(
        502, "nlp", *spans["502"], "slurmd-0", 1, "1"
    )
    write("scontrol", "k1", "scontrol_job.txt", result)
    write(
        "scontrol",
        "k1",
        "scontrol_node.txt",
        "NodeName=slurmd-0 Arch=x86_64\n   Gres=gpu:2\n   State=IDLE\n   Partitions=batch\n",
    )

    ended = sacct(
        ("100_0", 100, "vision", *spans["100"], "COMPLETED", "sa", "gres/gpu=1,gres/gpu:h100=1"),
        ("100_1", 101, "vision", *spans["101"], "FAILED", "sa", "gres/gpu=1,gres/gpu:h100=1"),
        ("200", 200, "nlp", *spans["200"], "REQUEUED", "sa", "gres/gpu=1"),
        ("200", 200, "nlp", *spans["200-again"], "COMPLETED", "sa", "gres/gpu=1"),
        ("201", 201, "vision", *spans["201"], "TIMEOUT", "sa", "gres/gpu=1"),
        ("501", 501, "nlp", *spans["s1-501"], "COMPLETED", "sa", "gres/gpu=1"),
        ("700", 700, "vision", 0, HOUR, "COMPLETED", "sa", "cpu=4,mem=8G,node=1"),
        ("300+0", 300, "vision", *spans["het"], "COMPLETED", "sa", "gres/gpu=1"),
        ("300+1", 301, "vision", *spans["het"], "COMPLETED", "sa", "gres/gpu=1"),
        ("400", 400, "nlp", *spans["400"], "COMPLETED", "sb", "gres/gpu:h100_1g.10gb=1,gres/gpu=1"),
        ("600", 600, "vision", *spans["600"], "COMPLETED", "sc", "gres/gpu:h100=2,gres/gpu=2"),
    )
    write("sacct", "s1", "sacct.txt", ended)
    nodes = [("sa", "gpu:h100:4(S:0-1)"), ("sb", "gpu:h100_1g.10gb:1"), ("sc", "gpu:h100:2")]
    text = "".join(
        f"NodeName={name} Arch=x86_64\n   Gres={gres}\n   State=IDLE\n   Partitions=batch\n\n" for name, gres in nodes
    )
    write("scontrol", "s1", "scontrol_node.txt", text)
    write_ray("s1", ray("sc", 2, ("tune", None, [(2, *spans["s1-tune"])])))

    small = [(0.5, *spans["small"]), (0.5, *spans["small"])]
    write_ray(
        "r1",
        ray(
            "ra",
            4,
            ("batch", "batch", [(4, *spans["batch"])]),
            ("small", None, small),
            ("quarter", None, [(0.25, *spans["quarter"])]),
        ),
    )
    write_ray("r1", ray("rb", 1, ("batch", "batch", [(1, *spans["batch-b"])])))
    return made
