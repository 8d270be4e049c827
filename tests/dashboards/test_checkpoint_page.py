"""The Checkpoints page: every number with its source, unknown numbers as unknown, hostile names as text."""

from __future__ import annotations

from gpuwatch.dashboards.client import Row
from gpuwatch.jobs.checkpoint_inputs import question_of
from gpuwatch.jobs.checkpoints import check
from tests.dashboards.laid_out import answering, check_layout, shown, text

NASTY = '<img src=x onerror=alert(1)>"'
STALL: Row = {
    "key": "checkpoint-stall-1",
    "cluster": "c1",
    "job": NASTY,
    "team": "a",
    "period_minutes": 30.0,
    "stall_ratio": 0.1,
    "gpus": None,
    "gpu_seconds": 7200.0,
    "cost": "12.34",
    "currency": "USD",
}


def answer(stalls: list[Row], **given: str) -> Row:
    return check(None, question_of(**{"params": "70e9", "gpus": "512"} | given), None) | {"stalls": stalls}


def test_each_number_has_its_source_and_the_jobs_that_stall_are_listed() -> None:
    source = answering({"decisions/checkpoint": answer([STALL], write_gbps="50")})
    layout = shown("/checkpoint?params=70e9&gpus=512&write_gbps=50", source=source)

    check_layout(layout)
    words = text(layout)
    assert "980 GB Formula 70,000,000,000 parameters x 14 bytes" in words
    assert "Guess Llama 3 405B training" in words
    assert "1 job of this fleet wait for checkpoints" not in words
    assert "1 job of this fleet waits for checkpoints" in words
    assert "$12.34" in words


def test_what_is_unknown_is_marked_and_not_zero() -> None:
    source = answering({"decisions/checkpoint": answer([])})
    layout = shown("/checkpoint", source=source)

    check_layout(layout)
    words = text(layout)
    assert "An example: a model of 70 billion parameters on 512 GPUs." in words
    assert "– Unknown needs the write bandwidth, or how long GPUs wait" in words.replace("—", "–")
    assert "No checkpoint stall was found in this window" in words


def test_a_refused_question_keeps_its_fields() -> None:
    words = text(shown("/checkpoint?params=x", source=answering({"nothing": {}})))
    assert "Does storage keep up with checkpoints?" in words
