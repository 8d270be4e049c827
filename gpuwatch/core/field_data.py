"""The table of DCGM fields, one row per field, used through fields.py.

Old names are those of dcgm-exporter, new ones those of DCGM 4.6; ids never changed. Column names contain the stored
unit. The stored value is value / divisor * multiplier; both factors are exact in binary if the unit does not change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MIB = 1_048_576.0
MAX_MEMORY_BYTES = 16 * 1024 * 1024 * MIB
MAX_BYTES_PER_S = 1e13
MAX_WATTS = 20_000.0
MAX_CLOCK_MHZ = 20_000.0
CELSIUS = (-60.0, 250.0)
MAX_COUNT = 9.2e18
RATIO_SLACK = 1.05
"""Profiling ratios up to this are rounding errors of a full unit and become 1; larger ones are invalid."""


@dataclass(frozen=True)
class Field:
    """A DCGM field: its names, where it is stored, which values are valid, and what it does not mean.

    `level` is the finest entity DCGM reports it for: "ci" and "gi" exist for MIG instances; "gpu" belongs to the whole
    card, and dcgm-exporter repeats it on every instance row of that card, so it must never be summed over instances;
    "link" is one NVLink; "global" is the node.
    """

    id: int
    name: str
    new_name: str
    column: str | None = None  # None: the name is known, the value is not stored
    type: str = "DOUBLE"  # DOUBLE | BIGINT, of the column
    divisor: float = 1.0
    multiplier: float = 1.0
    low: float = 0.0  # smallest legal value, in the stored unit
    high: float = MAX_COUNT  # largest legal value, in the stored unit
    slack: float = MAX_COUNT  # values in (high, slack] are clamped to high
    level: str = "gpu"  # gpu | gi | ci | global | link
    kind: str = "gauge"  # gauge | counter | unclear
    on_mig: bool = True  # False: no meaning on a MIG instance row, where exporters print 0
    wire_double: bool = False  # DCGM type: blanks are 2**47 and above, else 64-bit integers near 2**63
    aliases: tuple[str, ...] = ()  # names of the 1.x compatibility file, and other spellings
    not_meaning: str = ""


def _full(name: str) -> str:
    return name if name.startswith("DCGM_") else f"DCGM_FI_{name}"


def _field(id: int, old: str, new: str, column: str, **more: object) -> Field:
    high = more.pop("high", MAX_COUNT)
    slack = more.pop("slack", high)
    names = {
        "id": id,
        "name": _full(old),
        "new_name": _full(new or old),
        "column": column,
        "high": high,
        "slack": slack,
    }
    return Field(**(names | more))  # type: ignore[arg-type]


def _ratio(id: int, old: str, new: str, column: str, level: str = "ci", **more: object) -> Field:
    """A profiling ratio, 0..1 on the wire."""
    return _field(id, old, new, column, level=level, high=1.0, slack=RATIO_SLACK, wire_double=True, **more)


def _percent(id: int, old: str, new: str, column: str, alias: str) -> Field:
    """A driver utilisation, integer percent on the wire, not defined on MIG instances."""
    return _field(id, old, new, column, divisor=100.0, high=1.0, on_mig=False, aliases=(alias,))


def _memory(id: int, name: str, column: str, *aliases: str) -> Field:
    """A frame-buffer size, MiB on the wire."""
    return _field(
        id, name, name, column, type="BIGINT", multiplier=MIB, high=MAX_MEMORY_BYTES, level="ci", aliases=aliases
    )


def _watts(id: int, old: str, new: str, column: str, *aliases: str) -> Field:
    return _field(id, old, new, column, high=MAX_WATTS, wire_double=True, aliases=aliases)


def _rate(id: int, name: str, column: str) -> Field:
    """Bytes per second over the sampling interval."""
    return _field(id, name, name, column, high=MAX_BYTES_PER_S)


def _count(id: int, old: str, new: str, column: str, *aliases: str, level: str = "gpu") -> Field:
    """A cumulative counter."""
    return _field(id, old, new, column, type="BIGINT", kind="counter", level=level, aliases=aliases)


def _whole(id: int, old: str, new: str, column: str, *aliases: str, high: float, level: str = "gpu") -> Field:
    """A code, flag, mask or small number that is no counter."""
    return _field(id, old, new, column, type="BIGINT", high=high, level=level, aliases=aliases)


def _unstored(id: int, old: str, new: str = "", level: str = "gpu") -> Field:
    return Field(id, _full(old), _full(new or old), level=level)


PROFILING = (
    _ratio(1001, "PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO", "gr_engine_ratio"),
    _ratio(1002, "PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO", "sm_active_ratio"),
    _ratio(1003, "PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO", "sm_occupancy_ratio"),
    _ratio(1004, "PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO", "tensor_active_ratio"),
    _ratio(1005, "PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO", "dram_active_ratio", level="gi"),
    _ratio(1006, "PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO", "fp64_active_ratio"),
    _ratio(1007, "PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO", "fp32_active_ratio"),
    _ratio(1008, "PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO", "fp16_active_ratio"),
    _rate(1009, "PROF_PCIE_TX_BYTES", "pcie_tx_bytes_per_s"),
    _rate(1010, "PROF_PCIE_RX_BYTES", "pcie_rx_bytes_per_s"),
    _rate(1011, "PROF_NVLINK_TX_BYTES", "nvlink_tx_bytes_per_s"),
    _rate(1012, "PROF_NVLINK_RX_BYTES", "nvlink_rx_bytes_per_s"),
    _ratio(1013, "PROF_PIPE_TENSOR_IMMA_ACTIVE", "PROF_IMMA_UTIL_RATIO", "tensor_imma_active_ratio"),
    _ratio(1014, "PROF_PIPE_TENSOR_HMMA_ACTIVE", "PROF_HMMA_UTIL_RATIO", "tensor_hmma_active_ratio"),
    _ratio(1015, "PROF_PIPE_TENSOR_DFMA_ACTIVE", "PROF_DFMA_UTIL_RATIO", "tensor_dfma_active_ratio"),
    _ratio(1016, "PROF_PIPE_INT_ACTIVE", "PROF_INT_UTIL_RATIO", "int_active_ratio"),
    _rate(1076, "PROF_C2C_TX_ALL_BYTES", "c2c_tx_all_bytes_per_s"),
    _rate(1077, "PROF_C2C_TX_DATA_BYTES", "c2c_tx_data_bytes_per_s"),
    _rate(1078, "PROF_C2C_RX_ALL_BYTES", "c2c_rx_all_bytes_per_s"),
    _rate(1079, "PROF_C2C_RX_DATA_BYTES", "c2c_rx_data_bytes_per_s"),
    _count(1084, "PROF_SM_CYCLES_ELAPSED_TOTAL", "", "sm_elapsed_cycles", level="ci"),
    _count(1085, "PROF_SM_CYCLES_ACTIVE_TOTAL", "", "sm_active_cycles", level="ci"),
    _count(1086, "PROF_MMA_CYCLES_ACTIVE_TOTAL", "", "mma_active_cycles", level="ci"),
    _count(1087, "PROF_DMMA_CYCLES_ACTIVE_TOTAL", "", "dmma_active_cycles", level="ci"),
    _count(1088, "PROF_HMMA_CYCLES_ACTIVE_TOTAL", "", "hmma_active_cycles", level="ci"),
    _count(1089, "PROF_IMMA_CYCLES_ACTIVE_TOTAL", "", "imma_active_cycles", level="ci"),
    _count(1090, "PROF_DFMA_CYCLES_ACTIVE_TOTAL", "", "dfma_active_cycles", level="ci"),
    _count(1091, "PROF_PCIE_TX_BYTES_TOTAL", "", "pcie_tx_bytes"),
    _count(1092, "PROF_PCIE_RX_BYTES_TOTAL", "", "pcie_rx_bytes"),
    _count(1093, "PROF_INT_CYCLES_ACTIVE_TOTAL", "", "int_active_cycles", level="ci"),
    _count(1094, "PROF_FP64_CYCLES_ACTIVE_TOTAL", "", "fp64_active_cycles", level="ci"),
    _count(1095, "PROF_FP32_CYCLES_ACTIVE_TOTAL", "", "fp32_active_cycles", level="ci"),
    _count(1096, "PROF_FP16_CYCLES_ACTIVE_TOTAL", "", "fp16_active_cycles", level="ci"),
)
"""Interval averages of hardware counters, and their running totals."""

USE = (
    _percent(203, "DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO", "gpu_util_ratio", "dcgm_gpu_utilization"),
    _percent(204, "DEV_MEM_COPY_UTIL", "DEV_MEM_COPY_UTIL", "mem_copy_util_ratio", "dcgm_mem_copy_utilization"),
    _percent(206, "DEV_ENC_UTIL", "DEV_ENC_UTIL", "enc_util_ratio", "dcgm_enc_utilization"),
    _percent(207, "DEV_DEC_UTIL", "DEV_DEC_UTIL", "dec_util_ratio", "dcgm_dec_utilization"),
    _memory(250, "DEV_FB_TOTAL", "fb_total_bytes"),
    _memory(251, "DEV_FB_FREE", "fb_free_bytes", "dcgm_fb_free"),
    _memory(252, "DEV_FB_USED", "fb_used_bytes", "dcgm_fb_used"),
    _memory(253, "DEV_FB_RESERVED", "fb_reserved_bytes"),
    _ratio(254, "DEV_FB_USED_PERCENT", "DEV_FB_USED_RATIO", "fb_used_ratio"),
    _whole(190, "DEV_PSTATE", "DEV_GPU_PSTATE", "pstate", high=15.0),
    _whole(67, "DEV_MIG_MODE", "", "mig_mode", high=1.0),
    _whole(69, "DEV_MIG_MAX_SLICES", "", "mig_max_slices", high=1000.0),
    _whole(5, "CUDA_DRIVER_VERSION", "", "cuda_driver_version", high=1e6, level="global"),
    _whole(526, "DEV_VGPU_LICENSE_STATUS", "", "vgpu_license_status", high=1000.0),
)
"""Driver utilisation, memory, modes."""

BOARD = (
    _field(100, "DEV_SM_CLOCK", "", "sm_clock_mhz", high=MAX_CLOCK_MHZ, aliases=("dcgm_sm_clock",)),
    _field(101, "DEV_MEM_CLOCK", "", "mem_clock_mhz", high=MAX_CLOCK_MHZ, aliases=("dcgm_memory_clock",)),
    _field(113, "DEV_MAX_SM_CLOCK", "", "sm_clock_max_mhz", high=MAX_CLOCK_MHZ),
    _whole(112, "DEV_CLOCK_THROTTLE_REASONS", "DEV_CLOCKS_EVENT_REASONS", "clocks_event_reasons", high=2.0**32 - 1),
    _field(
        140,
        "DEV_MEMORY_TEMP",
        "DEV_MEMORY_TEMP_CELSIUS",
        "memory_temp_celsius",
        low=CELSIUS[0],
        high=CELSIUS[1],
        aliases=("dcgm_memory_temp",),
    ),
    _field(
        150,
        "DEV_GPU_TEMP",
        "DEV_GPU_TEMP_CELSIUS",
        "gpu_temp_celsius",
        low=CELSIUS[0],
        high=CELSIUS[1],
        aliases=("dcgm_gpu_temp",),
    ),
    _watts(155, "DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", "power_watts", "dcgm_power_usage"),
    _count(156, "DEV_TOTAL_ENERGY_CONSUMPTION", "", "energy_mj", "dcgm_total_energy_consumption"),
    _watts(157, "DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS", "power_instant_watts"),
    _watts(160, "DEV_POWER_MGMT_LIMIT", "DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", "power_limit_requested_watts"),
    _watts(161, "DEV_POWER_MGMT_LIMIT_MIN", "DEV_BOARD_POWER_LIMIT_MIN_WATTS", "power_limit_min_watts"),
    _watts(162, "DEV_POWER_MGMT_LIMIT_MAX", "DEV_BOARD_POWER_LIMIT_MAX_WATTS", "power_limit_max_watts"),
    _watts(163, "DEV_POWER_MGMT_LIMIT_DEF", "DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS", "power_limit_default_watts"),
    _watts(164, "DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "power_limit_watts"),
    _count(240, "DEV_POWER_VIOLATION", "", "power_violation_ns", "dcgm_power_violation"),
    _count(241, "DEV_THERMAL_VIOLATION", "", "thermal_violation_ns", "dcgm_thermal_violation"),
    _count(242, "DEV_SYNC_BOOST_VIOLATION", "", "sync_boost_violation_ns", "dcgm_sync_boost_violation"),
    _count(243, "DEV_BOARD_LIMIT_VIOLATION", "", "board_limit_violation_ns", "dcgm_board_limit_violation"),
    _count(244, "DEV_LOW_UTIL_VIOLATION", "", "low_util_violation_ns", "dcgm_low_util_violation"),
    _count(245, "DEV_RELIABILITY_VIOLATION", "", "reliability_violation_ns", "dcgm_reliability_violation"),
    _count(246, "DEV_TOTAL_APP_CLOCKS_VIOLATION", "", "app_clocks_violation_ns"),
    _count(247, "DEV_TOTAL_BASE_CLOCKS_VIOLATION", "", "base_clocks_violation_ns"),
    _count(1420, "DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "", "sw_power_cap_ns"),
    _count(
        1421,
        "DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS",
        "",
        "sync_boost_ns",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_COUNT_NS",
    ),
    _count(1422, "DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "", "sw_therm_slowdown_ns"),
    _count(1423, "DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "", "hw_therm_slowdown_ns"),
    _count(1424, "DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "", "hw_power_brake_slowdown_ns"),
)
"""Clocks, temperatures, power, throttling: all of the whole card."""

HEALTH = (
    _whole(230, "DEV_XID_ERRORS", "DEV_XID_ERROR", "xid_code", "dcgm_xid_errors", high=100_000.0, level="ci"),
    _count(310, "DEV_ECC_SBE_VOL_TOTAL", "", "ecc_sbe_volatile_count", "dcgm_ecc_sbe_volatile_total"),
    _count(311, "DEV_ECC_DBE_VOL_TOTAL", "", "ecc_dbe_volatile_count", "dcgm_ecc_dbe_volatile_total"),
    _count(312, "DEV_ECC_SBE_AGG_TOTAL", "", "ecc_sbe_aggregate_count", "dcgm_ecc_sbe_aggregate_total"),
    _count(313, "DEV_ECC_DBE_AGG_TOTAL", "", "ecc_dbe_aggregate_count", "dcgm_ecc_dbe_aggregate_total"),
    _whole(346, "DEV_THRESHOLD_SRM", "DEV_SRAM_EXCEEDED", "sram_threshold_exceeded", high=1.0),
    *(
        _whole(
            385 + at,
            f"DEV_BANKS_REMAP_ROWS_AVAIL_{word}",
            f"DEV_BANK_REMAP_AVAIL_{word}",
            f"remap_banks_{word.lower()}_count",
            high=1e9,
        )
        for at, word in enumerate(("MAX", "HIGH", "PARTIAL", "LOW", "NONE"))
    ),
    _count(390, "DEV_RETIRED_SBE", "DEV_PAGE_RETIRED_SBE_TOTAL", "retired_sbe_pages", "dcgm_retired_pages_sbe"),
    _count(391, "DEV_RETIRED_DBE", "DEV_PAGE_RETIRED_DBE_TOTAL", "retired_dbe_pages", "dcgm_retired_pages_dbe"),
    _whole(
        392,
        "DEV_RETIRED_PENDING",
        "DEV_PAGE_RETIRED_PENDING",
        "retired_pending_pages",
        "dcgm_retired_pages_pending",
        high=1e9,
    ),
    _count(393, "DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "remapped_uncorrectable_rows"),
    _count(394, "DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL", "remapped_correctable_rows"),
    _whole(395, "DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED", "row_remap_failed", high=1.0),
    _whole(396, "DEV_ROW_REMAP_PENDING", "", "row_remap_pending", high=1.0),
    _field(
        1503, "IMEX_DAEMON_STATUS", "", "imex_daemon_status", type="BIGINT", low=-1000.0, high=1000.0, level="global"
    ),
    _whole(1507, "DEV_MEMORY_UNREPAIRABLE_FLAG", "DEV_MEMORY_UNREPAIRABLE", "memory_unrepairable", high=1.0),
    _whole(1523, "DEV_GET_GPU_RECOVERY_ACTION", "DEV_GPU_RECOVERY_ACTION", "gpu_recovery_action", high=1000.0),
)
"""Errors and repairs."""

FABRIC = (
    _whole(173, "DEV_FABRIC_CLIQUE_ID", "", "fabric_clique_id", high=2.0**32 - 1),
    _whole(174, "DEV_FABRIC_HEALTH_MASK", "", "fabric_health_mask", high=2.0**32 - 1),
    _whole(175, "DEV_FABRIC_HEALTH_SUMMARY", "", "fabric_health_summary", high=1000.0),
    _count(202, "DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL", "pcie_replay_count", "dcgm_pcie_replay_counter"),
    _whole(235, "DEV_PCIE_MAX_LINK_GEN", "", "pcie_gen_max", high=100.0),
    _whole(236, "DEV_PCIE_MAX_LINK_WIDTH", "", "pcie_lanes_max", high=100.0),
    _whole(237, "DEV_PCIE_LINK_GEN", "", "pcie_gen", high=100.0),
    _whole(238, "DEV_PCIE_LINK_WIDTH", "", "pcie_lanes", high=100.0),
    _whole(285, "DEV_C2C_LINK_COUNT", "DEV_C2C_LINK_QUANTITY", "c2c_link_count", high=1000.0),
    _whole(286, "DEV_C2C_LINK_STATUS", "", "c2c_link_status", high=1000.0),
    _field(287, "DEV_C2C_MAX_BANDWIDTH", "", "c2c_bandwidth_max_mb_per_s", high=1e9),
    *(
        _count(
            id,
            f"DEV_NVLINK_{word}_ERROR_COUNT_TOTAL",
            f"DEV_NVLINK_{word}_ERROR_TOTAL",
            f"nvlink_{word.lower()}_error_count",
            f"dcgm_nvlink_{old}_error_count_total",
        )
        for id, word, old in (
            (409, "CRC_FLIT", "flit_crc"),
            (419, "CRC_DATA", "data_crc"),
            (429, "REPLAY", "replay"),
            (439, "RECOVERY", "recovery"),
        )
    ),
    _field(
        449,
        "DEV_NVLINK_BANDWIDTH_TOTAL",
        "DEV_NVLINK_THROUGHPUT_TOTAL",
        "nvlink_bandwidth_raw",
        kind="unclear",
        aliases=("dcgm_nvlink_bandwidth_total",),
    ),
    _field(843, "DEV_NVLINK_TX_BANDWIDTH_TOTAL", "DEV_NVLINK_TX_THROUGHPUT_TOTAL", "nvlink_tx_mb_per_s", high=1e9),
    _field(897, "DEV_NVLINK_RX_BANDWIDTH_TOTAL", "DEV_NVLINK_RX_THROUGHPUT_TOTAL", "nvlink_rx_mb_per_s", high=1e9),
    _count(1200, "DEV_NVLINK_COUNT_TX_PACKETS", "DEV_NVLINK_TX_PACKET_TOTAL", "nvlink_tx_packets"),
    _count(1201, "DEV_NVLINK_COUNT_TX_BYTES", "DEV_NVLINK_TX_BYTES_TOTAL", "nvlink_tx_bytes"),
    _count(1202, "DEV_NVLINK_COUNT_RX_PACKETS", "DEV_NVLINK_RX_PACKET_TOTAL", "nvlink_rx_packets"),
    _count(1203, "DEV_NVLINK_COUNT_RX_BYTES", "DEV_NVLINK_RX_BYTES_TOTAL", "nvlink_rx_bytes"),
)
"""PCIe, NVLink, chip-to-chip."""

_LINKS = 18
_PER_LINK = ("CRC_FLIT_ERROR", "CRC_DATA_ERROR", "REPLAY_ERROR", "RECOVERY_ERROR")

UNSTORED = (
    _unstored(1, "DRIVER_VERSION", "SYSTEM_DRIVER_VERSION", "global"),
    _unstored(2, "NVML_VERSION", "SYSTEM_NVML_VERSION", "global"),
    _unstored(51, "DEV_BRAND", "DEV_GPU_BRAND"),
    _unstored(53, "DEV_SERIAL", "DEV_GPU_SERIAL"),
    _unstored(54, "DEV_UUID", "DEV_GPU_UUID", "ci"),
    _unstored(60, "GPU_TOPOLOGY_PCI", "SYSTEM_PCI_TOPOLOGY"),
    _unstored(61, "GPU_TOPOLOGY_NVLINK", "SYSTEM_NVLINK_TOPOLOGY"),
    _unstored(62, "GPU_TOPOLOGY_AFFINITY", "SYSTEM_GPU_AFFINITY"),
    _unstored(80, "DEV_OEM_INFOROM_VER"),
    _unstored(81, "DEV_ECC_INFOROM_VER"),
    _unstored(82, "DEV_POWER_INFOROM_VER"),
    _unstored(83, "DEV_INFOROM_IMAGE_VER"),
    _unstored(85, "DEV_VBIOS_VERSION"),
    _unstored(172, "DEV_FABRIC_CLUSTER_UUID"),
    _unstored(1502, "IMEX_DOMAIN_STATUS", level="global"),
    *(_unstored(1017 + n, f"PROF_NVDEC{n}_ACTIVE", f"PROF_NVDEC_UTIL_{n}_RATIO") for n in range(8)),
    *(_unstored(1025 + n, f"PROF_NVJPG{n}_ACTIVE", f"PROF_NVJPG_UTIL_{n}_RATIO") for n in range(8)),
    *(_unstored(1033 + n, f"PROF_NVOFA{n}_ACTIVE", f"PROF_NVOFA_UTIL_{n}_RATIO") for n in range(2)),
    *(
        _unstored(1040 + 2 * k + at, f"PROF_NVLINK_L{k}_{way}_BYTES", level="link")
        for k in range(_LINKS)
        for at, way in enumerate(("TX", "RX"))
    ),
    *(_unstored(440 + k, f"DEV_NVLINK_BANDWIDTH_L{k}", f"DEV_NVLINK_THROUGHPUT_L{k}", "link") for k in range(6)),
    *(_unstored(1525 + at, f"DEV_NVLINK_{word}_PER_LINK_TOTAL", level="link") for at, word in enumerate(_PER_LINK)),
    _unstored(1509, "DEV_NVLINK_PPCNT_IBPC_PORT_XMIT_WAIT", level="link"),
    _unstored(1529, "DEV_NVLINK_THROUGHPUT_PER_LINK", level="link"),
    _unstored(1530, "DEV_NVLINK_TX_THROUGHPUT_PER_LINK", level="link"),
    _unstored(1531, "DEV_NVLINK_RX_THROUGHPUT_PER_LINK", level="link"),
    _unstored(1532, "PROF_NVLINK_TX_BYTES_PER_LINK", level="link"),
    _unstored(1533, "PROF_NVLINK_RX_BYTES_PER_LINK", level="link"),
    _unstored(9001, "DCGM_EXP_XID_ERRORS_COUNT"),
    _unstored(9002, "DCGM_EXP_CLOCK_EVENTS_COUNT"),
    _unstored(9003, "DCGM_EXP_GPU_HEALTH_STATUS"),
    _unstored(9004, "DCGM_EXP_P2P_STATUS"),
)
"""Strings, structures and families of one value a link or engine: known, counted, not stored."""


NOT_MEANING: dict[int, str] = {
    1001: "how full the SMs are; an idle GPU shows a small noise floor, so never test for zero",
    1002: "efficiency: a warp that waits for memory is active too; 0.8 is necessary, not sufficient",
    1003: "goodness: compute-bound kernels need not correlate with it",
    1004: "model FLOPs: FP8 and BF16 cycles count alike, padding and recomputation count too",
    1005: "memory capacity or locality; its practical maximum is about 0.8",
    1006: "FLOP/s: cycles of the pipe",
    1007: "FLOP/s: cycles of the FMA pipe, integer work included",
    1008: "tensor work: HMMA is excluded",
    1009: "a running total: a rate, device to host, headers included; own slot only, no NIC traffic",
    1010: "a running total: a rate, host to device, headers included; own slot only, no NIC traffic",
    1011: "traffic per peer, or congestion",
    1012: "traffic per peer, or congestion",
    1084: "anything about other MIG instances: relative to the SMs of its own instance",
    1085: "anything about other MIG instances: relative to the SMs of its own instance",
    1086: "anything about other MIG instances: relative to the SMs of its own instance",
    203: "how many SMs work, or how much: one small kernel saturates it, a spinning NCCL kernel too",
    204: "a share of the memory bandwidth or of the capacity",
    252: "that the memory is needed: caching allocators hold it while idle",
    112: "a fault: a power cap near the limit is normal for tuned training, bit 0x1 is idleness",
    155: "energy: integrate the energy counter, the sensor samples a part of the time only",
    156: "energy since boot or job start: it restarts with the driver",
    240: "the share of time lost: nanoseconds throttled since start, off in the exporter's shipped counters file",
    241: "the share of time lost: nanoseconds throttled since start, off in the exporter's shipped counters file",
    230: "a current state or a count: the last code, kept until the next one",
    395: "lost performance: the board must be replaced",
    396: "lost performance: the GPU needs a reset",
    449: "a unit one can trust: MB/s in DCGM's header, a counter in the exporter's file",
}
"""What a field does not mean, by id."""

_ROWS = PROFILING + USE + BOARD + HEALTH + FABRIC + UNSTORED
TABLE: tuple[Field, ...] = tuple(replace(row, not_meaning=NOT_MEANING.get(row.id, "")) for row in _ROWS)
