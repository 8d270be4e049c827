"""Signing in on the pages through a real OpenID Connect provider: from the button to a page with the person's own rows."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from gpuwatch.api.app import create_app
from gpuwatch.dashboards.app import mount
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.state.audit_log import entries
from tests.worlds.api import fill

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import oidc_provider_mock

PEOPLE = {
    "ann": ["ml-red"],
    "finn": ["finance"],
    "root": ["gpu-admins"],
    "eve": ["visitors"],
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """The address of a provider with four people; it knows their groups."""
    people = [
        oidc_provider_mock.User(sub=name, claims={"email": f"{name}@example.com", "groups": groups})
        for name, groups in PEOPLE.items()
    ]
    with oidc_provider_mock.run_server_in_thread(user_claims=people, require_nonce=True) as server:
        yield f"http://localhost:{server.server_port}"


class Browser:
    """One browser: it keeps cookies, and follows no redirect by itself."""

    def __init__(self, app: FastAPI) -> None:
        self.app, self.cookies = app, httpx.Cookies()

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request to gpuwatch from another machine."""

        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=("203.0.113.9", 1))
            async with httpx.AsyncClient(
                transport=transport, base_url="http://gpuwatch.test", cookies=self.cookies
            ) as http:
                response = await http.request(method, path, **more)
                self.cookies = http.cookies
                return response

        return asyncio.run(go())

    def identify(self, name: str, goal: str = "/ui/jobs", deny: bool = False) -> httpx.Response:
        """Presses the button, says at the provider who somebody is, and comes back."""
        leaving = self.send("GET", "/ui/login/away", params={"next": goal})
        assert 303 == leaving.status_code, leaving.text
        form = {"action": "deny"} if deny else {"sub": name}
        found = httpx.post(leaving.headers["location"], data=form)
        assert 302 == found.status_code, found.text
        back = urlsplit(found.headers["location"])
        assert "http://gpuwatch.test/ui/login/back" == f"{back.scheme}://{back.netloc}{back.path}"
        return self.send("GET", f"{back.path}?{back.query}")


@pytest.fixture(scope="module")
def service(issuer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    secret = tmp_path_factory.mktemp("sso") / "secret"
    secret.write_text("s3cret")
    sso = {
        "issuer": issuer,
        "client_id": "gpuwatch",
        "client_secret_file": str(secret),
        "name": "Example",
        "admins": ["gpu-admins"],
        "viewers": ["finance"],
        "teams": {"ml-red": "red"},
    }
    settings = Settings(public_url="http://gpuwatch.test", default_interval_s=60)
    service = Service.open(None, settings, {"sso": sso}, now_us=lambda: time.time_ns() // 1000, live=False)
    service.start()
    fill(service)
    yield service
    service.stop()


@pytest.fixture(scope="module")
def app(service: Service) -> FastAPI:
    app = create_app(service)
    mount(app)
    return app


def test_a_person_signs_in_and_out(app: FastAPI, service: Service) -> None:
    browser = Browser(app)
    assert "Sign in with Example" in browser.send("GET", "/ui/login?next=/ui/jobs").text
    done = browser.identify("ann", "/ui/jobs?window=7d")

    assert 200 == done.status_code
    assert 'content="0; url=/ui/jobs?window=7d"' in done.text
    kept = [header for header in done.headers.get_list("set-cookie") if header.startswith("gpuwatch_session=")]
    assert ["httponly", "max-age=43200", "path=/", "samesite=strict"] == sorted(
        part.strip().lower() for part in kept[0].split(";")[1:]
    )
    me = browser.send("GET", "/api/v1/me").json()
    assert ("read", ["red"], "ann@example.com") == (me["scope"], me["teams"], me["name"])
    shown = browser.send("GET", "/api/v1/jobs", params={"window": "2020-01-01,2036-01-01"}).text
    assert "redtrain" in shown
    assert "bluetrain" not in shown, "a job of another team"
    assert "signed in" in [entry.what for entry in entries(service.state)]

    assert 303 == browser.send("POST", "/ui/logout", headers={"origin": "http://gpuwatch.test"}).status_code
    assert 401 == browser.send("GET", "/api/v1/me").status_code


@pytest.mark.parametrize(("name", "scope"), [("finn", "read"), ("root", "admin")])
def test_other_roles_see_every_team(app: FastAPI, name: str, scope: str) -> None:
    browser = Browser(app)
    browser.identify(name)
    me = browser.send("GET", "/api/v1/me").json()

    assert (scope, None) == (me["scope"], me["teams"])


def test_who_may_not_use_gpuwatch_learns_why(app: FastAPI) -> None:
    browser = Browser(app)
    refused = browser.identify("eve")

    assert 403 == refused.status_code
    assert "eve@example.com is in no group that may use gpuwatch (groups: visitors)" in refused.text
    assert 401 == browser.send("GET", "/api/v1/me").status_code
    assert "did not sign you in: access_denied" in browser.identify("ann", deny=True).text
    forged = browser.send("GET", "/ui/login/back", params={"error": "Call 555-1234", "error_description": "now"}).text
    assert "an unknown error" in forged
    assert "555" not in forged


def test_a_code_is_good_once_and_in_one_browser(app: FastAPI) -> None:
    browser, other = Browser(app), Browser(app)
    leaving = browser.send("GET", "/ui/login/away")
    back = urlsplit(httpx.post(leaving.headers["location"], data={"sub": "root"}).headers["location"])
    path = f"{back.path}?{back.query}"

    assert "took too long" in other.send("GET", path).text
    other.send("GET", "/ui/login/away")
    assert "another browser" in other.send("GET", path).text
    kept = httpx.Cookies(browser.cookies)
    assert 200 == browser.send("GET", path).status_code
    browser.cookies = kept
    assert 502 == browser.send("GET", path).status_code


def test_only_pages_of_our_own_come_next(app: FastAPI) -> None:
    for goal in ("https://evil.example.com/", "//evil.example.com", "/ui/../api/v1/me", "/ui/\u202e"):
        assert 'content="0; url=/ui/"' in Browser(app).identify("root", goal).text


def test_sessions_end_with_the_provider_that_gave_them(
    app: FastAPI, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Browser(app)
    browser.identify("root")
    monkeypatch.setattr(service, "plan", replace(service.plan, tables={}, sso=None))

    assert 401 == browser.send("GET", "/api/v1/me").status_code
    assert "Sign in with" not in browser.send("GET", "/ui/login").text
    assert "not configured" in browser.send("GET", "/ui/login/away").text


def test_a_provider_that_is_away_is_named(app: FastAPI, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    sso = service.plan.sso
    assert sso is not None
    monkeypatch.setattr(service, "plan", replace(service.plan, sso=replace(sso, issuer="http://127.0.0.1:9")))
    answer = Browser(app).send("GET", "/ui/login/away")

    assert 502 == answer.status_code
    assert "Example cannot be reached" in answer.text
    assert 'name="token"' in answer.text, "the way in by token stays"
