"""A real Slurm polled by its commands and by slurmrestd while jobs run: the ledger's GPU-seconds are sacct's own."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpuwatch.collectors.slurm.source import configure
from gpuwatch.core.clock import SECOND_US, parse_rfc3339
from tests.real.slurm_cluster import GPUS_A_NODE, NODES, Slurm, slurm_cluster
from tests.real.store_sink import StoreSink


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with slurm_cluster() as cluster:
        cluster.rest = cluster.start_rest()
        yield cluster


def source(slurm: Slurm, **options: Any) -> Any:
    problems: list[str] = []
    way = {} if "url" in options else {"conf_file": str(slurm.conf_file)}
    # What is asked of slurmdbd takes ten times as long as the rest: only where a test looks at it.
    table = {"cluster": "c1", "sacct_interval_s": 1, "queues_interval_s": 3600, **way, **options}
    made = configure([table], problems)

    assert [] == problems
    return made[0]


def rest(slurm: Slurm, **options: Any) -> Any:
    """A source that asks slurmrestd through its socket."""
    return source(slurm, url=f"unix://{slurm.rest_socket}", **options)


WAYS = (source, rest)
"""Slurm's own commands, and slurmrestd."""


@dataclass
class Both:
    """Two sources that ask the same cluster in their own way, each with its store."""

    slurm: Slurm
    sinks: list[StoreSink] = field(default_factory=lambda: [StoreSink(), StoreSink()])
    lives: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """New sources, which know only what the stores have."""
        self.lives = [way(self.slurm) for way in WAYS]

    def poll(self) -> None:
        for live, sink in zip(self.lives, self.sinks, strict=True):
            assert asyncio.run(live.poll(sink, now_us)), sink.errors

    def again(self) -> None:
        """A round in which everything is asked, however lately it was."""
        for live in self.lives:
            live._next_accounts_us = live._next_queues_us = 0
        self.poll()

    def until(self, what: str, job: str, states: set[str]) -> None:
        def holds() -> bool:
            came = state_of(self.slurm, job) in states
            self.poll()  # afterwards: both have seen it
            return came

        self.slurm.until(what, holds)

    def settle(self, *jobs: str) -> None:
        """Polls until accounting has the start of these jobs and every end. It hears of a short job late."""
        self.slurm.until("accounting has every start", lambda: all(has_start(self.slurm, job) for job in jobs))
        self.slurm.until("accounting has every end", lambda: not open_in_sacct(self.slurm))

        def holds() -> bool:
            self.poll()
            if left := [running(sink) for sink in self.sinks if is_open(sink)]:
                raise LookupError(f"still open: {left}; said: {[sink.errors[-1:] for sink in self.sinks]}")
            return True

        self.slurm.until("accounting was polled", holds)

    def rows_of_both(self, columns: str, table: str, where: str = "true") -> list[tuple[Any, ...]]:
        """Rows of a table that both ways told alike, sorted."""
        query = f"select distinct {columns} from {table} where {where} order by all"
        commands, over_http = (sink.store.sql(query) for sink in self.sinks)

        assert commands == over_http
        return commands


def state_of(slurm: Slurm, job: str) -> str:
    return slurm.run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").split("\n")[0]


def now_us() -> int:
    return time.time_ns() // 1000


def accounted(slurm: Slurm) -> dict[str, float]:
    """GPU-seconds by job as sacct tells: elapsed and suspended seconds times GPUs, over all runs of a job.

    What a resized job holds afterwards has the start of the whole job, and the time of the change as its submission.
    """
    columns = "JobID,ElapsedRaw,Suspended,AllocTRES,Submit,Start"
    printed = slurm.run("sacct", "-a", "-D", "-X", "-n", "-P", "-o", columns)
    total: dict[str, float] = {}
    for line in printed.splitlines():
        job, elapsed, suspended, tres, submit, start = line.split("|")
        hours, minutes, seconds = (int(part) for part in suspended.split(":"))
        length = int(elapsed) + 3600 * hours + 60 * minutes + seconds
        if start[:1].isdigit() and submit > start:
            length -= (parse_rfc3339(submit) - parse_rfc3339(start)) // SECOND_US
        gpus = next((int(item.partition("=")[2]) for item in tres.split(",") if item.startswith("gres/gpu=")), 0)
        if gpus:
            total[job] = total.get(job, 0) + length * gpus
    return total


def test_polled_jobs_add_up_to_what_sacct_says(slurm: Slurm) -> None:
    """Ended, cancelled, requeued, several nodes, an array, cancelled while waiting, and one too short to be seen."""
    both = Both(slurm)
    both.poll()
    wide = slurm.submit("--gres=gpu:h100:2", "--nodes=2", "--account=vision", wrap="sleep 2")
    array = slurm.submit("--gres=gpu:1", "--array=0-1", wrap="sleep 1")
    cancelled = slurm.submit("--gres=gpu:1", wrap="sleep 600")
    both.until("the job to cancel runs", cancelled, {"RUNNING"})
    requeued = slurm.submit("--gres=gpu:1", "--requeue", wrap="sleep 600")
    both.until("the job to requeue runs", requeued, {"RUNNING"})
    slurm.until("accounting knows its start", lambda: may_be_requeued(slurm, requeued))
    waiting = slurm.submit("--gres=gpu:4", "--nodes=2", wrap="sleep 1")
    both.poll()
    slurm.run("scancel", waiting)
    both.until("the wide job ends", wide, {"COMPLETED"})
    slurm.run("scancel", cancelled)
    slurm.run("scontrol", "requeue", requeued)
    unseen = slurm.submit("--gres=gpu:1", wrap="sleep 1")
    slurm.until("the short job ends", lambda: state_of(slurm, unseen) == "COMPLETED")
    both.until("the requeued job waits again", requeued, {"PENDING"})
    slurm.run("scancel", requeued)
    both.until("the array ends", array, {"COMPLETED"})
    expected = {f"{array}_0", f"{array}_1", wide, cancelled, requeued, unseen}
    slurm.until("accounting has every job", lambda: expected <= accounted(slurm).keys())
    both.settle(unseen)
    written = [sink.claims for sink in both.sinks]

    result = accounted(slurm)

    assert expected == result.keys()
    for sink in both.sinks:
        assert result == sink.gpu_seconds()
        assert [] == sink.errors

    both.again()

    assert written == [sink.claims for sink in both.sinks], "what is known is not written again"
    assert [(waiting, 8)] == both.rows_of_both("job_id, device_count", "pending", f"job_id = '{waiting}'")
    assert both.rows_of_both(
        "job_id, run_key, node, start_us, end_us, user_name, account, queue, qos", "claim", "end_us > 0"
    )
    assert [(1, "finished")] == both.rows_of_both(
        "evictions, state", "workload", f"uid = '{requeued}' and end_us is not null"
    )


def test_parts_of_a_job_pauses_and_preemptions_add_up_too(slurm: Slurm) -> None:
    """Parts of a job hold their own GPUs, a suspended job what it had, a resized one less; a preempted one ends."""
    both = Both(slurm)
    before = accounted(slurm)
    parts = slurm.run(
        *("sbatch", "--parsable", "--output=/dev/null", "--gres=gpu:1", "--wrap=sleep 2", ":", "--gres=gpu:2"),
        *("--nodes=1",),
    )
    paused = slurm.submit("--gres=gpu:1", "--nodelist=gpu2", wrap=slurm.until_released("paused"))
    both.until("the job to pause runs", paused, {"RUNNING"})
    slurm.run("scontrol", "suspend", paused)
    both.poll()

    assert [("running", "SUSPENDED")] == both.rows_of_both(
        "state, detail ->> 'state'", "workload", f"uid = '{paused}' and (detail ->> 'state') = 'SUSPENDED'"
    )

    resized = slurm.submit("--gres=gpu:1", "--nodes=2", wrap=slurm.until_released("resized"))
    both.until("the job to resize runs", resized, {"RUNNING"})
    slurm.until("accounting knows its start", lambda: has_run(slurm, resized))
    slurm.run("scontrol", "update", f"JobId={resized}", "NumNodes=1")
    both.poll()
    slurm.release("resized")
    slurm.until("the parts end", lambda: state_of(slurm, parts) == "COMPLETED")
    slurm.run("scontrol", "resume", paused)
    slurm.release("paused")
    victim = slurm.submit("--gres=gpu:4", "--nodelist=gpu1", "--qos=normal", wrap="sleep 600")
    both.until("the victim runs", victim, {"RUNNING"})
    slurm.until("accounting knows its start", lambda: has_run(slurm, victim))
    urgent = slurm.submit("--gres=gpu:4", "--nodelist=gpu1", "--qos=urgent", wrap="sleep 1")
    both.until("the victim ends", victim, {"PREEMPTED"})
    both.until("the paused job ends", paused, {"COMPLETED"})
    both.until("the resized job ends", resized, {"COMPLETED"})
    every = {f"{parts}+0", f"{parts}+1", paused, resized, victim, urgent}
    slurm.until("accounting has the GPUs of every job", lambda: every <= accounted(slurm).keys())
    both.settle(urgent)
    expected = {job: seconds for job, seconds in accounted(slurm).items() if job not in before}

    assert every == expected.keys()
    assert 2 * expected[f"{parts}+0"] == expected[f"{parts}+1"]
    for sink in both.sinks:
        assert expected == {job: s for job, s in sink.gpu_seconds().items() if job not in before}
        assert [] == sink.errors
    assert [(1,)] == both.rows_of_both("preemptions", "workload", f"uid = '{victim}' and preemptions > 0")
    assert (
        1
        <= both.rows_of_both("max(suspended_us) / 1000000", "claim", f"job_id = '{paused}' and end_us is not null")[0][
            0
        ]
    )


def test_limits_and_reservations_are_reported_alike(slurm: Slurm) -> None:
    """A partition has the GPUs of its nodes, a QOS its limits, a reservation its nodes; what is gone is deleted."""
    both = Both(slurm)
    slurm.run(
        *("scontrol", "create", "reservation", "ReservationName=fans", "StartTime=now+1hour", "Duration=60"),
        *("Nodes=gpu1", "Users=root", "Flags=MAINT"),
    )
    job = slurm.submit("--gres=gpu:3", "--qos=urgent", wrap="sleep 600")
    both.until("it runs", job, {"RUNNING"})
    both.again()
    slurm.run("scontrol", "delete", "reservation", "fans")
    slurm.run("scancel", job)
    both.again()
    urgent = both.rows_of_both("quota_max, used, running_count", "queue", "name = 'urgent' and running_count = 1")
    (limits,) = both.rows_of_both(
        "detail -> 'max_per_user', preemption -> 'preempts', priority", "queue", "name = 'urgent'"
    )

    assert [('{"":8}', '{"":3}')] == both.rows_of_both("quota, used", "queue", "name = 'batch' and running_count = 1")
    assert [('{"":6}', '{"":3}', 1)] == urgent
    assert ({"": 5}, ["normal"], 100) == (json.loads(limits[0]), json.loads(limits[1]), limits[2])
    reserved = both.rows_of_both("state, nodes, device_count, users, end_us - start_us", "reservation")
    assert [
        ("INACTIVE", "gpu1", 4, "root", 3600 * SECOND_US),
        ("deleted", "gpu1", 4, "root", 3600 * SECOND_US),
    ] == sorted(reserved)
    assert [(True,)] == both.rows_of_both("flags like '%MAINT%'", "reservation")


def running(sink: StoreSink) -> set[str]:
    return {row["job_id"] for row in asyncio.run(sink.open_claims("c1", "slurm"))}


def open_in_sacct(slurm: Slurm) -> bool:
    return bool(slurm.run("sacct", "-a", "-D", "-X", "-n", "-P", "-o", "JobID", "--state=RUNNING,PENDING", "-E", "now"))


def is_open(sink: StoreSink) -> bool:
    return bool(asyncio.run(sink.open_claims("c1", "slurm")))


def test_a_restart_between_start_and_end_loses_nothing(slurm: Slurm) -> None:
    """A second process knows only the store, and comes back after the job ended."""
    both = Both(slurm)
    both.poll()  # the first look takes longest
    job = slurm.submit("--gres=gpu:3", wrap=slurm.until_released("restarted"))
    both.until("it runs", job, {"RUNNING"})

    assert [{job}] * 2 == [running(sink) for sink in both.sinks]

    slurm.until("it has run a second", lambda: ran(slurm, job) >= 1)  # Slurm counts whole seconds
    slurm.release("restarted")
    slurm.until("it ends", lambda: state_of(slurm, job) == "COMPLETED")
    slurm.until("accounting has its end", lambda: job in accounted(slurm) and not open_in_sacct(slurm))
    both.restart()
    both.poll()

    assert [accounted(slurm)[job]] * 2 == [sink.gpu_seconds()[job] for sink in both.sinks]
    assert [set()] * 2 == [running(sink) for sink in both.sinks]


def test_a_running_job_is_held_up_to_the_last_poll(slurm: Slurm) -> None:
    """Its devices are told by index; its evidence is Slurm's own run time."""
    job = slurm.submit("--gres=gpu:1", wrap="sleep 600")
    slurm.until("it has run a second", lambda: state_of(slurm, job) == "RUNNING" and ran(slurm, job) >= 1)
    both = Both(slurm)
    both.poll()
    start = slurm.run("sacct", "-n", "-X", "-P", "-j", job, "-o", "Start")
    ((start_us, end_us, indexes),) = both.rows_of_both("start_us, end_us, device_indexes", "claim", f"job_id = '{job}'")
    slurm.run("scancel", job)

    assert (parse_rfc3339(start), None, "0") == (start_us, end_us, indexes)
    for sink in both.sinks:
        ((evidence_us,),) = sink.store.sql("select max(evidence_us) from claim where job_id = $j", j=job)
        assert sink.gpu_seconds()[job] == (evidence_us - start_us) / SECOND_US >= 1


def has_start(slurm: Slurm, job: str) -> bool:
    """Whether slurmdbd has the start of a job."""
    return slurm.run("sacct", "-n", "-X", "-P", "-j", job, "-o", "Start")[:1].isdigit()


def has_end(slurm: Slurm, job: str) -> bool:
    """Whether slurmdbd has the end of a job."""
    return slurm.run("sacct", "-n", "-X", "-P", "-j", job, "-o", "End")[:1].isdigit()


def has_run(slurm: Slurm, job: str) -> bool:
    """Whether a job ran a second and slurmdbd has its start: put back before that, it never gets one."""
    return has_start(slurm, job) and ran(slurm, job) >= 1


def may_be_requeued(slurm: Slurm, job: str) -> bool:
    """Whether slurmdbd has a job's start and slurmctld has nothing more to send of it.

    slurmctld sends what it has of new jobs every 5 s. Of a job that is requeued before that, it sends no start, which
    replaces the one that slurmdbd has.
    """
    return has_start(slurm, job) and ran(slurm, job) >= 7 and "DBD Agent queue size: 0\n" in slurm.run("sdiag")


def ran(slurm: Slurm, job: str) -> int:
    """Whole seconds a job has run, by its controller."""
    words = slurm.run("scontrol", "show", "job", job).split()
    line = next(word.partition("=")[2] for word in words if word.startswith("RunTime="))
    return int(line.split(":")[-1])


def test_nodes_come_with_their_gpus(slurm: Slurm) -> None:
    """A drained node is told with its reason; unchanged nodes are written once."""
    both = Both(slurm)
    both.poll()
    slurm.run("scontrol", "update", "NodeName=gpu2", "State=DRAIN", "Reason=fans")
    both.poll()
    slurm.run("scontrol", "update", "NodeName=gpu2", "State=UNDRAIN")

    def are_up() -> bool:
        # Until its next ping Slurm says that the node does not respond, and so do we.
        both.poll()
        return all(nodes(sink)[-1][1] == "up" for sink in both.sinks)

    slurm.until("the node is up again", are_up)
    devices = f'{{"":{GPUS_A_NODE}}}'
    for rows in map(nodes, both.sinks):
        assert [("gpu1", "up", None, devices, "h100"), ("gpu2", "up", None, devices, "h100")] == rows[:NODES]
        assert ("gpu2", "drain", "fans", devices, "h100") == rows[NODES]
        assert {"gpu2"} == {row[0] for row in rows[NODES:]}


def nodes(sink: StoreSink) -> list[tuple[Any, ...]]:
    return sink.store.sql("select node, state, reason, devices, gpu_model from node order by observed_us, node")


def test_a_controller_that_is_not_there_is_reported_with_the_fix(slurm: Slurm) -> None:
    """The same commands, a configuration that names nobody."""
    nobody = slurm.folder / "nobody.conf"
    text = slurm.conf_file.read_text()
    port = next(line for line in text.splitlines() if line.startswith("SlurmctldPort="))
    nobody.write_text(text.replace(port, "SlurmctldPort=9"))
    live, sink = source(slurm, conf_file=str(nobody), timeout_s=3), StoreSink()

    assert not asyncio.run(live.poll(sink, now_us))
    assert "scontrol ping" in sink.errors[0]


def test_a_slurmrestd_that_is_killed_loses_nothing(slurm: Slurm) -> None:
    """Jobs end while nobody answers, and when slurmctld comes back."""
    live, sink = rest(slurm), StoreSink()
    job = slurm.submit("--gres=gpu:2", wrap=slurm.until_released("unanswered"))
    other = slurm.submit("--gres=gpu:1", wrap="sleep 600")
    slurm.until("they run", lambda: asyncio.run(live.poll(sink, now_us)) and running(sink) >= {job, other})
    # slurmctld sends the GPUs of a job later than its start; stopped before that, it never does.
    slurm.until("accounting has the GPUs of both", lambda: accounted(slurm).keys() >= {job, other})
    assert slurm.rest is not None and slurm.controller is not None
    slurm.rest.kill()
    slurm.stop(slurm.rest)

    assert not asyncio.run(live.poll(sink, now_us))
    assert "check that slurmrestd runs" in sink.errors[-1] or "start slurmrestd" in sink.errors[-1]

    slurm.release("unanswered")
    slurm.until("one ends", lambda: state_of(slurm, job) == "COMPLETED")
    slurm.stop(slurm.controller)
    slurm.rest = slurm.start_rest()

    assert not asyncio.run(live.poll(sink, now_us))
    assert "slurmctld" in sink.errors[-1]

    slurm.controller = slurm.start_controller()
    slurm.run("scancel", other)
    slurm.until("accounting has both ends", lambda: has_end(slurm, job) and has_end(slurm, other))
    slurm.until("both are told", lambda: asyncio.run(live.poll(sink, now_us)) and not is_open(sink))

    result, held = accounted(slurm), sink.gpu_seconds()

    assert [result[job], result[other]] == [held[job], held[other]]
