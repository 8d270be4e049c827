"""Clocks that differ from ours: when nothing may be said, and what is said."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gpuwatch.core.clock import parse_rfc3339, rfc3339
from gpuwatch.core.model import CONTEXT, POINT, SERIES, Points, Records
from gpuwatch.quality import doctor
from gpuwatch.quality.clocks import FRESH_US, READ_EVERY_US, READINGS_MIN, SENDERS_MAX, Clocks, WrongClock

T0_US = 1_793_577_600_000_000
S = 1_000_000


def push(newest_us: dict[str, int]) -> list[Records | Points]:
    """One reading a node, as a receiver decodes them."""
    nodes = list(newest_us)
    contexts = [{"context_id": 100 + n, "cluster": "c1", "node": node} for n, node in enumerate(nodes)]
    series = [
        {"series": n, "device_id": n, "context_id": 100 + n, "field": "sm_active_ratio"} for n in range(len(nodes))
    ]
    rows = [{"series": n, "observed_us": newest_us[node], "value": 0.5} for n, node in enumerate(nodes)]
    return [
        Records("context", pa.Table.from_pylist(contexts, schema=CONTEXT)),
        Points(pa.Table.from_pylist(series, schema=SERIES), pa.Table.from_pylist(rows, schema=POINT)),
    ]


def pushed(offsets_s: dict[str, float], looks: int = READINGS_MIN) -> list[WrongClock]:
    """What is said of nodes whose newest samples are that far from now, after some looks."""
    clocks = Clocks()
    for look in range(looks):
        now_us = T0_US + look * READ_EVERY_US
        clocks.record_pushed("sender", push({node: now_us + round(s * S) for node, s in offsets_s.items()}), now_us)
    return clocks.wrong(T0_US + looks * READ_EVERY_US)


@pytest.mark.parametrize(
    "offsets_s",
    [
        pytest.param({"n1": -3, "n2": -9}, id="a normal way to here"),
        pytest.param(
            {"n1": -7200, "n2": -7205, "n3": -7190}, id="a sender that catches up after an outage is late in all"
        ),
        pytest.param({"n1": -7200}, id="one node alone may only be late"),
        pytest.param({"n1": 2, "n2": -3}, id="two seconds ahead is within what clocks do"),
        pytest.param({"n1": -5, "n2": -45, "n3": -20}, id="phases of a scrape interval"),
    ],
)
def test_pushes_that_say_nothing_of_a_clock(offsets_s: dict[str, float]) -> None:
    assert [] == pushed(offsets_s)


def test_one_look_is_not_enough() -> None:
    assert [] == pushed({"n1": 600}, looks=READINGS_MIN - 1)


def test_samples_from_the_future_are_a_clock_ahead() -> None:
    assert [WrongClock("c1", "n1", 20 * S)] == pushed({"n1": 20, "n2": -3})


def test_a_node_far_behind_the_others_of_its_sender_is_behind() -> None:
    assert [WrongClock("c1", "n3", -295 * S)] == pushed({"n1": -5, "n2": -5, "n3": -300})


def test_one_late_delivery_among_timely_ones_is_no_wrong_clock() -> None:
    clocks = Clocks()
    for look, late_s in enumerate((5, 4, 400, 5, 5)):
        now_us = T0_US + look * READ_EVERY_US
        clocks.record_pushed(
            "sender", push({"n1": now_us - late_s * S, "n2": now_us - 4 * S, "n3": now_us - 4 * S}), now_us
        )

    assert [] == clocks.wrong(now_us)


def test_a_clock_that_was_read_is_off_by_the_middle_of_its_looks() -> None:
    clocks = Clocks()
    for offset_s in (-11, -12, -300):
        clocks.record("c1", "dcgm n1:9400", offset_s * S, T0_US)

    assert [WrongClock("c1", "dcgm n1:9400", -12 * S)] == clocks.wrong(T0_US)
    assert [] == clocks.wrong(T0_US + FRESH_US + 1)


def test_senders_without_end_are_forgotten() -> None:
    clocks = Clocks()
    for number in range(SENDERS_MAX + 10):
        clocks.record_pushed(f"sender {number}", [], T0_US)

    assert SENDERS_MAX == len(clocks._read_at)


def test_the_check_names_them_and_the_fix() -> None:
    check = doctor.clocks([WrongClock("c1", "n1", 20 * S), WrongClock("c1", "n3", -90 * S)])

    assert "2 clocks differ from this machine's: c1/n1 (20 s ahead), c1/n3 (90 s behind)" == check.what
    assert "chronyc" in check.fix
    assert "ok" == doctor.clocks([]).status


def test_a_time_that_cannot_be_written_again_is_refused() -> None:
    """The ends of the calendar, in a zone that leads beyond them."""
    for text in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"):
        with pytest.raises(ValueError, match="years 1 to 9999"):
            parse_rfc3339(text)
    assert "9999-12-31T23:59:59Z" == rfc3339(parse_rfc3339("9999-12-31T23:59:59Z"))
