"""Evidence over time: gaps stay gaps, means weigh what was sampled, and there are never too many points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.jobs import series
from gpuwatch.store.database import Store
from tests.worlds.facts import B, fleet_of_three
from tests.worlds.world import BUSY, HOUR, IDLE, T0_US, Gpu, World, claim, minutes, node, samples


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    world, _ = fleet_of_three()
    yield world.store
    world.store.close()


def of_job(world: World, job_id: str = "1") -> dict[str, Any]:
    found = series.of_job(world.store, "c1", job_id)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("length_us", "expected"),
    [
        pytest.param(1, 5 * MINUTE_US, id="a moment"),
        pytest.param(41 * HOUR_US, 5 * MINUTE_US, id="a day and more in five minutes"),
        pytest.param(42 * HOUR_US, 10 * MINUTE_US, id="two hours more: ten minutes"),
        pytest.param(7 * DAY_US, 30 * MINUTE_US, id="a week"),
        pytest.param(30 * DAY_US, 2 * HOUR_US, id="a month"),
        pytest.param(365 * DAY_US, DAY_US, id="a year"),
        pytest.param(1000 * DAY_US, 3 * DAY_US, id="three years"),
    ],
)
def test_the_step_is_the_finest_that_fits(length_us: int, expected: int) -> None:
    assert expected == series.step_us(length_us)
    assert length_us / expected + 2 <= series.POINTS_MAX


@pytest.mark.parametrize(
    ("detector", "version", "expected"),
    [
        pytest.param("blind-spot", "", {}, id="a rule without thresholds"),
        pytest.param("idle-hoarding", "idle_us_min=9e+08,grace_us=6e+07", {}, id="times are no lines"),
        pytest.param("new-rule", "sm_active_max=0.4,fb_used_bytes_min=1e9",
                     {"sm_active_max": 0.4, "fb_used_bytes_min": 1e9}, id="names that are columns"),
        pytest.param("false-utilization", "busy_ratio_min=0.8,roof_max=0.4,tensor_roof=0.93",
                     {"busy_ratio_min": 0.8, "tensor_active_max": 0.372, "fp_active_max": 0.4}, id="parts of a roof"),
    ],
)  # fmt: skip
def test_thresholds_are_lines_through_columns(detector: str, version: str, expected: dict[str, float]) -> None:
    assert expected == series.thresholds(detector, version)


def test_nobody_knows_it(store: Store) -> None:
    assert series.of_job(store, "c1", "no-such-job") is None
    assert series.of_finding(store, "no-such-finding") is None


def test_another_teams_is_not_there(store: Store) -> None:
    key = store.sql("select key from finding where job_id = '1'")[0][0]

    assert series.of_job(store, "c1", "1", teams=["vision"]) is None
    assert series.of_finding(store, key, teams=["vision"]) is None
    assert series.of_finding(store, key, teams=["search"]) is not None


def test_a_finding_is_drawn_from_its_start_to_its_end(store: Store) -> None:
    """Job 2 was hollow from 00:10 to 01:00."""
    key = store.sql("select key from finding where detector = 'false-utilization'")[0][0]
    found = series.of_finding(store, key)

    assert found is not None
    assert 300 == found["step_s"]
    assert ("2026-11-02T00:10:00Z", "2026-11-02T00:55:00Z") == (found["points"][0]["at"], found["points"][-1]["at"])
    assert [0.1] * 9 == [point["sm_active_ratio"] for point in found["points"][:-1]]
    assert 0.5 == found["thresholds"]["sm_active_max"]


def test_the_member_that_differs_is_marked_among_the_others(store: Store) -> None:
    """One column of each device of the job, on one grid of times; another team's token gets none."""
    key = store.sql("select key from finding where detector = 'false-utilization'")[0][0]
    found = series.of_finding(store, key)
    assert found is not None
    members = found["members"]

    assert ("sm_active_ratio", 300, found["points"][0]["at"]) == (
        members["column"],
        members["step_s"],
        members["times"][0],
    )
    assert {len(members["times"])} == {len(item["values"]) for item in members["items"]}
    assert [(True, 0.1)] == [(item["is_subject"], item["values"][0]) for item in members["items"]]


def test_a_free_gpu_is_drawn_by_the_hour() -> None:
    """Nobody held it, so it has no five-minute means. Hours without readings stay empty."""
    world = World().add(node("n1", {"": 1}), samples(Gpu(), minutes(0, 2 * HOUR), IDLE | {"fb_used_bytes": 2**30}))
    with world.book().store:
        row = {
            "cluster": "c1",
            "started_us": T0_US + HOUR_US,
            "last_seen_us": T0_US + 3 * HOUR_US,
            "device_ids": [world.store.sql("select device_id from device")[0][0]],
        }
        found = series._hourly(world.store, row)
        read = [(point["samples"], point["fb_used_bytes"]) for point in found["points"]]

    assert ["samples", "fb_used_bytes"] == found["columns"]
    assert [(None, None)] * 11 == read[:11]
    assert [2**30, 2**30] == [size for _, size in read[11:13]]
    assert (14, "2026-11-01T13:00:00Z") == (len(read), found["points"][0]["at"])


def test_a_gap_is_null_and_not_zero() -> None:
    """Sampled for ten minutes, silent for fifteen, sampled for five: held all along. A sample reaches two minutes back."""
    world = World().add(
        node("n1", {"": 1}),
        claim("1", 0, HOUR // 2),
        samples(Gpu(), [*minutes(0, 600), *minutes(1500, 1800)], BUSY | {"power_watts": 500.0}),
    )
    with world.book().store:
        found = of_job(world)

        assert [500.0, 500.0, None, None, 500.0, 500.0] == [p["power_watts"] for p in found["points"]]
        assert [1.0, 0.9, 0.0, 0.0, 0.3, 1.0] == [p["coverage"] for p in found["points"]]
        assert "fb_used_bytes" not in found["columns"]


def test_a_pause_between_two_runs_is_held_by_nobody() -> None:
    world = World().add(
        node("n1", {"": 1}),
        claim("1", 0, 600, run_key="first"),
        claim("1", 1200, 1800, run_key="second"),
        samples(Gpu(), minutes(0, 1800), BUSY),
    )
    with world.book().store:
        points = of_job(world)["points"]

        assert [1, 1, 0, 0, 1, 1] == [p["devices"] for p in points]
        assert [None, None] == [p["coverage"] for p in points[2:4]]
        assert [None, None] == [p["sm_active_ratio"] for p in points[2:4]]


def test_means_weigh_devices_by_what_was_sampled() -> None:
    """One GPU works the whole five minutes, the other was sampled for one of them, idle."""
    a, b = Gpu("GPU-a"), Gpu("GPU-b", index=1)
    world = World().add(
        node("n1", {"": 2}),
        claim("1", 0, 600, count=2),
        samples(a, minutes(0, 600), BUSY),
        samples(b, minutes(0, 60), IDLE),
        samples(b, minutes(540, 600), IDLE),
    )
    with world.book().store:
        first = of_job(world)["points"][0]
        sampled = world.store.sql(
            "select covered_us, sm_active_ratio from device_window where start_us = $s",
            s=world.store.sql("select min(start_us) from device_window")[0][0],
        )

        assert 2 == first["devices"]
        mean = sum(covered * ratio for covered, ratio in sampled) / sum(covered for covered, _ in sampled)
        assert round(mean, 5) == round(first["sm_active_ratio"], 5)
        assert first["coverage"] < 1


def test_another_holder_of_the_device_is_not_drawn() -> None:
    """The device goes to job 2 within five minutes, as a sample is taken."""
    world = World().add(
        node("n1", {"": 1}),
        claim("1", 0, 390, device_indexes="0"),
        claim("2", 390, 900, device_indexes="0"),
        samples(Gpu(), minutes(0, 420), IDLE),
        samples(Gpu(), minutes(420, 900), BUSY),
    )
    with world.book().store:
        assert [0.0, 0.0] == [p["sm_active_ratio"] for p in of_job(world, "1")["points"]]
        assert [0.8, 0.8] == [p["sm_active_ratio"] for p in of_job(world, "2")["points"]]


def test_a_week_is_drawn_in_few_points() -> None:
    week = 7 * 24 * HOUR
    world = World().add(node("n1", {"": 1}), claim("1", 0, week), samples(B, minutes(week - HOUR, week), BUSY))
    with world.book().store:
        found = of_job(world)

        assert (1800, 336) == (found["step_s"], len(found["points"]))
        assert [None] * 334 == [p["gr_engine_ratio"] for p in found["points"][:334]]
