"""Templates: people's words with named fields, and nothing that a name could do to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuwatch.alerts.channels import email as email_text
from gpuwatch.alerts.channels import slack, webhook
from gpuwatch.alerts.delivery.email_server import Mail
from gpuwatch.alerts.lines import plain_line
from gpuwatch.alerts.record import Alert
from gpuwatch.alerts.templates import FIELDS, MAX_BODY, Template, problem, values
from tests.worlds.alerts import T0_US, finding

BASE = "https://gpuwatch.example"
MAIL = Mail("smtp.example.com", 587, "starttls", "gpuwatch@example.com", ("ann@example.com",))
SHORT = Template("$what: $subject, $rate", "$summary\nAsk $owner. $$ is $cost.\n$ack_link")


def alert(event: str = "opened", **changed: Any) -> Alert:
    """What happened to the finding of the world."""
    return Alert(event, "ops|f1|opened|1|high", "2026-11-03T00:00:00Z", finding(**changed).as_dict())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, None, id="none at all"),
        pytest.param("$what on ${cluster}: $$ $rate", None, id="known fields and a dollar"),
        pytest.param("", "must be a text", id="an empty one"),
        pytest.param(7, "must be a text", id="a number"),
        pytest.param("x" * (MAX_BODY + 1), "must be a text", id="too long"),
        pytest.param("a ${what", "a $ at character 3", id="a brace that is not closed"),
        pytest.param("$what.$wat", "$wat, which is not known", id="an unknown field"),
        pytest.param("${what!r}", "a $ at character 1", id="a conversion"),
    ],
)
def test_what_is_wrong_with_a_template_is_shown(text: object, expected: str | None) -> None:
    found = problem(text, MAX_BODY)

    assert found is None if expected is None else expected in (found or "")


def test_every_field_is_filled_for_every_kind_of_subject() -> None:
    subjects = {
        "job": ("4711", "train", "job 4711 (train)"),
        "gpu": ("GPU-1f", "GPU-1f", "GPU"),
        "slice": ("GPU-1f/GI-3", "1g.10gb", "MIG slice"),
        "node": ("n7", None, "node n7"),
        "pool": ("a100", "a100", "pool a100"),
        "queue": ("low", None, "queue low"),
        "team": ("red", "red", "team red"),
    }
    for kind, (identity, name, expected) in subjects.items():
        subject = {"kind": kind, "id": identity, "name": name}
        about = alert(subject=subject, user=None, team="red" if kind in ("job", "team") else "__platform__")
        found = values(about, BASE)

        assert (list(FIELDS), expected) == (list(found), found["subject"])
        line = plain_line(about)
        place = " on n1" if kind in ("job", "gpu", "slice") else ""
        assert line.startswith(f"High · GPUs held and idle: {expected}{place} · ")
        assert line.count("team red") == (1 if kind in ("job", "team") else 0)
        assert "None" not in str(slack.single(about, BASE)) + str(found)


def test_slack_keeps_the_words_and_escapes_the_values() -> None:
    message = slack.single(alert(summary="<!channel> & co", user="<@U1>"), BASE, SHORT)
    text = message["blocks"][0]["text"]["text"]

    assert (
        ":red_circle: High: job 4711 (train-llm), $480/day\n&lt;!channel&gt; &amp; co\n"
        "Ask team red, &lt;@U1&gt;. $ is $480 (192.0 GPU-h).\nhttps://gpuwatch.example/ui/findings/f1?action=ack"
    ) == text
    assert "High: job 4711 (train-llm), $480/day" == message["text"]


def test_a_value_is_no_template() -> None:
    message = webhook.payload(alert(summary="$team $$ ${key}"), None, Template(body="$summary"))

    assert message["text"].endswith("\n$team $$ ${key}")


def test_an_email_has_the_words_in_both_parts() -> None:
    sent = email_text.single(MAIL, alert(summary="<b>5 & 6</b>"), BASE, "k", T0_US, SHORT)
    plain, html = (part.get_content() for part in sent.iter_parts())  # type: ignore[attr-defined]

    assert "High: job 4711 (train-llm), $480/day" == sent["Subject"]
    assert "<b>5 & 6</b>\nAsk team red, alice. $ is $480 (192.0 GPU-h)." in plain.replace("\r\n", "\n")
    assert "<p>&lt;b&gt;5 &amp; 6&lt;/b&gt;</p>" in html
    assert "Acknowledge: https://gpuwatch.example/ui/findings/f1?action=ack" in plain


def test_a_digest_has_the_line_of_the_template() -> None:
    message = slack.digest([alert(), replace(alert(), event="resolved")], None, template=Template("$event $key"))

    assert [":red_circle: opened f1", ":white_check_mark: resolved f1"] == [
        block["text"]["text"] for block in message["blocks"][1:3]
    ]


def test_a_long_body_still_fits_into_slack() -> None:
    message = slack.single(alert(summary="&" * 5000), BASE, Template(body="$summary" * 200))

    assert slack.MAX_SECTION >= len(message["blocks"][0]["text"]["text"])


def test_an_end_offers_no_action() -> None:
    assert "action=" not in str(slack.single(alert("resolved", state="resolved"), BASE))
