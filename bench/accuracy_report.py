"""The accuracy page: counts and rates of each detector with their intervals, and what they do not prove."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Z = 1.959963984540054
"""Of a two-sided interval of 95 %."""
HEADLINE = ("false-utilization", "idle-hoarding", "topology-blind-placement", "fragmentation")
WRONG_MAX = 12
"""False findings that are told of a variant."""
PRECISION_GOAL, RECALL_GOAL = 0.95, 0.90


class Summed(Protocol):
    """What one detector did on all fleets."""

    planted: int
    found: int
    right: int
    false: int
    decoys: int
    decoys_hit: int
    wrong: list[str]


@dataclass(frozen=True)
class Counts:
    """Sums over `fleets` fleets; on `failed` of them some rule failed."""

    fleets: int
    failed: int
    detectors: Mapping[str, Summed]


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The Wilson score interval of a rate at 95 %; (0, 1) where nothing was tried.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    if of == 0:
        return 0.0, 1.0
    rate = hits / of
    middle = (rate + Z * Z / (2 * of)) / (1 + Z * Z / of)
    half = Z / (1 + Z * Z / of) * math.sqrt(rate * (1 - rate) / of + Z * Z / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def report(
    counts: Mapping[str, Counts], titles: Mapping[str, str], seeds: Sequence[int], shapes: Sequence[str] = ()
) -> str:
    """docs/accuracy.md as text; `shapes` are rows of a table of what is planted."""
    parts = [_HEAD.format(seeds=_range(seeds))]
    for variant, summed in counts.items():
        parts.append(f"## {titles[variant]} (`{variant}`)\n\n{summed.fleets} fleets.{_failed(summed.failed)}\n")
        parts.append(_table(summed))
        parts.extend(_wrong(summed))
    parts.append(_LIMITS.format(shapes="\n".join(shapes)))
    return "\n".join(parts)


def _table(counts: Counts) -> str:
    lines = [
        "| Detector | Planted | Found | Recall (95 %) | Findings right | False | Precision (95 %) | Decoys | Hit |",
        "| --- | --: | --: | --- | --: | --: | --- | --: | --: |",
    ]
    for name, told in sorted(counts.detectors.items()):
        lines.append(
            f"| `{name}` | {told.planted} | {told.found} | {_rate(told.found, told.planted, RECALL_GOAL)} | {told.right} | "
            f"{told.false} | {_rate(told.right, told.right + told.false, PRECISION_GOAL)} | {told.decoys} | "
            f"{told.decoys_hit} |"
        )
    return "\n".join(lines) + "\n"


def _wrong(counts: Counts) -> list[str]:
    """Every false finding in its own words, so that a reader can judge it."""
    told = [f"- `{name}`, {text}" for name, mine in sorted(counts.detectors.items()) for text in mine.wrong]
    more = [f"- and {len(told) - WRONG_MAX} more"] if len(told) > WRONG_MAX else []
    return ["What was false:\n\n" + "\n".join([*told[:WRONG_MAX], *more]) + "\n"] if told else []


def _rate(hits: int, of: int, goal: float) -> str:
    if of == 0:
        return "none"
    low, high = wilson(hits, of)
    mark = "" if hits / of >= goal else " **below goal**"
    return f"{hits / of:.3f} ({low:.3f}-{high:.3f}){mark}"


def _range(seeds: Sequence[int]) -> str:
    whole = list(range(min(seeds), max(seeds) + 1)) == list(seeds)
    return f"{min(seeds)}-{max(seeds)}" if whole and len(seeds) > 1 else ", ".join(map(str, seeds))


def _failed(failed: int) -> str:
    return f" On {failed} of them a rule failed or a file could not be read." if failed else ""


_HEAD = """# Accuracy

How often the detectors are right, measured on simulated fleets: `make accuracy` writes this page.

Each fleet is simulated by seed (`gpuwatch simulate --scenes all`), imported through the real wire formats and analysed with
the default settings. It has the cases of the first detectors among healthy work, and the scenes of all detectors: nodes with
B200, H100, H200, A100, A30, L40S and L4 GPUs, with and without NVLink, whole, partitioned (MIG) and shared in time, under Slurm
and Kubernetes with Kueue and Volcano objects. Each detector has planted shapes, and decoys: situations that look alike and are not
what it looks for. A seed is two fleets: one of three days with all scenes that are no longer, and a small one of eight days for those
that are.

Seeds 1-10 were used while rules and scenes were written. Of 101-113, unseen before, two advices of right-sizing were false; of
201-214 one finding of checkpoint-stall, and where samples were lost one of small-batch and another of checkpoint-stall. Rules were
changed for these. The seeds below, {seeds}, were not seen before that change, and no rule was changed after it.

**Found**: planted cases with a finding of that detector about that subject at an overlapping time. **False**: findings about
anything that was not planted for that detector, on the whole fleet. **Hit**: decoys among them. Findings that another one
suppresses are not counted, nor are those that a case allows either way (truth.json, `allowed`). Rates have Wilson intervals
of 95 %. Goals: precision 0.95, recall 0.90, and no decoy hit by false-utilization, idle-hoarding, topology-blind-placement
and fragmentation.
"""

_LIMITS = """## The fleets

`gpuwatch simulate --out DIR --scenes all --gpus 400 --days 8 --seed 101` writes one. The same arguments give the same bytes.

| option | meaning |
| --- | --- |
| `--scenes none\\|default\\|all\\|ID,...` | which scenes are staged, on GPUs that count within `--gpus`. `default`: in fleets of 64 GPUs and more, on half of them; `all`: as many as fit beside 8 GPUs; or those of some detectors. The most important come first, and scenes longer than `--days` are left out |
| `--step S` | seconds between two samples |
| `--without FIELD` | leaves out the metrics whose name has this word, on the whole fleet |
| `--drop RATIO` | loses this part of the samples at random, a node's scrapes together |

A scene is a few nodes of its own with a pool, jobs, loads and scheduler objects, in `gpuwatch/simulate/scenes/<detector>.py`; its nodes
join the fleet some hours before the end. `truth.json` has `planted` and `decoys` (detector, subject, devices, intervals, and
why), and `allowed`: what a detector may say or not because both readings are right.

| Detector | Planted | Decoys |
| --- | --- | --- |
{shapes}

## What this does not prove

- The labels are ours. We wrote the simulator, and chose what a failure looks like from published descriptions; a detector that
  agrees with it agrees with our reading of them. Scenes were written from the descriptions, by the same
  team, and their author saw parts of the rules' SQL while looking for misses: they are not independent of the rules.
- Where no record told what a rule must know, the scene was made to tell it: a pod that waits names a queue like its pool, a Slurm
  job that bears a spread says so in its comment, a dump has the time of its nodes' heartbeats. Sites without such records have misses
  that this page does not show.
- Shapes are few. A seed changes noise, times (by up to 6 %), activity (by up to 4 %), owners and what surrounds a case, not its physics: twenty
  fleets are not twenty independent sites, and the intervals are narrower than the doubt.
- Healthy work is simulated too. Real fleets have workloads that no scene has, and precision there is lower until owners' feedback
  has been read; it is shown for each rule beside its back-test.
- Without SM_ACTIVE what needs it cannot be judged and is not reported: recall of those detectors falls, precision must not.
- Losses of 30 % are random in time and hit a node's scrapes together. An exporter that fails for hours is another matter: then
  time is `unobserved`.
- Money is not measured here: that the books close is tested exactly elsewhere.
"""
