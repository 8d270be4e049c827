"""One node of `scontrol show node -d` as a row. Pure."""

from __future__ import annotations

import json
import re
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.text import gres_gpus, instant, known, labels_json, split_outside
from gpuwatch.core.model import Source

DOWN = frozenset(
    {
        *("DOWN", "FAIL", "ERROR", "UNKNOWN", "FUTURE", "INVAL", "INVALID_REG", "NOT_RESPONDING", "NO_RESPOND"),
        *("POWERED_DOWN", "POWER_DOWN", "POWERING_DOWN", "POWERING_UP", "REBOOT_ISSUED"),
    }
)
DRAIN = frozenset({"DRAIN", "DRAINED", "DRAINING", "FAILING", "MAINT", "MAINTENANCE"})
UP = frozenset({"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED", "RESERVED", "BLOCKED"})

_BUSY = frozenset({"IDLE", "MIXED", "ALLOCATED", "COMPLETING"})
"""Words that change with every job; the others are told as label `states`: DRAIN, MAINT, PLANNED, RESERVED, POWERED_DOWN."""

_SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "%": "POWERING_DOWN",
    "#": "POWERING_UP",
    "@": "REBOOT_ISSUED",
    "$": "MAINT",
    "^": "REBOOT_REQUESTED",
    "!": "POWER_DOWN_REQUESTED",
    "-": "PLANNED",
}
"""One character after the state in Slurm's short form."""

_SET_BY = re.compile(r"\s*\[[^\[\]@]*@([^\[\]]+)\]\s*$")
_SHARD = re.compile(r"shard(?::[^:(]+)?:(\d{1,9})")


def node_row(fields: dict[str, str], source: Source, tz: ZoneInfo) -> Row:
    """The `node` row of one record; `observed_us` is the source's, since the text has no time of its own.

    `since_us` is the time in the Reason, which Slurm sets with the state; unknown while the node is up.
    Raises ValueError.
    """
    state = node_state((fields.get("State", "").split() or [""])[0])
    gres = fields.get("Gres", "").strip() if "Gres" in fields else None
    gpus = gres_gpus(gres) if gres else ()
    devices: dict[str, int] = {}
    for held in gpus:
        devices[held.profile or ""] = devices.get(held.profile or "", 0) + held.number
    whole_types = [held.gpu_type for held in gpus if held.profile is None and held.gpu_type]
    types = whole_types or [held.gpu_type for held in gpus if held.gpu_type]
    text = fields.get("Reason", "").strip()
    set_by = _SET_BY.search(text)
    partitions = known(fields.get("Partitions"))
    sharing, replicas = _sharing(gres, devices.get("", 0))
    states = ",".join(sorted(_flags((fields.get("State", "").split() or [""])[0]) - _BUSY))
    labels = {"partitions": partitions, "features": known(fields.get("ActiveFeatures")), "states": states}
    return "node", {
        "cluster": source.cluster,
        "scheduler": "slurm",
        "node": fields["NodeName"].split()[0],
        "observed_us": source.observed_us,
        "state": state,
        "since_us": instant(set_by[1], tz) if set_by and state != "up" else None,
        "reason": known(text[: set_by.start()] if set_by else text),
        "gpu_model": types[0] if types else None,
        "devices": None if gres is None else json.dumps(devices, sort_keys=True, separators=(",", ":")),
        "sharing": sharing,
        "replicas": replicas,
        "pool": partitions.split(",")[0] if partitions else None,
        "labels": labels_json({key: value for key, value in labels.items() if value}),
    }


def node_state(text: str) -> str | None:
    """up, drain or down of `MIXED+DRAIN`, `IDLE*`, `DOWN*+DRAIN`; the worst flag decides, None for unknown words."""
    flags = _flags(text)
    if flags & DOWN:
        return "down"
    if flags & DRAIN:
        return "drain"
    return "up" if flags & UP else None


def _flags(text: str) -> set[str]:
    """Slurm's words for a state, each once: `IDLE*+DRAIN` -> IDLE, NOT_RESPONDING, DRAIN."""
    flags = set[str]()
    for part in text.upper().split("+"):
        base = part.rstrip("*~#%@$^!-")
        flags |= {base, *(_SUFFIXES[char] for char in part[len(base) :] if char in _SUFFIXES)}
    return flags - {""}


def _sharing(gres: str | None, whole_gpus: int) -> tuple[str | None, int | None]:
    """How a node's GPUs are shared, and into how many parts each: shards have no isolation, like time slices."""
    if gres is None:
        return None, None
    kinds = {item.split(":")[0] for item in split_outside(gres, "()")}
    if "mps" in kinds:
        return "mps", None
    shards = sum(int(count) for count in _SHARD.findall(gres))
    if shards and whole_gpus and shards % whole_gpus == 0:
        return "time-slicing", shards // whole_gpus
    return ("time-slicing", None) if shards else ("none", None)
