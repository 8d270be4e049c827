"""How certain an amount is: the same few words in scans, reports, on pages and in messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.detectors.failed_work import FAILED_WORK

AT_LEAST, UP_TO = "at least ", "up to "
"""Before an amount that is a lower bound, and before one that is an upper bound."""
LEAST_LOST_HOURS = next(one.value for one in FAILED_WORK.thresholds if one.name == "lost_gpu_hours_min")
MEANINGS = {
    AT_LEAST: "a lower bound: time that was not measured is not counted, so the true amount is this or more",
    UP_TO: "an upper bound: all of a waste whose cause no finding names yet, or free time of a dump that may lack pods, so the true "
    "amount is this or less",
}
"""As the glossary defines them."""
CERTAINTY = (
    "Certainty",
    "An amount without a word before it is counted from records and measurements; "
    + "; ".join(f"“{word.strip()}” is {means}" for word, means in MEANINGS.items())
    + ".",
)
"""The term and its text for a method section."""
SMALL_LOSSES = f"Jobs whose failed runs lost less than {LEAST_LOST_HOURS:g} GPU-hours are not counted as lost work (detector failed-work)."


def legend(texts: Iterable[str]) -> str:
    """`“Up to”: an upper bound …`: a sentence for each of these words that the texts have; empty without any."""
    whole = " ".join(texts).lower()
    return " ".join(f"“{word.strip().capitalize()}”: {means}." for word, means in MEANINGS.items() if word in whole)
