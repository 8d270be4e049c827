"""MIG GPUs of a window: what their slices say is the sum of who held them."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.billing.slice_sums import mig_gpus
from gpuwatch.billing.slices import slices
from gpuwatch.core.clock import Window
from tests.billing.test_chargeback import cut, drawn, priced, rate
from tests.billing.test_slices import HOURS, partitioned, unmeasured
from tests.worlds.world import BUSY, H100, HOUR, IDLE, Gpu, World, claim, minutes, one_hour, samples


def sums(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The slices of an answer by name."""
    return {row["slice"]: row for gpu in answer["items"] for row in gpu["slices"]}


# What must not be there.


def test_whole_gpus_are_no_mig_gpus() -> None:
    world = one_hour()
    priced(world, rate("2"))
    found = mig_gpus(world.store, HOURS)

    assert ([], None) == (found["items"], found["next_offset"])
    assert (0, 0, None, None) == tuple(found["total"][name] for name in ("gpus", "slices", "cost", "currency"))


def test_a_team_sees_its_own_slices_only() -> None:
    """Nor the remainder of its GPU, which is the platform's."""
    world, _, _ = partitioned()
    seen = mig_gpus(world.store, HOURS, ["a"])

    assert ["GPU-a/GI-2"] == list(sums(seen))
    assert (None, None) == (seen["items"][0]["remainder_share"], seen["total"]["remainder_gpus"])
    assert [] == mig_gpus(world.store, HOURS, ["b"])["items"] == mig_gpus(world.store, HOURS, [])["items"]


def test_costs_of_several_currencies_are_not_added_up() -> None:
    """Job 1 held the slice in the first hour, half of it at a price in euros; nobody held GPU-b."""
    part, other = Gpu(gi=1, profile="1g.10gb"), Gpu("GPU-b", gi=1, profile="1g.10gb")
    world = World().add(
        *(samples(gpu, minutes(0, 2 * HOUR), IDLE) for gpu in (part, other)),
        claim("1", 0, HOUR, profile="1g.10gb", account="acct-a"),
    )
    priced(world.book(), rate("28", end=HOUR // 2), rate("14", HOUR // 2, currency="EUR"))
    found = mig_gpus(world.store, HOURS)

    assert {("GPU-a/GI-1", None, None, None), ("GPU-b/GI-1", None, None, None)} == {
        (name, row["currency"], row["cost"], row["free_cost"]) for name, row in sums(found).items()
    }
    assert (None, None, None) == tuple(found["total"][name] for name in ("currency", "cost", "free_cost"))


def test_a_slice_without_a_rate_at_the_end_keeps_the_currency_of_its_cost() -> None:
    world = World().add(
        samples(Gpu(gi=1, profile="1g.10gb"), minutes(0, 2 * HOUR), IDLE, job="1"),
        claim("1", 0, 2 * HOUR, profile="1g.10gb", account="acct-a"),
    )
    priced(world.book(), rate("28", end=HOUR))
    found = mig_gpus(world.store, HOURS)
    (row,) = sums(found).values()

    assert ("USD", "4.00") == (row["currency"], row["cost"])
    assert ("USD", "4.00") == (found["total"]["currency"], found["total"]["cost"])


def test_no_working_table_is_left() -> None:
    world, _, _ = partitioned()
    mig_gpus(world.store, HOURS)

    assert [] == world.store.sql("select table_name from duckdb_tables() where temporary")


# Values.


def test_a_slice_that_was_held_half_of_the_time() -> None:
    world, _, _ = partitioned()
    found = mig_gpus(world.store, HOURS)
    (gpu,) = found["items"]
    part = sums(found)["GPU-a/GI-2"]
    use = part.pop("utilisation")

    assert ("GPU-a", "n1", "c1", H100, "1/14") == tuple(
        gpu[name] for name in ("gpu", "node", "cluster", "gpu_model", "remainder_share")
    )
    assert {
        "slice": "GPU-a/GI-2",
        "gi": 2,
        "cluster": "c1",
        "profile": "2g.20gb",
        "currency": "USD",
        "current": True,
        "share": "2/7",
        "share_method": "dominant",
        "split": None,
        "owner": "a",
        "job": "1",
        "owners": 1,
        "held_seconds": "3600.000000",
        "free_seconds": "3600.000000",
        "idle_seconds": "0.000000",
        "cost": "8.00",
        "free_cost": "8.00",
        "placement": None,
    } == part
    assert BUSY["gr_engine_ratio"] == pytest.approx(use["gr_engine_ratio"])
    assert 0.04 < use["fb_used_ratio"] < 0.06
    assert {
        "gpus": 1,
        "slices": 3,
        "held_slices": 1,
        "measured_slices": 1,
        "held_seconds": "3600.000000",
        "known_seconds": "3600.000000",
        "idle_seconds": "0.000000",
        "free_seconds": "18000.000000",
        "cost": "8.00",
        "currency": "USD",
        "remainder_gpus": "1/14",
        "owners": ["a"],
        "share_methods": ["dominant"],
        "splits": [],
    } == {name: value for name, value in found["total"].items() if name != "free_cost"}


def test_the_owner_is_who_held_it_longest_and_the_job_is_the_longest_of_theirs() -> None:
    """Jobs 1 and 3 of team a have 80 minutes together, job 2 of team b has 40."""
    part = Gpu(gi=1, profile="1g.10gb")
    times = {"1": (0, 1800, "acct-a"), "2": (1800, 4200, "acct-b"), "3": (4200, 7200, "acct-a")}
    world = World().add(
        *(samples(part, minutes(start, end), IDLE, job=job) for job, (start, end, _) in times.items()),
        *(claim(job, start, end, profile="1g.10gb", account=of) for job, (start, end, of) in times.items()),
    )
    priced(world.book(), rate("2"))
    found = sums(mig_gpus(world.store, HOURS))["GPU-a/GI-1"]

    assert ("a", "3", 2) == (found["owner"], found["job"], found["owners"])


def test_a_slice_of_an_earlier_layout_is_not_current() -> None:
    stays, first, second = Gpu(gi=1, profile="3g.40gb"), Gpu(gi=2, profile="4g.40gb"), Gpu(gi=3, profile="2g.20gb")
    world = World().add(
        samples(stays, minutes(0, 2 * HOUR)),
        samples(first, minutes(0, HOUR)),
        samples(second, minutes(HOUR, 2 * HOUR)),
    )
    priced(world.book(), rate("2"))
    found = sums(mig_gpus(world.store, HOURS))

    assert {"GPU-a/GI-1": True, "GPU-a/GI-2": False, "GPU-a/GI-3": True} == {
        name: row["current"] for name, row in found.items()
    }
    assert 0 == found["GPU-a/GI-2"]["placement"]["start"]


def test_the_gpu_with_the_most_idle_time_comes_first_and_pages_are_the_whole() -> None:
    gpus = {name: Gpu(name, gi=1, profile="1g.10gb") for name in ("GPU-a", "GPU-b", "GPU-c")}
    ends = {"GPU-a": 0, "GPU-b": HOUR, "GPU-c": 2 * HOUR}
    world = World().add(
        *(samples(gpus[name], minutes(0, 2 * HOUR), IDLE, job=name if end else None) for name, end in ends.items()),
        *(claim(name, 0, end, profile="1g.10gb", account="acct-a") for name, end in ends.items() if end),
    )
    priced(world.book(), rate("2"))

    def names(**asked: Any) -> list[str]:
        return [gpu["gpu"] for gpu in mig_gpus(world.store, HOURS, **asked)["items"]]

    assert ["GPU-a", "GPU-b", "GPU-c"] == names()
    assert ["GPU-c", "GPU-b", "GPU-a"] == names(idle_first=True)
    assert ["GPU-c", "GPU-b"] == names(idle_first=True, limit=2)
    assert ["GPU-a"] == names(idle_first=True, limit=2, offset=2)
    assert [2, None] == [mig_gpus(world.store, HOURS, limit=2, offset=at)["next_offset"] for at in (0, 2)]


def test_slices_that_only_a_scheduler_reports_are_listed_under_their_node() -> None:
    world, _ = unmeasured()
    found = mig_gpus(world.store, HOURS)
    (dark,) = found["items"]
    held = [row for row in dark["slices"] if row["owner"]]

    assert (None, "dark", None, 7) == (dark["gpu"], dark["node"], dark["remainder_share"], len(dark["slices"]))
    assert [("dark/1g.10gb/0", None, None, "2.00"), ("dark/1g.10gb/1", None, None, "2.00")] == [
        (row["slice"], row["gi"], row["idle_seconds"], row["cost"]) for row in held
    ]
    assert (0, 7, 2, 0) == tuple(found["total"][name] for name in ("gpus", "slices", "held_slices", "measured_slices"))


def test_slices_of_one_gpu_are_those_of_the_whole_answer() -> None:
    world, state, _ = drawn(0)
    window = Window(*world.span_us())
    whole = slices(world.store, state, window)["items"]
    gpu = next(row["gpu"] for row in whole if row["gpu"])

    assert [row for row in whole if row["gpu"] == gpu] == slices(world.store, state, window, gpu=gpu)["items"]
    assert [] == slices(world.store, state, window, gpu="GPU-none-such")["items"]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "filtered"), [(0, False), (1, True)])
def test_sums_are_those_of_the_rows(number: int, filtered: bool) -> None:
    world, state, rng = drawn(number)
    window = cut(world, rng)
    teams = rng.sample(("a", "b", "__unallocated__", "__platform__"), 3) if filtered else None
    expected: dict[str, list[Any]] = defaultdict(lambda: [Fraction(0), Fraction(0), None, None, set()])
    currencies: dict[str, set[str]] = defaultdict(set)
    for row in slices(world.store, state, window, teams)["items"]:
        amounts = expected[row["slice"]]
        held = row["team"] != "__platform__" or row["job"] is not None
        amounts[0 if held else 1] += Fraction(row["device_seconds"])
        if row["cost"] is not None:
            amounts[2 if held else 3] = (amounts[2 if held else 3] or Decimal(0)) + Decimal(row["cost"])
            currencies[row["slice"]].add(row["currency"])
        if held:
            amounts[4].add(row["team"])
    for name in (name for name, of in currencies.items() if len(of) > 1):
        expected[name][2:4] = [None, None]
    found = sums(mig_gpus(world.store, window, teams, limit=1000))

    assert expected == {
        name: [
            Fraction(row["held_seconds"]),
            Fraction(row["free_seconds"]),
            *(None if row[kind] is None else Decimal(row[kind]) for kind in ("cost", "free_cost")),
            expected[name][4],
        ]
        for name, row in found.items()
    }
    assert {name: len(amounts[4]) for name, amounts in expected.items()} == {
        name: row["owners"] for name, row in found.items()
    }
    assert all(row["owner"] in expected[name][4] for name, row in found.items() if row["owner"])
