"""Requests of remote-write in any order, any number of times, in either version: the same rows after sealing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.remote_write import body
from gpuwatch.collectors.push.remote_write import RemoteWrite
from gpuwatch.core.fields import columns
from gpuwatch.core.model import Rejects
from gpuwatch.imports.files import seal_all
from gpuwatch.service import group_commit
from gpuwatch.store.database import Store
from tests.collectors.push.test_remote_write import NOW_MS, SM, STALE, TYPE, TYPE_2, UTIL, Series, body_2, labels
from tests.worlds.patience import PATIENCE_S

HOUR_MS = 3_600_000
KEYS = [
    {"name": name, "UUID": gpu, "pod": pod} for name in (SM, UTIL) for gpu in ("GPU-a", "GPU-b") for pod in ("", "p")
]

reading = st.tuples(
    st.sampled_from(range(len(KEYS))),
    st.integers(0, 8).map(lambda k: NOW_MS - k * HOUR_MS // 4),
    st.sampled_from([0.0, 0.25, 0.5, 1.0, STALE]),
)


def series(readings: list[tuple[int, int, float]]) -> list[Series]:
    return [(labels(**KEYS[key]), [(value, at_ms)]) for key, at_ms, value in readings]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else sends: a group is not waited for."""
    monkeypatch.setattr(group_commit, "LINGER_S", 0.0)


def rows_after(requests: list[tuple[list[tuple[int, int, float]], int, bool]]) -> list[tuple[Any, ...]]:
    """What lies in the store after (readings, version, whether to seal afterwards) came one after the other."""
    decoder = RemoteWrite()
    with Store.open(None) as store, store.cursor() as own:
        writer = group_commit.GroupCommit(own, lambda: NOW_MS * 1000, 14)
        writer.start()
        for readings, version, seals in requests:
            data, kind = (body(series(readings)), TYPE) if version == 1 else (body_2(series(readings)), TYPE_2)
            batches = decoder(data, kind, "c1", NOW_MS * 1000, Rejects())
            writer.submit("s", batches).result(PATIENCE_S)
            if seals:
                seal_all(store)
        writer.stop()
        seal_all(store)
        assert [(0,)] == store.sql("select count(*) from sample_tail")
        names = ", ".join(["gpu", "pod", "observed_us", *columns()])
        assert store.sql("select count(distinct context_id) from context") == store.sql("select count(*) from context")
        return store.sql(f"select {names} from sample join context using (context_id) order by all")


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_order_and_repeats_change_no_row(data: st.DataObject) -> None:
    """Also where one instant was told with two values: the larger counts, whoever comes first."""
    requests = data.draw(st.lists(st.lists(reading, max_size=6), min_size=1, max_size=4))
    again = data.draw(st.lists(st.sampled_from(requests), max_size=3))
    shuffled = data.draw(st.permutations(requests + again))
    versions = data.draw(st.lists(st.sampled_from([1, 2]), min_size=len(shuffled), max_size=len(shuffled)))
    seals = data.draw(st.lists(st.booleans(), min_size=len(shuffled), max_size=len(shuffled)))

    in_order = rows_after([(readings, 1, False) for readings in requests])
    assert in_order == rows_after(list(zip(shuffled, versions, seals, strict=True)))


def test_the_same_request_again_changes_no_row() -> None:
    """The smallest case, in every run."""
    one, other = [(0, NOW_MS, 0.5), (5, NOW_MS, 0.0)], [(0, NOW_MS, 0.25), (0, NOW_MS - HOUR_MS, 1.0)]
    expected = rows_after([(one, 1, False), (other, 1, False)])

    assert 3 == len(expected)
    assert expected == rows_after([(other, 2, True), (one, 1, True), (other, 1, False), (one, 2, False)])


def test_the_end_of_a_series_leaves_no_row() -> None:
    assert [] == rows_after([([(0, NOW_MS, STALE)], 1, False), ([(0, NOW_MS, STALE)], 2, False)])
