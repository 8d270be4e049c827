"""What every MIG slice of a cluster is a share of, by the method in force at each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import lcm
from typing import cast

import pyarrow as pa

from gpuwatch.core.accelerators import NAMES
from gpuwatch.core.clock import DAY_US
from gpuwatch.core.errors import UsageError
from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.hardware.shares import ShareMethod
from gpuwatch.ledger.placement_estimate import Node
from gpuwatch.store.database import Store

BEGINNING_US = -(2**62)
FOREVER_US = 2**62
"""Before and after every time in the ledger."""

MethodSpan = tuple[int, int, ShareMethod]
"""(start_us, end_us, method) of a time in which slices are counted by one method."""

_METHOD = pa.schema([("from_us", pa.int64()), ("until_us", pa.int64()), ("method", pa.string())])
_UNIT = pa.schema(
    [
        ("method", pa.string()),
        ("model", pa.string()),
        ("profile", pa.string()),
        ("units", pa.int64()),
        ("whole", pa.int64()),
    ]
)
_UNSEEN = pa.schema(
    [
        ("device_id", pa.int64()),
        ("gpu", pa.string()),
        ("profile", pa.string()),
        ("model", pa.string()),
        ("kind", pa.string()),
        ("node", pa.string()),
        ("gpu_index", pa.int32()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("share_num", pa.int64()),
        ("share_den", pa.int64()),
        ("method", pa.string()),
    ]
)


def method_spans(
    store: Store, cluster: str, default: ShareMethod, dated: Sequence[tuple[int, str]] = ()
) -> list[MethodSpan]:
    """The method of every time, without gaps: `dated` (from_us, method) in any order, `default` before the first.

    Days whose raw samples are deleted keep the method of their ledger rows, because they cannot be recomputed. Raises
    UsageError for what is no method.
    """
    retired_us = _retired_us(store, cluster)
    edges: dict[int, str] = {BEGINNING_US: default}
    for from_us, method in sorted(dated):
        if method not in hardware_shares.SHARE_METHODS:
            raise UsageError(f"share method {method!r}: not known; known: {', '.join(hardware_shares.SHARE_METHODS)}")
        edges[from_us] = method
    if retired_us is not None:
        edges = _with_stored(store, cluster, retired_us, edges)
    merged: list[tuple[int, str]] = []
    for from_us, method in sorted(edges.items()):
        if not merged or merged[-1][1] != method:
            merged.append((from_us, method))
    ends = [from_us for from_us, _ in merged[1:]] + [FOREVER_US]
    return [(start, end, cast(ShareMethod, method)) for (start, method), end in zip(merged, ends, strict=True)]


def _retired_us(store: Store, cluster: str) -> int | None:
    """The end of the last day whose samples have been deleted; None if there is none."""
    row = store.sql(
        """select max(s.day_us)
        from (
            select distinct context_id, hour_us // 86400000000 * 86400000000 as day_us
            from context_span
            where hour_us // 86400000000 * 86400000000 not in (select day_us from sealed_day)
        ) s
        join context c using (context_id)
        where c.cluster = $cluster""",
        cluster=cluster,
    )[0][0]
    return None if row is None else int(row) + DAY_US


def _with_stored(store: Store, cluster: str, until_us: int, edges: Mapping[int, str]) -> dict[int, str]:
    """The edges, with those stored in the ledger in place of all before `until_us`."""
    stored = store.sql(
        """with method_start as (
            select start_us, min(method) as method
            from segment
            where cluster = $cluster and method is not null and start_us < $until
            group by start_us
        )
        select start_us, method
        from method_start
        qualify method is distinct from lag(method) over (order by start_us)
        order by start_us""",
        cluster=cluster,
        until=until_us,
    )
    if not stored:
        return dict(edges)
    known = {BEGINNING_US: stored[0][1], **dict(stored[1:])}
    known[until_us] = edges[max(at for at in edges if at <= until_us)]
    return known | {at: method for at, method in edges.items() if at > until_us}


def method_table(spans: Sequence[MethodSpan]) -> pa.Table:
    """The spans as rows for SQL."""
    names = ("from_us", "until_us", "method")
    return pa.Table.from_pylist([dict(zip(names, span, strict=True)) for span in spans], schema=_METHOD)


def unit_table(store: Store, spans: Sequence[MethodSpan]) -> pa.Table:
    """Units of every (model, profile) seen by each method of the spans, and those of a whole GPU: whole numbers."""
    pairs = store.sql("select distinct model, profile from seen_context where gi >= 0 order by all")
    rows: list[dict[str, object]] = []
    for method in sorted({method for _, _, method in spans}):
        shares = [hardware_shares.share(model, profile, method) for model, profile in pairs]
        scale = lcm(1, *(s.units.denominator for s in shares if s is not None))
        for (model, profile), share in zip(pairs, shares, strict=True):
            # A profile that cannot be read at all is counted as the smallest slice, never as a whole GPU.
            units = int(share.units * scale) if share else hardware_shares.SHARE_UNITS // 7 * scale
            whole = hardware_shares.SHARE_UNITS * scale
            rows.append({"method": method, "model": model, "profile": profile, "units": units, "whole": whole})
    return pa.Table.from_pylist(rows, schema=_UNIT)


def unseen_table(store: Store, nodes: Mapping[str, Node], spans: Sequence[MethodSpan]) -> pa.Table:
    """Devices known to the scheduler and never measured, owned from the first to the last evidence of their node.

    A slice has a row for each method of its time. Its GPU is unknown, so its share is not adjusted. Accelerators of other vendors
    are whole devices with their `kind` and model.
    """
    if not nodes:
        return _UNSEEN.empty_table()
    models = dict(store.sql("select node, gpu_model from site"))
    rows: list[dict[str, object]] = []
    for name, (start_us, end_us) in _owned_spans(store, nodes).items():
        for slot in nodes[name].slots:
            if slot.measured:
                continue
            device = {"device_id": slot.device_id, "gpu": slot.gpu, "profile": slot.profile}
            device |= {"node": name, "gpu_index": slot.index}
            if slot.profile is None or slot.profile in NAMES:
                if slot.profile is not None:
                    alone = set(nodes[name].inventory or {}) == {slot.profile}
                    model = (models.get(name) if alone else None) or NAMES[slot.profile]
                    device |= {"profile": None, "kind": slot.profile, "model": model}
                rows.append(device | {"start_us": start_us, "end_us": end_us, "share_num": 1, "share_den": 1})
                continue
            for from_us, until_us, method in spans:
                share = hardware_shares.share(models.get(name), slot.profile, method)
                if share is not None and from_us < end_us and until_us > start_us:
                    rows.append(
                        device
                        | {
                            "start_us": max(from_us, start_us),
                            "end_us": min(until_us, end_us),
                            "share_num": share.units.numerator,
                            "share_den": hardware_shares.SHARE_UNITS * share.units.denominator,
                            "method": method,
                        }
                    )
    return pa.Table.from_pylist(rows, schema=_UNSEEN)


def _owned_spans(store: Store, nodes: Iterable[str]) -> dict[str, tuple[int, int]]:
    """The time from the first to the last evidence of each node."""
    evidence = {node: span for node, *span in store.sql("select node, start_us, end_us from node_evidence")}
    fleet = store.sql("select start_us, end_us from fleet_span")[0]
    off = {row[0] for row in store.sql("select node from site where always_off")}
    spans = {}
    for node in nodes:
        # A node that only a node list names was there as long as the cluster was looked at.
        known = evidence.get(node, (None, None))
        for start_us, end_us in (known,) if node in off else (known, fleet):
            if start_us is not None and end_us is not None and end_us > start_us:
                spans[node] = start_us, end_us
                break
    return spans
