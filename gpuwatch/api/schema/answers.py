"""Shapes of answers, as OpenAPI shows them. Handlers send dicts of these shapes; tests hold them to it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-11-21T02:08:29Z"])]
Money = Annotated[str, Field(pattern=r"^-?\d+(\.\d+)?$", examples=["12.34"])]
Quantity = Annotated[str, Field(pattern=r"^-?\d+(\.\d+)?$", examples=["123.500000"])]
Ratio = Annotated[float, Field(ge=0, le=1)]
Scope = Literal["ingest", "read", "admin"]
Severity = Literal["info", "low", "medium", "high", "critical"]
FindingState = Literal["open", "resolved", "acked", "snoozed", "exempt"]
Bucket = Literal[
    "schedulable",
    "stranded",
    "out_of_service",
    "mig_remainder",
    "unobserved",
    "hoarded",
    "gap",
    "communication",
    "stalled",
    "below_roof",
    "memory_roof",
    "compute",
]


class Shape(BaseModel):
    """A JSON object that may have more fields than are named: readers ignore what they do not know."""

    model_config = ConfigDict(extra="allow")


class Strict(BaseModel):
    """A body: an unknown field is a mistake of the sender."""

    model_config = ConfigDict(extra="forbid")


class ErrorBody(Strict):
    code: str
    message: str
    hint: str
    field: str | None = Field(None, json_schema_extra={"description": "The parameter or body field that is wrong."})


class Error(Strict):
    error: ErrorBody


class Span(Strict):
    start: Time
    end: Time


class Me(Strict):
    scope: Scope
    teams: list[str] | None
    name: str
    tokens: bool
    version: str


class Gpus(Shape):
    total: float | None
    reporting: float | None
    allocated: float | None
    active: float | None
    effective: float | None
    effective_known: float


class FleetRow(Shape):
    cluster: str
    pool: str | None
    gpu_model: str | None
    gpus: Gpus
    slices: Gpus


class FleetTotal(Shape):
    gpus: Gpus
    slices: Gpus


class Fleet(Shape):
    at: Time
    as_of: Time | None
    items: list[FleetRow]
    total: FleetTotal


class LedgerRow(Shape):
    bucket: Bucket
    gpu_seconds: Quantity
    cost: Money | None
    currency: str | None


class Amount(Shape):
    gpu_seconds: Quantity
    cost: Money | None


class KnownAmount(Shape):
    gpu_seconds: Quantity | None
    cost: Money | None


class Funnel(Shape):
    total: Amount
    reporting: Amount
    allocated: Amount
    active: KnownAmount
    effective: KnownAmount


class Ledger(Shape):
    items: list[LedgerRow]
    capacity_gpu_seconds: Quantity
    window: Span
    funnel: Funnel
    currency: str | None
    next: str | None


class Charge(Shape):
    gpu_seconds: Quantity
    cost: Money | None
    cost_exact: str | None
    currency: str | None
    kind: Literal["allocated", "platform", "shared", "correction"]
    charge: str = Field(examples=["c1.alsx"], json_schema_extra={"description": "The id of the row."})


class ChargeTotal(Shape):
    gpu_seconds: Quantity
    cost: Money | None


class Chargeback(Shape):
    items: list[Charge]
    window: Span
    total: ChargeTotal
    next: str | None


class SliceRow(Shape):
    slice: str
    gpu: str
    gi: int
    cluster: str
    node: str | None
    profile: str | None
    gpu_model: str | None
    team: str | None
    user: str | None
    job: str | None
    start: Time
    end: Time
    share: str
    share_method: str | None
    split: str | None
    gpu_seconds: Quantity
    device_seconds: Quantity
    cost: Money | None
    currency: str | None
    idle_seconds: Quantity | None
    utilisation: dict[str, float | None]
    placement: dict[str, Any] | None


class SliceGpu(Shape):
    gpu: str
    node: str | None
    cluster: str
    gpu_model: str | None
    remainder_share: str | None
    slices: list[str]


class Slices(Shape):
    items: list[SliceRow]
    gpus: list[SliceGpu]
    next: str | None


class Subject(Shape):
    kind: Literal["gpu", "slice", "job", "node", "pool", "team", "queue"]
    id: str | None
    name: str | None


class Finding(Shape):
    key: str
    detector: str
    title: str
    severity: Severity
    state: FindingState
    confidence: Ratio
    cluster: str
    subject: Subject
    team: str
    user: str | None
    started_at: Time
    ended_at: Time | None
    last_seen_at: Time
    wasted_gpu_seconds: Quantity
    wasted_cost: Money | None
    currency: str | None
    bucket: Bucket | None
    """None: the finding tells of savings, no time is wasted."""
    summary: str
    remedy: str
    evidence: dict[str, Any]
    devices: list[str]
    nodes: list[str]
    suppressed_by: str | None
    resolved_reason: str | None
    """Why it is over; `records changed` and `rule_changed` take it back: it was no waste."""


class Findings(Shape):
    items: list[Finding]
    next: str | None


class ActionRow(Strict):
    action: Literal["ack", "snooze", "exempt", "reopen"]
    until: Time | None
    reason: str
    actor: str
    at: Time
    verdict: Literal["true_positive", "false_positive"] | None


class Series(Shape):
    step_s: float | None
    points: list[dict[str, Any]]
    thresholds: dict[str, float | None]


class FindingDetail(Finding):
    series: Series | None
    actions: list[ActionRow]


class Job(Shape):
    id: str
    cluster: str
    name: str | None
    team: str
    user: str | None
    account: str | None
    queue: str | None
    namespace: str | None
    scheduler: str | None
    state: str | None
    submitted_at: Time | None
    started_at: Time | None
    ended_at: Time | None
    gpus: float | None
    gpu_seconds: Quantity | None
    device_seconds: Quantity | None
    cost: Money | None
    currency: str | None
    effective_ratio: float | None
    buckets: dict[str, Quantity]
    findings: list[Any]
    workload_class: str | None
    placement_grade: str | None


class Jobs(Shape):
    items: list[Job]
    next: str | None


class WaterfallStep(Shape):
    bucket: Bucket
    gpu_seconds: Quantity
    cost: Money | None


class Crossed(Shape):
    nvlink_domains: int | None
    pcie_switches: int | None
    sockets: int | None
    nodes: int | None
    leaves: int | None


class BestPlacement(Shape):
    kind: str
    name: str | None
    gb_per_s: float | None
    free_gpus: int
    crossed: Crossed


class Placement(Shape):
    grade: Literal["A", "B", "C", "D", "F"] | None
    why: str
    at: Time
    gpus: int
    gpu_model: str | None
    kind: str | None
    name: str | None
    worst_level: str | None
    gb_per_s: float | None
    mean_gb_per_s: float | None
    levels: list[dict[str, Any]]
    crossed: Crossed | None
    best: BestPlacement | None
    slowdown: dict[str, float | str | None] | None
    traffic: dict[str, Any] | None
    missing: list[dict[str, str]]


class JobDetail(Job):
    placement: Placement | None
    runs: list[dict[str, Any]]
    devices: list[Any]
    waterfall: list[WaterfallStep]
    series: Any
    findings: list[Any]


class Rejected(Shape):
    reason: str
    count: int
    example: str | None


class Source(Shape):
    source: str
    kind: str
    cluster: str | None
    state: Literal["ok", "late", "failing", "never"]
    last_seen: Time | None
    lag_s: float | None
    samples: int | None
    rejected: int
    rejects: list[Rejected]
    missing_fields: list[str]
    error: str | None
    fix: str | None


class Quality(Shape):
    items: list[Source]
    checks: list[dict[str, Any]]
    unattributed_ratio: float | None
    unobserved_ratio: float | None


class Live(Strict):
    status: Literal["ok"]


class Analyzer(Strict):
    ok: bool
    reason: str | None
    running: bool
    lag_s: float | None


class Ready(Strict):
    status: Literal["ready", "unready"]
    reasons: list[str]
    analyzer: Analyzer
    sources: dict[str, Any]
