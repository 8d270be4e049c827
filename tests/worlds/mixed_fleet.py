"""A fleet with every scheduler, inside of each other too: devices, and who was on them from when to when."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

Spans = Mapping[str, tuple[int, int]]
"""Start and end, in seconds, of everything that runs."""
SPANS: Spans = {
    "train": (300, 2400),
    "mig-a": (600, 1860),
    "mig-b": (900, 3000),
    "slice-a": (120, 1800),
    "slice-b": (600, 2400),
    "drawn": (600, 2700),
    "rays": (60, 3300),
    "k1-tune": (600, 1200),
    "serve": (1500, 2100),
    "501": (900, 1500),
    "502": (1800, 2400),
    "100": (300, 1500),
    "101": (360, 1260),
    "200": (300, 900),
    "200-again": (1500, 2100),
    "201": (900, 1200),
    "s1-501": (2400, 3000),
    "het": (2400, 3300),
    "400": (420, 1680),
    "600": (180, 3480),
    "s1-tune": (600, 1800),
    "batch": (300, 1500),
    "small": (1800, 2700),
    "batch-b": (600, 1800),
    "quarter": (2800, 3400),
    "k1-quarter": (2400, 3000),
    "other": (900, 1500),
}
SHIFT_S = 29
"""Less than half a minute: no sample changes hands, and what follows on a device still does."""
SLICE_SHARE = {"1g.10gb": Fraction(1, 7), "3g.40gb": Fraction(1, 2)}
"""The larger part of a slice: sevenths of the SMs or eighths of the memory."""


def shifted(seed: int) -> Spans:
    """Every span a little earlier or later, whole. Outer ones reach further than what runs in them by more."""
    rng = random.Random(seed)
    moved = {name: rng.randint(-SHIFT_S, SHIFT_S) for name in SPANS}
    moved["201"] = moved["200"]  # it follows on the same GPU
    return {name: (start + moved[name], end + moved[name]) for name, (start, end) in SPANS.items()}


class Device(NamedTuple):
    """A GPU, or a MIG slice of one, as an exporter names it."""

    cluster: str
    node: str
    number: int
    gi: int = -1
    profile: str | None = None

    @property
    def gpu(self) -> str:
        words = self.cluster.encode().hex(), self.node.encode().hex()
        return f"GPU-{words[0]:0>8}-0000-0000-{words[1]:0>4}-{self.number:012}"

    @property
    def name(self) -> str:
        return self.gpu if self.gi < 0 else f"{self.gpu}/GI-{self.gi}"

    @property
    def share(self) -> Fraction:
        return SLICE_SHARE[self.profile] if self.profile else Fraction(1)


@dataclass(frozen=True)
class Hold:
    """`job` is on `device` during [start, end) seconds. `depth`: how many schedulers it is inside of."""

    device: Device
    start: int
    end: int
    scheduler: str
    job: str
    team: str
    depth: int = 0
    part: Fraction = Fraction(1)
    """How much of the device; the rest stays with whom it is inside of."""
    label: tuple[tuple[str, str], ...] = ()
    """What the exporter says of it."""


@dataclass
class Fleet:
    """What is in the world: devices, and who was on them."""

    devices: list[Device] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)

    def node(self, cluster: str, name: str, gpus: int, *slices: tuple[int, str]) -> list[Device]:
        made = [Device(cluster, name, i) for i in range(gpus)] + [Device(cluster, name, 0, gi, p) for gi, p in slices]
        self.devices += made
        return made

    def hold(self, devices: Sequence[Device], start: int, end: int, who: tuple[str, str, str], **words: Any) -> None:
        self.holds += [Hold(device, start, end, *who, **words) for device in devices]


def a_fleet(at: Spans) -> Fleet:
    """k1 is Kubernetes with Slurm and Ray inside, s1 Slurm with Ray inside, r1 Ray by itself."""
    fleet = Fleet()
    kueue, mig = fleet.node("k1", "kw", 2), fleet.node("k1", "km", 0, (7, "1g.10gb"), (8, "1g.10gb"), (1, "3g.40gb"))
    sliced, drawn = fleet.node("k1", "kt", 1), fleet.node("k1", "kd", 2)
    rays, slurmd = fleet.node("k1", "kr", 2), fleet.node("k1", "ks", 2)

    def pod(name: str, namespace: str = "ml") -> tuple[tuple[str, str], ...]:
        return ("namespace", namespace), ("pod", name)

    fleet.hold(kueue, *at["train"], ("kubernetes", "ml/train", "ml"), label=pod("train-0"))
    fleet.hold(mig[:1], *at["mig-a"], ("kubernetes", "ml/mig-a", "ml"), label=pod("mig-a"))
    fleet.hold(mig[2:], *at["mig-b"], ("kubernetes", "ml/mig-b", "ml"), label=pod("mig-b"))
    fleet.hold(sliced, *at["slice-a"], ("kubernetes", "ml/slice-a", "ml"))
    fleet.hold(sliced, *at["slice-b"], ("kubernetes", "ml/slice-b", "ml"))
    other = pod("train-0", "other")
    fleet.hold(drawn[:1], *at["other"], ("kubernetes", "other/train-0", "other"), label=other)
    fleet.hold(drawn[1:], *at["drawn"], ("kubernetes", "ml/drawn", "ml"))
    fleet.hold(rays, *at["rays"], ("kubernetes", "ml/rays", "ml"), label=pod("rays-head-0"))
    fleet.hold(rays[:1], *at["k1-tune"], ("ray", "tune", "ml"), depth=1)
    fleet.hold(rays, *at["serve"], ("ray", "serve", "serving"), depth=1)
    fleet.hold(rays[:1], *at["k1-quarter"], ("ray", "quarter", "ml"), depth=1, part=Fraction(1, 4))
    fleet.hold(
        slurmd,
        0,
        3600,
        ("kubernetes", "slinky/slurmd", "slinky"),
        label=pod("slurm-worker-slurmd-0", "slinky"),
    )
    fleet.hold(slurmd, *at["501"], ("slurm", "501", "vision"), depth=1)
    fleet.hold(slurmd[1:], *at["502"], ("slurm", "502", "nlp"), depth=1)

    whole, cut, big = fleet.node("s1", "sa", 4), fleet.node("s1", "sb", 0, (3, "1g.10gb")), fleet.node("s1", "sc", 2)

    def job(number: int) -> tuple[tuple[str, str], ...]:
        return (("hpc_job", str(number)),)

    fleet.hold(whole[2:3], *at["100"], ("slurm", "100_0", "vision"), label=job(100))
    fleet.hold(whole[1:2], *at["101"], ("slurm", "100_1", "vision"), label=job(101))
    fleet.hold(whole[:1], *at["200"], ("slurm", "200", "nlp"), label=job(200))
    fleet.hold(whole[:1], *at["201"], ("slurm", "201", "vision"), label=job(201))
    fleet.hold(whole[2:3], *at["s1-501"], ("slurm", "501", "nlp"), label=job(501))
    fleet.hold(whole[3:], *at["200-again"], ("slurm", "200", "nlp"), label=job(200))
    fleet.hold(whole[:1], *at["het"], ("slurm", "300+0", "vision"), label=job(300))
    fleet.hold(whole[1:2], *at["het"], ("slurm", "300+1", "vision"), label=job(301))
    fleet.hold(cut, *at["400"], ("slurm", "400", "nlp"), label=job(400))
    fleet.hold(big, *at["600"], ("slurm", "600", "vision"), label=job(600))
    fleet.hold(big, *at["s1-tune"], ("ray", "tune", "vision"), depth=1)

    alone, head = fleet.node("r1", "ra", 4), fleet.node("r1", "rb", 1)
    fleet.hold(head, *at["batch-b"], ("ray", "batch", "batch"))
    fleet.hold(alone[:1], *at["quarter"], ("ray", "quarter", "__unallocated__"), part=Fraction(1, 4))
    fleet.hold(alone, *at["batch"], ("ray", "batch", "batch"))
    fleet.hold(alone[:1], *at["small"], ("ray", "small", "__unallocated__"))
    return fleet
