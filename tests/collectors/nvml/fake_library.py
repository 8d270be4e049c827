"""A GPU node in place of NVML: constants, structs and errors are pynvml's own, the driver is made up."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml

GIB = 1 << 30
MIB = 1 << 20
ANY = pynvml.NVML_GPU_INSTANCE_ID_ANY
MATH = ("GRAPHICS", "SM", "ANY_TENSOR", "HMMA_TENSOR", "DRAM_BW", "FP32")
"""GPM metrics in percent that a made-up GPU answers."""
H100 = "NVIDIA H100 80GB HBM3"


def gpm(percent: float, rates: bool = True, **more: float) -> dict[int, float]:
    """Values by GPM id: `percent` of everything, and rates in MiB/s where wanted."""
    values = {getattr(pynvml, f"NVML_GPM_METRIC_{word}_UTIL"): percent for word in MATH}
    if rates:
        values[pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC] = 10.0
        values[pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC] = 20.0
        values[pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC] = 300.0
        values[pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC] = 400.0
    return values | {getattr(pynvml, f"NVML_GPM_METRIC_{name}"): value for name, value in more.items()}


@dataclass
class Part:
    """A MIG instance; one without `device` has no compute instance."""

    gi: int
    name: str = "MIG 1g.10gb"
    used: int = GIB
    device: bool = True
    gpm: dict[int, float] = field(default_factory=lambda: gpm(50.0, rates=False))


@dataclass
class Gpu:
    """A GPU: what is None is not supported."""

    index: int
    name: str = H100
    total: int | None = 80 * GIB
    used: int = 10 * GIB
    mig: list[Part] | None = field(default_factory=list)
    gpm: dict[int, float] | None = field(default_factory=lambda: gpm(80.0))
    links: int = 0
    fields: dict[tuple[int, int], float] = field(default_factory=dict)
    calls: dict[str, Any] = field(default_factory=dict)
    processes: list[tuple[int, int | None, int]] = field(default_factory=list)
    lost: bool = False
    lost_at: str = ""
    """The function at which it is lost, in the middle of a round."""
    xid: bool = True
    silent: bool = False
    """Supports nothing but to say who it is."""

    @property
    def uuid(self) -> str:
        return f"GPU-0000000{self.index}"

    @property
    def pci(self) -> str:
        return f"00000000:{0x1B + self.index:02X}:00.0"


CALLS: dict[str, Any] = {
    "nvmlDeviceGetClockInfo": lambda gpu, kind: {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 2619}[kind],
    "nvmlDeviceGetMaxClockInfo": lambda gpu, kind: 1980,
    "nvmlDeviceGetTemperature": lambda gpu, sensor: 41,
    "nvmlDeviceGetPowerUsage": lambda gpu: 690_250,
    "nvmlDeviceGetPowerManagementLimit": lambda gpu: 700_000,
    "nvmlDeviceGetPowerManagementLimitConstraints": lambda gpu: [200_000, 700_000],
    "nvmlDeviceGetPowerManagementDefaultLimit": lambda gpu: 700_000,
    "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: 650_000,
    "nvmlDeviceGetTotalEnergyConsumption": lambda gpu: 123_456_789_012,
    "nvmlDeviceGetPerformanceState": lambda gpu: 0,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: 0x4,
    "nvmlDeviceGetPcieReplayCounter": lambda gpu: 3,
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda gpu: 5,
    "nvmlDeviceGetCurrPcieLinkWidth": lambda gpu: 16,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda gpu: 5,
    "nvmlDeviceGetMaxPcieLinkWidth": lambda gpu: 16,
    "nvmlDeviceGetCpuAffinity": lambda gpu, words: [0xFF if gpu.index < 4 else 0xFF00, 0][:words],
    "nvmlDeviceGetMemoryAffinity": lambda gpu, words, scope: [1 if gpu.index < 4 else 2],
}
"""What every GPU answers that does not say otherwise."""


class Nvml:
    """Takes the place of the module pynvml."""

    def __init__(self, *gpus: Gpu, error: int | None = None, driver: str = "590.48.01") -> None:
        self.gpus = list(gpus)
        self.driver = driver
        self.error = error
        self.events: list[tuple[Gpu, int, int]] = []
        self.samples: dict[int, tuple[Gpu, int | None, int] | None] = {}
        self.next_sample = 0
        self.shut = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml") and callable(getattr(pynvml, name)):
            return lambda handle, *more: self._call(name, handle, *more)
        return getattr(pynvml, name)

    def _call(self, name: str, gpu: Gpu, *more: Any) -> Any:
        self._alive(gpu, name)
        answer: Callable[..., Any] | None = gpu.calls.get(name, CALLS.get(name))
        if answer is None or (gpu.silent and name not in gpu.calls):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return answer(gpu, *more)

    def _alive(self, gpu: Gpu, name: str) -> None:
        if name == gpu.lost_at:
            gpu.lost = True
        if gpu.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    def nvmlInit(self) -> None:
        if self.error is not None:
            raise pynvml.NVMLError(self.error)

    def nvmlShutdown(self) -> None:
        self.shut += 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return self.driver

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        self._alive(self.gpus[index], "nvmlDeviceGetHandleByIndex")
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> str:
        self._alive(gpu, "nvmlDeviceGetUUID")
        return gpu.uuid

    def nvmlDeviceGetName(self, device: Gpu | Part) -> bytes:
        return f"{H100} {device.name}".encode() if isinstance(device, Part) else device.name.encode()

    def nvmlDeviceGetPciInfo(self, gpu: Gpu) -> Any:
        info = pynvml.nvmlPciInfo_t()
        info.busId = gpu.pci.encode()
        return info

    def nvmlDeviceGetMemoryInfo(self, device: Gpu | Part, version: int) -> Any:
        assert version == pynvml.nvmlMemory_v2
        total = 10 * GIB if isinstance(device, Part) else device.total
        if total is None or (isinstance(device, Gpu) and device.silent):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        reserved = 512 * MIB
        return pynvml.c_nvmlMemory_v2_t(version, total, reserved, total - reserved - device.used, device.used)

    def nvmlDeviceGetUtilizationRates(self, gpu: Gpu) -> Any:
        if gpu.silent or gpu.mig:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return pynvml.c_nvmlUtilization_t(gpu=97, memory=42)

    def nvmlDeviceGetFieldValues(self, gpu: Gpu, wanted: list[tuple[int, int]]) -> Any:
        self._alive(gpu, "nvmlDeviceGetFieldValues")
        values = (pynvml.c_nvmlFieldValue_t * len(wanted))()
        for value, key in zip(values, wanted, strict=True):
            value.fieldId, value.scopeId = key
            if key in gpu.fields:
                value.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
                value.value.ullVal = int(gpu.fields[key])
            else:
                value.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        return values

    # MIG

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:
        if gpu.mig is None or gpu.silent:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(bool(gpu.mig))] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: Gpu) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Gpu, index: int) -> Part:
        parts = [part for part in gpu.mig or () if part.device]
        if index >= len(parts):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return parts[index]

    def nvmlDeviceGetGpuInstanceId(self, part: Part) -> int:
        return part.gi

    def nvmlDeviceGetGpuInstanceProfileInfo(self, gpu: Gpu, number: int, version: int) -> Any:
        if number:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        info = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t()
        info.id, info.instanceCount, info.name = 19, 7, b"MIG 1g.10gb"
        return info

    def nvmlDeviceGetGpuInstances(self, gpu: Gpu, profile: int, handles: Any, count: Any) -> None:
        assert profile == 19
        for at, part in enumerate(gpu.mig or ()):
            handles[at] = ctypes.cast(part.gi + 1, pynvml.c_nvmlGpuInstance_t)
        count._obj.value = len(gpu.mig or ())

    def nvmlGpuInstanceGetInfo(self, handle: Any) -> Any:
        info = pynvml.c_nvmlGpuInstanceInfo_t()
        info.id = (ctypes.cast(handle, ctypes.c_void_p).value or 0) - 1
        return info

    # GPM

    def nvmlGpmQueryDeviceSupport(self, gpu: Gpu) -> Any:
        self._alive(gpu, "nvmlGpmQueryDeviceSupport")
        return pynvml.c_nvmlGpmSupport_t(1, int(gpu.gpm is not None))

    def nvmlGpmSampleAlloc(self) -> Any:
        self.next_sample += 1
        self.samples[self.next_sample] = None
        return ctypes.cast(self.next_sample, pynvml.c_nvmlGpmSample_t)

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        del self.samples[ctypes.cast(sample, ctypes.c_void_p).value or 0]

    def nvmlGpmSampleGet(self, gpu: Gpu, sample: Any) -> Any:
        self._alive(gpu, "nvmlGpmSampleGet")
        self.samples[ctypes.cast(sample, ctypes.c_void_p).value or 0] = (gpu, None, self.next_sample)
        return sample

    def nvmlGpmMigSampleGet(self, gpu: Gpu, gi: int, sample: Any) -> Any:
        self._alive(gpu, "nvmlGpmMigSampleGet")
        self.samples[ctypes.cast(sample, ctypes.c_void_p).value or 0] = (gpu, gi, self.next_sample)
        return sample

    def nvmlGpmMetricsGet(self, question: Any) -> Any:
        older, newer = (
            self.samples[ctypes.cast(s, ctypes.c_void_p).value or 0] for s in (question.sample1, question.sample2)
        )
        assert older is not None and newer is not None
        assert older[:2] == newer[:2] and older[2] < newer[2]
        gpu, gi, _ = newer
        values = (gpu.gpm or {}) if gi is None else next(part.gpm for part in gpu.mig or () if part.gi == gi)
        for metric in question.metrics[: question.numMetrics]:
            if metric.metricId not in values:
                metric.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
            metric.value = values.get(metric.metricId, math.nan)
        return question

    # Events

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlEventSetFree(self, events: object) -> None:
        return None

    def nvmlDeviceGetSupportedEventTypes(self, gpu: Gpu) -> int:
        return pynvml.nvmlEventTypeXidCriticalError if gpu.xid and not gpu.silent else 0

    def nvmlDeviceRegisterEvents(self, gpu: Gpu, types: int, events: object) -> None:
        return None

    def nvmlEventSetWait_v2(self, events: object, wait_ms: int) -> Any:
        if not self.events:
            threading.Event().wait(wait_ms / 1000)
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        gpu, xid, gi = self.events.pop(0)
        return _Event(gpu, pynvml.nvmlEventTypeXidCriticalError, xid, gi)

    # Links and processes

    def nvmlDeviceGetNvLinkState(self, gpu: Gpu, link: int) -> int:
        self._alive(gpu, "nvmlDeviceGetNvLinkState")
        if link >= gpu.links:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return pynvml.NVML_FEATURE_ENABLED

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, gpu: Gpu, link: int) -> int:
        return pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH

    def nvmlDeviceGetP2PStatus(self, a: Gpu, b: Gpu, kind: int) -> int:
        return 0

    def nvmlDeviceGetTopologyCommonAncestor(self, a: Gpu, b: Gpu) -> int:
        return pynvml.NVML_TOPOLOGY_NODE if a.index // 4 == b.index // 4 else pynvml.NVML_TOPOLOGY_SYSTEM

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: Gpu) -> list[Any]:
        self._alive(gpu, "nvmlDeviceGetComputeRunningProcesses")
        return [_Held(pid, used, gi) for pid, used, gi in gpu.processes]


@dataclass
class _Event:
    device: Gpu
    eventType: int
    eventData: int
    gpuInstanceId: int


@dataclass
class _Held:
    pid: int
    usedGpuMemory: int | None
    gpuInstanceId: int
