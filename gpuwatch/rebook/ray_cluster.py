"""Runs tasks on a Ray cluster, through a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from gpuwatch.core.errors import StoreError

START_S_MAX = 300
TASK_S_MAX = 3600
"""How long no task may end before the run gives up. A part takes seconds to minutes."""
END_S_MAX = 30


class RayCluster:
    """See rebook.compute.Runner. Make one with `connected`."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process, self._address = process, address
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self.cpus = max(1, int(self._line(START_S_MAX)["cpus"]))

    def run(self, calls: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        """Runs all tasks at once, as far as the cluster has CPUs. Raises StoreError where one fails, or none ends for an hour."""
        assert self._process.stdin is not None
        try:
            for number, call in enumerate(calls):
                self._process.stdin.write(json.dumps({"id": number, "arguments": call}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._gone() from error
        found: dict[int, list[str]] = {}
        while len(found) < len(calls):
            answer = self._line(TASK_S_MAX)
            found[int(answer["id"])] = list(answer["files"])
        return [found[number] for number in range(len(calls))]

    def _line(self, seconds_max: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=seconds_max)
        except Empty:
            raise StoreError(f"Ray at {self._address}: no answer for {seconds_max:g} s; nothing was stored") from None
        if line is None:
            raise self._gone()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise StoreError(f"Ray at {self._address}: {answer['error']}; nothing of these hours was stored")
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _gone(self) -> StoreError:
        return StoreError(
            f"Ray at {self._address} is gone, and with it the tasks of these hours; nothing of them was stored: run the same command again"
        )


@contextmanager
def connected(address: str) -> Iterator[RayCluster]:
    """A Ray cluster by its address: HOST:PORT, ray://HOST:PORT, `auto`, or `local` to start one here for as long as the block runs.

    Ray's own variables hold (RAY_AUTH_TOKEN_PATH and others). Raises StoreError where it cannot be reached.
    """
    command = [sys.executable, "-m", "gpuwatch.rebook.driver", address]
    # In a session of its own: Ctrl-C reaches this process, which then closes the other's input.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield RayCluster(process, address)
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Closes the driver's input, which ends it; kills it where it does not end."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(END_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
