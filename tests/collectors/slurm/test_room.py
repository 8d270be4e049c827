"""CPUs and memory of Slurm's jobs and nodes: what is unknown first."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.collectors.slurm.room import node_columns, room_columns

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "nodes", "columns"),
    [
        pytest.param(None, 1, {}, id="no TRES"),
        pytest.param("node=1,gres/gpu=4", 1, {}, id="a TRES without them"),
        pytest.param("cpu=many,mem=?", 1, {}, id="what is no number"),
        pytest.param("cpu=0,mem=0", 1, {"cpu_milli": 0, "memory_bytes": 0}, id="zero is known"),
        pytest.param("cpu=32,mem=62.50G,node=1", 1, {"cpu_milli": 32_000, "memory_bytes": 125 * GIB // 2}, id="a node"),
        pytest.param("cpu=10,mem=1000M", 3, {"cpu_milli": 3333, "memory_bytes": 1000 * (1 << 20) // 3}, id="spread"),
        pytest.param("cpu=1.5K,mem=2T", 2, {"cpu_milli": 750_000, "memory_bytes": 1024 * GIB}, id="with units"),
        pytest.param("mem=2048", 1, {"memory_bytes": 2 * GIB}, id="megabytes without a unit"),
    ],
)
def test_a_job_has_what_its_tres_says(text: str | None, nodes: int, columns: dict[str, int]) -> None:
    assert columns == room_columns(text, nodes)


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        pytest.param({}, {}, id="nothing is printed"),
        pytest.param({"CPUTot": "N/A", "RealMemory": "1G"}, {}, id="what is no number"),
        pytest.param(
            {"CPUAlloc": "0", "CPUTot": "64", "RealMemory": "2048", "AllocMem": "0"},
            {"cpu_milli": 64_000, "memory_bytes": 2 * GIB, "cpu_milli_used": 0, "memory_bytes_used": 0},
            id="nothing is used",
        ),
        pytest.param(
            {"CPUAlloc": "8", "CPUEfctv": "62", "CPUTot": "64", "RealMemory": "2048", "MemSpecLimit": "1024"},
            {"cpu_milli": 62_000, "memory_bytes": GIB, "cpu_milli_used": 8000},
            id="some are kept for the system",
        ),
    ],
)
def test_a_node_has_what_its_record_says(fields: dict[str, str], columns: dict[str, Any]) -> None:
    assert columns == node_columns(fields)
