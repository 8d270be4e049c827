"""GenTD26 readings: column order, exact times, refused rows, and the published totals."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import CONTEXT, POINT, SERIES, Points, Rejects, Source, context_key, device_key
from gpuwatch.core.registry import find_importer

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
TRACE = SHARED / "data/gentd26_public"
DUTY, MEMORY = "pod_gpu_duty_cycle_anon.csv", "pod_gpu_memory_used_bytes_anon.csv"

Reading = tuple[str, str, int, float]


def read(path: Path, rejects: Rejects) -> tuple[list[dict[str, object]], list[Reading]]:
    """(context rows, [(pod, field, time, value)])."""
    contexts: list[dict[str, object]] = []
    readings: list[Reading] = []
    for batch in find_importer("trace-gentd26").read(Source(str(path), "c1"), rejects):
        if isinstance(batch, Points):
            assert (SERIES, POINT) == (batch.series.schema, batch.rows.schema)
            pods = {row["context_id"]: str(row["pod"]) for row in contexts}
            by_name = {s["series"]: (pods[s["context_id"]], s["field"]) for s in batch.series.to_pylist()}
            readings += [(*by_name[r["series"]], r["observed_us"], r["value"]) for r in batch.rows.to_pylist()]
        else:
            assert CONTEXT == batch.rows.schema
            contexts += batch.rows.to_pylist()
    return contexts, readings


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    (tmp_path / DUTY).write_text("value,timestamp_anon,container_ip\n50.0,10.0,p1\n100,10.000001,p2\n")
    with gzip.open(tmp_path / f"{MEMORY}.gz", "wt") as file:
        file.write("timestamp_anon,value,container_ip\n10.5,2048.0,p1\n")
    rejects = Rejects()
    contexts, readings = read(tmp_path, rejects)

    assert [
        ("p1", "gpu_util_ratio", 10_000_000, 0.5),
        ("p2", "gpu_util_ratio", 10_000_001, 1.0),
        ("p1", "fb_used_bytes", 10_500_000, 2048.0),
    ] == readings
    assert [("gentd26-p1", "gentd26", None, None), ("gentd26-p2", "gentd26", None, None)] == [
        (c["gpu"], c["namespace"], c["node"], c["model"]) for c in contexts
    ]
    assert [(device_key("c1", str(c["gpu"])), context_key(c)) for c in contexts] == [
        (c["device_id"], c["context_id"]) for c in contexts
    ]
    assert {} == rejects.counts


def test_bad_rows_are_refused_by_line(tmp_path: Path) -> None:
    rows = ["0,1,p", "x,2,p", "0,3", "0,4,", "", "101,6,p", "-1,7,p", "0,soon,p", "nan,9,p", "9,10,p"]
    (tmp_path / DUTY).write_text("value,timestamp_anon,container_ip\n" + "\n".join(rows) + "\n")
    rejects = Rejects()

    assert [1 * SECOND_US, 10 * SECOND_US] == [r[2] for r in read(tmp_path / DUTY, rejects)[1]]
    assert {
        "row has 2 columns, not 3": 4,
        "no pod id": 5,
        "timestamp is not a number of seconds": 9,
        "value is not a number": 3,
        "value is outside 0..100": 7,
    } == {reason: line for reason, (_, line, _) in rejects.first.items()}
    assert 8 == rejects.total


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"a,b\n1,2\n", id="other columns"),
        pytest.param(bytes(range(256)), id="binary"),
    ],
)
def test_unreadable(tmp_path: Path, body: bytes) -> None:
    (tmp_path / DUTY).write_bytes(body)

    with pytest.raises(UnreadableInput, match=DUTY):
        read(tmp_path, Rejects())


def test_a_directory_without_the_trace(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="neither"):
        read(tmp_path, Rejects())


def test_half_of_the_trace_is_named(tmp_path: Path) -> None:
    (tmp_path / DUTY).write_text("value,timestamp_anon,container_ip\n0,1,p\n")
    rejects = Rejects()

    assert 1 == len(read(tmp_path, rejects)[1])
    assert [f"missing: {MEMORY}(.gz), no fb_used_bytes"] == list(rejects.counts)


def test_a_gzip_stream_that_breaks_off_is_reported(tmp_path: Path) -> None:
    body = gzip.compress(b"value,timestamp_anon,container_ip\n" + b"".join(b"%d,1,p\n" % (i % 90) for i in range(9999)))
    (tmp_path / f"{DUTY}.gz").write_bytes(body[:-30])

    with pytest.raises(UnreadableInput, match="gz"):
        read(tmp_path, Rejects())


def test_the_published_totals() -> None:
    if not TRACE.is_dir():
        pytest.skip(f"{TRACE} is absent: set GPUWATCH_SHARED")
    expected = json.loads((TRACE / "expected.json").read_text())
    rejects = Rejects()
    contexts, readings = read(TRACE, rejects)
    duty = [r for r in readings if r[1] == "gpu_util_ratio"]
    totals = expected["totals"]

    assert (totals["pods"], totals["duty_samples"], totals["memory_samples"], 0) == (
        len(contexts),
        len(duty),
        len(readings) - len(duty),
        rejects.total,
    )
    pod, entry = next(iter(expected["pods"].items()))
    values = [r[3] for r in duty if r[0] == pod]
    memory = [r[3] for r in readings if r[0] == pod and r[1] == "fb_used_bytes"]
    times = [r[2] for r in readings if r[0] == pod]
    assert (entry["duty_samples"], entry["duty_mean_pct"]) == (len(values), round(100 * sum(values) / len(values), 6))
    assert (entry["memory_min_bytes"], entry["memory_max_bytes"]) == (int(min(memory)), int(max(memory)))
    assert (entry["first_timestamp"] * SECOND_US, entry["last_timestamp"] * SECOND_US) == (min(times), max(times))
