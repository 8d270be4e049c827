"""GET /jobs/{id}: the placement of a gang, as the API tells it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.api.schema.capacity.jobs import JobDetail
from gpuwatch.core.model import CLAIM, LINK, Records
from tests.api.conftest import opened
from tests.worlds.api import Api
from tests.worlds.world import BUSY, CLUSTER, HOUR, Gpu, batch, claim, minutes, samples

NODES = ("fast1", "fast2")


@pytest.fixture(scope="module")
def linked(empty_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A gang of two GPUs on two nodes of two GPUs each, which are one NVLink domain each; a job on one GPU."""
    gpus = {(node, n): Gpu(f"GPU-{node}-{n}", node, n) for node in NODES for n in range(2)}
    row = {"cluster": CLUSTER, "observed_us": None, "detail": json.dumps({})}
    links: list[dict[str, Any]] = []
    for node in NODES:
        links += [row | {"node": node, "a": f"GPU{n}", "b": f"GPU{n}", "level": "X"} for n in range(2)]
        links += [
            row | {"node": node, "a": f"GPU{a}", "b": f"GPU{b}", "level": "NV18"} for a, b in combinations((0, 1), 2)
        ]
    claims = [claim("71", 0, HOUR, node, gpus=f"GPU-{node}-0") for node in NODES]
    claims.append(claim("72", HOUR, 2 * HOUR, NODES[0], gpus=f"GPU-{NODES[0]}-0"))
    for api in opened(empty_data, tmp_path_factory.mktemp("linked") / "data"):
        store = api.service.store
        with store.transaction():
            for one in batch(
                [reading for gpu in gpus.values() for reading in samples(gpu, minutes(0, 2 * HOUR), BUSY)]
            ):
                store.append(one)
            store.append(Records("claim", pa.Table.from_pylist(claims, schema=CLAIM)))
            store.append(Records("link", pa.Table.from_pylist(links, schema=LINK)))
        api.service.analyse_once()
        yield api


def ask(api: Api, job_id: str) -> dict[str, Any]:
    response = api.get(f"/api/v1/jobs/{job_id}", token=api.service.local_secret)
    assert 200 == response.status_code, response.text
    found: dict[str, Any] = response.json()
    JobDetail.model_validate(found)
    return found


def test_one_gpu_has_no_grade(linked: Api) -> None:
    found = ask(linked, "72")

    assert (None, None) == (found["placement_grade"], found["placement"]["grade"])
    assert "Not graded: a single GPU uses no links." == found["placement"]["why"]


def test_a_gang_apart_beside_a_free_domain(linked: Api) -> None:
    found = ask(linked, "71")

    assert "D" == found["placement_grade"]
    assert (
        "Spans 2 NVLink domains on 2 nodes; one NVLink domain (fast1/nvlink-0) with 2 free GPUs was there at 00:00 UTC."
    ) == found["placement"]["why"]
    assert {"place of fast1 in the network", "place of fast2 in the network", "what its links carried"} == {
        row["what"] for row in found["placement"]["missing"]
    }
