"""The drawing of the fleet in a real browser: every GPU is drawn, it moves, and a click opens a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: the pages are not tried in a browser")
pytest.importorskip("dash", reason="dash is not installed: there are no pages")

from fastapi import FastAPI
from playwright.sync_api import Browser, expect

from gpuwatch.dashboards.app import mount
from tests.dashboards import fake_api, fake_map
from tests.e2e.dashboard import served
from tests.worlds.patience import FACTOR, PATIENCE_MS

FIRST_MS = 1000 * FACTOR
FRAME_MS = 33
MOVES = 20
MOVE = f"""async () => {{
  const canvas = document.querySelector(".fleetmap canvas"), box = canvas.getBoundingClientRect(), ms = [];
  const send = (type, by) => canvas.dispatchEvent(new PointerEvent(type, {{bubbles: true, pointerId: 1, isPrimary: true,
    buttons: 1, clientX: box.x + box.width / 2 + by, clientY: box.y + box.height / 2}}));
  canvas.setPointerCapture = () => 0;  // there is no pointer to capture
  send("pointerdown", 0);
  for (let n = 1; n <= {MOVES}; n += 1) {{
    const before = canvas.dataset.frames;
    send("pointermove", 2 * n);
    while (canvas.dataset.frames === before) await new Promise(requestAnimationFrame);
    ms.push(Number(canvas.dataset.ms));
  }}
  send("pointercancel", 0);
  return {{ms, pictures: Number(canvas.dataset.pictures), frames: Number(canvas.dataset.frames)}};
}}"""
"""Moves the drawing; the milliseconds of each frame, and how often the GPUs were drawn for it."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The pages over a fleet of 10,000 GPUs."""
    app = FastAPI()
    nodes = [fake_map.node(f"n{n}", f"leaf-{n // 16}", "hhhhffff") for n in range(1250)]
    answers: dict[str, Any] = fake_map.answers() | {"topology/map": fake_map.fleet(nodes)}
    for path, answer in answers.items():
        app.add_api_route(f"/api/v1/{path}", lambda answer=answer: answer)
    app.router.routes.extend(fake_api.create().router.routes)
    mount(app)
    with served(app) as address:
        yield address


def test_the_fleet_is_drawn_moved_and_opened(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(f"{base}/ui/topology?colour=free")
    canvas = page.locator(".fleetmap canvas[data-gpus='10000']")
    canvas.wait_for(timeout=PATIENCE_MS)
    frames = "Number(document.querySelector('.fleetmap canvas').dataset.frames)"
    assert float(canvas.get_attribute("data-first-ms") or "inf") < FIRST_MS
    before = page.evaluate(frames)
    canvas.focus()
    page.keyboard.press("+")
    page.wait_for_function(f"{frames} > {before}", timeout=PATIENCE_MS)
    page.keyboard.press("0")
    box = canvas.bounding_box()
    assert box is not None
    page.wait_for_timeout(100)
    # The first node of the first leaf: below its title, at the left edge.
    for down in range(10, 60, 4):
        page.mouse.click(box["x"] + 40, box["y"] + down)
        if "node=" in page.url:
            break
    page.get_by_role("heading", name="If a link fails").wait_for(timeout=PATIENCE_MS)

    assert "node=n" in page.url
    assert "colour=free" in page.url
    expect(page.locator(".fleetmap canvas")).to_have_attribute("role", "img")
    assert [] == problems
    page.close()


def test_ten_thousand_gpus_are_moved_as_a_picture(base: str, browser: Browser) -> None:
    """Only the first frame of a movement draws the GPUs. A frame may take 33 ms: 30 in a second."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{base}/ui/topology")
    canvas = page.locator(".fleetmap canvas[data-gpus='10000']")
    canvas.wait_for(timeout=PATIENCE_MS)
    page.wait_for_load_state("networkidle")
    moved: dict[str, Any] = page.evaluate(MOVE)
    page.wait_for_function(
        "last => Number(document.querySelector('.fleetmap canvas').dataset.frames) > last",
        arg=moved["frames"],
        timeout=PATIENCE_MS,
    )

    assert 1 == moved["pictures"]
    assert MOVES == len(moved["ms"])
    assert sorted(moved["ms"])[MOVES // 2] < FRAME_MS
    page.close()


def test_a_request_is_tried_on_the_capacity_page(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{base}/ui/capacity?cluster=c1")
    page.get_by_role("heading", name="8 GPUs on one node do not fit now").wait_for(timeout=PATIENCE_MS)
    page.get_by_label("Nodes x GPUs").fill("2x8")
    page.get_by_role("button", name="Try").click()
    page.get_by_role("heading", name="2 nodes with 8 GPUs each do not fit now").wait_for(timeout=PATIENCE_MS)

    assert "shape=2x8" in page.url
    assert "cluster=c1" in page.url
    page.close()
