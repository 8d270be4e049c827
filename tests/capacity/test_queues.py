"""Queues and workloads as the store last heard of them: quota, waits in words, whose they are, what repeats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.capacity.queues import queues
from gpuwatch.capacity.waits import WHY
from gpuwatch.capacity.workloads import workloads
from gpuwatch.core.model import Records
from gpuwatch.core.queue_model import QUEUE, RESERVATION, WORKLOAD
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.retention import compact
from tests.worlds.world import CLUSTER, HOUR, T0_US, us

NOW_US = us(10 * HOUR)
SCHEMAS = {"queue": QUEUE, "workload": WORKLOAD, "reservation": RESERVATION}
Row = dict[str, Any]


@pytest.fixture
def state() -> Iterator[State]:
    """Rules: namespace lab is red's, namespace sea blue's."""
    made = State.open("sqlite://")
    replace_team_rules(
        made, [TeamRule("namespace", "lab", "red"), TeamRule("namespace", "sea", "blue")], "test", "test", T0_US
    )
    yield made
    made.close()


def store_of(*rows: tuple[str, Row]) -> Store:
    store = Store.open(None)
    for table, schema in SCHEMAS.items():
        listed = [{name: row.get(name) for name in schema.names} for kind, row in rows if kind == table]
        store.append(Records(table, pa.Table.from_pylist(listed, schema=schema)))
        if any(row.get("file_id") for kind, row in rows if kind == table):
            store.sql(f"update {table} set file_id = 1")
    return store


def queue(name: str, at: float = 0, **words: Any) -> tuple[str, Row]:
    devices = {k: json.dumps(v) for k, v in words.items() if isinstance(v, dict)}
    row = {"cluster": CLUSTER, "scheduler": "kueue", "kind": "cluster_queue", "name": name, "observed_us": us(at)}
    return "queue", row | words | devices


def gang(uid: str, at: float = 0, **words: Any) -> tuple[str, Row]:
    """A workload of eight GPUs that waits since the world began, in namespace lab, local queue lq."""
    row = {
        "cluster": CLUSTER, "scheduler": "kueue", "kind": "Workload", "uid": uid, "name": uid, "namespace": "lab",
        "queue": "lq", "state": "pending", "device_count": 8, "submit_us": us(0), "observed_us": us(at),
        "reason": "WaitingForQuota",
    }  # fmt: skip
    return "workload", row | words


TREE = (
    queue("all", kind="cohort"),
    queue("cq", parent="all", quota={"": 16}, used={"": 16}, pending_count=5),
    queue("lq", kind="local_queue", namespace="lab", parent="cq"),
    queue("other", kind="local_queue", namespace="sea", parent="cq"),
)


def waiting(items: list[Row]) -> dict[str, tuple[int, dict[str, int]]]:
    return {item["name"]: (item["waiting"]["workloads"], item["waiting"]["devices"]) for item in items}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([], (0, {}), id="nothing waits"),
        pytest.param([gang("a", state="running")], (0, {}), id="what runs does not wait"),
        pytest.param([gang("a"), gang("a", 1, state="admitted")], (0, {}), id="the last word counts"),
        pytest.param([gang("a", 11 * HOUR)], (0, {}), id="what is said later is not known yet"),
        pytest.param([gang("a"), gang("a", 1, state="deleted")], (0, {}), id="what was deleted does not wait"),
        pytest.param([gang("a", queue="elsewhere")], (0, {}), id="another queue"),
        pytest.param([gang("a", cluster="c2")], (0, {}), id="a queue of this name in another cluster"),
        pytest.param([gang("a"), gang("b", state="evicted")], (2, {"": 16}), id="waits, and waits again"),
        pytest.param([gang("a", device_count=None)], (1, {}), id="how many GPUs, nobody says"),
        pytest.param([gang("a", profile="1g.10gb")], (1, {"1g.10gb": 8}), id="slices"),
        pytest.param(
            [gang("a", device_count=9, detail='{"devices":{"":8,"1g.10gb":1}}')], (1, {"": 8, "1g.10gb": 1}), id="both"
        ),
    ],
)
def test_what_waits_in_a_queue(state: State, rows: list[tuple[str, Row]], expected: tuple[int, dict[str, int]]) -> None:
    found = waiting(queues(store_of(*TREE, *rows), state, NOW_US, cluster=CLUSTER))

    assert {"lq": expected, "cq": expected, "all": expected, "other": (0, {})} == found


def test_a_gang_is_reported_once(state: State) -> None:
    """A Volcano Job and its PodGroup are one; so are a Workload, its place in the queue and the job that it holds."""
    store = store_of(
        gang("j", scheduler="volcano", kind="Job", job_id="lab/j", reason="Pending"),
        gang("g", scheduler="volcano", kind="PodGroup", job_id="lab/j", reason="NotEnoughResources", message="3/4"),
        gang("a", job_id="lab/a"),
        gang("lab/a", kind="PendingWorkload", name="a", device_count=None, detail='{"position_in_cluster_queue":3}'),
        gang("k", scheduler="kubernetes", kind="PyTorchJob", job_id="lab/a", user_name="ann", reason="Suspended"),
    )
    found = {item["uid"]: item for item in workloads(store, state, NOW_US)}

    assert {"a", "j"} == set(found)
    assert ("NotEnoughResources", "3/4") == (found["j"]["reason"], found["j"]["message"])
    assert (3, "ann", "WaitingForQuota") == tuple(found["a"][name] for name in ("position", "user", "reason"))


def test_a_job_waits_in_the_queue_that_its_pod_group_names(state: State) -> None:
    store = store_of(
        queue("train", scheduler="volcano", kind="queue"),
        gang("p", scheduler="kubernetes", kind="PyTorchJob", job_id="lab/p", queue=None),
        gang("g", scheduler="volcano", kind="PodGroup", job_id="lab/p", queue="train", device_count=4),
    )

    assert {"train": (1, {"": 8})} == waiting(queues(store, state, NOW_US))


def test_a_run_that_is_over_is_not_the_next_one_of_its_name(state: State) -> None:
    store = store_of(
        gang("old", job_id="lab/a", state="finished", end_us=us(9 * HOUR)),
        gang("new", scheduler="kubernetes", kind="Job", job_id="lab/a"),
    )

    assert [("new", "pending")] == [(item["uid"], item["state"]) for item in workloads(store, state, NOW_US)]


def test_workloads_of_one_job_count_each(state: State) -> None:
    """As those of the pods of a Deployment."""
    rows = [gang(name, job_id="lab/web", device_count=1) for name in "abc"]

    assert (3, {"": 3}) == waiting(queues(store_of(*TREE, *rows), state, NOW_US))["lq"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param({"reason": None}, None, id="nobody says"),
        pytest.param({"reason": "SomethingNew"}, None, id="a word that is not known stays as it is"),
        pytest.param(
            {"reason": "TopologyPlacementFailed"},
            "quota is there, but not on nodes as near to one another as it asks",
            id="known",
        ),
        pytest.param(
            {"reason": "Preempted", "state": "evicted", "detail": '{"waits":{"reason":"WaitingForQuota"}}'},
            "waits for quota: what the queue may use is in use",
            id="evicted, and now waits for another reason",
        ),
        pytest.param({"reason": "Pending", "message": "next in line"}, "waits for its turn", id="no more is told"),
        pytest.param(
            {"reason": "Preempted", "state": "evicted", "message": "insufficient unused quota"},
            "was displaced by another workload",
            id="a reason that is known counts more than a message",
        ),
        pytest.param(
            {
                "reason": "Pending",
                "message": "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
                "flavor h100, 8 more needed",
            },
            "waits for quota: what the queue may use is in use",
            id="the message says that quota is in use",
        ),
        pytest.param(
            {
                "reason": "Pending",
                "message": "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor "
                "h100, previously considered podsets requests (0) + current podset request (16) > maximum capacity (8)",
            },
            "asks for more than the queue may ever use",
            id="the message says that there never is as much",
        ),
        pytest.param(
            {
                "reason": "Pending",
                "message": "insufficient quota for nvidia.com/gpu in flavor a, request > maximum capacity (16 > 8), "
                "insufficient unused quota for nvidia.com/gpu in flavor b, 8 more needed",
            },
            "waits for quota: what the queue may use is in use",
            id="one of two flavors is only full",
        ),
        pytest.param(
            {"scheduler": "volcano", "reason": None, "message": "queue resource quota insufficient"},
            "waits for quota: what the queue may use is in use",
            id="in the words of another scheduler",
        ),
        pytest.param(
            {"reason": "Pending", "message": "Pending the preemption of 2 workload(s)"},
            "waits until those it displaces are gone",
            id="the message says whom it waits for",
        ),
        pytest.param(
            {"reason": None, "detail": '{"waits":{"reason":"Pending","message":"insufficient quota in flavor a"}}'},
            "waits for quota: what the queue may use is in use",
            id="said of its quota beside the rest",
        ),
    ],
)
def test_why_in_words(state: State, words: Row, why: str | None) -> None:
    (item,) = workloads(store_of(gang("a", **words)), state, NOW_US)

    assert why == item["why"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param({"submit_us": None}, None, id="nobody knows since when"),
        pytest.param({"observed_us": us(10 * HOUR)}, 36000.0, id="still waits"),
        pytest.param({"observed_us": us(HOUR), "file_id": 1}, 3600.0, id="waited up to the last word of a dump"),
        pytest.param({"state": "admitted", "admitted_us": us(90)}, 90.0, id="waited until it was let in"),
        pytest.param({"state": "reserved", "reserved_us": us(30)}, 30.0, id="waited for its quota"),
        pytest.param({"state": "running"}, None, id="runs, and nobody says since when"),
        pytest.param({"submit_us": us(11 * HOUR)}, 0.0, id="a clock that is ahead"),
    ],
)
def test_how_long(state: State, words: Row, expected: float | None) -> None:
    (item,) = workloads(store_of(gang("a", **words)), state, NOW_US)

    assert expected == item["wait_seconds"]


def test_the_longest_waiting_come_first(state: State) -> None:
    rows = [
        gang("late", submit_us=us(60)),
        gang("runs", state="running"),
        gang("early"),
        gang("unknown", submit_us=None),
    ]

    assert ["early", "late", "unknown", "runs"] == [i["uid"] for i in workloads(store_of(*rows), state, NOW_US)]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param(None, ["a", "b"], id="what has not ended"),
        pytest.param(["finished"], ["new", "old"], id="what has, however long ago"),
        pytest.param(["pending", "running"], ["a", "b"], id="several"),
        pytest.param(["evicted"], [], id="none"),
    ],
)
def test_states_asked_for(state: State, states: list[str] | None, expected: list[str]) -> None:
    store = store_of(
        gang("a"),
        gang("b", state="running"),
        gang("new", state="finished", end_us=us(9 * HOUR)),
        gang("old", state="finished", end_us=us(-99 * HOUR)),
    )

    assert expected == sorted(item["uid"] for item in workloads(store, state, NOW_US, states=states))


def test_admission_waits_and_evictions_of_the_last_day(state: State) -> None:
    rows = [
        gang("a", state="running", admitted_us=us(60)),
        gang("b", state="finished", admitted_us=us(120), end_us=us(9 * HOUR)),
        gang("c", state="running", admitted_us=us(600), evicted_us=us(300)),
        gang("d", state="finished", admitted_us=us(-50 * HOUR), end_us=us(-49 * HOUR)),
    ]
    found = {item["name"]: item for item in queues(store_of(*TREE, *rows), state, NOW_US)}

    assert {"count": 3, "median": 120.0, "longest": 600.0} == found["cq"]["admission_wait_seconds"]
    assert 1 == found["cq"]["evictions_day"]
    assert None is found["other"]["admission_wait_seconds"]


def test_flavors_stand_below_their_queue(state: State) -> None:
    store = store_of(
        queue("cq", quota={"": 12}),
        queue("cq", flavor="a", quota={"": 8}, used={"": 3}),
        queue("cq", flavor="b", quota={"": 4}),
        queue("cq", 1, flavor="b", state="deleted"),
    )
    (item,) = queues(store, state, NOW_US)

    assert [("a", {"": 8}, {"": 3})] == [(part["flavor"], part["quota"], part["used"]) for part in item["flavors"]]
    assert (None, None) == (item["used"], item["pending"])


def test_a_loop_of_cohorts_ends(state: State) -> None:
    loop = [queue("a", kind="cohort", parent="b"), queue("b", kind="cohort", parent="a")]
    found = queues(store_of(*TREE[1:], queue("all", 1, kind="cohort", parent="a"), *loop, gang("w")), state, NOW_US)

    assert {"a": 1, "all": 1, "b": 1, "cq": 1, "lq": 1, "other": 0} == {
        item["name"]: item["waiting"]["workloads"] for item in found
    }


def test_a_team_sees_its_own(state: State) -> None:
    """Its workloads, the queues that these name, and of those waits of its own only."""
    store = store_of(
        *TREE,
        gang("red"),
        gang("blue", namespace="sea", queue="other"),
        gang("mine", cluster_queue="cq", state="admitted"),
        queue("boris", kind="user", parent="root"),
    )
    seen = queues(store, state, NOW_US, ["red"])

    assert ["mine", "red"] == sorted(item["uid"] for item in workloads(store, state, NOW_US, ["red"]))
    assert {"cq": (1, {"": 8}), "lq": (1, {"": 8})} == waiting(seen)
    assert [] == [item["name"] for item in seen if {"detail", "preemption"} & set(item)]
    assert [] == queues(store, state, NOW_US, [])
    assert [] == workloads(store, state, NOW_US, [])


def test_a_team_does_not_see_the_cluster_queue_of_what_only_waits(state: State) -> None:
    """Where its work may go is the platform's to tell, until it is there."""
    assert ["lq"] == [item["name"] for item in queues(store_of(*TREE, gang("red")), state, NOW_US, ["red"])]


def test_the_team_of_a_workload_without_a_rule_is_its_namespace(state: State) -> None:
    (item,) = workloads(store_of(gang("a", namespace="moor")), state, NOW_US)

    assert "moor" == item["team"]


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        pytest.param([queue("a", n) for n in range(9)], 2, id="a queue that stays as it is"),
        pytest.param([queue("a", 0), queue("a", 1, state="Hold"), queue("a", 2)], 3, id="one that changed and back"),
        pytest.param(
            [queue("a", n, flavor=f) for n in range(4) for f in ("x", None)], 4, id="each flavor on its own"
        ),
        pytest.param(
            [queue("u", n, kind="user", parent=p) for n in range(4) for p in ("root", "root.a")], 4, id="a user by queue"
        ),
        pytest.param([gang("a", n) for n in range(9)], 2, id="a gang that waits"),
        pytest.param([gang("a", 0), gang("a", 1, reason="Preempted"), gang("a", 2)], 3, id="a gang with news"),
        pytest.param([gang(f"w{n}", n) for n in range(4)], 4, id="other gangs"),
        pytest.param(
            [("reservation", {"cluster": CLUSTER, "name": "m", "start_us": 0, "observed_us": n}) for n in range(9)], 2,
            id="a reservation",
        ),
        pytest.param(
            [("reservation", {"cluster": CLUSTER, "name": "m", "start_us": n, "observed_us": n}) for n in range(4)], 4,
            id="a reservation that returns",
        ),
    ],
)  # fmt: skip
def test_only_repeats_are_removed(state: State, rows: list[tuple[str, Row]], kept: int) -> None:
    store = store_of(*rows)
    before = queues(store, state, NOW_US), workloads(store, state, NOW_US)
    compact(store)
    count = "select (select count(*) from queue) + (select count(*) from workload) + (select count(*) from reservation)"

    assert [(kept,)] == store.sql(count)
    assert before == (queues(store, state, NOW_US), workloads(store, state, NOW_US))


@pytest.mark.parametrize(
    ("table", "rows", "expected"),
    [
        pytest.param("workload", [gang("a", state="finished"), gang("b", state="deleted")], [], id="all have ended"),
        pytest.param("workload", [gang("a"), gang("a", 1, state="failed")], [], id="ended since"),
        pytest.param("workload", [gang("a", cluster="c2")], [], id="a workload of another cluster"),
        pytest.param("workload", [gang("a"), gang("b", 5, state=None)], ["b", "a"], id="still there, the newest first"),
        pytest.param("queue", [queue("q"), queue("q", 1, state="deleted")], [], id="a queue that was deleted"),
        pytest.param(
            "queue", [queue("q", 1), queue("q", 2, state="deleted", flavor="f")], ["q"], id="a flavor of it was"
        ),
    ],
)
def test_what_the_store_has_open(table: str, rows: list[tuple[str, Row]], expected: list[str]) -> None:
    found = store_of(*rows).rows(f"service/open_{table}", cluster=CLUSTER, limit=100)

    assert expected == [row["name"] for row in found]


def test_the_most_frequent_reason_of_a_queue_is_in_words(state: State) -> None:
    """A reason without words has none, and what runs has no reason."""
    rows = [
        gang("a"),
        gang("b"),
        gang("c", reason="ExceedsMaxQuota"),
        *(gang(f"r{n}", state="running") for n in range(4)),
    ]
    found = {one["name"]: one["waiting"]["why"] for one in queues(store_of(*TREE, *rows), state, NOW_US)}

    assert {"lq": WHY["WaitingForQuota"], "other": None} == {name: found[name] for name in ("lq", "other")}
    unknown = queues(store_of(*TREE, gang("a", reason="Odd"), gang("b", reason="Odd")), state, NOW_US)
    assert {None} == {one["waiting"]["why"] for one in unknown}


def test_a_queue_gives_the_reason_that_its_workloads_give(state: State) -> None:
    """A workload that waits without a reason has it in its message."""
    quota = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a, 3 more needed"
    store = store_of(*TREE, gang("a", reason="Pending", message=quota))
    (workload,) = workloads(store, state, NOW_US)
    found = {one["name"]: one["waiting"] for one in queues(store, state, NOW_US)}

    assert WHY["WaitingForQuota"] == workload["why"] == found["lq"]["why"]
    assert {"Pending": 1} == found["lq"]["reasons"]
