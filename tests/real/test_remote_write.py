"""A real Prometheus writes to a gpuwatch that is too busy for most requests, then killed and started again: nothing is lost."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.real import test_prometheus as world
from tests.real.test_prometheus import (
    BY_PROMETHEUS,
    SCRAPES,
    Exporter,
    get,
    gpuwatch,
    page,
    program,
    running,
    stored,
    total,
)
from tests.worlds.patience import wait_until
from tests.worlds.ports import free_port

exporter = world.exporter


def test_prometheus_sends_again_what_was_refused_or_cut_off(tmp_path: Path, exporter: Exporter) -> None:
    executable = shutil.which("prometheus")
    if executable is None:
        pytest.skip("no prometheus program: install the package prometheus")
    data, port = tmp_path / "data", free_port()
    # A queue that is full as soon as one request waits.
    serve = gpuwatch(["serve", "--data", str(data), "--port", str(port)], ROWS_QUEUED_MAX=1)
    url = f"http://127.0.0.1:{port}"
    yaml = tmp_path / "prometheus.yml"
    yaml.write_text(
        f"global: {world.SCRAPE_TIMES}\n"
        "scrape_configs: [{job_name: dcgm, metrics_path: /theirs, static_configs: [{targets: "
        f"['127.0.0.1:{exporter.server_address[1]}']}}]}}]\n"
        f"remote_write: [{{url: '{url}/api/v1/write?cluster={BY_PROMETHEUS}', queue_config: {{min_shards: 8, max_shards: 8, "
        "max_samples_per_send: 1, batch_send_deadline: 1s, max_backoff: 200ms}}]\n"
    )
    prometheus = f"http://127.0.0.1:{free_port()}"
    command = [executable, f"--config.file={yaml}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
    command.append(f"--web.listen-address={prometheus.removeprefix('http://')}")

    with running(serve, tmp_path / "first.log") as first:
        wait_until(lambda: get(f"{url}/readyz"), "gpuwatch")
        with running(program(command), tmp_path / "prometheus.log"):
            wait_until(lambda: exporter.served.get("/theirs", 0) >= 2, "two scrapes")
            wait_until(lambda: _retried(prometheus), "a retry")
            first.kill()
            first.wait()
            with running(serve, tmp_path / "second.log"):
                wait_until(lambda: exporter.served["/theirs"] > SCRAPES + 1, "all scrapes")
                sent = wait_until(lambda: world._sent(get(f"{prometheus}/metrics")), "the queue to empty")
                counts = world._by_field(prometheus, "count_over_time")
                refused = re.findall(r'http_requests_total\{.*write.*status="503"\} (\S+)', get(f"{url}/metrics"))

    assert (0, 0) == (sent["failed"], sent["dropped"])
    assert refused, "nobody was told to come back"
    assert page(0).count("DCGM_") == len(counts) and {SCRAPES} == set(counts.values())
    assert counts == {key: count for key, (count, _) in stored(data, BY_PROMETHEUS).items()}


def _retried(prometheus: str) -> float:
    return total(get(f"{prometheus}/metrics"), "prometheus_remote_storage_samples_retried_total")
