"""Every edge case of attribution in dollars: a GPU-hour costs 36 dollars, so that a second of a GPU is a cent.

KEPT names for each case the tests that hold it; those with figures of money stand here.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.town import Part, case
from tests.worlds.world import BUSY, CLUSTER, HOUR, IDLE, T0_US, Gpu, World, claim, minutes, node, pod, samples, us

KEPT = {
    "pod restart in place": (
        "test_a_pod_that_restarts_in_place_pays_through_its_restart",
        "ledger/test_attribution.py::test_a_pod_restarted_in_place_keeps_its_device",
        "ledger/test_hours.py::test_a_pod_restarted_in_place_has_a_gap_and_keeps_its_gpu",
    ),
    "pod recreated under its name": (
        "test_a_pod_recreated_under_its_name_is_another_owner",
        "ledger/test_attribution.py::test_a_pod_recreated_under_its_name_is_a_new_owner",
        "ledger/test_attribution.py::test_a_pod_recreated_on_another_gpu_does_not_hold_the_old_one",
    ),
    "ids that are used again": (
        "test_a_job_number_that_comes_again_is_another_run",
        "ledger/test_attribution.py::test_a_requeued_job_is_two_runs",
        "ledger/test_attribution.py::test_array_tasks_are_jobs_of_their_own",
        "hardware/test_layouts.py::test_an_id_that_is_used_again_is_another_slice_on_another_line",
    ),
    "overlapping owners of an exclusive GPU": (
        "test_where_two_owners_overlap_the_newest_pays_and_nobody_twice",
        "ledger/test_attribution.py::test_on_overlap_of_an_exclusive_gpu_the_newest_bind_wins_and_is_marked",
        "collectors/kubernetes/test_live.py::test_a_pod_that_ended_before_it_was_deleted_keeps_its_end",
    ),
    "a sample straddles a hand-over": (
        "test_a_hand_over_within_a_sample_is_billed_to_the_second",
        "ledger/test_hours.py::test_a_sample_on_a_hand_over_is_split_by_time",
    ),
    "missing scrapes": (
        "test_a_silence_is_billed_and_shown_as_unobserved",
        "ledger/test_hours.py::test_telemetry_gap",
    ),
    "duplicate scrapes": (
        "test_what_two_scrapers_read_is_billed_once",
        "ledger/test_hours.py::test_the_same_scrape_twice_changes_nothing",
    ),
    "out of order, clock skew": (
        "test_samples_in_any_order_give_the_same_bill",
        "ledger/test_ledger_properties.py::test_order_repetition_and_batching_do_not_matter",
        "quality/test_clocks.py::test_a_clock_that_was_read_is_off_by_the_middle_of_its_looks",
        "store/test_remote_write_order.py::",
    ),
    "counter reset": ("test_a_counter_reset_changes_no_bill",),
    "exporter or host engine restart": ("test_what_an_exporter_blanks_after_its_restart_is_unobserved",),
    "node reboot": ("test_a_reboot_ends_what_ran_and_is_nobody_s_time",),
    "GPU replaced": (
        "test_a_replaced_gpu_is_billed_to_its_last_sample_and_the_new_one_from_its_first",
        "ledger/test_attribution.py::test_a_gpu_replaced_in_its_slot_closes_at_its_own_last_sample",
        "capacity/test_fleet.py::test_a_replaced_gpu_is_gone",
    ),
    "GPU fell off the bus": (
        "test_a_gpu_that_fell_off_the_bus_is_out_of_service",
        "ledger/test_attribution.py::test_a_gpu_that_vanished_under_a_job_is_held_to_the_job_s_end",
    ),
    "MIG reconfiguration": (
        "hardware/test_layouts.py::test_an_id_that_is_used_again_is_another_slice_on_another_line",
        "hardware/test_layouts.py::test_memory_of_an_old_layout_is_not_that_of_the_new_one",
        "hardware/test_layouts.py::test_while_slices_are_made_the_gpu_is_out_of_service_and_so_is_what_they_leave",
        "hardware/test_layouts.py::test_while_the_exporter_is_down_the_old_layout_stands_and_is_out_of_service",
    ),
    "MIG mode toggle": (
        "hardware/test_layouts.py::test_mig_switched_off_turns_the_slices_into_their_gpu",
        "ledger/test_attribution.py::test_mig_switched_on_turns_the_gpu_into_its_slices",
    ),
    "node pool autoscale-down": ("test_a_node_that_is_scaled_away_is_the_platform_s_out_of_service",),
    "spot reclaim": ("test_a_reclaimed_spot_node_is_billed_to_its_reclaim_with_the_reason_kept",),
    "suspended job": ("test_a_suspended_job_hoards_its_gpu_and_pays_for_it",),
    "exporter excludes a GPU": (
        "test_a_gpu_that_no_exporter_reads_is_billed_unobserved",
        "ledger/test_attribution.py::test_the_gpu_that_the_exporter_leaves_out_of_eight_is_held_unobserved",
        "detectors/test_blind_spot.py::",
    ),
    "clock changes and period edges": (
        "test_a_day_is_24_hours_also_where_clocks_change",
        "collectors/slurm/test_run_times.py::test_a_time_of_the_repeated_hour_is_the_instant_that_fits",
        "collectors/slurm/test_text.py::test_a_time_has_two_readings_only_where_the_clocks_change",
    ),
    "late events after close": (
        "test_a_record_that_comes_late_moves_money_and_adds_none",
        "ledger/test_ledger_properties.py::test_data_that_arrives_after_an_analysis_gives_the_same",
        # What a closed period says of it is kept by the tests of periods.
    ),
    "two exporters of one node": (
        "test_what_two_scrapers_read_is_billed_once",
        "ledger/test_hours.py::test_two_exporters_on_one_node_do_not_change_the_sum",
        "quality/test_doctor.py::test_two_exporters_of_one_node_are_named",
    ),
    "vGPU or passthrough": ("test_a_gpu_without_profiling_is_billed_and_its_work_is_unknown",),
}
"""Edge case of the domain's table -> the tests that keep it, in this file or as file::test."""

A = Gpu(pci="00000000:1B:00.0")
B = Gpu("GPU-b", index=1, pci="00000000:43:00.0")
TEAM_A, TEAM_B = {"account": "acct-a"}, {"account": "acct-b"}
POD = {"pod": "p-0", "namespace": "lab"}
NOBODY = "__platform__"


def billed(world: World, hours: int = 1) -> dict[str, Decimal]:
    """Dollars by team; what nobody held by its bucket. Those of all cases add up to the bill."""
    if isinstance(world, Part):
        lines = town_bill(world.store)
        return total((name, cost) for node, name, cost in lines if world.owns(node))
    return total((name, cost) for _, name, cost in bill(world.book().store, hours))


def total(costs: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    money: dict[str, Decimal] = defaultdict(Decimal)
    for name, cost in costs:
        money[name] += cost
    return dict(money)


def bill(store: Store, hours: int = 1) -> list[tuple[str | None, str, Decimal]]:
    """Node, team or bucket, and dollars."""
    state = State.open("sqlite://")
    replace_rates(state, [Rate("*", "owned", Decimal(36), T0_US - DAY_US)], "test", "test", 0)
    replace_team_rules(state, [TeamRule("account", f"acct-{t}", t) for t in "ab"], "test", "test", 0)
    chargeback.price(store, state, CLUSTER, force=True)
    window = Window(us(0), us(hours * HOUR))
    bill = chargeback.chargeback(store, state, window, ("team", "node"))
    books = chargeback.ledger(store, state, window, ("team", "node"))
    held = [(c.group["node"], c.group["team"] or "", c.cost or Decimal(0)) for c in bill.items]
    free = [
        (row.group["node"], row.bucket, row.cost or Decimal(0)) for row in books.items if row.group["team"] == NOBODY
    ]
    lines = [line for line in held if line[1] != NOBODY] + free
    assert bill.cost == books.cost == sum(cost for *_, cost in lines)
    return lines


town_bill = functools.cache(bill)


def dollars(**amounts: str | int) -> dict[str, Decimal]:
    return {name: Decimal(amount) for name, amount in amounts.items()}


def test_every_case_of_the_table_is_kept_by_tests_that_exist() -> None:
    here = Path(__file__)
    missing = []
    for edge, names in KEPT.items():
        for name in names:
            file, _, test = name.rpartition("::")
            text = (here.parents[1] / file if file else here).read_text("utf-8")
            if not re.search(rf"^def {re.escape(test) or 'test_'}", text, re.MULTILINE):
                missing.append((edge, name))

    assert [] == missing
    assert 23 == len(KEPT)


# Owners.


@case
def test_a_pod_that_restarts_in_place_pays_through_its_restart(world: World) -> Iterator[None]:
    world.add(
        samples(A, minutes(0, 1800), BUSY, **POD, container="main"),
        samples(A, minutes(1800, 1980), IDLE, **POD),
        samples(A, minutes(1980, HOUR), BUSY, **POD, container="main"),
        pod("p-0", "u1", 0, HOUR, **TEAM_A),
    )
    yield

    assert dollars(a="36.00") == billed(world)
    assert "hoarded" not in world.held()


@case
def test_a_pod_recreated_under_its_name_is_another_owner(world: World) -> Iterator[None]:
    world.add(
        samples(A, minutes(0, HOUR), BUSY, **POD),
        pod("p-0", "u1", 0, 1745, **TEAM_A),
        pod("p-0", "u2", 1807, HOUR, **TEAM_B),
    )
    yield

    assert dollars(a="17.45", schedulable="0.62", b="17.93") == billed(world)


@case
def test_a_job_number_that_comes_again_is_another_run(world: World) -> Iterator[None]:
    world.add(
        samples(A, minutes(0, 1200), BUSY, job="7"),
        samples(A, minutes(1200, 2400), IDLE),
        samples(A, minutes(2400, HOUR), BUSY, job="7"),
        claim("7", 0, 1200, run_key="7@0", **TEAM_A),
        claim("7", 2400, HOUR, run_key="7@2400", **TEAM_B),
    )
    yield

    assert dollars(a="12.00", b="12.00", schedulable="12.00") == billed(world)
    assert 2 == len(world.rows("run"))


@case
def test_where_two_owners_overlap_the_newest_pays_and_nobody_twice(world: World) -> Iterator[None]:
    world.add(
        samples(A, minutes(0, 1800), BUSY, pod="old", namespace="lab"),
        samples(A, minutes(1800, HOUR), BUSY, pod="new", namespace="lab"),
        pod("old", "u1", 0, 2400, **TEAM_A),
        pod("new", "u2", 1800, HOUR, **TEAM_B),
    )
    yield

    assert dollars(a="18.00", b="18.00") == billed(world)
    assert [600] == [b - a for _, a, b, who, _ in world.segments() if "conflict" in who]


@case
def test_a_hand_over_within_a_sample_is_billed_to_the_second(world: World) -> Iterator[None]:
    world.add(
        samples(A, minutes(0, 1860), BUSY, job="7"),
        samples(A, minutes(1860, HOUR), BUSY, job="8"),
        claim("7", 0, 1837, **TEAM_A),
        claim("8", 1837, HOUR, **TEAM_B),
    )
    yield

    assert dollars(a="18.37", b="17.63") == billed(world)


def test_a_record_that_comes_late_moves_money_and_adds_none() -> None:
    world = World().add(samples(A, minutes(0, HOUR), BUSY))

    assert dollars(schedulable="36.00") == billed(world)
    world.add(claim("7", 600, 1800, gpus="GPU-a", **TEAM_A))
    assert dollars(schedulable="24.00", a="12.00") == billed(world)


# Samples.


@case
def test_a_silence_is_billed_and_shown_as_unobserved(world: World) -> Iterator[None]:
    """Sampled each minute: one sample more is held for two intervals, the rest of the ten minutes nobody saw."""
    world.add(
        samples(A, minutes(0, 1800), BUSY, job="7"),
        samples(A, minutes(2400, HOUR), BUSY, job="7"),
        claim("7", 0, HOUR, **TEAM_A),
    )
    yield

    assert dollars(a="36.00") == billed(world)
    assert 600 - 60 == world.held()["unobserved"]


@pytest.mark.parametrize("shift", [0, 7])
@case
def test_what_two_scrapers_read_is_billed_once(world: World, shift: int) -> Iterator[None]:
    labels = {"job": "7"}
    world.add(
        samples(A, minutes(0, HOUR), BUSY, **labels),
        samples(A, [at + shift for at in minutes(0, HOUR)], BUSY, driver="550.54"),
        claim("7", 0, HOUR, **TEAM_A),
    )
    yield

    assert dollars(a="36.00") == billed(world)


def test_samples_in_any_order_give_the_same_bill() -> None:
    rows = samples(A, minutes(0, 1800), BUSY, job="7") + samples(A, minutes(1800, HOUR), IDLE, job="7")
    job = claim("7", 0, HOUR, **TEAM_A)
    straight, crossed = World().add(rows, job), World().add(rows[30:], job)
    crossed.book()
    crossed.add(list(reversed(rows[:30])))

    assert dollars(a="36.00") == billed(straight) == billed(crossed)
    assert straight.buckets() == crossed.buckets()


def test_a_counter_reset_changes_no_bill() -> None:
    def read(instants: list[Any], first_mj: int) -> list[Any]:
        counters = ({"energy_mj": first_mj + 60_000 * n, "nvlink_tx_bytes": first_mj * n} for n in range(len(instants)))
        return [row for at, c in zip(instants, counters, strict=True) for row in samples(A, [at], BUSY | c, job="7")]

    steady = World().add(read(minutes(0, HOUR), 10**9), claim("7", 0, HOUR, **TEAM_A))
    reset = World().add(read(minutes(0, 1800), 10**9), read(minutes(1800, HOUR), 0), claim("7", 0, HOUR, **TEAM_A))

    assert dollars(a="36.00") == billed(steady) == billed(reset)
    assert steady.buckets() == reset.buckets()


@case
def test_what_an_exporter_blanks_after_its_restart_is_unobserved(world: World) -> Iterator[None]:
    """Its profiling fields come back two minutes after it does: what was read is held for a minute, the rest is unknown."""
    util = {"gpu_util_ratio": 0.9, "power_watts": 500.0}
    world.add(
        samples(A, minutes(0, 1800), BUSY | util, job="7"),
        samples(A, minutes(2100, 2280), {"power_watts": 500.0}, job="7"),
        samples(A, minutes(2280, HOUR), BUSY | util, job="7"),
        claim("7", 0, HOUR, **TEAM_A),
    )
    yield

    assert dollars(a="36.00") == billed(world)
    unobserved = world.held()["unobserved"]
    assert 300 <= unobserved <= 480
    assert "hoarded" not in world.held()


@case
def test_a_gpu_without_profiling_is_billed_and_its_work_is_unknown(world: World) -> Iterator[None]:
    """A guest sees 90 % utilisation and no profiling: a tenth is a gap, of the rest nobody knows what it was."""
    world.add(
        samples(A, minutes(0, HOUR), {"gpu_util_ratio": 0.9, "power_watts": 300.0}, job="vm-7"),
        claim("vm-7", 0, HOUR, **TEAM_A),
    )
    yield

    assert dollars(a="36.00") == billed(world)
    assert {"unobserved": 3240.0, "gap": 360.0} == world.held()


@case
def test_a_gpu_that_no_exporter_reads_is_billed_unobserved(world: World) -> Iterator[None]:
    world.add(
        samples(B, minutes(0, HOUR), IDLE),
        claim("7", 0, HOUR, device_indexes="0", **TEAM_A),
        node(devices={"": 2}),
    )
    yield

    assert dollars(a="36.00", schedulable="36.00") == billed(world)
    assert {"unobserved": 3600.0} == world.held()


# Devices and nodes.


@case
def test_a_reboot_ends_what_ran_and_is_nobody_s_time(world: World) -> Iterator[None]:
    """Down from 1800 to 2400: the pod before ends with the node, the one after is another."""
    world.add(
        samples(A, minutes(0, 1800), BUSY | {"energy_mj": 1e9}, pod="p-0", namespace="lab"),
        samples(A, minutes(2400, HOUR), BUSY | {"energy_mj": 1e3}, pod="p-1", namespace="lab"),
        samples(Gpu("GPU-z", "n2"), minutes(0, HOUR), IDLE),
        pod("p-0", "u1", 0, 1800, **TEAM_A),
        pod("p-1", "u2", 2460, HOUR, **TEAM_B),
        node(devices={"": 1}, at=0, scheduler="kubernetes"),
        node(state="down", since_us=us(1800), at=1860, scheduler="kubernetes"),
        node(state="up", at=2400, scheduler="kubernetes"),
    )
    yield

    assert dollars(a="18.00", b="11.40", out_of_service="6.00", schedulable="36.60") == billed(world)


@case
def test_a_replaced_gpu_is_billed_to_its_last_sample_and_the_new_one_from_its_first(world: World) -> Iterator[None]:
    new = Gpu("GPU-new", pci=A.pci)
    world.add(
        samples(A, minutes(0, 1200), BUSY, job="7"),
        samples(new, minutes(2400, HOUR), IDLE),
        claim("7", 0, 1200, **TEAM_A),
    )
    yield

    assert dollars(a="12.00", schedulable="12.00") == billed(world)


@case
def test_a_gpu_that_fell_off_the_bus_is_out_of_service(world: World) -> Iterator[None]:
    world.add(
        samples(A, minutes(0, 1740), BUSY, job="7"),
        samples(A, minutes(1740, 1800), BUSY | {"xid_code": 79}, job="7"),
        samples(B, minutes(0, HOUR), IDLE),
        claim("7", 0, 1800, **TEAM_A),
    )
    yield

    assert dollars(a="18.00", out_of_service="18.00", schedulable="36.00") == billed(world)


@case
def test_a_node_that_is_scaled_away_is_the_platform_s_out_of_service(world: World) -> Iterator[None]:
    """Silence never ends ownership: a lost device is not the same as a free one, up to the cluster's last sample."""
    gone = Gpu("GPU-z", "n2")
    world.add(
        samples(A, minutes(0, HOUR), IDLE),
        samples(gone, minutes(0, 1200), BUSY, job="7"),
        claim("7", 0, 1200, node="n2", **TEAM_A),
    )
    yield

    assert dollars(a="12.00", out_of_service="24.00", schedulable="36.00") == billed(world)


@case
def test_a_reclaimed_spot_node_is_billed_to_its_reclaim_with_the_reason_kept(world: World) -> Iterator[None]:
    world.add(
        samples(A, minutes(0, 1500), BUSY, job="7"),
        samples(B, minutes(0, HOUR), IDLE),
        claim("7", 0, 1470, state="PREEMPTED", **TEAM_A),
    )
    yield

    assert dollars(a="14.70", schedulable="36.30", out_of_service="21.00") == billed(world)
    assert ["PREEMPTED"] == [row["state"] for row in world.rows("run")]


ENDINGS = {
    "a later poll that was late does not make it run again": (
        [claim("7", 0, 1500, state="COMPLETED"), claim("7", 0, None, state="RUNNING", evidence=1520, kind="scontrol")],
        "COMPLETED",
    ),
    "an end without a word for it is unknown": ([claim("7", 0, 1500, state="Running")], None),
    "a job without an end runs": ([claim("7", 0, None, state="RUNNING", evidence=1520)], "RUNNING"),
}


@pytest.mark.parametrize(("records", "expected"), ENDINGS.values(), ids=ENDINGS)
@case
def test_an_ended_job_is_never_shown_as_running(
    world: World, records: list[dict[str, Any]], expected: str | None
) -> Iterator[None]:
    world.add(samples(Gpu(), minutes(0, HOUR), BUSY), *records)
    yield

    assert [expected] == [row["state"] for row in world.rows("run")]


@case
def test_a_suspended_job_hoards_its_gpu_and_pays_for_it(world: World) -> Iterator[None]:
    world.add(
        samples(A, minutes(0, 1200), BUSY, job="7"),
        samples(A, minutes(1200, 2400), IDLE | {"power_watts": 70.0}, job="7"),
        samples(A, minutes(2400, HOUR), BUSY, job="7"),
        claim("7", 0, HOUR, suspended_us=1200 * 10**6, **TEAM_A),
    )
    yield

    assert dollars(a="36.00") == billed(world)
    assert 1200.0 == world.held()["hoarded"]


def test_a_day_is_24_hours_also_where_clocks_change() -> None:
    """The world's Sunday is that of New York's change to winter time: 25 hours there, 24 in the bill."""
    start = -24 * HOUR
    world = World().add(samples(A, minutes(start, 0, 900), IDLE))
    world.settings = type(world.settings)(default_interval_s=900)

    assert {} == billed(world)
    state = State.open("sqlite://")
    replace_rates(state, [Rate("*", "owned", Decimal(36), T0_US - 2 * DAY_US)], "test", "test", 0)
    chargeback.price_all(world.store, state)
    hours = [
        chargeback.chargeback(world.store, state, Window(us(at), us(at + HOUR)), ("team",)).cost
        for at in range(start, 0, HOUR)
    ]
    assert [Decimal("36.00")] * 24 == hours
    assert Decimal("864.00") == chargeback.chargeback(world.store, state, Window(us(start), us(0)), ("team",)).cost
