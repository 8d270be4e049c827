"""What holds GPUs in Ray or waits for them: bundles of placement groups, and actors and tasks outside of groups. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from gpuwatch.collectors.ray.state import Item, Responses, number, part, parts, text
from gpuwatch.core.model import Rejects

HELD, WAITING, ENDED = "held", "waiting", "ended"
SUPERVISOR = "_ray_internal_job_actor_"
"""The actor with this name prefix holds the resources that a submission requested for its entrypoint."""
WAITING_ACTOR = "PENDING_CREATION"
WAITING_TASK = "PENDING_NODE_ASSIGNMENT"
ENDED_TASK = ("FINISHED", "FAILED")
PLACE, RESTART = "@", "/"
"""Separates a bundle from its node, and an actor from its number of restarts."""
PLACE_CHARS = 8
ACTOR_ID_CHARS = 32
RUNNING_TASK = ("RUNNING", "RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT")

_group_slots = re.compile(r"gpugroup(\d*)([0-9a-f]{36})")
"""GPU_group_<bundle>_<placement group>, also in the dashboard's camel case; without a number it means any bundle."""


@dataclass(frozen=True)
class Unit:
    """A bundle of a placement group, an actor or a task, and the GPUs it requests."""

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
    requested_us: int | None
    start_us: int | None
    end_us: int | None
    slots: tuple[int, ...]
    """Indexes among the node's GPUs, for all of its GPUs or none."""
    ray_state: str | None
    """Ray's own name of its state."""
    detached: bool
    """Whether it outlives its job."""


def units(responses: Responses, path: str, rejects: Rejects) -> Iterator[Unit]:
    """All units. Actors and tasks inside a placement group use the GPUs of their bundle and are omitted."""
    used = Slots(responses)
    for item in responses.of("group"):
        yield from _bundles(responses, item, used)
    creations: dict[str, Item] = {}
    for line, item in responses.items.get("task", ()):
        if item.get("type") == "ACTOR_CREATION_TASK":
            creations.setdefault(str(item.get("actor_id")), item)
        elif "required_resources" not in item:
            rejects.add("task without its resources: list with --detail", path, line, str(item["task_id"]))
        elif unit := _task(responses, item, used):
            yield unit
    plain = {str(item["actor_id"]): (line, item) for line, item in responses.items.get("actor", ())}
    logical = {str(item["actorId"]): item for item in responses.of("logical")}
    for actor_id in filter(_is_an_id, plain.keys() | logical.keys()):
        line, item = plain.get(actor_id, (0, {}))
        if actor_id not in logical and "required_resources" not in item:
            rejects.add("actor without its resources: list with --detail", path, line, actor_id)
        elif unit := _actor(responses, actor_id, item, logical.get(actor_id, {}), creations.get(actor_id, {}), used):
            yield unit


def _is_an_id(name: str) -> bool:
    """False for Ray's nil id, all f: the dashboard may list an actor a second time under it while it starts."""
    return bool(name.strip("f"))


class Slots:
    """Which GPUs of its node a worker or bundle holds, as reported by the raylets."""

    def __init__(self, responses: Responses) -> None:
        self._workers: dict[str, set[int]] = {}
        self._bundles: dict[tuple[str, int], set[int]] = {}
        for item in responses.of("summary"):
            for worker in parts(part(item, "raylet"), "coreWorkersStats"):
                self._add(worker)
        for item in responses.of("logical"):
            self._add(item)

    def worker(self, name: object, gpus: float) -> tuple[int, ...]:
        """Indexes held by an actor or worker, by its id."""
        return _complete(self._workers.get(str(name), set()), gpus)

    def bundle(self, group: str, number_: int, gpus: float) -> tuple[int, ...]:
        """Indexes held by a bundle; none while it has unused GPUs, because Ray does not report those."""
        return _complete(self._bundles.get((group, number_), set()), gpus)

    def _add(self, worker: Item) -> None:
        for name, amount in part(worker, "usedResources").items():
            slots = _slots(amount)
            if name == "GPU":
                for key in (worker.get("workerId"), worker.get("actorId")):
                    if isinstance(key, str) and _is_an_id(key):
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


def _bundles(responses: Responses, item: Item, used: Slots) -> Iterator[Unit]:
    stats, group, state = part(item, "stats"), str(item["placement_group_id"]), text(item.get("state"))
    requested = responses.moment(stats.get("creation_request_received_ns"), 0.001)
    latency = str(stats.get("end_to_end_creation_latency_us") or "")
    created = None if requested is None else requested + (int(latency) if latency.isdigit() else 0)
    for number_, bundle in enumerate(parts(item, "bundles")):
        gpus, node_id = number(part(bundle, "unit_resources").get("GPU")), text(bundle.get("node_id"))
        if not gpus:
            continue
        placed = state in ("CREATED", "RESCHEDULING") and node_id is not None
        yield Unit(
            "group",
            # A bundle that was moved is another unit: it did not hold both nodes at the same time.
            f"{group}/{number_}{PLACE}{node_id[:PLACE_CHARS]}" if node_id else f"{group}/{number_}",
            text(item.get("creator_job_id")),
            None,
            text(item.get("name")),
            node_id,
            gpus,
            ENDED if state == "REMOVED" else HELD if placed else WAITING,
            requested,
            created if placed or state == "REMOVED" else None,
            None,
            used.bundle(group, number_, gpus),
            text(stats.get("scheduling_state")) if state == "PENDING" else state,
            item.get("is_detached") is True,
        )


def _actor(responses: Responses, actor_id: str, plain: Item, logical: Item, creation: Item, used: Slots) -> Unit | None:
    """An actor, from the state API (`plain`), the dashboard (`logical`) and the task that created it."""
    gpus = number(part(logical, "requiredResources").get("GPU") or part(plain, "required_resources").get("GPU"))
    if not gpus or text(logical.get("placementGroupId")) or text(plain.get("placement_group_id")):
        return None
    ray_state = _either(logical, "state", plain, "state")
    name = _either(logical, "name", plain, "name")
    node_id = _either(part(logical, "address"), "nodeId", plain, "node_id")
    node_id = node_id if node_id and _is_an_id(node_id) else None
    restarts = int(max(_count(logical.get("numRestarts")), _count(plain.get("num_restarts"))))
    start = _actor_start(responses, logical, creation, bool(restarts) and ray_state == "ALIVE")
    state = _actor_state(ray_state, node_id is not None and start is not None)
    if state is None:
        return None
    return Unit(
        "actor",
        f"{actor_id}{RESTART}{restarts}" if restarts else actor_id,
        _either(logical, "jobId", plain, "job_id"),
        _supervised_job(name),
        name or _either(logical, "className", plain, "class_name"),
        node_id,
        gpus,
        state,
        responses.moment(creation.get("creation_time_ms"), 1000),
        start,
        responses.moment(logical.get("endTime"), 1000) if state == ENDED else None,
        used.worker(actor_id, gpus),
        ray_state,
        plain.get("is_detached") is True or logical.get("isDetached") is True,
    )


def _supervised_job(name: str | None) -> str | None:
    """The submitted job that an actor of this name supervises, None for any other actor."""
    return name.removeprefix(SUPERVISOR) if name and name.startswith(SUPERVISOR) else None


def _actor_start(responses: Responses, logical: Item, creation: Item, restarted: bool) -> int | None:
    """When the actor got its worker, and with it the GPU; the dashboard's start is when __init__ returned."""
    starts = (_event(responses, creation, RUNNING_TASK), responses.moment(logical.get("startTime"), 1000))
    start = min((at for at in starts if at is not None), default=None)
    # After a restart, both still have the first start; the last change of state is when it was restarted.
    return (responses.moment(logical.get("timestamp"), 1000) if restarted else None) or start


def _actor_state(ray_state: str | None, has_worker: bool) -> str | None:
    """None for an actor that holds nothing: it waits for its arguments or is being restarted."""
    if ray_state == "DEAD":
        return ENDED
    if ray_state == "ALIVE" or (ray_state == WAITING_ACTOR and has_worker):
        return HELD
    return WAITING if ray_state == WAITING_ACTOR else None


def _either(first: Item, key: str, second: Item, second_key: str) -> str | None:
    """The text in the first item, else that in the second."""
    return text(first.get(key)) or text(second.get(second_key))


def _count(value: object) -> float:
    """A count, which Ray writes as a number or as text."""
    return number(int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value)


def base_id(uid: str) -> str:
    """The id of a unit's bundle or actor, without its node and its number of restarts."""
    bundle, at, _ = uid.rpartition(PLACE)
    actor, restarted, _ = uid.partition(RESTART)
    return bundle if at else actor if restarted and len(actor) == ACTOR_ID_CHARS else uid


def actor_of(uid: str) -> str | None:
    """The actor id of a unit, None for other units."""
    unit = base_id(uid)
    return unit if len(unit) == ACTOR_ID_CHARS else None


def _task(responses: Responses, item: Item, used: Slots) -> Unit | None:
    gpus, state = number(part(item, "required_resources").get("GPU")), text(item.get("state"))
    if not gpus or text(item.get("placement_group_id")) or item.get("type") == "ACTOR_TASK":
        return None
    start = responses.moment(item.get("start_time_ms"), 1000) or _event(responses, item, RUNNING_TASK)
    if state in ENDED_TASK and start is not None:
        kind = ENDED
    elif state in RUNNING_TASK:
        kind = HELD
    elif state == WAITING_TASK:
        kind = WAITING
    else:
        return None  # it never ran, or waits for its arguments
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
        responses.moment(item.get("creation_time_ms"), 1000),
        start,
        (responses.moment(item.get("end_time_ms"), 1000) or _event(responses, item, ENDED_TASK))
        if kind == ENDED
        else None,
        used.worker(item.get("worker_id"), gpus),
        state,
        False,
    )


def _event(responses: Responses, item: Item, states: tuple[str, ...]) -> int | None:
    """When a task first entered one of these states."""
    found = [
        responses.moment(e.get("created_ms"), 1000) for e in parts(item, "events") if str(e.get("state")) in states
    ]
    return min((at for at in found if at is not None), default=None)
