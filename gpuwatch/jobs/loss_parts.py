"""Who had the largest loss, in which kind of work, and what to do about each kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.advisor.stranded import STRANDED
from gpuwatch.core.clock import Window
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings.priority import HOUR_S, Rate
from gpuwatch.store.database import Store
from gpuwatch.store.day_sums import WORK_KIND

SERVICE, SESSION, BATCH, OTHER = "service", "session", "batch", "other"
WORK = {SERVICE: "Servers", SESSION: "Notebooks and sessions", BATCH: "Training and batch jobs", OTHER: "Other work"}
BY_KIND = ("hoarded", "gap", "communication", "stalled")
"""Buckets of jobs, which are divided by the kind of work."""
NAMED_MIN = Fraction(1, 10)
"""Kinds of work with a smaller part of a loss are not named."""
LISTED_MAX = 10

_NETWORK = (
    "keep a job of several nodes on fewer nodes or one switch",
    "on one node, choose GPUs that NVLink connects, and overlap communication with computing",
)
REMEDIES = {
    STRANDED: "Look at the causes on the capacity page: another model or MIG mode is requested, or free GPUs do not lie together.",
    "gap": "Training: load data ahead of the GPU and save checkpoints in the background. Servers: fewer replicas, a smaller slice, or scale with "
    "the load. Notebooks: end them when idle.",
    "communication": " ".join(f"{one[0].upper()}{one[1:]}." for one in _NETWORK),
    "stalled": "Enlarge batches or fuse kernels; a MIG slice is enough for work this small.",
    "hoarded": "Release GPUs that idle, or let the scheduler reclaim them.",
    "below_roof": "Follow the findings: placement and slow members are the usual causes.",
    "unobserved": "Export SM activity from these GPUs: until then, the waste on them is unknown.",
}
"""What to do about time of a bucket that no finding explains, where the kinds of work are not known (`remedy`): in reports, scans, the API
and on pages.
"""
_SHRINK = "a smaller GPU, a MIG slice or a shared GPU"
_REMEDIES_BY_KIND = {
    ("gap", SERVICE): f"run fewer replicas, scale them with the load, or give them {_SHRINK}",
    ("gap", SESSION): "end what idles (an idle culler), and give them a MIG slice or a shared GPU",
    ("gap", BATCH): "load data ahead of the GPU, and save checkpoints in the background",
    ("gap", OTHER): "look at the jobs with the largest gaps: loading of data, checkpoints, or nothing to do",
    ("hoarded", SERVICE): "scale down, to zero at night, or share the GPU",
    ("hoarded", SESSION): "end what idles (an idle culler), or set a short time limit",
    ("hoarded", BATCH): "ask for the GPUs that are used, and end jobs with their work",
    ("hoarded", OTHER): "release GPUs that idle, or let the scheduler reclaim them",
    ("stalled", SERVICE): f"batch requests, or give them {_SHRINK}",
    ("stalled", SESSION): "give them a MIG slice or a shared GPU",
    ("stalled", BATCH): "enlarge batches, or fuse kernels; a MIG slice is enough for work this small",
    ("stalled", OTHER): "enlarge batches, or use a MIG slice",
}


@dataclass(frozen=True)
class LossPart:
    """A team's part of a loss in one kind of work. `kind` None: the loss is not divided by it; `cost` None: no price."""

    team: str
    kind: str | None
    gpu_seconds: Fraction
    cost: Fraction | None

    def as_dict(self) -> dict[str, Any]:
        """As in the API."""
        return {
            "team": self.team,
            "kind": self.kind,
            "gpu_seconds": format_quantity(self.gpu_seconds),
            "cost": None if self.cost is None else format_quantity(self.cost, CENT_PLACES),
        }


def kinds_of(
    store: Store, window: Window, bucket: str, cluster: str | None, pool: str | None, teams: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Rows of jobs/loss_kind.sql; none for a bucket that no job has."""
    if bucket not in BY_KIND:
        return []
    for view in WORK_KIND:
        store.run(view)
    span = {"start_us": window.start_us, "end_us": window.end_us}
    store.run("views/whole_days", **span)
    return store.rows(
        "jobs/loss_kind",
        **span,
        bucket=bucket,
        cluster=cluster,
        pool=pool,
        teams=None if teams is None else list(teams),
    )


def divided(held: Iterable[tuple[str, Rate]], kinds: Iterable[Mapping[str, Any]]) -> tuple[LossPart, ...]:
    """The parts of a loss, the largest first: what each team held, divided by the kinds of its work. They add up to the loss."""
    rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in kinds:
        rows[str(row["team"])].append(row)
    found = []
    for team, rate in held:
        seconds = rate.hours * HOUR_S
        mine = rows.get(team, [])
        times = _shares([row["gpu_seconds"] for row in mine])
        values = _shares([row["value"] for row in mine]) or times
        if not times:
            found.append(LossPart(team, None, seconds, rate.cost))
        for row, time, value in zip(mine, times, values, strict=True):
            cost = None if rate.cost is None else rate.cost * value
            found.append(LossPart(team, str(row["kind"]), seconds * time, cost))
    return tuple(sorted(found, key=lambda one: (-(one.cost or 0), -one.gpu_seconds, one.team, one.kind or "")))


def _shares(weights: Sequence[float | None]) -> list[Fraction]:
    """The part of each; empty if one is not known, or all are zero."""
    known = [Fraction(weight) for weight in weights if weight is not None]
    whole = sum(known, Fraction(0))
    return [one / whole for one in known] if whole and len(known) == len(weights) else []


def remedy(bucket: str, parts: Sequence[LossPart], words: Callable[[Rate], str]) -> str:
    """What to do for each kind of work with a large part of the loss; empty where the kinds are not known. `words` says an amount: a cost of
    None is to be given in hours.
    """
    sizes: dict[str, Rate] = defaultdict(lambda: Rate(Fraction(0)))
    for one in parts:
        if one.kind is None or bucket not in BY_KIND:
            return ""
        sizes[one.kind] += Rate(one.cost, one.gpu_seconds / HOUR_S)
    priced = all(one.cost is not None for one in parts)
    amounts = {kind: (rate.cost or Fraction(0)) if priced else rate.hours for kind, rate in sizes.items()}
    whole = sum(amounts.values(), Fraction(0))
    sentences = []
    for kind in sorted(amounts, key=lambda name: (-amounts[name], name)):
        if amounts[kind] >= whole * NAMED_MIN:
            size = words(sizes[kind] if priced else Rate(None, sizes[kind].hours))
            sentences.append(f"{WORK[kind]} ({size}): {_REMEDIES_BY_KIND.get((bucket, kind)) or '; '.join(_NETWORK)}.")
    return " ".join(sentences)
