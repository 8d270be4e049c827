"""Attribution from a part of the records gives what all records give, in any order of arrival and any cut into passes.

GPUWATCH_TEST_HISTORIES=300 tries so many histories instead of a few, and compares after every pass.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gpuwatch.ledger import attribution, partial
from gpuwatch.settings import Settings
from gpuwatch.store.withdraw import withdraw
from tests.worlds.world import HOUR, Gpu, Sample, World, claim, node, pod, samples

DEEP = int(os.environ.get("GPUWATCH_TEST_HISTORIES", "0"))
READS_PARTS = 10
"""A history of which most passes need a part only."""
SEEDS = range(DEEP) if DEEP else (1, 2, READS_PARTS)
STEP = 600
SETTINGS = Settings(default_interval_s=STEP, attribution="changed")
KINDS = ("slurm", "slurm", "kubernetes", "kubernetes", "shared", "slices", "nested")
TABLES = ("device", "capacity", "run", "segment")

Arrival = tuple[float, list[Sample | dict[str, Any]], int | None]
"""When records arrive (seconds), what they are, and the file that they come from, if it is taken back later."""


def instants(start: float, end: float) -> list[int]:
    """The scrapes in [start, end)."""
    return list(range(-(-int(start) // STEP) * STEP, int(end), STEP))


class History:
    """A small fleet over some hours, drawn from a seed, as records in the order of their arrival."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.kind = KINDS[seed % len(KINDS)]
        self.scheduler = "slurm" if self.kind in ("slurm", "slices") else "kubernetes"
        self.hours = self.dice.randint(8, 30)
        self.arrivals: list[Arrival] = []
        self.files = 0
        for number in range(self.dice.randint(1, 4)):
            self._gpu(number)
        self._nodes()
        self.arrivals.sort(key=lambda one: one[0])

    def late(self) -> float:
        """How long a record takes: seldom, hours."""
        return self.dice.choice((0, 0, 0, 0, 30, 600, 2 * HOUR, 9 * HOUR) if self.dice.random() < 0.4 else (1,))

    def _gpu(self, number: int) -> None:
        dice, end = self.dice, self.hours * HOUR
        gpu = Gpu(f"GPU-{number}", f"n{number // 2}", number % 2, pci=f"00000000:{number % 2:02x}:00.0")
        if self.kind == "slices" and dice.random() < 0.5:
            gpu = Gpu(gpu.uuid, gpu.node, gpu.index, 1, dice.choice(("1g.10gb", "3g.40gb")))
        first = dice.choice((0, 0, 0, 3 * HOUR))
        quiet = sorted(dice.uniform(first, end) for _ in range(2)) if dice.random() < 0.3 else (0, 0)
        owner: dict[int, list[dict[str, str]]] = {}
        at = first + dice.expovariate(1 / HOUR)
        while at < end:
            until = at + dice.choice((0.5, 1, 2, 12)) * dice.uniform(0.5, 1.5) * HOUR
            self._run(gpu, at, until, owner)
            if self.kind == "shared" and dice.random() < 0.6:
                self._run(gpu, at + dice.uniform(0, HOUR), until + dice.uniform(-HOUR / 2, HOUR), owner)
            at = until + dice.choice((0, 1, 400, dice.expovariate(1 / HOUR)))
        repartitioned = dice.uniform(0, end) if gpu.gi >= 0 else end
        for hour in range(self.hours):
            found: list[Sample | dict[str, Any]] = []
            for when in instants(max(hour * HOUR, first), (hour + 1) * HOUR):
                if quiet[0] <= when < quiet[1] or dice.random() < 0.02:
                    continue
                now = gpu if when < repartitioned else Gpu(gpu.uuid, gpu.node, gpu.index, 2, "2g.20gb")
                for labels in owner.get(when) or [{}]:
                    found += samples(now, [when], **labels)
            self.arrivals.append(((hour + 1) * HOUR + self.late(), found, None))

    def _run(self, gpu: Gpu, start: float, end: float, owner: dict[int, list[dict[str, str]]]) -> None:
        """A job or pod on a device: its labels, and the records of it as they arrive."""
        dice = self.dice
        start, end = int(start), int(end)
        name = str(dice.randrange(10**6)) if dice.random() < 0.9 else "again"
        pods = self.kind in ("kubernetes", "shared") or (self.kind == "nested" and dice.random() < 0.5)
        labels = {"namespace": "lab", "pod": name, "pod_uid": f"u{start}"} if pods else {"job": name}
        if dice.random() < 0.85:
            lag = dice.choice((0, 0, 0, 60, 900))
            for when in instants(start + lag, end + lag):
                owner.setdefault(when, []).append(labels)
        if dice.random() < 0.12:
            return  # known from labels only
        words: dict[str, Any] = {"profile": gpu.profile, "user_name": dice.choice(("ann", "bob")), "queue": "q"}
        if dice.random() < 0.15 and gpu.gi < 0:
            words["gpus"] = gpu.uuid
        if dice.random() < 0.1:
            words["device_indexes"] = str(gpu.index)

        def record(until: int | None, seen: float, begin: int = start) -> dict[str, Any]:
            if pods:
                kind = dice.choice(("k8s-json", "ksm")) if until is None or dice.random() < 0.5 else "k8s-json"
                return pod(name, f"u{start}", begin, until, gpu.node, evidence=int(seen), kind=kind, **words)
            key = f"{name}@{start}" if dice.random() < 0.05 else name
            return claim(name, begin, until, gpu.node, evidence=int(seen), run_key=key, **words)

        for seen in range(start + 60, min(end, start + 8 * HOUR), 2 * HOUR):
            if dice.random() < 0.7:
                self.arrivals.append((seen + self.late(), [record(None, seen)], None))
        if dice.random() < 0.9:
            self.arrivals.append((end + self.late(), [record(end, end)], None))
        if dice.random() < 0.08:  # a correction
            other = max(start + 60, end + dice.choice((-1, 1)) * dice.randrange(3 * HOUR))
            self.arrivals.append((end + self.late(), [record(other, end, start - dice.choice((0, 0, HOUR)))], None))
        if dice.random() < 0.08:  # an import that is taken back later
            self.files += 1
            words = {"evidence": end + dice.choice((0, 6 * HOUR)), "run_key": f"wrong{self.files}"}
            wrong = claim(f"wrong{self.files}", start - HOUR, end, gpu.node, scheduler=self.scheduler, **words)
            self.arrivals.append((end + self.late(), [wrong], self.files))
            self.arrivals.append((end + 3 * HOUR + self.late(), [], self.files))

    def _devices(self) -> dict[str, int] | None:
        return self.dice.choice((None, {"": 2}, {"": 2}, {"": 3}))

    def _nodes(self) -> None:
        dice = self.dice
        if dice.random() < 0.4:
            self.arrivals.append(
                (1, [node(f"n{n}", self._devices(), 0, scheduler=self.scheduler) for n in range(2)], None)
            )
        for _ in range(dice.choice((0, 0, 1, 3))):
            at = dice.randrange(self.hours * HOUR)
            state = dice.choice(("up", "drained", "down"))
            words = {"sharing": dice.choice(("none", "none", "time-slicing")), "scheduler": self.scheduler}
            self.arrivals.append((at + self.late(), [node("n0", self._devices(), at, state=state, **words)], None))
        if self.kind == "nested":
            self.arrivals.append((1, [node("n0", {"": 1}, 0, scheduler="kubernetes")], None))

    def passes(self) -> Iterator[list[Arrival]]:
        """The arrivals, cut into passes by their time."""
        dice, rest = self.dice, list(self.arrivals)
        until = 0.0
        while rest:
            until += dice.choice((0.5, 1, 1, 3, 8)) * HOUR
            now = [one for one in rest if one[0] <= until]
            rest = [one for one in rest if one[0] > until]
            if now:
                yield now


def arrive(world: World, arrivals: list[Arrival]) -> None:
    """Stores what arrives; an empty file is taken back."""
    for _, rows, file in arrivals:
        if rows:
            world.add(*rows)
            if file is not None:
                world.store.sql("update claim set file_id = $f where job_id = $j", f=file, j=f"wrong{file}")
        elif file is not None:
            with world.store.transaction():
                withdraw(world.store, [file], "test")


def computed(world: World) -> dict[str, list[dict[str, Any]]]:
    return {name: world.rows(name) for name in (*TABLES, "dirty_hour")}


def rebuild(world: World) -> None:
    world.store.sql("delete from attributed")
    world.attribute()


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How many attributions a part of the records sufficed for, and how many not."""
    seen: Counter[bool] = Counter()
    from_part = attribution._Attribution.from_part

    def counting(self: Any, work: Any) -> bool:
        done = from_part(self, work)
        seen[done] += 1
        return done

    monkeypatch.setattr(attribution._Attribution, "from_part", counting)
    monkeypatch.setattr(partial, "WORTH_US", 0)
    return seen


@pytest.mark.parametrize("seed", SEEDS)
def test_a_part_of_the_records_gives_what_all_give(seed: int, parts: Counter[bool]) -> None:
    history = History(seed)
    world, whole = World(SETTINGS), World(SETTINGS)
    for number, arrivals in enumerate(history.passes()):
        for one in (world, whole):
            arrive(one, arrivals)
        world.attribute()
        if DEEP:
            rebuild(whole)
            assert computed(whole) == computed(world), f"pass {number}"
        for one in (world, whole):
            one.store.sql("delete from dirty_hour")
    found = {name: world.rows(name) for name in TABLES}
    rebuild(world)

    assert {name: world.rows(name) for name in TABLES} == found
    if seed == READS_PARTS:
        assert parts[True] >= 2, parts


def test_a_new_hour_of_a_long_history_reads_a_part(parts: Counter[bool]) -> None:
    world = World(SETTINGS)
    gpu = Gpu()
    for hour in range(30):
        jobs = claim(str(hour), hour * HOUR, (hour + 1) * HOUR)
        world.add(jobs, samples(gpu, instants(hour * HOUR, (hour + 1) * HOUR), job=str(hour)))
        if hour in (27, 28, 29):
            world.attribute()
            world.store.sql("delete from dirty_hour")

    assert {True: 2} == parts
    assert [(str(hour),) for hour in range(30)] == world.store.sql("select job_id from run order by start_us")
