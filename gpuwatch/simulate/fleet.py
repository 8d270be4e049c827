"""The simulated fleet: nodes, their GPUs, the MIG instances of partitioned GPUs."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from gpuwatch.errors import UsageError

GPUS_MIN = 4
GPUS_MAX = 20_000
NODE_GPUS = 8
COMPUTE_SLICES = 7
MEMORY_SLICES = 8
WHOLE = -1


@dataclass(frozen=True)
class Model:
    """A GPU model: its names in telemetry, Kubernetes and Slurm, and what shapes its readings."""

    name: str
    product: str
    gres: str
    family: str
    short: str
    tdp_w: float
    idle_w: float
    fb_mib: int
    boost_mhz: int
    idle_mhz: int
    nvlink_bytes_s: float
    nvlink_label: str


H100 = Model(
    "NVIDIA H100 80GB HBM3",
    "NVIDIA-H100-80GB-HBM3",
    "nvidia_h100_80gb_hbm3",
    "hopper",
    "h100",
    700.0,
    68.0,
    81_008,
    1980,
    345,
    900e9,
    "NV18",
)
A100 = Model(
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA-A100-SXM4-80GB",
    "nvidia_a100-sxm4-80gb",
    "ampere",
    "a100",
    400.0,
    54.0,
    81_251,
    1410,
    210,
    600e9,
    "NV12",
)


@dataclass(frozen=True)
class Profile:
    """A MIG profile of an 80 GB GPU: slices it takes, its memory, and the GPU-instance ids NVML gives it."""

    name: str
    compute: int
    memory: int
    fb_mib: int
    instance_ids: tuple[int, ...]

    @property
    def dominant(self) -> Fraction:
        """The larger of its compute and memory fraction of the GPU."""
        return max(Fraction(self.compute, COMPUTE_SLICES), Fraction(self.memory, MEMORY_SLICES))


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("1g.10gb", 1, 1, 9_728, tuple(range(7, 14))),
        Profile("1g.20gb", 1, 2, 19_968, tuple(range(15, 19))),
        Profile("2g.20gb", 2, 2, 19_968, (3, 5, 4)),
        Profile("3g.40gb", 3, 4, 40_192, (2, 1)),
        Profile("4g.40gb", 4, 4, 40_192, (1,)),
    )
}

LAYOUTS: tuple[tuple[str, ...], ...] = (
    ("1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"),
    ("4g.40gb", "3g.40gb"),
    ("1g.10gb",) * 7,
    ("2g.20gb", "3g.40gb"),
    ("4g.40gb", "3g.40gb"),
    ("1g.20gb",) * 4,
    ("1g.10gb", "2g.20gb", "2g.20gb", "2g.20gb"),
    ("3g.40gb",),
)
"""MIG layouts in the order GPUs of a MIG node get them; dominant shares sum to more than, exactly or less than 1."""


@dataclass(frozen=True)
class Device:
    """What a job can hold: a whole GPU (gi = -1) or a MIG instance, which counts `share` of its GPU."""

    node: str
    index: int
    gpu: str
    model: Model
    gi: int
    profile: str
    share: Fraction
    exported: bool

    @property
    def id(self) -> str:
        """`GPU-<uuid>`, or `GPU-<uuid>/GI-<id>` for a MIG instance."""
        return self.gpu if self.gi == WHOLE else f"{self.gpu}/GI-{self.gi}"

    @property
    def fb_mib(self) -> int:
        """Memory a process can use, MiB."""
        return PROFILES[self.profile].fb_mib if self.profile else self.model.fb_mib


@dataclass(frozen=True)
class Node:
    """A host. `counters` names the field set its exporter has: training, standard, default, mig, or none."""

    name: str
    scheduler: str
    model: Model
    pool: str
    counters: str
    gpu_count: int
    devices: tuple[Device, ...]

    @property
    def is_mig(self) -> bool:
        """Whether its GPUs are partitioned."""
        return self.counters == "mig"


@dataclass(frozen=True)
class Fleet:
    """All nodes of the simulated cluster."""

    nodes: tuple[Node, ...]

    def devices(self) -> Iterator[Device]:
        """Every whole GPU and MIG instance."""
        for node in self.nodes:
            yield from node.devices

    def remainders(self) -> Iterator[tuple[str, Model, Fraction]]:
        """(GPU UUID, model, share of the GPU that no configured MIG instance covers) of each partitioned GPU."""
        for node in self.nodes:
            if node.is_mig:
                left = {device.gpu: Fraction(1) for device in node.devices}
                for device in node.devices:
                    left[device.gpu] -= device.share
                yield from ((gpu, node.model, share) for gpu, share in left.items())


def build_fleet(gpus: int, seed: int) -> Fleet:
    """A fleet of `gpus` GPUs: one half under Slurm, one under Kubernetes, where the MIG nodes are.

    From 16 GPUs on, one Slurm node has no exporter and one has the exporter's default counters only.
    """
    if not GPUS_MIN <= gpus <= GPUS_MAX:
        raise UsageError(f"simulate: {gpus} GPUs; give {GPUS_MIN} to {GPUS_MAX}")
    slurm = gpus // 2
    return Fleet(tuple(_slurm_nodes(slurm, seed) + _kubernetes_nodes(gpus - slurm, seed)))


def mig_shares(layout: tuple[str, ...]) -> list[Fraction]:
    """Share of each instance: dominant fractions, scaled down where they add up to more than the GPU."""
    dominant = [PROFILES[name].dominant for name in layout]
    total = max(sum(dominant, Fraction(0)), Fraction(1))
    return [share / total for share in dominant]


def _slurm_nodes(gpus: int, seed: int) -> list[Node]:
    special = 4 if gpus >= 16 else 2 if gpus >= 8 else 0
    nodes = []
    if special:
        nodes.append(_whole_node("gpu-a100-dark-01", "slurm", A100, "a100", "none", special, seed))
        nodes.append(_whole_node("gpu-a100-lite-01", "slurm", A100, "a100", "default", special, seed))
    for number, count in enumerate(_chunks(gpus - 2 * special)):
        model = A100 if number % 3 == 1 else H100
        name = f"gpu-{model.short}-{number + 1:02d}"
        nodes.append(
            _whole_node(
                name, "slurm", model, model.short, "training", count, seed, hide_first=number == 0 and count > 1
            )
        )
    return nodes


def _kubernetes_nodes(gpus: int, seed: int) -> list[Node]:
    mig = min(gpus - 1, max(1, gpus // 4))
    nodes = []
    for number, count in enumerate(_chunks(gpus - mig)):
        model = A100 if number % 3 == 1 else H100
        name, pool = f"k8s-{model.short}-{number + 1:02d}", f"{model.short}-pool"
        hide_first = number == 0 and count > 1
        nodes.append(_whole_node(name, "kubernetes", model, pool, "standard", count, seed, hide_first))
    for number, count in enumerate(_chunks(mig)):
        model = H100 if number % 2 else A100
        nodes.append(_mig_node(f"k8s-mig-{number + 1:02d}", model, f"mig-{model.short}-pool", count, seed))
    return nodes


def _chunks(gpus: int) -> list[int]:
    return [min(NODE_GPUS, gpus - done) for done in range(0, gpus, NODE_GPUS)]


def _whole_node(
    name: str,
    scheduler: str,
    model: Model,
    pool: str,
    counters: str,
    count: int,
    seed: int,
    hide_first: bool = False,
) -> Node:
    """A node of whole GPUs; with `hide_first` its exporter leaves out GPU 0."""
    devices = tuple(
        Device(
            name,
            index,
            _gpu_uuid(seed, name, index),
            model,
            WHOLE,
            "",
            Fraction(1),
            counters != "none" and not (hide_first and index == 0),
        )
        for index in range(count)
    )
    return Node(name, scheduler, model, pool, counters, count, devices)


def _mig_node(name: str, model: Model, pool: str, count: int, seed: int) -> Node:
    devices = []
    for index in range(count):
        layout = LAYOUTS[index % len(LAYOUTS)]
        gpu = _gpu_uuid(seed, name, index)
        used: dict[str, int] = {}
        for profile, share in zip(layout, mig_shares(layout), strict=True):
            position = used.get(profile, 0)
            used[profile] = position + 1
            gi = PROFILES[profile].instance_ids[position]
            devices.append(Device(name, index, gpu, model, gi, profile, share, True))
    return Node(name, "kubernetes", model, pool, "mig", count, tuple(devices))


def _gpu_uuid(seed: int, node: str, index: int) -> str:
    digest = hashlib.blake2b(f"{seed}/{node}/{index}".encode(), digest_size=16).digest()
    return f"GPU-{uuid.UUID(bytes=digest)}"
