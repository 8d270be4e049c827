"""Which run held which device, and when: runs sql/ledger/attribution and places runs that no source gives devices."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from gpuwatch.core import gpu_specs, sqlfile
from gpuwatch.core.clock import HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.core.model import RUN_US_MAX, WHOLE_GPU, device_key
from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.ledger import workload_class
from gpuwatch.ledger.claims import read_claims
from gpuwatch.ledger.device_slots import Slot
from gpuwatch.ledger.inner_runs import INNER_SCHEDULERS, inner_holds, inner_table, numbers
from gpuwatch.ledger.node_division import divide
from gpuwatch.ledger.placement_estimate import WHOLE_UNITS, Node, Placed, Wanted, place
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

EVER_US = (1 << 63) - 1

_DERIVING = (
    "segments/placed_hold",
    "segments/recomputed",
    *(f"attribution/{name}" for name in ("40_holder", "41_process", "42_inner", "44_segment")),
)
"""The statements that make segments of holds and capacity."""
_HOLD = pa.schema(
    [
        ("run_id", pa.int64()),
        ("device_id", pa.int64()),
        ("pod_uid", pa.string()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("declared", pa.bool_()),
        ("estimated", pa.bool_()),
        ("node", pa.string()),
        ("slot", pa.string()),
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
        several_clusters = _rows(work, "select 1 from context having min(cluster) < max(cluster)")
        work.run("ledger/segments/elsewhere" if several_clusters else "ledger/segments/elsewhere_none", **times)
        nested, hints = False, read_claims(work, times)
        if hints.may_nest:
            work.run("ledger/claims/nested", **times)
            nested = _rows(work, "select 1 from nested")
        nodes = _hold(work, cluster, times, nested, hints.indexes)
        with work.view("inner_rows", inner_table(inner_holds(work, nodes) if nested else [])):
            work.run("ledger/attribution/28_inner_hold")
        measured = by_process or _rows(work, "select 1 from process_use")
        if measured:
            work.run("ledger/attribution/29_process_use", by_process=by_process, ratio_slack=PROCESS_SLACK, **times)
        cut = dict(work.sql("select gpu, bool_or(gi >= 0) from seen group by gpu order by gpu"))
        parents = pa.Table.from_pydict(
            {"gpu": list(cut), "parent_id": [device_key(cluster, gpu) for gpu in cut]}, schema=_PARENT
        )
        with (
            work.view("gpu_parent", parents),
            work.view("unseen_device", unseen_table(work, nodes, spans)),
            work.view("method_span", method_table(spans)),
            work.view("share_unit", unit_table(work, spans)),
        ):
            work.run("ledger/attribution/30_owned", **times)
            if any(cut.values()):
                work.run("ledger/attribution/31_slice", **times)
            work.run("ledger/attribution/32_capacity")
            work.run("ledger/attribution/35_new_device", **times)
            work.run("ledger/segments/placed_hold", **times)
            processes = measured and _rows(work, "select 1 from process_use where units is not null")
            # Of inner runs and process readings, no digest says what they change.
            unknown = nested or processes
            derived = {"derivation": _derivation(), "unknown": unknown, "everything": everywhere or unknown}
            work.run("ledger/segments/recomputed", **derived, **times)
            work.run("ledger/attribution/40_holder", **times)
            if processes:
                work.run("ledger/attribution/41_process", **times)
            work.run("ledger/attribution/46_word", nested=nested, **times)
            for level, scheduler in enumerate(INNER_SCHEDULERS) if nested else ():
                work.run("ledger/attribution/42_inner", level=level)
                work.run("ledger/attribution/48_inherit", scheduler=scheduler)
            work.run("ledger/attribution/44_segment", **times)
            work.run("ledger/attribution/50_replace", **times)
            if _rows(work, "select 1 from stay union all select 1 from device_stay"):
                work.run("ledger/segments/device_stay", cluster=cluster)


def _hold(work: Store, cluster: str, times: dict[str, Any], nested: bool, indexes: bool) -> dict[str, Node]:
    """Makes the table of holds: by labels and UUIDs, by index, by samples alone, and by count. Returns the nodes placed on."""
    work.run("ledger/attribution/22_hold", **times)
    moved = work.run("ledger/attribution/22_restless") and work.run("ledger/attribution/22_stay")
    replaced = work.run("ledger/attribution/22_slot_turn")
    if moved:
        work.run("ledger/attribution/23_stay_hold")
    if nested:
        work.run("ledger/attribution/23_inner_sign")
    if indexes:
        work.run("ledger/attribution/24_indexed_hold", **times)
    work.run("ledger/segments/seen_span", **times)
    work.run("ledger/attribution/25_missing")
    if work.run("ledger/attribution/26_observed", **times):
        work.run("ledger/attribution/26_observed_hold")
    nodes = _nodes(work, cluster)
    placed = place(nodes, divide(nodes, _wanted(work))) if nodes else []
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
        node: ({k: int(v) for k, v in json.loads(devices).items()} if devices else None, sharing, at_us)
        for node, devices, sharing, at_us in store.sql("select node, devices, sharing, last_us from site order by node")
    }
    wanted = {row[0] for row in store.sql("select distinct node from missing where node is not null")}
    if not inventory and not wanted:
        return {}
    slots: dict[str, list[Slot]] = defaultdict(list)
    by_device: dict[tuple[int, int | None], list[Slot]] = defaultdict(list)
    for row in store.rows("ledger/attribution/25_slot"):
        node, whole = row["node"], row["gi"] == WHOLE_GPU
        profile = (
            hardware_shares.profile_name(row["profile"]) or row["profile"] if not whole and row["profile"] else None
        )
        index = row["gpu_index"] if whole and row["gpu_index"] is not None else len(slots[node])
        slot = Slot(row["device_id"], row["gpu"], index, profile, measured=True, name=row["slot"], former=row["former"])
        slot.numbered = whole and row["gpu_index"] is not None
        slot.away = _away(row["here_us"], row["away_us"] if row["former"] else None)
        slot.away += tuple(pair for pair in zip(row["away_from"], row["away_until"], strict=True) if pair[0] < pair[1])
        slots[node].append(slot)
        by_device[row["device_id"], row["stay"]].append(slot)
    for held in store.rows("ledger/attribution/25_slot_held"):
        for found in by_device.get((held["device_id"], held["stay"]), ()):
            found.held.add(held["start_us"], held["end_us"], WHOLE_UNITS if held["units"] is None else held["units"])
    built = {}
    for name in sorted(wanted | set(inventory)):
        counts, sharing, at_us = inventory.get(name, (None, None, None))
        shared = sharing in ("time-slicing", "mps")
        built[name] = Node(cluster, name, counts, slots.get(name, []), shared=shared, counted_us=at_us)
    return built


def _away(here_us: int | None, away_us: int | None) -> tuple[tuple[int, int], ...]:
    """The spans in which a slot, which a GPU was moved into or out of, was empty."""
    before = () if here_us is None else ((0, here_us),)
    return before if away_us is None else (*before, (away_us, EVER_US))


def _wanted(store: Store) -> list[Wanted]:
    """The missing devices by node, never more than the run lacks in total: labels may use other node names."""
    rows = store.sql(
        """select run_id, pod_uid, node, profile, device_count, start_us, end_us, device_indexes, run_short, gpus, units, scheduler,
            totals
        from missing where node is not null
        order by run_id, node, pod_uid, profile, start_us"""
    )
    measured = {row[0] for row in store.sql("select distinct gpu from seen")}
    short: dict[int, int] = {}
    wanted = []
    for (
        run_id,
        pod_uid,
        node,
        profile,
        count,
        start_us,
        end_us,
        indexes,
        run_short,
        gpus,
        units,
        scheduler,
        totals,
    ) in rows:
        left = short.setdefault(run_id, run_short)
        take = min(count, left)
        short[run_id] = left - take
        if take:
            kind = (hardware_shares.profile_name(profile) or profile) if profile else None
            names = tuple(name.strip() for name in (gpus or "").split(","))
            uuids = tuple(n for n in names if n and (kind or n.startswith("MIG-") or n not in measured))
            wanted.append(
                Wanted(
                    *(run_id, pod_uid, node, kind, take, start_us, end_us),
                    indexes=numbers(indexes),
                    gpus=uuids,
                    units=units,
                    numbered=scheduler == "slurm",
                    totals=totals,
                )
            )
    return wanted


@cache
def _derivation() -> str:
    """A digest of the statements that derive the ledger. When it changes, everything is computed again."""
    text = "".join(statement.text for name in _DERIVING for statement in sqlfile.load(f"ledger/{name}"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


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
            "node": [p.node for p in placed],
            "slot": [p.slot for p in placed],
        },
        schema=_HOLD,
    )
