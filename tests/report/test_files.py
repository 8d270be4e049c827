"""File names, writing whole files, and when a report is due."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuwatch.core.clock import HOUR_US, parse_rfc3339
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.report.files import ReportFile, done, due, slug, write
from gpuwatch.state import State

HOSTILE = [
    "",
    ".",
    "..",
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "con",
    "NUL",
    "x" * 5000,
    "日本",
    "\ud800",
    "a\0b",
    "--x",
    "A",
    "a",
]


def test_names_are_safe_and_never_shared() -> None:
    """Not where file names ignore case, and not with a name made to look like another's."""
    forged = [slug("ML Team"), slug("..")]
    slugs = [slug(team) for team in [*HOSTILE, "ml", "ML", "Ml", "ml team", "ML Team", "ml-team", *forged]]

    assert [] == [s for s in slugs if not s or len(s) > 80 or set(s) - set("abcdefghijklmnopqrstuvwxyz0123456789-")]
    assert len(slugs) == len({s.lower() for s in slugs})


def test_a_plain_name_is_its_own() -> None:
    """People find their file."""
    assert ["search", "ml-infra-2"] == [slug("search"), slug("ml-infra-2")]
    assert slug("Search & Ads").startswith("search-ads--")


def test_files_are_written_and_replaced_whole(tmp_path: Path) -> None:
    """Nothing else stays behind."""
    write([ReportFile("2026-W46/fleet.csv", b"old, and longer")], tmp_path)

    written = write([ReportFile("2026-W46/fleet.csv", b"new"), ReportFile("2026-W46/fleet.html", b"x")], tmp_path)

    assert [tmp_path / "2026-W46/fleet.csv", tmp_path / "2026-W46/fleet.html"] == written
    assert {"fleet.csv": b"new", "fleet.html": b"x"} == {p.name: p.read_bytes() for p in written[0].parent.iterdir()}


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at the second file: the first is not replaced either, and no temporary file stays."""
    write([ReportFile("w/fleet.csv", b"old")], tmp_path)
    real, calls = os.fsync, list[int]()

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(UnreadableInput, match="No space left on device; make room"):
        write([ReportFile("w/fleet.csv", b"new"), ReportFile("w/fleet.html", b"x")], tmp_path)
    assert {"fleet.csv": b"old"} == {p.name: p.read_bytes() for p in (tmp_path / "w").iterdir()}


def test_out_that_is_a_file_is_named(tmp_path: Path) -> None:
    """In one line."""
    (tmp_path / "out").write_text("x")

    with pytest.raises(UnreadableInput, match="--out .*out: "):
        write([ReportFile("w/fleet.csv", b"new")], tmp_path / "out")


@pytest.fixture
def state(tmp_path: Path) -> State:
    """An empty state."""
    return State.open(tmp_path)


@pytest.mark.parametrize(
    ("now", "week"),
    [
        pytest.param("2026-11-22T23:59:59", "2026-W46", id="a week that goes on is not due"),
        pytest.param("2026-11-23T05:59:59", "2026-W46", id="nor one whose late data may still come"),
        pytest.param("2026-11-23T06:00:00", "2026-W47", id="six hours later it is"),
        pytest.param("2027-01-04T06:00:00", "2026-W53", id="the last week of a long year"),
    ],
)
def test_due(state: State, now: str, week: str) -> None:
    """The week that ended last."""
    assert week == due(state, parse_rfc3339(now))


def test_due_once(state: State) -> None:
    """Not again after it was written, not with a clock set back, and again a week later."""
    monday = parse_rfc3339("2026-11-23T08:00:00")
    done(state, "2026-W47", monday)

    assert [None, None, "2026-W48"] == [due(state, monday + h * HOUR_US) for h in (0, -200, 168)]
