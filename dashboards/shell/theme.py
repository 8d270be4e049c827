"""Buckets and severities: one order, one word, one colour each, on a light and on a dark ground."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scheme = Literal["light", "dark"]


@dataclass(frozen=True)
class Bucket:
    """A ledger bucket as it is shown. `waste`: paid for without work, as the audit counts it."""

    name: str
    word: str
    light: str
    dark: str
    meaning: str
    allocated: bool
    waste: bool = False

    def colour(self, scheme: Scheme) -> str:
        """Its colour on that ground."""
        return self.dark if scheme == "dark" else self.light


BUCKETS: tuple[Bucket, ...] = (
    Bucket("compute", "Compute", "#1B7F5C", "#35B98A", "Close to the compute roof.", True),
    Bucket("memory_roof", "Memory-bound work", "#57A773", "#7CCB97", "Close to the memory roof.", True),
    Bucket("below_roof", "Below the roof", "#C9B458", "#D9C873", "SMs are active, far from any roof.", True),
    Bucket("stalled", "Busy, SMs idle", "#E08E2B", "#F0A54A", "Reported busy while few SMs work.", True, True),
    Bucket(
        "communication", "Waiting on links", "#B8602F", "#D98250", "Waiting on NVLink, PCIe or network.", True, True
    ),
    Bucket("gap", "Gaps (host, data, checkpoint)", "#8A6FB0", "#AC93D1", "Short idle times inside a job.", True, True),
    Bucket("hoarded", "Held idle", "#C0392B", "#E6655A", "Held by somebody and idle for long.", True, True),
    Bucket("unobserved", "Not measured", "#7F8C8D", "#A5B1B2", "Nobody measured it: neither busy nor idle.", True),
    Bucket("schedulable", "Free", "#D5DBDF", "#4A555C", "Nobody held it; it could have been placed.", False),
    Bucket("stranded", "Free but stranded", "#9FB3C8", "#6C8299", "Free, in a shape nobody could use.", False, True),
    Bucket(
        "mig_remainder", "MIG remainder", "#B7C4DA", "#5A6B8A", "Left over beside the slices of a GPU.", False, True
    ),
    Bucket("out_of_service", "Out of service", "#3E4A52", "#8C99A1", "Drained, down or broken.", False, True),
)
"""In the order of every stack: bottom to top, left to right."""

BUCKET = {bucket.name: bucket for bucket in BUCKETS}

HATCHED = "unobserved"
"""Drawn hatched: what nobody measured must not read as idle."""

PRODUCTIVE = ("compute", "memory_roof")

SEVERITIES = {"critical": "#9B1C31", "high": "#C0392B", "medium": "#D98324", "low": "#B59B2B", "info": "#5B7083"}
"""Worst first."""

STAGES = (
    ("total", "Owned", "GPUs the fleet owned"),
    ("reporting", "Reporting", "measured by somebody"),
    ("allocated", "Held, measured", "held by somebody, and its GPU measured"),
    ("active", "Active", "seen to run"),
    ("effective", "Effective", "working at a roof of the GPU"),
)
"""The funnel, widest first."""


@dataclass(frozen=True)
class Ink:
    """Colours of chart furniture on one ground."""

    text: str
    muted: str
    line: str
    ground: str
    series: tuple[str, ...]
    threshold: str


INK: dict[Scheme, Ink] = {
    "light": Ink(
        "#1B2429", "#56646D", "#DDE3E7", "#FFFFFF", ("#1F5FA8", "#B8602F", "#1B7F5C", "#8A6FB0", "#7A6A12"), "#9B1C31"
    ),
    "dark": Ink(
        "#E8EDF0", "#A3B0B8", "#333E45", "#1A2126", ("#79B2F2", "#D98250", "#35B98A", "#AC93D1", "#D9C873"), "#FF8B8B"
    ),
}


def place(name: str) -> int:
    """Sort key of a bucket name: its place in the stack, unknown names last."""
    return next((at for at, bucket in enumerate(BUCKETS) if bucket.name == name), len(BUCKETS))
