"""A real Slurm polled while jobs run, end, and are cancelled: the ledger's GPU-seconds are sacct's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from gpuwatch import attribution
from gpuwatch.clock import SECOND_US, parse_rfc3339
from gpuwatch.collectors.slurm_live import configure
from gpuwatch.model import CLAIM, Points, Records, Rejects
from gpuwatch.settings import Settings
from gpuwatch.store import Store
from tests.real.slurm_cluster import GPUS_A_NODE, NODES, Slurm, slurm_cluster


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with slurm_cluster() as cluster:
        yield cluster


class StoreSink:
    """Appends what a source commits to a store; remembers what the source says of itself."""

    def __init__(self) -> None:
        self.store = Store.open(None, threads=1)
        self.claims = 0
        self.errors: list[str] = []

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        assert not rejects or not rejects.total, rejects
        with self.store.transaction():
            for batch in batches:
                self.store.append(batch)
                self.claims += batch.rows.num_rows if isinstance(batch, Records) and batch.table == "claim" else 0

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        assert samples > 0

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.errors.append(error)

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        columns = ", ".join(f"arg_max({name}, evidence_us)" for name in CLAIM.names)
        rows = self.store.sql(
            f"select {columns} from claim where cluster = $cluster and scheduler = $scheduler "
            "group by job_id, run_key, node, profile having max(end_us) is null",
            cluster=cluster,
            scheduler=scheduler,
        )
        return [dict(zip(CLAIM.names, row, strict=True)) for row in rows]

    def gpu_seconds(self) -> dict[str, float]:
        """GPU-seconds of every job after attribution."""
        attribution.attribute(self.store, "c1", Settings())
        rows = self.store.sql(
            "select r.job_id, sum((s.end_us - s.start_us) * s.share_num / s.share_den) from segment s join run r using (run_id) "
            "group by r.job_id"
        )
        return {job: us / SECOND_US for job, us in rows}


def source(slurm: Slurm, **options: Any) -> Any:
    problems: list[str] = []
    table = {"cluster": "c1", "conf_file": str(slurm.conf_file), "sacct_interval_s": 1, **options}
    made = configure([table], problems)

    assert [] == problems
    return made[0]


def now_us() -> int:
    return time.time_ns() // 1000


def accounted(slurm: Slurm) -> dict[str, float]:
    """GPU-seconds by job as sacct tells: elapsed seconds times GPUs, over all runs of a job."""
    printed = slurm.run("sacct", "-a", "-D", "-X", "-n", "-P", "-o", "JobID,ElapsedRaw,AllocTRES")
    total: dict[str, float] = {}
    for line in printed.splitlines():
        job, elapsed, tres = line.split("|")
        gpus = next((int(item.partition("=")[2]) for item in tres.split(",") if item.startswith("gres/gpu=")), 0)
        if gpus:
            total[job] = total.get(job, 0) + int(elapsed) * gpus
    return total


def test_polled_jobs_add_up_to_what_sacct_says(slurm: Slurm) -> None:
    """Ended, cancelled, requeued, several nodes, an array, cancelled while waiting, and one too short to be seen."""
    live, sink = source(slurm), StoreSink()

    def poll() -> None:
        assert asyncio.run(live.poll(sink, now_us)), sink.errors

    def state(job: str) -> str:
        return slurm.run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").split("\n")[0]

    def polled_until(what: str, job: str, states: set[str]) -> None:
        def holds() -> bool:
            poll()
            return state(job) in states

        slurm.until(what, holds)

    poll()
    wide = slurm.submit("--gres=gpu:h100:2", "--nodes=2", "--account=vision", wrap="sleep 3")
    array = slurm.submit("--gres=gpu:1", "--array=0-1", wrap="sleep 2")
    cancelled = slurm.submit("--gres=gpu:1", wrap="sleep 600")
    polled_until("the job to cancel runs", cancelled, {"RUNNING"})
    requeued = slurm.submit("--gres=gpu:1", "--requeue", wrap="sleep 600")
    polled_until("the job to requeue runs", requeued, {"RUNNING"})
    slurm.until("it has run a second", lambda: ran(slurm, requeued) >= 1)
    waiting = slurm.submit("--gres=gpu:4", "--nodes=2", wrap="sleep 1")
    poll()
    slurm.run("scancel", waiting)
    polled_until("the wide job ends", wide, {"COMPLETED"})
    slurm.run("scancel", cancelled)
    slurm.run("scontrol", "requeue", requeued)
    polled_until("the requeued job waits again", requeued, {"PENDING"})
    slurm.run("scancel", requeued)
    polled_until("the array ends", array, {"COMPLETED"})
    unseen = slurm.submit("--gres=gpu:2", wrap="sleep 1")
    slurm.until("the short job ends", lambda: state(unseen) == "COMPLETED")
    expected = {f"{array}_0", f"{array}_1", wide, cancelled, requeued, unseen}
    slurm.until("accounting has every end", lambda: expected <= accounted(slurm).keys() and not open_in_sacct(slurm))
    slurm.until("accounting was polled", lambda: asyncio.run(live.poll(sink, now_us)) and not is_open(sink))
    written = sink.claims

    assert accounted(slurm) == sink.gpu_seconds()
    assert expected == sink.gpu_seconds().keys()

    poll()
    time.sleep(1.1)  # the next accounting, of the same window
    poll()

    assert written == sink.claims, "what is known is not written again"
    assert [(waiting, 8)] == sink.store.sql(
        "select distinct job_id, device_count from pending where job_id = $j", j=waiting
    )
    assert [] == sink.errors


def open_in_sacct(slurm: Slurm) -> bool:
    return bool(slurm.run("sacct", "-a", "-D", "-X", "-n", "-P", "-o", "JobID", "--state=RUNNING,PENDING", "-E", "now"))


def is_open(sink: StoreSink) -> bool:
    return bool(asyncio.run(sink.open_claims("c1", "slurm")))


def test_a_restart_between_start_and_end_loses_nothing(slurm: Slurm) -> None:
    """A second process knows only the store, and comes back after the job ended."""
    sink = StoreSink()
    job = slurm.submit("--gres=gpu:3", wrap="sleep 2")
    slurm.until("it runs", lambda: "JobState=RUNNING" in slurm.run("scontrol", "show", "job", job))
    asyncio.run(source(slurm).poll(sink, now_us))

    assert is_open(sink)

    slurm.until("it ends", lambda: "JobState=COMPLETED" in slurm.run("scontrol", "show", "job", job))
    slurm.until("accounting has its end", lambda: not open_in_sacct(slurm))
    asyncio.run(source(slurm).poll(sink, now_us))

    assert accounted(slurm)[job] == sink.gpu_seconds()[job]
    assert not is_open(sink)


def test_a_running_job_is_held_up_to_the_last_poll(slurm: Slurm) -> None:
    """Its devices are told by index; its evidence is Slurm's own run time."""
    live, sink = source(slurm), StoreSink()
    job = slurm.submit("--gres=gpu:1", wrap="sleep 600")
    slurm.until("it runs", lambda: "RunTime=00:00:0" in slurm.run("scontrol", "show", "job", job))
    slurm.until(
        "it has run a second",
        lambda: asyncio.run(live.poll(sink, now_us)) and sink.gpu_seconds().get(job, 0) >= 0 and ran(slurm, job) >= 1,
    )
    fresh = StoreSink()
    asyncio.run(source(slurm).poll(fresh, now_us))
    start = slurm.run("sacct", "-n", "-X", "-P", "-j", job, "-o", "Start")
    row = fresh.store.sql("select start_us, end_us, device_indexes, evidence_us from claim where job_id = $j", j=job)[0]
    slurm.run("scancel", job)

    assert (parse_rfc3339(start), None, "0") == row[:3]
    assert fresh.gpu_seconds()[job] == (row[3] - row[0]) / SECOND_US >= 1


def ran(slurm: Slurm, job: str) -> int:
    """Whole seconds a job has run, by its controller."""
    words = slurm.run("scontrol", "show", "job", job).split()
    told = next(word.partition("=")[2] for word in words if word.startswith("RunTime="))
    return int(told.split(":")[-1])


def test_nodes_come_with_their_gpus(slurm: Slurm) -> None:
    """A drained node is told with its reason; unchanged nodes are written once."""
    live, sink = source(slurm), StoreSink()
    asyncio.run(live.poll(sink, now_us))
    slurm.run("scontrol", "update", "NodeName=gpu2", "State=DRAIN", "Reason=fans")
    asyncio.run(live.poll(sink, now_us))
    slurm.run("scontrol", "update", "NodeName=gpu2", "State=UNDRAIN")
    slurm.until(
        "the node is up again",
        # Until its next ping Slurm says that the node does not respond, and so do we.
        lambda: asyncio.run(live.poll(sink, now_us)) and nodes(sink)[-1][1] == "up",
    )
    rows = nodes(sink)

    devices = f'{{"":{GPUS_A_NODE}}}'
    assert [("gpu1", "up", None, devices, "h100"), ("gpu2", "up", None, devices, "h100")] == rows[:NODES]
    assert ("gpu2", "drain", "fans", devices, "h100") == rows[NODES]
    assert {"gpu2"} == {row[0] for row in rows[NODES:]}


def nodes(sink: StoreSink) -> list[tuple[Any, ...]]:
    return sink.store.sql("select node, state, reason, devices, gpu_model from node order by observed_us, node")


def test_a_controller_that_is_not_there_is_told_with_the_fix(slurm: Slurm) -> None:
    """The same commands, a configuration that names nobody."""
    nobody = slurm.folder / "nobody.conf"
    text = slurm.conf_file.read_text()
    port = next(line for line in text.splitlines() if line.startswith("SlurmctldPort="))
    nobody.write_text(text.replace(port, "SlurmctldPort=9") + "MessageTimeout=2\n")
    live, sink = source(slurm, conf_file=str(nobody), timeout_s=3), StoreSink()

    assert not asyncio.run(live.poll(sink, now_us))
    assert "scontrol ping" in sink.errors[0]
