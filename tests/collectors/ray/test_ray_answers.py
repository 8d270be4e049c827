"""Ray's answers, files and live, as claims: who holds how much of which GPU, once, with times that the API gives.

Recorded answers (Ray 2.60.0, logical GPUs) are read where they are present.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpuwatch.collectors.kubernetes.kinds import find_kind
from gpuwatch.collectors.kubernetes.schedulers.kuberay import groups_of
from gpuwatch.collectors.ray.changes import HEARTBEAT_US, REFRESH_US, RayChanges
from gpuwatch.collectors.ray.files import read_ray_files
from gpuwatch.collectors.ray.paths import JOBS, VERSION
from gpuwatch.collectors.ray.rows import head_state, rows
from gpuwatch.collectors.ray.source import configure
from gpuwatch.collectors.ray.state import Responses
from gpuwatch.collectors.shared.json_fields import Malformed
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Records, Rejects, Source

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
RECORDED = SHARED / "wire" / "schedulers" / "ray_recorded"
T0_MS = 1_795_226_970_000
SECOND_US = 1_000_000
NODE_ID, GROUP = "c" * 56, "e" * 36
Item = dict[str, Any]


def us(seconds: float) -> int:
    return T0_MS * 1000 + round(seconds * SECOND_US)


def ms(seconds: float) -> int:
    return T0_MS + round(seconds * 1000)


def node(host: str | None = "worker-0", gpus: float = 8, state: str = "ALIVE", **words: Any) -> Item:
    resources = {"CPU": 4.0, "GPU": gpus, "accelerator_type:H100": 1.0} if gpus else {"CPU": 4.0}
    responses = {"node_id": NODE_ID, "node_ip": "192.0.2.7", "state": state, "resources_total": resources}
    return responses | {"node_name": host, "is_head_node": True, "start_time_ms": ms(-60), "end_time_ms": 0} | words


def job(key: str | None = "sub-a", driver: str | None = "02000000", status: str = "RUNNING", **words: Any) -> Item:
    responses = {"type": "SUBMISSION", "job_id": driver, "submission_id": key, "status": status, "entrypoint": "x"}
    return responses | {"start_time": ms(0), "end_time": None, "metadata": {}, "message": None} | words


def group(*bundles: float, state: str = "CREATED", **words: Any) -> Item:
    listed = [
        {
            "bundle_id": {"bundle_index": i},
            "unit_resources": {"GPU": gpus},
            "node_id": NODE_ID if state == "CREATED" else None,
        }
        for i, gpus in enumerate(bundles)
    ]
    stats = {"creation_request_received_ns": str(us(10) * 1000), "end_to_end_creation_latency_us": "5000"}
    responses = {"placement_group_id": GROUP, "creator_job_id": "02000000", "state": state, "bundles": listed}
    return (
        responses | {"name": "pg", "is_detached": False, "stats": stats | {"scheduling_state": "NO_RESOURCES"}} | words
    )


def actor(
    number: int = 1, gpus: float = 1, state: str = "ALIVE", start: float = 20, end: float = 0, **words: Any
) -> Item:
    responses = {"actorId": f"{number:032x}", "jobId": "02000000", "className": "W", "state": state, "name": ""}
    address = {"nodeId": NODE_ID if state != "PENDING_CREATION" else "f" * 56, "workerId": f"{number:056x}"}
    times = {"startTime": ms(start) if start else 0, "endTime": ms(end) if end else 0}
    return responses | times | {"address": address, "requiredResources": {"GPU": gpus} if gpus else {}} | words


def task(number: int = 1, gpus: float = 0.25, state: str = "RUNNING", **words: Any) -> Item:
    responses = {
        "task_id": f"{number:048x}",
        "func_or_class_name": "f",
        "name": "f",
        "state": state,
        "job_id": "02000000",
    }
    times = {"creation_time_ms": ms(15), "start_time_ms": ms(30), "end_time_ms": None}
    where = {"type": "NORMAL_TASK", "node_id": NODE_ID, "worker_id": f"{number:056x}", "placement_group_id": None}
    return responses | times | where | {"required_resources": {"GPU": gpus} if gpus else {"CPU": 1.0}} | words


def responses(*items: Item, at: float = 100, session: str | None = "s1") -> Responses:
    gathered = Responses(ZoneInfo("UTC"), at_us=us(at), session=session)
    rejects = Rejects()
    for item in items:
        gathered.add(item, "test", 1, rejects)
    assert {} == rejects.counts
    return gathered


def table(name: str, *items: Item, rejects: Rejects | None = None, **words: Any) -> list[Item]:
    refused = Rejects() if rejects is None else rejects
    seen = head_state(responses(*items, **words), "test", refused)
    found = [row for kind, row in rows(seen, "test", refused) if kind == name]
    assert rejects is not None or not refused.counts
    return found


def held(*items: Item, **words: Any) -> list[tuple[str, float, float, float | None]]:
    """(unit, GPUs, start, end in seconds) of the claims."""
    return sorted(
        (
            row["pod_uid"].lstrip("0"),
            row["fraction"] or row["device_count"],
            (row["start_us"] - us(0)) / SECOND_US,
            None if row["end_us"] is None else (row["end_us"] - us(0)) / SECOND_US,
        )
        for row in table("claim", *items, **words)
    )


# What holds no GPU.

NOTHING = {
    "an actor without GPUs": actor(gpus=0),
    "a task without GPUs": task(gpus=0),
    "an actor inside a placement group": actor(placementGroupId=GROUP),
    "a task inside a placement group": task(placement_group_id=GROUP),
    "a method of an actor": task(type="ACTOR_TASK"),
    "an actor that is started again": actor(state="RESTARTING"),
    "an actor that waits for its arguments": actor(state="DEPENDENCIES_UNREADY"),
    "an actor that waits": actor(state="PENDING_CREATION", start=0),
    "a task that waits": task(state="PENDING_NODE_ASSIGNMENT", node_id=None, start_time_ms=None),
    "a task that never ran": task(state="FAILED", start_time_ms=None, node_id=None),
    "a placement group that waits": group(2, state="PENDING"),
    "a placement group without GPUs": group(0),
    "a copy of an actor under Ray's nil id": actor(actorId="f" * 32),
    "an actor that ended as it began": actor(state="DEAD", start=20, end=20),
}


@pytest.mark.parametrize("item", NOTHING.values(), ids=NOTHING)
def test_what_holds_no_gpu(item: Item) -> None:
    assert [] == held(node(), job(), item)


# What holds some.


def test_a_reservation_holds_its_gpus_whether_or_not_actors_run_in_it() -> None:
    found = held(node(), job(), group(2, 0.5), actor(1, 1, placementGroupId=GROUP))

    assert [(f"{GROUP}/0@cccccccc", 2, 10.005, None), (f"{GROUP}/1@cccccccc", 0.5, 10.005, None)] == found


def test_actors_and_tasks_outside_of_groups_hold_what_they_ask_for() -> None:
    assert [("1", 0.25, 30, None), ("2", 1, 20, None)] == held(node(), job(), actor(2), task(1))


def test_a_started_actor_holds_its_gpu_from_before_its_init_ran() -> None:
    made = task(9, type="ACTOR_CREATION_TASK", actor_id=f"{1:032x}", state="FINISHED", start_time_ms=None)
    made["events"] = [{"state": "RUNNING", "created_ms": ms(12)}, {"state": "FINISHED", "created_ms": ms(20)}]

    assert [("1", 1, 12, None)] == held(node(), job(), actor(start=20), made)


def test_ends_are_those_of_the_actor_the_task_the_job_or_the_node() -> None:
    over = job(status="SUCCEEDED", end_time=ms(90))
    dead = node(state="DEAD", end_time_ms=ms(80))

    assert [("1", 1, 20, 50)] == held(node(), job(), actor(state="DEAD", end=50))
    assert [("1", 0.25, 30, 40)] == held(node(), job(), task(state="FINISHED", end_time_ms=ms(40)))
    assert [(f"{GROUP}/0@cccccccc", 1, 10.005, 90)] == held(
        node(), over, group(1, state="REMOVED", bundles=[{"unit_resources": {"GPU": 1.0}, "node_id": NODE_ID}])
    )
    assert [("1", 1, 20, 80)] == held(dead, job(), actor())


def test_nothing_is_held_on_a_node_before_it_joined_or_after_it_was_lost() -> None:
    """The job went on on its other nodes; a bundle that was moved keeps the time of its group."""
    over, lost = job(status="SUCCEEDED", end_time=ms(90)), node(state="DEAD", end_time_ms=ms(80))

    assert [("1", 1, 20, 80)] == held(lost, over, actor(state="DEAD"))
    assert [("1", 1, 20, 80)] == held(lost, over, actor(state="DEAD", end=85))
    assert [(f"{GROUP}/0@cccccccc", 1, 40, None)] == held(node(start_time_ms=ms(40)), job(), group(1))


def test_an_end_without_a_time_is_refused_by_name() -> None:
    rejects = Rejects()

    assert [] == table("claim", node(), job(), actor(state="DEAD"), rejects=rejects)
    assert {"actor has ended, but its end is unknown": 1} == rejects.counts


def test_lists_without_details_say_what_is_missing() -> None:
    plain = {"actor_id": f"{1:032x}", "class_name": "W", "state": "ALIVE", "job_id": "02000000", "node_id": NODE_ID}
    rejects = Rejects()

    assert [] == table("claim", node(), job(), plain, rejects=rejects)
    assert {"actor without its resources: list with --detail": 1} == rejects.counts


def test_the_entrypoint_of_a_submission_is_its_own() -> None:
    supervisor = actor(name="_ray_internal_job_actor_sub-a", jobId="01000000")

    assert ["sub-a"] == [row["job_id"] for row in table("claim", node(), job(driver=None), supervisor)]


def test_a_driver_that_connected_by_itself_is_a_job_of_its_session() -> None:
    lone = job(None, "02000000", type="DRIVER") | {"submission_id": None}

    assert [("02000000", "02000000@s1")] == [
        (row["job_id"], row["run_key"]) for row in table("claim", node(), lone, actor())
    ]


def test_metadata_are_labels_and_name_the_user() -> None:
    words = {"gpuwatch.io/team": "vision", "user": "alice"}
    (row,) = table("claim", node(), job(metadata=words), actor())

    assert (words, "alice") == (json.loads(row["labels"]), row["user_name"])


# Which GPUs.


def summary(gpus: int = 0, *workers: Item) -> Item:
    cards = [{"index": i, "uuid": f"GPU-{i}", "name": "NVIDIA H100"} for i in reversed(range(gpus))]
    raylet = {"nodeId": NODE_ID, "nodeManagerHostname": "pod-7", "coreWorkersStats": list(workers)}
    return {"now": ms(100) / 1000, "hostname": "pod-7", "raylet": raylet, "gpus": cards}


def uses(name: str, *slots: int, worker: int = 1) -> Item:
    amount = {"resourceSlots": [{"slot": str(slot), "allocation": 1.0} for slot in slots]}
    return {"workerId": f"{worker:056x}", "actorId": "f" * 32, "usedResources": {name: amount}}


def devices(*items: Item) -> list[tuple[str | None, str | None]]:
    return [(row["device_indexes"], row["gpus"]) for row in table("claim", job(), *items)]


def test_slots_of_a_worker_are_indexes_and_uuids_where_the_node_tells_all_of_its_gpus() -> None:
    assert [("3", None)] == devices(node(), summary(0, uses("GPU", 3)), task())
    assert [("3", None)] == devices(node(gpus=4), summary(8, uses("GPU", 3)), task())
    assert [(None, "GPU-3")] == devices(node(), summary(8, uses("GPU", 3)), task())


def test_slots_of_a_bundle_are_reported_when_all_of_them_are() -> None:
    camel = f"GPUGroup0{GROUP.upper()}"

    assert [(None, None)] == devices(node(), summary(0, uses(camel, 1)), group(2))
    assert [("1,2", None)] == devices(node(), summary(0, uses(camel, 1), uses(f"GPU_group_0_{GROUP}", 2)), group(2))


def test_the_host_name_of_the_summary_is_the_node() -> None:
    assert ["pod-7"] == [row["node"] for row in table("claim", node(), summary(), job(), actor())]
    assert [("pod-7", '{"": 8}', "H100")] == [
        (row["node"], row["devices"], row["gpu_model"]) for row in table("node", node(), summary())
    ]


# What waits.


def test_what_a_job_waits_for_is_its_groups_actors_and_one_task() -> None:
    waiting = [task(n, 1, "PENDING_NODE_ASSIGNMENT", node_id=None, start_time_ms=None) for n in (1, 2)]
    items = (node(), job(), group(2, 2, state="PENDING"), actor(5, 3, "PENDING_CREATION", 0), *waiting)

    assert [("sub-a", 8)] == [(row["job_id"], row["device_count"]) for row in table("pending", *items)]
    expected = [
        ("PlacementGroup", 4, 2, "NO_RESOURCES"),
        ("Actor", 3, 1, "PENDING_CREATION"),
        ("Job", 8, None, "RUNNING"),
    ]
    assert expected == [
        (row["kind"], row["device_count"], row.get("min_count"), row["reason"]) for row in table("workload", *items)
    ]


# News only.


class Polls:
    """A book and what it says at each poll."""

    def __init__(self) -> None:
        self.tracker = RayChanges()

    def __call__(
        self, at: float, *items: Item, cut: tuple[str, ...] = (), session: str = "s1"
    ) -> list[tuple[str, Item]]:
        seen, rejects = head_state(responses(node(), *items, at=at, session=session), "test", Rejects()), Rejects()
        return self.tracker.changes(rows(seen, "test", rejects), seen, cut, us(at), rejects)

    def claims(self, at: float, *items: Item, **words: Any) -> list[tuple[float, float | None]]:
        """(evidence, end) in seconds of the claims among the news."""
        found = [row for kind, row in self(at, *items, **words) if kind == "claim"]
        return [
            ((r["evidence_us"] - us(0)) / SECOND_US, None if r["end_us"] is None else (r["end_us"] - us(0)) / SECOND_US)
            for r in found
        ]


def test_what_stays_as_it_is_is_reported_once_a_heartbeat_and_again_after_an_hour() -> None:
    polls, beat, hour = Polls(), HEARTBEAT_US / SECOND_US, REFRESH_US / SECOND_US
    assert [(100, None)] == polls.claims(100, job(), actor())

    assert [] == polls(115, job(), actor())
    assert [(100 + beat, None)] == polls.claims(100 + beat, job(), actor())
    assert [] == polls(101 + beat, job(), actor())
    assert [(100 + hour, None)] == polls.claims(100 + hour, job(), actor())


def test_a_holder_that_is_gone_ended_with_its_job_or_when_it_was_last_seen() -> None:
    polls = Polls()
    polls(100, job(), actor(1), group(1))

    assert [(100, 100), (100, 100)] == polls.claims(115, job())

    polls(130, job(), actor(2))
    assert [(140, 140)] == polls.claims(145, job(status="SUCCEEDED", end_time=ms(140)))


def test_an_answer_that_was_cut_ends_nothing_of_its_kind() -> None:
    polls = Polls()
    polls(100, job(), actor(1), group(1))

    assert [(100, 100)] == polls.claims(115, job(), cut=("actor",))
    assert [(100, 100)] == polls.claims(130, job())


def spans(polls: Polls, at: float, *items: Item) -> list[tuple[str, float, float | None]]:
    """(unit, start, end) in seconds of the claims among the news."""
    found = [row for kind, row in polls(at, *items) if kind == "claim"]
    return [
        (
            r["pod_uid"].lstrip("0"),
            (r["start_us"] - us(0)) / SECOND_US,
            r["end_us"] and (r["end_us"] - us(0)) / SECOND_US,
        )
        for r in found
    ]


def again(state: str = "ALIVE", **words: Any) -> Item:
    """An actor that was started again: Ray goes on telling its first start."""
    return actor(1, state=state, start=20, numRestarts="1", **words)


def test_an_actor_that_is_started_again_holds_from_its_return_and_not_twice() -> None:
    polls = Polls()
    assert [("1", 20, None)] == spans(polls, 100, job(), actor(1))
    assert [("1", 20, 100)] == spans(polls, 115, job(), actor(1, state="RESTARTING"))

    assert [("1/1", 125, None)] == spans(polls, 130, job(), again(timestamp=ms(125)))
    assert [("1/1", 125, 140)] == spans(polls, 145, job(), again("DEAD", end=140, timestamp=ms(140)))


def test_an_actor_that_came_back_between_two_polls_holds_after_it_was_last_seen() -> None:
    polls = Polls()
    spans(polls, 100, job(), actor(1))

    assert [("1/1", 100, 140), ("1", 20, 100)] == spans(polls, 145, job(), again("DEAD", end=140, timestamp=ms(140)))


def test_a_service_that_starts_again_takes_a_return_from_the_last_word_of_the_turn_before() -> None:
    first, polls = Polls(), Polls()
    polls.tracker.remember([row for kind, row in first(100, job(), actor(1)) if kind == "claim"], "s1")

    assert [("1/1", 100, 140), ("1", 20, 100)] == spans(polls, 145, job(), again("DEAD", end=140))


def test_a_bundle_that_is_placed_again_holds_its_two_nodes_one_after_the_other() -> None:
    polls, other = Polls(), "d" * 56
    moved = [{"unit_resources": {"GPU": 1.0}, "node_id": other}]
    spans(polls, 100, job(), group(1), node("worker-1", node_id=other))

    expected = [(f"{GROUP}/0@dddddddd", 100, None), (f"{GROUP}/0@cccccccc", 10.005, 100)]
    assert expected == spans(polls, 115, job(), group(1, bundles=moved), node("worker-1", node_id=other))
    assert [] == spans(polls, 130, job(), group(1, bundles=moved), node("worker-1", node_id=other))


def test_a_cut_answer_does_not_say_that_what_waited_was_admitted() -> None:
    polls = Polls()
    polls(100, job(), group(2, state="PENDING"))

    assert [] == [row for _, row in polls(115, job(), cut=("group",)) if row.get("kind") == "PlacementGroup"]
    assert ["admitted"] == [row["state"] for _, row in polls(130, job()) if row.get("kind") == "PlacementGroup"]


def test_an_end_that_was_reported_is_not_reported_again() -> None:
    polls, ended = Polls(), task(state="FINISHED", end_time_ms=ms(40))

    assert [(40, 40)] == polls.claims(100, job(), ended)
    assert [] == polls.claims(115, job(), ended)


def test_a_new_session_ends_what_the_old_one_held_when_it_was_last_seen() -> None:
    polls = Polls()
    polls(100, job(), actor())

    assert [us(100)] == [row["end_us"] for _, row in polls.tracker.close()]


def test_a_service_that_starts_again_goes_on_with_the_claims_of_its_session() -> None:
    first, again = Polls(), Polls()
    known = [row for kind, row in first(100, job(), actor()) if kind == "claim"]
    again.tracker.remember([known[0] | {"cluster": "c1"}, known[0] | {"run_key": "sub-z@s0", "pod_uid": "other"}], "s1")

    assert [] == again.claims(115, job(), actor())
    assert [(115, 115)] == again.claims(130, job())


# Files.


def imported(path: Path, rejects: Rejects) -> dict[str, list[Item]]:
    """Rows by table."""
    batches = read_ray_files(Source(str(path), "c1"), rejects)
    return {batch.table: batch.rows.to_pylist() for batch in batches if isinstance(batch, Records)}


def test_a_directory_of_answers_is_read_as_one(tmp_path: Path) -> None:
    answer = {"result": True, "msg": "", "data": {"result": {"total": 1, "num_after_truncation": 1, "num_filtered": 1}}}
    for name, items in (("nodes", [node()]), ("groups", [group(2)])):
        answer["data"]["result"]["result"] = items  # type: ignore[index]
        (tmp_path / f"{name}.json").write_text(json.dumps(answer))
    (tmp_path / "jobs.json").write_text(json.dumps([job()]))
    (tmp_path / "torn.json").write_text("{")
    rejects = Rejects()

    tables = {name: len(listed) for name, listed in imported(tmp_path, rejects).items()}

    assert {"claim": 1, "workload": 1, "node": 1} == tables
    assert {"file cannot be read": 1} == rejects.counts


def test_what_the_limit_of_the_api_left_out_is_reported(tmp_path: Path) -> None:
    listed = {"total": 12_000, "num_after_truncation": 10_000, "num_filtered": 10_000, "result": [node()]}
    (tmp_path / "nodes.json").write_text(json.dumps({"result": True, "data": {"result": listed}}))
    rejects = Rejects()
    list(read_ray_files(Source(str(tmp_path), "c1"), rejects))

    assert {"response was truncated at Ray's limit: the rest is unknown": 1} == rejects.counts


def test_a_file_of_something_else_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text('{"kind": "PodList", "items": []}')

    with pytest.raises(UnreadableInput, match="no response of Ray"):
        list(read_ray_files(Source(str(tmp_path), "c1"), Rejects()))


def test_times_that_the_command_prints_are_of_the_zone_given(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(
        json.dumps([node(start_time_ms="2026-11-21 03:09:21.381000", end_time_ms="1970-01-01 00:00:00")])
    )
    (batch,) = read_ray_files(Source(str(tmp_path / "list.json"), "c1", "Europe/Berlin"), Rejects())

    assert [1_795_226_961_381_000] == batch.rows["since_us"].to_pylist()


@pytest.mark.skipif(not RECORDED.is_dir(), reason="recorded answers of Ray are not here: set GPUWATCH_SHARED")
def test_recorded_answers_hold_what_ray_itself_counted() -> None:
    """`ray status` printed 6.0/8.0 GPU used, 4.0 of them reserved in placement groups."""
    rejects = Rejects()
    found = imported(RECORDED, rejects)
    claims = found["claim"]

    assert 6.0 == sum(row["fraction"] or row["device_count"] for row in claims)
    assert ["0", "1,2", "3,4", "5", "5"] == sorted(row["device_indexes"] for row in claims)
    assert {"raysubmit_team_a_001"} == {row["job_id"] for row in claims}
    assert [("ray-head", '{"": 8}')] == [(row["node"], row["devices"]) for row in found["node"]]
    assert ["raysubmit_team_a_001", "raysubmit_team_b_002"] == sorted(row["job_id"] for row in found["pending"])
    assert 0 == sum(n for reason, n in rejects.counts.items() if not reason.startswith("ignored: "))


# Live.


class Sink:
    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.errors: list[str] = []

    async def commit(self, source: str, batches: Any, rejects: Rejects | None = None) -> None:
        self.batches += batches

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        self.errors.append("")

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.errors.append(error)

    async def open_claims(self, cluster: str, scheduler: str) -> list[Item]:
        return []


class Answers:
    """Stands for a dashboard: what it answers by the first words of a path."""

    def __init__(self, **lists: list[Item]) -> None:
        self.lists = lists

    async def get(self, path: str) -> Any:
        if path == VERSION:
            return {"version": "4", "ray_version": "2.60.0", "session_name": "session_s1"}
        if path == JOBS:
            return [job()]
        if path.startswith("/nodes"):
            return {"result": True, "data": {"summary": [summary()]}}
        if path.startswith("/logical"):
            return {"result": True, "data": {"actors": {"1": self.lists.get("logical", [None])[0]}}}
        if "placement_groups" in path and "fail" in self.lists:
            return {"result": False, "msg": "GCS is gone", "data": {"result": None}}
        items = [node()] if "/nodes?" in path else self.lists.get("running", []) if "RUNNING" in path else []
        total = {"total": len(items), "num_after_truncation": len(items), "num_filtered": len(items)}
        return {"result": True, "msg": "", "data": {"result": total | {"result": items}}}


def polled(answers: Answers) -> Sink:
    problems: list[str] = []
    (source,) = configure([{"url": "http://127.0.0.1:8265", "cluster": "c1"}], problems)
    assert [] == problems
    sink = Sink()
    asyncio.run(source.poll(answers, sink, lambda: us(100)))  # type: ignore[attr-defined]
    return sink


def test_a_poll_writes_what_the_head_says() -> None:
    sink = polled(Answers(running=[task()]))

    assert [""] == sink.errors
    assert {"claim": 1, "workload": 1, "node": 1} == {batch.table: batch.rows.num_rows for batch in sink.batches}
    assert [us(100)] == next(b.rows["evidence_us"].to_pylist() for b in sink.batches if b.table == "claim")


def test_half_an_answer_writes_nothing() -> None:
    sink = polled(Answers(running=[task()], fail=[]))

    assert ["/api/v0/placement_groups: GCS is gone; see the head's dashboard.log"] == sink.errors
    assert [] == sink.batches


def test_every_wrong_option_is_reported_at_once(tmp_path: Path) -> None:
    problems: list[str] = []
    (tmp_path / "empty").write_text("\n")
    configure(
        [
            {"url": "head:8265", "interval_s": 0, "bearer_token": "a", "bearer_token_file": "/nowhere", "colour": 1},
            {"url": "http://head:8265", "bearer_token": "s3cr3t", "username": "u"},
            {"url": "https://head:8265", "bearer_token_file": str(tmp_path / "empty")},
            {"url": "https://other:8265", "bearer_token_file": "/nowhere"},
        ],
        problems,
    )

    assert [
        "[[ray]] 1 interval_s: must be a number from 1 to 3600, not 0",
        "[[ray]] 1 bearer_token: give it or bearer_token_file, not both",
        "[[ray]] 1 url: must be an address like http://ray-head:8265, without user name or password",
        "[[ray]] 1 colour: is not an option of this table; remove it or correct its spelling",
        "[[ray]] 2 username: belongs together with password or password_file",
        "[[ray]] 2 url: is http: a secret would be sent in the clear; use https",
        f"[[ray]] 3 bearer_token_file: {tmp_path}/empty: holds no secret of one line",
        "[[ray]] 4 bearer_token_file: /nowhere: No such file or directory",
    ] == problems
    assert "s3cr3t" not in " ".join(problems)


# KubeRay's objects.


def template(gpus: int) -> Item:
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}}


def kuberay(kind: str, spec: Item, status: Item | None = None, **metadata: Any) -> Item:
    found = {"apiVersion": "ray.io/v1", "kind": kind, "spec": spec, "status": status or {}}
    named = {"name": "r", "namespace": "lab", "uid": "u1", "creationTimestamp": "2026-11-21T00:00:00Z"}
    return found | {"metadata": named | metadata}


def workload(item: Item) -> Item:
    known = find_kind(item)
    assert known is not None
    ((name, row),) = known.rows(item, None)
    assert "workload" == name
    return row


CLUSTER = {
    "headGroupSpec": {"template": template(0)},
    "workerGroupSpecs": [
        {"groupName": "big", "replicas": 2, "minReplicas": 1, "numOfHosts": 2, "template": template(8)},
        {"groupName": "off", "replicas": 4, "suspend": True, "template": template(8)},
    ],
}


def test_a_ray_cluster_wants_the_gpus_of_all_its_groups() -> None:
    row = workload(
        kuberay(
            "RayCluster",
            CLUSTER,
            {"state": "ready", "stateTransitionTimes": {"ready": "2026-11-21T00:05:00Z"}},
            labels={"ray.io/originated-from-cr-name": "train", "kueue.x-k8s.io/queue-name": "q1"},
        )
    )

    assert ("lab/train", "q1", 32, 5, 3, "running") == tuple(
        row[name] for name in ("job_id", "queue", "device_count", "pod_count", "min_count", "state")
    )
    assert [("head", 1), ("big", 4), ("off", None)] == [
        (g["group"], g.get("pods") or None) for g in json.loads(row["detail"])["groups"]
    ]


JOB_STATES = {
    "held back by Kueue": ({"jobDeploymentStatus": "Suspended"}, "evicted"),
    "its cluster starts": ({"jobDeploymentStatus": "Initializing", "jobStatus": "PENDING"}, "pending"),
    "its driver runs": ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, "running"),
    "its driver is queued": ({"jobDeploymentStatus": "Running", "jobStatus": "PENDING"}, "pending"),
    "it failed": ({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED"}, "finished"),
    "nothing is said yet": ({}, "pending"),
}


@pytest.mark.parametrize(("status", "expected"), JOB_STATES.values(), ids=JOB_STATES)
def test_the_state_of_a_ray_job(status: Item, expected: str) -> None:
    row = workload(kuberay("RayJob", {"rayClusterSpec": CLUSTER}, status))

    assert (expected, "lab/r", 32) == (row["state"], row["job_id"], row["device_count"])


def test_a_ray_service_runs_when_it_is_ready() -> None:
    ready = [
        {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": "2026-11-21T00:05:00Z",
            "reason": "NonZeroServeEndpoints",
        }
    ]
    row = workload(kuberay("RayService", {"rayClusterConfig": CLUSTER}, {"conditions": ready}))

    assert ("running", 1_795_219_500_000_000) == (row["state"], row["start_us"])


def test_a_cluster_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(Malformed):
        groups_of({"workerGroupSpecs": "many"})
