"""The waste of a scan that no finding names."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.billing.records import BucketRow
from gpuwatch.report.actions import REMEDIES
from gpuwatch.scan.losses import unnamed_losses


def held(team: str, bucket: str, hours: int, cost: str | None = None) -> BucketRow:
    """GPU-hours of a team in an avoidable bucket, at $2 an hour unless given."""
    seconds, money = Decimal(hours * 3600), Decimal(2 * hours) if cost is None else Decimal(cost)
    return BucketRow({"team": team}, bucket, seconds, money, "USD", None, seconds)


def found(team: str, **hours: int) -> dict[str, Any]:
    return {"team": team, "hours": {bucket: Fraction(amount) for bucket, amount in hours.items()}}


def test_what_findings_claim_is_left_out() -> None:
    """Of nlp's 70 hours of gaps findings claim 30, and all idle time; vision's finding claims only its own."""
    rows = [
        held("nlp", "gap", 70), held("vision", "gap", 30), held("nlp", "hoarded", 50), held("nlp", "stalled", 1),
        BucketRow({"team": "nlp"}, "compute", Decimal(9), Decimal(1), "USD", None, Decimal(0)),
    ]  # fmt: skip

    nlp, vision = unnamed_losses(rows, [found("nlp", gap=30, hoarded=50), found("vision", gap=10)], "USD")

    assert ("nlp", "gap", 41, 82) == (nlp.team, nlp.bucket, nlp.gpu_hours, nlp.cost)
    assert [("Gaps (host, data, checkpoint)", 80), ("Busy, SMs idle", 2)] == [
        (p["name"], p["cost"]) for p in nlp.places
    ]
    assert ("vision", 20, 40, REMEDIES["gap"]) == (vision.team, vision.gpu_hours, vision.cost, vision.remedy)


def test_stranded_time_and_what_is_too_little_are_no_loss_of_a_team() -> None:
    rows = [held("nlp", "gap", 1000), held("ops", "gap", 5), held("__platform__", "stranded", 39)]

    assert ["nlp"] == [one.team for one in unnamed_losses(rows, [], "USD")]
    assert [] == unnamed_losses([held("nlp", "gap", 10)], [found("nlp", gap=10)], "USD")
    assert [] == unnamed_losses([], [], None)


def test_an_unknown_price_is_no_cost() -> None:
    unpriced = BucketRow({"team": "nlp"}, "gap", Decimal(3600), None, None, None, Decimal(3600))

    (loss,) = unnamed_losses([held("nlp", "gap", 39), held("nlp", "stalled", 3), unpriced], [], "USD")

    assert (43, None, "stalled") == (loss.gpu_hours, loss.cost, loss.bucket)
