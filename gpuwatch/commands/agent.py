"""Command agent: readings of this node's GPUs served as dcgm-exporter would."""

from __future__ import annotations

import importlib
import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import say, write
from gpuwatch.core.errors import UnreadableInput

HOST, PORT = "127.0.0.1", 9400
INTERVAL_MS = 15_000
LEAST_MS, MOST_MS = 100, 3_600_000


def agent(
    host: Annotated[
        str, typer.Option("--host", metavar="H", help="0.0.0.0: reachable for a gpuwatch on another machine.")
    ] = HOST,
    port: Annotated[int, typer.Option("--port", metavar="P", min=0, max=65535, help="0: any free one.")] = PORT,
    interval_ms: Annotated[
        int, typer.Option("--interval-ms", metavar="MS", min=LEAST_MS, max=MOST_MS, help="Between two readings.")
    ] = INTERVAL_MS,
    job_mapping_dir: Annotated[
        Path | None,
        typer.Option("--job-mapping-dir", metavar="DIR", help="Files named by GPU index with the jobs on it."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one page and end.")] = False,
) -> None:
    """On a GPU node without DCGM: NVML readings with dcgm-exporter's metric names and labels."""
    if job_mapping_dir is not None and not job_mapping_dir.is_dir():
        raise UnreadableInput(f"--job-mapping-dir {job_mapping_dir}: no such directory")
    readings: Any = importlib.import_module("gpuwatch.collectors.nvml.agent").make(
        interval_ms / 1000, job_mapping_dir, lambda text: say(f"gpuwatch: {text}")
    )
    if once:
        try:
            write(readings.once().decode())
        finally:
            readings.stop()
        return
    _serve(readings, host, port)


def _serve(readings: Any, host: str, port: int) -> None:
    """Serves until SIGINT or SIGTERM."""
    pages = importlib.import_module("gpuwatch.collectors.nvml.http")
    try:
        server = pages.server(readings.page, host, port)
    except BaseException:
        readings.stop()
        raise
    ended = threading.Event()
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        readings.start()
        server.start()
        write(f"gpuwatch agent serves {server.url}/metrics\n")
        if pages.only_here(host):
            say(
                "gpuwatch: reachable from this machine only; --host 0.0.0.0 opens it to the network, without a password"
            )
        ended.wait()
        say("gpuwatch: stopping")
    finally:
        server.stop()
        readings.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


command("agent", agent, place=30)
