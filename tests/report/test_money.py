"""Money in a report: closed weeks, corrections, policies, and files that are bounded but still add up."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuwatch.billing.chargeback import chargeback, price_all
from gpuwatch.billing.focus import export as focus_export
from gpuwatch.billing.periods import close as periods_close
from gpuwatch.core.clock import HOUR_US
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.report import corrections, tables
from gpuwatch.report.compose import document
from gpuwatch.report.document import Table
from gpuwatch.report.facts import Amount, Charge, Correction, Facts, Payer, added
from gpuwatch.report.headlines import bucket_money
from gpuwatch.report.report_window import week_window
from gpuwatch.report.week import bucket_costs
from gpuwatch.report.week.week_facts import Rows
from gpuwatch.report.weekly import facts_of, weekly
from gpuwatch.report.xlsx import workbook
from tests.report.test_formats import pages, sheets
from tests.report.test_weekly import BEFORE, LATER_US, WEEK, Fleet
from tests.worlds.world import T0_US


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A fleet whose first week was closed, then priced anew: the difference is billed in the second week."""
    made = Fleet(tmp_path_factory.mktemp("closed")).analyse()
    periods_close.close(made.world.store, made.state, BEFORE, "ada", T0_US + HOUR_US, force=True)
    replace_rates(made.state, [Rate("*", "on_demand", Decimal(3), 0)], "test", "test", 1)
    price_all(made.world.store, made.state)
    assert 0 < periods_close.find_corrections(made.world.store, made.state, T0_US + HOUR_US)
    return made


def facts(fleet: Fleet, week: str, team: str | None = None) -> Facts:
    """Those of the fleet, or of a team."""
    return next(facts_of(fleet.world.store, fleet.state, week, None if team is None else [team], LATER_US))


def money(*cents: str) -> Amount:
    """An amount of no time."""
    return Amount(Decimal(0), (("USD", sum(map(Decimal, cents), Decimal(0))),))


def shown(table: Table) -> list[list[str]]:
    """The texts of a table, with plain spaces."""
    return [[cell.text.replace("\u00a0", " ") for cell in row.cells] for row in table.rows]


def lines(content: bytes) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))


def test_a_closed_week_is_reported_as_it_was_frozen(fleet: Fleet) -> None:
    """At 2 dollars, not at the 3 of today; and by whom it was closed."""
    week_facts = facts(fleet, BEFORE)
    at_three = week_facts.priced["ants"].cost_in("USD")

    assert (Decimal("6.00"), Decimal("4.00")) == (at_three, charged(week_facts, "ants"))
    assert week_facts.closed is not None
    assert ("ada", T0_US + HOUR_US) == (week_facts.closed.by, week_facts.closed.at_us)
    assert () == week_facts.corrected
    assert (1, 2) == (week_facts.versions.rates, facts(fleet, WEEK).versions.rates)
    texts = str(document(week_facts))
    assert "The week was closed on" in texts and week_facts.closed.digest in texts
    assert "nothing was missing" == week_facts.closed.forced
    assert texts.count(f"was forced: {week_facts.closed.forced}") == 2  # at the top and among the terms
    assert "data changed after the closing" in texts


def charged(found: Facts, team: str) -> Decimal:
    """What a team pays."""
    return sum((c.cost for c in found.charges if c.team == team and c.cost is not None), Decimal(0))


@pytest.mark.parametrize("team", [None, "ants"], ids=["the fleet", "a team, its own only"])
def test_a_correction_names_the_period_that_it_corrects(fleet: Fleet, team: str | None) -> None:
    """Its lines add up to what the chargeback bills as corrections."""
    week_facts = facts(fleet, WEEK, team)
    billed = chargeback(fleet.world.store, fleet.state, week_window(WEEK), teams=None if team is None else [team])
    section = corrections.corrections(week_facts)

    assert {BEFORE} == {line.period for line in week_facts.corrected}
    assert team is None or {team} == {line.team for line in week_facts.corrected}
    wanted = sum((c.cost for c in billed.items if c.kind == "correction" and c.cost is not None), Decimal(0))
    assert wanted == sum((cost for line in week_facts.corrected for _, cost in line.amount.costs), Decimal(0))
    assert section is not None
    table = next(block for block in section.blocks if isinstance(block, Table))
    assert [BEFORE] * (len(table.rows) - 1) == [row[0] for row in shown(table)[:-1]]
    assert f"${wanted}" == shown(table)[-1][3]


def test_every_file_has_the_corrections(fleet: Fleet) -> None:
    """CSV, XLSX and PDF name the period; the CSV lines add up to the charges."""
    made = weekly(fleet.world.store, fleet.state, WEEK, ["ants"], LATER_US, formats=("csv", "xlsx", "pdf"))
    files = {file.name.rpartition(".")[2]: file.content for file in made}
    table = lines(files["csv"])
    sums = {
        section: sum(
            Decimal(row["cost"]) for row in table if (row["section"], row["kind"]) == (section, kind) and row["cost"]
        )
        for section, kind in (("correction", BEFORE), ("charge", "correction"))
    }

    assert sums["correction"] == sums["charge"] != 0
    assert BEFORE == sheets(files["xlsx"])["Corrections"]["A2"].value
    assert any(BEFORE in page and "Corrections of closed periods" in page for page in pages(files["pdf"]))


def test_without_corrections_there_is_no_such_section(fleet: Fleet) -> None:
    """Nor a sheet of them."""
    assert corrections.corrections(facts(fleet, BEFORE)) is None


def test_lines_that_took_each_other_back_are_not_listed(fleet: Fleet) -> None:
    """Posted, and posted back: nothing is left to tell."""
    line = Correction("2026-W01", "late data", 0, "ants", None, None, "j", None, None, money("1.00"), None)
    back = replace(line, amount=money("-1.00"))
    section = corrections.corrections(replace(facts(fleet, WEEK), corrected=(line, back)))

    assert section is not None
    assert ["Total"] == [row[0] for row in shown(section.blocks[1])]  # type: ignore[arg-type]


def test_the_fleet_s_rows_stand_in_their_own_order() -> None:
    """Not team after team: the five dearest findings of a fleet are those of whoever wasted most."""
    rows = [Charge(team, None, None, None, "allocated", Decimal(1), None, None, None, None) for team in "abab"]

    assert ["a", "b", "a", "b"] == [row.team for row in Rows(rows).of(None)]
    assert ["b", "b"] == [row.team for row in Rows(rows).of("b")]
    assert () == Rows(rows).of("c")


def test_who_pays_has_one_line_a_team(fleet: Fleet) -> None:
    """What a policy passes on is part of it, of this week and of the one before."""
    payers = (
        Payer("ants", money("10"), money("5")),
        Payer("ants", money("30"), money("15"), kind="shared"),
        Payer("bees", money("20"), money("20")),
    )
    record = replace(facts(fleet, WEEK), payers=payers, total=money("60"), total_before=money("40"))
    section = tables.payers(record)
    table = next(block for block in section.blocks if isinstance(block, Table))

    assert "Who pays: team ants pays the most, $40.00 (67\u00a0%)" == section.title
    assert [["ants", "$40.00", "▲ 100 %"], ["bees", "$20.00", "same"], ["Total", "$60.00", "▲ 50 %"]] == [
        [row[0], row[2], row[-1]] for row in shown(table)
    ]


def test_what_is_passed_on_to_no_user_is_no_unknown_user_s(fleet: Fleet) -> None:
    """A line of its own in a team's report."""
    payers = (Payer(None, money("10")), Payer(None, money("30"), kind="shared"))
    record = replace(facts(fleet, WEEK, "ants"), payers=payers, total=money("40"), total_before=None)
    table = next(block for block in tables.payers(record).blocks if isinstance(block, Table))

    assert ["unknown user", "Passed on by a policy, no user", "Total"] == [row[0] for row in shown(table)]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_a_workbook_is_bounded_and_still_adds_up(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Beyond the bound one row a kind sums the others."""
    monkeypatch.setattr("gpuwatch.report.xlsx.sheets.ROWS_MAX", most)
    week_facts = facts(fleet, WEEK)
    rows = list(sheets(workbook.build_workbook(week_facts))["Jobs"].iter_rows(min_row=2, values_only=True))
    kinds = {charge.kind for charge in week_facts.charges[most:]}

    assert min(most, len(week_facts.charges)) + len(kinds) == len(rows)
    assert float(week_facts.total.cost_in("USD") or 0) == pytest.approx(sum(row[6] for row in rows))


def test_a_workbook_says_numbers_as_people_write_them(fleet: Fleet) -> None:
    """No code of a space in a text, and columns as wide as what is in them."""
    made = sheets(workbook.build_workbook(facts(fleet, WEEK)))
    texts = [str(cell.value) for sheet in made for row in sheet.iter_rows() for cell in row if cell.value is not None]

    assert [] == [text for text in texts if "\\x" in text or "\u00a0" in text]
    assert "1,234.500" == workbook._text(Decimal("1234.500000000000000000001"))


def test_focus_files_are_read_once_and_say_the_same(fleet: Fleet) -> None:
    """A team's file is what FOCUS writes for that team alone, and its part of the fleet's."""
    made = weekly(fleet.world.store, fleet.state, WEEK, None, LATER_US, formats=("focus",))
    files = {file.name.partition("/")[2]: file.content for file in made}

    assert {"fleet.focus.csv", "team-ants.focus.csv", "team-bees.focus.csv"} == set(files)
    assert focus_alone(fleet, None) == files["fleet.focus.csv"]
    for team in ("ants", "bees"):
        alone = focus_alone(fleet, [team])
        assert ordered(alone) == ordered(files[f"team-{team}.focus.csv"])
        assert 1 < len(ordered(alone))


def focus_alone(fleet: Fleet, teams: Sequence[str] | None) -> bytes:
    """What FOCUS writes for the week and some teams, asked by itself."""
    file = io.BytesIO()
    focus_export.write(fleet.world.store, fleet.state, week_window(WEEK), file, teams=teams)
    return file.getvalue()


def ordered(content: bytes) -> Sequence[bytes]:
    """Lines in an order of their own."""
    return sorted(content.splitlines())


def test_the_last_page_says_how_far_to_trust_it(fleet: Fleet) -> None:
    """Data quality and how it was computed stand together; no page has a heading alone."""
    made = weekly(fleet.world.store, fleet.state, WEEK, ["ants"], LATER_US, formats=("pdf",))
    last = pages(made[0].content)[-1]

    assert "Data quality" in last and "How this was computed" in last


def test_a_heading_says_the_figure_of_its_row(fleet: Fleet) -> None:
    """595.50 is 595 in a column that adds up to 1,096: nowhere 596."""
    buckets = {"compute": money("300.50"), "hoarded": money("200"), "unobserved": money("595.50")}
    record = replace(facts(fleet, BEFORE), buckets=buckets, total=money("1096"), payers=())
    where = next(s for s in document(record).sections if s.title.startswith("Where it went"))
    table = next(block for block in where.blocks if isinstance(block, Table))
    by_name = {row[0]: row[2] for row in shown(table)}

    assert ("$595", "$301", "$200", "$1,096") == (
        *(by_name[name] for name in ("Not measured", "Compute", "Held idle", "All GPU time")),
    )
    assert ("$595", "$200") == (bucket_money(record, "unobserved"), bucket_money(record, "hoarded"))


@pytest.mark.parametrize(
    ("paid", "expected"),
    [
        pytest.param("3.00", {"a": "0.99", PLATFORM: "3.00"}, id="no policy: everybody pays what was published"),
        pytest.param("0.00", {"a": "0.99", PLATFORM: "3.01"}, id="others pay: a cent is moved, all adds up as before"),
    ],
)
def test_cents_that_settling_moves_are_the_platform_s(paid: str, expected: dict[str, str]) -> None:
    """Buckets of a fleet with a policy add up to what was charged, and so do the columns of its bridge."""
    rows = [("a", "compute", "0.50"), ("a", "gap", "0.50"), (PLATFORM, "schedulable", "3.00")]
    listed = [
        SimpleNamespace(group={"team": team}, bucket=b, gpu_seconds=Decimal(1), cost=Decimal(c), currency="USD")
        for team, b, c in rows
    ]
    known: dict[str | None, Amount] = {"a": money("0.99"), PLATFORM: money(paid)}
    found = bucket_costs.bucket_amounts(cast(Any, SimpleNamespace(items=listed)), known)

    assert expected == {team: f"{dict(added(mine.values()).costs)['USD']}" for team, mine in found.items()}
