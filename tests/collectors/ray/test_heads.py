"""Responses of several Ray heads in one folder: each head is read by itself, or the folder is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.ray.files import read_ray_files
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Records, Rejects, Source
from tests.collectors.ray.test_ray_answers import actor, job, node


def head(folder: Path, name: str, prefix: str = "", version: bool = True, **words: Any) -> None:
    """Saved responses of a head with one job on one node; ids of jobs and actors are the same on every head."""
    folder.mkdir(parents=True, exist_ok=True)
    place = (name * 56)[:56]
    address = {"nodeId": place, "workerId": "1" * 56}
    listed = {
        "jobs": [job(**words)],
        "nodes": {"result": True, "data": {"result": {"result": [node(f"worker-{name}", node_id=place)]}}},
        "actors": {"result": True, "data": {"actors": {"1": actor(address=address)}}},
    }
    if version:
        listed["version"] = {"session_name": f"session_{name}", "ray_version": "2.60.0"}
    for what, content in listed.items():
        (folder / f"{prefix}{what}.json").write_text(json.dumps(content))


def claims(path: Path) -> list[tuple[str, str]]:
    """(run key, node) of the claims."""
    batches = [batch for batch in read_ray_files(Source(str(path), "c1"), Rejects()) if isinstance(batch, Records)]
    return sorted(
        (row["run_key"], row["node"]) for batch in batches if batch.table == "claim" for row in batch.rows.to_pylist()
    )


def test_two_heads_in_folders_of_their_own_are_two_heads(tmp_path: Path) -> None:
    head(tmp_path / "one", "a")
    head(tmp_path / "two", "b")

    assert [("sub-a@a", "worker-a"), ("sub-a@b", "worker-b")] == claims(tmp_path)


def test_a_head_may_have_folders_below_its_own(tmp_path: Path) -> None:
    head(tmp_path / "one", "a")
    (tmp_path / "one" / "lists").mkdir()
    (tmp_path / "one" / "actors.json").rename(tmp_path / "one" / "lists" / "actors.json")
    head(tmp_path / "two", "b")

    assert [("sub-a@a", "worker-a"), ("sub-a@b", "worker-b")] == claims(tmp_path)


def test_two_folders_of_one_session_are_one_head_next_to_another(tmp_path: Path) -> None:
    for folder, name in (("monday", "a"), ("tuesday", "a"), ("other", "b")):
        head(tmp_path / folder, name, version=folder != "tuesday")

    assert [("sub-a@a", "worker-a"), ("sub-a@b", "worker-b")] == claims(tmp_path)


def test_heads_without_a_version_are_known_by_their_node(tmp_path: Path) -> None:
    head(tmp_path / "one", "a", version=False)
    head(tmp_path / "two", "b", version=False)

    assert [(f"sub-a@{'a' * 16}", "worker-a"), (f"sub-a@{'b' * 16}", "worker-b")] == claims(tmp_path)


def test_a_head_that_died_is_not_a_second_one(tmp_path: Path) -> None:
    head(tmp_path, "a")
    gone = node("worker-0", node_id="d" * 56, state="DEAD", end_time_ms=1)
    (tmp_path / "gone.json").write_text(json.dumps([gone]))

    assert [("sub-a@a", "worker-a")] == claims(tmp_path)


@pytest.mark.parametrize("version", [True, False], ids=["with sessions", "without"])
def test_two_heads_in_one_folder_are_refused(tmp_path: Path, version: bool) -> None:
    head(tmp_path, "a", "one-", version)
    head(tmp_path, "b", "two-", version)

    with pytest.raises(UnreadableInput, match="2 Ray heads.*a folder of its own"):
        claims(tmp_path)


def test_a_file_that_may_be_of_either_head_is_refused_by_name(tmp_path: Path) -> None:
    head(tmp_path / "one", "a")
    head(tmp_path / "two", "b")
    (tmp_path / "two" / "jobs.json").rename(tmp_path / "jobs.json")

    with pytest.raises(UnreadableInput, match=r"jobs\.json.*a folder of its own"):
        claims(tmp_path)
