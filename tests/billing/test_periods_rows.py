"""Rows of periods: written one way, compared exactly, corrections that close the gap to the cent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.billing.periods.frozen import (
    KEY,
    WORDS,
    by_key,
    canonical,
    cents_by_currency,
    content_of,
    differences,
    digest_of,
    lines,
    pico,
    summary,
    text_of,
)
from gpuwatch.core.money import largest_remainder


def row(team: str, seconds: str, cost: str | None, currency: str | None = "USD", **words: str | None) -> dict[str, Any]:
    """A frozen row of a team."""
    named: dict[str, Any] = dict.fromkeys(WORDS) | {"team": team} | words
    money = {"cost_exact": cost, "currency": None if cost is None else currency}
    return {**named, "kind": "allocated", "cause": None, "gpu_seconds": seconds, **money}


def amounts_of(found: Sequence[Mapping[str, Any]]) -> list[tuple[str | None, str, str | None, str | None]]:
    """(team, seconds, exact cost, currency) of lines, without zeros at the end."""
    return [
        (
            line["words"]["team"],
            f"{Decimal(line['gpu_seconds']).normalize():f}",
            None if line["cost_exact"] is None else f"{Decimal(line['cost_exact']).normalize():f}",
            line["currency"],
        )
        for line in found
    ]


@pytest.mark.parametrize(
    ("frozen", "current", "expected"),
    [
        pytest.param([], [], [], id="nothing"),
        pytest.param([row("a", "1.0", "2.00")], [row("a", "1.000", "2.0")], [], id="the same, spelt otherwise"),
        pytest.param([row("a", "1", None)], [row("a", "1", None)], [], id="unpriced before and after"),
        pytest.param([row("a", "1", "2"), row("a", "1", "2")], [row("a", "2", "4")], [], id="rows of one group add up"),
        pytest.param([row("a", "1", "2")], [row("a", "3", "5")], [("a", "2", "3", "USD")], id="more came later"),
        pytest.param([row("a", "1", "2")], [], [("a", "-1", "-2", "USD")], id="it is not there any more"),
        pytest.param([], [row("b", "1", "2")], [("b", "1", "2", "USD")], id="somebody new"),
        pytest.param(
            [row("a", "1", "2")],
            [row("b", "1", "2")],
            [("a", "-1", "-2", "USD"), ("b", "1", "2", "USD")],
            id="it went to somebody else",
        ),
        pytest.param(
            [row("a", "1", None)],
            [row("a", "1", "2")],
            [("a", "-1", None, None), ("a", "1", "2", "USD")],
            id="a price came: the time leaves what has none",
        ),
        pytest.param(
            [row("a", "1", "2", "EUR")],
            [row("a", "1", "2", "USD")],
            [("a", "-1", "-2", "EUR"), ("a", "1", "2", "USD")],
            id="another currency is another row",
        ),
        pytest.param(
            [row("a", "1", "2", user="ann")],
            [row("a", "1", "2", user="bob")],
            [("a", "-1", "-2", "USD"), ("a", "1", "2", "USD")],
            id="another user of the same team",
        ),
    ],
)
def test_corrections_are_current_minus_frozen(
    frozen: list[dict[str, Any]], current: list[dict[str, Any]], expected: list[tuple[str, str, str, str]]
) -> None:
    """Only where something differs."""
    assert expected == amounts_of(lines(differences(by_key(frozen), by_key(current)), {}))


@pytest.mark.parametrize(
    ("costs", "gap", "expected"),
    [
        pytest.param(["0.50"], 50, ["0.50"], id="whole cents"),
        pytest.param(["0.004", "0.004"], 1, ["0.01", "0.00"], id="two halves that are a cent together"),
        pytest.param(["0.004", "0.004"], 0, ["0.00", "0.00"], id="a cent that the frozen rows had already"),
        pytest.param(["0.333", "-0.333"], 0, ["0.33", "-0.33"], id="moved from one to another"),
        pytest.param(["0.004"], 9, ["0.00"], id="a gap that is not of these lines is not theirs"),
    ],
)
def test_cents_close_the_gap(costs: list[str], gap: int, expected: list[str]) -> None:
    """What was told and the lines add up to what is told now."""
    after = by_key([row(f"t{n}", "1", cost) for n, cost in enumerate(costs)])

    assert expected == [line["cost"] for line in lines(after, {"USD": gap})]


amounts = st.integers(-(10**20), 10**20)


@settings(max_examples=200, deadline=None)
@given(amounts)
def test_text_and_units_are_the_same_number(units: int) -> None:
    assert units == pico(text_of(units))


def test_more_places_than_are_kept_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 12 places"):
        pico("0.1234567890123")


exact = st.integers(0, 10**15)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), exact, max_size=4), min_size=1, max_size=5))
def test_every_step_of_corrections_tells_what_the_books_say(history: list[dict[str, int]]) -> None:
    """Frozen and all lines since are the books of now: in exact amounts by row, in cents in all."""

    def rows(books: Mapping[str, int]) -> list[dict[str, Any]]:
        return [row(team, "1", text_of(units)) for team, units in books.items()]

    def cents(books: Mapping[str, int]) -> int:
        values = [Decimal(text_of(units)) for units in books.values()]
        return int(sum(largest_remainder(values, 2, list(books)), Decimal(0)) * 100)

    known, shown = by_key(rows(history[0])), cents(history[0])
    for books in history[1:]:
        found = lines(differences(known, by_key(rows(books))), {"USD": cents(books) - shown})
        for line in found:
            key = (*(line["words"][name] for name in KEY), line["currency"])
            one = by_key([{**line["words"], **line}])[key]
            known[key] = known[key].plus(one) if key in known else one
        shown += cents_by_currency([("USD", line["cost"]) for line in found]).get("USD", 0)

        assert {} == differences(known, by_key(rows(books)))
        assert cents(books) == shown


def test_a_content_is_one_text_whatever_the_order() -> None:
    """And another row, window or version is another digest."""
    one, two = row("a", "1", "2"), row("ä", "1", "3")
    text = content_of("2026-W45", "s", "e", {"rates": 1}, {"rows": [two, one]})
    others = [
        content_of("2026-W45", "s", "e", {"rates": 2}, {"rows": [two, one]}),
        content_of("2026-W45", "s", "f", {"rates": 1}, {"rows": [two, one]}),
        content_of("2026-W45", "s", "e", {"rates": 1}, {"rows": [two]}),
    ]

    assert text == content_of("2026-W45", "s", "e", {"rates": 1}, {"rows": [one, two]})
    assert text == canonical(json.loads(text))
    assert 4 == len({digest_of(other) for other in (text, *others)})


def test_a_summary_adds_up_to_what_was_published() -> None:
    """Each team's cents, though its rows by themselves would round to other ones."""
    rows = [row("a", "1.5", "0.004", job="1", gpu_model="x"), row("a", "1.5", "0.004", job="2", gpu_model="y")]
    published = [{"team": "a", "kind": "allocated", "currency": "USD", "gpu_seconds": "3.000000", "cost": "0.01"}]

    assert [("x", "0.01", "1.500000"), ("y", "0.00", "1.500000")] == [
        (one["gpu_model"], one["cost"], one["gpu_seconds"])
        for one in sorted(summary(rows, published), key=lambda one: str(one["gpu_model"]))
    ]
