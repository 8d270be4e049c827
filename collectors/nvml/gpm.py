"""Profiling ratios and rates from NVML's GPU performance monitoring: Hopper and newer.

A value is the average between two samples, so that a longer time between readings loses nothing. NVML counts in
percent and MiB/s and names RX before TX; DCGM has ratios, bytes/s and TX first.
"""

from __future__ import annotations

import math
from typing import Any

from gpuwatch.collectors.nvml.fields import MIB, GpuGone, Readings, asked, done

MIN_SPAN_NS = 100_000_000
"""NVML wants so much time between two samples."""
MAX_SPAN_NS = 600_000_000_000
"""An older sample is thrown away: an average over it says nothing about now."""
MAX_KEPT = 1_024
"""GPUs and instances whose last sample is kept."""

RATIOS: tuple[tuple[str, str], ...] = (
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "NVML_GPM_METRIC_GRAPHICS_UTIL"),
    ("DCGM_FI_PROF_SM_ACTIVE", "NVML_GPM_METRIC_SM_UTIL"),
    ("DCGM_FI_PROF_SM_OCCUPANCY", "NVML_GPM_METRIC_SM_OCCUPANCY"),
    ("DCGM_FI_PROF_PIPE_INT_ACTIVE", "NVML_GPM_METRIC_INTEGER_UTIL"),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "NVML_GPM_METRIC_ANY_TENSOR_UTIL"),
    ("DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", "NVML_GPM_METRIC_DFMA_TENSOR_UTIL"),
    ("DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", "NVML_GPM_METRIC_HMMA_TENSOR_UTIL"),
    ("DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", "NVML_GPM_METRIC_IMMA_TENSOR_UTIL"),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "NVML_GPM_METRIC_DRAM_BW_UTIL"),
    ("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "NVML_GPM_METRIC_FP64_UTIL"),
    ("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "NVML_GPM_METRIC_FP32_UTIL"),
    ("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "NVML_GPM_METRIC_FP16_UTIL"),
)
"""Percent of a GPU or of an instance."""

RATES: tuple[tuple[str, str], ...] = (
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "NVML_GPM_METRIC_PCIE_TX_PER_SEC"),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "NVML_GPM_METRIC_PCIE_RX_PER_SEC"),
    ("DCGM_FI_PROF_NVLINK_TX_BYTES", "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC"),
    ("DCGM_FI_PROF_NVLINK_RX_BYTES", "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC"),
    ("DCGM_FI_PROF_C2C_TX_ALL_BYTES", "NVML_GPM_METRIC_C2C_TOTAL_TX_PER_SEC"),
    ("DCGM_FI_PROF_C2C_RX_ALL_BYTES", "NVML_GPM_METRIC_C2C_TOTAL_RX_PER_SEC"),
    ("DCGM_FI_PROF_C2C_TX_DATA_BYTES", "NVML_GPM_METRIC_C2C_DATA_TX_PER_SEC"),
    ("DCGM_FI_PROF_C2C_RX_DATA_BYTES", "NVML_GPM_METRIC_C2C_DATA_RX_PER_SEC"),
)
"""MiB/s of the card; an instance has none."""

WHOLE = -1
Key = tuple[str, int]
"""(GPU UUID, GPU-instance id or WHOLE)."""


class Gpm:
    """Keeps the last sample of every GPU and instance between two readings."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._kept: dict[Key, tuple[Any, int]] = {}

    def supported(self, gpu: Any) -> bool:
        """Whether this GPU has performance monitoring: never before Hopper. Raises GpuGone."""
        said = asked(self._library, "nvmlGpmQueryDeviceSupport", gpu)
        return said is not None and bool(said.isSupportedDevice)

    def read(self, gpu: Any, uuid: str, gi: int, now_ns: int, wanted: tuple[tuple[str, str], ...]) -> Readings:
        """Averages since the last call for the same GPU (gi = WHOLE) or instance; nothing at the first. Raises GpuGone.

        An instance without a compute instance, and a value that is no number, are absent.
        """
        key = (uuid, gi)
        kept = self._kept.get(key)
        if kept is not None and not 0 <= now_ns - kept[1] <= MAX_SPAN_NS:
            self._drop(key)
            kept = None
        if kept is not None and now_ns - kept[1] < MIN_SPAN_NS:
            return {}
        sample = self._sample(gpu, gi)
        if sample is None:
            return {}
        if kept is None and len(self._kept) >= MAX_KEPT:
            self._free(sample)
            return {}
        self._kept[key] = (sample, now_ns)
        if kept is None:
            return {}
        try:
            return self._between(kept[0], sample, wanted)
        finally:
            self._free(kept[0])

    def keep(self, alive: set[Key]) -> None:
        """Forgets the samples of all others: GPUs and instances that are gone."""
        for key in [key for key in self._kept if key not in alive]:
            self._drop(key)

    def close(self) -> None:
        """Gives every sample back."""
        self.keep(set())

    def _sample(self, gpu: Any, gi: int) -> Any:
        library = self._library
        sample = asked(library, "nvmlGpmSampleAlloc")
        if sample is None:
            return None
        try:
            if gi == WHOLE:
                taken = done(library, "nvmlGpmSampleGet", gpu, sample)
            else:
                taken = done(library, "nvmlGpmMigSampleGet", gpu, gi, sample)
        except GpuGone:
            self._free(sample)
            raise
        if not taken:
            self._free(sample)
            return None
        return sample

    def _between(self, older: Any, newer: Any, wanted: tuple[tuple[str, str], ...]) -> Readings:
        library = self._library
        ids = [(name, id) for name, constant in wanted if (id := getattr(library, constant, None)) is not None]
        question = library.c_nvmlGpmMetricsGet_t()
        question.version = library.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics = len(ids)
        question.sample1, question.sample2 = older, newer
        for at, (_, id) in enumerate(ids):
            question.metrics[at].metricId = id
        if asked(library, "nvmlGpmMetricsGet", question) is None:
            return {}
        rates = {name for name, _ in RATES}
        found: Readings = {}
        for at, (name, _) in enumerate(ids):
            metric = question.metrics[at]
            if metric.nvmlReturn == 0 and math.isfinite(metric.value):
                found[name] = round(metric.value * MIB) if name in rates else metric.value / 100.0
        return found

    def _drop(self, key: Key) -> None:
        self._free(self._kept.pop(key)[0])

    def _free(self, sample: Any) -> None:
        try:
            done(self._library, "nvmlGpmSampleFree", sample)
        except GpuGone:
            return
