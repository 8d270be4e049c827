"""A DCGM field, and how the usual kinds of fields are described."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1_048_576.0
MAX_MEMORY_BYTES = 16 * 1024 * 1024 * MIB
MAX_BYTES_PER_S = 1e13
MAX_WATTS = 20_000.0
MAX_CLOCK_MHZ = 20_000.0
CELSIUS = (-60.0, 250.0)
MAX_COUNT = 9.2e18
RATIO_SLACK = 1.05
"""Profiling ratios up to this are rounding errors of a full unit and become 1; larger ones are invalid."""


@dataclass(frozen=True)
class Field:
    """A DCGM field: its names, where it is stored, which values are valid, and what it does not mean.

    `level` is the finest entity DCGM reports it for: "ci" and "gi" exist for MIG instances; "gpu" belongs to the whole
    card, and dcgm-exporter repeats it on every instance row of that card, so it must never be summed over instances;
    "link" is one NVLink; "global" is the node.
    """

    id: int
    name: str
    new_name: str
    column: str | None = None  # None: the name is known, the value is not stored
    type: str = "DOUBLE"  # DOUBLE | BIGINT, of the column
    divisor: float = 1.0
    multiplier: float = 1.0
    low: float = 0.0  # smallest legal value, in the stored unit
    high: float = MAX_COUNT  # largest legal value, in the stored unit
    slack: float = MAX_COUNT  # values in (high, slack] are clamped to high
    level: str = "gpu"  # gpu | gi | ci | global | link
    kind: str = "gauge"  # gauge | counter | unclear
    on_mig: bool = True  # False: no meaning on a MIG instance row, where exporters print 0
    wire_double: bool = False  # DCGM type: blanks are 2**47 and above, else 64-bit integers near 2**63
    aliases: tuple[str, ...] = ()  # names of the 1.x compatibility file, and other spellings
    not_meaning: str = ""


def _full(name: str) -> str:
    return name if name.startswith("DCGM_") else f"DCGM_FI_{name}"


def plain_field(id: int, old: str, new: str, column: str, **more: object) -> Field:
    high = more.pop("high", MAX_COUNT)
    slack = more.pop("slack", high)
    names = {
        "id": id,
        "name": _full(old),
        "new_name": _full(new or old),
        "column": column,
        "high": high,
        "slack": slack,
    }
    return Field(**(names | more))  # type: ignore[arg-type]


def ratio_field(id: int, old: str, new: str, column: str, level: str = "ci", **more: object) -> Field:
    """A profiling ratio, 0..1 on the wire."""
    return plain_field(id, old, new, column, level=level, high=1.0, slack=RATIO_SLACK, wire_double=True, **more)


def percent_field(id: int, old: str, new: str, column: str, alias: str) -> Field:
    """A driver utilisation, integer percent on the wire, not defined on MIG instances."""
    return plain_field(id, old, new, column, divisor=100.0, high=1.0, on_mig=False, aliases=(alias,))


def memory_field(id: int, name: str, column: str, *aliases: str) -> Field:
    """A frame-buffer size, MiB on the wire."""
    return plain_field(
        id, name, name, column, type="BIGINT", multiplier=MIB, high=MAX_MEMORY_BYTES, level="ci", aliases=aliases
    )


def watts_field(id: int, old: str, new: str, column: str, *aliases: str) -> Field:
    return plain_field(id, old, new, column, high=MAX_WATTS, wire_double=True, aliases=aliases)


def rate_field(id: int, name: str, column: str) -> Field:
    """Bytes per second over the sampling interval."""
    return plain_field(id, name, name, column, high=MAX_BYTES_PER_S)


def count_field(id: int, old: str, new: str, column: str, *aliases: str, level: str = "gpu") -> Field:
    """A cumulative counter."""
    return plain_field(id, old, new, column, type="BIGINT", kind="counter", level=level, aliases=aliases)


def whole_field(id: int, old: str, new: str, column: str, *aliases: str, high: float, level: str = "gpu") -> Field:
    """A code, flag, mask or small number that is no counter."""
    return plain_field(id, old, new, column, type="BIGINT", high=high, level=level, aliases=aliases)


def unstored_field(id: int, old: str, new: str = "", level: str = "gpu") -> Field:
    return Field(id, _full(old), _full(new or old), level=level)
