"""DCGM fields that gpuwatch knows and does not store."""

from __future__ import annotations

from gpuwatch.core.field import unstored_field

_LINKS = 18
_PER_LINK = ("CRC_FLIT_ERROR", "CRC_DATA_ERROR", "REPLAY_ERROR", "RECOVERY_ERROR")

UNSTORED = (
    unstored_field(1, "DRIVER_VERSION", "SYSTEM_DRIVER_VERSION", "global"),
    unstored_field(2, "NVML_VERSION", "SYSTEM_NVML_VERSION", "global"),
    unstored_field(51, "DEV_BRAND", "DEV_GPU_BRAND"),
    unstored_field(53, "DEV_SERIAL", "DEV_GPU_SERIAL"),
    unstored_field(54, "DEV_UUID", "DEV_GPU_UUID", "ci"),
    unstored_field(60, "GPU_TOPOLOGY_PCI", "SYSTEM_PCI_TOPOLOGY"),
    unstored_field(61, "GPU_TOPOLOGY_NVLINK", "SYSTEM_NVLINK_TOPOLOGY"),
    unstored_field(62, "GPU_TOPOLOGY_AFFINITY", "SYSTEM_GPU_AFFINITY"),
    unstored_field(80, "DEV_OEM_INFOROM_VER"),
    unstored_field(81, "DEV_ECC_INFOROM_VER"),
    unstored_field(82, "DEV_POWER_INFOROM_VER"),
    unstored_field(83, "DEV_INFOROM_IMAGE_VER"),
    unstored_field(85, "DEV_VBIOS_VERSION"),
    unstored_field(172, "DEV_FABRIC_CLUSTER_UUID"),
    unstored_field(1502, "IMEX_DOMAIN_STATUS", level="global"),
    *(unstored_field(1017 + n, f"PROF_NVDEC{n}_ACTIVE", f"PROF_NVDEC_UTIL_{n}_RATIO") for n in range(8)),
    *(unstored_field(1025 + n, f"PROF_NVJPG{n}_ACTIVE", f"PROF_NVJPG_UTIL_{n}_RATIO") for n in range(8)),
    *(unstored_field(1033 + n, f"PROF_NVOFA{n}_ACTIVE", f"PROF_NVOFA_UTIL_{n}_RATIO") for n in range(2)),
    *(
        unstored_field(1040 + 2 * k + at, f"PROF_NVLINK_L{k}_{way}_BYTES", level="link")
        for k in range(_LINKS)
        for at, way in enumerate(("TX", "RX"))
    ),
    *(unstored_field(440 + k, f"DEV_NVLINK_BANDWIDTH_L{k}", f"DEV_NVLINK_THROUGHPUT_L{k}", "link") for k in range(6)),
    *(
        unstored_field(1525 + at, f"DEV_NVLINK_{word}_PER_LINK_TOTAL", level="link")
        for at, word in enumerate(_PER_LINK)
    ),
    unstored_field(1509, "DEV_NVLINK_PPCNT_IBPC_PORT_XMIT_WAIT", level="link"),
    unstored_field(1529, "DEV_NVLINK_THROUGHPUT_PER_LINK", level="link"),
    unstored_field(1530, "DEV_NVLINK_TX_THROUGHPUT_PER_LINK", level="link"),
    unstored_field(1531, "DEV_NVLINK_RX_THROUGHPUT_PER_LINK", level="link"),
    unstored_field(1532, "PROF_NVLINK_TX_BYTES_PER_LINK", level="link"),
    unstored_field(1533, "PROF_NVLINK_RX_BYTES_PER_LINK", level="link"),
    unstored_field(9001, "DCGM_EXP_XID_ERRORS_COUNT"),
    unstored_field(9002, "DCGM_EXP_CLOCK_EVENTS_COUNT"),
    unstored_field(9003, "DCGM_EXP_GPU_HEALTH_STATUS"),
    unstored_field(9004, "DCGM_EXP_P2P_STATUS"),
)
"""Strings, structures and families of one value a link or engine: known, counted, not stored."""
