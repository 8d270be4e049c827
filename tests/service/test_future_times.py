"""Sources whose own times lie in the future of a clock that others confirm: seen, and never in the books."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.core.model import CLAIM, EVENT, NODE, PENDING, Records
from gpuwatch.core.queue_model import RESERVATION
from gpuwatch.store.time_bounds import happened
from tests.service.feed import NOW_US
from tests.service.test_timekeeping import Machine, machine  # noqa: F401 - a fixture
from tests.worlds.patience import PATIENCE_S


def records(table: str, schema: pa.Schema, **row: Any) -> Records:
    return Records(table, pa.Table.from_pylist([dict.fromkeys(schema.names) | {"cluster": "c1"} | row], schema=schema))


def held(start_us: int, end_us: int | None = None, node: str = "n1", **words: Any) -> Records:
    """A pod's claim as the API server gives it: times of the node's own clock."""
    row = {"scheduler": "kubernetes", "kind": "k8s", "job_id": "lab/p", "run_key": "u", "pod_uid": "u", "pod": "p"}
    seen_us = end_us or start_us
    return records(
        "claim", CLAIM, **row, node=node, device_count=1, start_us=start_us, end_us=end_us, evidence_us=seen_us, **words
    )


def read(server: Machine, *batches: Records, source: str = "k8s") -> None:
    server.service.submit(source, batches).result(PATIENCE_S)


def times(server: Machine, table: str = "claim") -> list[tuple[int | None, int | None]]:
    first, last = ("first_us", "last_us") if table == "event" else ("start_us", "end_us")
    found: list[tuple[int | None, int | None]] = server.service.store.sql(
        f"select {first}, {last} from {table} order by all"
    )
    return found


def confirmed(make: Callable[..., Machine], at_us: int = NOW_US) -> Machine:
    """A server whose clock another sender confirms."""
    server = make()
    server.push(at_us, source="another sender")
    return server


# What stays as it is.


@pytest.mark.parametrize("ahead_us", [5 * SECOND_US, 59 * SECOND_US], ids=["seconds", "almost a minute"])
def test_a_skew_of_seconds_changes_nothing(machine: Callable[..., Machine], ahead_us: int) -> None:  # noqa: F811
    server = confirmed(machine)
    read(server, held(NOW_US - HOUR_US, NOW_US + ahead_us))

    assert [(NOW_US - HOUR_US, NOW_US + ahead_us)] == times(server)
    assert [] == server.service.wrong_clocks()


def test_history_changes_nothing_however_old(machine: Callable[..., Machine]) -> None:  # noqa: F811
    server = confirmed(machine)
    read(server, held(NOW_US - 400 * DAY_US, NOW_US - 399 * DAY_US), held(NOW_US - HOUR_US))

    assert [(NOW_US - 400 * DAY_US, NOW_US - 399 * DAY_US), (NOW_US - HOUR_US, None)] == times(server)
    assert [] == server.service.wrong_clocks()


def test_plans_are_of_the_future() -> None:
    """When a request is to start, and when a reservation begins and ends."""
    pending = records("pending", PENDING, submit_us=NOW_US - HOUR_US, start_us=NOW_US + HOUR_US, evidence_us=NOW_US)
    reserved = records(
        "reservation", RESERVATION, observed_us=NOW_US, start_us=NOW_US + DAY_US, end_us=NOW_US + 2 * DAY_US
    )

    assert [(pending, None), (reserved, None)] == [happened(one, NOW_US) for one in (pending, reserved)]


def test_a_clock_that_nobody_confirms_judges_nobody(machine: Callable[..., Machine]) -> None:  # noqa: F811
    """The server may be the one that is wrong: here it is two hours slow."""
    server = machine(-2 * HOUR_US)
    read(server, held(NOW_US - HOUR_US))

    assert [(NOW_US - HOUR_US, None)] == times(server)
    assert [] == server.service.wrong_clocks()


# Clocks that are ahead.


@pytest.mark.parametrize(
    "ahead_us", [2 * MINUTE_US, 25 * MINUTE_US, HOUR_US, 3 * DAY_US], ids=["2 min", "25 min", "an hour", "3 days"]
)
def test_a_node_that_is_ahead_ends_its_pod_when_it_was_read(machine: Callable[..., Machine], ahead_us: int) -> None:  # noqa: F811
    server = confirmed(machine)
    read(server, held(NOW_US - HOUR_US, NOW_US + ahead_us))

    assert [(NOW_US - HOUR_US, NOW_US)] == times(server)
    (wrong,) = server.service.wrong_clocks()
    assert ("c1", "records of k8s (node n1)", ahead_us) == (wrong.cluster, wrong.name, wrong.offset_us)


def test_events_and_nodes_of_the_future_are_of_now(machine: Callable[..., Machine]) -> None:  # noqa: F811
    server = confirmed(machine)
    event = records(
        "event", EVENT, event_id="e", first_us=NOW_US - HOUR_US, last_us=NOW_US + HOUR_US, count=2, kind="Pod", name="p"
    )
    read(server, event)
    read(
        server,
        records("node", NODE, scheduler="slurm", node="n1", observed_us=NOW_US + DAY_US, state="up"),
        source="slurm",
    )

    assert [(NOW_US - HOUR_US, NOW_US)] == times(server, "event")
    assert [(NOW_US,)] == server.service.store.sql("select observed_us from node")
    assert [("records of slurm", DAY_US), ("records of k8s", HOUR_US)] == [
        (one.name, one.offset_us) for one in server.service.wrong_clocks()
    ]


def test_nothing_of_the_future_is_in_the_books(machine: Callable[..., Machine]) -> None:  # noqa: F811
    """A pod that ends in 25 minutes, and samples nine minutes ahead, which a sender may have: the books end with the minute."""
    server = confirmed(machine)
    read(server, held(NOW_US - HOUR_US, NOW_US + 25 * MINUTE_US))
    minutes = [NOW_US - n * MINUTE_US for n in range(30)]
    server.push(*minutes, NOW_US + 9 * MINUTE_US, source="another sender")
    server.service.analyse_once()

    latest = NOW_US + MINUTE_US
    for table, column in (
        ("segment", "end_us"),
        ("capacity", "end_us"),
        ("device_minute", "end_us"),
        ("run", "end_us"),
    ):
        (newest,) = server.service.store.sql(f"select max({column}) from {table}")[0]
        assert newest is None or newest <= latest, (table, newest - NOW_US)
    ledger_until_us = server.service.analysis().ledger_until_us
    assert ledger_until_us is not None
    assert ledger_until_us <= NOW_US

    server.true_us += 10 * MINUTE_US  # its time has come
    server.push(server.true_us, source="another sender")
    server.service.analyse_once()
    assert [(NOW_US + 10 * MINUTE_US,)] == server.service.store.sql("select max(observed_us) from sample")
