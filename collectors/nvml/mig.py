"""MIG instances of a GPU, as NVML names them."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.nvml.fields import asked, done, text

MAX_INSTANCES = 64
_PROFILE = re.compile(r"MIG (?:\d+c\.)?(\d+g\.\d+gb\S*)$")


@dataclass(frozen=True)
class Instance:
    """One GPU instance. `device` is the handle of its first compute instance: None where it has none yet."""

    gi: int
    profile: str
    device: Any


def mig_on(library: Any, gpu: Any) -> bool:
    """Whether the GPU is partitioned now; False where it cannot be. Raises GpuGone."""
    mode = asked(library, "nvmlDeviceGetMigMode", gpu)
    return mode is not None and bool(mode[0] == library.NVML_FEATURE_ENABLED)


def instances(library: Any, gpu: Any) -> list[Instance]:
    """GPU instances by id. Those without a compute instance are seen only by root. Raises GpuGone."""
    found: dict[int, Instance] = {}
    most = asked(library, "nvmlDeviceGetMaxMigDeviceCount", gpu) or 0
    for index in range(min(most, MAX_INSTANCES)):
        device = asked(library, "nvmlDeviceGetMigDeviceHandleByIndex", gpu, index)
        if device is None:
            continue  # indexes have gaps
        gi = asked(library, "nvmlDeviceGetGpuInstanceId", device)
        name = asked(library, "nvmlDeviceGetName", device)
        profile = profile_of(name or "")
        if gi is not None and profile is not None and gi not in found:
            found[gi] = Instance(gi, profile, device)
    for gi, profile in _empty(library, gpu):
        found.setdefault(gi, Instance(gi, profile, None))
    return [found[gi] for gi in sorted(found)]


def profile_of(name: str) -> str | None:
    """ "1g.10gb" of "NVIDIA H100 80GB HBM3 MIG 1g.10gb": the GPU instance's, where the name is of a part of it."""
    match = _PROFILE.search(name.strip())
    return match[1] if match else None


def _empty(library: Any, gpu: Any) -> list[tuple[int, str]]:
    """(id, profile) of every GPU instance, as far as this process may ask."""
    found: list[tuple[int, str]] = []
    for number in range(getattr(library, "NVML_GPU_INSTANCE_PROFILE_COUNT", 0)):
        info = asked(library, "nvmlDeviceGetGpuInstanceProfileInfo", gpu, number, version=2)
        profile = profile_of(text(info.name)) if info is not None else None
        if profile is None:
            continue
        room = min(info.instanceCount, MAX_INSTANCES)
        handles, count = (library.c_nvmlGpuInstance_t * room)(), ctypes.c_uint(room)
        if not done(library, "nvmlDeviceGetGpuInstances", gpu, info.id, handles, ctypes.byref(count)):
            continue
        for handle in handles[: count.value]:
            said = asked(library, "nvmlGpuInstanceGetInfo", handle) if handle else None
            if said is not None:
                found.append((said.id, profile))
    return found
