"""`gpuwatch imports` and `gpuwatch import --forget`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli import run
from gpuwatch.store.database import Store

HEADER = "JobID|State|Submit|Start|End|ElapsedRaw|NodeList|AllocTRES\n"
JOB = "{}|COMPLETED|2026-11-02T10:00:00|2026-11-02T10:00:00|2026-11-02T11:00:00|3600|n1|gres/gpu=2\n"

Capture = pytest.CaptureFixture[str]


def sacct(path: Path, *jobs: int) -> Path:
    path.write_text(HEADER + "".join(JOB.format(job) for job in jobs))
    return path


def listed(data: Path, capsys: Capture) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert 0 == run(["imports", "--data", str(data), "--format", "json"])
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
    return items


def test_an_import_is_listed_and_taken_back(tmp_path: Path, capsys: Capture) -> None:
    data, file = tmp_path / "data", sacct(tmp_path / "sacct.txt", 1, 2)
    run(["import", "sacct", str(file), "--data", str(data), "--cluster", "c1", "--timezone", "Europe/Berlin"])
    (item,) = listed(data, capsys)

    assert {
        "id": 1,
        "kind": "sacct",
        "path": str(file),
        "cluster": "c1",
        "timezone": "Europe/Berlin",
        "files": 1,
        "records": 2,
        "rejected": 0,
        "replaced": 0,
        "replaced_by": None,
        "state": "complete",
    } == {name: value for name, value in item.items() if name != "imported_at"}

    assert 0 == run(["import", "--forget", "1", "--data", str(data), "--format", "json"])
    assert [{"id": 1, "path": str(file), "files": 1, "kept_files": 0, "records": 2}] == json.loads(
        capsys.readouterr().out
    )["items"]
    assert [] == listed(data, capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["import", "--forget", "9"], "import 9: there is none with this id", id="an unknown id"),
        pytest.param(["import", "sacct", "x", "--forget", "1"], "--forget takes an id and no KIND", id="a file too"),
        pytest.param(["import"], "KIND and PATH are missing", id="nothing"),
        pytest.param(["import", "sacct"], "KIND and PATH are missing", id="no path"),
        pytest.param(["import", "sinfo", "x"], "use scontrol show node -d", id="output that has too little of it"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, capsys: Capture, words: list[str], message: str) -> None:
    Store.open(tmp_path).close()

    assert 2 == run([*words, "--data", str(tmp_path), "--new-state"])
    assert message in capsys.readouterr().err


def test_the_assumed_time_zone_is_printed_only_where_times_have_none(tmp_path: Path, capsys: Capture) -> None:
    file = sacct(tmp_path / "sacct.txt", 1)
    plain = tmp_path / "epoch.txt"
    plain.write_text(
        HEADER + JOB.format(1).replace("2026-11-02T10:00:00", "1793613600").replace("2026-11-02T11:00:00", "1793617200")
    )
    errors = []
    for number, more in enumerate(([], ["--timezone", "UTC"])):
        run(["import", "sacct", str(file), "--data", str(tmp_path / f"data{number}"), *more])
        errors.append(capsys.readouterr().err)
    run(["import", "sacct", str(plain), "--data", str(tmp_path / "data2")])
    errors.append(capsys.readouterr().err)

    assert [True, False, False] == ["its times have no offset and were read as UTC" in text for text in errors]


def test_the_assumed_time_zone_is_printed_each_time_a_reading_depends_on_it(tmp_path: Path, capsys: Capture) -> None:
    """Also of a file that was imported before, until the zone is given."""
    file, errors = sacct(tmp_path / "sacct.txt", 1), []
    for more in ([], [], ["--timezone", "Europe/Berlin"], ["--timezone", "Europe/Berlin"]):
        run(["import", "sacct", str(file), "--data", str(tmp_path / "data"), *more])
        errors.append(capsys.readouterr().err)

    assert [True, True, False, False] == [
        f"{file}: its times have no offset and were read as UTC" in text for text in errors
    ]


def test_an_import_says_what_it_read(tmp_path: Path, capsys: Capture) -> None:
    """Files, samples, records, the time they cover, the zone assumed for local times, and the next command."""
    data, jobs, metrics = tmp_path / "data", sacct(tmp_path / "sacct.txt", 1, 2), tmp_path / "gpu.om"
    label = '{gpu="0",UUID="GPU-1",Hostname="n1"}'
    metrics.write_text(
        "".join(f"DCGM_FI_DEV_GPU_UTIL{label} 50 {1_793_613_600 + at}\n" for at in (0, 30, 60)) + "# EOF\n"
    )
    place = ["--data", str(data), "--format", "json"]

    assert 0 == run(["import", "sacct", str(jobs), *place])
    (found,) = json.loads(capsys.readouterr().out)["items"]
    assert (1, 0, 2, "UTC") == (found["files"], found["samples"], found["records"], found["assumed_zone"])
    assert ("2026-11-02T10:00:00Z", "2026-11-02T11:00:00Z") == (found["from"], found["to"])

    assert 0 == run(["import", "openmetrics", str(metrics), *place])
    (found,) = json.loads(capsys.readouterr().out)["items"]
    assert (1, 3, 4, None) == (found["files"], found["samples"], found["records"], found["assumed_zone"])
    assert ("2026-11-02T10:00:00Z", "2026-11-02T10:01:00Z") == (found["from"], found["to"])

    assert 0 == run(["import", "sacct", str(jobs), "--data", str(data), "--format", "table"])
    assert "Next: " in capsys.readouterr().out
