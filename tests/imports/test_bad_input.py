"""Bad input end to end: good lines stay, each reason is named once with file and line, memory stays bounded."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.imports.files import ImportReport, import_paths
from gpuwatch.policy.repository import load_team_rules
from gpuwatch.rates.repository import load_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.patience import PATIENCE_S

T0_MS = 1_793_577_600_000
MIB = 2**20
SLOW = pytest.mark.skipif(os.environ.get("GPUWATCH_SLOW") != "1", reason="takes long: set GPUWATCH_SLOW=1")


def line(number: int = 0, value: object = 50, gpu: str = "GPU-a", extra: str = "") -> str:
    """A line of dcgm-exporter, a minute after the one before."""
    labels = f'gpu="0",UUID="{gpu}",Hostname="n1",modelName="NVIDIA H100 80GB HBM3"{extra}'
    return f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {value} {T0_MS + 60_000 * number}\n"


GOOD = "".join(line(n) for n in range(5)).encode()
NOISE = random.Random(7).randbytes(4096)
SACCT = (
    "JobID|JobIDRaw|User|Account|Partition|QOS|JobName|State|Submit|Start|End|ElapsedRaw|NNodes|NodeList|AllocTRES\n"
    "1|1|ann|vision|gpu|normal|a|COMPLETED|2026-11-02T09:00:00|2026-11-02T09:00:00|2026-11-02T10:00:00|3600|1|n1|"
    "gres/gpu=1\n"
)


class Desk:
    """A store and state in a folder, and a place to write files."""

    def __init__(self, folder: Path, store: Store, state: State) -> None:
        self.folder, self.store, self.state = folder, store, state

    def write(self, name: str, data: bytes | str) -> Path:
        path = self.folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def load(self, kind: str, *paths: Path) -> ImportReport:
        cluster = None if kind == "bundle" else "c1"
        return import_paths(self.store, self.state, kind, paths, cluster=cluster, now_us=0)

    def rows(self) -> int:
        return int(self.store.sql("select (select count(*) from sample) + (select count(*) from sample_tail)")[0][0])

    def rejects(self) -> list[tuple[object, ...]]:
        """(file name, reason, count, line) as stored."""
        rows = self.store.sql("select path, reason, count, line from reject order by all")
        return [(Path(path).name, *rest) for path, *rest in rows]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Store.open(None, threads=1) as store, State.open(tmp_path / "state") as state:
        yield Desk(tmp_path, store, state)


@pytest.fixture(scope="module")
def empty_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One for all files that are refused whole: each leaves it as empty as it was."""
    folder = tmp_path_factory.mktemp("refused")
    with Store.open(None, threads=1) as store, State.open(folder / "state") as state:
        yield Desk(folder, store, state)


UNREADABLE: list[tuple[str, bytes]] = [
    ("empty", b""),
    ("binary", NOISE),
    ("UTF-16", GOOD.decode().encode("utf-16")),
    ("a gzip header and nothing more", gzip.compress(GOOD)[:12]),
    ("HTML of a login page", b"<!DOCTYPE html>\n<html><body>Sign in</body></html>\n"),
]
KINDS = ("openmetrics", "sacct", "scontrol", "k8s-json", "topo", "slurm-topology", "trace-gentd26")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("what", "data"), UNREADABLE, ids=[what for what, _ in UNREADABLE])
def test_a_wholly_unreadable_file_is_refused_by_name(empty_desk: Desk, kind: str, what: str, data: bytes) -> None:
    name = "pod_gpu_duty_cycle_anon.csv" if kind == "trace-gentd26" else "file.txt"
    file = empty_desk.write(name, data)
    with pytest.raises(UnreadableInput) as caught:
        empty_desk.load(kind, file)

    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert 0 == empty_desk.rows()
    assert [] == empty_desk.store.sql("select * from import_file")
    assert [] == empty_desk.store.sql("select * from claim")


WRONG_KIND = [("openmetrics", SACCT), *((kind, GOOD.decode()) for kind in KINDS if kind != "openmetrics")]


@pytest.mark.parametrize(("kind", "text"), WRONG_KIND, ids=[f"not {kind}" for kind, _ in WRONG_KIND])
def test_a_file_of_another_kind_is_refused(empty_desk: Desk, kind: str, text: str) -> None:
    with pytest.raises(UnreadableInput, match="other.txt"):
        empty_desk.load(kind, empty_desk.write("other.txt", text))

    assert (0, []) == (empty_desk.rows(), empty_desk.store.sql("select * from claim"))


TORN = [
    pytest.param(GOOD[:-30], [("f.prom", "not a Prometheus sample line", 1, 5)], 4, id="cut in the labels"),
    pytest.param(GOOD[: GOOD.rindex(b" ")], [("f.prom", "last line is torn", 1, 5)], 4, id="cut after the value"),
    pytest.param(GOOD[:-1], [], 5, id="only the last newline is missing"),
    pytest.param(
        GOOD + b"garbage here\n" + line(9).encode(),
        [("f.prom", "value or timestamp is not a number", 1, 6)],
        6,
        id="one line of garbage",
    ),
    pytest.param(
        GOOD + b"garbage here\nmore garbage\n" + line(9).encode(),
        [("f.prom", "value or timestamp is not a number", 2, 6)],
        6,
        id="a reason is named once, with its first line and its count",
    ),
    pytest.param(
        GOOD + b"\0\0\0\n" + line(9).encode(), [("f.prom", "not UTF-8 text", 1, 6)], 6, id="zeros after a power cut"
    ),
    pytest.param(GOOD.replace(b"\n", b"\r\n"), [], 5, id="line ends of Windows"),
    pytest.param(
        GOOD + b"A" * 200_000 + b"\n" + line(9).encode(),
        [("f.prom", "line longer than 65536 bytes", 1, 6)],
        6,
        id="a long line among good ones",
    ),
]


@pytest.mark.parametrize(("data", "rejects", "rows"), TORN)
def test_good_lines_stay_and_bad_ones_are_counted(
    desk: Desk, data: bytes, rejects: list[tuple[object, ...]], rows: int
) -> None:
    report = desk.load("openmetrics", desk.write("f.prom", data))

    assert rejects == desk.rejects()
    assert rows == desk.rows()
    assert sum(int(str(r[2])) for r in rejects) == report.rejected


def test_a_torn_gzip_keeps_what_came_before(desk: Desk) -> None:
    chance = random.Random(1)
    packed = gzip.compress("".join(line(n, chance.random()) for n in range(5_000)).encode())
    desk.load("openmetrics", desk.write("f.prom.gz", packed[: len(packed) // 2]))
    kept = desk.rows()

    assert 1_000 < kept < 4_000
    assert "compressed data is damaged; what follows is lost" in [reason for _, reason, _, _ in desk.rejects()]


def test_a_bad_sacct_line_is_refused_alone(desk: Desk) -> None:
    desk.load(
        "sacct", desk.write("sacct.txt", SACCT + "2|2|bob|x\n" + SACCT.splitlines()[1].replace("1|1|", "3|3|") + "\n")
    )

    assert [("1",), ("3",)] == desk.store.sql("select job_id from claim order by 1")
    assert [("sacct.txt", 1, 3)] == [(name, count, at) for name, _, count, at in desk.rejects()]


# Directories and bundles ------------------------------------------------------------------------------------------


def test_a_missing_path_is_refused_by_name(desk: Desk) -> None:
    with pytest.raises(UnreadableInput, match="nowhere: no such file"):
        desk.load("openmetrics", desk.folder / "nowhere")


def test_a_directory_without_a_file_of_the_kind_is_refused(desk: Desk) -> None:
    folder = desk.write("folder/readme.md", "nothing here").parent
    with pytest.raises(UnreadableInput, match="no file of kind openmetrics"):
        desk.load("openmetrics", folder)


def test_a_bundle_with_nothing_to_import_is_refused(desk: Desk) -> None:
    folder = desk.write("folder/readme.md", "nothing here").parent
    with pytest.raises(UnreadableInput, match="folder"):
        desk.load("bundle", folder)


def test_one_bad_file_of_a_bundle_does_not_stop_the_others(desk: Desk) -> None:
    bad = desk.write("b/metrics/a.prom", NOISE)
    desk.write("b/metrics/b.prom", GOOD)
    desk.write("b/slurm/sacct.txt", SACCT)
    report = desk.load("bundle", desk.folder / "in/b")

    assert (5, 1) == (desk.rows(), desk.store.sql("select count(*) from claim")[0][0])
    assert 2 == report.files
    assert 1 == len(report.unreadable)
    assert str(bad) in report.unreadable[0]


def test_a_bundle_of_bad_files_only_is_refused(desk: Desk) -> None:
    desk.write("b/metrics/a.prom", NOISE)
    with pytest.raises(UnreadableInput, match=r"a\.prom"):
        desk.load("bundle", desk.folder / "in/b")


def test_a_good_file_beside_a_named_bad_one_is_kept(desk: Desk) -> None:
    good, bad = desk.write("good.prom", GOOD), desk.write("bad.prom", NOISE)
    with pytest.raises(UnreadableInput, match=r"bad\.prom"):
        desk.load("openmetrics", bad, good)

    assert 5 == desk.rows()


def test_a_wrong_time_zone_names_file_and_key(desk: Desk) -> None:
    desk.write("b/bundle.toml", 'cluster = "c1"\ntimezone = "Mars/Base"\n')
    desk.write("b/metrics/a.prom", GOOD)
    with pytest.raises(UsageError, match=r"bundle\.toml: key timezone: .*Mars/Base"):
        desk.load("bundle", desk.folder / "in/b")


def test_bad_rows_of_rates_and_teams_are_reported_with_file_and_line(desk: Desk) -> None:
    desk.write("b/metrics/a.prom", GOOD)
    head = "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to\n"
    desk.write(
        "b/rates.csv", head + "H100,on_demand,much,2026-01-01T00:00:00Z,\nH100,on_demand,2.5,2026-01-01T00:00:00Z,\n"
    )
    desk.write("b/teams.csv", "match_kind,match,team\nplanet,x,y\naccount,a,t\n")
    report = desk.load("bundle", desk.folder / "in/b")
    named = {(Path(file).name, at) for r in report.rejects for file, at, _ in r.first.values()}

    assert {("rates.csv", 2), ("teams.csv", 2)} == named
    assert (1, 1) == (len(load_rates(desk.state)), len(load_team_rules(desk.state)))


def test_an_unreadable_rate_card_does_not_stop_the_metrics(desk: Desk) -> None:
    desk.write("b/metrics/a.prom", GOOD)
    desk.write("b/rates.csv", NOISE)
    report = desk.load("bundle", desk.folder / "in/b")

    assert 5 == desk.rows()
    assert ["rates.csv"] == [name for name in ("rates.csv",) if name in " ".join(report.unreadable)]


def test_a_path_with_a_newline_is_imported_and_named(desk: Desk) -> None:
    file = desk.write("two\nlines.prom", GOOD + b"garbage here\n")
    desk.load("openmetrics", file)

    assert [("two\nlines.prom", "value or timestamp is not a number", 1, 6)] == desk.rejects()


def test_a_file_without_permission_is_refused(desk: Desk) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    file = desk.write("f.prom", GOOD)
    file.chmod(0)
    with pytest.raises(UnreadableInput, match="Permission denied"):
        desk.load("openmetrics", file)


def test_a_file_that_grows_while_it_is_read_is_completed_by_the_next_import(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = desk.write("f.prom", GOOD)
    grown = GOOD + line(5).encode()
    append: Callable[..., int] = Store.append

    def append_late(store: Store, *given: object) -> int:
        file.write_bytes(grown)
        return append(store, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "append", append_late)
        desk.load("openmetrics", file)
    desk.load("openmetrics", file)

    assert 6 == desk.rows()


# Bounded memory and time, in a process of its own ------------------------------------------------------------------

CHILD = """
import json, resource, sys
from pathlib import Path
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.imports.files import import_paths
from gpuwatch.state import State
from gpuwatch.store.database import Store

kind, file, data = sys.argv[1:]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
store, state = Store.open(Path(data), threads=1), State.open(Path(data))
warm = Path(data) / "warm.prom"
warm.write_text('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-w",Hostname="n0"} 1 1793577600000\\n')
import_paths(store, state, "openmetrics", [warm], cluster="warm", now_us=0)
before, error, counts = peak(), "", {}
try:
    report = import_paths(store, state, kind, [Path(file)], cluster="c1", now_us=0)
    counts = {k: v for r in report.rejects for k, v in r.counts.items()}
except GpuwatchError as problem:
    error = str(problem)
rows = store.sql("select count(*) from sample s join context c using (context_id) where c.cluster = 'c1'")[0][0]
print(json.dumps({"growth": peak() - before, "rows": rows, "counts": counts, "error": error}))
"""


def in_a_child(desk: Desk, kind: str, file: Path) -> dict[str, object]:
    """Imports in a fresh process: rows, rejects, the error if any, and growth of peak memory in bytes."""
    command = [sys.executable, "-c", CHILD, kind, str(file), str(desk.folder / "data")]
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S)
    document: dict[str, object] = json.loads(done.stdout)
    return document


def write_long_line(path: Path, size: int, pack: bool) -> None:
    """Good lines and then one of `size` bytes without an end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb", compresslevel=1) if pack else path.open("wb") as file:
        file.write(GOOD)
        for _ in range(size // MIB):
            file.write(b"A" * MIB)


LONG_LINES = [
    pytest.param(64 * MIB, False, id="64 MB without a newline"),
    pytest.param(256 * MIB, True, id="256 MB of one letter, packed"),
    pytest.param(1024 * MIB, True, id="1 GB of one letter, packed", marks=SLOW),
    pytest.param(1024 * MIB, False, id="1 GB without a newline", marks=SLOW),
]


@pytest.mark.parametrize(("size", "pack"), LONG_LINES)
def test_a_line_without_end_takes_no_memory(desk: Desk, size: int, pack: bool) -> None:
    file = desk.folder / "in/long.prom"
    write_long_line(file, size, pack)
    result = in_a_child(desk, "openmetrics", file)

    assert 5 == result["rows"]
    assert {"line longer than 65536 bytes": 1} == result["counts"]
    assert int(str(result["growth"])) < 96 * MIB


def test_a_long_line_given_as_json_is_refused(desk: Desk) -> None:
    file = desk.folder / "in/long.json"
    write_long_line(file, 64 * MIB, pack=True)
    result = in_a_child(desk, "k8s-json", file)

    assert "long.json" in str(result["error"])
    assert int(str(result["growth"])) < 256 * MIB


REPEATS = [
    pytest.param(20 * MIB, id="20 MB of repeated lines"),
    pytest.param(100 * MIB, id="100 MB of repeated lines", marks=SLOW),
]


@pytest.mark.parametrize("size", REPEATS)
def test_a_packed_flood_of_repeated_lines_is_a_few_rows(desk: Desk, size: int) -> None:
    file = desk.folder / "in/flood.prom.gz"
    file.parent.mkdir()
    with gzip.open(file, "wb", compresslevel=1) as stream:
        for _ in range(size // len(GOOD)):
            stream.write(GOOD)
    result = in_a_child(desk, "openmetrics", file)

    assert (5, {}, "") == (result["rows"], result["counts"], result["error"])
    assert int(str(result["growth"])) < 256 * MIB


LABEL_SETS = [
    pytest.param(10_000, id="10,000 label sets"),
    pytest.param(200_000, id="200,000 label sets", marks=SLOW),
]


@pytest.mark.parametrize("count", LABEL_SETS)
def test_a_flood_of_label_sets_is_stored_whole(desk: Desk, count: int) -> None:
    file = desk.write("labels.prom", "".join(line(0, extra=f',namespace="x",pod="p{n}"') for n in range(count)))
    result = in_a_child(desk, "openmetrics", file)

    assert (count, "") == (result["rows"], result["error"])
    assert int(str(result["growth"])) < 768 * MIB


NOT_A_FILE = [
    pytest.param("fifo", id="a FIFO that nobody writes"),
    pytest.param("/dev/zero", id="a device without end"),
]


@pytest.mark.parametrize("what", NOT_A_FILE)
def test_what_is_no_regular_file_is_refused_and_does_not_hang(desk: Desk, what: str) -> None:
    path = Path(what)
    if what == "fifo":
        path = desk.folder / "pipe.prom"
        os.mkfifo(path)
    result = in_a_child(desk, "openmetrics", path)

    assert str(path) in str(result["error"])
    assert 0 == result["rows"]


def test_a_fifo_inside_a_bundle_is_left_out(desk: Desk) -> None:
    desk.write("b/metrics/good.prom", GOOD)
    os.mkfifo(desk.folder / "in/b/metrics/pipe.prom")
    report = desk.load("bundle", desk.folder / "in/b")

    assert (1, 5) == (report.files, desk.rows())
