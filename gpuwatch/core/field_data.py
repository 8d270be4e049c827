"""The table of DCGM fields, one row per field, used through fields.py.

Old names are those of dcgm-exporter, new ones those of DCGM 4.6; ids never changed. Column names contain the stored
unit. The stored value is value / divisor * multiplier; both factors are exact in binary if the unit does not change.
"""

from __future__ import annotations

from dataclasses import replace

from gpuwatch.core.field import (
    CELSIUS,
    MAX_CLOCK_MHZ,
    Field,
    count_field,
    memory_field,
    percent_field,
    plain_field,
    rate_field,
    ratio_field,
    watts_field,
    whole_field,
)
from gpuwatch.core.field_unstored import UNSTORED

PROFILING = (
    ratio_field(1001, "PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO", "gr_engine_ratio"),
    ratio_field(1002, "PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO", "sm_active_ratio"),
    ratio_field(1003, "PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO", "sm_occupancy_ratio"),
    ratio_field(1004, "PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO", "tensor_active_ratio"),
    ratio_field(1005, "PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO", "dram_active_ratio", level="gi"),
    ratio_field(1006, "PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO", "fp64_active_ratio"),
    ratio_field(1007, "PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO", "fp32_active_ratio"),
    ratio_field(1008, "PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO", "fp16_active_ratio"),
    rate_field(1009, "PROF_PCIE_TX_BYTES", "pcie_tx_bytes_per_s"),
    rate_field(1010, "PROF_PCIE_RX_BYTES", "pcie_rx_bytes_per_s"),
    rate_field(1011, "PROF_NVLINK_TX_BYTES", "nvlink_tx_bytes_per_s"),
    rate_field(1012, "PROF_NVLINK_RX_BYTES", "nvlink_rx_bytes_per_s"),
    ratio_field(1013, "PROF_PIPE_TENSOR_IMMA_ACTIVE", "PROF_IMMA_UTIL_RATIO", "tensor_imma_active_ratio"),
    ratio_field(1014, "PROF_PIPE_TENSOR_HMMA_ACTIVE", "PROF_HMMA_UTIL_RATIO", "tensor_hmma_active_ratio"),
    ratio_field(1015, "PROF_PIPE_TENSOR_DFMA_ACTIVE", "PROF_DFMA_UTIL_RATIO", "tensor_dfma_active_ratio"),
    ratio_field(1016, "PROF_PIPE_INT_ACTIVE", "PROF_INT_UTIL_RATIO", "int_active_ratio"),
    rate_field(1076, "PROF_C2C_TX_ALL_BYTES", "c2c_tx_all_bytes_per_s"),
    rate_field(1077, "PROF_C2C_TX_DATA_BYTES", "c2c_tx_data_bytes_per_s"),
    rate_field(1078, "PROF_C2C_RX_ALL_BYTES", "c2c_rx_all_bytes_per_s"),
    rate_field(1079, "PROF_C2C_RX_DATA_BYTES", "c2c_rx_data_bytes_per_s"),
    count_field(1084, "PROF_SM_CYCLES_ELAPSED_TOTAL", "", "sm_elapsed_cycles", level="ci"),
    count_field(1085, "PROF_SM_CYCLES_ACTIVE_TOTAL", "", "sm_active_cycles", level="ci"),
    count_field(1086, "PROF_MMA_CYCLES_ACTIVE_TOTAL", "", "mma_active_cycles", level="ci"),
    count_field(1087, "PROF_DMMA_CYCLES_ACTIVE_TOTAL", "", "dmma_active_cycles", level="ci"),
    count_field(1088, "PROF_HMMA_CYCLES_ACTIVE_TOTAL", "", "hmma_active_cycles", level="ci"),
    count_field(1089, "PROF_IMMA_CYCLES_ACTIVE_TOTAL", "", "imma_active_cycles", level="ci"),
    count_field(1090, "PROF_DFMA_CYCLES_ACTIVE_TOTAL", "", "dfma_active_cycles", level="ci"),
    count_field(1091, "PROF_PCIE_TX_BYTES_TOTAL", "", "pcie_tx_bytes"),
    count_field(1092, "PROF_PCIE_RX_BYTES_TOTAL", "", "pcie_rx_bytes"),
    count_field(1093, "PROF_INT_CYCLES_ACTIVE_TOTAL", "", "int_active_cycles", level="ci"),
    count_field(1094, "PROF_FP64_CYCLES_ACTIVE_TOTAL", "", "fp64_active_cycles", level="ci"),
    count_field(1095, "PROF_FP32_CYCLES_ACTIVE_TOTAL", "", "fp32_active_cycles", level="ci"),
    count_field(1096, "PROF_FP16_CYCLES_ACTIVE_TOTAL", "", "fp16_active_cycles", level="ci"),
)
"""Interval averages of hardware counters, and their running totals."""

USE = (
    percent_field(203, "DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO", "gpu_util_ratio", "dcgm_gpu_utilization"),
    percent_field(204, "DEV_MEM_COPY_UTIL", "DEV_MEM_COPY_UTIL", "mem_copy_util_ratio", "dcgm_mem_copy_utilization"),
    percent_field(206, "DEV_ENC_UTIL", "DEV_ENC_UTIL", "enc_util_ratio", "dcgm_enc_utilization"),
    percent_field(207, "DEV_DEC_UTIL", "DEV_DEC_UTIL", "dec_util_ratio", "dcgm_dec_utilization"),
    memory_field(250, "DEV_FB_TOTAL", "fb_total_bytes"),
    memory_field(251, "DEV_FB_FREE", "fb_free_bytes", "dcgm_fb_free"),
    memory_field(252, "DEV_FB_USED", "fb_used_bytes", "dcgm_fb_used"),
    memory_field(253, "DEV_FB_RESERVED", "fb_reserved_bytes"),
    ratio_field(254, "DEV_FB_USED_PERCENT", "DEV_FB_USED_RATIO", "fb_used_ratio"),
    whole_field(190, "DEV_PSTATE", "DEV_GPU_PSTATE", "pstate", high=15.0),
    whole_field(67, "DEV_MIG_MODE", "", "mig_mode", high=1.0),
    whole_field(69, "DEV_MIG_MAX_SLICES", "", "mig_max_slices", high=1000.0),
    whole_field(5, "CUDA_DRIVER_VERSION", "", "cuda_driver_version", high=1e6, level="global"),
    whole_field(526, "DEV_VGPU_LICENSE_STATUS", "", "vgpu_license_status", high=1000.0),
)
"""Driver utilisation, memory, modes."""

BOARD = (
    plain_field(100, "DEV_SM_CLOCK", "", "sm_clock_mhz", high=MAX_CLOCK_MHZ, aliases=("dcgm_sm_clock",)),
    plain_field(101, "DEV_MEM_CLOCK", "", "mem_clock_mhz", high=MAX_CLOCK_MHZ, aliases=("dcgm_memory_clock",)),
    plain_field(113, "DEV_MAX_SM_CLOCK", "", "sm_clock_max_mhz", high=MAX_CLOCK_MHZ),
    whole_field(
        112, "DEV_CLOCK_THROTTLE_REASONS", "DEV_CLOCKS_EVENT_REASONS", "clocks_event_reasons", high=2.0**32 - 1
    ),
    plain_field(
        140,
        "DEV_MEMORY_TEMP",
        "DEV_MEMORY_TEMP_CELSIUS",
        "memory_temp_celsius",
        low=CELSIUS[0],
        high=CELSIUS[1],
        aliases=("dcgm_memory_temp",),
    ),
    plain_field(
        150,
        "DEV_GPU_TEMP",
        "DEV_GPU_TEMP_CELSIUS",
        "gpu_temp_celsius",
        low=CELSIUS[0],
        high=CELSIUS[1],
        aliases=("dcgm_gpu_temp",),
    ),
    watts_field(155, "DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", "power_watts", "dcgm_power_usage"),
    count_field(156, "DEV_TOTAL_ENERGY_CONSUMPTION", "", "energy_mj", "dcgm_total_energy_consumption"),
    watts_field(157, "DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS", "power_instant_watts"),
    watts_field(160, "DEV_POWER_MGMT_LIMIT", "DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", "power_limit_requested_watts"),
    watts_field(161, "DEV_POWER_MGMT_LIMIT_MIN", "DEV_BOARD_POWER_LIMIT_MIN_WATTS", "power_limit_min_watts"),
    watts_field(162, "DEV_POWER_MGMT_LIMIT_MAX", "DEV_BOARD_POWER_LIMIT_MAX_WATTS", "power_limit_max_watts"),
    watts_field(163, "DEV_POWER_MGMT_LIMIT_DEF", "DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS", "power_limit_default_watts"),
    watts_field(164, "DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "power_limit_watts"),
    count_field(240, "DEV_POWER_VIOLATION", "", "power_violation_ns", "dcgm_power_violation"),
    count_field(241, "DEV_THERMAL_VIOLATION", "", "thermal_violation_ns", "dcgm_thermal_violation"),
    count_field(242, "DEV_SYNC_BOOST_VIOLATION", "", "sync_boost_violation_ns", "dcgm_sync_boost_violation"),
    count_field(243, "DEV_BOARD_LIMIT_VIOLATION", "", "board_limit_violation_ns", "dcgm_board_limit_violation"),
    count_field(244, "DEV_LOW_UTIL_VIOLATION", "", "low_util_violation_ns", "dcgm_low_util_violation"),
    count_field(245, "DEV_RELIABILITY_VIOLATION", "", "reliability_violation_ns", "dcgm_reliability_violation"),
    count_field(246, "DEV_TOTAL_APP_CLOCKS_VIOLATION", "", "app_clocks_violation_ns"),
    count_field(247, "DEV_TOTAL_BASE_CLOCKS_VIOLATION", "", "base_clocks_violation_ns"),
    count_field(1420, "DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "", "sw_power_cap_ns"),
    count_field(
        1421,
        "DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS",
        "",
        "sync_boost_ns",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_COUNT_NS",
    ),
    count_field(1422, "DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "", "sw_therm_slowdown_ns"),
    count_field(1423, "DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "", "hw_therm_slowdown_ns"),
    count_field(1424, "DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "", "hw_power_brake_slowdown_ns"),
)
"""Clocks, temperatures, power, throttling: all of the whole card."""

HEALTH = (
    whole_field(230, "DEV_XID_ERRORS", "DEV_XID_ERROR", "xid_code", "dcgm_xid_errors", high=100_000.0, level="ci"),
    count_field(310, "DEV_ECC_SBE_VOL_TOTAL", "", "ecc_sbe_volatile_count", "dcgm_ecc_sbe_volatile_total"),
    count_field(311, "DEV_ECC_DBE_VOL_TOTAL", "", "ecc_dbe_volatile_count", "dcgm_ecc_dbe_volatile_total"),
    count_field(312, "DEV_ECC_SBE_AGG_TOTAL", "", "ecc_sbe_aggregate_count", "dcgm_ecc_sbe_aggregate_total"),
    count_field(313, "DEV_ECC_DBE_AGG_TOTAL", "", "ecc_dbe_aggregate_count", "dcgm_ecc_dbe_aggregate_total"),
    whole_field(346, "DEV_THRESHOLD_SRM", "DEV_SRAM_EXCEEDED", "sram_threshold_exceeded", high=1.0),
    *(
        whole_field(
            385 + at,
            f"DEV_BANKS_REMAP_ROWS_AVAIL_{word}",
            f"DEV_BANK_REMAP_AVAIL_{word}",
            f"remap_banks_{word.lower()}_count",
            high=1e9,
        )
        for at, word in enumerate(("MAX", "HIGH", "PARTIAL", "LOW", "NONE"))
    ),
    count_field(390, "DEV_RETIRED_SBE", "DEV_PAGE_RETIRED_SBE_TOTAL", "retired_sbe_pages", "dcgm_retired_pages_sbe"),
    count_field(391, "DEV_RETIRED_DBE", "DEV_PAGE_RETIRED_DBE_TOTAL", "retired_dbe_pages", "dcgm_retired_pages_dbe"),
    whole_field(
        392,
        "DEV_RETIRED_PENDING",
        "DEV_PAGE_RETIRED_PENDING",
        "retired_pending_pages",
        "dcgm_retired_pages_pending",
        high=1e9,
    ),
    count_field(
        393, "DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "remapped_uncorrectable_rows"
    ),
    count_field(394, "DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL", "remapped_correctable_rows"),
    whole_field(395, "DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED", "row_remap_failed", high=1.0),
    whole_field(396, "DEV_ROW_REMAP_PENDING", "", "row_remap_pending", high=1.0),
    plain_field(
        1503, "IMEX_DAEMON_STATUS", "", "imex_daemon_status", type="BIGINT", low=-1000.0, high=1000.0, level="global"
    ),
    whole_field(1507, "DEV_MEMORY_UNREPAIRABLE_FLAG", "DEV_MEMORY_UNREPAIRABLE", "memory_unrepairable", high=1.0),
    whole_field(1523, "DEV_GET_GPU_RECOVERY_ACTION", "DEV_GPU_RECOVERY_ACTION", "gpu_recovery_action", high=1000.0),
)
"""Errors and repairs."""

FABRIC = (
    whole_field(173, "DEV_FABRIC_CLIQUE_ID", "", "fabric_clique_id", high=2.0**32 - 1),
    whole_field(174, "DEV_FABRIC_HEALTH_MASK", "", "fabric_health_mask", high=2.0**32 - 1),
    whole_field(175, "DEV_FABRIC_HEALTH_SUMMARY", "", "fabric_health_summary", high=1000.0),
    count_field(
        202, "DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL", "pcie_replay_count", "dcgm_pcie_replay_counter"
    ),
    whole_field(235, "DEV_PCIE_MAX_LINK_GEN", "", "pcie_gen_max", high=100.0),
    whole_field(236, "DEV_PCIE_MAX_LINK_WIDTH", "", "pcie_lanes_max", high=100.0),
    whole_field(237, "DEV_PCIE_LINK_GEN", "", "pcie_gen", high=100.0),
    whole_field(238, "DEV_PCIE_LINK_WIDTH", "", "pcie_lanes", high=100.0),
    whole_field(285, "DEV_C2C_LINK_COUNT", "DEV_C2C_LINK_QUANTITY", "c2c_link_count", high=1000.0),
    whole_field(286, "DEV_C2C_LINK_STATUS", "", "c2c_link_status", high=1000.0),
    plain_field(287, "DEV_C2C_MAX_BANDWIDTH", "", "c2c_bandwidth_max_mb_per_s", high=1e9),
    *(
        count_field(
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
    plain_field(
        449,
        "DEV_NVLINK_BANDWIDTH_TOTAL",
        "DEV_NVLINK_THROUGHPUT_TOTAL",
        "nvlink_bandwidth_raw",
        kind="unclear",
        aliases=("dcgm_nvlink_bandwidth_total",),
    ),
    plain_field(843, "DEV_NVLINK_TX_BANDWIDTH_TOTAL", "DEV_NVLINK_TX_THROUGHPUT_TOTAL", "nvlink_tx_mb_per_s", high=1e9),
    plain_field(897, "DEV_NVLINK_RX_BANDWIDTH_TOTAL", "DEV_NVLINK_RX_THROUGHPUT_TOTAL", "nvlink_rx_mb_per_s", high=1e9),
    count_field(1200, "DEV_NVLINK_COUNT_TX_PACKETS", "DEV_NVLINK_TX_PACKET_TOTAL", "nvlink_tx_packets"),
    count_field(1201, "DEV_NVLINK_COUNT_TX_BYTES", "DEV_NVLINK_TX_BYTES_TOTAL", "nvlink_tx_bytes"),
    count_field(1202, "DEV_NVLINK_COUNT_RX_PACKETS", "DEV_NVLINK_RX_PACKET_TOTAL", "nvlink_rx_packets"),
    count_field(1203, "DEV_NVLINK_COUNT_RX_BYTES", "DEV_NVLINK_RX_BYTES_TOTAL", "nvlink_rx_bytes"),
)
"""PCIe, NVLink, chip-to-chip."""

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
