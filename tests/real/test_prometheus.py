"""A real Prometheus scrapes an exporter and writes to a running gpuwatch, which scrapes the exporter too.

All three must know the same readings: what Prometheus answers to a query is compared with what lies in the store.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from gpuwatch.imports.files import seal_all
from gpuwatch.store.database import Store
from tests.worlds import processes
from tests.worlds.patience import FACTOR, PATIENCE_S, wait_until
from tests.worlds.ports import free_port

SCRAPES = 4
INTERVAL_S = round(2 * FACTOR)
"""Between two scrapes. One that takes longer is lost: a slow machine has more time for it."""
SCRAPE_TIMES = f"{{scrape_interval: {INTERVAL_S}s, scrape_timeout: {INTERVAL_S * 950}ms}}"
BY_PROMETHEUS, BY_US = "written", "scraped"
FIELDS = {
    "DCGM_FI_DEV_GPU_UTIL": "gpu_util_ratio",
    "DCGM_FI_PROF_SM_ACTIVE": "sm_active_ratio",
    "DCGM_FI_DEV_POWER_USAGE": "power_watts",
}
DEVICES = (
    'gpu="0",UUID="GPU-a",device="nvidia0",Hostname="n1",modelName="NVIDIA H100"',
    'gpu="1",UUID="GPU-b",device="nvidia1",Hostname="n1",modelName="NVIDIA H100",pod="train-0",namespace="lab",container="c"',
    'gpu="2",UUID="GPU-c",device="nvidia2",Hostname="n1",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"',
)


class Exporter(ThreadingHTTPServer):
    """Serves SCRAPES pages to each reader, other values each time, then only 503: the readers see a series end."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.served: dict[str, int] = {}
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    server: Exporter

    def do_GET(self) -> None:
        with self.server.lock:
            number = self.server.served.get(self.path, 0)
            self.server.served[self.path] = number + 1
        body = page(number).encode() if number < SCRAPES else b""
        self.send_response(200 if body else 503)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def page(number: int) -> str:
    """The page of scrape `number`, zeros among its values."""
    lines = ["go_goroutines 12"]
    for device, labels in enumerate(DEVICES):
        if "GPU_I_ID" not in labels:
            lines.append(f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {number * 10}")
        lines.append(f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} {number * device / 8}")
        lines.append(f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {100.5 + number + device}")
    return "".join(f"{line}\n" for line in lines)


def get(url: str) -> str:
    """The body of an answer."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


Process = subprocess.Popen[bytes] | processes.Child


@contextmanager
def running(start: Callable[[BinaryIO], Process], log: Path) -> Iterator[Process]:
    """A process that writes to a log. It is stopped at the end, and its log is shown when it failed."""
    with log.open("wb") as out:
        process = start(out)
    try:
        yield process
    except BaseException:
        print(log.read_text()[-4000:])
        raise
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def program(command: list[str]) -> Callable[[BinaryIO], Process]:
    """Starts another project's program."""
    return lambda out: subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)


def gpuwatch(command: list[str], **constants: object) -> Callable[[BinaryIO], Process]:
    """Starts gpuwatch, with other values of constants of its group commit."""
    values = {f"gpuwatch.service.group_commit.{name}": value for name, value in constants.items()}
    return lambda out: processes.start(command, stdout=out, stderr=subprocess.STDOUT, constants=values)


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """A dcgm-exporter of three devices."""
    server = Exporter()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def answered(prometheus: str, query: str) -> dict[tuple[str, str], float]:
    """What Prometheus answers, by metric name and GPU."""
    body = json.loads(get(f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
    return {(row["metric"]["field"], row["metric"]["UUID"]): float(row["value"][1]) for row in body["data"]["result"]}


def total(metrics: str, name: str) -> float:
    """Sum of a metric of a page."""
    return sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", metrics, re.MULTILINE))


def test_prometheus_and_gpuwatch_agree(tmp_path: Path, exporter: Exporter) -> None:
    executable = shutil.which("prometheus")
    if executable is None:
        pytest.skip("no prometheus program: install the package prometheus")
    port = exporter.server_address[1]
    config, data = tmp_path / "gpuwatch.toml", tmp_path / "data"
    config.write_text(
        f'[[dcgm]]\ncluster = "{BY_US}"\ntargets = ["http://127.0.0.1:{port}/ours"]\ninterval_s = {INTERVAL_S}\n'
        f"timeout_s = {0.95 * INTERVAL_S}\n"
    )
    serve = ["serve", "--data", str(data), "--config", str(config), "--port", "0"]
    log = tmp_path / "gpuwatch.log"
    with running(gpuwatch(serve), log):
        url = wait_until(lambda: re.findall(r"gpuwatch listening on (\S+)", log.read_text())[0], "gpuwatch serve")
        yaml = tmp_path / "prometheus.yml"
        yaml.write_text(
            f"global: {SCRAPE_TIMES}\n"
            f"scrape_configs: [{{job_name: dcgm, metrics_path: /theirs, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n"
            f"remote_write: [{{url: '{url}/api/v1/write?cluster={BY_PROMETHEUS}', queue_config: {{batch_send_deadline: 1s}}}}]\n"
        )
        prometheus = f"http://127.0.0.1:{free_port()}"
        command = [executable, f"--config.file={yaml}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
        command.append(f"--web.listen-address={prometheus.removeprefix('http://')}")
        with running(program(command), tmp_path / "prometheus.log"):
            wait_until(lambda: min(exporter.served[p] for p in ("/ours", "/theirs")) > SCRAPES + 1, "both readers")
            sent = wait_until(lambda: _sent(get(f"{prometheus}/metrics")), "the queue to empty")
            counts, sums = (_by_field(prometheus, name) for name in ("count_over_time", "sum_over_time"))

    assert (0, 0) == (sent["failed"], sent["dropped"])
    assert {SCRAPES} == set(counts.values())
    assert page(0).count("DCGM_") == len(counts)
    for cluster in (BY_PROMETHEUS, BY_US):
        found = stored(data, cluster)

        assert counts == {key: count for key, (count, _) in found.items()}, cluster
        assert sums == pytest.approx({key: value for key, (_, value) in found.items()}), cluster


def _by_field(prometheus: str, function: str) -> dict[tuple[str, str], float]:
    """A function of all readings by (column, GPU), in stored units."""
    found = {}
    for name, column in FIELDS.items():
        query = f'label_replace({function}({name}[1h]), "field", "{name}", "", "")'
        for (_, gpu), value in answered(prometheus, query).items():
            percent = name == "DCGM_FI_DEV_GPU_UTIL" and function == "sum_over_time"
            found[column, gpu] = value / 100 if percent else value
    return found


def _sent(metrics: str) -> dict[str, float] | None:
    """What the remote-write queue did once it is empty, None before."""
    names = ("samples_pending", "samples_total", "samples_failed_total", "samples_dropped_total")
    pending, all_samples, failed, dropped = (total(metrics, f"prometheus_remote_storage_{name}") for name in names)
    # Samples leave in the order they came. Those of a scrape: the page's, and five of Prometheus about the scrape; of the
    # first scrape that failed as many, since every series of the page ends.
    least = (SCRAPES + 1) * (page(0).count("\n") + 5)
    if pending or all_samples < least:
        return None
    return {"failed": failed, "dropped": dropped}


def stored(data: Path, cluster: str) -> dict[tuple[str, str], tuple[int, float]]:
    """Readings of a cluster in the store: (count, sum) by (column, GPU). An instance stands under its GPU.

    What was sent again because its answer was lost is one reading once it is sealed.
    """
    found = {}
    with Store.open(data) as store:
        seal_all(store)
        for column in FIELDS.values():
            rows = store.sql(
                "select gpu, count(value), sum(value) from ("
                f"select gpu, {column} as value from sample join context using (context_id) where cluster = $cluster"
                f" union all select gpu, {column} from sample_tail join context using (context_id) where cluster = $cluster"
                ") group by gpu",
                cluster=cluster,
            )
            found |= {(column, gpu): (count, value) for gpu, count, value in rows if count}
    return found
