"""The DCGM field table: names, units, blanks, ranges, MIG."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from gpuwatch.core.fields import FIELDS, REASONS, by_name, code_of, columns, normalise, normalise_codes

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[3] / "shared"))
MIB = 1_048_576


def one(name: str, value: float, mig: bool = False) -> tuple[float | None, dict[str, int]]:
    """The stored value (None for NULL) and the reasons of a single raw value."""
    field = by_name(name)
    assert field is not None
    values, reasons = normalise(field, np.array([value]), mig)
    return None if np.isnan(values[0]) else float(values[0]), reasons


@pytest.mark.parametrize(
    ("name", "column"),
    [
        pytest.param("DCGM_FI_PROF_SM_ACTIVE", "sm_active_ratio", id="the old name"),
        pytest.param("DCGM_FI_PROF_SM_UTIL_RATIO", "sm_active_ratio", id="the 4.6 name"),
        pytest.param("dcgm_fi_prof_sm_active", "sm_active_ratio", id="a lower-cased name"),
        pytest.param("dcgm_gpu_utilization", "gpu_util_ratio", id="a 1.x name"),
        pytest.param("DCGM_FI_DEV_PCIE_REPLAY_COUNTER_total", "pcie_replay_count", id="an OpenMetrics counter suffix"),
        pytest.param("DCGM_FI_PROF_PCIE_TX_BYTES_total", "pcie_tx_bytes_per_s", id="a suffix is not the counter field"),
        pytest.param("DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL", "pcie_tx_bytes", id="the counter field of 4.6"),
        pytest.param("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "power_limit_watts", id="the limit in force"),
        pytest.param("DCGM_FI_DEV_BOARD_POWER_RAW_WATTS", "power_instant_watts", id="instant power is its own column"),
        pytest.param("DCGM_FI_PROF_NVLINK_L17_RX_BYTES", None, id="one link of many is known, not stored"),
        pytest.param("DCGM_EXP_XID_ERRORS_COUNT", None, id="an exporter count is known, not stored"),
    ],
)
def test_every_spelling_finds_its_column(name: str, column: str | None) -> None:
    field = by_name(name)

    assert field is not None
    assert column == field.column


@pytest.mark.parametrize("name", ["", "node_cpu_seconds_total", "DCGM_FI_DEV_FROM_THE_FUTURE", "total", "_total"])
def test_other_names_are_no_field(name: str) -> None:
    assert by_name(name) is None


def test_per_link_ids_follow_their_rule() -> None:
    expected = {
        f"DCGM_FI_PROF_NVLINK_L{k}_{way}_BYTES": 1040 + 2 * k + (way == "RX") for k in range(18) for way in ("TX", "RX")
    }

    found = {name: field.id for name in expected if (field := by_name(name))}

    assert expected == found


def test_columns_have_a_type_and_are_unique() -> None:
    stored = [field.column for field in FIELDS if field.column]

    assert len(stored) == len(columns())
    assert {"DOUBLE", "BIGINT"} == {field.type for field in FIELDS}


@pytest.mark.parametrize(
    ("name", "raw", "stored"),
    [
        pytest.param("DCGM_FI_DEV_GPU_UTIL", 57.0, 0.57, id="percent becomes the nearest ratio"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL", 100.0, 1.0, id="a full percent is one"),
        pytest.param("DCGM_FI_DEV_FB_USED", 4845.0, 4845.0 * MIB, id="MiB become bytes"),
        pytest.param("DCGM_FI_DEV_POWER_USAGE", 409.692, 409.692, id="watts stay"),
        pytest.param("DCGM_FI_PROF_SM_ACTIVE", 1.0, 1.0, id="a full ratio stays"),
        pytest.param("DCGM_FI_PROF_SM_ACTIVE", 1.05, 1.0, id="a rounding above one is one"),
        pytest.param("DCGM_FI_DEV_POWER_VIOLATION", 2.0**47 + 1e6, 2.0**47 + 1e6, id="39 hours in ns is no blank"),
        pytest.param("DCGM_FI_DEV_MEMORY_TEMP", 0.0, 0.0, id="zero is a value"),
    ],
)
def test_values_arrive_in_the_stored_unit(name: str, raw: float, stored: float) -> None:
    assert (stored, {}) == one(name, raw)


@pytest.mark.parametrize("code", range(4))
@pytest.mark.parametrize("blank", [2_147_483_632, 140_737_488_355_328, 9_223_372_036_854_775_792])
@pytest.mark.parametrize("name", ["DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_FB_USED"])
def test_trap_12_blank_sentinels_are_null(name: str, blank: int, code: int) -> None:
    assert (None, {"blank": 1}) == one(name, float(blank + code))


@pytest.mark.parametrize(
    ("name", "raw", "mig", "reason"),
    [
        pytest.param("DCGM_FI_DEV_GPU_UTIL", 101.0, False, "out of range", id="more than all of the time"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL", 808_334_905.0, False, "out of range", id="the driver's wild value"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL", 4_294_967_295.0, False, "out of range", id="minus one unsigned"),
        pytest.param("DCGM_FI_PROF_SM_ACTIVE", 1.06, True, "out of range", id="trap 4: an instance above its whole"),
        pytest.param("DCGM_FI_PROF_SM_ACTIVE", -0.01, False, "out of range", id="a negative ratio"),
        pytest.param("DCGM_FI_PROF_SM_ACTIVE", float("nan"), False, "not a number", id="NaN"),
        pytest.param("DCGM_FI_DEV_POWER_USAGE", float("inf"), False, "not a number", id="infinity"),
        pytest.param(
            "DCGM_FI_DEV_GPU_UTIL", 0.0, True, "not defined on a MIG instance", id="trap 5: 0 on MIG is unknown"
        ),
        pytest.param("DCGM_FI_DEV_MEM_COPY_UTIL", 40.0, True, "not defined on a MIG instance", id="trap 5: copy too"),
    ],
)
def test_refused_values_are_null_with_a_reason(name: str, raw: float, mig: bool, reason: str) -> None:
    assert (None, {reason: 1}) == one(name, raw, mig)


def test_many_fields_at_once_equal_each_alone() -> None:
    raw = np.array([0.0, 1.02, 57.0, 4845.0, 1e20, -1.0, np.nan, 9.223372036854775807e18])
    stored_fields = [field for field in FIELDS if field.column]
    codes = np.repeat([code_of(field) for field in stored_fields], len(raw)).astype(np.int16)
    values = np.tile(raw, len(stored_fields))
    together, reasons = normalise_codes(codes, values, np.zeros(len(values), dtype=np.bool_))
    alone = np.concatenate([normalise(field, raw)[0] for field in stored_fields])

    np.testing.assert_array_equal(alone, together)
    assert bool((np.isnan(together) == (reasons != 0)).all())
    assert len(REASONS) > int(reasons.max())


def test_every_numeric_name_of_the_counters_files_has_a_column() -> None:
    folder = SHARED / "wire" / "dcgm"
    if not folder.is_dir():
        pytest.skip(f"no shared inputs at {folder}")
    missing = []
    for path in sorted(folder.glob("*.csv")):
        for row in csv.reader(filter(None, path.read_text().splitlines())):
            name, kind = row[0].strip("# \t"), row[1].strip() if len(row) > 1 else ""
            field = by_name(name) if kind in ("gauge", "counter") else None
            if kind in ("gauge", "counter") and (field is None or not field.column) and "_EXP_" not in name:
                missing.append(name)

    assert {"DCGM_FI_DEV_NVLINK_BANDWIDTH_L0"} == set(missing)  # one link: known, not stored
