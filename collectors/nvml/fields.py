"""Readings of a whole GPU: the NVML call for each DCGM field, in dcgm-exporter's units.

Readings are numbers by metric name: an int is printed as such, a float with six decimals. A value that NVML does not
return is absent, never zero.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from gpuwatch.collectors.nvml.calls import Readings, field_values, query, succeeds, try_call
from gpuwatch.collectors.nvml.nvlink import link_readings

MIB = 1_048_576

Call = Callable[[Any, Any], int | float]


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000.0


CALLS: tuple[tuple[str, Call], ...] = (
    ("DCGM_FI_DEV_SM_CLOCK", lambda n, gpu: n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_SM)),
    ("DCGM_FI_DEV_MEM_CLOCK", lambda n, gpu: n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_MEM)),
    ("DCGM_FI_DEV_MAX_SM_CLOCK", lambda n, gpu: n.nvmlDeviceGetMaxClockInfo(gpu, n.NVML_CLOCK_SM)),
    ("DCGM_FI_DEV_GPU_TEMP", lambda n, gpu: n.nvmlDeviceGetTemperature(gpu, n.NVML_TEMPERATURE_GPU)),
    ("DCGM_FI_DEV_POWER_USAGE", lambda n, gpu: _watts(n.nvmlDeviceGetPowerUsage(gpu))),
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT", lambda n, gpu: _watts(n.nvmlDeviceGetPowerManagementLimit(gpu))),
    (
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN",
        lambda n, gpu: _watts(n.nvmlDeviceGetPowerManagementLimitConstraints(gpu)[0]),
    ),
    (
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX",
        lambda n, gpu: _watts(n.nvmlDeviceGetPowerManagementLimitConstraints(gpu)[1]),
    ),
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", lambda n, gpu: _watts(n.nvmlDeviceGetPowerManagementDefaultLimit(gpu))),
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", lambda n, gpu: _watts(n.nvmlDeviceGetEnforcedPowerLimit(gpu))),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", lambda n, gpu: int(n.nvmlDeviceGetTotalEnergyConsumption(gpu))),
    ("DCGM_FI_DEV_PSTATE", lambda n, gpu: n.nvmlDeviceGetPerformanceState(gpu)),
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", lambda n, gpu: n.nvmlDeviceGetCurrentClocksEventReasons(gpu)),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", lambda n, gpu: n.nvmlDeviceGetPcieReplayCounter(gpu)),
    ("DCGM_FI_DEV_PCIE_LINK_GEN", lambda n, gpu: n.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
    ("DCGM_FI_DEV_PCIE_LINK_WIDTH", lambda n, gpu: n.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
    ("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", lambda n, gpu: n.nvmlDeviceGetMaxPcieLinkGeneration(gpu)),
    ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", lambda n, gpu: n.nvmlDeviceGetMaxPcieLinkWidth(gpu)),
    ("DCGM_FI_DEV_MIG_MODE", lambda n, gpu: n.nvmlDeviceGetMigMode(gpu)[0]),
    ("DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG", lambda n, gpu: int(n.nvmlDeviceGetUnrepairableMemoryFlag_v1(gpu))),
)
"""A field and the call that returns it."""

UTILISATION: tuple[tuple[str, Call], ...] = (
    ("DCGM_FI_DEV_GPU_UTIL", lambda n, gpu: n.nvmlDeviceGetUtilizationRates(gpu).gpu),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", lambda n, gpu: n.nvmlDeviceGetUtilizationRates(gpu).memory),
    ("DCGM_FI_DEV_ENC_UTIL", lambda n, gpu: n.nvmlDeviceGetEncoderUtilization(gpu)[0]),
    ("DCGM_FI_DEV_DEC_UTIL", lambda n, gpu: n.nvmlDeviceGetDecoderUtilization(gpu)[0]),
)
"""Not defined while MIG is enabled."""

FIELD_VALUES: tuple[tuple[str, str], ...] = (
    ("DCGM_FI_DEV_MEMORY_TEMP", "NVML_FI_DEV_MEMORY_TEMP"),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "NVML_FI_DEV_ECC_SBE_VOL_TOTAL"),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "NVML_FI_DEV_ECC_DBE_VOL_TOTAL"),
    ("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "NVML_FI_DEV_ECC_SBE_AGG_TOTAL"),
    ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "NVML_FI_DEV_ECC_DBE_AGG_TOTAL"),
    ("DCGM_FI_DEV_RETIRED_SBE", "NVML_FI_DEV_RETIRED_SBE"),
    ("DCGM_FI_DEV_RETIRED_DBE", "NVML_FI_DEV_RETIRED_DBE"),
    ("DCGM_FI_DEV_RETIRED_PENDING", "NVML_FI_DEV_RETIRED_PENDING"),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "NVML_FI_DEV_REMAPPED_UNC"),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "NVML_FI_DEV_REMAPPED_COR"),
    ("DCGM_FI_DEV_ROW_REMAP_PENDING", "NVML_FI_DEV_REMAPPED_PENDING"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "NVML_FI_DEV_REMAPPED_FAILURE"),
    ("DCGM_FI_DEV_POWER_VIOLATION", "NVML_FI_DEV_PERF_POLICY_POWER"),
    ("DCGM_FI_DEV_THERMAL_VIOLATION", "NVML_FI_DEV_PERF_POLICY_THERMAL"),
    ("DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "NVML_FI_DEV_PERF_POLICY_SYNC_BOOST"),
    ("DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT"),
    ("DCGM_FI_DEV_LOW_UTIL_VIOLATION", "NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION"),
    ("DCGM_FI_DEV_RELIABILITY_VIOLATION", "NVML_FI_DEV_PERF_POLICY_RELIABILITY"),
    ("DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION", "NVML_FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS"),
    ("DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION", "NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS"),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP"),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", "NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST"),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
    ("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"),
    ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),
    ("DCGM_FI_DEV_C2C_LINK_COUNT", "NVML_FI_DEV_C2C_LINK_COUNT"),
    ("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"),
)
"""A field and the NVML field id with the same number: counts, flags, nanoseconds."""

SLOWDOWNS = ("SW_THERM_SLOWDOWN", "HW_THERM_SLOWDOWN", "HW_POWER_BRAKE_SLOWDOWN")
"""Throttling counters in nanoseconds, with consecutive field ids starting at the one in SLOWDOWN_IDS."""

SLOWDOWN_IDS: tuple[tuple[tuple[int, int], int], ...] = (((580, 82), 269), ((575, 0), 251))
"""The first id by the first driver that uses it, newest first. The constants in pynvml are right for one driver only;
in others the same ids are power smoothing settings."""


REMAP_BANKS = ("max", "high", "partial", "low", "none")


def slowdown_ids(driver: str) -> list[tuple[str, int]]:
    """Metric and field id of each slowdown counter; none for a driver without them."""
    parts = driver.split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts[:2]):
        return []
    release = (int(parts[0]), int(parts[1]))
    first = next((id for since, id in SLOWDOWN_IDS if release >= since), None)
    if first is None:
        return []
    return [(f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{word}_NS", first + at) for at, word in enumerate(SLOWDOWNS)]


def whole_gpu(library: Any, gpu: Any, mig: bool, driver: str) -> Readings:
    """All readings of a card as a whole, except for memory and profiling. Raises GpuGone."""
    found: Readings = {}
    for name, call in CALLS if mig else CALLS + UTILISATION:
        value = try_call(library, partial(call, library, gpu))
        if value is not None:
            found[name] = value
    ids = [(name, getattr(library, field, None)) for name, field in FIELD_VALUES] + slowdown_ids(driver)
    values = field_values(library, gpu, [(id, 0) for _, id in ids if id is not None])
    for name, id in ids:
        if (value := values.get((id or 0, 0))) is not None:
            found[name] = int(value)
    instant = getattr(library, "NVML_FI_DEV_POWER_INSTANT", None)
    if instant is not None and (watts := field_values(library, gpu, [(instant, 0)]).get((instant, 0))) is not None:
        found["DCGM_FI_DEV_POWER_USAGE_INSTANT"] = watts / 1000.0
    found |= _remap_banks(library, gpu)
    found |= link_readings(library, gpu)
    return found | _sram(library, gpu)


def memory(library: Any, device: Any) -> Readings:
    """Frame buffer of a GPU or MIG device in MiB; `used` excludes the driver's reserved memory. Raises GpuGone."""
    info = query(library, "nvmlDeviceGetMemoryInfo", device, library.nvmlMemory_v2)
    if info is None:
        return {}
    return {
        "DCGM_FI_DEV_FB_TOTAL": info.total // MIB,
        "DCGM_FI_DEV_FB_FREE": info.free // MIB,
        "DCGM_FI_DEV_FB_USED": info.used // MIB,
        "DCGM_FI_DEV_FB_RESERVED": info.reserved // MIB,
    }


def _remap_banks(library: Any, gpu: Any) -> Readings:
    histogram = query(library, "nvmlDeviceGetRowRemapperHistogram", gpu)
    if histogram is None:
        return {}
    return {f"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_{name.upper()}": getattr(histogram, name) for name in REMAP_BANKS}


def _sram(library: Any, gpu: Any) -> Readings:
    kind = getattr(library, "c_nvmlEccSramErrorStatus_v1_t", None)
    if kind is None:
        return {}
    status = kind()
    if not succeeds(library, "nvmlDeviceGetSramEccErrorStatus", gpu, ctypes.byref(status)):
        return {}
    return {"DCGM_FI_DEV_THRESHOLD_SRM": int(bool(status.bThresholdExceeded))}
