"""Jobs of sacct in the hour that clocks repeat: the other jobs of the text decide what their times mean, or nothing does."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.collectors.slurm.files import read_sacct
from gpuwatch.collectors.slurm.run_times import is_estimated
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.model import Rejects, Source

HEADER = "JobID|State|Submit|Start|End|ElapsedRaw|NNodes|NodeList|AllocTRES"
Job = tuple[int, str, str, str | None, int | None, int]
"""Number, submission, start and end of 2026-10-25 in Berlin, elapsed minutes, and GPUs. Clocks go back at 01:00 UTC."""


def text(*jobs: Job) -> str:
    lines = [HEADER]
    for number, submit, start, end, minutes, gpus in jobs:
        times = [f"2026-10-25T{time}:00" if time else "Unknown" for time in (submit, start, end)]
        elapsed = "" if minutes is None else str(60 * minutes)
        tres = f"cpu=1,gres/gpu={gpus}" if gpus else "cpu=1"
        lines.append("|".join([str(number), "COMPLETED" if end else "RUNNING", *times, elapsed, "1", "n1", tres]))
    return "\n".join(lines) + "\n"


def read(folder: Path, written: str) -> dict[str, tuple[str, bool]]:
    """By job: when it started (UTC), and whether that is estimated."""
    path = folder / "sacct.txt"
    path.write_text(written)
    rejects = Rejects()
    rows = [
        row for batch in read_sacct(Source(str(path), "c1", "Europe/Berlin"), rejects) if batch.table == "claim"
        for row in batch.rows.to_pylist()
    ]  # fmt: skip
    assert {} == rejects.faults
    return {row["job_id"]: (clock(row["start_us"]), "local-time" in (row["labels"] or "")) for row in rows}


def clock(us: int) -> str:
    minutes = (us - parse_rfc3339("2026-10-25T00:00:00Z")) // 60_000_000
    return f"{minutes // 60:02}:{minutes % 60:02}"


UNKNOWN: Job = (50, "02:20", "02:30", "02:50", 20, 4)
"""20 minutes in either of the two hours."""


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param([], ("00:30", True), id="alone: nothing decides"),
        pytest.param([(49, "01:00", "02:30", "02:50", 20, 0)], ("00:30", True), id="other jobs of the hour, in order"),
        pytest.param([(49, "02:40", "03:30", "03:50", 20, 0)], ("01:30", False), id="an older job was submitted later"),
        pytest.param([(51, "02:10", "03:30", "03:50", 20, 0)], ("00:30", True), id="a younger one earlier: it may have waited"),
        pytest.param([(40, "02:10", "02:15", "03:15", 60, 0)], ("00:30", True), id="an older one, after or before"),
        pytest.param(
            [(40, "02:50", "02:10", "03:15", 65, 0)], ("01:30", False), id="an older one that started after clocks went back"
        ),
        pytest.param(
            [(49, "02:40", "03:30", "03:50", 20, 0), (49, "02:45", "03:30", "03:50", 20, 0)], ("00:30", True),
            id="the older one was submitted twice",
        ),
        pytest.param(
            [(49, "02:40", "03:30", "03:50", 20, 0), (51, "02:10", "02:11", "03:11", 120, 0)], ("00:30", True),
            id="the others contradict each other",
        ),
    ],
)  # fmt: skip
def test_the_order_of_job_numbers_decides(tmp_path: Path, others: list[Job], expected: tuple[str, bool]) -> None:
    assert expected == read(tmp_path, text(UNKNOWN, *others))["50"]


@pytest.mark.parametrize(
    ("minutes", "others", "expected"),
    [
        pytest.param(90, [], ("00:30", True), id="alone: nothing decides"),
        pytest.param(90, [(61, "03:00", "03:05", None, 55, 1)], ("01:30", False), id="the text is of 03:00 UTC"),
        pytest.param(150, [(61, "03:00", "03:05", None, 55, 1)], ("00:30", False), id="it has run an hour longer"),
        pytest.param(90, [(61, "03:00", "03:05", "03:50", 45, 1)], ("00:30", True), id="the other job has ended"),
    ],
)
def test_the_time_of_the_text_decides(
    tmp_path: Path, minutes: int, others: list[Job], expected: tuple[str, bool]
) -> None:
    """A job that runs since 02:30, by the minutes for which it has run."""
    assert expected == read(tmp_path, text((60, "01:00", "02:30", None, minutes, 4), *others))["60"]


def requested(folder: Path, written: str) -> dict[str, str]:
    """By job that waits: when it was submitted (UTC)."""
    path = folder / "sacct.txt"
    path.write_text(written)
    rows = [
        row for batch in read_sacct(Source(str(path), "c1", "Europe/Berlin"), Rejects()) if batch.table == "pending"
        for row in batch.rows.to_pylist()
    ]  # fmt: skip
    return {row["job_id"]: clock(row["submit_us"]) for row in rows}


def waiting(number: int, submit: str) -> str:
    return f"{number}|PENDING|2026-10-25T{submit}:00|Unknown|Unknown|0|1|None assigned|cpu=1,gres/gpu=1\n"


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param([], "01:30", id="nothing decides: a wait is never longer than certain"),
        pytest.param([(69, "02:40", "03:30", "03:50", 20, 0)], "01:30", id="an older job was submitted later by the clock"),
        pytest.param([(71, "02:40", "02:41", "04:11", 150, 0)], "00:30", id="a younger one is certainly of the first hour"),
        pytest.param([(71, "02:10", "03:30", "03:50", 20, 0)], "00:30", id="a younger one earlier by the clock: they were set back between"),
        pytest.param([(60, "01:00", "01:30", None, 90, 1)], "00:30", id="the text was written before the second hour"),
        pytest.param([(60, "01:00", "01:30", None, 150, 1)], "01:30", id="the text is of the second hour"),
    ],
)  # fmt: skip
def test_a_request_that_waits_was_submitted_when_the_others_say(
    tmp_path: Path, others: list[Job], expected: str
) -> None:
    assert {"70": expected} == requested(tmp_path, text(*others) + waiting(70, "02:30"))


def test_an_end_that_is_guessed_makes_nothing_certain(tmp_path: Path) -> None:
    """Both parts of a resized job lie in that hour: they follow each other, and both are estimated."""
    rows = [
        ("RESIZING", "01:00", "02:10", "02:20", 10, 2),
        ("COMPLETED", "02:20", "02:10", "02:40", 30, 1),
    ]
    lines = [
        f"7|{state}|2026-10-25T{submit}:00|2026-10-25T{start}:00|2026-10-25T{end}:00|{60 * minutes}|1|n1|gres/gpu={gpus}\n"
        for state, submit, start, end, minutes, gpus in rows
    ]
    path = tmp_path / "sacct.txt"
    path.write_text(HEADER + "\n" + "".join(lines))
    claims = [
        row for batch in read_sacct(Source(str(path), "c1", "Europe/Berlin"), Rejects()) if batch.table == "claim"
        for row in batch.rows.to_pylist()
    ]  # fmt: skip

    assert [("00:10", "00:20", True), ("00:20", "00:40", True)] == sorted(
        (clock(row["start_us"]), clock(row["end_us"]), is_estimated(row["labels"])) for row in claims
    )


@pytest.mark.parametrize("state", ["COMPLETING", "RUNNING"])
def test_an_end_that_is_not_known_stays_so(tmp_path: Path, state: str) -> None:
    """The time of the text says how long a job has run, and not when one ended whose end was not written."""
    written = text((40, "01:10", "01:20", None, 160, 1), UNKNOWN)
    written = written.replace("50|COMPLETED|2026-10-25T02:20:00|2026-10-25T02:30:00|2026-10-25T02:50:00",
                              f"50|{state}|2026-10-25T02:20:00|2026-10-25T02:30:00|Unknown")  # fmt: skip
    assert f"50|{state}|" in written
    path = tmp_path / "sacct.txt"
    path.write_text(written)
    claims = [
        row for batch in read_sacct(Source(str(path), "c1", "Europe/Berlin"), Rejects()) if batch.table == "claim"
        for row in batch.rows.to_pylist() if row["job_id"] == "50"
    ]  # fmt: skip

    assert [None] == [row["end_us"] for row in claims]
