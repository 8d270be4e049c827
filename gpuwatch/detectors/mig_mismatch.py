"""MIG slices that are larger or smaller than what runs on them."""

from __future__ import annotations

from gpuwatch.advisor.slice_fit import prepare
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, register


def _summary(e: Evidence) -> str:
    if e["verdict"] == "undersized":
        return (
            f"A job ended at {100 * e['full_ratio']:.0f} % of the memory of a {e['profile']}, "
            f"{count(e['attempts'], 'attempt')} in 24 hours."
        )
    return (
        f"{e['active_hours']:.0f} active hours within seven days on {e['profile']} used at most {e['memory_gib']:.1f} GiB and "
        f"{100 * e['sm_active_max_ratio']:.0f} % of its SMs: {e['fit']} holds that in {100 * (1 - e['peak_hours_ratio']):.0f} % of the hours."
    )


def _headline(e: Evidence) -> str:
    if e["verdict"] == "undersized":
        return f"{{needs|needed}} more than its {e['profile']} slice: a job ended at {100 * e['full_ratio']:.0f} % of its memory"
    return f"{{uses|used}} a {e['profile']} slice where a {e['fit']} {{is|was}} enough"


def _remedy(e: Evidence) -> str:
    if e["verdict"] == "undersized":
        return (
            f"Ask for {e['fit']} or larger." if e["fit"] else "Ask for a whole GPU: no slice of this model is larger."
        )
    return f"Use {e['fit']} instead of {e['profile']}."


MIG_MISMATCH = register(
    Rule(
        id="mig-mismatch",
        title="A MIG slice of the wrong size",
        why="Unused parts of a slice are blocked for everyone else; a slice that is too small makes its jobs fail.",
        bucket="below_roof",
        layer="partitioning",
        effort=DAYS,
        needs=("slices",),
        thresholds=(
            Threshold("active_us_min", 24 * HOUR_US, "at least 24 active hours in seven days"),
            Threshold("coverage_min", 0.8, "a week is evaluated if 80 % of its held time was sampled"),
            Threshold("memory_headroom", 1.2, "the most memory seen, and a fifth more"),
            Threshold("sm_load_max", 0.8, "the smaller slice would be busy 80 % at most"),
            Threshold("peak_hours_max", 0.05, "95 % of the SM use counts"),
            Threshold("full_ratio_min", 0.97, "memory full to 97 % when a run failed"),
            Threshold(
                "before_exit_us",
                2 * MINUTE_US,
                "60 seconds before its end, and a scrape that was lost",
            ),
            Threshold("filled_us", 30 * MINUTE_US, "what memory did in the half hour before the end"),
            Threshold(
                "allocator_fill_min", 0.9, "memory full all the time: vLLM takes 90 % of the device from the start"
            ),
            Threshold("attempt_max_us", HOUR_US, "a longer attempt has done work that is not lost"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        look_back_us=7 * DAY_US + 6 * HOUR_US,
        gap_us=DAY_US,
        measures={
            "memory_gib": "max",
            "sm_active_max_ratio": "max",
            "peak_hours_ratio": "last",
            "active_hours": "last",
            "full_ratio": "max",
            "attempts": "max",
        },
        prepare=prepare,
    )
)
