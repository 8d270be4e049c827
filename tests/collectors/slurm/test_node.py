"""scontrol show node -d into nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.slurm.files import read_scontrol
from gpuwatch.collectors.slurm.node import node_state
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.model import Records, Rejects, Source

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
RECORDED = SHARED / "wire/slurm/recorded_22.05/scontrol_show_node_d.txt"


def node(state: str = "MIXED", gres: str = "Gres=gpu:h100:8", reason: str = "") -> str:
    """One node's record."""
    return (
        f"NodeName=gpu01 Arch=x86_64 CoresPerSocket=32 \n   ActiveFeatures=hgx\n   {gres}\n"
        f"   State={state} ThreadsPerCore=1\n   Partitions=gpu,debug \n   {reason}\n\n"
    )


def rows_of(path: Path) -> list[dict[str, Any]]:
    rejects, rows = Rejects(), []
    for batch in read_scontrol(Source(str(path), "c1", observed_us=77), rejects):
        assert isinstance(batch, Records)
        rows += batch.rows.to_pylist()
    assert 0 == rejects.total
    return rows


def read(tmp_path: Path, text: str) -> list[dict[str, Any]]:
    path = tmp_path / "scontrol_node.txt"
    path.write_text(text)
    return rows_of(path)


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("IDLE", "up"),
        ("MIXED", "up"),
        ("ALLOCATED+PLANNED", "up"),
        ("IDLE+CLOUD", "up"),
        ("IDLE$", "drain"),
        ("MIXED+DRAIN", "drain"),
        ("DRAINED", "drain"),
        ("ALLOCATED+MAINTENANCE", "drain"),
        ("IDLE*", "down"),
        ("MIXED+NOT_RESPONDING", "down"),
        ("DOWN*+DRAIN", "down"),
        ("IDLE+DRAIN+INVALID_REG", "down"),
        ("IDLE~", "down"),
        ("IDLE+POWERED_DOWN", "down"),
        ("SOMETHING", None),
    ],
)
def test_node_states(state: str, means: str | None) -> None:
    assert means == node_state(state)


def test_a_drained_node_says_since_when_and_why(tmp_path: Path) -> None:
    reason = "Reason=Xid 79 GPU fallen off [bus] [root@2026-11-21T02:08:32]"
    (row,) = read(tmp_path, node("MIXED+DRAIN", "Gres=gpu:a100:2,gpu:1g.10gb:7,gpu:a100_3g.20gb:1", reason))

    assert {
        "cluster": "c1",
        "scheduler": "slurm",
        "node": "gpu01",
        "observed_us": 77,
        "state": "drain",
        "since_us": parse_rfc3339("2026-11-21T02:08:32Z"),
        "reason": "Xid 79 GPU fallen off [bus]",
        "gpu_model": "a100",
        "devices": '{"":2,"1g.10gb":7,"3g.20gb":1}',
        "sharing": "none",
        "replicas": None,
        "mig_strategy": None,
        "pool": "gpu",
        "labels": '{"features":"hgx","partitions":"gpu,debug","states":"DRAIN"}',
        "created_us": None,
        "taints": None,
        "cpu_milli": None,
        "memory_bytes": None,
        "cpu_milli_used": None,
        "memory_bytes_used": None,
    } == row


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("BootTime=2026-11-20T01:00:00", "2026-11-20T01:00:00Z"),
        ("BootTime=None", None),
        ("BootTime=Unknown", None),
        ("BootTime=yesterday", None),
    ],
)
def test_a_node_was_there_since_it_booted(tmp_path: Path, printed: str, expected: str | None) -> None:
    """A time that cannot be read is unknown; the node is kept."""
    (row,) = read(tmp_path, node("IDLE", "Gres=gpu:4", printed))

    assert (None if expected is None else parse_rfc3339(expected)) == row["created_us"]


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        pytest.param("Gres=(null)", ("{}", None, "none", None), id="a node without GPUs"),
        pytest.param("Other=1", (None, None, None, None), id="a node that does not say"),
        pytest.param("Gres=gpu:h100:8,shard:h100:32", ('{"":8}', "h100", "time-slicing", 4), id="shards"),
        pytest.param("Gres=gpu:8,mps:800", ('{"":8}', None, "mps", 100), id="MPS"),
        pytest.param("Gres=gpu:8,mps:8:100", ('{"":8}', None, "mps", None), id="MPS that does not divide"),
        pytest.param("Gres=gpu:2,shard:0", ('{"":2}', None, "time-slicing", None), id="no shard"),
        pytest.param(
            "Gres=gpu:a100:2(S:0),gpu:a100:2(S:1)", ('{"":4}', "a100", "none", None), id="two lines of gres.conf"
        ),
    ],
)
def test_what_a_node_has(
    tmp_path: Path, gres: str, expected: tuple[str | None, str | None, str | None, int | None]
) -> None:
    (row,) = read(tmp_path, node(gres=gres))

    assert expected == (row["devices"], row["gpu_model"], row["sharing"], row["replicas"])


def test_recorded_nodes() -> None:
    if not RECORDED.exists():
        pytest.skip(f"{RECORDED} is not there: set GPUWATCH_SHARED")
    nodes = rows_of(RECORDED)

    assert [
        ("bad01", "drain", "h100", '{"":8}', "gpu"),
        ("gpu01", "up", "h100", '{"":8}', "gpu"),
        ("gpu02", "up", "h100", '{"":8}', "gpu"),
        ("mig01", "up", "a100", '{"":2,"1g.10gb":7,"3g.40gb":2}', "mig"),
    ] == [(n["node"], n["state"], n["gpu_model"], n["devices"], n["pool"]) for n in nodes]
