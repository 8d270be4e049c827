"""The waste of a scan that no finding names."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.billing.records import BucketRow
from gpuwatch.scan.losses import unnamed_losses


def held(team: str, bucket: str, hours: int, cost: str | None = None) -> BucketRow:
    """GPU-hours of a team in an avoidable bucket, at $2 an hour unless given."""
    seconds, money = Decimal(hours * 3600), Decimal(2 * hours) if cost is None else Decimal(cost)
    return BucketRow({"team": team}, bucket, seconds, money, "USD", None, seconds)


def found(**hours: int) -> dict[str, Any]:
    return {"hours": {bucket: Fraction(amount) for bucket, amount in hours.items()}}


def test_what_findings_claim_is_left_out() -> None:
    """Of 100 hours of gaps findings claim 40; all idle time is claimed; a tenth of an hour is not worth a line."""
    rows = [
        held("nlp", "gap", 70), held("vision", "gap", 30), held("nlp", "hoarded", 50), held("nlp", "stalled", 5),
        BucketRow({"team": "nlp"}, "compute", Decimal(9), Decimal(1), "USD", None, Decimal(0)),
    ]  # fmt: skip

    (loss,) = unnamed_losses(rows, [found(gap=30, hoarded=50), found(gap=10)], "USD")

    assert ("gap", "60.000", "120.00", ["nlp", "vision"]) == (
        loss["bucket"], loss["gpu_hours"], loss["cost"], loss["teams"],
    )  # fmt: skip


def test_the_largest_three_come_first_and_an_unknown_price_is_no_cost() -> None:
    unpriced = BucketRow({"team": "nlp"}, "stranded", Decimal(3600), None, None, None, Decimal(3600))
    rows = [held("nlp", bucket, hours) for bucket, hours in (("gap", 10), ("stalled", 30), ("communication", 20))]

    losses = unnamed_losses([*rows, held("nlp", "stranded", 39), unpriced], [], "USD")

    assert [("stranded", None), ("stalled", "60.00"), ("communication", "40.00")] == [
        (one["bucket"], one["cost"]) for one in losses
    ]
    assert [] == unnamed_losses(rows, [found(gap=10, stalled=31, communication=20)], "USD")
    assert [] == unnamed_losses([], [], None)
