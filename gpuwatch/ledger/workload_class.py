"""What kind of work devices and jobs do: the one definition (sql/views/workload_class.sql) with each model's roofs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpuwatch.core import gpu_specs, rooflines
from gpuwatch.core.rooflines import Roofs
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store

if TYPE_CHECKING:
    from gpuwatch.rules.rule import EvaluationScope

IDLE = "idle"
CLASSES = (
    "compute-tensor",
    "compute-other",
    "memory-bandwidth",
    "communication",
    "host",
    "small-kernel",
    "mixed",
    IDLE,
)
"""Every class, those of work first."""
COVERAGE_MIN = 0.8
"""A quarter of an hour has a class where this part of it was measured."""

_RUN = pa.schema([("run_id", pa.int64())])
_ROOF = pa.struct([(name, pa.float64()) for name in rooflines.NAMES])
_MODEL = pa.schema(
    [
        ("model", pa.string()),
        ("tdp_watts", pa.float64()),
        ("fb_bytes", pa.float64()),
        ("roof", _ROOF),
    ]
)


def roofs_of(settings: Settings, model: str | None) -> Roofs:
    """The roofs of a model: the settings' `tensor_roof` and `dram_roof`, changed by their `roofs`."""
    return _of_model(_base(settings, {}), settings, model)


def make_views(store: Store, cluster: str, settings: Settings, parameters: Mapping[str, Any] | None = None) -> None:
    """Makes the macro `workload_class(reading, roof)` and the table `device_roof` for the SQL that follows.

    `parameters` are a rule's: its `tensor_roof` and `dram_roof` override the settings.
    """
    models = [row[0] for row in store.sql("select distinct model from device where cluster = $c order by 1", c=cluster)]
    base = _base(settings, parameters or {})
    facts = [gpu_specs.facts(model) for model in models]
    table = pa.Table.from_pydict(
        {
            "model": models,
            "tdp_watts": [known.tdp_watts for known in facts],
            "fb_bytes": [known.memory_bytes for known in facts],
            "roof": [asdict(_of_model(base, settings, model)) for model in models],
        },
        schema=_MODEL,
    )
    store.run("views/workload_class")
    with store.view("model_roof", table):
        store.run("views/device_roof", cluster=cluster)


def prepare(store: Store, scope: EvaluationScope) -> None:
    """Step of a rule that asks for classes: see make_views."""
    make_views(store, scope.cluster, scope.settings, scope.parameters)


def times_of_runs(
    store: Store,
    run_ids: Sequence[int],
    start_us: int | None = None,
    end_us: int | None = None,
    cluster: str | None = None,
) -> dict[int, dict[str, int]]:
    """Device microseconds of each run by class, in the hours that begin in [start_us, end_us). Runs without data are left
    out.
    """
    scope = pa.Table.from_pydict({"run_id": list(run_ids)}, schema=_RUN)
    times: dict[int, dict[str, int]] = {}
    with store.view("classed_run", scope):
        for row in store.rows("ledger/run_class", cluster=cluster, start_us=start_us, end_us=end_us):
            times.setdefault(row["run_id"], {})[row["workload_class"]] = row["covered_us"]
    return times


def of_runs(
    store: Store, cluster: str, run_ids: Sequence[int], start_us: int | None = None, end_us: int | None = None
) -> dict[int, str]:
    """The class of each run of a cluster in these hours: see `most`."""
    by_run = times_of_runs(store, run_ids, start_us, end_us, cluster)
    return {run_id: name for run_id, times in by_run.items() if (name := most(times)) is not None}


def most(times: Mapping[str, int]) -> str | None:
    """The class with the most time; idle only if there is no other class. None without any."""
    work = {name: us for name, us in times.items() if name != IDLE} or times
    return max(work, key=lambda name: (work[name], name), default=None)


def _base(settings: Settings, parameters: Mapping[str, Any]) -> Roofs:
    return Roofs(
        tensor=parameters.get("tensor_roof", settings.tensor_roof),
        dram=parameters.get("dram_roof", settings.dram_roof),
    )


def _of_model(base: Roofs, settings: Settings, model: str | None) -> Roofs:
    return rooflines.of_model(model, base, rooflines.read(settings.roofs))
