"""Cells in processes of their own that share a lease, and a sender that remembers what was acknowledged."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake, LakeError
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.verify import verify
from gpuwatch.store.database import Store
from tests.lake.publishing import config
from tests.worlds import processes
from tests.worlds.patience import PATIENCE_S, wait_until
from tests.worlds.ports import free_port

LEASE_S = 4
BOUNDS = {"every_s": [1, 86_400], "pull_s": [1, 86_400], "lease_s": [2, 3600]}
ANSWER_S = 30.0


@dataclass
class Cell:
    """A process that serves a cell, or waits for its lease."""

    settings: LakeSettings
    state_url: str
    directory: Path
    port: int = field(default_factory=free_port)
    process: processes.Child | None = None
    role: str = "cell"
    tables: str = ""
    """More tables of its gpuwatch.toml."""
    constants: dict[str, object] = field(default_factory=dict)
    token: str = ""
    arguments: tuple[str, ...] = ()
    lease_s: int = LEASE_S

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What its processes wrote to stderr."""
        path = self.directory.with_suffix(".log")
        return path.read_text() if path.exists() else ""

    def start(self) -> None:
        folder = self.directory.with_suffix(".settings")
        folder.mkdir(exist_ok=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith("GPUWATCH_")}
        env |= dict(self.settings.environ)
        env |= {
            "GPUWATCH_LAKE_LEASE_S": str(self.lease_s),
            "GPUWATCH_LAKE_EVERY_S": "1",
            "GPUWATCH_ANALYZE_INTERVAL_S": "1",
        }
        written = config(self.settings, folder)
        written.write_text(f"{written.read_text()}{self.tables}")
        arguments = ("serve", "--role", self.role, "--data", self.directory, "--config", written)
        where = ("--state", self.state_url, "--port", str(self.port))
        with self.directory.with_suffix(".log").open("ab") as log:
            self.process = processes.start(
                (*arguments, *where, *self.arguments),
                env=env,
                stderr=log,
                constants={"gpuwatch.lake.settings.SECONDS": BOUNDS, **self.constants},
            )

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9; it is gone when this returns."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(PATIENCE_S)

    def end(self) -> int:
        """Asks it to end."""
        assert self.process is not None
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def ask(self, method: str, path: str, body: bytes | None = None, **more: str) -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON of an answer. `more` are headers, with _ for -."""
        sent = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        sent |= {name.replace("_", "-"): value for name, value in more.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            content = answer.read()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, headers, json.loads(content) if content else None
        finally:
            connection.close()

    def readiness(self) -> tuple[int, dict[str, Any]]:
        """Status and content of /readyz; 0 for a process that does not answer."""
        try:
            status, _, body = self.ask("GET", "/readyz")
        except (OSError, http.client.HTTPException):
            return 0, {}
        return status, body

    def holds(self) -> bool:
        """Whether it has the lease and serves."""
        return self.readiness()[0] == 200


@dataclass
class Sender:
    """Sends events, one after the other, to whoever holds the cell."""

    sent: int = 0
    acknowledged: dict[int, str] = field(default_factory=dict)
    """The address of the process that acknowledged it, by the number of the event."""

    def send(self, cell: Cell) -> int:
        """Sends the next event; returns the status, 0 without an answer."""
        self.sent += 1
        event = {"id": f"e{self.sent}", "type": "event", "reason": "Test", "last": rfc3339(time.time_ns() // 1000)}
        try:
            status, _, _ = cell.ask("POST", "/api/v1/events?cluster=c1", json.dumps([event]).encode())
        except (OSError, http.client.HTTPException):
            return 0
        if status == 204:
            self.acknowledged[self.sent] = cell.address
        return status

    def deliver(self, cell: Cell) -> int:
        """Sends until an event is acknowledged; returns its number."""
        wait_until(lambda: self.send(cell) == 204, f"{cell.address} takes an event", poll_s=0.1)
        return self.sent


def stored(store: Store) -> list[int]:
    """The numbers of the events in a store, sorted; one that is there twice is twice."""
    return sorted(int(name[1:]) for (name,) in store.sql("select event_id from event where event_id like 'e%'"))


class Seen:
    """What the lake has, over one connection: to attach it costs half a second of computing."""

    def __init__(self, settings: LakeSettings) -> None:
        self._settings = settings
        self._lake: Lake | None = None

    def events(self) -> list[int]:
        """The numbers of the events in the lake, sorted."""
        query = f"select event_id from lake.{self._settings.schema}.event where event_id like 'e%'"
        return sorted(int(name[1:]) for (name,) in self._sql(query))

    def has(self, number: int) -> bool:
        """Whether an event is in the lake."""
        try:
            return number in self.events()
        except LakeError:  # no publish has made it yet
            return False

    def wait(self, number: int) -> None:
        """Waits for an event."""
        wait_until(lambda: self.has(number), f"event {number} is published", poll_s=0.3)

    def guard(self) -> guard.Guard:
        """The guard's row."""
        self._lake = self._lake or Lake.open(self._settings)
        return guard.read(self._lake)

    def close(self) -> None:
        """Ends the connection."""
        if self._lake is not None:
            self._lake.close()

    def _sql(self, query: str) -> list[tuple[Any, ...]]:
        self._lake = self._lake or Lake.open(self._settings)
        return self._lake.sql(query)


def equal(settings: LakeSettings, directory: Path) -> None:
    """The lake has just the rows of a directory that nobody has open."""
    with Lake.open(settings) as lake, Store.open(directory) as store:
        now_us = time.time_ns() // 1000
        assert [] == [found for report in verify(lake, store, now_us) for found in report.differences]


@contextmanager
def running(*cells: Cell) -> Iterator[None]:
    """Processes that have ended when the block has."""
    try:
        for cell in cells:
            cell.start()
        yield
    except BaseException:
        for cell in cells:
            print(f"--- {cell.directory.name}\n{cell.log[-4000:]}")
        raise
    finally:
        for cell in cells:
            if cell.process is not None and cell.process.poll() is None:
                cell.process.send_signal(signal.SIGCONT)
                cell.kill()


def holder(*cells: Cell) -> Cell:
    """The one that holds the cell, once there is one."""
    return wait_until(lambda: next((cell for cell in cells if cell.holds()), None), "one cell serves", poll_s=0.1)  # type: ignore[return-value]
