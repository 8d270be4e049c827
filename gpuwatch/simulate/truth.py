"""Truth: the exact results that a correct analysis of the bundle must have."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction

from gpuwatch.simulate.fleet import Device, Fleet
from gpuwatch.simulate.moments import Epoch
from gpuwatch.simulate.owners import team_of
from gpuwatch.simulate.runs import Run

PLACES = 6
PRECISION = 60


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
    needs: tuple[str, ...] = ()
    """Words in the names of metrics without which the case cannot be judged."""

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


def decimal_text(value: Fraction) -> str:
    """Rounded half-even to 6 places."""
    with localcontext() as context:
        context.prec = PRECISION
        return f"{Decimal(round(value * 10**PLACES)).scaleb(-PLACES):f}"


def fraction_text(value: Fraction) -> str:
    """`num/den`, also for whole numbers."""
    return f"{value.numerator}/{value.denominator}"


def _gpu_rows(fleet: Fleet, epoch: Epoch) -> list[dict[str, object]]:
    """One row per physical GPU: its capacity and the kind of evidence for it."""
    rows: dict[str, dict[str, object]] = {}
    nodes = {node.name: node for node in fleet.nodes}
    for device in fleet.devices():
        since = max(nodes[device.node].from_s, device.since_s)
        until = epoch.window_s if device.until_s is None else device.until_s
        rows[device.gpu] = {
            "gpu": device.gpu,
            "node": device.node,
            "index": device.index,
            "gpu_model": device.model.name,
            "exported": device.exported,
            "evidence": "samples" if device.exported else "scheduler records of its node",
            "capacity_gpu_seconds": decimal_text(Fraction(until - since)),
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
