"""The words for how certain an amount is: one meaning each, everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.core.clock import HOUR_US
from gpuwatch.ledger.month import Basis
from gpuwatch.report.sections.certainty import CERTAINTY, MEANINGS, SMALL_LOSSES, legend

GLOSSARY = Path(__file__).parents[2] / "docs" / "reference" / "glossary.md"
LEAST = "“At least”: a lower bound: time that was not measured is not counted, so the true amount is this or more."
MOST = (
    "“Up to”: an upper bound: all of a waste whose cause no finding names yet, or free time of a dump that may lack pods, so the true "
    "amount is this or less."
)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param(["wastes $85.5 k", "$12 a month"], "", id="amounts that are counted need no word"),
        pytest.param([], "", id="no amount"),
        pytest.param(["This fleet wastes at least $85.5 k."], LEAST, id="a lower bound"),
        pytest.param(["up to $181 k a month", "$3"], MOST, id="an upper bound"),
        pytest.param(["up to $1", "at least $2"], f"{LEAST} {MOST}", id="both, each once"),
    ],
)
def test_words_that_are_used_are_explained(texts: list[str], expected: str) -> None:
    assert expected == legend(texts)


def test_the_glossary_has_the_same_meanings() -> None:
    glossary = GLOSSARY.read_text().lower()

    assert [] == [means for means in MEANINGS.values() if means not in glossary]
    assert all(means in CERTAINTY[1] for means in MEANINGS.values())


def test_lost_work_says_what_is_not_counted() -> None:
    assert "less than 8 GPU-hours are not counted" in SMALL_LOSSES


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        pytest.param(0, "", id="nothing was measured"),
        pytest.param(1, "the 1 measured hour", id="an hour"),
        pytest.param(6, "the 6 measured hours", id="six hours"),
    ],
)
def test_an_amount_is_never_of_zero_measured_hours(hours: int, expected: str) -> None:
    assert expected == Basis(14 * 24 * HOUR_US, hours * HOUR_US).words()
