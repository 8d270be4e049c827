"""Models of the routes that place requests."""

from __future__ import annotations

from gpuwatch.api.schema.common import Shape, Time


class PlacedOn(Shape):
    node: str
    leaf: str | None
    gpus: list[str]


class PlacedMove(Shape):
    job: str | None
    node: str
    gpus: int
    preemptible: bool
    to: str


class PlacingPlan(Shape):
    moves: list[PlacedMove]
    at_once: bool
    places: list[str]
    drained: list[str]
    moved_gpus: int
    exact: bool
    not_known: str | None


class Reclaimable(Shape):
    node: str
    team: str
    job: str | None
    finding: str
    gpus: list[str]


class FaultyPlace(Shape):
    node: str
    gpu: str
    finding: str
    severity: str
    what: str


class PlacedIn(Shape):
    cluster: str
    as_of: Time
    pool: str | None
    gpu_model: str | None
    shape: str
    within: str
    fits: bool | None
    free_gpus: int
    faulty_gpus: int
    places: list[PlacedOn]
    faults: list[FaultyPlace]
    left_out_nodes: int
    why: str | None
    plan: PlacingPlan | None
    reclaim: list[Reclaimable]
    not_known: str | None


class PlacingLack(Shape):
    cluster: str
    what: str
    gpus: int | None
    fix: str


class Placing(Shape):
    at: Time
    shape: str
    within: str
    fits: bool | None
    items: list[PlacedIn]
    missing: list[PlacingLack]
    unknown: dict[str, str]


class Start(Shape):
    words: str
    best: PlacedIn | None


class PendingRequest(Shape):
    cluster: str
    scheduler: str
    kind: str
    name: str | None
    namespace: str | None
    job: str | None
    team: str
    queue: str | None
    state: str | None
    reason: str | None
    why: str | None
    gpus: int | None
    profile: str | None
    submitted_at: Time | None
    wait_seconds: float | None
    shape: str | None
    waits_for: str | None
    start: Start | None


class PendingRequests(Shape):
    items: list[PendingRequest]
    at: Time
    unknown: dict[str, str]
    next: str | None
