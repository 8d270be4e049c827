"""Slurm's partitions, QOS and reservations, from text and from JSON, and what jobs use of them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.files import read_scontrol
from gpuwatch.collectors.slurm.json import read_slurm_json
from gpuwatch.collectors.slurm.partitions import qos_rows
from gpuwatch.collectors.slurm.queue_changes import QueueChanges
from gpuwatch.collectors.slurm.queue_totals import usage_by_queue, with_totals
from gpuwatch.collectors.slurm.text import array_size
from gpuwatch.core.clock import SECOND_US, parse_rfc3339
from gpuwatch.core.model import TABLES, Records, Rejects, Source

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
WIRE = SHARED / "wire/slurm"
Tables = dict[str, list[dict[str, Any]]]


def rows_of(path: Path, observed_us: int | None = 77) -> tuple[Tables, Rejects]:
    tables: Tables = {name: [] for name in TABLES}
    rejects = Rejects()
    reader = read_slurm_json if ".json" in path.name else read_scontrol
    for batch in reader(Source(str(path), "c1", "UTC", observed_us), rejects):
        assert isinstance(batch, Records) and batch.rows.schema == TABLES[batch.table]
        tables[batch.table] += batch.rows.to_pylist()
    return tables, rejects


def text_of(tmp_path: Path, text: str) -> Tables:
    (tmp_path / "a.txt").write_text(text)
    tables, rejects = rows_of(tmp_path / "a.txt")
    assert 0 == rejects.total
    return tables


def recorded(name: str) -> Path:
    if not (WIRE / name).exists():
        pytest.skip(f"{WIRE / name} is not there: set GPUWATCH_SHARED")
    return WIRE / name


def partition(tres: str = "cpu=8,gres/gpu=8", nodes: str = "n[1-2]") -> str:
    return (
        "PartitionName=batch\n   AllowGroups=ALL AllowAccounts=ALL QoS=N/A\n"
        f"   Nodes={nodes}\n   PriorityJobFactor=1 PriorityTier=5\n   PreemptMode=OFF\n   State=UP\n   TRES={tres}\n"
    )


def queue(**words: Any) -> Row:
    return "queue", {"kind": "partition", "name": "batch", "quota": None, "_nodes": "n[1-2]", **words}


# Limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tres", "quota"),
    [
        pytest.param("cpu=8,gres/gpu=8", {"": 8}, id="untyped"),
        pytest.param("gres/gpu=8,gres/gpu:h100=8", {"": 8}, id="typed and untyped are the same devices"),
        pytest.param("gres/gpu:h100=8,gres/gpu=8", {"": 8}, id="in either order"),
        pytest.param(
            "gres/gpu=11,gres/gpu:1g.10gb=7,gres/gpu:3g.40gb=2,gres/gpu:a100=2",
            {"": 2, "1g.10gb": 7, "3g.40gb": 2},
            id="slices are counted by profile",
        ),
        pytest.param("gres/gpu=8,gres/shard=32", {"": 8}, id="a shard is no GPU"),
    ],
)
def test_a_partition_has_the_gpus_of_its_tres(tmp_path: Path, tres: str, quota: dict[str, int]) -> None:
    (row,) = text_of(tmp_path, partition(tres))["queue"]

    assert ("partition", "batch", "UP", 5, 77) == tuple(
        row[name] for name in ("kind", "name", "state", "priority", "observed_us")
    )
    assert quota == json.loads(row["quota"]) == json.loads(row["quota_max"])


def test_a_partition_without_gpus_is_left_out(tmp_path: Path) -> None:
    assert [] == text_of(tmp_path, partition("cpu=8"))["queue"]


def test_a_site_that_does_not_account_for_gpus_has_those_of_its_nodes() -> None:
    devices = {"n1": {"": 8}, "n2": {"": 1, "1g.10gb": 7}, "n3": {"": 8}}
    (row,) = with_totals([queue()], devices, None)

    assert {"": 9, "1g.10gb": 7} == json.loads(row[1]["quota"])
    assert [] == list(with_totals([queue()], {}, None))


def test_a_qos_has_the_most_that_its_jobs_may_hold() -> None:
    header = "Name|Priority|Preempt|PreemptMode|Flags|GrpTRES|MaxTRES|MaxTRESPU|MaxTRESPA"
    lines = [
        header,
        "urgent|100|scav,normal|requeue|DenyOnLimit|cpu=9,gres/gpu=6||gres/gpu:h100=2|",
        "normal|0||cluster|||||",
    ]
    urgent, normal = (row for _, row in qos_rows(enumerate(lines, 1), Source("a", "c1")))

    assert (100, None, {"": 6}) == (urgent["priority"], urgent.get("quota"), json.loads(urgent["quota_max"]))
    assert {"mode": "requeue", "preempts": ["normal", "scav"]} == json.loads(urgent["preemption"])
    assert {"max_per_user": {"": 2}, "flags": "DenyOnLimit"} == json.loads(urgent["detail"])
    assert (0, None, "{}") == (normal["priority"], normal["quota_max"], normal["detail"])
    with pytest.raises(ValueError, match="columns priority"):
        qos_rows([(1, "Name|Preempt")], Source("a", "c1"))


def test_use_is_what_runs_and_what_waits() -> None:
    """A job that waits for the first of two partitions waits in both; an array waits as often as it has tasks."""
    held = {"profile": None, "device_count": 4, "end_us": None, "qos": "normal", "queue": "batch"}
    job = {"priority_class": "normal", "queue": "batch", "detail": "{}"}
    used = usage_by_queue(
        [
            ("claim", held),
            ("claim", held | {"end_us": 5}),
            ("claim", held | {"profile": "1g.10gb", "device_count": 1}),
            ("workload", job | {"uid": "1", "state": "running"}),
            ("workload", job | {"uid": "2", "state": "finished"}),
            ("workload", job | {"uid": "3", "state": "pending", "queue": "batch,debug"}),
            ("workload", job | {"uid": "4_*", "state": "pending", "detail": '{"array_tasks":10}'}),
        ]
    )

    assert ({"": 4, "1g.10gb": 1}, 1, 11) == (used["partition", "batch"].used, *counts(used, "partition", "batch"))
    assert (0, 1) == counts(used, "partition", "debug")
    assert (1, 11) == counts(used, "qos", "normal")


def counts(used: Any, kind: str, name: str) -> tuple[int, int]:
    return used[kind, name].running, used[kind, name].pending


def test_a_reservation_has_its_nodes_and_their_devices(tmp_path: Path) -> None:
    text = (
        "ReservationName=maint StartTime=2026-11-23T02:00:00 EndTime=2026-11-23T04:00:00 Duration=02:00:00\n"
        "   Nodes=n[1-2] NodeCnt=2 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES\n"
        "   TRES=cpu=64\n   Users=root Groups=(null) Accounts=(null) State=INACTIVE BurstBuffer=(null)\n"
    )
    (row,) = text_of(tmp_path, text)["reservation"]

    assert ("maint", "n1,n2", None, "root", None, None, "INACTIVE", "MAINT,SPEC_NODES") == tuple(
        row[name] for name in ("name", "nodes", "device_count", "users", "accounts", "queue", "state", "flags")
    )
    assert (parse_rfc3339("2026-11-23T02:00:00Z"), 7200) == (
        row["start_us"],
        (row["end_us"] - row["start_us"]) // SECOND_US,
    )
    record = dict(row) | {"_nodes": "n[1-2]"}
    assert (
        9
        == next(with_totals([("reservation", record)], {"n1": {"": 8}, "n2": {"1g.10gb": 1}}, None))[1]["device_count"]
    )


def test_no_reservation_is_an_answer(tmp_path: Path) -> None:
    assert [] == text_of(tmp_path, "No reservations in the system\n")["reservation"]


@pytest.mark.parametrize(
    ("tasks", "size"),
    [("0-9", 10), ("[1,3,5-7%2]", 5), ("0-9:2", 5), ("0-2,4,...", None), ("0-99999", 100_000)],
)
def test_how_many_tasks_of_an_array_wait(tasks: str, size: int | None) -> None:
    assert size == array_size(tasks)


# Only news ---------------------------------------------------------------------------------------------------------


def test_queues_are_reported_when_they_change_and_when_they_go() -> None:
    tracker = QueueChanges()
    listed = [
        [(table, row["name"], row.get("state")) for table, row in tracker.queues(rows, at)]
        for at, rows in enumerate(
            (
                [queue(state="UP"), ("reservation", {"name": "maint", "state": "INACTIVE"})],
                [queue(state="UP"), ("reservation", {"name": "maint", "state": "INACTIVE"})],
                [queue(state="DRAIN")],
                [queue(state="DRAIN")],
                [],
            )
        )
    ]

    assert [
        [("queue", "batch", "UP"), ("reservation", "maint", "INACTIVE")],
        [],
        [("queue", "batch", "DRAIN"), ("reservation", "maint", "deleted")],
        [],
        [],
    ] == listed


# Real answers ------------------------------------------------------------------------------------------------------


def test_recorded_text_and_json_tell_the_same_partitions() -> None:
    names = ("name", "state", "priority", "quota", "quota_max")
    listed = [
        [tuple(row[name] for name in names) for row in rows_of(recorded(f"recorded_22.05/{name}"))[0]["queue"]]
        for name in ("scontrol_show_partition.txt", "rest_slurm_v0.0.38_partitions.json")
    ]

    assert listed[0] == listed[1]
    assert [("gpu", {"": 24}), ("mig", {"": 2, "1g.10gb": 7, "3g.40gb": 2})] == [
        (row[0], json.loads(row[3])) for row in listed[0]
    ]


def test_recorded_qos_limits() -> None:
    lines = enumerate(recorded("recorded_22.05/sacctmgr_qos.txt").read_text().splitlines(), 1)
    rows = {row["name"]: row for _, row in qos_rows(lines, Source("a", "c1", "UTC", 77))}
    of_json = {
        row["name"]: row for row in rows_of(recorded("recorded_22.05/rest_slurmdb_v0.0.38_qos.json"))[0]["queue"]
    }

    assert {"normal", "limited", "capped"} == rows.keys() == of_json.keys()
    assert '{"":4}' == rows["capped"]["quota_max"] == of_json["capped"]["quota_max"]
    assert {"": 2} == json.loads(rows["limited"]["detail"])["max_per_user"]
    assert {"": 2} == json.loads(of_json["limited"]["detail"])["max_per_user"]


def test_recorded_reservations() -> None:
    (text,) = rows_of(recorded("recorded_22.05/scontrol_show_res.txt"))[0]["reservation"]
    (training,) = rows_of(recorded("slurmweb_24.05_v0.0.41/slurm-reservations.json"))[0]["reservation"]

    assert ("maint", "gpu02", "MAINT,SPEC_NODES") == (text["name"], text["nodes"], text["flags"])
    assert ("training", 512, "optic", "batch", 86_400) == (
        training["name"],
        len(training["nodes"].split(",")),
        training["accounts"],
        training["queue"],
        (training["end_us"] - training["start_us"]) // SECOND_US,
    )


@pytest.mark.parametrize("folder", ["slurmweb_24.05_v0.0.41", "slurmweb_25.05_v0.0.43"])
def test_recorded_answers_of_newer_versions_are_read_whole(folder: str) -> None:
    """Partitions without GPUs are left out; every QOS and GPU job is there, with the priority that the text says."""
    qos, rejects = rows_of(recorded(f"{folder}/slurm-qos.json"))
    partitions, refused = rows_of(recorded(f"{folder}/slurm-partitions.json"))
    jobs, _ = rows_of(recorded(f"{folder}/slurm-jobs.json.gz"))
    entry = json.loads(recorded(f"{folder}/slurm-qos.json").read_text())["qos"]
    with gzip.open(recorded(f"{folder}/slurm-jobs.json.gz")) as stream:
        asked = [job for job in json.load(stream)["jobs"] if "gpu" in f"{job['tres_per_job']}{job['tres_per_node']}"]

    assert 0 == rejects.total == refused.total
    assert {(item["name"], item["priority"]["number"]) for item in entry} == {
        (row["name"], row["priority"]) for row in qos["queue"]
    }
    assert [] == partitions["queue"], "these sites do not account for GPUs"
    assert len(asked) <= len(jobs["workload"])
