"""Pools that are paid in the dearer way: pools that are paid well, or of which too little is known, first."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from tests.worlds.subjects import SubjectFinding, findings_of, hour_by_hour, offer

RULE = "own-vs-cloud"
A100 = "NVIDIA A100-SXM4-80GB"
HOURS = 50
LENGTH = 60 * HOURS


def rate(pricing: str, price: str, pool: str | None = None, currency: str = "USD") -> Rate:
    return Rate(H100, pricing, Decimal(price), us(-60 * 24), None, None, pool, None, currency)


def pool(world: World, *rates: Rate, used: float, hours: int = HOURS, name: str = "p", model: str = H100) -> World:
    """Two GPUs of a pool, of whose time a part is held; `rates` become all rates."""
    offer(world, f"node of {name}", name, {"": 2}, None)
    for gpu in (f"{name} a", f"{name} b"):
        held = round(60 * hours * used)
        world.gpu(gpu, (held, WORK), (60 * hours - held, IDLE), step_s=1200, model=model, node=f"node of {name}")
        if held:
            world.job(f"job of {gpu}", [gpu], 0, held, node=f"node of {name}")
    replace_rates(world.state, list(rates), "test", "test", 0)
    return world


def buy(world: World) -> None:
    """A100 hardware that may be owned: 2.163 dollars a GPU-hour."""
    hardware = Owned(
        name="dgx",
        gpu_model=A100,
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


OWNED, CLOUD = rate("owned", "2"), rate("on_demand", "3.50")


@dataclass(frozen=True)
class Pool:
    """The rates of a pool, and the part of its time that is held. GPUs that could be bought are A100s."""

    rates: tuple[Rate, ...]
    used: float
    model: str = H100


SILENT = {
    "owned GPUs that are used above the break-even": Pool((OWNED, CLOUD), 0.9),
    "owned GPUs that are used a little less than the break-even": Pool((OWNED, CLOUD), 0.5),
    "nobody says what the cloud costs": Pool((OWNED,), 0.1),
    "nobody says what the owned GPUs cost": Pool((rate("on_demand", "3.50", "elsewhere"),), 0.1),
    "rented GPUs, and no hardware to compare with": Pool((CLOUD,), 0.9),
    "rented GPUs that are used little": Pool((CLOUD,), 0.2, A100),
    "two currencies without an exchange rate": Pool((OWNED, rate("on_demand", "3.50", currency="EUR")), 0.1),
}
REPORTED = {
    "owned": Pool((OWNED, CLOUD), 0.25),
    "reserved": Pool((rate("reserved", "2"), CLOUD), 0.25),
    "rented": Pool((rate("on_demand", "6.88"),), 1.0, A100),
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SubjectFinding]:
    """What the rule reports of all pools above, which are one cluster, by pool."""
    world = World(tmp_path_factory.mktemp("pools"))
    rates = []
    for name, one in (SILENT | REPORTED).items():
        pool(world, used=one.used, name=name, model=one.model)
        rates += [replace(listed, gpu_model=one.model, pool=listed.pool or name) for listed in one.rates]
    replace_rates(world.state, rates, "test", "test", 0)
    buy(world)
    report = world.analyze(LENGTH, detectors=[RULE])
    found = findings_of(world, RULE)

    assert ([], len(found)) == (report.failed_rules, len({one.subject for one in found}))
    return {one.subject: one for one in found}


@pytest.mark.parametrize("case", SILENT)
def test_says_nothing_of(findings: dict[str, SubjectFinding], case: str) -> None:
    assert case not in findings


def test_says_nothing_where_two_days_are_not_yet_known(tmp_path: Path) -> None:
    world = pool(World(tmp_path), OWNED, CLOUD, used=0.1, hours=40)
    report = world.analyze(LENGTH, detectors=[RULE])

    assert ([], []) == (report.failed_rules, findings_of(world, RULE))


def test_nothing_else_is_reported(findings: dict[str, SubjectFinding]) -> None:
    assert set(REPORTED) == set(findings)


def test_owned_gpus_that_are_hardly_used(findings: dict[str, SubjectFinding]) -> None:
    one = findings["owned"]

    assert ("pool", "info", "open", 0) == (one.kind, one.severity, one.state, one.wasted_s)
    # 2 / 3.50 is 57 %. Of 48 hours 12.5 were held; the cloud would cost 2 x 730 x 0.26 x 3.50 a month, owning 2,920.
    names = ("cheaper", "gpus", "break_even_ratio", "utilisation_ratio", "owned_price", "cloud_price", "currency")
    assert ("cloud", 2, 0.5714, 0.2604, "2.000000", "3.500000", "USD") == tuple(one.evidence[name] for name in names)
    assert "1589.27" == one.evidence["saved_a_month"]
    assert "owning pays from 57 % use on, measured 26 %: the difference is $1,589 a month." in OWN_VS_CLOUD.summary(
        one.evidence
    )
    assert "Rent what is used" in OWN_VS_CLOUD.remedy(one.evidence)


def test_a_reservation_that_is_hardly_used_is_called_reserved(findings: dict[str, SubjectFinding]) -> None:
    one = findings["reserved"]

    assert ("reserved", "cloud") == (one.evidence["paid"], one.evidence["cheaper"])
    assert OWN_VS_CLOUD.summary(one.evidence).startswith("A GPU-hour costs $2.00 reserved and $3.50 in the cloud; ")
    assert "Let the reservation end" in OWN_VS_CLOUD.remedy(one.evidence)


def test_rented_gpus_that_are_used_all_the_time(findings: dict[str, SubjectFinding]) -> None:
    one = findings["rented"]

    assert ("owned", "2.163467") == (one.evidence["cheaper"], one.evidence["owned_price"])
    assert one.evidence["payback_months"] is not None
    assert "owning these GPUs costs less" in OWN_VS_CLOUD.remedy(one.evidence)


def test_it_is_computed_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuwatch.advisor import fleet as advisor_fleet

    estimated: list[int] = []
    own = advisor_fleet.own_vs_cloud

    def counted(*arguments: object) -> object:
        estimated.append(1)
        return own(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(advisor_fleet, "own_vs_cloud", counted)
    world = pool(World(tmp_path), OWNED, CLOUD, used=0.25)
    world.analyze(LENGTH, detectors=[RULE])
    world.analyze(LENGTH, detectors=[RULE], since_us=us(LENGTH - 120))
    assert [1] == estimated

    replace_rates(world.state, [OWNED, rate("on_demand", "2.10")], "test", "test", 1)
    world.analyze(LENGTH, detectors=[RULE], since_us=us(LENGTH - 120))
    assert [1, 1] == estimated
    assert ["2.100000"] == [one.evidence["cloud_price"] for one in findings_of(world, RULE)]


@pytest.mark.slow
def test_one_pool_keeps_one_key_over_four_days(tmp_path: Path) -> None:
    at_once = pool(World(tmp_path / "whole"), OWNED, CLOUD, used=0.1, hours=24 * 4)
    at_once.analyze(60 * 24 * 4, detectors=[RULE])

    expected = [(one.key, one.started) for one in findings_of(at_once, RULE)]
    assert 1 == len(expected)
    by_hour = pool(World(tmp_path / "hours"), OWNED, CLOUD, used=0.1, hours=24 * 4)
    assert expected == [(one.key, one.started) for one in hour_by_hour(by_hour, 24 * 4, RULE, step=24)]


def test_the_page_says_what_the_rule_does() -> None:
    page = Path(__file__).parents[2] / "docs" / "detectors" / f"{RULE}.md"

    assert printed_thresholds(OWN_VS_CLOUD) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
