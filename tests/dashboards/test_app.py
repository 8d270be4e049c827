"""The app under /ui/: its answers, headers and callbacks as a browser sends them."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from gpuwatch.dashboards.app import mount
from gpuwatch.dashboards.shell.responses import MAX_BODY
from tests.dashboards import fake_api

SHOW = "..page.children...digest.data...message.children...title.data.."
UPDATE = "/ui/_dash-update-component"


def made(mode: str = "ok", tokens: bool = False) -> FastAPI:
    """The fake API with the pages on it."""
    app = fake_api.create(mode, tokens)
    mount(app)
    return app


def send(app: FastAPI, method: str, path: str, **more: Any) -> httpx.Response:
    """One request of a browser."""

    async def go() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return await http.request(method, path, **more)

    return asyncio.run(go())


def show(app: FastAPI, path: str, search: str = "", **more: Any) -> str:
    """What the routing callback answers for an address: the page as JSON text."""
    names = re.findall(r"([\w-]+)\.(\w+)", SHOW)
    body = {
        "output": SHOW,
        "outputs": [{"id": name, "property": prop} for name, prop in names],
        "inputs": [
            {"id": "url", "property": "pathname", "value": path},
            {"id": "url", "property": "search", "value": search},
            {"id": "ground", "property": "data", "value": "dark"},
        ],
        "changedPropIds": ["url.pathname"],
    }
    response = send(app, "POST", UPDATE, json=body, **more)
    assert 200 == response.status_code, response.text
    return json.dumps(response.json()["response"]["page"]["children"])


def test_every_address_opens_the_one_document() -> None:
    app = made()
    for path in ("/ui", "/ui/", "/ui/findings/idle-1", "/ui/jobs/a/b?team=x"):
        response = send(app, "GET", path)

        assert 200 == response.status_code
        assert "_dash-renderer" in response.text


@pytest.mark.parametrize(
    ("method", "path", "accept", "expected"),
    [
        pytest.param("GET", "/findings", "text/html,*/*;q=0.8", "/ui/findings", id="a page"),
        pytest.param("HEAD", "/teams?team=a%20b&window=24h", "text/html", "/ui/teams?team=a%20b&window=24h", id="filters are kept"),
        pytest.param("GET", "/jobs/sandbox/nb-4336", "text/html", "/ui/jobs/sandbox/nb-4336", id="a job"),
        pytest.param("GET", "/findings//example.com", "text/html", "/ui/findings//example.com", id="never another site"),
        pytest.param("GET", "/findings", "application/json", None, id="a program"),
        pytest.param("GET", "/findings", "*/*", None, id="curl"),
        pytest.param("GET", "/nowhere", "text/html", None, id="no page"),
        pytest.param("GET", "/api/v1/nowhere", "text/html", None, id="a route that is none"),
        pytest.param("POST", "/findings", "text/html", None, id="nothing is sent on"),
    ],
)  # fmt: skip
def test_a_browser_without_ui_is_sent_to_the_page(method: str, path: str, accept: str, expected: str | None) -> None:
    response = send(made(), method, path, headers={"accept": accept})

    assert (404 if expected is None else 307) == response.status_code
    assert expected == response.headers.get("location")


def chosen(pathname: str, search: str, filtered: str, team: str | None) -> Any:
    """What the filters' callback answers when a team is chosen at an address; None if nothing."""
    control = {"id": {"filter": "team"}, "property": "value", "value": team}
    body = {
        "output": "wanted.data",
        "outputs": {"id": "wanted", "property": "data"},
        "inputs": [[control]],
        "changedPropIds": ['{"filter":"team"}.value'],
        "state": [
            {"id": "url", "property": "pathname", "value": pathname},
            {"id": "url", "property": "search", "value": search},
            {"id": "filtered", "property": "data", "value": filtered},
        ],
    }
    response = send(made(), "POST", UPDATE, json=body)
    return response.json()["response"].get("wanted", {}).get("data")


def test_a_chosen_filter_belongs_to_its_address() -> None:
    """The browser compares `at` with its address bar: after a Back meanwhile, nothing is changed."""
    assert {"at": "/ui/jobs?window=24h", "search": "?window=24h&team=nlp"} == chosen(
        "/ui/jobs", "?window=24h", "/ui/jobs?window=24h", "nlp"
    )
    assert None is chosen("/ui/jobs", "?team=nlp", "/ui/jobs?team=nlp", "nlp")
    assert None is chosen("/ui/jobs", "", "/ui/jobs?team=nlp", "nlp")


def test_what_looks_like_a_file_and_is_none_is_not_there() -> None:
    app = made()
    for path in ("/ui/assets/nothing.css", "/ui/_dash-component-suites/os/nothing.js", "/ui/assets/%2e%2e/app.py"):
        assert 404 == send(app, "GET", path).status_code


def test_the_policy_allows_this_site_only() -> None:
    policy = send(made(), "GET", "/ui/").headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))

    assert "'none'" == rules["default-src"]
    assert "'self'" == rules["connect-src"]
    assert "unsafe" not in rules["script-src"]
    assert 9 == rules["script-src"].count("sha256-")
    assert ("'none'", "'self'") == (rules["frame-ancestors"], rules["form-action"])


def test_the_document_fetches_nothing_from_elsewhere() -> None:
    text = send(made(), "GET", "/ui/").text

    assert [] == re.findall(r"(?:src|href)=\"(?:https?:)?//[^\"]*", text)
    assert "plotly.min.js" not in text.replace("async-plotlyjs", "")
    assert "plotly-cartesian" not in text


def test_bundles_are_compressed_once_and_kept_by_the_browser() -> None:
    app = made()
    bundle = re.findall(r'src="([^"]+dash_mantine_components[^"]+)"', send(app, "GET", "/ui/").text)[0]
    first, second = (send(app, "GET", bundle, headers={"accept-encoding": "gzip"}) for _ in range(2))

    assert "gzip" == first.headers["content-encoding"] == second.headers["content-encoding"]
    assert "public, max-age=31536000" == second.headers["cache-control"]
    assert first.content == second.content
    assert int(second.headers["content-length"]) < len(second.content) / 2
    assert len(second.content) == int(
        send(app, "GET", bundle, headers={"accept-encoding": ""}).headers["content-length"]
    )


def test_the_pages_are_not_kept() -> None:
    assert "no-store" == send(made(), "GET", "/ui/jobs").headers["cache-control"]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"origin": "https://evil.example"}, id="another origin"),
        pytest.param({"sec-fetch-site": "cross-site"}, id="another site"),
        pytest.param({"origin": "null"}, id="no origin of its own"),
    ],
)
def test_another_site_cannot_use_the_callbacks(headers: dict[str, str]) -> None:
    assert 403 == send(made(), "POST", UPDATE, json={}, headers=headers).status_code


def test_a_body_without_an_end_is_not_read() -> None:
    response = send(
        made(), "POST", UPDATE, content=b"{" + b" " * (MAX_BODY + 10), headers={"content-type": "application/json"}
    )

    assert 400 == response.status_code


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{}", id="no output"),
        pytest.param(b'{"output": "a.b", "outputs": {}, "inputs": []}', id="an output that nobody makes"),
        pytest.param(b'{"output": "%s", "inputs": 7}' % SHOW.encode(), id="inputs that are none"),
    ],
)
def test_a_callback_request_without_sense_is_refused(body: bytes) -> None:
    response = send(made(), "POST", UPDATE, content=body, headers={"content-type": "application/json"})

    assert 400 == response.status_code
    assert "Traceback" not in response.text


def test_other_methods_are_refused() -> None:
    assert 405 == send(made(), "DELETE", "/ui/jobs").status_code


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/ui/", "Do first", id="the overview"),
        pytest.param("/ui/findings/idle-hoarding-0002", "GPUs held", id="a finding"),
        pytest.param("/ui/jobs/sandbox/nb-4336", "sandbox/nb-4336", id="a job with a slash"),
        pytest.param("/ui/findings/nonsense", "Not found", id="a finding that is none"),
        pytest.param("/ui/nowhere", "No page has the address /nowhere", id="no page"),
    ],
)
def test_an_address_shows_its_page(path: str, expected: str) -> None:
    assert expected in show(made(), path)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("403", "You don't have access to this", id="forbidden"),
        pytest.param("500", "This could not be loaded", id="broken"),
    ],
)
def test_a_failing_api_is_a_state_of_the_page(mode: str, expected: str) -> None:
    assert expected in show(made(mode), "/ui/jobs")


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        pytest.param("/ui/jobs", "ok", id="a page"),
        pytest.param("/ui/nowhere", "ok", id="no page"),
        pytest.param("/ui/findings/nonsense", "ok", id="a finding that is none"),
        pytest.param("/ui/jobs", "403", id="forbidden"),
        pytest.param("/ui/jobs", "500", id="broken"),
        pytest.param("/ui/decisions", "500", id="broken below its heading"),
    ],
)
def test_whatever_is_shown_has_one_heading_of_the_page(path: str, mode: str) -> None:
    """People who hear a page find its first heading by its level."""
    assert 1 == show(made(mode), path).count('"type": "H1"')


def test_the_cookie_is_the_token_of_the_pages() -> None:
    app = made(tokens=True)

    assert "Sign in to see this" in show(app, "/ui/jobs")
    assert "resnet-ddp" in show(app, "/ui/jobs", headers={"cookie": f"gpuwatch_session=session-{fake_api.GOOD}"})


def test_the_token_is_not_in_what_a_page_holds() -> None:
    """The routing callback answers with everything the browser keeps."""
    app = made(tokens=True)

    assert fake_api.GOOD not in show(app, "/ui/", headers={"cookie": f"gpuwatch_session=session-{fake_api.GOOD}"})


def test_a_page_that_cannot_be_drawn_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_api, "QUALITY", {"items": "nonsense", "checks": 7})

    assert "could not be drawn" in show(made(), "/ui/quality")


def test_the_api_beside_the_pages_stays_its_own() -> None:
    """Unknown routes of the API are no pages, and Dash does not wrap its answers."""
    app = made()

    assert 404 == send(app, "GET", "/api/v1/nothing").status_code
    assert 404 == send(app, "GET", "/nothing").status_code
    assert "content-security-policy" not in send(app, "GET", "/api/v1/me").headers


PLOTLY = "/ui/_dash-component-suites/plotly/package_data/plotly.min.js"


def test_a_bundle_without_a_version_is_asked_about_and_not_sent_again() -> None:
    app = made()
    packed = {"Accept-Encoding": "gzip"}
    first = send(app, "GET", PLOTLY, headers=packed)
    again = send(app, "GET", PLOTLY, headers={**packed, "If-None-Match": first.headers["etag"]})
    other = send(app, "GET", PLOTLY, headers={**packed, "If-None-Match": '"another"'})

    assert ("no-cache", '"') == (first.headers["cache-control"], first.headers["etag"][0])
    assert (304, b"") == (again.status_code, again.content)
    assert "content-length" not in again.headers  # uvicorn breaks the connection where it promises what never comes
    assert (200, first.content) == (other.status_code, other.content)


def test_the_library_of_the_charts_is_small_and_kept_by_the_browser() -> None:
    """The file that charts.js names; of the bundle of Dash, three times as large, nothing is loaded."""
    app = made()
    [address] = re.findall(r'new URL\("([^"]+)", document', send(app, "GET", "/ui/assets/charts.js").text)
    first, second = (send(app, "GET", f"/ui/assets/{address}", headers={"accept-encoding": "gzip"}) for _ in range(2))

    assert "plotly.js (cartesian - minified) v4.1.1" in first.text[:100]
    assert "public, max-age=31536000, immutable" == first.headers["cache-control"]
    assert int(first.headers["content-length"]) < 500_000
    assert first.content == second.content
