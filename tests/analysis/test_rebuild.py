"""Passes that compute what changed end with the tables of one pass over everything, and with those of a rebuild."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.analysis.rebuild import REBUILT, differences
from gpuwatch.billing import chargeback
from gpuwatch.core.clock import Window
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.ledger.test_ledger_properties import batches_of, wild_rows
from tests.worlds.world import HOUR, SETTINGS, Gpu, Sample, World, claim, minutes, pod, samples, us

NOW_US = us(24 * HOUR)
# The day sums have a class of devices instead, and word_day one of the runs that it sums.
COMPARED = (*(name for name in REBUILT if name != "word_day"), "run_team", "device_class")


def fuzzed(seed: int) -> tuple[list[list[Any]], list[str]]:
    """What arrives in each of five passes, in any order, and the jobs that are withdrawn before the last of them.

    Silences, repartitions, label sets that share a device, pods and Slurm jobs of one name, a Slurm job in a pod, a replaced GPU,
    ends and accounts that are corrected.
    """
    rng = random.Random(seed)
    readings, records = wild_rows(seed)
    cut = rng.randrange(HOUR, 3 * HOUR)
    old, new = Gpu("GPU-old", node="n2", index=0), Gpu("GPU-new", node="n2", index=0)
    readings += samples(old, minutes(0, cut)) + samples(new, minutes(cut + 120, 5 * HOUR))
    records += [
        claim("r", cut - 1800, None, node="n2", evidence=cut),
        claim("r", cut - 1800, cut + 1800, node="n2", account="lab"),
        claim("late", 600, 1200, node="n2", user_name="ann"),
        claim("late", 600, cut - 1900, node="n2", account="corrected", evidence=cut),
        claim("gone", 60, 400, node="n2"),
        pod("worker", "w", 300, 2 * HOUR, node="n2"),
        claim("inner", 400, HOUR, node="worker"),
        claim("inner", 400, HOUR + 600, node="worker", evidence=2 * HOUR),
    ]
    return batches_of(rng, [*readings, *records], 5), ["gone", *rng.sample(["p", "late", "lab/worker"], 1)]


def passes(batches: list[list[Any]], withdrawn: list[str], state: State) -> World:
    """The world after an analysis of each batch."""
    world = World()
    for number, batch in enumerate(batches, 1):
        world.add(*batch)
        if number == len(batches):
            world.store.sql("delete from claim where list_contains($jobs, job_id)", jobs=withdrawn)
        report = analyze(world.store, state, SETTINGS, now_us=NOW_US, detectors=["blind-spot"])
        assert [] == report.failed_rules
    return world


def tables(store: Store) -> dict[str, list[Any]]:
    return {name: store.sql(f"select * from {name} order by all") for name in COMPARED}


@pytest.mark.parametrize("seed", range(3))
def test_passes_in_any_order_end_as_one_pass_and_as_a_rebuild(seed: int) -> None:
    state = State.open("sqlite://")
    batches, withdrawn = fuzzed(seed)

    parts = passes(batches, withdrawn, state)
    whole = passes([[row for batch in batches for row in batch]], withdrawn, state)

    expected, got = tables(whole.store), tables(parts.store)
    assert [] == [name for name in expected if expected[name] != got[name]]
    assert [] == differences(parts.store, state, SETTINGS)


def test_a_pass_writes_only_the_segments_and_runs_that_changed() -> None:
    a, b = Gpu(), Gpu("GPU-b", index=1)
    rows: list[Sample] = [s for gpu in (a, b) for s in samples(gpu, minutes(0, 3 * HOUR))]
    world = World().add(rows, claim("1", 0, HOUR, gpus="GPU-a"), claim("2", HOUR, 2 * HOUR, gpus="GPU-b")).book()
    before = {name: stored(world.store, name) for name in ("segment", "run")}

    world.add(claim("3", 0, HOUR, gpus="GPU-b")).attribute()

    stays = {name: len(rows.items() & stored(world.store, name).items()) for name, rows in before.items()}
    # Of GPU-b, the free time before its job is now held by job 3.
    assert {"segment": 4, "run": 2} == stays
    assert {"segment": 5, "run": 2} == {name: len(rows) for name, rows in before.items()}


def stored(store: Store, table: str) -> dict[int, Any]:
    return {row[0]: row[1:] for row in store.sql(f"select rowid, * from {table}")}


def test_the_team_of_a_run_follows_its_words_alone() -> None:
    """A record that changes the account of a run, and no time, changes its team; teams of other runs are not decided again."""
    state = State.open("sqlite://")
    world = World().add(
        samples(Gpu(), minutes(0, 2 * HOUR)), claim("1", 0, 600, account="a"), claim("2", 900, 1800, account="b")
    )

    def teams() -> dict[str, tuple[str, int]]:
        analyze(world.store, state, SETTINGS, now_us=NOW_US, detectors=["blind-spot"])
        rows = world.store.sql("select r.job_id, t.team, t.rowid from run r join run_team t using (run_id) order by 1")
        return {job: (team, number) for job, team, number in rows}

    before = teams()
    assert {"1": "a", "2": "b"} == {job: team for job, (team, _) in before.items()}

    world.add(claim("1", 0, 600, account="z"))
    after = teams()
    assert {"1": "z", "2": "b"} == {job: team for job, (team, _) in after.items()}
    assert before["2"] == after["2"]
    window = Window(us(0), us(HOUR))
    charged = {row.group["team"] for row in chargeback.chargeback(world.store, state, window).items}
    assert {"b", "z", "__platform__"} == charged
