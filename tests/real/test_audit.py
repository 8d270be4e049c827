"""gpuwatch audit of a real Prometheus: what samples alone say is told, and what they cannot say has no grade."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.real.test_backfill import CLUSTER, SPAN, T0_S, fleet, pod_series, prometheus
from tests.worlds import processes
from tests.worlds.patience import PATIENCE_S


@pytest.mark.parametrize("pods", [False, True], ids=["only dcgm-exporter", "kube-state-metrics too"])
def test_a_prometheus_is_judged_aside(pods: bool, tmp_path: Path) -> None:
    """Neither who decides nor the topology is known: no layer is graded F, and no directory is left."""
    aside = tmp_path / "temporary"
    aside.mkdir()
    with prometheus(tmp_path, fleet() + (pod_series() if pods else [])) as url:
        done = processes.run(
            ["audit", "--prometheus", url, *SPAN[:2], "--cluster", CLUSTER,
             "--out", tmp_path / "out", "--format", "json"],
            timeout=3 * PATIENCE_S, env={**os.environ, "TMPDIR": str(aside)},
        )  # fmt: skip

    assert 0 == done.returncode, done.stderr
    assert [] == list(aside.glob("gpuwatch-audit-*"))
    card = json.loads((tmp_path / "out/scorecard.json").read_text("utf-8"))
    words = {layer["id"]: layer["grade_words"] for layer in card["layers"]}
    assert "F" not in words.values()
    assert ("not graded", "not graded") == (words["placement"], words["partitioning"])
    assert float(card["gpu_hours"]) > 10
    assert {"placement", "partitioning"} <= {one["layer"] for one in card["unknown"]}
    if not pods:
        assert "not graded" == words["scheduling"]
        assert ["unknown"] == [one["authority"] for one in card["writers"][0]["writers"]]


def test_a_scan_needs_nothing_but_the_address(tmp_path: Path) -> None:
    """With the labels of dcgm-exporter and kube-state-metrics alone: hours, list prices, and whom to ask."""
    days = (time.time() - T0_S) / 86_400 + 0.01
    with prometheus(tmp_path, fleet() + pod_series()) as url:
        done = processes.run(
            ["scan", "--prometheus", url, "--days", f"{days:.3f}", "--cluster", CLUSTER, "--out", tmp_path / "out",
             "--format", "json"],
            timeout=3 * PATIENCE_S,
        )  # fmt: skip

    assert 0 == done.returncode, done.stderr
    card = json.loads((tmp_path / "out/scan.json").read_text("utf-8"))
    assert "USD" == card["currency"]
    assert float(card["cost"]) == pytest.approx(6.88 * float(card["gpu_hours"]), abs=0.05)
    assert "List prices, not yours" in (tmp_path / "out/scan.html").read_text("utf-8")
