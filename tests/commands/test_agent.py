"""gpuwatch agent as a command."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwatch.cli import app
from tests.collectors.nvml.fake_library import Gpu, Nvml
from tests.worlds.patience import PATIENCE_S, wait_until

RUNNER = CliRunner()
UNREADABLE, UNREACHABLE = 2, 3


def has_driver() -> bool:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="this machine has an NVIDIA driver")
@pytest.mark.parametrize(
    "arguments", [pytest.param(["--once"], id="a page"), pytest.param(["--port", "0"], id="serving")]
)
def test_without_a_gpu_it_says_so_and_ends_with_3(arguments: list[str]) -> None:
    done = RUNNER.invoke(app, ["agent", *arguments])

    assert (UNREACHABLE, "") == (done.exit_code, done.stdout)
    assert done.stderr.startswith("gpuwatch: agent: no NVIDIA driver on this machine (libnvidia-ml.so.1 is not there)")
    assert 1 == done.stderr.count("\n")


def test_a_job_mapping_directory_must_exist(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["agent", "--once", "--job-mapping-dir", str(tmp_path / "no")])

    assert UNREADABLE == done.exit_code
    assert "no such directory" in done.stderr


def test_once_prints_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Nvml(Gpu(0))
    monkeypatch.setitem(sys.modules, "pynvml", node)
    monkeypatch.setenv("NODE_NAME", "gpu-node-7")
    done = RUNNER.invoke(app, ["agent", "--once"])

    assert 0 == done.exit_code, done.stderr
    assert 'Hostname="gpu-node-7"' in done.stdout
    assert "DCGM_FI_PROF_SM_ACTIVE{" in done.stdout
    assert 1 == node.shut


def test_it_serves_until_a_signal_and_leaves_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Nvml(Gpu(0))
    found: list[bytes] = []
    monkeypatch.setitem(sys.modules, "pynvml", node)

    def visit(text: str) -> None:
        def work() -> None:
            address = text.split()[-1]
            found.append(wait_until(lambda: urllib.request.urlopen(address, timeout=PATIENCE_S).read(), "a page"))
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=work, daemon=True).start()

    monkeypatch.setattr("gpuwatch.commands.agent.write", visit)
    before = signal.getsignal(signal.SIGTERM)
    done = RUNNER.invoke(app, ["agent", "--port", "0"])

    assert 0 == done.exit_code, done.stderr
    assert b"DCGM_FI_DEV_SM_CLOCK" in found[0]
    assert "--host 0.0.0.0" in done.stderr
    assert 1 == node.shut
    assert before == signal.getsignal(signal.SIGTERM)
