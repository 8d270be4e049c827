"""Attribution in passes ends with the rows of a full one, after every pass, whatever arrives late, changes or is taken back."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.fields import columns
from gpuwatch.ledger.attribution import attribute
from gpuwatch.store.database import Store
from gpuwatch.store.sample_columns import stored_fields, widen
from gpuwatch.store.withdraw import withdraw
from tests.worlds.long_history import DAY, SLOW, History, history
from tests.worlds.world import CLUSTER, HOUR, Gpu, World, claim, minutes, node, pod, samples, us

TABLES = ("device", "capacity", "run", "segment")
SEEDS = (0, 1, 3, 401)
"""In the last, one of two owners of a shared GPU ends at another time and the other part changes its owner."""
FORGOTTEN = 77
"""The file of what is taken back."""


def rows(store: Store, *names: str) -> dict[str, list[Any]]:
    return {name: store.sql(f"select * from {name} order by all") for name in names or TABLES}


def hours_that_differ(before: list[Any], after: list[Any]) -> set[int]:
    """The hours in which the segments of one are not those of the other, apart from the methods that shares are computed by."""
    return {one[0] for one in by_hour(before) ^ by_hour(after)}


def by_hour(segments: list[Any]) -> set[Any]:
    return {
        (hour, device, max(start, hour * HOUR_US), min(end, (hour + 1) * HOUR_US), *rest)
        for _, device, start, end, *rest, _, _ in segments
        for hour in range(start // HOUR_US, (end - 1) // HOUR_US + 1)
    }


class Passes:
    """A world that gets a history pass by pass."""

    def __init__(self, made: History) -> None:
        self.world, self.made = World(SLOW), made
        self.settings, self.methods = SLOW, list[tuple[int, str]]()

    def arrive(self, number: int) -> None:
        """What pass NUMBER brings and takes back."""
        store = self.world.store
        self.settings = self.made.settings.get(number, self.settings)
        self.methods = self.made.methods.get(number, self.methods)
        self.world.add(*self.made.batches[number])
        self.mark()
        self.world.seal()
        if jobs := self.made.withdrawn.get(number):
            store.sql("delete from claim where list_contains($jobs, job_id)", jobs=jobs)
        if number in self.made.forgotten:
            with store.transaction():
                withdraw(store, [FORGOTTEN + number], "an import")

    def mark(self) -> None:
        """Gives the rows of jobs that are forgotten later the file that they are forgotten with."""
        for number, jobs in self.made.forgotten.items():
            names = [job.removeprefix("lab/") for job in jobs]
            values = {"file": FORGOTTEN + number, "jobs": jobs, "names": names}
            self.world.store.sql(
                "update claim set file_id = $file where list_contains($jobs, job_id)",
                **self.only(values, "file", "jobs"),
            )
            self.world.store.sql(
                "update sample_tail set file_id = $file where context_id in"
                " (select context_id from context where list_contains($names, job) or list_contains($names, pod))",
                **self.only(values, "file", "names"),
            )

    @staticmethod
    def only(values: dict[str, Any], *names: str) -> dict[str, Any]:
        return {name: values[name] for name in names}

    def attribute(self, *, everywhere: bool = False) -> None:
        attribute(self.world.store, CLUSTER, self.settings, self.methods, everywhere=everywhere)

    def computed(self) -> None:
        """The hours that wait were computed."""
        self.world.store.sql("delete from dirty_hour")


def run(made: History) -> None:
    """Compares each pass with a full attribution of the same records, and the last with one of a store that got them at once."""
    parts = Passes(made)
    for number in range(len(made.batches)):
        parts.arrive(number)
        store = parts.world.store
        before = rows(store, "segment")["segment"]
        parts.attribute()
        got = rows(store)
        dirty = {hour // HOUR_US for (hour,) in store.sql("select hour_us from dirty_hour")}
        parts.computed()
        parts.attribute(everywhere=True)
        expected = rows(store)
        assert [] == [(number, name) for name in TABLES if got[name] != expected[name]]
        assert set() == hours_that_differ(before, got["segment"]) - dirty
        parts.computed()
    whole = Passes(History([[]], settings={}, methods={}))
    whole.settings, whole.methods = parts.settings, parts.methods
    for table in ("claim", "node", "context"):
        copy_table(parts.world.store, whole.world.store, table)
    copy_table(parts.world.store, whole.world.store, "sample", into="sample_tail")
    whole.world.seal()
    whole.attribute()
    final = rows(whole.world.store)
    assert [] == [name for name in TABLES if got[name] != final[name]]
    assert final == with_each_record_twice(whole)


def with_each_record_twice(parts: Passes) -> dict[str, list[Any]]:
    """The rows after another attribution: then no run has a single record, so none is read without grouping its records."""
    parts.world.store.sql("insert into claim select * from claim")
    parts.attribute()
    return rows(parts.world.store)


def copy_table(source: Store, target: Store, table: str, into: str | None = None) -> None:
    names = [row[0] for row in source.sql("select name from pragma_table_info($t)", t=table)]
    if table == "sample":
        widen(target, stored_fields(source))
        names = [name for name in names if name not in columns() or name in stored_fields(source)]
    with target.view("copied_rows", source._arrow(f"select * from {table}", {})):
        target.sql(f"insert into {into or table} ({', '.join(names)}) select {', '.join(names)} from copied_rows")


@pytest.mark.parametrize("seed", SEEDS)
def test_each_pass_ends_with_the_rows_of_a_full_attribution(seed: int) -> None:
    run(history(seed))


def test_a_new_hour_computes_the_segments_of_its_own_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """They begin with the segment before the last that ended an hour before the day. Without news, none is computed."""
    gpu, world = Gpu(), World(SLOW)
    for start in (day * DAY + hour * HOUR for day in range(4) for hour in (1, 7, 13)):
        job = f"from-{start}"
        world.add(samples(gpu, minutes(start, start + 5 * HOUR, 600), job=job), claim(job, start, start + 5 * HOUR))
        world.add(samples(gpu, minutes(start + 5 * HOUR, start + 6 * HOUR, 600)))
    world.add(samples(gpu, minutes(3 * DAY + 19 * HOUR, 4 * DAY, 600))).attribute()

    world.add(samples(gpu, minutes(4 * DAY, 4 * DAY + HOUR, 600), job="new"), claim("new", 4 * DAY, 4 * DAY + HOUR))
    assert {gpu.device_id: us(3 * DAY + 13 * HOUR)} == begun(world, monkeypatch)
    assert {} == begun(world, monkeypatch)


def begun(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """From when the segments of each device are computed in another attribution."""
    found: list[tuple[int, int]] = []
    running = Store.run

    def noting(self: Store, name: str, /, **parameters: object) -> int:
        changed = running(self, name, **parameters)
        if name == "ledger/segments/recomputed":
            found.extend(self.sql("select device_id, from_us from recomputed"))
        return changed

    with monkeypatch.context() as patch:
        patch.setattr(Store, "run", noting)
        world.attribute()
    return dict(found)


def test_late_samples_of_a_gpu_that_was_silent_change_the_days_of_its_silence() -> None:
    a, b = Gpu("GPU-a"), Gpu("GPU-b", "n2")
    first = [*samples(a, minutes(0, 4 * DAY, 600)), *samples(b, minutes(0, DAY, 600))]

    run(History([first, [*samples(b, minutes(2 * DAY, 3 * DAY, 600))]]))


def test_a_run_with_one_record_has_the_rows_of_one_that_has_it_twice() -> None:
    gpus = [Gpu(f"GPU-{name}", "n1", place) for place, name in enumerate("abcd")]
    passes = Passes(History([], settings={}, methods={}))
    passes.world.add(
        *(sample for gpu in gpus for sample in samples(gpu, minutes(0, DAY, 600))),
        *samples(gpus[3], minutes(DAY, 2 * DAY, 600), job="labelled"),
        node("n1", {"": 4}, at=0),
        claim("ended", 0, HOUR, "n1", gpus="GPU-a", account="lab", state="COMPLETED"),
        claim("runs", HOUR, None, "n1", gpus="GPU-a", evidence=3 * HOUR, state="RUNNING", queue="q"),
        claim("silent", HOUR, None, "n1", gpus="GPU-b", state="PENDING"),
        claim("no-length", 2 * HOUR, 2 * HOUR, "n1", gpus="GPU-c", state="COMPLETED"),
        claim("still-running", 2 * HOUR, 3 * HOUR, "n1", gpus="GPU-c", state="RUNNING"),
        claim("year-9999", 4 * HOUR, 250_000_000_000, "n1", gpus="GPU-c", state="FAILED"),
        claim("by-count", 4 * HOUR, 6 * HOUR, "n1", 2),
        claim("no-node", 4 * HOUR, 6 * HOUR, None),
        claim("labelled", DAY, 2 * DAY, "n1"),
        pod("w", "u1", 5 * HOUR, 7 * HOUR, "n1", gpus="GPU-b", labels='{"team": "a"}'),
        pod("open", "u2", 8 * HOUR, None, "n1", gpus="GPU-b"),
    )
    passes.world.seal()
    passes.attribute()
    once = rows(passes.world.store)

    assert 10 == len(once["run"])
    assert once == with_each_record_twice(passes)


def two_owners() -> list[Any]:
    """Two pods that hold one GPU for two days, of which samples name the first."""
    gpu = Gpu("GPU-a")
    words = {"namespace": "lab", "pod": "p1", "pod_uid": "u1"}
    return [
        *samples(gpu, minutes(0, 4 * DAY, 600), **words),
        *(pod(f"p{number}", f"u{number}", 0, 2 * DAY, "n1", gpus="GPU-a") for number in (1, 2)),
        node("n1", {"": 1}, at=0, scheduler="kubernetes"),
    ]


def test_an_outage_that_is_known_late_changes_the_days_since_it_began() -> None:
    gpus = [
        sample for name in ("a", "b") for sample in samples(Gpu(f"GPU-{name}", f"n{name}"), minutes(0, 4 * DAY, 600))
    ]
    known = [claim("1", 2 * DAY, 3 * DAY, "na"), node("na", {"": 1}, at=0)]

    run(History([[*gpus, *known], [node("na", {"": 1}, at=4 * DAY, state="down", since_us=us(DAY))]]))


def test_samples_that_name_another_owner_late_make_their_day_a_shared_one() -> None:
    late = samples(Gpu("GPU-a"), minutes(DAY, DAY + 6 * HOUR, 600), namespace="lab", pod="p2", pod_uid="u2")

    run(History([two_owners(), [*late]]))


def test_a_node_that_shares_its_gpus_changes_all_days() -> None:
    shared = node("n1", {"": 1}, at=4 * DAY, scheduler="kubernetes", sharing="time-slicing", replicas=2)

    run(History([two_owners(), [shared]]))


def test_a_run_inside_another_that_is_taken_back_changes_all_days() -> None:
    """While it is there, the digests do not say what it holds."""
    gpu = Gpu("GPU-a")
    outer = pod("w-0", "w", 0, 3 * DAY, "n1", gpus="GPU-a")
    inner = claim("7", DAY, 2 * DAY, "w-0", user_name="ann")

    run(History([[*samples(gpu, minutes(0, 4 * DAY, 600)), outer, inner], []], withdrawn={1: ["7"]}))
