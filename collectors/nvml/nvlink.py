"""Readings of a GPU's NVLinks and of the NVLink fabric."""

from __future__ import annotations

import ctypes
from typing import Any

from gpuwatch.collectors.nvml.calls import Readings, field_values, query, succeeds

KIB = 1_024
ALL_LINKS = 0xFFFF_FFFF
"""The `scopeId` of an NVLink field that means the sum over all links."""
MAX_LINKS = 72
"""The most NVLinks of a GPU."""
FABRIC_COMPLETED = 3

LINK_SUMS: tuple[tuple[str, str], ...] = (
    ("DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS", "NVML_FI_DEV_NVLINK_COUNT_XMIT_PACKETS"),
    ("DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS", "NVML_FI_DEV_NVLINK_COUNT_RCV_PACKETS"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", "NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES"),
)
"""Counters that NVML returns per link; they are only summed if every active link responded."""

KIB_SUMS: tuple[tuple[str, str], ...] = (
    ("DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX"),
)
"""The same bytes for link generations without those counters: running totals in KiB over all links."""


def fabric(library: Any, gpu: Any) -> tuple[Readings, str | None]:
    """Clique and health of the NVLink fabric, and the cluster's UUID if it has one. Raises GpuGone.

    Empty until the fabric manager has registered the GPU, because its clique would be 0, a valid clique.
    """
    for struct in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        if (kind := getattr(library, struct, None)) is None:
            continue
        info = kind()
        if not succeeds(library, "nvmlDeviceGetGpuFabricInfoV", gpu, ctypes.byref(info)):
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


def link_readings(library: Any, gpu: Any) -> Readings:
    """Bytes and packets over all NVLinks since the driver was loaded."""
    found = _link_sums(library, gpu, _active_links(library, gpu))
    if found is None:
        return {}
    for name, field in KIB_SUMS:
        key = (getattr(library, field, 0), ALL_LINKS)
        if name not in found and key[0] and (kib := field_values(library, gpu, [key]).get(key)) is not None:
            found[name] = int(kib) * KIB
    return found


def _active_links(library: Any, gpu: Any) -> list[int] | None:
    """The numbers of the active NVLinks, None for a GPU without NVLinks."""
    count = field_values(library, gpu, [(library.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)])
    links = min(int(next(iter(count.values()), 0)), MAX_LINKS)
    if not links:
        return None
    return [
        link
        for link in range(links)
        if query(library, "nvmlDeviceGetNvLinkState", gpu, link) == library.NVML_FEATURE_ENABLED
    ]


def _link_sums(library: Any, gpu: Any, active: list[int] | None) -> Readings | None:
    if active is None:
        return None
    ids = [(name, getattr(library, field, None)) for name, field in LINK_SUMS]
    wanted = [(id, link) for _, id in ids if id is not None for link in active]
    values = field_values(library, gpu, wanted) if wanted else {}
    found: Readings = {}
    for name, id in ids:
        counts = [values[id, link] for link in active if id is not None and (id, link) in values]
        if active and len(counts) == len(active):
            found[name] = int(sum(counts))
    return found
