"""A callback request with wrong types is answered 400 with one line in the log, never a traceback."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from gpuwatch.dashboards.app import mount
from tests.dashboards import fake_api

APP = fake_api.create()
mount(APP)
OUTPUTS = [("page", "children"), ("digest", "data"), ("message", "children"), ("title", "data")]


def request(**values: object) -> dict[str, Any]:
    """The request of the callback that shows a page."""
    sent = {"pathname": "/ui/jobs", "search": "", "data": "light"} | values
    return {
        "output": f"..{'...'.join('.'.join(one) for one in OUTPUTS)}..",
        "outputs": [{"id": name, "property": kind} for name, kind in OUTPUTS],
        "inputs": [
            {"id": "ground" if name == "data" else "url", "property": name, "value": value}
            for name, value in sent.items()
        ],
        "changedPropIds": ["url.pathname"],
    }


def post(content: bytes) -> httpx.Response:
    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(APP, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            headers = {"content-type": "application/json"}
            return await http.post("/ui/_dash-update-component", content=content, headers=headers)

    return asyncio.run(go())


@pytest.mark.parametrize("values", [{}, {"search": None}, {"data": None}])
def test_a_right_request_is_answered(values: dict[str, object]) -> None:
    assert 200 == post(json.dumps(request(**values)).encode()).status_code


@pytest.mark.parametrize(
    "content",
    [
        *(
            pytest.param(json.dumps(request(**{name: value})).encode(), id=f"{name} {value!r}")
            for name in ("pathname", "search", "data")
            for value in (5, True, [], {}, [5])
        ),
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half a body"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b'"' + b"x" * (2 << 20), id="too large"),
    ],
)
def test_a_wrong_type_is_the_senders_mistake(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    response = post(content)
    (record,) = caplog.records

    assert (400, True, None) == (response.status_code, "callback request" in response.text, record.exc_info)
    assert "\n" not in record.getMessage()
