"""topology.conf and topology.yaml into links."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.slurm.files import read_topology
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Records, Rejects, Source

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))


def rows_of(path: Path) -> tuple[list[dict[str, Any]], Rejects]:
    rejects, links = Rejects(), []
    for batch in read_topology(Source(str(path), "c1", observed_us=77), rejects):
        assert isinstance(batch, Records)
        links += batch.rows.to_pylist()
    return links, rejects


def read(tmp_path: Path, text: str) -> tuple[list[dict[str, Any]], Rejects]:
    path = tmp_path / "topology"
    path.write_text(text)
    return rows_of(path)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# only a comment\n", id="only comments"),
        pytest.param("switches:\n  core: {}\n", id="YAML of another tool"),
        pytest.param("just words\n", id="words"),
        pytest.param("a: [\n", id="broken YAML"),
        pytest.param("[" * 5000, id="brackets without end"),
        pytest.param("NodeName=n1 CPUs=4\n", id="another file of Slurm"),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableInput, match=r"neither topology.conf nor Slurm's topology.yaml"):
        read(tmp_path, text)


def test_a_flat_topology_has_no_links(tmp_path: Path) -> None:
    links, rejects = read(tmp_path, "- topology: t\n  flat: true\n")

    assert ([], 0) == (links, rejects.total)


def test_a_tree(tmp_path: Path) -> None:
    links, rejects = read(tmp_path, "SwitchName=s1 \\\n  Nodes=n[1-2] # near\nswitchname=top switches=s1\n")

    assert 0 == rejects.total
    assert [("s1", "n1", "n1", "SWITCH"), ("s1", "n2", "n2", "SWITCH"), ("top", "s1", None, "SWITCH")] == [
        (link["a"], link["b"], link["node"], link["level"]) for link in links
    ]
    assert {("c1", 77, '{"plugin":"tree"}')} == {(li["cluster"], li["observed_us"], li["detail"]) for li in links}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# observed 1970-01-01T00:00:01Z\nSwitchName=s1 Nodes=n1\n", id="topology.conf"),
        pytest.param(
            "# observed 1970-01-01T00:00:01Z\n- topology: t\n  tree:\n    switches:\n    - {switch: s1, nodes: n1}\n",
            id="topology.yaml",
        ),
    ],
)
def test_a_comment_dates_the_file(tmp_path: Path, text: str) -> None:
    links, rejects = read(tmp_path, text)

    assert ([1_000_000], 0) == ([link["observed_us"] for link in links], rejects.total)


def test_blocks_carry_the_sizes_that_follow_them(tmp_path: Path) -> None:
    links, _ = read(tmp_path, "BlockName=b1 Nodes=n[1-2]\nBlockSizes=2,4\n")

    assert [("b1", "n1", "BLOCK"), ("b1", "n2", "BLOCK")] == [(link["a"], link["b"], link["level"]) for link in links]
    assert {'{"block_sizes":[2,4],"plugin":"block"}'} == {link["detail"] for link in links}


def test_a_bad_line_is_refused_alone(tmp_path: Path) -> None:
    links, rejects = read(tmp_path, "SwitchName=s1 Nodes=n1\nSwitchName=s2 Nodes=n[1-\nInclude other\n")

    assert ["n1"] == [link["b"] for link in links]
    assert [2, 3] == sorted(line for _, line, _ in rejects.first.values())


def test_a_bad_element_of_yaml_is_refused_alone(tmp_path: Path) -> None:
    text = "- topology: t\n  tree:\n    switches:\n    - {switch: s1, nodes: n1}\n    - {nodes: n2}\n- topology: u\n  ring: 3\n"
    links, rejects = read(tmp_path, text)

    assert [("s1", "n1")] == [(link["a"], link["b"]) for link in links]
    assert 2 == rejects.total


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("recorded_22.05/topology.conf", {("tree", "SWITCH"): 6}),
        ("recorded_22.05/scontrol_show_topology.txt", {("tree", "SWITCH"): 6}),
        ("topology/expected.slinky-dra-block.conf", {("block", "BLOCK"): 96}),
        ("topology/expected.slinky-oci-sim-tree.conf", {("tree", "SWITCH"): 96 + 12 + 6}),
        (
            "topology/topology.conf_examples.txt",
            {("tree", "SWITCH"): 21, ("block", "BLOCK"): 128, ("ring", "BLOCK"): 16},
        ),
        (
            "topology/topology.yaml_example.yaml",
            {("tree", "SWITCH"): 6, ("block", "BLOCK"): 16, ("ring", "BLOCK"): 16, ("torus3d", "BLOCK"): 32},
        ),
    ],
)
def test_recorded_topologies(name: str, counts: dict[tuple[str, str], int]) -> None:
    path = SHARED / "wire/slurm" / name
    if not path.exists():
        pytest.skip(f"{path} is not there: set GPUWATCH_SHARED")
    links, rejects = rows_of(path)

    assert counts == Counter((json.loads(link["detail"])["plugin"], link["level"]) for link in links)
    assert 0 == rejects.total


def test_recorded_leaves_hold_their_nodes() -> None:
    path = SHARED / "wire/slurm/recorded_22.05/topology.conf"
    if not path.exists():
        pytest.skip(f"{path} is not there: set GPUWATCH_SHARED")

    assert [("leaf1", "gpu01"), ("leaf1", "mig01"), ("leaf2", "gpu02"), ("leaf2", "bad01")] == [
        (link["a"], link["node"]) for link in rows_of(path)[0] if link["node"]
    ]
