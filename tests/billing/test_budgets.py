"""Budgets: what is no alert, what is spent, what will be, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.alerts.budgets import alerts
from gpuwatch.alerts.channels import slack
from gpuwatch.alerts.outbox.repository import Outbox
from gpuwatch.alerts.repository import Channels
from gpuwatch.billing.budgets import (
    Budget,
    budget_of,
    for_report,
    load_budgets,
    month_of_fleet,
    parse_budgets,
    period_name,
    replace,
    statuses,
)
from gpuwatch.billing.chargeback import price_all
from gpuwatch.billing.periods import close as periods_close
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.findings import read as findings_read
from gpuwatch.policy.parse import parse
from gpuwatch.policy.policy import as_dict
from gpuwatch.rates import fx
from gpuwatch.rates.card import Rate
from gpuwatch.rates.csv_table import RowsRefused, whole
from gpuwatch.rates.repository import replace_rates
from gpuwatch.service.after_pass import AlertConfig, Alerting
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists
from tests.billing.test_chargeback import priced
from tests.worlds.alerts import finding
from tests.worlds.templates import computed_once
from tests.worlds.world import BUSY, H100, HOUR, Gpu, World, claim, minutes, samples, us

DAY = 24 * HOUR


@computed_once
def spending(days: int = 10, currency: str = "USD", first: int = 0) -> tuple[World, State]:
    """Team a holds a GPU at 1 an hour for some days, from Monday 2026-11-02 or a number of days later on."""
    start, end = first * DAY, (first + days) * DAY
    rows = samples(Gpu(), minutes(start, end, 600), BUSY)
    world = World().add(rows, claim("1", start, end, account="acct-a")).book()
    return world, priced(world, Rate(H100, "owned", Decimal(1), us(-DAY), currency=currency))


def set_(state: State, *budgets: Budget) -> None:
    replace(state, budgets, "test", "test", 0)


def test_a_budget_that_lasts_is_no_alert() -> None:
    world, state = spending()
    set_(state, Budget("a", "month", Decimal(10_000), "USD"))
    assert [] == alerts(world.store, state, us(10 * DAY))


@computed_once
def changing() -> tuple[World, State]:
    """Four GPUs from 12 October to 10 November: on 1 November, team a stops, b goes from one to two, and c keeps its one.

    From 25 to 30 October no source reports anything.
    """
    spans, rows = ((-21 * DAY, -8 * DAY), (-2 * DAY, 9 * DAY)), list[Any]()
    rows += [samples(Gpu(f"GPU-{n}", "n1", n), minutes(*span, 7200), BUSY) for n in range(4) for span in spans]
    held = {"a": ((2, *spans[0]), (2, -2 * DAY, -DAY)), "b": ((1, *spans[0]), (1, -2 * DAY, -DAY), (2, -DAY, 9 * DAY))}
    for team, runs in (held | {"c": tuple((1, *span) for span in spans)}).items():
        rows += [claim(f"{team}{n}", *run[1:], count=run[0], account=f"acct-{team}") for n, run in enumerate(runs)]
    world = World().add(*rows).book()
    return world, priced(world, Rate(H100, "owned", Decimal(1), us(-60 * DAY)))


def test_a_team_that_stopped_is_not_warned_and_one_that_doubled_is_with_the_day() -> None:
    world, state = changing()
    budgets = [("a", 100), ("b", 1000)]  # b: 24 a day is 720 a month, 48 is 1440
    set_(state, *(Budget(team, "month", Decimal(money), "USD") for team, money in budgets))
    (found,) = alerts(world.store, state, us(9 * DAY))
    assert "budget:b:2026-11:forecast" == found.key
    assert "Since 2026-11-01 an average day costs 48.00 USD, before that 24.00 USD." in found.summary
    assert {"since": "2026-11-01", "before": "24.00", "after": "48.00"} == found.evidence["level_change"]


def test_days_without_any_data_do_not_lower_the_forecast() -> None:
    world, state = changing()
    set_(state, Budget("*", "month", Decimal(9999), "USD"))
    (status,) = statuses(world.store, state, us(9 * DAY))
    assert status.forecast is not None
    assert status.forecast.change is None
    assert abs(status.forecast.amount - 2880) < 10


def test_a_budget_in_another_currency_is_no_alert_and_says_what_is_missing() -> None:
    world, state = spending(currency="EUR")
    set_(state, Budget("a", "month", Decimal(1), "USD"))
    assert [] == alerts(world.store, state, us(10 * DAY))
    (status,) = statuses(world.store, state, us(10 * DAY))
    assert status.spent is None
    assert "charges are in EUR, this budget is in USD: write the budget in EUR, or report in USD" in str(status.missing)


@pytest.mark.parametrize(
    ("reported", "cause"),
    [
        pytest.param("GBP", "the reporting currency is GBP, this budget is in USD", id="the budget has another one"),
        pytest.param(
            "USD", "charges in EUR of 2026-11 have no exchange rate to USD", id="no exchange rate leads there"
        ),
    ],
)
def test_a_reporting_currency_that_is_set_is_not_asked_for_again(reported: str, cause: str) -> None:
    world, state = spending(currency="EUR")
    fx.replace(state, fx.Fx(currency=reported), "test", "test", 0)
    price_all(world.store, state)
    set_(state, Budget("a", "month", Decimal(1), "USD"))
    (status,) = statuses(world.store, state, us(10 * DAY))
    assert (None, True) == (status.spent, str(status.missing).startswith(cause))
    assert "set the reporting currency" not in str(status.missing)


def test_a_budget_that_is_passed_ran_out_on_the_day_on_which_it_was() -> None:
    world, state = spending()
    set_(state, Budget("a", "month", Decimal(100), "USD"))
    (status,) = statuses(world.store, state, us(10 * DAY))
    # 24 a day from the 2nd on: 96 by the end of the 5th, 120 by the end of the 6th.
    assert "2026-11-06" == status.as_dict()["runs_out"]
    assert "-20.00" == status.as_dict()["burn_down"][4]["left"]


def test_a_budget_of_a_team_that_nobody_names_says_so_and_names_no_other() -> None:
    world, state = spending()
    set_(state, Budget("a", "month", Decimal(9999), "USD"), Budget("aa", "month", Decimal(1), "USD"))
    by_name = {status.budget.team: status.missing for status in statuses(world.store, state, us(10 * DAY))}
    assert by_name["a"] is None
    assert str(by_name["aa"]).startswith("no run or rule names team 'aa': correct the budget")
    assert "known" not in str(by_name["aa"])


def test_spent_is_the_chargeback_and_the_days_add_up_to_it() -> None:
    world, state = spending()
    set_(state, Budget("a", "month", Decimal(480), "USD", Decimal(500)))
    (status,) = statuses(world.store, state, us(10 * DAY))
    assert ("2026-11", Decimal("240.00"), Decimal(240)) == (status.name, status.spent, status.gpu_hours)
    assert Decimal("240.00") == sum(paid for _, paid in status.days)
    result = status.as_dict()
    assert ("0.5", "0.48") == (str(result["spent_ratio"]), str(result["gpu_hours_ratio"]))
    assert ["2026-11-02", "24.00", "456.00"] == [result["burn_down"][1 - 1][name] for name in ("day", "cost", "left")]
    assert status.forecast is not None
    # 240 spent, and 19 days of 24 from the 12th to the end of November.
    assert Decimal("696.00") == status.forecast.amount
    assert "2026-11-22" == result["runs_out"]


def test_one_alert_a_team_and_period_grows_with_what_is_spent() -> None:
    world, state = spending()
    set_(state, Budget("a", "month", Decimal(280), "USD"), Budget("*", "month", Decimal(200), "USD"))
    found = {finding.subject["id"]: finding for finding in alerts(world.store, state, us(10 * DAY))}
    assert ("budget:a:2026-11:80", "medium") == (found["a"].key, found["a"].severity)
    assert found["a"].summary.startswith("Team a has spent 240.00 of its 280 USD for 2026-11, 85 %")
    assert ("budget:*:2026-11:100", "high") == (found["*"].key, found["*"].severity)


def test_a_budget_that_will_not_last_is_reported_before_it_is_spent() -> None:
    world, state = spending()
    set_(state, Budget("a", "month", Decimal(600), "USD"))
    (finding,) = alerts(world.store, state, us(10 * DAY))
    assert "Budget for 2026-11 will not last: 40 % spent" == finding.title
    assert "is expected to spend 696.00 by the end of the period" in finding.summary


def test_a_team_sees_its_own_budget_only() -> None:
    world, state = spending()
    set_(state, Budget("a", "week", Decimal(1), "USD"), Budget("b", "week", Decimal(1), "USD"))
    assert ["b"] == [status.budget.team for status in statuses(world.store, state, us(DAY), ["b"])]


def test_a_team_that_sees_its_own_rows_only_has_the_cents_of_its_own_chargeback() -> None:
    """Two teams pay 33.5 cents each: together 67, so that one of them has 33. What the other pays is nothing to who sees one."""
    rows = [samples(Gpu(f"GPU-{team}", "n1", n), minutes(0, HOUR), BUSY) for n, team in enumerate("ab")]
    claims = [claim(team, 0, HOUR, gpus=f"GPU-{team}", account=f"acct-{team}") for team in "ab"]
    world = World().add(*rows, *claims).book()
    state = priced(world, Rate(H100, "owned", Decimal("0.335"), us(-DAY)))
    set_(state, *(Budget(team, "week", Decimal(1), "USD") for team in "ab"))

    def spent(*among: str) -> list[Decimal | None]:
        return [one.spent for one in statuses(world.store, state, us(HOUR), among or None, among=among or None)]

    assert [Decimal("0.34"), Decimal("0.33")] == spent()
    assert ([Decimal("0.34")], [Decimal("0.34")]) == (spent("a"), spent("b"))


def test_the_report_names_the_month_before_the_week() -> None:
    world, state = spending()
    assert for_report(world.store, state, Window(us(0), us(7 * DAY)), "a") is None
    set_(state, Budget("a", "week", Decimal(5), "USD"), Budget("a", "month", Decimal(9), "USD"))
    found = for_report(world.store, state, Window(us(0), us(7 * DAY)), "a")
    assert found is not None
    assert ("2026-11", Decimal(9), Decimal("168.00")) == (found.name, found.budget.amount, found.spent)


def test_the_month_of_the_fleet_needs_no_budget() -> None:
    world, state = spending()
    found = month_of_fleet(world.store, state, Window(us(0), us(7 * DAY)), "USD")
    assert "2026-11" == found.name
    assert found.forecast is not None and found.spent is not None and found.forecast.amount > found.spent


def test_periods_are_iso_weeks_and_months() -> None:
    assert ("2026-W45", "2026-11") == (period_name("week", us(0)), period_name("month", us(0)))


def test_two_budgets_at_once_are_refused_and_nothing_is_set() -> None:
    state = State.open("sqlite://")
    first = Budget("a", "month", Decimal(1), "USD", valid_from_us=us(0))
    set_(state, first)
    with pytest.raises(UsageError, match="two of team 'a' a month are valid at once"):
        set_(state, first, Budget("a", "month", Decimal(2), "USD", valid_from_us=us(DAY)))
    assert (first,) == load_budgets(state)


def test_a_file_is_taken_whole_or_not_and_every_bad_row_is_named() -> None:
    text = (
        "team,period,amount,currency,alert_at\na,month,100,USD,50 90\nb,year,1,USD,\nc,week,-1,USD,\n__x,week,1,USD,\n"
    )
    with pytest.raises(RowsRefused) as refused:
        whole(parse_budgets, text, "budgets.csv")
    for word in ("month, week", "above 0", "name a team"):
        assert word in str(refused.value)
    rejects = Rejects()
    (kept,) = parse_budgets(text, "budgets.csv", rejects)
    assert ((50, 90), 3) == (kept.alert_at, rejects.total)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("amount", text) for text in ("NaN", "Infinity", "1e30", "-0", "0", "1,000", "9" * 40, "١٠")),
        *(("alert_at", text) for text in ("80%", "80,100", ";;", "0", "-5", "1.5", "1001", "1 2 3 4 5 6 7 8 9 10 11")),
        *(("currency", text) for text in ("usd", "USDT", "ÀÀÀ")),
        *(("team", text) for text in ("__platform__", " ", "x" * 201)),
        *(("gpu_hours", text) for text in ("0", "-1", "many")),
        ("valid_to", "1969-01-01"),
    ],
)
def test_a_hostile_value_is_refused(name: str, text: str) -> None:
    row = {"team": "a", "period": "month", "amount": "100", "currency": "USD"}
    assert Decimal(100) == budget_of(row, 1).amount
    with pytest.raises((UsageError, ValueError)):
        budget_of(row | {name: text}, 1)


def test_time_without_a_price_is_no_money_that_was_not_spent() -> None:
    """Unknown is not zero: nobody knows what was spent, and the status says what is missing."""
    world, state = spending()
    replace_rates(state, [], "test", "test", 1)
    price_all(world.store, state)
    set_(state, Budget("a", "month", Decimal(1), "USD"))
    (status,) = statuses(world.store, state, us(10 * DAY))
    assert (None, "240.0 GPU-hours have no price: gpuwatch doctor names the rates") == (status.spent, status.missing)


def test_every_percent_that_is_named_is_reported() -> None:
    world, state = spending()
    set_(state, Budget("a", "month", Decimal(240), "USD", alert_at=(10, 20, 50, 100, 120)))
    listed = [alerts(world.store, state, us(day * DAY))[0].key.rpartition(":")[2] for day in (1, 2, 4, 5, 8, 10)]
    assert ["10", "20", "20", "50", "50", "100"] == listed


def test_a_budget_that_was_passed_in_its_last_hours_is_reported_behind_its_end() -> None:
    """The last hours of November are booked in December; a day later they are nobody's alert any more."""
    world, state = spending(first=19)
    set_(state, Budget("a", "month", Decimal(239), "USD", valid_to_us=us(29 * DAY)))
    ends = 29 * DAY
    keys = [[one.key for one in alerts(world.store, state, us(ends + after))] for after in (-DAY, HOUR, DAY)]

    assert [["budget:a:2026-11:80"], ["budget:a:2026-11:100"], []] == keys


def test_a_quota_of_gpu_hours_is_reported_too() -> None:
    """Also where the money lasts, or nobody knows what was spent."""
    world, state = spending()
    set_(state, Budget("a", "month", Decimal(10_000), "EUR", Decimal(250)))
    (entry,) = alerts(world.store, state, us(10 * DAY))

    assert ("budget:a:2026-11:hours:80", "Quota for 2026-11 nearly used: 96 %") == (entry.key, entry.title)
    assert "Team a has used 240.0 of its 250.0 GPU-hours for 2026-11, 96 %." == entry.summary


def test_a_message_says_the_numbers_and_no_unknown_cost() -> None:
    world, state = spending()
    set_(state, Budget("a", "month", Decimal(280), "USD"), Budget("*", "month", Decimal(200), "USD"))
    fleet, team = (
        slack.payload("opened", finding.as_dict(), "http://gw") for finding in alerts(world.store, state, us(10 * DAY))
    )
    text = json.dumps([fleet, team])
    assert "unknown" not in text
    assert "http://gw/ui/budgets" in text and "/ui/findings/" not in text
    assert "Medium · Budget for 2026-11 nearly spent: 85 %: team a" == team["text"]
    assert "High · Budget for 2026-11 exceeded: 120 % spent: the fleet · platform" == fleet["text"]
    assert "Team a has spent 240.00 of its 280 USD for 2026-11, 85 %" in text


def test_the_burn_down_is_what_a_policy_charges() -> None:
    """Team a pays the platform's idle time too: the days add up to what is spent."""
    at = minutes(0, 3 * DAY, 600)
    gpus = [Gpu("GPU-1", "n1"), Gpu("GPU-2", "n2")]
    held = claim("1", 0, 3 * DAY, "n1", gpus="GPU-1", account="acct-a")
    world = World().add(*(samples(gpu, at, BUSY) for gpu in gpus), held).book()
    state = priced(world, Rate(H100, "owned", Decimal(1), us(-DAY)))
    rules = {"name": "p", "valid_from": "2026-11-02", "payers": {"idle": "proportional"}}
    VersionedLists(state).replace(
        "policies", [as_dict(item) for item in parse({"policies": [rules]})], "test", "test", 0
    )
    set_(state, Budget("a", "month", Decimal(1000), "USD"))
    for hours in (36, 60, 72):
        (status,) = statuses(world.store, state, us(hours * HOUR))
        whole = hours // 24
        assert [Decimal("48.00")] * whole == [paid for _, paid in status.days]
        assert Decimal(2 * hours) == status.spent


def test_the_report_of_a_closed_month_has_what_was_frozen() -> None:
    world, state = spending()
    set_(state, Budget("a", "month", Decimal(900), "USD"))
    periods_close.close(world.store, state, "2026-11", "ada", us(40 * DAY), force=True)
    replace_rates(state, [Rate(H100, "owned", Decimal(9), us(-DAY))], "test", "test", 1)
    price_all(world.store, state)
    found = for_report(world.store, state, Window(us(22 * DAY), us(29 * DAY)), "a")
    assert found is not None
    assert ("2026-11", Decimal("240.00")) == (found.name, found.spent)


def test_a_budget_that_fails_holds_no_finding_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also of a row that nobody can read any more."""
    world, _ = spending(1)
    with State.open(tmp_path) as state:
        hook = {"name": "hook", "kind": "webhook", "url": "https://example.com/x"}
        Channels(state).replace([hook], "test", 0)
        VersionedLists(state).replace("budgets", [{"team": "a", "period": "year", "line": 1}], "test", "test", 0)
        monkeypatch.setattr(findings_read, "read", lambda *_, **__: [finding()])
        alerting = Alerting(state, AlertConfig([], []), lambda: us(DAY), lambda: "", Settings(), lambda *_: None)
        alerting.after_pass(world.store)
        assert {"hook"} == Outbox(state).waiting()
