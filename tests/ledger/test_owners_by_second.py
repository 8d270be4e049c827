"""Who owned each GPU-second: drawn fleets where everything happens at once, against a count second by second.

Jobs are resized, suspended and requeued, GPUs are replaced and cut into slices, and local clocks are set back meanwhile.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpuwatch.collectors.slurm.sacct import parse_sacct
from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.model import Rejects, Source
from tests.worlds.oracle import layout_shares
from tests.worlds.steady import DEPTH
from tests.worlds.world import BUSY, HOUR, T0_US, Gpu, Sample, World, minutes, node, samples

ZONE = ZoneInfo("America/New_York")
START, END = -21 * HOUR, -15 * HOUR
"""Six hours in whose third and fourth local clocks show the same: they go back at -18 hours."""
FOLD, HALF_HOUR = -18 * HOUR, HOUR // 2
LAYOUTS = (("3g.40gb", "4g.40gb"), ("1g.10gb", "2g.20gb"), ("3g.40gb",))
PARTS = 12
"""Pairs of nodes in one fleet: a pass over twelve costs little more than over one."""
COLUMNS = "JobID|JobIDRaw|User|State|Submit|Start|End|ElapsedRaw|Suspended|NNodes|NodeList|AllocTRES"


@dataclass
class Place:
    """A slot of a node, or a slice of its GPU: from when to when devices were there, and what a second of it counts."""

    node: str
    index: int
    spans: list[tuple[int, int]]
    weight: Fraction = Fraction(1)
    profile: str | None = None
    free_from: int = START


@dataclass
class Drawn:
    """What sources report of a fleet, and how many GPU-seconds each job had."""

    samples: list[Sample] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=lambda: [COLUMNS])
    indexes: dict[tuple[str, str], list[Place]] = field(default_factory=dict)
    owned: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))

    def hold(self, job: str, place: Place, start: int, end: int) -> None:
        """Counts the seconds in which a device was there, one by one."""
        there = sum(1 for second in range(start, end) if any(a <= second < b for a, b in place.spans))
        self.owned[job] += there * place.weight

    def run(
        self, job: str, places: Iterable[Place], start: int, end: int, state: str = "COMPLETED",
        begun: int | None = None, suspended: int = 0,
    ) -> None:  # fmt: skip
        """A record of accounting. `begun`: when the job began that was resized at `start`."""
        places = list(places)
        nodes = sorted({place.node for place in places})
        profile = places[0].profile
        kind = "gres/gpu" if profile is None else f"gres/gpu:h100_{profile}"
        first = start if begun is None else begun
        clock = f"{suspended // HOUR:02}:{suspended // 60 % 60:02}:{suspended % 60:02}"
        row = [
            job, job, "ann", state, local(start if begun is not None else first - 1), local(first), local(end),
            str(end - first - suspended), clock, str(len(nodes)), ",".join(nodes), f"cpu=1,{kind}={len(places)}",
        ]  # fmt: skip
        self.lines.append("|".join(row))
        for name in nodes:
            self.indexes[job, name] = [place for place in places if place.node == name]
        for place in places:
            self.hold(job, place, start, end)

    @property
    def claims(self) -> list[dict[str, Any]]:
        """What sacct printed, with the indexes that scontrol has."""
        rejects = Rejects()
        rows = list(parse_sacct(iter(enumerate(self.lines, 1)), Source("sacct.txt", "c1", ZONE.key), rejects))
        assert {} == rejects.counts, rejects.first
        claims = []
        for _, claim in rows:
            mine = self.indexes[claim["job_id"], claim["node"]]
            named = {"kind": "scontrol", "device_indexes": ",".join(str(place.index) for place in mine)}
            claims.append(claim | {"device_count": len(mine)} | ({} if claim["profile"] else named))
        return claims


def local(second: int) -> str:
    """As Slurm prints it, without an offset."""
    at = datetime.fromtimestamp(T0_US // SECOND_US + second, UTC)
    return f"{at.astimezone(ZONE):%Y-%m-%dT%H:%M:%S}"


def certain(start: int, end: int) -> bool:
    """Whether the length decides which of the two local hours both times are of: not where both are of one."""
    return not any(low <= start < low + HOUR and low <= end < low + HOUR for low in (FOLD - HOUR, FOLD))


def drawn(seed: int) -> Drawn:
    fleet = Drawn()
    for number in range(PARTS * seed, PARTS * (seed + 1)):
        _two_nodes(random.Random(number), fleet, number)
    return fleet


def _two_nodes(rng: random.Random, fleet: Drawn, number: int) -> None:
    """Two nodes of one to three GPUs each, perhaps another GPU that is cut for a while, and the jobs on them."""
    places: list[Place] = []
    for letter in "ab":
        name = f"n{number}{letter}"
        size = rng.randint(1, 3)
        fleet.nodes.append(node(name, {"": size}, at=START))
        for index in range(size):
            places.append(_slot(rng, fleet, name, index, number))
    for turn in range(rng.randint(2, 7)):
        _job(rng, fleet, places, f"{number}{turn:02}")
    if rng.random() < 0.4:
        _cut(rng, fleet, f"n{number}c", f"{number}9")


def _slot(rng: random.Random, fleet: Drawn, name: str, index: int, number: int) -> Place:
    """A GPU that is there all the time, or is replaced once or twice, and its samples."""
    pci = f"00000000:{index + 1:02X}:00.0"
    edges = sorted(rng.sample(range(START + 1800, END - 1800, 60), rng.choice((0, 0, 0, 1, 2))))
    spans, at = [], START
    for edge in edges:
        if edge - at >= 1200:
            spans.append((at, edge))
            at = edge + 60 * rng.choice((0, 1, 10))
    spans.append((at, END))
    for turn, (first, last) in enumerate(spans):
        gpu = Gpu(f"GPU-{name}-{index}-{turn}", name, index, pci=pci)
        fleet.samples += samples(gpu, minutes(first, last), BUSY)
    return Place(name, index, spans)


def _cut(rng: random.Random, fleet: Drawn, name: str, job: str) -> None:
    """A GPU that is cut into slices for a while, with jobs on it before and afterwards, and on the slices."""
    first, second = START + 60 * rng.randrange(20, 120), END - 60 * rng.randrange(20, 120)
    profiles = rng.choice(LAYOUTS)
    whole = Gpu(f"GPU-{name}", name)
    fleet.samples += samples(whole, [*minutes(START, first), *minutes(second, END)], BUSY)
    fleet.nodes.append(node(name, {"": 1}, at=START))
    place = Place(name, 0, [(START, first), (second, END)])
    jobs = [(place, START, first), (place, second + 60, END)]
    for gi, (profile, share) in enumerate(zip(profiles, layout_shares(profiles)[0], strict=True), 1):
        fleet.samples += samples(Gpu(whole.uuid, name, 0, gi, profile), minutes(first, second), BUSY)
        jobs.append((Place(name, 0, [(first, second)], share, profile), first, second))
    for turn, (one, low, high) in enumerate(jobs):
        start, end = sorted(rng.sample(range(low + 1, high - 1), 2))
        if certain(start, end):
            fleet.run(f"{job}{turn}", [one], start, end)


def _job(rng: random.Random, fleet: Drawn, places: list[Place], job: str) -> None:
    """A job on free places: plain, suspended, requeued or resized."""
    held = rng.sample(places, rng.randint(1, min(4, len(places))))
    start = max(place.free_from for place in held) + rng.randrange(1, HOUR)
    end = start + rng.randrange(120, 2 * HOUR)
    if end >= END or not certain(start, end):
        return
    for place in held:
        place.free_from = end
    what = rng.choice(("plain", "suspended", "requeued", "resized"))
    nodes = sorted({place.node for place in held})
    middle = rng.randrange(start + 60, end - 30)
    if what == "suspended":
        fleet.run(job, held, start, end, suspended=rng.randrange(1, end - start))
    elif what == "requeued" and certain(start, middle) and certain(middle + 20, end):
        fleet.run(job, held, start, middle, "REQUEUED")
        fleet.run(job, held, middle + 20, end)
    elif what == "resized" and len(nodes) == 2 and certain(start, middle):
        kept = [place for place in held if place.node == nodes[0]]
        fleet.run(job, held, start, middle, "RESIZING")
        fleet.run(job, kept, middle, end, begun=start)
    else:
        fleet.run(job, held, start, end)


@pytest.mark.parametrize("seed", range(2 * DEPTH))
def test_every_job_owns_its_gpu_seconds_and_nobody_else_has_them(seed: int) -> None:
    check(seed)


def check(seed: int) -> None:
    fleet = drawn(seed)
    world = World().add(fleet.samples, *fleet.nodes, *fleet.claims).book()
    found: dict[str, Fraction] = defaultdict(Fraction)
    for job, us_, num, den in world.store.sql(
        """select r.job_id, sum(s.end_us - s.start_us), s.share_num, s.share_den
        from segment s join run r using (run_id) group by all"""
    ):
        found[job] += Fraction(int(us_), SECOND_US) * Fraction(num, den)

    assert {job: seconds for job, seconds in fleet.owned.items() if seconds} == dict(found)
