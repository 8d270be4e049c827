"""Links between GPUs: levels and their order, bandwidths, containers in the matrix of a node, and costs of collectives.

Bandwidths are GB/s (1e9 bytes) per direction and GPU, as seen by one rank of a ring; vendors often state the sum of both
directions. They are the figures of NCCL's model, so they are the capability of the hardware, not measurements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse

NODE_KINDS = ("gpu", "nvlink", "pcie", "numa", "node")
"""Within a node, nearest first. `nvlink` is an island of GPUs connected by NVLink, possibly across switches and sockets."""
TIERS_MAX = 16
TIER_KINDS = ("leaf", "spine", "core", *(f"tier-{n}" for n in range(3, TIERS_MAX)))
"""Network switches by their distance from the node."""
OUTER_KINDS = ("host", "nvlink_part", "nvlink_domain", "block", *TIER_KINDS, "zone", "region")
"""Around nodes, nearest first: the host of a virtual node, an NVLink domain of several nodes, switches, locations."""
KINDS = (*NODE_KINDS, *OUTER_KINDS)
"""Every kind of container, nearest first."""
NVLINK_KINDS = ("nvlink_part", "nvlink_domain")

PAIR_LEVELS = ("X", "NV", "C2C", "PIX", "PXB", "PHB", "NODE", "SYS")
"""Levels of two devices in `nvidia-smi topo -m`, nearest first; NV means NV1, NV2, ... (NVML's order: internal, single,
multiple, hostbridge, node, system)."""
MatrixRow = tuple[str, str, str, Mapping[str, object]]
Levels = dict[tuple[str, str], str]
_NVLINKS = re.compile(r"NV(\d{1,3})")


def nvlinks(level: str) -> int | None:
    """The number of links of a level NV#: 18 for `NV18`; None for other levels."""
    match = _NVLINKS.fullmatch(level)
    return int(match[1]) if match else None


def rank(level: str) -> int:
    """The distance of a level (PAIR_LEVELS) or a container outside the node (OUTER_KINDS): smaller is nearer.

    An NVLink domain of several nodes is as near as NVLink within a node. Raises ValueError for an unknown level.
    """
    name = "NV" if nvlinks(level) is not None or level in NVLINK_KINDS else level
    if name in PAIR_LEVELS:
        return PAIR_LEVELS.index(name)
    if name in OUTER_KINDS:
        return len(PAIR_LEVELS) + OUTER_KINDS.index(name)
    raise ValueError(f"unknown level {level!r}")


# Bandwidths --------------------------------------------------------------------------------------------------------

PCIE_GB_PER_S = {3: 12.0, 4: 24.0, 5: 48.0}
"""x16 by generation. NCCL's PCI_BW is 12 for generation 3 and doubles with each later one."""
PORT_GB_PER_S = {100: 12.5, 200: 25.0, 400: 50.0, 800: 100.0}
"""A network port by its Gbit/s: the line rate divided by 8."""
SHARE_OF_PIX = {"PIX": 1.0, "PXB": 12 / 13, "PHB": 10 / 13, "NODE": 9 / 13, "SYS": 6 / 13}
"""The share of the PCIe bandwidth on longer paths: the ratios of the placement scores .13, .12, .10, .09, .06."""


@dataclass(frozen=True)
class Board:
    """The links of a GPU model; None is unknown or not available."""

    nvlink_gb_per_s: float | None
    """Per link and direction in NCCL's model: 20.0 for SM70 and SM80, 20.6 for SM90, 40.1 for SM100."""
    links: int | None
    """NVLinks of the GPU."""
    pcie: int | None
    """PCIe generation; None for a GPU that is connected to its CPU by C2C."""
    hop_gb_per_s: float | None
    """Between the sockets of its usual host, in NCCL's model: Skylake 10, AMD 16, Sapphire Rapids 22, Emerald Rapids 40."""
    port_gbit: int | None
    """The network port per GPU in the reference design."""
    multi_node: bool = False
    """Whether its NVLink extends beyond the node, to other nodes in the same NVLink domain."""


_UNKNOWN = Board(None, None, None, None, None)
# The first matching pattern wins; specific ones come before general ones.
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
    """The links of a model such as `NVIDIA H100 80GB HBM3` or the gres type `h100`."""
    name = re.sub(r"[^A-Z0-9]+", " ", (model or "").upper())
    return next((known for pattern, known in _BOARDS if re.search(pattern, name)), _UNKNOWN)


def link_gb_per_s(model: str | None, level: str) -> float | None:
    """GB/s per direction between two GPUs of a model whose link has the level PIX, NV18, SYS, ...; None if unknown.

    NV# is the number of links times the speed of a link. PCIe levels are the slot's speed times SHARE_OF_PIX; SYS is
    also limited by the link between the sockets. It never increases with distance among the PCIe levels.
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
    """GB/s per direction and GPU between nodes of an NVLink domain; None for models whose NVLink ends at the node."""
    known = board(model)
    if not known.multi_node or known.nvlink_gb_per_s is None or known.links is None:
        return None
    return known.links * known.nvlink_gb_per_s


def network_gb_per_s(model: str | None, gpus: int | None = None, nics: int | None = None) -> float | None:
    """GB/s per direction and GPU into the network: the model's reference port, shared if the node has fewer network
    cards than GPUs. Without both counts one card per GPU is assumed. None for models without a reference design, and
    for a node without network cards.
    """
    gbit = board(model).port_gbit
    if gbit is None or nics == 0:
        return None
    part = 1.0 if not gpus or nics is None else min(1.0, nics / gpus)
    return PORT_GB_PER_S[gbit] * part


# The matrix of one node --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """A device of a matrix and one of its containers: parent is "nvlink-0", "pcie-2", "numa-1", or "" for the node."""

    device: str
    parent_kind: str
    parent: str
    level: str | None
    """The level of the links in that container."""


@dataclass(frozen=True)
class NodeLinks:
    """The devices and links in the matrix of a node."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    members: tuple[Member, ...]
    pairs: tuple[tuple[str, str, str], ...]
    """(GPU, GPU, level), each pair once."""
    uuids: Mapping[str, str] = field(default_factory=dict)


def node_links(rows: Iterable[MatrixRow]) -> NodeLinks:
    """Islands, switches and NUMA nodes of a matrix given as (a, b, level, detail); a device with itself has level X.

    PIX and PXB mean below the same host bridge, so devices with such links, including network cards, share a `pcie`
    container. NV# connects GPUs to an `nvlink` island. `numa` is the NUMA affinity as printed ("0", "0-1"). Of a
    repeated pair the more distant level is used.
    """
    detail, levels = _details_and_levels(rows)
    devices = sorted(detail.keys() | {name for pair in levels for name in pair}, key=_place)
    gpus, nics = tuple(filter(_is_gpu, devices)), tuple(filterfalse(_is_gpu, devices))
    pairs = tuple((a, b, level) for (a, b), level in sorted(levels.items()) if _is_gpu(a) and _is_gpu(b))
    uuids = {name: str(found["uuid"]) for name, found in detail.items() if found.get("uuid")}
    nvlink = [(a, b) for a, b, level in pairs if nvlinks(level) is not None]
    pcie = [pair for pair, level in levels.items() if level in ("PIX", "PXB")]
    members = [*_group_members("nvlink", connected_groups(gpus, nvlink), levels)]
    members += _group_members("pcie", connected_groups(devices, pcie), levels)
    members += _own_members(devices, detail)
    return NodeLinks(gpus, nics, tuple(members), pairs, uuids)


def _own_members(devices: Sequence[str], detail: Mapping[str, Mapping[str, object]]) -> Iterator[Member]:
    for gpu in filter(_is_gpu, devices):
        if numa := str(detail.get(gpu, {}).get("numa_affinity") or ""):
            yield Member(gpu, "numa", f"numa-{numa}", "NODE")
    yield from (Member(one, "node", "", "SYS" if _is_gpu(one) else None) for one in devices)


def _details_and_levels(rows: Iterable[MatrixRow]) -> tuple[dict[str, Mapping[str, object]], Levels]:
    """The details of each device, and the level of each pair; the same for any order of the rows."""
    details: dict[str, Mapping[str, object]] = {}
    levels: Levels = {}
    for a, b, level, detail in sorted(rows, key=lambda row: (row[0], row[1], row[2], sorted(map(str, row[3].items())))):
        if a == b:
            details[a] = {**details.get(a, {}), **detail}
            continue
        first, second = sorted((a, b), key=_place)
        known = levels.get((first, second))
        if known is None or (rank(level), -(nvlinks(level) or 0)) > (rank(known), -(nvlinks(known) or 0)):
            levels[first, second] = level
    return details, levels


def _group_members(kind: str, groups: Iterable[Sequence[str]], levels: Levels) -> Iterator[Member]:
    for group in groups:
        found = {level for pair, level in levels.items() if pair[0] in group and pair[1] in group}
        yield from (Member(one, kind, f"{kind}-{_number(group[0])}", _meeting(kind, found)) for one in group)


def connected_groups(names: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Groups of connected names, each in the order of `names`, without single ones."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for a, b in pairs:
        leader[find(b)] = find(a)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(find(name), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _meeting(kind: str, levels: Iterable[str]) -> str | None:
    """The slowest level in an NVLink island (fewest NVLinks) or below a host bridge (PXB before PIX)."""
    if kind == "nvlink":
        return min((level for level in levels if nvlinks(level) is not None), key=lambda v: nvlinks(v) or 0)
    return max((level for level in levels if level in ("PIX", "PXB")), key=rank)


def _is_gpu(name: str) -> bool:
    return name.startswith("GPU")


def _number(name: str) -> str:
    digits = re.search(r"\d+$", name)
    return digits[0] if digits and _is_gpu(name) else name


def _place(name: str) -> tuple[bool, int, str]:
    """Sorts GPUs by number, before other devices."""
    digits = re.search(r"\d+$", name)
    return not _is_gpu(name), int(digits[0]) if digits else -1, name


# The cost of an exchange -------------------------------------------------------------------------------------------


def slowdown(exposed_ratio: float, bandwidth_ratio: float) -> float:
    """By how much a step slows down when links are `bandwidth_ratio` = best/actual times slower: 1 + phi(r-1).

    `exposed_ratio` (phi, 0..1) is the share of a step on the best links that waits for communication.
    """
    return 1 + exposed_ratio * (bandwidth_ratio - 1)


def throughput_loss(exposed_ratio: float, bandwidth_ratio: float) -> float:
    """The share of the throughput that is lost: 1 - 1/slowdown."""
    return 1 - 1 / slowdown(exposed_ratio, bandwidth_ratio)
