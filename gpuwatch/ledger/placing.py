"""Nodes with their devices, and the runs that no source gives devices, for gpuwatch.ledger.placement_estimate."""

from __future__ import annotations

import json
from collections import defaultdict

import pyarrow as pa

from gpuwatch.core.model import WHOLE_GPU
from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.ledger.inner_runs import numbers
from gpuwatch.ledger.placement_estimate import WHOLE_UNITS, Kept, Node, Placed, Slot, Wanted
from gpuwatch.store.database import Store

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


def nodes_of(store: Store, cluster: str) -> dict[str, Node]:
    """The nodes with missing or uncounted devices, with their devices and holds.

    A GPU that was replaced is not a device of its own here: the newest one in its slot has the holds of all.
    """
    inventory = {
        node: ({k: int(v) for k, v in json.loads(devices).items()} if devices else None, sharing)
        for node, devices, sharing in store.sql("select node, devices, sharing from site order by node")
    }
    slots: dict[str, list[Slot]] = defaultdict(list)
    by_device: dict[int, Slot] = {}
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
        slot = Slot(device_id, gpu, index, known, measured=True)
        slots[node].append(slot)
        by_device[device_id] = slot
    kept: set[str] = set()
    for device_id, node, gpu, gpu_index in store.sql(
        "select device_id, node, gpu, gpu_index from kept where kind = 'device' order by node, gpu_index"
    ):
        kept.add(node)
        slot = Slot(device_id, gpu, gpu_index, None, measured=False)
        slots[node].append(slot)
        by_device[device_id] = slot
    held = store.sql(
        """with newest as (
            select old.device_id as old_id, n.device_id
            from slot_turn t
            join slot_turn l on l.node = t.node and l.slot = t.slot and l.to_us is null
            join seen old on old.gpu = t.gpu
            join seen n on n.gpu = l.gpu and n.gi = old.gi
            where t.to_us is not null
        )
        select coalesce(w.device_id, h.device_id), h.start_us, h.end_us, f.units
        from hold h
        left join newest w on w.old_id = h.device_id
        left join fraction_unit f on f.run_id = h.run_id and f.pod_uid is not distinct from h.pod_uid"""
    )
    for device_id, start_us, end_us, units in held:
        if device_id in by_device:
            by_device[device_id].held.add(start_us, end_us, WHOLE_UNITS if units is None else units)
    named = {row[0] for row in store.sql("select distinct node from missing where node is not null")}
    return {
        name: Node(
            cluster,
            name,
            inventory.get(name, (None, None))[0],
            slots.get(name, []),
            shared=inventory.get(name, (None, None))[1] in ("time-slicing", "mps"),
        )
        for name in sorted(named | set(inventory) | kept)
    }


def wanted(store: Store) -> list[Wanted]:
    """The missing devices by node, never more than the run lacks in total: labels may use other node names."""
    rows = store.sql(
        """select run_id, pod_uid, node, profile, device_count, start_us, end_us, device_indexes, run_short, gpus, units
        from missing where node is not null
        order by run_id, node, pod_uid, profile, start_us"""
    )
    short: dict[int, int] = {}
    found = []
    for run_id, pod_uid, node, profile, count, start_us, end_us, indexes, run_short, gpus, units in rows:
        left = short.setdefault(run_id, run_short)
        take = min(count, left)
        short[run_id] = left - take
        if take:
            kind = (hardware_shares.profile_name(profile) or profile) if profile else None
            names = tuple(name.strip() for name in (gpus or "").split(","))
            uuids = tuple(name for name in names if name and (kind or name.startswith("MIG-")))
            span = (start_us, end_us)
            found.append(Wanted(run_id, pod_uid, node, kind, take, *span, numbers(indexes), uuids, units))
    return found


def kept_holds(store: Store, cluster: str) -> list[Kept]:
    """The runs whose records are not read, on the devices that they were attributed to."""
    return [
        Kept(
            row["run_id"],
            row["device_id"],
            row["pod_uid"],
            row["node"],
            row["start_us"],
            row["end_us"],
            WHOLE_UNITS if row["units"] is None else row["units"],
            row["estimated"],
        )
        for row in store.rows("ledger/partial/kept_hold", cluster=cluster)
    ]


def hold_table(placed: list[Placed]) -> pa.Table:
    """Placed runs as rows of hold."""
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
