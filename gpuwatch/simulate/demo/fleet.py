"""The demo's fleet: some plain nodes, and nodes of scenes that run ordinary jobs before and between their scenes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwatch.simulate.calendar import Calendar
from gpuwatch.simulate.courses import course_of
from gpuwatch.simulate.demo.cast import Cast, house_names, rename, slurm_named
from gpuwatch.simulate.demo.plan import COARSE_S, HOUR_S, scene_ends
from gpuwatch.simulate.demo.pod_pools import in_pools, pools_of, selecting
from gpuwatch.simulate.fleet import Fleet, Node, build_fleet
from gpuwatch.simulate.loads import Stretch
from gpuwatch.simulate.moments import Epoch
from gpuwatch.simulate.patches import Patch
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.scene import CORE_GPUS_MIN, Scene, scenes
from gpuwatch.simulate.schedule import schedule
from gpuwatch.simulate.staging import Json, Stage

SCENE_PART = 0.85
"""The part of the GPUs that scenes may have."""
REPEATED_HOURS_MAX = 40
"""Longer scenes are staged once, at the end of the history."""
STARTED_AFTER_S, FOLLOWER_S, FOLLOWERS_MAX = 180, 5400, 3
"""When a request that waited in an earlier scene gets its GPUs, how long it runs, and how many do."""
FAILED_EVERY = 8
"""One in so many of the ordinary jobs that would fail does."""
ALONE = frozenset({"own-vs-cloud", "mig-speculative", "driver-drift", "mig-mismatch"})
"""Detectors that look at days or weeks: their nodes join when their scene begins."""
FREE_AT_THE_END = frozenset({"degraded-gpu", "memory-leak"})
"""Detectors of broken GPUs, and of memory in use on GPUs that no job holds."""


@dataclass(frozen=True)
class DemoFleet:
    """Nodes, runs and objects of the cluster."""

    fleet: Fleet
    runs: list[Run]
    objects: tuple[Json, ...]


def demo_fleet(gpus: int, epoch: Epoch, past_s: int, step_s: int, seed: int) -> DemoFleet:
    """One scene of every detector that fits, at the end of the history; short ones also in the complete weeks before."""
    calendar, cast = Calendar(epoch.window_s), Cast()
    nodes: list[Node] = []
    busy: list[Node] = []
    runs: list[Run] = []
    objects: list[Json] = []
    for number, made in _chosen(gpus, past_s):
        acts = _acts(made, number, epoch, past_s, step_s, seed)
        kept = _nodes(made, acts)
        nodes += kept
        for end_s, act in acts:
            shown = in_pools(act.runs, act.finished()) if end_s == past_s else _closed(act, end_s)
            named, things = cast.act(shown, act.objects if end_s == past_s else [], act.finished())
            runs += named
            objects += things
            if made.detector not in ALONE:
                start_s = end_s - int(made.hours * HOUR_S)
                for node in kept:
                    if end_s < past_s:
                        until_s = _released_s(node, shown, end_s)
                    else:
                        until_s = epoch.window_s if _goes_on(made, shown) else max(run.end_s or 0 for run in shown)
                    calendar.book(node.devices, start_s, until_s)
        if made.detector not in ALONE:
            busy += kept
    core = build_fleet(gpus - sum(node.gpu_count for node in nodes), seed)
    ordinary = schedule(core, epoch.window_s, step_s, seed, busy, calendar)
    whole = Fleet((*core.nodes, *nodes))
    change = rename(house_names(whole))
    every = sorted([*(slurm_named(_calm(run)) for run in ordinary), *runs], key=lambda run: run.submit_s)
    named_fleet = change(whole)
    pools = pools_of(named_fleet)
    listed = [selecting(change(run), pools) for run in every]
    return DemoFleet(named_fleet, listed, tuple(change(each) for each in objects))


def _goes_on(made: Scene, shown: Sequence[Run]) -> bool:
    """Whether the nodes of a scene are needed as they are at the end of the history: its jobs run or wait, or its GPUs must stay free."""
    return made.detector in FREE_AT_THE_END or any(run.end_s is None for run in shown)


def _released_s(node: Node, shown: Sequence[Run], end_s: int) -> int:
    """When the last run of an earlier showing leaves the node."""
    mine = set(node.devices)
    ends = (run.end_s for run in shown if run.end_s is not None and not mine.isdisjoint(run.devices))
    return max((end_s, *ends))


def _calm(run: Run) -> Run:
    """An ordinary run as the demo has it: few fail, and notebooks show no pauses, which look longer between rare samples."""
    if run.scenario:
        return run
    if run.state in ("FAILED", "TIMEOUT") and run.number % FAILED_EVERY:
        run = replace(run, state="COMPLETED")
    if run.kind == "notebook":
        courses = tuple([Stretch(0, course[-1].end, "cell")] for course in run.courses)
        run = replace(run, courses=courses)
    return run


def _chosen(gpus: int, past_s: int) -> list[tuple[int, Scene]]:
    """(number, scene) of the plainest scene of each detector, as many as fit."""
    budget = min(int(gpus * SCENE_PART), gpus - CORE_GPUS_MIN)
    chosen = []
    for number, made in enumerate(scenes(), start=1):
        if made.rank == 1 and made.gpus <= budget and made.hours * HOUR_S <= past_s:
            chosen.append((number, made))
            budget -= made.gpus
    return chosen


def _acts(made: Scene, number: int, epoch: Epoch, past_s: int, step_s: int, seed: int) -> list[tuple[int, Stage]]:
    """(end, stage) of each time that the scene shows; the last one first."""
    begun = past_s - int(made.hours * HOUR_S)
    ends = [past_s]
    if made.hours <= REPEATED_HOURS_MAX and made.detector not in ALONE:
        for end_s in scene_ends(epoch.start_us, past_s):
            if end_s > made.hours * HOUR_S and end_s + (FOLLOWERS_MAX + 1) * FOLLOWER_S < begun:
                ends.append(end_s)
    acts = []
    for series, end_s in enumerate(ends):
        act = Stage(made, number, Epoch(epoch.start_us, end_s), step_s, seed, series)
        made.build(act)
        acts.append((end_s, act))
    return acts


def _nodes(made: Scene, acts: Sequence[tuple[int, Stage]]) -> list[Node]:
    """The nodes of a scene, with the patches of all times that it shows."""
    last = acts[0][1].finished()
    patches: dict[str, list[Patch]] = {node.name: list(node.patches) for node in last}
    for end_s, act in acts[1:]:
        for node in act.finished():
            ended = (replace(patch, end_s=min(patch.end_s or end_s, end_s)) for patch in node.patches)
            patches[node.name] = [*ended, *patches[node.name]]
    return [
        replace(
            node,
            from_s=node.from_s // COARSE_S * COARSE_S if made.detector in ALONE else 0,
            every=1,
            patches=tuple(patches[node.name]),
        )
        for node in last
    ]


def _closed(act: Stage, end_s: int) -> list[Run]:
    """The runs of an earlier showing: what still ran ended then, and what waited got its GPUs after it."""
    free = {node.name: node.devices for node in act.finished()}
    runs, at_s, placed = [], end_s + STARTED_AFTER_S, 0
    for run in act.runs:
        if run.start_s is not None:
            ended = run.end_s is not None and run.end_s <= end_s
            runs.append(run if ended else replace(run, end_s=end_s, state="COMPLETED"))
            continue
        host = next((devices for devices in free.values() if run.gpus <= len(devices)), ())
        if not host or host[0].profile != run.profile or run.creating or placed == FOLLOWERS_MAX:
            continue
        placed += 1
        held = tuple(host[: run.gpus])
        courses = (course_of("train", FOLLOWER_S, act.rng),) * len(held)
        runs.append(
            replace(
                run, start_s=at_s, end_s=at_s + FOLLOWER_S, state="COMPLETED", devices=held, courses=courses, reason=""
            )
        )
        at_s += FOLLOWER_S
    return runs
