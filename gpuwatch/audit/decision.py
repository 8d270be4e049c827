"""A decision that somebody took, that is left to a default, or that nobody can judge; and how it is weighed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpuwatch.rules.layers import DAYS

Row = Mapping[str, Any]

EXPLICIT, PART, DEFAULT, UNKNOWN, NONE = "explicit", "in part", "default", "not known", "does not arise"
"""What is known of a decision: taken, taken for some, left to a default, not to be judged, or nothing to decide."""
HALF = 0.5
"""What a wish that is not enforced counts: preferred topology, or whole GPUs that nobody wrote down."""
NAMED_MAX = 5
"""Names in a sentence."""
NOT_GANGS = ("inner", "not told")
"""Authorities that are none: what runs inside of other work, and what only labels of samples tell."""

OBJECTS = (
    "kubectl get pods,nodes,workloads.kueue.x-k8s.io,podgroups.scheduling.volcano.sh,jobs.batch.volcano.sh -A -o json"
)
QUEUES = "kubectl get clusterqueues,localqueues,resourceflavors,cohorts,queues.scheduling.volcano.sh -A -o json"
IMPORT = "into BUNDLE/k8s/, or: gpuwatch import k8s-json FILE --cluster NAME"


@dataclass(frozen=True)
class Decision:
    """One decision: `ratio` of it that is taken (0..1, None where that is not known), in words, and what to do.

    `fix` makes it explicit, or where the state is UNKNOWN, known.
    """

    id: str
    title: str
    state: str
    ratio: float | None
    said: str
    fix: str = ""
    effort: str = DAYS

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def scored(id: str, title: str, ratio: float | None, said: str, fix: str, effort: str = DAYS) -> Decision:
    """A decision by the part of it that is taken; None is UNKNOWN."""
    if ratio is None:
        return Decision(id, title, UNKNOWN, None, said, fix, effort)
    state = EXPLICIT if ratio >= 1 else DEFAULT if ratio <= 0 else PART
    return Decision(id, title, state, ratio, said, "" if state == EXPLICIT else fix, effort)


def nothing(id: str, title: str, said: str) -> Decision:
    """A decision that does not arise."""
    return Decision(id, title, NONE, None, said)


def gangs(facts: Row) -> Sequence[Row]:
    """Kinds of work over several pods or nodes that is told to be one gang."""
    return [row for row in facts["gang"] if row["known"]]


def no_gangs(id: str, title: str, facts: Row) -> Decision | None:
    """Where there is nothing to judge by: no scheduler's records, or no gang among them."""
    if not any(row["authority"] not in NOT_GANGS for row in facts["binder"]):
        return scored(id, title, None, "No scheduler's records tell who placed what.", no_scheduler_fix())
    if not gangs(facts):
        return nothing(id, title, "No gang over several pods or nodes ran.")
    return None


def no_scheduler_fix() -> str:
    """How schedulers' records come in."""
    return f"{OBJECTS} ({IMPORT}); Slurm: sacct -a -P and scontrol show job -d (BUNDLE/slurm/, or gpuwatch import sacct FILE)."


def weighed(
    rows: Iterable[Row], judge: Callable[[Row], float | None], weight: str = "gpu_hours"
) -> tuple[float | None, float]:
    """(the mean of what can be judged, None of nothing; the weight of what cannot)."""
    taken = judged = unknown = 0.0
    for row in rows:
        found, size = judge(row), float(row[weight])
        if found is None:
            unknown += size
        else:
            judged += size
            taken += found * size
    return (rounded(taken / judged) if judged else None), unknown


def rounded(ratio: float) -> float:
    """Without the dust of floating sums, so that all is all."""
    return round(ratio, 9)


def left(unknown: float) -> str:
    return f" Of {unknown:,.0f} more GPU-hours nobody says." if unknown >= 1 else ""


def percent(ratio: float) -> str:
    shown = round(100 * ratio)
    shown = min(shown, 99) if ratio < 1 else shown
    return f"{max(shown, 1) if ratio > 0 else shown} %"


def named(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    more = len(found) - NAMED_MAX
    return ", ".join(found[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
