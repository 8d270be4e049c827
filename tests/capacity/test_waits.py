"""Why jobs wait: the counts in FailedScheduling messages, whose pods they are about, and requests that no queue tells of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.capacity.waits import for_room, in_words, parse_failed_scheduling
from gpuwatch.capacity.workloads import workloads
from gpuwatch.core.model import EVENT, PENDING, Records
from gpuwatch.core.queue_model import WORKLOAD
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.world import CLUSTER, HOUR, us

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[3] / "shared"))
SCHEMAS = {"event": EVENT, "pending": PENDING, "workload": WORKLOAD}
NOW = 10 * HOUR
FULL = (
    "0/7 nodes are available: 3 Insufficient nvidia.com/gpu, 4 node(s) had untolerated taint {a: b}. preemption: none."
)
WORDS = "4 nodes had untolerated taint {a: b}; 3 nodes: Insufficient nvidia.com/gpu"
Row = dict[str, Any]


def event(name: str = "train-0", at: float = NOW - 60, message: str = FULL, **words: Any) -> tuple[str, Row]:
    row = {"cluster": CLUSTER, "event_id": f"{name}-{at}", "object_kind": "Pod", "namespace": "lab", "name": name}
    return "event", row | {"reason": "FailedScheduling", "message": message, "last_us": us(at)} | words


def request(job: str = "lab/train", at: float = NOW - 60, **words: Any) -> tuple[str, Row]:
    """A job that waits for eight GPUs since the world began."""
    row = {"cluster": CLUSTER, "scheduler": "kubernetes", "job_id": job, "namespace": "lab", "submit_us": us(0)}
    return "pending", row | {"evidence_us": us(at), "device_count": 8, "reason": "Unschedulable"} | words


def gang(**words: Any) -> tuple[str, Row]:
    """A Job that waits and does not know why."""
    row = {
        "cluster": CLUSTER,
        "scheduler": "kubernetes",
        "kind": "Job",
        "uid": "u",
        "name": "train",
        "namespace": "lab",
    }
    record = {"job_id": "lab/train", "state": "pending", "device_count": 16, "submit_us": us(0), "observed_us": us(1)}
    return "workload", row | record | words


def waiting_rows(*rows: tuple[str, Row]) -> list[Row]:
    store, state = Store.open(None), State.open("sqlite://")
    for table, schema in SCHEMAS.items():
        listed = [{name: row.get(name) for name in schema.names} for kind, row in rows if kind == table]
        store.append(Records(table, pa.Table.from_pylist(listed, schema=schema)))
        if any(row.get("file_id") for kind, row in rows if kind == table):
            store.sql(f"update {table} set file_id = 1")
    found = workloads(store, state, us(NOW), cluster=CLUSTER)
    state.close()
    return found


def test_a_slurm_job_that_waits_is_its_account_s() -> None:
    """As a job that runs: from squeue's record of it, and from sacct's alone."""
    slurm = {"scheduler": "slurm", "namespace": None}
    row = {"job_id": "7", "uid": "7", "name": "train", "detail": '{"account": "robotics"}', **slurm}

    assert ["robotics"] == [one["team"] for one in waiting_rows(gang(**row))]
    assert ["nlp"] == [one["team"] for one in waiting_rows(request("8", account="nlp", **slurm))]
    assert ["__unallocated__"] == [one["team"] for one in waiting_rows(request("9", **slurm))]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="nothing was said"),
        pytest.param(
            [request(at=NOW - 3 * HOUR), gang(state="finished", observed_us=us(NOW))],
            id="a request of which nobody spoke for long",
        ),
        pytest.param([request(at=NOW + 60)], id="a request of the future"),
        pytest.param([request(start_us=us(9 * HOUR))], id="a request that was met"),
        pytest.param([request(at=NOW - 90), request(reason="NoLongerWaits")], id="pods that were placed or deleted"),
        pytest.param([request(), request(reason="NoLongerWaits")], id="placed in the moment it was last told"),
        pytest.param([request(cluster="c2")], id="another cluster"),
        pytest.param([event()], id="an event of a job that nobody tells of"),
    ],
)
def test_nothing_waits(rows: list[tuple[str, Row]]) -> None:
    assert [] == waiting_rows(*rows)


def test_pods_of_a_group_that_kueue_holds_back_wait_as_the_group() -> None:
    group = gang(scheduler="kueue", kind="Workload", job_id=None)
    gated = [
        request("lab/p-0", reason="SchedulingGated"),
        request("sea/p-0", reason="SchedulingGated", namespace="sea"),
    ]

    assert {("Workload", None), ("Request", "sea/p-0")} == {
        (item["kind"], item["job"]) for item in waiting_rows(group, *gated)
    }


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="nothing was said"),
        pytest.param([event("other-0")], id="of another job"),
        pytest.param([event("train-big-0"), request("lab/train-big")], id="of a job whose name is longer"),
        pytest.param([event(namespace="sea")], id="of another namespace"),
        pytest.param([event(cluster="c2")], id="of another cluster"),
        pytest.param([event(object_kind="Node")], id="about a node"),
        pytest.param([event(reason="Killing")], id="of another kind"),
        pytest.param([event(at=NOW + 60)], id="in the future"),
        pytest.param([event(at=NOW - 2), event(at=NOW - 1, reason="Scheduled")], id="of a pod that was placed since"),
        pytest.param([event(at=-1)], id="of an earlier job of this name"),
    ],
)
def test_an_event_says_nothing_of_a_job(rows: list[tuple[str, Row]]) -> None:
    item = next(item for item in waiting_rows(request(), *rows) if item["job"] == "lab/train")

    assert (None, None) == (item["why"], item["unscheduled"])


def test_a_job_of_which_no_queue_tells_says_why_it_waits() -> None:
    rows = [event(at=NOW - 300, message="older"), event(), event("train-1", NOW - 200, "0/7 nodes are available: 7 x.")]
    [item] = waiting_rows(request(), request(profile="1g.10gb", device_count=2), *rows)

    assert ("Request", "lab/train", "pending", "Unschedulable") == tuple(
        item[name] for name in ("kind", "job", "state", "reason")
    )
    assert (10, None, {"": 8, "1g.10gb": 2}) == (item["gpus"], item["profile"], item["devices"])
    assert (WORDS, FULL, 2) == (item["why"], item["message"], item["unscheduled"]["pods"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param({}, WORDS, id="a controller that does not know why"),
        pytest.param({"reason": "Pending", "scheduler": "volcano"}, WORDS, id="a queue that only says that it waits"),
        pytest.param({"state": "admitted", "reason": "Admitted"}, WORDS, id="its queue let it in, no node takes it"),
        pytest.param(
            {"reason": "WaitingForQuota"}, "waits for quota: what the queue may use is in use", id="its queue says why"
        ),
        pytest.param({"state": "running", "start_us": us(5)}, None, id="it runs"),
        pytest.param({"state": "admitted", "start_us": us(5)}, None, id="it has begun"),
    ],
)
def test_a_gang_says_why_it_waits(words: Row, why: str | None) -> None:
    [item] = waiting_rows(gang(**words), request(), event())

    assert (why, 16) == (item["why"], item["gpus"]), "what waits of it is not all of it"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param(" ", None, id="blank"),
        pytest.param("no nodes available to schedule pods", "no nodes available to schedule pods", id="no counts"),
        pytest.param("0/1 nodes are available: 1 Insufficient cpu.", "1 node: Insufficient cpu", id="one node"),
        pytest.param(
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) were not ready.",
            "2 nodes were not ready; 1 node was unschedulable",
            id="the verb goes with the number",
        ),
        pytest.param(FULL, WORDS, id="the most first"),
        pytest.param("x" * 9000, "x" * 500, id="bounded"),
    ],
)
def test_in_words(message: str | None, expected: str | None) -> None:
    assert expected == in_words(message)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("", {}, id="nothing said"),
        pytest.param("no nodes available to schedule pods", {}, id="no count at all"),
        pytest.param("0/3 nodes are available: 3 Insufficient nvidia.com/gpu", {"Insufficient nvidia.com/gpu": 3}, id="one"),
        pytest.param(
            "0/7 nodes are available: 3 Insufficient cpu, 4 node(s) had taint {a: b}, that the pod didn't tolerate. "
            "preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling.",
            {"Insufficient cpu": 3, "node(s) had taint {a: b}, that the pod didn't tolerate": 4},
            id="a comma inside a reason, and the preemption tail is not counted",
        ),
        pytest.param("0/5 nodes are available: pod has unbound claims.", {"pod has unbound claims": 5}, id="all nodes"),
        pytest.param(
            "0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 3 cannot allocate all "
            "claims. no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
            {"node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }": 1, "cannot allocate all claims": 3},
            id="1.31 says first what deallocating claims would do",
        ),
        pytest.param(
            "0/3 nodes are available: 3 cannot allocate all claims. still not schedulable, preemption: 0/3 nodes are available: "
            "3 Preemption is not helpful for scheduling.",
            {"cannot allocate all claims": 3},
            id="1.34 says that it is still not schedulable",
        ),
        pytest.param("all nodes are unavailable: 2 Insufficient nvidia.com/gpu.", {"Insufficient nvidia.com/gpu": 2}, id="Volcano"),
        pytest.param("all nodes are unavailable: queue is closed.", {}, id="a reason of an unknown number of nodes is not counted"),
    ],
)  # fmt: skip
def test_failed_scheduling(message: str, expected: dict[str, int]) -> None:

    assert expected == parse_failed_scheduling(message)


def test_recorded_messages() -> None:
    file = SHARED / "wire/kubernetes/failed_scheduling_messages.txt"
    if not file.is_file():
        pytest.skip(f"{file} is absent: set GPUWATCH_SHARED")
    got = [parse_failed_scheduling(line) for line in file.read_text().splitlines()]

    assert [
        {"Insufficient nvidia.com/gpu": 3, "node(s) didn't match Pod's node affinity/selector": 4},
        {"Insufficient nvidia.com/gpu": 3},
        {"Insufficient nvidia.com/gpu": 1},
        {},
    ] == got


MASTER = "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }"


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        pytest.param("Priority", None, False, id="Slurm lets others go first"),
        pytest.param("WaitingForQuota", None, False, id="a quota"),
        pytest.param(None, None, None, id="nobody says why"),
        pytest.param("Unschedulable", None, None, id="pods of which no event is known"),
        pytest.param("Unschedulable", FULL, True, id="some nodes lack GPUs, no taint lets it on the others"),
        pytest.param(
            "Unschedulable",
            "0/7 nodes are available: 7 node(s) had untolerated taint {a: b}.",
            False,
            id="no taint lets it on any node",
        ),
        pytest.param(
            "Unschedulable",
            "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient nvidia.com/gpu.",
            False,
            id="all nodes lack CPU too",
        ),
        pytest.param(
            "Unschedulable", "0/2 nodes are available: 2 Insufficient cpu.", False, id="CPU is short, not GPUs"
        ),
        pytest.param(
            "Unschedulable",
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims, 2 Insufficient nvidia.com/gpu.",
            False,
            id="a volume that is not bound",
        ),
        pytest.param(
            "Pending", "insufficient unused quota for nvidia.com/gpu in flavor x", False, id="words of a quota"
        ),
        pytest.param("Resources", None, True, id="Slurm waits for resources"),
        pytest.param("TopologyPlacementFailed", None, True, id="Kueue finds them too far apart"),
        pytest.param(
            "Unschedulable",
            f"0/4 nodes are available: {MASTER}, 3 Insufficient nvidia.com/gpu.",
            True,
            id="only GPUs are short, the control plane aside",
        ),
        pytest.param(
            "Unschedulable",
            "0/1 nodes are available: 1 Insufficient nvidia.com/mig-3g.40gb.",
            True,
            id="a MIG profile is short",
        ),
    ],
)
def test_whether_a_request_waits_for_room_only(reason: str | None, message: str | None, expected: bool | None) -> None:
    assert expected is for_room(reason, message)


# The end of what the sources know.


def test_a_wait_of_a_dump_ends_with_the_dump_however_late_it_is_read() -> None:
    then = NOW - 96 * HOUR
    rows = waiting_rows(
        request(at=then, submit_us=us(then - HOUR), file_id=1),
        request("lab/gone", then - 3 * HOUR, submit_us=us(then - 5 * HOUR), file_id=1),
    )

    assert [("lab/train", HOUR)] == [(row["job"], row["wait_seconds"]) for row in rows]


def test_a_wait_lasts_up_to_the_last_word_of_any_source() -> None:
    """The queue's last record is an hour old, and the pods' of a minute ago."""
    rows = waiting_rows(gang(observed_us=us(NOW - HOUR), file_id=1), request("lab/other", NOW - 60, file_id=1))

    assert {("lab/train", NOW - 60), ("lab/other", NOW - 60)} == {(row["job"], row["wait_seconds"]) for row in rows}


def test_a_live_source_that_is_quiet_confirms_its_words_up_to_now() -> None:
    assert [NOW] == [row["wait_seconds"] for row in waiting_rows(request(at=NOW - HOUR))]


@pytest.mark.parametrize("state", ["admitted", "running", "reserved"])
def test_the_pods_that_a_gang_lacks_wait_though_the_others_run(state: str) -> None:
    rows = waiting_rows(
        gang(state=state, admitted_us=us(60), start_us=us(60), pod_count=8, observed_us=us(NOW - 60)),
        request(device_count=3, node_count=3, message=FULL),
    )

    assert [("Request", "pending", 3, 3, WORDS), ("Job", state, 16, 8, None)] == [
        (row["kind"], row["state"], row["gpus"], row["pods"], row["why"]) for row in rows
    ]


def test_an_end_of_the_gang_ends_what_its_pods_waited_for() -> None:
    rows = waiting_rows(gang(state="running", start_us=us(60), pod_count=8), request(reason="SchedulingGated"))

    assert ["running"] == [row["state"] for row in rows]
