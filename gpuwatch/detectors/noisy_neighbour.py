"""Jobs that lose a shared GPU's time to their neighbour on it."""

from __future__ import annotations

from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, register


def _summary(e: Evidence) -> str:
    return (
        f"Its processes fall from {100 * e['quiet_ratio']:.0f} % to {100 * e['loud_ratio']:.0f} % of a shared GPU when {e['neighbour']} is busy "
        f"(rank correlation {e['spearman']:.2f} over {e['points']} instants)."
    )


def _headline(e: Evidence) -> str:
    fall = f"from {100 * e['quiet_ratio']:.0f} % to {100 * e['loud_ratio']:.0f} %"
    return f"{{falls|fell}} {fall} of a shared GPU while {e['neighbour']} {{is|was}} busy"


def _remedy(e: Evidence) -> str:
    return f"Move {e['neighbour']} to another GPU, or cut this one into MIG slices: they do not disturb each other."


NOISY_NEIGHBOUR = register(
    Rule(
        id="noisy-neighbour",
        title="A neighbour on a shared GPU takes its time",
        why="Time-slicing and MPS do not isolate: what one pod takes, the others wait for.",
        bucket="stalled",
        layer="placement",
        effort=DAYS,
        needs=("runs", "shared_devices"),
        thresholds=(
            Threshold("rho_min", 0.6, "Spearman's rank correlation of the two is -0.6 or stronger"),
            Threshold("points_min", 50, "over at least 50 instants at which both were read"),
            Threshold(
                "drop_min", 0.3, "in the third where the neighbour is loudest it has 30 % less than where it is quiet"
            ),
            Threshold("full_min", 0.95, "processes together fill the GPU then: what one lacks the other has"),
            Threshold("still_us", 10 * MINUTE_US, "true within the last 10 known minutes counts as ongoing"),
            Threshold("window_us", 3 * HOUR_US, "instants of the three hours that end with the evaluated one"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        severity=lambda e, hours: "medium",
        look_back_us=3 * HOUR_US,
        measures={
            "spearman": "mean",
            "points": "max",
            "lost_ratio": "mean",
            "quiet_ratio": "mean",
            "loud_ratio": "mean",
            "full_ratio": "mean",
        },
    )
)
