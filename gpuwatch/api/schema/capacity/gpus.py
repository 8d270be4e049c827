"""Models of the routes about single GPUs."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import Shape, Span, Time
from gpuwatch.api.schema.findings.findings import Finding

ESTIMATED = "Whether it is estimated in the window that a job held this GPU and not another one of its node."


class GpuFacts(Shape):
    cluster: str
    node: str | None
    pool: str | None
    model: str | None
    gpu: str
    gpu_index: int | None
    driver: str | None
    first_at: Time | None
    last_at: Time | None
    slices: int
    xids: list[int] | None = Field(description="Reported in the window; null: no source reads them.")
    ecc_dbe_count: int | None = Field(description="Uncorrected memory errors.")
    row_remap_pending: int | None
    row_remap_failed: int | None
    remapped_uncorrectable_rows: int | None
    gpu_temp_max_celsius: float | None
    pcie_lanes: int | None
    pcie_lanes_max: int | None


class HeatGpu(GpuFacts):
    values: list[float | None] = Field(description="By step; null: no reading.")
    held: list[float | None] = Field(description="By step, the part of it that somebody held the GPU.")
    estimated: bool = Field(description=ESTIMATED)


class Heat(Shape):
    items: list[HeatGpu]
    measure: str
    step_s: int
    times: list[Time]
    window: Span
    next: str | None


class GpuOwner(Shape):
    started_at: Time
    ended_at: Time
    slice: str | None
    profile: str | None
    job: str
    name: str | None
    user: str | None
    team: str


class Gpu(Shape):
    gpu: GpuFacts
    step_s: int
    times: list[Time]
    values: dict[str, list[float | None]] = Field(description="By measure and step.")
    estimated: bool = Field(description=ESTIMATED)
    owners: list[GpuOwner] = Field(description="The newest 200 of the window.")
    findings: list[Finding] = Field(description="The newest 50, from any time.")
    window: Span
