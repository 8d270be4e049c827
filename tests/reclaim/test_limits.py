"""Idle limits tried on the past: what they return, whom they hit wrongly, and which requests start sooner."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.billing.chargeback import price_all
from gpuwatch.core.clock import MINUTE_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.reclaim import limits
from gpuwatch.reclaim.limits import LIMITS_MIN, try_limits
from gpuwatch.reclaim.measured import not_measured
from gpuwatch.reclaim.replay import Idle, Waiting, served
from gpuwatch.state import State
from tests.findings.test_contention import waits
from tests.worlds.detectors import IDLE, WORK, World, us
from tests.worlds.world import HOUR, Gpu, claim, minutes, node, samples
from tests.worlds.world import World as RecordsWorld
from tests.worlds.world import us as clock

TEAMS = [TeamRule("user", "ada", "ada"), TeamRule("user", "bob", "bob")]
DAY = Window(us(0), us(1440))


def priced(world: World) -> World:
    """Computed without findings, at 2 dollars an hour."""
    replace_team_rules(world.state, TEAMS, "t", "t", 0)
    replace_rates(world.state, [Rate("H100", "owned", Decimal("2.00"), us(0))], "t", "t", 0)
    world.analyze(1440, detectors=("idle-hoarding",))
    price_all(world.store, world.state)
    return world


def tried(world: World, limit: int = 15, window: Window = DAY, **words: Any) -> dict[str, Any]:
    """What one limit changes."""
    answer = try_limits(world.store, world.state, window, **words)
    return next(item for item in answer["items"] if item["limit_minutes"] == limit)


def gpu_minutes(hours: str) -> float:
    """Six decimals of an hour, to the millisecond."""
    return round(float(hours) * 60, 3)


def one(world: World, limit: int = 15, **words: Any) -> tuple[float, int, int]:
    """GPU-minutes returned, jobs hit, jobs hit wrongly."""
    item = tried(world, limit, **words)
    return gpu_minutes(item["returned_gpu_hours"]), item["jobs"], item["wrong_jobs"]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Nothing here may be taken: short pauses, a free GPU, an exempt job, a server that must stay ready, no samples."""
    world = World(tmp_path_factory.mktemp("quiet"))
    world.gpu("short", (60, WORK), (14, IDLE), (60, WORK)).job("short", ["short"], 0, 134)
    world.gpu("free", (240, IDLE))
    world.gpu("exempt", (60, WORK), (180, IDLE))
    world.job("exempt", ["exempt"], 0, 240, labels={"gpuwatch.io/exempt-until": "2030-01-01"})
    world.gpu("server", (60, WORK), (180, IDLE))
    world.job("server", ["server"], 0, 240, labels={"latency-critical": "true"})
    world.gpu("silent", (60, WORK), (180, None), (10, WORK)).job("silent", ["silent"], 0, 250)
    return priced(world)


def test_nothing_is_returned_where_nothing_idles_beyond_the_limit(quiet: World) -> None:
    waits(quiet, "9", 60, 240, 1)
    answer = try_limits(quiet.store, quiet.state, DAY)
    item = next(item for item in answer["items"] if item["limit_minutes"] == 15)

    assert "0.000000" == item["returned_gpu_hours"]
    assert (0, 0, 0) == (item["jobs"], item["devices"], item["sooner"]["requests"])
    assert "6.000000" == answer["left_alone_gpu_hours"]


def test_an_empty_store_returns_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    answer = try_limits(world.store, world.state, DAY)

    assert [] == answer["teams"]
    assert {"0.000000"} == {item["returned_gpu_hours"] for item in answer["items"]}


def test_a_window_longer_than_31_days_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(UsageError, match="at most 31 days"):
        try_limits(world.store, world.state, Window(us(0), us(32 * 1440)))


@pytest.fixture(scope="module")
def hoard(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Job `never` is idle from minute 60 to its end at 180; job `again` from 60 to 120, and works until 180."""
    world = World(tmp_path_factory.mktemp("hoard"))
    world.gpu("a", (60, WORK), (120, IDLE)).job("never", ["a"], 0, 180)
    world.gpu("b", (60, WORK), (60, IDLE), (60, WORK)).job("again", ["b"], 0, 180)
    return priced(world)


def test_a_limit_returns_the_idle_time_beyond_it(hoard: World) -> None:
    answer = try_limits(hoard.store, hoard.state, DAY)
    returned = {item["limit_minutes"]: gpu_minutes(item["returned_gpu_hours"]) for item in answer["items"]}

    assert 180 == gpu_minutes(answer["idle"]["returned_gpu_hours"])
    assert {5: 170, 15: 150, 60: 60, 90: 30, 120: 0, 240: 0}.items() <= returned.items()
    assert "5.00" == f"{Decimal(tried(hoard)['returned_cost']):.2f}"


def test_a_job_that_is_active_again_after_the_limit_is_hit_wrongly(hoard: World) -> None:
    assert (150, 2, 1) == one(hoard, 15)
    assert (60, 1, 0) == one(hoard, 60)


def test_the_jobs_that_a_limit_hits_are_named(hoard: World) -> None:
    """Those that used the GPU again first; GPU-hours and money add up to the limit's."""
    found = try_limits(hoard.store, hoard.state, DAY, jobs_at=15)
    item = next(one for one in found["items"] if one["limit_minutes"] == 15)
    names = ("job", "devices", "wrong_devices", "returned_gpu_hours", "returned_cost")

    assert [("again", 1, 1, "0.750000", "1.50"), ("never", 1, 0, "1.750000", "3.50")] == [
        tuple(one[name] for name in names) for one in found["jobs"]
    ]
    assert item["returned_cost"] == f"{sum(Decimal(one['returned_cost']) for one in found['jobs']):.2f}"
    assert ["never"] == [one["job"] for one in try_limits(hoard.store, hoard.state, DAY, jobs_at=60)["jobs"]]
    assert try_limits(hoard.store, hoard.state, DAY)["jobs"] is None


def test_costs_in_several_currencies_are_not_added_up(tmp_path: Path) -> None:
    """The price is in euros from minute 90 on, in the middle of the idle time."""
    world = World(tmp_path)
    world.gpu("a", (60, WORK), (120, IDLE)).job("never", ["a"], 0, 180)
    replace_team_rules(world.state, TEAMS, "t", "t", 0)
    dollars = Rate("H100", "owned", Decimal("2.00"), us(0), us(90))
    rates = [dollars, Rate("H100", "owned", Decimal("2.00"), us(90), currency="EUR")]
    replace_rates(world.state, rates, "t", "t", 0)
    world.analyze(1440, detectors=("idle-hoarding",))
    price_all(world.store, world.state)

    found = try_limits(world.store, world.state, DAY, jobs_at=15)
    (job,) = found["jobs"]

    assert (None, "1.750000", None) == (found["currency"], job["returned_gpu_hours"], job["returned_cost"])


def test_no_job_is_named_where_none_is_hit(quiet: World) -> None:
    assert [] == try_limits(quiet.store, quiet.state, DAY, jobs_at=15)["jobs"]


def test_a_limit_that_is_not_tried_has_no_jobs(hoard: World) -> None:
    with pytest.raises(UsageError, match="jobs_at 7: not a limit that is tried; choose one of 5, 10"):
        try_limits(hoard.store, hoard.state, DAY, jobs_at=7)


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Jobs that idle from minute 60 to 90 and are measured again some hours later, if at all."""
    world = World(tmp_path_factory.mktemp("gaps"))
    world.gpu("gone", (60, WORK), (30, IDLE), (210, None)).job("gone", ["gone"], 0, 300)
    world.gpu("next", (60, WORK), (30, IDLE), (150, None), (60, WORK))
    world.job("before", ["next"], 0, 230).job("after", ["next"], 230, 300)
    world.gpu("still", (60, WORK), (30, IDLE), (60, None), (150, IDLE)).job("still", ["still"], 0, 300)
    world.gpu("late", (60, WORK), (30, IDLE), (165, None), (45, WORK)).job("late", ["late"], 0, 300)
    world.gpu("soon", (60, WORK), (30, IDLE), (10, None), (200, WORK)).job("soon", ["soon"], 0, 300)
    return priced(world)


@pytest.mark.parametrize("until", [300, 240])
def test_a_job_that_uses_the_gpu_again_hours_later_is_hit_wrongly(gaps: World, until: int) -> None:
    """Not one whose GPU is next used by another job, nor by what happens after the window."""
    found = try_limits(gaps.store, gaps.state, Window(us(0), us(until)), jobs_at=15)
    wrong = {one["job"] for one in found["jobs"] if one["wrong_devices"]}

    assert {"gone", "before", "still", "late", "soon"} == {one["job"] for one in found["jobs"]}
    assert ({"late", "soon"} if until == 300 else {"soon"}) == wrong


def test_the_minutes_that_are_looked_up_say_what_all_minutes_say(gaps: World, hoard: World) -> None:
    plainly = """
        select count(*), count(*) filter (where resumed)
        from replay_idle i
        join replay_hold h using (number)
        where i.resumed = exists (
            select 1
            from device_minute m
            where m.device_id = h.device_id and m.start_us >= h.end_us and m.start_us < h.hold_end_us
                and (m.communication_us + m.stalled_us + m.below_roof_us + m.memory_roof_us + m.compute_us)::bigint * 50
                    >= m.end_us - m.start_us
        )"""
    agreed = []
    for world in (gaps, hoard):
        with world.store.workspace() as work:
            limits._prepare(work, world.cluster, DAY, None)
            assert work.sql("select count(*) from replay_idle")[0][0] == work.sql(plainly)[0][0]
            agreed += work.sql(plainly)

    assert [(6, 2), (2, 1)] == agreed


def test_a_job_that_is_active_again_right_after_the_limit_would_have_noticed(hoard: World) -> None:
    assert 0 == tried(hoard, 15)["soon_devices"]
    assert 1 == tried(hoard, 45)["soon_devices"]


def test_a_window_counts_only_its_own_part(hoard: World) -> None:
    """From minute 100 on: both were taken before, and what is idle later counts."""
    assert (80 + 20, 2, 1) == one(hoard, 15, window=Window(us(100), us(1440)))


def test_only_the_gpus_of_one_team_are_taken(hoard: World) -> None:
    assert (150, 2, 1) == one(hoard, 15, teams=["ada"])
    assert (0, 0, 0) == one(hoard, 15, teams=["bob"])


def test_another_cluster_has_nothing_to_return(hoard: World) -> None:
    assert (0, 0, 0) == one(hoard, 15, cluster="c2")


@pytest.mark.parametrize(
    ("words", "sooner"),
    [
        pytest.param({"devices": 4}, [], id="it asks for more GPUs than idle"),
        pytest.param({"gpu_type": "a100"}, [], id="it asks for another model"),
        pytest.param({"reason": "QOSMaxGRESPerUser"}, [], id="a quota keeps it waiting"),
        pytest.param({"end": 70}, [], id="it starts before the limit"),
        pytest.param({"devices": 2, "node_count": 2}, [], id="it needs two nodes"),
        pytest.param({}, [100 - 75], id="it fits and starts when the GPU is released"),
        pytest.param({"start": 80}, [100 - 80], id="it is submitted when the GPU is free already"),
        pytest.param({"devices": 2}, [100 - 75], id="two GPUs of one node are released together"),
    ],
)
def test_a_request_starts_sooner_only_where_it_fits(hoard: World, words: dict[str, Any], sooner: list[int]) -> None:
    hoard.store.sql("delete from pending")
    waits(hoard, "9", **({"start": 40, "end": 100, "devices": 1} | words))
    found = tried(hoard)["sooner"]

    assert len(sooner) == found["requests"]
    assert sum(sooner) == gpu_minutes(found["waiting_hours"])


def test_each_gpu_is_given_to_one_request_in_the_order_of_submission(hoard: World) -> None:
    hoard.store.sql("delete from pending")
    for number, start in enumerate((50, 40, 45)):
        waits(hoard, str(number), start, 100, 1)

    answer = try_limits(hoard.store, hoard.state, DAY)
    found = next(item for item in answer["items"] if item["limit_minutes"] == 15)["sooner"]
    own = {row["team"]: row["sooner"] for row in answer["teams"] if row["limit_minutes"] == 15}

    assert (2, 2, 25 * 60) == (found["requests"], found["devices"], found["median_s"])
    assert {"ada": 0, "bob": 2} == {team: row["requests"] for team, row in own.items()}
    assert 3 == answer["requests"]


REQUESTS = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 200), st.integers(1, 2), st.integers(1, 4)), max_size=12
)
SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 200), st.integers(0, 2)), max_size=20)


@settings(max_examples=200, deadline=None)
@given(spans=SPANS, asked=REQUESTS, limit=st.sampled_from(LIMITS_MIN))
def test_no_more_gpus_are_given_than_idle_at_that_moment(
    spans: list[tuple[int, int, int]], asked: list[tuple[int, int, int, int]], limit: int
) -> None:
    idle = [Idle(n, f"n{node}", 0, start, start + length) for n, (start, length, node) in enumerate(spans)]
    requests = [
        Waiting(n, "t", 0, nodes, devices, start, start + length)
        for n, (start, length, nodes, devices) in enumerate(asked)
    ]
    found = served(idle, requests, [(0, 0)], limit)

    assert len(found) == len({one.request.number for one in found})
    assert sum(one.request.nodes * one.request.devices for one in found) <= sum(
        1 for span in idle if span.end_us - span.start_us > limit
    )
    for one_served in found:
        released = [span for span in idle if span.start_us + limit <= one_served.at_us < span.end_us]
        assert one_served.request.nodes * one_served.request.devices <= len(released)
        assert one_served.request.start_us <= one_served.at_us < one_served.request.end_us


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    phases=st.lists(
        st.lists(st.tuples(st.integers(1, 80), st.booleans()), min_size=1, max_size=4), min_size=1, max_size=3
    )
)
def test_returned_time_never_exceeds_idle_time_and_falls_with_the_limit(
    tmp_path_factory: pytest.TempPathFactory, phases: list[list[tuple[int, bool]]]
) -> None:
    world = World(tmp_path_factory.mktemp("any"))
    for number, own in enumerate(phases):
        name = f"g{number}"
        world.gpu(name, *((length, IDLE if idle else WORK) for length, idle in own))
        world.job(name, [name], 0, sum(length for length, _ in own))
    answer = try_limits(priced(world).store, world.state, DAY)
    returned = [gpu_minutes(item["returned_gpu_hours"]) for item in answer["items"]]
    idle_minutes = sum(length for own in phases for length, idle in own if idle)

    assert returned == sorted(returned, reverse=True)
    assert returned[0] <= gpu_minutes(answer["idle"]["returned_gpu_hours"]) <= idle_minutes
    for name in ("jobs", "devices", "wrong_devices", "wrong_jobs"):
        counts = [item[name] for item in answer["items"]]
        assert counts == sorted(counts, reverse=True)
        assert all(item[f"wrong_{name}"] <= item[name] for item in answer["items"] for name in ("jobs", "devices"))


def test_limits_are_whole_minutes_in_order() -> None:
    assert sorted(set(LIMITS_MIN)) == list(LIMITS_MIN)
    assert 5 * MINUTE_US <= LIMITS_MIN[0] * MINUTE_US
    assert 240 == LIMITS_MIN[-1]


# Nothing is measured.


def test_without_any_metrics_idle_time_is_unknown_and_not_none() -> None:
    dark = RecordsWorld().add(claim("1", 0, HOUR, count=2), node(devices={"": 2})).book()
    answer = try_limits(dark.store, State.open("sqlite://"), Window(clock(0), clock(2 * HOUR)))

    assert (None, [], []) == (answer["idle"], answer["items"], answer["teams"])
    assert answer["not_measured"].startswith("Not measured: no GPU here has metrics")


def test_one_measured_gpu_is_judged_and_another_cluster_is_not_said_to_be_measured() -> None:
    half = RecordsWorld().add(claim("1", 0, HOUR, count=2), node(devices={"": 2}), *samples(Gpu(), minutes(0, HOUR)))
    half.book()
    state = State.open("sqlite://")

    assert None is try_limits(half.store, state, Window(clock(0), clock(2 * HOUR)))["not_measured"]
    assert None is not_measured(half.store, "c1")
    assert None is not_measured(half.store, "c2"), "no GPU at all: nothing to measure"
