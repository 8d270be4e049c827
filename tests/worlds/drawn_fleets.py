"""Fleets that are drawn: for what holds of the books whatever a fleet does.

A question of the store costs nearly the same for one GPU as for twenty, so a fleet is several tiny ones side by side.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import SECOND_US
from tests.worlds import oracle
from tests.worlds.steady import DEPTH
from tests.worlds.world import HOUR, STEP_S, Gpu, Sample, claim, us

LETTERS = {
    "g": "gr_engine_ratio",
    "s": "sm_active_ratio",
    "t": "tensor_active_ratio",
    "d": "dram_active_ratio",
    "p": "fp32_active_ratio",
}
LINK_BYTES_PER_S = 742e9
LAYOUTS = ((), (), ("1g.10gb", "2g.20gb"), ("4g.40gb", "3g.40gb"), ("3g.40gb",))
MOODS = ("busy", "busy", "idle", "idle", "hollow", "silent", "random")


@dataclass(frozen=True)
class Fleet:
    """A fleet as drawn: the samples, the scheduler records, and which device each run held."""

    samples: tuple[Sample, ...]
    claims: tuple[dict[str, Any], ...]
    holds: tuple[oracle.Hold, ...]
    shares: dict[str, Fraction]
    remainders: dict[str, Fraction]

    @property
    def rows(self) -> list[Sample | dict[str, Any]]:
        return [*self.samples, *self.claims]


FLEETS = range(3 * DEPTH)
"""Numbers of drawn fleets."""
FEW_FLEETS = FLEETS[: 2 * DEPTH]
"""The first of them, for tests that ask much of each."""
PARTS = 6


def drawn_fleet(number: int) -> Fleet:
    """Six tiny fleets of one cluster, on nodes of their own."""
    parts = [tiny_fleet(seed) for seed in range(PARTS * number, PARTS * (number + 1))]
    return Fleet(
        tuple(sample for part in parts for sample in part.samples),
        tuple(row for part in parts for row in part.claims),
        tuple(hold for part in parts for hold in part.holds),
        {device: share for part in parts for device, share in part.shares.items()},
        {gpu: rest for part in parts for gpu, rest in part.remainders.items()},
    )


def tiny_fleet(seed: int) -> Fleet:
    """A node with 1-3 GPUs, some partitioned, 2-4 hours at a minute with any phase, losses, a gap, sparse fields, jobs."""
    rng = random.Random(seed)
    host, hours = f"n{seed}", rng.randint(2, 4)
    devices: list[Gpu] = []
    shares: dict[str, Fraction] = {}
    remainders: dict[str, Fraction] = {}
    for index in range(rng.randint(1, 3)):
        uuid = f"GPU-{seed}-{index}"
        layout = rng.choice(LAYOUTS)
        if not layout:
            devices.append(Gpu(uuid, host, index))
            shares[uuid] = Fraction(1)
            continue
        parts, rest = oracle.layout_shares(layout)
        remainders[uuid] = rest
        for gi, (profile, share) in enumerate(zip(layout, parts, strict=True)):
            devices.append(Gpu(uuid, host, index, gi, profile))
            shares[name_of(devices[-1])] = share
    phase: dict[str, int] = defaultdict(lambda: rng.randrange(STEP_S))
    jobs = _jobs(rng, devices, hours, 100 + 10 * seed)
    samples: list[Sample] = []
    for gpu in devices:
        samples += _history(rng, gpu, phase[gpu.uuid], hours, [j for j in jobs if gpu in j[3]])
    labelled = {(s.gpu, value) for s in samples for _, value in s.labels}
    claims, holds = [], []
    for job, start, end, held in jobs:
        if any((g, job) not in labelled for g in held):
            continue  # Lost with its samples: where such a job goes is an estimate, and not this file's matter.
        claims.append(claim(job, start, end, host, len(held), profile=held[0].profile))
        holds += [oracle.Hold(job, name_of(g), us(start), us(end)) for g in held]
    kept = {row["job_id"] for row in claims}
    labelled = tuple(replace(s, labels=tuple(pair for pair in s.labels if pair[1] in kept)) for s in samples)
    return Fleet(labelled, tuple(claims), tuple(holds), shares, remainders)


def name_of(gpu: Gpu) -> str:
    return gpu.uuid if gpu.gi < 0 else f"{gpu.uuid}/GI-{gpu.gi}"


Job = tuple[str, Fraction, Fraction, list[Gpu]]


def _jobs(rng: random.Random, devices: Sequence[Gpu], hours: int, first: int) -> list[Job]:
    """Jobs of one device, or of all whole GPUs, at any microsecond, one after the other on each device; numbered."""
    free = {name_of(g): Fraction(0) for g in devices}
    whole = [g for g in devices if g.gi < 0]
    jobs: list[Job] = []
    for number in range(first, first + rng.randint(1, 5)):
        held = whole if len(whole) > 1 and rng.random() < 0.4 else [rng.choice(devices)]
        start = max(free[name_of(g)] for g in held) + Fraction(rng.randrange(0, HOUR * SECOND_US), SECOND_US)
        end = start + Fraction(rng.randrange(180 * SECOND_US, 2 * HOUR * SECOND_US), SECOND_US)
        end = min(end, Fraction(hours * HOUR) - Fraction(rng.randrange(SECOND_US), SECOND_US))
        if end - start < 180:
            continue
        jobs.append((str(number), start, end, list(held)))
        for g in held:
            free[name_of(g)] = end
    return jobs


def _history(rng: random.Random, gpu: Gpu, phase: int, hours: int, jobs: Sequence[Job]) -> list[Sample]:
    """Samples of one device: stretches of one mood each, single losses, one long gap, fields absent or read seldom."""
    seldom = {name: rng.choice((1, 1, 1, 2, 4)) for name in LETTERS.values()}
    absent = {name for name in LETTERS.values() if rng.random() < 0.12}
    gap = rng.randrange(hours * 60) if rng.random() < 0.5 else None
    linked = rng.random() < 0.5
    samples: list[Sample] = []
    mood, left = "busy", 0
    for number in range(hours * 60):
        if left == 0:
            mood, left = rng.choice(MOODS), rng.randint(3, 40)
        left -= 1
        at = phase + number * STEP_S
        lost = gap is not None and gap <= number < gap + 25
        if lost or rng.random() < 0.02 and number % 4 != 3:
            continue
        read = values(rng, mood)
        fields = {n: v for n, v in read.items() if n not in absent and number % seldom[n] == seldom[n] - 1}
        if linked and gpu.gi < 0:
            speed = rng.choice((0.0, 0.1, 0.5)) * LINK_BYTES_PER_S
            fields |= {"nvlink_tx_bytes_per_s": speed, "nvlink_rx_bytes_per_s": 0.0}
        fields["fb_used_bytes"] = 1e9
        owner = [job for job, start, end, _ in jobs if start <= at < end]
        labels = (("job", owner[0]),) if owner else ()
        samples.append(Sample(gpu, us(at), labels, tuple(sorted(fields.items()))))
    return samples


def values(rng: random.Random, mood: str) -> dict[str, float]:
    """What a device reads in a mood."""
    if mood == "idle":
        ratios = (rng.choice((0.0, 0.01, 0.0199)), 0.0, 0.0, rng.choice((0.0, 0.009)), 0.0)
    elif mood == "hollow":
        ratios = (0.97, 0.2, 0.03, 0.1, 0.02)
    elif mood == "silent":
        return {}
    elif mood == "busy":
        ratios = (0.9, 0.8, 0.5, 0.25, 0.1)
    else:
        ratios = tuple(round(rng.random(), 3) for _ in range(5))  # type: ignore[assignment]
    return dict(zip(LETTERS.values(), ratios, strict=True))
