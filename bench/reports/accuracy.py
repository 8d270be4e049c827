"""The accuracy page: counts and rates of each detector with their intervals, and their limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Z = 1.959963984540054
"""Standard deviations of a two-sided 95 % interval."""
WRONG_MAX = 12
"""False findings listed per variant."""
PRECISION_GOAL, RECALL_GOAL = 0.97, 0.95


class Summed(Protocol):
    """The results of one detector on all fleets."""

    planted: int
    found: int
    right: int
    false: int
    decoys: int
    decoys_hit: int
    wrong: list[str]


@dataclass(frozen=True)
class Counts:
    """Sums over the fleets of `seeds`; on `failed` of them a rule failed."""

    seeds: Sequence[int]
    failed: int
    detectors: Mapping[str, Summed]


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a rate; (0, 1) without any tries.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    if of == 0:
        return 0.0, 1.0
    rate = hits / of
    middle = (rate + Z * Z / (2 * of)) / (1 + Z * Z / of)
    half = Z / (1 + Z * Z / of) * math.sqrt(rate * (1 - rate) / of + Z * Z / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def report(counts: Mapping[str, Counts], titles: Mapping[str, str], shapes: Sequence[str] = ()) -> str:
    """docs/understand/accuracy.md as text; `shapes` are the rows of the table of planted cases."""
    parts = [_HEAD]
    for variant, summed in counts.items():
        parts.append(f"## {titles[variant]} (`{variant}`)\n\n{_measured(summed)}\n")
        if summed.seeds:
            parts.append(_table(summed))
            parts.extend(_wrong(summed))
    parts.append(_LIMITS.format(shapes="\n".join(shapes)))
    return "\n".join(parts)


def _table(counts: Counts) -> str:
    lines = [
        "| Detector | Planted | Found | Recall (95 %) | Findings right | False | Precision (95 %) | Decoys | Hit |",
        "| --- | --: | --: | --- | --: | --: | --- | --: | --: |",
    ]
    for name, one in sorted(counts.detectors.items()):
        lines.append(
            f"| `{name}` | {one.planted} | {one.found} | {_rate(one.found, one.planted, RECALL_GOAL)} | {one.right} | "
            f"{one.false} | {_rate(one.right, one.right + one.false, PRECISION_GOAL)} | {one.decoys} | "
            f"{one.decoys_hit} |"
        )
    return "\n".join(lines) + "\n"


def _wrong(counts: Counts) -> list[str]:
    """The summary of every false finding, so that a reader can check it."""
    listed = [f"- `{name}`, {text}" for name, mine in sorted(counts.detectors.items()) for text in mine.wrong]
    more = [f"- and {len(listed) - WRONG_MAX} more"] if len(listed) > WRONG_MAX else []
    return ["False findings:\n\n" + "\n".join([*listed[:WRONG_MAX], *more]) + "\n"] if listed else []


def _rate(hits: int, of: int, goal: float) -> str:
    if of == 0:
        return "none"
    low, high = wilson(hits, of)
    mark = "" if hits / of >= goal else " **below goal**"
    return f"{hits / of:.3f} ({low:.3f}-{high:.3f}){mark}"


def _measured(counts: Counts) -> str:
    """How many seeds were measured, and which."""
    seeds = counts.seeds
    if not seeds:
        return "Not measured with these scenes yet."
    whole = list(range(min(seeds), max(seeds) + 1)) == list(seeds)
    shown = f"{min(seeds)}-{max(seeds)}" if whole and len(seeds) > 1 else ", ".join(map(str, seeds))
    failed = f" On {counts.failed} of them a rule failed or a file could not be read." if counts.failed else ""
    return f"{len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'}: {shown}.{failed}"


_HEAD = """# Accuracy

How often the detectors are right, measured on simulated fleets. `make accuracy` writes this page.

Each fleet is simulated from a seed (`gpuwatch simulate --scenes all`), imported through the real wire formats and analyzed
with the default settings. Fleets contain B200, H100, H200, A100, A30, L40S and L4 nodes, with and without NVLink, whole,
partitioned (MIG) and time-shared, under Slurm and under Kubernetes with Kueue and Volcano objects. For every detector there are
planted cases, and decoys: situations that look similar but are not what the detector looks for. Each seed is two
fleets: one of three days, and a small one of eight days for scenes that need more than three days.

What the seeds were used for:

| Seeds | Use and result |
| --- | --- |
| 1-10 | used while detectors and scenes were written |
| 101-113 | first use; right-sizing made two false recommendations and was changed |
| 201-214 | one false finding of checkpoint-stall; with lost samples, one each of small-batch and checkpoint-stall. Both detectors were changed |
| 301-320, 911, 921, 922 | used to try later changes; 301-320 were measured with fewer scenes, 20 in each of the four variants |
| 2, new scenes of waiting pods | seven false findings of fragmentation and eight of partial-island, because pods counted as waiting for nodes of Slurm; this was changed |
| 1002, without SM_ACTIVE | one false finding of failed-work: without SM_ACTIVE, nothing showed the checkpoints of that decoy. It now counts only if SM_ACTIVE is measured |
| 1006 | one false finding of fragmentation, corrected afterwards (requests too large for an empty node); the small fleets of 1006 and 1013 then had none |
| 1003-1007, 1014, 1015 | measured earlier, no other false finding |
| those of the tables below | not used before, and no detector was changed because of them: 20 with all fields, the first of them in the other variants |
| 2001, 2002, all fields | after later changes of ownership: all 205 planted cases found, nothing else, and none of 276 decoys |
| 3002, all fields | after scenes of nodes out of service, crash loops and images that are not pulled were added: all 109 planted cases found, nothing else, and none of 146 decoys |

The seeds of the tables are few, so the intervals are wide. After these measurements, requests for accelerators of other vendors and for shares of
GPUs, which are in no scene, were separated from requests for GPUs.

- **Found**: planted cases with a finding of that detector about that subject at an overlapping time.
- **False**: findings about anything that was not planted for that detector, on the whole fleet.
- **Hit**: decoys among the false findings.

Not counted: findings suppressed by another finding, and findings that a case allows either way (`allowed` in truth.json).
Decoys that only a missing metric could show are not counted in the variant without it. Rates have 95 % Wilson intervals. Goals for
each detector: precision 0.97, recall 0.95, and no decoy hit. Without SM_ACTIVE, the goal of recall applies to detectors that do not need it.
"""

_LIMITS = """## The fleets

`gpuwatch simulate --out DIR --scenes all --gpus 400 --days 8 --seed 101` writes one fleet. The same arguments give the same
bytes.

| Option | Description |
| --- | --- |
| `--scenes none\\|default\\|all\\|ID,...` | Which scenes to stage; their GPUs count towards `--gpus`. `default`: on half of the GPUs of fleets with 64 or more; `all`: as many as fit next to 8 GPUs; or the scenes of the given detectors. The most important come first, and scenes longer than `--days` are left out. |
| `--step S` | Seconds between two samples. |
| `--without FIELD` | Leave out metrics whose name contains this word, on the whole fleet. |
| `--drop RATIO` | Lose this share of the samples at random; the scrapes of a node are lost together. |

A scene is a few nodes with their own pool, jobs, loads and scheduler objects, defined in
`gpuwatch/simulate/scenes/<detector>.py`. Its nodes join the fleet some hours before the end. `truth.json` lists `planted` and
`decoys` (detector, subject, devices, intervals, and why), and `allowed`: findings that are right either way.

| Detector | Planted | Decoys |
| --- | --- | --- |
{shapes}

## What this does not prove

- The labels are ours. We wrote the simulator and chose what a failure looks like from published descriptions. A detector that
  agrees with it agrees with our reading of them. The same team wrote scenes and detectors, and the scenes' author saw parts
  of the SQL while looking for missed cases, so they are not independent.
- If a detector needs a record that schedulers often lack, the scene has it: a waiting pod names a queue like its
  pool, a Slurm job that tolerates being spread says so in its comment, a dump contains the times of its nodes' heartbeats. Sites
  without such records miss cases that this page does not show.
- There are few kinds of cases. A seed changes noise, times (by up to 6 %), activity (by up to 4 %), owners and
  surroundings, not the physics. Several fleets are not as many independent sites, and the true uncertainty is larger than the
  intervals.
- Healthy work is simulated too. Real fleets have workloads that no scene contains. Expect lower precision until you have read
  your owners' feedback, which is shown per detector next to its back-test.
- Without SM_ACTIVE, detectors that need it report nothing. Their recall falls; their precision must not.
- Lost samples (30 %) are random in time and affect the scrapes of a node together. An exporter that fails for hours is a
  different case: that time is `unobserved`.
- Every seed has the same scenes, so a case that the detectors read rightly on one seed is mostly read rightly on the next. More
  seeds test noise, times and surroundings; they do not add kinds of cases.
- Money is not measured here. Other tests check exactly that the ledger adds up.
"""
