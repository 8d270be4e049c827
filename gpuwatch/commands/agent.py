"""The `gpuwatch agent` command: serves this node's GPU readings in dcgm-exporter's format."""

from __future__ import annotations

import importlib
import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import print_stderr, write
from gpuwatch.core.errors import UnreadableInput

HOST, PORT = "127.0.0.1", 9400
INTERVAL_MS = 15_000
LEAST_MS, MOST_MS = 100, 3_600_000


def agent(
    host: Annotated[
        str, typer.Option("--host", metavar="H", help="Address to listen on; 0.0.0.0 for access from other machines.")
    ] = HOST,
    port: Annotated[
        int, typer.Option("--port", metavar="P", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = PORT,
    interval_ms: Annotated[
        int, typer.Option("--interval-ms", metavar="MS", min=LEAST_MS, max=MOST_MS, help="Time between readings.")
    ] = INTERVAL_MS,
    job_mapping_dir: Annotated[
        Path | None,
        typer.Option(
            "--job-mapping-dir", metavar="DIR", help="Directory with a file per GPU index that lists its jobs."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the readings once and exit.")] = False,
) -> None:
    """Serve readings of a GPU node without DCGM. Reads NVML and uses dcgm-exporter's metric names and labels."""
    if job_mapping_dir is not None and not job_mapping_dir.is_dir():
        raise UnreadableInput(f"--job-mapping-dir {job_mapping_dir}: no such directory")
    readings: Any = importlib.import_module("gpuwatch.collectors.nvml.agent").create_agent(
        interval_ms / 1000, job_mapping_dir, lambda text: print_stderr(f"gpuwatch: {text}")
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
        write(f"gpuwatch agent listening on {server.url}/metrics\n")
        if pages.is_loopback(host):
            print_stderr(
                "gpuwatch: reachable from this machine only; use --host 0.0.0.0 to open it to the network (no password)"
            )
        ended.wait()
        print_stderr("gpuwatch: stopping")
    finally:
        server.stop()
        readings.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


command("agent", agent, place=30)
