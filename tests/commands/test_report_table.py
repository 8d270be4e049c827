"""What `gpuwatch report` prints on a terminal: a row for the fleet and each team, and for whom each is."""

from __future__ import annotations

from pathlib import Path

from gpuwatch.commands.report import _by_report


def test_one_row_for_each_report(tmp_path: Path) -> None:
    names = ["fleet.html", "fleet.pdf", "team-nlp.pdf"]
    written = [tmp_path / name for name in names]
    for path in written:
        path.write_bytes(b"x" * 1000)
    found = _by_report(written, [tmp_path / "index.html"])

    assert [
        {"report": "The fleet", "written": "fleet.{html,pdf}", "size": "2 kB"},
        {"report": "Team nlp", "written": "team-nlp.pdf", "size": "1 kB"},
    ] == found.items
    assert list(found.items[0]) == list(found.columns)
    assert ["Fleet: For finance", "Team: For the team's", f"Open {tmp_path}/index.html: "] == [
        line[: len(start)]
        for line, start in zip(
            found.foot, ("Fleet: For finance", "Team: For the team's", f"Open {tmp_path}/index.html: "), strict=True
        )
    ]


def test_without_the_fleet_nothing_is_printed_about_it(tmp_path: Path) -> None:
    (tmp_path / "team-nlp.pdf").write_bytes(b"x")

    assert ["Team: "] == [line[:6] for line in _by_report([tmp_path / "team-nlp.pdf"], []).foot]
