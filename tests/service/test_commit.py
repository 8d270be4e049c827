"""Group commit: one transaction for many, refused times, full queues, and stores that fail."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.core.errors import StoreBusy, StoreError
from gpuwatch.core.model import CONTEXT, Points, Records, Rejects
from gpuwatch.service import group_commit
from gpuwatch.service.group_commit import GroupCommit, merged
from gpuwatch.store import cardinality
from gpuwatch.store.database import Store
from gpuwatch.store.time_bounds import AHEAD_US_LIVE, BAD_TIME, TOO_NEW, TOO_OLD, history, in_time
from tests.service.feed import NOW_US, points
from tests.worlds.patience import PATIENCE_S

RAW_DAYS = 14
DAY_US = 86_400_000_000


def context(number: int) -> Records:
    row = {name: None for name in CONTEXT.names} | {
        "context_id": number, "device_id": 1, "cluster": "c1", "gpu": "GPU-a", "gi": -1,
    }  # fmt: skip
    return Records("context", pa.Table.from_pylist([row], schema=CONTEXT))


class Slow(Store):
    """A store whose transactions fail as told, and count."""

    @classmethod
    def of(cls, store: Store, failures: list[Exception] | None = None) -> Slow:
        slow = cls(store._connection, store.path)
        slow.failures = failures or []
        slow.transactions = 0
        return slow

    failures: list[Exception]
    transactions: int

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self.failures:
            raise self.failures.pop(0)
        self.transactions += 1
        with super().transaction():
            yield


@pytest.fixture
def store() -> Iterator[Store]:
    """A store that has samples with the field of `points` before."""
    with Store.open(None) as opened:
        opened.prepare([points([NOW_US])])
        yield opened


def writer(store: Store, **options: Any) -> GroupCommit:
    return GroupCommit(store, lambda: NOW_US, RAW_DAYS, **options)


def stored(store: Store) -> list[tuple[int, int]]:
    return store.sql("select device_id, observed_us from sample_tail order by all")


def done(futures: list[Future[None]]) -> None:
    for future in futures:
        future.result(PATIENCE_S)


def test_what_arrives_together_is_one_transaction(store: Store) -> None:
    slow = Slow.of(store)
    group = writer(slow)
    futures = [group.submit(f"s{n}", [context(n), points([NOW_US - n], device=n)]) for n in range(5)]
    group.start()
    done(futures)
    group.stop()

    assert 1 == slow.transactions
    assert [(n, NOW_US - n) for n in range(5)] == stored(store)
    assert [(5,)] == store.sql("select count(*) from context")


def test_label_sets_on_disk_are_not_looked_up_again(store: Store) -> None:
    """Until something else writes their table: what it has withdrawn is stored again."""
    appended: list[int] = []

    class Watched(Slow):
        def append(self, batch: Records | Points, file_id: int | None = None) -> int:
            if isinstance(batch, Records) and batch.table == "context":
                appended.extend(batch.rows.column("context_id").to_pylist())
            return super().append(batch, file_id)

    watched = Watched(store._connection, store.path, store.changes)
    watched.failures, watched.transactions = [], 0
    store.changes.learn(["context", "sample_tail"])
    group = writer(watched)
    group.start()
    for sent in ([1, 2], [2], [1], [1, 3], [3]):
        done([group.submit("s", [*map(context, sent), points([NOW_US])])])
    assert [1, 2, 3] == appended

    store.sql("delete from context where context_id = 2")
    done([group.submit("s", [context(2), points([NOW_US])])])
    group.stop()
    assert [1, 2, 3, 2] == appended
    assert [(1,), (2,), (3,)] == store.sql("select context_id from context order by all")


def test_label_sets_of_a_failed_commit_are_not_taken_for_stored(store: Store) -> None:
    slow = Slow.of(store, [StoreError("the disk is full")])
    group = writer(slow)
    failed = group.submit("s", [context(1), points([NOW_US])])
    group.start()
    assert isinstance(failed.exception(PATIENCE_S), StoreError)
    done([group.submit("s", [context(1), points([NOW_US])])])
    group.stop()

    assert [(1,)] == store.sql("select context_id from context")


def test_who_waits_does_not_wait_for_who_does_not(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """And takes what is there along."""
    monkeypatch.setattr(group_commit, "PATIENT_S", 3600.0)
    slow = Slow.of(store)
    group = writer(slow)
    group.start()
    patient = [group.submit("a", [points([NOW_US - n])], patient=True) for n in range(3)]
    assert not any(future.done() for future in patient)

    done([group.submit("b", [points([NOW_US + 1])]), *patient])
    assert 1 == slow.transactions
    last = group.submit("a", [points([NOW_US + 2])], patient=True)
    group.stop()

    assert last.done() and 5 == len(stored(store))


def test_requests_of_one_group_wake_the_writer_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patient requests wake it at the first, waiting senders once more; both groups are stored nevertheless."""
    monkeypatch.setattr(group_commit, "PATIENT_S", PATIENCE_S)
    group = writer(store)
    group.start()
    wakes: list[int] = []
    notify = group._changed.notify_all
    monkeypatch.setattr(group._changed, "notify_all", lambda: (wakes.append(1), notify()))
    patient = [group.submit("a", [points([NOW_US - n])], patient=True) for n in range(20)]

    assert 1 == len(wakes)
    waiting = [group.submit("b", [points([NOW_US + n])]) for n in range(1, 6)]
    assert 2 == len(wakes)
    done([*patient, *waiting])
    group.stop()
    assert 25 == len(stored(store))


def test_a_future_is_done_only_when_the_rows_are_there(store: Store) -> None:
    group = writer(store)
    group.start()
    future = group.submit("s", [points([NOW_US])])
    future.result(PATIENCE_S)

    assert [(1, NOW_US)] == stored(store)
    group.stop()


def test_stopping_writes_what_was_accepted_and_refuses_what_comes_after(store: Store) -> None:
    group = writer(store)
    future = group.submit("s", [points([NOW_US])])
    group.start()
    group.stop()

    assert future.done() and future.exception() is None
    assert [(1, NOW_US)] == stored(store)
    with pytest.raises(StoreBusy, match="stopping"):
        group.submit("s", [points([NOW_US])])


@pytest.mark.parametrize(
    ("at_us", "reason"),
    [
        pytest.param(NOW_US + AHEAD_US_LIVE + 1, TOO_NEW, id="from beyond the clock tolerance"),
        pytest.param(NOW_US + 75 * 365 * DAY_US, TOO_NEW, id="from the year 2100"),
        pytest.param(NOW_US - RAW_DAYS * DAY_US - 1, TOO_OLD, id="older than raw samples are kept"),
        pytest.param(0, BAD_TIME, id="from 1970"),
        pytest.param(NOW_US // 1000, BAD_TIME, id="milliseconds taken for microseconds"),
        pytest.param((1 << 63) - 1, BAD_TIME, id="after every year"),
        pytest.param(-(1 << 63), BAD_TIME, id="before every year"),
    ],
)
def test_a_wrong_clock_owns_no_years(store: Store, at_us: int, reason: str) -> None:
    rejects = Rejects()
    group = writer(store)
    group.start()
    group.submit("s", [points([at_us, NOW_US])], rejects).result(PATIENCE_S)
    group.stop()

    assert {reason: 1} == rejects.counts
    assert [(1, NOW_US)] == stored(store)


@pytest.mark.parametrize(
    "at_us",
    [
        pytest.param(NOW_US + AHEAD_US_LIVE, id="a clock ahead by the tolerance is taken"),
        pytest.param(NOW_US - RAW_DAYS * DAY_US, id="the oldest that is kept is taken"),
    ],
)
def test_times_at_the_edges_are_taken(store: Store, at_us: int) -> None:
    rejects = Rejects()
    group = writer(store)
    group.start()
    group.submit("s", [points([at_us])], rejects).result(PATIENCE_S)
    group.stop()

    assert {} == rejects.counts
    assert [(1, at_us)] == stored(store)


def test_history_may_be_old_but_not_from_after_tomorrow() -> None:
    rejects = Rejects()
    kept = in_time(points([-5, 0, NOW_US + DAY_US, NOW_US + DAY_US + 1]), history(NOW_US), "f", rejects)

    assert [-5, 0, NOW_US + DAY_US] == kept.rows["observed_us"].to_pylist()
    assert {TOO_NEW: 1} == rejects.counts


def of_context(number: int, cluster: str = "c1") -> list[Records | Points]:
    """A new label set and a reading of it."""
    rows = context(number).rows
    named = rows.set_column(rows.column_names.index("cluster"), "cluster", pa.array([cluster]))
    series = points([NOW_US]).series
    own = series.set_column(series.column_names.index("context_id"), "context_id", pa.array([number]))
    return [Records("context", named), Points(own, points([NOW_US]).rows)]


def committed(store: Store, *batches: list[Records | Points]) -> dict[str, int]:
    """Refusals by reason of requests that come one after the other."""
    rejects = Rejects()
    group = writer(store)
    group.start()
    for each in batches:
        group.submit("s", each, rejects).result(PATIENCE_S)
    group.stop()
    return rejects.counts


def contexts_of(store: Store) -> list[int]:
    return [row[0] for row in store.sql("select context_id from context order by 1")]


def test_label_sets_without_end_are_refused_and_known_ones_go_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cardinality, "NEW_A_DAY_MAX", 2)

    assert {cardinality.TOO_MANY: 2} == committed(store, *(of_context(n) for n in (1, 2, 3, 1, 4, 2)))
    assert [1, 2] == contexts_of(store)
    assert 4 == len(stored(store))


def test_a_flood_of_one_cluster_leaves_the_others_their_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cardinality, "NEW_A_DAY_MAX", 1)
    refused = committed(store, of_context(1), of_context(2), of_context(3, "c2"))

    assert ({cardinality.TOO_MANY: 1}, [1, 3]) == (refused, contexts_of(store))


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        pytest.param("NEW_IN_ALL_MAX", cardinality.TOO_MANY_IN_ALL, id="label sets of all clusters"),
        pytest.param("CLUSTERS_MAX", cardinality.TOO_MANY_CLUSTERS, id="names of clusters"),
    ],
)
def test_clusters_without_end_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch, bound: str, reason: str
) -> None:
    monkeypatch.setattr(cardinality, bound, 2)

    assert {reason: 1} == committed(store, *(of_context(n, f"c{n}") for n in (1, 2, 3)))
    assert [1, 2] == contexts_of(store)


def test_what_the_store_knows_is_not_new_after_a_restart(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(store, of_context(1), of_context(2))
    monkeypatch.setattr(cardinality, "NEW_A_DAY_MAX", 1)
    monkeypatch.setattr(cardinality, "FRESH_MAX", 0)

    assert {cardinality.TOO_MANY: 1} == committed(store, *(of_context(n) for n in (1, 2, 3, 3, 4, 1)))


def test_a_new_day_has_room_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cardinality, "NEW_A_DAY_MAX", 1)
    limit = cardinality.SeriesLimit()
    kept = [
        len(limit.admitted(of_context(n), at, "s", None)[1].rows) for n, at in ((1, 0), (2, DAY_US - 1), (2, DAY_US))
    ]

    assert [1, 0, 1] == kept


def test_a_full_queue_says_so_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "ROWS_QUEUED_MAX", 3)
    group = writer(store)
    first = group.submit("s", [points([NOW_US, NOW_US + 1])])
    with pytest.raises(StoreBusy, match="2 rows are queued"):
        group.submit("s", [points([NOW_US + 2, NOW_US + 3])])
    assert 2 == group.rows_queued

    group.start()
    first.result(PATIENCE_S)
    group.stop()
    assert 2 == len(stored(store))
    assert 0 == group.rows_queued


def test_one_request_larger_than_the_queue_is_taken_when_it_is_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "ROWS_QUEUED_MAX", 1)
    group = writer(store)
    group.start()
    group.submit("s", [points([NOW_US, NOW_US + 1])]).result(PATIENCE_S)
    group.stop()

    assert 2 == len(stored(store))


def test_a_full_disk_is_reported_to_every_sender_and_the_next_group_is_tried(store: Store) -> None:
    slow = Slow.of(store, [StoreError("cannot write: no space left")])
    group = writer(slow)
    futures = [group.submit("a", [points([NOW_US])]), group.submit("b", [points([NOW_US + 1])])]
    group.start()

    assert ["cannot write: no space left"] * 2 == [str(f.exception(PATIENCE_S)) for f in futures]
    group.submit("a", [points([NOW_US])]).result(PATIENCE_S)
    group.stop()
    assert [(1, NOW_US)] == stored(store)


def test_one_request_that_cannot_be_stored_fails_alone(store: Store) -> None:
    bad = Records("sample", pa.table({"device_id": [1], "context_id": [1], "observed_us": [1], "no_such": [1.0]}))
    group = writer(store)
    futures = [group.submit("good", [points([NOW_US])]), group.submit("bad", [bad])]
    group.start()

    assert futures[0].exception(PATIENCE_S) is None
    assert isinstance(futures[1].exception(PATIENCE_S), StoreError)
    group.stop()
    assert [(1, NOW_US)] == stored(store)


def test_a_store_that_must_be_opened_again_is_reported(store: Store) -> None:
    listed: list[str] = []
    slow = Slow.of(store, [StoreError(f"FATAL: {group_commit.FATAL} by an earlier error")])
    group = writer(slow, on_fatal=listed.append)
    future = group.submit("s", [points([NOW_US])])
    group.start()

    assert isinstance(future.exception(PATIENCE_S), StoreError)
    group.stop()
    assert 1 == len(listed) and group_commit.FATAL in listed[0]


def test_points_of_many_senders_keep_apart() -> None:
    joined = merged([points([1, 2], device=4, value=0.1), points([1], device=5, value=0.2)])

    assert 1 == len(joined)
    assert isinstance(joined[0], Points)
    assert [0, 1] == joined[0].series.column("series").to_pylist()
    assert [4, 5] == joined[0].series.column("device_id").to_pylist()
    assert [0, 0, 1] == joined[0].rows.column("series").to_pylist()


def test_contexts_come_first_and_once() -> None:
    out = merged([points([1]), context(3), context(3), context(4)])

    assert ["context", "points"] == [b.table if isinstance(b, Records) else "points" for b in out]
    assert [3, 4] == out[0].rows.column("context_id").to_pylist()


def test_a_sender_that_gave_up_does_not_stop_the_writer(store: Store) -> None:
    group = writer(store)
    gone = group.submit("gone", [points([NOW_US])])
    assert not gone.cancel()
    group.start()
    group.submit("s", [points([NOW_US + 1])]).result(PATIENCE_S)
    group.stop()

    assert 2 == len(stored(store))
