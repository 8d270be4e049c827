"""A tiny world for alerts: a state on disk, findings by a few words, and a local server that behaves as told."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from gpuwatch.alerts.delivery.destination_guard import Guard
from gpuwatch.alerts.outbox.deliver import Deliverer
from gpuwatch.alerts.repository import Channels
from gpuwatch.core.clock import HOUR_US, SECOND_US, rfc3339
from gpuwatch.findings.read import Finding
from gpuwatch.state import State
from tests.worlds.patience import PATIENCE_S

T0_US = 1_793_577_600_000_000
"""Monday 2026-11-02T00:00:00Z."""

SLACK_URL = "https://hooks.slack.com/services/T0/B0/SecretSecretAbCd"


def finding(key: str = "f1", severity: str = "high", state: str = "open", **changed: Any) -> Finding:
    """A held and idle job that wasted 480 dollars in 24 hours."""
    ended = rfc3339(T0_US + 24 * HOUR_US) if state == "resolved" else None
    base = Finding(
        key=key,
        detector="idle-hoarding",
        title="GPUs held and idle",
        severity=severity,
        state=state,
        confidence=0.9,
        cluster="c1",
        subject={"kind": "job", "id": "4711", "name": "train-llm"},
        team="red",
        user="alice",
        started_at=rfc3339(T0_US),
        ended_at=ended,
        last_seen_at=rfc3339(T0_US + 24 * HOUR_US),
        wasted_gpu_seconds="691200.000000",
        wasted_cost="480.00",
        currency="USD",
        bucket="hoarded",
        summary="8 of 8 devices idle: 192 device-hours in 1 idle run.",
        remedy="Release the devices.",
        evidence={"idle_devices": 8, "longest_idle_minutes": 1440.0, "thresholds": {"idle_us_min": 1.0}},
        devices=["GPU-a"],
        nodes=["n1"],
        suppressed_by=None,
        resolved_reason="condition ended" if state == "resolved" else None,
    )
    return replace(base, **changed)


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    now_us: int = T0_US + 25 * HOUR_US

    def __call__(self) -> int:
        return self.now_us

    def forward(self, seconds: float) -> None:
        """Moves it on."""
        self.now_us += int(seconds * SECOND_US)


@dataclass(frozen=True)
class Request:
    """A request as it came; names of headers in lower case."""

    headers: dict[str, str]
    body: bytes


@dataclass
class Hook:
    """A receiver on 127.0.0.1. Each request takes the next of `answers`; the last one stays."""

    answers: list[int | str]
    """A status, or "hang", "close", "torn", "redirect", "gone" or "echo"."""
    headers: dict[str, str] = field(default_factory=dict)
    bodies: list[Any] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)
    on_request: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        """Where it listens, with a secret path."""
        return f"http://127.0.0.1:{self.port}/services/SecretSecretAbCd"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Notes the request and answers it as told."""
        raw = await request.read()
        self.requests.append(Request({name.lower(): value for name, value in request.headers.items()}, raw))
        self.bodies.append(json.loads(raw))
        self.keys.append(request.headers.get("Idempotency-Key", ""))
        self.paths.append(request.path)
        self.on_request()
        result = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if result == "hang":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.released.wait(), PATIENCE_S)
            return web.Response(text="ok")
        if result == "torn":
            torn = web.StreamResponse(status=500, headers={"Content-Length": "100"})
            await torn.prepare(request)
            await torn.write(b"half")
            assert request.transport is not None
            request.transport.close()
            return torn
        if result == "close":
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if result == "redirect":
            return web.Response(status=302, headers={"Location": f"http://127.0.0.1:{self.port}/elsewhere"})
        if result == "gone":
            return web.Response(status=404, text="no_service")
        if result == "echo":
            return web.Response(status=400, text=self.url)
        status = int(result)
        return web.Response(status=status, text="ok" if status == 200 else "later", headers=self.headers)


@asynccontextmanager
async def hook(*answers: int | str, port: int = 0, **headers: str) -> AsyncIterator[Hook]:
    """A running receiver."""
    receiver = Hook(list(answers), {name.replace("_", "-"): value for name, value in headers.items()})
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        receiver.released.set()
        await runner.cleanup()


def deliverer(state: State, clock: Clock, **options: Any) -> Deliverer:
    """A deliverer that may send to this machine."""
    options = {"allow_private": ["127.0.0.1"], "base_url": "https://gpuwatch.example", **options}
    return Deliverer(state, clock, **options)


def add_channel(state: State, url: str = SLACK_URL, **item: Any) -> None:
    """A channel `ops` unless named otherwise; it may be on this machine."""
    Channels(state, Guard.of(["127.0.0.1"])).put({"name": "ops", "url": url, **item}, "ann", T0_US)


def lines(receiver: Hook) -> list[str]:
    """The line that decides of each Slack message that came."""
    return [body["blocks"][0]["text"]["text"].partition("\n")[0] for body in receiver.bodies]


def several(count: int, state: str = "open", severity: str = "high") -> Sequence[Finding]:
    """Findings f0, f1, ..., the first the dearest."""
    return [finding(f"f{i}", severity, state, wasted_cost=f"{1000 - i}.00") for i in range(count)]
