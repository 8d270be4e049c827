"""Runs inside of runs: Slurm and Ray on devices that another scheduler's run holds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa

from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.ledger.nesting import Holder, Inner, InnerHold, OuterHold, refine, short
from gpuwatch.ledger.node_division import divide
from gpuwatch.ledger.placement_estimate import WHOLE_UNITS, Node, Wanted
from gpuwatch.store.database import Store

INNER_SCHEDULERS = ("slurm", "ray")
"""Schedulers whose nodes may be held by another one's runs, the outer before the inner."""
_INNER = pa.schema(
    [
        ("run_id", pa.int64()),
        ("pod_uid", pa.string()),
        ("outer_run_id", pa.int64()),
        ("outer_pod_uid", pa.string()),
        ("device_id", pa.int64()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("units", pa.int64()),
        ("estimated", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Hints:
    """Which ways of finding devices the scheduler records of a cluster need."""

    may_nest: bool
    """Some runs may be inside of others."""
    indexes: bool
    """Some records name devices by index."""


def read_hints(store: Store) -> Hints:
    """Reads the records of runs in `wanted`."""
    found, indexed, pods = store.sql(
        """select list(distinct scheduler), count(device_indexes) > 0, (select count(pod) from owner_span) > 0
        from wanted"""
    )[0]
    schedulers = set(found or ())
    may_nest = "ray" in schedulers or ("slurm" in schedulers and ("kubernetes" in schedulers or pods))
    return Hints(may_nest, indexed)


def inner_holds(store: Store, nodes: dict[str, Node]) -> list[InnerHold]:
    """Runs inside of runs, on the devices of those: Slurm's first, since Ray may run in Slurm."""
    unseen = {slot.device_id: (name, slot) for name, node in nodes.items() for slot in node.slots}
    holds = [
        OuterHold(
            (run_id, pod_uid),
            node or unseen.get(device_id, ("", None))[0],
            device_id,
            order,
            profile if device_id not in unseen else unseen[device_id][1].profile,
            start_us,
            end_us,
            estimated,
        )
        for run_id, pod_uid, device_id, node, order, profile, start_us, end_us, estimated in store.sql(
            """select h.run_id, h.pod_uid, h.device_id, coalesce(h.node, n.node),
                row_number() over (order by n.node, n.gpu_index, n.gpu, n.gi, h.device_id),
                n.profile, h.start_us, h.end_us, h.estimated
            from hold h
            left join seen n using (device_id)
            where h.run_id in (select outer_run_id from nested)"""
        )
    ]
    signs: dict[Holder, set[int]] = defaultdict(set)
    for run_id, pod_uid, device_id in store.sql("select run_id, pod_uid, device_id from inner_sign"):
        signs[run_id, pod_uid].add(device_id)
    found: list[InnerHold] = []
    for scheduler in INNER_SCHEDULERS:
        placed = refine(_inner_runs(store, scheduler, holds), holds, signs)
        found += placed
        facts = {hold.device_id: hold for hold in holds}
        for p in placed:
            hold = facts[p.device_id]
            span = (p.start_us, p.end_us, p.estimated)
            holds.append(OuterHold(p.holder, p.node, hold.device_id, hold.order, hold.profile, *span))
    return found


def _inner_runs(store: Store, scheduler: str, holds: list[OuterHold]) -> list[Inner]:
    """The inner runs of one scheduler with all the runs that each may be in; those with a total are divided by what is free."""
    rows = store.sql(
        """select w.run_id, w.pod_uid, w.node, w.profile, w.device_count, w.units, w.start_us, w.end_us,
            w.device_indexes, n.outer_scheduler,
            list((n.outer_run_id, n.outer_pod_uid, n.outer_start_us, n.outer_end_us)
                order by n.outer_run_id, n.outer_pod_uid),
            w.totals
        from wanted w
        join nested n
            on n.run_id = w.run_id and n.pod_uid is not distinct from w.pod_uid and n.node = w.node
        where w.nested and w.scheduler = $scheduler
        group by all""",
        scheduler=scheduler,
    )
    devices: dict[Holder, set[int]] = defaultdict(set)
    for hold in holds:
        devices[hold.holder].add(hold.device_id)
    sizes: dict[str, set[int]] = defaultdict(set)
    requests: dict[int, Wanted] = {}
    for number, row in enumerate(rows):
        run_id, pod_uid, node, profile, count, units, start_us, end_us, indexes, _, outers, totals = row
        sizes[node] |= {len(devices[run, pod]) for run, pod, _, _ in outers}
        kind = (hardware_shares.profile_name(profile) or profile) if profile else None
        requests[number] = Wanted(
            *(run_id, pod_uid, node, kind, count, start_us, end_us, numbers(indexes)),
            units=units,
            numbered=scheduler == "slurm",
            totals=bool(totals) and units == WHOLE_UNITS and kind is None,
        )
    counts = _divided(requests, sizes)
    return [
        Inner(
            (run_id, pod_uid),
            tuple(((run, pod), start, end) for run, pod, start, end in outers),
            node,
            short(node) if outer_scheduler == "slurm" else None,
            requests[number].profile,
            counts[number],
            units,
            start_us,
            end_us,
            requests[number].indexes,
        )
        for number, (run_id, pod_uid, node, _, _, units, start_us, end_us, _, outer_scheduler, outers, _) in enumerate(
            rows
        )
        if counts[number]
    ]


def _divided(requests: dict[int, Wanted], sizes: dict[str, set[int]]) -> dict[int, int]:
    """How many devices each request has on its node, which is a pod with as many devices as the pod holds."""
    if not any(request.totals for request in requests.values()):
        return {number: request.count for number, request in requests.items()}
    fleet = {
        node: Node("", node, {"": next(iter(known))} if len(known) == 1 and 0 not in known else None, [])
        for node, known in sizes.items()
    }
    place = {(r.run_id, r.pod_uid, r.node, r.profile, r.start_us): number for number, r in requests.items()}
    counts = dict.fromkeys(requests, 0)
    for r in divide(fleet, requests.values()):
        counts[place[r.run_id, r.pod_uid, r.node, r.profile, r.start_us]] = r.count
    return counts


def inner_table(holds: list[InnerHold]) -> pa.Table:
    return pa.Table.from_pydict(
        {
            "run_id": [h.holder[0] for h in holds],
            "pod_uid": [h.holder[1] for h in holds],
            "outer_run_id": [h.outer[0] for h in holds],
            "outer_pod_uid": [h.outer[1] for h in holds],
            "device_id": [h.device_id for h in holds],
            "start_us": [h.start_us for h in holds],
            "end_us": [h.end_us for h in holds],
            "units": [h.units for h in holds],
            "estimated": [h.estimated for h in holds],
        },
        schema=_INNER,
    )


def numbers(text: str | None) -> tuple[int, ...]:
    """Whole numbers of a text with commas."""
    return tuple(int(i) for i in (text or "").split(",") if i.strip().isdigit())
