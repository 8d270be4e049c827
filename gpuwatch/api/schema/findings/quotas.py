"""Models of the quotas tried on the past."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import Quantity, Span, Strict
from gpuwatch.api.schema.findings.idle_limits import Sooner


class Hit(Strict):
    name: str
    runs: int
    waiting_hours: Quantity


class QuotaLevel(Strict):
    gpus: Quantity
    held_gpu_hours: Quantity = Field(description="What the team holds within the window under this quota.")
    unused_gpu_hours: Quantity = Field(description="The quota over the window less what is held.")
    delayed_runs: int
    delayed_jobs: int
    waiting_hours: Quantity = Field(description="By how much the delayed runs start later, added up.")
    median_s: int | None
    longest_s: int | None
    too_large_runs: int = Field(description="Runs that ask for more than the quota: they never start.")
    not_started_runs: int = Field(description="Delayed runs that do not start within the window.")
    users: list[Hit]
    queues: list[Hit]
    sooner: Sooner | None = Field(description="Requests of other teams. Null for tokens bound to teams.")


class Waited(Strict):
    requests: int
    waiting_hours: Quantity


class Quotas(Strict):
    window: Span
    team: str
    peak_gpus: Quantity = Field(description="The most GPUs that the team held at once.")
    runs: int
    held_gpu_hours: Quantity
    items: list[QuotaLevel]
    waited_for_quota: Waited = Field(
        description="Requests of the team that waited for a quota or limit as it was. What a larger one would have given them is "
        "not known: it depends on the GPUs of others."
    )
