"""The index of a folder of report files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.report.html.index import groups, title, write_index

HASHED = "team-r-d--" + "0" * 32


def test_other_files_are_not_listed() -> None:
    assert {} == groups(["index.html", "notes.txt", "fleet.docx", ".report-1", "team-.pdf", "Team-a.pdf"])


def test_the_fleet_comes_first_and_formats_are_in_their_order() -> None:
    names = ["team-nlp.csv", "fleet.focus.csv", "fleet.pdf", "team-nlp.html", "team-art.pdf", "fleet.html"]

    assert [("fleet", ["html", "pdf", "focus.csv"]), ("team-art", ["pdf"]), ("team-nlp", ["html", "csv"])] == list(
        groups(names).items()
    )


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        pytest.param("fleet", "The fleet", id="the fleet"),
        pytest.param("team-nlp", "Team nlp", id="a plain name"),
        pytest.param(HASHED, "Team r-d", id="a name with a hash"),
    ],
)
def test_a_report_is_called_by_its_team(stem: str, expected: str) -> None:
    assert expected == title(stem)


def test_the_index_links_to_what_is_there_and_says_for_whom(tmp_path: Path) -> None:
    folder = tmp_path / "2026-W47"
    folder.mkdir()
    for name in ("fleet.pdf", f"{HASHED}.html", "other.txt"):
        (folder / name).write_bytes(b"x" * 1500)
    page = write_index(folder).read_text()

    assert page == write_index(folder).read_text()
    assert "GPU reports, 2026-W47" in page
    assert 'href="fleet.pdf" title="fleet.pdf, 1.5 kB"' in page
    assert f'href="{HASHED}.html"' in page
    assert ("other.txt" in page, "For finance" in page, "Nothing about other teams" in page) == (False, True, True)


def test_the_index_of_one_team_does_not_speak_of_the_fleet(tmp_path: Path) -> None:
    (tmp_path / "team-nlp.pdf").write_bytes(b"x")

    assert "For finance" not in write_index(tmp_path).read_text()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="choose another directory"):
        write_index(tmp_path / "2026-W47")
