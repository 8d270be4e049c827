"""Links between GPUs: levels and their order, what each carries, what a matrix of one node says, what a ring costs.

Bandwidths are GB/s (1e9 bytes) per direction and GPU: what one rank of a ring sees, not the vendors' sums of both
directions. They are the figures of NCCL's own model, so they say what the hardware can do, not what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

NODE_KINDS = ("gpu", "nvlink", "pcie", "numa", "node")
"""Inside a node, nearest first. `nvlink` is an island of GPUs joined by NVLink; it may reach over switches and sockets."""
TIERS_MAX = 16
TIER_KINDS = ("leaf", "spine", "core", *(f"tier-{n}" for n in range(3, TIERS_MAX)))
"""Switches of the network by their distance from the node."""
OUTER_KINDS = ("host", "nvlink_part", "nvlink_domain", "block", *TIER_KINDS, "zone", "region")
"""Round nodes, nearest first: the machine of a virtual node, an NVLink domain over several nodes, switches, places."""
KINDS = (*NODE_KINDS, *OUTER_KINDS)
"""Every kind of container, nearest first."""
NVLINK_KINDS = ("nvlink_part", "nvlink_domain")

PAIR_LEVELS = ("X", "NV", "C2C", "PIX", "PXB", "PHB", "NODE", "SYS")
"""What `nvidia-smi topo -m` says of two devices, nearest first; NV stands for NV1, NV2, ... (NVML's order: internal,
single, multiple, hostbridge, node, system)."""
_NVLINKS = re.compile(r"NV(\d{1,3})")


def nvlinks(level: str) -> int | None:
    """Links of a level NV#: 18 of `NV18`; None for every other level."""
    match = _NVLINKS.fullmatch(level)
    return int(match[1]) if match else None


def rank(level: str) -> int:
    """The distance of a level (PAIR_LEVELS) or of a container outside the node (OUTER_KINDS): smaller is nearer.

    An NVLink domain over nodes is as near as NVLink inside one. Raises ValueError for an unknown level.
    """
    name = "NV" if nvlinks(level) is not None or level in NVLINK_KINDS else level
    if name in PAIR_LEVELS:
        return PAIR_LEVELS.index(name)
    if name in OUTER_KINDS:
        return len(PAIR_LEVELS) + OUTER_KINDS.index(name)
    raise ValueError(f"unknown level {level!r}")


# Bandwidths --------------------------------------------------------------------------------------------------------

PCIE_GB_PER_S = {3: 12.0, 4: 24.0, 5: 48.0}
"""x16 by generation. NCCL's PCI_BW is 12 for generation 3; each later one doubles it."""
PORT_GB_PER_S = {100: 12.5, 200: 25.0, 400: 50.0, 800: 100.0}
"""A network port by its Gbit/s: line rate over 8."""
SHARE_OF_PIX = {"PIX": 1.0, "PXB": 12 / 13, "PHB": 10 / 13, "NODE": 9 / 13, "SYS": 6 / 13}
"""What is left of the PCIe slot on longer ways: the ratios of the placement scores .13, .12, .10, .09, .06."""


@dataclass(frozen=True)
class Board:
    """What one GPU model can be linked with; None is unknown, or has none."""

    nvlink_gb_per_s: float | None
    """Of one link, one direction, in NCCL's model: 20.0 for SM70 and SM80, 20.6 for SM90, 40.1 for SM100."""
    links: int | None
    """NVLinks of the GPU."""
    pcie: int | None
    """Generation; None where the GPU hangs on its CPU by C2C."""
    hop_gb_per_s: float | None
    """Between the sockets of its usual host, in NCCL's model: Skylake 10, AMD 16, Sapphire Rapids 22, Emerald Rapids 40."""
    port_gbit: int | None
    """Network port per GPU of the reference design."""
    multi_node: bool = False
    """Its NVLink leaves the node: only then do GPUs of two nodes in one NVLink domain talk over NVLink."""


_UNKNOWN = Board(None, None, None, None, None)
# The first pattern found in the name decides; special forms stand before general ones.
_BOARDS: tuple[tuple[str, Board], ...] = (
    (r"\bGB300\b", Board(40.1, 18, None, None, 800, True)),
    (r"\bGB200\b", Board(40.1, 18, None, None, 400, True)),
    (r"\bB300\b", Board(40.1, 18, 5, 40.0, 800)),
    (r"\bB200\b", Board(40.1, 18, 5, 40.0, 400)),
    (r"\bGH200\b", Board(20.6, 18, None, None, 400, True)),
    (r"\bH(?:100|200) (?:NVL|PCIE)\b", Board(20.6, 12, 5, None, None)),
    (r"\bH(?:100|200|20)\b", Board(20.6, 18, 5, 22.0, 400)),
    (r"\bH800\b", Board(20.6, 8, 5, 22.0, 400)),
    (r"\bA100 PCIE\b", Board(20.0, 12, 4, None, None)),
    (r"\bA100\b", Board(20.0, 12, 4, 16.0, 200)),
    (r"\bA800\b", Board(20.0, 8, 4, 16.0, 200)),
    (r"\bA30\b", Board(20.0, 4, 4, None, None)),
    (r"\b(?:RTX )?A(?:40|6000)\b", Board(12.0, 4, 4, None, None)),
    (r"\b(?:A10G?|A16|A2|L40S?|L4|L20|L2|RTX (?:40|6000 ADA)\w*)\b", Board(None, None, 4, None, None)),
    (r"\bV100 PCIE\b", Board(None, None, 3, None, None)),
    (r"\bV100S?\b", Board(20.0, 6, 3, 10.0, 100)),
    (r"\bT4\b", Board(None, None, 3, None, None)),
)


def board(model: str | None) -> Board:
    """What a model such as `NVIDIA H100 80GB HBM3` or the gres type `h100` is linked with."""
    name = re.sub(r"[^A-Z0-9]+", " ", (model or "").upper())
    return next((known for pattern, known in _BOARDS if re.search(pattern, name)), _UNKNOWN)


def link_gb_per_s(model: str | None, level: str) -> float | None:
    """GB/s per direction between two GPUs of a model whose nearest common level is PIX, NV18, SYS, ...; None unknown.

    NV# is the number of links times one link. PCIe levels are the slot's speed times SHARE_OF_PIX, SYS also no more
    than the link between the sockets. Never rises with distance among the PCIe levels.
    """
    known = board(model)
    if (count := nvlinks(level)) is not None:
        return None if known.nvlink_gb_per_s is None else count * known.nvlink_gb_per_s
    if level not in SHARE_OF_PIX or known.pcie is None:
        return None
    speed = PCIE_GB_PER_S[known.pcie] * SHARE_OF_PIX[level]
    if level == "SYS" and known.hop_gb_per_s is not None:
        return min(PCIE_GB_PER_S[known.pcie] * SHARE_OF_PIX["NODE"], known.hop_gb_per_s)
    return speed


def domain_gb_per_s(model: str | None) -> float | None:
    """GB/s per direction and GPU between nodes of one NVLink domain; None for models whose NVLink stays in the node."""
    known = board(model)
    if not known.multi_node or known.nvlink_gb_per_s is None or known.links is None:
        return None
    return known.links * known.nvlink_gb_per_s


def network_gb_per_s(model: str | None, gpus: int | None = None, nics: int | None = None) -> float | None:
    """GB/s per direction and GPU into the network: the reference port of the model, shared where the node has fewer
    network cards than GPUs. Without both counts: one card a GPU. None for models without a reference design, and for a
    node known to have no card.
    """
    gbit = board(model).port_gbit
    if gbit is None or nics == 0:
        return None
    part = 1.0 if not gpus or nics is None else min(1.0, nics / gpus)
    return PORT_GB_PER_S[gbit] * part


# The matrix of one node --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """A device of a matrix and one container round it: parent is "nvlink-0", "pcie-2", "numa-1", or "" for the node."""

    device: str
    parent_kind: str
    parent: str
    level: str | None
    """The level at which GPUs meet in that container."""


@dataclass(frozen=True)
class NodeLinks:
    """What a matrix says of a node."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    members: tuple[Member, ...]
    pairs: tuple[tuple[str, str, str], ...]
    """(GPU, GPU, level), each pair once."""
    uuids: Mapping[str, str] = field(default_factory=dict)


def node_links(rows: Iterable[tuple[str, str, str, Mapping[str, object]]]) -> NodeLinks:
    """Islands, switches and NUMA nodes of a matrix given as (a, b, level, detail); a device with itself is level X.

    PIX and PXB mean below one host bridge, so devices joined by them, network cards included, share a `pcie`
    container: the classes of that equivalence. NV# joins GPUs to an `nvlink` island. `numa` is the NUMA affinity as
    printed ("0", "0-1"). Of a pair told twice the more distant level counts.
    """
    detail: dict[str, Mapping[str, object]] = {}
    levels: dict[tuple[str, str], str] = {}
    for a, b, level, told in sorted(rows, key=lambda row: (row[0], row[1], row[2], sorted(map(str, row[3].items())))):
        if a == b:
            detail[a] = {**detail.get(a, {}), **told}
            continue
        first, second = sorted((a, b), key=_place)
        known = levels.get((first, second))
        if known is None or (rank(level), -(nvlinks(level) or 0)) > (rank(known), -(nvlinks(known) or 0)):
            levels[first, second] = level
    devices = sorted(detail.keys() | {name for pair in levels for name in pair}, key=_place)
    gpus = tuple(name for name in devices if _is_gpu(name))
    nics = tuple(name for name in devices if not _is_gpu(name))
    # Sorted by place, the pairs of a cable come in one order whatever order the rows had.
    between = {pair: level for pair, level in levels.items() if _is_gpu(pair[0]) and _is_gpu(pair[1])}
    nvlink = classes(gpus, [pair for pair, level in between.items() if nvlinks(level) is not None])
    pcie = classes(devices, [pair for pair, level in levels.items() if level in ("PIX", "PXB")])
    members: list[Member] = []
    for name, group in (("nvlink", nvlink), ("pcie", pcie)):
        for inside in group:
            found = {level for pair, level in levels.items() if pair[0] in inside and pair[1] in inside}
            members += [Member(one, name, f"{name}-{_number(inside[0])}", _meeting(name, found)) for one in inside]
    for gpu in gpus:
        numa = str(detail.get(gpu, {}).get("numa_affinity") or "")
        if numa:
            members.append(Member(gpu, "numa", f"numa-{numa}", "NODE"))
    members += [Member(one, "node", "", "SYS" if _is_gpu(one) else None) for one in devices]
    uuids = {name: str(told["uuid"]) for name, told in detail.items() if told.get("uuid")}
    return NodeLinks(gpus, nics, tuple(members), tuple((a, b, v) for (a, b), v in sorted(between.items())), uuids)


def classes(names: Sequence[str], joined: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Names that are joined, directly or over others, each group in the order of `names`; single ones are left out."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for a, b in joined:
        leader[find(b)] = find(a)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(find(name), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _meeting(kind: str, levels: Iterable[str]) -> str | None:
    """The slowest level inside an island of links (fewest NVLinks) or below a host bridge (PXB before PIX)."""
    if kind == "nvlink":
        return min((level for level in levels if nvlinks(level) is not None), key=lambda v: nvlinks(v) or 0)
    return max((level for level in levels if level in ("PIX", "PXB")), key=rank)


def _is_gpu(name: str) -> bool:
    return name.startswith("GPU")


def _number(name: str) -> str:
    digits = re.search(r"\d+$", name)
    return digits[0] if digits and _is_gpu(name) else name


def _place(name: str) -> tuple[bool, int, str]:
    """GPUs by number before the others."""
    digits = re.search(r"\d+$", name)
    return not _is_gpu(name), int(digits[0]) if digits else -1, name


# The cost of an exchange -------------------------------------------------------------------------------------------


def all_reduce_s(size_bytes: float, ranks: int, slowest_gb_per_s: float, step_s: float = 0.0) -> float:
    """Seconds of a ring all-reduce: 2(n-1)/n * S/B_min + 2(n-1) * alpha (nccl-tests, PERFORMANCE.md).

    `slowest_gb_per_s` is the slowest edge of the ring, `step_s` the latency of one step. Trees and in-switch
    reduction can be faster: an upper bound of the time.
    """
    return 2 * gather_s(size_bytes, ranks, slowest_gb_per_s, step_s)


def gather_s(size_bytes: float, ranks: int, slowest_gb_per_s: float, step_s: float = 0.0) -> float:
    """Seconds of an all-gather, reduce-scatter or all-to-all of S bytes in all: (n-1)/n * S/B_min + (n-1) * alpha."""
    return (ranks - 1) / ranks * size_bytes / (slowest_gb_per_s * 1e9) + (ranks - 1) * step_s


def bus_gb_per_s(size_bytes: float, seconds: float, ranks: int) -> float:
    """NCCL's bus bandwidth of an all-reduce: S/t * 2(n-1)/n, comparable with a link's speed whatever n is."""
    return size_bytes / seconds / 1e9 * 2 * (ranks - 1) / ranks


def layered_all_reduce_s(
    size_bytes: float, gpus_a_node: int, nodes: int, inside_gb_per_s: float, network_gb_per_s: float
) -> float:
    """Seconds of an all-reduce inside nodes and between them: 2(g-1)/g * S/B_in + 2(N-1)/N * (S/g)/B_net."""
    inside = all_reduce_s(size_bytes, gpus_a_node, inside_gb_per_s)
    return inside + all_reduce_s(size_bytes / gpus_a_node, nodes, network_gb_per_s)


def slowdown(exposed_ratio: float, bandwidth_ratio: float) -> float:
    """How much longer a step takes when links are `bandwidth_ratio` = best/actual times slower: 1 + phi(r-1).

    `exposed_ratio` (phi, 0..1) is the part of the step on the best links that waits for communication.
    """
    return 1 + exposed_ratio * (bandwidth_ratio - 1)


def throughput_loss(exposed_ratio: float, bandwidth_ratio: float) -> float:
    """The part of the work that is lost to it: 1 - 1/slowdown."""
    return 1 - 1 / slowdown(exposed_ratio, bandwidth_ratio)
