"""Series by number: contexts once, refusals in words, batches that stand alone."""

from __future__ import annotations

import numpy as np
import pytest

from gpuwatch.collectors.shared.series import Samples, SeriesNumbers, in_units, of_devices, points
from gpuwatch.core.model import POINT, SERIES, Rejects

NOW_US = 1_795_226_909_000_000
UTIL, SM, ENERGY = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"


def device(gpu: str) -> dict[str, str]:
    """Labels of a GPU."""
    return {"UUID": gpu, "gpu": "0", "Hostname": "n1"}


def samples(*readings: tuple[int, float], time_us: int = NOW_US) -> Samples:
    """Samples of (series, value)."""
    count = len(readings)
    return Samples(
        np.array([number for number, _ in readings], np.int32),
        np.array([value for _, value in readings], np.float64),
        np.full(count, time_us, np.int64),
        np.arange(1, count + 1, dtype=np.int64),
    )


def test_no_samples_make_no_batch() -> None:
    assert [] == list(points([], SeriesNumbers("c1")))
    assert [] == list(points([samples()], SeriesNumbers("c1")))


def test_the_fields_of_a_device_share_one_context() -> None:
    known = SeriesNumbers("c1")

    assert [0, 1, 2] == [
        known.number_of(UTIL, device("a")),
        known.number_of(SM, device("a")),
        known.number_of(SM, device("b")),
    ]
    assert ["a", "b"] == [row["gpu"] for row in known.new_contexts]


def test_contexts_are_given_out_once_and_again_after_all_is_forgotten() -> None:
    known = SeriesNumbers("c1")
    known.number_of(UTIL, device("a"))

    assert [["a"], []] == [[g for r in known.take_contexts() for g in r.rows["gpu"].to_pylist()] for _ in range(2)]

    known.forget()
    known.number_of(UTIL, device("a"))

    assert ["a"] == [row["gpu"] for row in known.new_contexts]


def test_a_series_without_a_device_is_refused_for_its_reason() -> None:
    known, rejects = SeriesNumbers("c1"), Rejects()
    numbers = [known.number_of("go_goroutines", {}), known.number_of(UTIL, {}), known.number_of(UTIL, device("a"))]
    kept = of_devices(samples(*((number, 1.0) for number in numbers)), known, "f", rejects)

    assert [-1, -2, 0] == numbers
    assert [0] == kept.series.tolist()
    assert {"ignored: not a DCGM metric": 1, "no device label": 1} == rejects.counts


def test_values_come_out_in_stored_units_and_blanks_are_reported() -> None:
    known, rejects = SeriesNumbers("c1"), Rejects()
    known.number_of(UTIL, device("a"))
    kept = in_units(samples((0, 50.0), (0, 2147483632.0), (0, 101.0)), known, "f", rejects)

    assert [0.5] == kept.value.tolist()
    assert {"blank": 1, "out of range": 1} == rejects.counts
    assert ("f", 2, f"{UTIL} 2147483632.0") == rejects.first["blank"]


@pytest.mark.parametrize(
    "others", [pytest.param(0, id="few series"), pytest.param(1000, id="few of many series are in use")]
)
def test_a_batch_numbers_its_series_from_zero(others: int) -> None:
    known = SeriesNumbers("c1")
    for number in range(others):
        known.number_of(UTIL, device(f"other{number}"))
    first, second = known.number_of(SM, device("a")), known.number_of(UTIL, device("b"))
    (batch,) = points([samples((second, 0.5), (first, 0.25)), samples((second, 0.75))], known)

    assert (SERIES, POINT) == (batch.series.schema, batch.rows.schema)
    assert [(0, "sm_active_ratio"), (1, "gpu_util_ratio")] == list(
        zip(batch.series["series"].to_pylist(), batch.series["field"].to_pylist(), strict=True)
    )
    assert [(1, 0.5), (0, 0.25), (1, 0.75)] == list(
        zip(batch.rows["series"].to_pylist(), batch.rows["value"].to_pylist(), strict=True)
    )
