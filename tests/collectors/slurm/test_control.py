"""scontrol show job -d and show node -d into claims, pending requests and nodes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.slurm.files import read_sacct, read_scontrol
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.model import TABLES, Records, Rejects, Source
from gpuwatch.core.registry import Read

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
RECORDED = SHARED / "wire/slurm/recorded_22.05"
DETAIL = "     Nodes=gpu01,gpu02 CPU_IDs=0-1 Mem=32 GRES=gpu:h100:4(IDX:0-3)"
NODE = "NodeName=gpu01 Arch=x86_64 \n   Gres=gpu:h100:8\n   State=MIXED\n   Partitions=gpu \n\n"
Tables = dict[str, list[dict[str, Any]]]


def job(detail: str = DETAIL, one_line: bool = False, **changes: str) -> str:
    """One job's record, several lines or one, with the changes told."""
    at = "2026-11-21T02:00:00"
    f = {
        "head": "JobId=5",
        "name": "train",
        "state": "RUNNING",
        "reason": "None",
        "run": "01:00:00",
        "start": at,
        "end": "2026-11-22T02:00:00",
        "suspend": "None",
        "pre": "0",
        "nodes": "gpu[01-02]",
        "num": "2",
        "tres": "TRES=cpu=4,gres/gpu=8,gres/gpu:h100=8",
        "comment": "",
        "asked": "TresPerNode=gres:gpu:h100:4",
    } | changes
    lines = [
        f"{f['head']} JobName={f['name']}",
        "   UserId=alice(1001) GroupId=alice(1001) MCS_label=N/A",
        "   Priority=1 Nice=0 Account=vision QOS=normal",
        f"   JobState={f['state']} Reason={f['reason']} Dependency=(null)",
        f"   RunTime={f['run']} TimeLimit=1-00:00:00 TimeMin=N/A",
        "   SubmitTime=2026-11-21T01:00:00 EligibleTime=2026-11-21T01:00:00",
        f"   StartTime={f['start']} EndTime={f['end']} Deadline=N/A",
        f"   SuspendTime={f['suspend']} SecsPreSuspend={f['pre']} LastSchedEval=2026-11-21T01:30:00 Scheduler=Main",
        "   Partition=gpu AllocNode:Sid=localhost:1",
        f"   NodeList={f['nodes']}",
        f"   NumNodes={f['num']} NumCPUs=4 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*",
        f"   {f['tres']}",
        "   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*",
        detail,
        "   MinCPUsNode=1 MinMemoryNode=1G MinTmpDiskNode=0",
        "   Command=(null)",
        f"   Comment={f['comment']}",
        "   Power=",
        f"   {f['asked']}",
    ]
    return (" ".join(line.strip() for line in lines) if one_line else "\n".join(lines) + "\n   \n") + "\n"


def rows_of(read: Read, path: Path, timezone: str = "UTC", observed_us: int | None = None) -> tuple[Tables, Rejects]:
    rejects = Rejects()
    tables: Tables = {name: [] for name in TABLES}
    for batch in read(Source(str(path), "c1", timezone, observed_us), rejects):
        assert isinstance(batch, Records)
        tables[batch.table] += batch.rows.to_pylist()
    return tables, rejects


def read(tmp_path: Path, text: str, timezone: str = "UTC") -> tuple[Tables, Rejects]:
    path = tmp_path / "scontrol_job.txt"
    path.write_text(text)
    return rows_of(read_scontrol, path, timezone, 77)


def recorded(name: str) -> Path:
    if not (RECORDED / name).exists():
        pytest.skip(f"{RECORDED / name} is not there: set GPUWATCH_SHARED")
    return RECORDED / name


def test_a_job_without_gpus_gives_no_row(tmp_path: Path) -> None:
    tables, rejects = read(tmp_path, job(detail="     Nodes=gpu01 CPU_IDs=0 Mem=1 GRES=", tres="TRES=cpu=4"))

    assert {name: [] for name in TABLES} == tables
    assert 0 == rejects.total


def test_no_jobs_is_an_answer(tmp_path: Path) -> None:
    assert {name: [] for name in TABLES} == read(tmp_path, "No jobs in the system\n")[0]


@pytest.mark.parametrize("one_line", [False, True], ids=["several lines", "one line"])
def test_a_running_job_holds_named_devices(tmp_path: Path, one_line: bool) -> None:
    tables, rejects = read(tmp_path, job(one_line=one_line, comment='{\\"team\\":\\"vision\\"} '))
    start_us = parse_rfc3339("2026-11-21T02:00:00Z")

    assert 0 == rejects.total
    assert ["gpu01", "gpu02"] == [claim["node"] for claim in tables["claim"]]
    assert {
        "cluster": "c1",
        "scheduler": "slurm",
        "kind": "scontrol",
        "job_id": "5",
        "run_key": f"5@{start_us}",
        "pod_uid": None,
        "pod": None,
        "namespace": None,
        "node": "gpu01",
        "gpu_type": "h100",
        "profile": None,
        "device_count": 4,
        "device_indexes": "0,1,2,3",
        "gpus": None,
        "submit_us": parse_rfc3339("2026-11-21T01:00:00Z"),
        "start_us": start_us,
        "end_us": None,
        "evidence_us": parse_rfc3339("2026-11-21T03:00:00Z"),
        "state": "RUNNING",
        "user_name": "alice",
        "account": "vision",
        "queue": "gpu",
        "qos": "normal",
        "name": "train",
        "labels": '{"team":"vision"}',
        "suspended_us": 0,
        "fraction": None,
        "naive_us": start_us,
        "naive_zone": "UTC",
        "cpu_milli": 2000,
        "memory_bytes": None,
        "node_rule": None,
    } == tables["claim"][0]


@pytest.mark.parametrize(
    ("detail", "devices"),
    [
        pytest.param(
            "     Nodes=m1 CPU_IDs=0 Mem=1 GRES=gpu:a100:1(IDX:0),gpu:1g.10gb:1(IDX:2)",
            [("m1", "a100", None, "0"), ("m1", None, "1g.10gb", "2")],
            id="two types on a node",
        ),
        pytest.param(
            "     Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu:h100:1(IDX:7)\n     Nodes=n2 CPU_IDs=0 Mem=1 GRES=gpu:h100:2(IDX:0,4)",
            [("n1", "h100", None, "7"), ("n2", "h100", None, "0,4")],
            id="nodes that differ have a line each",
        ),
        pytest.param("     Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu:4", [("n1", None, None, None)], id="no indexes told"),
    ],
)
def test_devices_are_those_of_the_node_lines(
    tmp_path: Path, detail: str, devices: list[tuple[str | None, ...]]
) -> None:
    claims = read(tmp_path, job(detail=detail))[0]["claim"]

    assert devices == [(c["node"], c["gpu_type"], c["profile"], c["device_indexes"]) for c in claims]


@pytest.mark.parametrize("key", ["TRES", "AllocTRES"])
def test_after_its_end_a_job_keeps_counts_without_indexes(tmp_path: Path, key: str) -> None:
    done = {"state": "COMPLETED", "end": "2026-11-21T03:00:00", "tres": f"{key}=gres/gpu=8,gres/gpu:h100=8"}
    claims = read(tmp_path, job(detail="     Nodes=gpu01 CPU_IDs=0 Mem=1 GRES=", **done))[0]["claim"]

    assert [("gpu01", 4, None), ("gpu02", 4, None)] == [
        (c["node"], c["device_count"], c["device_indexes"]) for c in claims
    ]
    assert {parse_rfc3339("2026-11-21T03:00:00Z")} == {c["end_us"] for c in claims}


def test_a_site_that_does_not_account_for_gpus_still_tells_them(tmp_path: Path) -> None:
    assert [4, 4] == [c["device_count"] for c in read(tmp_path, job(tres="TRES=cpu=4"))[0]["claim"]]


@pytest.mark.parametrize(
    ("changes", "evidence", "minutes"),
    [
        pytest.param({}, "03:00", 0, id="never suspended"),
        pytest.param({"run": "00:40:00", "suspend": "2026-11-21T02:30:00", "pre": "1200"}, "02:50", 10, id="resumed"),
        pytest.param(
            {"state": "SUSPENDED", "run": "00:20:00", "suspend": "2026-11-21T02:20:00", "pre": "1200"},
            "02:20",
            0,
            id="now",
        ),
        pytest.param(
            {"state": "FAILED", "end": "2026-11-21T03:00:00", "run": "00:45:00", "suspend": "2026-11-21T02:30:00"},
            "03:00",
            15,
            id="ended after a pause",
        ),
    ],
)
def test_time_suspended_is_no_run_time(tmp_path: Path, changes: dict[str, str], evidence: str, minutes: int) -> None:
    claim = read(tmp_path, job(**changes))[0]["claim"][0]

    assert parse_rfc3339(f"2026-11-21T{evidence}:00Z") == claim["evidence_us"]
    assert minutes * 60_000_000 == claim["suspended_us"]


@pytest.mark.parametrize(
    ("head", "ids"),
    [
        pytest.param("JobId=8 ArrayJobId=7 ArrayTaskId=0", ("7_0", "8"), id="an array task"),
        pytest.param("JobId=13 HetJobId=12 HetJobOffset=1", ("12+1", "13"), id="a heterogeneous job"),
        pytest.param("JobId=13 PackJobId=12 PackJobOffset=1", ("12+1", "13"), id="its older name"),
    ],
)
def test_a_run_is_named_as_sacct_names_it(tmp_path: Path, head: str, ids: tuple[str, str]) -> None:
    claim = read(tmp_path, job(head=head))[0]["claim"][0]

    assert ids == (claim["job_id"], claim["run_key"].split("@")[0])


@pytest.mark.parametrize(
    ("changes", "requests"),
    [
        pytest.param({}, [("5", 8, "h100")], id="all it asks for"),
        pytest.param({"tres": "ReqTRES=gres/gpu=8"}, [("5", 8, None)], id="as newer versions name it"),
        pytest.param({"tres": "TRES=cpu=1"}, [("5", 8, "h100")], id="per node, without accounting"),
        pytest.param({"tres": "TRES=cpu=1", "asked": "TresPerJob=gres/gpu:1"}, [("5", 1, None)], id="per job"),
        pytest.param({"tres": "TRES=cpu=1", "asked": "TresPerTask=gres/gpu=3"}, [("5", 6, None)], id="per task"),
        pytest.param({"tres": "TRES=cpu=1", "asked": ""}, [], id="no GPU at all"),
        pytest.param(
            {"head": "JobId=7 ArrayJobId=7 ArrayTaskId=2-3%1"},
            [("7_2", 8, "h100"), ("7_3", 8, "h100")],
            id="array tasks",
        ),
    ],
)
def test_a_waiting_job_is_a_request(
    tmp_path: Path, changes: dict[str, str], requests: list[tuple[str, int, str | None]]
) -> None:
    waits = {"state": "PENDING", "reason": "Resources", "nodes": "", "num": "2-2"}
    tables, _ = read(tmp_path, job(**(waits | {"detail": ""} | changes)))

    assert [] == tables["claim"]
    assert requests == [(p["job_id"], p["device_count"], p["gpu_type"]) for p in tables["pending"]]
    assert {(None, "Resources", 2, parse_rfc3339("2026-11-21T01:30:00Z")) for _ in requests} == {
        (p["start_us"], p["reason"], p["node_count"], p["evidence_us"]) for p in tables["pending"]
    }


@pytest.mark.parametrize(("features", "rule"), [("(null)", None), ("ib&h100", '{"constraint":"ib&h100"}')])
def test_a_request_has_its_constraint(tmp_path: Path, features: str, rule: str | None) -> None:
    (waits,) = read(tmp_path, job(**PENDS, name=f"x\n   Features={features} DelayBoot=00:00:00"))[0]["pending"]

    assert rule == waits["node_rule"]


PENDS = {"state": "PENDING", "reason": "Resources", "nodes": "", "detail": ""}


@pytest.mark.parametrize(
    ("texts", "until"),
    [
        pytest.param([job(**PENDS)], "01:30", id="alone, to when it was last considered"),
        pytest.param([job(**PENDS), job()], "01:30", id="not if a later record has it started"),
        pytest.param([job(**PENDS), job(head="JobId=6")], "03:00", id="by a job that runs"),
        pytest.param([job(head="JobId=6"), job(**PENDS)], "03:00", id="by a job that runs and comes first"),
        pytest.param(["# observed 2026-11-21T05:00:00Z\n", job(**PENDS)], "05:00", id="by the time of the text"),
    ],
)
def test_a_text_proves_a_wait_up_to_its_newest_time(tmp_path: Path, texts: list[str], until: str) -> None:
    (waits,) = read(tmp_path, "".join(texts))[0]["pending"]

    assert parse_rfc3339(f"2026-11-21T{until}:00Z") == waits["evidence_us"]


FORGED = "x NodeList=gpu09 NumNodes=1 Nodes=gpu09 CPU_IDs=0 Mem=1 GRES=gpu:h100:8(IDX:0-7)"


def test_a_name_that_imitates_keys_is_a_name(tmp_path: Path) -> None:
    tables, _ = read(tmp_path, job(name=FORGED, comment=FORGED))

    assert {(FORGED, "gpu01", 4), (FORGED, "gpu02", 4)} == {
        (c["name"], c["node"], c["device_count"]) for c in tables["claim"]
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(job(name=FORGED, one_line=True), "duplicate key", id="a name that imitates keys, on one line"),
        pytest.param(job(name="x\n   UserId=eve(0)"), "duplicate key", id="a name of two lines"),
        pytest.param(job(start="soon"), "a time cannot be parsed", id="no time"),
        pytest.param(job(head="JobId=abc"), "JobId is not a job number", id="no number"),
        pytest.param(
            job(state="FAILED", end="2026-11-21T01:00:00"), "end precedes start", id="an end before the start"
        ),
        pytest.param(job(detail="     Nodes=n[1- CPU_IDs=0 Mem=1 GRES=gpu:1"), "host list", id="a torn host list"),
        pytest.param(NODE.replace("h100:8", "h100:x"), "GPU count", id="a node's count that is a word"),
        pytest.param("warning: slow\n", "text before the first record", id="a warning at the top"),
    ],
)
def test_a_bad_record_is_refused_alone(tmp_path: Path, text: str, reason: str) -> None:
    tables, rejects = read(tmp_path, text + job(head="JobId=9"))

    assert ["9", "9"] == [claim["job_id"] for claim in tables["claim"]]
    assert [True] == [reason in entry for entry in rejects.counts]
    assert [1] == [line for _, line, _ in rejects.first.values()]


@pytest.mark.parametrize("text", ["JobID|State|Start\n1|RUNNING|x\n", "PARTITION|STATE\n", "\n"])
def test_another_kind_of_text_says_what_to_run(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableInput, match="scontrol show job -d"):
        read(tmp_path, text)


def test_a_wrong_zone_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Mars/Base"):
        read(tmp_path, job(), "Mars/Base")


def test_a_night_of_an_extra_hour_keeps_the_run_time(tmp_path: Path) -> None:
    night = {"state": "COMPLETED", "start": "2026-10-25T02:30:00", "end": "2026-10-25T03:30:00", "run": "01:00:00"}
    claim = read(tmp_path, job(**night), "Europe/Berlin")[0]["claim"][0]

    assert parse_rfc3339("2026-10-25T01:30:00Z") == claim["start_us"]


@pytest.mark.parametrize(
    ("until", "limit", "start"),
    [
        pytest.param("2026-10-26T00:30:00", "1-00:00:00", "2026-10-25T00:30:00Z", id="a limit of 24 hours ends early"),
        pytest.param("2026-10-26T01:30:00", "1-00:00:00", "2026-10-25T00:30:00Z", id="summer time"),
        pytest.param("2026-10-26T02:30:00", "1-00:00:00", "2026-10-25T01:30:00Z", id="winter time"),
        pytest.param("Unknown", "UNLIMITED", "2026-10-25T00:30:00Z", id="without a limit, the earlier one"),
    ],
)
def test_a_job_that_began_in_the_extra_hour_began_its_limit_before_its_end(
    tmp_path: Path, until: str, limit: str, start: str
) -> None:
    night = {"state": "RUNNING", "start": "2026-10-25T02:30:00", "end": until, "run": "02:00:00"}
    text = re.sub(r"TimeLimit=\S+", f"TimeLimit={limit}", job(**night))
    claim = read(tmp_path, text, "Europe/Berlin")[0]["claim"][0]

    assert (parse_rfc3339(start), None) == (claim["start_us"], claim["end_us"])


def test_jobs_and_nodes_may_share_a_file(tmp_path: Path) -> None:
    tables, _ = read(tmp_path, NODE + job() + NODE)

    assert (2, 2) == (len(tables["node"]), len(tables["claim"]))


def test_recorded_jobs_agree_with_sacct_on_runs_and_devices() -> None:
    held = {}
    for kind, reader, name in (
        ("scontrol", read_scontrol, "scontrol_show_job_d_t2.txt"),
        ("sacct", read_sacct, "sacct_P_X.txt"),
    ):
        tables, rejects = rows_of(reader, recorded(name))
        assert 0 == rejects.total
        held[kind] = {
            (c["run_key"], c["job_id"], c["node"], c["gpu_type"], c["profile"]): (c["device_count"], c["end_us"])
            for c in tables["claim"]
        }

    assert 12 == len(held["sacct"])
    assert held["sacct"] == held["scontrol"]


def test_recorded_one_line_form_gives_the_same_rows() -> None:
    several = rows_of(read_scontrol, recorded("scontrol_show_job_d.txt"))[0]

    assert (11, 8) == (len(several["claim"]), len(several["pending"]))
    assert several == rows_of(read_scontrol, recorded("scontrol_show_job_d_oneliner.txt"))[0]


def test_recorded_indexes_are_those_slurm_gave() -> None:
    claims = rows_of(read_scontrol, recorded("scontrol_show_job_d_t2.txt"))[0]["claim"]
    expected = {"1": "0,1,2,3", "2": "0,1,2,3", "3": "2", "12": "4,5"}

    assert expected == {c["job_id"]: c["device_indexes"] for c in claims if c["device_indexes"]}


def test_recorded_sacct_is_no_scontrol() -> None:
    with pytest.raises(UnreadableInput, match="scontrol show job -d"):
        rows_of(read_scontrol, recorded("sacct_P_X.txt"))
