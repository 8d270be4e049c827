"""sacct -P into claims and pending requests."""

from __future__ import annotations

import csv
import gzip
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.slurm.files import read_sacct
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.model import Records, Rejects, Source

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
RECORDED = SHARED / "wire/slurm/recorded_22.05"
START, END = "2026-11-21T02:00:00", "2026-11-21T03:00:00"
JOB = {
    "JobID": "5",
    "JobIDRaw": "5",
    "User": "carol",
    "JobName": "train",
    "State": "COMPLETED",
    "Submit": "2026-11-21T01:00:00",
    "Start": START,
    "End": END,
    "ElapsedRaw": "3600",
    "NNodes": "1",
    "NodeList": "gpu01",
    "ReqTRES": "gres/gpu=4",
    "AllocTRES": "cpu=1,gres/gpu:h100=4,gres/gpu=4",
    "Reason": "None",
    "Comment": "",
}


def history(*jobs: dict[str, str], delimiter: str = "|", **everywhere: str) -> str:
    """A sacct text of jobs that differ from JOB as told."""
    rows = [JOB | everywhere | job for job in jobs]
    names = list(rows[0]) if rows else list(JOB)
    return "".join(delimiter.join(row) + "\n" for row in [names, *(list(row.values()) for row in rows)])


def read(tmp_path: Path, text: str | bytes, timezone: str = "UTC") -> tuple[dict[str, list[dict[str, Any]]], Rejects]:
    """Rows by table, and what was refused."""
    path = tmp_path / "sacct.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return rows_of(path, timezone)


def rows_of(path: Path, timezone: str = "UTC") -> tuple[dict[str, list[dict[str, Any]]], Rejects]:
    rejects = Rejects()
    tables: dict[str, list[dict[str, Any]]] = {"claim": [], "pending": []}
    for batch in read_sacct(Source(str(path), "c1", timezone), rejects):
        assert isinstance(batch, Records)
        tables[batch.table] += batch.rows.to_pylist()
    return tables, rejects


def clusters_of(tmp_path: Path, text: str, given: bool) -> tuple[list[str], Rejects]:
    """The clusters of a text's rows, imported for cluster c1 with or without `--cluster`."""
    path, rejects = tmp_path / "sacct.txt", Rejects()
    path.write_text(text)
    batches = list(read_sacct(Source(str(path), "c1", cluster_given=given), rejects))
    return sorted(str(row["cluster"]) for batch in batches for row in batch.rows.to_pylist()), rejects


def test_without_a_named_cluster_the_column_decides(tmp_path: Path) -> None:
    """`sacct -M` prints the jobs of several clusters; a row without the column has the default cluster."""
    text = history({"JobID": "5"}, {"JobID": "6", "Cluster": "east"}, {"JobID": "7", "Cluster": "west"}, Cluster="")

    assert (["c1", "east", "west"], 0) == ((found := clusters_of(tmp_path, text, given=False))[0], found[1].total)


def test_a_named_cluster_takes_the_jobs_of_one_cluster(tmp_path: Path) -> None:
    """Job numbers of another cluster would collide, so its rows are rejected with the fix."""
    text = history({"JobID": "6"}, {"JobID": "7", "Cluster": "west"}, Cluster="east")
    clusters, rejects = clusters_of(tmp_path, text, given=True)

    assert ["c1"] == clusters
    assert "without --cluster" in next(iter(rejects.counts))


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"JobID": "5.batch", "JobIDRaw": "5.batch"}, id="a batch step repeats its job"),
        pytest.param({"JobID": "5.extern", "JobIDRaw": "5.extern"}, id="so does the extern step"),
        pytest.param({"JobID": "5.0", "JobIDRaw": "5.0"}, id="and a numbered one"),
        pytest.param({"AllocTRES": "cpu=1"}, id="a job without GPUs"),
        pytest.param({"AllocTRES": "", "Start": "None", "State": "CANCELLED by 7"}, id="cancelled before it started"),
        pytest.param(
            {"AllocTRES": "", "Start": "Unknown", "State": "PENDING", "ReqTRES": "cpu=1"}, id="waits for CPUs"
        ),
    ],
)
def test_what_held_no_gpu_gives_no_row(tmp_path: Path, job: dict[str, str]) -> None:
    tables, rejects = read(tmp_path, history(job))

    assert {"claim": [], "pending": []} == tables
    assert 0 == rejects.total


def test_a_finished_job_is_one_claim_a_node(tmp_path: Path) -> None:
    tables, _ = read(
        tmp_path,
        history({"NodeList": "gpu[01-02]", "AllocTRES": "cpu=64,mem=512G,gres/gpu=8", "Comment": '{"team":"v"}'}),
    )
    start_us, end_us = parse_rfc3339(START + "Z"), parse_rfc3339(END + "Z")

    assert [("gpu01", 4), ("gpu02", 4)] == [(c["node"], c["device_count"]) for c in tables["claim"]]
    assert {
        "cluster": "c1",
        "scheduler": "slurm",
        "kind": "sacct",
        "job_id": "5",
        "run_key": f"5@{start_us}",
        "pod_uid": None,
        "pod": None,
        "namespace": None,
        "node": "gpu01",
        "gpu_type": None,
        "profile": None,
        "device_count": 4,
        "device_indexes": None,
        "gpus": None,
        "submit_us": parse_rfc3339("2026-11-21T01:00:00Z"),
        "start_us": start_us,
        "end_us": end_us,
        "evidence_us": end_us,
        "state": "COMPLETED",
        "user_name": "carol",
        "account": None,
        "queue": None,
        "qos": None,
        "name": "train",
        "labels": '{"team":"v"}',
        "suspended_us": None,
        "fraction": None,
        "naive_us": start_us,
        "naive_zone": "UTC",
        "cpu_milli": 32_000,
        "memory_bytes": 256 << 30,
        "node_rule": None,
    } == tables["claim"][0]


@pytest.mark.parametrize(
    ("job", "run"),
    [
        pytest.param({}, ("5", "5", "COMPLETED"), id="a plain job"),
        pytest.param({"JobID": "7_0", "JobIDRaw": "8"}, ("7_0", "8", "COMPLETED"), id="an array task"),
        pytest.param({"JobID": "12+1", "JobIDRaw": "13"}, ("12+1", "13", "COMPLETED"), id="a heterogeneous job"),
        pytest.param({"State": "CANCELLED by 1002"}, ("5", "5", "CANCELLED"), id="the state is its first word"),
    ],
)
def test_a_run_is_named(tmp_path: Path, job: dict[str, str], run: tuple[str, str, str]) -> None:
    (claim,) = read(tmp_path, history(job))[0]["claim"]

    assert run == (claim["job_id"], claim["run_key"].split("@")[0], claim["state"])


def test_without_the_raw_id_the_run_is_named_after_the_job(tmp_path: Path) -> None:
    text = history({"JobID": "7_0"}).replace("JobIDRaw", "Nothing")
    (claim,) = read(tmp_path, text)[0]["claim"]

    assert f"7_0@{parse_rfc3339(START + 'Z')}" == claim["run_key"]


def test_a_requeued_job_is_two_runs(tmp_path: Path) -> None:
    again = {"Start": END, "End": "2026-11-21T04:00:00"}
    claims = read(tmp_path, history({"State": "REQUEUED"}, again))[0]["claim"]

    assert 2 == len({claim["run_key"] for claim in claims})


@pytest.mark.parametrize(
    ("job", "ends", "evidence"),
    [
        pytest.param({"State": "RUNNING", "End": "Unknown"}, None, "03:00", id="as far as it had run"),
        pytest.param({"State": "RUNNING", "End": "2026-11-21T02:30:00"}, None, "02:30", id="the end of a cut window"),
        pytest.param(
            {"State": "SUSPENDED", "End": "Unknown", "Suspended": "00:10:00"},
            None,
            "03:10",
            id="elapsed time omits pauses",
        ),
        pytest.param({"State": "FAILED", "Suspended": "00:10:00", "ElapsedRaw": "3000"}, "03:00", "03:00", id="an end"),
    ],
)
def test_a_job_is_known_until(tmp_path: Path, job: dict[str, str], ends: str | None, evidence: str) -> None:
    (claim,) = read(tmp_path, history(job))[0]["claim"]

    assert (ends and parse_rfc3339(f"2026-11-21T{ends}:00Z")) == claim["end_us"]
    assert parse_rfc3339(f"2026-11-21T{evidence}:00Z") == claim["evidence_us"]
    assert (600_000_000 if "Suspended" in job else None) == claim["suspended_us"]


def test_gpus_that_nodes_cannot_share_evenly_are_marked(tmp_path: Path) -> None:
    claims = read(tmp_path, history({"NodeList": "n[1-3]", "AllocTRES": "gres/gpu=5"}))[0]["claim"]

    assert [2, 2, 1] == [claim["device_count"] for claim in claims]
    assert {'{"spread":"estimated"}'} == {claim["labels"] for claim in claims}


def test_one_gpu_on_one_of_two_nodes_is_not_two(tmp_path: Path) -> None:
    claims = read(tmp_path, history({"NodeList": "n[1-2]", "AllocTRES": "gres/gpu=1"}))[0]["claim"]

    assert [("n1", 1)] == [(claim["node"], claim["device_count"]) for claim in claims]


def test_whole_gpus_and_slices_of_one_job_are_two_claims(tmp_path: Path) -> None:
    claims = read(tmp_path, history({"AllocTRES": "gres/gpu:a100=2,gres/gpu:a100_1g.5gb=2"}))[0]["claim"]

    assert [("a100", None, 2), ("a100", "1g.5gb", 2)] == [
        (claim["gpu_type"], claim["profile"], claim["device_count"]) for claim in claims
    ]


@pytest.mark.parametrize(
    ("job", "ids"),
    [
        pytest.param({}, ["5"], id="a plain job"),
        pytest.param({"JobID": "7_[2-3%1]", "JobIDRaw": "7"}, ["7_2", "7_3"], id="the tasks of an array that wait"),
    ],
)
def test_a_request_that_waits_is_pending(tmp_path: Path, job: dict[str, str], ids: list[str]) -> None:
    waits = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "AllocTRES": ""}
    more = {"NodeList": "None assigned", "Eligible": "2026-11-21T01:00:00", "Planned": "00:05:00", "Reason": "Priority"}
    tables, _ = read(tmp_path, history(waits | more | job))

    assert [] == tables["claim"]
    assert [(i, 4, 1, "Priority", None) for i in ids] == [
        (p["job_id"], p["device_count"], p["node_count"], p["reason"], p["start_us"]) for p in tables["pending"]
    ]
    assert {parse_rfc3339("2026-11-21T01:05:00Z")} == {p["evidence_us"] for p in tables["pending"]}


WAITS = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "AllocTRES": "", "JobID": "7"}
QUEUED = WAITS | {"Submit": "2026-11-21T00:00:00", "Eligible": "2026-11-21T00:00:00"}
RUNS = {"JobID": "8", "State": "RUNNING", "Start": "2026-11-21T00:00:00", "End": "Unknown", "ElapsedRaw": "10800"}
CANCELLED = QUEUED | {"State": "CANCELLED by 1", "Start": "None", "End": "2026-11-21T00:20:00"}


@pytest.mark.parametrize(
    ("texts", "until"),
    [
        pytest.param([[QUEUED]], "00:00", id="alone, to its submission"),
        pytest.param([[RUNS | {"Cluster": "c2"}, QUEUED | {"Cluster": "c1"}]], "00:00", id="not by another cluster"),
        pytest.param([[QUEUED], [RUNS]], "00:00", id="not by the next of several texts in one file"),
        pytest.param([[QUEUED, CANCELLED, RUNS]], "00:00", id="not if a later record has it cancelled"),
        pytest.param([[QUEUED, RUNS | {"JobID": "7"}]], "00:00", id="not if a later record has it started"),
        pytest.param([[QUEUED, RUNS]], "03:00", id="by a job that runs"),
        pytest.param([[RUNS, QUEUED], [QUEUED]], "03:00", id="by the text that it is in"),
        pytest.param(
            [
                [
                    QUEUED,
                    {"JobID": "9", "Start": "2026-11-21T00:30:00", "End": "2026-11-21T01:00:00", "ElapsedRaw": "1800"},
                ]
            ],
            "01:00",
            id="by a job that has ended",
        ),
    ],
)
def test_a_text_proves_a_wait_up_to_its_newest_time(
    tmp_path: Path, texts: list[list[dict[str, str]]], until: str
) -> None:
    path, rejects = tmp_path / "sacct.txt", Rejects()
    path.write_text("".join(history(*text, Cluster="", Eligible="Unknown") for text in texts))
    batches = list(read_sacct(Source(str(path), "c1", "UTC", cluster_given=False), rejects))
    waits = [row for batch in batches if batch.table == "pending" for row in batch.rows.to_pylist()]

    assert 0 == rejects.total
    assert parse_rfc3339(f"2026-11-21T{until}:00Z") == max(row["evidence_us"] for row in waits)
    assert {parse_rfc3339("2026-11-21T00:00:00Z")} == {row["submit_us"] for row in waits}


def test_a_request_has_its_constraint_where_the_column_is_there(tmp_path: Path) -> None:
    tables, _ = read(
        tmp_path, history(QUEUED | {"JobID": "7"}, QUEUED | {"JobID": "9", "Constraints": "ib"}, Constraints="")
    )

    assert {"7": None, "9": '{"constraint":"ib"}'} == {p["job_id"]: p["node_rule"] for p in tables["pending"]}


@pytest.mark.parametrize("delimiter", ["|", "^|^", "\t", ";", "^"])
def test_the_delimiter_is_read_off_the_header(tmp_path: Path, delimiter: str) -> None:
    tables, rejects = read(tmp_path, history({}, delimiter=delimiter))

    assert [4] == [claim["device_count"] for claim in tables["claim"]]
    assert 0 == rejects.total


def test_columns_come_in_any_order_with_some_unknown(tmp_path: Path) -> None:
    turned = dict(reversed(JOB.items()))
    names = ["SLUID", *(name.upper() for name in turned), "SegmentSize"]
    text = "\n".join("|".join(row) for row in (names, ["s3hjkq", *turned.values(), "4"]))
    (claim,) = read(tmp_path, text)[0]["claim"]

    assert ("5", "gpu01", 4, "train") == (claim["job_id"], claim["node"], claim["device_count"], claim["name"])


def test_parsable_with_a_delimiter_at_the_end(tmp_path: Path) -> None:
    tables, rejects = read(tmp_path, history({}).replace("\n", "|\n"))

    assert (1, 0) == (len(tables["claim"]), rejects.total)


def test_files_joined_with_their_headers_are_one(tmp_path: Path) -> None:
    tables, rejects = read(tmp_path, history({}) + history({"JobID": "6", "JobIDRaw": "6"}))

    assert (["5", "6"], 0) == ([claim["job_id"] for claim in tables["claim"]], rejects.total)


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        pytest.param({"JobName": "a|b"}, "more fields than the header", id="the delimiter in a name"),
        pytest.param({"JobName": "a\nb"}, "fewer fields than the header", id="a name of two lines"),
        pytest.param({"JobID": "abc"}, "JobID is not a job number", id="no job number"),
        pytest.param({"Start": "yesterday"}, "a time cannot be parsed", id="no time"),
        pytest.param({"End": "2026-11-21T01:00:00"}, "end precedes start", id="an end before the start"),
        pytest.param({"End": "9999-12-31T23:59:59"}, "longer than five years", id="an end in the year 9999"),
        pytest.param({"NodeList": "gpu[1-"}, "host list", id="a torn host list"),
        pytest.param({"NodeList": "None assigned"}, "no node", id="GPUs on no node"),
        pytest.param({"AllocTRES": "gres/gpu=many"}, "GPU count", id="a count that is a word"),
        pytest.param({"AllocTRES": "gres/gpu=99999999999"}, "GPU count", id="a count beyond any fleet"),
    ],
)
def test_a_bad_row_is_refused_alone(tmp_path: Path, job: dict[str, str], reason: str) -> None:
    tables, rejects = read(tmp_path, history({}, job, {"JobID": "9", "JobIDRaw": "9"}))

    assert ["5", "9"] == [claim["job_id"] for claim in tables["claim"]]
    assert [True] == [reason in entry for entry in rejects.counts]
    assert [3] == [line for _, line, _ in rejects.first.values()]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"\x7fELF\x00\x00", "binary", id="binary"),
        pytest.param(b"\x1f\x8bnothing packed", "gzip", id="gzip in name only"),
        pytest.param(b"5|gpu01|4\n", "sacct -a -D -X -P -o JobID,", id="no header"),
        pytest.param(b"JobID|State|Start|End|NodeList\n", "alloctres are missing", id="no GPUs in the header"),
        pytest.param(b"       JobID    JobName  Partition \n------- ------- -----\n", "no header", id="without -P"),
        pytest.param(b"JobId=1 JobName=x\n   UserId=a(1)\n", "no header", id="scontrol's text"),
        pytest.param(b"JobID|JobID|State|Start|End|NodeList|AllocTRES\n", "duplicate column", id="a column twice"),
    ],
)
def test_a_wrong_file_says_what_to_run(tmp_path: Path, text: bytes, says: str) -> None:
    with pytest.raises(UnreadableInput, match=says) as raised:
        read(tmp_path, text)
    assert str(tmp_path) in str(raised.value)


def test_a_missing_file_and_a_wrong_zone_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="No such file"):
        rows_of(tmp_path / "nowhere.txt")
    with pytest.raises(UsageError, match="Europe/Bern"):
        read(tmp_path, history({}), "Europe/Bern")


def test_only_a_header_is_a_quiet_cluster(tmp_path: Path) -> None:
    assert {"claim": [], "pending": []} == read(tmp_path, history())[0]


def test_gzip_reads_the_same_and_a_torn_one_keeps_its_beginning(tmp_path: Path) -> None:
    jobs = [{"JobID": str(n), "JobName": str(n * n * 2654435761 % 1000003)} for n in range(2000)]
    packed = gzip.compress(history(*jobs).encode())
    whole, none = read(tmp_path, packed)
    part, rejects = read(tmp_path, packed[: len(packed) // 2])

    assert (2000, 0) == (len(whole["claim"]), none.total)
    assert 0 < len(part["claim"]) < 2000
    assert "gzip stream is truncated" in rejects.counts


def test_a_line_without_end_is_refused_alone(tmp_path: Path) -> None:
    tables, rejects = read(tmp_path, history({}, {"JobName": "x" * 3_000_000}, {"JobID": "9"}))

    assert ["5", "9"] == [claim["job_id"] for claim in tables["claim"]]
    assert 1 == rejects.total


def test_a_night_of_an_extra_hour_keeps_every_second(tmp_path: Path) -> None:
    night = {"Start": "2026-10-25T02:30:00", "End": "2026-10-25T03:30:00", "Submit": "2026-10-25T01:00:00"}
    jobs = history(night | {"ElapsedRaw": "7200"}, night | {"ElapsedRaw": "3600", "JobID": "6", "JobIDRaw": "6"})
    claims = read(tmp_path, jobs, "Europe/Berlin")[0]["claim"]

    assert [7200, 3600] == [(claim["end_us"] - claim["start_us"]) // 1_000_000 for claim in claims]
    assert {parse_rfc3339("2026-10-25T02:30:00Z")} == {claim["end_us"] for claim in claims}


@pytest.mark.parametrize("name", ["sacct_P_X.txt", "sacct_P_ALL_with_steps.txt"])
def test_recorded_gpu_seconds_are_those_of_a_second_reading(name: str) -> None:
    path = RECORDED / name
    if not path.exists():
        pytest.skip(f"{path} is not there: set GPUWATCH_SHARED")
    expected: dict[str, float] = {}
    waiting: dict[str, int] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE):
            if "." in row["JobID"]:
                continue
            column = "ReqTRES" if row["State"] == "PENDING" else "AllocTRES"
            items = dict(item.split("=") for item in row[column].split(",") if item)
            if not (gpus := int(items.get("gres/gpu", 0))):
                continue
            if row["State"] == "PENDING":
                waiting[row["JobID"]] = gpus
                continue
            seconds = float(row["ElapsedRaw"])
            if row["End"] != "Unknown":
                span = datetime.fromisoformat(row["End"]) - datetime.fromisoformat(row["Start"])
                assert span.total_seconds() == seconds
            expected[row["JobID"]] = expected.get(row["JobID"], 0) + gpus * seconds
    tables, rejects = rows_of(path)
    record: dict[str, float] = {}
    for claim in tables["claim"]:
        held = claim["device_count"] * (claim["evidence_us"] - claim["start_us"]) / 1e6
        record[claim["job_id"]] = record.get(claim["job_id"], 0) + held

    assert expected and expected == record
    assert waiting == {row["job_id"]: row["device_count"] for row in tables["pending"]}
    assert 0 == rejects.total


@pytest.mark.parametrize("name", ["sacct_caret_lines.txt", "goslmailer_sacct.txt", "rivos_sacctmgr.txt"])
def test_recorded_text_without_a_header_is_not_guessed(name: str) -> None:
    path = SHARED / "wire/slurm/other_sites" / name
    if not path.exists():
        pytest.skip(f"{path} is not there: set GPUWATCH_SHARED")
    with pytest.raises(UnreadableInput, match="no header"):
        rows_of(path)


def test_labels_are_json_whatever_the_comment(tmp_path: Path) -> None:
    comments = ["", "plain", '{\\"team\\":\\"vision\\"}', '{"a":{"b":[1]}}']
    claims = read(tmp_path, history(*({"Comment": text} for text in comments)))[0]["claim"]

    assert [{}, {}, {"team": "vision"}, {"a": {"b": [1]}}] == [json.loads(claim["labels"]) for claim in claims]
