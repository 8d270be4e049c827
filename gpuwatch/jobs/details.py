"""The runs, devices and waterfall of one job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from gpuwatch.core.clock import SECOND_US, rfc3339
from gpuwatch.core.money import CENT_PLACES, fraction_to_decimal, largest_remainder
from gpuwatch.jobs.amounts import NOTHING, JobAmount, Row


def run_row(run: Row, amount: JobAmount | None) -> Row:
    return {
        "run": run["run_key"],
        "state": run["state"],
        "team": run["team"],
        "team_why": run["team_why"],
        "inferred": run["inferred"],
        "user": run["user_name"],
        "declared": run["declared"],
        "submitted_at": None if run["submit_us"] is None else rfc3339(run["submit_us"]),
        "started_at": rfc3339(run["start_us"]),
        "ended_at": None if run["end_us"] is None else rfc3339(run["end_us"]),
        "end_estimated": run["end_estimated"],
        "suspended_seconds": suspended_seconds([run]),
        "gpus": run["devices"],
        **(NOTHING if amount is None else amount.as_dict()),
    }


def suspended_seconds(runs: Sequence[Row]) -> float | None:
    """How long the scheduler had stopped these runs, None where no record says that it did. They kept their devices."""
    known = [run["suspended_us"] for run in runs if run["suspended_us"] is not None]
    return sum(known) / SECOND_US if known else None


def device_rows(spans: Sequence[Row]) -> list[Row]:
    """Devices with the spans in which the job held them, in the order of node and index."""
    devices: dict[int, Row] = {}
    for span in spans:
        device = devices.setdefault(
            span["device_id"],
            {
                "id": span["id"],
                "gpu": span["gpu"],
                "gi": span["gi"],
                "profile": span["profile"],
                "node": span["node"],
                "index": span["gpu_index"],
                "gpu_model": span["model"],
                "estimated": False,
                "spans": [],
            },
        )
        device["estimated"] = device["estimated"] or span["estimated"]
        device["spans"].append({"start": rfc3339(span["start_us"]), "end": rfc3339(span["end_us"])})
    return list(devices.values())


def waterfall(item: Row, rows: Sequence[Row]) -> list[Row]:
    """Where the job's time and money went, bucket by bucket; both columns add up to the job's own."""
    weights: dict[str, Fraction] = defaultdict(Fraction)
    for row in rows:
        weights[row["bucket"]] += Fraction(int(row["units"]), row["share_den"]) * Fraction(row["price"])
    names = list(item["buckets"])
    whole = sum((weights[name] for name in names), Fraction(0))
    costs: Sequence[Decimal | None] = [None] * len(names)
    if item["cost"] is not None:
        exact = Fraction(item["cost_exact"])
        shares = [weights[name] / whole * exact if whole else Fraction(0) for name in names]
        costs = largest_remainder(shares, CENT_PLACES, names, total=Decimal(item["cost"]))
    return [
        {
            "bucket": name,
            "gpu_seconds": item["buckets"][name],
            "cost": None if cost is None else f"{fraction_to_decimal(cost, CENT_PLACES):f}",
        }
        for name, cost in zip(names, costs, strict=True)
    ]
