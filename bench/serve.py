"""The service at a month of a large fleet: how soon the API answers, how soon the first page shows its numbers.

`python -m bench.serve DIRECTORY NOW_US` prints the figures as JSON; DIRECTORY holds `data`, whose last day ends at NOW_US.
"""

from __future__ import annotations

import http.client
import json
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench import programs

REQUESTS = 30
PAGES = 5
ANALYSED_S = 300
"""How long the first pass, which also ends the retention of the older half, may take."""
PAGE_WAIT_MS = 60_000
QUERIES = {
    "findings": "findings?window=30d",
    "findings, the dearest open 4": "findings?state=open&sort=cost&limit=4",
    "jobs": "jobs?window=30d",
    "jobs of a team": "jobs?window=30d&team=vision",
    "jobs, 7 days": "jobs?window=7d",
    "slices": "slices?window=30d",
    "chargeback by team": "chargeback?window=30d&by=team",
    "ledger by bucket": "ledger?window=30d&by=bucket",
    "ledger by bucket, each day": "ledger?window=30d&by=bucket&step=1d",
    "fleet": "fleet",
    "quality": "quality",
}
FIRST_NUMBER = ".headlines .value"
"""What Overview shows first: the cost of the window, and four shares."""

Facts = dict[str, object]


def measure(directory: Path, now_us: int) -> Facts:
    """Serves the store as if it were `now_us`, and asks it."""
    with programs.gpuwatch(directory / "serve", "", data=directory / "data", now_us=now_us) as process:
        waited = _analysed()
        facts: Facts = {"first_pass_s": waited, "pages": _pages(), "api": _api(process.pid)}
        facts["peak_rss_mb"] = programs.peak_mb(process.pid)
    return facts


def _analysed() -> float:
    """Waits for the first pass; its seconds. Raises RuntimeError when it fails or takes longer than ANALYSED_S."""
    deadline = time.time() + ANALYSED_S
    while time.time() < deadline:
        metrics = programs.own_metrics()
        if metrics.get('gpuwatch_analyses_total{outcome="failed"}'):
            raise RuntimeError("the first pass of the analysis failed; the log of the service says why")
        if metrics.get('gpuwatch_analyses_total{outcome="ok"}'):
            return metrics["gpuwatch_analysis_seconds"]
        time.sleep(0.5)
    raise RuntimeError(f"the first pass of the analysis took longer than {ANALYSED_S} s")


def _api(pid: int) -> dict[str, Facts]:
    """Milliseconds from request to the last byte over one connection, and what came."""
    connection = http.client.HTTPConnection("127.0.0.1", programs.GPUWATCH, timeout=120)
    found: dict[str, Facts] = {}
    for name, path in QUERIES.items():
        taken, status, content = [], 0, b""
        before = programs.cpu_s(pid)
        for _ in range(1 + REQUESTS):
            start = time.perf_counter()
            connection.request("GET", f"/api/v1/{path}")
            answer = connection.getresponse()
            content = answer.read()
            taken.append((time.perf_counter() - start) * 1000)
            status = answer.status
        body: Any = json.loads(content)
        found[name] = {
            "status": status,
            "items": len(body.get("items", [])) if isinstance(body, dict) else None,
            "bytes": len(content),
            "cpu_ms": (programs.cpu_s(pid) - before) / len(taken) * 1000,
            "first_ms": taken[0],
            "p50_ms": statistics.median(taken[1:]),
            "p95_ms": statistics.quantiles(taken[1:], n=20)[-1],
        }
    connection.close()
    return found


def _pages() -> Facts | None:
    """Seconds to the first number of Overview: the first ever, with an empty cache, with a full one.

    None without a browser; `error` says why no number came.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import Browser, BrowserContext, Error, sync_playwright

    def seconds(context: BrowserContext) -> float:
        page = context.new_page()
        start = time.perf_counter()
        page.goto(f"http://127.0.0.1:{programs.GPUWATCH}/ui/", wait_until="commit")
        page.wait_for_selector(FIRST_NUMBER, timeout=PAGE_WAIT_MS)
        taken = time.perf_counter() - start
        page.close()
        return taken

    def cold(browser: Browser) -> float:
        with browser.new_context() as context:
            return seconds(context)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            first = cold(browser)
            empty = [cold(browser) for _ in range(PAGES)]
            with browser.new_context() as context:
                seconds(context)
                full = [seconds(context) for _ in range(PAGES)]
        except Error as error:
            return {"error": str(error).splitlines()[0]}
        finally:
            browser.close()
    return {"first_s": first, "empty_cache_s": statistics.median(empty), "full_cache_s": statistics.median(full)}


def main(directory: str, now_us: str) -> None:
    """Prints the figures."""
    print(json.dumps(measure(Path(directory), int(now_us))))


if __name__ == "__main__":
    main(*sys.argv[1:])
