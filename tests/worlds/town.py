"""Small cases that share one world: each adds its records, all are computed in one pass, then each reads its own devices.

    @case
    def test_a_pod_holds_its_gpu(world: World) -> Iterator[None]:
        world.add(samples(Gpu(), minutes(0, HOUR)), pod("p-0", "u1", 0, HOUR, gpus="GPU-a"))
        yield  # computed here
        assert [("GPU-a", 0, 3600, "u1", "1")] == world.segments()

A pass over forty cases costs little more than one over a single case. Nodes, GPUs, runs and pods of a case have
its mark in their names, which it does not see. All cases have samples of the same hour, the only one: the last sample of one is
that of the cluster. Cases that need more, or read the store themselves, take a World of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.worlds.world import HOUR, Gpu, Sample, Seconds, World, us

NAMED = ("job_id", "run_key", "pod", "pod_uid", "node", "job")
"""Columns of records and labels of samples that name something of one case."""


class Part(World):
    """The devices and runs of one case, in the store of all of them."""

    def __init__(self, whole: World, number: int) -> None:
        self.store, self.settings = whole.store, whole.settings
        self.mark = f"k{number:03}-"

    def add(self, *rows: Sample | dict[str, Any] | list[Sample]) -> World:
        flat = [one for row in rows for one in (row if isinstance(row, list) else [row])]
        late = [one for one in flat if isinstance(one, Sample) and not us(0) <= one.at_us < us(HOUR)]
        assert [] == late, "a case of a town has the samples of one hour"
        return super().add(*(self._of_sample(one) if isinstance(one, Sample) else self._of_record(one) for one in flat))

    def owns(self, name: str | None) -> bool:
        """Whether a node, GPU, run or pod is of this case."""
        return name is not None and self.mark in name

    def segments(self) -> list[tuple[str, Seconds, Seconds, str, str]]:
        found = [
            (self._plain(name), start, end, self._plain(who), share)
            for name, start, end, who, share in super().segments()
            if self.owns(name)
        ]
        return sorted(found, key=lambda row: (row[0], row[1], row[3]))

    def buckets(self, gpu: Gpu | None = None, hour: int | None = None) -> dict[str, int]:
        own = None if gpu is None else self._gpu(gpu)
        return super().buckets(own, hour)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of this case: those of its devices, or of its runs where the table has no devices."""
        devices = self._ids("select device_id from device where contains(gpu, $mark)")
        runs = self._ids("select run_id from run where contains(run_key, $mark)")
        found = super().rows(table)
        own = [row for row in found if row["device_id"] in devices] if found and "device_id" in found[0] else []
        if found and "device_id" not in found[0]:
            own = [row for row in found if row["run_id"] in runs]
        return [{name: self._plain(value) for name, value in row.items()} for row in own]

    def _ids(self, query: str) -> set[int]:
        return {number for (number,) in self.store.sql(query, mark=self.mark)}

    def _of_sample(self, sample: Sample) -> Sample:
        labels = tuple((name, self._named(value) if name in NAMED else value) for name, value in sample.labels)
        return replace(sample, gpu=self._gpu(sample.gpu), labels=labels)

    def _gpu(self, gpu: Gpu) -> Gpu:
        return replace(gpu, uuid=self._uuid(gpu.uuid), node=None if gpu.node is None else self._named(gpu.node))

    def _of_record(self, record: dict[str, Any]) -> dict[str, Any]:
        own = {name: self._named(record[name]) for name in NAMED if record.get(name) is not None}
        if record.get("gpus"):
            own["gpus"] = ",".join(self._uuid(uuid) for uuid in record["gpus"].split(","))
        return record | own

    def _named(self, name: str) -> str:
        """`lab/p-0` is pod p-0 of namespace lab."""
        room, slash, own = name.rpartition("/")
        return f"{room}{slash}{self.mark}{own}"

    def _uuid(self, uuid: str) -> str:
        kind, dash, own = uuid.partition("-")
        return f"{kind}{dash}{self.mark}{own}"

    def _plain(self, value: Any) -> Any:
        return value.replace(self.mark, "") if isinstance(value, str) else value


def case(build: Callable[..., Iterator[None]]) -> Callable[..., None]:
    """A test that adds its records to `world`, yields once, and then reads what became of them."""

    def test(request: pytest.FixtureRequest, **_: Any) -> None:
        steps = request.getfixturevalue("town")[request.node.nodeid]
        with suppress(StopIteration):
            next(steps)
            raise AssertionError("a case yields once")

    own = inspect.signature(build)
    others = [one for name, one in own.parameters.items() if name != "world"]
    asked = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(test, name, getattr(build, name))
    vars(test).update(__signature__=own.replace(parameters=[asked, *others]), case=build)
    return test


def computed(items: Iterable[pytest.Item], whole: World) -> dict[str, Iterator[None]]:
    """Builds the cases among these tests and computes their world; returns each where it stopped, by its test."""
    found: dict[str, Iterator[None]] = {}
    for number, item in enumerate(items):
        build = getattr(getattr(item, "obj", None), "case", None)
        if build is None:
            continue
        given = item.callspec.params if hasattr(item, "callspec") else {}
        steps = build(world=Part(whole, number), **given)
        next(steps)
        found[item.nodeid] = steps
    whole.book()
    return found
