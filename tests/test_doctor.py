"""Doctor: what it finds in tiny worlds, and the fix it gives."""

from __future__ import annotations

from gpuwatch.doctor import Check, examine, wrong
from gpuwatch.store import Store
from tests.world import HOUR, Gpu, World, claim, minutes, node, samples

SM_ACTIVE = "DCGM_FI_PROF_SM_ACTIVE, gauge, The ratio of cycles an SM has at least 1 warp assigned."
SM_OCCUPANCY = "DCGM_FI_PROF_SM_OCCUPANCY, gauge, The ratio of number of warps resident on an SM."


def checks(store: Store) -> dict[str, Check]:
    return {check.id: check for check in examine(store)}


def test_a_measured_job_needs_no_counters() -> None:
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR))).book()

    found = checks(world.store)

    assert "ok" == found["counters"].status
    assert "ok" == found["unmeasured"].status
    assert "ok" == found["books"].status


def test_a_job_without_sm_active_gets_the_exact_lines() -> None:
    blind = {"gr_engine_ratio": 0.9, "tensor_active_ratio": 0.4, "dram_active_ratio": 0.2}
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR), blind)).book()

    check = checks(world.store)["counters"]

    assert "fail" == check.status
    assert [SM_ACTIVE, SM_OCCUPANCY] == check.fix.splitlines()[1:]


def test_an_empty_store_says_what_to_import() -> None:
    with Store.open(None, threads=1) as store:
        found = examine(store)

    assert wrong(found)
    assert "nothing has been imported" == found[0].what
