"""Spans of history into the store: each once, whatever ends the program, and the open end again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.core.errors import SourceUnreachable, UnreadableInput, UsageError
from gpuwatch.core.model import CONTEXT, POINT, SERIES, WHOLE_GPU, Points, Records, Rejects, context_key, device_key
from gpuwatch.imports.backfill import SETTLE_US, BackfillReport, backfill, plan_backfill
from gpuwatch.imports.history import History, open_history
from gpuwatch.imports.spans import missing_spans, span_length
from gpuwatch.store.database import Store
from tests.worlds.world import T0_US

STEP_US = MINUTE_US
NOW_US = T0_US + 10 * HOUR_US
CLUSTER = "c1"


@dataclass
class Part:
    """What a span gave."""

    batches: list[Records | Points]
    samples: int
    bytes: int = 1
    rejects: Rejects = field(default_factory=Rejects)
    lacking: list[str] = field(default_factory=list)


class Source:
    """A server with one reading a minute of one GPU; notes its spans, and fails or lacks as it is told."""

    name = "http://p:9090"

    def __init__(self, fails: Callable[[int], bool] = lambda at_us: False) -> None:
        self.step_s = 0
        self.fields = ["DCGM_FI_DEV_POWER_USAGE"]
        self.asked: list[tuple[int, int]] = []
        self.fails = fails
        self.lacking: list[str] = []

    def find(self, start_us: int, end_us: int) -> list[str]:
        return self.fields

    def measure(self, start_us: int, end_us: int) -> float:
        return 100.0

    def thin(self, step_s: int) -> float:
        self.step_s = step_s
        return 50.0

    def chunk(self, start_us: int, end_us: int) -> Part:
        self.asked.append((start_us, end_us))
        if self.fails(start_us):
            raise SourceUnreachable("http://p:9090 cannot be reached")
        times = [at for at in range(-(-start_us // STEP_US) * STEP_US, end_us, STEP_US)]
        row: dict[str, object] = dict.fromkeys(CONTEXT.names) | {"cluster": CLUSTER, "gpu": "GPU-a", "gi": WHOLE_GPU}
        ids = {"context_id": context_key(row), "device_id": device_key(CLUSTER, "GPU-a")}
        series = pa.Table.from_pylist([{"series": 0, "field": "power_watts"} | ids], schema=SERIES)
        points = pa.Table.from_pylist([{"series": 0, "observed_us": at, "value": 1.0} for at in times], schema=POINT)
        rejects = Rejects()
        rejects.add("no device label", self.name, 1, "x")
        context = Records("context", pa.Table.from_pylist([row | ids], schema=CONTEXT))
        return Part([context, Points(series, points)], len(times), rejects=rejects, lacking=self.lacking)


class Nothing:
    """No kube-state-metrics."""

    name = "http://p:9090"

    def find(self, start_us: int, end_us: int) -> list[str]:
        return []

    def chunk(self, start_us: int, end_us: int) -> Part:
        raise AssertionError("never asked")


def run(
    store: Store, source: Source, since_us: int = T0_US, until_us: int = T0_US + 3 * HOUR_US, **more: int
) -> BackfillReport:
    """One run over some hours, an hour a span."""
    history = History(source, Nothing(), "id", threading.Event(), lambda: None)
    plan = plan_backfill(history, since_us, until_us, NOW_US)
    return backfill(store, history, plan, cluster=CLUSTER, chunk_us=HOUR_US, **more)


def minutes(store: Store) -> int:
    """Samples in the store, none twice."""
    rows, different = store.sql("select count(*), count(distinct observed_us) from sample")[0]
    assert rows == different
    return int(rows)


@pytest.mark.parametrize(
    ("since", "until", "settled", "done", "expected"),
    [
        pytest.param(0, 3, 9, [], [(0, 1), (1, 2), (2, 3)], id="nothing is done"),
        pytest.param(0, 3, 9, [(0, 1), (1, 2), (2, 3)], [], id="all is done"),
        pytest.param(0, 3, 9, [(1, 2)], [(0, 1), (2, 3)], id="a hole in what is missing"),
        pytest.param(0, 3, 9, [(-5, 0.5), (0.25, 1.5)], [(1.5, 2), (2, 3)], id="done spans of other lengths"),
        pytest.param(0.5, 1.5, 9, [], [(0.5, 1), (1, 1.5)], id="cut where spans always are"),
        pytest.param(0, 2, 1.5, [], [(0, 1), (1, 1.5), (1.5, 2)], id="what is not settled is a span of its own"),
        pytest.param(0, 2, -1, [], [(0, 1), (1, 2)], id="nothing is settled"),
    ],
)
def test_spans(
    since: float, until: float, settled: float, done: list[tuple[float, float]], expected: list[tuple[float, float]]
) -> None:
    def us(hours: float) -> int:
        return T0_US + round(hours * HOUR_US)

    found = missing_spans(us(since), us(until), us(settled), HOUR_US, [(us(a), us(b)) for a, b in done])

    assert [(us(a), us(b)) for a, b in expected] == list(found)


@pytest.mark.parametrize(("rate", "seconds"), [(0.0, 86_400), (100.0, 3600), (1e9, 60)])
def test_a_span_is_as_long_as_its_samples_allow(rate: float, seconds: int) -> None:
    assert seconds * 1_000_000 == span_length(rate)


def test_a_second_run_asks_for_nothing() -> None:
    source = Source()
    with Store.open(None) as store:
        first, second = run(store, source), run(store, source)

        assert 180 == minutes(store)
    assert [(3, 180, 0), (0, 0, 3)] == [(r.files, r.samples, r.repeated) for r in (first, second)]
    assert 3 == len(source.asked)


def test_asked_for_again_it_is_still_stored_once() -> None:
    with Store.open(None) as store:
        run(store, Source())
        run(store, Source(), again=True)

        assert 180 == minutes(store)


def test_after_a_failure_only_the_rest_is_asked_for() -> None:
    broken, whole = Source(lambda at_us: at_us >= T0_US + 2 * HOUR_US), Source()
    with Store.open(None) as store:
        with pytest.raises(SourceUnreachable):
            run(store, broken)
        report = run(store, whole)

        assert 180 == minutes(store)
        assert [(3, 3)] == store.sql("select count(*), sum(count) from reject")
    assert [(T0_US + 2 * HOUR_US, T0_US + 3 * HOUR_US)] == whole.asked
    assert 2 == report.repeated


def test_a_partial_answer_is_stored_and_asked_for_again() -> None:
    source = Source()
    source.lacking = ["store s1 is down"]
    with Store.open(None) as store:
        first = run(store, source)
        source.lacking = []
        second = run(store, source)

        assert 180 == minutes(store)
    assert [3, 0] == [first.incomplete, second.incomplete]
    assert [True] == ["store s1 is down" in note for note in first.notes if "incomplete responses" in note]
    assert 3 == second.files


def test_the_open_end_comes_again() -> None:
    source = Source()
    with Store.open(None) as store:
        first = run(store, source, NOW_US - 2 * HOUR_US, NOW_US)
        second = run(store, source, NOW_US - 2 * HOUR_US, NOW_US)

        assert 120 == minutes(store)
    assert [1, 1] == [first.incomplete, second.incomplete]
    assert [(NOW_US - SETTLE_US, NOW_US)] == source.asked[-1:]


def test_few_samples_are_all_read_and_a_thinned_history_is_another() -> None:
    source = Source()
    with Store.open(None) as store:
        few = run(store, source, thin_above=100 * 3 * 3600)
        many = run(store, source, thin_above=100 * 3 * 3600 - 1)

    assert [(0, 3), (60, 3)] == [(few.step_s, few.files), (many.step_s, many.files)]
    assert [] == [note for note in few.notes if "was read of each metric" in note]


def test_what_is_done_is_done_of_one_history() -> None:
    source = Source()
    with Store.open(None) as store:
        run(store, source)
        other = History(source, Nothing(), "other", threading.Event(), lambda: None)
        backfill(store, other, plan_backfill(other, T0_US, T0_US + HOUR_US, NOW_US), cluster=CLUSTER)

    assert 4 == len(source.asked)


@pytest.mark.parametrize(("since", "until"), [(1, 1), (2, 1), (11, 12), (-99_999, 0)])
def test_a_wrong_time_is_reported(since: int, until: int) -> None:
    history = History(Source(), Nothing(), "id", threading.Event(), lambda: None)
    with pytest.raises(UsageError, match="--since"):
        plan_backfill(history, T0_US + since * HOUR_US, T0_US + until * HOUR_US, NOW_US)


def test_a_server_without_gpus_is_reported() -> None:
    source = Source()
    source.fields = []
    history = History(source, Nothing(), "id", threading.Event(), lambda: None)
    with pytest.raises(UnreadableInput, match="has no DCGM metric"):
        plan_backfill(history, T0_US, T0_US + HOUR_US, NOW_US)


def test_every_wrong_option_is_reported_at_once(tmp_path: Path) -> None:
    options = {"url": "p", "match": "up", "password_file": str(tmp_path / "none"), "key_file": str(tmp_path / "k")}
    with pytest.raises(UsageError) as caught:
        open_history(options, CLUSTER)

    for text in ("url", "match", "password_file", "username", "key_file"):
        assert text in str(caught.value)
