"""The morning's questions within their clicks on a real store: the small demo, or the service named by GPUWATCH_TEST_QUESTIONS_AT."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: the pages are not tried in a browser")
pytest.importorskip("dash", reason="dash is not installed: there are no pages")

from playwright.sync_api import Browser, expect

from tests.e2e.visitor import WIDTHS, Visitor, visiting
from tests.worlds.patience import PATIENCE_MS, PATIENCE_S, wait_until

pytestmark = pytest.mark.slow
DEMO_S = 240
ROOT = Path(__file__).parents[2]
MONEY = r"\$[\d,.]+( k)?"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the demo, or of the service that runs already."""
    if address := os.environ.get("GPUWATCH_TEST_QUESTIONS_AT"):
        yield address.rstrip("/")
        return
    folder = tmp_path_factory.mktemp("questions")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gpuwatch", "demo", "--size", "small", "--data", str(folder), "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            wait_until(lambda: _serves(port) or process.poll() is not None, "the demo serves", DEMO_S)
            assert process.poll() is None, (folder / "log").read_text("utf-8")[-2000:]
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


def _serves(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE_S):
            return True
    except OSError:
        return False


@pytest.fixture(params=WIDTHS, ids=["desktop", "phone"])
def visitor(browser: Browser, base: str, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """A visitor with a desktop or a phone."""
    with visiting(browser, base, request.param) as one:
        yield one


def test_what_to_do_first_and_which_team_wasted_most(visitor: Visitor) -> None:
    """No click for what to do and for the team; one for why, with the same team on its page."""
    first = visitor.page.locator(".do-first li").first
    expect(first).to_contain_text(re.compile(MONEY), timeout=PATIENCE_MS)
    expect(first.get_by_role("link").nth(1)).to_be_visible()
    team = visitor.page.locator(".teams-waste tbody tr a").first
    name = team.inner_text()
    visitor.click(team, "/ui/team/")
    visitor.reads("What to change first", rf"{MONEY}\s+of {MONEY} was avoidable")
    expect(visitor.page.locator(".who-line")).to_contain_text(name)

    assert 1 == visitor.clicks


def test_which_jobs_move_where_and_why_a_large_job_cannot_start(visitor: Visitor) -> None:
    """From the loss of stranded GPUs to the moves, or to why no move helps."""
    visitor.click(visitor.page.get_by_role("link", name="Show moves").first, "/ui/capacity")
    visitor.reads(
        r"\d+ requests? waits?\b|No request waits",
        r"GPUs? on one node (do not fit|would fit) now",
        "Free GPUs on their nodes",
    )
    visitor.reads(r"the largest has \d+|Move |moved|fits now")

    assert 1 == visitor.clicks


def test_what_a_slice_cost_and_who_held_it(visitor: Visitor) -> None:
    visitor.nav("MIG", "/ui/mig")
    visitor.click(visitor.page.locator("#page section a[href*='/ui/mig/']").first, "/ui/mig/GPU-")
    visitor.reads(MONEY, "who held them")

    assert 2 == visitor.clicks


def test_what_if_idle_gpus_were_taken_back(visitor: Visitor) -> None:
    visitor.nav("What if", "/ui/what-if")
    visitor.reads(r"A limit of 15 min would have returned [\d.,]+ GPU-(h|min)", r"jobs? would have lost a GPU|No job")

    assert 1 == visitor.clicks


def test_the_team_pays_the_same_on_its_page_in_charges_and_in_the_file(visitor: Visitor, base: str) -> None:
    """In a window that is over, to the dollar."""
    window = "yesterday"
    visitor.page.goto(f"/ui/teams?window={window}")
    visitor.wait()
    row = visitor.page.locator("#page table tbody tr").first
    name = row.locator("a.title").inner_text()
    listed = row.locator("a.why").first.inner_text().replace(",", "")
    with urllib.request.urlopen(
        f"{base}/api/v1/chargeback?window={window}&by=team&format=csv", timeout=PATIENCE_S
    ) as file:
        lines = [line.split(",") for line in file.read().decode().splitlines()]
    paid = sum(float(line[lines[0].index("cost")]) for line in lines[1:] if line[0] == name)
    visitor.page.goto(f"/ui/team/{name}?window={window}")
    visitor.wait()

    assert abs(paid - float(listed)) <= 0.5, (name, paid, listed)
    charged = visitor.page.locator(".headline", has_text="Charged").locator(".value").inner_text()
    assert abs(paid - float(charged.strip("$").replace(",", ""))) <= 0.5, (name, paid, charged)
