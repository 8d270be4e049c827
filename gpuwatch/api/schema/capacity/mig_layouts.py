"""Models of the MIG layouts that are tried."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import Ratio, Strict, Time


class MovedHolder(Strict):
    job: str
    name: str | None
    team: str
    user: str | None
    gpu: str
    profile: str
    then: str | None = Field(description="The profile that it would get; null: none is left for it.")


class Outcome(Strict):
    changed_gpus: int
    served_ratio: Ratio | None = Field(description="Null: nothing was held or asked for in the last week.")
    fit: int
    move: int
    misfits: list[MovedHolder]


class TriedLayout(Outcome):
    layout: list[str]


class Change(Strict):
    gpu: str
    layout: list[str]
    better: list[str]
    holders: list[MovedHolder]


class Plan(Outcome):
    changes: list[Change]


class TriedPlace(Strict):
    cluster: str
    pool: str | None
    gpu_model: str
    since: Time
    until: Time
    gpus: int
    instances: dict[str, int]
    held: int
    not_counted: int = Field(
        description="Requests of the last week for instances of this pool or of others: they are not part of the demand."
    )
    served_ratio: Ratio | None
    layouts: list[TriedLayout]
    plan: Plan


class TriedLayouts(Strict):
    at: Time
    items: list[TriedPlace]
    unknown: dict[str, str]
