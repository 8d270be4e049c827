"""MIG slices of a window: they say what the bill says, and nothing that nobody knows."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.billing.slices import packing, slices
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.ledger.totals import scale_of
from gpuwatch.state import State
from tests.billing.test_chargeback import cut, drawn, priced, rate
from tests.worlds.templates import computed_once
from tests.worlds.world import BUSY, H100, HOUR, IDLE, Gpu, World, claim, minutes, node, one_hour, samples, us

PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb")
HOURS = Window(us(0), us(2 * HOUR))


@computed_once
def partitioned() -> tuple[World, State, tuple[Gpu, ...]]:
    """A GPU with three slices, the second held by job 1 of team a in its first hour, at 28 USD a GPU-hour."""
    parts = tuple(Gpu(gi=n + 1, profile=profile) for n, profile in enumerate(PROFILES))
    held = {"fb_used_bytes": 1e9}
    world = World().add(
        samples(parts[0], minutes(0, 2 * HOUR), IDLE),
        samples(parts[1], minutes(0, HOUR), BUSY | held, job="1"),
        samples(parts[1], minutes(HOUR, 2 * HOUR), BUSY),
        samples(parts[2], minutes(0, 2 * HOUR), IDLE),
        claim("1", 0, HOUR, profile="2g.20gb", account="acct-a", user_name="ann"),
    )
    return world, priced(world.book(), rate("28")), parts


# What must not be there.


def test_whole_gpus_are_no_slices() -> None:
    world = one_hour()

    assert {"items": [], "gpus": [], "next_offset": None} == slices(world.store, priced(world, rate("2")), HOURS)


def test_a_team_sees_its_own_slices_only() -> None:
    world, state, _ = partitioned()

    seen = slices(world.store, state, HOURS, ["a"])
    assert [("GPU-a/GI-2", "a")] == [(item["slice"], item["team"]) for item in seen["items"]]
    assert [(["GPU-a/GI-2"], None)] == [(gpu["slices"], gpu["remainder_share"]) for gpu in seen["gpus"]]
    assert [] == slices(world.store, state, HOURS, [])["items"] == slices(world.store, state, HOURS, ["b"])["items"]
    assert {"__platform__"} == {item["team"] for item in slices(world.store, state, HOURS, ["__platform__"])["items"]}


def test_what_nobody_holds_was_not_measured() -> None:
    world, state, _ = partitioned()

    free = next(item for item in slices(world.store, state, HOURS)["items"] if item["team"] == "__platform__")
    assert {None} == set(free["utilisation"].values())


def test_no_working_table_is_left() -> None:
    world, state, _ = partitioned()
    slices(world.store, state, HOURS)

    assert [] == world.store.sql("select table_name from duckdb_tables() where temporary")


# Values.


def test_a_held_slice_tells_its_owner_time_money_and_use() -> None:
    world, state, _ = partitioned()

    item = next(item for item in slices(world.store, state, HOURS)["items"] if item["team"] == "a")
    use = item.pop("utilisation")
    assert {
        "slice": "GPU-a/GI-2",
        "gpu": "GPU-a",
        "gi": 2,
        "cluster": "c1",
        "node": "n1",
        "profile": "2g.20gb",
        "gpu_model": H100,
        "team": "a",
        "user": "ann",
        "job": "1",
        "start": rfc3339(us(0)),
        "end": rfc3339(us(HOUR)),
        "share": "2/7",
        "share_method": "dominant",
        "split": None,
        "gpu_seconds": "1028.571428",  # Three equal parts lack two microseconds; this is the third.
        "device_seconds": "3600.000000",
        "cost": "8.00",
        "currency": "USD",
        "idle_seconds": "0.000000",
        "placement": None,
    } == item
    ratios = {name: round(use[name], 6) for name in BUSY}
    assert BUSY == ratios
    assert 0.04 < use["fb_used_ratio"] < 0.06


def test_hoarded_time_is_that_of_the_slice_in_the_window() -> None:
    part = Gpu(gi=1, profile="1g.10gb")
    world = World().add(
        samples(part, minutes(0, 2 * HOUR), IDLE, job="1"), claim("1", 0, 2 * HOUR, profile="1g.10gb", account="acct-a")
    )
    state = priced(world.book(), rate("2"))

    whole = slices(world.store, state, HOURS)["items"][0]
    assert ("7200.000000", "7200.000000") == (whole["device_seconds"], whole["idle_seconds"])
    part_of_it = slices(world.store, state, Window(us(90), us(HOUR + 150)))["items"][0]
    assert ("3660.000000", "3660.000000") == (part_of_it["device_seconds"], part_of_it["idle_seconds"])


def test_the_remainder_stands_beside_the_slices() -> None:
    world, state, _ = partitioned()

    assert [
        {
            "gpu": "GPU-a",
            "node": "n1",
            "cluster": "c1",
            "gpu_model": H100,
            "remainder_share": "1/14",
            "slices": ["GPU-a/GI-1", "GPU-a/GI-2", "GPU-a/GI-3"],
        }
    ] == slices(world.store, state, HOURS)["gpus"]


def test_a_new_layout_is_another_row_of_a_slice_that_stays() -> None:
    stays, first, second = Gpu(gi=1, profile="3g.40gb"), Gpu(gi=2, profile="4g.40gb"), Gpu(gi=3, profile="2g.20gb")
    world = World().add(
        samples(stays, minutes(0, 2 * HOUR)),
        samples(first, minutes(0, HOUR)),
        samples(second, minutes(HOUR, 2 * HOUR)),
    )
    state = priced(world.book(), rate("2"))

    rows = slices(world.store, state, HOURS)
    start, change, end = (rfc3339(us(hour * HOUR)) for hour in range(3))
    assert [
        ("GPU-a/GI-1", start, change, 4),
        ("GPU-a/GI-1", change, end, None),
        ("GPU-a/GI-2", start, change, 0),
        ("GPU-a/GI-3", change, end, None),
    ] == [
        (item["slice"], item["start"], item["end"], item["placement"] and item["placement"]["start"])
        for item in rows["items"]
    ]
    assert [["GPU-a/GI-1", "GPU-a/GI-3"]] == [gpu["slices"] for gpu in rows["gpus"]]


@pytest.mark.parametrize(
    ("expected", "model", "profiles"),
    [
        pytest.param((None,), "Some GPU", ("1g.10gb",), id="an unknown model has no places"),
        pytest.param((None, None), H100, ("1g.10gb", "9g.99gb"), id="an unknown profile may lie anywhere"),
        pytest.param((None,), H100, ("1g.10gb",), id="one small slice fits in seven places"),
        pytest.param((0,), H100, ("7g.80gb",), id="the largest slice has one place"),
        pytest.param((4, 0), H100, ("3g.40gb", "4g.40gb"), id="four sevenths lie first"),
        pytest.param((0, 4), H100, ("3g.40gb", "3g.40gb"), id="equal slices lie in the order of their numbers"),
        pytest.param(tuple(range(7)), H100, ("1g.10gb",) * 7, id="seven small slices fill seven places"),
        pytest.param(
            (None, None, None),
            H100,
            ("1g.10gb", "2g.20gb", "3g.40gb"),
            id="what fits in several ways is not told",
        ),
        pytest.param((None,) * 8, H100, ("1g.10gb",) * 8, id="a layout that cannot be is not told"),
    ],
)
def test_places_are_reported_where_only_one_fits(
    expected: tuple[int | None, ...], model: str, profiles: tuple[str, ...]
) -> None:
    assert expected == packing(model, profiles)


def test_a_derived_place_says_so() -> None:
    world = World().add(samples(Gpu(gi=0, profile="7g.80gb"), minutes(0, HOUR)))
    state = priced(world.book(), rate("2"))

    place = slices(world.store, state, Window(us(0), us(HOUR)))["items"][0]["placement"]
    assert {"start": 0, "size": 8, "compute_slices": 7, "memory_slices": 8, "derived": True} == place


# They agree with the bill.


@pytest.mark.slow
@pytest.mark.parametrize(("number", "filtered"), [(0, False), (1, True)])
def test_slices_add_up_to_the_bill_by_slice_and_team(number: int, filtered: bool) -> None:
    world, state, rng = drawn(number)
    window = cut(world, rng)
    teams = rng.sample(("a", "b", "__unallocated__", "__platform__"), 3) if filtered else None

    expected: dict[Any, tuple[Decimal, Decimal]] = {}
    for charge in chargeback.chargeback(world.store, state, window, ("slice", "team"), teams=teams).items:
        if charge.group["slice"] is not None:
            key = (charge.group["slice"], charge.group["team"], charge.currency)
            seconds, money = expected.get(key, (Decimal(0), Decimal(0)))
            expected[key] = (seconds + charge.gpu_seconds, money + (charge.cost or 0))
    found: dict[Any, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    whole = slices(world.store, state, window, teams)
    for item in whole["items"]:
        amount = found[(item["slice"], item["team"], item["currency"])]
        amount[0] += Decimal(item["gpu_seconds"])
        amount[1] += Decimal(item["cost"] or 0)
        share = Fraction(item["share"])
        assert abs(Fraction(item["device_seconds"]) * share - Fraction(item["gpu_seconds"])) < Fraction(2, 10**6)
        assert 0 <= Decimal(item["idle_seconds"] or 0) <= Decimal(item["device_seconds"])
    assert expected == {key: tuple(amount) for key, amount in found.items()}
    page = slices(world.store, state, window, teams, limit=2)
    assert whole["items"][:2] == page["items"]
    assert (2 if len(whole["items"]) > 2 else None) == page["next_offset"]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "whole"), [(0, False), (1, True)])
def test_idle_time_is_what_the_ledger_calls_hoarded(number: int, whole: bool) -> None:
    """A minute that the window cuts is divided by rounding in both: they may differ by a microsecond there."""
    world, state, rng = drawn(number)
    low, high = world.span_us()
    window = Window(low, high) if whole else cut(world, rng)

    hoarded: dict[Any, Fraction] = defaultdict(Fraction)
    for row in chargeback.ledger(world.store, state, window, ("slice", "team")).items:
        if row.bucket == "hoarded" and row.group["slice"] is not None:
            hoarded[tuple(row.group.values())] += Fraction(row.gpu_seconds)
    idle: dict[Any, Fraction] = defaultdict(Fraction)
    for item in slices(world.store, state, window)["items"]:
        idle[(item["slice"], item["team"])] += Fraction(item["idle_seconds"]) * Fraction(item["share"])
    for key in hoarded.keys() | idle.keys():
        assert abs(hoarded[key] - idle[key]) < Fraction(1, 10**5)


# Slices that only a scheduler reports.


@computed_once
def unmeasured() -> tuple[World, State]:
    """A node without an exporter, two whole GPUs and seven slices: job 1 of team a holds two slices for half an hour of two
    days, next to a measured node. A GPU-hour is 28 USD."""
    dark = {"": 2, "1g.10gb": 7}
    world = World().add(
        samples(Gpu(), minutes(0, HOUR)),
        node("dark", dark, at=0, gpu_model=H100),
        node("dark", dark, at=26 * HOUR, gpu_model=H100),
        claim("1", 1800, 3600, "dark", 2, profile="1g.10gb", account="acct-a", user_name="ann"),
        claim("2", 25 * HOUR, 26 * HOUR, "dark", 1, profile="1g.10gb", account="acct-b"),
    )
    return world, priced(world.book(), rate("28"))


def test_whole_gpus_that_nobody_measures_are_no_slices() -> None:
    world = World().add(node("dark", {"": 2}, at=0), node("dark", {"": 2}, at=HOUR), claim("1", 0, HOUR, "dark", 2))

    assert [] == slices(world.book().store, priced(world, rate("2")), HOURS)["items"]


def test_an_unmeasured_slice_has_owner_and_cost_but_no_gpu_and_no_use() -> None:
    world, state = unmeasured()
    found = slices(world.store, state, HOURS)
    held = [item for item in found["items"] if item["team"] == "a"]

    assert [f"dark/1g.10gb/{n}" for n in range(7)] == list(dict.fromkeys(item["slice"] for item in found["items"]))
    assert [] == found["gpus"]
    assert {
        "slice": "dark/1g.10gb/0",
        "gpu": None,
        "gi": None,
        "cluster": "c1",
        "node": "dark",
        "profile": "1g.10gb",
        "gpu_model": H100,
        "team": "a",
        "user": "ann",
        "job": "1",
        "start": rfc3339(us(1800)),
        "end": rfc3339(us(3600)),
        "share": "1/7",
        "share_method": "dominant",
        "split": None,
        "gpu_seconds": "257.142857",
        "device_seconds": "1800.000000",
        "cost": "2.00",
        "currency": "USD",
        "idle_seconds": None,
        "placement": None,
        "utilisation": dict.fromkeys(held[0]["utilisation"]),
    } == held[0]
    assert {None} == {item["idle_seconds"] for item in found["items"]}
    assert [("dark/1g.10gb/0", "2.00"), ("dark/1g.10gb/1", "2.00")] == [(i["slice"], i["cost"]) for i in held]
    assert ["dark/1g.10gb/0", "dark/1g.10gb/1"] == [
        i["slice"] for i in slices(world.store, state, HOURS, ["a"])["items"]
    ]
    assert [] == slices(world.store, state, HOURS, ["c"])["items"]


def test_a_bill_is_compared_with_the_share_of_unmeasured_slices_and_not_with_gpus() -> None:
    """Of the dark node two GPUs and seven slices of 1/7, which are three GPUs, for the whole day that the window touches."""
    world, _ = unmeasured()
    scale = scale_of(world.store, HOURS)
    owned = world.store.rows(
        "billing/reconcile/owned", start_us=HOURS.start_us, end_us=HOURS.end_us, scale=scale.shares, places=scale.places
    )
    hours = {row["node"]: Fraction(int(row["units"]), scale.shares * HOUR * 10**6) for row in owned}

    assert 3 * 24 == hours["dark"]
    assert [] == [row for row in owned if "gpus" in row]


@pytest.mark.parametrize("window", [HOURS, Window(us(0), us(26 * HOUR)), Window(us(-17 * HOUR), us(31 * HOUR))])
def test_unmeasured_slices_cost_what_the_chargeback_says(window: Window) -> None:
    """Of hours, and of whole days from their sums."""
    world, state = unmeasured()
    billed = chargeback.chargeback(world.store, state, window, ("slice", "team")).items
    listed: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for item in slices(world.store, state, window)["items"]:
        listed[item["slice"], item["team"]] += Decimal(item["cost"])

    assert listed == {(c.group["slice"], c.group["team"]): c.cost for c in billed if c.group["slice"] is not None}
    assert 7 == len({name for name, _ in listed})
