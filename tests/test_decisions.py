"""Decisions: the published figures, what must not be proposed, and what a small fleet's books say."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.clock import Window
from gpuwatch.decisions import break_even, payback_months, sensitivity, smallest_fit, spot, spot_overhead, together
from gpuwatch.decisions_read import Assumptions, consolidation, own_vs_cloud, right_sizing, spot_suitability
from gpuwatch.errors import UsageError
from gpuwatch.owned import Owned
from gpuwatch.rate_cards import set_owned
from gpuwatch.rates import Rate
from gpuwatch.state import State
from tests.test_cost import priced
from tests.world import BUSY, H100, HOUR, Gpu, World, claim, minutes, node, samples, us

OWNED = Fraction("2.163")
CAPEX, OPEX = Fraction(400_000), Fraction(5_968)
DAY = 24 * HOUR
WINDOW = Window(us(0), us(4 * HOUR))
GIB = 1 << 30

# Formulas, with the figures of the sources.


@pytest.mark.parametrize(("cloud", "percent"), [("2.50", 87), ("3.50", 62), ("6.88", 31)])
def test_break_even_is_the_owned_rate_over_the_clouds(cloud: str, percent: int) -> None:
    assert percent == round(100 * break_even(OWNED, Fraction(cloud)))


@pytest.mark.parametrize(("cloud", "months"), [("3.50", 54.7), ("6.88", 19.9), ("8", 16.4), ("10", 12.5)])
def test_payback_counts_what_the_cloud_would_have_cost(cloud: str, months: float) -> None:
    found = payback_months(CAPEX, 8, Fraction("0.65"), Fraction(cloud), OPEX)
    assert found is not None
    assert months == round(float(found), 1)


def test_hardware_that_costs_more_to_run_than_it_saves_never_pays_back() -> None:
    assert payback_months(CAPEX, 8, Fraction("0.1"), Fraction("2.50"), OPEX) is None


def test_the_middle_of_the_sensitivity_is_what_was_measured() -> None:
    cases = sensitivity(OWNED, Fraction("3.50"), 8, Fraction("0.65"), CAPEX, OPEX)
    assert 12 == len(cases)
    middle = next(c for c in cases if (Fraction("3.50"), Fraction("0.65")) == (c.cloud_price, c.utilisation))
    assert payback_months(CAPEX, 8, Fraction("0.65"), Fraction("3.50"), OPEX) == middle.payback_months
    assert middle.saved_a_month == 8 * 730 * (Fraction("0.65") * Fraction("3.50") - OWNED)


def test_a_long_run_without_checkpoints_is_not_for_spot() -> None:
    found = spot(Decimal(1000), Decimal("0.4"), 72.0, 0.05, None)
    assert (False, Decimal(0)) == (found.suitable, found.saved)
    assert "no checkpoints are known" in found.why


def test_spot_that_is_hardly_cheaper_is_not_proposed() -> None:
    assert not spot(Decimal(1000), Decimal("0.96"), 1.0, 0.05, None).suitable


def test_a_long_run_with_checkpoints_is_for_spot() -> None:
    found = spot(Decimal(1000), Decimal("0.4"), 72.0, 0.05, 0.5)
    assert found.suitable
    assert Decimal("595.00") == found.saved.quantize(Decimal("0.01"))  # 1000 x (1 - 0.4 x 1.0125)


@given(st.floats(0.01, 100), st.floats(0, 2))
def test_interruptions_never_make_a_run_shorter(hours: float, rate: float) -> None:
    assert spot_overhead(hours, rate, None) >= 1


def test_two_half_used_pools_need_half_the_nodes() -> None:
    found = together(64, Fraction(30), Fraction(24), 8, Fraction(0))
    assert (30, 4, 32) == (found.needed_gpus, found.freed_nodes, found.freed_gpus)
    assert (Fraction(3, 8), Fraction(3, 4)) == (found.utilisation_before, found.utilisation_after)


@given(st.integers(1, 500), st.integers(0, 500), st.integers(1, 16), st.fractions(0, 2))
def test_what_is_left_holds_the_peak(capacity: int, peak: int, a_node: int, headroom: Fraction) -> None:
    peak = min(peak, capacity)
    found = together(capacity, Fraction(peak), Fraction(peak) / 2, a_node, headroom)
    assert found.freed_gpus >= 0
    assert peak <= capacity - found.freed_gpus


def test_a_slice_must_hold_memory_and_sms_with_headroom() -> None:
    sizes = [("1g", Fraction(1, 7), 10, Fraction(1, 7)), ("3g", Fraction(1, 2), 40, Fraction(3, 7))]
    assert smallest_fit(sizes, 41, 0.1, Fraction(0)) is None
    assert smallest_fit(sizes, 5, 0.5, Fraction(0)) is None
    assert "3g" == getattr(smallest_fit(sizes, 10, 0.1, Fraction(1, 10)), "profile", None)
    assert "1g" == getattr(smallest_fit(sizes, 9, 0.1, Fraction(1, 10)), "profile", None)


# On a fleet.


def fleet(*, memory: float = 5 * GIB, sm: float = 0.05) -> tuple[World, State]:
    """Two GPUs of pool p1 and two of p2: job 1 of team a holds one of each pool's for two of four hours, in turn."""
    gpus = [Gpu(f"GPU-{n}", f"n{n}", 0) for n in range(4)]
    used = BUSY | {"sm_active_ratio": sm, "gr_engine_ratio": max(sm, 0.1), "fb_used_bytes": memory}
    rows: list[Any] = [node(gpu.node or "", pool="p1" if n < 2 else "p2") for n, gpu in enumerate(gpus)]
    for n, gpu in enumerate(gpus):
        held = (0, 2 * HOUR) if n == 0 else (2 * HOUR, 4 * HOUR) if n == 2 else (0, 0)
        rows += [samples(gpu, minutes(*held), used, job=str(n))] if held[1] else []
        rows += [samples(gpu, [s for s in minutes(0, 4 * HOUR) if not held[0] <= s < held[1]], BUSY)]
        if held[1]:
            rows.append(claim(str(n), *held, node=gpu.node or "", account="acct-a"))
    world = World().add(*rows).book()
    return world, priced(world, Rate(H100, "owned", Decimal(2), us(-DAY)))


def test_one_pool_of_two_half_used_ones_frees_the_nodes_that_no_peak_needs() -> None:
    world, state = fleet()
    item = consolidation(world.store, state, WINDOW, "c1", ["p1", "p2"], Assumptions(headroom=Decimal(0)))["items"][0]
    assert (4, "1.0000", 1, 3, 3) == tuple(
        item[name] for name in ("gpus", "peak_gpus", "needed_gpus", "freed_nodes", "freed_gpus")
    )
    assert ("0.2500", "1.0000") == (item["utilisation_before"], item["utilisation_after"])
    assert ("4380.00", "USD") == (item["saving_a_month"], item["currency"])  # 3 x 730 h x 2 USD


def test_a_pool_that_is_not_there_is_named_with_those_that_are() -> None:
    world, state = fleet()
    with pytest.raises(UsageError, match="pool 'p9': cluster 'c1' has p1, p2"):
        consolidation(world.store, state, WINDOW, "c1", ["p1", "p9"], Assumptions())


def test_without_a_cloud_price_nothing_is_compared_and_the_fix_is_named() -> None:
    world, state = fleet()
    for item in own_vs_cloud(world.store, state, WINDOW, Assumptions())["items"]:
        assert "no cloud price" in item["missing"]
        assert "cheaper" not in item


def test_a_quarter_used_fleet_is_cheaper_in_the_cloud() -> None:
    world, state = fleet()
    items = own_vs_cloud(world.store, state, WINDOW, Assumptions(cloud_price=Decimal("3.50")))["items"]
    assert [("p1", "0.2500", "0.5714", "cloud"), ("p2", "0.2500", "0.5714", "cloud")] == [
        (i["pool"], i["utilisation"], i["break_even_utilisation"], i["cheaper"]) for i in items
    ]
    assert {"capex of the hardware: gpuwatch rates owned FILE"} == {i["payback_needs"] for i in items}


def test_payback_comes_from_the_hardware_that_was_bought() -> None:
    world, state = fleet()
    state.replace_rates([], "test", "test", 1)
    bought = Owned("dgx", H100, 8, Decimal(400_000), Decimal(4), Decimal("10.2"), Decimal("0.10"), us(-DAY))
    set_owned(state, [bought], "test", "test", 1)
    from gpuwatch.cost import price_all

    price_all(world.store, state)
    items = own_vs_cloud(world.store, state, WINDOW, Assumptions(cloud_price=Decimal(100)))["items"]
    power = Fraction("10.2") * 730 / 10 * 2 / 8
    months = Fraction(100_000) / (2 * 730 * Fraction(1, 4) * 100 - power)
    assert {f"{float(months):.4f}"} == {item["payback_months"] for item in items}


def test_a_job_that_uses_little_fits_in_the_smallest_slice() -> None:
    world, state = fleet()
    found = right_sizing(world.store, state, WINDOW, None, Assumptions())
    assert (2, 0, {"USD": "6.86"}) == (found["jobs"], found["jobs_unjudged"], found["saving"])
    assert {("1g.10gb", "1/7", "4.00", "3.43")} == {
        (i["mig_profile"], i["share"], i["cost"], i["saving"]) for i in found["items"]
    }


def test_a_job_that_fills_the_memory_keeps_its_gpu() -> None:
    world, state = fleet(memory=70.0 * GIB)
    assert [] == right_sizing(world.store, state, WINDOW, None, Assumptions())["items"]


def test_a_job_that_keeps_the_sms_busy_keeps_its_gpu() -> None:
    world, state = fleet(sm=0.9)
    assert [] == right_sizing(world.store, state, WINDOW, None, Assumptions())["items"]


def test_a_team_sees_its_own_jobs_only() -> None:
    world, state = fleet()
    assumed = Assumptions(spot_discount=Decimal("0.6"))
    assert 2 == len(right_sizing(world.store, state, WINDOW, ["a"], assumed)["items"])
    assert [] == right_sizing(world.store, state, WINDOW, ["b"], assumed)["items"]
    assert 2 == len(spot_suitability(world.store, state, WINDOW, ["a"], assumed)["items"])
    assert [] == spot_suitability(world.store, state, WINDOW, ["b"], assumed)["items"]


def test_short_jobs_are_for_spot_where_its_price_is_known() -> None:
    world, state = fleet()
    nothing = spot_suitability(world.store, state, WINDOW, None, Assumptions())
    assert ([], 2) == (nothing["items"], nothing["jobs_without_price"])
    found = spot_suitability(world.store, state, WINDOW, None, Assumptions(spot_discount=Decimal("0.6")))
    assert [True, True] == [item["suitable"] for item in found["items"]]
    assert {"2.32"} == {item["saving"] for item in found["items"]}  # 4.00 x (1 - 0.4 x (e^0.1 - 1) / 0.1)


@pytest.mark.parametrize("given_", [{"headroom": "-1"}, {"spot_discount": "1"}, {"cloud_price": "0"}])
def test_an_assumption_out_of_range_is_refused(given_: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        Assumptions(**{name: Decimal(text) for name, text in given_.items()})
