"""Slack messages: what they say, that nobody's name pings a channel, and that Slack's limits hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.alerts import text as alerts_text
from gpuwatch.alerts.channels import email, slack, webhook
from gpuwatch.alerts.delivery.email_server import Mail
from gpuwatch.alerts.lines import Group
from gpuwatch.alerts.record import Alert
from gpuwatch.alerts.templates import Template
from gpuwatch.core.clock import HOUR_US, rfc3339
from tests.alerts.test_email import note as report_note
from tests.worlds.alerts import T0_US, finding

BASE = "https://gpuwatch.example/"
KEY = "ops|f1|opened|1|high"


BLIND: dict[str, Any] = {"wasted_cost": "0.00", "wasted_gpu_seconds": "0.000000", "currency": None}
"""What blind-spot claims: nothing."""


def alert(event: str = "opened", key: str = "f1", **changed: Any) -> Alert:
    """An alert about a finding."""
    state = "resolved" if event == "resolved" else "open"
    return Alert(event, f"ops|{key}", "2026-11-03T01:00:00Z", finding(key, state=state, **changed).as_dict())


def texts(payload: Any) -> Iterator[tuple[str, str]]:
    """(kind, text) of every text object of a payload, and of its fallback."""
    if isinstance(payload, dict):
        if payload.get("type") in {"mrkdwn", "plain_text"}:
            yield payload["type"], payload["text"]
        elif isinstance(payload.get("text"), str):
            yield "fallback", payload["text"]
        for value in payload.values():
            yield from texts(value)
    elif isinstance(payload, list):
        for value in payload:
            yield from texts(value)


def test_a_line_about_a_gpu_names_its_place_and_no_uuid() -> None:
    about = {"kind": "gpu", "id": "GPU-1f", "name": None}
    found = finding(
        title="A broken GPU in service", subject=about, user=None, gpu_index=7, evidence={"signs": "XID 79"}
    )

    assert (
        "High · A broken GPU in service: GPU 7 on n1 (XID 79) · team red · $480/day"
        == slack.payload("opened", found.as_dict(), None)["text"]
    )


def test_a_message_says_what_who_dollars_since_remedy_and_where_to_look() -> None:
    """The whole payload, as a person would check it in Slack's block kit builder."""
    text = {"type": "mrkdwn", "verbatim": True}

    assert {
        "text": "High · GPUs held and idle: job 4711 (train-llm) on n1 · team red, alice · $480/day",
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [
            {
                "type": "section",
                "text": text
                | {
                    "text": ":red_circle: *High* · GPUs held and idle: job 4711 (train-llm) on n1 · team red, alice · $480/day\n"
                    "8 of 8 devices idle: 192 device-hours in 1 idle run."
                },
            },
            {
                "type": "section",
                "fields": [
                    text | {"text": "*Owner*\nteam red, alice"},
                    text | {"text": "*Rate*\n$480/day"},
                    text | {"text": "*Cost so far*\n$480 (192.0 GPU-h)"},
                    text | {"text": "*Since*\n2026-11-02 00:00 UTC, 24.0 h"},
                    text | {"text": "*Where*\ncluster c1, node n1"},
                ],
            },
            {"type": "section", "text": text | {"text": "*Fix:* Release the devices."}},
            {
                "type": "actions",
                "elements": [
                    {
                        "type": "button",
                        "text": {"type": "plain_text", "text": "Open the finding"},
                        "url": "https://gpuwatch.example/ui/findings/f1",
                    },
                    {
                        "type": "button",
                        "text": {"type": "plain_text", "text": "Acknowledge"},
                        "url": "https://gpuwatch.example/ui/findings/f1?action=ack",
                    },
                    {
                        "type": "button",
                        "text": {"type": "plain_text", "text": "Snooze"},
                        "url": "https://gpuwatch.example/ui/findings/f1?action=snooze",
                    },
                ],
            },
            {
                "type": "context",
                "elements": [
                    text | {"text": "Confidence 90%"},
                ],
            },
        ],
    } == slack.single(replace(alert(), key=KEY), BASE)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(
            replace(alert("worsened"), previous_severity="medium"),
            "Worsened to high (was medium) · GPUs held and idle: job 4711 (train-llm) on n1 · team red, alice · $480/day",
            id="worsened",
        ),
        pytest.param(
            alert("resolved"),
            "Resolved · GPUs held and idle: job 4711 (train-llm) on n1 · team red, alice · $480 (192.0 GPU-h)",
            id="resolved, with what it cost",
        ),
        pytest.param(
            replace(alert("resolved"), earlier=("opened",)),
            "Opened and resolved · GPUs held and idle: job 4711 (train-llm) on n1 · team red, alice · $480 (192.0 GPU-h)",
            id="opened and resolved before it was told",
        ),
        pytest.param(
            alert(wasted_cost=None, currency=None, user=None, team="__unallocated__", severity="low"),
            "Low · GPUs held and idle: job 4711 (train-llm) on n1 · no team assigned",
            id="no price and no owner",
        ),
        pytest.param(
            alert(wasted_cost="0.00", subject={"kind": "job", "id": "ns/lab", "name": "lab"}),
            "High · GPUs held and idle: job ns/lab on n1 · team red, alice",
            id="nothing is known to be wasted",
        ),
        pytest.param(
            alert(wasted_cost="7.5", currency="CHF", subject={"kind": "node", "id": "n1", "name": "n1"}),
            "High · GPUs held and idle: node n1 · team red, alice · CHF 7.50/day",
            id="another currency, and a name that repeats the id",
        ),
        pytest.param(
            alert(wasted_cost="7.50", last_seen_at=rfc3339(T0_US + HOUR_US)),
            "High · GPUs held and idle: job 4711 (train-llm) on n1 · team red, alice · $7.50 so far",
            id="an hour says nothing of a day",
        ),
    ],
)
def test_the_line_that_decides(sent: Alert, expected: str) -> None:
    assert expected == slack.single(sent, None)["text"]


def test_a_service_without_an_address_has_no_link() -> None:
    assert "actions" not in {block["type"] for block in slack.payload("opened", finding().as_dict(), None)["blocks"]}


def test_the_end_says_why_unless_the_condition_just_ended() -> None:
    shown = json.dumps(slack.single(alert("resolved", resolved_reason="rule_changed"), BASE))

    assert "*Why it ended:* rule changed" in shown
    assert "*Fix:*" not in shown
    assert "Why it ended" not in json.dumps(slack.single(alert("resolved"), BASE))


def test_the_first_line_is_the_findings_headline() -> None:
    message = "GPU 7 on gpu-node-0042 failed (XID 79) while llama-pretrain of team nlp was running"

    assert f"High · {message} · $480/day" == slack.single(alert(headline=message), BASE)["text"]


HOSTILE = "<!channel> <@U1> <https://evil.example|click> & *b* `c`"


@pytest.mark.parametrize(
    "field", ["title", "team", "user", "summary", "remedy", "cluster", "detector", "key", "severity", "resolved_reason"]
)
@pytest.mark.parametrize("event", ["opened", "worsened", "resolved"])
def test_nobodys_name_pings_or_links(field: str, event: str) -> None:
    """Slack reads mentions and links in <>; a text without that sign has none."""
    record = replace(alert(event), finding={**alert(event).finding, field: HOSTILE})
    for payload in (slack.single(record, BASE), slack.digest([record], None, key=HOSTILE), slack.test(HOSTILE, BASE)):
        assert [] == [text for _, text in texts(payload) if "<" in text or ">" in text]


def test_hostile_names_in_lists_and_objects_are_escaped_too() -> None:
    about = {"kind": HOSTILE, "id": HOSTILE, "name": HOSTILE}
    sent = alert(subject=about, nodes=[HOSTILE], evidence={HOSTILE: HOSTILE})

    assert [] == [text for _, text in texts(slack.single(sent, BASE)) if "<" in text or ">" in text]


def test_a_link_cannot_be_left_by_a_key() -> None:
    """In a digest the link is mrkdwn: the key is percent-encoded there."""
    payload = slack.digest([alert(key="a|b> <!channel>")], BASE)

    assert (
        "<https://gpuwatch.example/ui/findings/a%7Cb%3E%20%3C%21channel%3E|open>"
        in payload["blocks"][1]["text"]["text"]
    )


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        pytest.param("abc", 3, "abc", id="it fits"),
        pytest.param("abcd", 3, "ab…", id="cut with an ellipsis"),
        pytest.param("a&&", 8, "a&amp;…", id="an escape is not cut in two"),
        pytest.param("a&&", 6, "a…", id="an escape gives way to the ellipsis"),
        pytest.param("a&&", 11, "a&amp;&amp;", id="escapes that fit"),
        pytest.param("🚀🚀", 3, "🚀…", id="a character of two units"),
        pytest.param("a\n\tb\x00c\u202ed", 20, "a b c d", id="one line, no control or bidirectional characters"),
        pytest.param("\ud800x", 20, "x", id="half a character"),
        pytest.param(None, 20, "", id="nothing"),
    ],
)
def test_text_is_cut_and_escaped(text: str | None, limit: int, expected: str) -> None:
    assert expected == slack.escape(text, limit)


def units(text: str) -> int:
    """Length as JavaScript counts it."""
    return len(text.encode("utf-16-le")) // 2


anything = st.text(alphabet=st.sampled_from("&<>a🚀é\n\ud800 "), max_size=5000)


@settings(max_examples=40, deadline=None)
@given(anything, st.integers(1, 60), st.sampled_from(["opened", "worsened", "resolved"]))
def test_slacks_limits_hold_for_any_text(text: str, count: int, event: str) -> None:
    sent = alert(
        event,
        title=text,
        summary=text,
        remedy=text,
        team=text,
        user=text,
        cluster=text,
        detector=text,
        nodes=[text] * 5,
        subject={"kind": text, "id": text, "name": text},
        evidence={f"{text}{i}": text for i in range(20)},
    )
    for payload in (slack.single(sent, BASE), slack.digest([sent] * count, BASE, key=text), slack.test(text, BASE)):
        blocks = payload["blocks"]
        assert len(blocks) <= 50
        assert all(units(kind_text) <= 3000 for _, kind_text in texts(payload))
        for block in blocks:
            fields = block.get("fields", [])
            assert len(fields) <= 10
            assert all(0 < units(item["text"]) <= 2000 for item in fields)
            assert len(block.get("elements", [])) <= 10
            assert "text" not in block or units(block["text"]["text"]) > 0
        json.dumps(payload).encode()


def test_a_digest_shows_the_ten_most_expensive_and_sums_all() -> None:
    listed = [alert(key=f"f{i}", detector=f"rule-{i}", wasted_cost=f"{i}.00") for i in range(12)]
    listed.append(alert("resolved", "over"))
    payload = slack.digest(listed, BASE, key="k")
    sections = [block["text"]["text"] for block in payload["blocks"] if block["type"] == "section"]

    assert "13 findings: 12 opened, 1 resolved · $66.00/day" == payload["text"]
    assert [f"${i}.00/day" for i in range(11, 1, -1)] == [line.split(" · ")[3] for line in sections[1:]]
    assert [["and 3 more"]] == [
        [element["text"] for element in block["elements"]] for block in payload["blocks"] if block["type"] == "context"
    ]


CAUSE = ":red_circle: 4 x GPUs held and idle: train-0, train-1, train-2 and 1 more · team red · $1,920/day"
OVER = ":white_check_mark: *Resolved* · train-llm (job 4711) of team red held 8 idle GPUs · $480 (192.0 GPU-h)"


def test_a_digest_has_one_line_for_each_cause() -> None:
    """Causes by their money; a resolved finding is no part of an open cause. A broken GPU has its own headline."""
    jobs = [alert(key=f"j{i}", subject={"kind": "job", "id": f"{i}", "name": f"train-{i}"}) for i in range(4)]
    gpu = alert(key="g", detector="degraded-gpu", headline="GPU 7 on n1 failed (XID 79)", wasted_cost="2000.00")
    over = alert("resolved", "over", headline="train-llm (job 4711) of team red held 8 idle GPUs")
    payload = slack.digest([*jobs, over, gpu], BASE, key="k")
    sections = [block["text"]["text"] for block in payload["blocks"] if block["type"] == "section"]

    assert [
        ":bar_chart: *6 findings: 5 opened, 1 resolved · $3,920/day*",
        ":red_circle: *High* · GPU 7 on n1 failed (XID 79) · $2,000/day · <https://gpuwatch.example/ui/findings/g|open>",
        f"{CAUSE} · <https://gpuwatch.example/ui/findings?detector=idle-hoarding|open>",
        f"{OVER} · <https://gpuwatch.example/ui/findings/over|open>",
    ] == sections
    assert 3 == len(email_lines([*jobs, over, gpu]))


def email_lines(alerts: list[Alert]) -> list[str]:
    """The numbered lines of the e-mail of a digest."""
    mail = Mail("localhost", 25, "none", "a@b.example", ("c@d.example",))
    message = email.digest(mail, alerts, BASE, "k", 0).get_body(("plain",))
    assert message is not None
    return re.findall(r"(?m)^\d+: .*$", message.get_content())


@pytest.mark.parametrize(
    ("alerts", "expected"),
    [
        pytest.param([alert("resolved")], "1 finding: 1 resolved · nothing open", id="only an end"),
        pytest.param([alert(wasted_cost=None)], "1 finding: 1 opened", id="no price"),
        pytest.param(
            [alert(), alert(key="b", wasted_cost=None)],
            "2 findings: 2 opened · $480/day and 1 without a price",
            id="one without a price",
        ),
        pytest.param(
            [alert(), alert(key="b", **BLIND)], "2 findings: 2 opened · $480/day", id="nothing claimed is no currency"
        ),
        pytest.param([alert(**BLIND)], "1 finding: 1 opened", id="nothing claimed at all"),
        pytest.param(
            [alert(**BLIND), alert(key="b", wasted_cost=None, currency=None)],
            "2 findings: 2 opened",
            id="nothing claimed, and no price",
        ),
        pytest.param(
            [alert(), alert(key="b", currency="EUR")], "2 findings: 2 opened · several currencies", id="two currencies"
        ),
    ],
)
def test_a_sum_is_not_made_up(alerts: list[Alert], expected: str) -> None:
    assert expected == slack.digest(alerts, BASE)["text"]
    assert expected == webhook.digest(alerts, BASE, key="k")["text"]


def test_a_sum_of_what_has_not_lasted_a_day_is_so_far() -> None:
    young = [alert(key=f"f{i}", wasted_cost="7.50", last_seen_at=rfc3339(T0_US + HOUR_US)) for i in range(2)]

    assert "2 findings: 2 opened · $15.00 so far" == slack.digest(young, BASE)["text"]
    assert "3 findings: 3 opened · $495/day" == slack.digest([*young, alert("opened", "old")], BASE)["text"]


def test_what_has_not_lasted_a_day_has_no_rate() -> None:
    young = finding(wasted_cost="7.50", last_seen_at=rfc3339(T0_US + HOUR_US)).as_dict()
    fields = [
        field["text"] for block in slack.payload("opened", young, BASE)["blocks"] for field in block.get("fields", [])
    ]

    assert "*Cost so far*\n$7.50 (192.0 GPU-h)" in fields
    assert not [text for text in fields if text.startswith("*Rate*")]


def test_what_claims_nothing_has_cost_nothing_so_far() -> None:
    """Also in e-mails, and in `$cost` of people's own texts."""
    assert "no cost claimed" == alerts_text.cost_so_far(finding(**BLIND).as_dict())
    assert "$480 (192.0 GPU-h)" == alerts_text.cost_so_far(finding().as_dict())


def test_evidence_is_its_first_plain_numbers() -> None:
    record: dict[str, Any] = {
        "sm_active_ratio": 0.169,
        "tensor_ratio": None,
        "hours": 9.0021,
        "whole": True,
        "thresholds": {},
        "list": [1],
    }

    assert ["sm active 17 %", "hours 9.002", "whole yes"] == alerts_text.evidence({"evidence": record})


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({}, id="nothing at all"),
        pytest.param({"subject": "x", "evidence": [], "started_at": "soon", "wasted_cost": "NaN"}, id="wrong values"),
        pytest.param({"wasted_cost": "many", "confidence": "high", "nodes": None}, id="words for numbers"),
    ],
)
def test_a_finding_with_holes_still_makes_a_message(broken: dict[str, Any]) -> None:
    sent = Alert("opened", "k", "", {"key": "f", **broken})

    assert "cost" not in slack.single(sent, BASE)["text"]
    assert "cost" not in slack.digest([sent], BASE)["text"]
    assert "k" == webhook.payload(sent, BASE)["key"]


def test_a_message_about_a_reclaim_leads_to_its_finding() -> None:
    message = str(slack.payload("worsened", finding("reclaim-idle-hoarding-9577be-1793577600").as_dict(), "http://x"))

    assert "http://x/ui/findings/idle-hoarding-9577be'" in message
    assert "http://x/ui/findings/idle-hoarding-9577be?action=snooze'" in message


def test_slacks_limits_hold_for_words_that_people_wrote() -> None:
    sent = alert(summary="a&" * 600, nodes=[f"node-{place}" for place in range(300)])
    template = Template(subject="$summary $nodes $remedy " * 12, body="x $summary " * 150)
    payload = slack.single(sent, BASE, template)
    shown = [text for _, text in texts(payload)]

    assert slack.MAX_SECTION >= max(map(len, shown))
    assert [] == [text for text in shown if re.search(r"&(?!amp;|lt;|gt;)", text)]


def test_a_budget_is_no_waste() -> None:
    sent = alert(key="budget:red:2026-11:100", title="Budget of 2026-11 passed: 104 % spent", wasted_cost="0")
    shown = json.dumps(slack.single(sent, BASE))

    assert (
        "High · Budget of 2026-11 passed: 104 % spent: job 4711 (train-llm) on n1 · team red, alice"
        == (slack.single(sent, None)["text"])
    )
    assert "no cost claimed" not in shown and "GPU-h" not in shown
    assert "1 finding: 1 opened" == slack.digest([sent], None)["text"]
    assert "2 findings: 2 opened · $480/day" == slack.digest([sent, alert()], None)["text"]


@pytest.mark.parametrize(
    ("teams", "by", "expected"),
    [
        pytest.param(["__platform__", "__unallocated__"], (), [], id="nobody's"),
        pytest.param(["red", "red"], (), ["team red"], id="one team"),
        pytest.param(["red", "blue"], (), ["red, blue"], id="two teams"),
        pytest.param(["a", "b", "c", "d", "e"], (), ["a, b, c and 2 more teams"], id="many teams"),
        pytest.param(["red", "red"], ("team",), [], id="the digest is of the team"),
        pytest.param(["red", "red"], ("user", "rule"), [], id="the digest is of a user"),
    ],
)
def test_a_cause_of_several_findings_names_whose_they_are(
    teams: list[str], by: tuple[str, ...], expected: list[str]
) -> None:
    alerts = [alert(key=f"f{n}", team=team) for n, team in enumerate(teams)]
    parts = Group(tuple(alerts)).line(by).split(" · ")

    assert expected == parts[1:-1]


LEAD = (
    "Team vision pays $12.00 in week 2026-W45, up 50 % from the previous week. $3.00 of it was avoidable (25 % of the cost of what it "
    "held). The actions could save up to $13.05 a month. November 2026 is expected to cost $50.00."
)


def test_a_report_begins_with_cost_and_waste_and_says_what_to_do() -> None:
    payload = slack.report(report_note(lead=LEAD), BASE, "k")
    sections = [block["text"]["text"] for block in payload["blocks"] if "text" in block]
    (fields,) = [block["fields"] for block in payload["blocks"] if "fields" in block]

    assert LEAD.startswith(payload["text"]) and payload["text"].endswith("(25 % of the cost of what it held).")
    assert f":page_facing_up: *{payload['text']}*\n{LEAD.removeprefix(payload['text']).strip()}" == sections[0]
    assert ["*To pay*\n$12.00 · ▲ 50 %", "*Held idle*\n$3.00"] == [field["text"] for field in fields]
    assert "1. *GPUs held and idle: job 4711* · $3.00 · user ann\nRelease the devices." == sections[1]


def test_a_report_without_actions_has_no_list_of_them() -> None:
    payload = slack.report(report_note(wastes=()), BASE, "k")

    assert 1 == sum("text" in block for block in payload["blocks"])


def test_names_in_a_report_ping_nobody() -> None:
    hostile = "<!channel> <@U1> & co"
    payload = slack.report(report_note(lead=hostile, wastes=((hostile, hostile, "$1", hostile),)), BASE, "k")

    assert "<!channel>" not in json.dumps(payload)
