"""Questions over the books of a large fleet: a month of a few GPUs, its jobs and books copied many times within one cluster.

`python -m bench.large_books DIRECTORY COPIES` writes DIRECTORY unless it exists, and prints milliseconds of processor time as JSON.
500 copies are 10,000 GPUs.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from decimal import Decimal
from pathlib import Path

from bench import fleet, fleet_plan
from gpuwatch.analysis.pipeline import analyze
from gpuwatch.api.app import create_app
from gpuwatch.core.clock import DAY_US, rfc3339
from gpuwatch.lake.tables import published_tables
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.service import after_pass
from gpuwatch.service.config import Plan
from gpuwatch.service.roles import API
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.api import Api, Clock

GPUS, DAYS, STEP_S = 20, 30, 3600
END_US = fleet_plan.START_US + DAYS * DAY_US
RULES = ("failed-work", "idle-hoarding")
RUNS = 9
QUESTIONS = {
    "chargeback by team": "chargeback?window={window}&by=team",
    "chargeback by job": "chargeback?window={window}&by=job&limit=100",
    "jobs": "jobs?window={window}",
    "ledger by bucket": "ledger?window={window}&by=bucket",
    "overview": "overview?window={window}",
}
COPIED = ("run", "run_team", "device", "device_class", "device_price", "capacity", "segment", "ledger_hour", "book_day")
"""Tables with rows of each copy."""
SUMMED = ("word_day", "slice_day", "team_day")
"""Tables that have the sums of all copies in the rows of one."""
KEYS = ("run_id", "device_id", "parent_id")
NAMES = ("job_id", "run_key", "gpu", "node")
APART = 7919
"""Added to a number for each copy."""

Facts = dict[str, object]


def build(directory: Path, copies: int) -> None:
    """Writes the fleet, analyses it, and copies its books."""
    settings = Settings(default_interval_s=STEP_S)
    with Store.open(directory) as store, State.open(directory) as state:
        fleet.write(store, gpus=GPUS, days=DAYS, step_s=STEP_S)
        replace_rates(state, [Rate("*", "owned", Decimal("2.50"), 0)], "bench", "bench", END_US)
        analyze(store, state, settings, now_us=END_US, detectors=list(RULES))
        store.link_state(state.identity())
        columns = {table.name: table.names for table in published_tables(store)}
        for table in COPIED:
            listed = ", ".join(_copied(name) for name in columns[table])
            store.sql(
                f"insert into {table} by name select {listed} from {table}, range(1, $copies) q(copy)", copies=copies
            )
        for table in SUMMED:
            sums = [name for name in columns[table] if name.endswith("_us") and name not in ("day_us", "first_us")]
            store.sql(f"update {table} set {', '.join(f'{name} = {name} * $copies' for name in sums)}", copies=copies)
        store.checkpoint()


def _copied(name: str) -> str:
    """The column of a copy."""
    if name in KEYS:
        return f"{name} + copy * {APART} as {name}"
    return f"{name} || '-' || copy as {name}" if name in NAMES else name


def ask(directory: Path) -> Facts:
    """The size of the books, and the median milliseconds of processor time of each question: their windows differ, so that
    no answer is given again.
    """
    moment = [END_US]
    settings, clock = Settings(), Clock()
    plan = Plan(settings, {}, (), after_pass.configured({}))
    service = Service.open(directory, settings, plan, now_us=lambda: moment[0], role=API)
    api = Api(service, create_app(service, clock=clock), clock, moment)
    service.start()
    try:
        counted = ("run", "device", "ledger_hour", "book_day")
        facts: Facts = {name: service.store.sql(f"select count(*) from {name}")[0][0] for name in counted}
        for name, question in QUESTIONS.items():
            taken = []
            for number in range(RUNS):
                window = f"{_day(number % 3)},{_day(DAYS - number // 3)}"
                start = time.process_time()
                answer = api.get("/api/v1/" + question.format(window=window))
                taken.append((time.process_time() - start) * 1000)
                answer.raise_for_status()
            facts[name] = {"cpu_ms": round(statistics.median(taken[1:]), 1), "first_cpu_ms": round(taken[0], 1)}
    finally:
        service.stop()
    return facts


def _day(number: int) -> str:
    return rfc3339(fleet_plan.START_US + number * DAY_US)[:10]


def main(place: str, copies: str) -> None:
    """Prints the figures."""
    directory = Path(place)
    if not directory.exists():
        build(directory, int(copies))
    print(json.dumps(ask(directory), indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
