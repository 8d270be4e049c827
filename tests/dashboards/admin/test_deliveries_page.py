"""Messages on the page of channels: states in words, errors, and a button only where trying again makes sense."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.editing import delivery_log
from gpuwatch.dashboards.editing.outcome import Outcome
from gpuwatch.dashboards.shell import forms
from tests.dashboards.fake_names import HOSTILE, NOW, at
from tests.dashboards.laid_out import answering, asked, check_layout, links, text


def message(state: str = "sent", **more: Any) -> dict[str, Any]:
    """A message about a finding."""
    row = {
        "id": 7, "channel": "ops", "event": "opened", "subject": "8 GPUs are idle.", "finding": "idle-hoarding-1", "to": [],
        "state": state, "tries": 1, "created_at": at(NOW), "tried_at": at(NOW), "sent_at": None, "next_at": None,
        "last_error": None,
    }  # fmt: skip
    return row | more


def drawn(*rows: dict[str, Any], path: str = "/channels", edits: bool = True, **more: Any) -> Any:
    """The card of these messages."""
    return delivery_log.card({"items": list(rows), "next": None, **more}, asked(path), edits)


def test_without_the_route_there_is_no_card() -> None:
    assert None is asyncio.run(delivery_log.read(answering({}), asked("/channels")))
    assert None is delivery_log.card(None, asked("/channels"), True)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/channels", "No message yet"),
        ("/channels?state=given_up", "No message was given up."),
        ("/channels?state=waiting", "No message waits."),
        ("/channels?state=nonsense", "No message yet"),
    ],
)
def test_no_messages(path: str, words: str) -> None:
    assert words in text(drawn(path=path))


@pytest.mark.parametrize(
    ("row", "has"),
    [
        (message("sent"), False),
        (message("sending"), False),
        (message("withdrawn"), False),
        (message("waiting", tries=0), False),
        (message("waiting", tries=2), True),
        (message("given_up"), True),
    ],
)
def test_only_what_failed_can_be_tried_again(row: dict[str, Any], has: bool) -> None:
    assert has == ("Try again" in text(drawn(row)))
    assert "Try again" not in text(drawn(row, edits=False))


def test_a_message_has_its_state_its_error_and_its_next_try() -> None:
    row = message("waiting", tries=3, last_error="hooks.slack.com answered 503", next_at="2026-11-20T12:30:00Z")
    layout = drawn(row)

    assert "New:  8 GPUs are idle." in text(layout)
    assert "Waiting hooks.slack.com answered 503 3 20 Nov 12:30 Try again" in text(layout)
    assert "/ui/findings/idle-hoarding-1" in links(layout)
    assert "/ui/channels?of=ops" in links(layout)


def test_a_report_names_its_recipients() -> None:
    row = message(event="report", finding=None, subject="Report of week 2026-W47 for red", to=["ann@example.com"])

    assert "Report of week 2026-W47 for red to ann@example.com" in text(drawn(row))


def test_older_messages_and_those_of_one_channel_have_links() -> None:
    layout = drawn(message(), path="/channels?of=ops&log=c1", next="c2")

    assert {"/ui/channels?of=ops&log=c2", "/ui/channels?of=ops", "/ui/channels"} <= set(links(layout))
    assert "Messages of ops" in text(layout)


def test_no_button_of_ours_does_nothing() -> None:
    with pytest.raises(PreventUpdate):
        asyncio.run(delivery_log.act(answering({}), "again-x"))


def test_a_mistake_without_a_form_is_shown_as_a_message() -> None:
    found = forms.answer(Outcome(wrong={"form": "message 7: it is sent"}), asked("/channels"), [], (0, 0), "", "1")

    assert ("message 7: it is sent", "tag t-bad") == (found[1].children, found[1].className)
    assert forms.no_update is forms.answer(Outcome(wrong={"form": "x"}), asked("/rates"), [], (1, 1), "", "1")[1]


def test_hostile_words_stay_text() -> None:
    check_layout(drawn(message("given_up", subject=HOSTILE, channel=HOSTILE, last_error=HOSTILE, to=[HOSTILE])))
