"""`gpuwatch serve` as a process of its own: started on a free port, asked over HTTP, ended by its pid."""

from __future__ import annotations

import http.client
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from bench.remote_write import body
from tests.worlds import processes
from tests.worlds.patience import PATIENCE_S

CHECKOUT = processes.CHECKOUT
PROTOBUF = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
IDLE_MINUTES = 40
_SNAPPY = pa.Codec("snappy")

Series = tuple[dict[str, str], Sequence[tuple[float, int]]]


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


class Server:
    """A running server. `directory` is its data directory; `settings` become GPUWATCH_* variables in capitals.

    `cold` starts an interpreter for it, as a user does; else it is forked from one that has imported everything.
    `under` is a command that runs it.
    """

    process: processes.Child | subprocess.Popen[bytes]

    def __init__(
        self,
        directory: Path,
        *,
        config: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        cold: bool = False,
        under: Sequence[str] = (),
        **settings: object,
    ) -> None:
        self.directory = directory
        self._log = directory.parent / f"{directory.name}.log"
        arguments = ["serve", "--host", host, "--port", str(port), *_config(config)]
        env = environment(directory, **settings)
        with self._log.open("ab") as log:
            if cold or under:
                self.process = subprocess.Popen(
                    [*under, sys.executable, "-m", "gpuwatch", *arguments],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    env=env,
                    cwd=CHECKOUT,
                )
            else:
                self.process = processes.start(arguments, stdout=subprocess.PIPE, stderr=log, env=env)
        try:
            self.url = self._logged()
        except BaseException:
            self.kill()
            raise
        self.port = int(self.url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        """What it and the servers before it on this directory wrote to stderr."""
        return self._log.read_text("utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process.poll() is not None:
            return
        if kind is None:
            self.stop()
        else:
            self.kill()

    def ask(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> Answer:
        """One request on a connection of its own. Raises OSError or HTTPException when there is no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path, data, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def write(self, series: Sequence[Series], **options: Any) -> Answer:
        """Sends samples by remote write: (labels, [(value, time in milliseconds)])."""
        return self.ask("POST", "/api/v1/write", packed(series), PROTOBUF, **options)

    def ready(self) -> bool:
        """Whether /readyz says so."""
        return self.ask("GET", "/readyz").status == 200

    def raw(self, sent: bytes, timeout_s: float = PATIENCE_S, end: bool = False) -> bytes:
        """Everything that the server answers to these bytes until it closes, or for `timeout_s`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout_s) as connection:
            got = b""
            try:
                connection.sendall(sent)
                if end:
                    connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(65_536):
                    got += piece
            except (TimeoutError, ConnectionError):
                pass
            return got

    def peak_kib(self) -> int:
        """The most memory that the process has had since `forget_peak`, in KiB."""
        return _status_of(self.pid, "VmHWM")

    def forget_peak(self) -> None:
        """From here the peak is counted anew."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def kill(self) -> None:
        """SIGKILL; the process is gone when this returns."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        self._close()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Asks it to end, and returns its exit code."""
        self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self._close()

    def _close(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _logged(self) -> str:
        """The address that it prints when it listens."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(PATIENCE_S), f"the server did not start:\n{self.log}"
        line = self.process.stdout.readline().decode()
        found = re.fullmatch(r"gpuwatch listening on (http://\S+)\n", line)
        assert found, f"the server ended or said something else: {line!r}\n{self.log}"
        return found[1]


def command(
    name: str,
    *arguments: str,
    data: Path,
    timeout_s: float = PATIENCE_S,
    **settings: object,
) -> Ended:
    """Runs a `gpuwatch` command on a data directory to its end."""
    done = processes.run([*name.split(" "), *arguments], env=environment(data, **settings), timeout=timeout_s)
    return Ended(done.returncode, done.stdout, done.stderr)


def environment(directory: Path, **settings: object) -> dict[str, str]:
    """The environment of the tests, without their own gpuwatch settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUWATCH_")}
    own = {f"GPUWATCH_{name.upper()}": str(value) for name, value in settings.items()}
    return kept | {"GPUWATCH_DATA": str(directory), "PYTHONUNBUFFERED": "1"} | own


def packed(series: Sequence[Series]) -> bytes:
    """A remote-write body as it is on the wire."""
    return snappy(body(series))


def snappy(data: bytes) -> bytes:
    """Data as a snappy block."""
    return bytes(_SNAPPY.compress(data, asbytes=True))


def gpu_labels(gpu: str, name: str = "DCGM_FI_PROF_SM_ACTIVE", **more: str) -> dict[str, str]:
    """Labels that dcgm-exporter and Prometheus give a series of a GPU."""
    return {
        "__name__": name,
        "UUID": gpu,
        "gpu": "0",
        "device": "nvidia0",
        "Hostname": f"node-{gpu}",
        "instance": f"node-{gpu}:9400",
        "job": "dcgm-exporter",
        "modelName": "NVIDIA H100 80GB HBM3",
    } | more


def idle_job(gpu: str, pod: str, now_ms: int, minutes: int = IDLE_MINUTES) -> list[Series]:
    """A pod that held a GPU idle for the last minutes: a finding."""
    times = [now_ms - 60_000 * back for back in range(minutes, -1, -1)]
    names = ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")
    owner = {"exported_namespace": "research", "exported_pod": pod, "exported_container": "main"}
    return [(gpu_labels(gpu, name, **owner), [(0.0, at_ms) for at_ms in times]) for name in names]


def now_ms() -> int:
    """This machine's clock in milliseconds."""
    return time.time_ns() // 1_000_000


def _config(config: Path | None) -> list[str]:
    return [] if config is None else ["--config", str(config)]


def _status_of(pid: int, field: str) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    assert found is not None
    return int(found[1])
