"""Which run held which device, and when: runs sql/ledger/attribution and places runs that no source gives devices."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from gpuwatch.core import gpu_specs
from gpuwatch.core.clock import HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.core.model import RUN_US_MAX, WHOLE_GPU, device_key
from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.ledger import workload_class
from gpuwatch.ledger.inner_runs import INNER_SCHEDULERS, inner_holds, inner_table, numbers, read_hints
from gpuwatch.ledger.placement_estimate import WHOLE_UNITS, Node, Placed, Slot, Wanted, place
from gpuwatch.ledger.slice_shares import method_spans, method_table, unit_table, unseen_table
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store

INTERVAL_US_MAX = 15 * MINUTE_US
"""Samples further apart than this are silence, whatever the usual spacing is."""
LABEL_LAG_US = 2 * MINUTE_US
"""How far labels of samples may run ahead of or behind the scheduler's times."""
LAYOUT_SILENCE_US = 10 * MINUTE_US
"""A MIG slice silent for longer may have been another slice meanwhile."""
PROCESS_SLACK = 0.02
"""The sum of processes may exceed the device reading by this much, because they are not read at the same instant."""

_HOLD = pa.schema(
    [
        ("run_id", pa.int64()),
        ("device_id", pa.int64()),
        ("pod_uid", pa.string()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("declared", pa.bool_()),
        ("estimated", pa.bool_()),
    ]
)
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


def attribute(
    store: Store, cluster: str, settings: Settings, methods: Sequence[tuple[int, str]] = (), *, everywhere: bool = False
) -> None:
    """Rebuilds devices, runs, capacity and segments of a cluster; marks the hours that changed as dirty.

    `methods` are (from_us, share method) as policies date them; before the first, the setting `mig_share_method` holds.
    All in one transaction. The result depends on the stored records only, not on their order; days whose raw samples are
    gone keep the methods of their ledger rows. The spacing of samples is measured where they changed; with `everywhere`, in every hour.
    Raises UsageError for an unknown method.
    """
    spans = method_spans(store, cluster, settings.mig_share_method, methods)
    by_process = settings.sharing_split == "process"
    times = {
        "cluster": cluster,
        "default_interval_us": int(settings.default_interval_s * SECOND_US),
        "interval_us_max": INTERVAL_US_MAX,
        "label_lag_us": LABEL_LAG_US,
        "layout_silence_us": LAYOUT_SILENCE_US,
        "run_us_max": RUN_US_MAX,
    }
    with store.workspace() as work, work.transaction():
        work.run("ledger/attribution/08_edge", cluster=cluster, everywhere=everywhere)
        first, last = work.sql("select coalesce(min(hour), 0), coalesce(max(hour) + 1, 0) from edge_hour")[0]
        work.run("ledger/attribution/10_device", edge_from_us=first * HOUR_US, edge_until_us=last * HOUR_US, **times)
        work.run("ledger/attribution/20_claim", **times)
        nested, hints = False, read_hints(work)
        if hints.may_nest:
            work.run("ledger/attribution/21_nested", **times)
            nested = _rows(work, "select 1 from nested")
        nodes = _hold(work, cluster, times, nested, hints.indexes)
        with work.view("inner_rows", inner_table(inner_holds(work, nodes) if nested else [])):
            work.run("ledger/attribution/28_inner_hold")
        if by_process or _rows(work, "select 1 from process_use"):
            work.run("ledger/attribution/29_process_use", by_process=by_process, ratio_slack=PROCESS_SLACK, **times)
        seen_gpus = [row[0] for row in work.sql("select distinct gpu from seen order by 1")]
        parents = pa.Table.from_pydict(
            {"gpu": seen_gpus, "parent_id": [device_key(cluster, gpu) for gpu in seen_gpus]}, schema=_PARENT
        )
        with (
            work.view("gpu_parent", parents),
            work.view("unseen_device", unseen_table(work, nodes, spans)),
            work.view("method_span", method_table(spans)),
            work.view("share_unit", unit_table(work, spans)),
        ):
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
            work.run("ledger/attribution/50_replace", **times)


def _hold(work: Store, cluster: str, times: dict[str, Any], nested: bool, indexes: bool) -> dict[str, Node]:
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
    nodes = _nodes(work, cluster)
    placed = place(nodes, _wanted(work))
    if placed:
        with work.view("placed_rows", _hold_table(placed)):
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


def _nodes(store: Store, cluster: str) -> dict[str, Node]:
    """The nodes with missing or uncounted devices, with their devices and the holds of the time in which some are missing.

    A GPU that was replaced is not a device of its own here: the newest one in its slot has the holds of all.
    """
    inventory = {
        node: ({k: int(v) for k, v in json.loads(devices).items()} if devices else None, sharing)
        for node, devices, sharing in store.sql("select node, devices, sharing from site order by node")
    }
    slots: dict[str, list[Slot]] = defaultdict(list)
    by_device: dict[int, list[Slot]] = defaultdict(list)
    elsewhere = _moves(store)
    measured = store.sql(
        """select device_id, node, gpu, gi, gpu_index, profile from seen
        where node is not null
            and not (gi = -1 and gpu in (select gpu from seen where gi >= 0))
            and gpu not in (select gpu from slot_turn where to_us is not null)
        order by node, gpu_index, gpu, gi"""
    )
    for device_id, node, gpu, gi, gpu_index, profile in measured:
        known = hardware_shares.profile_name(profile) or profile if gi != WHOLE_GPU and profile else None
        index = gpu_index if gi == WHOLE_GPU and gpu_index is not None else len(slots[node])
        places = elsewhere.get(device_id, {node: ()})
        for name, away in places.items():
            slot = Slot(device_id, gpu, index, known, measured=True, former=name != node, away=away)
            slots[name].append(slot)
            by_device[device_id].append(slot)
    held = store.sql(
        """with newest as (
            select old.device_id as old_id, n.device_id
            from slot_turn t
            join slot_turn l on l.node = t.node and l.slot = t.slot and l.to_us is null
            join seen old on old.gpu = t.gpu
            join seen n on n.gpu = l.gpu and n.gi = old.gi
            where t.to_us is not null
        ),
        wanting as (
            select min(start_us) as start_us, max(end_us) as end_us from missing where node is not null
        )
        select coalesce(w.device_id, h.device_id), h.start_us, h.end_us, f.units
        from hold h
        left join newest w on w.old_id = h.device_id
        join wanting m on m.start_us < h.end_us and m.end_us > h.start_us
        left join fraction_unit f on f.run_id = h.run_id and f.pod_uid is not distinct from h.pod_uid"""
    )
    for device_id, start_us, end_us, units in held:
        for slot in by_device.get(device_id, ()):
            slot.held.add(start_us, end_us, WHOLE_UNITS if units is None else units)
    wanted = {row[0] for row in store.sql("select distinct node from missing where node is not null")}
    return {
        name: Node(
            cluster,
            name,
            inventory.get(name, (None, None))[0],
            slots.get(name, []),
            shared=inventory.get(name, (None, None))[1] in ("time-slicing", "mps"),
        )
        for name in sorted(wanted | set(inventory))
    }


def _moves(store: Store) -> dict[int, dict[str, tuple[tuple[int, int], ...]]]:
    """The GPUs that were moved from one node to another: by device and node, the spans in which it was elsewhere."""
    stays: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for row in store.rows("ledger/attribution/25_moved"):
        stays[row["device_id"]].append((row["first_us"], row["last_us"], row["node"]))
    return {
        device_id: {node: tuple((first, last) for first, last, other in found if other != node) for _, _, node in found}
        for device_id, found in stays.items()
    }


def _wanted(store: Store) -> list[Wanted]:
    """The missing devices by node, never more than the run lacks in total: labels may use other node names."""
    rows = store.sql(
        """select run_id, pod_uid, node, profile, device_count, start_us, end_us, device_indexes, run_short, gpus, units
        from missing where node is not null
        order by run_id, node, pod_uid, profile, start_us"""
    )
    short: dict[int, int] = {}
    wanted = []
    for run_id, pod_uid, node, profile, count, start_us, end_us, indexes, run_short, gpus, units in rows:
        left = short.setdefault(run_id, run_short)
        take = min(count, left)
        short[run_id] = left - take
        if take:
            kind = (hardware_shares.profile_name(profile) or profile) if profile else None
            names = tuple(name.strip() for name in (gpus or "").split(","))
            uuids = tuple(name for name in names if name and (kind or name.startswith("MIG-")))
            span = (start_us, end_us)
            wanted.append(Wanted(run_id, pod_uid, node, kind, take, *span, numbers(indexes), uuids, units))
    return wanted


def _rows(store: Store, query: str) -> bool:
    """Whether a query has rows."""
    return bool(store.sql(f"select exists({query})")[0][0])


def _hold_table(placed: list[Placed]) -> pa.Table:
    return pa.Table.from_pydict(
        {
            "run_id": [p.run_id for p in placed],
            "device_id": [p.device_id for p in placed],
            "pod_uid": [p.pod_uid for p in placed],
            "start_us": [p.start_us for p in placed],
            "end_us": [p.end_us for p in placed],
            "declared": [True] * len(placed),
            "estimated": [p.estimated for p in placed],
        },
        schema=_HOLD,
    )
