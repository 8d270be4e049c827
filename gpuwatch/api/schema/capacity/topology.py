"""Models of the routes that draw the topology."""

from __future__ import annotations

from gpuwatch.api.schema.common import Ratio, Shape, Time


class MapCluster(Shape):
    cluster: str
    as_of: Time


class MapJob(Shape):
    cluster: str
    job: str
    name: str | None
    user: str | None
    team: int | None
    gpus: int
    nodes: int
    leaves: int | None


class MapFinding(Shape):
    key: str
    detector: str
    title: str
    severity: str
    team: str


class MapNode(Shape):
    cluster: str
    node: str
    leaf: str | None
    nvlink_domain: str | None
    pool: str | None
    gpu_model: str | None
    gpus: list[str]
    index: list[int | None]
    island: list[int | None]
    pcie: list[int | None]
    numa: list[int | None]
    state: list[str]
    team: list[int | None]
    job: list[int | None]
    jobs: list[int]
    bucket: list[str | None]
    avoidable: list[Ratio | None]
    celsius: list[float | None]
    finding: list[int | None]
    fault: list[int | None]


class FleetMap(Shape):
    at: Time
    clusters: list[MapCluster]
    unknown: dict[str, str]
    teams: list[str]
    jobs: list[MapJob]
    findings: list[MapFinding]
    nodes: list[MapNode]
    more_nodes: int


class Seat(Shape):
    gpu: str
    node: str | None


class BestPlace(Shape):
    words: str
    name: str | None
    free_gpus: int
    gb_per_s: float | None
    gb_per_s_now: float | None
    gpus: list[Seat]


class JobOverlay(Shape):
    cluster: str
    job: str
    at: Time
    gpus: list[Seat]
    grade: str | None
    spans: str | None
    best: BestPlace | None
    why: str | None


class NodeGpu(Shape):
    gpu: str
    nvlink: str | None
    pcie: str | None
    numa: str | None


class NetworkCard(Shape):
    name: str
    pcie: str | None
    numa: str | None


class NodeInside(Shape):
    kind: str
    name: str
    gb_per_s: float | None


class GpuPair(Shape):
    a: str
    b: str
    level: str
    gb_per_s: float | None


class NodeLack(Shape):
    what: str
    fix: str


class NodeView(Shape):
    cluster: str
    node: str
    at: Time
    gpus: list[NodeGpu]
    network_cards: list[NetworkCard]
    inside: list[NodeInside]
    pairs: list[GpuPair]
    missing: list[NodeLack]


class TouchedJob(Shape):
    job: str
    name: str | None
    team: str | None
    gpus: int
    gpus_inside: int
    crosses: bool


class LinkReach(Shape):
    cluster: str
    kind: str
    name: str
    at: Time
    gpus: int
    nodes: int
    jobs: list[TouchedJob]
    more_jobs: int
