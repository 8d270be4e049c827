"""Two texts of `scontrol show job` or `squeue --json`: a job that the later one does not list is gone, and was there up to the earlier."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.imports.forget import forget, imports
from tests.worlds.import_desk import NOW_US, Desk

DAY = "2025-11-25T{:02}:00:00"
HEADER = "JobID|JobIDRaw|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|NNodes|NodeList|ReqTRES|AllocTRES"


def job(
    number: int,
    start: int = 0,
    hours: int = 2,
    user: str = "ann",
    gpus: int = 2,
    state: str = "RUNNING",
    more: str = "",
    suspended: str = "None",
) -> str:
    """A job that ran for so many hours when the text was written."""
    given = f"AllocTRES=cpu=1,gres/gpu={gpus}\n" if gpus else ""
    until = DAY.format(start + hours) if state == "COMPLETED" else f"2025-11-26T{start:02}:00:00"
    return (
        f"JobId={number} {more}JobName=j{number}\n   UserId={user}(1) Account=lab-{user}\n   JobState={state}\n"
        f"   RunTime={hours:02}:00:00 TimeLimit=1-00:00:00\n   SubmitTime={DAY.format(start)}\n"
        f"   StartTime={DAY.format(start)} EndTime={until}\n   SuspendTime={suspended} SecsPreSuspend={hours * 3600}\n"
        f"   Partition=gpu\n   NodeList=n1\n   NumNodes=1 NumCPUs=1\n   ReqTRES=cpu=1,gres/gpu={gpus}\n   {given}\n"
    )


def epoch(hour: float) -> int:
    return 1_764_028_800 + int(hour * 3600)


def queued(number: int, start: int = 0, user: str = "ann", gpus: int = 2, **more: Any) -> dict[str, Any]:
    """A job of `squeue --json`."""
    tres = f"cpu=1,gres/gpu={gpus}" if gpus else "cpu=1"
    return {
        "job_id": number, "job_state": ["RUNNING"], "nodes": "n1", "user_name": user, "account": f"lab-{user}", "partition": "gpu",
        "submit_time": epoch(start), "start_time": epoch(start), "end_time": epoch(start + 24), "tres_alloc_str": tres,
        "tres_req_str": tres, "node_count": 1, **more,
    }  # fmt: skip


NODE = "NodeName=n1\n   Gres=gpu:8\n   State=IDLE\n\n"
FIRST = (NODE, job(1), job(2), job(3, user="bob", gpus=0))
"""Two jobs of two GPUs each, two hours after they started, and one without GPUs of another user."""
STAYS, OTHER = job(2, hours=10), job(3, user="bob", hours=10, gpus=0)


class Texts(Desk):
    """What Slurm's commands printed."""

    def load(self, *records: str, kind: str = "scontrol") -> None:
        self.put(kind, "".join(records))

    def squeue(self, hour: int, *jobs: dict[str, Any], command: Sequence[str] | None = ()) -> None:
        """`squeue --json` of some hour; `command` as newer versions print it, None: as 22.05 prints none."""
        meta = {"Slurm": {"release": "25.05.1"}} | ({} if command is None else {"command": list(command)})
        text = json.dumps({"meta": meta, "jobs": list(jobs), "last_update": {"set": True, "number": epoch(hour)}})
        self.put("slurm-json", text)

    def label(self, job_id: str, first_hour: float, last_hour: float) -> None:
        """Samples of a GPU of the node that name a job."""
        labels = f'gpu="0",UUID="GPU-1",Hostname="n1",modelName="NVIDIA H100 80GB HBM3",hpc_job="{job_id}"'
        times = range(int(epoch(first_hour)) + 30, int(epoch(last_hour)), 60)
        self.put("openmetrics", "".join(f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} 0.8 {at}000\n" for at in times))

    def account(self, *rows: str) -> None:
        self.load(f"{HEADER}\n", *(f"{row}\n" for row in rows), kind="sacct")

    def hours(self) -> dict[str, float]:
        """GPU-hours of each job."""
        return self.hours_by("job_id")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Texts]:
    with closing(Texts(tmp_path)) as made:
        yield made


# What ends no job.


@pytest.mark.parametrize(
    "later",
    [
        pytest.param((STAYS,), id="a text of one job"),
        pytest.param((job(21, 0, 10, more="ArrayJobId=20 ArrayTaskId=1 "),) + (job(20, 0, 10, more="ArrayJobId=20 ArrayTaskId=0 "),), id="the tasks of one array"),
        pytest.param((job(8, 0, 10, user="bob"), job(9, 0, 10, user="bob")), id="the jobs of another user"),
        pytest.param((STAYS, OTHER, "JobId=1 JobName=j1\n   JobState=RUNNING JobState=RUNNING\n\n"), id="a record that cannot be read"),
        pytest.param((NODE, job(3, user="bob", gpus=0), job(4, gpus=0)), id="jobs without GPUs: nothing shows that GPUs are printed"),
    ],
)  # fmt: skip
def test_a_text_that_may_lack_jobs_ends_none(desk: Texts, later: Sequence[str]) -> None:
    desk.load(*FIRST)
    before = desk.hours()
    desk.load(*later)

    assert {"1": 4.0, "2": 4.0} == before
    assert desk.store.sql("select count(*) from run where job_id in ('1', '2') and ended") == [(0,)]


def test_a_job_whose_end_is_known_ended_then(desk: Texts) -> None:
    desk.load(*FIRST)
    desk.load(STAYS, OTHER)
    desk.account(
        f"1|1|ann|lab-ann|gpu|COMPLETED|{DAY.format(0)}|{DAY.format(0)}|{DAY.format(5)}|18000|1|n1|gres/gpu=2|gres/gpu=2"
    )

    assert {"1": 10.0, "2": 20.0} == desk.hours()
    assert [("1", False, "COMPLETED"), ("2", False, "RUNNING")] == desk.store.sql(
        "select job_id, end_estimated, state from run order by job_id"
    )


def test_a_suspended_job_runs_no_time_and_is_there(desk: Texts) -> None:
    still = job(1, hours=1, state="SUSPENDED", suspended=DAY.format(1))
    desk.load(NODE, still, job(2), OTHER)
    desk.load(still, STAYS, OTHER)

    assert {"1": 20.0, "2": 20.0} == desk.hours()


# What does.


def test_a_job_that_a_later_text_does_not_list_ended_with_the_earlier_one(desk: Texts) -> None:
    desk.load(*FIRST)
    desk.load(STAYS, OTHER)

    assert {"1": 4.0, "2": 20.0} == desk.hours()
    assert [("1", True, True, None), ("2", False, False, "RUNNING")] == desk.store.sql(
        "select job_id, ended, end_estimated, state from run order by job_id"
    )


def test_the_order_of_imports_does_not_matter_and_taking_one_back_undoes_it(desk: Texts) -> None:
    desk.load(STAYS, OTHER)
    desk.load(*FIRST)
    assert {"1": 4.0, "2": 20.0} == desk.hours()

    forget(desk.store, min(one["id"] for one in imports(desk.store)), NOW_US)
    assert {"1": 4.0, "2": 4.0} == desk.hours()
    assert desk.store.sql("select count(*) from run where ended") == [(0,)]


def test_a_job_that_was_requeued_and_waits_again_ended(desk: Texts) -> None:
    desk.load(*FIRST)
    desk.load(STAYS, OTHER, job(1, start=9, state="PENDING"))

    assert {"1": 4.0, "2": 20.0} == desk.hours()


@pytest.mark.parametrize("listed", [(), (OTHER,)], ids=["a text of one job", "a list"])
def test_a_job_that_was_resized_held_its_first_gpus_up_to_then(desk: Texts, listed: tuple[str, ...]) -> None:
    desk.load(NODE, job(1, gpus=4), *listed)
    desk.load(job(1, hours=10).replace("SuspendTime=", f"ResizeTime={DAY.format(6)} SuspendTime="), *listed)

    assert {"1": 4 * 6.0 + 2 * 4.0} == desk.hours()


TWO_NODES = "NodeName=n2\n   Gres=gpu:8\n   State=IDLE\n\n"


def wide(hours: int, nodes: str, gpus: int) -> str:
    """Job 1 as it runs on some nodes, without the time of a change."""
    return job(1, hours=hours, gpus=gpus).replace("NodeList=n1", f"NodeList={nodes}")


def node_hours(desk: Texts) -> dict[str, float]:
    """GPU-hours of job 1 by node."""
    desk.hours()
    query = """select d.node, sum(s.end_us - s.start_us) / 3600e6 from segment s join run r using (run_id) join device d using (device_id)
        where r.job_id = '1' group by all"""
    return dict(sorted(desk.store.sql(query)))


def test_a_job_that_keeps_its_nodes_holds_them_on(desk: Texts) -> None:
    """A later text has all nodes again, or is of another job."""
    desk.load(NODE, TWO_NODES, wide(2, "n[1-2]", 4), OTHER)
    desk.load(wide(6, "n[1-2]", 4), OTHER)
    desk.load(job(5, hours=10))

    assert {"n1": 2 * 10.0, "n2": 2 * 10.0} == node_hours(desk)


@pytest.mark.parametrize("newest_first", [False, True], ids=["in order", "the newest text first"])
def test_a_job_that_names_fewer_nodes_let_the_others_go(desk: Texts, newest_first: bool) -> None:
    """It had both nodes after two hours, and one after six. The other one is held as long as it is known to be."""
    texts = [(NODE, TWO_NODES, wide(2, "n[1-2]", 4)), (wide(6, "n1", 2),), (wide(10, "n1", 2),)]
    for text in reversed(texts) if newest_first else texts:
        desk.load(*text)

    assert {"n1": 2 * 10.0, "n2": 2 * 2.0} == node_hours(desk)


@pytest.mark.parametrize(("detailed", "plain"), [(2, 4), (4, 2)], ids=["without -d", "with -d"])
def test_of_texts_with_and_without_the_gpus_of_nodes_the_one_that_has_a_node_for_longer_counts(
    desk: Texts, detailed: int, plain: int
) -> None:
    """One has both nodes after two hours, the other one after four; eight hours after its start, both lack one of them."""

    def listed(hours: int, nodes: str, gpus: int, *names: str) -> str:
        lines = "".join(f"     Nodes={name} CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)\n" for name in names)
        return wide(hours, nodes, gpus).replace("   ReqTRES", f"{lines}   ReqTRES")

    desk.load(NODE, TWO_NODES, listed(detailed, "n[1-2]", 4, "n1", "n2"))
    desk.load(listed(8, "n1", 2, "n1"))
    desk.load(wide(plain, "n[1-2]", 4))
    desk.load(wide(8, "n1", 2))

    assert [("sacct",), ("scontrol",)] == desk.store.sql("select distinct kind from claim order by all")
    assert {"n1": 2 * 8.0, "n2": 2 * 4.0} == node_hours(desk)


def test_a_node_that_a_job_let_go_is_its_own_while_samples_name_the_job(desk: Texts) -> None:
    """At most up to the text that has it no more."""
    desk.load(NODE.replace("n1", "n2"), TWO_NODES.replace("n2", "n1"), wide(2, "n[1-2]", 4))
    desk.load(wide(6, "n2", 2))
    desk.label("1", 0, 4)

    assert 2 * 2.0 < node_hours(desk)["n1"] <= 2 * 4.0 + 0.1


@pytest.mark.parametrize("listed", [(), (OTHER,)], ids=["a text of one job", "a list"])
def test_a_job_that_runs_again_was_requeued_when_it_was_submitted_again(desk: Texts, listed: tuple[str, ...]) -> None:
    desk.load(NODE, job(1, gpus=4), *listed)
    again = job(1, start=8, hours=2).replace(f"SubmitTime={DAY.format(8)}", f"SubmitTime={DAY.format(5)}")
    desk.load(again, *listed)

    assert {"1": 4 * 5.0 + 2 * 2.0} == desk.hours()


def test_a_list_of_one_user_ends_that_users_jobs(desk: Texts) -> None:
    desk.load(NODE, job(1), job(2), job(4, user="bob"))
    desk.load(STAYS, job(5, start=9, hours=1))

    assert {"1": 4.0, "2": 20.0, "4": 20.0, "5": 2.0} == desk.hours()


# The same of `squeue --json`.

TWO = (queued(1), queued(2), queued(3, user="bob", gpus=0))


@pytest.mark.parametrize(
    ("later", "command"),
    [
        pytest.param(TWO[1:2], None, id="one job"),
        pytest.param(TWO[1:], ["squeue", "--json", "-w", "n1"], id="those of a node"),
        pytest.param(TWO[1:], ["squeue", "--json", "-j", "2,3"], id="those of some numbers"),
        pytest.param(TWO[1:], ["squeue", "--json", "--name=train"], id="those of a name"),
        pytest.param(TWO[1:], ["squeue", "--json", "-u", "bob,cat"], id="those of two users"),
        pytest.param(TWO[1:], ["squeue", "--json", "-t", "COMPLETING"], id="those of a state"),
        pytest.param([*TWO[1:], {"job_id": "x", "job_state": ["RUNNING"]}], None, id="a job that cannot be read"),
        pytest.param([queued(8, user="bob"), queued(9, user="bob")], None, id="those of another user"),
        pytest.param([queued(3, user="bob", gpus=0), queued(4, gpus=0)], None, id="jobs without GPUs"),
    ],
)  # fmt: skip
def test_a_queue_that_may_lack_jobs_ends_none(
    desk: Desk, later: Sequence[dict[str, Any]], command: Sequence[str] | None
) -> None:
    desk.squeue(1, *TWO)
    desk.squeue(9, *later, command=command)

    desk.hours()
    assert desk.store.sql("select count(*) from run where job_id in ('1', '2') and ended") == [(0,)]


@pytest.mark.parametrize(
    "command",
    [None, (), ("squeue", "--json"), ("/usr/bin/squeue", "-a", "--json=v0.0.43"), ("squeue", "--json", "--states", "all"),
     ("squeue", "--json", "-tR,PD"), ("scontrol", "show", "jobs", "--json")],
    ids=lambda command: " ".join(command or ["unknown"]),
)  # fmt: skip
def test_a_job_that_a_later_queue_does_not_list_ended_with_the_earlier_one(
    desk: Desk, command: Sequence[str] | None
) -> None:
    desk.squeue(1, *TWO, command=command)
    desk.squeue(9, *TWO[1:], command=command)

    assert {"1": 2.0, "2": 18.0} == desk.hours()
    assert [("1", True, True), ("2", False, False)] == desk.store.sql(
        "select job_id, ended, end_estimated from run order by job_id"
    )


def test_a_queue_of_one_user_ends_that_users_jobs(desk: Desk) -> None:
    desk.squeue(1, queued(1), queued(2), queued(4, user="bob"))
    desk.squeue(9, queued(2), queued(5, start=8), command=("squeue", "--me", "--json"))

    assert {"1": 2.0, "2": 18.0, "4": 18.0, "5": 2.0} == desk.hours()


def test_a_text_of_scontrol_ends_the_jobs_of_an_earlier_queue(desk: Desk) -> None:
    desk.squeue(1, *TWO)
    desk.load(STAYS, OTHER)

    assert {"1": 2.0, "2": 20.0} == desk.hours()


def test_a_job_whose_end_the_later_queue_has_ended_then(desk: Desk) -> None:
    desk.squeue(1, *TWO)
    desk.squeue(9, queued(1, job_state=["COMPLETED"], end_time=epoch(5)), *TWO[1:])

    assert {"1": 10.0, "2": 18.0} == desk.hours()


# What samples say of a job that is missing from a list.


def test_a_missing_job_is_there_while_samples_name_it(desk: Desk) -> None:
    desk.squeue(1, *TWO)
    desk.squeue(9, *TWO[1:])
    desk.label("1", 0, 4)

    assert {"1": 8.0, "2": 18.0} == desk.hours()


# One run, whatever its key.


def test_array_tasks_and_components_count_once_where_accounting_lacks_their_numbers(desk: Texts) -> None:
    desk.load(
        NODE,
        job(101, more="ArrayJobId=100 ArrayTaskId=1 "),
        job(103, more="HetJobId=102 HetJobOffset=1 "),
    )
    header = HEADER.replace("JobIDRaw|", "")
    for first in (0, 6):
        times = f"{DAY.format(first)}|{DAY.format(first)}|{DAY.format(first + 4)}|14400"
        rows = [f"{name}|ann|lab-ann|gpu|COMPLETED|{times}|1|n1|gres/gpu=2|gres/gpu=2" for name in ("100_1", "102+1")]
        desk.load(f"{header}\n", *(f"{row}\n" for row in rows), kind="sacct")

    assert {"100_1": 16.0, "102+1": 16.0} == desk.hours()
    assert [("100_1", "101", "COMPLETED"), ("102+1", "103", "COMPLETED")] == desk.store.sql(
        "select job_id, split_part(run_key, '@', 1), state from run where start_us % 86400000000 = 0 order by job_id"
    )
