"""What to do first: groups by cause, the order, and the largest loss."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US, Window, rfc3339
from gpuwatch.findings.priority import Rate, cost_a_day
from gpuwatch.findings.read import Finding, facts_of
from gpuwatch.jobs.loss_parts import LossPart
from gpuwatch.ledger.measures import AVOIDABLE, CLAIMABLE
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report.actions import REMEDIES
from gpuwatch.report.first_actions import ACTIONS_MAX, Loss, first_actions
from gpuwatch.report.overview import earlier
from tests.worlds.alerts import finding
from tests.worlds.world import T0_US

NOW_US = T0_US + 2 * DAY_US


def ranked(*findings: Finding, loss: Loss | None = None, price: Fraction | None = Fraction(2)) -> list[dict[str, Any]]:
    """Actions over findings of a fleet that pays dollars, or nothing known."""
    return first_actions(findings, loss, NOW_US, None if price is None else "USD", price)


def stranded(cost: int | None = 700, seconds: int = 7 * 86_400) -> Loss:
    """A GPU that was stranded for a week."""
    known = None if cost is None else Fraction(cost)
    return Loss("stranded", known, Fraction(seconds), 7 * DAY_US, (("__platform__", Rate(known, Fraction(24))),))


def failed(key: str, cost: str | None = "100.00", team: str = "nlp", **more: Any) -> Finding:
    """A run that failed two days ago."""
    evidence = {"lost_gpu_hours": 50.0, "lost_cost": cost, "currency": "USD"}
    words = {"bucket": None, "wasted_gpu_seconds": "0.000000", "wasted_cost": "0.00", "user": None, "confidence": 1.0}
    return finding(key, "low", detector="failed-work", team=team, evidence=evidence, **{**words, **more})


def no_money(key: str, severity: str) -> Finding:
    """A finding about two GPUs that claims no time."""
    blank: dict[str, Any] = {"bucket": None, "wasted_gpu_seconds": "0.000000", "wasted_cost": "0.00", "evidence": {}}
    return finding(key, severity, devices=["GPU-a", "GPU-b"], **blank)


def test_nothing_to_do() -> None:
    assert [] == ranked()
    assert [] == ranked(loss=stranded(0, 0))


def test_findings_of_one_cause_are_one_action() -> None:
    """Nineteen jobs that lost work are one line, and the two teams are asked in the order of their money."""
    lost = [failed(f"f{place:02d}", team="nlp" if place % 3 else "vision") for place in range(19)]
    idle = finding("idle", "high")
    second, first = ranked(*lost, idle)

    assert ("idle-hoarding", "480.00", 1) == (first["id"], first["cost_a_day"], first["findings"])
    assert ("failed-work", "950.00", 19) == (second["id"], second["cost_a_day"], second["findings"])
    assert (None, {"gpu_seconds": "3420000.000000", "cost": "1900.00"}) == (first["lost_work"], second["lost_work"])
    assert [("nlp", "600.00"), ("vision", "350.00")] == [
        (one["team"], one["cost_a_day"]) for one in second["owners"]["items"]
    ]
    assert ("job", "4711") == (first["subject"]["kind"], first["subject"]["id"])
    assert None is second["subject"]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(finding("a", "high"), finding("b", "critical", wasted_cost="100.00"), id="money counts, not severity"),
        pytest.param(finding("b", "medium", wasted_cost="900.00"), finding("a", "high"), id="more money of less severity"),
        pytest.param(finding("a", "low", wasted_cost="1.00"), no_money("b", "high"), id="what wastes nothing comes after money"),
        pytest.param(finding("a", wasted_cost="481.00"), finding("b"), id="more money"),
        pytest.param(finding("a", confidence=0.91), finding("b"), id="more certain"),
        pytest.param(finding("a", wasted_cost=None, currency=None), failed("b"), id="time without a price at the mean price"),
    ],
)  # fmt: skip
def test_the_order(better: Finding, worse: Finding) -> None:
    first, second = ranked(
        Finding(**{**worse.as_dict(), "detector": "y"}), Finding(**{**better.as_dict(), "detector": "x"})
    )

    assert ("x", "y") == (first["id"], second["id"])


def test_a_broken_gpu_that_wastes_nothing_yet_is_not_last() -> None:
    """Two GPUs at risk: 48 GPU-hours a day at the mean price."""
    broken = finding(
        "xid", "critical", detector="degraded-gpu", bucket=None, wasted_gpu_seconds="0.000000", wasted_cost="0.00",
        evidence={}, devices=["GPU-a", "GPU-b"],
    )  # fmt: skip
    first, second = ranked(broken, finding("cheap", "low", wasted_cost="40.00"))

    assert ("degraded-gpu", None, "48.0") == (first["id"], first["cost_a_day"], first["at_risk_gpu_hours_a_day"])
    assert ("idle-hoarding", "40.00", "0.0") == (second["id"], second["cost_a_day"], second["at_risk_gpu_hours_a_day"])


def test_the_largest_loss_is_there_without_a_finding() -> None:
    (only,) = ranked(loss=stranded())

    assert ("loss:stranded", "100.00", 0, []) == (only["id"], only["cost_a_day"], only["findings"], only["keys"])
    assert {
        "bucket": "stranded", "gpu_seconds": "604800.000000", "cost": "700.00", "parts": [], "parts_total": 0
    } == only["loss"]  # fmt: skip
    assert "__platform__" == only["owners"]["items"][0]["team"]


@pytest.mark.parametrize("bucket", [*AVOIDABLE, CLAIMABLE, "unobserved"])
def test_a_loss_without_a_finding_has_words_of_its_own(bucket: str) -> None:
    (action,) = first_actions([], Loss(bucket, Fraction(10), Fraction(3600), DAY_US), NOW_US, "USD")

    assert (BUCKET_WORDS[bucket], REMEDIES[bucket], None) == (action["title"], action["remedy"], action["summary"])


def test_findings_of_the_largest_loss_are_part_of_it() -> None:
    part = finding("frag", "critical", detector="fragmentation", bucket="stranded", team="__platform__", user=None)
    actions = ranked(part, finding("idle", wasted_cost="90.00"), loss=stranded())

    assert ["loss:stranded", "idle-hoarding"] == [one["id"] for one in actions]
    assert (["frag"], ["fragmentation"], "critical") == (
        actions[0]["keys"],
        actions[0]["detectors"],
        actions[0]["severity"],
    )


def test_a_small_finding_lends_a_large_loss_no_remedy() -> None:
    """Four dollars of a slice do not say what to do about 12,000 dollars of gaps."""
    tiny = finding("mig", "low", detector="mig-mismatch", bucket="gap", wasted_cost="4.09", remedy="Use 2g.20gb.")
    parts = (
        LossPart("chat", "service", Fraction(7_200_000), Fraction(9000)),
        LossPart("lab", "session", Fraction(720_000), Fraction(2500)),
        LossPart("train", "batch", Fraction(72_000), Fraction(500)),
    )
    held = tuple((one.team, Rate(one.cost, Fraction(100))) for one in parts)
    gaps, slice_ = ranked(tiny, loss=Loss("gap", Fraction(12_000), Fraction(7_992_000), 7 * DAY_US, held, parts))

    assert ("mig-mismatch", "Use 2g.20gb.", "4.09") == (slice_["id"], slice_["remedy"], slice_["cost_a_day"])
    assert ("loss:gap", 0, [], None) == (gaps["id"], gaps["findings"], gaps["keys"], gaps["summary"])
    assert (
        "Servers ($9.00 k): run fewer replicas, scale them with the load, or give them a smaller GPU, a MIG slice or a shared GPU. "
        "Notebooks and sessions ($2.50 k): end what idles (an idle culler), and give them a MIG slice or a shared GPU."
    ) == gaps["remedy"]
    assert [("chat", "service", "9000.00"), ("lab", "session", "2500.00"), ("train", "batch", "500.00")] == [
        (one["team"], one["kind"], one["cost"]) for one in gaps["loss"]["parts"]
    ]


def test_a_remedy_for_most_of_a_loss_stands_beside_it() -> None:
    """Two findings of 480 dollars a day have one remedy, a third has another; the loss is 1,500 dollars a day."""
    found = [finding(key, bucket="gap", remedy="Cache the data.") for key in ("a", "b")]
    other = finding("c", bucket="gap", remedy="Ask an expert.")
    (action,) = ranked(other, *found, loss=Loss("gap", Fraction(3000), Fraction(3_000_000), 2 * DAY_US))

    assert ("loss:gap", 3, "Cache the data.") == (action["id"], action["findings"], action["remedy"])


def test_no_remedy_where_none_is_one_for_most_of_the_loss() -> None:
    found = [finding(key, bucket="gap", remedy=f"Remedy {key}.") for key in ("a", "b", "c")]
    (action,) = ranked(*found, loss=Loss("gap", Fraction(3000), Fraction(3_000_000), 2 * DAY_US))

    assert (3, REMEDIES["gap"]) == (action["findings"], action["remedy"])


def test_what_was_not_measured_is_the_platforms_work() -> None:
    blind = finding(
        "blind", "low", detector="blind-gpu", bucket="unobserved", team="__platform__", remedy="Run the exporter."
    )
    held = (("vision", Rate(Fraction(70), Fraction(100))), ("nlp", Rate(Fraction(30), Fraction(92))))
    (action,) = ranked(blind, loss=Loss("unobserved", Fraction(100), Fraction(691_200), DAY_US, held))

    assert (["blind"], "Run the exporter.", "low") == (action["keys"], action["remedy"], action["severity"])
    assert [("__platform__", None)] == [(one["team"], one["user"]) for one in action["owners"]["items"]]


@pytest.mark.parametrize(
    ("hours", "expected"),
    [pytest.param(3, (False, "20.64"), id="three hours are no day"), pytest.param(24, (True, "20.64"), id="a day")],
)
def test_a_rate_a_day_needs_a_day(hours: int, expected: tuple[bool, str]) -> None:
    (action,) = ranked(finding("a", wasted_cost="20.64", last_seen_at=rfc3339(T0_US + hours * HOUR_US)))

    assert expected == (action["day_rate"], action["cost_so_far"])


def test_a_loss_of_known_cause_has_its_words() -> None:
    from gpuwatch.advisor.stranded import MODEL, Cause, Place
    from gpuwatch.report.overview import with_cause

    place = Place("c", "s03", "NVIDIA H100 80GB HBM3", Fraction(168), Fraction(700))
    (action,) = ranked(loss=with_cause(stranded(), [Cause(MODEL, (place,), "USD", "54 % ask for A100.")]))

    assert "Free but stranded" == action["title"]
    assert (
        "100 % of it: free, but requests ask for another GPU model. GPUs of H100-80GB in pool s03. 54 % ask for A100."
        == action["summary"]
    )
    assert action["remedy"].startswith("Let the jobs that ask for other models use these GPUs too")


def test_what_was_not_measured_stands_after_what_is_known_to_cost() -> None:
    unmeasured = Loss("unobserved", Fraction(9000), Fraction(7 * 86_400), 7 * DAY_US)
    first, last = ranked(finding("idle", "low", wasted_cost="1.00"), loss=unmeasured)

    assert ("idle-hoarding", "loss:unobserved", "low") == (first["id"], last["id"], last["severity"])


def test_the_largest_loss_is_always_among_the_actions() -> None:
    many = [finding(f"f{place}", detector=f"rule-{place}") for place in range(ACTIONS_MAX + 5)]
    actions = ranked(*many, loss=stranded(7))

    assert ACTIONS_MAX + 1 == len(actions)
    assert "loss:stranded" == actions[-1]["id"]


def test_without_prices_gpu_hours_decide() -> None:
    small = finding("a", wasted_cost=None, currency=None, wasted_gpu_seconds="3600.000000", detector="x")
    large = finding("b", wasted_cost=None, currency=None, detector="y")
    first, second = ranked(small, large, price=None)

    assert (("y", None, "192.0"), ("x", None, "1.0")) == (
        (first["id"], first["cost_a_day"], first["gpu_hours_a_day"]),
        (second["id"], second["cost_a_day"], second["gpu_hours_a_day"]),
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(finding(), ("480.00", 192, False), id="waste is the mean while it lasted"),
        pytest.param(finding(last_seen_at=rfc3339(T0_US + HOUR_US // 2)), ("480.00", 192, False), id="over a day at least"),
        pytest.param(failed("f"), ("50.00", 25, False), id="lost work since it began"),
        pytest.param(failed("f", started_at=rfc3339(NOW_US - HOUR_US)), ("100.00", 50, False), id="lost work over a day at least"),
        pytest.param(failed("f", cost=None), (None, 25, False), id="lost work without a price"),
        pytest.param(finding(currency="EUR"), (None, 192, False), id="money of another currency"),
        pytest.param(finding(bucket="unobserved"), (None, 0, False), id="what was not measured is no waste"),
        pytest.param(
            finding(bucket=None, evidence={"saving": "300.00", "currency": "USD"}), ("10.00", 0, True), id="a saving in 30 days"
        ),
        pytest.param(
            finding(bucket=None, evidence={"saving": "x", "currency": "USD"}), ("480.00", 192, False), id="a saving that is no number"
        ),
    ],
)  # fmt: skip
def test_the_cost_a_day(found: Finding, expected: tuple[str | None, int, bool]) -> None:
    rate, saves = cost_a_day(facts_of(found), NOW_US, "USD")

    assert expected == (None if rate.cost is None else f"{float(rate.cost):.2f}", rate.hours, saves)


@pytest.mark.parametrize(
    ("known_from", "covered_until", "expected"),
    [
        pytest.param(0, 14, (0, 7), id="all of the week before"),
        pytest.param(3, 14, (3, 7), id="what is covered of it"),
        pytest.param(4, 14, None, id="less than half of it"),
        pytest.param(7, 14, None, id="nothing of it"),
        pytest.param(0, 9, (0, 2), id="up to the same point of the week"),
    ],
)
def test_the_period_before(known_from: int, covered_until: int, expected: tuple[int, int] | None) -> None:
    days = [T0_US + day * DAY_US for day in range(15)]
    window, known = Window(days[7], days[14]), Window(days[known_from], days[14])
    found = earlier(window, Window(days[7], days[covered_until]), known, 7 * DAY_US)

    assert expected == (
        None if found is None else ((found.start_us - T0_US) // DAY_US, (found.end_us - T0_US) // DAY_US)
    )
