"""Histories of several days for attribution: what arrives in each of several passes, and what is taken back between them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.settings import Settings
from tests.worlds.world import H100, HOUR, Gpu, Sample, claim, node, pod, samples, us

DAY = 24 * HOUR
DAYS = 5
STEP = 600
SLOW = Settings(default_interval_s=STEP)
Row = Sample | dict[str, Any]


@dataclass
class History:
    """The rows of each pass. `withdrawn`: by pass, the jobs whose claims are deleted before it; `forgotten`: the jobs of an import
    that is taken back before it, with the samples that name them."""

    batches: list[list[Row]]
    withdrawn: dict[int, list[str]] = field(default_factory=dict)
    forgotten: dict[int, list[str]] = field(default_factory=dict)
    settings: dict[int, Settings] = field(default_factory=dict)
    methods: dict[int, list[tuple[int, str]]] = field(default_factory=dict)


def history(seed: int) -> History:
    """A history of a seed. In two of three, passes follow the time and some rows are late; otherwise rows come in any order."""
    rng = random.Random(seed)
    rows: list[tuple[int, Row]] = []
    for make in rng.sample(MAKERS, min(len(MAKERS), rng.randint(2, 4))):
        rows += make(rng)
    count = rng.randint(4, 6)
    made = History([[] for _ in range(count)])
    ordered = rng.random() < 0.67
    for at, row in rows:
        usual = min(count - 1, max(0, at * count // (DAYS * DAY)))
        late = rng.random() < (0.01 if isinstance(row, Sample) else 0.1)
        made.batches[usual if ordered and not late else rng.randrange(usual if ordered else 0, count)].append(row)
    jobs = sorted({row["job_id"] for _, row in rows if isinstance(row, dict) and "job_id" in row})
    for number in range(1, count):
        if jobs and rng.random() < 0.25:
            made.withdrawn[number] = rng.sample(jobs, 1)
        if jobs and rng.random() < 0.2:
            made.forgotten[number] = rng.sample(jobs, 1)
    if rng.random() < 0.15:
        made.settings[rng.randrange(1, count)] = Settings(default_interval_s=STEP, sharing_split="process")
    if rng.random() < 0.25:
        method = rng.choice(("memory", "compute"))
        made.methods[rng.randrange(1, count)] = [(us(rng.randrange(DAYS * DAY)), method)]
    return made


Made = list[tuple[int, Row]]


def _read(rng: random.Random, gpu: Gpu, start: int, end: int, **labels: str | None) -> Made:
    """Samples of a span, some lost, sometimes a silence in it."""
    gap = rng.randrange(start, max(start + 1, end)) if rng.random() < 0.3 else end
    silence = rng.choice((1800, 4 * HOUR, 20 * HOUR))
    at = [t for t in range(start + STEP // 2, end, STEP) if rng.random() > 0.03 and not gap <= t < gap + silence]
    fields = {"gr_engine_ratio": rng.choice((0.0, 0.9)), "gpu_util_ratio": rng.choice((0.1, 0.5, 0.9))}
    return [(t, sample) for t, sample in zip(at, samples(gpu, at, fields, **labels), strict=True)]


def _spans(rng: random.Random, until: int = DAYS * DAY) -> list[tuple[int, int]]:
    """Jobs one after the other: some of minutes, some over days."""
    at, found = rng.randrange(6 * HOUR), []
    while at < until:
        end = min(until, at + rng.choice((400, HOUR, 5 * HOUR, DAY, 2 * DAY)) + rng.randrange(1000))
        found.append((at, end))
        at = end + rng.choice((0, 0, 60, HOUR, 10 * HOUR))
    return found


def _records(rng: random.Random, job: str, start: int, end: int, *args: Any, **words: Any) -> Made:
    """A record while the job runs, each few hours, and one of its end; sometimes a corrected one."""
    found: Made = []
    for seen in range(start + 3 * HOUR, end, rng.choice((7 * HOUR, DAY))):
        found.append((seen, claim(job, start, None, *args, evidence=seen, state="RUNNING", **words)))
    found.append((end, claim(job, start, end, *args, evidence=end, state="COMPLETED", **words)))
    if rng.random() < 0.15:
        later = min(DAYS * DAY - 1, end + rng.randrange(2 * DAY))
        moved = claim(
            job, start - rng.choice((0, 700)), end + rng.choice((0, 500)), *args, account="lab", evidence=later, **words
        )
        found.append((later, moved))
    return found


def labelled(rng: random.Random) -> Made:
    """Slurm jobs that labels name, one GPU or two; a GPU that vanishes."""
    a, b = Gpu("GPU-a", "n1"), Gpu("GPU-b", "n1", 1)
    found = _read(rng, b, 0, rng.choice((2, DAYS)) * DAY)
    for number, (start, end) in enumerate(_spans(rng)):
        job = f"l{number}"
        found += _read(rng, a, start, end, job=job)
        both = rng.random() < 0.3
        if both:
            found += _read(rng, b, start, end, job=job)
        if rng.random() < 0.9:
            found += _records(rng, job, start, end, "n1", 2 if both else 1)
    return found


def counted(rng: random.Random) -> Made:
    """Jobs without labels, placed by count or by index, on a node that a record lists and no exporter reads wholly."""
    gpus = [Gpu(f"GPU-c{i}", "n2", i) for i in range(2)]
    found: Made = [row for gpu in gpus for row in _read(rng, gpu, 0, DAYS * DAY)]
    found.append((HOUR, node("n2", {"": rng.choice((2, 3))}, at=HOUR)))
    for lane in range(2):
        for number, (start, end) in enumerate(_spans(rng)):
            words = {"device_indexes": str(lane)} if rng.random() < 0.4 else {}
            found += _records(
                rng, f"c{lane}-{number}", start, end, "n2", 1, kind="scontrol" if words else "sacct", **words
            )
    return found


def partitioned(rng: random.Random) -> Made:
    """A GPU that is cut into slices, and cut again; pods on the slices, with two names of exporters."""
    layouts: list[tuple[str, ...]] = [(), ("1g.10gb", "2g.20gb"), ("3g.40gb", "4g.40gb"), ("3g.40gb",)]
    found: Made = []
    at, turn = 0, 0
    while at < DAYS * DAY:
        end = min(DAYS * DAY, at + rng.choice((5 * HOUR, DAY, 2 * DAY)) + rng.randrange(3000))
        layout = rng.choice(layouts)
        for gi, profile in enumerate(layout):
            uid = f"m{turn}-{gi}"
            gpu = Gpu("GPU-m", "n3", gi=gi, profile=profile)
            middle = rng.randrange(at, end)
            found += _read(rng, gpu, at, middle) + _read(rng, gpu, middle, end, pod=uid, namespace="lab")
            if rng.random() < 0.8:
                words = {"profile": profile} if rng.random() < 0.7 else {}
                found += [(end, pod(uid, uid, middle, end, "n3", **words))]
        if not layout:
            found += _read(rng, Gpu("GPU-m", "n3"), at, end)
        at, turn = end + rng.choice((0, 0, HOUR)), turn + 1
    return found


def shared(rng: random.Random) -> Made:
    """Pods that share a GPU: time slices, MPS, shards of Slurm, resource claims; a node that changes its way of sharing."""
    gpu = Gpu("GPU-s", "n4", pci="0:1")
    way = rng.choice(("time-slicing", "mps", "none"))
    found = _read(rng, gpu, 0, DAYS * DAY)
    found.append((60, node("n4", {"": 1}, at=60, scheduler="kubernetes", sharing=way, replicas=4)))
    if rng.random() < 0.3:
        at = rng.randrange(DAYS * DAY)
        found.append(
            (at, node("n4", {"": 1}, at=at, scheduler="kubernetes", sharing=rng.choice(("mps", "none")), replicas=2))
        )
    drawn = rng.random() < 0.3
    for lane in range(3):
        for number, (start, end) in enumerate(_spans(rng)):
            uid = f"s{lane}-{number}"
            words: dict[str, Any] = {"kind": "dra", "gpus": "GPU-s"} if drawn else {}
            found += _read(rng, gpu, start, end, pod=uid, namespace="lab")[:: rng.choice((1, 3))]
            found += [(end, pod(uid, uid, start, end, "n4", **words))]
    return found


def shards(rng: random.Random) -> Made:
    """Slurm's shards: parts of a GPU."""
    gpus = [Gpu(f"GPU-h{i}", "n5", i) for i in range(2)]
    found: Made = [row for gpu in gpus for row in _read(rng, gpu, 0, DAYS * DAY)]
    found.append((60, node("n5", {"": 2}, at=60, replicas=4)))
    for lane in range(2):
        for number, (start, end) in enumerate(_spans(rng)):
            labels = json.dumps({"gpuwatch.io/shares": str(rng.choice((1, 3, 6)))})
            words = {"labels": labels} if rng.random() < 0.8 else {}
            found += _records(rng, f"h{lane}-{number}", start, end, "n5", 1, **words)
    return found


def replaced(rng: random.Random) -> Made:
    """A GPU that another one replaces in its slot, one that moves to another node, and jobs over both times."""
    cut = rng.randrange(DAY, 4 * DAY)
    found = _read(rng, Gpu("GPU-r1", "n6", pci="0:6"), 0, cut) + _read(
        rng, Gpu("GPU-r2", "n6", pci="0:6"), cut + 700, DAYS * DAY
    )
    moved = rng.randrange(DAY, 4 * DAY)
    found += _read(rng, Gpu("GPU-v", "n7"), 0, moved) + _read(rng, Gpu("GPU-v", "n8"), moved + HOUR, DAYS * DAY)
    for place in ("n6", "n7", "n8"):
        found.append((HOUR, node(place, {"": 1}, at=HOUR)))
        for number, (start, end) in enumerate(_spans(rng)):
            if rng.random() < 0.7:
                found += _records(rng, f"{place}-{number}", start, end, place, 1)
    return found


def nested(rng: random.Random) -> Made:
    """Slurm jobs on pods that are its nodes; pods of one name, one of them with a guessed end."""
    found: Made = []
    gpu = Gpu("GPU-n", "n9")
    for number, (start, end) in enumerate(_spans(rng)):
        uid = f"w{number}"
        found += _read(rng, gpu, start, end, pod="worker", namespace="lab", pod_uid=uid)
        guessed = rng.random() < 0.3
        ended = rfc3339(us(end + 600))
        words = {"labels": json.dumps({"gpuwatch.io/ended-by": ended})} if guessed else {}
        found.append(
            (end, pod("worker", uid, start, end - (1000 if guessed and end - start > 2000 else 0), "n9", **words))
        )
        if rng.random() < 0.3:
            found += _records(rng, f"w{number}", start + 100, max(start + 200, end - 100), "worker", 1)
    return found


def drained(rng: random.Random) -> Made:
    """A node that is drained now and then, a fractional Ray job on it, pods that no record knows."""
    gpu = Gpu("GPU-d", "n10", model=H100)
    found = _read(rng, gpu, 0, DAYS * DAY)
    for at in sorted(rng.sample(range(DAYS * DAY), 4)):
        found.append((at, node("n10", {"": 1}, at=at, state=rng.choice(("up", "drain", "down")), since_us=us(at - 60))))
    for number, (start, end) in enumerate(_spans(rng)):
        if rng.random() < 0.4:
            found += _read(rng, gpu, start, end, pod=f"x{number}", namespace="lab")
        elif rng.random() < 0.5:
            words = {"scheduler": "ray", "kind": "ray", "fraction": rng.choice((0.25, 0.5)), "gpus": "GPU-d"}
            found += _records(rng, f"d{number}", start, end, "n10", 1, run_key=f"d{number}@s", **words)
    return found


MAKERS: tuple[Callable[[random.Random], Made], ...] = (
    labelled,
    counted,
    partitioned,
    shared,
    shards,
    replaced,
    nested,
    drained,
)
