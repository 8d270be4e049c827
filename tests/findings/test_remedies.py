"""Remedies follow what is known about the job: whether it has ended, and whether it serves requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.findings.read import read
from tests.worlds.detectors import IDLE, WORK, World

RULE = "idle-hoarding"
SERVING = {"gpuwatch.io/workload-class": "serving"}


@pytest.fixture(scope="module")
def remedies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The remedy of each job that held an idle GPU for four hours."""
    world = World(tmp_path_factory.mktemp("world"))
    for job, end, labels in (
        ("running", None, None),
        ("ended", 240, None),
        ("service", None, SERVING),
        ("over", 240, SERVING),
    ):
        world.gpu(job, (10, WORK), (230, IDLE)).job(job, [job], 0, end, heard=240, labels=labels)
    world.gpu("again", (400, IDLE)).job("again", ["again"], 0, 240, run_key="again@0")
    world.job("again", ["again"], 250, None, heard=400, run_key="again@1")
    world.analyze(400, detectors=[RULE])
    return {str(one.subject["id"]): one.remedy for one in read(world.store)}


@pytest.mark.parametrize("job", ["running", "again"])
def test_a_running_job_can_release_its_devices(remedies: dict[str, str], job: str) -> None:
    assert remedies[job].startswith("Release the devices")


def test_an_ended_job_has_nothing_to_release(remedies: dict[str, str]) -> None:
    assert remedies["ended"].startswith("The job has ended. Next time, ask for the devices that it uses")


@pytest.mark.parametrize("job", ["service", "over"])
def test_a_service_is_never_to_be_ended(remedies: dict[str, str], job: str) -> None:
    assert remedies[job].startswith("Scale the service to zero while no requests come, or share the GPU")


def test_evidence_does_not_keep_these_facts(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.gpu("g", (10, WORK), (230, IDLE)).job("g", ["g"], 0, 240).analyze(300, detectors=[RULE])
    (one,) = read(world.store)

    assert {"job_ended", "is_serving"}.isdisjoint(one.evidence)
