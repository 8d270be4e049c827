"""The page of notification channels: what it shows to whom, and what its button sends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from dash.exceptions import PreventUpdate
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from gpuwatch.dashboards.client import Api, Caller, Client, Row
from gpuwatch.dashboards.shell import acting
from tests.dashboards.laid_out import answering, check_layout, shown, text

EARLY, LATE = "2026-11-02T08:00:00Z", "2026-11-02T09:00:00Z"
BUTTON = "Send a test"


def channel(name: str, *, enabled: bool = True, **status: Any) -> Row:
    """A channel as the API shows it."""
    never: Row = {"last_sent_at": None, "last_error": None, "last_error_at": None, "pending": 3, "dead": 0}
    more = {"url_hint": "hooks.example/…", "severity_min": "medium", "severity_max": "critical"}
    return {"name": name, "kind": "slack", "enabled": enabled, **more, "status": never | status}


def listed(*items: Row, scope: str = "admin") -> Api:
    """An API with these channels and a caller of this scope."""
    return answering({"channels": {"items": list(items), "next": None}, "me": {"scope": scope}})


@pytest.mark.parametrize(
    ("item", "word", "reason_shown"),
    [
        pytest.param(channel("a"), "Nothing sent yet", False, id="never used is not delivered"),
        pytest.param(channel("a", last_sent_at=EARLY), "Delivered", False, id="delivered"),
        pytest.param(
            channel("a", last_sent_at=LATE, last_error="HTTP 404", last_error_at=EARLY),
            "Delivered", False, id="a failure before the last delivery is over",
        ),
        pytest.param(
            channel("a", last_sent_at=EARLY, last_error="HTTP 404", last_error_at=LATE),
            "Failed", True, id="a failure after the last delivery has its reason",
        ),
        pytest.param(channel("a", enabled=False, last_sent_at=EARLY), "Off", False, id="switched off"),
    ],
)  # fmt: skip
def test_a_channel_has_its_last_delivery(item: Row, word: str, reason_shown: bool) -> None:
    layout = shown("/channels", source=listed(item))
    words = ("Delivered", "Failed", "Nothing sent yet", "Off")

    check_layout(layout)
    assert [word] == [one for one in words if one in text(layout).replace("The last delivery failed", "")]
    assert reason_shown == ("HTTP 404" in text(layout))


def test_only_an_administrator_has_the_button_and_others_see_why_not() -> None:
    own, other = (text(shown("/channels", source=listed(channel("a"), scope=scope))) for scope in ("admin", "read"))

    assert (True, False) == (BUTTON in own, "Only a token" in own)
    assert (False, True) == (BUTTON in other, "Only a token with the scope admin may send a test message." in other)


def test_without_a_channel_the_page_says_so() -> None:
    layout = shown("/channels", source=listed())

    check_layout(layout)
    assert "No channels set" in text(layout)


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        pytest.param(200, {"ok": True, "error": None}, "on.call: the test message was delivered.", id="delivered"),
        pytest.param(
            200,
            {"ok": False, "error": "channel on.call: it answers 404"},
            "on.call: not delivered. it answers 404",
            id="refused by the receiver",
        ),
        pytest.param(403, {"error": {"code": "x", "message": "needs admin"}}, "needs admin", id="not allowed"),
    ],
)
def test_the_button_sends_through_its_channel_and_shows_the_outcome(status: int, answer: Row, message: str) -> None:
    asked: list[str] = []
    app = FastAPI(openapi_url=None)

    @app.post("/api/v1/channels/{name}/test")
    def test(name: str) -> JSONResponse:
        asked.append(name)
        return JSONResponse(answer, status)

    result = asyncio.run(acting.tested(Client(app).of(Caller()), b"on.call".hex()))

    assert (["on.call"], message) == (asked, text(result))


def test_a_button_that_is_not_ours_sends_nothing() -> None:
    with pytest.raises(PreventUpdate):
        asyncio.run(acting.tested(answering({}), "zz"))
