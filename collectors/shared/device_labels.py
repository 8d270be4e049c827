"""Maps the labels of a DCGM series to its device and context.

Spellings vary by exporter version and by Prometheus' relabelling; empty values are unknown. If any `exported_*` label
exists, the plain pod, namespace and container are those of the exporter. The same holds for a GPU without a workload,
where Prometheus fills in its scrape target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuwatch.core.fields import Field, by_name
from gpuwatch.core.model import WHOLE_GPU, Rejects, context_key, device_key

NOT_DCGM = f"{Rejects.IGNORED}not a DCGM metric"
UNKNOWN_FIELD = f"{Rejects.IGNORED}DCGM field not known"
NOT_STORED = f"{Rejects.IGNORED}field known but not stored"
NO_DEVICE = "no device label"
BAD_INSTANCE = "GPU_I_ID is not a MIG instance number"
NO_INSTANCE = "MIG row without GPU_I_ID"
NO_PARENT = "UUID names a MIG instance, not its GPU"
MAX_CONTEXT_CHARACTERS = 2_048
TOO_LONG = f"labels of the device have more than {MAX_CONTEXT_CHARACTERS} characters"

MAX_INSTANCE = 1_000
MAX_INDEX = 10_000
EXPORTER = "dcgm-exporter"

_NODE = ("node", "Hostname", "hostname", "exported_hostname")
_UUID = ("UUID", "uuid")
_INSTANCE = ("GPU_I_ID", "gpu_i_id")
_PROFILE = ("GPU_I_PROFILE", "gpu_i_profile")
_MODEL = ("modelName", "model_name", "modelname")
_DRIVER = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION")
_WORKLOAD = {
    "namespace": ("namespace", "pod_namespace"),
    "pod": ("pod", "pod_name"),
    "pod_uid": ("pod_uid",),
    "container": ("container", "container_name"),
}
_JOB = ("hpc_job", "exported_hpc_job")
_DEVICE_NUMBER = re.compile(r"nvidia(\d+)")
_OLD_MIG_UUID = re.compile(r"MIG-(GPU-[0-9a-fA-F-]+)/(\d+)/\d+")  # MIG-GPU-<parent>/<GPU instance>/<compute instance>


def field_of(name: str) -> Field | str:
    """The stored field of a metric, or the reason why there is none."""
    field = by_name(name)
    if field is None:
        if not name.upper().startswith("DCGM_"):
            return NOT_DCGM
        return NOT_STORED if name.upper().startswith("DCGM_EXP_") else UNKNOWN_FIELD
    return field if field.column is not None else NOT_STORED


def context_row(labels: Mapping[str, str], cluster: str) -> dict[str, object] | str:
    """The row of model.CONTEXT for a label set, or the reason why it names no device.

    A MIG instance is identified by (UUID, GPU_I_ID), since profiles are not unique and some exporters print the wrong
    one. A GPU without UUID is `node/gpuN`. The node is the host name, otherwise the host of `instance`.
    """
    host = _first(labels, _NODE)
    node = host or _host(labels.get("instance", ""))
    index, profile = _index(labels), _first(labels, _PROFILE)
    device = _device(labels, None if host is None or index is None else f"{host}/gpu{index}", profile)
    if isinstance(device, str):
        return device
    gpu, gi = device
    row: dict[str, object] = {
        "cluster": cluster,
        "gpu": gpu,
        "gi": gi,
        "profile": profile,
        "node": node,
        "gpu_index": index,
        "pci_bus_id": labels.get("pci_bus_id") or None,
        "model": _first(labels, _MODEL),
        "driver": _first(labels, _DRIVER),
        **_workload(labels),
        "job": _first(labels, _JOB),
    }
    if sum(len(value) for value in row.values() if isinstance(value, str)) > MAX_CONTEXT_CHARACTERS:
        return TOO_LONG
    return {"context_id": context_key(row), "device_id": device_key(cluster, gpu, gi)} | row


def _device(labels: Mapping[str, str], place: str | None, profile: str | None) -> tuple[str, int] | str:
    """(GPU, MIG instance), or the reason why the labels name none. `place` identifies a GPU without UUID."""
    gpu, gi = _first(labels, _UUID) or place, WHOLE_GPU
    if gpu is None:
        return NO_DEVICE
    if parent := _OLD_MIG_UUID.fullmatch(gpu):
        gpu, gi = parent[1], int(parent[2])
    instance = _first(labels, _INSTANCE)
    if instance is not None:
        if not (instance.isascii() and instance.isdigit() and int(instance[:9]) <= MAX_INSTANCE):
            return BAD_INSTANCE
        gi = int(instance)
    if gpu.startswith("MIG-"):
        return NO_PARENT
    return NO_INSTANCE if profile is not None and gi == WHOLE_GPU else (gpu, gi)


def _workload(labels: Mapping[str, str]) -> dict[str, str | None]:
    """Namespace, pod, uid and container of the workload; all None if the labels are those of the exporter."""
    exported = any(f"exported_{name}" in labels for names in _WORKLOAD.values() for name in names)
    prefix = "exported_" if exported else ""
    found = {column: _first(labels, tuple(prefix + name for name in names)) for column, names in _WORKLOAD.items()}
    if exported:
        found["pod_uid"] = found["pod_uid"] or labels.get("pod_uid") or None
    elif EXPORTER in (found["pod"] or "") or EXPORTER in (found["container"] or ""):
        return dict.fromkeys(_WORKLOAD)
    return found


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """The first label that exists and is not empty."""
    return next((value for name in names if (value := labels.get(name))), None)


def _index(labels: Mapping[str, str]) -> int | None:
    """GPU number on its node: label gpu="0", else device="nvidia0"."""
    text = labels.get("gpu", "")
    if not text and (device := _DEVICE_NUMBER.fullmatch(labels.get("device", ""))):
        text = device[1]
    if text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= MAX_INDEX:
        return int(text)
    return None


def _host(instance: str) -> str | None:
    """The host of a scrape target: n7 of n7:9400, ::1 of [::1]:9400."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0] or None
    return instance.rpartition(":")[0] or instance or None
