"""The lines below a ledger: unknown is not zero, and the money is that of the rows above."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.billing.listings import measures_lines


def measure(seconds: str | None, cost: str | None) -> dict[str, Any]:
    return {"gpu_seconds": seconds, "cost": cost, "ratio": None}


def bucket(name: str, cost: str | None, avoidable: str = "0") -> dict[str, Any]:
    return {"bucket": name, "gpu_seconds": "3600", "avoidable_gpu_seconds": avoidable, "cost": cost, "currency": "USD"}


def lines(measured_ratio: float | None, *items: dict[str, Any], **measures: dict[str, Any]) -> list[str]:
    none = measure("0.000000", "0.00")
    named = {name: measures.get(name, none) for name in ("working", "avoidable", "free")}
    rest = {name: measures.get(name, none) for name in ("not_measured", "out_of_service")}
    more = {"unknown": rest, "currency": "USD", "roofline_efficiency": None, "measured_ratio": measured_ratio}
    return measures_lines({"items": list(items), **named, **more})


@pytest.mark.parametrize(
    ("expected", "ratio", "working"),
    [
        pytest.param("Working: unknown, nothing was measured", 0, None, id="nothing was measured"),
        pytest.param(
            "Working: unknown, most of the held time was not measured",
            0.1,
            "0.000000",
            id="no work in the little that was",
        ),
        pytest.param("Working: 2.0 GPU-hours, 1,234.50 USD", 0.1, "7200.000000", id="work in the little that was"),
        pytest.param(
            "Working: 0.0 GPU-hours, 1,234.50 USD", 0.9, "0.000000", id="no work where most was measured is zero"
        ),
    ],
)
def test_unknown_is_not_zero(expected: str, ratio: float, working: str | None) -> None:
    assert expected in lines(ratio, working=measure(working, "1234.50"))


@pytest.mark.parametrize(
    ("expected", "items"),
    [
        pytest.param("624.15", [bucket("unobserved", None)], id="a row without a price: as it was summed"),
        pytest.param("624.15", [bucket("hoarded", "9.00")], id="no row of it"),
        pytest.param(
            "624.14", [bucket("unobserved", "600.04"), bucket("unobserved", "24.10")], id="as the rows add up"
        ),
    ],
)
def test_money_is_that_of_the_rows(expected: str, items: list[dict[str, Any]]) -> None:
    found = lines(0.9, *items, not_measured=measure("3600", "624.15"))

    assert f"Not measured: 1.0 GPU-hours, {expected} USD" in found


def test_time_that_findings_claim_of_another_bucket_is_not_in_the_rows_of_the_avoidable_ones() -> None:
    rows = [bucket("below_roof", "5.00", avoidable="1800"), bucket("hoarded", "3.00")]
    found = lines(0.9, *rows, avoidable=measure("5400", "5.50"), working=measure("1800", "2.50"))

    assert ["Working: 0.5 GPU-hours, 2.50 USD", "Avoidable: 1.5 GPU-hours, 5.50 USD"] == found
