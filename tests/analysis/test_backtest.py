"""Back-tests: the findings a rule would have had, against today's; the same money as findings; nothing is stored."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.analysis.backtest import Backtest, as_dict, backtest
from gpuwatch.analysis.backtest_request import asked_thresholds, pairs
from gpuwatch.billing.chargeback import price_all
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.findings.read import read
from gpuwatch.findings.repository import Action, Actions
from gpuwatch.findings.threshold_overrides import put
from gpuwatch.findings.threshold_overrides import read as read_card
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.rules.rule import rules
from tests.worlds.detectors import IDLE, WORK, World, us

RULE = rules()["idle-hoarding"]
WINDOW = Window(us(0), us(300))
TABLES = ("finding", "verdict", "verdict_claim", "granted_claim", "finding_amount", "rule_state")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Three jobs of two teams that were idle for 20, 40 and 90 minutes."""
    made = World(tmp_path_factory.mktemp("world"))
    for job, idle, account in (("20", 20, "x"), ("40", 40, "x"), ("90", 90, "y")):
        made.gpu(f"g{job}", (30, WORK), (idle, IDLE), (60, WORK))
        made.job(job, [f"g{job}"], 0, 90 + idle)
        made.store.sql("update claim set account = $a where job_id = $j", a=account, j=job)
    replace_team_rules(made.state, [TeamRule("account", "x", "ax"), TeamRule("account", "y", "by")], "t", "t", 0)
    replace_rates(made.state, [Rate("H100", "owned", Decimal("2.00"), us(0))], "t", "t", 0)
    made.analyze(200, detectors=("idle-hoarding",))
    price_all(made.store, made.state)
    return made


def tried(world: World, **options: Any) -> Backtest:
    return backtest(world.store, world.state, world.settings, RULE, options.pop("window", WINDOW), us(300), **options)


def changes(found: Backtest) -> dict[str, str]:
    return {str(one.subject["id"]): one.change for one in found.flagged}


def test_todays_rule_repeats_its_findings(world: World) -> None:
    """The same findings, GPU-hours and money as are stored: one code grants and prices both."""
    found = {one.key: (one.gpu_hours, one.cost) for one in tried(world).flagged}
    stored = {
        one.key: (Fraction(one.wasted_gpu_seconds) / 3600, Fraction(one.wasted_cost or 0))
        for one in read(world.store, detectors=["idle-hoarding"])
    }

    assert {key: hours for key, (hours, _) in stored.items()} == {key: hours for key, (hours, _) in found.items()}
    assert {key: cost for key, (_, cost) in stored.items()} == {
        key: None if cost is None else Fraction(round(cost, 2)) for key, (_, cost) in found.items()
    }


def test_a_higher_threshold_drops_the_shortest(world: World) -> None:
    found = tried(world, thresholds={"idle_us_min": 30 * MINUTE_US})

    assert {"90": "same", "40": "same", "20": "gone"} == changes(found)
    assert {"new": 0, "gone": 1, "same": 2} == as_dict(found)["changes"]


def test_a_lower_one_adds_to_it(world: World) -> None:
    """Against a card that says an hour: two are new."""
    put(world.state, read_card('preset = "princeton"', "card", rules(), None), "card", "ada", 1)
    try:
        found = tried(world, preset="default")
        assert {"90": "same", "40": "new", "20": "new"} == changes(found)
        assert (60 * MINUTE_US, 15 * MINUTE_US) == (
            (found.today or {})["idle_us_min"],
            (found.thresholds or {})["idle_us_min"],
        )
    finally:
        put(world.state, [], "card", "ada", 2)


def test_nothing_is_stored(world: World) -> None:
    before = {name: world.rows(name) for name in TABLES}
    tried(world, preset="meta-rsc")

    assert before == {name: world.rows(name) for name in TABLES}


def test_teams_see_their_own(world: World) -> None:
    item = as_dict(tried(world, teams=["by"], preset="default"))

    assert (["90"], ["by"]) == ([i["subject"]["id"] for i in item["items"]], [t["team"] for t in item["teams"]])
    assert [] == as_dict(tried(world, teams=[], preset="default"))["items"]


def test_sums_are_those_of_the_items(world: World) -> None:
    """20, 40 and 90 idle minutes less one each, at 2 dollars."""
    item = as_dict(tried(world))

    assert {
        "findings": 3,
        "gpu_hours": "2.450000",
        "cost": [{"amount": "4.90", "currency": "USD"}],
        "unpriced": 0,
    } == item["total"]
    assert [("by", "1.483333"), ("ax", "0.966667")] == [(t["team"], t["gpu_hours"]) for t in item["teams"]]


def test_feedback_of_owners_is_counted(world: World) -> None:
    """Twenty minutes were no waste, ninety were: the higher threshold is the better one."""
    keys = {str(one.subject["id"]): one.key for one in tried(world).flagged}
    actions = Actions(world.state)
    for job, verdict in (("20", "true_positive"), ("20", "false_positive"), ("90", "true_positive")):
        actions.act(Action(keys[job], "ack", None, "looked", "ada", us(210), verdict))
    actions.act(Action(keys["90"], "reopen", None, "again", "ada", us(220)))
    item = as_dict(tried(world, thresholds={"idle_us_min": 30 * MINUTE_US}))

    words = ("true_positives", "false_positives", "unsaid", "precision", "precision_low", "precision_high")
    assert (1, 0, 1, 1.0, 0.2065, 1.0) == tuple(item["feedback"][word] for word in words)
    assert (1, 1, 1, 0.5, 0.0945, 0.9055) == tuple(item["today_feedback"][word] for word in words)
    assert 0.5 == actions.feedback()["idle-hoarding"].precision


@pytest.mark.parametrize(
    ("action", "verdict"),
    [
        pytest.param("snooze", "true_positive", id="with a snooze"),
        pytest.param("ack", "maybe", id="a word that is none"),
    ],
)
def test_a_verdict_that_cannot_be_is_refused(world: World, action: str, verdict: str) -> None:
    with pytest.raises(UsageError, match="verdict"):
        Actions(world.state).act(Action("idle-hoarding-0", action, us(400), "x", "ada", us(300), verdict))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"window": Window(us(0), us(0) + 32 * DAY_US)}, "31 at most", id="a window without end"),
        pytest.param({"cluster": "c9"}, "known: c1", id="an unknown cluster"),
    ],
)
def test_what_cannot_be_tried_is_refused(world: World, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tried(world, **options)


def test_a_window_is_rounded_out_to_hours(world: World) -> None:
    found = tried(world, window=Window(us(31), us(91)))

    assert (us(0), us(120)) == (found.window.start_us, found.window.end_us)
    assert 0 == found.window.start_us % HOUR_US


@pytest.mark.parametrize(
    ("preset", "given", "words"),
    [
        pytest.param("princton", {}, "known: default", id="an unknown preset"),
        pytest.param(None, {"idle_us": 3}, "did you mean idle_us_min", id="an unknown threshold"),
        pytest.param(None, {"idle_us_min": "20q"}, "write one such as", id="no time"),
        pytest.param(None, {"idle_us_min": float("nan")}, "no time", id="not a number"),
        pytest.param(None, {"idle_us_min": True}, "no time", id="a truth"),
    ],
)
def test_what_is_asked_is_checked(preset: str | None, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        asked_thresholds(RULE, preset, given)


def test_words_of_the_command_line() -> None:
    assert {"a": 3, "b": 0.5, "c": "20m"} == pairs(["a=3", "b=0.5", "c = 20m"])
    assert ("meta-rsc", {"idle_us_min": 20 * MINUTE_US}) == asked_thresholds(
        RULE, "meta-rsc", pairs(["idle_us_min=20m"])
    )
    with pytest.raises(UsageError, match="NAME=VALUE"):
        pairs(["idle_us_min"])
