"""One order, one colour, one word for a bucket: the style sheet says the same as the figures, and can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuwatch import dashboards
from gpuwatch.dashboards.shell.theme import BUCKETS, INK, SEVERITIES, Scheme, place

CSS = (Path(dashboards.__path__[0]) / "assets" / "style.css").read_text("utf-8")
LIGHT = CSS[CSS.index(":root {") : CSS.index("}", CSS.index(":root {"))]
DARK_START = CSS.index(':root[data-mantine-color-scheme="dark"] {')
DARK = CSS[DARK_START : CSS.index("}", DARK_START)]
AA_TEXT, AA_LARGE = 4.5, 3.0


def variables(block: str) -> dict[str, str]:
    """CSS variables of a rule, colours in upper case."""
    return {name: colour.upper() for name, colour in re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """Contrast ratio of two colours."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_ledger_has_twelve_buckets_in_its_order() -> None:
    expected = (
        "compute memory_roof below_roof stalled communication gap hoarded unobserved schedulable stranded "
        "mig_remainder out_of_service"
    )

    assert expected.split() == [bucket.name for bucket in BUCKETS]
    assert 12 == place("unheard_of")


def test_the_style_sheet_and_the_figures_agree() -> None:
    light, dark = variables(LIGHT), variables(DARK)

    assert {f"b-{bucket.name}": bucket.light for bucket in BUCKETS}.items() <= light.items()
    assert {f"b-{bucket.name}": bucket.dark for bucket in BUCKETS}.items() <= dark.items()
    assert {f"s-{name}": colour for name, colour in SEVERITIES.items()}.items() <= light.items()


@pytest.mark.parametrize("block", [pytest.param(LIGHT, id="light"), pytest.param(DARK, id="dark")])
@pytest.mark.parametrize("ink", ["ink", "muted", "lost", "accent", "up"])
def test_text_can_be_read(block: str, ink: str) -> None:
    colours = variables(block)

    assert AA_TEXT <= min(contrast(colours[ink], colours[ground]) for ground in ("ground", "card", "soft"))


@pytest.mark.parametrize("block", [pytest.param(LIGHT, id="light"), pytest.param(DARK, id="dark")])
def test_buttons_can_be_read(block: str) -> None:
    colours = variables(block)

    assert AA_TEXT <= contrast(colours["accent"], colours["accent-ink"])


@pytest.mark.parametrize("block", [pytest.param(LIGHT, id="light"), pytest.param(DARK, id="dark")])
def test_words_on_bars_can_be_read(block: str) -> None:
    (dark,) = re.findall(r"\.useaxis \.own { [^}]*color: (#[0-9a-f]{6})", CSS)

    assert AA_TEXT <= contrast(dark, variables(block)["b-memory_roof"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_can_be_read(scheme: Scheme) -> None:
    ink = INK[scheme]

    assert AA_TEXT <= min(contrast(colour, ink.ground) for colour in (ink.text, ink.muted, ink.threshold))
    assert AA_LARGE <= min(contrast(colour, ink.ground) for colour in ink.series)


def test_nothing_is_fetched_from_elsewhere() -> None:
    addresses = re.findall(r"url\(([^)]+)\)", CSS)

    assert addresses
    assert [] == [address for address in addresses if "//" in address or ":" in address]


def test_nothing_moves_for_people_who_ask_for_less() -> None:
    rule = CSS[CSS.index("prefers-reduced-motion: reduce") :]

    assert "animation: none !important" in rule
    assert max(int(ms) for ms in re.findall(r"(\d+)ms", CSS)) < 200
