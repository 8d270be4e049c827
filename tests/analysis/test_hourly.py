"""A fleet that is analysed hour by hour, as a service does it: findings keep their keys, and the books say what they say at once."""

from __future__ import annotations

import os
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US
from gpuwatch.imports.files import import_paths
from gpuwatch.ledger.hours import BUCKETS
from gpuwatch.settings import Settings
from gpuwatch.simulate import live
from gpuwatch.simulate.live import LiveFleet
from gpuwatch.state import State
from gpuwatch.store.database import Store

START_US = 1_793_577_600_000_000
"""Monday 2026-11-02T00:00:00Z."""
STEP_S = 60
A_STEP = HOUR_US // (STEP_S * SECOND_US)
WITHDRAWN = ("rule_changed", "records changed")
SETTINGS = Settings(default_interval_s=STEP_S)

Results = dict[str, tuple[Any, ...]]


def results_of(store: Store) -> Results:
    """Findings that stand, by key."""
    rows = store.sql(
        "select key, detector, subject_kind, subject_id, started_us, coalesce(ended_us, last_seen_us), state, wasted_units,"
        " wasted_den, bucket from finding where resolved_reason is null or not list_contains($w, resolved_reason)",
        w=list(WITHDRAWN),
    )
    return {row[0]: row[1:] for row in rows}


def bring(store: Store, state: State, bundle: Path, now_us: int) -> None:
    """Imports a bundle and analyses what it changed."""
    import_paths(store, state, "bundle", [bundle], cluster=None, now_us=now_us)
    report = analyze(store, state, SETTINGS, now_us=now_us)
    assert [] == report.failed_rules


def hourly(directory: Path, gpus: int, seed: int, past_days: float, hours: int) -> tuple[list[Results], Results]:
    """What stands after each of some hours, and what stands when the same is analysed at once."""
    fleet = LiveFleet(gpus, past_days, seed, STEP_S, START_US)
    end = fleet.past + hours * A_STEP
    at = [fleet.epoch.start_us + n * STEP_S * SECOND_US for n in range(fleet.past, end + 1, A_STEP)]
    fleet.write_history(directory / "past", None)
    steps: list[Results] = []
    with Store.open(directory / "hourly") as store, State.open(directory / "hourly") as state:
        bring(store, state, directory / "past", at[0])
        for number in range(hours):
            first = fleet.past + number * A_STEP
            fleet.write_since(directory / f"hour{number}", first, first + A_STEP)
            bring(store, state, directory / f"hour{number}", at[number + 1])
            steps.append(results_of(store))
        before = store.sql("select * from finding order by key")
        analyze(store, state, SETTINGS, now_us=at[-1] + HOUR_US)
        assert before == store.sql("select * from finding order by key"), "analysing again changed something"
        within_the_ledger(store)
    with Store.open(directory / "once") as store, State.open(directory / "once") as state:
        for name in ("past", *(f"hour{number}" for number in range(hours))):
            import_paths(store, state, "bundle", [directory / name], cluster=None, now_us=at[-1])
        analyze(store, state, SETTINGS, now_us=at[-1])
        return steps, results_of(store)


def within_the_ledger(store: Store) -> None:
    """What findings claim of a bucket is never more than the ledger has of it, in any hour."""
    lists = ", ".join(f"{bucket}_us" for bucket in BUCKETS)
    over = store.sql(
        f"""with booked as (
            select cluster, hour_us, device_id, run_id, replace(name, '_us', '') as bucket,
                sum(us::hugeint * share_num * 840 // share_den) as weighed, sum(us)::hugeint as us
            from (unpivot ledger_hour on {lists} into name name value us)
            group by all
        ),
        claimed as (
            select cluster, hour_us, device_id, run_id, bucket, sum(us)::hugeint as us
            from granted_claim group by all
        )
        select c.*, b.us from claimed c
        left join booked b
            on b.cluster = c.cluster and b.hour_us = c.hour_us and b.device_id = c.device_id and b.bucket = c.bucket
            and b.run_id is not distinct from c.run_id
        where c.us > coalesce(b.us, 0)"""
    )
    assert [] == over
    sums = store.sql(
        "select f.bucket, f.wasted_units, f.wasted_den from finding f where f.bucket is not null and f.wasted_units <> '0'"
    )
    claimed = sum((Fraction(int(units), den) for _, units, den in sums), Fraction(0))
    granted = store.sql("select us, share_num, share_den from granted_claim")
    assert claimed == sum((Fraction(us * num, den) for us, num, den in granted), Fraction(0))


@pytest.mark.parametrize(
    ("gpus", "seed", "past_days", "hours"), [pytest.param(12, 5, 0.25, 4, id="four hours after a quarter of a day")]
)
def test_hour_by_hour_findings_keep_their_keys_and_end_as_if_analysed_at_once(
    tmp_path: Path, gpus: int, seed: int, past_days: float, hours: int
) -> None:
    steps, once = hourly(tmp_path, gpus, seed, past_days, hours)

    assert once == steps[-1]
    assert steps[0] != steps[-1]
    keys: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for step in steps:
        for key, (detector, kind, subject, started, *_) in step.items():
            keys[detector, kind, subject, started].add(key)
    assert [] == [cause for cause, own in keys.items() if len(own) > 1]
    lost = {key: step[key] for step in steps for key in step if key not in steps[-1]}
    assert {} == lost


@pytest.mark.slow
@pytest.mark.skipif(
    "GPUWATCH_WEEK" not in os.environ, reason="168 analyses take minutes: set GPUWATCH_WEEK=1 to run them"
)
def test_a_week_of_hourly_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same over a week."""
    monkeypatch.setattr(live, "AHEAD_S", 7 * DAY_US // SECOND_US)
    steps, once = hourly(tmp_path, 24, 6, 0.5, 7 * 24)

    assert once == steps[-1]
    assert {} == {key: step[key] for step in steps for key in step if key not in steps[-1]}
