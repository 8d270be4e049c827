"""Islands held in part: what must not be called so, then what must, and what is claimed of the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pyarrow as pa

from gpuwatch.core.model import LINK, Records
from gpuwatch.detectors.partial_island import PARTIAL_ISLAND
from tests.worlds.detectors import WORK, World, page_rows
from tests.worlds.fragmentation import asked, node, waits
from tests.worlds.scheduling import evaluated, evaluated_apart

RULE = "partial-island"
END = 300
Scene = Callable[[World], object]


def linked(w: World, name: str, level: str = "NV18") -> None:
    """What `nvidia-smi topo -m` says of the four GPUs of a node."""
    row = {"cluster": w.cluster, "observed_us": None, "node": name}
    gpus = [(f"GPU{n}", json.dumps({"uuid": w.names.get(f"{name}-{n}", f"{name}-{n}")})) for n in range(4)]
    rows = [row | {"a": gpu, "b": gpu, "level": "X", "detail": detail} for gpu, detail in gpus]
    rows += [row | {"a": a, "b": b, "level": level, "detail": "{}"} for (a, _), (b, _) in combinations(gpus, 2)]
    w.store.append(Records("link", pa.Table.from_pylist(rows, schema=LINK)))


def held(w: World, n1: int = 1, n2: int = 4, level: str | None = "NV18") -> None:
    """Two nodes of four GPUs, held in part since minute 0."""
    for name, gpus in (("n1", n1), ("n2", n2)):
        node(w, name, 4, gpus, until=END)
        if level is not None:
            linked(w, name, level)


def late(w: World) -> None:
    """The small job came after three hours."""
    for name, start in (("n1", 180), ("n2", 0)):
        w.node(name, 0, {"": 4})
        for n in range(4):
            w.gpu(f"{name}-{n}", (END, WORK), node=name)
        w.job(f"job-{name}", [f"{name}-{n}" for n in range(1 if start else 4)], start, END, node=name)
        linked(w, name)


MUST_NOT_FIRE: dict[str, list[Scene]] = {
    "nobody waits": [held, lambda w: asked(w, 4, 20)],
    "who waits wants less than the island": [held, lambda w: waits(w, 3, 60, 240)],
    "it waits for quota": [held, lambda w: waits(w, 4, 60, 240, "QOSGrpGRES")],
    "the job has half of the island": [lambda w: held(w, 2), lambda w: waits(w, 4, 60, 240)],
    "another island is free": [lambda w: held(w, 1, 0), lambda w: waits(w, 4, 60, 240)],
    "the island is full": [lambda w: held(w, 4), lambda w: waits(w, 4, 60, 240)],
    "it waited for less than half an hour": [held, lambda w: waits(w, 4, 200, 229)],
    "nobody reported the links": [lambda w: held(w, level=None), lambda w: waits(w, 4, 60, 240)],
    "the GPUs have no NVLink": [lambda w: held(w, level="PIX"), lambda w: waits(w, 4, 60, 240)],
    "held for less than two hours": [late, lambda w: waits(w, 4, 60, 299)],
}


def test_must_not_fire(tmp_path: Path) -> None:
    findings = evaluated_apart(tmp_path, RULE, END, MUST_NOT_FIRE)

    assert {} == {case: verdicts for case, verdicts in findings.items() if verdicts}


def test_a_small_job_in_an_island_that_somebody_wants_whole(tmp_path: Path) -> None:
    """Held since minute 0 and wanted since minute 60: from minute 120 on."""
    [one] = evaluated(
        tmp_path, RULE, END, lambda w: held(w, 1, 4), lambda w: asked(w, 4, 1), lambda w: waits(w, 4, 60, 240)
    )

    assert ("node", "n1") == (one.kind, one.subject)
    assert (120.0, 240.0) == (one.started, one.ended)
    assert (4, 1, 3, 120) == tuple(
        one.evidence[n] for n in ("island_gpus", "used_gpus", "free_gpus", "pending_minutes")
    )
    assert ("job-n1", "big") == (one.evidence["jobs"], one.evidence["waiting_job"])
    assert 3 * 120 * 60 == one.wasted_s


def test_the_doc_page_says_the_thresholds(checkout: Path) -> None:
    page = page_rows(checkout / "docs/detectors/partial-island.md")

    assert {"held_us_min": "2 h", "wait_us_min": "30 min"} == page
    assert set(page) == {threshold.name for threshold in PARTIAL_ISLAND.thresholds}
