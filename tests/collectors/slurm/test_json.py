"""Slurm's JSON: both shapes of numbers and states, runs and requests, refused records, and real answers read twice."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.collectors.slurm.json_values import number_of
from gpuwatch.collectors.slurm.sacct import job_rows
from gpuwatch.core.clock import SECOND_US, zone
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import TABLES, Records, Rejects, Source
from gpuwatch.core.registry import find_importer, plan_bundle
from gpuwatch.imports.files import import_paths
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
ANSWERS = SHARED / "wire/slurm"
START, END = 1_700_000_000, 1_700_003_600
NO_VAL, NO_VAL64 = 4294967294, 18446744073709551614

Tables = dict[str, list[dict[str, Any]]]
Json = dict[str, Any]


def read(tmp_path: Path, answer: Any, name: str = "a.json") -> tuple[Tables, Rejects]:
    (tmp_path / name).write_text(answer if isinstance(answer, str) else json.dumps(answer, indent=1))
    return read_file(tmp_path / name)


def read_file(path: Path) -> tuple[Tables, Rejects]:
    tables: Tables = {name: [] for name in TABLES}
    rejects = Rejects()
    for batch in find_importer("slurm-json").read(Source(str(path), "c1"), rejects):
        assert isinstance(batch, Records) and batch.rows.schema == TABLES[batch.table]
        tables[batch.table] += batch.rows.to_pylist()
    return tables, rejects


def boxed(number: int | None) -> Json:
    """A number as 23.11 and later print it."""
    return {"set": number is not None, "infinite": False, "number": number or 0}


def squeue(job: Json | None = None, new: bool = False) -> Json:
    """A running job with four H100 as the controller tells it, in the shape of 22.05 or of 24.05."""
    number = boxed if new else lambda value: value
    nodes = (
        {"nodes": {"allocation": [{"name": "n1"}]}} if new else {"nodes": "n1", "allocated_nodes": [{"nodename": "n1"}]}
    )
    return {
        "job_id": 5,
        "job_state": ["RUNNING"] if new else "RUNNING",
        "array_job_id": number(0),
        "array_task_id": boxed(None) if new else None,
        "array_task_string": "",
        "het_job_id": number(0),
        "het_job_offset": number(0),
        "submit_time": number(START - 60),
        "start_time": number(START),
        "end_time": number(START + 86_400),
        "suspend_time": number(0),
        "pre_sus_time": number(0),
        "last_sched_evaluation": number(START),
        "nodes": "n1",
        "job_resources": nodes,
        "node_count": number(1),
        "tasks": number(1),
        "gres_detail": ["gpu:h100:4(IDX:0-2,7)"],
        "tres_req_str": "cpu=1,gres/gpu=4,gres/gpu:h100=4",
        "tres_alloc_str": "cpu=1,gres/gpu=4,gres/gpu:h100=4",
        "tres_per_job": "",
        "tres_per_node": "",
        "tres_per_task": "",
        "user_name": "alice",
        "account": "vision",
        "partition": "gpu",
        "qos": "normal",
        "name": "train",
        "comment": '{\\"team\\":\\"v\\"}',
        "state_reason": "None",
        **(job or {}),
    }


def sacct(job: Json | None = None, gpus: Json | None = None, time: Json | None = None) -> Json:
    """A finished job with four H100 as the accounting database tells it."""
    counts = {"cpu": 8, "gres/gpu": 4, "gres/gpu:h100": 4} if gpus is None else gpus
    listed = [
        {"type": name.partition("/")[0], "name": name.partition("/")[2] or None, "id": 1, "count": count}
        for name, count in counts.items()
    ]
    clock = {"submission": START - 60, "eligible": START - 60, "start": START, "end": END, "elapsed": END - START}
    return {
        "job_id": 5,
        "array": {"job_id": 0, "task_id": None, "task": None},
        "het": {"job_id": 0, "job_offset": None},
        "time": {**clock, "suspended": 0, **(time or {})},
        "state": {"current": "COMPLETED", "reason": "None"},
        "nodes": "n1",
        "allocation_nodes": 1,
        "tres": {"allocated": listed, "requested": listed},
        "user": "alice",
        "account": "vision",
        "partition": "gpu",
        "qos": "normal",
        "name": "train",
        "comment": {"job": '{"team":"v"}', "administrator": None, "system": None},
        "steps": [{"tres": {"allocated": listed}}],
        **(job or {}),
    }


def answer(*jobs: Json, **more: Any) -> Json:
    return {"meta": {}, "jobs": list(jobs), "errors": [], **more}


def held(tables: Tables) -> list[tuple[str, str | None, str | None, int]]:
    return [(c["node"], c["gpu_type"], c["profile"], c["device_count"]) for c in tables["claim"]]


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(squeue({"gres_detail": [], "tres_alloc_str": "cpu=1"}), id="a running job without GPUs"),
        pytest.param(squeue({"job_state": ["CANCELLED"], "nodes": ""}), id="cancelled while it waited"),
        pytest.param(squeue({"job_state": "COMPLETED", "start_time": 0}), id="a run that never started"),
        pytest.param(squeue({"job_state": ["COMPLETING"], "end_time": 0}), id="requeued, its processes end"),
        pytest.param(
            squeue({"job_state": "COMPLETING", "end_time": START + (1 << 32) - 60}),
            id="requeued, with an end guessed in 136 years",
        ),
        pytest.param(sacct(gpus={"cpu": 8}), id="an accounted job without GPUs"),
        pytest.param(sacct(gpus={"gres/gpu": -2, "gres/nic": 4}), id="a count that is not set, another gres"),
        pytest.param(sacct(time={"start": 0, "end": 0}, gpus={}), id="accounted, cancelled while it waited"),
    ],
)
def test_who_held_nothing_has_no_row(tmp_path: Path, job: Json) -> None:
    tables, rejects = read(tmp_path, answer(job))

    assert [] == tables["claim"] + tables["pending"] + tables["node"]
    assert 0 == rejects.total


@pytest.mark.parametrize("new", [pytest.param(False, id="the shape of 22.05"), pytest.param(True, id="of 24.05")])
def test_a_running_job_of_the_controller(tmp_path: Path, new: bool) -> None:
    tables, rejects = read(tmp_path, answer(squeue(new=new), last_update=boxed(START + 90)))

    assert 0 == rejects.total
    assert [
        {
            "cluster": "c1",
            "scheduler": "slurm",
            "kind": "scontrol",
            "job_id": "5",
            "run_key": f"5@{START * SECOND_US}",
            "pod_uid": None,
            "pod": None,
            "namespace": None,
            "node": "n1",
            "gpu_type": "h100",
            "profile": None,
            "device_count": 4,
            "device_indexes": "0,1,2,7",
            "gpus": None,
            "submit_us": (START - 60) * SECOND_US,
            "start_us": START * SECOND_US,
            "end_us": None,
            "evidence_us": (START + 90) * SECOND_US,
            "state": "RUNNING",
            "user_name": "alice",
            "account": "vision",
            "queue": "gpu",
            "qos": "normal",
            "name": "train",
            "labels": '{"team":"v"}',
            "suspended_us": 0,
            "fraction": None,
            "naive_us": None,
            "naive_zone": None,
            "cpu_milli": 1000,
            "memory_bytes": None,
            "node_rule": None,
        }
    ] == tables["claim"]


def test_an_accounted_job_has_the_row_of_the_same_text(tmp_path: Path) -> None:
    tables, rejects = read(tmp_path, answer(sacct()))
    text = {
        "jobid": "5",
        "jobidraw": "5",
        "state": "COMPLETED",
        "submit": str(START - 60),
        "start": str(START),
        "end": str(END),
        "elapsedraw": "3600",
        "suspended": "00:00:00",
        "nodelist": "n1",
        "alloctres": "cpu=8,gres/gpu=4,gres/gpu:h100=4",
        "user": "alice",
        "account": "vision",
        "partition": "gpu",
        "qos": "normal",
        "jobname": "train",
        "comment": '{"team":"v"}',
    }
    ((_, row),) = job_rows(text, "c1", zone("UTC"))

    assert 0 == rejects.total
    assert [row] == [{name: value for name, value in claim.items() if name in row} for claim in tables["claim"]]


def test_without_its_own_time_an_answer_is_as_old_as_the_last_thing_it_tells(tmp_path: Path) -> None:
    ended = squeue({"job_id": 6, "job_state": "COMPLETED", "end_time": START + 70})
    tables, _ = read(tmp_path, answer(squeue(), ended))

    assert {"5": None, "6": START + 70} == {
        c["job_id"]: c["end_us"] and c["end_us"] // SECOND_US for c in tables["claim"]
    }
    assert {START + 70} == {c["evidence_us"] // SECOND_US for c in tables["claim"]}


@pytest.mark.parametrize(
    ("job", "rows"),
    [
        pytest.param(
            {"nodes": "n[1-2]", "gres_detail": ["gpu:a100:1(IDX:0),gpu:1g.5gb:2(IDX:1-2)", "gpu:2(IDX:3-4)"]},
            [("n1", "a100", None, 1), ("n1", None, "1g.5gb", 2), ("n2", None, None, 2)],
            id="types, a MIG profile and an untyped gres by node",
        ),
        pytest.param(
            {
                "nodes": "a,b",
                "job_resources": {"nodes": {"allocation": [{"name": "b"}, {"name": "a"}]}},
                "gres_detail": ["gpu:h100:3(IDX:0-2)", "gpu:h100:1(IDX:0)"],
            },
            [("b", "h100", None, 3), ("a", "h100", None, 1)],
            id="details come in the order of the allocation",
        ),
        pytest.param(
            {"nodes": "n[1-3]", "gres_detail": ["gpu:h100:2(IDX:0-1)", "", "gpu:h100:1(IDX:0)"]},
            [("n1", "h100", None, 2), ("n3", "h100", None, 1)],
            id="a node without GPUs",
        ),
        pytest.param(
            {"nodes": "n[1-3]", "gres_detail": ["gpu:h100:2(IDX:0-1)", "gpu:h100:1(IDX:0)"]},
            [("n1", "h100", None, 1), ("n2", "h100", None, 1), ("n3", "h100", None, 1)],
            id="details that fit no node are a total",
        ),
        pytest.param({"gres_detail": []}, [("n1", "h100", None, 4)], id="typed and untyped TRES are the same GPUs"),
        pytest.param(
            {"gres_detail": [], "tres_alloc_str": "gres/gpu=3", "tres_per_node": "gres:gpu:7"},
            [("n1", None, None, 3)],
            id="what was allocated comes before what was asked for",
        ),
        pytest.param(
            {"gres_detail": [], "tres_alloc_str": "cpu=1", "tres_per_node": "gres/gpu:h100:4"},
            [("n1", "h100", None, 4)],
            id="without GPU accounting what was asked for is all that is told",
        ),
        pytest.param(
            {"gres_detail": [], "tres_alloc_str": "cpu=1", "tres_per_task": "gres/gpu=2", "tasks": boxed(2)},
            [("n1", None, None, 4)],
            id="GPUs a task",
        ),
    ],
)
def test_devices_of_a_controller_job(tmp_path: Path, job: Json, rows: list[tuple[Any, ...]]) -> None:
    tables, rejects = read(tmp_path, answer(squeue({"job_resources": {}} | job)))

    assert 0 == rejects.total
    assert rows == held(tables)


def test_records_with_and_without_nodes_are_of_different_kinds(tmp_path: Path) -> None:
    """claims/merged.sql takes the devices of a run from one kind: what is told by node and what is spread never add up."""
    totals = squeue({"job_state": "COMPLETED", "gres_detail": []})
    tables, _ = read(tmp_path, answer(totals, squeue(), sacct()))

    assert ["sacct", "sacct", "scontrol"] == [claim["kind"] for claim in tables["claim"]]
    assert 1 == len({(claim["job_id"], claim["run_key"]) for claim in tables["claim"]})


def test_one_run_in_three_answers_is_in_the_ledger_once(tmp_path: Path) -> None:
    nodes = {"nodes": "n[1-2]", "job_resources": {}}
    runs = squeue({"gres_detail": ["gpu:h100:3(IDX:0-2)", "gpu:h100:1(IDX:0)"]} | nodes)
    ended = squeue({"job_state": "COMPLETED", "end_time": END, "gres_detail": []} | nodes)
    for name, job in (("t1", runs), ("t2", ended), ("sacct", sacct({"nodes": "n[1-2]"}))):
        (tmp_path / f"{name}.json").write_text(json.dumps(answer(job)))
    with Store.open(None, threads=1) as store, State.open(tmp_path / "state") as state:
        import_paths(store, state, "slurm-json", [tmp_path], cluster="c1", now_us=0)
        analyze(store, state, Settings(), now_us=0)
        held = store.sql(
            """select d.node, sum(s.end_us - s.start_us) from segment s join device d using (device_id)
            where s.run_id is not null group by d.node order by d.node"""
        )

    assert [("n1", 3 * 3600 * SECOND_US), ("n2", 3600 * SECOND_US)] == held


@pytest.mark.parametrize(
    ("gpus", "rows"),
    [
        pytest.param({"gres/gpu:h100": 4, "gres/gpu": 4}, [("n1", "h100", None, 4)], id="typed first"),
        pytest.param({"gres/gpu": 4}, [("n1", None, None, 4)], id="only untyped"),
        pytest.param({"gres/gpu:h100": 4}, [("n1", "h100", None, 4)], id="only typed"),
        pytest.param(
            {"gres/gpu": 2, "gres/gpu:a100_1g.5gb": 2}, [("n1", "a100", "1g.5gb", 2)], id="slices keep their profile"
        ),
    ],
)
def test_gpus_of_an_accounted_job(tmp_path: Path, gpus: Json, rows: list[tuple[Any, ...]]) -> None:
    tables, _ = read(tmp_path, answer(sacct(gpus=gpus)))

    assert rows == held(tables)


@pytest.mark.parametrize(
    ("job", "run"),
    [
        pytest.param(sacct({"job_id": 8, "array": {"job_id": 7, "task_id": 0}}), ("7_0", "8"), id="a task, 22.05"),
        pytest.param(
            sacct({"job_id": 8, "array": {"job_id": boxed(7), "task_id": boxed(3), "task": ""}}),
            ("7_3", "8"),
            id="a task, newer",
        ),
        pytest.param(
            sacct({"array": {"job_id": 0, "task_id": NO_VAL}, "het": {"job_id": 0, "job_offset": NO_VAL}}),
            ("5", "5"),
            id="no value as a number",
        ),
        pytest.param(sacct({"job_id": 13, "het": {"job_id": 12, "job_offset": boxed(1)}}), ("12+1", "13"), id="het"),
        pytest.param(squeue({"job_id": 8, "array_job_id": 7, "array_task_id": 0}), ("7_0", "8"), id="task of squeue"),
        pytest.param(
            squeue({"job_id": 13, "het_job_id": boxed(12), "het_job_offset": boxed(1)}),
            ("12+1", "13"),
            id="het of squeue",
        ),
    ],
)
def test_a_run_is_named_as_sacct_prints_it(tmp_path: Path, job: Json, run: tuple[str, str]) -> None:
    (claim,) = read(tmp_path, answer(job))[0]["claim"]

    assert run == (claim["job_id"], claim["run_key"].split("@")[0])


def test_a_requeued_job_is_two_runs(tmp_path: Path) -> None:
    again = sacct(time={"start": END, "end": END + 60, "elapsed": 60})
    claims = read(tmp_path, answer(sacct({"state": {"current": ["REQUEUED"]}}), again))[0]["claim"]

    assert [(START, END), (END, END + 60)] == [(c["start_us"] // SECOND_US, c["end_us"] // SECOND_US) for c in claims]
    assert 2 == len({claim["run_key"] for claim in claims})


@pytest.mark.parametrize(
    ("job", "run"),
    [
        pytest.param(squeue({"job_state": ["COMPLETED"], "end_time": END}), ("COMPLETED", END, 0), id="it ended"),
        pytest.param(
            squeue({"job_state": ["COMPLETED", "COMPLETING"], "end_time": END}),
            ("COMPLETING", END, 0),
            id="it ended and its processes end",
        ),
        pytest.param(squeue({"job_state": ["RUNNING", "CONFIGURING"]}), ("CONFIGURING", None, 0), id="nodes boot"),
        pytest.param(squeue({"job_state": "RESIZING"}), ("RESIZING", None, 0), id="it changes its size"),
        pytest.param(
            squeue({"job_state": "SUSPENDED", "suspend_time": START + 100, "pre_sus_time": 40}),
            ("SUSPENDED", None, 60),
            id="60 s of 100 it was suspended",
        ),
        pytest.param(
            sacct({"state": {"current": "RUNNING"}}, time={"end": 0, "elapsed": 30}),
            ("RUNNING", None, 0),
            id="an accounted job runs",
        ),
        pytest.param(
            sacct(time={"elapsed": 3000, "suspended": 600}), ("COMPLETED", END, 600), id="accounted and suspended"
        ),
    ],
)
def test_state_and_end_of_a_run(tmp_path: Path, job: Json, run: tuple[str, int | None, int]) -> None:
    (claim,) = read(tmp_path, answer(job))[0]["claim"]
    state, end, suspended = run

    assert (state, end and end * SECOND_US, suspended * SECOND_US) == (
        claim["state"],
        claim["end_us"],
        claim["suspended_us"],
    )


@pytest.mark.parametrize(
    ("job", "rows"),
    [
        pytest.param({}, [("5", "h100", 4)], id="its TRES"),
        pytest.param(
            {"array_job_id": boxed(7), "array_task_string": "2-3%1"},
            [("7_2", "h100", 4), ("7_3", "h100", 4)],
            id="tasks of an array",
        ),
        pytest.param(
            {"tres_req_str": "cpu=2", "tres_per_node": "gres:gpu:a100:2", "node_count": 3},
            [("5", "a100", 6)],
            id="options, where GPUs are not accounted for",
        ),
    ],
)
def test_a_waiting_request_of_the_controller(tmp_path: Path, job: Json, rows: list[tuple[Any, ...]]) -> None:
    waiting = squeue({"job_state": ["PENDING"], "nodes": "", "gres_detail": [], "tres_alloc_str": ""} | job)
    tables, _ = read(tmp_path, answer(waiting))

    assert [] == tables["claim"]
    assert rows == [(p["job_id"], p["gpu_type"], p["device_count"]) for p in tables["pending"]]
    assert {(START - 60, START)} == {
        (p["submit_us"] // SECOND_US, p["evidence_us"] // SECOND_US) for p in tables["pending"]
    }


@pytest.mark.parametrize(
    ("more", "until"),
    [pytest.param({}, START, id="of no known time"), pytest.param({"last_update": boxed(END)}, END, id="dated")],
)
def test_a_document_proves_a_wait_up_to_its_time(tmp_path: Path, more: Json, until: int) -> None:
    waiting = squeue({"job_state": ["PENDING"], "nodes": "", "gres_detail": [], "tres_alloc_str": ""})
    tables, _ = read(tmp_path, answer(waiting) | more)

    assert [until] == [p["evidence_us"] // SECOND_US for p in tables["pending"]]


def test_a_waiting_request_has_its_constraint(tmp_path: Path) -> None:
    waiting = {"job_state": ["PENDING"], "nodes": "", "gres_detail": [], "tres_alloc_str": "", "features": "ib"}
    (row,) = read(tmp_path, answer(squeue(waiting)))[0]["pending"]

    assert '{"constraint":"ib"}' == row["node_rule"]


def test_a_waiting_request_of_the_database(tmp_path: Path) -> None:
    waits = {"start": 0, "end": 0, "elapsed": 0, "planned": boxed(90)}
    state = {"current": ["PENDING"], "reason": "Priority"}
    job = sacct({"state": state, "nodes": "None assigned"}, time=waits)
    job["tres"] = job["tres"] | {"allocated": []}
    tables, _ = read(tmp_path, answer(job))

    assert [("5", 4, START + 30, "Priority")] == [
        (p["job_id"], p["device_count"], p["evidence_us"] // SECOND_US, p["reason"]) for p in tables["pending"]
    ]


@pytest.mark.parametrize(
    ("node", "row"),
    [
        pytest.param(
            {
                "state": "mixed",
                "state_flags": ["DRAIN"],
                "partitions": ["gpu", "all"],
                "active_features": "ib",
                "features": "ib",
            },
            ("drain", START, "Xid 79"),
            id="22.05: state and flags apart",
        ),
        pytest.param(
            {
                "state": ["IDLE", "DRAIN"],
                "reason_changed_at": boxed(START),
                "partitions": ["gpu", "all"],
                "active_features": ["ib"],
            },
            ("drain", START, "Xid 79"),
            id="newer: one list",
        ),
        pytest.param(
            {
                "state": ["IDLE"],
                "reason": "",
                "reason_changed_at": boxed(0),
                "partitions": ["gpu", "all"],
                "active_features": ["ib"],
            },
            ("up", None, None),
            id="in service",
        ),
    ],
)
def test_a_node(tmp_path: Path, node: Json, row: tuple[Any, ...]) -> None:
    record = {"name": "n1", "gres": "gpu:a100:2,gpu:1g.10gb:7", "reason": "Xid 79", "reason_changed_at": START} | node
    tables, rejects = read(tmp_path, {"nodes": [record], "last_update": boxed(END)})
    (found,) = tables["node"]

    assert 0 == rejects.total
    assert row == (found["state"], found["since_us"] and found["since_us"] // SECOND_US, found["reason"])
    assert ("n1", "a100", '{"":2,"1g.10gb":7}', "gpu", END * SECOND_US) == tuple(
        found[name] for name in ("node", "gpu_model", "devices", "pool", "observed_us")
    )
    labels = {"features": "ib", "partitions": "gpu,all"}
    assert labels | ({"states": "DRAIN"} if row[0] == "drain" else {}) == json.loads(found["labels"])


def test_a_node_list_without_a_time_has_none(tmp_path: Path) -> None:
    (node,) = read(tmp_path, {"nodes": [{"name": "n1", "state": "idle", "gres": ""}]})[0]["node"]

    assert (None, "{}", "up") == (node["observed_us"], node["devices"], node["state"])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(17, "an item of jobs is not an object", id="a number"),
        pytest.param({"name": "x"}, "not a job of the controller or of the accounting database", id="no job"),
        pytest.param(squeue({"job_id": 0}), "job_id is not a job number", id="no job number"),
        pytest.param(squeue({"job_state": []}), "job_state is missing", id="no state"),
        pytest.param(squeue({"start_time": "soon"}), "a number is not a whole number", id="a time in words"),
        pytest.param(squeue({"start_time": 10**30}), "a number is larger than 99999999999", id="a time beyond all"),
        pytest.param(squeue({"job_state": "FAILED", "end_time": 5}), "end precedes start", id="it ends before"),
        pytest.param(
            squeue({"job_state": "FAILED", "end_time": 99999999998}), "lasts longer than five years", id="in 5138"
        ),
        pytest.param(
            squeue({"nodes": "n[1-", "job_resources": {}}), "host list: brackets do not match", id="a torn list"
        ),
        pytest.param(squeue({"gres_detail": [5]}), "gres_detail is not a string", id="a detail that is no text"),
        pytest.param(sacct({"nodes": "None assigned"}), "GPUs allocated but no node in NodeList", id="no node"),
        pytest.param(sacct({"user": ["a"]}), "user is not a string", id="a user that is no text"),
        pytest.param(sacct(gpus={"gres/gpu": 10**9}), "GPU count is not a number up to 1000000", id="too many GPUs"),
    ],
)
def test_a_bad_record_is_refused_alone_with_its_place(tmp_path: Path, bad: Any, reason: str) -> None:
    text = '{"jobs": [\n' + ",\n".join(json.dumps(job) for job in (sacct(), bad, sacct({"job_id": 9}))) + "\n]}"
    tables, rejects = read(tmp_path, text)

    assert ["5", "9"] == [claim["job_id"] for claim in tables["claim"]]
    assert {reason: 1} == rejects.counts
    assert 3 == rejects.first[reason][1]


def test_half_a_surrogate_pair_does_no_harm(tmp_path: Path) -> None:
    tables, _ = read(tmp_path, '{"jobs": [' + json.dumps(sacct({"name": "NAME"})).replace("NAME", "\\ud800") + "]}")

    assert "?" == tables["claim"][0]["name"]


def test_an_answer_that_is_an_error_says_so(tmp_path: Path) -> None:
    _, rejects = read(tmp_path, answer(errors=[{"error": "Invalid job id specified", "error_number": 2017}]))

    assert {"Slurm returned an error: Invalid job id specified": 1} == rejects.counts


def test_an_answer_about_something_else_is_ignored(tmp_path: Path) -> None:
    tables, rejects = read(tmp_path, {"meta": {}, "pings": [{"hostname": "head"}]})

    assert {name: [] for name in TABLES} == tables
    assert {"ignored: a Slurm document without jobs or nodes": 1} == rejects.counts


def test_a_bundle_takes_it(tmp_path: Path) -> None:
    (tmp_path / "slurm").mkdir()
    read(tmp_path / "slurm", answer(sacct()), "sacct.json")

    assert (("slurm-json", tmp_path / "slurm/sacct.json"),) == plan_bundle(tmp_path).parts


def test_json_of_something_else_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="sacct --json"):
        read(tmp_path, {"items": []})


@pytest.mark.parametrize(
    ("value", "number"),
    [
        pytest.param(None, None, id="null"),
        pytest.param(7, 7, id="plain"),
        pytest.param(7.0, 7, id="with a point"),
        pytest.param(NO_VAL, None, id="NO_VAL"),
        pytest.param(NO_VAL64, None, id="NO_VAL64"),
        pytest.param(-2, None, id="NO_VAL64 as a signed number"),
        pytest.param({"set": False, "infinite": False, "number": 7}, None, id="not set"),
        pytest.param({"set": True, "infinite": True, "number": 0}, None, id="infinite"),
        pytest.param({"set": True, "infinite": False, "number": 0}, 0, id="set to 0"),
    ],
)
def test_numbers(value: Any, number: int | None) -> None:
    assert number == number_of(value)


# Real answers -------------------------------------------------------------------------------------------------------


def recorded(pattern: str) -> list[Any]:
    """Files of real answers; one that skips, saying so, where there are none."""
    files = sorted(ANSWERS.glob(pattern))
    skip = pytest.mark.skip(reason=f"{ANSWERS}/{pattern} is not here: set GPUWATCH_SHARED")
    return [pytest.param(f, id=str(f.relative_to(ANSWERS))) for f in files] or [
        pytest.param(None, marks=skip, id=pattern)
    ]


def plain(value: Any) -> Any:
    """A naive reading of a number."""
    return (value["number"] if value["set"] else None) if isinstance(value, dict) else value


def naive_gpus(job: Json) -> int:
    """GPUs of a job as a person would count them."""
    if "tres" in job:
        counts = {item["name"]: item["count"] for item in job["tres"]["allocated"] if item["type"] == "gres"}
        return int(counts.get("gpu") or sum(counts.values()))
    listed = [re.sub(r"\(.*?\)", "", text) for text in job["gres_detail"]]
    if listed:
        return sum(int(gres.split(":")[-1]) for text in listed for gres in text.split(","))
    if match := re.search(r"gres/gpu=(\d+)", job["tres_alloc_str"]):
        return int(match[1])
    if match := re.search(r"gpu.*?(\d+)$", job["tres_per_job"]):
        return int(match[1])
    match = re.search(r"gpu.*?(\d+)$", job["tres_per_node"])
    return int(match[1]) * int(plain(job["node_count"])) if match else 0


def naive_state(job: Json) -> str:
    return str(job["job_state"] if isinstance(job["job_state"], str) else job["job_state"][0])


def naive_now(answer: Json) -> int:
    """The time of an answer of the controller: its own, or the last thing that a job with GPUs tells."""
    times = [plain(answer.get("last_update")) or 0]
    for job in answer["jobs"]:
        if "gpu" in f"{job['gres_detail']}{job['tres_req_str']}{job['tres_per_job']}":
            edge = {"RUNNING": "start_time", "PENDING": "submit_time"}.get(naive_state(job), "end_time")
            times += [plain(job[edge]), plain(job["last_sched_evaluation"])]
    return max(times)


def naive_gpu_seconds(answer: Json) -> dict[str, int]:
    """GPU-seconds by job number of the runs that have started, read with json.load and a few ifs."""
    seconds: dict[str, int] = {}
    for job in answer["jobs"]:
        if "tres" in job:
            length = job["time"]["elapsed"] + job["time"]["suspended"]
        elif naive_state(job) == "PENDING" or not job["nodes"]:
            length = 0
        else:
            end = naive_now(answer) if naive_state(job) == "RUNNING" else plain(job["end_time"])
            length = end - plain(job["start_time"])
        if length * naive_gpus(job):
            seconds[str(job["job_id"])] = length * naive_gpus(job)
    return seconds


@pytest.mark.parametrize(
    "file",
    [
        *recorded("recorded_22.05/sacct.json"),
        *recorded("recorded_22.05/squeue*.json"),
        *recorded("recorded_22.05/rest_*_jobs.json"),
        *recorded("slurmweb_24.05*/slurm*-job*.json*"),
        *recorded("slurmweb_25.05*/slurm*-job*.json*"),
        *recorded("other_sites/*squeue_out.json"),
        *recorded("other_sites/*_jobs.json"),
    ],
)
def test_gpu_seconds_of_a_real_answer_are_those_of_a_second_reading(file: Path) -> None:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        document = json.load(stream)
    tables, rejects = read_file(file)
    seconds: dict[str, int] = {}
    for claim in tables["claim"]:
        job, until_us = claim["run_key"].split("@")[0], claim["end_us"] or claim["evidence_us"]
        seconds[job] = seconds.get(job, 0) + claim["device_count"] * (until_us - claim["start_us"]) // SECOND_US

    assert naive_gpu_seconds(document) == {job: held for job, held in seconds.items() if held}
    assert len(document["errors"]) == rejects.total


@pytest.mark.parametrize(
    "file",
    [
        *recorded("recorded_22.05/sinfo.json"),
        *recorded("recorded_22.05/rest_*_nodes.json"),
        *recorded("slurmweb_2*/slurm-node*.json*"),
        *recorded("other_sites/*nodes.json"),
        *recorded("other_sites/*sinfo_out.json"),
    ],
)
def test_every_node_of_a_real_answer_is_read(file: Path) -> None:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        nodes = json.load(stream)["nodes"]
    tables, rejects = read_file(file)

    assert 0 == rejects.total
    assert [node["name"] for node in nodes] == [row["node"] for row in tables["node"]]
    assert [sum(map(int, re.findall(r"gpu:[^:,]+:(\d+)", node["gres"]))) for node in nodes] == [
        sum(json.loads(row["devices"]).values()) for row in tables["node"]
    ]
    assert None not in [row["state"] for row in tables["node"]]
