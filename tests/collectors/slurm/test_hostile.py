"""A Slurm that lies, leaks or breaks off half-way: runs go on, secrets stay, nothing else stops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpuwatch.collectors.slurm import files as slurm_files
from gpuwatch.collectors.slurm import json as slurm_json
from gpuwatch.collectors.slurm import queue_changes
from gpuwatch.collectors.slurm.changes import CLOSE_AFTER_US, JobChanges
from gpuwatch.collectors.slurm.queue_changes import QueueChanges
from gpuwatch.collectors.slurm.workload import Facts, workload_rows
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.model import Rejects, Source
from tests.collectors.slurm.test_json import squeue
from tests.collectors.slurm.test_live import FakeSink
from tests.collectors.slurm.test_rest import Slurmrestd

TOKEN = "eyJhbGciOi.secret.signature"
JOB = """JobId=7 JobName=x
   UserId=a(1) GroupId=a(1)
   Priority=1 Account=v QOS=normal
   JobState=RUNNING Reason=None Restarts=0
   RunTime=00:10:00 TimeLimit=1-00:00:00
   SubmitTime=2026-11-01T00:00:00 StartTime=2026-11-01T00:00:00 EndTime=2026-11-02T00:00:00
   Partition=batch
   NodeList=n1
   NumNodes=1 NumTasks=1
   TRES=cpu=1,gres/gpu=4
"""
GOOD_NODE = "\nNodeName=good State=IDLE Gres=gpu:4\n"


@pytest.fixture
def rest(tmp_path: Path) -> Slurmrestd:
    return Slurmrestd(tmp_path)


def ends(sink: FakeSink) -> list[int | None]:
    return [row["end_us"] for table, row in sink.rows if table == "claim"]


def imported(read: Any, path: Path, text: str) -> tuple[dict[str, int], list[str]]:
    """Rows by table and the reasons of what was refused."""
    path.write_text(text)
    rejects, rows = Rejects(), dict[str, int]()
    for batch in read(Source(str(path), "c1"), rejects):
        rows[batch.table] = rows.get(batch.table, 0) + batch.rows.num_rows
    return rows, list(rejects.counts)


# Answers that do not say that nothing runs.


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="an answer without its list of jobs"),
        pytest.param({"jobs": None}, id="a list of jobs that is null"),
        pytest.param({"jobs": [squeue(new=True) | {"state_reason": 5}]}, id="jobs in a shape nobody knows"),
        pytest.param({"jobs": [], "errors": [{"error": "slurmctld is busy"}]}, id="an empty list with an error"),
        pytest.param(web.Response(status=401, text="Authentication failure"), id="a token that ran out"),
    ],
)
def test_runs_do_not_end_because_an_answer_is_none(rest: Slurmrestd, answer: Any) -> None:
    source, sink = rest.source(accounting=False), FakeSink()
    rest.poll(source, sink)
    good, rest.answers["slurm/jobs"] = rest.answers["slurm/jobs"], answer
    for _ in range(3):
        rest.now_us += CLOSE_AFTER_US

        assert not rest.poll(source, sink)

    rest.answers["slurm/jobs"] = good

    assert rest.poll(source, sink)
    assert {None} == set(ends(sink))


def test_a_token_that_runs_out_between_jobs_and_nodes_ends_nothing(rest: Slurmrestd) -> None:
    source, sink = rest.source(accounting=False), FakeSink()
    rest.poll(source, sink)
    good = dict(rest.answers)
    rest.answers |= {"slurm/jobs": {"jobs": []}, "slurm/nodes": web.Response(status=401, text="expired")}
    for _ in range(3):
        rest.now_us += CLOSE_AFTER_US

        assert not rest.poll(source, sink)

    rest.answers = good

    assert rest.poll(source, sink)
    assert {None} == set(ends(sink))


def test_a_job_that_accounting_never_heard_of_costs_one_request(rest: Slurmrestd) -> None:
    """Its 404 is no sign of another version: the specification is not read again."""
    source, sink = rest.source(), FakeSink()
    rest.poll(source, sink)
    rest.answers["slurm/jobs"] = {"jobs": []}
    rest.now_us += HOUR_US
    rest.poll(source, sink)

    assert 1 == sum(path.startswith("/openapi") for path in rest.paths())
    assert 1 == sum("/job/" in path for path in rest.paths())


def test_a_clock_that_was_set_back_does_not_stop_accounting(rest: Slurmrestd) -> None:
    source, sink = rest.source(), FakeSink()
    rest.poll(source, sink)
    rest.now_us -= DAY_US
    asked = len(rest.asked)
    rest.poll(source, sink)

    assert {"/slurmdb/v0.0.43/jobs", "/slurmdb/v0.0.43/qos"} <= set(rest.paths()[asked:])


# Secrets.


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(web.Response(status=401, text=f"refused: {TOKEN}"), id="in a refusal"),
        pytest.param(web.Response(status=404, text=f"nothing for {TOKEN}"), id="in a page that is not there"),
        pytest.param({"jobs": [], "errors": [{"description": f"bad token {TOKEN}"}]}, id="in an error of an answer"),
    ],
)
def test_a_token_that_the_server_repeats_is_not_reported(rest: Slurmrestd, tmp_path: Path, answer: Any) -> None:
    rest.answers["slurm/jobs"] = answer
    (tmp_path / "token").write_text(f"SLURM_JWT={TOKEN}\n")
    sink = FakeSink()

    assert not rest.poll(rest.source(token_file=str(tmp_path / "token")), sink)
    assert TOKEN not in sink.errors[0]
    assert "***" in sink.errors[0]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"SLURM_JWT={TOKEN}\nSLURM_JWT={TOKEN}\n", id="two lines"),
        pytest.param(f"export SLURM_JWT={TOKEN}", id="a line of a shell"),
        pytest.param(f"{TOKEN}\x00{TOKEN}", id="a zero byte"),
    ],
)
def test_a_token_file_with_more_than_a_token_says_so_without_it(rest: Slurmrestd, tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    sink = FakeSink()

    assert not rest.poll(rest.source(token_file=str(tmp_path / "token")), sink)
    assert [] == rest.asked
    assert "more than one word" in sink.errors[0]
    assert TOKEN not in sink.errors[0]


# Records that no column can hold are refused alone.


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("NodeName= Arch=x86_64\n", "NodeName is empty", id="a node without a name"),
        pytest.param("PartitionName= State=UP\n", "PartitionName is empty", id="a partition without a name"),
        pytest.param("ReservationName=\n", "ReservationName is empty", id="a reservation without a name"),
        pytest.param(
            JOB.replace("RunTime=", "RunTime=99999999999999-"),
            "evidence_us is larger than 9223372036854775807",
            id="a job that ran longer than time",
        ),
        pytest.param(
            JOB.replace("RUNNING", "PENDING")
            .replace("TRES=cpu=1,gres/gpu=4", "TresPerNode=gres:gpu:1000000")
            .replace("NumNodes=1", "NumNodes=9999999"),
            "device_count is larger than 2147483647",
            id="a request for ten billion GPUs",
        ),
        pytest.param(
            JOB + "   Nodes=gpu[1-99999] CPU_IDs=0 Mem=0 GRES=gpu:h100:1000000(IDX:0)\n   MinCPUsNode=1\n",
            "device_count is larger than 2147483647",
            id="a job on more GPUs than there are",
        ),
    ],
)
def test_a_record_of_scontrol_is_refused_alone(tmp_path: Path, text: str, reason: str) -> None:
    assert ({"node": 1}, [reason]) == imported(slurm_files.read_scontrol, tmp_path / "s.txt", text + GOOD_NODE)


def test_a_line_of_sacct_with_an_endless_pause_is_refused_alone(tmp_path: Path) -> None:
    columns = "JobID|JobIDRaw|State|Start|End|NodeList|AllocTRES|Suspended|ElapsedRaw"
    line = "{}|{}|COMPLETED|2026-11-01T00:00:00|2026-11-01T01:00:00|n1|gres/gpu=1|{}|3600"
    text = "\n".join([columns, line.format(7, 7, "99999999999999-00:00:00"), line.format(8, 8, "00:00:00")])

    assert ({"claim": 1}, ["suspended_us is larger than 9223372036854775807"]) == imported(
        slurm_files.read_sacct, tmp_path / "sacct.txt", text
    )


def test_a_job_put_back_a_billion_times_is_refused_alone(tmp_path: Path) -> None:
    jobs = [squeue(new=True) | {"restart_cnt": 99_999_999_999}, squeue(new=True)]
    rows, reasons = imported(
        slurm_json.read_slurm_json, tmp_path / "jobs.json", json.dumps({"jobs": jobs, "errors": []})
    )

    assert {"claim": 1, "workload": 1} == rows
    assert ["evictions is larger than 2147483647"] == reasons


def test_a_reservation_of_three_billion_gpus_is_refused_alone(tmp_path: Path) -> None:
    tres = ",".join(f"gres/gpu:t{kind}=1000000" for kind in range(3000))
    many, few = {"name": "many", "tres": tres}, {"name": "few", "tres": "gres/gpu=2"}
    text = json.dumps({"reservations": [many, few]})

    assert ({"reservation": 1}, ["device_count is larger than 2147483647"]) == imported(
        slurm_json.read_slurm_json, tmp_path / "r.json", text
    )


# What is remembered.


def test_a_node_that_bears_our_own_words_is_written_once() -> None:
    tracker = JobChanges()
    row = {"node": "n1", "state": "down", "reason": "gone from Slurm's configuration", "observed_us": 0}

    assert [1, 0, 0] == [len(tracker.nodes([("node", row)], at)) for at in range(3)]


def test_a_node_that_is_gone_is_reported_once() -> None:
    tracker = JobChanges()
    rows = [("node", {"node": name, "state": "up", "reason": None, "observed_us": 0}) for name in ("n1", "n2")]
    tracker.nodes(rows, 0)

    assert [("n2", "down")] == [(row["node"], row["state"]) for _, row in tracker.nodes(rows[:1], 1)]
    assert [] == tracker.nodes(rows[:1], 2)


def test_more_workloads_than_are_kept_do_not_silence_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_changes, "MAX_WORKLOADS", 1)
    tracker, rejects = QueueChanges(), Rejects()

    def workload_record(uid: str, state: str) -> tuple[str, dict[str, Any]]:
        return "workload", {"uid": uid, "state": state}

    tracker.workloads([workload_record("7", "pending")], 0, rejects)
    news = tracker.workloads([workload_record("8", "pending"), workload_record("7", "running")], 1, rejects)

    assert [("7", "running")] == [(row["uid"], row["state"]) for _, row in news]
    assert {"more than 1 workloads": 1} == rejects.counts


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param("COMPLETING", None, id="while its processes end nobody says whether it was preempted"),
        pytest.param("COMPLETED", 0, id="it ended by itself"),
        pytest.param("PREEMPTED", 1, id="it was preempted"),
    ],
)
def test_an_unknown_number_of_preemptions_is_not_zero(state: str, expected: int | None) -> None:
    names = [name for name in Facts.__dataclass_fields__ if name not in ("uid", "state", "start_us")]
    facts = Facts(uid="7", state=state, start_us=0, **dict.fromkeys(names))
    held = {"node": "n1", "gpu_type": None, "profile": None, "device_count": 1}
    ((_, row),) = workload_rows(facts, [("claim", held)], (), "c1", None)

    assert expected == row["preemptions"]


def test_what_ended_while_nobody_looked_is_reported_after_a_restart(rest: Slurmrestd) -> None:
    """The store knows a running job, a waiting one and a partition of before; one of another scheduler stays alone."""
    sink = FakeSink()
    rest.poll(rest.source(), sink)
    of = {table: [row for entry, row in sink.rows if entry == table] for table in ("workload", "queue")}
    foreign = of["workload"][0] | {"scheduler": "kueue", "uid": "w"}
    again = FakeSink()
    again.stored = {
        "workload": [of["workload"][0] | {"uid": "old"}, *of["workload"], foreign],
        "queue": [*of["queue"], of["queue"][0] | {"name": "gone"}],
    }
    source = rest.source()
    rest.now_us += CLOSE_AFTER_US // 2
    rest.poll(source, again)

    assert [("gone", "deleted")] == [(row["name"], row["state"]) for table, row in again.rows if table == "queue"]
    assert [] == [row for table, row in again.rows if table == "workload"]

    seen_us = rest.now_us - CLOSE_AFTER_US // 2
    rest.now_us += CLOSE_AFTER_US
    rest.poll(source, again)

    assert [("old", "finished", seen_us)] == [
        (row["uid"], row["state"], row["end_us"]) for table, row in again.rows if table == "workload"
    ]
