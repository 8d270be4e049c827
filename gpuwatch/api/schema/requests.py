"""Shapes of what people set, as they send and see it: rates, teams, periods, channels, actions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from gpuwatch.api.schema.answers import Money, Quantity, Severity, Shape, Span, Strict, Time


class ActionBody(Strict):
    reason: str = Field(min_length=1, max_length=500, examples=["checkpoint migration until Friday"])
    until: Time | None = None
    verdict: Literal["true_positive", "false_positive"] | None = Field(
        None, description="With ack: whether the finding was true."
    )


class Rate(Strict):
    gpu_model: str = Field(max_length=200, examples=["NVIDIA H100 80GB HBM3"])
    pricing: Literal["on_demand", "reserved", "spot", "owned"]
    usd_per_gpu_hour: Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?$", examples=["2.49"])]
    valid_from: Time
    valid_to: Time | None = None
    cluster: str | None = Field(None, max_length=200)
    pool: str | None = Field(None, max_length=200)
    mig_profile: str | None = Field(None, max_length=200)
    currency: str = Field("USD", pattern=r"^[A-Z]{3}$")
    quantity: int | None = Field(None, ge=1, le=10_000_000, description="GPUs committed to; for pricing reserved.")
    commitment_id: str | None = Field(None, min_length=1, max_length=200)
    sku: str | None = Field(None, min_length=1, max_length=200)
    list_price: Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?$")] | None = None
    contracted_price: Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?$")] | None = None
    node_price: Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?$", examples=["98.32"])] | None = Field(
        None, description="What a node costs an hour; its GPU-hour follows by node_split."
    )
    node_gpus: Annotated[str, Field(pattern=r"^\d{1,4}$", examples=["8"])] | None = None
    node_vcpus: Annotated[str, Field(pattern=r"^\d{1,9}(\.\d{1,12})?$", examples=["192"])] | None = None
    node_memory_gib: Annotated[str, Field(pattern=r"^\d{1,9}(\.\d{1,12})?$", examples=["2048"])] | None = None
    node_split: str | None = Field(None, max_length=20, examples=["aws-scad"])


class RateSent(Rate):
    usd_per_gpu_hour: Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?$", examples=["2.49"])] | None = Field(  # type: ignore[assignment]
        None, description="None where node_price gives it."
    )


class Rates(Strict):
    items: list[Rate]
    version: int
    next: str | None


class RatesBody(Strict):
    items: list[RateSent] = Field(max_length=100_000)


class TeamRule(Strict):
    match_kind: str = Field(max_length=200, examples=["namespace"])
    match: str = Field(min_length=1, max_length=200, examples=["vision-*"])
    team: str = Field(min_length=1, max_length=200, examples=["vision"])


class TeamRules(Strict):
    items: list[TeamRule]
    version: int
    known: list[str] | None
    next: str | None


class TeamsBody(Strict):
    items: list[TeamRule] = Field(max_length=100_000)


class Replaced(Strict):
    changed: bool
    version: int
    rows: int
    warnings: list[str] = Field(default_factory=list)


class FrozenRow(Strict):
    team: str | None
    cluster: str | None
    gpu_model: str | None
    mig_profile: str | None
    kind: str
    cause: str | None = Field(None, description="Of money that no device costs.")
    currency: str | None
    gpu_seconds: Quantity
    cost: Money | None


class Closing(Strict):
    number: int
    closed_at: Time
    closed_by: str
    digest: str
    forced: bool
    forced_why: str | None
    reopened_at: Time | None
    reopened_by: str | None
    reason: str | None


class Signature(Strict):
    number: int
    digest: str
    signer: str
    note: str | None = Field(description="Not told to tokens of a team.")
    signed_at: Time


class Period(Strict):
    period: str
    state: Literal["closed", "reopened"]
    number: int = Field(description="Which closing this is: 1, and one more each time it is closed again.")
    window: Span
    closed_at: Time
    closed_by: str
    digest: str
    forced: bool = Field(description="Closed in spite of days without books or time without a price.")
    forced_why: str | None = Field(description="What was missing then.")
    versions: dict[str, int] = Field(description="Versions of the cards that it was priced with.")
    gpu_seconds: Quantity
    cost: Money | None
    currency: str | None
    rows: list[FrozenRow]
    corrections: list[FrozenRow]
    signatures: list[Signature]
    closings: list[Closing]


class Periods(Strict):
    items: list[Period]
    next: str | None


class PeriodRow(Shape):
    currency: str | None
    gpu_seconds: Quantity
    cost_exact: Money | None


class PeriodRows(Strict):
    period: Period
    items: list[PeriodRow]
    next: str | None


class PeriodBody(Strict):
    period: str = Field(max_length=16, examples=["2026-W47"])
    force: bool = Field(
        default=False, description="Also where the books do not cover every day of it, or time has no price."
    )


class ReopenBody(Strict):
    reason: str = Field(min_length=1, max_length=500, examples=["wrong rates of pool b"])


class SignBody(Strict):
    name: str | None = Field(None, min_length=1, max_length=200, description="Default: the name of the token.")
    note: str = Field("", max_length=500)


class Difference(Strict):
    added: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    added_count: int
    removed_count: int


class AuditEntry(Strict):
    id: int
    at: Time
    actor: str
    what: str
    before: Any | None
    after: Any | None
    difference: Difference | None


class Audit(Strict):
    items: list[AuditEntry]
    next: str | None


class Channel(Shape):
    name: str
    kind: str
    severity_min: Severity
    enabled: bool


class ChannelItems(Shape):
    items: list[Channel]
    next: str | None


class ChannelBody(Shape):
    """What a channel may hold, per kind, is on the page about alerts; wrong fields are named."""

    name: str = Field(min_length=1, max_length=64)


class ChannelsBody(Strict):
    items: list[ChannelBody] = Field(max_length=100)


class Sent(Shape):
    ok: bool


class Recipient(Strict):
    team: str = Field(min_length=1, max_length=200, examples=["vision"], description="`*`: the fleet.")
    to: list[Annotated[str, Field(max_length=254)]] = Field(
        min_length=1, max_length=100, examples=[["ann@example.com"]]
    )


class RecipientItems(Strict):
    items: list[Recipient]
    version: int
    next: str | None


class RecipientsBody(Strict):
    items: list[Recipient] = Field(max_length=10_000)
