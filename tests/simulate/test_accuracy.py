"""What accuracy counts: a finding meets a case by detector, subject and time, and everything else it says is false."""

from __future__ import annotations

from typing import Any

import pytest

from bench.accuracy import Outcome, compare, judgeable
from bench.reports.accuracy import Counts, report, wilson

HOURS = [f"2026-11-09T{hour:02d}:00:00Z" for hour in range(24)]


def case(
    detector: str = "straggler", subject: str = "7", low: int = 2, high: int = 4, kind: str = "job"
) -> dict[str, Any]:
    interval = {"start": HOURS[low], "end": HOURS[high]}
    return {
        "detector": detector,
        "shape": "hot",
        "subject": {"kind": kind, "id": subject},
        "intervals": [interval],
    }


def finding(
    key: str, detector: str = "straggler", subject: str = "7", low: int = 2, high: int | None = 4, kind: str = "job"
) -> dict[str, Any]:
    return {
        "key": key,
        "detector": detector,
        "subject": {"kind": kind, "id": subject, "name": None},
        "started_at": HOURS[low],
        "ended_at": None if high is None else HOURS[high],
        "summary": "slow",
    }


def truth(planted: list[Any] = [], decoys: list[Any] = [], allowed: list[Any] = []) -> dict[str, Any]:  # noqa: B006
    return {"planted": planted, "decoys": decoys, "allowed": allowed}


def counts(outcome: Outcome) -> tuple[int, int, int, int, int]:
    """(found, right, false, decoys hit, missed)."""
    return outcome.found, outcome.right, outcome.false, outcome.decoys_hit, len(outcome.missed)


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        pytest.param([], (0, 0, 0, 0, 1), id="nothing said is a miss"),
        pytest.param([finding("a", low=5, high=6)], (0, 0, 1, 0, 1), id="at another time it is false"),
        pytest.param([finding("a", low=4, high=5)], (0, 0, 1, 0, 1), id="windows that only touch do not overlap"),
        pytest.param([finding("a", subject="8")], (0, 0, 1, 0, 1), id="about another job it is false"),
        pytest.param([finding("a", kind="gpu")], (0, 0, 1, 0, 1), id="about a GPU of that name it is false"),
        pytest.param([finding("a")], (1, 1, 0, 0, 0), id="the same job and time is found"),
        pytest.param([finding("a", low=0, high=None)], (1, 1, 0, 0, 0), id="an open finding reaches to the end"),
        pytest.param([finding("a"), finding("b", low=3)], (1, 2, 0, 0, 0), id="said twice, found once"),
    ],
)
def test_a_planted_case(findings: list[dict[str, Any]], expected: tuple[int, ...]) -> None:
    assert expected == counts(compare(truth([case()]), findings)["straggler"])


def test_another_detector_does_not_find_it() -> None:
    outcomes = compare(truth([case()]), [finding("a", detector="small-batch")])

    assert (0, 0, 0, 0, 1) == counts(outcomes["straggler"])
    assert (0, 0, 1, 0, 0) == counts(outcomes["small-batch"])


def test_a_decoy_that_is_reported_is_false_and_hit() -> None:
    outcomes = compare(truth(decoys=[case(), case(subject="9")]), [finding("a")])

    assert (0, 0, 1, 1, 0) == counts(outcomes["straggler"])
    assert ["hot: job 7 from 2026-11-09T02:00:00Z: slow"] == outcomes["straggler"].wrong


def test_what_is_allowed_counts_neither_way() -> None:
    allowed = [{"detector": "straggler", "subject": {"kind": "job", "id": "7"}}]

    assert (0, 0, 0, 0, 0) == counts(compare(truth(allowed=allowed), [finding("a")])["straggler"])


def test_a_decoy_that_a_missing_metric_hides_counts_neither_way() -> None:
    hidden = case() | {"needs": ["SM_ACTIVE"]}
    whole = truth(decoys=[hidden, case(subject="9") | {"needs": []}])

    assert (0, 0, 1, 1, 0) == counts(compare(judgeable(whole, ()), [finding("a")])["straggler"])
    assert (0, 0, 0, 0, 0) == counts(compare(judgeable(whole, ("SM_ACTIVE",)), [finding("a")])["straggler"])
    assert 1 == compare(judgeable(whole, ("SM_ACTIVE",)), [])["straggler"].decoys


def test_wilson_intervals_are_those_of_the_literature() -> None:
    assert (0.0, 1.0) == wilson(0, 0)
    assert (0.7225, 1.0) == pytest.approx(wilson(10, 10), abs=5e-5)
    assert (0.0, 0.2775) == pytest.approx(wilson(0, 10), abs=5e-5)
    assert (0.8256, 0.9448) == pytest.approx(wilson(90, 100), abs=5e-5)


def test_the_page_names_seeds_rates_and_what_is_below_its_goal() -> None:
    record = {"straggler": Outcome(planted=20, found=17, right=17, false=0, decoys=40, decoys_hit=0)}
    text = report({"base": Counts(range(101, 121), 1, record)}, {"base": "All fields"})

    assert "20 seeds: 101-120. On 1 of them a rule failed" in text
    assert "False findings" not in text
    line = next(line for line in text.splitlines() if line.startswith("| `straggler`"))
    assert (
        "| `straggler` | 20 | 17 | 0.850 (0.640-0.948) **below goal** | 17 | 0 | 1.000 (0.816-1.000) | 40 | 0 |" == line
    )


def test_a_variant_without_fleets_has_no_table() -> None:
    text = report({"drop30": Counts([], 0, {})}, {"drop30": "Samples lost"})

    assert "## Samples lost (`drop30`)\n\nNot measured with these scenes yet.\n\n## The fleets" in text


def test_every_false_finding_is_listed_with_its_summary() -> None:
    record = {"straggler": Outcome(false=14, wrong=[f"seed {n}, hot: job 7: slow" for n in range(14)])}
    text = report({"base": Counts([101, 104], 0, record)}, {"base": "All fields"})

    assert "2 seeds: 101, 104.\n" in text

    assert "False findings:\n\n- `straggler`, seed 0, hot: job 7: slow\n" in text
    assert 12 == text.count("hot: job 7")
    assert "- and 2 more\n" in text
