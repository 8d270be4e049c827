"""Rooflines of GPU models: what counts as full utilization, and the limits between classes of work.

The figures are those of the classes in docs/understand/workload-classes.md: KempnerPulse's cut-offs (tensor .15 at SM .40, pipes .20,
PCIe 1 GB/s below SM .30, busy .40 below SM .25), DCGM's practical peaks (tensor .93, memory .8), and our own where noted.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from gpuwatch.core.errors import UsageError

MODELS_MAX = 100
"""The most models in a setting."""
ANY_MODEL = "*"


@dataclass(frozen=True)
class Roofs:
    """The limits of a model. Ratios are 0..1, `_of_roof` is relative to the roofline, `_bytes_per_s` both directions."""

    tensor: float = 0.93
    dram: float = 0.8
    pipe: float = 1.0
    tensor_min: float = 0.15
    tensor_sm_min: float = 0.40
    tensor_over_dram_min: float = 0.80
    pipe_min: float = 0.20
    pipe_sm_min: float = 0.50
    memory_min_of_roof: float = 0.60
    link_min: float = 0.30
    network_bytes_per_s: float = 5e9
    gap_min: float = 0.20
    host_bytes_per_s: float = 1e9
    host_sm_max: float = 0.30
    small_busy_min: float = 0.40
    small_sm_max: float = 0.25

    def __post_init__(self) -> None:
        bad = [
            f"{f.name} {getattr(self, f.name):g}"
            for f in fields(self)
            if not 0 < getattr(self, f.name) <= (1e15 if f.name.endswith("bytes_per_s") else 1)
        ]
        if bad:
            raise UsageError(f"{', '.join(bad)}: a ratio must be above 0 and at most 1, bytes per second above 0")


NAMES = tuple(f.name for f in fields(Roofs))


def read(text: str) -> dict[str, dict[str, float]]:
    """Parses `H100: tensor 0.93, dram 0.9; L40S: dram 0.85` by model. Raises UsageError with the invalid part."""
    found: dict[str, dict[str, float]] = {}
    for part in (part.strip() for part in text.split(";")):
        if not part:
            continue
        model, colon, numbers = part.partition(":")
        name = _normalized(model)
        if not colon or not name:
            raise UsageError(
                f"roofs {part!r}: write MODEL: NAME NUMBER, NAME NUMBER; MODEL: ..., such as H100: dram 0.9"
            )
        if name in found:
            raise UsageError(f"roofs of {model.strip()} are given twice: put them after one colon")
        found[name] = dict(_pair(pair, part) for pair in numbers.split(",") if pair.strip())
        replace(Roofs(), **found[name])  # raises UsageError for an invalid number
    if len(found) > MODELS_MAX:
        raise UsageError(f"roofs of {len(found)} models: at most {MODELS_MAX}")
    return found


def of_model(model: str | None, base: Roofs, overrides: Mapping[str, Mapping[str, float]]) -> Roofs:
    """The rooflines of a model: `base`, overridden by `*`, then by the longest name that the model's name contains."""
    name = f" {_normalized(model or '')} "
    matching = [key for key in overrides if key != ANY_MODEL and f" {key} " in name]
    numbers = dict(overrides.get(ANY_MODEL, {})) | dict(overrides[max(matching, key=len)] if matching else {})
    return replace(base, **numbers)


def _normalized(model: str) -> str:
    """The same for `NVIDIA A100-SXM4-80GB` and `nvidia a100 sxm4 80gb`."""
    return ANY_MODEL if model.strip() == ANY_MODEL else re.sub(r"[^A-Z0-9]+", " ", model.upper()).strip()


def _pair(text: str, part: str) -> tuple[str, float]:
    name, _, number = text.strip().partition(" ")
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(NAMES)}"
        raise UsageError(f"roofs {part!r}: {name!r} is not known; {hint}")
    try:
        return name, float(number)
    except ValueError:
        raise UsageError(f"roofs {part!r}: {number.strip()!r} is not a number") from None
