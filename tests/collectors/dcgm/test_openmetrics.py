"""Files of exporter text to contexts and points: traps of real exporters, real scrapes, damaged files."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.dcgm import openmetrics
from gpuwatch.collectors.shared.device_labels import context_row
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.fields import by_name
from gpuwatch.core.model import CONTEXT, POINT, SERIES, Points, Records, Rejects, Source, device_key
from gpuwatch.core.registry import find_importer

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
WIRE = SHARED / "wire" / "dcgm"
EXPECTED = json.loads((Path(__file__).parent / "expected_scrapes" / "wire_dcgm.json").read_text())
GPU = "GPU-00000000-0000-0000-0000-00000000000a"
T_US = 1_795_226_909_000_000
SM = "DCGM_FI_PROF_SM_ACTIVE"
UTIL = "DCGM_FI_DEV_GPU_UTIL"

Reading = tuple[str, int, str, float]  # gpu, gi, column, value


class Read:
    """What an import of one file gave."""

    def __init__(self, path: Path, observed_us: int | None = T_US) -> None:
        self.rejects = Rejects()
        self.batches = list(openmetrics.read(Source(str(path), "c1", observed_us=observed_us), self.rejects))
        self.contexts: dict[int, dict[str, Any]] = {}
        self.times: list[int] = []
        self.readings: list[Reading] = []
        self.owners: list[tuple[str | None, float]] = []
        for batch in self.batches:
            if isinstance(batch, Records):
                assert ("context", CONTEXT) == (batch.table, batch.rows.schema)
                self.contexts |= {row["context_id"]: row for row in batch.rows.to_pylist()}
            else:
                assert (SERIES, POINT) == (batch.series.schema, batch.rows.schema)
                series = {row["series"]: row for row in batch.series.to_pylist()}
                for point in batch.rows.to_pylist():
                    of = series[point["series"]]
                    who = self.contexts[of["context_id"]]
                    assert who["device_id"] == of["device_id"]
                    self.readings.append((who["gpu"], who["gi"], of["field"], point["value"]))
                    self.owners.append((who["pod"], point["value"]))
                    self.times.append(point["observed_us"])


def read(tmp_path: Path, *lines: str) -> Read:
    """An import of the lines."""
    path = tmp_path / "page.prom"
    path.write_text("".join(f"{line}\n" for line in lines))
    return Read(path)


def labels(**more: str) -> str:
    """A label set of the GPU, and of what is said besides."""
    return "{" + ",".join(f'{k}="{v}"' for k, v in ({"gpu": "0", "UUID": GPU, "Hostname": "n1"} | more).items()) + "}"


def context(**more: str) -> dict[str, object]:
    """The context row of the labels."""
    row = context_row({"gpu": "0", "UUID": GPU, "Hostname": "n1"} | more, "c1")
    assert not isinstance(row, str), row
    return row


def test_trap_1_a_metric_that_is_absent_gives_no_column(tmp_path: Path) -> None:
    got = read(tmp_path, f"{UTIL}{labels()} 97", f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{labels()} 0.9")

    assert {"gpu_util_ratio", "gr_engine_ratio"} == {column for _, _, column, _ in got.readings}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"Hostname": "", "hostname": "n2"}, {"node": "n2"}, id="the host name in lower case"),
        pytest.param({"node": "n3"}, {"node": "n3"}, id="the node label comes first"),
        pytest.param({"Hostname": "", "instance": "n4:9400"}, {"node": "n4"}, id="the scrape target comes last"),
        pytest.param({"Hostname": "", "instance": "[fd00::7]:9400"}, {"node": "fd00::7"}, id="an IPv6 target"),
        pytest.param({"UUID": "", "uuid": "GPU-b"}, {"gpu": "GPU-b"}, id="the UUID in lower case"),
        pytest.param({"UUID": ""}, {"gpu": "n1/gpu0"}, id="no UUID: host and number"),
        pytest.param(
            {"UUID": "", "gpu": "", "device": "nvidia3"}, {"gpu": "n1/gpu3", "gpu_index": 3}, id="a device file name"
        ),
        pytest.param(
            {"pod_name": "p", "pod_namespace": "ns", "container_name": "c"},
            {"pod": "p", "namespace": "ns", "container": "c"},
            id="the old pod labels",
        ),
        pytest.param(
            {"exported_pod": "p", "exported_namespace": "ns", "pod": "dcgm-x", "namespace": "ops"},
            {"pod": "p", "namespace": "ns"},
            id="with exported labels the plain ones are the exporter's",
        ),
        pytest.param(
            {"exported_pod": "", "pod": "dcgm-x", "namespace": "ops"},
            {"pod": None, "namespace": None},
            id="an empty exported label is a GPU without workload",
        ),
        pytest.param(
            {"pod": "nvidia-dcgm-exporter-7k2vq", "namespace": "gpu-operator", "container": "nvidia-dcgm-exporter"},
            {"pod": None, "namespace": None, "container": None},
            id="the exporter is no workload",
        ),
        pytest.param({"hpc_job": "4711"}, {"job": "4711"}, id="a Slurm job"),
        pytest.param({"modelName": "NVIDIA H100"}, {"model": "NVIDIA H100"}, id="the model"),
        pytest.param({"DCGM_FI_SYSTEM_DRIVER_VERSION": "595.58"}, {"driver": "595.58"}, id="the driver's new name"),
    ],
)
def test_trap_2_label_spellings(given: dict[str, str], expected: dict[str, object]) -> None:
    row = context(**given)

    assert expected == {name: row[name] for name in expected}


def test_trap_2_lower_cased_metric_names(tmp_path: Path) -> None:
    assert [(GPU, -1, "sm_active_ratio", 0.5)] == read(tmp_path, f"{SM.lower()}{labels()} 0.5").readings


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param({"UUID": "", "gpu": ""}, "no device label", id="nothing names the device"),
        pytest.param({"UUID": "", "Hostname": ""}, "no device label", id="a number without a host"),
        pytest.param({"GPU_I_ID": "x"}, "GPU_I_ID is not a MIG instance number", id="an instance that is no number"),
        pytest.param({"GPU_I_PROFILE": "1g.10gb"}, "MIG row without GPU_I_ID", id="a profile alone"),
        pytest.param({"UUID": "MIG-5a"}, "UUID names a MIG instance, not its GPU", id="an instance without its GPU"),
    ],
)
def test_labels_that_name_no_device_are_refused(given: dict[str, str], reason: str) -> None:
    assert reason == context_row({"gpu": "0", "UUID": GPU, "Hostname": "n1"} | given, "c1")


def test_trap_3_an_instance_is_its_number_whatever_the_profile_says() -> None:
    right, wrong = (context(GPU_I_ID="7", GPU_I_PROFILE=profile) for profile in ("1g.12gb", "1g.11gb"))

    assert [device_key("c1", GPU, 7)] * 2 == [right["device_id"], wrong["device_id"]]
    assert context(UUID=f"MIG-{GPU}/7/0")["device_id"] == right["device_id"]


def test_trap_4_a_ratio_above_one_on_an_instance_is_clamped_or_kept_as_an_example(tmp_path: Path) -> None:
    mig = labels(GPU_I_ID="1", GPU_I_PROFILE="1g.10gb")
    got = read(tmp_path, f"{SM}{mig} 1.04", f"{SM}{mig} 1.75")

    assert [(GPU, 1, "sm_active_ratio", 1.0)] == got.readings
    assert {"out of range": 1} == got.rejects.counts
    assert (str(tmp_path / "page.prom"), 2, f"{SM} 1.75") == got.rejects.first["out of range"]


def test_trap_5_gpu_util_on_an_instance_is_unknown(tmp_path: Path) -> None:
    got = read(tmp_path, f"{UTIL}{labels(GPU_I_ID='0')} 0", f"{UTIL}{labels()} 40")

    assert [(GPU, -1, "gpu_util_ratio", 0.4)] == got.readings
    assert {"not defined on a MIG instance": 1} == got.rejects.counts


def test_trap_6_power_of_the_card_stays_on_each_row_and_is_named_so(tmp_path: Path) -> None:
    names = ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"]
    got = read(tmp_path, *(f"{name}{labels(GPU_I_ID=gi)} 300" for name in names for gi in "12"))

    assert {1: 3, 2: 3} == Counter(gi for _, gi, _, _ in got.readings)
    assert ["gpu"] * 3 == [field.level for name in names if (field := by_name(name))]


def test_trap_7_a_time_sliced_gpu_is_one_device_with_several_contexts(tmp_path: Path) -> None:
    got = read(tmp_path, *(f"{SM}{labels(pod=pod, namespace='ml')} 0.6" for pod in ("a", "b")))

    assert 1 == len({row["device_id"] for row in got.contexts.values()})
    assert [("a", 0.6), ("b", 0.6)] == got.owners


def test_trap_8_per_process_use_and_per_device_profiling_keep_their_own_contexts(tmp_path: Path) -> None:
    got = read(tmp_path, f"{UTIL}{labels(pod='a')} 30", f"{UTIL}{labels(pod='b')} 60", f"{SM}{labels()} 0.7")

    assert [("a", 0.3), ("b", 0.6), (None, 0.7)] == got.owners


def test_trap_11_a_gpu_with_several_jobs_keeps_one_context_a_job(tmp_path: Path) -> None:
    got = read(tmp_path, *(f"{SM}{labels(hpc_job=job)} 0.6" for job in ("11", "12")))

    assert {"11", "12"} == {row["job"] for row in got.contexts.values()}
    assert 1 == len({row["device_id"] for row in got.contexts.values()})


def test_trap_12_blanks_become_null_and_are_counted(tmp_path: Path) -> None:
    got = read(tmp_path, f"DCGM_FI_DEV_MEMORY_TEMP{labels()} 9223372036854775794", f"{SM}{labels()} 0")

    assert [(GPU, -1, "sm_active_ratio", 0.0)] == got.readings
    assert {"blank": 1} == got.rejects.counts


def test_trap_15_pod_churn_makes_contexts_and_no_devices(tmp_path: Path) -> None:
    got = read(tmp_path, *(f"{SM}{labels(exported_pod=f'p-{n}')} 0.5" for n in range(30)))

    assert 30 == len(got.contexts)
    assert {device_key("c1", GPU)} == {row["device_id"] for row in got.contexts.values()}


def test_trap_16_a_scrape_without_pod_labels_says_nothing_about_the_owner(tmp_path: Path) -> None:
    lines = [
        f"{SM}{labels(**more)} 0.5 {T_US // 1000 + at}" for at, more in enumerate([{"pod": "a"}, {}, {"pod": "a"}])
    ]
    got = read(tmp_path, *lines)

    assert ["a", None, "a"] == [pod for pod, _ in got.owners]
    assert 2 == len(got.contexts)


def test_lines_without_time_take_the_time_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "page.prom"
    path.write_text(f"{SM}{labels()} 0.5\n{SM}{labels()} 0.6 1795226909.25\n")
    os.utime(path, ns=(T_US * 1000 + 5000, T_US * 1000 + 5000))

    assert [T_US + 5, T_US + 250_000] == Read(path, observed_us=None).times
    assert [7, T_US + 250_000] == Read(path, observed_us=7).times


def test_other_metrics_are_distinguished_as_ignored(tmp_path: Path) -> None:
    got = read(
        tmp_path,
        "go_goroutines 12",
        'node_cpu_seconds_total{cpu="0"} 5',
        f"DCGM_FI_DEV_FROM_THE_FUTURE{labels()} 5",
        f"DCGM_FI_PROF_NVLINK_L3_TX_BYTES{labels()} 5",
        f"DCGM_EXP_XID_ERRORS_COUNT{labels(xid='79')} 5",
        f'{SM}{{pod="a"}} 0.5',
        f"{SM}{labels()} 0.5",
    )

    assert 1 == len(got.readings)
    assert {
        "ignored: not a DCGM metric": 2,
        "ignored: DCGM field not known": 1,
        "ignored: field known but not stored": 2,
        "no device label": 1,
    } == got.rejects.counts


PAGE = "".join(f"{SM}{labels(pod=f'p{n}')} 0.{n:03d} {T_US // 1000 + n}\n" for n in range(500)).encode()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(gzip.compress(PAGE), id="gzip"),
        pytest.param(gzip.compress(PAGE[:1000]) + gzip.compress(PAGE[1000:]), id="two gzip members"),
        pytest.param(PAGE.replace(b"\n", b"\r\n"), id="carriage returns"),
        pytest.param(PAGE[:-1], id="no line feed at the end"),
    ],
)
def test_packed_files_give_the_same_points(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "named-like-nothing"
    path.write_bytes(data)
    got = Read(path)

    assert [float(f"0.{n:03d}") for n in range(500)] == [value for *_, value in got.readings]
    assert {} == got.rejects.counts


@pytest.mark.parametrize("frames", [1, 2])
def test_zstd_gives_the_same_points(tmp_path: Path, frames: int) -> None:
    zstandard = pytest.importorskip("zstandard", reason="writes streamed zstd frames for this test")
    pack = zstandard.ZstdCompressor().compress
    path = tmp_path / "page.prom.zst"
    path.write_bytes(pack(PAGE) if frames == 1 else pack(PAGE[:999]) + pack(PAGE[999:]))

    assert 500 == len(Read(path).readings)


def test_a_torn_zstd_file_keeps_what_came_before(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard", reason="writes streamed zstd frames for this test")
    path = tmp_path / "page.prom.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(PAGE * 20)[:-40])
    got = Read(path)

    assert 5_000 < len(got.readings) < 10_000
    assert [float(f"0.{n % 500:03d}") for n in range(len(got.readings))] == [value for *_, value in got.readings]
    assert 1 == got.rejects.counts["compressed data is damaged; what follows is lost"]


def test_a_torn_gzip_keeps_whole_lines_and_invents_none(tmp_path: Path) -> None:
    path = tmp_path / "page.prom.gz"
    packed = gzip.compress(PAGE)
    for cut in range(len(packed) // 2, len(packed) - 8, 97):
        path.write_bytes(packed[:cut])
        got = Read(path)
        assert 200 < len(got.readings) <= 500
        assert [float(f"0.{n:03d}") for n in range(len(got.readings))] == [value for *_, value in got.readings]
        assert 1 == got.rejects.counts["compressed data is damaged; what follows is lost"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "no DCGM sample in it", id="an empty file"),
        pytest.param(bytes(range(256)) * 50, "no DCGM sample in it", id="a binary file"),
        pytest.param(b"\0" * 300_000, "no DCGM sample in it", id="zeros"),
        pytest.param(PAGE.decode().encode("utf-16"), "is UTF-16 text; save it as UTF-8", id="UTF-16"),
        pytest.param(PAGE.decode().encode("utf-16-le"), "no DCGM sample in it", id="UTF-16 without its mark"),
        pytest.param(b"JobID|State\n1|COMPLETED\n", "no DCGM sample in it", id="another kind of file"),
        pytest.param(b"go_goroutines 12\n", "no DCGM sample in it", id="metrics of something else"),
        pytest.param(b"\x1f\x8b\x08", "no DCGM sample in it", id="the start of a gzip file"),
    ],
)
def test_wholly_unreadable_files_are_named(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "page.prom"
    path.write_bytes(data)

    with pytest.raises(UnreadableInput, match=f"{re.escape(str(path))}: {message}"):
        Read(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.prom", tmp_path):
        with pytest.raises(UnreadableInput, match=f"{re.escape(str(path))}: .*; check the path"):
            Read(path)


def test_a_huge_line_in_a_sparse_file_takes_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "page.prom"
    with path.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + PAGE)
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    got = Read(path)

    assert 500 == len(got.readings)
    assert {"line longer than 65536 bytes": 1} == got.rejects.counts
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before < 200_000_000


def test_small_bounds_give_the_same_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.prom"
    path.write_bytes(PAGE + PAGE)
    whole = Read(path)
    monkeypatch.setattr(openmetrics, "BATCH_POINTS", 100)
    monkeypatch.setattr(openmetrics, "MAX_SERIES", 70)
    monkeypatch.setattr(openmetrics, "MAX_PENDING_CONTEXTS", 9)
    monkeypatch.setattr("gpuwatch.collectors.dcgm.exposition.BLOCK_BYTES", 4096)
    small = Read(path)

    assert 1 == sum(isinstance(batch, Points) for batch in whole.batches)
    assert sum(isinstance(batch, Points) for batch in small.batches) > 5
    assert whole.readings == small.readings
    assert whole.contexts == small.contexts


def test_reading_twice_gives_the_same_keys(tmp_path: Path) -> None:
    path = tmp_path / "page.prom"
    path.write_bytes(PAGE)

    assert Read(path).contexts == Read(path).contexts


def test_the_import_kind_is_registered() -> None:
    kind = find_importer("openmetrics")

    assert kind.read is openmetrics.read
    assert {".prom", ".prom.gz", ".prom.zst"} <= set(kind.suffixes)


def slow_reading(path: Path) -> Counter[Reading]:
    """The same file read another way: one regular expression, one unit rule a name, blanks by size."""
    found: Counter[Reading] = Counter()
    for name, body, value in re.findall(r"^([A-Z_0-9]+)\{(.*)\} (\S+)$", path.read_text(), re.MULTILINE):
        marks = dict(re.findall(r'(\w+)="([^"]*)"', body))
        field = by_name(name)
        if "..." in body or field is None or field.column is None or float(value) > 1e18:
            continue
        number = float(value)
        if name.endswith(("GPU_UTIL", "COPY_UTIL", "ENC_UTIL", "DEC_UTIL")):
            number = number / 100
        if "_FB_" in name:
            number = number * 1024 * 1024
        found[marks["UUID"], int(marks.get("GPU_I_ID", -1)), field.column, number] += 1
    return found


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_real_scrapes_lose_nothing_and_gain_nothing(name: str) -> None:
    if not (WIRE / name).is_file():
        pytest.skip(f"no shared inputs at {WIRE}")
    expected, got = EXPECTED[name], Read(WIRE / name)

    assert expected["points"] == len(got.readings)
    assert expected["devices"] == sorted([gpu, gi] for gpu, gi in {reading[:2] for reading in got.readings})
    assert expected["refused"] == got.rejects.counts
    assert [] == [value for value in map(tuple, expected["values"]) if value not in got.readings]
    assert slow_reading(WIRE / name) == Counter(got.readings)


def test_every_real_scrape_has_its_expected_rows() -> None:
    if not WIRE.is_dir():
        pytest.skip(f"no shared inputs at {WIRE}")

    assert sorted(EXPECTED) == sorted(path.name for path in WIRE.glob("*.prom"))


def test_lines_to_be_refused_are_refused_one_by_one() -> None:
    path = WIRE / "l40s_x2_viettel.rejected_lines.txt"
    if not path.is_file():
        pytest.skip(f"no shared inputs at {WIRE}")
    rejects = Rejects()
    with pytest.raises(UnreadableInput, match="no DCGM sample in it"):
        list(openmetrics.read(Source(str(path), "c1"), rejects))

    assert {"not a Prometheus sample line": 18} == rejects.counts
