"""The MIG instances of a GPU."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.nvml.calls import query, succeeds, text

MAX_INSTANCES = 64
_PROFILE = re.compile(r"MIG (?:\d+c\.)?(\d+g\.\d+gb\S*)$")


@dataclass(frozen=True)
class Instance:
    """A GPU instance. `device` is the handle of its first compute instance, None without one."""

    gi: int
    profile: str
    device: Any


def mig_on(library: Any, gpu: Any) -> bool:
    """Whether MIG is enabled; False for a GPU without MIG. Raises GpuGone."""
    mode = query(library, "nvmlDeviceGetMigMode", gpu)
    return mode is not None and bool(mode[0] == library.NVML_FEATURE_ENABLED)


def instances(library: Any, gpu: Any) -> list[Instance]:
    """GPU instances by id. Only root can see those without a compute instance. Raises GpuGone."""
    found: dict[int, Instance] = {}
    most = query(library, "nvmlDeviceGetMaxMigDeviceCount", gpu) or 0
    for index in range(min(most, MAX_INSTANCES)):
        device = query(library, "nvmlDeviceGetMigDeviceHandleByIndex", gpu, index)
        if device is None:
            continue  # indexes have gaps
        gi = query(library, "nvmlDeviceGetGpuInstanceId", device)
        name = query(library, "nvmlDeviceGetName", device)
        profile = profile_of(name or "")
        if gi is not None and profile is not None and gi not in found:
            found[gi] = Instance(gi, profile, device)
    for gi, profile in _empty(library, gpu):
        found.setdefault(gi, Instance(gi, profile, None))
    return [found[gi] for gi in sorted(found)]


def profile_of(name: str) -> str | None:
    """The profile in a name: "1g.10gb" of "NVIDIA H100 80GB HBM3 MIG 1g.10gb", None without one."""
    match = _PROFILE.search(name.strip())
    return match[1] if match else None


def _empty(library: Any, gpu: Any) -> list[tuple[int, str]]:
    """(id, profile) of every GPU instance that this process has permission to see."""
    found: list[tuple[int, str]] = []
    for number in range(getattr(library, "NVML_GPU_INSTANCE_PROFILE_COUNT", 0)):
        info = query(library, "nvmlDeviceGetGpuInstanceProfileInfo", gpu, number, version=2)
        profile = profile_of(text(info.name)) if info is not None else None
        if profile is None:
            continue
        capacity = min(info.instanceCount, MAX_INSTANCES)
        handles, count = (library.c_nvmlGpuInstance_t * capacity)(), ctypes.c_uint(capacity)
        if not succeeds(library, "nvmlDeviceGetGpuInstances", gpu, info.id, handles, ctypes.byref(count)):
            continue
        for handle in handles[: count.value]:
            instance = query(library, "nvmlGpuInstanceGetInfo", handle) if handle else None
            if instance is not None:
                found.append((instance.id, profile))
    return found
