"""A slow GPU that its whole gang waits for."""

from __future__ import annotations

from gpuwatch.core.clock import MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, lasting, register

CLOCK_RATIO_MAX = 0.93
"""Of the gang's median SM clock, below which a GPU is slow (domain: D11)."""


def _summary(e: Evidence) -> str:
    own, others = e.get("sm_clock_mhz"), e.get("gang_sm_clock_mhz")
    slower = own is not None and others is not None and own < CLOCK_RATIO_MAX * others
    clock = f" at {own:.0f} MHz, others at {others:.0f}" if slower else ""
    return (
        f"{e['gpu']} on {e['node']}{clock} ({e['causes']}) computes {100 * e['busy_ratio']:.0f} % of the time, the middle "
        f"of its {e['gpus']} GPUs {100 * e['gang_busy_ratio']:.0f} %: the others wait {100 * e['loss_ratio']:.0f} % of the "
        f"time in {lasting(e['windows'] / 12, 'hours')}."
    )


def _headline(e: Evidence) -> str:
    return f"{{waits|waited}} {100 * e['loss_ratio']:.0f} % of the time for one slow GPU ({e['gpu']} on {e['node']})"


def _remedy(e: Evidence) -> str:
    return (
        f"Drain {e['node']} and look at {e['gpu']} ({e['causes']}): nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE, then "
        "dcgmi diag -r 3; replace it if it stays slow, and restart the job without it."
    )


STRAGGLER = register(
    Rule(
        id="straggler",
        title="One slow GPU, and a gang that waits for it",
        why="Every collective ends when the slowest rank arrives; one GPU at half clock halves hundreds of others.",
        bucket="communication",
        layer="placement",
        effort=DAYS,
        needs=("runs", "several_devices"),
        thresholds=(
            Threshold("gang_gpus_min", 4, "fewer have no median that one of them stands out from"),
            Threshold("score_min", 3.5, "domain: (T - median) / MAD, the usual cut of the modified z-score"),
            Threshold("noise_ratio", 0.01, "lower bound of the MAD, so that nearly equal GPUs do not stand out"),
            Threshold("loss_ratio_min", 0.05, "a twentieth of the gang's time is worth a drain"),
            Threshold("loss_ratio_max", 0.5, "domain: the loss is clamped to one half"),
            Threshold("work_ratio_min", 0.05, "an idle gang waits for no member"),
            Threshold("windows_min", 3, "domain: three of four windows of five minutes"),
            Threshold("clock_ratio_max", CLOCK_RATIO_MAX, "domain: SM clock below 93 % of the gang's median"),
            Threshold("hotter_celsius_min", 10, "domain: 10 degrees above the gang's median"),
            Threshold("confidence_clock", 0.8, "a low clock or hardware slowdown explains slow kernels"),
            Threshold("confidence_other", 0.6, "heat, PCIe and NVLink errors make slow kernels likely"),
            Threshold("coverage_min", 0.8, "a window is evaluated if 80 % of it was sampled"),
            Threshold("warm_up_us", 10 * MINUTE_US, "first 10 minutes of a run: compile, download, collective init"),
            Threshold("cool_down_us", 2 * MINUTE_US, "last 2 minutes of a run: checkpoint and teardown"),
            Threshold("still_us", 10 * MINUTE_US, "slow within the last 10 known minutes counts as ongoing"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        severity=lambda e, hours: "medium",
        measures={
            **dict.fromkeys(("gpus", "score"), "max"),
            "slow_gpus": "devices",
            "windows": "sum",
            **dict.fromkeys(
                (
                    "busy_ratio", "gang_busy_ratio", "sm_clock_mhz", "gang_sm_clock_mhz", "temp_celsius",
                    "gang_temp_celsius", "loss_ratio",
                ),
                "mean",
            ),
        },
    )
)  # fmt: skip
