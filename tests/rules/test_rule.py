"""What a detector's record refuses when it is registered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuwatch.rules.rule import average, register, rules


@pytest.mark.parametrize(
    ("mean", "expected"), [(8.0, "8 free GPUs"), (1, "1 free GPU"), (7.625, "on average 7.6 free GPUs")]
)
def test_a_mean_with_decimals_is_no_number_of_gpus(mean: float, expected: str) -> None:
    assert expected == average(mean, "free GPU")


def test_every_registered_rule_is_registered_once() -> None:
    rule = next(iter(rules().values()))

    with pytest.raises(ValueError, match=f"detector '{rule.id}' is registered twice"):
        register(rule)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bucket": "idle"}, "bucket is 'idle'; choose one of None, compute"),
        ({"layer": "sched"}, "layer is 'sched'; choose one of placement, partitioning, scheduling, fabric"),
        ({"effort": "hour"}, "effort is 'hour'; choose one of hours, days, weeks"),
        ({"mode": "jobs"}, "mode is 'jobs'; choose one of hours, runs, all"),
        ({"measures": {"devices": "count"}}, r"measures\['devices'\] is 'count'; choose one of sum, mean"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_unknown_value_is_refused_with_the_known_ones(wrong: dict[str, Any], message: str) -> None:
    rule = replace(rules()["mig-training"], id="throw-away", **wrong)

    with pytest.raises(ValueError, match=f"detector 'throw-away': {message}"):
        register(rule)

    assert "throw-away" not in rules()
