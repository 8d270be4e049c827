"""Imports taken back: what is left equals a store that never had them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing.chargeback import chargeback
from gpuwatch.billing.periods.close import close
from gpuwatch.core import sqlfile
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.imports.files import ImportReport, import_paths
from gpuwatch.imports.forget import forget, imports
from gpuwatch.imports.read_ahead import digest_of
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.connection import Connection
from gpuwatch.store.database import Store
from tests.worlds.world import HOUR, us

SETTINGS = Settings(default_interval_s=60.0)
COMPUTED = ("device", "capacity", "run", "segment", "ledger_hour", "run_team", "context_span", "context", "sealed_day")
RECORDS = (
    "claim",
    "pending",
    "node",
    "pod_list",
    "job_list",
    "event",
    "link",
    "queue",
    "workload",
    "reservation",
    "bill",
    "bill_file",
)
NOW_US = us(90 * 24 * HOUR)
KINDS = ("openmetrics", "sacct")
HEADER = "JobID|JobIDRaw|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|NNodes|NodeList|ReqTRES|AllocTRES"


@dataclass
class Desk:
    """A store and state with imports."""

    store: Store
    state: State

    def load(self, kind: str, *paths: Path, timezone: str | None = None, cluster: str | None = "c1") -> ImportReport:
        name = None if kind == "bundle" else cluster
        return import_paths(self.store, self.state, kind, paths, cluster=name, now_us=NOW_US, timezone=timezone)

    def ids(self) -> list[int]:
        return [one["id"] for one in imports(self.store)]

    def forget(self, import_id: int) -> dict[str, Any]:
        return forget(self.store, import_id, NOW_US)

    def books(self) -> dict[str, Any]:
        """All that is computed, the records it came from, and the charges."""
        assert [] == analyze(self.store, self.state, SETTINGS, now_us=NOW_US, detectors=("blind-spot",)).failed_rules
        window = Window(us(-30 * HOUR), us(80 * 24 * HOUR))
        charged = chargeback(self.store, self.state, window, ("cluster", "user", "job"))
        lines = sorted(str(line) for line in charged.items)
        return {"charges": lines, **self.rows(COMPUTED), **self.rows(RECORDS), **self.samples()}

    def rows(self, tables: tuple[str, ...]) -> dict[str, Any]:
        """Rows and an order-free checksum of tables, without what says from which file a row is."""
        return {
            name: self.store.sql(
                f"select count(*), coalesce(sum(hash(t)::hugeint), 0) from (select {self.columns(name)} from {name}) t"
            )[0]
            for name in tables
        }

    def columns(self, table: str) -> str:
        names = [row[0] for row in self.store.sql(f"select column_name from (describe {table})")]
        return ", ".join(name for name in names if name != "file_id")

    def samples(self) -> dict[str, Any]:
        """The samples, from which file each is, and the readings that are kept apart."""
        return {
            name: self.store.sql(f"select count(*), coalesce(sum(hash({name})::hugeint), 0) from {name}")[0]
            for name in ("sample", "sample_origin", "sample_tail", "replaced_claim", "replaced_pending")
        }


@contextmanager
def empty_desk(path: Path) -> Iterator[Desk]:
    with Store.open(None, threads=1) as store, State.open(path) as state:
        yield Desk(store, state)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with empty_desk(tmp_path / "state") as made:
        yield made


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Desk]:
    with empty_desk(tmp_path / "other") as made:
        yield made


def metrics(path: Path, start: int, end: int, busy: float = 0.9, gpus: tuple[str, ...] = ("GPU-a", "GPU-b")) -> Path:
    """Samples of node n1, one a minute."""
    lines = ["# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for minute in range(start * 60, end * 60):
        at_ms = us(minute * 60) // 1000
        for index, gpu in enumerate(gpus):
            labels = (
                f'gpu="{index}",UUID="{gpu}",device="nvidia{index}",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'
            )
            lines.append(f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} {busy} {at_ms}")
            lines.append(f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} {busy / 2} {at_ms}")
    path.write_text("\n".join(lines) + "\n")
    return path


def sacct(path: Path, *jobs: tuple[int, int, int], blank: bool = False) -> Path:
    """Jobs (id, first hour, last hour) with both GPUs of n1, with naive times."""
    lines = [HEADER]
    for job, start, end in jobs:
        times = "|".join(rfc3339(us(hour * HOUR)).removesuffix("Z") for hour in (start, start, end))
        seconds = (end - start) * HOUR
        lines.append(f"{job}|{job}|ann|acc|p|COMPLETED|{times}|{seconds}|1|n1|gres/gpu=2|gres/gpu=2")
    path.write_text("\n".join(lines) + "\n" * (2 if blank else 1))
    return path


def test_an_import_taken_back_leaves_what_the_other_gave(desk: Desk, other: Desk, tmp_path: Path) -> None:
    """A and B overlap in samples and jobs; B alone is what is left."""
    a = metrics(tmp_path / "a.prom", 0, 6, busy=0.9), sacct(tmp_path / "a.txt", (1, 0, 2), (2, 3, 5))
    b = metrics(tmp_path / "b.prom", 4, 9, busy=0.3), sacct(tmp_path / "b.txt", (2, 3, 5), (3, 6, 8))
    desk.load("openmetrics", a[0])
    desk.load("sacct", a[1])
    desk.load("openmetrics", b[0])
    desk.load("sacct", b[1])
    desk.books()
    for kind, path in zip(("openmetrics", "sacct"), b, strict=True):
        other.load(kind, path)
    expected = other.books()

    assert [4, 3, 2, 1] == desk.ids()

    desk.forget(1)
    desk.forget(2)

    assert expected == desk.books()
    assert [4, 3] == desk.ids()


@pytest.mark.parametrize("seed", range(3))
def test_random_imports_taken_back_leave_the_others(desk: Desk, other: Desk, tmp_path: Path, seed: int) -> None:
    """Files that overlap, some in two imports, in any order: what is left is what the remaining imports give alone."""
    chance = random.Random(seed)
    files: list[tuple[str, Path]] = []
    for number in range(4):
        start = chance.randrange(6)
        gpus = ("GPU-a", "GPU-b")[: chance.randint(1, 2)]
        path = tmp_path / f"{number}.prom"
        files.append(("openmetrics", metrics(path, start, start + chance.randint(1, 4), chance.random(), gpus)))
        jobs = tuple((job, 2 * job, 2 * job + 1 + chance.randint(0, 1)) for job in chance.sample(range(4), 2))
        files.append(("sacct", sacct(tmp_path / f"{number}.txt", *jobs)))
    runs = [chance.sample([f for f in files if f[0] == kind], chance.randint(1, 3)) for kind in KINDS for _ in range(2)]
    chance.shuffle(runs)
    for run in runs:
        desk.load(run[0][0], *(path for _, path in run))
        if chance.random() < 0.5:
            desk.books()
    kept = {id: given(desk, id) for id in desk.ids()}
    gone = chance.sample(sorted(kept), len(kept) // 2)
    for id in gone:
        desk.forget(id)
    left = {path for id, paths in kept.items() if id not in gone for path in paths}
    for kind, path in files:
        if str(path) in left:
            other.load(kind, path)

    assert left
    assert other.books() == desk.books()


def given(desk: Desk, import_id: int) -> list[str]:
    """The paths of an import's files."""
    query = "select path from import_given join import_file using (file_id) where import_id = $id order by 1"
    return [row[0] for row in desk.store.sql(query, id=import_id)]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        pytest.param({}, {"timezone": "Europe/Berlin"}, id="another zone"),
        pytest.param({"timezone": "Asia/Tokyo"}, {"timezone": "UTC"}, id="the assumed zone, when given"),
        pytest.param({"cluster": "c2"}, {"cluster": "c1"}, id="another cluster"),
    ],
)
def test_the_same_file_with_other_options_replaces_what_it_gave(
    desk: Desk, other: Desk, tmp_path: Path, wrong: dict[str, str], right: dict[str, str]
) -> None:
    file, samples = sacct(tmp_path / "a.txt", (1, 0, 2), (2, 3, 5)), metrics(tmp_path / "a.prom", 0, 6)
    for one in (desk, other):
        one.load("openmetrics", samples)
    desk.load("sacct", file, **wrong)
    desk.books()
    report = desk.load("sacct", file, **right)
    other.load("sacct", file, **right)

    assert (1, 0, 2) == (report.files, report.repeated, report.records)
    assert other.books() == desk.books()
    assert [3, 1] == desk.ids()
    assert 1 == desk.load("sacct", file, **right).repeated


@pytest.mark.parametrize("export", ["a blank line", "another order", "scontrol"])
def test_a_job_in_another_zone_replaces_the_earlier_reading(
    desk: Desk, other: Desk, tmp_path: Path, export: str
) -> None:
    first = sacct(tmp_path / "a.txt", (1, 0, 2), (2, 3, 5))
    second, kind = tmp_path / "b.txt", "sacct"
    if export == "scontrol":
        kind = "scontrol"
        second.write_text("".join(scontrol(job, start, end) for job, start, end in ((1, 0, 2), (2, 3, 5))))
    elif export == "a blank line":
        sacct(second, (1, 0, 2), (2, 3, 5), blank=True)
    else:
        sacct(second, (2, 3, 5), (1, 0, 2))
    desk.load("sacct", first)
    desk.books()
    before = desk.rows(RECORDS)
    desk.load(kind, second, timezone="Europe/Berlin")
    other.load(kind, second, timezone="Europe/Berlin")
    tables = ("charges", *COMPUTED, *RECORDS, "sample")
    computed, expected = desk.books(), other.books()

    assert {name: expected[name] for name in tables} == {name: computed[name] for name in tables}

    desk.forget(2)

    assert before == desk.rows(RECORDS)


def exact(path: Path, *jobs: tuple[int, int, int], pending: bool = False) -> Path:
    """The jobs of sacct() as `sacct --json` has them, with exact times."""
    count = {"type": "gres", "name": "gpu", "id": 1001, "count": 2}
    found = [
        {
            "job_id": job,
            "name": "j",
            "user": "ann",
            "account": "acc",
            "partition": "p",
            "nodes": "n1",
            "allocation_nodes": 1,
            "state": {"current": ["COMPLETED"], "reason": "None"},
            "time": {
                "submission": us(start * HOUR) // 10**6,
                "start": us(start * HOUR) // 10**6,
                "end": us(end * HOUR) // 10**6,
                "elapsed": (end - start) * HOUR,
            },
            "tres": {"allocated": [count], "requested": [count]},
        }
        for job, start, end in jobs
    ]
    path.write_text(json.dumps({"meta": {}, "jobs": found, "errors": []}))
    return path


@pytest.mark.parametrize("first", ["local", "exact"])
def test_exact_times_replace_those_read_in_a_wrong_zone(desk: Desk, other: Desk, tmp_path: Path, first: str) -> None:
    """Whichever came first. The clocks of the site are five hours ahead, and job 3 is in one export only."""
    local = sacct(tmp_path / "a.txt", (1, 5, 7), (2, 8, 10), (3, 20, 22))
    json_file = exact(tmp_path / "b.json", (1, 0, 2), (2, 3, 5))
    for one in (desk, other):
        one.load("openmetrics", metrics(tmp_path / "a.prom", 0, 6))
    loads = [("sacct", local), ("slurm-json", json_file)]
    reports = [desk.load(kind, file) for kind, file in (loads if first == "local" else reversed(loads))]
    other.load("sacct", sacct(tmp_path / "c.txt", (3, 20, 22)))
    other.load("slurm-json", json_file)

    tables = ("charges", *COMPUTED, *RECORDS, "sample")
    computed, expected = desk.books(), other.books()
    assert {name: expected[name] for name in tables} == {name: computed[name] for name in tables}
    assert ["2 runs are also in another import" in note for note in reports[1].notes[:1]] == [True]
    wrong, right = (2, 3) if first == "local" else (3, 2)
    assert {wrong: (2, right), right: (0, None)} == {
        one["id"]: (one["replaced"], one["replaced_by"]) for one in imports(desk.store) if one["id"] != 1
    }

    desk.load("slurm-json", exact(tmp_path / "d.json", (1, 0, 2), (4, 0, 1)))
    desk.forget(right)
    assert ["1", "2", "3", "4"] == [row[0] for row in desk.store.sql("select job_id from claim order by all")]
    desk.forget(4)
    assert ["1", "2", "3"] == [row[0] for row in desk.store.sql("select job_id from claim order by all")]


def test_runs_that_only_look_shifted_are_not_replaced(desk: Desk, tmp_path: Path) -> None:
    """A cron job of Slurm keeps its id; a run of another length, further away, between quarters or of a file whose zone was
    right is another run.
    """
    desk.load("sacct", sacct(tmp_path / "a.txt", (1, 0, 2), (1, 5, 7), (2, 0, 1), (3, 0, 2), (4, 0, 2), (5, 0, 2)))
    before = desk.rows(("claim",))
    desk.load("slurm-json", exact(tmp_path / "b.json", (1, 5, 7)))  # agrees with a run of the file
    desk.load("slurm-json", exact(tmp_path / "c.json", (2, 5, 7)))
    desk.load("slurm-json", exact(tmp_path / "d.json", (3, 27, 29)))
    desk.load("slurm-json", exact(tmp_path / "e.json", (4, 1, 3)), cluster="c2")
    desk.forget(5)
    odd = json.loads(exact(tmp_path / "f.json", (5, 5, 7)).read_text())
    odd["jobs"][0]["time"]["submission"] -= 60
    (tmp_path / "f.json").write_text(json.dumps(odd))
    desk.load("slurm-json", tmp_path / "f.json")

    for import_id in desk.ids():
        if import_id != 1:
            desk.forget(import_id)
            assert 0 == desk.rows(("replaced_claim",))["replaced_claim"][0]
    assert before == desk.rows(("claim",))


def ray_list(path: Path, *more: dict[str, Any]) -> Path:
    """A Ray job with an actor on both GPUs of n1 from hour 0 to 2, and one that waits, as `ray list` prints them."""

    def shown(hour: int) -> str:
        return rfc3339(us(hour * HOUR)).removesuffix("Z").replace("T", " ") + ".000000"

    node = {
        "node_id": "c" * 56, "node_ip": "192.0.2.7", "node_name": "n1", "state": "ALIVE", "resources_total": {"GPU": 2.0},
        "start_time_ms": shown(0), "end_time_ms": "1970-01-01 00:00:00.000000",
    }  # fmt: skip
    job = {
        "type": "SUBMISSION", "job_id": "02000000", "submission_id": "sub-a", "status": "SUCCEEDED", "entrypoint": "x",
        "start_time": us(0) // 1000, "end_time": us(3 * HOUR) // 1000, "metadata": {}, "message": None,
    }  # fmt: skip
    task = {
        "task_id": "1" * 48, "func_or_class_name": "f", "name": "f", "state": "FINISHED", "job_id": "02000000",
        "creation_time_ms": shown(0), "start_time_ms": shown(0), "end_time_ms": shown(2), "type": "NORMAL_TASK",
        "node_id": "c" * 56, "worker_id": "1" * 56, "placement_group_id": None, "required_resources": {"GPU": 2.0},
    }  # fmt: skip
    path.write_text(json.dumps([node, job, task, *more]))
    return path


def test_a_ray_job_in_another_zone_replaces_the_earlier_reading(desk: Desk, tmp_path: Path) -> None:
    desk.load("ray-json", ray_list(tmp_path / "a.json"))
    before = desk.rows(("claim", "pending"))
    desk.load("ray-json", ray_list(tmp_path / "b.json", {"worker_id": "another file"}), timezone="Europe/Berlin")
    query = "select naive_us, naive_zone, start_us, end_us from claim"

    assert [(us(0), "Europe/Berlin", us(-HOUR), us(HOUR))] == desk.store.sql(query)
    exact = json.loads((tmp_path / "a.json").read_text())
    exact[0] |= {"start_time_ms": us(0) // 1000, "end_time_ms": 0}
    exact[2] |= {f"{name}_time_ms": us(at * HOUR) // 1000 for name, at in (("creation", 0), ("start", 0), ("end", 2))}
    (tmp_path / "c.json").write_text(json.dumps(exact))
    desk.load("ray-json", tmp_path / "c.json")
    assert [(None, None, us(0), us(2 * HOUR))] == desk.store.sql(f"{query} where naive_us is null")
    assert [(3, 0, None), (2, 1, 3), (1, 1, 2)] == [
        (one["id"], one["replaced"], one["replaced_by"]) for one in imports(desk.store)
    ]
    desk.forget(3)
    desk.forget(2)
    assert before == desk.rows(("claim", "pending"))


def scontrol(job: int, start: int, end: int) -> str:
    """A job as `scontrol show job -d` prints it."""
    first, last = (rfc3339(us(hour * HOUR)).removesuffix("Z") for hour in (start, end))
    seconds = (end - start) * HOUR
    run_time = f"{seconds // 3600:02}:00:00"
    return (
        f"JobId={job} JobName=j UserId=ann(1) Account=acc QOS=normal JobState=COMPLETED RunTime={run_time} "
        f"SubmitTime={first} StartTime={first} EndTime={last} Partition=p NodeList=n1 NumNodes=1 "
        "TRES=cpu=1,gres/gpu=2\n"
    )


def test_another_job_or_another_time_is_not_replaced(desk: Desk, tmp_path: Path) -> None:
    """The same id at another printed time is another run, and another cluster's job is another job."""
    desk.load("sacct", sacct(tmp_path / "a.txt", (1, 0, 2)))
    desk.load("sacct", sacct(tmp_path / "b.txt", (1, 5, 6), (2, 0, 2)), timezone="Asia/Tokyo")
    desk.load("sacct", sacct(tmp_path / "c.txt", (1, 0, 2)), timezone="Asia/Tokyo", cluster="c2")

    assert [("c1", "1"), ("c1", "1"), ("c1", "2"), ("c2", "1")] == desk.store.sql(
        "select cluster, job_id from claim order by all"
    )


def test_identical_files_of_two_clusters_stay(desk: Desk, tmp_path: Path) -> None:
    """Two clusters may have the same topology file; only the same path with another cluster is the same file."""
    text = "SwitchName=s1 Nodes=n[1-2]\n"
    for cluster in ("c1", "c2"):
        (tmp_path / cluster).mkdir()
        (tmp_path / cluster / "topology.conf").write_text(text)
        desk.load("slurm-topology", tmp_path / cluster / "topology.conf", cluster=cluster)

    assert [("c1", 2), ("c2", 2)] == desk.store.sql("select cluster, count(*) from link group by 1 order by 1")


@pytest.mark.parametrize("step", range(12))
def test_an_interrupted_forget_changes_nothing(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """It fails at its n-th file of queries; the store is as before, and a second attempt is complete."""
    desk.load("openmetrics", metrics(tmp_path / "a.prom", 0, 2))
    desk.load("openmetrics", metrics(tmp_path / "b.prom", 1, 3, busy=0.2))
    before = {
        **desk.rows(RECORDS),
        **desk.samples(),
        **desk.rows(("dirty_hour", "context", "context_span", "import_file")),
    }
    plain, count = Connection.run, [0]

    def failing(self: Connection, name: str, /, **parameters: object) -> int:
        count[0] += 1
        if count[0] > step:
            raise KeyboardInterrupt
        return plain(self, name, **parameters)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "run", failing)
        with suppress(KeyboardInterrupt):
            desk.forget(1)
        interrupted = count[0] > step

    after = {
        **desk.rows(RECORDS),
        **desk.samples(),
        **desk.rows(("dirty_hour", "context", "context_span", "import_file")),
    }

    assert (before == after, desk.ids()) == ((True, [2, 1]) if interrupted else (False, [2]))


def test_the_whole_fleet_can_be_taken_back(desk: Desk, other: Desk, tmp_path: Path) -> None:
    desk.load("openmetrics", metrics(tmp_path / "a.prom", 0, 2))
    desk.load("sacct", sacct(tmp_path / "a.txt", (1, 0, 2)))
    desk.books()
    for number in (1, 2):
        desk.forget(number)

    assert other.books() == desk.books()


def test_an_import_of_the_same_files_is_no_other_import(desk: Desk, tmp_path: Path) -> None:
    a, b = sacct(tmp_path / "a.txt", (1, 0, 2)), sacct(tmp_path / "b.txt", (2, 3, 5))
    desk.load("sacct", a, b)
    desk.load("sacct", b, a)
    desk.load("sacct", a)

    assert [(2, 1), (1, 2)] == [(one["id"], one["files"]) for one in imports(desk.store)]

    done = desk.forget(1)

    assert (1, 1, ["1"]) == (
        done["files"],
        done["kept_files"],
        [row[0] for row in desk.store.sql("select job_id from claim")],
    )


def test_days_past_retention_stay(desk: Desk, tmp_path: Path) -> None:
    desk.load("openmetrics", metrics(tmp_path / "a.prom", 0, 2))
    desk.books()
    desk.store.sql("delete from sealed_day")

    with pytest.raises(UsageError, match=r"import 1: cannot be undone, because raw samples of 2026-11-02 are past"):
        desk.forget(1)
    assert [1] == desk.ids()


def test_a_store_of_an_earlier_version_keeps_its_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are listed, cannot be taken back, and their files are still known."""
    file = sacct(tmp_path / "a.txt", (1, 0, 2))
    digest, size = digest_of(file)
    every = sqlfile.names_in("schema")
    with monkeypatch.context() as patch:
        patch.setattr(sqlfile, "names_in", lambda folder: [name for name in every if name < "schema/0018"])
        with Store.open(tmp_path / "data") as store:
            store.sql(
                "insert into import_file values ($digest, 'sacct', 'c1', 'a.txt', $size, 1, 0, 5)",
                digest=digest,
                size=size,
            )
            store.sql("insert into claim (cluster, job_id) values ('c1', '1')")
    with Store.open(tmp_path / "data") as store, State.open(tmp_path / "state") as state:
        desk = Desk(store, state)
        (item,) = imports(store)

        assert (1, "sacct", 1, "not removable") == (item["id"], item["kind"], item["records"], item["state"])
        with pytest.raises(UsageError, match=r"import 1: cannot be undone, because it was made by an earlier version"):
            desk.forget(1)

        report = desk.load("sacct", file, timezone="Europe/Berlin")

        assert (0, 1, [("1",)]) == (report.files, report.repeated, store.sql("select job_id from claim"))
        assert "did not keep the time zone" in report.notes[0]


def test_a_closed_period_gets_corrections(desk: Desk, tmp_path: Path) -> None:
    """The bill of the week stays; the next analysis posts what the import had added to it."""
    desk.load("openmetrics", metrics(tmp_path / "a.prom", 0, 4))
    desk.load("sacct", sacct(tmp_path / "a.txt", (1, 0, 2)))
    desk.load("sacct", sacct(tmp_path / "b.txt", (2, 2, 4)))
    desk.books()
    close(desk.store, desk.state, "2026-W45", "test", NOW_US, force=True)
    desk.forget(3)
    report = analyze(desk.store, desk.state, SETTINGS, now_us=NOW_US, detectors=("blind-spot",))

    assert 0 < report.corrections
    assert [("1",)] == desk.store.sql("select distinct job_id from run")
