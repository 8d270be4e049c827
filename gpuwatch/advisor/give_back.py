"""What merged pools would not need: the sentence of `gpuwatch decide consolidate` for every model with stranded GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpuwatch.advisor.inputs import Assumptions, pools_at_end
from gpuwatch.advisor.merging import POOLS_MAX, consolidation
from gpuwatch.advisor.stranded import MODE, MODEL, Cause, short_model
from gpuwatch.core.clock import Window
from gpuwatch.core.words import duration
from gpuwatch.ledger.totals import scale_of
from gpuwatch.state import State
from gpuwatch.store.database import Store

CLUSTERS_MAX = 3
"""Clusters that are looked at: those with the most stranded time."""
LEVEL, ENOUGH = "p99", "for 99 % of the time"
"""What merged pools must hold: the same in every output, whatever its window."""


def with_give_back(store: Store, state: State, window: Window, found: Sequence[Cause]) -> list[Cause]:
    """Causes whose remedy says how many GPUs merged pools would free, where the nodes of the pools are known."""
    clusters = dict.fromkeys(place.cluster for one in found if one.name in (MODEL, MODE) for place in one.places)
    items = [item for name in list(clusters)[:CLUSTERS_MAX] for item in _merged(store, state, window, name)]
    made, named = [], set[str]()
    for one in found:
        models = {(place.cluster, place.gpu_model) for place in one.places}
        mine = [item for item in items if (item["cluster"], item["gpu_model"]) in models]
        sentences = [text for item in mine if (text := sentence(item))] if one.name in (MODEL, MODE) else []
        sentences = [text for text in sentences if text not in named]  # once, with the largest cause
        named.update(sentences)
        made.append(replace(one, more=" ".join([one.more, *sentences]).strip()) if sentences else one)
    return made


def _merged(store: Store, state: State, window: Window, cluster: str) -> Sequence[Mapping[str, Any]]:
    """All pools of a cluster whose nodes are known, merged, by model."""
    rows = pools_at_end(store, window, scale_of(store, window), cluster)
    unknown = {row["pool"] for row in rows if row["gpus_a_node"] is None}
    pools = sorted({row["pool"] for row in rows if row["pool"] is not None} - unknown)[:POOLS_MAX]
    return consolidation(store, state, window, cluster, pools, Assumptions())["items"] if pools else ()


def sentence(item: Mapping[str, Any]) -> str:
    """`H100-80GB: 34 of 82 GPUs would have been enough …`, if any job may run on any of them; empty where nothing is freed."""
    level = next((one for one in item["levels"] if one["level"] == LEVEL), None)
    if level is None or not level["freed_gpus"]:
        return ""
    left = item["gpus"] - level["freed_gpus"]
    worth = ""
    if level["saving_a_month"] is not None and item["currency"]:
        worth = f" ({Decimal(level['saving_a_month']):,.0f} {item['currency']} a month)"
    model = short_model(item["gpu_model"])
    if not left:
        return f"{model}: none of the {item['gpus']} GPUs was needed {ENOUGH}{worth}."
    text = (
        f"{model}: if any job could run on any of them, {left} of {item['gpus']} GPUs would have been enough {ENOUGH}; "
    )
    text += f"{level['freed_gpus']} could go{worth}"
    if level["delayed_requests"] is None or level["too_large_requests"]:
        return f"{text}."
    waits = "no request would have waited"
    if level["delayed_requests"]:
        longest = duration(level["longest_delay_seconds"])
        waits = f"{level['delayed_requests']:,} of {level['requests']:,} requests would have waited, at most {longest}"
    return f"{text}, and {waits}."
