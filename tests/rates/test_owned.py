"""Owned hardware: the formula, its worked example, what is refused, and power that is measured."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.rates import in_force, owned
from gpuwatch.rates.card import Rate
from gpuwatch.rates.csv_table import RowsRefused, whole
from gpuwatch.rates.owned import Owned, owned_of, parse_owned
from gpuwatch.rates.owned_power import measured
from gpuwatch.state import State
from tests.worlds.world import HOUR, Gpu, Sample, World, us

WORKED = {
    "name": "dgx",
    "gpu_model": "H100",
    "gpus": "8",
    "capex": "400000",
    "residual": "20%",
    "years": "4",
    "kw": "10.2",
    "pue": "1.3",
    "price_per_kwh": "0.10",
    "ops_per_year": "60000",
    "valid_from": "2026-01-01",
}
"""The worked example of the formula's source."""


def hardware(**more: Any) -> Owned:
    return owned_of(WORKED | more, 1)


def csv(**more: str) -> str:
    row = WORKED | more
    return ",".join(row) + "\n" + ",".join(row.values()) + "\n"


def test_the_worked_example() -> None:
    one = hardware()

    assert Fraction("151615.76") / (8 * 8760) == one.hourly_exact
    assert (Decimal("2.163466894977"), "2.163") == (one.hourly, f"{one.hourly:.3f}")


def test_every_part_of_the_formula_counts() -> None:
    """(100 000 × 1.5 − 100 000 × 0.1) / 2 + (3 + 1) × 1.5 × 8760 × 0.2 + 1 + 2 + 3 = 80 518 a year for 3.6 GPUs' hours."""
    one = hardware(
        gpus="4",
        capex="100000",
        adders="0.5",
        residual="0.1",
        years="2",
        kw="3",
        host_kw="1",
        pue="1.5",
        price_per_kwh="0.2",
        ops_per_year="1",
        space_per_year="2",
        support_per_year="3",
        availability="90%",
    )

    assert Fraction(80518) / (Fraction("3.6") * 8760) == one.hourly_exact


def test_the_formula_shows_every_number() -> None:
    assert [
        (
            "[(capex × (1 + adders) − capex × residual) / years + (kW + host kW) × PUE × 8760 × price per kWh + ops + space "
            "+ support] / (GPUs × 8760 × availability)"
        ),
        (
            "= [(400000 × (1 + 0) − 400000 × 0.2) / 4 + (10.2 + 0) × 1.3 × 8760 × 0.1 + 60000 + 0 + 0] / (8 × 8760 × 1)"
            " = 2.163466894977 USD a GPU-hour"
        ),
    ] == hardware().formula().splitlines()


@pytest.mark.parametrize(
    ("reason", "more"),
    [
        pytest.param("capex is empty", {"capex": ""}, id="no capex"),
        pytest.param("capex is negative", {"capex": "-1"}, id="negative capex"),
        pytest.param("capex is not a plain decimal", {"capex": "400k"}, id="thousands in words"),
        pytest.param("gpus is not a whole number above 0", {"gpus": "0"}, id="no GPUs"),
        pytest.param("years is not above 0", {"years": "0"}, id="no years"),
        pytest.param("residual is a ratio", {"residual": "80000"}, id="an amount for a ratio"),
        pytest.param("pue is below 1", {"pue": "0.3"}, id="a PUE below 1"),
        pytest.param("availability is not above 0", {"availability": "0"}, id="never there"),
        pytest.param("availability is not above 0", {"availability": "120%"}, id="more than always there"),
        pytest.param("valid_to is not after valid_from", {"valid_to": "2026-01-01"}, id="no validity"),
        pytest.param("currency is not a three-letter", {"currency": "euro"}, id="no currency code"),
        pytest.param("currency is empty", {"currency": ""}, id="an empty currency"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(reason: str, more: dict[str, str]) -> None:
    with pytest.raises(RowsRefused, match=f"line 2: {reason}"):
        whole(parse_owned, csv(**more), "owned.csv")


def test_a_name_counts_once() -> None:
    text = csv() + ",".join(WORKED.values()) + "\n"

    with pytest.raises(RowsRefused, match="line 3: name is used twice"):
        whole(parse_owned, text, "owned.csv")


def test_a_record_is_kept_as_it_was_given() -> None:
    one = hardware(cluster="c1", pool="p", valid_to="2027-01-01", currency="EUR", kw_source="meter")

    assert one == owned_of(owned.shown(one), 1)


@pytest.fixture
def state() -> Any:
    with State.open("sqlite://") as found:
        yield found


def test_it_makes_a_rate_that_is_in_force(state: State) -> None:
    assert True is in_force.set_owned(state, [hardware()], "ann", "owned.csv", 1)
    assert False is in_force.set_owned(state, [hardware()], "ann", "owned.csv", 2)

    assert [("H100", "owned", "2.163466894977")] == [
        (rate.gpu_model, rate.pricing, str(rate.usd_per_gpu_hour)) for rate in in_force.in_force(state)
    ]


def test_two_prices_at_once_are_refused_whichever_card_comes_second(state: State) -> None:
    line = Rate("H100", "owned", Decimal(2), 0, line=7)
    in_force.set_rates(state, [line], "ann", "rates.csv", 1)
    with pytest.raises(UsageError, match="valid at once"):
        in_force.set_owned(state, [hardware()], "ann", "owned.csv", 2)
    in_force.set_rates(state, [], "ann", "rates.csv", 3)
    in_force.set_owned(state, [hardware()], "ann", "owned.csv", 4)
    with pytest.raises(UsageError, match="valid at once"):
        in_force.set_rates(state, [line], "ann", "rates.csv", 5)


def test_a_power_that_is_still_to_be_measured_has_no_price(state: State) -> None:
    with pytest.raises(UsageError, match="not measured yet"):
        in_force.set_owned(state, [hardware(kw="measured")], "ann", "owned.csv", 1)
    assert 0 == state.card_version("owned")


def counter(uuid: str, *joules: int, step: int = 60) -> list[Sample]:
    """An energy counter (millijoules) read every `step` seconds."""
    gpu = Gpu(uuid)
    return [Sample(gpu, us(n * step), (), (("energy_mj", value * 1000),)) for n, value in enumerate(joules)]


def power(world: World, end: int = HOUR, **more: str) -> Owned:
    world.book()
    return measured(world.store, [hardware(kw="measured", **more)], Window(us(0), us(end)))[0]


def test_mean_power_is_energy_by_time() -> None:
    """600 W and 500 W: the mean GPU draws 550 W, eight of them 4.4 kW."""
    world = World().add(
        counter("GPU-a", *(36_000 * n for n in range(10))), counter("GPU-b", *(30_000 * n for n in range(10)))
    )
    one = power(world)

    assert Decimal("4.4") == one.kw
    assert "energy counter (field 156) of 2 GPUs" in (one.kw_source or "")
    assert "mean 550.000 W a GPU" in (one.kw_source or "")


@pytest.mark.parametrize(
    "readings",
    [
        pytest.param([0, 36_000, 72_000, 5, 36_005, 72_005], id="a counter that restarts"),
        pytest.param([0, 36_000, 72_000, 10**9, 10**9 + 36_000], id="a counter that jumps as no GPU can"),
    ],
)
def test_what_a_restart_hides_is_left_out(readings: list[int]) -> None:
    """600 W before and after; the step between says nothing."""
    assert Decimal("4.8") == power(World().add(counter("GPU-a", *readings))).kw


def test_a_long_silence_says_nothing() -> None:
    late = [
        Sample(Gpu("GPU-a"), us(3 * HOUR + 60 * n), (), (("energy_mj", (10**6 + 36_000 * n) * 1000),)) for n in range(3)
    ]

    assert Decimal("4.8") == power(World().add(counter("GPU-a", 0, 36_000), late), 4 * HOUR).kw


def test_power_readings_where_no_counter_is() -> None:
    rows = [
        Sample(Gpu("GPU-a"), us(60 * n + 30), (), (("power_watts", 250.0), ("gr_engine_ratio", 0.5))) for n in range(20)
    ]
    one = power(World().add(rows))

    assert Decimal(2) == one.kw
    assert "power readings (field 155) of 1 GPUs" in (one.kw_source or "")


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"gpu_model": "A100"}, id="another model"),
        pytest.param({"cluster": "c9"}, id="another cluster"),
        pytest.param({"pool": "p9"}, id="another pool"),
    ],
)
def test_where_nothing_measures_it_there_is_no_number(more: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="gives energy or power"):
        power(World().add(counter("GPU-a", 0, 36_000)), **more)


def test_a_number_is_never_measured_again_by_itself() -> None:
    world = World().add(counter("GPU-a", 0, 36_000)).book()
    one = hardware()

    assert [one] == measured(world.store, [one], Window(us(0), us(HOUR)))
    assert Decimal("4.8") == measured(world.store, [one], Window(us(0), us(HOUR)), again=True)[0].kw
