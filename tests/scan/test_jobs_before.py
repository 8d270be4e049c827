"""Records of jobs that end before the days of a scan: the scan says so, and does not ask for records of jobs."""

from __future__ import annotations

import pytest

from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.scan.facts import _no_jobs
from gpuwatch.store.database import Store

WINDOW = Window(100 * DAY_US, 114 * DAY_US)


def jobs(*spans: tuple[str, float, float | None]) -> list[str]:
    """What a scan says of jobs with these beginnings and ends, in days, and how to mend it."""
    with Store.open(None) as store:
        for number, (job, start, end) in enumerate(spans):
            store.sql(
                "insert into run (run_id, cluster, scheduler, job_id, start_us, end_us) values ($id, 'c', 'slurm', $job, $start, $end)",
                id=number,
                job=job,
                start=int(start * DAY_US),
                end=None if end is None else int(end * DAY_US),
            )
        return [f"{one['what']} {one['fix']}" for one in _no_jobs(store, WINDOW)]


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([], id="no records of jobs at all: other words say so"),
        pytest.param([("1", 90, 95), ("2", 99, 101)], id="a job reaches into the window"),
        pytest.param([("1", 90, 95), ("2", 99, None)], id="a job that runs on"),
        pytest.param([("1", 115, 116)], id="only later jobs"),
    ],
)
def test_nothing_is_said_where_the_window_has_jobs(spans: list[tuple[str, float, float | None]]) -> None:
    assert [] == jobs(*spans)


def test_jobs_that_all_ended_before_are_named_with_the_days_that_have_them() -> None:
    assert [
        (
            "No job of these days is known: the 2 jobs of the records ended by 1970-04-08T12:00:00Z, before these days began. "
            "So all GPUs look free. The metrics are newer than the dumps of jobs: dump the jobs again, or scan with --days 24."
        )
    ] == jobs(("1", 90.5, 95), ("2", 91, 97.5), ("2", 91, 92), ("3", 120, None))


def test_one_job() -> None:
    assert jobs(("1", 99, 100))[0].startswith("No job of these days is known: the only job of the records ended by ")
