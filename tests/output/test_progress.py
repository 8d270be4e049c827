"""What a long command prints while it runs, where stderr is no terminal."""

from __future__ import annotations

import pytest

from gpuwatch.output import progress


def test_a_line_every_half_minute(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    at = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: at[0])
    with progress.progress("scan") as step:
        for second, name in ((5, "early"), (31, "node-1"), (50, "soon"), (62, "node\x1b[31m-2")):
            at[0] = 100.0 + second
            step(1234, 5000, name)
        at[0] += progress.LINE_S
        step(0, 0, "sealing")

    printed = capsys.readouterr()
    assert "" == printed.out
    assert ["scan: node-1 (1,234 of 5,000)", "scan: sealing"] == printed.err.splitlines()[::2]
    assert "\x1b" not in printed.err


def test_a_short_command_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress("import") as step:
        step(1, 2, "a.json")

    assert "" == capsys.readouterr().err
