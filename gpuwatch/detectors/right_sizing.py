"""Jobs on a whole GPU that would fit into something smaller."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa

from gpuwatch.advisor.inputs import money
from gpuwatch.advisor.right_size import Used, smaller
from gpuwatch.core.clock import HOUR_US, MINUTE_US, day_floor
from gpuwatch.rules.layers import HOURS
from gpuwatch.rules.rule import EvaluationScope, Evidence, Rule, Threshold, lasting, price_text, register
from gpuwatch.store.database import Store

_SIZE = pa.schema(
    [
        ("chain", pa.string()),
        ("device_id", pa.int64()),
        ("hour_us", pa.int64()),
        ("model", pa.string()),
        ("workload_class", pa.string()),
        ("covered_us", pa.int64()),
        ("fb_bytes", pa.int64()),
        ("sm_ratio", pa.float64()),
        ("dram_ratio", pa.float64()),
        ("fits", pa.string()),
        ("saving", pa.string()),
        ("currency", pa.string()),
    ]
)


def _summary(e: Evidence) -> str:
    saving = e.get("saving_per_hour")
    price = "" if saving is None else f", for {price_text(saving, e['currency'])} an hour less"
    return (
        f"In {lasting(e['measured_hours'], 'hours')} it used at most {e['fb_used_max_gib']:.1f} GiB and "
        f"{100 * e['sm_active_max_ratio']:.0f} % of the SMs of {e['now']}: {e['fits']} would be enough{price}."
    )


def _headline(e: Evidence) -> str:
    saving = e.get("saving_per_hour")
    price = "" if saving is None else f": {price_text(saving, e['currency'])} an hour less"
    fits, now = (str(e[name]).replace("NVIDIA ", "") for name in ("fits", "now"))
    return f"{{holds|held}} {now} where {fits} {{is|was}} enough{price}"


def _remedy(e: Evidence) -> str:
    return f"Ask for {e['fits']} next time; you save when others use the rest."


def prepare(store: Store, scope: EvaluationScope) -> None:
    """Makes smaller_size: hours of jobs that would fit into something smaller."""
    rows: list[dict[str, Any]] = []
    headroom = Fraction(str(scope.parameters["headroom"]))
    by_day: dict[int, dict[str, dict[str, Fraction]]] = {}
    for row in store.rows("detectors/support/right_sizing_candidate", **scope.sql_parameters()):
        day_us = day_floor(row["hour_us"])
        if day_us not in by_day:
            by_day[day_us] = _prices(store, scope.cluster, row["hour_us"])
        prices = by_day[day_us].get(row["currency"], {})
        price = None if row["price"] is None else Fraction(row["price"])
        used = Used(row["model"], row["fb_bytes"], row["sm_ratio"], row["tensor_ratio"], row["dram_ratio"])
        size = smaller(used, headroom, prices, price, prices)
        if size is not None:
            saving = None if price is None or size.saved_part is None else money(price * size.saved_part)
            known = {name: row.get(name) for name in _SIZE.names if name not in ("fits", "saving")}
            rows.append(known | {"fits": size.name, "saving": saving, "currency": row["currency"] if saving else None})
    with store.view("smaller_size_row", pa.Table.from_pylist(rows, schema=_SIZE)):
        store.run("detectors/support/right_sizing_keep")


def _prices(store: Store, cluster: str, at_us: int) -> dict[str, dict[str, Fraction]]:
    """Hourly prices of whole GPUs by currency and model at an instant."""
    found: dict[str, dict[str, Fraction]] = {}
    for row in store.rows("detectors/support/right_sizing_price", cluster=cluster, at_us=at_us):
        found.setdefault(row["currency"], {})[row["model"]] = Fraction(row["price"])
    return found


RIGHT_SIZING = register(
    Rule(
        id="right-sizing",
        title="A smaller GPU or slice would do",
        why="The unused part of a GPU is blocked for everyone else; a slice or a smaller model costs less.",
        bucket=None,
        layer="partitioning",
        effort=HOURS,
        needs=("runs",),
        priced=True,
        thresholds=(
            Threshold("covered_us_min", 24 * HOUR_US, "24 measured GPU-hours, as job_defense_shield requires"),
            Threshold("coverage_min", 0.8, "and 80 % of the held time: what was not seen may have needed more"),
            Threshold(
                "headroom", 0.25, "what was used is at most 0.8 of what is proposed, of memory, SMs and bandwidth"
            ),
            Threshold("sm_active_min", 0.01, "it worked in some hour: what is idle is released, not resized"),
            Threshold("sm_active_max", 0.8, "NVIDIA DCGM user guide: 0.8 of the SMs is effective use of this GPU"),
            Threshold("still_us", 60 * MINUTE_US, "true within the last known hour counts as ongoing"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        severity=lambda e, hours: "info",
        look_back_us=HOUR_US,
        measures={
            "fb_used_max_gib": "max",
            "sm_active_max_ratio": "max",
            "dram_active_max_ratio": "max",
            "measured_hours": "max",
        },
        prepare=prepare,
    )
)
