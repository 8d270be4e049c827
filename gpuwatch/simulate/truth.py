"""Truth: the exact results that a correct analysis of the bundle must have."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

from gpuwatch.simulate.fleet import Device, Fleet
from gpuwatch.simulate.loads import hoarded_intervals
from gpuwatch.simulate.models import A100
from gpuwatch.simulate.moments import Epoch
from gpuwatch.simulate.owners import team_of
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.scenarios import BLIND, BLIND_SPOT, IDLE_HOARDING, SCENARIOS
from gpuwatch.simulate.tables import Rate, price

Divided = dict[tuple[int, str], list[tuple[int, int, Fraction]]]

POOL_KNOWN_S = 86_400
"""Pools that existed for a day: their way of paying may be reported as the more expensive one."""
PAUSING = ("short-idle",)
"""Cases whose pauses could be those of checkpoints."""

PLACES = 6
PRECISION = 60

DIMENSIONS: dict[str, Callable[[Run], str]] = {
    "team": lambda run: team_of(run.owner),
    "user": lambda run: run.owner.user,
    "account": lambda run: run.owner.account,
    "namespace": lambda run: run.owner.namespace,
    "queue": lambda run: run.pool if run.scheduler == "slurm" else run.owner.queue,
    "job": lambda run: run.job_id,
    "gpu_model": lambda run: run.devices[0].model.name,
    "mig_profile": lambda run: run.profile,
}
"""The keys by which the held time of runs is summed. An empty key means unknown, or a whole GPU."""


@dataclass(frozen=True)
class Amount:
    """Share-weighted GPU-seconds and their price in USD, exact."""

    gpu_seconds: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.gpu_seconds + other.gpu_seconds, self.cost + other.cost)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.gpu_seconds - other.gpu_seconds, self.cost - other.cost)

    def plain(self) -> dict[str, str]:
        """Decimals with 6 places, and the exact `num/den`."""
        return {
            "gpu_seconds": decimal_text(self.gpu_seconds),
            "gpu_seconds_exact": fraction_text(self.gpu_seconds),
            "cost": decimal_text(self.cost),
            "cost_exact": fraction_text(self.cost),
        }


@dataclass(frozen=True)
class Case:
    """A planted finding or a decoy: the job, the devices concerned, and the intervals of the condition (RFC 3339)."""

    detector: str
    shape: str
    job_id: str
    team: str
    user: str
    devices: tuple[str, ...]
    nodes: tuple[str, ...]
    observed: bool
    intervals: tuple[tuple[str, str], ...]
    run_start: str
    run_end: str | None
    why: str
    subject_kind: str = "job"
    subject_id: str = ""
    """The id of a subject that is not a job; empty: the job."""
    scene: str = ""

    def plain(self) -> dict[str, object]:
        """The JSON object."""
        ends = {"started_at": self.intervals[0][0], "ended_at": self.intervals[-1][1] if self.run_end else None}
        pairs = [{"start": start, "end": end} for start, end in self.intervals]
        apart = ("intervals", "subject_kind", "subject_id")
        rest = {k: list(v) if isinstance(v, tuple) else v for k, v in self.__dict__.items() if k not in apart}
        subject = {"kind": self.subject_kind, "id": self.subject_id or self.job_id}
        return {**rest, "subject": subject, **ends, "intervals": pairs}


@dataclass(frozen=True)
class Allowed:
    """A finding that a detector may or may not report, so it is neither planted nor a decoy."""

    detector: str
    subject_kind: str
    subject_id: str
    why: str

    def plain(self) -> dict[str, object]:
        """The JSON object."""
        subject = {"kind": self.subject_kind, "id": self.subject_id}
        return {"detector": self.detector, "subject": subject, "why": self.why}


@dataclass(frozen=True)
class Labels:
    """The cases of scenes."""

    planted: tuple[Case, ...] = ()
    decoys: tuple[Case, ...] = ()
    allowed: tuple[Allowed, ...] = ()


@dataclass(frozen=True)
class Truth:
    """The labels of a simulated bundle; `plain` is the content of truth.json."""

    cluster: str
    seed: int
    step_s: int
    epoch: Epoch
    fleet: Fleet
    runs: tuple[Run, ...]
    capacity: Amount
    held: dict[str, dict[str, Amount]]
    mig_remainder: Amount
    platform: Amount
    platform_by_model: dict[str, Amount]
    planted: tuple[Case, ...]
    decoys: tuple[Case, ...]
    allowed: tuple[Allowed, ...] = ()
    samples: int = field(default=0)

    @property
    def held_total(self) -> Amount:
        """The total of all held time."""
        return sum(self.held["team"].values(), Amount())

    def plain(self) -> dict[str, object]:
        """truth.json as plain data."""
        epoch = self.epoch
        return {
            "version": 1,
            "cluster": self.cluster,
            "seed": self.seed,
            "step_s": self.step_s,
            "currency": "USD",
            "window": {"start": epoch.rfc3339(0), "end": epoch.rfc3339(epoch.window_s)},
            "totals": {
                "capacity": self.capacity.plain(),
                "held": self.held_total.plain(),
                "platform": self.platform.plain(),
            },
            "held": {
                name: {key: amount.plain() for key, amount in sorted(group.items())}
                for name, group in self.held.items()
            },
            "platform": {
                "unallocated": (self.platform - self.mig_remainder).plain(),
                "mig_remainder": self.mig_remainder.plain(),
                "by_gpu_model": {key: amount.plain() for key, amount in sorted(self.platform_by_model.items())},
            },
            "gpus": _gpu_rows(self.fleet, epoch),
            "devices": [_device_row(device) for device in self.fleet.devices()],
            "jobs": [_job_row(run, epoch) for run in self.runs],
            "planted": [case.plain() for case in self.planted],
            "decoys": [case.plain() for case in self.decoys],
            "allowed": [allowed.plain() for allowed in self.allowed],
            "samples": self.samples,
        }

    def json(self) -> str:
        """truth.json."""
        return json.dumps(self.plain(), indent=1) + "\n"


def build_truth(
    cluster: str,
    seed: int,
    step_s: int,
    epoch: Epoch,
    fleet: Fleet,
    runs: Sequence[Run],
    card: Sequence[Rate],
    labels: Labels | None = None,
) -> Truth:
    """Adds up held and unallocated time by owner and lists the cases; `labels` are those of scenes.

    Every GPU is owned from its node's first second to the window's end: exported ones have samples half a step inside
    both ends; the others have a run that starts with the window and one that is running when the records are dumped.
    """
    window = epoch.window_s
    held: dict[str, dict[str, Amount]] = {name: defaultdict(Amount) for name in DIMENSIONS}
    by_model: dict[str, Amount] = defaultdict(Amount)
    for node in fleet.nodes:
        whole = Amount(Fraction(window - node.from_s), price(card, node.model, node.from_s, window))
        for _ in range(node.gpu_count):
            by_model[node.model.name] += whole
    capacity = sum(by_model.values(), Amount())
    shared = {node.name for node in fleet.nodes if node.replicas > 1}
    divided = shares(runs, shared, window)
    for run in runs:
        if run.start_s is None:
            continue
        amount = _amount(run, window, card, divided)
        by_model[run.devices[0].model.name] -= amount
        for name, key in DIMENSIONS.items():
            held[name][key(run)] += amount
    remainder = Amount()
    for node, share in fleet.remainders():
        free = price(card, node.model, node.from_s, window)
        remainder += Amount(share * (window - node.from_s), share * free)
    labels = labels or Labels()
    pools = {node.pool: None for node in fleet.nodes if node.model is A100 and window - node.from_s >= POOL_KNOWN_S}
    reserved = tuple(
        Allowed("own-vs-cloud", "pool", pool, "reserved below its list price: which is cheaper depends on its use")
        for pool in pools
    )
    pauses = tuple(
        Allowed("checkpoint-stall", "job", run.job_id, "it stops at regular times; whether to save is not to be seen")
        for run in runs
        if run.scenario in PAUSING
    )
    planted = [case for run in runs if (case := _case(run, epoch, True))]
    decoys = [case for run in runs if (case := _case(run, epoch, False))]
    return Truth(
        cluster,
        seed,
        step_s,
        epoch,
        fleet,
        tuple(runs),
        capacity,
        {name: dict(group) for name, group in held.items()},
        remainder,
        sum(by_model.values(), Amount()),
        dict(by_model),
        (*planted, *labels.planted),
        (*decoys, *labels.decoys),
        (*pauses, *reserved, *labels.allowed),
    )


def decimal_text(value: Fraction) -> str:
    """Rounded half-even to 6 places."""
    with localcontext() as context:
        context.prec = PRECISION
        return f"{Decimal(round(value * 10**PLACES)).scaleb(-PLACES):f}"


def fraction_text(value: Fraction) -> str:
    """`num/den`, also for whole numbers."""
    return f"{value.numerator}/{value.denominator}"


def shares(runs: Sequence[Run], shared: Collection[str], window: int) -> Divided:
    """(start, end, part) of each run on a GPU that several runs share in equal parts, by (run number, device)."""
    holders: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        for device in run.devices:
            if device.node in shared:
                holders[device.id].append(run)
    divided: Divided = defaultdict(list)
    for device_id, group in holders.items():
        edges = sorted({edge for run in group for edge in run.held(window)})
        for low, high in pairwise(edges):
            present = [run for run in group if run.held(window)[0] <= low and high <= run.held(window)[1]]
            for run in present:
                divided[(run.number, device_id)].append((low, high, Fraction(1, len(present))))
    return divided


def _amount(run: Run, window: int, card: Sequence[Rate], divided: Divided) -> Amount:
    parts = [part for device in run.devices for part in divided.get((run.number, device.id), [])]
    if parts:
        model = run.devices[0].model
        seconds = sum((part * (high - low) for low, high, part in parts), Fraction(0))
        return Amount(seconds, sum((part * price(card, model, low, high) for low, high, part in parts), Fraction(0)))
    start, end = run.held(window)
    share = sum((device.share for device in run.devices), Fraction(0))
    return Amount(share * (end - start), share * price(card, run.devices[0].model, start, end))


def _case(run: Run, epoch: Epoch, planted: bool) -> Case | None:
    """The planted case (or the decoy) that this run was created for, if there is one."""
    if not run.scenario or run.start_s is None:
        return None
    detector, _, shape = run.scenario.partition(":")
    start, end = run.held(epoch.window_s)
    concerned: Sequence[Device] = run.devices
    intervals = [(start, end)]
    if detector == BLIND_SPOT:
        if not planted:
            return None
        why = BLIND[shape]
        concerned = [device for device in run.devices if not device.exported]
    else:
        scenario = next(s for s in SCENARIOS if s.name == run.scenario)
        if scenario.planted != planted:
            return None
        detector, shape, why = scenario.detector, scenario.name, scenario.why
        if planted and detector == IDLE_HOARDING:
            runs = [hoarded_intervals(course) for course in run.courses]
            concerned = [device for device, hoarded in zip(run.devices, runs, strict=True) if hoarded]
            idle = next(hoarded for hoarded in runs if hoarded)
            intervals = [(start + low, start + high) for low, high in idle]
    return Case(
        detector,
        shape,
        run.job_id,
        team_of(run.owner),
        run.owner.user,
        tuple(device.id for device in concerned),
        tuple(dict.fromkeys(device.node for device in concerned)),
        detector != BLIND_SPOT,
        tuple((epoch.rfc3339(low), epoch.rfc3339(high)) for low, high in intervals),
        epoch.rfc3339(start),
        None if run.end_s is None else epoch.rfc3339(run.end_s),
        why,
    )


def _gpu_rows(fleet: Fleet, epoch: Epoch) -> list[dict[str, object]]:
    """One row per physical GPU: its capacity and the kind of evidence for it."""
    rows: dict[str, dict[str, object]] = {}
    from_s = {node.name: node.from_s for node in fleet.nodes}
    for device in fleet.devices():
        rows[device.gpu] = {
            "gpu": device.gpu,
            "node": device.node,
            "index": device.index,
            "gpu_model": device.model.name,
            "exported": device.exported,
            "evidence": "samples" if device.exported else "scheduler records of its node",
            "capacity_gpu_seconds": decimal_text(Fraction(epoch.window_s - from_s[device.node])),
        }
    return list(rows.values())


def _device_row(device: Device) -> dict[str, object]:
    return {
        "id": device.id,
        "gpu": device.gpu,
        "node": device.node,
        "index": device.index,
        "gi": device.gi,
        "mig_profile": device.profile,
        "share": fraction_text(device.share),
        "exported": device.exported,
    }


def _job_row(run: Run, epoch: Epoch) -> dict[str, object]:
    return {
        "job_id": run.job_id,
        "scheduler": run.scheduler,
        "kind": run.kind,
        "team": team_of(run.owner),
        "hpc_job": str(run.number) if run.scheduler == "slurm" else None,
        "pod": run.pod or None,
        "state": run.state,
        "start": None if run.start_s is None else epoch.rfc3339(run.start_s),
        "end": None if run.end_s is None else epoch.rfc3339(run.end_s),
        "devices": [device.id for device in run.devices],
        "scenario": run.scenario or None,
    }
