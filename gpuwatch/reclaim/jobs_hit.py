"""The jobs that would have lost a GPU under an idle limit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.store.database import Store

JOBS_MAX = 200
"""Jobs of an answer."""


def jobs_hit(work: Store, cluster: str, limit_us: int) -> list[dict[str, Any]]:
    """The jobs of a cluster that a limit hits, with the GPU-hours that it returns of each. Reads replay_taken and replay_priced."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in work.rows("reclaim/replay/jobs", limit_us=limit_us):
        job = found.setdefault(
            (row["scheduler"], row["job_id"], row["team"]),
            {
                "cluster": cluster,
                "job": row["job_id"],
                "name": row["name"],
                "team": row["team"],
                "user": row["user_name"],
                "devices": row["devices"],
                "wrong_devices": row["wrong_devices"],
                "units": Fraction(0),
                "cost": Fraction(0),
            },
        )
        units = Fraction(int(row["units"]), row["den"]) / HOUR_US
        job["units"] += units
        price = row["usd_per_gpu_hour"]
        job["cost"] = None if price is None or job["cost"] is None else job["cost"] + units * Fraction(price)
    return list(found.values())


def most_wrong(jobs: list[dict[str, Any]], *, priced: bool) -> list[dict[str, Any]]:
    """At most JOBS_MAX jobs: those that used a GPU again first, then by the GPU-hours returned. Without `priced` there is no cost: prices
    are in several currencies, or there are none.
    """
    ordered = sorted(jobs, key=lambda one: (not one["wrong_devices"], -one["units"], one["cluster"], one["job"]))
    return [
        {
            **{name: value for name, value in job.items() if name not in ("units", "cost")},
            "returned_gpu_hours": format_quantity(job["units"]),
            "returned_cost": None if job["cost"] is None or not priced else format_quantity(job["cost"], CENT_PLACES),
        }
        for job in ordered[:JOBS_MAX]
    ]
