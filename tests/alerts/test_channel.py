"""Channels: what they may say, that their address stays secret, and that what people change is audited."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.alerts.channel import EVENTS, Channel, url_hint
from gpuwatch.alerts.channel_options import MORE
from gpuwatch.alerts.channel_parse import GROUPS, from_config
from gpuwatch.alerts.channels import slack
from gpuwatch.alerts.delivery.destination_guard import Guard
from gpuwatch.alerts.kind import ContinuousKind, channel_kind, channel_kinds, find_kind
from gpuwatch.alerts.outbox.deliver import listing
from gpuwatch.alerts.repository import Channels
from gpuwatch.alerts.templates import FIELDS
from gpuwatch.alerts.timing import DIGESTS, SEVERITIES, Timing
from gpuwatch.core.errors import UsageError
from gpuwatch.state import State
from tests.worlds.alerts import SLACK_URL, T0_US, finding

SECRET = "SecretSecretAbCd"
OPS: dict[str, Any] = {"name": "ops", "kind": "slack", "url": SLACK_URL}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State.open(tmp_path) as opened:
        yield opened


def test_no_channel_is_there_at_first(state: State) -> None:
    assert ((), []) == (Channels(state).list(), listing(state))


def test_a_channel_is_shown_without_its_address(state: State) -> None:
    Channels(state).put(OPS, "ann", T0_US)

    expected = {
        "name": "ops",
        "kind": "slack",
        "url_hint": "hooks.slack.com/…/AbCd",
        "severity_min": "medium",
        "severity_max": "critical",
        "teams": None,
        "rules": None,
        "clusters": None,
        "fallback": False,
        "events": ["opened", "worsened", "resolved"],
        "group_by": [],
        "enabled": True,
        "origin": "api",
        "digest": "off",
        "digest_at": "08:00",
        "quiet_hours": None,
        "quiet_days": [],
        "holidays": [],
        "timezone": "UTC",
        "urgent": "critical",
        "throttle_minutes": 0,
        "template_subject": None,
        "template_body": None,
        "labels": {},
        "resolve_minutes": 5,
        "signing_secret_set": False,
        "authorization_set": False,
        "status": {"last_sent_at": None, "last_error": None, "last_error_at": None, "pending": 0, "dead": 0},
    }
    assert [expected] == listing(state)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param(SLACK_URL, "hooks.slack.com/…/AbCd", id="four last characters of a long secret"),
        pytest.param("https://example.com/hook/abcd", "example.com/…", id="nothing of a short one"),
        pytest.param("https://example.com", "example.com/…", id="no path at all"),
        pytest.param("https://example.com?token=abcdefghijklmnop", "example.com/…", id="a token right after the host"),
        pytest.param(
            "https://example.com:8443/x?token=abcdefghijkl", "example.com:8443/…/ijkl", id="a token in the query"
        ),
    ],
)
def test_a_hint_tells_two_addresses_apart(url: str, expected: str) -> None:
    assert expected == url_hint(url)


def test_more_secrets_are_kept_and_never_shown(state: State) -> None:
    """One that is absent stays, an empty one goes; a login stays with its address."""
    channels = Channels(state)
    item = {"name": "hook", "kind": "webhook", "url": SLACK_URL}
    channels.put({**item, "signing_secret": SECRET * 2, "authorization": f"Bearer {SECRET}"}, "ann", T0_US)
    shown = listing(state)[0]
    channels.put(item, "ann", T0_US + 1)

    assert (True, True) == (shown["signing_secret_set"], shown["authorization_set"])
    assert SECRET not in json.dumps(shown) + repr(channels.get("hook")) + repr(state.audit())
    more = channels.get("hook").more
    assert (SECRET * 2, f"Bearer {SECRET}") == (more.signing_secret, more.authorization)
    with pytest.raises(UsageError, match="authorization must be given again") as raised:
        channels.put({**item, "url": "https://example.com/mine"}, "eve", T0_US + 2)
    assert SECRET not in str(raised.value)
    channels.put({**item, "signing_secret": "", "authorization": ""}, "ann", T0_US + 3)
    assert (None, None) == (channels.get("hook").more.signing_secret, channels.get("hook").more.authorization)


def test_every_kind_may_be_sent_back_as_it_is_shown(state: State) -> None:
    channels = Channels(state)
    channels.put({**OPS, "group_by": ["rule", "team"], "quiet_days": ["sun", "sat"], "holidays": ["12-25"]}, "a", T0_US)
    channels.put({"name": "am", "kind": "alertmanager", "url": "https://am.example", "labels": {"b": "1"}}, "a", T0_US)
    channels.put({"name": "hook", "kind": "webhook", "url": SLACK_URL, "authorization": "Bearer x"}, "a", T0_US)

    assert channels.replace(listing(state), "bob", T0_US + 1) is False


def test_the_secret_is_in_no_text(state: State) -> None:
    """Neither in what the object prints, nor in the audit log, nor in an answer."""
    channels = Channels(state)
    channels.put(OPS, "ann", T0_US)
    channels.put({**OPS, "url": SLACK_URL + "2"}, "ann", T0_US)
    channels.replace([], "ann", T0_US)
    texts = [repr(Channel("ops", "slack", SLACK_URL)), repr(state.audit()), json.dumps(listing(state))]

    assert [] == [text for text in texts if SECRET in text or SECRET[:8] in text]
    assert ["channel ops removed", "channel ops changed", "channel ops made"] == [row.what for row in state.audit()]
    assert json.loads(state.audit()[1].after or "")["url_changed"] is True


def test_what_the_api_shows_may_be_sent_back(state: State) -> None:
    """The address, which it does not show, stays."""
    channels = Channels(state)
    channels.put(OPS, "ann", T0_US)

    assert channels.replace(listing(state), "bob", T0_US + 1) is False
    assert channels.replace([{**listing(state)[0], "digest": "daily"}], "bob", T0_US + 1) is True
    assert (SLACK_URL, "daily") == (channels.get("ops").url, channels.get("ops").timing.digest)
    assert ["bob", "ann"] == [row.actor for row in state.audit()]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param({"name": "a b"}, "name must be", id="a space in the name"),
        pytest.param({"name": None}, "name must be", id="no name"),
        pytest.param({"kind": "pager"}, "kind must be one of alertmanager, email", id="unknown kind"),
        pytest.param({"kind": []}, "kind must be", id="a kind that is no word"),
        pytest.param({"severity_min": "bad"}, "severity_min must be", id="unknown severity"),
        pytest.param({"teams": []}, "teams must be", id="no team at all"),
        pytest.param({"teams": "red"}, "teams must be", id="teams that are no list"),
        pytest.param({"teams": [1]}, "teams must be", id="a team that is no text"),
        pytest.param({"events": ["closed"]}, "events must be", id="unknown event"),
        pytest.param({"events": [{}]}, "events must be", id="an event that is no text"),
        pytest.param({"events": []}, "events must be", id="no event"),
        pytest.param({"digest": "weekly"}, "digest must be", id="unknown digest"),
        pytest.param({"enabled": 1}, "enabled must be", id="a number for true"),
        pytest.param({"url": None}, "url must be", id="no address"),
        pytest.param({"url": "http://hooks.slack.com/services/" + SECRET}, "https://", id="plain http"),
        pytest.param({"url": "https://10.0.0.1/" + SECRET}, "not a public address", id="a private address"),
        pytest.param({"allow_private": ["10.0.0.1"]}, "allow_private is not known", id="nobody opens the guard here"),
        pytest.param({"sevrity": "low"}, "sevrity is not known", id="a misspelt field"),
        pytest.param({"severity_max": "low"}, "severity_max must not be below", id="a range that holds nothing"),
        pytest.param({"rules": []}, "rules must be", id="no rule at all"),
        pytest.param({"clusters": ["c1", 2]}, "clusters must be", id="a cluster that is no text"),
        pytest.param({"fallback": "yes"}, "fallback must be", id="a word for true"),
        pytest.param({"group_by": ["job"]}, "group_by must be", id="an unknown group"),
        pytest.param({"group_by": ["team", "team"]}, "group_by must be", id="a group twice"),
        pytest.param({"quiet_hours": "22-7"}, "quiet_hours must be", id="hours without minutes"),
        pytest.param({"quiet_hours": "07:00-07:00"}, "quiet_hours must be", id="quiet hours of no length"),
        pytest.param(
            {"quiet_days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}, "quiet_days must", id="always quiet"
        ),
        pytest.param({"holidays": ["2026-02-29"]}, "holidays must be", id="a date that is none"),
        pytest.param({"timezone": "Europe/Atlantis"}, "timezone must be", id="an unknown time zone"),
        pytest.param({"timezone": "../../etc/passwd"}, "timezone must be", id="a path for a time zone"),
        pytest.param({"urgent": "now"}, "urgent must be", id="an unknown urgency"),
        pytest.param({"digest_at": "24:00"}, "digest_at must be", id="a time that no day has"),
        pytest.param({"throttle_minutes": -1}, "throttle_minutes must be", id="a negative throttle"),
        pytest.param(
            {"template_subject": "$nam"}, r"template_subject has \$nam, which is not known", id="unknown field"
        ),
        pytest.param({"template_body": "costs 5$"}, "a \\$ at character 8", id="a lone dollar"),
        pytest.param({"template_body": "${key.__class__}"}, "a \\$ at character 1", id="code in a template"),
        pytest.param({"template_subject": "x" * 301}, "1 to 300 characters", id="a subject without end"),
        pytest.param({"labels": {"env": "prod"}}, "labels must be", id="labels for Slack"),
        pytest.param({"signing_secret": "x" * 20}, "signing_secret must be", id="a signature for Slack"),
        pytest.param({"authorization": "Bearer x"}, "authorization must be", id="a login for Slack"),
        pytest.param({"kind": "webhook", "signing_secret": "short"}, "signing_secret must be", id="a short secret"),
        pytest.param(
            {"kind": "webhook", "authorization": "a\r\nb"}, "authorization must be", id="a header in a header"
        ),
        pytest.param({"kind": "webhook", "signing_secret": "whsec_%%%%%%%%%%%%%"}, "signing_secret", id="no base64"),
        pytest.param(
            {"kind": "alertmanager", "digest": "daily"},
            "digest does not apply to kind alertmanager: Alertmanager handles it",
            id="Alertmanager's own",
        ),
        pytest.param({"kind": "alertmanager", "labels": {"team": "x"}}, "labels must be", id="a label that is taken"),
        pytest.param({"kind": "alertmanager", "labels": {"a-b": "x"}}, "labels must be", id="a label that is none"),
        pytest.param({"kind": "alertmanager", "resolve_minutes": 0}, "resolve_minutes must be", id="no time at all"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(state: State, item: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected) as raised:
        Channels(state).replace([{**OPS, **item}], "ann", T0_US)

    assert SECRET not in str(raised.value)
    assert () == Channels(state).list()


def test_all_wrong_items_are_named_at_once(state: State) -> None:
    items = [{**OPS, "name": "a", "digest": "x"}, {**OPS, "name": "b"}, {**OPS, "name": "b"}]
    with pytest.raises(UsageError, match=r"channel a: digest.*channel b is given twice"):
        Channels(state).replace(items, "ann", T0_US)


def test_an_unknown_channel_is_named_with_the_known_ones(state: State) -> None:
    Channels(state).put(OPS, "ann", T0_US)
    with pytest.raises(UsageError, match="channel oops: unknown; known: ops"):
        Channels(state).get("oops")


def test_channels_of_the_file_are_changed_in_the_file(state: State) -> None:
    channels = Channels(state)
    problems: list[str] = []
    from_file = from_config([{**OPS, "name": "filed", "teams": ["red"]}], problems)
    channels.put(OPS, "ann", T0_US)

    assert channels.adopt(from_file, T0_US) is True
    assert channels.adopt(from_file, T0_US) is False
    assert channels.replace(listing(state), "bob", T0_US) is False
    with pytest.raises(UsageError, match=r"filed: it is set in gpuwatch\.toml"):
        channels.put({**listing(state)[0], "enabled": False}, "bob", T0_US)
    channels.replace([], "bob", T0_US)
    assert (["filed"], []) == ([c.name for c in channels.list()], problems)
    channels.adopt([], T0_US)
    assert () == channels.list()


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(SLACK_URL + "\n")
    problems: list[str] = []
    found = from_config([{"name": "ops", "url_file": str(tmp_path / "url")}], problems)

    assert ([SLACK_URL], []) == ([c.url for c in found], problems)


def test_wrong_tables_are_named_and_the_others_kept(tmp_path: Path) -> None:
    problems: list[str] = []
    tables = [
        {"name": "a", "url_file": str(tmp_path / "none")},
        {"name": "b", "url": "http://127.0.0.1/" + SECRET},
        OPS,
        OPS,
    ]
    found = from_config(tables, problems)

    assert ["ops"] == [c.name for c in found]
    assert 3 == len(problems)
    assert "No such file" in problems[0]
    assert problems[1].startswith("[[channel]] 2: channel b: url must start with https://")
    assert SECRET not in str(problems)
    assert "twice" in problems[2]


def test_a_missing_secret_hides_nothing_else(tmp_path: Path) -> None:
    problems: list[str] = []
    found = from_config([{"name": "a b", "kind": "slak", "url_file": str(tmp_path / "none")}], problems)

    assert ([], 1) == (found, len(problems))
    assert [True] * 3 == [word in problems[0] for word in ("No such file", "name must be", "kind must be")]


def test_the_operator_may_name_private_hosts() -> None:
    problems: list[str] = []
    tables = [{"name": "b", "kind": "webhook", "url": "http://127.0.0.1:9/x"}]

    assert ["b"] == [c.name for c in from_config(tables, problems, Guard.of(["127.0.0.1"]))]
    assert [] == problems


PAGE = Path(__file__).parents[2] / "docs/act/alerts.md"


def test_every_field_and_word_of_a_channel_is_documented() -> None:
    """In docs/act/alerts.md, as a user types it."""
    text = PAGE.read_text("utf-8")
    fields = {*Channel.__dataclass_fields__, *Timing.__dataclass_fields__, *MORE, "url_file"}
    words = (fields | {*channel_kinds(), *EVENTS, *SEVERITIES, *DIGESTS, *GROUPS, *FIELDS}) - {
        "origin",
        "mail",
        "timing",
        "more",
    }

    assert [] == sorted(word for word in words if f"`{word}`" not in text)


def test_the_example_of_the_page_is_a_message() -> None:
    """What the page shows of a payload is what is sent."""
    (example,) = re.findall(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    shown = json.loads(example)
    idle = finding(
        headline="train-llm (job 4711) of team red on gpu-node-0042 holds 8 idle GPUs",
        summary="8 of 8 devices idle, after activity: 192 device-hours in 1 idle run, the longest 1 day.",
    )
    payload = slack.payload("opened", idle.as_dict(), None)

    assert (shown["text"], shown["blocks"]) == (payload["text"], payload["blocks"][:1])


def test_a_kind_is_registered_once() -> None:
    """The message has both classes."""

    class Again(ContinuousKind):
        name = "slack"

    assert "slack" in channel_kinds()

    with pytest.raises(ValueError, match=r"channel kind 'slack' is registered twice: .*Slack.*Again"):
        channel_kind(Again)


def test_a_stored_channel_of_an_unknown_kind_names_the_known_ones() -> None:
    """Its plug-in was removed."""
    with pytest.raises(UsageError, match="channel kind 'pager' is unknown; known kinds: alertmanager, email, slack"):
        find_kind("pager")
