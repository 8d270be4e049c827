"""A server whose clock jumps: what it stores, what its senders keep, and what it says about itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from gpuwatch.api.routes.admin.health import readiness
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.core.errors import TimeNotConfirmed
from gpuwatch.quality import clock_history
from gpuwatch.service import analyzer
from gpuwatch.service.collect import Collectors
from gpuwatch.service.service import Service
from gpuwatch.service.uptime import Uptime, machine_uptime
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store
from gpuwatch.store.time_bounds import BAD_TIME, RETIRED, TOO_NEW, TOO_OLD
from tests.service.feed import NOW_US, points
from tests.worlds.patience import PATIENCE_S

SHIFTS = [
    pytest.param(sign * shift_us, id=f"{name} {'ahead' if sign > 0 else 'back'}")
    for name, shift_us in (
        ("twenty minutes", 20 * MINUTE_US),
        ("an hour, as daylight saving taken for UTC", HOUR_US),
        ("two hours", 2 * HOUR_US),
        ("three days", 3 * DAY_US),
        ("25 days, past the end of the week and the month", 25 * DAY_US),
    )
    for sign in (1, -1)
]


class Machine:
    """A machine whose wall clock can be wrong, and the service on it."""

    def __init__(self, wrong_us: int = 0) -> None:
        self.true_us, self.wrong_us = NOW_US, wrong_us
        self.body: Sequence[Any] = []
        uptime = Uptime("boot", lambda: self.true_us - NOW_US + 5 * DAY_US)
        settings = Settings(raw_retention_days=14)
        self.service = Service.open(
            None, settings, {}, now_us=lambda: self.true_us + self.wrong_us, live=False, uptime=uptime
        )
        self.service._receivers["test"] = lambda *_: self.body
        self.service.start()

    def push(self, *times: int, source: str = "prometheus") -> int:
        """Pushes samples of these times; returns how many were refused for good. Raises TimeNotConfirmed."""
        self.body = [points(list(times))]
        return self.service.receive("test", b"", "", "c1", source).result(PATIENCE_S).rejects.total

    def stored(self) -> list[int]:
        return [row[0] for row in self.service.store.sql("select observed_us from sample_tail order by 1")]

    def ready(self) -> dict[str, Any]:
        return readiness(self.service, named=True)

    def steps(self) -> list[tuple[int, str, str | None]]:
        return [(row["shift_us"], row["outcome"], row["source"]) for row in clock_history.steps(self.service.store)]


@pytest.fixture
def machine() -> Iterator[Callable[..., Machine]]:
    opened: list[Machine] = []

    def make(wrong_us: int = 0) -> Machine:
        opened.append(Machine(wrong_us))
        return opened[-1]

    yield make
    for each in opened:
        each.service.stop()


# A right clock: nothing changes.


def test_samples_of_now_and_of_the_last_days_are_stored(machine: Callable[..., Machine]) -> None:
    server = machine()

    assert 0 == server.push(NOW_US, NOW_US - 13 * DAY_US)
    assert [NOW_US - 13 * DAY_US, NOW_US] == server.stored()
    assert ("ready", []) == (server.ready()["status"], server.ready()["reasons"])


def test_what_a_sender_got_wrong_is_refused_for_good_while_others_confirm_the_time(
    machine: Callable[..., Machine],
) -> None:
    server = machine()
    server.push(NOW_US, source="another sender")
    refused = [server.push(NOW_US + HOUR_US), server.push(NOW_US - 15 * DAY_US)]

    assert [1, 1] == refused
    assert [NOW_US] == server.stored()
    (source,) = (one for one in server.service.sources() if one.name == "prometheus")
    assert {TOO_NEW: 1, TOO_OLD: 1} == source.rejects.counts


def test_one_good_sample_of_the_body_confirms_the_time_too(machine: Callable[..., Machine]) -> None:
    assert 2 == machine().push(NOW_US, NOW_US + HOUR_US, NOW_US - 15 * DAY_US)


def test_a_time_in_a_wrong_unit_is_always_refused_for_good(machine: Callable[..., Machine]) -> None:
    server = machine()

    assert 1 == server.push(NOW_US // 1000)
    assert {BAD_TIME: 1} == server.service.sources()[0].rejects.counts


# A step while the server runs.


@pytest.mark.parametrize("shift_us", SHIFTS)
def test_a_clock_that_jumps_for_minutes_loses_nothing(machine: Callable[..., Machine], shift_us: int) -> None:
    server = machine()
    sent = []
    for wrong_us in (0, shift_us, shift_us, 0, 0):
        server.true_us += 2 * MINUTE_US
        server.wrong_us = wrong_us
        server.service.now_us()
        sent.append(server.true_us - 15 * SECOND_US)
        assert 0 == server.push(sent[-1])
        assert server.true_us == server.service.now_us()

    assert sent == server.stored()
    server.service.analyse_once()
    assert [(shift_us, "withdrawn", None)] == server.steps()


@pytest.mark.parametrize("shift_us", SHIFTS)
def test_a_correction_is_followed_once_a_sender_confirms_it(machine: Callable[..., Machine], shift_us: int) -> None:
    """The machine was wrong all the time, or slept: the new time is the right one."""
    server = machine()
    server.wrong_us = shift_us
    server.service.now_us()

    assert "degraded" == server.ready()["status"]

    assert 0 == server.push(NOW_US + shift_us)
    assert NOW_US + shift_us == server.service.now_us()
    assert "ready" == server.ready()["status"]
    server.service.analyse_once()
    assert [(shift_us, "confirmed", "prometheus")] == server.steps()


def test_senders_catch_up_after_the_machine_slept(machine: Callable[..., Machine]) -> None:
    """What they send first lies between the time before the sleep and now, and must not be asked for again and again."""
    server = machine()
    server.wrong_us = 3 * HOUR_US
    server.service.now_us()
    backlog = [NOW_US + n * HOUR_US for n in range(4)]

    assert [0, 0, 0, 0] == [server.push(at_us) for at_us in backlog]
    assert backlog == server.stored()


def test_nothing_is_recorded_for_a_time_that_only_our_own_clock_gives(machine: Callable[..., Machine]) -> None:
    server = machine()
    collectors: Collectors = server.service._collectors
    server.wrong_us = 25 * DAY_US
    with pytest.raises(TimeNotConfirmed, match="clock stepped 25.0 days ahead and no source has confirmed"):
        asyncio.run(collectors.commit("nvml", [points([server.service.now_us()])]))
    collectors.clock("c1", "http://n1:9400/metrics", 0, server.service.now_us())  # its Date header
    asyncio.run(collectors.commit("nvml", [points([server.service.now_us()])]))

    assert [NOW_US] == server.stored()


# A clock that is wrong from the start.


@pytest.mark.parametrize("hours", [2, 25 * 24])
def test_a_slow_server_asks_its_senders_to_keep_their_samples(machine: Callable[..., Machine], hours: int) -> None:
    server = machine(-hours * HOUR_US)
    with pytest.raises(
        TimeNotConfirmed, match="nothing of this body was stored: its newest time is 2026-11-02T00:00:00Z"
    ):
        server.push(NOW_US)

    assert [] == server.stored()
    assert "degraded" == server.ready()["status"]
    assert "confirmed by no source, and differs from that of prometheus" in server.ready()["reasons"][0]

    server.wrong_us = 0

    assert 0 == server.push(NOW_US)
    assert [NOW_US] == server.stored()
    assert "ready" == server.ready()["status"]


def test_a_server_that_is_weeks_ahead_asks_its_senders_to_keep_their_samples(machine: Callable[..., Machine]) -> None:
    server = machine(25 * DAY_US)
    with pytest.raises(TimeNotConfirmed, match="it has samples of 2026-11-02T00:00:00Z"):
        server.push(NOW_US)
    server.wrong_us = 0

    assert 0 == server.push(NOW_US)
    assert [NOW_US] == server.stored()


def test_a_scraped_server_with_another_time_stops_the_recording(machine: Callable[..., Machine]) -> None:
    server = machine(25 * DAY_US)
    collectors: Collectors = server.service._collectors
    collectors.clock("c1", "http://n1:9400/metrics", -25 * DAY_US, 0)
    with pytest.raises(TimeNotConfirmed, match="differs from that of c1/http://n1:9400/metrics"):
        asyncio.run(collectors.commit("dcgm", [points([server.service.now_us()])]))

    assert [] == server.stored()


def test_data_that_is_never_valid_does_not_block_its_sender_for_ever(machine: Callable[..., Machine]) -> None:
    """A sender with a wrong clock, and no other source to compare with."""
    server = machine()
    answers = []
    for hour in range(26):
        server.true_us = NOW_US + hour * HOUR_US
        try:
            answers.append(server.push(server.true_us + 48 * HOUR_US))
        except TimeNotConfirmed:
            answers.append(-1)

    assert [-1] * 25 + [1] == answers
    assert {TOO_NEW: 1} == server.service.sources()[0].rejects.counts


def test_samples_that_no_clock_would_keep_are_refused_at_once(machine: Callable[..., Machine]) -> None:
    """The newest stored sample shows it, whatever our own clock says."""
    server = machine()
    server.push(NOW_US)
    server.service.store.seal(NOW_US + 1)
    server.true_us += HOUR_US  # no fresh confirmation
    server.service.times.read(server.service.store)

    assert 1 == server.push(NOW_US - 20 * DAY_US)


# Days that were retired by mistake.


def test_samples_of_a_retired_day_are_kept_by_their_sender_and_then_refused(machine: Callable[..., Machine]) -> None:
    server = machine()
    store: Store = server.service.store
    server.push(NOW_US)
    store.sql(
        "insert into context_span (device_id, context_id, hour_us, first_us, last_us) values (1, 7, $h, $h, $h)",
        h=NOW_US,
    )
    server.service.times.read(store)
    with pytest.raises(TimeNotConfirmed, match="raw samples of 2026-11-02 are already deleted.*run gpuwatch repair"):
        server.push(NOW_US + 1)
    server.true_us += HOUR_US // 2
    with pytest.raises(TimeNotConfirmed):
        server.push(NOW_US + 1)
    server.true_us += HOUR_US // 2 + 1

    assert 1 == server.push(NOW_US + 1)
    assert [NOW_US] == server.stored()
    assert {RETIRED: 1} == server.service.sources()[0].rejects.counts


# Passes.


def test_retention_does_not_run_while_the_clock_is_in_doubt(
    machine: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = machine()
    runs: list[bool] = []
    analyze = analyzer.analyze
    monkeypatch.setattr(
        "gpuwatch.service.analyzer.analyze",
        lambda *args, **more: runs.append(more["retention"]) or analyze(*args, **more),
    )
    server.wrong_us = 25 * DAY_US
    server.service.wake()
    server.service.analyse_once()
    server.wrong_us = 0
    server.service.wake()
    server.service.analyse_once()

    assert [False, True] == runs


def test_a_pass_that_fails_makes_the_service_degraded_with_the_reason(
    machine: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = machine()

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("the ledger does not close")

    with monkeypatch.context() as patch:
        patch.setattr("gpuwatch.service.analyzer.analyze", fail)
        server.service.analyse_once()
    found = server.ready()

    assert ("degraded", ["the last analysis failed: ValueError: the ledger does not close"]) == (
        found["status"],
        found["reasons"],
    )
    assert 1 == server.service.metrics.get_sample_value("gpuwatch_analysis_failed")

    server.service.analyse_once()

    assert "ready" == server.ready()["status"]
    assert 0 == server.service.metrics.get_sample_value("gpuwatch_analysis_failed")


def test_the_clock_is_in_the_metrics(machine: Callable[..., Machine]) -> None:
    server = machine()
    value = server.service.metrics.get_sample_value
    server.wrong_us = DAY_US

    assert 1 == value("gpuwatch_clock_doubted")

    server.wrong_us = 0

    assert 0 == value("gpuwatch_clock_doubted")
    server.service.analyse_once()
    assert 1 == value("gpuwatch_clock_steps_total", {"outcome": "withdrawn"})


def test_a_step_between_two_runs_of_the_server_is_noticed(tmp_path: Any) -> None:
    true_us, wrong_us = NOW_US, 0

    def opened() -> Service:
        uptime = Uptime("boot", lambda: true_us - NOW_US + DAY_US)
        return Service.open(tmp_path, Settings(), {}, now_us=lambda: true_us + wrong_us, live=False, uptime=uptime)

    first = opened()
    first.start()
    first.analyse_once()
    first.stop()
    true_us, wrong_us = NOW_US + HOUR_US, 25 * DAY_US
    second = opened()
    found = second.now_us(), second.concerns()
    second.start()
    second.stop()

    assert NOW_US + HOUR_US == found[0]
    assert ["clock stepped 25.0 days ahead" in concern for concern in found[1]] == [True]


def test_the_uptime_of_the_machine_goes_on() -> None:
    """It is read from one open file; every reading is the present one."""
    uptime = machine_uptime()
    first_us, begun = uptime.read_us(), time.monotonic()
    time.sleep(0.05)

    assert uptime.read_us() >= first_us + 30_000
    assert uptime.read_us() <= first_us + (time.monotonic() - begun) * 1_000_000 + 20_000
