"""Charges and ledger by day, week, month, node, GPU, name, label and cost center: exact, alone and combined."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.billing import chargeback
from gpuwatch.billing.listings import chargeback_listing
from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.dimensions import DEVICES, DIMENSIONS, PERIODS, WORDS
from gpuwatch.policy.parse import parse
from gpuwatch.policy.policy import as_dict
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists
from tests.worlds.templates import computed_once
from tests.worlds.world import H100, HOUR, IDLE, Gpu, World, claim, minutes, pod, samples, us

DAY = 24 * HOUR
START, END = -2 * DAY, DAY
"""From a Saturday, which is also in the month before, to the end of the Monday after it."""
NEW = (*PERIODS, *DEVICES, *WORDS, "label:app", "label:a/b.c~d")
POLICY = {
    "name": "p",
    "valid_from": "2026-10-01",
    "payers": {"idle": "even"},
    "shared": [{"name": "net", "amount": "7.01", "per": "day", "currency": "USD", "split": "even"}],
}


@computed_once
def three_days() -> World:
    """Two GPUs and a MIG slice, sampled around midnights, held by a Slurm job, a pod and a job without labels."""
    gpus = [Gpu("GPU-1", "n1"), Gpu("GPU-2", "n2")]
    cut = Gpu("GPU-m", "n2", 0, 3, "1g.10gb")
    stretch = [
        *minutes(START, START + 2 * HOUR), *minutes(-DAY - HOUR, -DAY + HOUR), *minutes(-HOUR, 2 * HOUR),
        *minutes(END - HOUR, END),
    ]  # fmt: skip
    labels = json.dumps({"app": "llm", "a/b.c~d": "x|y", "cost_center": "cc-7"})
    other = json.dumps({"cost-center": "", "costcenter": "cc-8"})
    held = [
        claim("1", START + HOUR / 3, HOUR, "n1", gpus="GPU-1", account="a", name="train", labels=labels),
        pod("web-0", "u1", -HOUR / 8, END, "n2", gpus="GPU-2", labels=other),
        claim("3", START + 7, START + HOUR + 11, "n2", gpus="GPU-m/GI-3", profile="1g.10gb", account="b"),
    ]
    slices = samples(cut, minutes(START, START + 2 * HOUR))
    return World().add(*[samples(gpu, stretch, IDLE) for gpu in gpus], slices, *held).book()


def fleet(policy: bool) -> tuple[World, State]:
    world, state = three_days(), State.open("sqlite://")
    edge = us(-DAY + 1234)
    rates = [Rate(H100, "owned", Decimal("2.4937"), us(START - DAY), edge), Rate(H100, "owned", Decimal("1.01"), edge)]
    replace_rates(state, rates, "test", "test", 0)
    if policy:
        rows = [as_dict(item) for item in parse({"policies": [POLICY]})]
        VersionedLists(state).replace("policies", rows, "test", "test", 3)
    chargeback.price_all(world.store, state)
    return world, state


@pytest.fixture(scope="module")
def fleets() -> dict[bool, tuple[World, State]]:
    return shared_fleets()


def dimension_of(row: dict[str, Any], by: str) -> str | None:
    """The value of a dimension by the words of a segment."""
    at = datetime.fromtimestamp(row["start_us"] / 1e6, UTC)
    labels = json.loads(row["labels"] or "{}")
    match by:
        case "day":
            return f"{at:%Y-%m-%d}"
        case "week":
            return f"{at:%G-W%V}"
        case "month":
            return f"{at:%Y-%m}"
        case "name":
            return {"1": "train", "lab/web-0": "web-0"}.get(row["job_id"], row["job_id"])
        case "cost_center":
            return labels.get("cost_center") or labels.get("costcenter")
        case _:
            return labels.get(by.removeprefix("label:")) if by.startswith("label:") else row[by]


def pieces(world: World, window: Window) -> list[dict[str, Any]]:
    """Segments within the window, cut at prices and at midnights."""
    rows = world.store.sql(
        """select d.node, d.gpu, r.job_id, r.labels, s.share_num, s.share_den, p.usd_per_gpu_hour::decimal(18, 6),
            greatest(s.start_us, p.start_us, $start_us), least(s.end_us, p.end_us, $end_us)
        from segment s
        join device d using (device_id)
        join device_price p on p.device_id = s.device_id and p.profile is not distinct from s.profile
        left join run r using (run_id)
        where least(s.end_us, p.end_us, $end_us) > greatest(s.start_us, p.start_us, $start_us)""",
        start_us=window.start_us,
        end_us=window.end_us,
    )
    found = []
    for node, gpu, job, labels, num, den, price, start_us, end_us in rows:
        known = {"node": node, "gpu": gpu, "job_id": job, "labels": labels, "share": Fraction(num, den), "price": price}
        while start_us < end_us:
            until_us = min(end_us, (start_us // DAY_US + 1) * DAY_US)
            found.append(known | {"start_us": start_us, "us": until_us - start_us})
            start_us = until_us
    return found


@pytest.mark.parametrize("by", [(name,) for name in NEW] + [NEW], ids="+".join)
def test_rows_are_those_of_the_segments(fleets: dict[bool, tuple[World, State]], by: tuple[str, ...]) -> None:
    """Against segments that Python adds up; whole and cut days alike."""
    world, state = fleets[False]
    window = Window(us(START) + 3, us(END) - 1)
    expected: dict[Any, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for row in pieces(world, window):
        sums = expected[tuple(dimension_of(row, name) for name in by), row["job_id"] is None]
        sums[0] += row["share"] * row["us"] / 10**6
        sums[1] += row["share"] * row["us"] * Fraction(row["price"]) / 3600 / 10**6
    answer = chargeback.chargeback(world.store, state, window, by)

    assert len(expected) == len(answer.items)
    for charge in answer.items:
        seconds, cost = expected[tuple(charge.group.values()), charge.kind == "platform"]
        assert abs(seconds - Fraction(charge.gpu_seconds_exact or 0)) < Fraction(1, 10**11)
        assert abs(cost - Fraction(charge.cost_exact or 0)) < Fraction(1, 10**11)
    by_bucket: dict[Any, Decimal] = defaultdict(Decimal)
    for row in chargeback.ledger(world.store, state, window, [*by, "bucket"]).items:
        by_bucket[tuple(row.group[name] for name in by)] += row.gpu_seconds
    for group, seconds in by_bucket.items():
        exact = sum((sums[0] for (words, _), sums in expected.items() if words == group), Fraction(0))
        assert abs(exact - Fraction(seconds)) < Fraction(1, 10**4)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.sampled_from((*NEW, *DIMENSIONS)), unique=True, max_size=5),
    st.integers(us(START), us(END) - 1),
    st.integers(1, us(END) - us(START)),
    st.booleans(),
)
def test_any_grouping_adds_up_to_the_total(by: list[str], start_us: int, length_us: int, policy: bool) -> None:
    world, state = shared_fleets()[policy]
    window = Window(start_us, start_us + length_us)
    answer = chargeback.chargeback(world.store, state, window, by)
    whole = chargeback.chargeback(world.store, state, window, ())
    books = chargeback.ledger(world.store, state, window, by)
    pages = []
    offset: int | None = 0
    while offset is not None:
        page = chargeback.chargeback(world.store, state, window, by, limit=3, offset=offset)
        pages += page.items
        offset = page.next_offset

    assert (whole.gpu_seconds, whole.cost) == (answer.gpu_seconds, answer.cost)
    assert whole.gpu_seconds == sum(charge.gpu_seconds for charge in answer.items)
    assert whole.cost == sum(charge.cost or 0 for charge in answer.items)
    assert whole.gpu_seconds == books.capacity_gpu_seconds == sum(row.gpu_seconds for row in books.items)
    assert pages == list(answer.items)
    assert set(by) == {name for charge in answer.items for name in charge.group} or not by or not answer.items


@functools.cache
def shared_fleets() -> dict[bool, tuple[World, State]]:
    return {policy: fleet(policy) for policy in (False, True)}


def test_a_bound_token_sees_only_its_own_rows(fleets: dict[bool, tuple[World, State]]) -> None:
    """With the numbers that they have among all rows; cents are rounded over its own rows."""
    world, state = fleets[True]
    window = Window(us(START), us(END))
    every = chargeback.chargeback(world.store, state, window, ("team", *NEW))
    mine = chargeback.chargeback(world.store, state, window, ("team", *NEW), teams={"a"})
    nodes = chargeback.ledger(world.store, state, window, ["node", "name"], teams={"a"})

    theirs = [charge for charge in every.items if charge.group["team"] == "a"]
    assert [replace(charge, cost=None) for charge in theirs] == [replace(charge, cost=None) for charge in mine.items]
    assert all(
        abs((one.cost or 0) - (other.cost or 0)) <= Decimal("0.01")
        for one, other in zip(theirs, mine.items, strict=True)
    )
    assert mine.items
    assert {("n1", "train")} == {(row.group["node"], row.group["name"]) for row in nodes.items}
    assert {("n1", "train")} == {(one.group["node"], one.group["name"]) for one in nodes.groups}


def test_rows_by_days_have_no_charge_id(fleets: dict[bool, tuple[World, State]]) -> None:
    world, state = fleets[False]
    answer = chargeback.chargeback(world.store, state, Window(us(START), us(END)), ("day", "team"))

    assert {None} == {item["charge"] for item in chargeback_listing(answer).items}


@pytest.mark.parametrize(
    ("message", "by"),
    [
        pytest.param("--by days: not a dimension; known: team, user", ["days"], id="unknown"),
        pytest.param("month, node, gpu, name, cost_center, label:<key>", ["x"], id="all are listed"),
        pytest.param("--by label:: not a dimension", ["label:"], id="a label without a key"),
        pytest.param("more than 8 labels", [f"label:{n}" for n in range(9)], id="many labels"),
        pytest.param("more than 3660 days by day", ["day"], id="centuries by day"),
    ],
)
def test_refused(fleets: dict[bool, tuple[World, State]], message: str, by: list[str]) -> None:
    world, state = fleets[False]
    with pytest.raises(UsageError) as error:
        chargeback.chargeback(world.store, state, Window(us(START), us(5000 * DAY)), by)

    assert message in str(error.value)
