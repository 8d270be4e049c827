"""Slurm jobs as workloads: states, gangs, requeues and arrays, from text and JSON, and only news of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.changes import CLOSE_AFTER_US
from gpuwatch.collectors.slurm.json_accounting import accounting_rows
from gpuwatch.collectors.slurm.json_rows import controller_rows, workload_from_json
from gpuwatch.collectors.slurm.queue_changes import QueueChanges
from gpuwatch.collectors.slurm.sacct import job_rows
from gpuwatch.core.clock import HOUR_US, MINUTE_US, SECOND_US, parse_rfc3339, zone
from gpuwatch.core.model import Rejects
from tests.collectors.slurm.test_control import job, read
from tests.collectors.slurm.test_json import START, boxed, sacct, squeue
from tests.collectors.slurm.test_queue import recorded, rows_of

Json = dict[str, Any]
PENDING = {"state": "PENDING", "detail": "", "nodes": "(null)", "run": "00:00:00", "start": "Unknown", "end": "Unknown"}


def workload(tmp_path: Path, **changes: str) -> Json:
    """The workload of one record of scontrol; `more` is added behind its state."""
    more = changes.pop("more", "")
    (row,) = read(tmp_path, job(**changes).replace(" Dependency=(null)", f" {more or 'Dependency=(null)'}"))[0][
        "workload"
    ]
    return row


def of_json(changes: Json | None = None, new: bool = False) -> Json:
    rows = squeue(changes, new)
    ((_, row),) = workload_from_json(rows, controller_rows(rows, "c1"), "c1")
    return row


def test_a_running_job(tmp_path: Path) -> None:
    row = workload(tmp_path)
    start_us = parse_rfc3339("2026-11-21T02:00:00Z")

    assert {
        "uid": "5",
        "job_id": "5",
        "kind": "Job",
        "scheduler": "slurm",
        "queue": "gpu",
        "priority_class": "normal",
        "priority": 1,
        "pod_count": 2,
        "min_count": 2,
        "device_count": 8,
        "profile": None,
        "gpu_type": "h100",
        "submit_us": parse_rfc3339("2026-11-21T01:00:00Z"),
        "admitted_us": start_us,
        "start_us": start_us,
        "end_us": None,
        "state": "running",
        "reason": None,
        "placement": '[{"count":4,"node":"gpu01"},{"count":4,"node":"gpu02"}]',
        "observed_us": 77,
    }.items() <= row.items()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(PENDING | {"reason": "Priority"}, ("pending", "Priority", None, None), id="it waits"),
        pytest.param(PENDING | {"reason": "JobHeldUser"}, ("inadmissible", "JobHeldUser", None, None), id="held"),
        pytest.param(PENDING | {"state": "REQUEUE_HOLD"}, ("evicted", None, None, None), id="put back and held"),
        pytest.param({"state": "SUSPENDED"}, ("running", None, True, None), id="suspended: it holds its devices"),
        pytest.param({"state": "NODE_FAIL"}, ("finished", None, True, True), id="its node failed"),
        pytest.param(
            {"state": "CANCELLED", "detail": "", "nodes": "(null)", "run": "00:00:00"},
            ("finished", None, None, True),
            id="cancelled while it waited",
        ),
        pytest.param(
            {"state": "COMPLETING", "end": "Unknown"}, ("evicted", None, None, None), id="put back, its processes end"
        ),
    ],
)
def test_states(tmp_path: Path, changes: dict[str, str], expected: tuple[Any, ...]) -> None:
    row = workload(tmp_path, **changes)

    assert expected == (row["state"], row["reason"], row["start_us"] and True, row["end_us"] and True)


def test_requeues_and_preemptions(tmp_path: Path) -> None:
    never = workload(tmp_path, more="Dependency=(null)\n   Requeue=1 Restarts=0")
    again = workload(tmp_path, more="Dependency=afterok:3(unfulfilled)\n   Requeue=1 Restarts=2")
    preempted = workload(tmp_path, state="PREEMPTED", more="Restarts=0\n   PreemptTime=2026-11-21T02:30:00")

    assert (0, 0) == (never["evictions"], never["preemptions"])
    assert (2, None) == (again["evictions"], again["preemptions"]), "by whom it was put back is not told"
    assert "afterok:3(unfulfilled)" == json.loads(again["detail"])["dependency"]
    assert (1, parse_rfc3339("2026-11-21T02:30:00Z")) == (preempted["preemptions"], preempted["evicted_us"])


def test_an_array_that_waits_is_one_workload_and_its_tasks_are_their_own(tmp_path: Path) -> None:
    waits = workload(tmp_path, **PENDING, head="JobId=5 ArrayJobId=5 ArrayTaskId=3-9%2")
    runs = workload(tmp_path, head="JobId=6 ArrayJobId=5 ArrayTaskId=2")

    assert ("5_*", None, 7) == (waits["uid"], waits["job_id"], json.loads(waits["detail"])["array_tasks"])
    assert ("5_2", "5_2") == (runs["uid"], runs["job_id"])


def test_the_parts_of_a_heterogeneous_job_are_distinguished() -> None:
    parts = [of_json({"job_id": n, "het_job_id": 5, "het_job_offset": n - 5}) for n in (5, 6)]

    assert ["5+0", "5+1"] == [part["uid"] for part in parts]


@pytest.mark.parametrize("new", [pytest.param(False, id="22.05"), pytest.param(True, id="24.05")])
def test_json_says_what_text_says(new: bool) -> None:
    number = boxed if new else (lambda value: value)
    row = of_json({"priority": number(9), "restart_cnt": 1, "time_limit": number(60), "preempt_time": number(0)}, new)

    assert ("running", 9, 1, None, 4, 3600) == (
        *(row[name] for name in ("state", "priority", "evictions", "preemptions", "device_count")),
        json.loads(row["detail"])["time_limit_s"],
    )


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        pytest.param({"tres_per_job": "gres:gpu:8"}, 8, id="--gpus"),
        pytest.param({"tres_per_node": "gres/gpu:h100:2"}, 6, id="--gpus-per-node on 3 nodes"),
        pytest.param({"tres_per_task": "gres:gpu:2", "tasks": 4}, 8, id="--gpus-per-task of 4 tasks"),
        pytest.param({"tres_per_socket": "gres:gpu:1", "sockets_per_node": 2}, 6, id="--gpus-per-socket, 2 a node"),
        pytest.param({"tres_per_socket": "gres:gpu:1"}, None, id="nobody told the sockets"),
        pytest.param({"tres_per_job": "gres:shard:4"}, None, id="a shard is no GPU"),
    ],
)
def test_what_a_waiting_job_asks_for(asked: Json, gpus: int | None) -> None:
    listed = squeue(
        {"job_state": "PENDING", "gres_detail": [], "tres_req_str": "cpu=1", "node_count": 3, "nodes": ""} | asked
    )
    rows = controller_rows(listed, "c1")

    assert gpus == (rows[0][1]["device_count"] if rows else None)
    assert [gpus] * (gpus is not None) == [row["device_count"] for _, row in workload_from_json(listed, rows, "c1")]


# A job that was resized --------------------------------------------------------------------------------------------


def test_what_a_resized_job_holds_since_is_a_run_of_its_own(tmp_path: Path) -> None:
    """As Slurm 22.05 accounts: two records from the first start, the second submitted when the job was resized."""
    fields = {"jobid": "1", "jobidraw": "1", "nodelist": "n1", "elapsedraw": "3"}
    first = fields | {"state": "RESIZING", "submit": "2026-11-21T10:40:17", "alloctres": "gres/gpu=4"}
    second = fields | {
        "state": "COMPLETED",
        "submit": "2026-11-21T10:40:20",
        "alloctres": "gres/gpu=2",
        "elapsedraw": "5",
    }
    start = {"start": "2026-11-21T10:40:17"}
    rows = [
        *job_rows(first | start | {"end": "2026-11-21T10:40:20"}, "c1", zone("UTC")),
        *job_rows(second | start | {"end": "2026-11-21T10:40:22"}, "c1", zone("UTC")),
    ]
    text = job(start="2026-11-21T10:40:17", run="00:00:04").replace(
        "   StartTime", "   ResizeTime=2026-11-21T10:40:20\n   StartTime"
    )
    claims = read(tmp_path, text)[0]["claim"]
    changed = squeue({"start_time": START, "resize_time": START + 3})

    assert [(3, 4), (2, 2)] == [((r["end_us"] - r["start_us"]) // SECOND_US, r["device_count"]) for _, r in rows]
    assert {rows[1][1]["run_key"].split("@")[1]} == {claim["run_key"].split("@")[1] for claim in claims}
    assert parse_rfc3339("2026-11-21T10:40:21Z") == claims[0]["evidence_us"]
    assert f"5@{(START + 3) * SECOND_US}" == controller_rows(changed, "c1")[0][1]["run_key"]


# Only news ---------------------------------------------------------------------------------------------------------


def workload_record(uid: str = "5", **words: Any) -> Row:
    return "workload", {
        "uid": uid,
        "state": "running",
        "start_us": 10,
        "end_us": None,
        "reason": None,
        "priority": 1,
    } | words


def ended(job_id: str = "5", **words: Any) -> Row:
    return "claim", {"job_id": job_id, "start_us": 10, "end_us": 50, "state": "COMPLETED"} | words


def states_and_ends(rows: list[Row]) -> list[tuple[str, int | None]]:
    return [(row["state"], row["end_us"]) for _, row in rows]


def test_what_is_known_is_not_news() -> None:
    tracker = QueueChanges()
    at = [
        states_and_ends(tracker.workloads([row], minute * MINUTE_US, Rejects()))
        for minute, row in (
            (0, workload_record()),
            (1, workload_record()),
            (2, workload_record(priority=2)),
            (3, workload_record(reason="x")),
            (63, workload_record(reason="x")),
        )
    ]

    assert [[("running", None)], [], [], [("running", None)], [("running", None)]] == at


def test_a_job_that_accounting_ends_is_finished() -> None:
    tracker = QueueChanges()
    tracker.workloads([workload_record(), workload_record("6")], 20, Rejects())

    assert [("finished", 50)] == states_and_ends(tracker.ended([ended()], 60))
    assert [] == tracker.ended([ended()], 70)


@pytest.mark.parametrize(
    ("job_row", "end"),
    [
        pytest.param(workload_record(), ended(state="RESIZING"), id="it was resized"),
        pytest.param(workload_record(), ended(state="REQUEUED"), id="it was put back"),
        pytest.param(workload_record(start_us=60), ended(), id="it runs again"),
        pytest.param(workload_record(state="pending", start_us=None), ended(), id="it waits again"),
    ],
)
def test_the_end_of_a_run_is_not_always_that_of_the_job(job_row: Row, end: Row) -> None:
    tracker = QueueChanges()
    tracker.workloads([job_row], 20, Rejects())

    assert [] == tracker.ended([end], 70)


def test_a_job_that_slurm_forgot_ends_when_it_was_last_seen() -> None:
    tracker = QueueChanges()
    tracker.workloads([workload_record()], HOUR_US, Rejects())

    assert [] == tracker.workloads([], HOUR_US + CLOSE_AFTER_US - 1, Rejects())
    assert [("finished", HOUR_US)] == states_and_ends(tracker.workloads([], HOUR_US + CLOSE_AFTER_US, Rejects()))
    assert [] == tracker.workloads([], HOUR_US + 2 * CLOSE_AFTER_US, Rejects())


# Real answers ------------------------------------------------------------------------------------------------------


def test_recorded_text_and_json_tell_the_same_workloads() -> None:
    names = (
        "uid",
        "state",
        "priority",
        "device_count",
        "profile",
        "gpu_type",
        "submit_us",
        "start_us",
        "placement",
        "queue",
    )
    text, of_rest = (
        sorted(
            tuple(str(row[name]) for name in names)
            for row in rows_of(recorded(f"recorded_22.05/{file}"))[0]["workload"]
        )
        for file in ("scontrol_show_job_d.txt", "squeue.json")
    )

    assert text == of_rest
    assert 5 < len(text)


def test_accounting_tells_claims_only() -> None:
    assert ["claim"] == [table for table, _ in accounting_rows(sacct(), "c1", zone("UTC"))]
