"""The first day of a history is read whole before the others, so that an early result can be shown."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.core.model import CONTEXT, POINT, SERIES, WHOLE_GPU, Points, Records, context_key, device_key
from gpuwatch.imports.backfill import backfill, plan_backfill
from gpuwatch.imports.history import History
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.imports.test_backfill import CLUSTER, Nothing, Part, Source
from tests.worlds.patience import PATIENCE_S
from tests.worlds.world import T0_US

STEP_US = 10 * MINUTE_US
NOW_US = T0_US + 20 * DAY_US


class Pods(Source):
    """A GPU that a pod holds, busy on the first day and idle afterwards."""

    def chunk(self, start_us: int, end_us: int) -> Part:
        self.asked.append((start_us, end_us))
        times = list(range(-(-start_us // STEP_US) * STEP_US, end_us, STEP_US))
        row: dict[str, object] = dict.fromkeys(CONTEXT.names)
        row |= {"cluster": CLUSTER, "gpu": "GPU-a", "gi": WHOLE_GPU, "node": "n1", "namespace": "lab", "pod": "p"}
        ids = {"context_id": context_key(row), "device_id": device_key(CLUSTER, "GPU-a")}
        fields = ("gr_engine_ratio", "sm_active_ratio")
        series = pa.Table.from_pylist(
            [{"series": n, "field": name} | ids for n, name in enumerate(fields)], schema=SERIES
        )
        points = [
            {"series": n, "observed_us": at, "value": 0.8 if at < T0_US + DAY_US else 0.0}
            for n in range(len(fields))
            for at in times
        ]
        context = Records("context", pa.Table.from_pylist([row | ids], schema=CONTEXT))
        return Part([context, Points(series, pa.Table.from_pylist(points, schema=POINT))], len(points))


def read(store: Store, source: Source, days: int, first: object) -> None:
    history = History(source, Nothing(), "id", threading.Event(), lambda: None)
    plan = plan_backfill(history, T0_US, T0_US + days * DAY_US, NOW_US)
    backfill(store, history, plan, cluster=CLUSTER, jobs=2, chunk_us=6 * HOUR_US, first=first)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("days", "expected"),
    [pytest.param(2, [], id="a short history comes soon enough"), pytest.param(4, [DAY_US], id="four days")],
)
def test_the_first_day_is_there_when_it_is_shown(days: int, expected: list[int]) -> None:
    seen: list[int] = []
    with Store.open(None) as store:

        def first() -> None:
            (span,) = store.sql("select max(observed_us) + $step - min(observed_us) from sample_tail", step=STEP_US)
            seen.append(span[0])

        read(store, Pods(), days, first)
        read(store, Pods(), days, first)  # what is known is not read, so nothing is early

    assert expected == seen


def test_an_early_result_changes_nothing() -> None:
    """Ledger and findings are those of a history that is analyzed once."""
    found = []
    for early in (False, True):
        with Store.open(None) as store, State.open("sqlite://") as state:

            def pass_(store: Store = store, state: State = state) -> None:
                analyze(store, state, Settings(), now_us=NOW_US)

            read(store, Pods(), 4, pass_ if early else None)
            pass_()
            found.append(
                [
                    store.sql("select * exclude (run_id) from ledger_hour order by all"),
                    store.sql("select detector, started_us, ended_us from finding order by all"),
                ]
            )

    assert found[0] == found[1]
    assert found[0][1]


@pytest.mark.parametrize("jobs", [1, 3])
def test_no_more_queries_at_a_time_than_asked_for(jobs: int) -> None:
    """`gpuwatch scan --max-load`: a query ends before the next one of its thread begins, and each waits for the others to be there."""
    running: list[int] = []
    most: list[int] = []
    lock, full = threading.Lock(), threading.Barrier(jobs)

    class Counted(Pods):
        def chunk(self, start_us: int, end_us: int) -> Part:
            with lock:
                running.append(start_us)
                most.append(len(running))
            if start_us < T0_US + jobs * 6 * HOUR_US:  # the first spans meet: so many are read at a time
                full.wait(PATIENCE_S)
            found = super().chunk(start_us, end_us)
            with lock:
                running.remove(start_us)
            return found

    history = History(Counted(), Nothing(), "id", threading.Event(), lambda: None)
    with Store.open(None) as store:
        plan = plan_backfill(history, T0_US, T0_US + 2 * DAY_US, NOW_US)
        backfill(store, history, plan, cluster=CLUSTER, jobs=jobs, chunk_us=6 * HOUR_US)

    assert jobs == max(most)
