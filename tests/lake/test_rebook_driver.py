"""The process that speaks with Ray, with a module in place of Ray: what it prints is no answer, and it ends with its input alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuwatch.rebook.ray_cluster import connected

RAY = """
import os

class exceptions:
    RayError = KeyError

def init(**_):
    os.write(1, b"printed by C++\\n")

def cluster_resources():
    return {"CPU": 3.0}

def remote(**_):
    return lambda function: function
"""


@pytest.fixture(autouse=True)
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray.py").write_text(RAY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


def test_what_ray_prints_is_no_answer() -> None:
    with connected("somewhere") as there:
        assert 3 == there.cpus


def test_an_interrupt_of_the_terminal_reaches_the_command_alone() -> None:
    """It closes the input of the process, which then ends in order."""
    with connected("somewhere") as there:
        process = there._process

        assert os.getsid(process.pid) != os.getsid(0)
    assert 0 == process.returncode
