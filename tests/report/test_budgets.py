"""Budgets in a report: the forecast's interval, and the table of teams."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from gpuwatch.report.data_quality import terms
from gpuwatch.report.document import Section, Table, Text
from gpuwatch.report.facts import Facts, Payer
from gpuwatch.report.headlines import headlines
from gpuwatch.report.period_records import Budget
from gpuwatch.report.sections.budgets import STEADY, TOO_EARLY, between, budgeted, team_budgets
from gpuwatch.report.text import GAP
from tests.report.test_actions import facts


def budget(amount: str, spent: str | None, **more: Any) -> Budget:
    known = {name: Decimal(value) if isinstance(value, str) else value for name, value in more.items()}
    return Budget("2026-11", Decimal(amount), None if spent is None else Decimal(spent), "USD", **known)


def forecast(low: str, high: str) -> Budget:
    return budget("400000", "200000", forecast=high, forecast_low=low, forecast_high=high, goes_on=True)


def plain(text: str) -> str:
    return text.replace(GAP, " ")


def rows(section: Section | None) -> list[list[str]]:
    assert section is not None
    table = section.blocks[0]
    assert isinstance(table, Table)
    return [[plain(str(cell.text)) for cell in row.cells] for row in table.rows]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        pytest.param("221000", "245000", "$221 k to $245 k", id="two amounts"),
        pytest.param("355900", "356100", STEADY, id="both ends show the same amount"),
    ],
)
def test_an_interval_has_two_ends_or_says_why_not(low: str, high: str, expected: str) -> None:
    assert expected == plain(between(forecast(low, high)))


def test_without_a_forecast_there_is_no_interval() -> None:
    assert "" == between(budget("10", "5"))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(
            forecast("221000", "245000"), "(50 %) spent, $245 k expected by the end of the period (between $221 k and $245 k).",
            id="an interval",
        ),
        pytest.param(forecast("355900", "356100"), f"expected by the end of the period ({STEADY}).", id="no interval"),
        pytest.param(budget("400", "200", goes_on=True), f"spent. {TOO_EARLY}", id="too few days"),
        pytest.param(budget("400", "200"), "$200 (50 %) spent.", id="a period that is over needs none"),
        pytest.param(budget("400", None), "the amount spent is unknown.", id="nothing has a price"),
    ],
)  # fmt: skip
def test_a_budget_is_one_sentence(one: Budget, expected: str) -> None:
    assert plain(budgeted(replace(facts(), budget=one))).endswith(expected)


def test_the_headline_has_the_same_interval() -> None:
    (found,) = [
        one for one in headlines(replace(facts(), forecast=forecast("355900", "356100"))) if "Forecast" in one.label
    ]

    assert ("$356 k", STEADY) == (plain(found.value), found.change)


def fleet(**budgets: Budget) -> Facts:
    payers = tuple(Payer(team, facts().total) for team in ("ants", "bees", "__unallocated__"))
    return replace(facts(), payers=payers, team_budgets=budgets)


def test_a_fleet_without_team_budgets_has_no_table() -> None:
    assert None is team_budgets(fleet())


def test_budgets_that_run_out_come_first_and_teams_without_one_are_named() -> None:
    section = team_budgets(
        fleet(
            wasps=budget("100", "20", forecast="90", goes_on=True),
            ants=budget("100", "60", forecast="120", runs_out=date(2026, 11, 24), goes_on=True),
            gnats=budget("100", "130", runs_out=date(2026, 11, 20)),
            flies=budget("100", None),
            moths=budget("100", "10", goes_on=True),
        )
    )
    assert section is not None

    assert [
        ["gnats", "2026-11", "$100", "$130", "130 %", "", "exceeded on 20 Nov"],
        ["ants", "2026-11", "$100", "$60.00", "60 %", "$120", "runs out on 24 Nov"],
        ["wasps", "2026-11", "$100", "$20.00", "20 %", "$90.00", "within the budget"],
        ["moths", "2026-11", "$100", "$10.00", "10 %", "", "too early for a forecast"],
        ["flies", "2026-11", "$100", "unknown", "unknown", "", "charges have no price, or another currency"],
    ] == rows(section)
    assert "Team budgets: gnats and ants run out" == section.title
    assert Text("No budget: bees.", "soft") == section.blocks[1]


def test_budgets_within_their_amounts_are_said_to_be() -> None:
    section = team_budgets(fleet(ants=budget("100", "20", forecast="90"), bees=budget("100", "20", forecast="90")))
    assert section is not None

    assert ("Team budgets: none of 2 runs out", 1) == (section.title, len(section.blocks))


def test_a_forecast_comes_with_how_it_is_made() -> None:
    assert "by the days of the week" in terms(replace(facts(), forecast=forecast("100", "120")))["Forecast"]
    assert "Forecast" not in terms(facts())
