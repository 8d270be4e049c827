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

from gpuwatch.state.pairing import open_state_of
from gpuwatch.store import lockfile
from gpuwatch.store.database import Store

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


@pytest.mark.parametrize(("given", "threads"), [(None, "1"), ("4", "4")], ids=["one", "as many as the user says"])
def test_small_matrices_get_one_thread(monkeypatch: pytest.MonkeyPatch, given: str | None, threads: str) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    script = "import os; from gpuwatch import cli; cli._leave = lambda code: print(os.environ['OPENBLAS_NUM_THREADS'], code); cli.main()"
    done = subprocess.run([sys.executable, "-c", script, "--version"], capture_output=True, text=True, check=True)

    assert f"{threads} 0" == done.stdout.splitlines()[-1]


def test_a_server_without_a_lake_loads_nothing_of_it() -> None:
    script = (
        "import json, sys\n"
        "from gpuwatch.service.service import Service\n"
        "from gpuwatch.settings import Settings\n"
        "Service.open(None, Settings(), {}, now_us=lambda: 0, live=False).stop()\n"
        "print(json.dumps([name for name in sys.modules if name.startswith('gpuwatch.lake')]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert {"gpuwatch.lake", "gpuwatch.lake.settings"} == set(json.loads(done.stdout))


LISTS: dict[str, dict[str, Any]] = {
    "/api/v1/coverage": {"start": "2026-11-20T00:00:00Z", "end": "2026-11-27T00:00:00Z", "ended": False},
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


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that no server holds."""
    directory = tmp_path_factory.mktemp("stored")
    with Store.open(directory) as store, open_state_of(store, directory):
        return directory


@pytest.mark.parametrize("command", ["findings", "ledger", "chargeback", "doctor"])
def test_a_command_that_reads_a_store_loads_no_engine_of_the_state(command: str, stored: Path) -> None:
    words = [command, "--data", str(stored), "--format", "json"]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stderr.splitlines()[-1])

    assert code in (0, 1), done.stderr
    assert "duckdb" in modules
    assert set() == set(modules) & {"alembic", "fastapi", "plotly", "sqlalchemy"}


def test_no_command_loads_pandas() -> None:
    """pyarrow would, for the first table that is made of Python values."""
    script = (
        "import atexit, sys\nfrom gpuwatch.cli import main\nsys.argv[1:] = ['demo', '--help']\n"
        "def after():\n"
        "    import pyarrow\n"
        "    sys.stderr.write(f\"{pyarrow.array(['a', None]).null_count} {'pandas' in sys.modules}\")\n"
        "atexit.register(after)\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "1 False" == done.stderr


ENDING = """
import atexit, os, sys, threading
from gpuwatch import cli
end = os._exit
os._exit = lambda code: print("ends at once", flush=True) or end(code)
def other():
    threading.main_thread().join()
    print("the other thread", flush=True)
if "thread" in sys.argv:
    threading.Thread(target=other).start()
atexit.register(print, "at exit")
cli.run = lambda arguments: print("the command", flush=True) or 3
cli.main()
"""


@pytest.mark.parametrize(
    "words, lines",
    [
        ([], ["the command", "at exit", "ends at once"]),
        (["thread"], ["the command", "the other thread", "at exit"]),
    ],
    ids=["alone, without taking its modules apart", "after its other threads"],
)
def test_a_command_ends_with_its_code_and_what_it_registered_for_the_end(words: list[str], lines: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", ENDING, *words], capture_output=True, text=True, check=False)

    assert (3, "", lines) == (done.returncode, done.stderr, done.stdout.splitlines())


def test_output_that_cannot_be_written_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpuwatch", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert done.returncode != 0
    assert "No space left on device" in done.stderr
