"""Readings of a whole GPU: which call of NVML gives which DCGM field, in the unit that dcgm-exporter prints.

A reading is a number by metric name: a Python int is printed as one, a float with six decimals. What NVML refuses is
absent, never zero.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

MIB = 1_048_576
KIB = 1_024
ALL_LINKS = 0xFFFF_FFFF
"""`scopeId` that asks an NVLink field for the sum over all links."""
MAX_LINKS = 72
"""NVLinks of one GPU that are asked; NVML numbers up to so many."""
FABRIC_COMPLETED = 3
ANY_INSTANCE = 0xFFFF_FFFF
"""The GPU-instance id of something that belongs to the whole card; pynvml has a name for it only since 13.615."""

Readings = dict[str, int | float]
Call = Callable[[Any, Any], int | float]


class GpuGone(Exception):
    """The GPU fell off the bus: nothing that it said in this round counts."""


def asked(library: Any, name: str, *arguments: Any, **named: Any) -> Any:
    """What a function of NVML returns, text decoded; None where it refuses, or this driver or library has it not.

    Raises GpuGone when the GPU is lost.
    """
    return tried(library, lambda: getattr(library, name)(*arguments, **named))


def done(library: Any, name: str, *arguments: Any) -> bool:
    """Whether a function of NVML that returns nothing worked. Raises GpuGone when the GPU is lost."""
    return tried(library, lambda: (getattr(library, name)(*arguments), True)) is not None


def tried(library: Any, call: Callable[[], Any]) -> Any:
    """As `asked`, for more than one call."""
    try:
        value = call()
    except library.NVMLError as error:
        if error.value == library.NVML_ERROR_GPU_IS_LOST:
            raise GpuGone(str(error)) from error
        return None
    except (AttributeError, ValueError):
        return None
    return text(value) if isinstance(value, bytes) else value


def text(value: str | bytes) -> str:
    """Text as any version of the library gives it."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


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
"""A field and the call that gives it."""

UTILISATION: tuple[tuple[str, Call], ...] = (
    ("DCGM_FI_DEV_GPU_UTIL", lambda n, gpu: n.nvmlDeviceGetUtilizationRates(gpu).gpu),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", lambda n, gpu: n.nvmlDeviceGetUtilizationRates(gpu).memory),
    ("DCGM_FI_DEV_ENC_UTIL", lambda n, gpu: n.nvmlDeviceGetEncoderUtilization(gpu)[0]),
    ("DCGM_FI_DEV_DEC_UTIL", lambda n, gpu: n.nvmlDeviceGetDecoderUtilization(gpu)[0]),
)
"""Not defined while MIG is on."""

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
"""A field and the NVML field id that is the same number: counts, flags, nanoseconds."""

SLOWDOWNS = ("SW_THERM_SLOWDOWN", "HW_THERM_SLOWDOWN", "HW_POWER_BRAKE_SLOWDOWN")
"""Throttling counters in nanoseconds, with consecutive field ids from the one in SLOWDOWN_IDS on."""

SLOWDOWN_IDS: tuple[tuple[tuple[int, int], int], ...] = (((580, 82), 269), ((575, 0), 251))
"""The first driver that counts from an id on, newest first. The constants in pynvml are right for one driver only, and
with another the same ids are power smoothing settings."""

LINK_SUMS: tuple[tuple[str, str], ...] = (
    ("DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS", "NVML_FI_DEV_NVLINK_COUNT_XMIT_PACKETS"),
    ("DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS", "NVML_FI_DEV_NVLINK_COUNT_RCV_PACKETS"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", "NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES"),
)
"""Counters that NVML gives link by link; a sum is there only where every active link answered."""

KIB_SUMS: tuple[tuple[str, str], ...] = (
    ("DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX"),
)
"""The same bytes on link generations without those counters: running totals in KiB over all links."""

REMAP_BANKS = ("max", "high", "partial", "low", "none")


def slowdown_ids(driver: str) -> list[tuple[str, int]]:
    """Metric and field id of each slowdown counter; none for a driver that has no such counters."""
    parts = driver.split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts[:2]):
        return []
    release = (int(parts[0]), int(parts[1]))
    first = next((id for since, id in SLOWDOWN_IDS if release >= since), None)
    if first is None:
        return []
    return [(f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{word}_NS", first + at) for at, word in enumerate(SLOWDOWNS)]


def whole_gpu(library: Any, gpu: Any, mig: bool, driver: str) -> Readings:
    """Everything that NVML says about a card as a whole, memory and profiling apart. Raises GpuGone."""
    found: Readings = {}
    for name, call in CALLS if mig else CALLS + UTILISATION:
        value = tried(library, partial(call, library, gpu))
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
    found |= _links(library, gpu)
    return found | _sram(library, gpu)


def memory(library: Any, device: Any) -> Readings:
    """Frame buffer of a GPU or of a MIG device, MiB; `used` without what the driver reserves. Raises GpuGone."""
    said = asked(library, "nvmlDeviceGetMemoryInfo", device, library.nvmlMemory_v2)
    if said is None:
        return {}
    return {
        "DCGM_FI_DEV_FB_TOTAL": said.total // MIB,
        "DCGM_FI_DEV_FB_FREE": said.free // MIB,
        "DCGM_FI_DEV_FB_USED": said.used // MIB,
        "DCGM_FI_DEV_FB_RESERVED": said.reserved // MIB,
    }


def fabric(library: Any, gpu: Any) -> tuple[Readings, str | None]:
    """Clique and health of the NVLink fabric, and the cluster's UUID where it has one. Raises GpuGone.

    Nothing before the fabric manager has registered the GPU: its clique would be 0, which is a clique.
    """
    for struct in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        if (kind := getattr(library, struct, None)) is None:
            continue
        info = kind()
        if not done(library, "nvmlDeviceGetGpuFabricInfoV", gpu, ctypes.byref(info)):
            continue
        if info.state != FABRIC_COMPLETED or info.status != 0:
            return {}, None
        found: Readings = {
            "DCGM_FI_DEV_FABRIC_CLIQUE_ID": info.cliqueId,
            "DCGM_FI_DEV_FABRIC_HEALTH_MASK": info.healthMask,
        }
        if (summary := getattr(info, "healthSummary", None)) is not None:
            found["DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY"] = summary
        cluster = bytes(info.clusterUuid).hex()
        shown = "-".join((cluster[:8], cluster[8:12], cluster[12:16], cluster[16:20], cluster[20:]))
        return found, shown if cluster.strip("0") else None
    return {}, None


def field_values(library: Any, gpu: Any, wanted: list[tuple[int, int]]) -> dict[tuple[int, int], int | float]:
    """Numbers by (field id, scope) in one call; those that the driver refuses one by one are left out. Raises GpuGone."""
    values = asked(library, "nvmlDeviceGetFieldValues", gpu, wanted)
    found: dict[tuple[int, int], int | float] = {}
    for key, value in zip(wanted, values or (), strict=False):
        if value.nvmlReturn == library.NVML_ERROR_GPU_IS_LOST:
            raise GpuGone("a field says that the GPU is lost")
        if value.nvmlReturn == 0 and (number := _number(library, value)) is not None:
            found[key] = number
    return found


def _number(library: Any, field: Any) -> int | float | None:
    members = {
        library.NVML_VALUE_TYPE_DOUBLE: "dVal",
        library.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        library.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        library.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        library.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
        library.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
        library.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
    }
    member = members.get(field.valueType)
    if member is None:
        return None
    number: int | float = getattr(field.value, member)
    return number


def _remap_banks(library: Any, gpu: Any) -> Readings:
    said = asked(library, "nvmlDeviceGetRowRemapperHistogram", gpu)
    if said is None:
        return {}
    return {f"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_{word.upper()}": getattr(said, word) for word in REMAP_BANKS}


def _sram(library: Any, gpu: Any) -> Readings:
    kind = getattr(library, "c_nvmlEccSramErrorStatus_v1_t", None)
    if kind is None:
        return {}
    status = kind()
    if not done(library, "nvmlDeviceGetSramEccErrorStatus", gpu, ctypes.byref(status)):
        return {}
    return {"DCGM_FI_DEV_THRESHOLD_SRM": int(bool(status.bThresholdExceeded))}


def _links(library: Any, gpu: Any) -> Readings:
    """Bytes and packets over all NVLinks since the driver was loaded."""
    count = field_values(library, gpu, [(library.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)])
    links = min(int(next(iter(count.values()), 0)), MAX_LINKS)
    if not links:
        return {}
    active = [
        link
        for link in range(links)
        if asked(library, "nvmlDeviceGetNvLinkState", gpu, link) == library.NVML_FEATURE_ENABLED
    ]
    ids = [(name, getattr(library, field, None)) for name, field in LINK_SUMS]
    wanted = [(id, link) for _, id in ids if id is not None for link in active]
    values = field_values(library, gpu, wanted) if wanted else {}
    found: Readings = {}
    for name, id in ids:
        told = [values[id, link] for link in active if id is not None and (id, link) in values]
        if active and len(told) == len(active):
            found[name] = int(sum(told))
    for name, field in KIB_SUMS:
        key = (getattr(library, field, 0), ALL_LINKS)
        if name not in found and key[0] and (kib := field_values(library, gpu, [key]).get(key)) is not None:
            found[name] = int(kib) * KIB
    return found
