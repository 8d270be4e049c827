"""Signing in: the token goes into a cookie no script can read, and nowhere else."""

from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest

from gpuwatch.dashboards.app import mount
from gpuwatch.dashboards.shell.login import safe_next
from tests.dashboards import fake_api

APP = fake_api.create(tokens=True)
mount(APP)


def send(method: str, path: str, base: str = "http://localhost", **more: Any) -> httpx.Response:
    """One request of a browser."""

    async def go() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(APP), base_url=base) as http:
            return await http.request(method, path, **more)

    return asyncio.run(go())


def sign_in(token: str, goal: str = "/ui/jobs", **more: Any) -> httpx.Response:
    """The form, sent."""
    return send("POST", "/ui/login", data={"token": token, "next": goal}, **more)


def cookie(response: httpx.Response) -> Any:
    """The cookie an answer sets."""
    found = SimpleCookie()
    for header in response.headers.get_list("set-cookie"):
        found.load(header)
    return found["gpuwatch_session"]


@pytest.mark.parametrize(
    ("token", "status", "expected"),
    [
        pytest.param("", 400, "not a valid token", id="nothing"),
        pytest.param("x" * 9000, 400, "not a valid token", id="too long to be read"),
        pytest.param("gw\r\nx: y", 400, "not a valid token", id="a header in a token"),
        pytest.param("gw_wrong", 401, "unknown", id="an unknown token"),
        pytest.param(fake_api.INGEST, 403, "only send data", id="a token that cannot read"),
    ],
)
def test_a_wrong_token_is_reported_and_not_kept(token: str, status: int, expected: str) -> None:
    response = sign_in(token)

    assert status == response.status_code
    assert expected in response.text
    assert "set-cookie" not in response.headers
    assert not token or token not in response.text


def test_the_right_token_is_kept_where_no_script_reads_it() -> None:
    response = sign_in(fake_api.GOOD)
    kept = cookie(response)

    assert (303, "/ui/jobs") == (response.status_code, response.headers["location"])
    assert (f"session-{fake_api.GOOD}", "3600") == (kept.value, kept["max-age"])
    assert (True, "strict", "/", "") == (kept["httponly"], kept["samesite"].lower(), kept["path"], kept["secure"])


def test_over_tls_the_cookie_is_secure() -> None:
    assert True is cookie(sign_in(fake_api.GOOD, base="https://localhost"))["secure"]
    assert True is cookie(sign_in(fake_api.GOOD, headers={"x-forwarded-proto": "https"}))["secure"]


def test_another_site_cannot_sign_anybody_in_or_out() -> None:
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        assert 403 == sign_in(fake_api.GOOD, headers=headers).status_code
        assert 403 == send("POST", "/ui/logout", headers=headers).status_code


def test_signing_out_forgets() -> None:
    APP.state.ended = False
    response = send("POST", "/ui/logout", headers={"cookie": f"gpuwatch_session=session-{fake_api.GOOD}"})

    assert ("/ui/login", True) == (response.headers["location"], APP.state.ended)
    assert "0" == cookie(response)["max-age"]


@pytest.mark.parametrize(
    "goal",
    [
        pytest.param(None, id="nothing"),
        pytest.param("https://evil.example/ui/", id="elsewhere"),
        pytest.param("//evil.example/ui/", id="elsewhere without a scheme"),
        pytest.param("/ui/\\evil.example", id="a backslash"),
        pytest.param("/ui/../api/v1/x", id="out of the pages"),
        pytest.param("/ui/\r\nset-cookie: a=b", id="a header"),
        pytest.param("/uix", id="a neighbour"),
    ],
)
def test_signing_in_leads_only_to_our_own_pages(goal: str | None) -> None:
    assert "/ui/" == safe_next(goal)


def test_where_to_go_next_is_escaped_in_the_form() -> None:
    response = send("GET", "/ui/login", params={"next": '/ui/"><script>alert(1)</script>'})

    assert 200 == response.status_code
    assert "<script>" not in response.text
