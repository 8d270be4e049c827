"""Links from Slurm's topology.conf and topology.yaml: switches, blocks and rings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import yaml

from gpuwatch.collectors.nvml.topo_matrix import date_of
from gpuwatch.collectors.shared.json_fields import compact_json
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.shared.text_files import Lines
from gpuwatch.collectors.slurm.text import expand_hostlist
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Source

MAX_LINKS = 1_000_000
MAX_CONF_LINES = 1_000_000
_SETTING = re.compile(r"\s*(SwitchName|BlockName|BlockSizes|RingName)\s*=", re.IGNORECASE)
_PAIR = re.compile(r"(\w+)\s*=\s*(\S+)")
_GROUPS = {
    "tree": ("switches", "switch"),
    "block": ("blocks", "block"),
    "ring": ("rings", "ring"),
    "torus3d": ("toruses", "name"),
}
"""topology.yaml: the list of each plug-in, and the key for the name of an element."""


def parse_topology(lines: Lines, source: Source, rejects: Rejects) -> Iterator[Row]:
    """Yields `link` rows of either format, which is detected by content.

    `a` is the switch, block, ring or torus; `b` is a node (then also in `node`) or a child switch. `level` is SWITCH
    for a tree and BLOCK for every other group of nearby nodes; `detail` is JSON with the plug-in. An invalid line or
    element is rejected on its own. A comment `# observed 2026-11-21T02:08:29Z` sets the time of the file. Raises
    UnreadableInput for text in neither format.
    """
    kept = list(_bounded(lines, source.path))
    dates = (date_of(text, source.path, number, rejects) for number, text in kept if "#" in text)
    dated = next((date for date in dates if date is not None), None)
    if dated is not None:
        source = replace(source, observed_us=dated)
    if any(_SETTING.match(text) for _, text in kept):
        return _capped(_conf_rows(kept, source, rejects), source.path)
    return _capped(_yaml_rows("\n".join(text for _, text in kept), source, rejects), source.path)


def _conf_rows(lines: list[tuple[int, str]], source: Source, rejects: Rejects) -> Iterator[Row]:
    """Rows of topology.conf, or of the output of `scontrol show topology`."""
    settings = [(number, _pairs(text)) for number, text in _joined(lines) if text]
    sizes = next((_sizes(pairs["blocksizes"]) for _, pairs in settings if "blocksizes" in pairs), None)
    for number, pairs in settings:
        try:
            if name := pairs.get("switchname"):
                speed = {"link_speed": pairs["linkspeed"]} if "linkspeed" in pairs else {}
                # scontrol also prints all nodes below a switch that is not a leaf.
                inherited = "switches" in pairs and "level" in pairs
                nodes = "" if inherited else pairs.get("nodes", "")
                yield from _links(source, name, pairs.get("switches", ""), "SWITCH", {"plugin": "tree"} | speed, False)
                yield from _links(source, name, nodes, "SWITCH", {"plugin": "tree"} | speed)
            elif name := pairs.get("blockname"):
                detail = {"plugin": "block"} | ({"block_sizes": sizes} if sizes else {})
                yield from _links(source, name, pairs.get("nodes", ""), "BLOCK", detail)
            elif name := pairs.get("ringname"):
                yield from _links(source, name, pairs.get("nodes", ""), "BLOCK", {"plugin": "ring"})
            elif "blocksizes" not in pairs:
                rejects.add("not a line of topology.conf", source.path, number, str(pairs))
        except ValueError as error:
            rejects.add(str(error), source.path, number, str(pairs))


def _yaml_rows(text: str, source: Source, rejects: Rejects) -> Iterator[Row]:
    """Rows of topology.yaml: a list of named topologies with one plug-in each. A flat topology has no links."""
    wrong = f"{source.path}: neither topology.conf nor Slurm's topology.yaml; pass one of them"
    try:
        topologies = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableInput(f"{wrong} ({str(error).splitlines()[0]})") from error
    if not isinstance(topologies, list) or not all(isinstance(t, dict) and "topology" in t for t in topologies):
        raise UnreadableInput(wrong)
    for topology in topologies:
        shared = {"topology": str(topology["topology"]), "default": topology.get("cluster_default") is True}
        for plugin, (group, key) in _GROUPS.items():
            if plugin not in topology:
                continue
            body = topology[plugin] if isinstance(topology[plugin], dict) else {}
            elements = body.get(group)
            if not isinstance(elements, list):
                rejects.add(f"topology.yaml: {plugin} without a list of {group}", source.path, 0, str(topology)[:200])
                continue
            sizes = {"block_sizes": body["block_sizes"]} if isinstance(body.get("block_sizes"), list) else {}
            for element in elements:
                try:
                    yield from _element_rows(source, plugin, key, element, shared | sizes)
                except ValueError as error:
                    rejects.add(str(error), source.path, 0, str(element)[:200])


def _element_rows(source: Source, plugin: str, key: str, element: Any, shared: dict[str, Any]) -> Iterator[Row]:
    if not isinstance(element, dict) or key not in element:
        raise ValueError(f"topology.yaml: an element of {plugin} without {key!r}")
    level = "SWITCH" if plugin == "tree" else "BLOCK"
    detail = shared | {"plugin": plugin}
    if isinstance(element.get("dims"), dict):
        detail["dims"] = {str(axis): size for axis, size in element["dims"].items() if isinstance(size, int)}
    name = str(element[key])
    yield from _links(source, name, str(element.get("children") or ""), level, detail, False)
    yield from _links(source, name, str(element.get("nodes") or ""), level, detail)


def _links(source: Source, a: str, hosts: str, level: str, detail: dict[str, Any], nodes: bool = True) -> Iterator[Row]:
    shared = {"cluster": source.cluster, "observed_us": source.observed_us, "a": a, "level": level}
    shared["detail"] = compact_json(detail)
    for host in expand_hostlist(hosts):
        yield "link", shared | {"b": host, "node": host if nodes else None}


def _bounded(lines: Lines, path: str) -> Iterator[tuple[int, str]]:
    for count, (number, line) in enumerate(lines):
        if count >= MAX_CONF_LINES:
            raise UnreadableInput(f"{path}: more than {MAX_CONF_LINES} lines; is it a topology file?")
        yield number, line


def _capped(rows: Iterator[Row], path: str) -> Iterator[Row]:
    for count, row in enumerate(rows):
        if count >= MAX_LINKS:
            raise UnreadableInput(f"{path}: more than {MAX_LINKS} links; split it")
        yield row


def _joined(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Lines without comments; a line that ends in a backslash continues in the next."""
    begun, first = "", 0
    for number, line in lines:
        text = line.partition("#")[0].strip()
        first = first if begun else number
        if text.endswith("\\"):
            begun += text[:-1] + " "
            continue
        yield first, begun + text
        begun = ""
    yield first, begun.strip()


def _pairs(text: str) -> dict[str, str]:
    return {key.lower(): value for key, value in _PAIR.findall(text)}


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split(",") if size.isascii() and size.isdigit() and len(size) < 10]
