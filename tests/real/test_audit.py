"""gpuwatch audit of a real Prometheus: what samples alone say is told, and what they cannot say has no grade."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.real.test_backfill import CLUSTER, SPAN, fleet, pod_series, prometheus
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
