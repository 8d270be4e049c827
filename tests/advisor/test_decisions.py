"""Decisions: the published figures, what must not be proposed, and what a small fleet's books say."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuwatch.advisor.fleet import own_vs_cloud
from gpuwatch.advisor.formulas import (
    break_even,
    given_back,
    payback_months,
    sensitivity,
    smallest_fit,
    spot,
    spot_overhead,
    together,
)
from gpuwatch.advisor.inputs import Assumptions
from gpuwatch.advisor.jobs import right_sizing, slices_of, spot_suitability
from gpuwatch.advisor.merging import consolidation
from gpuwatch.advisor.replay import Request, Waits, replay
from gpuwatch.billing.chargeback import price, price_all
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.rates.card import Rate
from gpuwatch.rates.fx import Exchange, Fx
from gpuwatch.rates.fx import replace as set_fx
from gpuwatch.rates.in_force import set_owned
from gpuwatch.rates.owned import Owned
from gpuwatch.rates.repository import load_rates, replace_rates
from gpuwatch.state import State
from tests.billing.test_chargeback import priced
from tests.worlds.world import BUSY, H100, HOUR, Gpu, World, claim, minutes, node, samples, us

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
@example(0.5, 5e-324)
def test_interruptions_never_make_a_run_shorter(hours: float, rate: float) -> None:
    assert spot_overhead(hours, rate, None) >= 1


def test_a_run_that_ends_before_its_first_checkpoint_loses_what_it_has_done() -> None:
    assert spot_overhead(1, 0.05, None) == spot_overhead(1, 0.05, 48)


def test_the_cheapest_gpus_are_given_back_first() -> None:
    pools = [(4, Fraction(5)), (2, Fraction(1)), (8, Fraction(3))]
    assert [0, 1, 2 + 3, 2 + 24 + 5] == [given_back(pools, gpus) for gpus in (0, 1, 3, 11)]


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


PARTS = {
    # SMs of the slice by the 132 (108 on A100) of the GPU; memory as a driver told it, else an eighth less than its name.
    ("NVIDIA H100 80GB HBM3", "1g.10gb"): (Fraction(16, 132), Fraction("9.75")),
    ("NVIDIA H100 80GB HBM3", "3g.40gb"): (Fraction(60, 132), Fraction("39.5")),
    ("NVIDIA A100-SXM4-80GB", "1g.10gb"): (Fraction(14, 108), Fraction("8.75")),
    ("NVIDIA H100 NVL", "1g.12gb"): (Fraction(16, 132), Fraction("10.5")),
    ("NVIDIA H100 NVL", "3g.47gb"): (Fraction(42, 108), Fraction("41.125")),
    ("NVIDIA H200", "1g.35gb"): (Fraction(16, 132), Fraction("30.625")),
    ("NVIDIA B200", "2g.45gb"): (Fraction(32, 132), Fraction("39.375")),
    ("NVIDIA GB200", "4g.93gb"): (Fraction(64, 132), Fraction("81.375")),
    ("NVIDIA A30", "2g.12gb"): (Fraction(28, 56), Fraction("10.5")),
}


@pytest.mark.parametrize(("model", "profile"), PARTS, ids=lambda pair: " ".join(pair))
def test_a_slice_has_no_more_than_was_read_of_it(model: str, profile: str) -> None:
    (found,) = [one for one in slices_of(model) if one[0] == profile]
    assert (int(PARTS[model, profile][1] * GIB), PARTS[model, profile][0]) == found[2:]


@pytest.mark.parametrize("model", [None, "NVIDIA GB300", "Tesla V100-SXM2-16GB"])
def test_a_model_without_known_slices_has_none(model: str | None) -> None:
    assert () == slices_of(model)


# On a fleet.


@lru_cache
def booked(memory: float, sm: float, model: str) -> World:
    """Two GPUs of pool p1 and two of p2: job 1 of team a holds one of each pool's for two of four hours, in turn."""
    gpus = [Gpu(f"GPU-{n}", f"n{n}", 0, model=model) for n in range(4)]
    used = BUSY | {"sm_active_ratio": sm, "gr_engine_ratio": max(sm, 0.1), "fb_used_bytes": memory}
    rows: list[Any] = [node(gpu.node or "", pool="p1" if n < 2 else "p2") for n, gpu in enumerate(gpus)]
    for n, gpu in enumerate(gpus):
        held = (0, 2 * HOUR) if n == 0 else (2 * HOUR, 4 * HOUR) if n == 2 else (0, 0)
        rows += [samples(gpu, minutes(*held), used, job=str(n))] if held[1] else []
        rows += [samples(gpu, [s for s in minutes(0, 4 * HOUR) if not held[0] <= s < held[1]], BUSY)]
        if held[1]:
            rows.append(claim(str(n), *held, node=gpu.node or "", account="acct-a"))
    return World().add(*rows).book()


def fleet(
    *, memory: float = 5 * GIB, sm: float = 0.05, model: str = H100, pricing: str = "owned", currency: str = "USD"
) -> tuple[World, State]:
    """The world that `booked` tells, at 2 an hour. It is kept for other tests: only its prices may change."""
    world = booked(memory, sm, model)
    state = priced(world, Rate("*", pricing, Decimal(2), us(-DAY), currency=currency, assume_spot=pricing == "spot"))
    price(world.store, state, "c1", force=True)
    return world, state


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


def buy(world: World, state: State, **more: Any) -> None:
    """A server of eight GPUs in place of the rates."""
    replace_rates(state, [], "test", "test", 1)
    bought = Owned("dgx", H100, 8, Decimal(400_000), Decimal(4), Decimal("10.2"), Decimal("0.10"), us(-DAY), **more)
    set_owned(state, [bought], "test", "test", 1)
    price_all(world.store, state)


def test_payback_comes_from_the_hardware_that_was_bought() -> None:
    world, state = fleet()
    buy(world, state)
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


def test_sms_are_those_of_the_slice_and_not_its_sevenths() -> None:
    # 0.12 and a tenth are 0.132: less than 1/7 of the compute, more than the 16 of 132 SMs of 1g.10gb.
    world, state = fleet(sm=0.12)
    found = right_sizing(world.store, state, WINDOW, None, Assumptions())
    assert {("1g.20gb", "1/4", "3.00")} == {(i["mig_profile"], i["share"], i["saving"]) for i in found["items"]}


def test_memory_that_nobody_has_read_is_less_than_the_name_says() -> None:
    # 10 GiB and a tenth are 11: 1g.12gb may have 10.5.
    world, state = fleet(memory=10.0 * GIB, model="NVIDIA H100 NVL")
    found = right_sizing(world.store, state, WINDOW, None, Assumptions())
    assert {"1g.24gb"} == {i["mig_profile"] for i in found["items"]}


def test_a_job_with_one_larger_run_is_not_judged_by_the_others() -> None:
    one, two = Gpu("GPU-1", "n1", 0), Gpu("GPU-2", "n1", 1)
    used = BUSY | {"sm_active_ratio": 0.05, "fb_used_bytes": GIB}
    world = World().add(
        node("n1", pool="p"),
        samples(one, minutes(0, 4 * HOUR), used, job="7"),
        samples(two, minutes(0, 3 * HOUR), used),
        samples(two, minutes(3 * HOUR, 4 * HOUR), used, job="7"),
        claim("7", 0, 3 * HOUR, run_key="7@1"),
        claim("7", 3 * HOUR, 4 * HOUR, count=2, run_key="7@2"),
    )
    world.book()
    state = priced(world, Rate("*", "on_demand", Decimal(2), us(-DAY)))
    assert [] == right_sizing(world.store, state, WINDOW, None, Assumptions())["items"]


def test_what_no_rate_prices_has_no_saving() -> None:
    world, state = fleet()
    replace_rates(state, [], "test", "test", 1)
    price_all(world.store, state)
    found = right_sizing(world.store, state, WINDOW, None, Assumptions())
    assert [(None, None)] * 2 == [(i["cost"], i["saving"]) for i in found["items"]]
    assert {} == found["saving"]


def test_a_team_sees_its_own_jobs_only() -> None:
    world, state = fleet(pricing="on_demand")
    assumed = Assumptions(spot_discount=Decimal("0.6"))
    assert 2 == len(right_sizing(world.store, state, WINDOW, ["a"], assumed)["items"])
    assert [] == right_sizing(world.store, state, WINDOW, ["b"], assumed)["items"]
    assert 2 == len(spot_suitability(world.store, state, WINDOW, ["a"], assumed)["items"])
    assert [] == spot_suitability(world.store, state, WINDOW, ["b"], assumed)["items"]


DISCOUNT = Assumptions(spot_discount=Decimal("0.6"))


def test_short_jobs_are_for_spot_where_its_price_is_known() -> None:
    world, state = fleet(pricing="on_demand")
    nothing = spot_suitability(world.store, state, WINDOW, None, Assumptions())
    assert ([], 2) == (nothing["items"], nothing["jobs_without_price"])
    found = spot_suitability(world.store, state, WINDOW, None, DISCOUNT)
    assert [True, True] == [item["suitable"] for item in found["items"]]
    assert {"2.32"} == {item["saving"] for item in found["items"]}  # 4.00 x (1 - 0.4 x (e^0.1 - 1) / 0.1)


PAID = [
    pytest.param("owned", True, "and cost the same whoever uses them", id="owned"),
    pytest.param("reserved", True, "its hours are reserved and", id="reserved"),
    pytest.param("spot", False, "its hours are spot already", id="spot"),
]


@pytest.mark.parametrize(("pricing", "suitable", "why"), PAID)
def test_what_is_paid_anyway_is_not_saved_by_spot(pricing: str, suitable: bool, why: str) -> None:
    world, state = fleet(pricing=pricing)
    found = spot_suitability(world.store, state, WINDOW, None, DISCOUNT)
    assert [(suitable, "0.00", True)] * 2 == [
        (item["suitable"], item["saving"], why in item["why"]) for item in found["items"]
    ]
    assert {"USD": "0.00"} == found["saving"]


def test_the_price_of_another_pool_s_spot_capacity_counts_and_the_most_expensive_of_them() -> None:
    world, state = fleet(pricing="on_demand")
    pools = [
        Rate("*", "spot", Decimal(price), us(-DAY), pool=pool)
        for pool, price in (("s1", "0.5"), ("s2", "1"), ("s3", "0.7"))
    ]
    replace_rates(state, [*load_rates(state), *pools], "test", "test", 1)
    price_all(world.store, state)
    found = spot_suitability(world.store, state, WINDOW, None, Assumptions())
    assert {("0.5000", True)} == {(item["spot_price_ratio"], item["suitable"]) for item in found["items"]}


LABELLED = [
    pytest.param(True, "30", {}, id="checkpoints every half an hour"),
    pytest.param(False, None, {}, id="no word on checkpoints"),
    pytest.param(False, "nan", {}, id="a word that is no number"),
    pytest.param(False, "-30", {}, id="a number of minutes below nothing"),
    pytest.param(False, "inf", {}, id="a number of minutes beyond all"),
    pytest.param(False, None, {"end": None}, id="a run without checkpoints that still runs"),
    pytest.param(True, "30", {"end": None}, id="a run with checkpoints that still runs"),
]


@pytest.mark.parametrize(("suitable", "minutes_reported", "more"), LABELLED)
def test_a_day_long_run_is_for_spot_with_checkpoints_only(
    suitable: bool, minutes_reported: str | None, more: dict[str, Any]
) -> None:
    labels = None if minutes_reported is None else f'{{"gpuwatch.io/checkpoint-minutes": "{minutes_reported}"}}'
    world = World().add(
        node("n1", pool="p"),
        samples(Gpu(), minutes(0, DAY, 600), BUSY, job="1"),
        claim("1", 0, more.get("end", DAY), evidence=DAY, labels=labels),
    )
    world.book()
    state = priced(world, Rate("*", "on_demand", Decimal(2), us(-DAY)))
    (item,) = spot_suitability(world.store, state, Window(us(0), us(DAY)), None, DISCOUNT)["items"]
    assert suitable == item["suitable"]
    assert suitable is (Decimal(item["saving"]) > 0)


SERVES = "it serves requests or is used interactively: an interruption would be an outage"
BOUND = [
    pytest.param({"gpuwatch.io/workload-class": "serving"}, "a", SERVES, id="a label says that it serves"),
    pytest.param({"pod-template-hash": "6b7f"}, "a", SERVES, id="a pod of a Deployment"),
    pytest.param({"statefulset.kubernetes.io/pod-name": "a-0"}, "a", SERVES, id="a pod of a StatefulSet"),
    pytest.param({"serving.kserve.io/inferenceservice": "chat"}, "a", SERVES, id="KServe"),
    pytest.param({}, "prod-vllm-llama70b", SERVES, id="named after an inference server"),
    pytest.param({"gpuwatch.io/deadline": "2026-12-24"}, "a", "it has a deadline", id="a deadline"),
    pytest.param({"gpuwatch.io/spot": "never"}, "a", "refuses spot capacity", id="spot refused"),
    pytest.param({"gpuwatch.io/workload-class": "batch"}, "eval-server", None, id="a label says that it is batch work"),
    pytest.param({}, "observer-training", None, id="a name with a similar word"),
]


@pytest.mark.parametrize(("labels", "name", "why"), BOUND)
def test_what_must_stay_up_is_not_for_spot(labels: dict[str, str], name: str, why: str | None) -> None:
    labels = labels | {"gpuwatch.io/checkpoint-minutes": "30"}
    world = World().add(
        node("n1", pool="p"),
        samples(Gpu(), minutes(0, 4 * HOUR, 600), BUSY, job="1"),
        claim("1", 0, 4 * HOUR, labels=json.dumps(labels), name=name),
    )
    state = priced(world.book(), Rate("*", "on_demand", Decimal(2), us(-DAY)))
    (item,) = spot_suitability(world.store, state, WINDOW, None, DISCOUNT)["items"]
    assert (why is None) is item["suitable"]
    assert (why or "its longest run is") in item["why"]
    assert item["suitable"] is (Decimal(item["saving"]) > 0)


def test_a_run_over_many_nodes_is_taken_away_as_often_as_any_of_them() -> None:
    gpus = [Gpu(f"GPU-{n}", f"n{n}") for n in range(4)]
    rows: list[Any] = [node(f"n{n}", pool="p") for n in range(4)]
    rows += [samples(gpu, minutes(0, 4 * HOUR), BUSY, job="1") for gpu in gpus]
    rows += [claim("1", 0, 4 * HOUR, node=gpu.node, count=1) for gpu in gpus]
    world = World().add(*rows).book()
    state = priced(world, Rate("*", "on_demand", Decimal(2), us(-DAY)))
    (item,) = spot_suitability(world.store, state, WINDOW, None, DISCOUNT)["items"]
    # Four hours of one node at 0.05 take 1.11 times as long; of four nodes (e^0.8 - 1) / 0.8 = 1.53 times.
    assert (4, False, "runs of 4.0 h would take 1.53 times as long: no checkpoints are known") == (
        item["nodes"], item["suitable"], item["why"],
    )  # fmt: skip


# What must not be compared.


def test_rented_gpus_are_not_owned() -> None:
    world, state = fleet(pricing="on_demand")
    for item in own_vs_cloud(world.store, state, WINDOW, Assumptions())["items"]:
        assert (None, "2.000000") == (item["owned_price"], item["cloud_price"])
        assert "paid on_demand, and no hardware of this model is known" in item["missing"]


def test_euros_are_not_compared_with_dollars() -> None:
    world, state = fleet()
    buy(world, state, currency="EUR")
    replace_rates(state, [Rate("*", "on_demand", Decimal("3.50"), us(-DAY), pool="elsewhere")], "test", "test", 2)
    replace_rates(state, [Rate(H100, "on_demand", Decimal("3.50"), us(-DAY))], "test", "test", 3)
    for item in own_vs_cloud(world.store, state, WINDOW, Assumptions())["items"]:
        assert ("EUR", None) == (item["currency"], item["cloud_price"])
        assert "the on-demand rate is in USD: add an exchange rate to EUR" == item["missing"]


def test_with_a_reporting_currency_both_are_in_it() -> None:
    world, state = fleet()
    buy(world, state, currency="EUR")
    replace_rates(state, [Rate(H100, "on_demand", Decimal("3.50"), us(-DAY))], "test", "test", 3)
    set_fx(state, Fx((Exchange("EUR", "USD", Decimal("1.1"), us(-DAY)),), "USD"), "test", "test", 4)
    # 400000 / 4 and 10.2 x 8760 x 0.10 by 8 x 8760 hours is 1.554440 EUR, in dollars 1.709885.
    items = own_vs_cloud(world.store, state, WINDOW, Assumptions())["items"]
    assert {("USD", "1.709885", "3.500000", "0.4885")} == {
        (i["currency"], i["owned_price"], i["cloud_price"], i["break_even_utilisation"]) for i in items
    }


def test_pools_without_a_price_free_nodes_and_no_dollars() -> None:
    world, state = fleet()
    replace_rates(state, [Rate("*", "owned", Decimal(2), us(-DAY), pool="p1")], "test", "test", 1)
    price_all(world.store, state)
    (item,) = consolidation(world.store, state, WINDOW, "c1", ["p1", "p2"], Assumptions())["items"]
    assert (2, None) == (item["freed_nodes"], item["saving_a_month"])
    assert "no price of one currency for p2" in item["missing"]


def test_gpus_of_an_unknown_model_are_not_idle() -> None:
    world, state = fleet(model="")
    items = consolidation(world.store, state, WINDOW, "c1", ["p1", "p2"], Assumptions())["items"]
    assert ["1.0000"] == [item["peak_gpus"] for item in items]


def test_a_window_longer_than_the_books_dilutes_no_use() -> None:
    world, state = fleet()
    month = Window(us(-29 * DAY), us(DAY))
    (item,) = consolidation(world.store, state, month, "c1", ["p1", "p2"], Assumptions())["items"]
    assert "0.2500" == item["utilisation_before"]


GROWN = [
    pytest.param(10 * HOUR, ("1.0000", 2, "1.0000"), id="nearly all the time"),
    pytest.param(48 * HOUR, ("1.0000", 2, "1.0000"), id="half of the time"),
    pytest.param(60 * HOUR, (None, None, None), id="less than half of the time"),
]


@pytest.mark.parametrize(("since", "expected"), GROWN)
def test_time_without_the_new_gpus_does_not_show_how_many_are_enough(since: int, expected: tuple[Any, ...]) -> None:
    """One GPU is held throughout; the two others come at `since`."""
    rows: list[Any] = [node(f"n{n}", pool="p") for n in range(3)]
    rows += [
        samples(Gpu("GPU-0", "n0"), minutes(0, 100 * HOUR, 3600), BUSY),
        claim("long", 0, 100 * HOUR, node="n0", gpus="GPU-0"),
    ]
    rows += [samples(Gpu(f"GPU-{n}", f"n{n}"), minutes(since, 100 * HOUR, 3600), BUSY) for n in (1, 2)]
    world = World().add(*rows).book()
    state = priced(world, Rate("*", "owned", Decimal(2), us(-DAY)))
    window, assumed = Window(us(0), us(100 * HOUR)), Assumptions(headroom=Decimal(0))
    (item,) = consolidation(world.store, state, window, "c1", ["p"], assumed)["items"]
    p95 = next((level["gpus"] for level in item["levels"] if level["level"] == "p95"), None)
    assert (3, *expected) == (item["gpus"], item["peak_gpus"], item["freed_gpus"], p95)
    if expected[0] is None:
        assert item["missing"] == (
            "the 3 GPUs were there together for 1 day 15 h of 4 days 4 h: too short to know how many are enough"
        )


def test_what_few_gpus_held_before_others_came_is_no_demand() -> None:
    """Two GPUs, both always held, and six more for the last 60 of 100 hours, of which all are held for two."""
    rows: list[Any] = [node(f"n{n}", pool="p") for n in range(8)]
    for n in range(8):
        start = 0 if n < 2 else 40 * HOUR
        rows += [samples(Gpu(f"GPU-{n}", f"n{n}"), minutes(start, 100 * HOUR, 3600), BUSY)]
        end = 100 * HOUR if n < 2 else 42 * HOUR
        rows += [claim(f"job{n}", start, end, node=f"n{n}", gpus=f"GPU-{n}")]
    world = World().add(*rows).book()
    state = priced(world, Rate("*", "owned", Decimal(2), us(-DAY)))
    window, assumed = Window(us(0), us(100 * HOUR)), Assumptions(headroom=Decimal(0))
    (item,) = consolidation(world.store, state, window, "c1", ["p"], assumed)["items"]
    # Two of 60 hours are more than one in a hundred, and less than one in twenty.
    assert [("peak", "8.0000"), ("p99", "8.0000"), ("p95", "2.0000")] == [
        (one["level"], one["gpus"]) for one in item["levels"]
    ]
    assert "0.2752" == item["utilisation_before"]  # (2 x 60 + 6 x 2) / (8 x 60), less the last interval without samples


@pytest.mark.parametrize("at", [HOUR, 4 * HOUR - 600], ids=["long ago", "within the last hour"])
def test_a_gpu_that_was_cut_into_slices_is_one_gpu(at: int) -> None:
    cut = [Gpu("GPU-a", gi=gi, profile="1g.10gb") for gi in range(7)]
    rows: list[Any] = [node("n1", pool="p"), samples(Gpu("GPU-a"), minutes(0, at), BUSY)]
    rows += [samples(gpu, minutes(at, 4 * HOUR), BUSY) for gpu in cut]
    world = World().add(*rows).book()
    state = priced(world, Rate("*", "owned", Decimal(2), us(-DAY)))
    (item,) = consolidation(world.store, state, WINDOW, "c1", ["p"], Assumptions())["items"]
    assert (1, 1, 1) == (item["gpus"], item["freed_nodes"], item["freed_gpus"])


def test_a_replaced_gpu_makes_no_larger_node() -> None:
    rows: list[Any] = [node("n1", pool="p")]
    rows += [samples(Gpu("GPU-old", "n1", 0, pci="0:1"), minutes(0, HOUR), BUSY)]
    rows += [samples(Gpu("GPU-new", "n1", 0, pci="0:1"), minutes(HOUR, 4 * HOUR), BUSY)]
    world = World().add(*rows).book()
    state = priced(world, Rate("*", "owned", Decimal(2), us(-DAY)))
    (item,) = consolidation(world.store, state, WINDOW, "c1", ["p"], Assumptions())["items"]
    assert (1, 1, 1) == (item["gpus"], item["freed_nodes"], item["freed_gpus"])


@pytest.mark.parametrize("given_", [{"headroom": "-1"}, {"spot_discount": "1"}, {"cloud_price": "0"}])
def test_an_assumption_out_of_range_is_refused(given_: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        Assumptions(**{name: Decimal(text) for name, text in given_.items()})


# What an hour costs is its price at the end of the window.


def repriced(pricing: str) -> tuple[World, State]:
    """A quarter-used fleet whose GPU-hour cost 0.50 until the last of its four hours, and 2.00 since."""
    world, state = fleet()
    at = us(3 * HOUR)
    rates = [Rate("*", pricing, Decimal("0.5"), us(-DAY), at), Rate("*", pricing, Decimal(2), at)]
    replace_rates(state, rates, "test", "test", 1)
    price_all(world.store, state)
    return world, state


def test_own_or_rent_is_decided_at_the_price_of_today() -> None:
    world, state = repriced("owned")
    for item in own_vs_cloud(world.store, state, WINDOW, Assumptions(cloud_price=Decimal("3.50")))["items"]:
        assert ("2.000000", "cloud", "owned") == (item["owned_price"], item["cheaper"], item["paid"])
        assert Decimal(item["saved_by_owning_a_month"]) < 0


def test_merged_pools_save_the_price_of_today() -> None:
    world, state = repriced("owned")
    (item,) = consolidation(world.store, state, WINDOW, "c1", ["p1", "p2"], Assumptions())["items"]
    assert "2920.00" == item["saving_a_month"]  # 2 x 730 h x 2 USD


def test_reserved_gpus_are_not_called_owned() -> None:
    world, state = repriced("reserved")
    assumed = Assumptions(cloud_price=Decimal(100))
    for item in own_vs_cloud(world.store, state, WINDOW, assumed)["items"]:
        assert ("reserved", "reserved", None) == (item["paid"], item["cheaper"], item["payback_needs"])


def test_a_reservation_is_not_compared_at_the_price_of_hardware() -> None:
    world, state = fleet()
    buy(world, state)
    replace_rates(state, [Rate(H100, "reserved", Decimal("2.75"), us(-DAY))], "test", "test", 2)
    price_all(world.store, state)
    for item in own_vs_cloud(world.store, state, WINDOW, Assumptions(cloud_price=Decimal(100)))["items"]:
        assert ("reserved", "2.750000", None) == (item["paid"], item["owned_price"], item["payback_months"])


# Fewer GPUs than the peak: what requests would wait.


def requests(*spans: tuple[int, int, int]) -> list[Request]:
    return [Request(us(start), us(end), units) for start, end, units in spans]


def waited(seconds: int) -> int:
    return seconds * 1_000_000


REPLAYS = [
    pytest.param([], 4, Waits(0, 0, 0, 0, 0), id="no requests"),
    pytest.param([(0, 60, 4), (60, 120, 4)], 4, Waits(2, 0, 0, 0, 0), id="one after the other"),
    pytest.param(
        [(0, 60, 4), (20, 80, 4)], 4, Waits(2, 1, waited(20), waited(40), 0), id="the second waits for the first"
    ),
    pytest.param(
        [(0, 60, 3), (10, 20, 2), (15, 16, 1)], 4, Waits(3, 2, waited(95) // 3, waited(50), 0), id="none overtakes"
    ),
    pytest.param([(0, 60, 8), (10, 20, 2)], 4, Waits(2, 0, 0, 0, 1), id="one that never fits holds nothing up"),
]


@pytest.mark.parametrize(("spans", "capacity", "expected"), REPLAYS)
def test_a_replay_counts_what_waits(spans: list[tuple[int, int, int]], capacity: int, expected: Waits) -> None:
    assert expected == replay(requests(*spans), capacity)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, 4)), max_size=30))
def test_what_the_peak_holds_never_waits(drawn: list[tuple[int, int, int]]) -> None:
    spans = [(start, start + length, units) for start, length, units in drawn]
    peak = max((sum(n for a, b, n in spans if a <= at < b) for at, _, _ in spans), default=0)
    assert 0 == replay(requests(*spans), peak).delayed


def test_pools_may_be_merged_for_less_than_their_peak_at_the_cost_of_waits() -> None:
    gpus = [Gpu(f"GPU-{n}", f"n{n}") for n in range(4)]
    rows: list[Any] = [node(gpu.node or "", pool="p") for gpu in gpus]
    rows += [samples(gpu, minutes(0, 100 * HOUR, 3600), BUSY) for gpu in gpus]
    rows += [claim("long", 0, 100 * HOUR, node="n0", gpus="GPU-0")]
    rows += [claim(f"burst{n}", 50 * HOUR, 52 * HOUR, node=f"n{n}", gpus=f"GPU-{n}") for n in (1, 2, 3)]
    world = World().add(*rows).book()
    state = priced(world, Rate("*", "owned", Decimal(2), us(-DAY)))
    window, assumed = Window(us(0), us(100 * HOUR)), Assumptions(headroom=Decimal(0))
    (item,) = consolidation(world.store, state, window, "c1", ["p"], assumed)["items"]
    listed = ("level", "gpus", "freed_gpus", "saving_a_month", "delayed_requests", "longest_delay_seconds")
    # For 98 of 100 hours one GPU is enough: three bursts of two hours would then wait for the long run.
    assert [
        ("peak", "4.0000", 0, "0.00", 0, 0.0),
        ("p99", "4.0000", 0, "0.00", 0, 0.0),
        ("p95", "1.0000", 3, "4380.00", 3, 54.0 * 3600),
    ] == [tuple(level[name] for name in listed) for level in item["levels"]]
