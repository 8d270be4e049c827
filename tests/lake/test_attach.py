"""Several cells that start at once on an empty catalogue."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

from gpuwatch.lake.connection import Lake
from gpuwatch.lake.settings import LakeSettings
from tests.lake.conftest import Make

AT_ONCE = 4
ROUNDS = 3


def test_cells_that_attach_an_empty_catalogue_at_once_all_have_it(make_lake: Make, tmp_path: Path) -> None:
    for number in range(ROUNDS):
        lake = make_lake("postgresql", data=str(tmp_path / f"lake{number}"))
        start = Barrier(AT_ONCE)

        def attach(cell: str, lake: LakeSettings = lake, start: Barrier = start) -> list[tuple[int]]:
            start.wait(60)
            with Lake.open(replace(lake, cell=cell), create=True) as one:
                return one.sql("select count(*) from duckdb_schemas() where database_name = 'lake'")

        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(attach, [f"cell{n}" for n in range(AT_ONCE)]))

        assert 1 == len({tuple(rows) for rows in found})
