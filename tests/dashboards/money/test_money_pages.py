"""Pages of money: charges opened, budgets, closed periods, reports, decisions; unknown money is never a zero."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Caller, Client, Row
from gpuwatch.dashboards.components import charge_lines, charts, formats, owning, proposals
from gpuwatch.dashboards.pages import budgets, charge, decisions, period, periods, reports, teams
from gpuwatch.dashboards.shell import page_links
from gpuwatch.dashboards.shell.page import find
from gpuwatch.dashboards.shell.query import Query
from tests.dashboards import fake_api, fake_money
from tests.dashboards.fake_names import HOSTILE
from tests.dashboards.laid_out import api, asked, links, shown, text


def rows_of(table: Component) -> list[list[str]]:
    """Texts of the cells of a table."""
    body = table.children.children[-1].children
    return [[text(cell) for cell in row.children] for row in body]


# Charges


def test_a_charge_leads_from_its_team_to_how_it_was_computed() -> None:
    """A team's row opens its charge; one made of several opens what it is made of."""
    found = links(shown("/teams"))

    assert "/ui/charges/held" in found
    assert "/ui/charges/dealt" in found
    assert "/ui/charges/correction" in found
    assert "/ui/teams?team=nlp&by=cause" in found


def test_a_charge_leads_to_its_jobs_and_findings() -> None:
    found = links(shown("/charges/held"))

    assert "/ui/jobs/4242?in=sim" in found
    assert "/ui/findings?team=nlp&state=all" in found
    assert "/ui/charges/held?cursor=l2" in found


def test_a_line_says_how_it_was_computed() -> None:
    page_text = text(charge_lines.computation(fake_money.segment(1), "USD"))

    assert page_text == (
        "21600 s x 4/7 x 2.40 / 3600 H100 from 2026-01-01 (line 2) (rates version 4); "
        "converted from 2.18 EUR at 1.10; policy 2026 H2"
    )


def test_a_line_of_a_discount_has_its_factor() -> None:
    assert text(charge_lines.computation(fake_money.segment(4), "USD")).endswith("policy 2026 H2, times 0.3")


def test_what_a_policy_allocates_is_shown_as_a_part_of_an_amount() -> None:
    line = fake_money.dealt() | {"dealt": {"amount": "62.67", "weight": "51", "weights": "100"}}

    assert "51 % of $62.67 policy share what is idle, in proportion to time held" == text(
        charge_lines.computation(line, "USD")
    )


def test_a_share_names_its_method() -> None:
    assert "4/7 dominant, bound" == text(charge_lines.share(fake_money.segment(3)))
    assert None is charge_lines.share(fake_money.dealt())


def test_what_nobody_measured_is_no_zero() -> None:
    assert None is charge_lines.coverage(fake_money.segment(1))
    assert "93 %" == text(charge_lines.coverage(fake_money.segment(0)))


def test_columns_that_nothing_fills_are_left_out() -> None:
    """A correction has neither a share nor a rate."""
    page_text = text(charge_lines.lines(fake_money.explained("correction", None), Query("/charges/correction")))

    assert "Share" not in page_text
    assert "Measured" not in page_text
    assert "GPU-h" not in page_text
    assert "Correction of period 2026-W45" in page_text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("86.400000000000", "86.40 USD", id="cents stay"),
        pytest.param("3930.983229318610", "3,930.98322931861 USD", id="all places"),
        pytest.param("-0.001000000000", "-0.001 USD", id="below a cent"),
        pytest.param("100.000000000000", "100.00 USD", id="no powers of ten"),
        pytest.param(None, formats.MISSING, id="no price"),
    ],
)
def test_exact_money_has_its_cents_and_no_zeros_behind(value: object, expected: str) -> None:
    assert expected == charge_lines.exactly(value, "USD")


def test_money_below_a_cent_is_not_rounded_to_nothing() -> None:
    assert "$0.004200" == text(charge_lines.cost({"cost_exact": "0.004200000000"}, "USD"))
    assert "-$0.004200" == text(charge_lines.cost({"cost_exact": "-0.004200000000"}, "USD"))
    assert "$0" == text(charge_lines.cost({"cost_exact": "0.000000000000"}, "USD"))


def test_a_charge_without_a_price_says_the_fix_and_asks_no_policy() -> None:
    page_text = text(shown("/charges/unpriced?policy=pay-for-use"))

    assert "Charge – " in page_text
    assert "add to rates.csv:" in page_text
    assert "The result is unknown because this charge has no price." in page_text
    assert "they add up" not in page_text


def test_another_policy_compares_all_that_is_paid() -> None:
    page_text = text(shown("/charges/held?policy=share-idle"))

    assert "Share idle cost: $51.20 instead of $86.40 (−41 %)" in page_text
    assert "Held $86.40 $40.00 -$46.40 Free $0 $11.20 +$11.20" in page_text


def test_a_policy_that_is_none_leaves_the_charge() -> None:
    page_text = text(shown("/charges/held?policy=nonsense"))

    assert "Policy 'nonsense': neither a preset nor" in page_text
    assert "Lines of this charge" in page_text


def test_a_correction_is_of_no_policy() -> None:
    assert "another policy" not in text(shown("/charges/correction"))


def test_a_frozen_charge_leads_to_its_period() -> None:
    layout = shown("/charges/frozen")

    assert "Frozen in 2026-W46" in text(layout)
    assert "/ui/periods/2026-W46" in links(layout)


def test_a_charge_that_is_none_is_not_there() -> None:
    page = find("/charges/gone")
    assert page is not None
    with pytest.raises(ApiFailure) as failure:
        asyncio.run(page.load(api(), asked("/charges/gone")))

    assert 404 == failure.value.status


def test_exports_of_focus_are_whole() -> None:
    exports = [href for href in links(shown("/teams?team=nlp&by=user")) if "focus" in href]

    assert [
        "/api/v1/chargeback?window=7d&team=nlp&format=focus&focus_version=1.2",
        "/api/v1/chargeback?window=7d&team=nlp&format=focus&focus_version=1.4",
    ] == exports


def test_money_that_no_gpu_costs_is_separate() -> None:
    data = asyncio.run(teams.load(api(), Query("/teams")))
    data.charges["total"] = {"external_cost": "500.00", "currency": "USD"}

    assert "$500.00 of it not for GPUs" == teams.external(data, Query("/teams"))
    assert "" == teams.external(data, Query("/teams", {"user": "alice"}))


# Budgets


@pytest.mark.parametrize(
    ("spent", "forecast", "expected"),
    [
        pytest.param(None, None, ("plain", "Unknown"), id="unknown is not kept"),
        pytest.param("120.00", None, ("plain", "No forecast yet"), id="too few days"),
        pytest.param("300.00", "700.00", ("ok", "On track"), id="even its high end holds"),
        pytest.param("300.00", "950.00", ("warn", "May be exceeded"), id="only its high end passes"),
        pytest.param("300.00", "1100.00", ("bad", "Will be exceeded"), id="its middle passes"),
        pytest.param("1000.01", "1100.00", ("bad", "Exceeded"), id="a cent too much"),
    ],
)
def test_a_budget_is_judged_by_its_forecast(spent: str | None, forecast: str | None, expected: tuple[str, str]) -> None:
    assert expected == budgets.status(fake_money.budget("nlp", spent, forecast))


@pytest.mark.parametrize(
    ("budgets_", "expected"),
    [
        ((("a", "100.00", "500.00"), ("b", "100.00", "500.00")), "All budgets on track"),
        ((("a", "100.00", "500.00"), ("b", "100.00", "980.00")), "1 of 2 budgets may be exceeded"),
        ((("a", "100.00", "500.00"), ("b", "100.00", None)), "No budget is exceeded"),
        ((("a", "1200.00", None), ("b", "100.00", "980.00")), "2 of 2 budgets exceeded or at risk"),
    ],
    ids=["all hold", "one may not", "one has no forecast", "one is exceeded, one may be"],
)
def test_the_title_of_budgets_is_that_of_the_worst(
    budgets_: tuple[tuple[str, str, str | None], ...], expected: str
) -> None:
    assert expected == budgets.title([fake_money.budget(*one) for one in budgets_])


def test_budgets_that_will_not_hold_come_first_and_unknown_ones_last() -> None:
    page_text = text(shown("/budgets"))

    assert page_text.startswith("3 of 6 budgets exceeded or at risk")
    assert (
        page_text.index("The fleet has")
        < page_text.index("nlp has")
        < page_text.index("vision has")
        < page_text.index(f"{HOSTILE}:")
    )


def test_an_unknown_budget_says_what_is_missing_and_foretells_nothing() -> None:
    page_text = text(budgets.card(fake_money.budget("nlp", None, None), Query("/budgets"), "light"))

    assert "nlp: $1,000 for November 2026" in page_text
    assert "set [reporting] currency" in page_text
    assert "Spent – Left – Forecast – Runs out –" in page_text
    assert "not in this period" not in page_text


def test_a_day_on_which_money_runs_out_is_expected_or_past() -> None:
    expected, past = (fake_money.budget("nlp", spent, "1100.00") for spent in ("600.00", "1050.00"))
    assert "27 Nov expected" in text(budgets.card(expected, Query("/budgets"), "light"))
    assert "27 Nov exceeded" in text(budgets.card(past, Query("/budgets"), "light"))


def test_a_team_that_stopped_is_forecast_without_a_restart() -> None:
    item = fake_money.budget("nlp", "600.00", "600.00")
    item["forecast"]["level_change"] = {"since": "2026-11-10", "before": "30.00", "after": "0.00"}
    page_text = text(budgets.card(item, Query("/budgets"), "light"))

    assert "nothing spent since 2026-11-10, $30.00 a day before; a restart is not in the forecast" in page_text


def test_no_budget_says_how_to_set_one() -> None:
    page_text = text(shown("/budgets", "empty"))

    assert "No budgets set" in page_text
    assert "Add a budget" in page_text
    assert "This team has no budget" in text(shown("/budgets?team=nlp", "empty"))


def test_the_burn_down_begins_with_the_books_and_ends_in_an_interval() -> None:
    item = fake_money.budget("nlp", "600.00", "1100.00")
    item["burn_down"] = item["burn_down"][9:]
    even, area, middle, left = charts.burn_down(item, "light")["data"]  # type: ignore[index]

    assert [1000.0, 0.0] == even["y"]
    assert [400.0, 1000 - 1010, 1000 - 1190] == area["y"]
    assert [400.0, -100.0] == middle["y"]
    assert ("2026-11-10", 1000.0) == (left["x"][0], left["y"][0])
    assert ("2026-11-20T23:59:59Z", 400.0) == (left["x"][-1], left["y"][-1])


def test_a_burn_down_without_a_forecast_draws_none() -> None:
    assert 2 == len(charts.burn_down(fake_money.budget("nlp", "600.00", None), "dark")["data"])  # type: ignore[index]
    assert None is charts.burn_down(fake_money.budget("nlp", None, None), "dark")


# Periods


def test_closed_periods_tell_who_when_and_the_hash() -> None:
    page_text = text(shown("/periods"))

    assert "1 closed without a signature" in page_text
    assert "2026-W45 Closed $390.00 -$12.40 17 Nov 09:00 UTC by ada not signed 3f8a0c5d7e2b" in page_text
    assert "2026-W44 Reopened" in page_text
    assert "2026-W46, is closed." in page_text


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(datetime(2026, 11, 16, tzinfo=UTC), ("2026-W46", "2026-10"), id="on Monday last week is over"),
        pytest.param(datetime(2026, 11, 15, 23, tzinfo=UTC), ("2026-W45", "2026-10"), id="on Sunday it is not"),
        pytest.param(datetime(2027, 1, 4, tzinfo=UTC), ("2026-W53", "2026-12"), id="a year has 53 weeks"),
    ],
)
def test_the_newest_period_that_is_over(now: datetime, expected: tuple[str, str]) -> None:
    assert expected == periods.over(now)
    assert expected[0] == reports.ended(now)[0]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        pytest.param(None, ("2026-W46", "2026-W45", "2026-W44"), id="not known"),
        pytest.param("2026-11-08T23:00:00Z", ("2026-W46", "2026-W45"), id="its last hour"),
        pytest.param("2026-11-09T00:00:00Z", ("2026-W46",), id="from Monday on"),
        pytest.param("2026-11-18T00:00:00Z", ("2026-W46",), id="none yet: the last week says so"),
    ],
)
def test_only_weeks_with_data_are_offered(start: str | None, expected: tuple[str, ...]) -> None:
    began = None if start is None else datetime.fromisoformat(start)

    assert expected == reports.since(("2026-W46", "2026-W45", "2026-W44"), began)


@pytest.mark.parametrize(
    ("now", "start", "expected"),
    [
        pytest.param(None, None, (), id="no time is known"),
        pytest.param("2026-11-20T00:00:00Z", None, ("2026-11",), id="where data begins is not known"),
        pytest.param("2026-11-20T00:00:00Z", "2026-11-02T00:00:00Z", ("2026-11",), id="data of this month only"),
        pytest.param(
            "2027-01-01T00:00:00Z", "2026-11-30T23:00:00Z", ("2027-01", "2026-12", "2026-11"), id="across a year"
        ),
        pytest.param(
            "2026-11-20T00:00:00Z",
            "2020-01-01T00:00:00Z",
            ("2026-11", "2026-10", "2026-09", "2026-08"),
            id="the last four",
        ),
    ],
)
def test_months_with_data_are_offered(now: str | None, start: str | None, expected: tuple[str, ...]) -> None:
    at, began = (None if one is None else datetime.fromisoformat(one) for one in (now, start))

    assert expected == reports.months_of(at, began)


def test_a_month_has_reports_as_a_week_has() -> None:
    layout = shown("/reports?week=2026-11")
    page_text = text(layout)

    assert "November 2026 so far" in page_text
    assert "/api/v1/reports/weekly?week=2026-11&format=pdf&team=nlp" in links(layout)
    assert "/ui/reports?week=2026-11" in links(shown("/reports"))


def test_a_bill_is_listed_to_the_cent() -> None:
    """It is compared with an invoice."""
    owed = {"currency": "USD"}

    assert ["$52,213.40", "-$12.40", "$0.00", formats.MISSING] == [
        text(periods.billed(value, owed)) for value in ("52213.4", "-12.4", "0", None)
    ]


def test_no_period_says_how_to_close_one() -> None:
    assert "/ui/periods?edit=close" in links(shown("/periods", "empty"))
    assert "value='2026-W46'" in str(shown("/periods?edit=close", "empty"))


def test_a_period_is_what_was_billed_what_was_corrected_and_both() -> None:
    layout = shown("/periods/2026-W46")
    page_text = text(layout)

    assert "nlp 100.0 $240.00 -$12.40 $227.60" in page_text
    assert f"SHA-256  {fake_money.DIGEST}" in page_text
    assert "Priced with rates version 4, policies version 3" in page_text
    assert "whose SHA-256 is the hash of the newest closing" in page_text
    assert {"/ui/teams?window=2026-W46", "/ui/reports?week=2026-W46"} <= set(links(layout))
    assert "/ui/teams?window=2026-W46&team=nlp&by=user" in links(layout)


def test_a_period_that_was_opened_again_tells_why_and_how_to_close_it() -> None:
    page_text = text(shown("/periods/2026-W44"))

    assert "Reopened 20 Nov 12:00 UTC by bo: rates of pool b" in page_text
    assert "Close it again" in page_text
    assert "Corrected Now" not in page_text


def test_corrections_of_one_cause_are_added_up() -> None:
    (group,) = period.grouped(fake_money.LINES)

    assert ("rates version 7", "nlp", Decimal("-12.40")) == (group.why, group.team, group.cost)


def test_a_correction_without_a_price_has_no_sum() -> None:
    assert None is periods.corrected({"corrections": [{"cost": None}]})
    assert Decimal(0) == periods.corrected({"corrections": []})


# Reports


def test_a_report_of_the_fleet_and_of_each_team_in_every_format() -> None:
    layout = shown("/reports")
    files = [href for href in links(layout) if href.startswith("/api/")]

    assert "/api/v1/reports/weekly?week=2026-W46&format=zip" == files[0]
    assert [
        f"/api/v1/reports/weekly?week=2026-W46&format={form}"
        for form in ("html", "pdf", "xlsx", "csv", "focus", "parquet")
    ] == files[1:7]
    assert "/api/v1/reports/weekly?week=2026-W46&format=pdf&team=nlp" in files
    assert [] == [href for href in files if "__" in href]
    assert "HTML PDF Excel CSV FOCUS Parquet" in text(layout)


def test_a_token_of_a_team_is_offered_its_own_report_only() -> None:
    reader = Client(fake_api.create("ok", tokens=True)).of(Caller(fake_api.READ))
    data = asyncio.run(reports.load(reader, Query("/reports")))

    assert ["nlp"] == data.me["teams"]
    assert "" not in {one.team for one in reports.reports(data, Query("/reports"))}


def test_a_week_without_books_says_so() -> None:
    assert "No data for week 2026-W46" in text(shown("/reports", "empty"))


def test_every_file_is_named_for_who_does_not_see_the_table() -> None:
    data = asyncio.run(reports.load(api(), Query("/reports")))
    link = reports.file(data.forms[1], "nlp", data.week, "nlp")

    assert "PDF report of nlp, week 2026-W46" == link.to_plotly_json()["props"]["aria-label"]


# Decisions


def test_owning_is_reported_with_its_assumptions_and_sensitivity() -> None:
    page_text = text(shown("/decisions"))

    assert "owning saves $2,614 per month" in page_text
    assert "break-even 62 %" in page_text
    assert "Cloud, per hour $3.50 on-demand rate of the card" in page_text
    assert "Payback 54.7 months" in page_text
    assert "$3.50 -$1,000 -$100 $800 62 % 54.7 months" in page_text
    assert "The cloud would be rented for the hours that somebody held" in page_text


def test_what_is_missing_for_a_decision_leads_to_the_page_that_sets_it() -> None:
    layout = shown("/decisions")
    page_text = " ".join(text(layout).split())

    assert "not enough data" in page_text
    assert "Missing: owned price: Owned hardware" in page_text
    assert "/ui/owned" in links(layout)
    assert "gpuwatch rates" not in page_text
    assert "break-even 140 %: not reachable at this price" in page_text


@pytest.mark.parametrize(
    ("given", "shown_as", "addresses"),
    [
        pytest.param("gpuwatch decides nothing", "gpuwatch decides nothing", [], id="no command"),
        pytest.param("gpuwatch rates: none", "Rates : none", ["/ui/rates"], id="a command at the beginning"),
        pytest.param(
            "no price: add a rate, or gpuwatch rates owned FILE",
            "no price: add a rate, or Owned hardware",
            ["/ui/owned"],
            id="the longest words",
        ),
        pytest.param(
            "set rates (gpuwatch rates fx FILE --currency USD); gpuwatch doctor names the rates to add",
            "set rates ( Exchange rates ); Data quality names the rates to add",
            ["/ui/fx", "/ui/quality"],
            id="two commands",
        ),
        pytest.param("run gpuwatch import bundle B", "run gpuwatch import bundle B", [], id="one without a page"),
    ],
)
def test_a_command_that_has_a_page_is_a_link_to_it(given: str, shown_as: str, addresses: list[str]) -> None:
    layout = html.Div(page_links.linked(given))

    assert shown_as == " ".join(text(layout).split())
    assert addresses == links(layout)


@pytest.mark.parametrize(("paid", "word"), [("owned", "own"), ("reserved", "reserve")])
def test_the_axis_names_how_the_gpus_are_paid(paid: str, word: str) -> None:
    item = fake_money.decision("own-vs-cloud")["items"][0] | {"paid": paid}

    assert f"rent {word} " in text(owning.axis(item))


def test_jobs_for_spot_come_before_those_that_are_not() -> None:
    page_text = text(shown("/decisions?of=spot"))

    assert (
        "Spot capacity would have saved $172.80 in the last 7 days 1 of 2 jobs suited; 1 more without a spot price"
        in page_text
    )
    assert page_text.index("short runs") < page_text.index("without checkpoints")


def test_every_job_is_listed_on_pages() -> None:
    answer = fake_money.decision("spot")
    many: Row = answer | {
        "items": [answer["items"][1] | {"job": str(n), "name": f"job-{n}"} for n in range(45)],
        "jobs": 45,
    }

    first, last = (text(proposals.spot(many, Query("/decisions", {"page": page}))) for page in ("1", "3"))
    assert "job-0" in first and "Page 1 of 3" in first and "job-44" not in first
    assert "job-44" in last
    assert "The 45 jobs that would save the most are listed" in text(proposals.spot(many | {"jobs": 1200}, Query("/d")))
    assert "gpuwatch decide" not in first + last


def test_no_job_for_spot_says_so_and_saves_nothing() -> None:
    answer = fake_money.decision("spot")
    none: Row = answer | {"items": answer["items"][1:], "saving": {}}

    assert text(proposals.spot(none, Query("/decisions"))).startswith("Spot capacity would have saved nothing")


def test_pools_are_put_together_by_links() -> None:
    layout = shown("/decisions?of=pools")

    assert "1 node could be released, saving $14.0 k per month" in text(layout)
    assert ["h100"] == decisions.chosen(fake_api.fleet(), Query("/decisions"))[1]


def test_pools_of_new_gpus_release_no_nodes() -> None:
    item = fake_money.decision("consolidation")["items"][0]
    new: Row = item | dict.fromkeys(("peak_gpus", "needed_gpus", "freed_nodes", "freed_gpus", "saving_a_month"), None)
    page_text = text(proposals.merged(new | {"missing": "the 48 GPUs were there together for 20 h"}))

    assert "H100 80GB HBM3: how many GPUs are enough is not known" in page_text
    assert "The 48 GPUs were there together for 20 h" in page_text
    assert "released" not in page_text


def test_an_assumption_that_is_none_can_be_reset() -> None:
    layout = shown("/decisions?cloud_price=x")

    assert "not a decimal number such as 0.10" in text(layout)
    assert "/ui/decisions" in links(layout)


def test_a_question_about_the_fleet_is_refused_to_a_team_and_the_others_stay() -> None:
    layout = shown("/decisions", "403")

    assert "You don't have access to this" in text(layout)
    assert "Spot" in text(layout)


# All of them


MONEY = ("/charges/held", "/budgets", "/periods", "/periods/2026-W46", "/reports", "/decisions", "/teams?by=cause")


@pytest.mark.parametrize("path", MONEY)
def test_a_failing_api_is_reported_by_every_page(path: str) -> None:
    """What a page cannot do without raises; the app shows it as a state."""
    page = find(asked(path).path)
    assert page is not None
    try:
        page_text = text(page.layout(asyncio.run(page.load(api("500"), asked(path))), asked(path), "light"))
    except ApiFailure as failure:
        page_text = f"{failure.status}"

    assert page_text == "500" or "This could not be loaded" in page_text


def described(node: Any) -> list[str]:
    """Kinds of what has neither words nor a name: links and pictures."""
    found: list[str] = []
    if isinstance(node, Component):
        entry = node.to_plotly_json()["props"]
        if (hasattr(node, "href") or entry.get("role") == "img") and not (
            text(node).strip() or entry.get("aria-label") or entry.get("title")
        ):
            found.append(json.dumps(node, default=Component.to_plotly_json)[:200])
        found += described(getattr(node, "children", None))
    elif isinstance(node, list | tuple):
        found += [one for part in node for one in described(part)]
    return found


@pytest.mark.parametrize("path", MONEY)
def test_links_and_pictures_have_words(path: str) -> None:
    """For people who hear the page."""
    assert [] == described(shown(path))


def test_an_api_that_is_older_leaves_the_charge_page_without_policies() -> None:
    """The list of policies is an extra."""

    class Old(Api):
        async def policies(self) -> Row:
            raise ApiFailure(404, "not_found", "no such route")

    found = api()
    data = asyncio.run(charge.load(Old(found.client, found.caller), Query("/charges/held")))

    assert () == data.names
    assert "Pay for use" in text(charge.layout(data, Query("/charges/held"), "light"))


def test_teams_that_pay_and_have_no_budget_are_named() -> None:
    month = {"items": [{"team": name, "gpu_seconds": "3600", "cost": cost, "currency": "USD"} for name, cost in
                       (("nlp", "40.00"), ("recsys", "20.00"), ("serving", "900.00"), ("__platform__", "70.00"))]}  # fmt: skip
    card = budgets.without([{"team": "nlp"}, {"team": "*"}], month, Query("/budgets"))

    words = " ".join(text(card).split())
    assert "2 teams have no budget Cost this month serving ($900) , recsys ($20.00)" == words
    assert ["/ui/team/serving", "/ui/team/recsys"] == links(card)
    assert budgets.without([{"team": "nlp"}], None, Query("/budgets")) is None
