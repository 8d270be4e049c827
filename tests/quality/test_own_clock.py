"""The server's own clock: a step is followed only once another clock confirms the new time."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.quality.own_clock import (
    CONFIRMED,
    UNCONFIRMED,
    WITHDRAWN,
    WRONG,
    OwnClock,
    Step,
)

T0_US = 1_793_577_600_000_000
"""Monday 2026-11-02T00:00:00Z."""
BOOT_US = 5 * DAY_US


@dataclass
class Machine:
    """A machine whose wall clock can be set; its uptime cannot."""

    true_us: int = T0_US
    wrong_us: int = 0

    def wall_us(self) -> int:
        return self.true_us + self.wrong_us

    def uptime_us(self) -> int:
        return self.true_us - T0_US + BOOT_US

    def clock(self, offset_us: int | None = None) -> OwnClock:
        return OwnClock(self.wall_us, self.uptime_us, offset_us)


SHIFTS = [
    pytest.param(sign * shift_us, id=f"{name} {'ahead' if sign > 0 else 'back'}")
    for name, shift_us in (
        ("two minutes", 2 * MINUTE_US),
        ("ten minutes", 10 * MINUTE_US),
        ("an hour, as daylight saving taken for UTC", HOUR_US),
        ("a day", DAY_US),
        ("three weeks", 21 * DAY_US),
    )
    for sign in (1, -1)
]


@pytest.mark.parametrize(
    "wrong_us",
    [
        pytest.param(0, id="a steady clock"),
        pytest.param(50 * SECOND_US, id="a correction below a minute"),
        pytest.param(-50 * SECOND_US, id="a small correction back"),
    ],
)
def test_small_corrections_are_followed_and_are_no_steps(wrong_us: int) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.true_us += HOUR_US
    machine.wrong_us = wrong_us

    assert T0_US + HOUR_US + wrong_us == clock.now_us()
    assert [] == clock.take_steps()
    assert clock.doubt() is None


def test_slewing_by_many_small_corrections_is_no_step() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(100):
        machine.true_us += MINUTE_US
        machine.wrong_us += 30 * SECOND_US
        assert machine.wall_us() == clock.now_us()

    assert [] == clock.take_steps()


@pytest.mark.parametrize("shift_us", SHIFTS)
def test_a_step_is_not_followed_until_a_source_confirms_it(shift_us: int) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.true_us += HOUR_US
    machine.wrong_us = shift_us

    assert T0_US + HOUR_US == clock.now_us()
    assert "no source has confirmed the new time yet" in (clock.doubt() or "")

    clock.record("n1", shift_us)  # the other machine has the new time

    assert machine.wall_us() == clock.now_us()
    assert clock.doubt() is None
    assert [Step(T0_US + HOUR_US, shift_us, CONFIRMED, "n1")] == clock.take_steps()


@pytest.mark.parametrize("shift_us", SHIFTS)
def test_a_wrong_step_is_never_followed_and_ends_when_the_clock_is_right_again(shift_us: int) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wrong_us = shift_us
    clock.now_us()
    clock.record("n1", 0)  # the other machine has the time before the step
    machine.true_us += 5 * MINUTE_US

    assert machine.true_us == clock.now_us()
    assert clock.doubt() is None  # n1 confirms the time that is used
    assert clock.confirmed()

    machine.wrong_us = 0

    assert machine.true_us == clock.now_us()
    assert [Step(T0_US, shift_us, WITHDRAWN)] == clock.take_steps()


@pytest.mark.parametrize("shift_us", SHIFTS)
def test_samples_of_senders_confirm_the_time_that_they_are_near(shift_us: int) -> None:
    for right_us, followed in ((0, False), (shift_us, True)):
        machine = Machine()
        clock = machine.clock()
        machine.wrong_us = shift_us
        clock.now_us()
        clock.record_pushed("prometheus", T0_US + right_us - 15 * SECOND_US)

        assert T0_US + (shift_us if followed else 0) == clock.now_us()


def test_old_samples_do_not_prove_that_a_step_ahead_was_wrong() -> None:
    """After a machine slept, its senders first send what waited meanwhile."""
    machine = Machine()
    clock = machine.clock()
    machine.wrong_us = 3 * HOUR_US
    clock.record_pushed("prometheus", T0_US)

    assert clock.doubt() is not None
    assert (T0_US, T0_US + 3 * HOUR_US) == clock.both_us()

    clock.record_pushed("prometheus", T0_US + 3 * HOUR_US - MINUTE_US)

    assert clock.doubt() is None
    assert T0_US + 3 * HOUR_US == clock.now_us()


def test_without_any_other_clock_a_step_is_accepted_after_an_hour() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wrong_us = DAY_US
    clock.now_us()
    machine.true_us += HOUR_US

    assert machine.true_us == clock.now_us()

    machine.true_us += SECOND_US

    assert machine.wall_us() == clock.now_us()
    assert [Step(T0_US, DAY_US, UNCONFIRMED)] == clock.take_steps()


def test_each_step_of_a_clock_that_keeps_jumping_is_recorded() -> None:
    machine = Machine()
    clock = machine.clock()
    for wrong_us in (DAY_US, 3 * DAY_US):
        machine.wrong_us = wrong_us
        clock.now_us()
        clock.record("n1", 0)
    machine.wrong_us = 0

    assert T0_US == clock.now_us()
    assert [Step(T0_US, DAY_US, WRONG), Step(T0_US, 3 * DAY_US, WITHDRAWN)] == clock.take_steps()
    assert [] == clock.take_steps()


def test_a_step_while_the_process_was_stopped_is_noticed() -> None:
    machine = Machine()
    offset_us = machine.clock().offset_us
    machine.true_us += HOUR_US
    machine.wrong_us = 25 * DAY_US
    clock = machine.clock(offset_us)

    assert T0_US + HOUR_US == clock.now_us()
    assert clock.doubt() is not None

    machine.wrong_us = 0
    clock.now_us()

    assert [Step(T0_US + HOUR_US, 25 * DAY_US, WITHDRAWN)] == clock.take_steps()


def test_a_clock_that_no_source_confirms_and_one_contradicts_is_doubted() -> None:
    machine = Machine(wrong_us=-2 * HOUR_US)
    clock = machine.clock()

    assert clock.doubt() is None

    clock.record("n1", 2 * HOUR_US)

    assert "confirmed by no source, and differs from that of n1 (2.0 hours ahead)" in (clock.doubt() or "")
    assert not clock.confirmed()

    clock.record("n2", 0)  # one of the two is wrong, and it is not known to be ours

    assert clock.doubt() is None


def test_an_old_reading_counts_no_more() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.record("n1", 0)
    assert clock.confirmed()
    machine.true_us += 16 * MINUTE_US

    assert not clock.confirmed()


def test_late_samples_neither_confirm_nor_contradict() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.record_pushed("prometheus", T0_US - DAY_US)

    assert not clock.confirmed()
    assert clock.doubt() is None


def test_wrong_samples_of_a_sender_do_not_take_back_that_it_confirmed_the_time() -> None:
    """One of its exporters has a wrong clock."""
    machine = Machine()
    clock = machine.clock()
    clock.record_pushed("prometheus", T0_US)
    clock.record_pushed("prometheus", T0_US + HOUR_US)

    assert clock.confirmed()

    machine.true_us += 16 * MINUTE_US
    clock.record_pushed("prometheus", T0_US + HOUR_US)

    assert not clock.confirmed()


# A clock that is wrong from the first start: nothing of before to compare with.


def started(wrong_us: int, readings: dict[str, int], pushed: dict[str, int]) -> OwnClock:
    """A clock that was wrong at the first start, other clocks as they are ahead of the right time, and times of samples."""
    machine = Machine(wrong_us=wrong_us)
    clock = machine.clock()
    for name, ahead_us in readings.items():
        clock.record(name, ahead_us - wrong_us)
    for name, ahead_us in pushed.items():
        clock.record_pushed(name, T0_US + ahead_us)
    return clock


@pytest.mark.parametrize(
    ("wrong_us", "readings", "pushed"),
    [
        pytest.param(0, {"api": 0, "prometheus": 0}, {"node": 0}, id="a right clock"),
        pytest.param(0, {"api": 5 * MINUTE_US}, {}, id="one server that is a few minutes off"),
        pytest.param(0, {"api": 5 * MINUTE_US, "n2": -5 * MINUTE_US}, {}, id="two that do not agree"),
        pytest.param(0, {"api": 5 * MINUTE_US, "n2": 5 * MINUTE_US, "n3": 0}, {}, id="one that confirms it"),
        pytest.param(0, {"api": 50 * SECOND_US, "n2": 50 * SECOND_US}, {}, id="less than a minute"),
        pytest.param(0, {}, {"a": -5 * MINUTE_US, "b": -5 * MINUTE_US}, id="samples that are late"),
        pytest.param(0, {"api": 5 * MINUTE_US, "n2": 5 * MINUTE_US}, {"a": 0}, id="samples of a third that confirm it"),
    ],
)
def test_a_first_start_is_not_doubted_without_two_that_agree(
    wrong_us: int, readings: dict[str, int], pushed: dict[str, int]
) -> None:
    assert started(wrong_us, readings, pushed).doubt() is None


@pytest.mark.parametrize(
    ("wrong_us", "readings", "pushed"),
    [
        pytest.param(2 * MINUTE_US, {"api": 0, "prometheus": 20 * SECOND_US}, {}, id="two servers, two minutes ahead"),
        pytest.param(-2 * MINUTE_US, {"api": 0, "prometheus": 0}, {}, id="two servers, two minutes behind"),
        pytest.param(-5 * MINUTE_US, {"prometheus": 0}, {"sender": 0}, id="a server and the samples of a sender"),
        pytest.param(-3 * MINUTE_US, {}, {"one": 0, "two": 0}, id="the samples of two senders"),
        pytest.param(-DAY_US, {"api": 0}, {}, id="one server, a day"),
        pytest.param(25 * DAY_US, {"api": 0}, {}, id="one server, 25 days"),
    ],
)
def test_a_first_start_with_a_wrong_clock_is_doubted(
    wrong_us: int, readings: dict[str, int], pushed: dict[str, int]
) -> None:
    clock = started(wrong_us, readings, pushed)

    assert "is confirmed by no source, and differs from that of" in (clock.doubt() or "")

    for name in readings:  # the clock is set, and the others are read again
        clock.record(name, 0)
    for name in pushed:
        clock.record_pushed(name, clock.now_us())

    assert clock.doubt() is None
