"""`gpuwatch lake clusters` on a real PostgreSQL server."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gpuwatch.state.cells import Cells
from gpuwatch.state.lease import Leases, cell_lease
from gpuwatch.state.server import Server
from tests.worlds import processes
from tests.worlds.postgres import Postgres


def test_clusters_are_listed_and_released(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.url(postgres.new())
    env = {**os.environ, "GPUWATCH_STATE_URL": url}
    server = Server(url)
    cells, east = Cells(server), Leases(server, cell_lease("east"), "http://east:8765", 3600.0)

    def asked(*arguments: str) -> tuple[int, str]:
        ran = processes.run(("lake", "clusters", *arguments, "--format", "json"), env=env, cwd=tmp_path)
        return ran.returncode, ran.stderr if ran.returncode else ran.stdout

    assert (0, []) == (asked()[0], json.loads(asked()[1])["items"])
    assert east.take() is not None
    cells.claim("c1", "east")

    (found,) = json.loads(asked()[1])["items"]
    assert ("east", "c1", "http://east:8765") == (found["cell"], found["cluster"], found["address"])
    assert 3000 < found["held_s"] <= 3600 and found["holder"] == east.holder
    code, words = asked("--release", "c1")
    assert (2, True) == (code, f"{east.holder} at http://east:8765 holds cell east, which has it; stop" in words)
    assert (2, True) == (code, "--release c9: no cell has this cluster" in asked("--release", "c9")[1])

    east.release(1)
    (given_up,) = json.loads(asked("--release", "c1")[1])["items"]
    assert (None, 0) == (given_up["cluster"], given_up["held_s"])
    cells.close()
    east.close()


def test_a_state_in_a_file_has_no_cells(tmp_path: Path) -> None:
    ran = processes.run(("lake", "clusters"), cwd=tmp_path)

    assert 2 == ran.returncode
    assert "cells share a state on PostgreSQL" in ran.stderr
