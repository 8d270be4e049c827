"""Models of the idle limits tried on the past."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import Money, Quantity, Span, Strict


class Sooner(Strict):
    requests: int = Field(description="Waiting requests that the released GPUs would have served, each once.")
    devices: int = Field(description="GPUs that they asked for.")
    waiting_hours: Quantity = Field(description="By how much they would have started sooner, added up.")
    median_s: int | None
    longest_s: int | None


class Limit(Strict):
    limit_minutes: int
    returned_gpu_hours: Quantity = Field(description="Idle GPU-hours beyond the limit, weighted by share.")
    returned_cost: Money | None = Field(description="Their price; null where a part has none.")
    jobs: int = Field(description="Jobs that lose a GPU.")
    wrong_jobs: int = Field(description="Of these, jobs that later used that GPU again.")
    devices: int = Field(description="GPUs taken, each time counted.")
    wrong_devices: int
    soon_devices: int = Field(description="Of these, GPUs that their job used again within 30 minutes of losing them.")
    sooner: Sooner | None = Field(description="Null for tokens bound to teams, and with requests=false.")


class TeamLimit(Limit):
    team: str


class JobHit(Strict):
    cluster: str
    job: str
    name: str | None
    team: str
    user: str | None
    devices: int = Field(description="GPUs that it loses, each time counted.")
    wrong_devices: int = Field(description="Of these, GPUs that it used again later.")
    returned_gpu_hours: Quantity
    returned_cost: Money | None


class IdleLimits(Strict):
    window: Span
    currency: str | None
    idle: Limit | None = Field(
        description="All idle time of at least five minutes: limit 0. Null, and no items, where no GPU is measured."
    )
    not_measured: str | None = Field(description="Why idle time is not known; null where it is.")
    items: list[Limit]
    teams: list[TeamLimit] = Field(description="By the team that held the GPUs; `sooner` by the team that asked.")
    jobs: list[JobHit] | None = Field(
        description="The jobs that the limit `jobs_at` hits, those hit wrongly first, at most 200; null without it."
    )
    requests: int | None = Field(description="Requests that waited for GPUs in the window.")
    left_alone_gpu_hours: Quantity = Field(description="Idle hours of exempt jobs and of servers that must stay ready.")
    unsure_gpu_hours: Quantity = Field(description="Idle hours of GPUs whose holder on the node is not known.")
    not_replayed: list[str] = Field(description="Clusters with too many idle runs for the replay of the queue.")
