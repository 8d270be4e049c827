"""Jobs that spot capacity would make cheaper."""

from __future__ import annotations

from gpuwatch.advisor.daily import spot_cases
from gpuwatch.core.clock import DAY_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, lasting, price_text, register


def _summary(e: Evidence) -> str:
    return (
        f"Spot saves {price_text(e['saving'], e['currency'])} of {price_text(e['cost'], e['currency'])} in 30 days at {e['interruptions_an_hour']:g} interruptions "
        f"an hour: checkpoints every {lasting(e['checkpoint_minutes'], 'minutes')}, {100 * e['lost_ratio']:.1f} % more time."
    )


def _headline(e: Evidence) -> str:
    return f"could save {price_text(e['saving'], e['currency'])} in 30 days on spot capacity"


def _remedy(e: Evidence) -> str:
    return "Let the job run on spot capacity and start again from its last checkpoint when it is taken away."


SPOT_SUITABILITY = register(
    Rule(
        id="spot-suitability",
        title="A job for spot capacity",
        why="Spot capacity costs a fraction; a job with checkpoints loses little when it is taken away.",
        bucket=None,
        layer="placement",
        effort=DAYS,
        needs=("runs", "spot_rates"),
        priced=True,
        thresholds=(
            Threshold("gpu_hours_min", 24, "job_defense_shield notifies users from 24 GPU-hours on"),
            Threshold("margin", 2, "lost work may cost at most half of what spot saves"),
            Threshold("restart_us", 10 * MINUTE_US, "a container start, as the warm-up of other rules"),
            Threshold("recent_us", 7 * DAY_US, "a job that did not run for a week is no longer reported"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        mode="all",
        gap_us=365 * DAY_US,
        measures={
            "gpu_hours": "last",
            "longest_run_hours": "last",
            "nodes": "last",
            "checkpoint_minutes": "last",
            "interruptions_an_hour": "last",
            "lost_ratio": "last",
            "spot_price_ratio": "last",
        },
        prepare=spot_cases,
    )
)
