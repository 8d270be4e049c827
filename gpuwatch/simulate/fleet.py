"""The simulated fleet: nodes, their GPUs, the MIG instances of partitioned GPUs."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpuwatch.core.errors import UsageError
from gpuwatch.simulate.models import A100, H100, LAYOUTS, PROFILES, Model
from gpuwatch.simulate.patches import Patch

GPUS_MIN = 4
GPUS_MAX = 20_000
NODE_GPUS = 8
DRIVER = "550.90.07"
WHOLE = -1


@dataclass(frozen=True)
class Device:
    """A device that a job can hold: a whole GPU (gi = -1) or a MIG instance with a `share` of its GPU.

    It is in its slot during [since_s, until_s) of the window; None: to the end.
    """

    node: str
    index: int
    gpu: str
    model: Model
    gi: int
    profile: str
    share: Fraction
    exported: bool
    since_s: int = 0
    until_s: int | None = None

    @property
    def id(self) -> str:
        """`GPU-<uuid>`, or `GPU-<uuid>/GI-<id>` for a MIG instance."""
        return self.gpu if self.gi == WHOLE else f"{self.gpu}/GI-{self.gi}"

    @property
    def fb_mib(self) -> int:
        """Memory a process can use, MiB."""
        return PROFILES[self.profile].fb_mib if self.profile else self.model.fb_mib


@dataclass(frozen=True)
class Outage:
    """Since when the scheduler of a node keeps it out of service, and why. `down`: it does not answer; otherwise it is drained."""

    since_s: int
    reason: str
    down: bool = False


@dataclass(frozen=True)
class Node:
    """A host. `counters` names the field set its exporter has: training, standard, default, health, mig, or none.

    It belongs to the fleet from `from_s` on; its exporter is read each `every` steps. `replicas` above 1: its GPUs are
    shared by time-slicing. `driver` is what it has; `drivers_before` lists (until second, driver) in order of time.
    """

    name: str
    scheduler: str
    model: Model
    pool: str
    counters: str
    gpu_count: int
    devices: tuple[Device, ...]
    from_s: int = 0
    every: int = 1
    replicas: int = 1
    links: str = "nvswitch"
    leaf: str = ""
    driver: str = DRIVER
    drivers_before: tuple[tuple[int, str], ...] = ()
    mig_strategy: str = "mixed"
    taints: tuple[tuple[str, str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    patches: tuple[Patch, ...] = ()
    also_kubernetes: bool = False
    """A Slurm node that is also a Kubernetes node."""
    outage: Outage | None = None

    @property
    def is_mig(self) -> bool:
        """Whether its GPUs are partitioned."""
        return self.counters == "mig"

    def driver_at(self, second: int) -> str:
        """The driver it ran at that second of the window."""
        return next((driver for until, driver in self.drivers_before if second < until), self.driver)


@dataclass(frozen=True)
class Fleet:
    """All nodes of the simulated cluster."""

    nodes: tuple[Node, ...]

    def devices(self) -> Iterator[Device]:
        """Every whole GPU and MIG instance."""
        for node in self.nodes:
            yield from node.devices

    def remainders(self) -> Iterator[tuple[Node, Fraction]]:
        """(node, share of a GPU that no configured MIG instance covers) of each partitioned GPU."""
        for node in self.nodes:
            if node.is_mig:
                left = {device.gpu: Fraction(1) for device in node.devices}
                for device in node.devices:
                    left[device.gpu] -= device.share
                yield from ((node, share) for share in left.values())


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
        name = f"k8s-mig-{number + 1:02d}"
        devices = mig_devices(name, model, LAYOUTS, count, seed)
        nodes.append(Node(name, "kubernetes", model, f"mig-{model.short}-pool", "mig", count, devices))
    return nodes


def _chunks(gpus: int) -> list[int]:
    return [min(NODE_GPUS, gpus - done) for done in range(0, gpus, NODE_GPUS)]


def _whole_node(
    name: str, scheduler: str, model: Model, pool: str, counters: str, count: int, seed: int, hide_first: bool = False
) -> Node:
    """A node of whole GPUs; with `hide_first` its exporter leaves out GPU 0."""
    devices = tuple(
        Device(
            name,
            index,
            gpu_uuid(seed, name, index),
            model,
            WHOLE,
            "",
            Fraction(1),
            counters != "none" and not (hide_first and index == 0),
        )
        for index in range(count)
    )
    return Node(name, scheduler, model, pool, counters, count, devices)


def mig_devices(
    name: str, model: Model, layouts: Sequence[tuple[str, ...]], count: int, seed: int
) -> tuple[Device, ...]:
    """The instances of `count` GPUs of a node, which get the layouts in turn."""
    devices = []
    for index in range(count):
        layout = layouts[index % len(layouts)]
        gpu = gpu_uuid(seed, name, index)
        used: dict[str, int] = {}
        for profile, share in zip(layout, mig_shares(layout), strict=True):
            position = used.get(profile, 0)
            used[profile] = position + 1
            gi = PROFILES[profile].instance_ids[position]
            devices.append(Device(name, index, gpu, model, gi, profile, share, True))
    return tuple(devices)


def gpu_uuid(seed: int, node: str, index: int) -> str:
    digest = hashlib.blake2b(f"{seed}/{node}/{index}".encode(), digest_size=16).digest()
    return f"GPU-{uuid.UUID(bytes=digest)}"
