"""Which run held which device, and when: runs sql/ledger/attribution and places runs that no source gives devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from gpuwatch.core import gpu_specs
from gpuwatch.core.clock import MINUTE_US, SECOND_US
from gpuwatch.core.model import RUN_US_MAX, device_key
from gpuwatch.ledger import workload_class
from gpuwatch.ledger.inner_runs import INNER_SCHEDULERS, inner_holds, inner_table, read_hints
from gpuwatch.ledger.partial import ALL_US, changed_since, forget, is_noted, note, part_of
from gpuwatch.ledger.placement_estimate import Node, place
from gpuwatch.ledger.placing import hold_table, kept_holds, nodes_of, wanted
from gpuwatch.ledger.slice_shares import MethodSpan, method_spans, method_table, unit_table, unseen_table
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store

VERSION = "attribution 1"
"""Of the derivation of segments from records. Another version attributes every cluster again from all records."""
INTERVAL_US_MAX = 15 * MINUTE_US
"""Samples further apart than this are silence, whatever the usual spacing is."""
LABEL_LAG_US = 2 * MINUTE_US
"""How far labels of samples may run ahead of or behind the scheduler's times."""
LAYOUT_SILENCE_US = 10 * MINUTE_US
"""A MIG slice silent for longer may have been another slice meanwhile."""
PROCESS_SLACK = 0.02
"""The sum of processes may exceed the device reading by this much, because they are not read at the same instant."""

_PARENT = pa.schema([("gpu", pa.string()), ("parent_id", pa.int64())])
_TRAIT = pa.schema(
    [
        ("device_id", pa.int64()),
        ("slice", pa.bool_()),
        ("link_bytes_per_s", pa.float64()),
        ("tdp_watts", pa.float64()),
        ("tensor_roof", pa.float64()),
        ("dram_roof", pa.float64()),
    ]
)


def attribute(store: Store, cluster: str, settings: Settings, methods: Sequence[tuple[int, str]] = ()) -> None:
    """Rebuilds devices, runs, capacity and segments of a cluster; marks the hours that changed as dirty.

    `methods` are (from_us, share method) as policies date them; before the first, the setting `mig_share_method` holds.
    All in one transaction. The result depends on the stored records only, not on their order nor on what was computed before;
    where it can, only records of the time that changed are read. Days whose raw samples are gone keep the methods of their
    ledger rows. Raises UsageError for an unknown method.
    """
    spans = method_spans(store, cluster, settings.mig_share_method, methods)
    one = _Attribution(cluster, settings, spans, basis(settings, methods))
    noted = is_noted(store, cluster)
    if noted and one.may_read_part:
        with store.workspace() as work, work.transaction():
            if one.from_part(work):
                return
    with store.workspace() as work, work.transaction():
        one.from_all(work, noted)


def basis(settings: Settings, methods: Sequence[tuple[int, str]]) -> str:
    """What segments follow from besides the records: the version of their derivation, and settings."""
    by = [VERSION, settings.default_interval_s, settings.mig_share_method, settings.sharing_split, list(methods)]
    return json.dumps(by)


class _Attribution:
    """The attribution of one cluster."""

    def __init__(self, cluster: str, settings: Settings, spans: Sequence[MethodSpan], basis: str) -> None:
        self._cluster, self._spans, self._basis = cluster, spans, basis
        self._by_process = settings.sharing_split == "process"
        self.may_read_part = settings.attribution == "changed" and not self._by_process
        self._times: dict[str, Any] = {
            "cluster": cluster,
            "default_interval_us": int(settings.default_interval_s * SECOND_US),
            "interval_us_max": INTERVAL_US_MAX,
            "label_lag_us": LABEL_LAG_US,
            "layout_silence_us": LAYOUT_SILENCE_US,
            "run_us_max": RUN_US_MAX,
        }
        self._views = ExitStack()

    def from_part(self, work: Store) -> bool:
        """Replaces what follows from the records of the time that changed; False, and nothing, where that does not suffice."""
        since_us = changed_since(work, self._cluster, self._basis)
        if since_us is None:
            return False
        with ExitStack() as self._views:
            from_us = part_of(work, self._cluster, since_us, lambda reach_us: self._derive(work, reach_us))
            if from_us is None:
                return False
            times = self._times | {"from_us": from_us, "partial": True}
            work.run("ledger/attribution/50_replace", **times)
            work.run("ledger/partial/note", basis=self._basis, **times)
            return True

    def from_all(self, work: Store, noted: bool) -> None:
        """Replaces everything, from all records. `noted`: whether an earlier attribution is."""
        work.run("ledger/attribution/05_read_all", cluster=self._cluster)
        with ExitStack() as self._views:
            self._derive(work, ALL_US)
            work.run("ledger/attribution/50_replace", **self._times, from_us=ALL_US, partial=False)
            if self.may_read_part:
                note(work, self._cluster, self._basis, noted)
            elif noted:
                forget(work, self._cluster)

    def _derive(self, work: Store, samples_from_us: int) -> None:
        """Makes the temporary tables of devices, runs and segments, from read_claim, read_span and samples since a time."""
        cluster, times = self._cluster, self._times | {"samples_from_us": samples_from_us}
        work.run("ledger/attribution/10_device", **times)
        work.run("ledger/attribution/20_claim", **times)
        nested, hints = False, read_hints(work)
        if hints.may_nest:
            work.run("ledger/attribution/21_nested", **times)
            nested = _rows(work, "select 1 from nested")
        nodes = _hold(work, cluster, times, nested, hints.indexes, samples_from_us != ALL_US)
        with work.view("inner_rows", inner_table(inner_holds(work, nodes) if nested else [])):
            work.run("ledger/attribution/28_inner_hold")
        if self._by_process or _rows(work, "select 1 from process_use"):
            work.run(
                "ledger/attribution/29_process_use", by_process=self._by_process, ratio_slack=PROCESS_SLACK, **times
            )
        seen_gpus = [row[0] for row in work.sql("select distinct gpu from seen order by 1")]
        parents = pa.Table.from_pydict(
            {"gpu": seen_gpus, "parent_id": [device_key(cluster, gpu) for gpu in seen_gpus]}, schema=_PARENT
        )
        self._views.close()
        self._views.enter_context(work.view("gpu_parent", parents))
        self._views.enter_context(work.view("unseen_device", unseen_table(work, nodes, self._spans)))
        self._views.enter_context(work.view("method_span", method_table(self._spans)))
        self._views.enter_context(work.view("share_unit", unit_table(work, self._spans)))
        work.run("ledger/attribution/30_capacity", **times)
        work.run("ledger/attribution/35_new_device", **times)
        work.run("ledger/attribution/40_holder", **times)
        if _rows(work, "select 1 from process_use where units is not null"):
            work.run("ledger/attribution/41_process", **times)
        work.run("ledger/attribution/46_word", **times)
        for level, scheduler in enumerate(INNER_SCHEDULERS) if nested else ():
            work.run("ledger/attribution/42_inner", level=level)
            work.run("ledger/attribution/48_inherit", scheduler=scheduler)
        work.run("ledger/attribution/44_segment", **times)
        work.run("ledger/attribution/49_read_run")


def _hold(work: Store, cluster: str, times: dict[str, Any], nested: bool, indexes: bool, part: bool) -> dict[str, Node]:
    """Makes the table of holds: by labels and UUIDs, by index, by samples alone, and by count. Returns the nodes placed on."""
    work.run("ledger/attribution/22_hold", **times)
    replaced = work.run("ledger/attribution/22_slot_turn")
    if nested:
        work.run("ledger/attribution/23_inner_sign")
    if indexes:
        work.run("ledger/attribution/24_indexed_hold", **times)
    work.run("ledger/attribution/25_missing")
    if work.run("ledger/attribution/26_observed", **times):
        work.run("ledger/attribution/26_observed_hold")
    nodes = nodes_of(work, cluster)
    placed = place(nodes, wanted(work), kept_holds(work, cluster) if part else ())
    if placed:
        with work.view("placed_rows", hold_table(placed)):
            work.run("ledger/attribution/27_placed_hold")
    if replaced:
        work.run("ledger/attribution/27_slot_hold")
    work.run("ledger/attribution/27_evidence")
    return nodes


def traits(store: Store, cluster: str, settings: Settings) -> pa.Table:
    """Roofs, board power and link speed of every device of a cluster, by its model."""
    rows = store.sql("select device_id, gi >= 0, model from device where cluster = $cluster", cluster=cluster)
    known = [gpu_specs.facts(model) for _, _, model in rows]
    roof_of = {model: workload_class.roofs_of(settings, model) for model in {row[2] for row in rows}}
    return pa.Table.from_pydict(
        {
            "device_id": [row[0] for row in rows],
            "slice": [row[1] for row in rows],
            "link_bytes_per_s": [k.link_bytes_per_s for k in known],
            "tdp_watts": [k.tdp_watts for k in known],
            "tensor_roof": [roof_of[model].tensor for _, _, model in rows],
            "dram_roof": [roof_of[model].dram for _, _, model in rows],
        },
        schema=_TRAIT,
    )


def _rows(store: Store, query: str) -> bool:
    """Whether a query has rows."""
    return bool(store.sql(f"select exists({query})")[0][0])
