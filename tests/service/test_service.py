"""The service in memory: pushed and live data become books and findings, and nothing stops the rest."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.core.errors import StoreBusy, UnreadableInput, UsageError
from gpuwatch.core.model import CLAIM, Rejects
from gpuwatch.core.registry import Sink
from gpuwatch.quality import status as quality_status
from gpuwatch.quality.status import OTHERS, Sources
from gpuwatch.service import collect, read_pool
from gpuwatch.service.backup import backup
from gpuwatch.service.collect import Collectors, configured
from gpuwatch.service.read_pool import Readers
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.lockfile import Note, find, leave, take_away, url_of
from tests.service.feed import NOW_US, points
from tests.worlds.patience import PATIENCE_S

HOUR_US = 3_600_000_000


def clock() -> int:
    return NOW_US


@pytest.fixture
def service() -> Iterator[Service]:
    opened = Service.open(None, Settings(), {}, now_us=clock, live=False)
    opened.start()
    yield opened
    opened.stop()


# Pushed bodies.


def receiving(service: Service, decode: Callable[..., Sequence[Any]]) -> None:
    """Puts a decoder of the test's own in place."""
    service._receivers["test"] = decode


def test_a_pushed_body_is_on_disk_when_its_future_is_done(service: Service) -> None:
    receiving(service, lambda body, *_: [points([NOW_US], value=float(body))])
    received = service.receive("test", b"0.25", "text/plain", "c1", "sender").result(PATIENCE_S)

    assert (1, 0) == (received.rows, received.rejects.total)
    assert [(0.25,)] == service.store.sql("select gr_engine_ratio from sample_tail")
    assert [("sender", "test", "c1", 1)] == [(s.name, s.kind, s.cluster, s.samples) for s in service.sources()]


def test_an_unreadable_body_is_reported_and_the_next_one_is_taken(service: Service) -> None:
    def decode(body: bytes, *_: Any) -> Sequence[Any]:
        if body == b"bad":
            raise UnreadableInput("not a body")
        return [points([NOW_US])]

    receiving(service, decode)
    with pytest.raises(UnreadableInput, match="not a body"):
        service.receive("test", b"bad", "", "c1", "sender").result(PATIENCE_S)
    assert "not a body" == service.sources()[0].error

    service.receive("test", b"good", "", "c1", "sender").result(PATIENCE_S)
    assert service.sources()[0].error is None


def test_one_bad_body_of_a_sender_that_was_understood_is_its_reject(service: Service) -> None:
    """A sender may be quiet for long: one mistake must not look like a source that fails until it sends again."""

    def decode(body: bytes, *_: Any) -> Sequence[Any]:
        if body == b"bad":
            raise UnreadableInput("not a\n body")
        return [points([NOW_US])]

    receiving(service, decode)
    listed = []
    for body in (b"bad", b"good", b"bad"):
        failure = service.receive("test", body, "", "c1", "sender").exception(PATIENCE_S)
        (source,) = service.sources()
        listed.append((failure is None, source.state(NOW_US), source.rejects.counts))
    unread = "body cannot be read"

    assert [(False, "failing", {unread: 1}), (True, "ok", {unread: 1}), (False, "ok", {unread: 2})] == listed
    assert ("sender", 0, "not a body") == service.sources()[0].rejects.first[unread]


def test_refused_readings_are_counted_for_their_sender(service: Service) -> None:
    receiving(service, lambda *_: [points([NOW_US, 0])])
    received = service.receive("test", b"", "", "c1", "sender").result(PATIENCE_S)

    assert (1, 1) == (received.rows, received.rejects.total)
    assert 1 == service.sources()[0].rejects.total


def test_too_many_bodies_at_once_are_asked_to_come_back(service: Service) -> None:
    go = threading.Event()

    def decode(*_: Any) -> Sequence[Any]:
        go.wait(PATIENCE_S)
        return []

    receiving(service, decode)
    waiting = [service.receive("test", b"", "", "c1", "sender") for _ in range(64)]
    with pytest.raises(StoreBusy, match="are waiting to be decoded"):
        service.receive("test", b"", "", "c1", "sender")
    go.set()

    assert 64 == sum(1 for f in waiting if f.result(PATIENCE_S).rejects.total == 0)


def test_an_unknown_protocol_is_refused(service: Service) -> None:
    with pytest.raises(UsageError, match="no receiver 'smoke'"):
        service.receive("smoke", b"", "", "c1", "sender").result(PATIENCE_S)


# Analysis.


def claim_row(**columns: object) -> pa.Table:
    row = {name: None for name in CLAIM.names} | {
        "cluster": "c1", "scheduler": "slurm", "kind": "sacct", "job_id": "7", "run_key": "7@1", "node": "n1",
        "device_count": 1, "start_us": NOW_US - 2 * HOUR_US, "evidence_us": NOW_US, "state": "RUNNING",
    } | columns  # fmt: skip
    return pa.Table.from_pylist([row], schema=CLAIM)


def test_a_pass_books_what_was_submitted_and_the_next_has_nothing_to_do(service: Service) -> None:
    from gpuwatch.core.model import Records

    service.submit("s", [Records("claim", claim_row())]).result(PATIENCE_S)
    service.analyse_once()

    assert [("7",)] == service.store.sql("select distinct job_id from run")
    first = service.analysis()
    assert first.last_success_us == NOW_US and first.last_error is None
    service.analyse_once()
    assert first.seconds == service.analysis().seconds


def test_a_pass_that_fails_is_reported_and_the_next_is_tried(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("rule book lost")

    with monkeypatch.context() as patch:
        patch.setattr("gpuwatch.service.analyzer.analyze", broken)
        service.analyse_once()
    assert "RuntimeError: rule book lost" == service.analysis().last_error
    assert not service.analysis().running

    service.analyse_once()
    assert service.analysis().last_error is None


def test_open_claims_are_the_newest_word_on_what_has_not_ended(service: Service) -> None:
    from gpuwatch.core.model import Records

    for row in (
        claim_row(state="PENDING", evidence_us=NOW_US - HOUR_US),
        claim_row(),
        claim_row(job_id="8", run_key="8@1"),
        claim_row(job_id="8", run_key="8@1", end_us=NOW_US - 1, state="COMPLETED"),
    ):
        service.submit("s", [Records("claim", row)]).result(PATIENCE_S)
    found = service._open_claims("c1", "slurm")

    assert [("7", "RUNNING")] == [(row["job_id"], row["state"]) for row in found]
    assert [] == service._open_claims("c1", "kubernetes")


def test_the_end_of_the_ledger_without_samples_is_that_of_its_last_hour(service: Service) -> None:
    from gpuwatch.core.model import Records

    end_us = NOW_US - 30 * HOUR_US
    ended = claim_row(start_us=end_us - 2 * HOUR_US, end_us=end_us, evidence_us=end_us, state="COMPLETED")
    service.submit("s", [Records("claim", ended)]).result(PATIENCE_S)
    service.analyse_once()

    assert -(-end_us // HOUR_US) * HOUR_US == service.analysis().ledger_until_us
    assert service.analysis().ledger_until_us == 1e6 * _metric(service, "gpuwatch_books_until_timestamp_seconds")


def test_the_end_of_the_ledger_is_that_of_the_newest_sample(service: Service) -> None:
    from gpuwatch.core.model import Records

    service.submit("s", [points([NOW_US - 90_000_000, NOW_US - 60_000_000]), Records("claim", claim_row())]).result(
        PATIENCE_S
    )
    service.analyse_once()

    assert NOW_US - 60_000_000 == service.analysis().ledger_until_us


def test_what_is_left_out_on_purpose_is_counted_apart(service: Service) -> None:
    def decode(*arguments: Any) -> Sequence[Any]:
        arguments[-1].add("bad value", "f", 1, count=2)
        arguments[-1].add("ignored: not a DCGM metric", "f", 2, count=5)
        return []

    receiving(service, decode)
    service.receive("test", b"", "", "c1", "sender").result(PATIENCE_S)

    assert 2 == _metric(service, "gpuwatch_source_rejected_total", kind="test", cluster="c1")
    assert 5 == _metric(service, "gpuwatch_source_ignored_total", kind="test", cluster="c1")


def _metric(service: Service, name: str, **labels: str) -> float:
    value = service._telemetry.registry.get_sample_value(name, labels)
    assert value is not None, name
    return value


# Live sources.


class Source:
    """A live source that does what it is told, then waits for ever."""

    kind = "dcgm"
    cluster = "c1"
    interval_s = 15.0

    def __init__(self, name: str, act: Callable[[Sink], Any]) -> None:
        self.name = name
        self._act = act
        self.ran = threading.Event()

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        try:
            await self._act(sink)
        finally:
            self.ran.set()
        await asyncio.Event().wait()


def collecting(service: Service, *live: Source) -> Collectors:
    return Collectors(live, service.submit, service._sources, clock, service._open_claims, service._clocks)


def test_stopped_in_the_moment_it_is_started_it_ends_at_once(service: Service) -> None:
    """Its loop is not there yet: it must not go on beside a store that is closed."""

    async def nothing(sink: Sink) -> None:
        return

    for _ in range(5):
        collectors = collecting(service, Source("s", nothing))
        collectors.start()
        collectors.stop()
        assert not collectors._thread.is_alive()
    service._alerting.start()
    service._alerting.stop()

    assert not service._alerting._thread.is_alive()


def test_a_source_that_breaks_is_reported_and_the_others_go_on(service: Service) -> None:
    async def breaks(sink: Sink) -> None:
        raise RuntimeError("no plan")

    async def reads(sink: Sink) -> None:
        await sink.commit("good", [points([NOW_US])])
        sink.succeeded("good", NOW_US, 1)

    bad, good = Source("bad", breaks), Source("good", reads)
    collectors = collecting(service, bad, good)
    collectors.start()
    assert bad.ran.wait(PATIENCE_S) and good.ran.wait(PATIENCE_S)
    collectors.stop()

    states = {s.name: (s.state(NOW_US), s.error) for s in service.sources()}
    assert ("ok", None) == states["good"]
    assert "failing" == states["bad"][0] and "RuntimeError: no plan" in str(states["bad"][1])


def test_a_source_may_ask_for_what_has_not_ended(service: Service) -> None:
    from gpuwatch.core.model import Records

    service.submit("s", [Records("claim", claim_row())]).result(PATIENCE_S)
    found: list[str] = []

    async def asks(sink: Sink) -> None:
        found.extend(row["job_id"] for row in await sink.open_claims("c1", "slurm"))

    source = Source("asks", asks)
    collectors = collecting(service, source)
    collectors.start()
    assert source.ran.wait(PATIENCE_S)
    collectors.stop()

    assert ["7"] == found


def test_every_problem_of_the_configuration_is_reported_at_once() -> None:
    with pytest.raises(UsageError) as captured:
        configured({"dcgm": [{"targets": [], "interval_s": -1}], "slurm": 3})

    text = str(captured.value)
    assert "interval_s" in text and "targets" in text and "slurm: write [[slurm]]" in text


def test_no_configuration_is_no_source() -> None:
    assert [] == configured({})
    assert collect.RESTART_S > 0


# How sources fare.


def test_a_source_is_late_after_three_intervals_and_ok_again_after_a_success() -> None:
    fares = Sources(clock)
    fares.add("a", "dcgm", "c1", 10.0)
    assert "never" == fares.all()[0].state(NOW_US)

    fares.succeeded("a", NOW_US, 5)
    assert "ok" == fares.all()[0].state(NOW_US + 30_000_000)
    assert "late" == fares.all()[0].state(NOW_US + 30_000_001)
    fares.failed("a", NOW_US, "refused;\n check it")
    assert ("failing", "refused; check it") == (fares.all()[0].state(NOW_US), fares.all()[0].error)
    fares.succeeded("a", NOW_US + 1, 5)
    assert ("ok", 10) == (fares.all()[0].state(NOW_US), fares.all()[0].samples)


def test_a_flood_of_names_is_counted_under_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality_status, "SOURCES_MAX", 2)
    fares = Sources(clock)
    for name in "abcd":
        fares.succeeded(name, NOW_US, 1)

    assert [("a", 1), ("b", 1), (OTHERS, 2)] == sorted((s.name, s.samples) for s in fares.all())


def test_rejects_of_a_source_add_up() -> None:
    fares = Sources(clock)
    once = Rejects()
    once.add("bad value", "f", 3, "x", 2)
    fares.rejected("a", once)
    fares.rejected("a", once)

    assert {"bad value": 4} == fares.all()[0].rejects.counts


# Readers.


def test_readers_are_bounded_and_a_failed_one_is_not_lent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_pool, "READERS_MAX", 1)
    with Store.open(None) as store:
        lending = Readers(store)
        with lending.lend() as first, pytest.raises(StoreBusy), lending.lend(wait_s=0.01):
            pass
        with pytest.raises(RuntimeError), lending.lend() as second:
            raise RuntimeError("half-way")
        with lending.lend() as third:
            assert first is second and third is not second
            assert [(1,)] == third.sql("select 1")
        lending.close()


def test_a_question_that_takes_too_long_is_ended_and_the_next_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_pool, "WATCH_S", 0.01)
    with Store.open(None) as store:
        lending = Readers(store)
        with pytest.raises(StoreBusy, match="longer than 0.05 s"), lending.lend(question_s=0.05) as slow:
            slow.sql("select count(*) from range(100_000_000_000) as numbers(n) where n % 7 = 3")
        with lending.lend() as other:
            assert [(1,)] == other.sql("select 1")
        lending.close()


# The note in the directory.


def test_the_note_of_a_running_process_is_found_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        note = Note(os.getpid(), url_of("127.0.0.1", listening.getsockname()[1]), "secret")
        leave(tmp_path, note)

        assert note == find(tmp_path)
        assert 0o600 == (tmp_path / "serve.json").stat().st_mode & 0o777
        take_away(tmp_path)
        assert find(tmp_path) is None


def test_the_note_of_a_killed_server_whose_number_another_process_has_is_none(tmp_path: Path) -> None:
    """In a container the server is process 1, as is the command that is run in the next one."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    leave(tmp_path, Note(os.getpid(), url_of("127.0.0.1", port), "secret"))

    assert find(tmp_path) is None


@pytest.mark.parametrize(
    ("host", "url"),
    [
        pytest.param("127.0.0.1", "http://127.0.0.1:8765", id="an address is its own"),
        pytest.param("::1", "http://[::1]:8765", id="IPv6 is written in brackets"),
        pytest.param("0.0.0.0", "http://127.0.0.1:8765", id="every address is reached by loopback"),
        pytest.param("::", "http://[::1]:8765", id="so is every IPv6 address"),
    ],
)
def test_a_server_is_asked_on_its_own_machine_at(host: str, url: str) -> None:
    assert url == url_of(host, 8765)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="an empty note is none"),
        pytest.param("[]", id="a note of another shape is none"),
        pytest.param(json.dumps({"pid": 2**30, "url": "x", "secret": "y"}), id="the note of a process that is gone"),
    ],
)
def test_a_note_that_names_nobody_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "serve.json").write_text(text)

    assert find(tmp_path) is None


# Back-up.


def test_a_backup_taken_while_others_write_is_whole(tmp_path: Path) -> None:
    service = Service.open(tmp_path / "data", Settings(), {}, now_us=clock, live=False)
    service.start()
    service.state.set_setting("colour", "green", "me", NOW_US)
    service.submit("s", [points([NOW_US])]).result(PATIENCE_S)
    done = service.backup(tmp_path / "copy")
    service.submit("s", [points([NOW_US + 1])]).result(PATIENCE_S)
    service.stop()

    assert done.telemetry_bytes > 0 and done.state_bytes > 0
    with Store.open(tmp_path / "copy", create=False) as store, State.open(tmp_path / "copy") as state:
        assert [(1,)] == store.sql("select count(*) from sample_tail")
        assert "green" == state.setting("colour")
        # A copy of a copy is the same again.
        backup(store, state, tmp_path / "again")
    with Store.open(tmp_path / "again", create=False) as store:
        assert [(NOW_US,)] == store.sql("select observed_us from sample_tail")


def test_a_backup_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("dear")
    with Store.open(tmp_path / "data") as store, State.open(tmp_path / "data") as state:
        for target in (tmp_path / "full", tmp_path / "data"):
            with pytest.raises(UsageError, match="backup"):
                backup(store, state, target)

    assert "dear" == (tmp_path / "full" / "letter").read_text()


def test_a_backup_to_where_nothing_can_be_written_says_so(tmp_path: Path) -> None:
    """A path below a file."""
    (tmp_path / "file").write_text("")
    with (
        Store.open(tmp_path / "data") as store,
        State.open(tmp_path / "data") as state,
        pytest.raises(UnreadableInput, match="use another directory"),
    ):
        backup(store, state, tmp_path / "file" / "copy")


def test_what_a_broken_backup_left_does_not_stand_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "gpuwatch.duckdb.partial").write_bytes(b"half")
    with Store.open(tmp_path / "data") as store, State.open(tmp_path / "data") as state:
        backup(store, state, tmp_path / "copy")

    assert ["gpuwatch.duckdb", "state.sqlite"] == sorted(p.name for p in (tmp_path / "copy").iterdir())


def test_one_back_up_at_a_time(tmp_path: Path) -> None:
    """Two would share a name in the store."""
    service = Service.open(tmp_path / "data", Settings(), {}, now_us=clock, live=False)
    service.start()
    with service._copying, pytest.raises(StoreBusy, match="another backup is running"):
        service.backup(tmp_path / "copy")

    assert service.backup(tmp_path / "copy").telemetry_bytes > 0
    service.stop()
