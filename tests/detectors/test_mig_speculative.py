"""MIG instances kept for nobody: what must not be called so, then what must, and what is claimed of the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.advisor.idle_mig import serves
from gpuwatch.detectors.mig_speculative import MIG_SPECULATIVE
from tests.worlds.detectors import H100, IDLE, World, page_rows, us
from tests.worlds.fragmentation import waits
from tests.worlds.scheduling import evaluated, evaluated_apart

RULE = "mig-speculative"
DAY = 1440
END = 8 * DAY
LAYOUT = ("1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb")
Scene = Callable[[World], object]


def board(w: World, held_days: float = 0, days: float = 8) -> None:
    """A GPU in four parts, sampled for some days up to the end; the two smallest are never held, or for some days."""
    start = END - days * DAY
    for gi, profile in enumerate(LAYOUT):
        w.gpu("g", (days * DAY, IDLE), start=start, step_s=840, gi=gi, profile=profile)
    w.claim(
        scheduler="slurm", kind="sacct", job_id="steady", run_key="steady", node="n1", profile="3g.40gb", device_count=1,
        submit_us=us(start), start_us=us(start), end_us=us(END), state="COMPLETED",
    )  # fmt: skip
    w.claim(
        scheduler="slurm", kind="sacct", job_id="other", run_key="other", node="n1", profile="2g.20gb", device_count=1,
        submit_us=us(start), start_us=us(start), end_us=us(END), state="COMPLETED",
    )  # fmt: skip
    if held_days:
        w.claim(
            scheduler="slurm", kind="sacct", job_id="small", run_key="small", node="n1", profile="1g.10gb", device_count=2,
            submit_us=us(start), start_us=us(start + DAY), end_us=us(start + (1 + held_days) * DAY), state="COMPLETED",
        )  # fmt: skip


def wanted(w: World, profile: str = "1g.20gb") -> None:
    waits(w, 1, END - 240, END - 60, profile=profile, job_id="want")


MUST_NOT_FIRE: dict[str, list[Scene]] = {
    "held for a day of the week": [lambda w: board(w, 1), wanted],
    "only five days are known": [lambda w: board(w, days=5), wanted],
}


def test_must_not_fire(tmp_path: Path) -> None:
    findings = evaluated_apart(tmp_path, RULE, END, MUST_NOT_FIRE)

    assert {} == {case: verdicts for case, verdicts in findings.items() if verdicts}


def test_instances_that_nobody_used_for_a_week_while_another_profile_is_wanted(tmp_path: Path) -> None:
    [one] = evaluated(tmp_path, RULE, END, board, wanted)

    assert ("gpu", "g") == (one.kind, one.subject)
    assert (END - 210, END - 60) == (one.started, one.ended)
    assert (2, 1, 1, 150) == tuple(
        one.evidence[n] for n in ("idle_instances", "waiting_jobs", "would_serve", "pending_minutes")
    )
    assert ("1g.10gb", "want", "1g.20gb") == tuple(one.evidence[n] for n in ("profiles", "waiting_job", "wanted"))
    assert one.wasted_s > 0


@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes"])
def test_free_slices_of_other_profiles_are_not_what_a_request_waits_for(tmp_path: Path, scheduler: str) -> None:
    """Slices of 2g.20gb are free on another GPU, and seven of 1g.10gb on this one."""

    def slices(w: World) -> None:
        for gi in range(1, 8):
            w.gpu("g", (8 * DAY, IDLE), step_s=840, gi=gi, profile="1g.10gb")
        w.gpu("h", (8 * DAY, IDLE), step_s=840, gi=1, profile="2g.20gb")
        message = "0/2 nodes are available: 2 Insufficient nvidia.com/mig-3g.40gb."
        more = {"namespace": "ml", "message": message} if scheduler == "kubernetes" else {}
        reason = "Unschedulable" if scheduler == "kubernetes" else "Resources"
        waits(w, 1, END - 240, END - 60, reason, profile="3g.40gb", job_id="ml/want", scheduler=scheduler, **more)

    [one] = [one for one in evaluated(tmp_path, RULE, END, slices) if one.subject == "g"]

    assert (7, 2, "3g.40gb") == tuple(one.evidence[n] for n in ("idle_instances", "would_serve", "wanted"))


# What fits in their place.


@pytest.mark.parametrize(
    "parts, wanted, fits",
    [
        pytest.param(("1g.10gb", "3g.40gb*"), "1g.10gb", 0, id="what is idle already needs no repartition"),
        pytest.param(("1g.10gb*",) * 7, None, 0, id="a GPU with instances in use is not whole"),
        pytest.param(("1g.10gb",) * 7, None, 1, id="a GPU with none in use can be whole"),
        pytest.param(("1g.10gb",) * 7, "3g.40gb", 2, id="two halves fit where seven small ones stood"),
        pytest.param(("1g.10gb",) * 7, "4g.10gb", 0, id="a profile that the model does not have"),
    ],
)
def test_what_fits_in_the_place_of_unused_instances(parts: tuple[str, ...], wanted: str | None, fits: int) -> None:
    assert fits == serves(H100, parts, wanted)


def test_the_doc_page_says_the_thresholds(checkout: Path) -> None:
    page = page_rows(checkout / "docs/detectors/mig-speculative.md")

    assert {"held_ratio_max": "0.1", "known_ratio_min": "0.8", "wait_us_min": "30 min"} == page
    assert set(page) == {threshold.name for threshold in MIG_SPECULATIVE.thresholds}
