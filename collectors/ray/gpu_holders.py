"""What holds GPUs in Ray, or waits for them: bundles of placement groups, and actors and tasks outside of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from gpuwatch.collectors.ray.state import Item, Told, number, part, parts, text
from gpuwatch.core.model import Rejects

HELD, WAITING, ENDED = "held", "waiting", "ended"
SUPERVISOR = "_ray_internal_job_actor_"
"""An actor of this name holds what a submission asked for its entrypoint."""
WAITING_ACTOR = "PENDING_CREATION"
WAITING_TASK = "PENDING_NODE_ASSIGNMENT"
ENDED_TASK = ("FINISHED", "FAILED")
PLACE, TURN = "@", "/"
"""Between a bundle and its node, and between an actor and how often it was started again."""
PLACE_CHARS = 8
ACTOR_ID_CHARS = 32
RUNNING_TASK = ("RUNNING", "RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT")

_group_slots = re.compile(r"gpugroup(\d*)([0-9a-f]{36})")
"""GPU_group_<bundle>_<placement group>, also in the dashboard's camel case; without a number: any bundle."""


@dataclass(frozen=True)
class Unit:
    """A bundle of a placement group, an actor or a task, and the GPUs it asks for."""

    kind: str
    """group | actor | task"""
    uid: str
    driver: str | None
    submission: str | None
    name: str | None
    node_id: str | None
    gpus: float
    state: str
    """held | waiting | ended"""
    asked_us: int | None
    start_us: int | None
    end_us: int | None
    slots: tuple[int, ...]
    """Indexes among the node's GPUs, all of them or none."""
    word: str | None
    """The scheduler's own word for its state."""
    detached: bool
    """It outlives its job."""


def units(told: Told, path: str, rejects: Rejects) -> Iterator[Unit]:
    """All of them. Actors and tasks inside a placement group hold what their bundle holds, and are left out."""
    used = Slots(told)
    for item in told.of("group"):
        yield from _bundles(told, item, used)
    creations: dict[str, Item] = {}
    for line, item in told.items.get("task", ()):
        if item.get("type") == "ACTOR_CREATION_TASK":
            creations.setdefault(str(item.get("actor_id")), item)
        elif "required_resources" not in item:
            rejects.add("task without its resources: list with --detail", path, line, str(item["task_id"]))
        elif unit := _task(told, item, used):
            yield unit
    plain = {str(item["actor_id"]): (line, item) for line, item in told.items.get("actor", ())}
    logical = {str(item["actorId"]): item for item in told.of("logical")}
    for actor_id in plain.keys() | logical.keys():
        line, item = plain.get(actor_id, (0, {}))
        if actor_id not in logical and "required_resources" not in item:
            rejects.add("actor without its resources: list with --detail", path, line, actor_id)
        elif unit := _actor(told, actor_id, item, logical.get(actor_id, {}), creations.get(actor_id, {}), used):
            yield unit


class Slots:
    """Which GPUs of its node a worker or bundle holds, as the raylets tell."""

    def __init__(self, told: Told) -> None:
        self._workers: dict[str, set[int]] = {}
        self._bundles: dict[tuple[str, int], set[int]] = {}
        for item in told.of("summary"):
            for worker in parts(part(item, "raylet"), "coreWorkersStats"):
                self._take(worker)
        for item in told.of("logical"):
            self._take(item)

    def worker(self, name: object, gpus: float) -> tuple[int, ...]:
        """Indexes of an actor or a worker by id."""
        return _complete(self._workers.get(str(name), set()), gpus)

    def bundle(self, group: str, number_: int, gpus: float) -> tuple[int, ...]:
        """Indexes of a bundle, none while some of its GPUs are used by nobody: which ones is not told then."""
        return _complete(self._bundles.get((group, number_), set()), gpus)

    def _take(self, worker: Item) -> None:
        for name, amount in part(worker, "usedResources").items():
            slots = _slots(amount)
            if name == "GPU":
                for key in (worker.get("workerId"), worker.get("actorId")):
                    if isinstance(key, str) and key.strip("f"):
                        self._workers[key] = slots
            elif (found := _group_slots.fullmatch(name.replace("_", "").lower())) and found[1]:
                self._bundles.setdefault((found[2], int(found[1])), set()).update(slots)


def _slots(amount: object) -> set[int]:
    listed = parts(amount, "resourceSlots") if isinstance(amount, dict) else []
    used = [str(slot.get("slot")) for slot in listed if number(slot.get("allocation"))]
    return {int(slot) for slot in used if slot.isascii() and slot.isdigit()}


def _complete(slots: Iterable[int], gpus: float) -> tuple[int, ...]:
    known = tuple(sorted(slots))
    return known if len(known) == ceil(gpus) else ()


def _bundles(told: Told, item: Item, used: Slots) -> Iterator[Unit]:
    stats, group, state = part(item, "stats"), str(item["placement_group_id"]), text(item.get("state"))
    asked = told.moment(stats.get("creation_request_received_ns"), 0.001)
    latency = str(stats.get("end_to_end_creation_latency_us") or "")
    made = None if asked is None else asked + (int(latency) if latency.isdigit() else 0)
    for number_, bundle in enumerate(parts(item, "bundles")):
        gpus, node_id = number(part(bundle, "unit_resources").get("GPU")), text(bundle.get("node_id"))
        if not gpus:
            continue
        here = state in ("CREATED", "RESCHEDULING") and node_id is not None
        yield Unit(
            "group",
            # One that is placed again elsewhere is another: its two nodes were not held at one time.
            f"{group}/{number_}{PLACE}{node_id[:PLACE_CHARS]}" if node_id else f"{group}/{number_}",
            text(item.get("creator_job_id")),
            None,
            text(item.get("name")),
            node_id,
            gpus,
            ENDED if state == "REMOVED" else HELD if here else WAITING,
            asked,
            made if here or state == "REMOVED" else None,
            None,
            used.bundle(group, number_, gpus),
            text(stats.get("scheduling_state")) if state == "PENDING" else state,
            item.get("is_detached") is True,
        )


def _actor(told: Told, actor_id: str, plain: Item, logical: Item, creation: Item, used: Slots) -> Unit | None:
    """An actor as the state API, the dashboard and the task that made it tell."""
    gpus = number(part(logical, "requiredResources").get("GPU") or part(plain, "required_resources").get("GPU"))
    if not gpus or text(logical.get("placementGroupId")) or text(plain.get("placement_group_id")):
        return None
    state = text(logical.get("state")) or text(plain.get("state"))
    name = text(logical.get("name")) or text(plain.get("name"))
    node_id = text(part(logical, "address").get("nodeId")) or text(plain.get("node_id"))
    node_id = node_id if node_id and node_id.strip("f") else None
    # The worker, and with it the GPU, is there from before __init__, the dashboard's start is when that returned.
    starts = (_event(told, creation, RUNNING_TASK), told.moment(logical.get("startTime"), 1000))
    start = min((at for at in starts if at is not None), default=None)
    turn = int(max(_count(logical.get("numRestarts")), _count(plain.get("num_restarts"))))
    if turn and state == "ALIVE":
        # Both starts stay those of the first time; the newest change of its state is when it came back.
        start = told.moment(logical.get("timestamp"), 1000) or start
    if state == "DEAD":
        kind = ENDED
    elif state == "ALIVE" or (state == WAITING_ACTOR and node_id and start):
        kind = HELD
    elif state == WAITING_ACTOR:
        kind = WAITING
    else:
        return None  # waits for its arguments, or is started again: holds nothing
    return Unit(
        "actor",
        f"{actor_id}{TURN}{turn}" if turn else actor_id,
        text(logical.get("jobId")) or text(plain.get("job_id")),
        name.removeprefix(SUPERVISOR) if name and name.startswith(SUPERVISOR) else None,
        name or text(logical.get("className")) or text(plain.get("class_name")),
        node_id,
        gpus,
        kind,
        told.moment(creation.get("creation_time_ms"), 1000),
        start,
        told.moment(logical.get("endTime"), 1000) if kind == ENDED else None,
        used.worker(actor_id, gpus),
        state,
        plain.get("is_detached") is True or logical.get("isDetached") is True,
    )


def _count(value: object) -> float:
    """A count, which Ray writes as a number or as digits."""
    return number(int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value)


def thing_of(uid: str) -> str:
    """The bundle or actor that a unit is, wherever it is placed and however often it was started."""
    bundle, at, _ = uid.rpartition(PLACE)
    actor, again, _ = uid.partition(TURN)
    return bundle if at else actor if again and len(actor) == ACTOR_ID_CHARS else uid


def actor_of(uid: str) -> str | None:
    """Actor id of a unit, None where it is no actor."""
    thing = thing_of(uid)
    return thing if len(thing) == ACTOR_ID_CHARS else None


def _task(told: Told, item: Item, used: Slots) -> Unit | None:
    gpus, state = number(part(item, "required_resources").get("GPU")), text(item.get("state"))
    if not gpus or text(item.get("placement_group_id")) or item.get("type") == "ACTOR_TASK":
        return None
    start = told.moment(item.get("start_time_ms"), 1000) or _event(told, item, RUNNING_TASK)
    if state in ENDED_TASK and start is not None:
        kind = ENDED
    elif state in RUNNING_TASK:
        kind = HELD
    elif state == WAITING_TASK:
        kind = WAITING
    else:
        return None  # never ran, or waits for its arguments
    attempt = int(number(item.get("attempt_number")))
    return Unit(
        "task",
        f"{item['task_id']}/{attempt}" if attempt else str(item["task_id"]),
        text(item.get("job_id")),
        None,
        text(item.get("name")),
        text(item.get("node_id")),
        gpus,
        kind,
        told.moment(item.get("creation_time_ms"), 1000),
        start,
        (told.moment(item.get("end_time_ms"), 1000) or _event(told, item, ENDED_TASK)) if kind == ENDED else None,
        used.worker(item.get("worker_id"), gpus),
        state,
        False,
    )


def _event(told: Told, item: Item, states: tuple[str, ...]) -> int | None:
    """When a task came into one of these states first."""
    found = [told.moment(e.get("created_ms"), 1000) for e in parts(item, "events") if str(e.get("state")) in states]
    return min((at for at in found if at is not None), default=None)
