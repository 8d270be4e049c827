"""Buckets and severities: their order, labels and colours in light and dark mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scheme = Literal["light", "dark"]


@dataclass(frozen=True)
class Bucket:
    """A ledger bucket as shown, and the measure it is part of."""

    name: str
    word: str
    light: str
    dark: str
    meaning: str
    allocated: bool
    measure: str

    def colour(self, scheme: Scheme) -> str:
        """Its colour in that scheme."""
        return self.dark if scheme == "dark" else self.light


BUCKETS: tuple[Bucket, ...] = (
    Bucket("compute", "Compute", "#1B7F5C", "#35B98A", "Close to peak compute.", True, "working"),
    Bucket(
        "memory_roof", "Memory-bound work", "#57A773", "#7CCB97", "Close to peak memory bandwidth.", True, "working"
    ),
    Bucket(
        "below_roof",
        "Below peak",
        "#C9B458",
        "#D9C873",
        "SMs are active, but far from peak compute and memory bandwidth.",
        True,
        "working",
    ),
    Bucket(
        "stalled", "Busy, SMs idle", "#E08E2B", "#F0A54A", "Reported busy, but few SMs are active.", True, "avoidable"
    ),
    Bucket(
        "communication",
        "Waiting on network",
        "#B8602F",
        "#D98250",
        "Waiting on NVLink, PCIe or the network.",
        True,
        "avoidable",
    ),
    Bucket(
        "gap",
        "Gaps (host, data, checkpoint)",
        "#8A6FB0",
        "#AC93D1",
        "Short idle periods inside a job.",
        True,
        "avoidable",
    ),
    Bucket("hoarded", "Held idle", "#C0392B", "#E6655A", "Allocated, but idle for a long time.", True, "avoidable"),
    Bucket(
        "unobserved",
        "Not measured",
        "#7F8C8D",
        "#A5B1B2",
        "No measurements, so neither busy nor idle.",
        True,
        "not_measured",
    ),
    Bucket("schedulable", "Free", "#D5DBDF", "#4A555C", "Not allocated, and usable for jobs.", False, "free"),
    Bucket(
        "stranded",
        "Free but stranded",
        "#9FB3C8",
        "#6C8299",
        "Free, but no use to the jobs usually requested.",
        False,
        "avoidable",
    ),
    Bucket(
        "mig_remainder",
        "MIG remainder",
        "#B7C4DA",
        "#5A6B8A",
        "Part of a GPU that its MIG slices leave over.",
        False,
        "free",
    ),
    Bucket(
        "out_of_service", "Out of service", "#3E4A52", "#8C99A1", "Drained, down or broken.", False, "out_of_service"
    ),
)
"""In stacking order: bottom to top, left to right."""

BUCKET = {bucket.name: bucket for bucket in BUCKETS}

HATCHED = "unobserved"
"""Drawn hatched: unmeasured time must not look idle."""

AT_ROOF = ("compute", "memory_roof")

MEASURES = {
    name: tuple(bucket.name for bucket in BUCKETS if bucket.measure == name)
    for name in ("working", "avoidable", "free", "not_measured", "out_of_service")
}
"""The buckets of each measure. Below-peak time that findings claim moves from working to avoidable."""

MEASURE_WORDS = {
    "working": "Working",
    "avoidable": "Avoidable",
    "free": "Free",
    "not_measured": "Not measured",
    "out_of_service": "Out of service",
}

SEVERITIES = {"critical": "#9B1C31", "high": "#C0392B", "medium": "#D98324", "low": "#B59B2B", "info": "#5B7083"}
"""Worst first."""

STAGES = (
    ("total", "All GPUs", "all GPUs of the fleet"),
    ("reporting", "Reporting", "GPUs with measurements"),
    ("allocated", "Allocated, measured", "allocated to a job, with measurements"),
    ("active", "Active", "not idle"),
    ("effective", "Effective", "close to peak compute or memory bandwidth"),
)
"""The funnel, widest first."""


@dataclass(frozen=True)
class Ink:
    """Colours of axes and labels in one scheme."""

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
    """Sort key of a bucket name: its position in the stack, unknown names last."""
    return next((at for at, bucket in enumerate(BUCKETS) if bucket.name == name), len(BUCKETS))
