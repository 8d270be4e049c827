"""Whether every record of a job comes from a kubectl dump: what has another source first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuwatch.quality.check import WARN
from gpuwatch.quality.dumps import MISSING, checks, only_dumps
from tests.worlds.detectors import World

FILES = {1: "k8s-json", 2: "sacct"}


def with_claims(folder: Path, files: Sequence[int | None]) -> World:
    """A store whose claims come from these files; None: from a watched cluster."""
    world = World(folder)
    for file_id, kind in FILES.items():
        world.store.sql("insert into import_file (file_id, kind) values ($file_id, $kind)", file_id=file_id, kind=kind)
    for number, file_id in enumerate(files):
        values = {"job": f"j{number}", "file_id": file_id}
        world.store.sql("insert into claim (cluster, job_id, file_id) values ('c1', $job, $file_id)", **values)
    return world


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param([], False, id="no records of jobs"),
        pytest.param([2], False, id="sacct knows jobs that ended"),
        pytest.param([1, None], False, id="a dump beside a watched cluster"),
        pytest.param([1, 2], False, id="a dump beside sacct"),
        pytest.param([1, 1], True, id="dumps alone"),
    ],
)
def test_only_dumps(tmp_path: Path, files: Sequence[int | None], expected: bool) -> None:
    store = with_claims(tmp_path, files).store

    assert expected is only_dumps(store)
    assert ([("history", WARN, MISSING)] if expected else []) == [
        (one.id, one.status, one.what) for one in checks(store)
    ]
