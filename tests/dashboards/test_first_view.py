"""What a browser shows before its scripts have run, and what is drawn once for several readers."""

from __future__ import annotations

import asyncio
import re
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from dash import dcc, html
from dash.development.base_component import Component

from gpuwatch.dashboards.app import mount
from gpuwatch.dashboards.client import Caller, Client
from gpuwatch.dashboards.shell import direct
from gpuwatch.dashboards.shell import views as views_module
from gpuwatch.dashboards.shell.markup import markup
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.views import View, Views
from tests.dashboards import fake_api
from tests.dashboards.fake_names import HOSTILE

COOKIE = {"Cookie": f"gpuwatch_session={fake_api.READ}"}


def opened(path: str, mode: str = "ok", tokens: bool = False, **headers: str) -> httpx.Response:
    """The document of an address."""
    app = fake_api.create(mode, tokens)
    mount(app)

    async def go() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return await http.get(path, headers=headers)

    return asyncio.run(go())


def first(response: httpx.Response) -> str:
    """What the document shows by itself; empty for nothing."""
    found = re.search('<div id="first">(.*)</div><div id="react-entry-point">', response.text.replace("\n", ""))
    return found[1] if found else ""


@pytest.mark.parametrize(
    ("mode", "tokens", "headers", "path"),
    [
        pytest.param("ok", True, {}, "/ui/", id="nobody has signed in"),
        pytest.param("ok", False, {"Sec-Fetch-Site": "cross-site"}, "/ui/", id="another site opens it"),
        pytest.param("500", False, {}, "/ui/", id="the API fails"),
        pytest.param("ok", False, {}, "/ui/nowhere", id="there is no such page"),
    ],
)
def test_the_document_shows_nothing_when(mode: str, tokens: bool, headers: dict[str, str], path: str) -> None:
    response = opened(path, mode, tokens, **headers)

    assert (200, "") == (response.status_code, first(response))
    assert "<!--first-->" not in response.text


def test_the_document_shows_the_numbers_of_its_page() -> None:
    shown = first(opened("/ui/"))

    assert '<div class="headlines">' in shown
    assert 'class="entry current"' in shown
    assert "<script" not in shown
    assert " id=" not in shown


def test_a_page_that_takes_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The document shows its outline, and the page is drawn all the same."""
    monkeypatch.setattr(direct, "FIRST_S", 0.0)
    shown = first(opened("/ui/"))

    assert '<div class="skeleton" role="status">' in shown
    assert 'class="num' not in shown


def test_a_session_is_shown_its_page() -> None:
    assert '<div class="headlines">' in first(opened("/ui/", tokens=True, **COOKIE))


def test_names_in_the_document_are_text() -> None:
    """A browser reads no element in the names of teams."""

    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: set[str] = set()
            self.words = ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found.add(tag)
            assert not [name for name, _ in attrs if name.startswith("on")]

        def handle_data(self, data: str) -> None:
            self.words += data

    tags = Tags()
    tags.feed(first(opened("/ui/teams")))

    assert tags.found.isdisjoint({"script", "img", "iframe", "style", "form"})
    assert HOSTILE[:20] in tags.words


def test_the_scripts_are_named_before_the_page_is_drawn() -> None:
    response = opened("/ui/")
    sources = re.findall('<script src="([^"]+)"', response.text)

    assert [f"<{source}>; rel=preload; as=script" for source in sources] == response.headers["link"].split(", ")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(html.Div(["a", None, 1, html.B("<&")]), "<div>a1<b>&lt;&amp;</b></div>", id="children"),
        pytest.param(html.A("x", href="javascript:alert(1)"), "<a>x</a>", id="no address that is a script"),
        pytest.param(dcc.Link("x", href="/ui/?a=1&b=2"), '<a href="/ui/?a=1&amp;b=2">x</a>', id="a link"),
        pytest.param(html.Span(title='"x"', className="a b", id="i"), '<span class="a b" title="&quot;x&quot;"></span>', id="no id"),
        pytest.param(html.Div(style={"minHeight": "2px", "--fill": "a;b"}), '<div style="min-height:2px;--fill:ab"></div>', id="style"),
        pytest.param(dcc.Graph(style={"height": "9px"}), '<div style="height:9px"></div>', id="a chart keeps its place"),
        pytest.param(dcc.Store(id="s"), "", id="what shows nothing"),
        pytest.param(html.Button("Go"), "<button inert>Go</button>", id="a button does nothing yet"),
    ],
)  # fmt: skip
def test_a_component_as_html(node: Component, expected: str) -> None:
    assert expected == markup(node).replace('inert=""', "inert")


def test_a_page_is_drawn_once_for_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """And again as soon as one of them differs: for other data as for a token that sees other data."""
    drawn: list[object] = []
    layout = views_module._content
    monkeypatch.setattr(views_module, "_content", lambda *words: drawn.append(1) or layout(*words))
    app = fake_api.create("ok", True)
    views = Views(Client(app))

    def text(cookie: str, path: str = "/quality", scheme: Any = "light") -> str:
        view = asyncio.run(views.draw(Caller(cookie=cookie), Query(path), scheme))
        assert not view.failed
        return view.json

    once = text(fake_api.READ)
    assert once == text(fake_api.READ)
    assert 1 == len(drawn)
    text(fake_api.GOOD)  # its name and scope differ
    text(fake_api.READ, scheme="dark")
    text(fake_api.READ, "/reports")
    assert 4 == len(drawn)


def test_what_is_kept_has_a_bound() -> None:
    views = Views(Client(fake_api.create()), bytes_max=1)
    assert not asyncio.run(views.draw(Caller(), Query("/quality"), "light")).failed

    assert 0 == views.bytes


def test_numbers_that_are_none_are_null() -> None:
    assert '"children":null' in View(html.Div(float("nan"))).json
