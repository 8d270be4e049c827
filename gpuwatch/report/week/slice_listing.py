"""MIG slices of a week, as in the slices listing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from gpuwatch.billing.slices import slices
from gpuwatch.core.clock import Window
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report.facts import Amount, SliceHold
from gpuwatch.state import State
from gpuwatch.store.database import Store


def slice_holds(store: Store, state: State, window: Window, teams: Collection[str] | None) -> tuple[SliceHold, ...]:
    """Every hold of a MIG slice in the window, most expensive first, without unallocated slices."""
    found = [_hold(item) for item in slices(store, state, window, teams)["items"] if item["team"] != PLATFORM]
    return tuple(sorted(found, key=lambda h: (-sum(c for _, c in h.amount.costs), h.slice, h.start)))


def _hold(item: Mapping[str, Any]) -> SliceHold:
    seconds = Decimal(item["gpu_seconds"])
    priced = item["cost"] is not None
    use = item["utilisation"]
    busy = use["gr_engine_ratio"] if use["gr_engine_ratio"] is not None else use["sm_active_ratio"]
    return SliceHold(
        slice=item["slice"],
        profile=item["profile"],
        gpu_model=item["gpu_model"] or "",
        share=item["share"],
        team=item["team"],
        user=item["user"],
        job=item["job"],
        cluster=item["cluster"],
        start=item["start"],
        end=item["end"],
        amount=Amount(seconds, ((item["currency"], Decimal(item["cost"])),))
        if priced
        else Amount(seconds, (), seconds),
        device_seconds=Decimal(item["device_seconds"]),
        idle_seconds=None if item["idle_seconds"] is None else Decimal(item["idle_seconds"]),
        busy_ratio=busy,
    )
