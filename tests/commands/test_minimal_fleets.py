"""Fleets of a few GPUs that go wrong easily, imported from files by the command line: GPU-seconds and cents computed by hand.

Each fleet is a cluster of its own. Samples stand in the middle of each minute, so a device is seen from 0 to a whole minute. A
GPU costs $3.60 an hour: a tenth of a cent a second.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwatch.cli import app

RUNNER = CliRunner()
T0 = datetime(2026, 11, 2, tzinfo=UTC)
WINDOW = "2026-03-08T00:00:00Z,2026-11-03T00:00:00Z"
FIELDS = {"GR_ENGINE_ACTIVE": 0.9, "SM_ACTIVE": 0.8, "PIPE_TENSOR_ACTIVE": 0.4, "DRAM_ACTIVE": 0.2}
SACCT = "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|State|ExitCode|Submit|Start|End|ElapsedRaw|NNodes|NodeList|ReqTRES|AllocTRES"
PLATFORM = "platform"
NODES = """NodeName=n1 Arch=x86_64
   Gres=gpu:h100:4
   State=MIXED
   Partitions=gpu
   BootTime=2026-11-02T00:00:00 SlurmdStartTime=2026-11-02T00:00:00
   CfgTRES=cpu=128,mem=2000000M,billing=128,gres/gpu=4
"""


def moment(second: int, zone: str = "") -> str:
    return (T0 + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S") + zone


@dataclass
class Fleet:
    """The files of a cluster, and what each job must have: GPU-seconds by job, `platform` for time that nobody held."""

    expected: dict[str, str]
    readings: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    jobs: list[str] = field(default_factory=list)
    dumps: list[list[dict[str, Any]]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    nodes: str = ""
    options: tuple[str, ...] = ()
    start: datetime = T0

    def gpu(self, uuid: str, node: str, index: int, start: int, end: int, **labels: str) -> Fleet:
        """Samples of a busy device, one a minute."""
        named = {"gpu": str(index), "UUID": uuid, "pci_bus_id": f"00000000:{16 + index:02X}:00.0", "Hostname": node}
        named |= {"modelName": "NVIDIA H100 80GB HBM3", **labels}
        text = ",".join(f'{key}="{value}"' for key, value in named.items())
        for second in range(start + 30, end, 60):
            at_ms = int((self.start.timestamp() + second) * 1000)
            for name, value in FIELDS.items():
                self.readings[f"DCGM_FI_PROF_{name}"].append(f"DCGM_FI_PROF_{name}{{{text}}} {value} {at_ms}")
        return self

    def job(
        self, number: str, start: int, end: int, nodes: str = "n1", gpus: int = 1, raw: str = "", state: str = "COMPLETED",
        between: tuple[str, str] | None = None,
    ) -> Fleet:  # fmt: skip
        """A line of sacct; `between`: its start and end as it prints them."""
        first, last = between or (moment(start), moment(end))
        count = nodes.count(",") + 1
        tres = f"billing=8,cpu=8,gres/gpu={gpus},mem=64G,node={count}"
        own = f"{number}|{raw or number}||ann|acct|gpu|train|{state}|0:0|{first}|{first}|{last}|{end - start}"
        self.jobs.append(f"{own}|{count}|{nodes}|{tres}|{tres}")
        return self

    def dump(self, *pods: dict[str, Any]) -> Fleet:
        self.dumps.append(list(pods))
        return self

    def report(
        self, job: str, at: int, nodes: dict[str, tuple[int, int | None]], places: list[str], start: int = 0,
        session: str = "", node_mark: str = "d",
    ) -> Fleet:  # fmt: skip
        """What a Ray head answers at some time: nodes with one GPU each, from when to when, and a job with a bundle on some."""

        def at_ms(second: int | None) -> int:
            return 0 if second is None else int((self.start.timestamp() + second) * 1000)

        ids = {name: f"{node_mark}{number}".ljust(56, "0") for number, name in enumerate(nodes)}
        listed = [
            {"node_id": ids[name], "node_name": name, "node_ip": "192.0.2.7", "is_head_node": name == "h1",
             "state": "ALIVE" if end is None else "DEAD", "resources_total": {"GPU": 1.0},
             "start_time_ms": at_ms(begin), "end_time_ms": at_ms(end)}
            for name, (begin, end) in nodes.items()
        ]  # fmt: skip
        summary = [
            {"hostname": name, "now": at_ms(at) / 1000, "raylet": {"nodeId": ids[name], "nodeManagerHostname": name}}
            for name, (_, end) in nodes.items() if end is None
        ]  # fmt: skip
        group = {
            "placement_group_id": job.ljust(36, "0"), "creator_job_id": "02000000", "state": "CREATED", "name": job,
            "bundles": [{"unit_resources": {"GPU": 1.0}, "node_id": ids[name]} for name in places],
            "stats": {"creation_request_received_ns": str(at_ms(start) * 1_000_000)},
        }  # fmt: skip
        submission = {
            "submission_id": f"ray-{job}", "job_id": "02000000", "status": "RUNNING", "start_time": at_ms(start),
        }  # fmt: skip
        self.answers.append(
            {
                "version": {"ray_version": "2.60.0", "session_name": f"session_{session or job}"},
                "nodes": {"result": True, "data": {"result": {"result": listed, "total": len(listed)}}},
                "summary": {"result": True, "data": {"summary": summary}},
                "groups": {"result": True, "data": {"result": {"result": [group], "total": 1}}},
                "jobs": [submission],
            }
        )
        return self

    def folders(self, place: Path) -> Iterator[Path]:
        """Folders with the answers of Ray heads."""
        for number, answer in enumerate(self.answers):
            folder = place / str(number)
            folder.mkdir(parents=True)
            for name, content in answer.items():
                (folder / f"{name}.json").write_text(json.dumps(content))
            yield folder

    def files(self) -> Iterator[tuple[str, str]]:
        """Import kinds and texts."""
        lines = [line for name, rows in self.readings.items() for line in (f"# TYPE {name} gauge", *rows)]
        if lines:
            yield "openmetrics", "\n".join([*lines, "# EOF", ""])
        if self.jobs:
            yield "sacct", "\n".join([SACCT, *self.jobs, ""])
        if self.nodes:
            yield "scontrol", self.nodes
        for pods in self.dumps:
            yield "k8s-json", json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})


def pod(name: str, uid: str, start: int, end: int | None, node: str = "n1", owner: str = "") -> dict[str, Any]:
    """A pod with one GPU, as `kubectl get pods -o json` prints it."""
    at = moment(start, "Z")
    over = {"startedAt": at, "finishedAt": moment(end or 0, "Z"), "exitCode": 0, "reason": "Completed"}
    state = {"running": {"startedAt": at}} if end is None else {"terminated": over}
    about: dict[str, Any] = {"name": name, "namespace": "lab", "uid": uid, "creationTimestamp": at}
    if owner:
        about["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
        about["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"{owner}-uid", "controller": True}
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": about,
        "spec": {"nodeName": node, "containers": [{"name": "m", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {
            "phase": "Running" if end is None else "Succeeded",
            "startTime": at,
            "containerStatuses": [{"name": "m", "ready": end is None, "restartCount": 0, "state": state}],
        },
    }


def replaced_under_a_job() -> Fleet:
    """B dies at 1,800 and another GPU is in its slot from 2,400 on; the job has both slots for two hours."""
    fleet = Fleet({"1": "13800"}).job("1", 0, 7200, gpus=2)
    fleet.gpu("GPU-1A", "n1", 0, 0, 7200, hpc_job="1").gpu("GPU-1B", "n1", 1, 0, 1800, hpc_job="1")
    return fleet.gpu("GPU-1C", "n1", 1, 2400, 7200, hpc_job="1")


def repartitioned_under_a_job() -> Fleet:
    """An hour of 3g.40gb (4 of 8 memory slices) and one of 4g.40gb (4 of 7 compute slices)."""
    fleet = Fleet({"2": "3857.142857", PLATFORM: "3342.857143"}).job("2", 0, 7200)
    for number, profile in enumerate(("3g.40gb", "4g.40gb")):
        at = 3600 * number
        fleet.gpu("GPU-2A", "n1", 0, at, at + 3600, GPU_I_PROFILE=profile, GPU_I_ID="1", hpc_job="2")
    return fleet


def requeued_task_of_an_array() -> Fleet:
    fleet = Fleet({"10_1": "3000", "10_2": "3600", PLATFORM: "600"})
    fleet.job("10_1", 0, 1200, raw="11", state="NODE_FAIL").job("10_1", 1800, 3600, raw="11").job(
        "10_2", 0, 3600, raw="12"
    )
    return fleet.gpu("GPU-3A", "n1", 0, 0, 3600).gpu("GPU-3B", "n1", 1, 0, 3600)


def other_cluster_with_the_same_names() -> Fleet:
    """The node and the GPU's index are those of every other fleet here."""
    return Fleet({"4": "1800", PLATFORM: "1800"}).job("4", 0, 1800).gpu("GPU-4A", "n1", 0, 0, 3600)


def over_the_end_of_daylight_saving() -> Fleet:
    """From 00:30 in summer time to the second 01:30 in New York are two hours."""
    fleet = Fleet({"5": "7200", PLATFORM: "7200"}, options=("--timezone", "America/New_York"))
    fleet.start = datetime(2026, 11, 1, 4, tzinfo=UTC)
    fleet.job("5", 0, 7200, between=("2026-11-01T00:30:00", "2026-11-01T01:30:00"))
    return fleet.gpu("GPU-5A", "n1", 0, 0, 14400)


def pod_again_on_the_same_gpu() -> Fleet:
    """Two dumps, each with the pod that runs then; the first was gone when the second started."""
    labels = {"namespace": "lab", "pod": "db-0", "container": "m"}
    fleet = Fleet({"lab/db-0": "5400"}).dump(pod("db-0", "u1", 0, None)).dump(pod("db-0", "u2", 2400, None))
    fleet.gpu("GPU-6A", "n1", 0, 0, 1800, **labels).gpu("GPU-6A", "n1", 0, 1800, 2400)
    return fleet.gpu("GPU-6A", "n1", 0, 2400, 5400, **labels)


def pod_again_on_another_node() -> Fleet:
    fleet = Fleet({"lab/db-1": "7200", "lab/x-0": "3000", PLATFORM: "4200"})
    fleet.dump(pod("db-1", "v1", 0, None)).dump(pod("db-1", "v2", 3600, None, "n2"), pod("x-0", "v3", 4200, 7200))
    return fleet.gpu("GPU-7A", "n1", 0, 0, 7200).gpu("GPU-7B", "n2", 0, 0, 7200)


def heterogeneous_job() -> Fleet:
    fleet = Fleet({"20+0": "3600", "20+1": "7200"})
    fleet.job("20+0", 0, 3600, raw="20").job("20+1", 0, 3600, "n2", 2, raw="21").gpu("GPU-8A", "n1", 0, 0, 3600)
    return fleet.gpu("GPU-8B", "n2", 0, 0, 3600).gpu("GPU-8C", "n2", 1, 0, 3600)


def preempted_and_resumed() -> Fleet:
    fleet = Fleet({"lab/t": "2400", PLATFORM: "1200"}).gpu("GPU-9A", "n1", 0, 0, 3600)
    return fleet.dump(pod("t-aaa", "p1", 0, 1200, owner="t"), pod("t-bbb", "p2", 2400, 3600, owner="t"))


def one_of_two_nodes_lost() -> Fleet:
    """n2 falls silent with the job; it stays owned, out of service."""
    fleet = Fleet({"30": "3600", PLATFORM: "3600"}).job("30", 0, 1800, "n1,n2", 2, state="NODE_FAIL")
    return fleet.gpu("GPU-10A", "n1", 0, 0, 3600).gpu("GPU-10B", "n2", 0, 0, 1800)


def moved_to_another_node() -> Fleet:
    """Between its two nodes the GPU is free for ten minutes."""
    fleet = Fleet({"41": "1800", "42": "1800", PLATFORM: "4800"}).job("41", 0, 1800).job("42", 2400, 4200, "n2")
    fleet.gpu("GPU-11A", "n1", 1, 0, 1800, hpc_job="41").gpu("GPU-11A", "n2", 0, 2400, 4200, hpc_job="42")
    return fleet.gpu("GPU-11B", "n1", 0, 0, 4200)


def moved_without_labels() -> Fleet:
    """Only the counts of the jobs tell who had which GPU: those that were on the node then."""
    fleet = Fleet({"61": "3600", "62": "9600", "63": "4800", PLATFORM: "3600"})
    fleet.job("61", 0, 1800, gpus=2).job("62", 2400, 7200, "n2", 2).job("63", 2400, 7200)
    fleet.gpu("GPU-13A", "n1", 0, 0, 1800).gpu("GPU-13A", "n2", 1, 2400, 7200)
    return fleet.gpu("GPU-13B", "n2", 0, 0, 7200).gpu("GPU-13C", "n1", 1, 0, 7200)


def swapped_under_jobs_that_samples_name() -> Fleet:
    """For ten minutes both GPUs are on no node."""
    fleet = Fleet({"51": "6600", "52": "6600", PLATFORM: "1200"}).job("51", 0, 7200).job("52", 0, 7200, "n2")
    fleet.gpu("GPU-14A", "n1", 0, 0, 1800, hpc_job="51").gpu("GPU-14A", "n2", 0, 2400, 7200, hpc_job="52")
    return fleet.gpu("GPU-14B", "n2", 0, 0, 1800, hpc_job="52").gpu("GPU-14B", "n1", 0, 2400, 7200, hpc_job="51")


def swapped_under_counted_jobs() -> Fleet:
    """Into other slots, with only the counts of the jobs."""
    fleet = Fleet({"71": "6600", "72": "6600", PLATFORM: "1200"}).job("71", 0, 7200).job("72", 0, 7200, "n2")
    fleet.gpu("GPU-15A", "n1", 0, 0, 1800).gpu("GPU-15A", "n2", 1, 2400, 7200)
    return fleet.gpu("GPU-15B", "n2", 0, 0, 1800).gpu("GPU-15B", "n1", 1, 2400, 7200)


def odd_records_of_sacct() -> Fleet:
    """Each on nodes of its own."""
    fleet = Fleet({})

    def expect(free: int, **seconds: str) -> None:
        fleet.expected |= {job.lstrip("j").replace("t", "_").replace("h", "+"): s for job, s in seconds.items()}
        fleet.expected[PLATFORM] = str(Decimal(fleet.expected.get(PLATFORM, "0")) + free)

    # Requeued in the second in which it started: the first record has no length, the second runs.
    fleet.job("170", 600, 600, state="REQUEUED")
    fleet.job("170", 600, 7200, state="RUNNING", between=(moment(600), "Unknown")).gpu("GPU-16A", "n1", 0, 0, 7200)
    expect(600, j170="6600")
    # Requeued at once onto the same node: samples name both runs alike.
    fleet.job("172", 599, 1800, "n2", state="NODE_FAIL").job("172", 1800, 6000, "n2")
    fleet.gpu("GPU-16B", "n2", 0, 0, 7200, hpc_job="172")
    expect(1799, j172="5401")
    # No time at all, before and after a job that has some.
    fleet.job("173", 600, 600, "n3", state="CANCELLED by 0").job("174", 600, 4200, "n3").job("175", 4200, 4200, "n3")
    fleet.gpu("GPU-16C", "n3", 0, 0, 7200)
    expect(3600, j174="3600")
    # Steps before their job and after it, one of them longer than it.
    fleet.job("176.extern", 0, 3601, "n4").job("176.0", 10, 3000, "n4").job("176", 0, 3600, "n4")
    fleet.job("176.batch", 0, 3600, "n4").gpu("GPU-16D", "n4", 0, 0, 7200)
    expect(3600, j176="3600")
    # An array that runs one task at a time, and the tasks that wait.
    fleet.job("180_1", 0, 1800, "n5", raw="181").job("180_2", 1800, 3600, "n5", raw="182").gpu(
        "GPU-16E", "n5", 0, 0, 7200
    )
    fleet.job("180_[3-9%1]", 0, 0, "None assigned", raw="180", state="PENDING", between=("Unknown", "Unknown"))
    expect(3600, j180t1="1800", j180t2="1800")
    # A heterogeneous job that was requeued, with the records of both runs.
    for start, end, state in ((0, 1200, "NODE_FAIL"), (1800, 3600, "COMPLETED")):
        fleet.job("190+0", start, end, "n6", raw="190", state=state)
        fleet.job("190+1", start, end, "n7", 2, raw="191", state=state)
    fleet.gpu("GPU-16F", "n6", 0, 0, 7200).gpu("GPU-16G", "n7", 0, 0, 7200).gpu("GPU-16H", "n7", 1, 0, 7200)
    expect(12600, j190h0="3000", j190h1="6000")
    # An hour before the samples and an hour after them.
    fleet.job("192", -3600, 7200, "n8").gpu("GPU-16I", "n8", 0, 0, 3600)
    expect(0, j192="10800")
    # A node with another name after ten minutes.
    fleet.job("193", 0, 3000, "old").job("194", 4200, 7200, "new")
    fleet.gpu("GPU-16J", "old", 0, 0, 3000).gpu("GPU-16J", "new", 0, 3600, 7200)
    expect(1200, j193="3000", j194="3000")
    return fleet


def repartitioned_beside_a_job() -> Fleet:
    """3g.40gb is 4 of 8 memory slices, 4g.40gb 4 of 7 compute slices: 7/15 and 8/15 of the GPU. Then 3g.40gb is half of it,
    each 1g.10gb a seventh, and the rest of one fourteenth is no slice's."""
    fleet = Fleet({"82": "3480", "81": "514.285714", PLATFORM: "3205.714286"}).job("82", 0, 7200).job("81", 3600, 7200)
    fleet.gpu("GPU-17A", "n1", 0, 0, 7200, GPU_I_PROFILE="3g.40gb", GPU_I_ID="1", hpc_job="82")
    fleet.gpu("GPU-17A", "n1", 0, 0, 3600, GPU_I_PROFILE="4g.40gb", GPU_I_ID="2")
    fleet.gpu("GPU-17A", "n1", 0, 3600, 7200, GPU_I_PROFILE="1g.10gb", GPU_I_ID="3", hpc_job="81")
    for number in ("4", "5"):
        fleet.gpu("GPU-17A", "n1", 0, 3600, 7200, GPU_I_PROFILE="1g.10gb", GPU_I_ID=number)
    return fleet


def over_the_start_of_daylight_saving() -> Fleet:
    """From 01:30 to 03:30 in New York is one hour in the night in which 02:00 becomes 03:00."""
    fleet = Fleet({"6": "3600", PLATFORM: "10800"}, options=("--timezone", "America/New_York"))
    fleet.start = datetime(2026, 3, 8, 6, tzinfo=UTC)
    fleet.job("6", 0, 3600, between=("2026-03-08T01:30:00", "2026-03-08T03:30:00"))
    return fleet.gpu("GPU-18A", "n1", 0, 0, 14400)


def ray_loses_a_node() -> Fleet:
    """h2 is lost at 1,800, after the first report; h3 joins at 2,400 and gets the bundle of h2."""
    fleet = Fleet({"ray-a": "13800", PLATFORM: "5400"})
    fleet.report("a", 1500, {"h1": (0, None), "h2": (0, None)}, ["h1", "h2"])
    fleet.report("a", 7200, {"h1": (0, None), "h2": (0, 1800), "h3": (2400, None)}, ["h1", "h3"])
    fleet.gpu("GPU-19A", "h1", 0, 0, 7200).gpu("GPU-19B", "h2", 0, 0, 1800)
    return fleet.gpu("GPU-19C", "h3", 0, 2400, 7200)


def ray_head_again_under_its_session() -> Fleet:
    """The head crashed after its report at 1,800 and began again at 2,400 with another job; of the first nothing is known then."""
    fleet = Fleet({"ray-b": "1800", "ray-c": "4200", PLATFORM: "1200"})
    fleet.report("b", 1800, {"h1": (0, None)}, ["h1"])
    fleet.report("c", 7200, {"h1": (2400, None)}, ["h1"], start=3000, session="b", node_mark="e")
    return fleet.gpu("GPU-20A", "h1", 0, 0, 7200)


def half_of_the_node_measured() -> Fleet:
    """Four GPUs by the inventory, two with samples, three held for an hour of two."""
    fleet = Fleet({"51": "10800", PLATFORM: "18000"}, nodes=NODES).job("51", 1800, 5400, gpus=3)
    return fleet.gpu("GPU-12A", "n1", 0, 0, 7200).gpu("GPU-12B", "n1", 1, 0, 7200)


def listed_node(name: str, gpus: int, condition: tuple[str, int], cordoned: int | None = None) -> dict[str, Any]:
    """A node, as `kubectl get nodes -o json` prints it at 7,200: the status of Ready and since when."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": moment(cordoned or 0, "Z")}
    ready = {"type": "Ready", "status": condition[0], "lastTransitionTime": moment(condition[1], "Z")}
    amounts = {"nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
        "spec": {} if cordoned is None else {"unschedulable": True, "taints": [taint]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [ready | {"lastHeartbeatTime": moment(7200, "Z")}],
        },
    }


POD = {"namespace": "lab", "container": "m"}


def cordoned_under_a_pod() -> Fleet:
    """The pod runs on. The free GPU is for nobody from 3,600 on."""
    fleet = Fleet({"lab/cordoned": "7200", PLATFORM: "7200"})
    fleet.dump(listed_node("n1", 2, ("True", 0), cordoned=3600), pod("cordoned", "c1", 0, None))
    return fleet.gpu("GPU-21A", "n1", 0, 0, 7200, pod="cordoned", **POD).gpu("GPU-21B", "n1", 1, 0, 7200)


def cordoned_and_never_measured() -> Fleet:
    fleet = Fleet({"lab/dark": "7200", "lab/other": "7200", PLATFORM: "7200"})
    pods = pod("dark", "c2", 0, None), pod("other", "c3", 0, 7200, "n2")
    return fleet.dump(listed_node("n1", 2, ("True", 0), cordoned=3600), listed_node("n2", 1, ("True", 0)), *pods)


def not_ready_under_a_pod() -> Fleet:
    """n1 is silent and not ready from 3,600 on; the pod is still bound to it."""
    fleet = Fleet({"lab/lost": "7200", PLATFORM: "14400"})
    nodes = listed_node("n1", 2, ("Unknown", 3600)), listed_node("n2", 1, ("True", 0))
    fleet.dump(*nodes, pod("lost", "c4", 0, None)).gpu("GPU-23A", "n1", 0, 0, 3600, pod="lost", **POD)
    return fleet.gpu("GPU-23B", "n1", 1, 0, 3600).gpu("GPU-23C", "n2", 0, 0, 7200)


def came_back_to_its_slot() -> Fleet:
    """24A is out from 1,800 to 4,800; 24B is in its slot from 2,400 to 4,200."""
    fleet = Fleet({"24": "6000", PLATFORM: "7200"}).job("24", 0, 7200).gpu("GPU-24A", "n1", 0, 0, 1800, hpc_job="24")
    fleet.gpu("GPU-24B", "n1", 0, 2400, 4200, hpc_job="24").gpu("GPU-24A", "n1", 0, 4800, 7200, hpc_job="24")
    return fleet.gpu("GPU-24C", "n1", 1, 0, 7200)


FLEETS: dict[str, Callable[[], Fleet]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        *(
            replaced_under_a_job,
            repartitioned_under_a_job,
            requeued_task_of_an_array,
            other_cluster_with_the_same_names,
        ),
        *(over_the_end_of_daylight_saving, pod_again_on_the_same_gpu, pod_again_on_another_node, heterogeneous_job),
        *(preempted_and_resumed, one_of_two_nodes_lost, moved_to_another_node, moved_without_labels),
        *(half_of_the_node_measured, swapped_under_jobs_that_samples_name, swapped_under_counted_jobs),
        *(odd_records_of_sacct, repartitioned_beside_a_job, over_the_start_of_daylight_saving, ray_loses_a_node),
        *(ray_head_again_under_its_session, cordoned_under_a_pod, cordoned_and_never_measured, not_ready_under_a_pod),
        came_back_to_its_slot,
    )
}


def run(*arguments: object) -> Any:
    """What a command prints as JSON."""
    done = RUNNER.invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with all fleets, priced and analyzed."""
    place = tmp_path_factory.mktemp("fleets")
    data = place / "data"
    for name, make in FLEETS.items():
        fleet = make()
        inputs = [("ray-json", folder) for folder in fleet.folders(place / name)]
        for number, (kind, text) in enumerate(fleet.files()):
            path = place / f"{name}-{number}.txt"
            path.write_text(text)
            inputs.append((kind, path))
        for kind, path in inputs:
            common = ("--data", data, "--cluster", name, "--format", "json")
            (found,) = run("import", kind, path, *common, *(fleet.options if kind == "sacct" else ()))["items"]
            assert (0, 0) == (found["rejected"], found["unreadable"])
    card = place / "rates.csv"
    models = "NVIDIA H100 80GB HBM3", "h100"
    rows = [f"{model},owned,3.60,2026-03-01T00:00:00Z," for model in models]
    card.write_text("\n".join(["gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to", *rows, ""]))
    assert RUNNER.invoke(app, ["rates", "set", str(card), "--data", str(data)]).exit_code == 0
    (report,) = run("analyze", "--data", data, "--format", "json")["items"]
    assert [] == report["failed_rules"]
    return data


@pytest.fixture(scope="module")
def charges(data: Path) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = run(
        "chargeback", "--data", data, "--by", "cluster,job", "--window", WINDOW, "--format", "json"
    )["items"]
    return items


@pytest.mark.parametrize("name", FLEETS)
def test_every_job_has_the_gpu_seconds_computed_by_hand_and_their_price(
    name: str, charges: list[dict[str, Any]]
) -> None:
    mine = [row for row in charges if row["cluster"] == name]
    expected = {job: Decimal(seconds) for job, seconds in FLEETS[name]().expected.items()}

    assert expected == {row["job"] or row["kind"]: Decimal(row["gpu_seconds"]) for row in mine}
    for row in mine:
        assert abs(Decimal(row["cost"]) - Decimal(row["gpu_seconds"]) / 1000) <= Decimal("0.01")


@pytest.mark.parametrize("command", ["chargeback", "ledger"])
def test_a_gpu_that_moved_counts_for_each_node_while_it_was_there(data: Path, command: str) -> None:
    """Up to its first sample on the next node it counts for the one that it left."""
    found: dict[str, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for row in run(command, "--data", data, "--by", "cluster,node", "--window", WINDOW, "--format", "json")["items"]:
        found[row["cluster"]][row["node"]] += Decimal(row["gpu_seconds"])

    assert {"n1": 6600, "n2": 1800} == found["moved-to-another-node"]
    assert {"n1": 9600, "n2": 12000} == found["moved-without-labels"]
    assert {"n1": 7200, "n2": 7200} == found["swapped-under-jobs-that-samples-name"]
    assert {"n1": 28800} == found["half-of-the-node-measured"]


def test_free_gpus_of_a_node_that_takes_no_pods_are_out_of_service_and_its_pods_keep_their_time(data: Path) -> None:
    found: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    rows = run("ledger", "--data", data, "--by", "cluster,job,bucket", "--window", WINDOW, "--format", "json")["items"]
    for row in rows:
        if Decimal(row["gpu_seconds"]):
            found[row["cluster"]][row["job"] or PLATFORM, row["bucket"]] = int(Decimal(row["gpu_seconds"]))

    free = {(PLATFORM, "schedulable"): 3600, (PLATFORM, "out_of_service"): 3600}
    assert free == {key: seconds for key, seconds in found["cordoned-under-a-pod"].items() if key[0] == PLATFORM}
    dark = {("lab/dark", "unobserved"): 7200, ("lab/other", "unobserved"): 7200}
    assert free | dark == found["cordoned-and-never-measured"]
    lost = found["not-ready-under-a-pod"]
    assert (10800, 3600, 3600) == (
        lost[PLATFORM, "schedulable"], lost[PLATFORM, "out_of_service"], lost["lab/lost", "unobserved"],
    )  # fmt: skip


def test_buckets_and_charges_add_up_to_the_capacity_exactly(data: Path, charges: list[dict[str, Any]]) -> None:
    ledger = run("ledger", "--data", data, "--window", WINDOW, "--format", "json")
    capacity = sum(Decimal(seconds) for make in FLEETS.values() for seconds in make().expected.values())

    assert capacity == sum(Decimal(row["gpu_seconds"]) for row in charges)
    assert capacity == sum(Decimal(row["gpu_seconds"]) for row in ledger["items"])
    assert capacity / 1000 == sum(Decimal(row["cost"]) for row in charges)


def test_doctor_finds_no_double_holds_and_closed_books(data: Path) -> None:
    done = RUNNER.invoke(app, ["doctor", "--data", str(data), "--format", "json"])
    found = {row["id"]: row["status"] for row in json.loads(done.stdout)["items"]}

    assert {"ok"} == {
        found[name] for name in ("books", "conflicts", "doubled", "inventory", "rejects", "rates", "clusters")
    }
