"""Free time in the ledger: schedulable where the usual requests fit, stranded where they do not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing import chargeback
from gpuwatch.billing.charge_id import decode
from gpuwatch.billing.explain.charge import explain
from gpuwatch.billing.listings import chargeback_listing
from gpuwatch.core.clock import DAY_US, HOUR_US, Window, day_floor
from gpuwatch.core.model import PENDING, Records
from gpuwatch.hardware.fgd import Task
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.ledger import stranding
from gpuwatch.ledger.stranding import Part
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.worlds.focus import focus_rows
from tests.worlds.world import CLUSTER, H100, HOUR, T0_US, Gpu, World, claim, minutes, node, samples, us

DAY = 24 * HOUR
END = DAY + HOUR
"""The tiny fleets are seen in the first hour of the second day; requests of the first day judge it."""


def machine(name: str, gpus: int, held: int = 0, start: int = DAY, end: int = END) -> list[Any]:
    """A node of GPUs that is sampled in a window; the first of them are held all the time."""
    rows: list[Any] = [node(name, {"": gpus})]
    for n in range(gpus):
        rows += samples(Gpu(f"GPU-{name}-{n}", name, n), minutes(start, end))
    for n in range(held):
        rows.append(claim(f"{name}-{n}", start, end, name, gpus=f"GPU-{name}-{n}", submit_us=us(start)))
    return rows


def asked(job: str, gpus: int, at: int = HOUR, nodes: int = 1, **words: Any) -> dict[str, Any]:
    row = {"cluster": CLUSTER, "scheduler": "slurm", "job_id": job, "device_count": gpus, "node_count": nodes}
    return row | {"submit_us": us(at), "evidence_us": us(at), "reason": "Priority"} | words


def world(*rows: Any, requests: list[dict[str, Any]] | None = None) -> World:
    made = World().add(*[one for row in rows for one in (row if isinstance(row, list) else [row])])
    if requests:
        made.store.append(Records("pending", pa.Table.from_pylist(requests, schema=PENDING)))
    return made


def free(made: World, hour: int = 24) -> tuple[float, float]:
    """GPU-hours (schedulable, stranded) of an hour."""
    buckets = made.buckets(hour=hour)
    return tuple(buckets.get(name, 0) / HOUR_US for name in ("schedulable", "stranded"))  # type: ignore[return-value]


# What must not be stranded --------------------------------------------------------------------------------------------


def test_without_any_request_nothing_is_stranded() -> None:
    with world(machine("n1", 4)).book().store as store:
        assert [(0,)] == store.sql("select sum(stranded_us)::bigint from ledger_hour")
        assert [(0,)] == store.sql("select distinct requests from asked_day")


@pytest.mark.parametrize(
    ("known", "expected"),
    [pytest.param([], (1.5, 0.0), id="only jobs name it"), pytest.param([node("x", {"": 4})], (0.0, 1.5), id="listed")],
)
def test_stand_in_nodes_are_never_stranded(known: list[Any], expected: tuple[float, float]) -> None:
    """Three of four GPUs are free for half an hour, and everybody asks for four."""
    jobs = [claim("a", DAY, END, "x", count=1), claim("b", DAY, DAY + 1800, "x", count=3)]
    made = world(*known, *jobs, requests=[asked("big", 4)]).book()

    assert expected == free(made)


def test_free_slices_whose_gpu_is_not_known_are_never_stranded() -> None:
    """Which slices share a GPU decides whether a larger request could have been served there."""
    dark = node("x", {"1g.10gb": 7, "": 1}, gpu_model=H100)
    big = [asked("big", 1), asked("whole", 1, profile="7g.80gb"), asked("gang", 4)]
    made = world(dark, claim("a", DAY, END, "x", profile="1g.10gb"), requests=big).book()

    rows = made.store.sql(
        """select d.profile is not null, sum(schedulable_us) / 3.6e9, sum(stranded_us) / 3.6e9
        from ledger_hour join device d using (device_id) where run_id is null and d.node = 'x' and hour_us = $hour
        group by all order by all""",
        hour=us(DAY),
    )
    assert [(False, 0.667, 0.333), (True, 6.0, 0.0)] == [(kind, round(s, 3), round(t, 3)) for kind, s, t in rows]


def test_requests_of_the_day_itself_do_not_judge_it() -> None:
    made = world(machine("n1", 4, held=1), requests=[asked("big", 4, at=DAY + 60)]).book()

    assert (3.0, 0.0) == free(made)


def test_requests_older_than_four_weeks_do_not_count() -> None:
    made = world(machine("n1", 4, held=1), requests=[asked("big", 4, at=-27 * DAY - 1)]).book()

    assert (3.0, 0.0) == free(made)


def test_a_request_that_fits_strands_nothing() -> None:
    made = world(machine("n1", 4, held=1), requests=[asked("small", 2)]).book()

    assert (3.0, 0.0) == free(made)


def test_what_is_out_of_service_is_not_stranded() -> None:
    rows = [*machine("n1", 4), node("n1", {"": 4}, DAY, state="down")]
    made = world(rows, requests=[asked("big", 4)]).book()

    assert "stranded" not in made.buckets()
    assert 4 * HOUR_US == made.buckets()["out_of_service"]


# What is ------------------------------------------------------------------------------------------------------------


def test_free_gpus_that_cannot_host_the_only_request_are_stranded() -> None:
    made = world(machine("n1", 4, held=1), requests=[asked("big", 4)]).book()

    assert (0.0, 3.0) == free(made)


def test_each_node_is_judged_by_its_own_state() -> None:
    made = world(machine("n1", 4, held=1), machine("n2", 4), requests=[asked("big", 4)]).book()

    assert (4.0, 3.0) == free(made)


def test_requests_count_by_how_many_they_are() -> None:
    requests = [asked("big", 4)] + [asked(f"s{n}", 1) for n in range(2)]
    made = world(machine("n1", 4, held=1), requests=requests).book()

    assert (2.0, 1.0) == free(made), "a third of the requests cannot use the three free GPUs"


def test_a_member_of_a_gang_is_judged_on_its_node() -> None:
    made = world(machine("n1", 4), machine("n2", 4, held=1), requests=[asked("gang", 8, nodes=2)]).book()

    assert (4.0, 3.0) == free(made), "one member fits on the first node; whether the other does is not looked at"


def test_the_state_changes_within_the_hour() -> None:
    rows = [*machine("n1", 4), claim("half", DAY, DAY + HOUR // 2, "n1", gpus="GPU-n1-0", submit_us=us(DAY))]
    made = world(rows, requests=[asked("big", 4)]).book()

    assert (2.0, 1.5) == free(made), "three GPUs are stranded as long as the fourth is held"


@pytest.mark.parametrize("task, lost", [(Task(1, 1, profile="3g.40gb"), 1), (Task(1, 1, profile="1g.10gb"), 0)])
def test_idle_slices_are_stranded_where_the_profile_does_not_fit(task: Task, lost: int) -> None:
    layout = ("1g.10gb", *("1g.10gb*",) * 6)

    assert [Part(0, 1, lost)] == stranding.stranded_parts(layout, True, H100, (task,))


def test_the_requests_of_many_days_are_those_of_each_day_alone() -> None:
    dice = random.Random(3)
    shapes = [Task(1, 1), Task(1, 2), Task(1, 8), Task(1, 1, profile="1g.10gb")]
    first = day_floor(T0_US)
    submitted = {
        first + day * DAY_US: Counter({task: dice.randrange(1, 5) for task in dice.sample(shapes, 2)})
        for day in dice.sample(range(120), 40)
    }
    wanted = [first + day * DAY_US for day in range(-2, 130, 3)]

    together = stranding._by_day(submitted, wanted)

    for day in wanted:
        counts: Counter[Task] = Counter()
        for at, own in submitted.items():
            if day - 28 * DAY_US <= at < day:
                counts.update(own)
        assert counts == {replace(task, weight=1): task.weight for task in together[day].tasks}, day
    assert not together[wanted[0]].tasks


def test_check_vectors_of_fgd() -> None:
    tasks = Task(6, 1), Task(3, 8), Task(1, 1, 500)

    assert [Part(1000, 4, 3, 0, 10)] == stranding.stranded_parts(("1000",) * 4, False, H100, tasks), "1.2 of 4"
    assert [Part(500, 2, 9, 0, 10), Part(1000, 1, 3, 0, 10)] == stranding.stranded_parts(
        ("500", "500", "1000"), False, H100, tasks
    ), "1.2 of 2"
    assert [Part(1000, 8, 0, 0, 10)] == stranding.stranded_parts(("1000",) * 8, False, H100, tasks)


# Whole and again ----------------------------------------------------------------------------------------------------


def test_requests_that_become_known_later_divide_ledger_time_again() -> None:
    made = world(machine("n1", 4, held=1)).book()
    before = made.derived()
    made.store.append(Records("pending", pa.Table.from_pylist([asked("big", 4)], schema=PENDING)))

    assert [T0_US + DAY_US] == stranding.refresh(made.store, CLUSTER)
    made.check()
    assert (0.0, 3.0) == free(made)
    assert [] == stranding.refresh(made.store, CLUSTER)
    assert {name: rows for name, rows in before.items() if name != "ledger_hour"} == {
        name: rows for name, rows in made.derived().items() if name != "ledger_hour"
    }


def test_an_analysis_leaves_no_day_to_divide(tmp_path: Path) -> None:
    """It books a new hour and hears of a request of the day before: all days have the requests of now, at once."""
    made = world(machine("n1", 4, held=1))
    with made.store as store, State.open(tmp_path) as state:
        analyze(store, state, made.settings, now_us=us(END))
        store.append(Records("pending", pa.Table.from_pylist([asked("big", 4)], schema=PENDING)))
        made.add(*[row for n in range(4) for row in samples(Gpu(f"GPU-n1-{n}", "n1", n), minutes(END, END + HOUR))])
        analyze(store, state, made.settings, now_us=us(END + HOUR))

        assert [] == stranding.refresh(store, CLUSTER)
        assert ((0.0, 3.0), (4.0, 0.0)) == (free(made), free(made, 25))


_REQUEST = st.tuples(st.sampled_from((1, 2, 3, 4, 8)), st.integers(1, 2))
_JOB = st.tuples(st.integers(0, 3), st.integers(0, HOUR), st.integers(7, HOUR))


@hypothesis_settings(max_examples=5, deadline=None)
@given(requests=st.lists(_REQUEST, min_size=1, max_size=4), jobs=st.lists(_JOB, max_size=5))
def test_books_close_and_an_hour_alone_gives_the_same(
    requests: list[tuple[int, int]], jobs: list[tuple[int, int, int]]
) -> None:
    rows = machine("n1", 4, end=DAY + 2 * HOUR)
    for number, (gpu, start, length) in enumerate(jobs):
        rows.append(
            claim(f"j{number}", DAY + start, DAY + start + length, "n1", gpus=f"GPU-n1-{gpu}", submit_us=us(DAY))
        )
    wanted = [asked(f"r{n}", gpus * nodes, nodes=nodes) for n, (gpus, nodes) in enumerate(requests)]
    made = world(rows, requests=wanted).book()
    once = made.derived() | {"stranding": made.rows("stranding")}

    for hour in (25, 24):
        made.recompute([hour])
        made.check()

    assert once == made.derived() | {"stranding": made.rows("stranding")}
    assert 2 * 4 * HOUR_US == sum(made.buckets().values()), "every microsecond is in one bucket"
    assert 0 <= made.buckets().get("stranded", 0)
    assert set(ledger_hours.FREE_BUCKETS) >= {"stranded"}


@hypothesis_settings(max_examples=8, deadline=None)
@given(cut=st.integers(1, 2 * HOUR * 1_000_000 - 1))
def test_a_window_that_cuts_an_hour_divides_it_as_the_books_do(torn: tuple[World, State], cut: int) -> None:
    made, state = torn
    start_us, end_us = us(DAY), us(DAY + 2 * HOUR)
    whole = _bucket_seconds(made, state, start_us, end_us)
    parts = _bucket_seconds(made, state, start_us, start_us + cut) + _bucket_seconds(
        made, state, start_us + cut, end_us
    )

    assert whole == parts
    assert whole["stranded"] == Decimal(made.buckets()["stranded"]) / 1_000_000


def test_focus_and_the_lines_of_a_charge_divide_free_time_as_the_ledger_does(torn: tuple[World, State]) -> None:
    """Also where the window cuts hours."""
    made, state = torn
    window = Window(us(DAY + 1000), us(DAY + 2 * HOUR - 777))
    ledger = _bucket_seconds(made, state, window.start_us, window.end_us)
    rows = focus_rows(made, state, window)
    lines: Counter[str] = Counter()
    for row in chargeback_listing(chargeback.chargeback(made.store, state, window, ["team", "cause"])).items:
        if row["team"] == "__platform__":
            for line in explain(made.store, state, decode(row["charge"]), limit=1000)["items"]:
                lines[line["bucket"]] += Decimal(line["gpu_seconds"])

    assert ledger["stranded"] == round(3600 * sum(row["x_HoursStranded"] or 0 for row in rows), 6)
    assert ledger["schedulable"] == round(3600 * sum(row["x_HoursSchedulable"] or 0 for row in rows), 6)
    assert {name: ledger[name] for name in ("stranded", "schedulable")} == lines


@pytest.fixture(scope="module")
def torn() -> Iterator[tuple[World, State]]:
    """A node whose state changes at odd moments of two hours, and a third of whose time is of no use."""
    jobs = [(0, 100, 1777), (1, 333, 4000), (0, 5000, 7100), (3, 3599, 3601)]
    rows = machine("n1", 4, end=DAY + 2 * HOUR)
    for n, (number, start, end) in enumerate(jobs):
        rows.append(claim(f"j{n}", DAY + start, DAY + end, "n1", gpus=f"GPU-n1-{number}", submit_us=us(DAY)))
    wanted = [asked("big", 4), asked("a", 1), asked("b", 3), asked("c", 2), asked("d", 1), asked("e", 1), asked("f", 3)]
    made = world(rows, requests=wanted).book()
    with made.store, State.open("sqlite://") as state:
        replace_rates(state, [Rate(H100, "owned", Decimal(2), 0)], "test", "test", 0)
        chargeback.price_all(made.store, state)
        yield made, state


def _bucket_seconds(made: World, state: State, start_us: int, end_us: int) -> Counter[str]:
    """GPU-seconds by bucket."""
    found = chargeback.ledger(made.store, state, Window(start_us, end_us), ["bucket"])
    return Counter({row.bucket: row.gpu_seconds for row in found.items if row.gpu_seconds})
