"""Jobs: amounts that agree with the books to the microsecond, owners, pages, and one job in detail."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.core.clock import HOUR_US, SECOND_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.jobs.listing import SORTS, job, jobs
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.worlds.facts import A, fleet_of_three
from tests.worlds.world import BUSY, CLUSTER, H100, HOUR, T0_US, Gpu, World, claim, minutes, node, pod, samples

ALL = Window(T0_US, T0_US + 2 * HOUR_US)
RUNNING = ["1", "2"]


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[World, State]]:
    """Jobs 1 (search, idle), 2 (vision, hollow, then idle) and 3 (nobody's, works), two hours of a GPU each."""
    world, state = fleet_of_three()
    yield world, state
    world.store.close()


def ids(answer: dict[str, Any]) -> list[str]:
    return [item["id"] for item in answer["items"]]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({"teams": []}, [], id="no team sees nothing"),
        pytest.param({"teams": ["__platform__"]}, [], id="what nobody held is no job"),
        pytest.param({"cluster": "c2"}, [], id="another cluster"),
        pytest.param({"pool": "elsewhere"}, [], id="another pool"),
        pytest.param({"pool": H100, "q": "train"}, ["2"], id="without a pool of its own a device is in its model's"),
        pytest.param({"state_filter": "pending"}, [], id="a state that none is in"),
        pytest.param({"q": "no such word"}, [], id="a word that is nowhere"),
        pytest.param({"sort": "started"}, ["1", "2", "3"], id="all began together: by name"),
        pytest.param({"teams": ["vision"]}, ["2"], id="one team"),
        pytest.param({"user": "cyd"}, ["3"], id="one user"),
        pytest.param({"state_filter": "Running"}, RUNNING, id="a state in any case"),
        pytest.param({"state_filter": "comp"}, ["3"], id="the beginning of a state"),
        pytest.param({"q": "BATCH"}, ["3"], id="a name in any case"),
        pytest.param({"q": "red"}, ["1"], id="an account"),
        pytest.param({"q": "vis"}, ["2"], id="a part of a team"),
        pytest.param({"sort": "effective_ratio"}, ["1", "2", "3"], id="the least effective first"),
        pytest.param({"sort": "hoarded"}, ["1", "2", "3"], id="the most idle first"),
        pytest.param({"sort": "avoidable"}, ["1", "2", "3"], id="the most that was avoidable first"),
        pytest.param({"sort": "gap", "teams": []}, [], id="no team sees gaps"),
    ],
)
def test_jobs_are_picked(made: tuple[World, State], asked: dict[str, Any], expected: list[str]) -> None:
    world, state = made

    assert expected == ids(jobs(world.store, state, ALL, **asked))


def test_a_window_before_every_job_has_none(made: tuple[World, State]) -> None:
    world, state = made

    assert {"items": [], "next": None} == jobs(world.store, state, Window(T0_US - HOUR_US, T0_US))


def test_a_job_says_who_and_what(made: tuple[World, State]) -> None:
    world, state = made
    item = jobs(world.store, state, ALL, ["search"])["items"][0]
    keys = item.pop("findings")

    assert 1 == len(keys)
    assert {
        "id": "1",
        "cluster": "c1",
        "name": "notebook",
        "team": "search",
        "inferred": False,
        "user": "ann",
        "account": "red",
        "queue": None,
        "namespace": None,
        "scheduler": "slurm",
        "state": "RUNNING",
        "submitted_at": "2026-11-01T23:59:00Z",
        "started_at": "2026-11-02T00:00:00Z",
        "ended_at": None,
        "suspended_seconds": None,
        "gpus": 1,
        "gpu_seconds": "7200.000000",
        "device_seconds": "7200.000000",
        "cost": "6.00",
        "cost_exact": "6.000000000000",
        "currency": "USD",
        "effective_ratio": 0.0,
        "buckets": {"hoarded": "7200.000000"},
        "workload_class": "idle",
        "placement_grade": None,
    } == item


@pytest.mark.parametrize(
    ("start_us", "end_us"),
    [
        pytest.param(0, 2 * HOUR_US, id="whole hours"),
        pytest.param(HOUR_US // 2, 2 * HOUR_US, id="half an hour cut off in front"),
        pytest.param(617 * SECOND_US + 1, 4321 * SECOND_US + 7, id="odd microseconds at both ends"),
        pytest.param(3600 * SECOND_US + 5, 3600 * SECOND_US + 31 * SECOND_US, id="a part of one minute"),
    ],
)
def test_amounts_are_those_of_the_books(made: tuple[World, State], start_us: int, end_us: int) -> None:
    """Job by job: GPU-seconds, cost and buckets equal chargeback and ledger of the same window."""
    world, state = made
    window = Window(T0_US + start_us, T0_US + end_us)
    items = jobs(world.store, state, window)["items"]
    charges = {c.group["job"]: c for c in chargeback.chargeback(world.store, state, window, by=["job"]).items}
    books: dict[str | None, dict[str, str]] = {}
    for row in chargeback.ledger(world.store, state, window, by=["job", "bucket"]).items:
        books.setdefault(row.group["job"], {})[row.bucket] = f"{row.gpu_seconds:f}"

    assert {item["id"]: (Decimal(item["gpu_seconds"]), Decimal(item["cost_exact"])) for item in items} == {
        job_id: (c.gpu_seconds, c.cost_exact) for job_id, c in charges.items() if job_id is not None
    }
    assert {item["id"]: item["buckets"] for item in items} == {k: v for k, v in books.items() if k is not None}


@pytest.mark.parametrize("sort", SORTS)
def test_pages_join_to_the_whole(made: tuple[World, State], sort: str) -> None:
    world, state = made
    seen, cursor = [], None
    for _ in range(3):
        page = jobs(world.store, state, ALL, sort=sort, limit=1, cursor=cursor)
        seen += ids(page)
        cursor = page["next"]

    assert cursor is None
    assert ids(jobs(world.store, state, ALL, sort=sort)) == seen


def test_a_sort_that_is_not_known_is_reported(made: tuple[World, State]) -> None:
    world, state = made

    with pytest.raises(UsageError, match="colour"):
        jobs(world.store, state, ALL, sort="colour")


def test_time_without_a_rate_has_no_cost_and_says_why() -> None:
    world, state = fleet_of_three()
    with world.store:
        replace_rates(state, [Rate(H100, "owned", Decimal(2), 0, T0_US + HOUR_US)], "test", "rates.csv", T0_US + 1)
        chargeback.price_all(world.store, state)
        item = jobs(world.store, state, ALL, ["search"])["items"][0]

        assert ("7200.000000", None, None) == (item["gpu_seconds"], item["cost"], item["currency"])
        assert "no rate for model" in item["error"]
        assert [None] == [step["cost"] for step in job(world.store, state, "c1", "1")["waterfall"]]  # type: ignore[index]


def test_a_job_of_which_no_device_is_known_has_no_amounts() -> None:
    """Its node has no device: unknown is not zero."""
    world = World().add(claim("9", 0, HOUR, None, 2), samples(A, minutes(0, HOUR))).book()
    with world.store:
        item = jobs(world.store, None, ALL)["items"][0]

        assert ("9", None, None, None, {}) == (
            item["id"], item["gpus"], item["gpu_seconds"], item["effective_ratio"], item["buckets"],
        )  # fmt: skip


def test_without_sm_active_the_effective_ratio_is_unknown_and_not_zero() -> None:
    """An engine at 40 % shows its pauses; what it did in the rest is not known. An idle one did nothing."""
    world = World().add(
        node(devices={"": 1}), node("n2", {"": 1}), claim("part", 0, HOUR), claim("idle", 0, HOUR, "n2")
    )
    world.add(samples(Gpu(), minutes(0, HOUR), {"gr_engine_ratio": 0.4}))
    world.add(samples(Gpu("GPU-b", "n2"), minutes(0, HOUR), {"gr_engine_ratio": 0.0})).book()
    with State.open("sqlite://") as state, world.store:
        chargeback.price_all(world.store, state)
        ratios = {item["id"]: item["effective_ratio"] for item in jobs(world.store, state, ALL)["items"]}
        ranked = [item["id"] for item in jobs(world.store, state, ALL, sort="effective_ratio")["items"]]

    assert {"part": None, "idle": 0.0} == ratios
    assert ["idle", "part"] == ranked


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        pytest.param([], ["idle", "busy", "dark"], id="without prices by time"),
        pytest.param([Rate(H100, "owned", Decimal(2), 0, None)], ["idle", "busy", "dark"], id="by money"),
    ],
)
def test_the_most_avoidable_job_is_not_the_most_expensive_one(rates: list[Rate], expected: list[str]) -> None:
    """Of a job that nobody measured it is unknown: that comes last, after nothing."""
    world = World().add(node(devices={"": 1}), node("n2", {"": 1}), node("n3", {"": 1}))
    world.add(claim("busy", 0, 2 * HOUR), claim("idle", 0, 1.5 * HOUR, "n2"), claim("dark", 0, 2 * HOUR, "n3"))
    world.add(
        samples(Gpu(), minutes(0, 2 * HOUR), BUSY),
        samples(Gpu("GPU-b", "n2"), minutes(0, 2 * HOUR), {"gr_engine_ratio": 0.0}),
    )
    world.book()
    with State.open("sqlite://") as state, world.store:
        replace_rates(state, rates, "test", "rates.csv", T0_US + 1)
        chargeback.price_all(world.store, state)

        assert expected == ids(jobs(world.store, state, ALL, sort="avoidable"))
        assert "idle" != ids(jobs(world.store, state, ALL))[0]


def test_a_job_that_nobody_measured_has_no_effective_ratio() -> None:
    world = World().add(node("n1", {"": 1}), claim("9", 0, HOUR, "n1"), node("n1", {"": 1}, at=HOUR)).book()
    with world.store, State.open("sqlite://") as state:
        chargeback.price_all(world.store, state)
        item = jobs(world.store, state, ALL)["items"][0]

        assert ({"unobserved": "3600.000000"}, None) == (item["buckets"], item["effective_ratio"])


def test_what_was_not_measured_makes_a_job_neither_better_nor_worse() -> None:
    """Half an hour busy and measured, half an hour silent: it is judged by the first half."""
    world = World().add(claim("9", 0, HOUR, "n1", gpus="GPU-a"), samples(A, minutes(0, HOUR / 2), BUSY))
    world.add(claim("8", HOUR, 2 * HOUR, "n1", gpus="GPU-a"), samples(A, minutes(1.95 * HOUR, 2 * HOUR), BUSY)).book()
    with world.store, State.open("sqlite://") as state:
        chargeback.price_all(world.store, state)
        ratios = {item["id"]: item["effective_ratio"] for item in jobs(world.store, state, ALL)["items"]}
        ranked = [item["id"] for item in jobs(world.store, state, ALL, sort="effective_ratio")["items"]]

        assert {"8": None, "9": 0.5} == {name: ratio and round(ratio, 2) for name, ratio in ratios.items()}
        assert ["9", "8"] == ranked


def test_the_same_id_in_two_clusters_is_two_jobs() -> None:
    world, state = fleet_of_three()
    with world.store:
        world.store.sql(
            """insert into run by name
            select * replace ('c2' as cluster, 77 as run_id, 'eve' as user_name) from run where job_id = '1'"""
        )

        assert ["1", "1", "2", "3"] == sorted(ids(jobs(world.store, state, ALL)))
        with pytest.raises(UsageError, match="c1, c2"):
            job(world.store, state, None, "1")
        assert "ann" == job(world.store, state, "c1", "1")["user"]  # type: ignore[index]
        assert "eve" == job(world.store, state, "c2", "1")["user"]  # type: ignore[index]


def test_pods_of_one_workload_are_one_job_with_its_peak() -> None:
    """Two pods overlap for half an hour on devices of their own; a third follows on one that was used."""
    gpus = [Gpu("GPU-a"), Gpu("GPU-b", index=1)]
    world = World().add(
        node("n1", {"": 2}),
        pod("web", "u1", 0, HOUR, gpus="GPU-a"),
        pod("web", "u2", HOUR // 2, HOUR, gpus="GPU-b"),
        pod("web", "u3", HOUR, 2 * HOUR, gpus="GPU-a"),
        *(samples(gpu, minutes(0, 2 * HOUR), BUSY) for gpu in gpus),
    )
    world.book()
    with world.store, State.open("sqlite://") as state:
        chargeback.price_all(world.store, state)
        found = job(world.store, state, None, "lab/web")

        assert found is not None
        assert (2, "9000.000000") == (found["gpus"], found["gpu_seconds"])
        assert ["u1", "u2", "u3"] == [run["run"] for run in found["runs"]]
        assert [1, 1, 1] == [run["gpus"] for run in found["runs"]]
        assert [
            ("GPU-a", ["2026-11-02T00:00:00Z", "2026-11-02T01:00:00Z"]),
            ("GPU-b", ["2026-11-02T00:30:00Z"]),
        ] == [(device["id"], [span["start"] for span in device["spans"]]) for device in found["devices"]]


def test_a_slice_counts_its_share() -> None:
    """A seventh of a GPU for an hour; the device was held for a whole one."""
    slices = [Gpu("GPU-a", gi=gi, profile="1g.10gb") for gi in range(7, 14)]
    world = World().add(
        node("n1", {"1g.10gb": 7}),
        pod("small", "u1", 0, HOUR, profile="1g.10gb"),
        *(
            samples(s, minutes(0, HOUR), BUSY, **({"pod": "small", "namespace": "lab"} if s is slices[0] else {}))
            for s in slices
        ),
    )
    world.book()
    with world.store, State.open("sqlite://") as state:
        replace_rates(state, [Rate(H100, "owned", Decimal(7), 0)], "test", "rates.csv", T0_US)
        chargeback.price_all(world.store, state)
        found = job(world.store, state, "c1", "lab/small")

        assert found is not None
        assert ("514.285714", "3600.000000", "1.00") == (found["gpu_seconds"], found["device_seconds"], found["cost"])
        assert [("GPU-a/GI-7", "1g.10gb", 7)] == [(d["id"], d["profile"], d["gi"]) for d in found["devices"]]


def test_one_job_in_detail(made: tuple[World, State]) -> None:
    world, state = made
    found = job(world.store, state, None, "2")

    assert found is not None
    assert [("hoarded", "3630.000000", "4.02")] == [
        (s["bucket"], s["gpu_seconds"], s["cost"]) for s in found["waterfall"] if s["bucket"] == "hoarded"
    ]
    assert Decimal(found["cost"]) == sum(Decimal(step["cost"]) for step in found["waterfall"])
    assert ["idle-hoarding", "false-utilization"] == [f["detector"] for f in found["findings"]]
    assert [("GPU-b", "n1", 1, False)] == [(d["id"], d["node"], d["index"], d["estimated"]) for d in found["devices"]]
    assert [("2", "vision", "account blue", 1, "6.00")] == [
        (r["run"], r["team"], r["team_why"], r["gpus"], r["cost"]) for r in found["runs"]
    ]
    assert 24 == len(found["series"]["points"])


def test_a_job_of_another_team_is_not_there(made: tuple[World, State]) -> None:
    world, state = made

    assert job(world.store, state, None, "no-such-job") is None
    assert job(world.store, state, "c1", "2", teams=["search"]) is None


def test_a_device_chosen_by_count_says_so() -> None:
    """Two GPUs, one is held, nothing says which."""
    world = World().add(
        node("n1", {"": 2}),
        claim("5", 0, HOUR, "n1", 1),
        *(samples(Gpu(f"GPU-{n}", index=n), minutes(0, HOUR), BUSY) for n in range(2)),
    )
    world.book()
    with world.store, State.open("sqlite://") as state:
        chargeback.price_all(world.store, state)
        found = job(world.store, state, None, "5")

        assert found is not None
        assert [("GPU-0", True)] == [(d["id"], d["estimated"]) for d in found["devices"]]


def test_a_queue_is_found_by_its_whole_name() -> None:
    world = World().add(
        node("n1", {"": 3}),
        claim("1", 0, HOUR, queue="night", device_indexes="0"),
        claim("2", 0, HOUR, queue="nights", device_indexes="1"),
        claim("3", 0, HOUR, device_indexes="2"),
    )
    world.book()
    found = {
        name: sorted(ids(jobs(world.store, None, ALL, queues=queues)))
        for name, queues in (("one", ["night"]), ("two", ["night", "nights"]), ("part", ["nigh"]), ("all", None))
    }
    world.store.close()

    assert {"one": ["1"], "two": ["1", "2"], "part": [], "all": ["1", "2", "3"]} == found


def test_suspended_time_is_told_for_each_run_and_for_the_job() -> None:
    """Each node's record has the total of its run. A run of which no record says so has none."""
    world = World().add(
        samples(Gpu("GPU-a"), minutes(0, HOUR)),
        samples(Gpu("GPU-b", "n2"), minutes(0, HOUR)),
        claim("9", 0, 1200, run_key="9@0", state="REQUEUED", suspended_us=300_000_000),
        claim("9", 0, 1200, "n2", run_key="9@0", state="REQUEUED", suspended_us=300_000_000),
        claim("9", 1800, HOUR, run_key="9@1", state="COMPLETED", suspended_us=0),
        claim("10", 1800, HOUR, "n2", state="COMPLETED"),
    )
    with world.book().store:
        listed = {item["id"]: item["suspended_seconds"] for item in jobs(world.store, None, ALL)["items"]}
        one = job(world.store, None, CLUSTER, "9")

        assert one is not None
        assert {"9": 300, "10": None} == listed
        assert [("9@0", 300), ("9@1", None)] == [(run["run"], run["suspended_seconds"]) for run in one["runs"]]
