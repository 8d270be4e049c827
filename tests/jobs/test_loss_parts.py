"""The largest loss by team and kind of work."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpuwatch.findings.priority import Rate
from gpuwatch.jobs.loss_parts import LossPart, divided, remedy

VIEWS = Path(__file__).parents[2] / "sql" / "views"
SERVES = '{"pod-template-hash": "x"}'


@pytest.mark.parametrize(
    ("scheduler", "labels", "queue", "namespace", "name", "expected"),
    [
        pytest.param("slurm", None, "gpu", None, "pretrain", "batch", id="a job of Slurm ends by itself"),
        pytest.param("slurm", None, "interactive", None, "pretrain", "session", id="a partition for sessions"),
        pytest.param("kubernetes", None, None, "research", "eval-5148", "other", id="nothing says what a bare pod is"),
        pytest.param("kubernetes", None, None, "research", "lab-5727-0", "other", id="nor a pod with a number"),
        pytest.param("kubernetes", "{}", None, "research", "eval-5148", "batch", id="labels without a server's"),
        pytest.param("kubernetes", SERVES, None, "research", "eval-5148", "service", id="the label of a Deployment"),
        pytest.param("kubernetes", None, None, "chat", "chat-6120-4xt2zqw85-w9mwm", "service", id="the name of a Deployment's pod"),
        pytest.param("kubernetes", None, None, "chat", "score-batch-6131-kkwf4", "batch", id="the name of a Job's pod"),
        pytest.param("kubernetes", None, None, "notebooks", "nb-5730-0", "session", id="a namespace of notebooks"),
        pytest.param("kubernetes", None, None, "carnotebooks", "nb-5730-0", "other", id="a namespace that only sounds so"),
    ],
)  # fmt: skip
def test_the_kind_of_work(
    scheduler: str, labels: str | None, queue: str | None, namespace: str | None, name: str, expected: str
) -> None:
    database = duckdb.connect()
    for view in ("session", "needs_steady", "work_kind"):
        database.execute((VIEWS / f"{view}.sql").read_text())
    values = {"scheduler": scheduler, "labels": labels, "queue": queue, "namespace": namespace, "name": name}
    sql = "select work_kind($scheduler, $labels, $queue, $namespace, $name)"

    assert [(expected,)] == database.execute(sql, values).fetchall()


def str_of(size: Rate) -> str:
    """An amount in words."""
    return f"{size.hours} GPU-h" if size.cost is None else f"{size.cost} dollars"


def row(team: str, kind: str, seconds: float, value: float | None) -> dict[str, Any]:
    """As report/loss_kind.sql answers."""
    return {"team": team, "kind": kind, "gpu_seconds": seconds, "value": value}


def test_the_parts_add_up_to_what_each_team_held() -> None:
    """Money is divided by prices, time by time."""
    held = [("red", Rate(Fraction(90), Fraction(10))), ("blue", Rate(Fraction(10), Fraction(5)))]
    found = divided(held, [row("red", "batch", 30_000.0, 10.0), row("red", "service", 10_000.0, 20.0)])

    assert (
        LossPart("red", "service", Fraction(9000), Fraction(60)),
        LossPart("red", "batch", Fraction(27_000), Fraction(30)),
        LossPart("blue", None, Fraction(18_000), Fraction(10)),
    ) == found


def test_time_divides_money_where_a_price_is_not_known() -> None:
    held = [("red", Rate(Fraction(90), Fraction(10)))]
    found = divided(held, [row("red", "batch", 30_000.0, None), row("red", "service", 10_000.0, 20.0)])

    assert [("batch", Fraction(135, 2)), ("service", Fraction(45, 2))] == [(one.kind, one.cost) for one in found]


def test_hours_where_nothing_has_a_price() -> None:
    parts = divided([("red", Rate(None, Fraction(10)))], [row("red", "batch", 5.0, None)])

    assert (
        "Training and batch jobs (10 GPU-h): load data ahead of the GPU, and save checkpoints in the background."
        == (remedy("gap", parts, str_of))
    )


@pytest.mark.parametrize("bucket", ["stranded", "unobserved", "below_roof"])
def test_no_remedy_by_kind_for_what_is_not_divided(bucket: str) -> None:
    parts = (LossPart("red", "batch", Fraction(1), Fraction(1)),)

    assert "" == remedy(bucket, parts, str_of)
    assert "" == remedy("gap", (LossPart("red", None, Fraction(1), Fraction(1)),), str_of)
