"""Processes of gpuwatch that start at once: forked from one that has imported everything already.

Importing takes `python -m gpuwatch serve` seconds of computing, many times more than what most tests ask of it. A parent
process, one for all tests of a worker, imports every module and forks for each request. The child has its own arguments,
environment, folder and output, and runs the command line to its end.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from tests.worlds.patience import PATIENCE_S

CHECKOUT = Path(__file__).parents[2]
REQUEST_BYTES_MAX = 1 << 20
LATER = ("alembic.command", "alembic.config", "sqlalchemy.dialects.sqlite", "uvicorn.loops.auto", "uvicorn.lifespan.off",
         "uvicorn.protocols.http.auto", "flask", "plotly.offline")  # fmt: skip
"""What a server imports by name, or in a function."""
IMPORTED, READY = b"imported", b"ready"
"""What the parent process reports: one more module, and that it forks from now on."""


class Child:
    """A running command. Like subprocess.Popen: pid, returncode, poll, wait, send_signal, terminate, kill."""

    def __init__(self, pid: int, ended: int, stdout: io.BufferedReader | None) -> None:
        self.pid, self.returncode, self.stdout = pid, None, stdout
        self._ended = ended

    returncode: int | None

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        return self._code(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended. Raises subprocess.TimeoutExpired."""
        code = self._code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired([f"process {self.pid}"], timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _code(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
            self.returncode = int(os.read(self._ended, 16))
            os.close(self._ended)
        return self.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.stdout is not None:
            self.stdout.close()
        self.wait(PATIENCE_S)


def start(
    arguments: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = CHECKOUT,
    stdout: int | io.BufferedIOBase = subprocess.DEVNULL,
    stderr: int | io.BufferedIOBase = subprocess.DEVNULL,
    constants: Mapping[str, object] | None = None,
) -> Child:
    """Starts `gpuwatch` with these arguments. `stdout` and `stderr` are files, PIPE (stdout only), STDOUT or DEVNULL.

    `constants` are other values of constants in the child, by `module.NAME`.
    """
    reading: io.BufferedReader | None = None
    opened: list[int] = []
    try:
        ended, note = os.pipe()
        opened.append(note)
        null = os.open(os.devnull, os.O_RDWR)
        opened.append(null)
        if stdout == subprocess.PIPE:
            read, out = os.pipe()
            opened.append(out)
            reading = os.fdopen(read, "rb")
        else:
            out = null if isinstance(stdout, int) else stdout.fileno()
        err = out if stderr == subprocess.STDOUT else null if isinstance(stderr, int) else stderr.fileno()
        asked = {
            "arguments": [str(argument) for argument in arguments],
            "env": dict(os.environ if env is None else env),
            "cwd": str(cwd),
            "constants": dict(constants or {}),
        }
        parent = _parent()
        socket.send_fds(parent, [json.dumps(asked).encode()], [null, out, err, note])
        answer = parent.recv(16)
        assert answer, "the parent of gpuwatch's processes has ended: see what it wrote to stderr"
        pid = int(answer)
    finally:
        for each in opened:
            os.close(each)
    return Child(pid, ended, reading)


def run(
    arguments: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = CHECKOUT,
    timeout: float = PATIENCE_S,
    constants: Mapping[str, object] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs `gpuwatch` to its end, like subprocess.run with captured text."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = start(arguments, env=env, cwd=cwd, stdout=out, stderr=err, constants=constants)
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(PATIENCE_S)
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(
            [str(argument) for argument in arguments], code, out.read().decode(), err.read().decode()
        )


@functools.cache
def _parent() -> socket.socket:
    """The connection to the parent process, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.worlds.processes", str(theirs.fileno())],
        cwd=CHECKOUT,
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    ours.settimeout(PATIENCE_S)

    def end() -> None:
        ours.close()
        process.wait(PATIENCE_S)

    atexit.register(end)
    # Importing everything takes minutes on a busy machine: PATIENCE_S is the limit of each import.
    while (result := ours.recv(16)) != READY:
        assert result, "the parent of gpuwatch's processes has ended: see what it wrote to stderr"
    return ours


# The parent process ---------------------------------------------------------------------------------------------------


def _imported(asking: socket.socket) -> None:
    """Imports what any command imports, and reports each module to the asking process."""
    for room in ("gpuwatch", "gpuwatch.collectors", "gpuwatch.dashboards"):
        for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
            if not module.name.endswith("__main__") and ".state_migrations." not in module.name:
                importlib.import_module(module.name)
                asking.send(IMPORTED)
    for name in LATER:
        importlib.import_module(name)
        asking.send(IMPORTED)
    asking.send(READY)


def _forked(asking: socket.socket) -> None:
    """Forks for every request until the asking process is gone, where it exits. Returns in each child."""
    running: dict[int, int] = {}
    woken, wake = os.pipe()
    for each in (woken, wake):
        os.set_blocking(each, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready = select.select([asking, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            _reap(running)
        if asking not in ready:
            continue
        content, given, _, _ = socket.recv_fds(asking, REQUEST_BYTES_MAX, 4)
        if not content:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number in (woken, wake, *running.values()):
                os.close(number)
            asking.close()
            _become(json.loads(content), given)
            return
        for number in given[:3]:
            os.close(number)
        running[pid] = given[3]
        asking.send(str(pid).encode())


def _reap(running: dict[int, int]) -> None:
    """Passes on the exit code of every child that has ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        note = running.pop(pid)
        os.write(note, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(note)


def _become(asked: dict[str, object], given: Sequence[int]) -> None:
    """Takes over what was asked for, in a child that was just forked."""
    for number, file in enumerate(given[:3]):
        os.dup2(file, number)
    for file in given:
        os.close(file)
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(line_buffering=True)
    env, arguments, constants = asked["env"], asked["arguments"], asked["constants"]
    assert isinstance(env, dict) and isinstance(arguments, list) and isinstance(constants, dict)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    tempfile.tempdir = None
    os.chdir(str(asked["cwd"]))
    sys.argv = [str(CHECKOUT / "gpuwatch/__main__.py"), *arguments]
    for name, value in constants.items():
        module, _, attribute = name.rpartition(".")
        setattr(importlib.import_module(module), attribute, value)


def _run_to_the_end() -> NoReturn:
    """Runs the command line and ends the process as Python does, but without clearing what the parent imported.

    That takes longer than most commands.
    """
    from gpuwatch.cli import main

    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as multiprocessing does
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    asked_by = socket.socket(fileno=int(sys.argv[1]))
    try:
        _imported(asked_by)
    except BrokenPipeError:  # the tests ended meanwhile
        os._exit(0)
    gc.collect()
    gc.freeze()  # no child looks through it, nor copies its pages
    _forked(asked_by)
    _run_to_the_end()
