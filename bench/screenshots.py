"""Pictures of the pages for docs/get-started/tour.md, taken from a running demo: `make screenshots`."""

from __future__ import annotations

import argparse
import io
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "get-started" / "tour"
WIDTH, HEIGHT = 1280, 800
COLORS = 96
"""Colors of a picture: enough for flat pages, and a third of the bytes."""
BYTES_MAX, TOTAL_MAX = 400_000, 3_000_000
START_S, PAGE_MS = 1200, 60_000
POLL_S = 0.5
PAGES = {
    "overview": "/ui/?window=7d",
    "teams": "/ui/teams?window=7d",
    "team": "/ui/team/nlp?window=7d",
    "finding": "/ui/findings/{finding}",
    "capacity": "/ui/capacity?window=7d",
    "topology": "/ui/topology",
    "mig": "/ui/mig?window=7d",
    "quality": "/ui/quality",
}
"""Name of the picture and address of the page."""


@contextmanager
def demo(data: Path, size: str) -> Iterator[str]:
    """The address of a demo that serves the pages; it is ended afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gpuwatch", "demo", "--data", str(data), "--size", size, "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        try:
            base = f"http://127.0.0.1:{port}"
            _wait(base, process)
            yield base
        finally:
            process.terminate()


def _wait(base: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"screenshots: the demo ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"{base}/readyz", timeout=POLL_S * 10):
                return
        except OSError:
            time.sleep(POLL_S)
    raise SystemExit(f"screenshots: the demo did not serve within {START_S} s")


def broken_gpu(base: str) -> str:
    """The key of a finding about a broken GPU, else of the most expensive one."""
    for query in ("state=open&detector=degraded-gpu", "detector=degraded-gpu", "limit=1"):
        with urllib.request.urlopen(f"{base}/api/v1/findings?{query}", timeout=PAGE_MS / 1000) as answer:
            if items := json.load(answer)["items"]:
                return quote(items[0]["key"], safe="")
    raise SystemExit("screenshots: the demo has no finding")


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((path for name in names if (path := shutil.which(name))), None)
    if program is None:
        raise SystemExit("screenshots: install chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


def show(tab: Page, url: str) -> None:
    """Opens a page and waits until it is drawn."""
    tab.goto(url, wait_until="networkidle", timeout=PAGE_MS)
    tab.wait_for_selector("h1", timeout=PAGE_MS)
    tab.wait_for_timeout(POLL_S * 1000)


def take(base: str, out: Path) -> None:
    """Writes the pictures."""
    key = broken_gpu(base)
    with browser() as running:
        tab = running.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", timezone_id="UTC")
        for name, address in PAGES.items():
            show(tab, base + address.format(finding=key))
            picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
            picture.quantize(COLORS, dither=Image.Dither.NONE).save(out / f"{name}.png", optimize=True)


def check(out: Path) -> None:
    """Refuses pictures that are too large for the repository."""
    sizes = {name: (out / f"{name}.png").stat().st_size for name in PAGES}
    large = [f"{name} {size:,}" for name, size in sizes.items() if size > BYTES_MAX]
    if large or sum(sizes.values()) > TOTAL_MAX:
        raise SystemExit(f"screenshots: {', '.join(large) or 'all'} of {sum(sizes.values()):,} bytes: too large")
    print(f"{len(sizes)} pictures, {sum(sizes.values()):,} bytes, in {out}")


def main() -> None:
    """Starts the demo, takes the pictures, and checks their size."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, default=ROOT / "build" / "screenshots", help="data directory of the demo")
    options.add_argument("--size", default="full", help="size of the demo")
    options.add_argument("--out", type=Path, default=OUT)
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    chosen.data.mkdir(parents=True, exist_ok=True)
    with demo(chosen.data, chosen.size) as base:
        take(base, chosen.out)
    check(chosen.out)


if __name__ == "__main__":
    main()
