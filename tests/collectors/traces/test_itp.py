"""ITP jobs: exact GPU-seconds, refused rows, GPUs that are not told but held, and the published totals."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.collectors.traces.first_fit import FirstFit
from gpuwatch.core.clock import SECOND_US, parse_rfc3339
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import CLAIM, Records, Rejects, Source
from gpuwatch.core.registry import find_importer
from gpuwatch.imports.files import import_paths
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
TRACE = SHARED / "data/itp"
HEADER = "job_id,submission_time,duration,num_gpu\n"
DAY_US = parse_rfc3339("2021-03-04T00:00:00Z")
CLUSTERS = [f"cluster{number:02d}" for number in range(1, 8)]


def read(path: Path) -> tuple[list[dict[str, Any]], Rejects]:
    rejects = Rejects()
    claims: list[dict[str, Any]] = []
    for batch in find_importer("trace-itp").read(Source(str(path), "c1"), rejects):
        assert isinstance(batch, Records) and CLAIM == batch.rows.schema
        claims += batch.rows.to_pylist()
    return claims, rejects


def gpu_seconds(claims: list[dict[str, Any]]) -> int:
    return int(sum(c["device_count"] * (c["end_us"] - c["start_us"]) for c in claims) // SECOND_US)


def write(tmp_path: Path, rows: str, name: str = "cluster09.csv") -> Path:
    (tmp_path / name).write_text(HEADER + rows)
    return tmp_path / name


def test_a_job_runs_from_its_submission_for_its_duration(tmp_path: Path) -> None:
    (claim,), rejects = read(write(tmp_path, "a-b,100,600,4\n"))

    assert 0 == rejects.total
    assert {
        "cluster": "c1",
        "scheduler": "kubernetes",
        "kind": "trace-itp",
        "job_id": "a-b",
        "run_key": f"a-b@{DAY_US + 100 * SECOND_US}",
        "node": "cluster09-0000",
        "device_count": 4,
        "submit_us": DAY_US + 100 * SECOND_US,
        "start_us": DAY_US + 100 * SECOND_US,
        "end_us": DAY_US + 700 * SECOND_US,
        "evidence_us": DAY_US + 700 * SECOND_US,
        "labels": '{"placement":"estimated"}',
    } == {name: value for name, value in claim.items() if value is not None}


def test_gpus_are_free_again_when_their_job_ends(tmp_path: Path) -> None:
    claims, _ = read(write(tmp_path, "c,20,10,10\na,0,20,6\nb,10,30,4\n"))

    assert [
        ("a", "cluster09-0000", 6),
        ("b", "cluster09-0000", 2),
        ("b", "cluster09-0001", 2),
        ("c", "cluster09-0000", 6),
        ("c", "cluster09-0001", 4),
    ] == [(c["job_id"], c["node"], c["device_count"]) for c in claims]


def test_fractions_of_a_second_are_kept(tmp_path: Path) -> None:
    (claim,), _ = read(write(tmp_path, "a,0.5,1.000001,1\n"))

    assert (500_000, 1_000_001) == (claim["start_us"] - DAY_US, claim["end_us"] - claim["start_us"])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param("x,1,2", "row has 3 columns, not 4", id="a torn row"),
        pytest.param(",1,2,3", "no job_id", id="a job without a name"),
        pytest.param("x,,2,3", "submission_time is not a number of seconds", id="no time"),
        pytest.param("x,1,-2,3", "duration is not a number of seconds", id="a negative duration"),
        pytest.param("x,1,2,1.5", "num_gpu is not a whole number up to 4096", id="half a GPU"),
        pytest.param("x,1,2,99999", "num_gpu is not a whole number up to 4096", id="more GPUs than there can be"),
        pytest.param("x,1,2,0", "num_gpu or duration is 0: the job held no GPU", id="no GPU"),
    ],
)
def test_a_bad_row_is_refused_alone(tmp_path: Path, row: str, reason: str) -> None:
    claims, rejects = read(write(tmp_path, f"a,1,2,3\n{row}\nb,1,2,3\n"))

    assert {"a", "b"} == {claim["job_id"] for claim in claims}
    assert {reason: 1} == rejects.counts
    assert 3 == rejects.first[reason][1]


def test_another_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")

    with pytest.raises(UnreadableInput, match="no column job_id"):
        read(tmp_path / "x.csv")


def test_a_job_that_must_stay_on_a_node_gets_one_with_room() -> None:
    fleet = FirstFit(lambda number: f"more{number}", [("small", 2), ("big", 4)])

    assert [("big", 4)] == fleet.place(0, 10, 4, one_node=True)
    assert [("more0", 16)] == fleet.place(1, 10, 16, one_node=True)
    assert [("small", 1)] == fleet.place(2, 10, 1, one_node=True)
    assert [("big", 3)] == fleet.place(10, 20, 3, one_node=True)


def test_the_books_hold_the_gpu_seconds_of_the_trace(tmp_path: Path) -> None:
    file = write(tmp_path, "a,0,5000,6\nb,10,7000,4\nc,20,1800,10\nd,9000,600,1\n")
    with Store.open(None, threads=1) as store, State.open(tmp_path / "state") as state:
        import_paths(store, state, "trace-itp", [file], cluster="c1", now_us=0)
        analyze(store, state, Settings(), now_us=0)
        ((held_us,),) = store.sql("select sum(end_us - start_us) from segment where run_id is not null")
        ((owned_us,),) = store.sql("select sum(end_us - start_us) from capacity")
        ((booked_us,),) = store.sql("select sum(end_us - start_us) from segment")

    assert (5000 * 6 + 7000 * 4 + 1800 * 10 + 600) * SECOND_US == held_us
    assert owned_us == booked_us


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_gpu_hours_are_those_published(cluster: str) -> None:
    file = TRACE / f"{cluster}.csv.gz"
    if not file.is_file():
        pytest.skip(f"{file} is not here: set GPUWATCH_SHARED")
    expected = json.loads((TRACE / "expected.json").read_text())["clusters"][cluster]
    claims, rejects = read(file)
    by_job: dict[str, int] = {}
    for claim in claims:
        by_job[claim["run_key"]] = by_job.get(claim["run_key"], 0) + claim["device_count"]
    with gzip.open(file, "rt") as stream:
        asked = sorted(int(line.split(",")[3]) for line in list(stream)[1:])

    assert 0 == rejects.total
    assert int(expected["gpu_seconds"]) == gpu_seconds(claims)
    assert (expected["jobs"], asked) == (len(by_job), sorted(by_job.values()))


@pytest.mark.parametrize("cluster", CLUSTERS[:1])
def test_the_stand_ins_are_as_many_as_were_needed_at_once(cluster: str) -> None:
    file = TRACE / f"{cluster}.csv.gz"
    if not file.is_file():
        pytest.skip(f"{file} is not here: set GPUWATCH_SHARED")
    peak = json.loads((TRACE / "expected.json").read_text())["clusters"][cluster]["peak_gpus_if_started_at_submission"]
    claims, _ = read(file)

    assert -(-peak // 8) == len({claim["node"] for claim in claims})
