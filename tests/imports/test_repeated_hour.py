"""Jobs of Slurm in the hour that clocks repeat: each second of a job is counted once, whatever its texts say of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.imports.files import import_paths
from gpuwatch.quality.doctor import OK, WARN, examine
from gpuwatch.settings import Settings
from tests.worlds.import_desk import NOW_US, Desk

DAY = "2025-10-26T{}:00"
"""Clocks go back from 03:00 to 02:00 in Berlin, at 01:00 UTC."""
COLUMNS = "JobID|User|Account|State|Submit|Start|End|ElapsedRaw|NNodes|NodeList|AllocTRES"


class Texts(Desk):
    def load(self, kind: str, text: str) -> None:
        path = self.folder / f"{len(list(self.folder.iterdir()))}.txt"
        path.write_text(text)
        import_paths(
            self.store, self.state, kind, [path], cluster="c1", timezone="Europe/Berlin", now_us=NOW_US
        )  # fmt: skip

    def account(self, job: int, start: str, end: str | None, minutes: int | None) -> None:
        """A record of a job with one GPU."""
        until, elapsed = DAY.format(end) if end else "Unknown", "" if minutes is None else str(60 * minutes)
        row = (
            job,
            "ann",
            "lab",
            "COMPLETED" if end else "RUNNING",
            DAY.format("01:00"),
            DAY.format(start),
            until,
            elapsed,
        )
        self.load("sacct", f"{COLUMNS}\n{'|'.join(map(str, row))}|1|n1|cpu=1,gres/gpu=1\n")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Texts]:
    with closing(Texts(tmp_path)) as made:
        yield made


@pytest.mark.parametrize(
    "order", [pytest.param((0, 1), id="the certain one last"), pytest.param((1, 0), id="the certain one first")]
)
def test_an_estimated_start_gives_way_to_a_certain_one(desk: Texts, order: Sequence[int]) -> None:
    """Running, the job could have started at 00:30 or 01:30 UTC; its end and length say 01:30."""
    texts = [("02:30", None, 30), ("02:30", "04:30", 120)]
    for number in order:
        desk.account(7, *texts[number])

    assert {"7": 2.0} == desk.hours_by("job_id")


def test_a_record_of_the_end_stands_for_that_of_a_running_job(desk: Texts) -> None:
    """Without lengths both are estimated; together they are one run of one hour."""
    desk.account(7, "02:30", None, 30)
    desk.account(7, "02:30", "03:30", None)

    assert {"7": 1.0} == desk.hours_by("job_id")


def test_quality_names_what_is_estimated(desk: Texts) -> None:
    desk.account(7, "01:30", "02:30", None)
    desk.account(8, "01:30", "02:30", 60)
    analyze(desk.store, desk.state, Settings(), now_us=NOW_US)
    [found] = [check for check in examine(desk.store) if check.id == "local-times"]

    assert {"7": 1.0, "8": 1.0} == desk.hours_by("job_id")
    assert WARN == found.status
    assert (
        "1 job has a start or an end in an hour that clocks repeat or skip, and no record decides when; its time is "
        "estimated, never longer than printed: c1/7" == found.what
    )


def test_a_comment_with_the_words_of_the_label_makes_no_time_doubtful(desk: Texts) -> None:
    row = f"9|ann|lab|COMPLETED|{DAY.format('05:00')}|{DAY.format('05:00')}|{DAY.format('06:00')}|3600|1|n1|gres/gpu=1"
    desk.load("sacct", f'{COLUMNS}|Comment\n{row}|{{"note":"gpuwatch.io/local-time"}}\n')
    analyze(desk.store, desk.state, Settings(), now_us=NOW_US)
    [found] = [check for check in examine(desk.store) if check.id == "local-times"]

    assert (OK, "every time of a job is certain") == (found.status, found.what)


@pytest.mark.parametrize("minutes", [300, 240], ids=["in the first of the two hours", "in the second one"])
@pytest.mark.parametrize("newest_first", [False, True], ids=["in order", "the part after it first"])
def test_the_part_before_a_resize_has_the_start_of_the_part_after_it(
    desk: Texts, minutes: int, newest_first: bool
) -> None:
    """The first part, all in that hour, fits both readings; the length of the second decides for both."""
    rows = [
        ("RESIZING", "01:00", "02:10", "02:50", 40, 2, "n[1-2]", 2),
        ("COMPLETED", "02:50", "02:10", "06:10", minutes, 1, "n1", 1),
    ]
    lines = [
        f"7|ann|lab|{state}|{DAY.format(submit)}|{DAY.format(start)}|{DAY.format(end)}|{60 * length}|{count}|{nodes}|"
        f"cpu=1,gres/gpu={gpus}"
        for state, submit, start, end, length, count, nodes, gpus in rows
    ]
    desk.load("sacct", "\n".join([COLUMNS, *(reversed(lines) if newest_first else lines), ""]))
    found = desk.hours_by("job_id")

    assert {"7": round(2 * 40 + minutes - 40)} == {job: round(60 * hours, 3) for job, hours in found.items()}
    assert [] == desk.store.sql("select job_id from claim where contains(labels, 'local-time')")
