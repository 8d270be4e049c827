"""Links of a node from the metrics page of an agent: the rows of `nvidia-smi topo -m`, with the GPUs' UUIDs."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.model import LINK, Records

REFRESH_US = HOUR_US
"""Unchanged links of a node are written again after this."""
MAX_NODES = 20_000
"""Nodes whose links are remembered; the least recently seen one is forgotten."""
MAX_LINES = 100_000
"""Limit of the lines read from one page."""
MAX_LABELS = 16

_LINK = b"gpuwatch_gpu_link_info{"
_PLACE = b"gpuwatch_gpu_numa_info{"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]{0,63})="((?:[^"\\]|\\.){0,512})",?')
_DEVICE = re.compile(r"(?:GPU|NIC)\d{1,4}")
_LEVEL = re.compile(r"NV\d{1,3}|PIX|PXB|PHB|NODE|SYS")
_ESCAPES = re.compile(r"\\(.)")
_DETAILS = ("cpu_affinity", "gpu_numa_id", "nic", "numa_affinity", "uuid")
_ORDER = re.compile(r"([A-Z]+)(\d+)")


@dataclass
class _Node:
    """The links and devices of one node on a page."""

    details: dict[str, dict[str, str]] = field(default_factory=dict)
    levels: dict[tuple[str, str], str] = field(default_factory=dict)


class Links:
    """Remembers the last links of each node. Not thread-safe."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, str], tuple[bytes, int]] = OrderedDict()

    def records(self, page: bytes, cluster: str, at_us: int) -> list[Records]:
        """`link` rows of the nodes on a page whose links changed, or were last written over REFRESH_US ago.

        Incomplete lines are skipped: the exposition's reader has counted them.
        """
        rows: list[dict[str, Any]] = []
        for name, node in _nodes(page).items():
            links = list(_rows(node))
            digest = blake2b(json.dumps(links).encode(), digest_size=16).digest()
            before = self._last.get((cluster, name))
            if before is not None and before[0] == digest and 0 <= at_us - before[1] < REFRESH_US:
                self._last.move_to_end((cluster, name))
                continue
            self._last[cluster, name] = (digest, at_us)
            self._last.move_to_end((cluster, name))
            while len(self._last) > MAX_NODES:
                self._last.popitem(last=False)
            rows += [{"cluster": cluster, "observed_us": at_us, "node": name} | row for row in links]
        return [Records("link", pa.Table.from_pylist(rows, schema=LINK))] if rows else []


_shared = Links()


def records(page: bytes, cluster: str, at_us: int) -> list[Records]:
    """Like Links.records, with a memory shared by the process."""
    return _shared.records(page, cluster, at_us)


def _nodes(page: bytes) -> dict[str, _Node]:
    nodes: dict[str, _Node] = {}
    if _LINK not in page and _PLACE not in page:
        return nodes
    for line in page.split(b"\n", MAX_LINES)[:MAX_LINES]:
        if line.startswith(_LINK):
            labels = _labels(line)
            ends = (labels.get("a", ""), labels.get("b", ""))
            if labels.get("node") and all(map(_DEVICE.fullmatch, ends)) and _LEVEL.fullmatch(labels.get("level", "")):
                nodes.setdefault(labels["node"], _Node()).levels[ends] = labels["level"]
        elif line.startswith(_PLACE):
            labels = _labels(line)
            if labels.get("node") and _DEVICE.fullmatch(labels.get("a", "")):
                details = {key: labels[key] for key in _DETAILS if labels.get(key)}
                nodes.setdefault(labels["node"], _Node()).details[labels["a"]] = details
    return nodes


def _labels(line: bytes) -> dict[str, str]:
    """Labels of a line whose value is 1; empty for any other line."""
    start, end = line.find(b"{") + 1, line.rfind(b"} 1")
    if end < start:
        return {}
    pairs = _LABEL.findall(line[start:end].decode("utf-8", "replace"))[:MAX_LABELS]
    return {name: _ESCAPES.sub(lambda m: "\n" if m[1] == "n" else m[1], value) for name, value in pairs}


def _rows(node: _Node) -> Iterator[dict[str, str]]:
    """Rows in the order of the matrix: a device with itself, then with each device after it."""
    names = {*node.details, *(end for ends in node.levels for end in ends)}
    devices = sorted(names, key=_place)
    for at, a in enumerate(devices):
        detail = json.dumps(node.details.get(a, {}), sort_keys=True, separators=(",", ":"))
        yield {"a": a, "b": a, "level": "X", "detail": detail}
        for b in devices[at + 1 :]:
            if level := node.levels.get((a, b)) or node.levels.get((b, a)):
                yield {"a": a, "b": b, "level": level, "detail": "{}"}


def _place(name: str) -> tuple[str, int]:
    """Sort key: GPU2 before GPU10, GPUs before network cards."""
    match = _ORDER.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, 0)
