"""Cells that take over by themselves: holders that are killed or paused, standbys that race, a server that restarts."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.lake.settings import LakeSettings
from gpuwatch.state import State
from gpuwatch.store.database import FILE_NAME, Store
from tests.lake.conftest import Make
from tests.lake.leasing import LEASE_S, Cell, Seen, Sender, equal, holder, running, stored
from tests.lake.publishing import ROUNDS, is_whole
from tests.worlds.patience import wait_until
from tests.worlds.postgres import Postgres, postgres_server

pytestmark = pytest.mark.slow


@pytest.fixture
def state_url(catalogues: Postgres) -> str:
    """An empty state that the cells share."""
    url = catalogues.url(catalogues.new(empty=True))
    State.open(url).close()
    return url


@pytest.fixture
def settings(make_lake: Make) -> LakeSettings:
    return make_lake("postgresql")


@pytest.fixture
def lake(settings: LakeSettings) -> Iterator[Seen]:
    seen = Seen(settings)
    yield seen
    seen.close()


def names(cell: Cell, other: Cell) -> bool:
    """Whether one that takes nothing answers with the address of another one."""
    return cell.ask("POST", "/api/v1/events?cluster=c1", b"[]")[1]["gpuwatch-holder"] == other.address


def test_a_killed_holder_is_followed_by_a_process_with_its_directory(
    settings: LakeSettings, state_url: str, lake: Seen, tmp_path: Path
) -> None:
    """Two processes name one directory, as two machines with one volume: nothing that was acknowledged is lost."""
    first, second = (Cell(settings, state_url, tmp_path / "data") for _ in range(2))
    sender, rng = Sender(), random.Random(4)
    with running(first, second):
        for _ in range(max(ROUNDS // 3, 2)):
            now = holder(first, second)
            other = second if now is first else first
            until = time.monotonic() + rng.uniform(0.2, 2.0)
            while time.monotonic() < until:
                assert 204 == sender.send(now)
            wait_until(lambda: names(other, now), "the one that waits names the holder", poll_s=0.1)  # noqa: B023
            status, _, body = other.ask("POST", "/api/v1/events?cluster=c1", b"[]")
            assert (503, "not_holder") == (status, body["error"]["code"])
            assert f"send it to {now.address}" in body["error"]["message"]
            assert (200, 503) == (other.ask("GET", "/healthz")[0], other.readiness()[0])
            now.kill()
            assert holder(other) is other
            now.start()
        last = holder(first, second)
        lake.wait(sender.deliver(last))
        for each in (second if last is first else first, last):
            assert 0 == each.end(), each.log[-2000:]
    with Store.open(tmp_path / "data") as store:
        assert sorted(sender.acknowledged) == stored(store), "each once, and all"
    is_whole(settings)
    equal(settings, tmp_path / "data")


def test_a_paused_holder_that_wakes_after_a_take_over(
    settings: LakeSettings, state_url: str, lake: Seen, tmp_path: Path
) -> None:
    """Each process has a directory of its own: the second one makes its directory from the lake."""
    first, second = (Cell(settings, state_url, tmp_path / name) for name in ("first", "second"))
    sender, rng = Sender(), random.Random(5)
    safe: set[int] = set()
    with running(first, second):
        epochs = [0]
        for _ in range(ROUNDS):
            now = holder(first, second)
            other = second if now is first else first
            number = sender.deliver(now)
            lake.wait(number)
            safe |= {each for each in sender.acknowledged if each <= number} & set(lake.events())
            sender.deliver(now)
            time.sleep(rng.uniform(0, 1.5))
            now.signal(signal.SIGSTOP)
            assert holder(other) is other
            before = lake.guard()
            epochs.append(before.epoch)
            now.signal(signal.SIGCONT)
            refused = wait_until(lambda: now.process.poll() is not None or sender.send(now), "it answers", poll_s=0.05)  # type: ignore[union-attr]  # noqa: B023
            assert refused in (503, True), "it takes nothing, though it does not know yet who has taken over"
            if now.process is not None and now.process.poll() is not None:
                now.start()  # DuckDB's extension ends a process whose session was ended: its supervisor starts it again
            wait_until(lambda: names(now, other), "it names the new holder", poll_s=0.1)  # noqa: B023
            assert before.holder == lake.guard().holder, "it published nothing"
        assert sorted(set(epochs)) == epochs, "each take-over has a higher epoch"
        last = holder(first, second)
        lake.wait(sender.deliver(last))
        for each in (second if last is first else first, last):
            assert 0 == each.end(), each.log[-2000:]
    found = lake.events()
    assert len(set(found)) == len(found), "none twice"
    assert safe <= set(found), "what the lake had is there"
    behind = [path for cell in (first, second) for path in cell.directory.glob(f"replaced-behind-*/{FILE_NAME}")]
    assert behind, "what a paused process alone has is kept"
    equal(settings, last.directory)


def test_of_two_that_wait_one_takes_over(settings: LakeSettings, state_url: str, lake: Seen, tmp_path: Path) -> None:
    first, *waiting = (Cell(settings, state_url, tmp_path / name) for name in ("first", "second", "third"))
    sender = Sender()
    with running(first):
        number = sender.deliver(holder(first))
        lake.wait(number)
        for each in waiting:
            each.start()
        try:
            for each in waiting:
                wait_until(lambda each=each: each.readiness()[0] == 503, "it waits", poll_s=0.1)  # type: ignore[misc]
            first.kill()
            winner = holder(*waiting)
            time.sleep(2 * LEASE_S)
            assert [winner] == [each for each in waiting if each.holds()]
            loser = next(each for each in waiting if each is not winner)
            assert names(loser, winner)
            assert not (loser.directory / FILE_NAME).exists()
            assert 204 == sender.send(winner)
            assert 0 == loser.end() == winner.end()
        finally:
            for each in waiting:
                each.kill()
    with Store.open(winner.directory) as store:
        assert sorted(sender.acknowledged) == stored(store)


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """A PostgreSQL server of this test alone, for the state."""
    with postgres_server() as started:
        yield started


def test_a_server_that_restarts(settings: LakeSettings, own_server: Postgres, tmp_path: Path) -> None:
    """A restart within the lease changes nothing; for longer, ingest stops until the lease is renewed, with the same epoch."""
    database = own_server.new(empty=True)
    url = own_server.url(database)
    State.open(url).close()
    cell, sender = Cell(settings, url, tmp_path / "data"), Sender()
    with running(cell):
        holder(cell)
        assert 204 == sender.send(cell)
        own_server.stop()
        own_server.start()
        assert 204 == sender.send(cell)
        own_server.stop()
        words = "could not renew its lease of cell east in time"
        wait_until(lambda: words in str(cell.readiness()[1]), "the lease runs out", poll_s=0.2)
        assert (503, 503) == (cell.readiness()[0], sender.send(cell))
        own_server.start()
        sender.deliver(cell)
        assert "the lease ran out, and nobody took it: it goes on" in cell.log
        assert 0 == cell.end()
    with Store.open(tmp_path / "data") as store:
        assert sorted(sender.acknowledged) == sorted(set(stored(store)) & set(sender.acknowledged))
        assert len(stored(store)) == len(set(stored(store)))
    assert [(1,)] == own_server.sql("select epoch from lease", database)
