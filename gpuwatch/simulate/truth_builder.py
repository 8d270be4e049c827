"""Derives the truth of a simulated fleet from its runs: time and money by owner, and the cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
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
from gpuwatch.simulate.truth import Allowed, Amount, Case, Labels, Truth

Divided = dict[tuple[int, str], list[tuple[int, int, Fraction]]]

POOL_KNOWN_S = 86_400
"""Pools that existed for a day: their way of paying may be reported as the more expensive one."""
PAUSING = ("short-idle",)
"""Cases whose pauses could be those of checkpoints."""
FAILED_WORK = "failed-work"
FAILED_STATES = ("FAILED", "NODE_FAIL", "TIMEOUT")

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

    Every GPU is owned from its node's first second to the window's end, or while it is in its slot: exported ones have samples
    half a step inside both ends; the others have a run that starts with the window and one that is running when the records are
    dumped.
    """
    window = epoch.window_s
    by_model: dict[str, Amount] = defaultdict(Amount)
    for node in fleet.nodes:
        for gpu in {device.gpu: device for device in node.devices}.values():
            since, until = max(node.from_s, gpu.since_s), window if gpu.until_s is None else gpu.until_s
            by_model[node.model.name] += Amount(Fraction(until - since), price(card, node.model, since, until))
    capacity = sum(by_model.values(), Amount())
    shared = {node.name for node in fleet.nodes if node.replicas > 1}
    divided = shares(runs, shared, window)
    held: dict[str, dict[str, Amount]] = {name: defaultdict(Amount) for name in DIMENSIONS}
    for run in runs:
        if run.start_s is not None:
            amount = _amount(run, window, card, divided)
            by_model[run.devices[0].model.name] -= amount
            for name, key in DIMENSIONS.items():
                held[name][key(run)] += amount
    labels = labels or Labels()
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
        _mig_remainder(fleet, window, card),
        sum(by_model.values(), Amount()),
        dict(by_model),
        (*planted, *labels.planted),
        (*decoys, *labels.decoys),
        (*_allowed(fleet, runs, window, labels), *labels.allowed),
    )


def _mig_remainder(fleet: Fleet, window: int, card: Sequence[Rate]) -> Amount:
    """The parts of MIG GPUs that no instance covers."""
    remainder = Amount()
    for node, share in fleet.remainders():
        free = price(card, node.model, node.from_s, window)
        remainder += Amount(share * (window - node.from_s), share * free)
    return remainder


def _allowed(fleet: Fleet, runs: Sequence[Run], window: int, labels: Labels) -> Iterator[Allowed]:
    """Findings of detectors about ordinary work that are neither right nor wrong; what a case decides is either."""
    decided = {case.job_id for case in (*labels.planted, *labels.decoys) if case.detector == FAILED_WORK}
    for run in runs:
        if run.scenario in PAUSING:
            why = "it stops at regular times; whether to save is not to be seen"
            yield Allowed("checkpoint-stall", "job", run.job_id, why)
        if run.state in FAILED_STATES and run.job_id not in decided:
            yield Allowed(FAILED_WORK, "job", run.job_id, "it failed; whether its work is lost depends on its length")
    pools = {node.pool: None for node in fleet.nodes if node.model is A100 and window - node.from_s >= POOL_KNOWN_S}
    for pool in pools:
        why = "reserved below its list price: which is cheaper depends on its use"
        yield Allowed("own-vs-cloud", "pool", pool, why)


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
    total = Amount()
    for device in run.devices:
        since, until = max(start, device.since_s), end if device.until_s is None else min(end, device.until_s)
        cost = price(card, device.model, since, until)
        total += Amount(device.share * (until - since), device.share * cost)
    return total


def _case(run: Run, epoch: Epoch, planted: bool) -> Case | None:
    """The planted case (or the decoy) that this run was created for, if there is one."""
    if not run.scenario or run.start_s is None:
        return None
    blind, _, shape = run.scenario.partition(":")
    if blind == BLIND_SPOT:
        hidden = [device for device in run.devices if not device.exported]
        case = _case_of(run, epoch, BLIND_SPOT, shape, BLIND[shape], hidden) if planted else None
        return case and replace(case, subject_kind="node", subject_id=hidden[0].node)
    scenario = next(s for s in SCENARIOS if s.name == run.scenario)
    if scenario.planted != planted:
        return None
    concerned, intervals = _hoarded(run) if planted and scenario.detector == IDLE_HOARDING else (run.devices, None)
    return _case_of(run, epoch, scenario.detector, scenario.name, scenario.why, concerned, intervals)


def _hoarded(run: Run) -> tuple[Sequence[Device], Sequence[tuple[int, int]]]:
    """The idle devices of a run, and when the first of them was idle."""
    hoarded = [hoarded_intervals(course) for course in run.courses]
    start, _ = run.held(0)
    idle = [device for device, intervals in zip(run.devices, hoarded, strict=True) if intervals]
    return idle, [(start + low, start + high) for low, high in next(filter(None, hoarded))]


def _case_of(
    run: Run,
    epoch: Epoch,
    detector: str,
    shape: str,
    why: str,
    devices: Sequence[Device],
    intervals: Sequence[tuple[int, int]] | None = None,
) -> Case:
    """A case about a run and some of its devices; by default it lasts as long as the run."""
    start, end = run.held(epoch.window_s)
    return Case(
        detector,
        shape,
        run.job_id,
        team_of(run.owner),
        run.owner.user,
        tuple(device.id for device in devices),
        tuple(dict.fromkeys(device.node for device in devices)),
        detector != BLIND_SPOT,
        tuple((epoch.rfc3339(low), epoch.rfc3339(high)) for low, high in intervals or [(start, end)]),
        epoch.rfc3339(start),
        None if run.end_s is None else epoch.rfc3339(run.end_s),
        why,
    )
