"""Every scheduler in one fleet, inside of each other too, through files: each GPU-second is somebody's, once.

The oracle below is plain Python: it knows who was put where, and never looks at the files or the store.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpuwatch import cost
from gpuwatch.analyze import analyze
from gpuwatch.clock import SECOND_US, Window, rfc3339
from gpuwatch.ingest import import_paths
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store import Store
from gpuwatch.teams import TeamRule
from tests.world import H100, HOUR, T0_US

Json = dict[str, Any]
STEP_S = 60
SETTINGS = Settings(default_interval_s=STEP_S)
WINDOW = Window(T0_US, T0_US + HOUR * SECOND_US)
NOBODY = "__platform__"
SLICE_SHARE = {"1g.10gb": Fraction(1, 7), "3g.40gb": Fraction(1, 2)}
"""The larger part of a slice: sevenths of the SMs or eighths of the memory."""


class Device(NamedTuple):
    """A GPU, or a MIG slice of one, as an exporter names it."""

    cluster: str
    node: str
    index: int
    gi: int = -1
    profile: str | None = None

    @property
    def gpu(self) -> str:
        words = self.cluster.encode().hex(), self.node.encode().hex()
        return f"GPU-{words[0]:0>8}-0000-0000-{words[1]:0>4}-{self.index:012}"

    @property
    def name(self) -> str:
        return self.gpu if self.gi < 0 else f"{self.gpu}/GI-{self.gi}"

    @property
    def share(self) -> Fraction:
        return SLICE_SHARE[self.profile] if self.profile else Fraction(1)


@dataclass(frozen=True)
class Hold:
    """`job` is on `device` during [start, end) seconds. `depth`: how many schedulers it is inside of."""

    device: Device
    start: int
    end: int
    scheduler: str
    job: str
    team: str
    depth: int = 0
    label: tuple[tuple[str, str], ...] = ()
    """What the exporter says of it."""


@dataclass
class Fleet:
    """What is in the world: devices, and who was on them."""

    devices: list[Device] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)

    def node(self, cluster: str, name: str, gpus: int, *slices: tuple[int, str]) -> list[Device]:
        made = [Device(cluster, name, i) for i in range(gpus)] + [Device(cluster, name, 0, gi, p) for gi, p in slices]
        self.devices += made
        return made

    def hold(self, devices: Sequence[Device], start: int, end: int, who: tuple[str, str, str], **words: Any) -> None:
        self.holds += [Hold(device, start, end, *who, **words) for device in devices]


def a_fleet() -> Fleet:
    """k1 is Kubernetes with Slurm and Ray inside, s1 Slurm with Ray inside, r1 Ray by itself."""
    fleet = Fleet()
    kueue, mig = fleet.node("k1", "kw", 2), fleet.node("k1", "km", 0, (7, "1g.10gb"), (8, "1g.10gb"), (1, "3g.40gb"))
    sliced, drawn = fleet.node("k1", "kt", 1), fleet.node("k1", "kd", 2)
    rays, slurmd = fleet.node("k1", "kr", 2), fleet.node("k1", "ks", 2)

    def pod(name: str, namespace: str = "ml") -> tuple[tuple[str, str], ...]:
        return ("namespace", namespace), ("pod", name)

    fleet.hold(kueue, 300, 2400, ("kubernetes", "ml/train", "ml"), label=pod("train-0"))
    fleet.hold(mig[:1], 600, 1860, ("kubernetes", "ml/mig-a", "ml"), label=pod("mig-a"))
    fleet.hold(mig[2:], 900, 3000, ("kubernetes", "ml/mig-b", "ml"), label=pod("mig-b"))
    fleet.hold(sliced, 120, 1800, ("kubernetes", "ml/slice-a", "ml"))
    fleet.hold(sliced, 600, 2400, ("kubernetes", "ml/slice-b", "ml"))
    fleet.hold(drawn[1:], 600, 2700, ("kubernetes", "ml/drawn", "ml"))
    fleet.hold(rays, 60, 3300, ("kubernetes", "ml/rays", "ml"), label=pod("rays-head-0"))
    fleet.hold(rays[:1], 600, 1200, ("ray", "tune", "ml"), depth=1)
    fleet.hold(rays, 1500, 2100, ("ray", "serve", "serving"), depth=1)
    fleet.hold(slurmd, 0, 3600, ("kubernetes", "slinky/slurmd", "__unallocated__"), label=pod("slurmd-0", "slinky"))
    fleet.hold(slurmd, 900, 1500, ("slurm", "501", "vision"), depth=1)
    fleet.hold(slurmd[1:], 1800, 2400, ("slurm", "502", "nlp"), depth=1)

    whole, cut, big = fleet.node("s1", "sa", 4), fleet.node("s1", "sb", 0, (3, "1g.10gb")), fleet.node("s1", "sc", 2)

    def job(number: int) -> tuple[tuple[str, str], ...]:
        return (("hpc_job", str(number)),)

    fleet.hold(whole[2:3], 300, 1500, ("slurm", "100_0", "vision"), label=job(100))
    fleet.hold(whole[1:2], 360, 1260, ("slurm", "100_1", "vision"), label=job(101))
    fleet.hold(whole[:1], 300, 900, ("slurm", "200", "nlp"), label=job(200))
    fleet.hold(whole[3:], 1500, 2100, ("slurm", "200", "nlp"), label=job(200))
    fleet.hold(whole[:1], 2400, 3300, ("slurm", "300+0", "vision"), label=job(300))
    fleet.hold(whole[1:2], 2400, 3300, ("slurm", "300+1", "vision"), label=job(301))
    fleet.hold(cut, 420, 1680, ("slurm", "400", "nlp"), label=job(400))
    fleet.hold(big, 180, 3480, ("slurm", "600", "vision"), label=job(600))
    fleet.hold(big, 600, 1800, ("ray", "tune", "vision"), depth=1)

    alone = fleet.node("r1", "ra", 4)
    fleet.hold(alone, 300, 1500, ("ray", "batch", "batch"))
    fleet.hold(alone[:1], 1800, 2700, ("ray", "small", "__unallocated__"))
    return fleet


# The oracle -----------------------------------------------------------------------------------------------------------

Owned = tuple[str, int, int, str, Fraction]
"""Device, start, end, "scheduler job" or NOBODY, and how much of the GPU."""


def owned(fleet: Fleet) -> list[Owned]:
    """Who owned how much of every device from when to when: the innermost, several in equal parts."""
    found: list[Owned] = []
    for device in fleet.devices:
        holds = [hold for hold in fleet.holds if hold.device == device]
        edges = sorted({0, HOUR, *(at for hold in holds for at in (hold.start, hold.end))})
        for start, end in zip(edges, edges[1:], strict=False):
            on = [hold for hold in holds if hold.start <= start and hold.end >= end]
            inner = [hold for hold in on if hold.depth == max(h.depth for h in on)]
            names = [f"{hold.scheduler} {hold.job}" for hold in inner] or [NOBODY]
            found += [(device.name, start, end, name, device.share / len(names)) for name in names]
    for gpu in sorted({device.gpu for device in fleet.devices if device.profile}):
        rest = 1 - sum(device.share for device in fleet.devices if device.gpu == gpu)
        found.append((gpu, 0, HOUR, NOBODY, rest))
    return joined(found)


def joined(rows: Sequence[Owned]) -> list[Owned]:
    """Spans that touch and say the same, as one."""
    whole: list[Owned] = []
    for row in sorted(rows, key=lambda r: (r[0], r[3], r[1])):
        last = whole[-1] if whole else None
        if last and (last[0], last[3], last[4], last[2]) == (row[0], row[3], row[4], row[1]):
            whole[-1] = (*last[:2], row[2], *last[3:])
        else:
            whole.append(row)
    return sorted(whole)


def gpu_seconds(fleet: Fleet) -> dict[tuple[str, str, str], Fraction]:
    """By cluster, team and job."""
    teams = {(hold.device.name, f"{hold.scheduler} {hold.job}"): hold.team for hold in fleet.holds}
    clusters = {device.name: device.cluster for device in fleet.devices}
    clusters |= {device.gpu: device.cluster for device in fleet.devices}
    total: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    for device, start, end, who, share in owned(fleet):
        key = clusters[device], teams.get((device, who), NOBODY), who.partition(" ")[2] or NOBODY
        total[key] += share * (end - start)
    return dict(total)


# The files ------------------------------------------------------------------------------------------------------------


class File(NamedTuple):
    """What is imported at once."""

    kind: str
    cluster: str
    path: Path


def at(seconds: int) -> str:
    return rfc3339(T0_US + seconds * SECOND_US)


def metrics(fleet: Fleet, cluster: str) -> str:
    """What exporters said every minute, with the owners they knew."""
    lines: dict[str, list[str]] = {"GR_ENGINE_ACTIVE": [], "SM_ACTIVE": []}
    for device in fleet.devices:
        if device.cluster != cluster:
            continue
        for second in range(STEP_S // 2, HOUR, STEP_S):
            labels = {
                "gpu": str(device.index),
                "UUID": device.gpu,
                "modelName": H100,
                "Hostname": device.node,
                **({"GPU_I_ID": str(device.gi), "GPU_I_PROFILE": device.profile} if device.profile else {}),
            }
            for hold in fleet.holds:
                if hold.device == device and hold.start <= second < hold.end:
                    labels |= dict(hold.label)
            text = ",".join(f'{key}="{value}"' for key, value in labels.items())
            for name, told in lines.items():
                told.append(f"DCGM_FI_PROF_{name}{{{text}}} 0.9 {(T0_US // SECOND_US) + second}")
    blocks = [f"# TYPE DCGM_FI_PROF_{name} gauge\n" + "\n".join(told) for name, told in lines.items()]
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
    metadata: Json = {"namespace": namespace, "name": name, "uid": f"uid-{name}", "creationTimestamp": at(start)}
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


def kubernetes() -> Iterator[tuple[str, list[Json]]]:
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
            k8s_pod("train-0", "kw", 300, 2400, two, ("batch/v1", "Job", "train")),
            k8s_pod("mig-a", "km", 600, 1860, {"nvidia.com/mig-1g.10gb": "1"}),
            k8s_pod("mig-b", "km", 900, 3000, {"nvidia.com/mig-3g.40gb": "1"}),
            k8s_pod("slice-a", "kt", 120, 1800, one),
            k8s_pod("slice-b", "kt", 600, 2400, one),
            k8s_pod("rays-head-0", "kr", 60, 3300, two, ("ray.io/v1", "RayCluster", "rays")),
            k8s_pod("slurmd-0", "ks", 0, HOUR, two, ("apps/v1", "StatefulSet", "slurmd"), "slinky"),
        ],
    )
    yield "drawn", [
        k8s_pod(
            "drawn", "kd", 600, 2700, {}, resourceClaims=[{"name": "c", "resourceClaimName": "c"}]
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
                "reservedFor": [{"resource": "pods", "name": "drawn", "uid": "uid-drawn"}],
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
    length = f"{(end - start) // 3600:02d}:{(end - start) // 60 % 60:02d}:00"
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


def files(fleet: Fleet, folder: Path) -> list[File]:
    """Everything as the schedulers and exporters would leave it, a cluster's word in several files."""
    made: list[File] = []

    def write(kind: str, cluster: str, name: str, text: str) -> None:
        path = folder / cluster / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        made.append(File(kind, cluster, path))

    def write_ray(cluster: str, answers: Json) -> None:
        for name, value in answers.items():
            path = folder / cluster / "ray" / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value))
        made.append(File("ray-json", cluster, folder / cluster / "ray"))

    for cluster in ("k1", "s1", "r1"):
        write("openmetrics", cluster, "metrics.prom", metrics(fleet, cluster))
    for name, items in kubernetes():
        write("k8s-json", "k1", f"{name}.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    write_ray("k1", ray("rays-head-0", 2, ("tune", None, [(1, 600, 1200)]), ("serve", "serving", [(2, 1500, 2100)])))
    inside = sacct(
        ("501", 501, "vision", 900, 1500, "COMPLETED", "slurmd-0", "gres/gpu=2"),
        ("502", 502, "nlp", 1800, 2400, "COMPLETED", "slurmd-0", "gres/gpu=1"),
    )
    write("sacct", "k1", "sacct.txt", inside)
    told = scontrol_job(501, "vision", 900, 1500, "slurmd-0", 2, "0-1") + scontrol_job(
        502, "nlp", 1800, 2400, "slurmd-0", 1, "1"
    )
    write("scontrol", "k1", "scontrol_job.txt", told)
    write(
        "scontrol",
        "k1",
        "scontrol_node.txt",
        "NodeName=slurmd-0 Arch=x86_64\n   Gres=gpu:2\n   State=IDLE\n   Partitions=batch\n",
    )

    ended = sacct(
        ("100_0", 100, "vision", 300, 1500, "COMPLETED", "sa", "gres/gpu=1,gres/gpu:h100=1"),
        ("100_1", 101, "vision", 360, 1260, "FAILED", "sa", "gres/gpu=1,gres/gpu:h100=1"),
        ("200", 200, "nlp", 300, 900, "REQUEUED", "sa", "gres/gpu=1"),
        ("200", 200, "nlp", 1500, 2100, "COMPLETED", "sa", "gres/gpu=1"),
        ("300+0", 300, "vision", 2400, 3300, "COMPLETED", "sa", "gres/gpu=1"),
        ("300+1", 301, "vision", 2400, 3300, "COMPLETED", "sa", "gres/gpu=1"),
        ("400", 400, "nlp", 420, 1680, "COMPLETED", "sb", "gres/gpu:h100_1g.10gb=1,gres/gpu=1"),
        ("600", 600, "vision", 180, 3480, "COMPLETED", "sc", "gres/gpu:h100=2,gres/gpu=2"),
    )
    write("sacct", "s1", "sacct.txt", ended)
    nodes = [("sa", "gpu:h100:4(S:0-1)"), ("sb", "gpu:h100_1g.10gb:1"), ("sc", "gpu:h100:2")]
    text = "".join(
        f"NodeName={name} Arch=x86_64\n   Gres={gres}\n   State=IDLE\n   Partitions=batch\n\n" for name, gres in nodes
    )
    write("scontrol", "s1", "scontrol_node.txt", text)
    write_ray("s1", ray("sc", 2, ("tune", None, [(2, 600, 1800)])))

    small = [(0.5, 1800, 2700), (0.5, 1800, 2700)]
    write_ray("r1", ray("ra", 4, ("batch", "batch", [(4, 300, 1500)]), ("small", None, small)))
    return made


# ----------------------------------------------------------------------------------------------------------------------

TEAMS = [
    TeamRule("account", "vision", "vision"),
    TeamRule("account", "nlp", "nlp"),
    TeamRule("namespace", "ml", "ml"),
]


class Books:
    """A store with what was imported, and its state."""

    def __init__(self) -> None:
        self.store, self.state = Store.open(None, threads=1), State.open("sqlite://")
        self.state.replace_team_rules(TEAMS, "test", "test", 0)

    def take(self, imported: Sequence[File]) -> Books:
        for kind, cluster, path in imported:
            report = import_paths(self.store, self.state, kind, [path], cluster=cluster, now_us=WINDOW.end_us)

            assert ([], 0) == (report.unreadable, report.rejected), path
        return self

    def book(self) -> Books:
        analyze(self.store, self.state, SETTINGS, now_us=WINDOW.end_us, detectors=["blind-spot"])
        cost.price_all(self.store, self.state)
        return self

    def owned(self) -> list[Owned]:
        rows = self.store.sql(
            """select d.gpu || case when d.gi >= 0 then '/GI-' || d.gi else '' end, s.start_us, s.end_us,
                coalesce(r.scheduler || ' ' || r.job_id, $nobody), s.share_num, s.share_den
            from segment s
            join device d using (device_id)
            left join run r using (run_id)""",
            nobody=NOBODY,
        )
        return joined([(d, second(a), second(b), who, Fraction(num, den)) for d, a, b, who, num, den in rows])

    def conflicts(self) -> int:
        return int(self.store.sql("select count(*) from segment where conflict")[0][0])

    def charged(self) -> dict[tuple[str, str, str], Fraction]:
        told = cost.chargeback(self.store, self.state, WINDOW, ("cluster", "team", "job"))
        rows: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
        for item in told.items:
            group = item.group
            who = group["job"] if group["team"] != NOBODY else NOBODY
            rows[group["cluster"] or "", group["team"] or "", who or ""] += Fraction(item.gpu_seconds)

        assert sum(rows.values()) == Fraction(told.gpu_seconds)
        return {key: value for key, value in rows.items() if value}

    def capacity(self) -> Fraction:
        return Fraction(cost.ledger(self.store, self.state, WINDOW).capacity_gpu_seconds)


def second(us: int) -> int:
    whole, rest = divmod(us - T0_US, SECOND_US)
    assert not rest
    return whole


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return a_fleet()


@pytest.fixture(scope="module")
def made(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> list[File]:
    return files(fleet, tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def books(made: list[File]) -> Books:
    return Books().take(made).book()


def test_every_gpu_is_owned_by_whom_it_was_to_the_second(fleet: Fleet, books: Books) -> None:
    assert owned(fleet) == books.owned()
    assert 0 == books.conflicts()


def test_the_charges_are_the_gpu_seconds_of_every_team_and_job(fleet: Fleet, books: Books) -> None:
    assert gpu_seconds(fleet) == books.charged()


def test_nothing_is_counted_twice_or_lost(fleet: Fleet, books: Books) -> None:
    gpus = {device.gpu for device in fleet.devices}

    assert HOUR * len(gpus) == books.capacity()
    assert HOUR * len(gpus) == sum(gpu_seconds(fleet).values())
    assert sorted(gpus) == [row[0] for row in books.store.sql("select distinct gpu from device order by 1")]


def test_importing_again_changes_nothing(made: list[File], books: Books) -> None:
    before, charges = books.owned(), books.charged()
    again = Books().take(made).take(made).book().take(made).book()

    assert (before, charges) == (again.owned(), again.charged())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_of_files_does_not_matter(made: list[File], books: Books, seed: int) -> None:
    """Half of them are booked before the others come."""
    shuffled = random.Random(seed).sample(made, len(made))
    other = Books().take(shuffled[: len(made) // 2]).book().take(shuffled[len(made) // 2 :]).book()

    assert books.owned() == other.owned()
    assert books.charged() == other.charged()
