"""Models of the rates routes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gpuwatch.api.schema.common import Strict, Time
from gpuwatch.core.names import visible_name


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
        None, description="Price of a node-hour; node_split derives the price of a GPU-hour."
    )
    node_gpus: Annotated[str, Field(pattern=r"^\d{1,4}$", examples=["8"])] | None = None
    node_vcpus: Annotated[str, Field(pattern=r"^\d{1,9}(\.\d{1,12})?$", examples=["192"])] | None = None
    node_memory_gib: Annotated[str, Field(pattern=r"^\d{1,9}(\.\d{1,12})?$", examples=["2048"])] | None = None
    node_split: str | None = Field(None, max_length=20, examples=["aws-scad"])
    assume_spot: bool = Field(
        False, description="A spot rate for all GPUs of its scope, not only for those known to be spot capacity."
    )


class RateSent(Rate):
    usd_per_gpu_hour: Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?$", examples=["2.49"])] | None = Field(  # type: ignore[assignment]
        None, description="None if node_price is given."
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
    team: Annotated[str, AfterValidator(visible_name)] = Field(
        min_length=1,
        max_length=200,
        examples=["vision"],
        description="The team; * takes the value that matched as the team.",
    )


class TeamRules(Strict):
    items: list[TeamRule]
    version: int
    known: list[str] | None
    next: str | None


class TeamsBody(Strict):
    items: list[TeamRule] = Field(max_length=100_000)


class RateInForce(Rate):
    card: str = Field(description="The card that holds it: rates, owned or spot.")


class RatesInForce(Strict):
    items: list[RateInForce]
    version: int
    next: str | None
