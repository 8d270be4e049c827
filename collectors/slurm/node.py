"""Rows of Slurm nodes, from the fields of `scontrol show node -d`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.json_fields import compact_json
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.room import node_columns
from gpuwatch.collectors.slurm.text import Gpus, devices_by_profile, gres_gpus, instant, known, split_outside
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
"""States that change with every job; the others (DRAIN, MAINT, PLANNED, ...) go into the label `states`."""

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
"""The character that Slurm's short form appends to a state."""

_SET_BY = re.compile(r"\s*\[[^\[\]@]*@([^\[\]]+)\]\s*$")
_SHARED = re.compile(r"(?:shard|mps)(?::[^:(,]+)?:(\d{1,9})")


def node_row(fields: dict[str, str], source: Source, tz: ZoneInfo) -> Row:
    """The `node` row of a record; `observed_us` is the source's because the text has no time of its own.

    `since_us` is the time in the Reason, which Slurm sets with the state; it is unknown while the node is up.
    `created_us` is BootTime.
    Raises ValueError.
    """
    printed_state = (fields.get("State", "").split() or [""])[0]
    state = node_state(printed_state)
    gres = fields.get("Gres", "").strip() if "Gres" in fields else None
    gpus = gres_gpus(gres) if gres else ()
    devices = devices_by_profile(gpus)
    reason, set_at = _reason(fields.get("Reason", "").strip())
    partitions = known(fields.get("Partitions"))
    sharing, replicas = _sharing(gres, devices.get("", 0))
    states = ",".join(sorted(_flags(printed_state) - _BUSY))
    features, available = known(fields.get("ActiveFeatures")), known(fields.get("AvailableFeatures"))
    labels = {"partitions": partitions, "features": features, "states": states}
    labels["available_features"] = available if available != features else None
    return "node", {
        "cluster": source.cluster,
        "scheduler": "slurm",
        "node": fields["NodeName"].split()[0],
        "observed_us": source.observed_us,
        "state": state,
        "since_us": instant(set_at, tz) if state != "up" else None,
        "reason": known(reason),
        "gpu_model": _gpu_type(gpus),
        "devices": None if gres is None else compact_json(devices),
        "sharing": sharing,
        "replicas": replicas,
        "pool": partitions.split(",")[0] if partitions else None,
        "labels": compact_json({key: value for key, value in labels.items() if value}),
        "created_us": _booted(fields.get("BootTime"), tz),
        **node_columns(fields),
    }


def _booted(text: str | None, tz: ZoneInfo) -> int | None:
    """BootTime, None where it is unset or cannot be read."""
    try:
        return instant(text, tz)
    except ValueError:
        return None


def node_state(text: str) -> str | None:
    """up, drain or down for `MIXED+DRAIN`, `IDLE*`, `DOWN*+DRAIN`; the worst flag wins, None for unknown states."""
    flags = _flags(text)
    if flags & DOWN:
        return "down"
    if flags & DRAIN:
        return "drain"
    return "up" if flags & UP else None


def _reason(text: str) -> tuple[str, str | None]:
    """A Reason and, where its `[user@time]` suffix is there, the time at which it was set."""
    match = _SET_BY.search(text)
    return (text[: match.start()], match[1]) if match else (text, None)


def _gpu_type(gpus: Sequence[Gpus]) -> str | None:
    """The type of the node's first GPUs; whole GPUs come before MIG slices."""
    typed = [group for group in gpus if group.gpu_type]
    return next((group.gpu_type for group in (*(g for g in typed if g.profile is None), *typed)), None)


def _flags(text: str) -> set[str]:
    """The separate states of `IDLE*+DRAIN`: IDLE, NOT_RESPONDING, DRAIN."""
    flags = set[str]()
    for part in text.upper().split("+"):
        base = part.rstrip("*~#%@$^!-")
        flags |= {base, *(_SUFFIXES[char] for char in part[len(base) :] if char in _SUFFIXES)}
    return flags - {""}


def _sharing(gres: str | None, whole_gpus: int) -> tuple[str | None, int | None]:
    """How a node's GPUs are shared and the number of shares per GPU (None unknown, or not equal on all).

    Shards have no isolation, like time slices.
    """
    if gres is None:
        return None, None
    kinds = {item.split(":")[0] for item in split_outside(gres, "()")}
    way = "mps" if "mps" in kinds else "time-slicing" if "shard" in kinds else "none"
    shares = sum(int(count) for count in _SHARED.findall(gres)) if way != "none" else 0
    return way, shares // whole_gpus if shares and whole_gpus and shares % whole_gpus == 0 else None
