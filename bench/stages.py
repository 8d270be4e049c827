"""One measurement a process: `python -m bench.stages NAME DIRECTORY [SIZE]` prints what it found as JSON."""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from bench import (
    analyzer,
    backfill,
    fleet,
    fleet_plan,
    growth,
    kubernetes,
    live,
    money,
    protocols,
    push,
    remote_write,
    scrape,
)
from bench import serve as served
from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing.chargeback import chargeback
from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.core.fields import columns
from gpuwatch.imports.files import import_paths
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.settings import Settings
from gpuwatch.simulate import simulate
from gpuwatch.state import State
from gpuwatch.store.database import FILE_NAME, Store

Facts = dict[str, object]

DAYS = 7
NOW_US = fleet_plan.START_US + DAYS * DAY_US
LATER_US = 1_830_297_600_000_000
"""In 2028: after every simulated sample, which import would refuse otherwise."""
WEEK = Window(fleet_plan.START_US, NOW_US)
TEXT_GPUS, TEXT_DAYS = 64, 2
MONTH_DAYS, MONTH_STEP_S = 30, 120
MONTH_END_US = fleet_plan.START_US + MONTH_DAYS * DAY_US
QUERY_RUNS = 20
QUERIES = {"team": ("team",), "job": ("job",), "team, model": ("team", "gpu_model")}


def write(directory: Path, gpus: int) -> Facts:
    """Writes and seals a fleet; bytes are those of blocks in use, and of the file."""
    with Store.open(directory) as store:
        start = time.perf_counter()
        written = fleet.write(store, gpus=gpus, days=DAYS)
        seconds = time.perf_counter() - start
        used = store.sql("select used_blocks * block_size from pragma_database_size()")[0][0]
    return {
        "gpus": gpus,
        "jobs": written.jobs,
        "rows": written.rows,
        "samples": written.samples,
        "write_s": seconds,
        "seal_s": written.seal_s,
        "used_bytes_a_sample": used / written.samples,
        "file_bytes_a_sample": (directory / FILE_NAME).stat().st_size / written.samples,
    }


def analysis(directory: Path, gpus: int) -> Facts:
    """Attribution, ledger, check and detectors over the whole store: seconds of each step."""
    steps: list[tuple[str, float]] = []

    def note(step: str, done: int, total: int) -> None:
        if not steps or steps[-1][0] != step:
            steps.append((step, time.perf_counter()))

    with Store.open(directory) as store, State.open(directory) as state:
        replace_rates(state, [Rate(fleet.MODEL, "owned", Decimal("2.49"), 0)], "bench", "bench", NOW_US)
        start, start_cpu = time.perf_counter(), time.process_time()
        report = analyze(store, state, Settings(), now_us=NOW_US, progress=note)
        end, end_cpu = time.perf_counter(), time.process_time()
    ends = [at for _, at in steps[1:]] + [end]
    return {
        "gpus": gpus,
        "analyze_s": end - start,
        "cpu_s": end_cpu - start_cpu,
        "hours": report.hours,
        "findings": report.findings,
        "failed_rules": len(report.failed_rules),
        "steps": {name.split(": ", 1)[-1]: until - at for (name, at), until in zip(steps, ends, strict=True)},
    }


def queries(directory: Path, gpus: int) -> Facts:
    """Milliseconds of the weekly chargeback by several dimensions, and of reading all findings."""
    with Store.open(directory) as store, State.open(directory) as state:
        facts: Facts = {}
        for name, by in QUERIES.items():
            facts[name] = latency(lambda by=by: chargeback(store, state, WEEK, by))  # type: ignore[misc]
        facts["findings"] = latency(lambda: store.sql("select * from finding order by started_us"))
    return facts


def text(directory: Path, gpus: int) -> Facts:
    """Compressed exporter text of a simulated fleet to committed, sealed and checkpointed samples."""
    bundle = directory / "bundle"
    simulate(bundle, gpus=gpus, days=TEXT_DAYS, seed=1)
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        start, start_cpu = time.perf_counter(), time.process_time()
        report = import_paths(store, state, "openmetrics", [bundle / "metrics"], cluster="bench", now_us=LATER_US)
        seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
        counts = ", ".join(f"count({name})" for name in columns())
        samples = sum(store.sql(f"select {counts} from sample")[0])
        used = store.sql("select used_blocks * block_size from pragma_database_size()")[0][0]
    return {
        "gpus": gpus,
        "files": report.files,
        "samples": samples,
        "import_s": seconds,
        "cpu_s": cpu,
        "samples_a_s": samples / seconds,
        "used_bytes_a_sample": used / samples,
    }


def month(directory: Path, gpus: int) -> Facts:
    """Writes and analyses a month that is sampled less often: its books are as large as those of any month."""
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        written = fleet.write(store, gpus=gpus, days=MONTH_DAYS, step_s=MONTH_STEP_S)
        replace_rates(state, [Rate(fleet.MODEL, "owned", Decimal("2.49"), 0)], "bench", "bench", MONTH_END_US)
        rules = [TeamRule("account", team, team) for team in fleet.TEAMS]
        replace_team_rules(state, rules, "bench", "bench", MONTH_END_US)
        start = time.perf_counter()
        report = analyze(store, state, Settings(), now_us=MONTH_END_US)
        seconds = time.perf_counter() - start
    return {"gpus": gpus, "jobs": written.jobs, "rows": written.rows, "findings": report.findings, "analyze_s": seconds}


def serve(directory: Path, gpus: int) -> Facts:
    """API and first page over the store that `month` made."""
    return served.measure(directory, MONTH_END_US)


def durable(directory: Path, gpus: int) -> Facts:
    """Remote-write to the disk on one core, beside its peers."""
    return push.durable(directory)


def ack(directory: Path, gpus: int) -> Facts:
    """Remote-write while a week is analysed, which lies in DIRECTORY/data."""
    return push.ack(directory, directory / "data", NOW_US)


def alert(directory: Path, gpus: int) -> Facts:
    """Idle samples to a message."""
    return push.alert(directory)


def scraping(directory: Path, gpus: int) -> Facts:
    """Live scraping beside its peers; `gpus` endpoints of 8 GPUs."""
    return live.measure(directory, gpus, live.SECONDS, live.PEER_SECONDS)


def reading(directory: Path, gpus: int) -> Facts:
    """Scrapes to points, and remote-write requests to points and to the disk, inside one process."""
    return {"scrape": scrape.measure(gpus), "remote_write": remote_write.measure()}


def parsing(directory: Path, gpus: int) -> Facts:
    """Exporter pages to points on one core."""
    from bench import exposition

    return dict(exposition.measure())


def latency(query: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of QUERY_RUNS runs after one that warms the caches."""
    query()
    taken = []
    for _ in range(QUERY_RUNS):
        start = time.perf_counter()
        query()
        taken.append((time.perf_counter() - start) * 1000)
    return {"p50_ms": statistics.median(taken), "p95_ms": statistics.quantiles(taken, n=20)[-1]}


def scheduler_events(directory: Path, gpus: int) -> Facts:
    """Watch events of 10,000 pods through the live Kubernetes source."""
    return dict(kubernetes.measure(directory))


def protocol_costs(directory: Path, gpus: int) -> Facts:
    """Processor time of a sample by the protocol that brings it."""
    return protocols.measure(directory)


def history(directory: Path, gpus: int) -> Facts:
    """A span of 1,000 GPUs out of VictoriaMetrics."""
    return backfill.measure(directory)


def money_fleet(directory: Path, gpus: int) -> Facts:
    """A month of a fleet of which a third is cut into slices; the other money stages read it."""
    return money.build(directory, gpus)


def money_questions(directory: Path, gpus: int) -> Facts:
    """Chargeback over that month."""
    return money.questions(directory)


def money_focus(directory: Path, gpus: int) -> Facts:
    """That month as FOCUS."""
    return money.focus_month(directory)


def money_reports(directory: Path, gpus: int) -> Facts:
    """The report set of a week of it."""
    return money.report_set(directory)


def money_peers(directory: Path, gpus: int) -> Facts:
    """The same question asked of PromQL."""
    return money.beside_promql(directory)


def analyzer_small(directory: Path, _: int) -> Facts:
    """A first pass over one GPU, and one without changes."""
    return analyzer.small(directory, 0)


def analyzer_hour(directory: Path, gpus: int) -> Facts:
    """All rules over one new hour of a large fleet."""
    return analyzer.hour(directory, gpus)


def analyzer_curve(directory: Path, gpus: int) -> Facts:
    """The same for several sizes and spans."""
    return analyzer.curve(directory, gpus)


def analyzer_growth(directory: Path, days: int) -> Facts:
    """Passes of new hours after so many days of history."""
    return growth.measure(directory, days)


def analyzer_backtest(directory: Path, gpus: int) -> Facts:
    """Each rule tried over the month that `month` made."""
    return analyzer.backtest(directory, gpus)


STAGES: dict[str, Callable[[Path, int], Facts]] = {
    stage.__name__: stage
    for stage in (
        *(write, analysis, queries, text, parsing, month, serve, durable, ack, alert, scraping, reading),
        *(scheduler_events, protocol_costs, history),
        *(analyzer_small, analyzer_hour, analyzer_curve, analyzer_growth, analyzer_backtest),
        *(money_fleet, money_questions, money_focus, money_reports, money_peers),
    )
}


def main(name: str, directory: str, gpus: str = "0") -> None:
    """Runs one stage and prints its facts, with the largest memory the process ever held."""
    facts = STAGES[name](Path(directory), int(gpus))
    facts["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:])
