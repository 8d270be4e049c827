"""Which libraries the command line loads before a command runs: each costs CPU time at every start."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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
