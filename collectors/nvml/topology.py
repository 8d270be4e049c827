"""Links within a node like `nvidia-smi topo -m`, from NVML and the PCI tree in /sys.

Levels: NV<n> for n NVLinks (direct or through NVSwitch), else the distance on PCI: PIX one switch, PXB several
switches, PHB the host bridge, NODE the same NUMA node, SYS another one. An unknown level is absent.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuwatch.collectors.nvml.calls import query, text
from gpuwatch.collectors.nvml.nvlink import MAX_LINKS

SYS = Path("/sys")
MAX_NICS = 64
CPU_WORDS = 64
"""The size of the CPU mask requested from NVML, in words of 64 CPUs."""
LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""By nvmlGpuTopologyLevel; level 0 is two GPUs on the same board."""


@dataclass(frozen=True)
class Device:
    """A row of the matrix: a GPU or a network card, with its name in the matrix."""

    name: str
    handle: Any = None
    uuid: str = ""
    pci: str = ""
    details: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Matrix:
    """Devices, and the level of each unordered pair in their order."""

    devices: list[Device]
    levels: dict[tuple[str, str], str]


def matrix(library: Any, gpus: list[tuple[int, Any, str, str]], sys: Path = SYS) -> Matrix:
    """The matrix of a node; `gpus` are (index, handle, UUID, PCI bus id). Raises GpuGone."""
    devices = [_gpu(library, index, handle, uuid, pci, sys) for index, handle, uuid, pci in gpus]
    links = {device.name: _links(library, device) for device in devices}
    devices += _nics(sys)
    levels: dict[tuple[str, str], str] = {}
    for i, a in enumerate(devices):
        for b in devices[i + 1 :]:
            level = None
            if a.handle is not None and b.handle is not None:
                level = _between_gpus(library, a, b, links)
            else:
                level = pci_level(_path(sys, a.pci), _path(sys, b.pci), _numa(sys, a.pci), _numa(sys, b.pci))
            if level is not None:
                levels[a.name, b.name] = level
    return Matrix(devices, levels)


def pci_level(a: list[str], b: list[str], a_numa: int | None, b_numa: int | None) -> str | None:
    """The distance of two devices by their paths from the host bridge to the device.

    None if a path or a NUMA node is unknown.
    """
    if not a or not b:
        return None
    if a[0] != b[0]:
        if a_numa is None or b_numa is None:
            return None
        return "NODE" if a_numa == b_numa else "SYS"
    shared = len(os.path.commonprefix([a, b]))
    if shared == 1:
        return "PHB"
    # If each device has its own port directly below the shared one, both are on the same switch.
    return "PIX" if max(len(a), len(b)) - shared <= 2 else "PXB"


def cpu_list(words: list[int]) -> str:
    """A bit mask in words of 64 CPUs as text: "0-51,104-155"."""
    cpus = [64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1]
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)


def _gpu(library: Any, index: int, handle: Any, uuid: str, pci: str, sys: Path) -> Device:
    details: dict[str, str] = {}
    words = query(library, "nvmlDeviceGetCpuAffinity", handle, CPU_WORDS)
    if words is not None and (cpus := cpu_list(list(words))):
        details["cpu_affinity"] = cpus
    scope = getattr(library, "NVML_AFFINITY_SCOPE_NODE", 0)
    nodes = query(library, "nvmlDeviceGetMemoryAffinity", handle, 1, scope)
    if nodes is not None and (numa := cpu_list(list(nodes))):
        details["numa_affinity"] = numa
    elif (node := _numa(sys, pci)) is not None:
        details["numa_affinity"] = str(node)
    own = query(library, "nvmlDeviceGetNumaNodeId", handle)
    if own is not None and own >= 0:
        details["gpu_numa_id"] = str(own)
    return Device(f"GPU{index}", handle, uuid, pci, details)


def _links(library: Any, device: Device) -> dict[str, int]:
    """The number of a GPU's active NVLinks by the PCI address of the other end, "" for a switch."""
    found: dict[str, int] = {}
    for link in range(MAX_LINKS):
        state = query(library, "nvmlDeviceGetNvLinkState", device.handle, link)
        if state is None:
            break
        if state != library.NVML_FEATURE_ENABLED:
            continue
        kind = query(library, "nvmlDeviceGetNvLinkRemoteDeviceType", device.handle, link)
        other = ""
        if kind != library.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            remote = query(library, "nvmlDeviceGetNvLinkRemotePciInfo", device.handle, link)
            other = "" if remote is None else address(text(remote.busId))
        found[other] = found.get(other, 0) + 1
    return found


def _between_gpus(library: Any, a: Device, b: Device, links: dict[str, dict[str, int]]) -> str | None:
    direct = links[a.name].get(address(b.pci), 0)
    through = min(links[a.name].get("", 0), links[b.name].get("", 0))
    if through:
        status = query(library, "nvmlDeviceGetP2PStatus", a.handle, b.handle, library.NVML_P2P_CAPS_INDEX_NVLINK)
        through = through if status in (None, 0) else 0
    if direct or through:
        return f"NV{direct or through}"
    level = query(library, "nvmlDeviceGetTopologyCommonAncestor", a.handle, b.handle)
    return None if level is None else LEVELS.get(level)


def address(pci: str) -> str:
    """A PCI address in the format of /sys: 0000:1b:00.0 for 00000000:1B:00.0."""
    domain, _, rest = pci.strip("\x00").lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _nics(sys: Path) -> list[Device]:
    """InfiniBand and RoCE cards, ordered by name."""
    try:
        names = sorted(os.listdir(sys / "class/infiniband"), key=_natural)[:MAX_NICS]
    except OSError:
        return []
    found = []
    for at, name in enumerate(names):
        try:
            pci = Path(os.path.realpath(sys / "class/infiniband" / name / "device")).name
        except OSError:
            continue
        found.append(Device(f"NIC{at}", pci=pci, details={"nic": name}))
    return found


def _natural(name: str) -> tuple[str, int]:
    """Sorts mlx5_2 before mlx5_10."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)


def _path(sys: Path, pci: str) -> list[str]:
    """Host bridge, bridges and device of a PCI address, empty if /sys does not have it."""
    link = sys / "bus/pci/devices" / address(pci)
    if not link.exists():
        return []
    parts = Path(os.path.realpath(link)).parts
    start = next((at for at, part in enumerate(parts) if part.startswith("pci") and ":" in part), None)
    return [] if start is None else list(parts[start:])


def _numa(sys: Path, pci: str) -> int | None:
    """The NUMA node of a PCI device, None if unknown."""
    try:
        node = int((sys / "bus/pci/devices" / address(pci) / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
