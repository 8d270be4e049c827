"""Doctor: what it finds in tiny worlds, and the fix it gives."""

from __future__ import annotations

from gpuwatch.advice import Advice
from gpuwatch.doctor import Check, _rate_lines, examine, wrong
from gpuwatch.model import Rejects
from gpuwatch.rates import parse_rates
from gpuwatch.store import Store
from tests.world import HOUR, Gpu, World, claim, minutes, node, samples, us

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


def test_a_fix_on_files_is_a_command_with_the_data_directory() -> None:
    with Store.open(None, threads=1) as store:
        (first, *_) = examine(store, advice=Advice(".venv/bin/gpuwatch", "my data"))

    assert [
        ".venv/bin/gpuwatch import bundle BUNDLE --data 'my data'",
        ".venv/bin/gpuwatch analyze --data 'my data'",
    ] == first.fix.splitlines()


def test_a_server_that_was_scraped_waits_for_its_books() -> None:
    world = World().add(samples(Gpu(), minutes(0, 120)))
    with world.store:
        (first, *_) = examine(world.store, advice=Advice(url="http://localhost:1"))

    assert ("warn", False) == (first.status, "gpuwatch import" in first.fix)


def test_rates_of_a_server_are_sent_to_it() -> None:
    fix = Advice(url="http://localhost:1", token=True).rates(["*,on_demand,USD_PER_HOUR,1970-01-01T00:00:00Z,"])

    assert "curl --fail-with-body -X PUT http://localhost:1/api/v1/rates" in fix
    assert "Bearer $TOKEN" in fix


def test_lines_for_one_model_spelt_twice_are_one_and_are_taken_as_they_stand() -> None:
    rows = [
        {"model": "NVIDIA H100 80GB HBM3", "from_us": 0, "to_us": 2**62, "lacking_us": 1},
        {"model": "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "from_us": 0, "to_us": 2**62, "lacking_us": 1},
        {"model": "NVIDIA L4", "from_us": 0, "to_us": us(0), "lacking_us": 1},
        {"model": "NVIDIA L4", "from_us": us(HOUR), "to_us": 2**62, "lacking_us": 1},
    ]
    lines = [line.replace("USD_PER_HOUR", "2.00") for line in _rate_lines(rows)]
    rejects = Rejects()
    kept = parse_rates("\n".join(["gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to", *lines]), "f", rejects)

    assert (3, {}) == (len(kept), rejects.counts)
