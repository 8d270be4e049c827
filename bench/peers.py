"""Prometheus and VictoriaMetrics with the same samples: bytes a sample, and GPU-hours by job of a week."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import numpy as np

from bench import fleet, fleet_plan
from bench.stages import DAYS, NOW_US, WEEK, latency
from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing.chargeback import chargeback
from gpuwatch.core.clock import DAY_US
from gpuwatch.core.fields import columns
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.sample_files import export

GPUS = 16
PROMETHEUS, VICTORIA = "127.0.0.1:19390", "127.0.0.1:19428"
READY_S = 30
PROGRAMS = ("prometheus", "promtool", "victoria-metrics")
QUERY = f"sum by (hpc_job) (count_over_time(DCGM_FI_DEV_GPU_UTIL[{DAYS}d])) * {fleet.STEP_S} / 3600"
SERIES_A_POST = 500

Facts = dict[str, object]


def missing() -> list[str]:
    """Programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def measure(directory: Path) -> Facts:
    """Loads one small fleet into all three, and asks each for the GPU-hours of a week by job."""
    facts: Facts = {"gpus": GPUS}
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        written = fleet.write(store, gpus=GPUS, days=DAYS)
        used = store.sql("select used_blocks * block_size from pragma_database_size()")[0][0]
        facts |= {"samples": written.samples, "jobs": written.jobs, "gpuwatch_bytes": used / written.samples}
        parquet = sum(file.bytes for file in export(store, directory / "samples"))
        facts["parquet_bytes"] = parquet / written.samples
        series = list(_series(store))
        analyze(store, state, Settings(), now_us=NOW_US)
        charges = chargeback(store, state, WEEK, ("job",)).items
        ours = {str(c.group["job"]): float(c.gpu_seconds / Decimal(3600)) for c in charges if c.kind == "allocated"}
        facts["gpuwatch"] = latency(lambda: chargeback(store, state, WEEK, ("job",)))
    with _prometheus(directory / "prometheus", series) as load_s:
        size = _tree_bytes(directory / "prometheus" / "tsdb")
        facts |= {"prometheus_load_s": load_s, "prometheus_bytes": size / written.samples}
        facts["prometheus"] = latency(lambda: _ask(PROMETHEUS))
        facts["prometheus_answer"] = _compare(ours, _ask(PROMETHEUS))
    with _victoria(directory / "victoria", series) as load_s:
        facts["victoria_load_s"] = load_s
        facts["victoria"] = latency(lambda: _ask(VICTORIA))
        facts["victoria_answer"] = _compare(ours, _ask(VICTORIA))
    # It moves its newest parts to disk when it stops.
    size = sum(_tree_bytes(directory / "victoria" / "data" / part) for part in ("data", "indexdb"))
    facts["victoria_bytes"] = size / written.samples
    return facts


def _compare(ours: dict[str, float], theirs: dict[str, float]) -> Facts:
    apart = [abs(ours.get(job, 0.0) - theirs.get(job, 0.0)) for job in {*ours, *theirs}]
    return {
        "gpuwatch_hours": sum(ours.values()),
        "peer_hours": sum(theirs.values()),
        "largest_difference_hours": max(apart),
        "jobs_only_in_one": len({*ours} ^ {*theirs}),
    }


Series = tuple[dict[str, str], list[int], list[float]]


def _series(store: Store) -> Iterator[Series]:
    """Every (context, field) with its times in milliseconds and its values in the stored unit."""
    contexts = store.sql("select context_id, gpu, node, gpu_index, pci_bus_id, model, driver, job from context")
    present = [n for n in columns() if store.sql(f"select count({n}) from sample")[0][0]]
    names = {n: columns()[n].name for n in present}
    listed = ", ".join(f"list({n} order by observed_us)" for n in present)
    rows = store.sql(
        f"select context_id, list(observed_us // 1000 order by observed_us), {listed} from sample group by context_id"
    )
    labels = {row[0]: row[1:] for row in contexts}
    for context, times, *values in rows:
        gpu, node, index, bus, model, driver, job = labels[context]
        base = {
            "gpu": str(index),
            "UUID": gpu,
            "pci_bus_id": bus,
            "device": f"nvidia{index}",
            "modelName": model,
            "Hostname": node,
            "DCGM_FI_DRIVER_VERSION": driver,
        } | ({"hpc_job": job} if job else {})
        for name, readings in zip(present, values, strict=True):
            yield {"__name__": names[name]} | base, times, readings


@contextmanager
def _prometheus(directory: Path, series: list[Series]) -> Iterator[float]:
    """Blocks made by promtool, a file a day (it reads its input once for every two hours of it)."""
    tsdb = directory / "tsdb"
    tsdb.mkdir(parents=True)
    start = time.perf_counter()
    for day in range(DAYS):
        file = directory / "day.om"
        _write_openmetrics(file, series, (fleet_plan.START_US + day * DAY_US) // 1000, DAY_US // 1000)
        subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", file, tsdb], check=True)
    load_s = time.perf_counter() - start
    (directory / "prometheus.yml").write_text("global: {scrape_interval: 1m}\n")
    command = ["prometheus", f"--config.file={directory / 'prometheus.yml'}", f"--storage.tsdb.path={tsdb}"]
    command += [f"--web.listen-address={PROMETHEUS}", "--storage.tsdb.retention.time=10y"]
    with _server(command, f"http://{PROMETHEUS}/-/ready", directory / "log"):
        yield load_s


def _write_openmetrics(file: Path, series: list[Series], from_ms: int, length_ms: int) -> None:
    by_name: dict[str, list[Series]] = {}
    for one in series:
        by_name.setdefault(one[0]["__name__"], []).append(one)
    with file.open("w") as out:
        for name, members in by_name.items():
            out.write(f"# TYPE {name} gauge\n")
            for labels, times, values in members:
                first, last = np.searchsorted(times, (from_ms, from_ms + length_ms))
                text = ",".join(f'{k}="{v}"' for k, v in labels.items() if k != "__name__")
                out.writelines(
                    f"{name}{{{text}}} {v!r} {t / 1000:.3f}\n"
                    for t, v in zip(times[first:last], values[first:last], strict=True)
                )
        out.write("# EOF\n")


@contextmanager
def _victoria(directory: Path, series: list[Series]) -> Iterator[float]:
    data = directory / "data"
    data.mkdir(parents=True)
    command = ["victoria-metrics", f"-storageDataPath={data}", f"-httpListenAddr={VICTORIA}"]
    command += ["-retentionPeriod=100y", "-search.disableCache"]
    with _server(command, f"http://{VICTORIA}/health", directory / "log"):
        start = time.perf_counter()
        for at in range(0, len(series), SERIES_A_POST):
            lines = [
                json.dumps({"metric": labels, "timestamps": times, "values": values})
                for labels, times, values in series[at : at + SERIES_A_POST]
            ]
            _post(f"http://{VICTORIA}/api/v1/import", "\n".join(lines).encode())
        load_s = time.perf_counter() - start
        _post(f"http://{VICTORIA}/internal/force_flush", b"")
        _post(f"http://{VICTORIA}/internal/force_merge", b"")
        yield load_s


def _ask(address: str) -> dict[str, float]:
    """GPU-hours by job as the peer counts them; samples without a job are left out."""
    query = urllib.parse.urlencode({"query": QUERY, "time": NOW_US // 1_000_000})
    with urllib.request.urlopen(f"http://{address}/api/v1/query?{query}") as answer:
        found = json.load(answer)["data"]["result"]
    return {row["metric"]["hpc_job"]: float(row["value"][1]) for row in found if row["metric"]}


def _post(url: str, body: bytes) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, data=body, method="POST")) as answer:
        answer.read()


@contextmanager
def _server(command: list[str], ready: str, log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + READY_S
            while not _answers(ready):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{command[0]} did not become ready; its log ends: {log.read_text()[-500:]}")
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _tree_bytes(directory: Path) -> int:
    return sum(p.stat().st_size for p in directory.rglob("*") if p.is_file())
