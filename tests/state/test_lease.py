"""Leases on a real PostgreSQL server: one holder at a time, by the server's clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuwatch.core.errors import StoreError
from gpuwatch.state.lease import Leases
from gpuwatch.state.server import Server
from tests.worlds.postgres import Postgres

Make = Callable[..., Leases]
ENDED = "update lease set until_us = (extract(epoch from clock_timestamp()) * 1000000)::bigint - 1"


@pytest.fixture
def database(postgres: Postgres) -> str:
    return postgres.new()


@pytest.fixture
def make(postgres: Postgres, database: str) -> Iterator[Make]:
    """Processes that want the lease of one cell."""
    made: list[Leases] = []

    def one(address: str = "http://a:1", length_s: float = 30.0) -> Leases:
        made.append(Leases(Server(postgres.url(database)), "cell east", address, length_s))
        return made[-1]

    yield one
    for each in made:
        each.close()


def test_a_lease_that_is_held_is_not_taken(make: Make) -> None:
    first, second = make("http://a:1"), make("http://b:1")
    assert first.read() is None
    taken = first.take()
    assert taken is not None and (1, None) == (taken.epoch, taken.volume)
    assert second.take() is None and first.take() is None
    assert first.renew(1) and not second.renew(1), "only its holder renews it"
    assert not second.note_volume(1, "x") and not second.higher(1, 9)
    second.release(1)
    seen = second.read()
    assert seen is not None and (first.holder, "http://a:1", 1) == (seen.holder, seen.address, seen.epoch)
    assert 0 < seen.left_us <= 30_000_000


def test_an_ended_lease_is_taken_with_the_next_epoch(make: Make, postgres: Postgres, database: str) -> None:
    first, second = make("http://a:1"), make("http://b:1")
    assert first.take() and first.note_volume(1, "disk 1")
    postgres.sql(ENDED, database)
    assert first.renew(1), "nobody took it, so it goes on"
    assert second.take() is None
    postgres.sql(ENDED, database)
    taken = second.take()
    assert taken is not None and (2, "disk 1") == (taken.epoch, taken.volume)
    assert not first.renew(1) and not first.note_volume(1, "disk 2")
    first.release(1)
    assert second.renew(2), "a former holder gives up nothing"


def test_a_lease_that_is_given_up_is_free_at_once(make: Make) -> None:
    first, second = make(), make()
    assert first.take()
    first.release(1)
    taken = second.take()
    assert taken is not None and 2 == taken.epoch


def test_an_epoch_rises_for_its_holder_alone(make: Make, postgres: Postgres, database: str) -> None:
    first, second = make(), make()
    assert first.take() and first.higher(1, 7)
    assert not first.higher(7, 7) and not first.renew(1) and first.renew(7)
    postgres.sql(ENDED, database)
    assert not first.higher(7, 9), "it may be another's at any moment"
    taken = second.take()
    assert taken is not None and 8 == taken.epoch


def test_of_many_that_race_one_wins(make: Make, postgres: Postgres, database: str) -> None:
    waiting = [make(f"http://{number}:1") for number in range(8)]
    for number in range(1, 11):
        with ThreadPoolExecutor(8) as pool:
            taken = [one for one in pool.map(lambda each: each.take(), waiting) if one is not None]
        assert [number] == [one.epoch for one in taken]
        postgres.sql(ENDED, database)


def test_a_server_that_is_away_is_an_error(make: Make, postgres: Postgres) -> None:
    lease = Leases(Server("postgresql://gpuwatch@127.0.0.1:1/none"), "cell east", "", 2)
    with pytest.raises(StoreError, match="lease cell east on postgresql://"):
        lease.take()
    lease.close()
