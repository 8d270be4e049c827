"""The GPU-hours of a month by namespace, asked of Prometheus and VictoriaMetrics: over raw series, and over an hourly rule."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from bench import fleet_plan, programs
from gpuwatch.core.clock import DAY_US
from gpuwatch.store.database import Store

METRIC, RULE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "namespace:gpu_hours:1h"
SHARES = {"": "1", "1g.10gb": "1 / 7", "1g.20gb": "1 / 4", "2g.20gb": "2 / 7", "3g.40gb": "1 / 2"}
"""What of a GPU a sample counts, by profile."""
RAW_RUNS, RULE_RUNS = 5, 20

Facts = dict[str, object]
Latency = Callable[[Callable[[], object], int, Callable[[], float]], dict[str, float]]


def raw_query(days: int, step_s: int) -> str:
    """PromQL over the series themselves."""
    counted = " or ".join(
        f'count_over_time({METRIC}{{namespace!="",GPU_I_PROFILE="{profile}"}}[{days}d]) * {share}'
        for profile, share in SHARES.items()
    )
    return f"sum by (namespace) ({counted}) * {step_s} / 3600"


def rule_query(days: int) -> str:
    """PromQL over what a recording rule has written each hour."""
    return f"sum by (namespace) (sum_over_time({RULE}[{days}d]))"


def measure(directory: Path, store: Store, days: int, step_s: int, latency: Latency) -> Facts:
    """Loads both series into both peers, a day at a time, and asks each both questions."""
    directory.mkdir(parents=True, exist_ok=True)
    prepare(store, step_s)
    facts: Facts = {"series": store.sql("select count(*) from peer_series")[0][0]}
    blocks = directory / "prometheus" / "tsdb"
    blocks.mkdir(parents=True)
    with programs.victoria(directory / "victoria", options=("-search.disableCache", "-retentionPeriod=100y")) as peer:
        start = time.perf_counter()
        for day in range(days):
            _load_day(directory, store, day, blocks)
        _post("/internal/force_flush", b"")
        facts["load_s"] = time.perf_counter() - start
        facts["victoria"] = _asked(programs.VICTORIA, peer.pid, days, step_s, latency)
    with programs.prometheus(directory / "prometheus", "{}\n", "--storage.tsdb.retention.time=100y") as peer:
        facts["prometheus"] = _asked(programs.PROMETHEUS, peer.pid, days, step_s, latency)
    return facts


def prepare(store: Store, step_s: int) -> None:
    """Temporary tables: labels of each series, and the hourly rule's own values."""
    store.sql(
        "create or replace temp table peer_series as "
        "select c.context_id, c.gpu, c.gi, coalesce(c.profile, '') as profile, c.node, c.job, k.namespace "
        "from context c left join (select distinct job_id, namespace from claim) k on k.job_id = c.job"
    )
    parts = " ".join(f"when '{profile}' then {share}.0" for profile, share in SHARES.items())
    store.sql(
        "create or replace temp table peer_rule as "
        "select p.namespace, s.observed_us // 3600000000 + 1 as hour, "
        f"sum(case p.profile {parts} end) * {step_s} / 3600 as gpu_hours "
        "from sample s join peer_series p using (context_id) where p.namespace is not null group by all"
    )


def _load_day(directory: Path, store: Store, day: int, blocks: Path) -> None:
    """One day to both: OpenMetrics (seconds) to blocks, text (milliseconds) over HTTP."""
    from_us = fleet_plan.START_US + day * DAY_US
    for seconds, file in ((True, directory / "day.om"), (False, directory / "day.prom")):
        _write(store, file, from_us, seconds)
    with (directory / "day.om").open("a") as out:
        out.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=24h", "-q"]
    subprocess.run([*command, str(directory / "day.om"), str(blocks)], check=True, stdout=subprocess.DEVNULL)
    _post("/api/v1/import/prometheus", (directory / "day.prom").read_bytes())


def _write(store: Store, file: Path, from_us: int, seconds: bool) -> None:
    """Samples of a day and the rule's of it, written by the database."""
    at = "printf('%.3f', s.observed_us / 1e6)" if seconds else "(s.observed_us // 1000)::varchar"
    at_rule = "(r.hour * 3600)::varchar" if seconds else "(r.hour * 3600000)::varchar"
    within = f"s.observed_us >= {from_us} and s.observed_us < {from_us + DAY_US}"
    labels = (
        "'{UUID=\"' || p.gpu || '\",GPU_I_ID=\"' || p.gi || '\",GPU_I_PROFILE=\"' || p.profile "
        "|| '\",Hostname=\"' || p.node || '\",namespace=\"' || coalesce(p.namespace, '') "
        "|| '\",hpc_job=\"' || coalesce(p.job, '') || '\"} '"
    )
    store.sql(
        f"copy (select line from (select 0 as part, '{METRIC}' || {labels} || s.gr_engine_ratio || ' ' || {at} as line, "
        f"s.observed_us as at_us "
        f"from sample s join peer_series p using (context_id) where {within} "
        f"union all select 1, '{RULE}{{namespace=\"' || r.namespace || '\"}} ' || r.gpu_hours || ' ' || {at_rule}, r.hour "
        f"from peer_rule r where r.hour * 3600000000 > {from_us} and r.hour * 3600000000 <= {from_us + DAY_US}) "
        f"order by part, at_us) to '{file}' (format csv, header false, quote '', escape '', delimiter '\\x01')"
    )


def _asked(port: int, pid: int, days: int, step_s: int, latency: Latency) -> Facts:
    found: Facts = {}
    for name, query, runs in (("raw", raw_query(days, step_s), RAW_RUNS), ("rule", rule_query(days), RULE_RUNS)):
        found[name] = latency(lambda query=query: _ask(port, query, days), runs, lambda: programs.cpu_s(pid))  # type: ignore[misc]
        found[f"{name}_hours"] = _ask(port, query, days)
    return found


def _ask(port: int, query: str, days: int) -> dict[str, float]:
    at = (fleet_plan.START_US + days * DAY_US) // 1_000_000
    asked = urllib.parse.urlencode({"query": query, "time": at, "timeout": "10m"})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{asked}", timeout=600) as answer:
        found = json.load(answer)["data"]["result"]
    return {row["metric"].get("namespace", ""): float(row["value"][1]) for row in found}


def _post(path: str, body: bytes) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{programs.VICTORIA}{path}", data=body, method="POST")
    with urllib.request.urlopen(request, timeout=600) as answer:
        answer.read()
