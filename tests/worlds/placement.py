"""A tiny fleet with links: nodes of eight H100 that are one NVLink domain each, PCIe nodes, and leaf switches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from tests.worlds.detectors import Phase, World, us

L40S = "NVIDIA L40S"
NVLINK_GB_PER_S = 742.0
"""What an H100's NVLinks carry, both directions."""


def talk(nvlink: float = 0.0, pcie_gb_per_s: float = 0.0) -> dict[str, float]:
    """Readings of links: the part of an H100's NVLink that is busy, and PCIe traffic of both directions."""
    way = nvlink * NVLINK_GB_PER_S * 1e9 / 2
    pcie = pcie_gb_per_s * 1e9 / 2
    return {
        "nvlink_tx_bytes_per_s": way,
        "nvlink_rx_bytes_per_s": way,
        "pcie_tx_bytes_per_s": pcie,
        "pcie_rx_bytes_per_s": pcie,
    }


class LinkedWorld(World):
    """A world whose GPUs are named node/number, and whose links are told.

    `scene` begins every name of a node, GPU, switch or job that is given, and is the pool of its nodes: scenes of one world
    do not lend each other GPUs.
    """

    scene = ""

    def host(
        self,
        node: str,
        count: int = 8,
        *,
        leaf: str | None = None,
        level: str | None = "NV18",
        links: bool = True,
    ) -> LinkedWorld:
        """A node and its links: NVLink between all GPUs, or (None) PCIe: two a switch, half a socket."""
        name = self.scene + node
        result = {"cluster": self.cluster, "scheduler": "slurm", "node": name}
        self.record("node", [result | {"observed_us": us(0), "state": "up", "pool": self.scene or "p"}])
        row = {"cluster": self.cluster, "observed_us": None, "node": name}
        rows: list[dict[str, Any]] = []
        for n in range(count if links else 0):
            detail = json.dumps({"numa_affinity": str(2 * n // count), "uuid": f"{name}/{n}"})
            rows.append(row | {"a": f"GPU{n}", "b": f"GPU{n}", "level": "X", "detail": detail})
        for a, b in combinations(range(count), 2) if links else ():
            near = "PIX" if a // 2 == b // 2 else "NODE" if 2 * a // count == 2 * b // count else "SYS"
            rows.append(row | {"a": f"GPU{a}", "b": f"GPU{b}", "level": level or near, "detail": "{}"})
        if leaf is not None:
            switch = json.dumps({"plugin": "tree"})
            rows.append(row | {"a": self.scene + leaf, "b": name, "level": "SWITCH", "detail": switch})
        self.record("link", rows)
        return self

    def reading(self, node: str, numbers: str, *phases: Phase, **words: Any) -> LinkedWorld:
        """The same readings of GPUs of a node, by their numbers."""
        for n in numbers:
            self.gpu(f"{self.scene}{node}/{n}", *phases, node=self.scene + node, **words)
        return self

    def gang(self, job_id: str, where: Mapping[str, str], start: float, end: float | None, **words: Any) -> LinkedWorld:
        """A job on GPUs of several nodes, all named: {"n1": "0123"}."""
        for short, numbers in where.items():
            node = self.scene + short
            self.job(self.scene + job_id, [f"{node}/{n}" for n in numbers], start, end, node=node, **words)
        return self
