"""The page of a job that waits: what it asks for, why it waits, what would let it start; and of one that nobody has seen."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.dashboards.client import ApiFailure
from gpuwatch.dashboards.shell import states
from tests.dashboards import fake_api, fake_map
from tests.dashboards.capacity.test_queues_page import gang
from tests.dashboards.fake_names import HOSTILE
from tests.dashboards.laid_out import answering, asked, check_layout, links, shown, text

MOVED = "It could start if 1 job with 4 GPUs moved to other nodes."


def page(job: str, *rows: Any) -> Any:
    """The page of a job that has no GPU, where these requests wait."""
    return shown(f"/jobs/{job}?in=c1", source=answering({"capacity/pending": {"items": rows, "next": None}}))


def test_a_job_that_no_cluster_has_seen_is_not_found() -> None:
    with pytest.raises(ApiFailure) as raised:
        page("4801", fake_map.waiting("4800", "gpus"))
    words = text(states.failed(raised.value, asked("/jobs/4801")))

    assert 404 == raised.value.status
    assert "Job 4801 held no GPU that is known, and it is not waiting for one now." in words


def test_a_hint_for_programs_is_not_shown_to_people() -> None:
    failure = ApiFailure(404, "not_found", "team x: there is none of this name", "GET /api/v1/teams lists them")

    assert "/api/" not in text(states.failed(failure, asked("/team/x")))


def test_a_waiting_request_says_what_would_let_it_start() -> None:
    row = fake_map.waiting(
        "4800", "gpus", start={"words": MOVED, "best": fake_map.NO_FIT}, user="erin", scheduler="slurm"
    )
    layout = page("4800", row)
    words = text(layout)

    check_layout(layout)
    assert "8 GPUs on one node" in words
    assert "Too few free GPUs Reason of the scheduler: Resources" in words
    assert MOVED in words
    assert any(href.startswith("/ui/capacity?shape=8") and "in=" not in href for href in links(layout))
    assert "/ui/queues?queue=h100&in=c1" in [
        href.replace("in=c1&queue=h100", "queue=h100&in=c1") for href in links(layout)
    ]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(
            fake_map.waiting("4800", "gpus", gpus=1, profile="1g.10gb", shape="1g.10gb"),
            "Asks for 1 × 1g.10gb|when an instance of 1g.10gb is free on a node that it may use",
            id="a MIG instance",
        ),
        pytest.param(fake_map.waiting("4800", "other"), "Free GPUs would not start it", id="quota or a turn"),
        pytest.param(fake_map.waiting("4800", "unknown"), "is not known from what its scheduler reports", id="unknown"),
        pytest.param(fake_map.waiting("4800", None), "depends on other teams", id="a token of a team"),
        pytest.param(
            fake_map.waiting("4800", "unknown", gpus=None, shape=None, why=None, reason=None, wait_seconds=None),
            "GPUs, how many is not known|No reason reported",
            id="next to nothing is known",
        ),
        pytest.param(fake_map.waiting("4800", "other", why=HOSTILE, name=HOSTILE), "8 GPUs", id="a hostile name"),
    ],
)
def test_what_is_said_of_other_waits(row: Any, expected: str) -> None:
    layout = page("4800", row)

    check_layout(layout)
    assert [] == [words for words in expected.split("|") if words not in text(layout)]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param("", ["alpha", "beta"], id="all that wait, none that runs"),
        pytest.param("&q=ALP", ["alpha"], id="by name"),
        pytest.param("&user=erin", ["beta"], id="by user"),
        pytest.param("&queue=other,vq", ["alpha"], id="by queue"),
        pytest.param("&q=gamma", [], id="what runs does not wait"),
    ],
)
def test_jobs_that_wait_have_a_tab_of_the_jobs_page(more: str, expected: list[str]) -> None:
    rows = [
        gang("alpha", job="lab/alpha"),
        gang("beta", job="lab/beta", user="erin", queue="q2"),
        gang("gamma", "running", job="lab/gamma"),
    ]
    layout = shown(f"/jobs?state=waiting{more}", source=answering({"workloads": {"items": rows, "next": None}}))

    check_layout(layout)
    assert expected == [name for name in ("alpha", "beta", "gamma") if f"/ui/jobs/lab/{name}" in str(links(layout))]
    assert ("No waiting job matches" in text(layout)) == (not expected)
    assert "/ui/jobs?state=waiting" in [href for href in links(shown("/jobs"))]


@pytest.mark.parametrize(
    ("state", "shown_rest"),
    [pytest.param("open", True, id="it runs in part"), pytest.param("resolved", False, id="no more")],
)
def test_a_job_that_runs_in_part_says_what_the_rest_waits_for(state: str, shown_rest: bool) -> None:
    row = fake_map.waiting("4800", "gpus", start={"words": MOVED, "best": fake_map.NO_FIT}, gpus=3, shape="3x1")
    finding = fake_api.finding(0) | {"detector": "gang-partial", "state": state}
    job = fake_api.job(0) | {
        "findings": [finding],
        "runs": [],
        "devices": [],
        "waterfall": [],
        "series": {"points": []},
    }
    answers = {"jobs/4800": job, "capacity/pending": {"items": [row], "next": None}}
    words = text(shown("/jobs/4800", source=answering(answers)))

    assert ("The rest waits for" in words) == (MOVED in words) == shown_rest
