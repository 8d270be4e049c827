"""Pools that are paid in the dearer way: pools that are paid well, or of which too little is known, first."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from gpuwatch.detectors.own_vs_cloud import OWN_VS_CLOUD
from gpuwatch.rates.card import Rate
from gpuwatch.rates.in_force import set_owned
from gpuwatch.rates.owned import Owned
from gpuwatch.rates.repository import replace_rates
from tests.worlds.detectors import (
    H100,
    IDLE,
    PAGE_HEADINGS,
    WORK,
    World,
    page_headings,
    page_rows,
    printed_thresholds,
    us,
)
from tests.worlds.subjects import hour_by_hour, offer, said

RULE = "own-vs-cloud"
HOURS = 50
LENGTH = 60 * HOURS
Scene = Callable[[World], object]


def rate(pricing: str, price: str, pool: str | None = None, currency: str = "USD") -> Rate:
    return Rate(H100, pricing, Decimal(price), us(-60 * 24), None, None, pool, None, currency)


def pool(world: World, *rates: Rate, used: float, hours: int = HOURS) -> World:
    """Two GPUs of a pool, of whose time a part is held."""
    offer(world, "n1", "p", {"": 2}, None)
    for gpu in ("a", "b"):
        held = round(60 * hours * used)
        world.gpu(gpu, (held, WORK), (60 * hours - held, IDLE), step_s=1200)
        if held:
            world.job(f"job-{gpu}", [gpu], 0, held)
    replace_rates(world.state, list(rates), "test", "test", 0)
    return world


def bought(world: World) -> World:
    """Hardware of this model that may be owned: 2.163 dollars a GPU-hour."""
    hardware = Owned(
        name="dgx",
        gpu_model=H100,
        gpus=8,
        capex=Decimal(400_000),
        residual=Decimal("0.2"),
        years=Decimal(4),
        kw=Decimal("10.2"),
        pue=Decimal("1.3"),
        price_per_kwh=Decimal("0.1"),
        ops_per_year=Decimal(60_000),
        valid_from_us=us(-60 * 24),
    )
    set_owned(world.state, [hardware], "test", "test", 0)
    return world


OWNED, CLOUD = rate("owned", "2"), rate("on_demand", "3.50")

MUST_NOT_FIRE: dict[str, Scene] = {
    "owned GPUs that are used above the break-even": lambda w: pool(w, OWNED, CLOUD, used=0.9),
    "owned GPUs that are used a little less than the break-even": lambda w: pool(w, OWNED, CLOUD, used=0.5),
    "nobody says what the cloud costs": lambda w: pool(w, OWNED, used=0.1),
    "nobody says what the owned GPUs cost": lambda w: pool(w, rate("on_demand", "3.50", "elsewhere"), used=0.1),
    "rented GPUs, and no hardware to compare with": lambda w: pool(w, CLOUD, used=0.9),
    "rented GPUs that are used little": lambda w: bought(pool(w, rate("on_demand", "3.50", "p"), CLOUD, used=0.2)),
    "two currencies without an exchange rate": lambda w: pool(
        w, OWNED, rate("on_demand", "3.50", currency="EUR"), used=0.1
    ),
    "not yet two days of books": lambda w: pool(w, OWNED, CLOUD, used=0.1, hours=40),
}


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_says_nothing_of(tmp_path: Path, case: str) -> None:
    world = World(tmp_path)
    MUST_NOT_FIRE[case](world)
    report = world.analyze(LENGTH, detectors=[RULE])

    assert ([], []) == (report.failed_rules, said(world, RULE))


def test_owned_gpus_that_are_hardly_used(tmp_path: Path) -> None:
    world = pool(World(tmp_path), OWNED, CLOUD, used=0.25)
    world.analyze(LENGTH, detectors=[RULE])
    (one,) = said(world, RULE)

    assert ("pool", "p", "info", "open", 0) == (one.kind, one.subject, one.severity, one.state, one.wasted_s)
    # 2 / 3.50 is 57 %. Of 48 hours 12.5 were held; the cloud would cost 2 x 730 x 0.26 x 3.50 a month, owning 2,920.
    told = ("cheaper", "gpus", "break_even_ratio", "utilisation_ratio", "owned_price", "cloud_price", "currency")
    assert ("cloud", 2, 0.5714, 0.2604, "2.000000", "3.500000", "USD") == tuple(one.evidence[name] for name in told)
    assert "1589.27" == one.evidence["saved_a_month"]
    assert "break-even at 57 % use, measured 26 %" in OWN_VS_CLOUD.summary(one.evidence)
    assert "Rent what is used" in OWN_VS_CLOUD.remedy(one.evidence)


def test_a_reservation_that_is_hardly_used_is_called_reserved(tmp_path: Path) -> None:
    world = pool(World(tmp_path), rate("reserved", "2"), CLOUD, used=0.25)
    world.analyze(LENGTH, detectors=[RULE])
    (one,) = said(world, RULE)

    assert ("reserved", "cloud") == (one.evidence["paid"], one.evidence["cheaper"])
    assert OWN_VS_CLOUD.summary(one.evidence).startswith("Reserved 2.00 against cloud 3.50 USD")
    assert "Let the reservation end" in OWN_VS_CLOUD.remedy(one.evidence)


def test_rented_gpus_that_are_used_all_the_time(tmp_path: Path) -> None:
    world = bought(pool(World(tmp_path), rate("on_demand", "6.88", "p"), used=1.0))
    world.analyze(LENGTH, detectors=[RULE])
    (one,) = said(world, RULE)

    assert ("p", "owned", "2.163467") == (one.subject, one.evidence["cheaper"], one.evidence["owned_price"])
    assert one.evidence["payback_months"] is not None
    assert "owning these GPUs costs less" in OWN_VS_CLOUD.remedy(one.evidence)


def test_it_is_reckoned_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuwatch.advisor import fleet as advisor_fleet

    reckoned: list[int] = []
    own = advisor_fleet.own_vs_cloud

    def counted(*arguments: object) -> object:
        reckoned.append(1)
        return own(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(advisor_fleet, "own_vs_cloud", counted)
    world = pool(World(tmp_path), OWNED, CLOUD, used=0.25)
    world.analyze(LENGTH, detectors=[RULE])
    world.analyze(LENGTH, detectors=[RULE], since_us=us(LENGTH - 120))
    assert [1] == reckoned

    replace_rates(world.state, [OWNED, rate("on_demand", "2.10")], "test", "test", 1)
    world.analyze(LENGTH, detectors=[RULE], since_us=us(LENGTH - 120))
    assert [1, 1] == reckoned
    assert ["2.100000"] == [one.evidence["cloud_price"] for one in said(world, RULE)]


@pytest.mark.slow
def test_one_pool_keeps_one_key_over_a_week(tmp_path: Path) -> None:
    at_once = pool(World(tmp_path / "whole"), OWNED, CLOUD, used=0.1, hours=24 * 7)
    at_once.analyze(60 * 24 * 7, detectors=[RULE])

    expected = [(one.key, one.started) for one in said(at_once, RULE)]
    assert 1 == len(expected)
    by_hour = pool(World(tmp_path / "hours"), OWNED, CLOUD, used=0.1, hours=24 * 7)
    assert expected == [(one.key, one.started) for one in hour_by_hour(by_hour, 24 * 7, RULE, step=42)]


def test_the_page_says_what_the_rule_does() -> None:
    page = Path(__file__).parents[2] / "docs" / "detectors" / f"{RULE}.md"

    assert printed_thresholds(OWN_VS_CLOUD) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
