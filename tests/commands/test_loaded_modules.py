"""Which libraries the command line loads before a command runs: each costs CPU time at every start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.store import lockfile

HEAVY = {"duckdb", "numpy", "pandas", "pyarrow", "rich", "sqlalchemy"}
SCRIPT = """
import json, sys
from gpuwatch.cli import run
code = run(sys.argv[1:])
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""


@pytest.mark.parametrize("words", [["--help"], ["findings", "--help"], ["token", "list", "--help"]], ids=" ".join)
def test_the_command_line_loads_no_heavy_library(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stderr.splitlines()[-1])

    assert 0 == code
    assert "gpuwatch.commands.queries" in modules
    assert set() == set(modules) & HEAVY


LISTS: dict[str, dict[str, Any]] = {
    "/api/v1/findings": {"items": [], "next": None},
    "/api/v1/quality": {"checks": [{"id": "rates", "status": "ok", "what": "a rate covers every GPU-hour", "fix": ""}]},
    "/api/v1/chargeback": {
        "items": [],
        "next": None,
        "window": {"start": "2026-11-20T00:00:00Z", "end": "2026-11-27T00:00:00Z"},
        "total": {"gpu_seconds": "1.000000", "cost": "0.00", "currency": None, "unpriced_gpu_seconds": "0.000000"},
    },
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A data directory that a server holds."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(LISTS[self.path.partition("?")[0]]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    lockfile.leave(tmp_path, lockfile.Note(os.getpid(), f"http://127.0.0.1:{server.server_port}", "secret"))
    yield tmp_path
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("command", ["findings", "chargeback", "doctor"])
def test_a_command_that_asks_a_server_loads_no_heavy_library(command: str, served: Path) -> None:
    words = [command, "--data", str(served), "--format", "json"]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stderr.splitlines()[-1])

    assert 0 == code
    assert set() == set(modules) & HEAVY


def test_no_command_loads_pandas() -> None:
    """pyarrow would, for the first table that is made of Python values."""
    script = (
        "import sys\nfrom gpuwatch.cli import main\nsys.argv[1:] = ['demo', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "import pyarrow\nsys.stderr.write(f\"{pyarrow.array(['a', None]).null_count} {'pandas' in sys.modules}\")"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "1 False" == done.stderr
