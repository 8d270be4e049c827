"""The worked numbers of docs/charge-back/rates.md, computed again."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US, Window, parse_rfc3339
from gpuwatch.rates.card import PRICINGS, parse_rates
from gpuwatch.rates.commitments import shown, usage
from gpuwatch.rates.csv_table import plain, whole
from gpuwatch.rates.fx import Fx, exchanged, parse_fx
from gpuwatch.rates.owned import parse_owned
from gpuwatch.rates.spot import SpotPrice, spot_rates

TEXT = (Path(__file__).parents[2] / "docs/charge-back/rates.md").read_text("utf-8")
CARD, NODES, OWNED, FX = re.findall(r"```csv\n(.*?)```", TEXT, re.DOTALL)


def test_the_rate_card_of_the_page_is_one() -> None:
    assert [3.5, 2.1] == [
        float(rate.usd_per_gpu_hour) for rate in whole(parse_rates, CARD, "docs/charge-back/rates.md")
    ]


def test_the_price_by_node_of_the_page() -> None:
    (rate,) = whole(parse_rates, NODES, "docs/charge-back/rates.md")

    assert f"9 × 10 / (9 × 8 + 0.9 × 64 + 0.1 × 488) = {plain(rate.usd_per_gpu_hour)} USD" in TEXT


def test_the_order_of_pricings_is_that_of_the_code() -> None:
    assert ", then ".join(f"`{name}`" for name in PRICINGS) in TEXT


def test_the_commitment_of_the_page() -> None:
    """64 GPUs for a day, 60 of them there, 1,200 hours held."""
    rate = next(rate for rate in whole(parse_rates, CARD, "docs/charge-back/rates.md") if rate.quantity)
    start = parse_rfc3339("2026-11-02")
    words = {"commitment_id": "ri-2026", "usd_per_gpu_hour": "2.1", "currency": "USD", "share_num": 1, "share_den": 1}
    rows = [words | {"held": held, "device_us": hours * HOUR_US} for held, hours in ((True, 1200), (False, 240))]
    (one,) = usage([rate], Fx(), rows, Window(start, start + DAY_US))
    row = shown(one)

    assert (1536, 1200, 336, 96) == tuple(
        value / HOUR_US for value in (one.committed_us, one.used_us, one.unused_us, one.absent_us)
    )
    for number in (
        "1536",
        "96 GPU-hours are absent",
        *(row[f"{name}_cost"] for name in ("committed", "used", "unused")),
    ):
        assert number in TEXT


@pytest.mark.parametrize("number", ["80000", "11615.76", "151615.76", "2.163466894977"])
def test_the_owned_hardware_of_the_page(number: str) -> None:
    (one,) = whole(parse_owned, OWNED, "docs/charge-back/rates.md")
    invested = one.capex * (1 - one.residual) / one.years
    power = (one.kw or 0) * one.pue * 8760 * one.price_per_kwh
    computed = {plain(value) for value in (invested, power, invested + power + one.ops_per_year, one.hourly)}

    assert Fraction("151615.76") / (8 * 8760) == one.hourly_exact
    assert number in TEXT
    assert number in computed


def test_the_spot_price_of_the_page() -> None:
    price = SpotPrice("p5.48xlarge", "us-east-1a", "Linux/UNIX", 0, Decimal("24.000001"), "USD", "H100", 8)

    assert f"24.000001 / 8 = {spot_rates([price])[0].usd_per_gpu_hour}" in TEXT


def test_the_exchange_of_the_page() -> None:
    (one,) = whole(parse_fx, FX, "docs/charge-back/rates.md")

    assert f"2.49 EUR from November on is {exchanged(Decimal('2.49'), one)} USD" in TEXT
