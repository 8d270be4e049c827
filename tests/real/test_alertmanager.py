"""A real Alertmanager takes what fires, keeps it firing while it is pushed again, and tells its receivers of the end."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.alerts.changes import enqueue
from gpuwatch.alerts.outbox.deliver import listing
from gpuwatch.core.clock import MINUTE_US, SECOND_US, rfc3339
from gpuwatch.findings.read import Finding
from gpuwatch.state import State
from tests.worlds.alerts import Hook, add_channel, deliverer, finding, hook
from tests.worlds.patience import FACTOR, PATIENCE_S, wait_until, wait_until_async
from tests.worlds.ports import free_port

PROGRAM = "prometheus-alertmanager"
POLL_S = 0.1
LASTS_S = 300
"""resolve_minutes of the channel, in seconds."""
LEFT_S = round(10 * FACTOR)
"""How long the first push still lasts: Alertmanager must show it within that."""


@dataclass
class Manager:
    """A running Alertmanager; it tells a receiver at `hook_port`."""

    port: int
    hook_port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def alerts(self) -> list[dict[str, Any]]:
        """What it knows to fire."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=PATIENCE_S) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found

    def firing(self) -> set[tuple[str, str]]:
        """Finding and severity of each alert."""
        return {(one["labels"]["finding"], one["labels"]["severity"]) for one in self.alerts()}


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    yield from started(tmp_path, "  webhook_configs:\n  - {url: 'http://127.0.0.1:PORT/', send_resolved: true}\n")


@pytest.fixture
def pager(tmp_path: Path) -> Iterator[Manager]:
    """It calls PagerDuty and Opsgenie as docs/act/alerts.md configures them, but at an address of this machine."""
    block = documented_receiver().replace(
        "routing_key_file: /etc/alertmanager/pagerduty", "routing_key: 0123, url: http://127.0.0.1:PORT/pagerduty"
    )
    block = block.replace(
        "api_key_file: /etc/alertmanager/opsgenie", "api_key: 4567, api_url: http://127.0.0.1:PORT/og/"
    )
    yield from started(tmp_path, block)


def documented_receiver() -> str:
    """The lines of the receiver `on-call` in docs/act/alerts.md, without its name."""
    text = (Path(__file__).parents[2] / "docs" / "act" / "alerts.md").read_text("utf-8")
    return text.partition("- name: on-call\n")[2].partition("```")[0]


def started(tmp_path: Path, receiver: str) -> Iterator[Manager]:
    """A running Alertmanager with one receiver."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed: apt-get install {PROGRAM}")
    port, hook_port = free_port(), free_port()
    (tmp_path / "am.yml").write_text(
        "global: {resolve_timeout: 1s}\n"
        "route: {receiver: us, group_by: ['...'], group_wait: 1s, group_interval: 1s, repeat_interval: 1h}\n"
        f"receivers:\n- name: us\n{receiver.replace('PORT', str(hook_port))}"
    )
    with (tmp_path / "am.log").open("wb") as log:
        process = subprocess.Popen(
            [
                PROGRAM,
                f"--config.file={tmp_path / 'am.yml'}",
                f"--storage.path={tmp_path / 'am'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
            ],
            stdout=log,
            stderr=log,
        )
    running = Manager(port, hook_port)
    try:
        wait_until(lambda: running.alerts() == [], "Alertmanager answers")
        yield running
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@dataclass
class Now:
    """The time of this machine, moved by `shift_s`."""

    shift_s: float = 0.0

    def __call__(self) -> int:
        return int((time.time() + self.shift_s) * SECOND_US)


def lately(**changed: Any) -> Finding:
    """A finding that began ten minutes ago."""
    now_us = Now()()
    times = {"started_at": rfc3339(now_us - 10 * MINUTE_US), "last_seen_at": rfc3339(now_us)}
    return finding(**{**times, **changed})


def notified(receiver: Hook) -> set[tuple[str, str, str]]:
    """Status, finding and severity of all that the receiver was told."""
    return {
        (one["status"], one["labels"]["finding"], one["labels"]["severity"])
        for body in receiver.bodies
        for one in body["alerts"]
    }


def test_what_fires_reaches_receivers_and_ends(manager: Manager, tmp_path: Path) -> None:
    async def story() -> None:
        with State.open(tmp_path) as state:
            async with hook(200, port=manager.hook_port) as receiver:
                add_channel(state, manager.url, name="am", kind="alertmanager", labels={"env": "prod"})
                sender = deliverer(state, Now())
                world = [lately(), lately(key="f2", subject={"kind": "node", "id": "n7", "name": None}, user=None)]
                enqueue(state, world, Now()())
                assert 1 == await sender.deliver_due()

                await wait_until_async(lambda: manager.firing() == {("f1", "high"), ("f2", "high")}, "two alerts")
                one = next(one for one in manager.alerts() if one["labels"]["finding"] == "f1")
                assert ("active", "prod", "GpuwatchIdleHoarding", "red") == (
                    one["status"]["state"],
                    *(one["labels"][name] for name in ("env", "alertname", "team")),
                )
                assert "https://gpuwatch.example/ui/findings/f1" == one["generatorURL"]
                started = json.loads(json.dumps(one["startsAt"]))[:19]
                assert world[0].started_at[:19] == started
                await wait_until_async(
                    lambda: {("firing", "f1", "high"), ("firing", "f2", "high")} <= notified(receiver),
                    "two notifications",
                )

                enqueue(state, [lately(severity="critical"), lately(key="f2", state="resolved")], Now()())
                assert 1 == await sender.deliver_due()
                await wait_until_async(lambda: manager.firing() == {("f1", "critical")}, "one alert, critical")
                await wait_until_async(
                    lambda: (
                        {("resolved", "f1", "high"), ("resolved", "f2", "high"), ("firing", "f1", "critical")}
                        <= notified(receiver)
                    ),
                    "the ends of both",
                )
                assert (await sender.send_test("am")).sent
                (status,) = (item["status"] for item in listing(state))
                assert (None, 0) == (status["last_error"], status["pending"])

    asyncio.run(asyncio.wait_for(story(), 2 * PATIENCE_S))


def test_it_fires_as_long_as_it_is_pushed(manager: Manager, tmp_path: Path) -> None:
    """The clock stands so that a push holds for LEFT_S; the Alertmanager's own timeout is one."""

    async def story() -> None:
        with State.open(tmp_path) as state:
            now = Now(LEFT_S - LASTS_S)
            add_channel(state, manager.url, name="am", kind="alertmanager")
            enqueue(state, [lately()], now())
            sender = deliverer(state, now)
            await sender.deliver_due()
            await wait_until_async(lambda: manager.firing() == {("f1", "high")}, "the alert")
            (first,) = manager.alerts()
            now.shift_s += 60  # a minute passes: it is pushed again, for a minute more
            assert 1 == await sender.deliver_due()
            await wait_until_async(lambda: manager.alerts()[0]["endsAt"] > first["endsAt"], "a later end")
            first_end = datetime.fromisoformat(first["endsAt"])
            await wait_until_async(lambda: datetime.now(UTC) > first_end, "the end of the first push")
            assert {("f1", "high")} == await asyncio.to_thread(manager.firing)

    asyncio.run(asyncio.wait_for(story(), 2 * PATIENCE_S))


def test_it_ends_by_itself_when_nobody_pushes(manager: Manager, tmp_path: Path) -> None:
    async def story() -> None:
        with State.open(tmp_path) as state:
            now = Now(LEFT_S - LASTS_S)
            add_channel(state, manager.url, name="am", kind="alertmanager")
            enqueue(state, [lately()], now())
            await deliverer(state, now).deliver_due()
            await wait_until_async(lambda: manager.firing() == {("f1", "high")}, "the alert")
            await wait_until_async(lambda: manager.firing() == set(), "the end of the alert")

    asyncio.run(asyncio.wait_for(story(), 2 * PATIENCE_S))


def test_pagerduty_and_opsgenie_get_the_line_the_owner_and_the_fix(pager: Manager, tmp_path: Path) -> None:
    async def story() -> None:
        with State.open(tmp_path) as state:
            async with hook(202, port=pager.hook_port) as receiver:
                add_channel(state, pager.url, name="am", kind="alertmanager")
                sender = deliverer(state, Now())
                enqueue(state, [lately(severity="critical")], Now()())
                assert 1 == await sender.deliver_due()
                await wait_until_async(lambda: len(receiver.bodies) >= 2, "both were called")

                by_path = dict(zip(receiver.paths, receiver.bodies, strict=False))
                line = "Critical · GPUs held and idle: job 4711 (train-llm) on n1 · team red, alice · "
                paged = by_path["/pagerduty"]
                assert ("trigger", "critical") == (paged["event_action"], paged["payload"]["severity"])
                assert paged["payload"]["summary"].startswith(line)
                assert "team red, alice" == paged["payload"]["custom_details"]["owner"]
                assert "Release the devices." == paged["payload"]["custom_details"]["fix"]
                call = by_path["/og/v2/alerts"]
                assert call["message"].startswith(line)
                assert ("P1", "red") == (call["priority"], call["details"]["team"])

    asyncio.run(story())
