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


def unknown(bucket: str) -> list[dict[str, Any]]:
    """Nothing says what kind of work the jobs are."""
    return []


def test_what_findings_claim_is_left_out() -> None:
    """Of nlp's 70 hours of gaps findings claim 30, and all idle time; vision's finding claims only its own."""
    rows = [
        held("nlp", "gap", 70), held("vision", "gap", 30), held("nlp", "hoarded", 50), held("nlp", "stalled", 1),
        BucketRow({"team": "nlp"}, "compute", Decimal(9), Decimal(1), "USD", None, Decimal(0)),
    ]  # fmt: skip

    nlp, vision = unnamed_losses(rows, [found("nlp", gap=30, hoarded=50), found("vision", gap=10)], "USD", unknown)

    assert ("nlp", "gap", 41, 82) == (nlp.team, nlp.bucket, nlp.gpu_hours, nlp.cost)
    assert [("Gaps (host, data, checkpoint)", 80), ("Busy, SMs idle", 2)] == [
        (p["name"], p["cost"]) for p in nlp.places
    ]
    assert ("vision", 20, 40, REMEDIES["gap"]) == (vision.team, vision.gpu_hours, vision.cost, vision.remedy)


def test_stranded_time_and_what_is_too_little_are_no_loss_of_a_team() -> None:
    rows = [held("nlp", "gap", 1000), held("ops", "gap", 5), held("__platform__", "stranded", 39)]

    assert ["nlp"] == [one.team for one in unnamed_losses(rows, [], "USD", unknown)]
    assert [] == unnamed_losses([held("nlp", "gap", 10)], [found("nlp", gap=10)], "USD", unknown)
    assert [] == unnamed_losses([], [], None, unknown)


def test_an_unknown_price_is_no_cost() -> None:
    unpriced = BucketRow({"team": "nlp"}, "gap", Decimal(3600), None, None, None, Decimal(3600))

    (loss,) = unnamed_losses([held("nlp", "gap", 39), held("nlp", "stalled", 3), unpriced], [], "USD", unknown)

    assert (43, None, "stalled") == (loss.gpu_hours, loss.cost, loss.bucket)


def test_the_advice_is_for_the_kinds_of_the_teams_own_work() -> None:
    """Of nlp's gaps three quarters of the money are its servers'. Vision's kinds are its own, and are not known."""
    asked = []

    def kinds(bucket: str) -> list[dict[str, Any]]:
        asked.append(bucket)
        return [
            {"team": "nlp", "kind": "service", "gpu_seconds": 100.0, "value": 3.0},
            {"team": "nlp", "kind": "batch", "gpu_seconds": 300.0, "value": 1.0},
        ]

    rows = [held("nlp", "gap", 40), held("nlp", "hoarded", 10), held("vision", "gap", 20)]
    nlp, vision = unnamed_losses(rows, [], "USD", kinds)

    servers, batch = nlp.remedy.split(". ", 1)
    assert servers.startswith("Servers ($60.00): run fewer replicas")
    assert batch.startswith("Training and batch jobs ($20.00): load data ahead of the GPU")
    assert REMEDIES["gap"] == vision.remedy
    assert {"gap"} == set(asked)
