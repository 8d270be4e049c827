"""Advice as findings: computed once a day over the last whole days."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from gpuwatch.core.clock import DAY_US, MINUTE_US, Window, day_floor

if TYPE_CHECKING:
    from gpuwatch.rules.rule import EvaluationScope
    from gpuwatch.state import State
    from gpuwatch.store.database import Store

WINDOW_DAYS = 30
"""Days of a decision: as long as the window of `gpuwatch decide`."""
CLOUD = "cloud"
LATE_US = 10 * MINUTE_US
"""The last samples of a day may be taken this long before its end."""

OWN_CASE = pa.schema(
    [
        ("pool", pa.string()),
        ("gpu_model", pa.string()),
        ("gpus", pa.float64()),
        ("utilisation_ratio", pa.float64()),
        ("break_even_ratio", pa.float64()),
        ("payback_months", pa.float64()),
        ("owned_price", pa.string()),
        ("cloud_price", pa.string()),
        ("currency", pa.string()),
        ("paid", pa.string()),  # owned, reserved, on_demand, or several of them
        ("cheaper", pa.string()),
        ("saved_a_month", pa.string()),
        ("always", pa.bool_()),  # so with ten points more or less use, and for owning at the price of next year
        ("until_us", pa.int64()),
    ]
)
SPOT_CASE = pa.schema(
    [
        ("job", pa.string()),
        ("team", pa.string()),
        ("gpu_hours", pa.float64()),
        ("longest_run_hours", pa.float64()),
        ("nodes", pa.float64()),
        ("checkpoint_minutes", pa.float64()),
        ("interruptions_an_hour", pa.float64()),
        ("lost_ratio", pa.float64()),  # of the run: half a checkpoint interval and a restart for each interruption
        ("spot_price_ratio", pa.float64()),
        ("cost", pa.string()),
        ("saving", pa.string()),
        ("currency", pa.string()),
        ("until_us", pa.int64()),
    ]
)

Row = dict[str, Any]

_computed: WeakKeyDictionary[State, dict[tuple[str, str], tuple[str, str]]] = WeakKeyDictionary()
"""Cluster and decision to the stamp of what it followed from and its rows as JSON, while the state is open."""


def own_cases(store: Store, scope: EvaluationScope) -> None:
    """Creates own_case: a row per pool and model for which owning and renting can be compared."""
    from gpuwatch.rates import in_force

    listed = any(rate.pricing == "on_demand" for rate in in_force.in_force(scope.state))
    _make(store, scope, "own_case", OWN_CASE, _own_rows if listed else None)


def spot_cases(store: Store, scope: EvaluationScope) -> None:
    """Creates spot_case: a row per job with a known checkpoint interval that spot capacity would make cheaper."""
    from gpuwatch.rates import in_force

    listed = any(rate.pricing == "spot" for rate in in_force.in_force(scope.state))
    _make(store, scope, "spot_case", SPOT_CASE, _spot_rows if listed else None)


def whole_days(scope: EvaluationScope) -> Window:
    """The WINDOW_DAYS before the last midnight until which everything is known."""
    end_us = day_floor(min(scope.known_until_us + LATE_US, scope.until_us))
    return Window(end_us - WINDOW_DAYS * DAY_US, end_us)


def _make(
    store: Store,
    scope: EvaluationScope,
    table: str,
    schema: pa.Schema,
    compute: Callable[[Store, EvaluationScope, Window], list[Row]] | None,
) -> None:
    """The temporary table of one decision: computed again only where something it follows from has changed."""
    rows: list[Row] = []
    if compute is not None:
        window = whole_days(scope)
        stamp = json.dumps([window.end_us, _cards(scope), sorted(scope.parameters.items())], sort_keys=True)
        known = _computed.setdefault(scope.state, {})
        if known.get((scope.cluster, table), ("", ""))[0] != stamp:
            known[scope.cluster, table] = stamp, json.dumps(compute(store, scope, window))
        rows = json.loads(known[scope.cluster, table][1])
    with store.view("case_row", pa.Table.from_pylist(rows, schema=schema)):
        store.keep(table, "select * from case_row")


def _cards(scope: EvaluationScope) -> Mapping[str, int]:
    from gpuwatch.rates import in_force

    return in_force.versions(scope.state)


def _own_rows(store: Store, scope: EvaluationScope, window: Window) -> list[Row]:
    from gpuwatch.advisor.fleet import own_vs_cloud
    from gpuwatch.advisor.inputs import Assumptions

    items = own_vs_cloud(store, scope.state, window, Assumptions())["items"]
    return [
        {
            "pool": item["pool"],
            "gpu_model": item["gpu_model"],
            "gpus": float(item["gpus"]),
            "utilisation_ratio": float(item["utilisation"]),
            "break_even_ratio": float(item["break_even_utilisation"]),
            "payback_months": None if item["payback_months"] is None else float(item["payback_months"]),
            "owned_price": item["owned_price"],
            "cloud_price": item["cloud_price"],
            "currency": item["currency"],
            "paid": item["paid"],
            "cheaper": item["cheaper"],
            "saved_a_month": item["saved_by_owning_a_month"],
            "always": _always(item["cheaper"], item["cloud_price"], item["sensitivity"]),
            "until_us": window.end_us,
        }
        for item in items
        if item["cluster"] == scope.cluster and "missing" not in item
    ]


def _always(cheaper: str, cloud_price: str, cases: Sequence[Mapping[str, str]]) -> bool:
    """Whether the result is the same with ten points more or less use; owning is also evaluated at the price of next year."""
    today = Decimal(cloud_price)
    low = today * Decimal("0.79") if cheaper != CLOUD else today
    near = [Decimal(case["saved_by_owning_a_month"]) for case in cases if low <= Decimal(case["cloud_price"]) <= today]
    return bool(near) and all(saved > 0 if cheaper != CLOUD else saved < 0 for saved in near)


def _spot_rows(store: Store, scope: EvaluationScope, window: Window) -> list[Row]:
    from gpuwatch.advisor.formulas import spot_overhead
    from gpuwatch.advisor.inputs import Assumptions
    from gpuwatch.advisor.jobs import job_runs, spot_suitability

    assumed = Assumptions()
    minutes_of = {
        (row["job"], row["team"]): row["checkpoint_minutes"]
        for row in job_runs(store, window, None, scope.cluster)
        if row["checkpoint_minutes"] is not None
    }
    rows = []
    for item in spot_suitability(store, scope.state, window, None, assumed)["items"] if minutes_of else ():
        minutes = minutes_of.get((item["job"], item["team"]))
        if item["cluster"] != scope.cluster or not item["suitable"] or not Decimal(item["saving"]) or minutes is None:
            continue
        interruptions = float(assumed.interruptions_an_hour) * max(item["nodes"], 1)
        overhead = spot_overhead(item["longest_run_hours"], interruptions, minutes / 60)
        restart = interruptions * scope.parameters["restart_us"] / (60 * MINUTE_US)
        rows.append(
            {
                "job": item["job"],
                "team": item["team"],
                "gpu_hours": float(Fraction(item["gpu_hours"])),
                "longest_run_hours": float(item["longest_run_hours"]),
                "nodes": float(item["nodes"]),
                "checkpoint_minutes": float(minutes),
                "interruptions_an_hour": interruptions,
                "lost_ratio": round(overhead - 1 + restart, 6),
                "spot_price_ratio": float(item["spot_price_ratio"]),
                "cost": item["cost"],
                "saving": item["saving"],
                "currency": item["currency"],
                "until_us": window.end_us,
            }
        )
    return rows
