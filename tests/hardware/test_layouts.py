"""Every MIG layout by every method, in dollars that were worked out by hand.

A GPU-hour costs 462 dollars, so that sevenths (66), eighths (57.75), fifteenths (30.80) and 132 SMs (3.50 each) are whole
cents. Team a holds the first slice, team b the second; nobody holds the others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import accumulate, takewhile, zip_longest
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing import chargeback
from gpuwatch.billing.slices import slices
from gpuwatch.core.clock import DAY_US, HOUR_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.hardware.mig_profiles import GEOMETRIES
from gpuwatch.jobs import series
from gpuwatch.ledger import attribution
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.parse import parse
from gpuwatch.policy.policy import as_dict
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists
from gpuwatch.store.database import Store
from tests.worlds.retention import retain_all
from tests.worlds.steady import steady
from tests.worlds.templates import computed_once
from tests.worlds.world import (
    BUSY,
    CLUSTER,
    H100,
    HOUR,
    IDLE,
    SETTINGS,
    T0_US,
    Gpu,
    World,
    claim,
    minutes,
    node,
    samples,
    us,
)

PRICE = Decimal(462)
A30, A100_40, A100_80 = "NVIDIA A30", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"
H200, B200 = "NVIDIA H200", "NVIDIA B200"
PLATFORM = "__platform__"

SEVEN = ("1g.10gb",) * 7
LAYOUTS: dict[str, tuple[str, Sequence[str], dict[str, tuple[Sequence[str], str]]]] = {
    "7x1g": (H100, SEVEN, {
        "dominant": (["66"] * 7, "0"),
        "compute": (["66"] * 7, "0"),
        "memory": (["57.75"] * 7, "57.75"),  # An eighth each: the stranded eighth is nobody's.
        "sm": (["56"] * 7, "70"),  # 16 of 132 SMs each; 20 SMs are in no slice.
    }),
    "2x3g": (H100, ["3g.40gb"] * 2, {
        "dominant": (["231"] * 2, "0"),
        "compute": (["198"] * 2, "66"),
        "memory": (["231"] * 2, "0"),
        "sm": (["210"] * 2, "42"),
    }),
    "4g+3g, 15/14 of a GPU by its larger shares": (H100, ["4g.40gb", "3g.40gb"], {
        "dominant": (["246.40", "215.60"], "0"),  # 4/7 and 1/2, scaled by 14/15: 8/15 and 7/15.
        "compute": (["264", "198"], "0"),
        "memory": (["231", "231"], "0"),
        "sm": (["224", "210"], "28"),
    }),
    "4x1g.20gb": (H100, ["1g.20gb"] * 4, {
        "dominant": (["115.50"] * 4, "0"),
        "compute": (["66"] * 4, "198"),
        "memory": (["115.50"] * 4, "0"),
        "sm": (["91"] * 4, "98"),  # 26 SMs each, not 16.
    }),
    "3x2g+1g": (H100, ["2g.20gb"] * 3 + ["1g.10gb"], {
        "dominant": (["132"] * 3 + ["66"], "0"),
        "compute": (["132"] * 3 + ["66"], "0"),
        "memory": (["115.50"] * 3 + ["57.75"], "57.75"),
        "sm": (["112"] * 3 + ["56"], "70"),
    }),
    "2x1g+2g+3g, 15/14 of a GPU by its larger shares": (H100, ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"], {
        "dominant": (["61.60", "61.60", "123.20", "215.60"], "0"),
        "compute": (["66", "66", "132", "198"], "0"),
        "memory": (["57.75", "57.75", "115.50", "231"], "0"),
        "sm": (["56", "56", "112", "210"], "28"),
    }),
    "7g": (H100, ["7g.80gb"], dict.fromkeys(hardware_shares.SHARE_METHODS, (["462"], "0"))),
    "A30, 4x1g": (A30, ["1g.6gb"] * 4, dict.fromkeys(hardware_shares.SHARE_METHODS, (["115.50"] * 4, "0"))),
    "A30, 2g+1g": (A30, ["2g.12gb", "1g.6gb"], dict.fromkeys(hardware_shares.SHARE_METHODS, (["231", "115.50"], "115.50"))),
    "1g.10gb has double memory on an A100 of 40 GB": (A100_40, ["1g.10gb"] * 4, {
        "dominant": (["115.50"] * 4, "0"),
        "compute": (["66"] * 4, "198"),
        "memory": (["115.50"] * 4, "0"),
        "sm": (["66"] * 4, "198"),  # 14 of the 98 SMs that MIG mode exposes.
    }),
    "1g.10gb is the plain one on an A100 of 80 GB": (A100_80, ["1g.10gb"] * 4, {
        "dominant": (["66"] * 4, "198"),
        "compute": (["66"] * 4, "198"),
        "memory": (["57.75"] * 4, "231"),
        "sm": (["66"] * 4, "198"),
    }),
    "H200, 4g+3g": (H200, ["4g.71gb", "3g.71gb"], {
        "dominant": (["246.40", "215.60"], "0"),
        "compute": (["264", "198"], "0"),
        "memory": (["231", "231"], "0"),
        "sm": (["224", "210"], "28"),
    }),
    "H200, a 1g of double memory whose SMs nobody has read": (H200, ["1g.35gb", "1g.18gb"], {
        "dominant": (["115.50", "66"], "280.50"),
        "compute": (["66", "66"], "330"),
        "memory": (["115.50", "57.75"], "288.75"),
        "sm": (["66", "56"], "340"),
    }),
    "B200, 2x3g, of which nobody has read the SMs": (B200, ["3g.90gb"] * 2, {
        "dominant": (["231"] * 2, "0"),
        "compute": (["198"] * 2, "66"),
        "memory": (["231"] * 2, "0"),
        "sm": (["198"] * 2, "66"),
    }),
}  # fmt: skip
DOUBLE = list(LAYOUTS).index("4x1g.20gb")
CASES = [
    pytest.param(place, profiles, method, *figures, id=f"{name}: {method}")
    for place, (name, (_, profiles, methods)) in enumerate(LAYOUTS.items())
    for method, figures in methods.items()
]


def priced(world: World, price: Decimal = PRICE) -> State:
    """Every GPU at one price; account acct-a is team a's, acct-b team b's."""
    state = State.open("sqlite://")
    replace_rates(state, [Rate("*", "owned", price, T0_US - DAY_US)], "test", "test", 0)
    replace_team_rules(state, [TeamRule("account", f"acct-{t}", t) for t in "ab"], "test", "test", 0)
    chargeback.price_all(world.store, state)
    return state


def layout(model: str, profiles: Sequence[str], place: int = 0) -> list[Gpu]:
    """The slices of one GPU, which is alone on its node."""
    uuid, host = f"GPU-{chr(ord('a') + place)}", f"n{place + 1}"
    return [Gpu(uuid, host, gi=1 + n, profile=profile, model=model) for n, profile in enumerate(profiles)]


@cache
def fleet(method: str) -> tuple[Store, State]:
    """An hour of a GPU of each layout, each in a pool of its own, its first slice team a's and its second team b's."""
    world = World(replace(SETTINGS, mig_share_method=cast(hardware_shares.ShareMethod, method)))
    for place, (model, profiles, _) in enumerate(LAYOUTS.values()):
        parts = layout(model, profiles, place)
        world.add(node(parts[0].node or "", pool=f"pool-{place}"))
        for team, part in zip_longest("ab"[: len(parts)], parts):
            job = team and f"{team}{place}"
            world.add(samples(part, minutes(0, HOUR, 300), BUSY if team else IDLE, job=job))
            if job:
                world.add(claim(job, 0, HOUR, node=part.node, profile=part.profile, account=f"acct-{team}"))
    return world.book().store, priced(world)


def charges(world: World, state: State, start: int = 0, end: int = HOUR) -> dict[tuple[str | None, str | None], Any]:
    """(team, slice) -> (GPU-seconds, dollars); the slice of the remainder is None."""
    bill = chargeback.chargeback(world.store, state, Window(us(start), us(end)), ("team", "slice"))
    return {(c.group["team"], c.group["slice"]): (c.gpu_seconds, c.cost) for c in bill.items}


@cache
def billed(method: str) -> dict[str | None, dict[tuple[str | None, str | None], Any]]:
    """By pool, charges() of the fleet."""
    bill = chargeback.chargeback(*fleet(method), Window(us(0), us(HOUR)), ("pool", "team", "slice"))
    found: dict[str | None, dict[tuple[str | None, str | None], Any]] = defaultdict(dict)
    for c in bill.items:
        found[c.group["pool"]][c.group["team"], c.group["slice"]] = (c.gpu_seconds, c.cost)
    return found


# Every layout.


@pytest.mark.parametrize(("place", "profiles", "method", "dollars", "remainder"), CASES)
def test_a_layout_is_billed_as_worked_out_by_hand(
    place: int, profiles: Sequence[str], method: str, dollars: Sequence[str], remainder: str
) -> None:
    gpu = layout("", profiles, place)[0].uuid
    teams = ["a", "b", *[PLATFORM] * len(profiles)]
    expected: dict[tuple[str, str | None], Decimal] = {
        (team, f"{gpu}/GI-{n + 1}"): Decimal(money) for n, (team, money) in enumerate(zip(teams, dollars, strict=False))
    }
    if Decimal(remainder):
        expected[PLATFORM, None] = Decimal(remainder)
    found = billed(method)[f"pool-{place}"]
    assert expected == {key: money for key, (_, money) in found.items()}
    assert PRICE == sum(money for _, money in found.values())
    for key, (gpu_seconds, money) in found.items():
        assert abs(Fraction(gpu_seconds) - 3600 * Fraction(money) / 462) < Fraction(1, 10**5), key


@pytest.mark.parametrize("method", hardware_shares.SHARE_METHODS)
def test_slices_and_books_tell_the_method_and_the_remainder(method: str) -> None:
    store, state = fleet(method)
    window = Window(us(0), us(HOUR))
    left = [Decimal(methods[method][1]) for _, _, methods in LAYOUTS.values()]

    result = slices(store, state, window)
    assert {method} == {item["share_method"] for item in result["items"]}
    assert [str(Fraction(money) / 462) for money in left] == [gpu["remainder_share"] for gpu in result["gpus"]]
    books = chargeback.ledger(store, state, window, ("team",))
    assert sum(left) == sum(row.cost or 0 for row in books.items if row.bucket == "mig_remainder")
    assert (PRICE * len(LAYOUTS), Decimal(HOUR * len(LAYOUTS))) == (books.cost, books.capacity_gpu_seconds)


def test_teams_pay_their_slices_and_the_platform_the_rest() -> None:
    bill = chargeback.chargeback(*fleet("compute"), Window(us(0), us(HOUR)), ("team",), pool=f"pool-{DOUBLE}")

    # Two free slices at 66 and the remainder of 198.
    assert {"a": Decimal(66), "b": Decimal(66), PLATFORM: Decimal(330)} == {c.group["team"]: c.cost for c in bill.items}


def test_every_published_method_of_every_layout_is_in_the_table() -> None:
    assert {set(hardware_shares.SHARE_METHODS) == set(methods) for _, _, methods in LAYOUTS.values()} == {True}
    for model, profiles, methods in LAYOUTS.values():
        for method, (dollars, remainder) in methods.items():
            shares, rest = hardware_shares.layout_shares(model, profiles, cast(hardware_shares.ShareMethod, method))
            assert [Fraction(m) / 462 for m in dollars] == [Fraction(*share) for share in shares]
            assert Fraction(remainder) / 462 == Fraction(*rest)


# What the documentation says.


def doc_rows(header: str) -> list[list[str]]:
    """The rows of the table of docs/understand/mig.md with this header, without back quotes."""
    lines = (Path(__file__).parents[2] / "docs" / "understand" / "mig.md").read_text("utf-8").splitlines()
    start = lines.index(header) + 2
    table = takewhile(lambda line: line.startswith("|"), lines[start:])
    return [[cell.strip() for cell in line.replace("`", "").strip("|").split("|")] for line in table]


def test_the_documented_shares_are_those_of_the_profiles() -> None:
    rows = doc_rows("| Profile | `compute` | `sm` | `memory` | `dominant` |")

    assert 6 == len(rows)
    for profile, *shares in rows:
        methods: tuple[hardware_shares.ShareMethod, ...] = ("compute", "sm", "memory", "dominant")
        assert shares == [
            str(Fraction(hardware_shares.share_units(H100, profile, m)) / hardware_shares.SHARE_UNITS) for m in methods
        ], profile


def test_the_documented_dollars_are_those_of_the_layouts() -> None:
    rows = doc_rows("| Layout | Method | Dollars of its slices | Remainder |")

    assert 11 == len(rows)
    for layout_, method, dollars, remainder in rows:
        counts = [(int(part.split(" x ")[0]), part.split(" x ")[1]) for part in layout_.split(", ")]
        shares, rest = hardware_shares.layout_shares(
            H100, [name for n, name in counts for _ in range(n)], cast(hardware_shares.ShareMethod, method)
        )
        firsts = accumulate([n for n, _ in counts], initial=0)
        listed = [
            f"{n} x {462 * num / den:.2f}"
            for (n, _), (num, den) in zip(counts, (shares[at] for at in firsts if at < len(shares)), strict=True)
        ]
        assert (dollars, remainder) == (", ".join(listed), f"{462 * rest[0] / rest[1]:.2f}")


def test_the_documented_example_is_what_is_billed() -> None:
    world = repartitioned_and_booked()
    items = slices(world.store, priced(world), Window(us(0), us(HOUR)))["items"]
    found: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for item in items:
        found[item["team"], item["profile"]] += Decimal(item["cost"])

    *rows, total = doc_rows("| Who | Slice | Seconds | Share | Dollars |")
    by_name = {
        (who, (re.search(r"\dg\.\d+gb", slice_) or [""])[0]): Decimal(money) for who, slice_, _, _, money in rows
    }
    assert by_name == found
    assert Decimal(total[-1]) == sum(by_name.values()) == PRICE
    for _, _, seconds, share, money in rows:
        assert Fraction(seconds) / 3600 * Fraction(share) * 462 == Fraction(money)


# A layout that changes.


def repartitioned(*rows: Any, until: int = HOUR) -> World:
    """4g+3g for half an hour, then seven 1g of which two have the ids of the old ones; jobs a and b hold id 1 in turn."""
    before = layout(H100, ["4g.40gb", "3g.40gb"])
    after = layout(H100, SEVEN)
    counters = {"energy_mj": 9e6, "power_watts": 400.0, "fb_used_bytes": 30e9}
    world = World().add(
        samples(before[0], minutes(0, 1800), BUSY | counters, job="a"),
        samples(before[1], minutes(0, 1800), IDLE | counters),
        samples(after[0], minutes(1800, until), BUSY | {"energy_mj": 1e3, "power_watts": 400.0, "fb_used_bytes": 3e9}, job="b"),
        *(samples(part, minutes(1800, until), IDLE) for part in after[1:]),
        claim("a", 0, 1800, profile="4g.40gb", account="acct-a"),
        claim("b", 1800, until, profile="1g.10gb", account="acct-b"),
        *rows,
    )  # fmt: skip
    return world


@computed_once
def repartitioned_and_booked() -> World:
    return repartitioned().book()


def test_an_id_that_is_used_again_is_another_slice_on_another_line() -> None:
    world = repartitioned_and_booked()
    state = priced(world)

    assert {
        ("a", "GPU-a/GI-1"): Decimal("123.20"),  # half an hour of 8/15
        ("b", "GPU-a/GI-1"): Decimal(33),  # half an hour of 1/7
        (PLATFORM, "GPU-a/GI-2"): Decimal("140.80"),  # 7/15 as a 3g, then 1/7 as a 1g: 107.80 + 33
        **{(PLATFORM, f"GPU-a/GI-{n}"): Decimal(33) for n in range(3, 8)},
    } == {key: money for key, (_, money) in charges(world, state).items()}
    items = slices(world.store, state, Window(us(0), us(HOUR)))["items"]
    assert [("4g.40gb", "8/15"), ("1g.10gb", "1/7")] == [(i["profile"], i["share"]) for i in items if i["gi"] == 1]
    assert [("3g.40gb", "7/15"), ("1g.10gb", "1/7")] == [(i["profile"], i["share"]) for i in items if i["gi"] == 2]


STALE = [
    pytest.param([], 1, "33.00", id="the exporter tells of the new layout only"),
    pytest.param([1830], 1, "33.00", id="it tells of the old one once more, by numbers that are used again"),
    pytest.param([1830, 1890], 1, "33.00", id="and for two scrapes"),
    pytest.param([], 7, "33.00", id="new numbers"),
    # For a minute 4g, 3g and seven 1g are 32 + 28 + 56 units: 1/7 for 29 minutes is 31.90, 8/116 for one 0.53.
    pytest.param([1830], 7, "32.43", id="it tells of the old one once more beside new numbers"),
    pytest.param([1830, 1890], 7, "31.86", id="and for two scrapes beside new numbers"),
]


@pytest.mark.parametrize(("again", "first", "expected"), STALE)
def test_an_old_layout_that_is_reported_for_some_scrapes_more_is_not_billed_for_ever(
    again: list[int], first: int, expected: str
) -> None:
    old = layout(H100, ["4g.40gb", "3g.40gb"])
    new = [replace(part, gi=first + place) for place, part in enumerate(layout(H100, SEVEN))]
    rows = [samples(part, [*minutes(0, 1800), *again], IDLE) for part in old]
    rows += [samples(part, minutes(1800, HOUR), IDLE) for part in new]
    world = World().add(*rows).book()
    found = charges(world, priced(world))

    assert expected == str(found[PLATFORM, f"GPU-a/GI-{first + 6}"][1])
    assert sum(money for _, money in found.values()) == PRICE


def test_a_layout_that_stood_for_a_minute_is_billed_for_a_minute() -> None:
    """All within one hour, of which each number is known by its first and last sample."""
    whole, halves = layout(H100, ["7g.80gb"])[0], layout(H100, ["3g.40gb"] * 2)
    rows = [samples(whole, [30], IDLE), *(samples(half, [90], IDLE) for half in halves)]
    world = World().add(*rows, samples(whole, minutes(120, HOUR), IDLE)).book()
    items = slices(world.store, priced(world), Window(us(0), us(HOUR)))["items"]

    # 462 / 60 = 7.70 a minute: one before, one for both halves, and 58 after.
    assert [("3g.40gb", "3.85"), ("3g.40gb", "3.85"), ("7g.80gb", "446.60"), ("7g.80gb", "7.70")] == sorted(
        (item["profile"], item["cost"]) for item in items
    )


def test_memory_of_an_old_layout_is_not_that_of_the_new_one() -> None:
    world = repartitioned_and_booked()
    items = slices(world.store, priced(world), Window(us(0), us(HOUR)))["items"]

    used = [i["utilisation"]["fb_used_ratio"] for i in items if i["gi"] == 1]
    assert [0.707, 0.287] == [round(ratio, 3) for ratio in used]  # 30 GB of 39.5 GiB, then 3 GB of 9.75 GiB


def test_while_slices_are_made_the_gpu_is_out_of_service_and_so_is_what_they_leave() -> None:
    parts = layout(H100, ["3g.40gb"])
    after = layout(H100, ["1g.10gb"] * 2)
    world = World().add(
        samples(parts[0], minutes(0, 1200), BUSY, job="a"),
        claim("a", 0, 1200, profile="3g.40gb", account="acct-a"),
        *(samples(part, minutes(1800, HOUR), IDLE) for part in after),
        node(devices={"3g.40gb": 1}, at=0, scheduler="kubernetes"),
        node(at=1200, state="drain", since_us=us(1200), scheduler="kubernetes",
             reason="MIG is being configured: nvidia.com/mig.config.state=pending"),
        node(devices={"1g.10gb": 2}, at=1860, scheduler="kubernetes"),
    ).book()  # fmt: skip
    state = priced(world)

    books = chargeback.ledger(world.store, state, Window(us(0), us(HOUR)), ("team",))
    money: dict[str, Decimal] = defaultdict(Decimal)
    for row in books.items:
        money[row.bucket if row.group["team"] == PLATFORM else row.group["team"] or ""] += row.cost or 0
    assert {
        "a": Decimal("77.00"),  # twenty minutes of one half
        "mig_remainder": Decimal("236.50"),  # twenty minutes of one half, then 29 of 5/7: 77 + 159.50
        "out_of_service": Decimal("84.70"),  # eleven minutes of the whole GPU
        "schedulable": Decimal("63.80"),  # 29 minutes of 2/7
    } == dict(money)


def test_while_the_exporter_is_down_the_old_layout_stands_and_is_out_of_service() -> None:
    other = Gpu("GPU-b", index=1)
    before, after = layout(H100, ["4g.40gb", "3g.40gb"]), layout(H100, SEVEN)
    world = (
        World()
        .add(
            *(samples(part, minutes(0, 1200), BUSY) for part in before),
            *(samples(part, minutes(2400, HOUR), BUSY) for part in after),
            samples(other, minutes(0, HOUR), IDLE),
        )
        .book()
    )

    spans = {(a, b, who) for name, a, b, who, _ in world.segments() if name == "GPU-a/GI-1"}
    assert {(0, 1200, "schedulable"), (1200, 2400, "out_of_service"), (2400, HOUR, "schedulable")} == spans
    assert [] == [row for row in world.segments() if row[0] == "GPU-a"]


def test_mig_switched_off_turns_the_slices_into_their_gpu() -> None:
    parts, whole = layout(H100, SEVEN), Gpu()
    world = (
        World()
        .add(
            *(samples(part, minutes(0, 1800), BUSY) for part in parts),
            samples(whole, minutes(1800, HOUR), BUSY, job="a"),
            claim("a", 1800, HOUR, account="acct-a"),
        )
        .book()
    )
    found = charges(world, priced(world))

    assert (Decimal(1800), Decimal(231)) == found["a", None]
    assert [(Decimal(33))] * 7 == [money for (_, name), (_, money) in found.items() if name]


# A method that changes.


def test_each_side_of_a_policy_s_date_is_shared_by_its_own_method() -> None:
    world = World().add(*(samples(part, minutes(0, 2 * HOUR), IDLE) for part in layout(H100, SEVEN))).book()
    dated = [(us(HOUR), "memory")]
    attribution.attribute(world.store, CLUSTER, world.settings, dated)
    ledger_hours.recompute_dirty(world.store, CLUSTER, world.settings)
    world.check()
    state = priced(world)

    assert {"66.00"} == {str(money) for _, money in charges(world, state).values()}
    later = charges(world, state, HOUR, 2 * HOUR)
    assert {"57.75"} == {str(money) for _, money in later.values()}
    assert 8 == len(later)
    items = slices(world.store, state, Window(us(0), us(2 * HOUR)))["items"]
    assert [("dominant", "1/7"), ("memory", "1/8")] == [(i["share_method"], i["share"]) for i in items if i["gi"] == 1]
    attribution.attribute(world.store, CLUSTER, world.settings, dated)
    assert [] == world.rows("dirty_hour")


def test_a_policy_that_changes_the_method_is_booked_once_and_never_again() -> None:
    world = World().add(*(samples(part, minutes(0, HOUR), IDLE) for part in layout(H100, SEVEN))).seal()
    state = priced(world)

    def hours() -> int:
        return analyze(world.store, state, world.settings, now_us=us(2 * HOUR)).hours

    first = hours()
    assert 0 < first
    assert 0 == hours()
    rows = [
        as_dict(policy)
        for policy in parse(
            {"policies": [{"name": "by memory", "valid_from": "2026-11-01", "mig_share_method": "memory"}]}
        )
    ]
    VersionedLists(state).replace("policies", rows, "test", "test", 0)
    assert (first, 0) == (hours(), hours())
    assert {"57.75"} == {str(money) for _, money in charges(world, state).values()}


def test_a_method_that_gives_the_same_shares_books_nothing_again() -> None:
    world = World().add(*(samples(part, minutes(0, HOUR), IDLE) for part in layout(H100, SEVEN))).book()
    world.settings = replace(SETTINGS, mig_share_method="compute")
    world.attribute()

    assert [] == world.rows("dirty_hour")
    assert {"compute"} == {row["method"] for row in world.rows("segment")}


def test_days_whose_samples_are_gone_keep_the_method_they_were_booked_with() -> None:
    late = 30 * 24 * HOUR
    parts = layout(H100, SEVEN)
    measured = [*minutes(0, HOUR), *minutes(late - 24 * HOUR, late - 23 * HOUR), *minutes(late, late + HOUR)]
    world = World().add(*(samples(part, measured, IDLE) for part in parts)).book()
    retain_all(world.store, replace(world.settings, raw_retention_days=1), T0_US + 40 * DAY_US)
    world.settings = replace(SETTINGS, mig_share_method="memory")
    world.attribute()

    spans = sorted({(row["start_us"], row["end_us"], row["method"]) for row in world.rows("segment")})
    day, end = T0_US + DAY_US, us(late + HOUR)
    assert [(T0_US, day, "dominant"), (day, end, "memory")] == spans
    # No sample of the days between was ever there, so that they are booked again.
    assert day - HOUR_US == min(row["hour_us"] for row in world.rows("dirty_hour"))


def test_an_unknown_method_is_refused_before_anything_changes() -> None:
    world = World().add(samples(Gpu(gi=1, profile="1g.10gb"), minutes(0, HOUR))).book()
    before = world.rows("segment")
    with pytest.raises(UsageError, match="share method 'fair': not known; known: dominant, compute, memory, sm"):
        attribution.attribute(world.store, CLUSTER, world.settings, [(us(0), "fair")])

    assert before == world.rows("segment")


# The card's own readings.


def test_the_power_of_a_card_is_no_slice_s() -> None:
    parts, card = layout(H100, SEVEN), Gpu("GPU-b", index=1)
    board = BUSY | {"power_watts": 600.0, "energy_mj": 1e9, "nvlink_tx_bytes_per_s": 1e9, "nvlink_rx_bytes_per_s": 1e9}
    world = (
        World()
        .add(
            *(samples(part, minutes(0, HOUR), board, job="1") for part in parts),
            samples(card, minutes(0, HOUR), board, job="2"),
            claim("1", 0, HOUR, profile="1g.10gb", count=7),
            claim("2", 0, HOUR),
        )
        .book()
    )

    read = {
        (row["device_id"] == card.device_id, row["power_watts"], row["link_ratio"] is None)
        for row in world.rows("device_window")
    }
    assert {(True, 600.0, False), (False, None, True)} == read
    points = series.of_job(world.store, CLUSTER, "1")
    assert points is not None
    assert {"power_watts", "link_ratio"}.isdisjoint(points["columns"])
    drawn = world.store.rows(
        "rates/energy",
        start_us=us(0),
        end_us=us(HOUR),
        silence_us=HOUR_US,
        watts_max=2000,
        cluster=CLUSTER,
        pool=None,
    )
    assert {"GPU-a": 600.0, "GPU-b": 600.0} == {row["gpu"]: row["watt_us"] / row["felt_us"] for row in drawn}


def test_ratios_of_a_slice_are_of_the_slice_and_not_of_its_gpu() -> None:
    """A 1g whose SMs all work and a 3g with half of its own at work: 1.0 and 0.5, whatever their shares."""
    small, large = layout(H100, ["1g.10gb", "3g.40gb"])
    world = (
        World()
        .add(
            samples(small, minutes(0, HOUR), BUSY | {"sm_active_ratio": 1.0, "gr_engine_ratio": 1.0}, job="1"),
            samples(large, minutes(0, HOUR), BUSY | {"sm_active_ratio": 0.5}, job="1"),
            claim("1", 0, HOUR, profile="1g.10gb"),
            claim("1", 0, HOUR, profile="3g.40gb"),
        )
        .book()
    )

    items = slices(world.store, priced(world), Window(us(0), us(HOUR)))["items"]
    assert [1.0, 0.5] == [item["utilisation"]["sm_active_ratio"] for item in items]
    points = series.of_job(world.store, CLUSTER, "1")
    assert points is not None
    assert {0.75} == {point["sm_active_ratio"] for point in points["points"]}


# Whatever the layout and the method.


@settings(steady, max_examples=8)
@given(st.data())
def test_any_layouts_owners_and_methods_add_up_to_the_gpu(data: st.DataObject) -> None:
    """Shares of a GPU are 1 at every instant, and money is price x time, over any sequence of layouts and methods."""
    key = data.draw(st.sampled_from(sorted(GEOMETRIES)))
    legal = sorted(hardware_shares.maximal_layouts(key))
    spans = data.draw(st.lists(st.tuples(st.sampled_from(legal), st.integers(0, 7)), min_size=1, max_size=3))
    methods = st.tuples(st.integers(0, 3 * HOUR), st.sampled_from(hardware_shares.SHARE_METHODS))
    dated = sorted((us(at), method) for at, method in data.draw(st.lists(methods, max_size=3)))
    world = World()
    for turn, (profiles, missing) in enumerate(spans):
        start = turn * 1800
        kept = list(profiles)[: max(len(profiles) - missing, 1)]
        for place, part in enumerate(layout(key, kept)):
            job = f"{turn}-{place}" if data.draw(st.booleans()) else None
            world.add(samples(part, minutes(start, start + 1800), BUSY, job=job))
            if job:
                length = data.draw(st.integers(60, 1800))
                team = data.draw(st.sampled_from("abc"))
                world.add(claim(job, start, start + length, profile=part.profile, account=f"acct-{team}"))
    world.seal()
    attribution.attribute(world.store, CLUSTER, world.settings, dated)
    ledger_hours.recompute_dirty(world.store, CLUSTER, world.settings)
    world.check()

    edges = sorted({row[e] for row in world.rows("segment") for e in ("start_us", "end_us")})
    for low in edges[:-1]:
        at = sum(
            Fraction(row["share_num"], row["share_den"])
            for row in world.rows("segment")
            if row["start_us"] <= low < row["end_us"]
        )
        assert 1 == at
    end = len(spans) * 1800
    bill = chargeback.chargeback(world.store, priced(world, Decimal("2.49")), Window(us(0), us(end)), ("team", "slice"))
    exact = Fraction(Decimal("2.49")) * (us(end) - us(0)) / HOUR_US
    assert abs(Fraction(sum(c.cost or 0 for c in bill.items)) - exact) <= Fraction(1, 200)
    assert Decimal(end) == sum(c.gpu_seconds for c in bill.items)
