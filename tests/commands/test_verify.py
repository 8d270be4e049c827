"""`gpuwatch verify`: the ledger adds up, and follows from the records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli import run
from gpuwatch.store.database import Store

SACCT = """JobID|State|Submit|Start|End|ElapsedRaw|NodeList|AllocTRES
1|COMPLETED|2026-11-02T10:00:00|2026-11-02T10:00:00|2026-11-02T11:00:00|3600|n1|gres/gpu=2
2|COMPLETED|2026-11-02T10:30:00|2026-11-02T11:00:00|2026-11-02T12:00:00|3600|n1|gres/gpu=1
"""


def verified(data: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    capsys.readouterr()
    code = run(["verify", *words, "--data", str(data), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)["items"]


def test_a_rebuild_names_the_first_row_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, file = tmp_path / "data", tmp_path / "sacct.txt"
    file.write_text(SACCT)
    run(["import", "sacct", str(file), "--data", str(data), "--cluster", "c1"])

    assert 2 == run(["verify", "--rebuild", "--data", str(data)])
    assert "wait for an analysis: run gpuwatch analyze first" in capsys.readouterr().err

    run(["analyze", "--data", str(data)])
    assert (0, ["hours of c1 add up", "every table is that of a rebuild"]) == (
        (found := verified(data, capsys, "--rebuild"))[0],
        [row["check"] for row in found[1]],
    )

    with Store.open(data) as store:
        store.sql("update segment set conflict = true where run_id = (select run_id from run where job_id = '2')")
    code, rows = verified(data, capsys, "--rebuild")

    assert 1 == code
    assert [("hours of c1 add up", 0), ("segment is that of a rebuild", 2)] == [
        (r["check"], r["differing"]) for r in rows
    ]
    assert "conflict True" in rows[1]["first"].split(", rebuilt ")[0]
    assert "conflict False" in rows[1]["first"].split(", rebuilt ")[1]
    assert [] == list(data.glob("rebuild-*"))

    with Store.open(data) as store:
        store.sql("update ledger_hour set schedulable_us = schedulable_us + 1 where run_id is null")
    code, rows = verified(data, capsys)

    assert 1 == code
    assert ["hours of c1 add up"] == [row["check"] for row in rows]
    assert rows[0]["differing"] > 0
