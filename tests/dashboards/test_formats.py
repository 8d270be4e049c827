"""Numbers, times and names as they are said: what is missing is missing, never zero."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.dashboards.components import formats, quantities
from gpuwatch.report import text as report_text


@pytest.mark.parametrize(
    ("value", "currency", "expected"),
    [
        pytest.param(None, "USD", "–", id="no price is no zero"),
        pytest.param("NaN", "USD", "–", id="not a number is missing"),
        pytest.param(True, "USD", "–", id="a boolean is no money"),
        pytest.param("0", "USD", "$0", id="nothing is said without cents"),
        pytest.param("0.004", "USD", "$0.00", id="a fraction of a cent is not hidden as nothing at all"),
        pytest.param("12.346", "USD", "$12.35", id="small money has cents"),
        pytest.param("999.99", "USD", "$999.99", id="just below a thousand"),
        pytest.param("4645.4", "USD", "$4,645", id="four figures in full"),
        pytest.param("48190", "USD", "$48.2 k", id="tens of thousands as a person says them"),
        pytest.param("999999", "USD", "$1.00 M", id="rounding does not say 1000.0 k"),
        pytest.param("1250000", "EUR", "€1.25 M", id="millions of another currency"),
        pytest.param("-12.4", "USD", "-$12.40", id="a correction is negative"),
        pytest.param("5", "SEK", "SEK 5.00", id="a currency without a sign"),
    ],
)
def test_money(value: object, currency: str, expected: str) -> None:
    assert expected == formats.money(value, currency)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(None, "–", id="unknown time"),
        pytest.param("0", "0 GPU-h", id="none"),
        pytest.param("90", "1.5 GPU-min", id="below an hour in minutes"),
        pytest.param("3600", "1 GPU-h", id="an hour"),
        pytest.param("4622400", "1,284 GPU-h", id="with a separator"),
    ],
)
def test_gpu_time(seconds: object, expected: str) -> None:
    assert expected == formats.gpu_time(seconds)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        pytest.param(None, "–", id="not measured"),
        pytest.param(0, "0 %", id="measured as nothing"),
        pytest.param(0.0001, "< 0.1 %", id="little is not nothing"),
        pytest.param(0.0621, "6.2 %", id="a decimal below ten"),
        pytest.param("0.0996", "10 %", id="no 10.0"),
        pytest.param("0.37", "37 %", id="text from the API"),
    ],
)
def test_percent(ratio: object, expected: str) -> None:
    assert expected == formats.percent(ratio)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        pytest.param("5", None, None, id="nothing to compare with"),
        pytest.param("5", "0", None, id="from nothing there is no ratio"),
        pytest.param("100.1", "100", "no change", id="noise"),
        pytest.param("112", "100", "+12 %", id="more"),
        pytest.param("88", "100", "−12 %", id="less"),
        pytest.param("2500", "100", "+24×", id="far more"),
    ],
)
def test_change(now: object, before: object, expected: str | None) -> None:
    assert expected == formats.change(now, before)


def test_times_name_their_zone() -> None:
    assert "21 Nov 06:40 UTC" == formats.when("2026-11-21T07:40:00+01:00")
    assert "–" == formats.when("yesterday-ish")
    assert "9 Nov 00:00 – 12 Nov 00:00 UTC" == formats.span("2026-11-09T00:00:00Z", "2026-11-12T00:00:00Z")


def test_names_are_clipped_and_special_owners_are_words() -> None:
    assert "No team assigned" == formats.owner("__unallocated__")
    assert "–" == formats.owner(None)
    assert 80 == len(formats.clip("x" * 1_000_000))


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        pytest.param("Busy, SMs idle", "busy, SMs idle", id="SMs keep their capitals"),
        pytest.param("MIG remainder", "MIG remainder", id="an abbreviation stays"),
        pytest.param("Held idle", "held idle", id="a plain word is lowered"),
    ],
)
def test_a_label_within_a_sentence(label: str, expected: str) -> None:
    assert expected == formats.inside(label)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("2026-13", "2026-13", id="no month"),
        pytest.param("2026-11", "November 2026", id="a month"),
        pytest.param("2026-W07", "week 7 of 2026", id="a week"),
    ],
)
def test_a_period_is_in_words(name: object, expected: str) -> None:
    assert expected == formats.period(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("node-a/gpu0", "node-a/gpu0", id="no UUID stays"),
        pytest.param("GPU-1c1abed6-d93c-21e0-71c7-0", "GPU-1c1abed6", id="a GPU"),
        pytest.param("GPU-1c1abed6-d93c-21e0-71c7-0/GI-3", "GPU-1c1abed6/GI-3", id="a slice"),
    ],
)
def test_a_device_is_named_as_people_tell_it_apart(name: str, expected: str) -> None:
    assert expected == formats.device(name)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        pytest.param("2026-11-09T06:00:00Z", "9 Nov 00:00 – 06:00 UTC", id="within a day"),
        pytest.param("2026-11-10T00:00:00Z", "9 Nov 00:00 – 10 Nov 00:00 UTC", id="a whole day"),
        pytest.param(None, "9 Nov 00:00 – –", id="without an end"),
    ],
)
def test_a_span_within_a_day_names_the_day_once(end: str | None, expected: str) -> None:
    assert expected == formats.span("2026-11-09T00:00:00Z", end)


def test_a_class_of_work_is_in_words() -> None:
    assert ("compute tensor", formats.MISSING) == (
        formats.workload("compute-tensor"),
        formats.workload(None),
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("0.3035369792013764589256174146", "0.303537 x", id="six digits of a ratio"),
        pytest.param("10751.0158", "10,751 x", id="six digits, trailing zeros gone"),
        pytest.param("38703657.166144", "38,703,657 x", id="all of a large whole part"),
        pytest.param("-3.14159265", "-3.14159 x", id="below zero"),
        pytest.param("0.000123456789", "0.000123457 x", id="small"),
        pytest.param("0", "0 x", id="nothing"),
        pytest.param(None, "", id="unknown"),
    ],
)
def test_the_exact_value_of_a_tooltip(value: str | None, expected: str) -> None:
    assert expected == formats.exact(value, "x")


def test_a_column_of_money_has_one_number_of_decimals() -> None:
    """Cents below 1,000 only; what rounds to nothing is not zero, and what is unknown is missing."""
    assert ["379.33", "5.00"] == [
        formats.fixed(value, formats.money_places(["379.33", "5"])) for value in ("379.33", "5")
    ]
    assert ["2,855", "379", "< 1", "0", formats.MISSING] == [
        formats.fixed(value, formats.money_places(["2855.12", None]))
        for value in ("2855.12", "379.33", "0.4", "0", None)
    ]
    assert ["$399", "$3.20", "$1.28 k", "$21.4 k"] == [
        formats.rounded(value, "USD") for value in ("398.6", "3.2", "1284.4", "21400")
    ]


@given(st.decimals(-10_000_000_000, 10_000_000_000, places=2))
def test_money_in_sentences_is_that_of_the_reports(value: Decimal) -> None:
    printed = report_text.money(value, "USD").replace(report_text.GAP, " ").replace(report_text.MINUS, "-")

    assert printed == formats.rounded(value, "USD")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("free at 2026-11-14T11:37:44Z; a step waits", "free at 14 Nov 11:37 UTC; a step waits"),
        ("2026-11-14T11:37:44.123456Z and 2026-11-15T00:00:00Z", "14 Nov 11:37 UTC and 15 Nov 00:00 UTC"),
        ("job-2026-11-14T11 stays", "job-2026-11-14T11 stays"),
        (None, ""),
    ],
    ids=["in a sentence", "two of them", "a name is no instant", "no text"],
)
def test_instants_in_a_text_are_written_as_a_person_does(written: str | None, expected: str) -> None:
    assert expected == quantities.readable(written)


def test_evidence_has_a_name_that_says_what_it_is() -> None:
    assert ("GPUs with idle SMs", "Communicating", "Uncorrected memory errors", "Tensor cores") == tuple(
        quantities.label(name)
        for name in ("hollow_devices", "talking_gpu_hours", "ecc_dbe_count", "tensor_active_ratio")
    )
