"""Types and models that several routes share."""

from __future__ import annotations

from typing import Annotated, Literal

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
AmountText = Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?$", examples=["60000"])]
RatioText = Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?\s*%?$", examples=["0.2", "20%"])]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$", examples=["EUR"])]


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


class Replaced(Strict):
    changed: bool
    version: int
    rows: int
    warnings: list[str] = Field(default_factory=list)
