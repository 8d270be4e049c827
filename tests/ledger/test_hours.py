"""The books of single devices: what each sample covers, and which bucket it goes into."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from gpuwatch.core.errors import LedgerDoesNotClose
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.ledger.hours import BUCKETS
from tests.worlds import oracle
from tests.worlds.world import BUSY, HOUR, IDLE, Gpu, World, claim, minutes, node, pod, samples

A = Gpu()
B = Gpu("GPU-b", index=1)
LINK_BYTES_PER_S = 742e9
"""What a rank of an H100 moves at full link speed, both directions."""

# (engine, SMs, tensor, DRAM, FP32, link) and microseconds of each bucket in the half minutes that samples are cut to.
CHECKED = {
    "LLM training": (
        (0.99, 0.92, 0.48, 0.45, 0, 0.10),
        {"gap": 300_000, "communication": 3_000_000, "below_roof": 9_825_000, "memory_roof": 1_391_129}
        | {"compute": 15_483_871},
    ),
    "false utilisation": (
        (0.95, 0.20, 0.03, 0.10, 0, 0),
        {"gap": 1_500_000, "stalled": 22_500_000, "below_roof": 2_250_000, "memory_roof": 2_782_258}
        | {"compute": 967_742},
    ),
    "decoding": (
        (0.98, 0.85, 0.06, 0.66, 0, 0),
        {"gap": 600_000, "stalled": 3_900_000, "below_roof": 750_000, "memory_roof": 22_814_516}
        | {"compute": 1_935_484},
    ),
    "data loading": (
        (0.35, 0.30, 0.15, 0.15, 0, 0),
        {"gap": 19_500_000, "stalled": 1_500_000, "below_roof": 3_375_000, "memory_roof": 786_290}
        | {"compute": 4_838_710},
    ),
    "communication bound": (
        (0.98, 0.35, 0.12, 0.15, 0, 0.50),
        {"gap": 600_000, "communication": 15_000_000, "stalled": 3_900_000, "below_roof": 4_875_000}
        | {"memory_roof": 1_754_032, "compute": 3_870_968},
    ),
    "FP32 simulation": (
        (0.97, 0.90, 0, 0.30, 0.60, 0),
        {"gap": 900_000, "stalled": 2_100_000, "below_roof": 9_000_000, "compute": 18_000_000},
    ),
}


def reading(g: float, s: float, t: float, d: float, p: float, x: float) -> dict[str, float]:
    """Fields of one sample as an exporter gives them."""
    return {
        "gr_engine_ratio": g,
        "sm_active_ratio": s,
        "tensor_active_ratio": t,
        "dram_active_ratio": d,
        "fp32_active_ratio": p,
        "nvlink_tx_bytes_per_s": x * LINK_BYTES_PER_S / 2,
        "nvlink_rx_bytes_per_s": x * LINK_BYTES_PER_S / 2,
    }


def without(*names: str, of: dict[str, float] = BUSY) -> dict[str, float]:
    """A reading that lacks these fields."""
    return {k: v for k, v in of.items() if k not in names}


@pytest.mark.parametrize("case", CHECKED)
def test_checked_examples_in_microseconds(town: World, case: str) -> None:
    """Both GPUs of a job, which are measured for an hour longer than it holds them."""
    first, second = home(case)

    assert {"schedulable": 3_600_000_000} | {k: 120 * v for k, v in CHECKED[case][1].items()} == town.buckets(first)
    assert town.buckets(second) == town.buckets(first)


@pytest.mark.parametrize(("ratios", "half_minute"), CHECKED.values(), ids=CHECKED)
def test_the_oracle_knows_the_checked_examples(ratios: tuple[float, ...], half_minute: dict[str, int]) -> None:
    parts = oracle.waterfall(oracle.Activity(*(Fraction(str(ratio)) for ratio in ratios)))

    assert half_minute == {k: v for k, v in ((k, round(v * 30_000_000)) for k, v in parts.items()) if v}
    assert 1 == sum(parts.values())


# What is not measured is unobserved, never zero and never idle.


def test_no_sample_at_all_is_unobserved() -> None:
    world = World().add(claim("1", 0, HOUR), node(devices={"": 1})).book()

    assert {"unobserved": 3600.0} == world.held()


MISSING = {
    "without SM_ACTIVE only the gap is known": (without("sm_active_ratio"), {"gap": 360.0, "unobserved": 3240.0}),
    "without SM_ACTIVE an idle engine is idle": (
        {"gr_engine_ratio": 0.0, "tensor_active_ratio": 0.0, "dram_active_ratio": 0.0},
        {"hoarded": 3600.0},
    ),
    "without engine activity the time outside SM_ACTIVE is unknown": (
        without("gr_engine_ratio"),
        {"unobserved": 720.0, "below_roof": 1080.0, "compute": 1800.0},
    ),
    "an idle SM alone is not idleness": ({"sm_active_ratio": 0.0}, {"unobserved": 3600.0}),
    "GPU_UTIL stands in for engine activity on a whole GPU": (
        without("gr_engine_ratio") | {"gpu_util_ratio": 1.0},
        {"stalled": 720.0, "below_roof": 1080.0, "compute": 1800.0},
    ),
    "GPU_UTIL alone tells only the gap": ({"gpu_util_ratio": 0.75}, {"gap": 900.0, "unobserved": 2700.0}),
    "board power alone tells nothing": ({"power_watts": 70.0}, {"unobserved": 3600.0}),
    "without any pipe or DRAM the work inside SM_ACTIVE is unknown": (
        {"gr_engine_ratio": 0.9, "sm_active_ratio": 0.8},
        {"unobserved": 2880.0, "gap": 360.0, "stalled": 360.0},
    ),
    "SM_ACTIVE above engine activity is cut to it": (
        BUSY | {"gr_engine_ratio": 0.5},
        {"gap": 1800.0, "compute": 1800.0},
    ),
}


@pytest.mark.parametrize("case", MISSING)
def test_missing_fields(town: World, case: str) -> None:
    assert MISSING[case][1] == town.held(home(case)[0])


# Idle runs.


def idle_world(pattern: list[tuple[float, float, dict[str, float]]], *claims: dict[str, object]) -> World:
    """Stretches (start, end, reading) in seconds of one device."""
    stretches = [samples(A, minutes(a, b), fields) for a, b, fields in pattern]
    return World().add(*stretches, *(claims or (claim("1", 0, 2 * HOUR, gpus="GPU-a"),))).book()


def test_idle_for_a_second_less_than_fifteen_minutes_is_a_gap() -> None:
    world = World().add(
        samples(A, [30, 90, *(990 - k * 60 for k in range(1, 15)), 989], IDLE | {"gr_engine_ratio": 0.01}),
        samples(A, minutes(989, HOUR)),
        claim("1", 90, HOUR, gpus="GPU-a"),
    )
    world.book()

    assert "hoarded" not in world.held()


def test_idle_runs_of_fourteen_fifty_nine_and_fifteen_minutes() -> None:
    busy, idle = samples(A, [60 * k for k in range(1, 11)]), IDLE
    almost = World().add(
        busy,
        samples(A, [600 + 60 * k for k in range(1, 15)] + [600 + 899], idle),
        samples(A, [1559 + 60 * k for k in range(30)]),
        claim("1", 0, HOUR, gpus="GPU-a"),
    )
    exact = World().add(
        busy,
        samples(A, [600 + 60 * k for k in range(1, 16)], idle),
        samples(A, [1560 + 60 * k for k in range(30)]),
        claim("1", 0, HOUR, gpus="GPU-a"),
    )

    assert 0.0 == almost.book().held().get("hoarded", 0.0)
    assert 900.0 == exact.book().held()["hoarded"]


def test_an_idle_run_across_an_hour_edge_is_hoarded_on_both_sides() -> None:
    world = idle_world([(0, 3120, BUSY), (3120, 4080, IDLE), (4080, 2 * HOUR, BUSY)])

    # A sample covers the minute before it.
    assert (510.0, 450.0) == (world.held(hour=0)["hoarded"], world.held(hour=1)["hoarded"])


def test_an_idle_run_ends_where_the_owner_changes() -> None:
    claims = (claim("1", 0, 3600, gpus="GPU-a"), claim("2", 3600, 7200, gpus="GPU-a"))
    world = idle_world([(0, 3120, BUSY), (3120, 4080, IDLE), (4080, 2 * HOUR, BUSY)], *claims)

    assert "hoarded" not in world.held()


def test_an_idle_run_ends_where_nobody_measured() -> None:
    world = idle_world([(0, 3000, BUSY), (3000, 3600, IDLE), (3900, 4500, IDLE), (4500, 2 * HOUR, BUSY)])

    assert "hoarded" not in world.held()
    # From 3570 to 3930 there are 360 s: the later sample reaches back two intervals.
    assert 240.0 == world.held()["unobserved"]


def test_a_free_gpu_is_never_hoarded() -> None:
    world = World().add(samples(A, minutes(0, HOUR), IDLE)).book()

    assert {"schedulable": 3_600_000_000} == world.buckets()


BOARD = {
    "idle level": (60.0, {"hoarded": 3600.0}),
    "constant 150 W: below the cap of a fifth of TDP plus the margin": (150.0, {"hoarded": 3600.0}),
    "constant 400 W is work that no counter shows": (400.0, {"gap": 3600.0}),
}


@pytest.mark.parametrize("case", BOARD)
def test_board_power_in_the_idle_test(town: World, case: str) -> None:
    assert BOARD[case][1] == town.held(home(case)[0])


def test_power_above_idle_level_plus_margin_is_not_idle() -> None:
    quiet, warm = IDLE | {"power_watts": 70.0}, IDLE | {"power_watts": 70.0 + 56.0}
    world = idle_world([(0, 3600, quiet), (3600, 7200, warm)])

    assert {"hoarded": 3570.0, "gap": 30.0} == world.held(hour=0)
    assert {"gap": 3600.0} == world.held(hour=1)


THRESHOLDS = {
    "engine just below its noise floor": ({"gr_engine_ratio": 0.0199}, True),
    "engine at its noise floor": ({"gr_engine_ratio": 0.02}, False),
    "an SM at 1 %": ({"sm_active_ratio": 0.01, "gr_engine_ratio": 0.015}, False),
    "tensor pipe at 0.5 %": ({"tensor_active_ratio": 0.005}, False),
    "memory at 1 %": ({"dram_active_ratio": 0.01}, False),
    "memory just below 1 %": ({"dram_active_ratio": 0.0099}, True),
}


@pytest.mark.parametrize("case", THRESHOLDS)
def test_what_counts_as_an_idle_sample(town: World, case: str) -> None:
    assert THRESHOLDS[case][1] == ("hoarded" in town.held(home(case)[0]))


# What a sample covers.


def test_first_and_last_sample_reach_half_an_interval() -> None:
    world = World().add(samples(A, [60 * k for k in range(10, 21)], BUSY, job="1"), claim("1", 0, HOUR)).book()

    assert [("GPU-a", 0, 3600, "1", "1")] == world.segments()
    assert 3600.0 - 660.0 == world.held()["unobserved"]


GAPS = {
    "one missed scrape is held": (2, 0.0),
    "two missed scrapes: two intervals are held, one is not": (3, 60.0),
    "half an hour": (30, 1680.0),
}


@pytest.mark.parametrize("case", GAPS)
def test_telemetry_gap(town: World, case: str) -> None:
    held = town.held(home(case)[0])

    assert GAPS[case][1] == held.get("unobserved", 0.0)
    assert 7200.0 == sum(held.values())


OFF_BEAT = {
    "late": (620, 80, 40),
    "early": (590, 50, 70),
    "after two missed ones": (760, 120, 20),
}
"""When a scrape comes that was due after 600 s, and the seconds that it covers and the one after it."""


@pytest.mark.parametrize("case", OFF_BEAT)
@pytest.mark.parametrize("stopped", [0, 1], ids=["scraped once", "scraped by two exporters at first"])
def test_a_scrape_off_the_beat_covers_the_time_since_the_one_before(case: str, stopped: int) -> None:
    """The same where the GPU's samples are merged, because another exporter read it at the same instants in the first minutes."""
    at, own, next_one = OFF_BEAT[case]
    beat = [60 * k for k in range(1, 61) if 60 * k < 600 or 60 * k > max(at, 600)]
    half = BUSY | {"gr_engine_ratio": 0.5, "sm_active_ratio": 0.5}
    world = World().add(
        samples(A, beat, BUSY, job="1"),
        samples(A, [at], half, job="1"),
        samples(A, beat[: 3 * stopped], BUSY, job="1", driver="550"),
        claim("1", 0, HOUR),
    )
    world.book()

    covered = {late: late - early for early, late in zip([0, *beat], beat, strict=False)}
    covered[60], covered[next(late for late in beat if late > at)] = 30, next_one
    assert own * 500_000 + sum(covered.values()) * 100_000 == world.buckets(hour=0)["gap"]


def test_a_sample_on_a_hand_over_is_split_by_time() -> None:
    world = World().add(
        samples(A, [60 * k for k in range(1, 31)], BUSY, job="1"),
        samples(A, [60 * k for k in range(31, 61)], IDLE | {"gr_engine_ratio": 0.02}, job="2"),
        claim("1", 0, 1815),
        claim("2", 1815, HOUR),
    )
    world.book()
    gaps = dict(world.store.sql("select run_key, gap_us from ledger_hour join run using (run_id)"))

    # Job 1 has 1770 s at a tenth, and 15 s of the idle sample that covers 1800 to 1860 s.
    assert {"1": 177_000_000 + 14_700_000, "2": 1_785 * 980_000} == gaps


@pytest.mark.parametrize("every", [2, 4, 10], ids=["every 2nd", "every 4th", "every 10th"])
def test_a_field_read_every_few_scrapes_is_held(every: int) -> None:
    instants = minutes(0, 3 * HOUR)
    slow = [*instants[every - 1 :: every]]
    rest = [at for at in instants if at not in slow]
    world = World().add(
        samples(A, slow, BUSY, job="1"), samples(A, rest, without("sm_active_ratio"), job="1"), claim("1", 0, 3 * HOUR)
    )
    world.book()

    assert {"gap": 360.0, "stalled": 360.0, "below_roof": 1080.0, "compute": 1800.0} == world.held(hour=1)


def test_a_field_that_stops_is_held_for_an_interval_and_then_unknown() -> None:
    world = World().add(
        samples(A, minutes(0, HOUR), BUSY, job="1"),
        samples(A, minutes(HOUR, 2 * HOUR), without("sm_active_ratio"), job="1"),
        claim("1", 0, 2 * HOUR),
    )
    world.book()

    # The last value, at 3570 s, is held to the sample at 3630 s; after that a tenth is gap and the rest unknown.
    assert {
        "gap": 720.0,
        "stalled": 363.0,
        "below_roof": 1089.0,
        "compute": 1815.0,
        "unobserved": 3213.0,
    } == world.held()


def test_the_same_scrape_twice_changes_nothing() -> None:
    rows = [*samples(A, minutes(0, HOUR), BUSY, job="1")]
    once = World().add(rows, claim("1", 0, HOUR)).book()
    twice = World().add(rows, claim("1", 0, HOUR)).add(rows).book()

    assert once.derived()["ledger_hour"] == twice.derived()["ledger_hour"]


EXPORTERS = {"at the same instants": 0, "at shifted instants": 17}


@pytest.mark.parametrize("shift", EXPORTERS.values(), ids=EXPORTERS)
def test_two_exporters_on_one_node_do_not_change_the_sum(shift: int) -> None:
    other = [at + shift for at in minutes(0, HOUR)[:-1]]
    one = World().add(samples(A, minutes(0, HOUR), BUSY, job="1"), claim("1", 0, HOUR)).book()
    two = World().add(
        samples(A, minutes(0, HOUR), BUSY, job="1"), samples(A, other, BUSY, job="1", driver="550"), claim("1", 0, HOUR)
    )
    two.book()

    assert one.held() == two.held()


# Links.

LINKED = BUSY | {"nvlink_tx_bytes_per_s": LINK_BYTES_PER_S * 0.15, "nvlink_rx_bytes_per_s": LINK_BYTES_PER_S * 0.05}
PLAIN = {"gap": 360.0, "stalled": 360.0, "below_roof": 1080.0, "compute": 1800.0}


def test_link_traffic_of_a_job_on_one_gpu_is_not_communication(town: World) -> None:
    assert PLAIN == town.held(home("links of a job on one GPU")[0])


GANGS = {
    "links of a job on two GPUs": (
        LINKED,
        {"gap": 360.0, "communication": 720.0, "below_roof": 720.0, "compute": 1800.0},
    ),
    "a gang without link readings": (BUSY, PLAIN),
    "traffic beyond the link speed is all of what waited": (
        BUSY | {"nvlink_tx_bytes_per_s": 9e12, "nvlink_rx_bytes_per_s": 0.0},
        {"gap": 360.0, "communication": 1440.0, "compute": 1800.0},
    ),
}


@pytest.mark.parametrize("case", GANGS)
def test_link_traffic_of_a_job_on_two_gpus_is_communication(town: World, case: str) -> None:
    """The first GPU has the readings, the second reads no links."""
    first, second = home(case)

    assert (GANGS[case][1], PLAIN) == (town.held(first), town.held(second))


# MIG.

SLICE = Gpu(gi=7, profile="1g.10gb")
OTHER = Gpu(gi=8, profile="1g.10gb")


SLICES = {
    "GPU_UTIL of zero is unknown": ({"gpu_util_ratio": 0.0}, {"unobserved": 3600.0}),
    "board power says nothing": (IDLE | {"power_watts": 600.0}, {"hoarded": 3600.0}),
}


@pytest.mark.parametrize("case", SLICES)
def test_readings_of_a_slice(town: World, case: str) -> None:
    assert SLICES[case][1] == town.held(replace(home(case)[0], gi=7, profile="1g.10gb"))


def test_links_of_the_card_are_not_a_slice_s() -> None:
    world = World().add(
        samples(SLICE, minutes(0, HOUR), LINKED, job="1"),
        samples(OTHER, minutes(0, HOUR), LINKED, job="1"),
        claim("1", 0, HOUR, count=2, profile="1g.10gb"),
    )
    world.book()

    assert PLAIN == world.held(SLICE)


def test_buckets_of_a_slice_are_its_own_time_and_weigh_its_share() -> None:
    world = World().add(samples(SLICE, minutes(0, HOUR), BUSY, job="1"), claim("1", 0, HOUR, profile="1g.10gb")).book()

    assert 3_600_000_000 == sum(world.buckets(SLICE).values())
    assert {"1/7"} == {share for name, *_, share in world.segments() if name == "GPU-a/GI-7"}
    assert [("GPU-a", 0, 3600, "mig_remainder", "6/7")] == [s for s in world.segments() if s[0] == "GPU-a"]


# The cases of the tables above, each on a node of its own.

ALONE = {
    **{case: fields for case, (fields, _) in MISSING.items()},
    **{case: IDLE | {"power_watts": watts} for case, (watts, _) in BOARD.items()},
    **{case: IDLE | change for case, (change, _) in THRESHOLDS.items()},
    "links of a job on one GPU": LINKED,
}
CASES = (*CHECKED, *ALONE, *GAPS, *GANGS, *SLICES)


def home(case: str) -> tuple[Gpu, Gpu]:
    """The GPUs of a case."""
    at = CASES.index(case)
    return Gpu(f"GPU-{at}-0", f"n{at}"), Gpu(f"GPU-{at}-1", f"n{at}", 1)


@pytest.fixture(scope="module")
def town() -> World:
    """The cases in one cluster: in each, a job holds a GPU, a gang two, for the hour in which it shows the same."""
    assert len(set(CASES)) == len(CASES)
    world = World()
    for case, (ratios, _) in CHECKED.items():
        for gpu in home(case):
            world.add(samples(gpu, minutes(0, 2 * HOUR), reading(*ratios), job=case))
        world.add(claim(case, 0, HOUR, home(case)[0].node, 2))
    for case, fields in ALONE.items():
        gpu = home(case)[0]
        world.add(samples(gpu, minutes(0, HOUR), fields, job=case), claim(case, 0, HOUR, gpu.node))
    for case, (intervals, _) in GAPS.items():
        gpu = home(case)[0]
        before, after = minutes(0, HOUR // 2), minutes(HOUR // 2 + (intervals - 1) * 60, 2 * HOUR)
        world.add(samples(gpu, [*before, *after], BUSY, job=case), claim(case, 0, 2 * HOUR, gpu.node))
    for case, (fields, _) in GANGS.items():
        first, second = home(case)
        world.add(samples(first, minutes(0, HOUR), fields, job=case), samples(second, minutes(0, HOUR), job=case))
        world.add(claim(case, 0, HOUR, first.node, 2))
    for case, (fields, _) in SLICES.items():
        part = replace(home(case)[0], gi=7, profile="1g.10gb")
        world.add(samples(part, minutes(0, HOUR), fields, job=case), claim(case, 0, HOUR, part.node))
    return world.book()


# Closing.


def test_books_that_do_not_close_name_the_device_and_the_hour() -> None:
    world = World().add(samples(A, minutes(0, HOUR), BUSY, job="1"), claim("1", 0, HOUR)).book()
    world.store.sql("update ledger_hour set compute_us = compute_us - 1")

    with pytest.raises(LedgerDoesNotClose, match="GPU-a in the hour of 2026-11-02T00:00:00Z"):
        world.check()


def test_a_negative_bucket_does_not_close() -> None:
    world = World().add(samples(A, minutes(0, HOUR), BUSY, job="1"), claim("1", 0, HOUR)).book()
    world.store.sql("update ledger_hour set compute_us = -1, gap_us = gap_us + compute_us + 1")

    with pytest.raises(LedgerDoesNotClose):
        world.check()


def test_recomputing_an_hour_without_segments_writes_nothing() -> None:
    world = World().add(samples(A, minutes(0, HOUR), BUSY, job="1"), claim("1", 0, HOUR)).book()
    before = world.derived()

    world.recompute([50])

    assert before == world.derived()


def test_every_bucket_of_the_contract_is_a_column() -> None:
    world = World()

    columns = [name for (name,) in world.store.sql("select name from pragma_table_info('ledger_hour')")]
    assert list(BUCKETS) == [c.removesuffix("_us") for c in columns if c.endswith("_us") and c != "hour_us"]
    assert ledger_hours.FREE_BUCKETS + ledger_hours.HELD_BUCKETS == BUCKETS


def test_a_pod_restarted_in_place_has_a_gap_and_keeps_its_gpu() -> None:
    label = {"pod": "p", "namespace": "lab"}
    world = World().add(
        samples(A, minutes(0, 1800), BUSY, **label),
        samples(A, minutes(1800, 2100), IDLE, **label),
        samples(A, minutes(2100, HOUR), BUSY, **label),
        pod("p", "u1", 0, HOUR),
    )
    world.book()

    assert [("GPU-a", 0, 3600, "u1", "1")] == world.segments()
    assert 3300 * 0.1 + 300 == world.held()["gap"]
