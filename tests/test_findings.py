"""Severity by money a day, and the read side of findings."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gpuwatch import findings
from gpuwatch.clock import DAY_US, HOUR_US
from gpuwatch.errors import UsageError
from gpuwatch.store import Store


@pytest.mark.parametrize(
    ("cost", "elapsed_us", "expected"),
    [
        pytest.param(None, DAY_US, "low", id="no price is not harmless"),
        pytest.param(Fraction(0), DAY_US, "info", id="nothing wasted"),
        pytest.param(Fraction(999, 100), DAY_US, "info", id="just below ten a day"),
        pytest.param(Fraction(10), DAY_US, "low", id="ten a day"),
        pytest.param(Fraction(100), DAY_US, "medium", id="a hundred a day"),
        pytest.param(Fraction(1000), DAY_US, "high", id="a thousand a day"),
        pytest.param(Fraction(1), HOUR_US // 60, "low", id="a minute counts as an hour"),
    ],
)
def test_severity_is_money_a_day(cost: Fraction | None, elapsed_us: int, expected: str) -> None:
    assert expected == findings.severity_of(cost, elapsed_us)


def test_an_empty_store_has_no_findings() -> None:
    with Store.open(None, threads=1) as store:
        assert [] == findings.read(store)


def test_an_unknown_detector_is_named() -> None:
    with Store.open(None, threads=1) as store, pytest.raises(UsageError, match="no-such-rule"):
        findings.read(store, detectors=["no-such-rule"])
