"""The library of the charts, which is larger than the rest of a page, loads when the first chart comes near the screen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: the pages are not tried in a browser")
pytest.importorskip("dash", reason="dash is not installed: there are no pages")

from playwright.sync_api import Browser, Page, expect

from gpuwatch.dashboards.app import mount
from tests.dashboards import fake_api
from tests.dashboards.capacity.test_fleet_pages import fleet, gpu
from tests.e2e.dashboard import served
from tests.worlds.patience import PATIENCE_MS

LIBRARY = "plotly"
SHORT = {"width": 1440, "height": 500}
"""The chart of the overview lies below this screen."""
COLD_MAX = 1_300_000
"""Bytes that a browser with an empty cache may load for a page with a chart. The target is 2 MB."""
FURTHER_MAX = 100_000


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The pages over canned answers."""
    app = fake_api.create()
    app.add_api_route("/api/v1/gpus", lambda: fleet(gpu(0), gpu(1)))
    mount(app)
    with served(app) as address:
        yield address


@pytest.fixture
def overview(browser: Browser, base: str) -> Iterator[tuple[Page, list[str]]]:
    """The overview, drawn, and the scripts of charts that it asked for."""
    with browser.new_context(viewport=SHORT) as context:  # type: ignore[arg-type]
        page, asked = context.new_page(), list[str]()
        page.on("request", lambda request: asked.append(request.url) if LIBRARY in request.url else None)
        page.goto(f"{base}/ui/")
        page.locator("#page:not(.busy) .chart").first.wait_for(state="attached", timeout=PATIENCE_MS)
        page.wait_for_function("() => !document.getElementById('first')")
        yield page, asked


def test_a_chart_below_the_screen_loads_nothing_until_it_is_near(overview: tuple[Page, list[str]]) -> None:
    page, asked = overview
    chart = page.locator("#page .chart").first
    assert [] == asked
    before = chart.bounding_box()

    chart.scroll_into_view_if_needed()
    expect(chart.locator(".main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    after = chart.bounding_box()

    assert 1 == len(asked)
    assert before is not None and after is not None
    assert before["height"] == after["height"], "its place was kept"


def test_a_page_that_is_printed_has_its_charts(overview: tuple[Page, list[str]]) -> None:
    page, asked = overview
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")

    expect(page.locator("#page .chart .main-svg").first).to_be_attached(timeout=PATIENCE_MS)
    assert 1 == len(asked)


@pytest.mark.parametrize(
    ("path", "drawn"),
    [
        pytest.param("/ui/", ".barlayer .point", id="bars"),
        pytest.param("/ui/budgets", ".scatterlayer .lines", id="lines"),
        pytest.param("/ui/fleet", ".heatmaplayer image", id="a heat map"),
    ],
)
def test_a_chart_is_drawn_with_little_to_load(browser: Browser, base: str, path: str, drawn: str) -> None:
    """Each kind of chart, opened first with an empty cache; another page then loads next to nothing."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page, loaded, problems = context.new_page(), list[float](), list[str]()
        page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        network = context.new_cdp_session(page)
        network.send("Network.enable")
        network.on("Network.loadingFinished", lambda event: loaded.append(event["encodedDataLength"]))
        page.goto(f"{base}{path}")
        page.locator("#page:not(.busy) .chart").first.scroll_into_view_if_needed(timeout=PATIENCE_MS)
        page.locator(f"#page .chart {drawn}").first.wait_for(state="attached", timeout=PATIENCE_MS)
        page.wait_for_load_state("networkidle")
        cold = sum(loaded)
        loaded.clear()
        page.goto(f"{base}/ui/budgets")
        page.locator("#page:not(.busy) .chart .scatterlayer .lines").first.wait_for(
            state="attached", timeout=PATIENCE_MS
        )
        page.wait_for_load_state("networkidle")

    assert cold < COLD_MAX
    assert 0 < sum(loaded) < FURTHER_MAX
    assert [] == problems
