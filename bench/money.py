"""Money of a month of 1,000 GPUs, a third of them cut into slices: questions, FOCUS, reports, and the same question asked of PromQL."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from bench import fleet, money_fleet
from gpuwatch.analyze import analyze
from gpuwatch.clock import DAY_US
from gpuwatch.rates import Rate
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store import Store
from gpuwatch.teams import TeamRule

DAYS, STEP_S = 30, 120
END_US = fleet.START_US + DAYS * DAY_US

Facts = dict[str, object]


def build(directory: Path, gpus: int) -> Facts:
    """Writes and analyses the fleet."""
    with Store.open(directory / "data") as store, State.open(directory / "data") as state:
        written = money_fleet.write(store, gpus=gpus, days=DAYS, step_s=STEP_S)
        state.replace_rates([Rate(fleet.MODEL, "owned", Decimal("2.49"), 0)], "bench", "bench", END_US)
        rules = [TeamRule("account", team, team) for team in fleet.TEAMS]
        state.replace_team_rules(rules, "bench", "bench", END_US)
        report = analyze(store, state, Settings(), now_us=END_US)
    return {"gpus": gpus, "jobs": written.jobs, "rows": written.rows, "findings": report.findings}
