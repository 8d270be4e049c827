"""A small fleet with jobs, owners, prices and findings, for the read side: jobs, findings, fleet, series, quality."""

from __future__ import annotations

from decimal import Decimal

from gpuwatch.analysis import pipeline
from gpuwatch.billing import chargeback
from gpuwatch.core.clock import HOUR_US
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.worlds.templates import computed_once
from tests.worlds.world import BUSY, H100, HOUR, IDLE, SETTINGS, T0_US, Gpu, World, claim, minutes, node, samples

A, B, C = Gpu("GPU-a"), Gpu("GPU-b", index=1), Gpu("GPU-c", "n2")
HOLLOW = {"gr_engine_ratio": 0.98, "sm_active_ratio": 0.1, "tensor_active_ratio": 0.02, "dram_active_ratio": 0.02}
OLD, NEW = Decimal(2), Decimal(4)
"""Dollars a GPU-hour before and from 01:00 on."""
DETECTORS = ("false-utilization", "idle-hoarding")
"""The rules with findings here. Readers of findings are tested, not rules: a new rule changes nothing."""

TEAMS = (TeamRule("account", "red", "search"), TeamRule("account", "blue", "vision"))


@computed_once
def fleet_of_three() -> tuple[World, State]:
    """Two hours of three GPUs: job 1 (search) idles on n1 for both, job 2 (vision) is hollow on n1 for the first hour and
    still idles after it, job 3 (nobody's) works on n2. Jobs 1 and 2 go on.
    """
    world = World().add(
        node("n1", {"": 2}),
        node("n2", {"": 1}),
        claim("1", 0, None, evidence=2 * HOUR, account="red", user_name="ann", name="notebook", state="RUNNING",
              device_indexes="0", submit_us=T0_US - 60_000_000),
        claim("2", 0, None, evidence=2 * HOUR, account="blue", user_name="bob", name="train", state="RUNNING",
              device_indexes="1"),
        claim("3", 0, 2 * HOUR, "n2", user_name="cyd", name="batch", state="COMPLETED", device_indexes="0"),
        samples(A, minutes(0, 2 * HOUR), IDLE | {"gpu_util_ratio": 0.0, "power_watts": 70.0}),
        samples(B, minutes(0, HOUR), HOLLOW | {"gpu_util_ratio": 1.0, "power_watts": 200.0}),
        samples(B, minutes(HOUR, 2 * HOUR), IDLE | {"gpu_util_ratio": 0.0, "power_watts": 70.0}),
        samples(C, minutes(0, 2 * HOUR), BUSY | {"gpu_util_ratio": 0.9, "power_watts": 500.0}),
    )  # fmt: skip
    state = State.open("sqlite://")
    changes_us = T0_US + HOUR_US
    replace_rates(
        state,
        [Rate(H100, "owned", OLD, 0, changes_us), Rate(H100, "owned", NEW, changes_us)],
        "test",
        "rates.csv",
        T0_US,
    )
    replace_team_rules(state, TEAMS, "test", "teams.csv", T0_US)
    pipeline.analyze(world.store, state, SETTINGS, now_us=T0_US + 2 * HOUR_US, detectors=DETECTORS)
    chargeback.price_all(world.store, state)
    return world, state
