"""The live Slurm source: news only, ends from accounting, and what it says when a command fails."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.shared.live_options import backoff_s
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.changes import CLOSE_AFTER_US, HEARTBEAT_US, JobChanges
from gpuwatch.collectors.slurm.command import environment
from gpuwatch.collectors.slurm.source import SlurmSource, configure
from gpuwatch.collectors.slurm.via_commands import job_options
from gpuwatch.core.clock import HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.core.errors import StoreBusy
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import LiveSource, live_kinds
from tests.worlds.patience import PATIENCE_S

T0_US = 1_793_577_600_000_000
Json = dict[str, Any]


def us(seconds: float) -> int:
    return T0_US + round(seconds * SECOND_US)


def running(job: str = "7", seen: float = 0, nodes: str = "n1", **words: Any) -> list[Row]:
    """What scontrol says of a job that began at 0: two GPUs, by index, on each of its nodes."""
    shared = {
        "cluster": "c1",
        "scheduler": "slurm",
        "kind": "scontrol",
        "job_id": job,
        "run_key": f"{job}@{us(0)}",
        "start_us": us(0),
        "end_us": None,
        "evidence_us": us(seen),
        "state": "RUNNING",
        "labels": "{}",
        "gpu_type": "h100",
        "profile": None,
        "device_count": 2,
        "device_indexes": "0,1",
    }
    return [("claim", {**shared, "node": node, **words}) for node in nodes.split()]


def ended(job: str = "7", end: float = 100, kind: str = "sacct", nodes: str = "n1", **words: Any) -> list[Row]:
    """What sacct (or scontrol after the end) says: totals spread over the nodes, no indexes."""
    rows = running(job, end, nodes, **{"kind": kind, "end_us": us(end), "state": "COMPLETED", **words})
    return [(table, {name: v for name, v in row.items() if name != "device_indexes"}) for table, row in rows]


def waiting(job: str = "9", reason: str = "Resources") -> list[Row]:
    asked = {"cluster": "c1", "scheduler": "slurm", "submit_us": us(0), "start_us": None, "device_count": 4}
    return [
        ("pending", {**asked, "job_id": job, "profile": None, "gpu_type": None, "reason": reason, "evidence_us": 0})
    ]


def claim_states(rows: list[Row]) -> list[tuple[str, float | None]]:
    """(state, end) of claims, in seconds."""
    return [(r["state"], None if r["end_us"] is None else (r["end_us"] - T0_US) / 1e6) for t, r in rows if t == "claim"]


class Slurm:
    """A book that is told what commands print, at seconds after T0."""

    def __init__(self, *open_claims: Json) -> None:
        self.tracker = JobChanges()
        self.newest = self.tracker.remember(open_claims)

    def jobs(self, at: float, *rows: Row) -> list[Row]:
        return self.tracker.jobs(list(rows), us(at), Rejects())

    def accounts(self, *rows: Row) -> list[Row]:
        return self.tracker.accounts(list(rows))


def test_what_is_known_is_not_news() -> None:
    slurm = Slurm()

    assert [("RUNNING", None)] == claim_states(slurm.jobs(0, *running()))
    assert [] == slurm.jobs(15, *running(seen=15))
    assert [("COMPLETED", 20.0)] == claim_states(slurm.jobs(30, *ended(end=20, kind="scontrol")))
    assert [] == slurm.jobs(45, *ended(end=20, kind="scontrol"))
    assert [] == slurm.accounts(*ended(end=20))


def test_a_long_job_says_once_a_minute_that_it_runs_and_once_an_hour_everything() -> None:
    """Of many jobs one speaks for all: what runs is held up to the newest evidence."""
    slurm = Slurm()
    slurm.jobs(0, *running("7"), *running("8"))
    written = [slurm.jobs(at, *running("7", at), *running("8", at)) for at in range(15, 3600, 15)]

    assert 2 + 59 == 2 + sum(map(len, written))
    assert max(map(len, written)) == 1
    assert 2 == len(slurm.jobs(3600, *running("7", 3600), *running("8", 3600)))
    assert HEARTBEAT_US == MINUTE_US


def test_devices_stay_as_the_running_job_reported_them() -> None:
    """Totals spread evenly by accounting would be counted beside the real ones."""
    slurm = Slurm()
    uneven = [*running(nodes="n1", device_count=3), *running(nodes="n2", device_count=1, device_indexes="0")]
    slurm.jobs(0, *uneven)
    rows = slurm.accounts(*ended(nodes="n1 n2", gpu_type=None, state="TIMEOUT"))

    assert [("n1", 3, "0,1", "h100", "scontrol"), ("n2", 1, "0", "h100", "scontrol")] == [
        (r["node"], r["device_count"], r["device_indexes"], r["gpu_type"], r["kind"]) for _, r in rows
    ]
    assert [("TIMEOUT", 100.0)] * 2 == claim_states(rows)


def test_a_run_that_was_never_seen_running_comes_from_accounting() -> None:
    slurm = Slurm()
    slurm.jobs(0)

    assert [("COMPLETED", 100.0)] == claim_states(slurm.accounts(*ended()))
    assert [] == slurm.accounts(*ended())


def test_accountings_word_that_a_job_runs_is_not_taken() -> None:
    """A record whose end got lost says RUNNING for ever."""
    slurm = Slurm()
    slurm.jobs(0)

    assert [] == slurm.accounts(*running(kind="sacct"))


def test_a_job_whose_devices_are_not_reported_yet_waits_for_them() -> None:
    slurm = Slurm()
    bare = [
        ("claim", {k: v for k, v in row.items() if k != "device_indexes"}) for _, row in running(state="CONFIGURING")
    ]

    assert [] == slurm.jobs(0, *bare)
    assert [("RUNNING", None)] == claim_states(slurm.jobs(15, *running(seen=15)))


def test_a_run_that_slurm_forgot_ends_when_it_was_last_seen_and_a_later_record_corrects_that() -> None:
    slurm = Slurm()
    slurm.jobs(0, *running())
    slurm.jobs(15, *running(seen=15))
    slurm.jobs(30)

    assert [("7", f"7@{us(0)}")] == slurm.tracker.lost()
    assert [] == slurm.tracker.close_lost(slurm.tracker.lost(), us(30))
    assert [("RUNNING", 15.0)] == claim_states(slurm.tracker.close_lost(slurm.tracker.lost(), us(30) + CLOSE_AFTER_US))
    assert [] == slurm.tracker.lost()

    late = slurm.accounts(*ended(end=25))

    assert [("COMPLETED", 25.0)] == claim_states(late)
    assert ["0,1"] == [row["device_indexes"] for _, row in late]


def test_a_run_that_comes_back_is_not_ended() -> None:
    """One list without it, and it is there again."""
    slurm = Slurm()
    slurm.jobs(0, *running())
    slurm.jobs(15)
    slurm.jobs(30, *running(seen=30))

    assert [] == slurm.tracker.lost()


def test_a_new_process_takes_up_the_runs_of_the_last() -> None:
    slurm = Slurm(*(row for _, row in running(seen=50)))
    slurm.jobs(500)

    assert us(50) == slurm.newest
    assert [("COMPLETED", 60.0)] == claim_states(slurm.accounts(*ended(end=60)))


def test_a_requeued_job_is_two_runs() -> None:
    slurm = Slurm()
    slurm.jobs(0, *running())
    again = running(run_key=f"7@{us(200)}", start_us=us(200), seen=200)
    rows = [*slurm.jobs(200, *again), *slurm.accounts(*ended(end=90, state="REQUEUED"))]

    assert [("RUNNING", None), ("REQUEUED", 90.0)] == claim_states(rows)


def test_a_request_is_reported_when_it_changes_and_when_it_waits_no_more() -> None:
    slurm = Slurm()
    evidence = [
        [row["evidence_us"] - T0_US for table, row in slurm.jobs(at, *rows) if table == "pending"]
        for at, rows in (
            (0, waiting()),
            (15, waiting()),
            (30, waiting(reason="Priority")),
            (45, waiting(reason="Priority")),
            (60, []),
        )
    ]

    assert [[0], [], [30 * SECOND_US], [], [45 * SECOND_US]] == evidence


def test_nodes_are_reported_when_they_change_once_an_hour_and_when_they_go() -> None:
    tracker = JobChanges()

    def node(state: str, name: str = "n1") -> Row:
        return "node", {"node": name, "state": state, "since_us": None, "reason": None, "observed_us": at_us}

    listed: list[list[str]] = []
    for minute, rows in ((0, "up"), (1, "up"), (2, "drain"), (62, "drain"), (63, "")):
        at_us = T0_US + minute * MINUTE_US
        present = [node(rows)] if rows else []
        listed.append(
            [row["state"] for _, row in tracker.nodes([*present, node("up", "n2")], at_us) if row["node"] == "n1"]
        )

    assert [["up"], [], ["drain"], ["drain"], ["down"]] == listed
    assert [] == tracker.nodes([], T0_US + HOUR_US * 2), "a list without any node is no news"


# The commands ------------------------------------------------------------------------------------------------------

HEADER = "JobID^|^JobIDRaw^|^State^|^Start^|^End^|^ElapsedRaw^|^NodeList^|^AllocTRES"
JOB = """JobId=7 JobName=train
   UserId=ann(1) GroupId=ann(1) Account=vision QOS=normal
   JobState=RUNNING Reason=None
   RunTime=00:01:00 SubmitTime=2026-11-02T00:00:00
   StartTime=2026-11-02T00:00:00 EndTime=2026-11-03T00:00:00
   Partition=batch NodeList=n1 NumNodes=1 NumCPUs=1
     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:0-1)
   MinCPUsNode=1
"""
PARTITION = "PartitionName=batch\n   Nodes=n1 State=UP PriorityTier=5 PreemptMode=OFF\n   TRES=cpu=8,gres/gpu=8\n"
QOS = "Name|Priority|Preempt|PreemptMode|Flags|GrpTRES|MaxTRES|MaxTRESPU|MaxTRESPA\nnormal|0||cluster|||||\n"
NODE = "NodeName=n1 Arch=x86_64\n   Gres=gpu:h100:8\n   State=MIXED Partitions=batch\n"


class FakeSink:
    """Remembers; refuses the first `busy` commits."""

    def __init__(self, busy: int = 0) -> None:
        self.busy = busy
        self.rows: list[tuple[str, Json]] = []
        self.refused: list[dict[str, int]] = []
        self.errors: list[str] = []
        self.read: list[int] = []
        self.stored: dict[str, list[Json]] = {}
        self.clocks: list[tuple[str, str, int]] = []

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        if self.busy:
            self.busy -= 1
            raise StoreBusy("the queue is full")
        self.rows += [(b.table, row) for b in batches if isinstance(b, Records) for row in b.rows.to_pylist()]
        self.refused.append((rejects or Rejects()).counts)

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        self.read.append(samples)

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.errors.append(error)

    def added(self, source: LiveSource) -> None:
        raise AssertionError("Slurm finds no sources")

    def dropped(self, source: str) -> None:
        raise AssertionError("Slurm loses no sources")

    def clock(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        self.clocks.append((cluster, name, offset_us))

    async def open_claims(self, cluster: str, scheduler: str) -> list[Json]:
        return []

    async def open_rows(self, cluster: str, table: str) -> list[Json]:
        return self.stored.get(table, [])


class Commands:
    """A folder of commands that print what the test says, and note how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_us = T0_US + MINUTE_US
        self.prints(JOB)
        self.set("sacct", f"cat <<'E'\n{HEADER}\nE")

    def prints(self, jobs: str) -> None:
        """What scontrol shows: these jobs, a node, a partition, no reservation; and sacctmgr, one QOS."""
        texts = {"job": jobs, "node": NODE, "partition": PARTITION, "reservation": "No reservations in the system\n"}
        shown = "".join(f'[ "$3" = {what} ] && cat <<E\n{text}E\n' for what, text in texts.items())
        self.set("scontrol", f"{shown}true")
        self.set("sacctmgr", f"cat <<'E'\n{QOS}E")

    def set(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "$TZ $SLURM_TIME_FORMAT $*" >> {self.folder}/calls\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def source(self, **options: Any) -> SlurmSource:
        problems: list[str] = []
        made = configure([{"cluster": "c1", "bin_dir": str(self.folder), **options}], problems)
        assert [] == problems
        assert isinstance(made[0], SlurmSource)
        return made[0]

    def poll(self, source: SlurmSource, sink: FakeSink) -> bool:
        return asyncio.run(source.poll(sink, lambda: self.now_us))

    def calls(self, name: str) -> list[str]:
        return [line for line in (self.folder / "calls").read_text().splitlines() if name in line]


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def test_a_round_reads_jobs_nodes_and_accounts(commands: Commands) -> None:
    sink = FakeSink()

    assert commands.poll(commands.source(), sink)
    assert ["claim", "node", "queue", "queue", "workload"] == sorted(table for table, _ in sink.rows)
    assert ("0,1", T0_US, T0_US + MINUTE_US) == tuple(
        row[name]
        for table, row in sink.rows
        if table == "claim"
        for name in ("device_indexes", "start_us", "evidence_us")
    )
    assert [] == sink.errors
    assert [4] == sink.read
    assert all(call.startswith("UTC standard ") for call in commands.calls(""))
    assert "--starttime 2026-11-01T00:01:00" in commands.calls("--allusers")[0], "a day back at the start"


def test_sacct_is_asked_every_minute_and_its_windows_overlap(commands: Commands) -> None:
    source, sink = commands.source(), FakeSink()
    for _ in range(9):
        commands.poll(source, sink)
        commands.now_us += 15 * SECOND_US

    starts = [call.partition("--starttime ")[2] for call in commands.calls("--allusers")]

    assert ["2026-11-01T00:01:00", "2026-11-01T22:01:00", "2026-11-01T22:02:00"] == starts


def test_after_a_failure_sacct_reaches_back_to_what_it_last_heard(commands: Commands) -> None:
    source, sink = commands.source(sacct_lookback_s=60), FakeSink()
    commands.poll(source, sink)
    commands.set("sacct", "echo 'sacct: error: slurm_persist_conn_open: connection refused' >&2; exit 1")
    commands.now_us += HOUR_US
    commands.poll(source, sink)
    commands.now_us += HOUR_US
    commands.set("sacct", f"cat <<'E'\n{HEADER}\nE")
    commands.poll(source, sink)
    commands.now_us += 30 * 24 * HOUR_US
    commands.poll(source, sink)
    starts = [call.partition("--starttime ")[2] for call in commands.calls("--allusers")]

    assert ["2026-11-02T00:00:00", "2026-11-02T00:00:00"] == starts[1:3]
    assert "2026-11-25T02:01:00" == starts[3], "never further back than a week"
    assert 1 == len(sink.errors)
    assert "slurm_persist_conn_open: connection refused; check slurmdbd" in sink.errors[0]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param(
            "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
            "scontrol ping",
            id="no controller",
        ),
        pytest.param("exit 3", "exit status 3", id="no word"),
        pytest.param("sleep 600; touch $0.late", "no answer within 0.2 s", id="it hangs"),
        pytest.param("sleep 600 & sleep 600; touch $0.late", "no answer within 0.2 s", id="it hangs with a child"),
        pytest.param("yes", "prints more than 4096 bytes", id="it never stops printing"),
        pytest.param("echo hello", "no line starts with JobId=", id="it prints something else"),
        pytest.param("yes >&2", "no answer within 0.2 s", id="it never stops complaining"),
    ],
)
def test_a_command_that_fails_is_reported_with_the_fix_and_leaves_nothing_behind(
    commands: Commands, script: str, words: str
) -> None:
    commands.set("scontrol", script)
    sink = FakeSink()

    assert not commands.poll(commands.source(timeout_s=0.2 if "within 0.2 s" in words else 60, max_bytes=4096), sink)
    assert words in sink.errors[0]
    assert [] == sink.rows
    assert [] == list(commands.folder.glob("*.late")), "it was waited for"


@pytest.mark.parametrize(
    "script", [pytest.param("exec sleep 60", id="silent"), pytest.param("exec yes", id="printing for ever")]
)
def test_a_source_that_is_stopped_kills_its_command(commands: Commands, script: str) -> None:
    pids = commands.folder / "pids"
    commands.set("scontrol", f"echo $$ > {pids}.new; mv {pids}.new {pids}\n{script}")

    async def play() -> None:
        source = commands.source()
        polling = asyncio.ensure_future(source.run(FakeSink(), lambda: commands.now_us))
        async with asyncio.timeout(PATIENCE_S):
            while not pids.exists():
                await asyncio.sleep(0.01)
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)

    asyncio.run(play())

    with pytest.raises(ProcessLookupError):
        os.killpg(int(pids.read_text()), 0)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(
            {
                "JobState=RUNNING": "JobState=CANCELLED",
                "NodeList=n1": "NodeList=",
                "RunTime=00:01:00": "RunTime=00:00:00",
            },
            id="cancelled while it waited: its times are those of the cancellation",
        ),
        pytest.param(
            {"JobState=RUNNING": "JobState=COMPLETING", "EndTime=2026-11-03T00:00:00": "EndTime=Unknown"},
            id="requeued and still ending: its start is an estimate of the next",
        ),
    ],
)
def test_a_job_that_holds_nothing_is_no_claim_and_no_fault(commands: Commands, changed: dict[str, str]) -> None:
    """As Slurm 22.05 prints them."""
    job = JOB
    for old, new in changed.items():
        assert old in job
        job = job.replace(old, new)
    commands.prints(job)
    sink = FakeSink()

    assert commands.poll(commands.source(), sink)
    assert "claim" not in [table for table, _ in sink.rows]
    assert not any(sink.refused)


def test_commands_that_are_not_installed_are_named(commands: Commands) -> None:
    (commands.folder / "scontrol").unlink()
    sink = FakeSink()

    assert not commands.poll(commands.source(), sink)
    assert "scontrol: not found; install Slurm's client commands here or set bin_dir in [[slurm]]" == sink.errors[0]


def test_a_bad_record_is_counted_once_however_often_it_is_read(commands: Commands) -> None:
    commands.prints(f"JobId=x\n{JOB}")
    source, sink = commands.source(accounting=False), FakeSink()
    for _ in range(3):
        commands.poll(source, sink)
        commands.now_us += 15 * SECOND_US

    assert [{"JobId is not a job number": 1}] == [counts for counts in sink.refused if counts]


def test_a_full_store_is_waited_for_and_nothing_is_lost(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.collectors.shared.live_write.FIRST_WAIT_S", 0.001)
    sink = FakeSink(busy=2)

    assert commands.poll(commands.source(), sink)
    assert ["claim", "node", "queue", "queue", "workload"] == sorted(table for table, _ in sink.rows)
    assert ["the queue is full"] == sink.errors


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        pytest.param([{"interval_s": "15"}], "[[slurm]] 1 interval_s: must be a number", id="a number as text"),
        pytest.param([{"intervall_s": 15}], "[[slurm]] 1 intervall_s: is not an option", id="a misspelt option"),
        pytest.param(
            [{"bin_dir": "/nowhere"}], "[[slurm]] 1 bin_dir: there is no folder", id="a folder that is not there"
        ),
        pytest.param([{}, {}], "[[slurm]] 2 cluster: is required and must differ", id="one cluster twice"),
        pytest.param([{"timeout_s": float("nan")}], "[[slurm]] 1 timeout_s: must be a number", id="no number"),
        pytest.param([{"accounting": 1}], "[[slurm]] 1 accounting: must be true or false", id="one is not true"),
    ],
)
def test_a_wrong_option_names_itself(tables: list[Json], problem: str) -> None:
    problems: list[str] = []
    configure(tables, problems)

    assert 1 == len(problems)
    assert problems[0].startswith(problem)


def test_the_callers_own_variables_do_not_change_what_is_printed() -> None:
    env = environment(
        {"SACCT_FORMAT": "user", "SLURM_TIME_FORMAT": "%s", "TZ": "Asia/Tokyo", "PATH": "/bin"}, "/etc/s.conf"
    )

    assert {"PATH", "TZ", "LC_ALL", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN", "SLURM_CONF"} == env.keys()
    assert ("UTC", "standard") == (env["TZ"], env["SLURM_TIME_FORMAT"])


def test_lost_runs_are_asked_for_by_number() -> None:
    assert [] == job_options([("7", "from elsewhere")])
    assert ["--starttime", "2026-11-02T00:00:00", "--jobs", "12,9"] == job_options(
        [("9", f"9@{us(0)}"), ("7_1", f"12@{us(50)}"), ("x", "?")]
    )


def test_waits_double_up_to_their_bound() -> None:
    assert all(0.5 <= backoff_s(1, 1, 60) <= 1 for _ in range(20))
    assert all(30 <= backoff_s(10_000, 1, 60) <= 60 for _ in range(20))


def test_it_is_found_by_its_table() -> None:
    assert {"slurm", "kubernetes"} <= live_kinds().keys()
