"""Decisions of the scorecard: taken, left to a default, or unknown; and how they are weighted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpuwatch.rules.layers import DAYS

Row = Mapping[str, Any]

EXPLICIT, PART, DEFAULT, UNKNOWN, NONE = "explicit", "in part", "default", "not known", "does not arise"
"""State of a decision: taken, taken for some, left to a default, cannot be graded, or nothing to decide."""
HALF = 0.5
"""What an unenforced wish counts: a preferred topology, or whole GPUs without a declared MIG strategy."""
NAMED_MAX = 5
"""Names in a sentence."""
UNDECLARED = "unknown"
"""The authority of work that is known from labels of samples only: they name no scheduler."""
NOT_GANGS = ("inner", UNDECLARED)
"""Not an authority: work inside other work, and work that no scheduler reported."""

OBJECTS = (
    "kubectl get pods,nodes,workloads.kueue.x-k8s.io,podgroups.scheduling.volcano.sh,jobs.batch.volcano.sh -A -o json"
)
QUEUES = "kubectl get clusterqueues,localqueues,resourceflavors,cohorts,queues.scheduling.volcano.sh -A -o json"
IMPORT = "into BUNDLE/k8s/, or: gpuwatch import k8s-json FILE --cluster NAME"


@dataclass(frozen=True)
class Decision:
    """One decision: the `ratio` of it that was taken (0..1, None if unknown), a sentence about it, and what to do.

    `fix` makes the decision explicit; in state UNKNOWN it says how to collect what is missing.
    """

    id: str
    title: str
    state: str
    ratio: float | None
    sentence: str
    fix: str = ""
    effort: str = DAYS

    def as_dict(self) -> dict[str, Any]:
        """The decision as JSON; its sentence is `said` there."""
        return {"said" if name == "sentence" else name: value for name, value in asdict(self).items()}


def scored(id: str, title: str, ratio: float | None, sentence: str, fix: str, effort: str = DAYS) -> Decision:
    """A decision with the part of it that was taken; None is UNKNOWN."""
    if ratio is None:
        return Decision(id, title, UNKNOWN, None, sentence, fix, effort)
    state = EXPLICIT if ratio >= 1 else DEFAULT if ratio <= 0 else PART
    return Decision(id, title, state, ratio, sentence, "" if state == EXPLICIT else fix, effort)


def nothing(id: str, title: str, sentence: str) -> Decision:
    """A decision that does not arise."""
    return Decision(id, title, NONE, None, sentence)


def gangs(facts: Row) -> Sequence[Row]:
    """Work over several pods or nodes that is declared to be one gang, by kind."""
    return [row for row in facts["gang"] if row["known"]]


def no_gangs(id: str, title: str, facts: Row) -> Decision | None:
    """The decision when there is nothing to grade: no scheduler records, or no gang among them. Otherwise None."""
    if not any(row["authority"] not in NOT_GANGS for row in facts["binder"]):
        return scored(id, title, None, "No scheduler records show who placed what.", no_scheduler_fix())
    if not gangs(facts):
        return nothing(id, title, "No gang over several pods or nodes ran.")
    return None


def no_scheduler_fix() -> str:
    """How to import scheduler records."""
    return f"{OBJECTS} ({IMPORT}); Slurm: sacct -a -P and scontrol show job -d (BUNDLE/slurm/, or gpuwatch import sacct FILE)."


def weighed(
    rows: Iterable[Row], ratio_of: Callable[[Row], float | None], weight: str = "gpu_hours"
) -> tuple[float | None, float]:
    """The weighted mean of the rows with a ratio (None without any), and the weight of the rows without."""
    taken = known = unknown = 0.0
    for row in rows:
        ratio, size = ratio_of(row), float(row[weight])
        if ratio is None:
            unknown += size
        else:
            known += size
            taken += ratio * size
    return (rounded(taken / known) if known else None), unknown


def rounded(ratio: float) -> float:
    """Without floating-point noise, so that everything is exactly 1."""
    return round(ratio, 9)


def left(unknown: float) -> str:
    return f" Unknown for {unknown:,.0f} more GPU-hours." if unknown >= 1 else ""


def percent(ratio: float) -> str:
    shown = round(100 * ratio)
    shown = min(shown, 99) if ratio < 1 else shown
    return f"{max(shown, 1) if ratio > 0 else shown} %"


def named(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    more = len(found) - NAMED_MAX
    return ", ".join(found[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
