"""Who hears what, when, and with what: severities, rules, fallback, groups, throttle and quiet hours, end to end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.alerts.changes import enqueue
from gpuwatch.alerts.channel import Channel
from gpuwatch.alerts.outbox.deliver import shared
from gpuwatch.alerts.outbox.digest import choose, fold, read
from gpuwatch.alerts.outbox.repository import Outbox
from gpuwatch.alerts.repository import Channels
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.findings.read import Finding
from gpuwatch.state import State
from tests.worlds.alerts import T0_US, add_channel, finding

pytestmark = pytest.mark.both_engines

Heard = list[tuple[str, ...]]
FRESH = count()
NIGHT_US = T0_US + 23 * HOUR_US
MORNING_US = T0_US + 31 * HOUR_US


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State.open(tmp_path) as opened:
        yield opened


def hear(state: State, now_us: int, name: str = "ops") -> list[Heard]:
    """Messages that go out now, each as the (finding, event) of its alerts."""
    channel = Channels(state).get(name)
    passing = None if channel.timing.quiet_until_us(now_us) is None else channel.timing.passing
    messages = []
    for _ in range(50):
        batch = Outbox(state).claim(name, now_us, HOUR_US, 1000, passing, partial(choose, channel))
        if batch is None:
            return messages
        messages.append([(alert.finding["key"], alert.event) for alert in fold([read(row) for row in batch.rows])])
        Outbox(state).sent(batch, now_us)
    raise AssertionError("it never ends")


def tell(state: State, now_us: int, *found: Finding) -> None:
    """A pass of the analysis that finds these."""
    enqueue(state, found, now_us)


@pytest.mark.parametrize(
    ("item", "about", "expected"),
    [
        pytest.param({"severity_max": "medium"}, {}, False, id="too grave for this channel"),
        pytest.param({"rules": ["blind-spot"]}, {}, False, id="another rule"),
        pytest.param({"clusters": ["c2"]}, {}, False, id="another cluster"),
        pytest.param({"teams": ["red"], "severity_min": "critical"}, {}, False, id="the team, below its severity"),
        pytest.param({"rules": ["idle-hoarding"], "clusters": ["c1"]}, {}, True, id="the rule and the cluster"),
        pytest.param({"teams": ["__platform__"]}, {"team": "__platform__"}, True, id="the platform's own"),
    ],
)
def test_a_channel_hears_what_fits_it(
    state: State, item: dict[str, Any], about: dict[str, Any], expected: bool
) -> None:
    add_channel(state, **item)
    tell(state, T0_US, finding(**about))

    assert ([[("f1", "opened")]] if expected else []) == hear(state, T0_US)


def test_a_finding_that_grows_out_of_a_channel_goes_to_the_next_and_ends_in_both(state: State) -> None:
    add_channel(state, severity_max="high")
    add_channel(state, name="pager", severity_min="critical")
    tell(state, T0_US, finding(severity="high"))
    tell(state, T0_US + 1, finding(severity="critical"))
    tell(state, T0_US + 2, finding(state="resolved", severity="critical"))

    assert [[("f1", "resolved")]] == hear(state, T0_US + 3, "pager")
    assert [[("f1", "resolved")]] == hear(state, T0_US + 3)


def test_what_waits_for_a_team_is_not_sent_when_it_is_anothers_and_sent_when_it_is_theirs_again(state: State) -> None:
    add_channel(state, name="red", teams=["red"], digest="hourly")
    add_channel(state, name="blue", teams=["blue"])
    for place, team in enumerate(("red", "blue", "blue")):
        tell(state, T0_US + place, finding("a", team=team))
    assert [[("a", "opened")]] == hear(state, T0_US + 3, "blue")
    assert [] == hear(state, T0_US + HOUR_US, "red")
    tell(state, T0_US + HOUR_US, finding("a", team="red"))

    assert [[("a", "opened")]] == hear(state, T0_US + 2 * HOUR_US, "red")


def test_a_fallback_hears_what_nobody_else_does(state: State) -> None:
    add_channel(state, teams=["red"])
    add_channel(state, name="off", enabled=False)
    add_channel(state, name="rest", fallback=True)
    tell(state, T0_US, finding("a"), finding("b", team="blue"), finding("c", severity="low", team="blue"))

    assert [[("a", "opened")]] == hear(state, T0_US)
    assert [[("b", "opened")]] == hear(state, T0_US, "rest")


def test_a_fallback_gets_the_end_of_what_it_was_sent(state: State) -> None:
    """Although somebody else was told of it later."""
    add_channel(state, severity_min="critical")
    add_channel(state, name="rest", fallback=True)
    tell(state, T0_US, finding())
    assert [[("f1", "opened")]] == hear(state, T0_US, "rest")
    tell(state, T0_US + 1, finding(severity="critical"))
    assert [] == hear(state, T0_US + 1, "rest")
    tell(state, T0_US + 2, finding(severity="critical", state="resolved"))

    assert [[("f1", "resolved")]] == hear(state, T0_US + 2, "rest")


def mixed() -> Sequence[Finding]:
    """Two teams, two rules."""
    return [
        finding("a"),
        finding("b", team="blue"),
        finding("c", detector="blind-spot", title="Not measured"),
        finding("d", user="bob"),
    ]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        pytest.param([], ["a", "b", "c", "d"], id="each alone"),
        pytest.param(["team"], ["acd", "b"], id="one message a team"),
        pytest.param(["rule"], ["abd", "c"], id="one message a rule"),
        pytest.param(["team", "rule"], ["ad", "b", "c"], id="one message a team and rule"),
        pytest.param(["team", "user", "rule"], ["a", "b", "c", "d"], id="one message an owner and rule"),
    ],
)
def test_findings_are_grouped(state: State, by: list[str], expected: list[str]) -> None:
    add_channel(state, group_by=by)
    tell(state, T0_US, *mixed())

    assert expected == ["".join(key for key, _ in message) for message in hear(state, T0_US)]


def test_more_than_ten_groups_are_one_message(state: State) -> None:
    add_channel(state, group_by=["team"])
    tell(state, T0_US, *(finding(f"f{i}", team=f"t{i}") for i in range(11)))

    assert [11] == [len(message) for message in hear(state, T0_US)]


def test_what_a_group_has_in_common_is_shown_once() -> None:
    by_both = Channel("ops", "slack", "", group_by=("team", "rule"))
    alerts = [read_alert(one) for one in mixed()]

    assert ["team", "rule"] == shared(by_both, [alerts[0], alerts[3]])
    assert [] == shared(by_both, alerts)


def read_alert(found: Finding) -> Any:
    """An alert of a finding."""
    from gpuwatch.alerts.record import Alert

    return Alert("opened", "k", "", found.as_dict())


def test_an_owner_hears_of_a_rule_once_in_a_while(state: State) -> None:
    add_channel(state, throttle_minutes=60)
    tell(state, T0_US, finding("a"), finding("b"))
    assert [[("a", "opened"), ("b", "opened")]] == hear(state, T0_US)
    world = [finding("a"), finding("b"), finding("c"), finding("d", user="bob")]
    tell(state, T0_US + 10 * MINUTE_US, *world)
    assert [[("d", "opened")]] == hear(state, T0_US + 10 * MINUTE_US)
    world += [finding("e")]
    tell(state, T0_US + 50 * MINUTE_US, *world)
    assert [] == hear(state, T0_US + 59 * MINUTE_US)

    assert [[("c", "opened"), ("e", "opened")]] == hear(state, T0_US + 60 * MINUTE_US)


def test_what_is_on_its_way_counts_as_sent(state: State) -> None:
    add_channel(state, throttle_minutes=60)
    tell(state, T0_US, finding("a"))
    on_its_way = Outbox(state).claim("ops", T0_US, HOUR_US, 1000, None, partial(choose, Channels(state).get("ops")))
    assert on_its_way is not None
    tell(state, T0_US + 1, finding("a"), finding("b"))
    Outbox(state).sent(on_its_way, T0_US + 2)
    assert [] == hear(state, T0_US + 3)

    assert [[("b", "opened")]] == hear(state, T0_US + 1 + HOUR_US)


def test_what_ends_while_it_is_throttled_is_one_message(state: State) -> None:
    """Its end does not overtake its beginning."""
    add_channel(state, throttle_minutes=60)
    tell(state, T0_US, finding("a"))
    hear(state, T0_US)
    tell(state, T0_US + 1, finding("a"), finding("b"))
    tell(state, T0_US + 2, finding("a"), finding("b", state="resolved"))
    assert [] == hear(state, T0_US + HOUR_US - 1)

    assert [[("b", "resolved")]] == hear(state, T0_US + HOUR_US)


def test_the_end_of_what_was_sent_is_not_throttled(state: State) -> None:
    add_channel(state, throttle_minutes=60)
    tell(state, T0_US, finding("a"))
    hear(state, T0_US)
    tell(state, T0_US + 1, finding("a", state="resolved"))

    assert [[("a", "resolved")]] == hear(state, T0_US + 1)


def test_what_is_urgent_is_not_throttled_and_takes_along_what_waits_about_it(state: State) -> None:
    add_channel(state, throttle_minutes=60)
    tell(state, T0_US, finding("a"))
    hear(state, T0_US)
    tell(state, T0_US + 1, finding("a"), finding("b"))
    tell(state, T0_US + 2, finding("a"), finding("b", severity="critical"))

    assert [[("b", "opened")]] == hear(state, T0_US + 2)


def test_quiet_hours_hold_what_is_not_urgent(state: State) -> None:
    add_channel(state, quiet_hours="22:00-07:00")
    tell(state, NIGHT_US, finding("a"), finding("b", severity="critical"))
    assert [[("b", "opened")]] == hear(state, NIGHT_US)
    tell(state, NIGHT_US + 1, finding("a", state="resolved"), finding("b", severity="critical"), finding("c"))
    assert [] == hear(state, MORNING_US - 1)

    assert [[("a", "resolved")], [("c", "opened")]] == hear(state, MORNING_US)


def test_what_worsens_at_night_wakes_somebody_once(state: State) -> None:
    add_channel(state, quiet_hours="22:00-07:00")
    tell(state, NIGHT_US, finding("a"))
    tell(state, NIGHT_US + 1, finding("a", severity="critical"))

    assert [[("a", "opened")]] == hear(state, NIGHT_US + 1)
    assert [] == hear(state, MORNING_US)


def test_nothing_passes_where_nothing_is_urgent(state: State) -> None:
    add_channel(state, quiet_hours="22:00-07:00", urgent="none")
    tell(state, NIGHT_US, finding("a", severity="critical"))

    assert [] == hear(state, MORNING_US - 1)
    assert [[("a", "opened")]] == hear(state, MORNING_US)


def test_a_retry_keeps_the_quiet_too(state: State) -> None:
    """It was to go out by day; Slack is back at night."""
    add_channel(state, quiet_hours="22:00-07:00")
    evening_us = NIGHT_US - 2 * HOUR_US
    tell(state, evening_us, finding("a"))
    channel = Channels(state).get("ops")
    batch = Outbox(state).claim("ops", evening_us, HOUR_US, 1000, None, partial(choose, channel))
    assert batch is not None
    Outbox(state).failed(batch, "it answers 500", NIGHT_US, evening_us)

    assert [] == hear(state, NIGHT_US)
    assert [[("a", "opened")]] == hear(state, MORNING_US)


def test_a_long_holiday_gives_nothing_up(state: State) -> None:
    """Four quiet days are no four days of failures."""
    add_channel(state, holidays=["11-02", "11-03", "11-04", "11-05"])
    tell(state, T0_US, finding("a"))
    over_us = T0_US + 4 * DAY_US
    assert [] == hear(state, over_us - 1)
    channel = Channels(state).get("ops")
    batch = Outbox(state).claim("ops", over_us, HOUR_US, 1000, None, partial(choose, channel))
    assert batch is not None
    Outbox(state).failed(batch, "it answers 500", over_us + 1, over_us)

    assert (1, 0) == (Outbox(state).status()["ops"].pending, Outbox(state).status()["ops"].dead)


def test_who_changes_the_times_gets_at_once_what_waited(state: State) -> None:
    add_channel(state, quiet_hours="22:00-07:00")
    tell(state, NIGHT_US, finding("a"))
    with_no_quiet_us = NIGHT_US + MINUTE_US
    Channels(state).put({"name": "ops"}, "ann", with_no_quiet_us)

    assert [[("a", "opened")]] == hear(state, with_no_quiet_us)


SHAPES = {
    "open": partial(finding, severity="medium"),
    "worse": partial(finding, severity="high"),
    "grave": partial(finding, severity="critical"),
    "acked": partial(finding, severity="high", state="acked"),
    "over": partial(finding, severity="high", state="resolved"),
}
STEPS = st.lists(
    st.tuples(st.integers(1, 300), st.lists(st.sampled_from(sorted(SHAPES)), min_size=4, max_size=4)), max_size=12
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    STEPS,
    st.fixed_dictionaries(
        {
            "digest": st.sampled_from(["off", "off", "hourly", "daily"]),
            "group_by": st.sampled_from([[], ["team"], ["team", "rule"]]),
            "throttle_minutes": st.sampled_from([0, 45, 600]),
            "quiet_hours": st.sampled_from([None, "22:00-07:00", "03:00-20:00"]),
            "urgent": st.sampled_from(["none", "high", "critical"]),
        }
    ),
)
def test_whatever_the_times_are_all_is_sent_once_and_no_end_before_its_beginning(
    tmp_path: Path, steps: list[tuple[int, list[str]]], item: dict[str, Any]
) -> None:
    heard: Heard = []
    now_us = T0_US
    with State.open(tmp_path / str(next(FRESH))) as state:
        add_channel(state, **item)
        for minutes, shapes in steps:
            now_us += minutes * MINUTE_US
            teams = ("red", "red", "blue", "blue")
            world = [SHAPES[word](key, team=team) for key, word, team in zip("abcd", shapes, teams, strict=True)]
            tell(state, now_us, *world)
            quiet = Channels(state).get("ops").timing.quiet_until_us(now_us) is not None
            for message in hear(state, now_us):
                heard += message
                assert not (quiet and item["urgent"] == "none")
        for _ in range(8):
            now_us += DAY_US // 4
            heard += [alert for message in hear(state, now_us) for alert in message]
        with state.transaction(write=False) as connection:
            rows = connection.execute(sa.text("select finding_key, state, sent_us from outbox order by id")).all()
            marks = dict(connection.execute(sa.text("select finding_key, state from alert_mark")).all())

    assert {"sent", "withdrawn"} >= {row.state for row in rows}
    for key, mark in marks.items():
        times = [row.sent_us for row in rows if row.finding_key == key and row.sent_us is not None]
        events = [event for about, event in heard if about == key]
        assert times == sorted(times)
        assert mark != "open" or events[-1] != "resolved"
        assert mark != "resolved" or not events or events[-1] == "resolved"


def test_rows_of_an_older_version_go_out_as_they_did(state: State) -> None:
    """They have no severity, rule and owner, and their channel has none of the newer fields."""
    add_channel(state)
    tell(state, T0_US, finding("a"), finding("b"))
    old = '{"severity_min": "medium", "teams": null, "events": ["opened"], "digest": "off", "enabled": true, "origin": "api"}'
    with state.transaction(write=True) as connection:
        nothing = "severity = null, rule = null, team = null, username = null, wanted_us = null"
        connection.execute(sa.text(f"update outbox set {nothing}"))
        connection.execute(sa.text("update channel set sealed = null, config = :old"), {"old": old})

    assert (("opened",), None, 5) == (
        (channel := Channels(state).get("ops")).events,
        channel.teams,
        channel.more.resolve_minutes,
    )
    assert [[("a", "opened")], [("b", "opened")]] == hear(state, T0_US)
