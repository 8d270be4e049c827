"""Profiling ratios and rates from NVML's GPU performance monitoring: Hopper and newer.

A value is the average between two samples, so a longer interval between readings loses nothing. NVML reports percent
and MiB/s; DCGM reports ratios and bytes/s.
"""

from __future__ import annotations

import math
from typing import Any

from gpuwatch.collectors.nvml.calls import GpuGone, Readings, query, succeeds
from gpuwatch.collectors.nvml.fields import MIB

MIN_SPAN_NS = 100_000_000
"""The minimum time between two samples that NVML requires."""
MAX_SPAN_NS = 600_000_000_000
"""An older sample is discarded, because an average since then is not current."""
MAX_KEPT = 1_024
"""The most GPUs and instances whose last sample is kept."""

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
        """Whether this GPU has performance monitoring, which needs Hopper or newer. Raises GpuGone."""
        support = query(self._library, "nvmlGpmQueryDeviceSupport", gpu)
        return support is not None and bool(support.isSupportedDevice)

    def read(self, gpu: Any, uuid: str, gi: int, now_ns: int, wanted: tuple[tuple[str, str], ...]) -> Readings:
        """Averages since the last call for the same GPU (gi = WHOLE) or instance, empty at first. Raises GpuGone.

        Values that are not finite numbers, and instances without a compute instance, are omitted.
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
        """Frees the samples of GPUs and instances that no longer exist."""
        for key in [key for key in self._kept if key not in alive]:
            self._drop(key)

    def close(self) -> None:
        """Frees all samples."""
        self.keep(set())

    def _sample(self, gpu: Any, gi: int) -> Any:
        library = self._library
        sample = query(library, "nvmlGpmSampleAlloc")
        if sample is None:
            return None
        try:
            if gi == WHOLE:
                taken = succeeds(library, "nvmlGpmSampleGet", gpu, sample)
            else:
                taken = succeeds(library, "nvmlGpmMigSampleGet", gpu, gi, sample)
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
        request = library.c_nvmlGpmMetricsGet_t()
        request.version = library.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(ids)
        request.sample1, request.sample2 = older, newer
        for at, (_, id) in enumerate(ids):
            request.metrics[at].metricId = id
        if query(library, "nvmlGpmMetricsGet", request) is None:
            return {}
        rates = {name for name, _ in RATES}
        found: Readings = {}
        for at, (name, _) in enumerate(ids):
            metric = request.metrics[at]
            if metric.nvmlReturn == 0 and math.isfinite(metric.value):
                found[name] = round(metric.value * MIB) if name in rates else metric.value / 100.0
        return found

    def _drop(self, key: Key) -> None:
        self._free(self._kept.pop(key)[0])

    def _free(self, sample: Any) -> None:
        try:
            succeeds(self._library, "nvmlGpmSampleFree", sample)
        except GpuGone:
            return
