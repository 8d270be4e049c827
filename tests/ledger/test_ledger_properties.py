"""What holds of the books whatever the fleet does: they close, and neither order, repetition nor lateness matters."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.billing.kinds import fill_kinds
from gpuwatch.core.clock import HOUR_US, SECOND_US, Window
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.ledger import parts as ledger_parts
from gpuwatch.ledger.totals import Scale, page, question, scale_of, working_tables
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds import oracle
from tests.worlds.drawn_fleets import (
    FEW_FLEETS,
    FLEETS,
    LAYOUTS,
    LETTERS,
    LINK_BYTES_PER_S,
    MOODS,
    Fleet,
    drawn_fleet,
    name_of,
    values,
)
from tests.worlds.templates import computed_once
from tests.worlds.world import HOUR, STEP_S, T0_US, Gpu, Sample, World, claim, node, us


@computed_once
def computed(number: int) -> World:
    """A drawn fleet with its ledger: many properties start from it, and it is computed once for all of them."""
    return World().add(*drawn_fleet(number).rows).book()


def batches_of(rng: random.Random, rows: Sequence[Sample | dict[str, Any]], count: int) -> list[list[Any]]:
    """The rows in any order, cut into batches."""
    mixed = list(rows)
    rng.shuffle(mixed)
    return [mixed[i::count] for i in range(count) if mixed[i::count]]


@pytest.fixture(scope="module")
def state() -> State:
    """Rates and teams: none."""
    return State.open("sqlite://")


# They close.


@pytest.mark.parametrize("number", FLEETS)
def test_buckets_of_every_device_hour_add_up_to_what_was_owned(number: int) -> None:
    fleet = drawn_fleet(number)
    world = computed(number)

    gpus = dict(world.store.sql("select device_id, gpu from device"))
    booked: dict[tuple[str, int], Fraction] = defaultdict(Fraction)
    for row in world.rows("ledger_hour"):
        amounts = [row[f"{bucket}_us"] for bucket in ledger_hours.BUCKETS]
        assert min(amounts) >= 0
        booked[(gpus[row["device_id"]], row["hour_us"])] += sum(amounts) * Fraction(row["share_num"], row["share_den"])
    owned: dict[tuple[str, int], Fraction] = defaultdict(Fraction)
    for gpu, start_us, end_us in owned_gpus(fleet):
        for hour_us in range(start_us // HOUR_US * HOUR_US, end_us, HOUR_US):
            length = min(end_us, hour_us + HOUR_US) - max(start_us, hour_us)
            owned[(gpu, hour_us)] += Fraction(length)
    assert owned == booked


def owned_gpus(fleet: Fleet) -> list[tuple[str, int, int]]:
    """Physical GPUs and their span: half a step around their samples, up to the cluster's last, and their jobs."""
    half = STEP_S * SECOND_US // 2
    last = max(s.at_us for s in fleet.samples) + half
    spans = []
    for gpu in {s.gpu.uuid for s in fleet.samples}:
        mine = [h for h in fleet.holds if h.device.split("/")[0] == gpu]
        first = min(s.at_us for s in fleet.samples if s.gpu.uuid == gpu) - half
        spans.append((gpu, min([first, *(h.start_us for h in mine)]), max([last, *(h.end_us for h in mine)])))
    return spans


@pytest.mark.parametrize("number", FLEETS)
def test_the_books_are_those_of_the_oracle(number: int) -> None:
    """Owners' time is equal to the microsecond; a bucket may differ by one microsecond for each piece of a sample in a
    minute, because each of its edges is rounded to a whole microsecond there."""
    fleet = drawn_fleet(number)
    world = computed(number)
    expected = oracle.books(oracle_devices(fleet), fleet.holds, STEP_S * SECOND_US)

    names = {
        d: gpu if gi < 0 else f"{gpu}/GI-{gi}"
        for d, gpu, gi in world.store.sql("select device_id, gpu, gi from device")
    }
    jobs = dict(world.store.sql("select run_id, run_key from run"))
    booked: dict[tuple[str, str | None], dict[str, int]] = defaultdict(lambda: dict.fromkeys(ledger_hours.BUCKETS, 0))
    for row in world.rows("ledger_hour"):
        name = names[row["device_id"]]
        for bucket in ledger_hours.BUCKETS:
            booked[(name, jobs.get(row["run_id"]))][bucket] += row[f"{bucket}_us"]
        share = fleet.remainders.get(name, fleet.shares.get(name))
        assert share == Fraction(row["share_num"], row["share_den"])
    for gpu, rest in fleet.remainders.items():
        remainder = booked.pop((gpu, None), None)
        assert (rest > 0) == (remainder is not None)
    assert {k: a.seconds_us for k, a in expected.items()} == {k: sum(b.values()) for k, b in booked.items()}
    for key, account in expected.items():
        for bucket in oracle.BUCKETS:
            assert abs(account.buckets[bucket] - booked[key][bucket]) <= account.parts, (key, bucket)


def oracle_devices(fleet: Fleet) -> list[oracle.Device]:
    """Samples in the oracle's letters; decimals as printed, not as floats."""
    letters = {name: letter for letter, name in LETTERS.items()}
    readings: dict[str, dict[int, dict[str, Fraction]]] = defaultdict(dict)
    for sample in fleet.samples:
        values = {letters[n]: Fraction(str(v)) for n, v in sample.fields if n in letters}
        speed = dict(sample.fields).get("nvlink_tx_bytes_per_s")
        if speed is not None:
            values["x"] = Fraction(str(speed)) / Fraction(LINK_BYTES_PER_S)
        readings[name_of(sample.gpu)][sample.at_us] = values
    return [oracle.Device(name, known, fleet.shares[name]) for name, known in sorted(readings.items())]


# Hours.


@pytest.mark.parametrize("number", FEW_FLEETS)
def test_an_hour_computed_alone_is_the_hour_computed_with_all(number: int) -> None:
    rng = random.Random(number)
    world = computed(number)
    together = world.derived()
    start_us, end_us = world.span_us()
    hours = [(h - T0_US) // HOUR_US for h in range(start_us, end_us, HOUR_US)]

    for hour in [*rng.sample(hours, len(hours)), rng.choice(hours)]:
        world.recompute([hour])

    assert together == world.derived()


@pytest.mark.parametrize(("number", "parts"), [(0, 2), (1, 7)])
def test_devices_computed_in_parts_are_the_devices_computed_together(number: int, parts: int) -> None:
    """A slice with more samples than memory is for is computed some devices at a time."""
    world = computed(number)
    together = world.derived()
    start_us, end_us = world.span_us()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_parts, "number", lambda samples: parts)
        world.recompute([(h - T0_US) // HOUR_US for h in range(start_us, end_us, HOUR_US)])

    assert together == world.derived()


def test_an_hour_computed_alone_knows_the_pace_of_the_hours_before() -> None:
    """Few samples an hour: how long one holds is decided by the hours around, and theirs by the hours around them."""
    gpu = Gpu()
    idle = (("dram_active_ratio", 0.0), ("gr_engine_ratio", 0.0), ("sm_active_ratio", 0.0))
    at = [0, 840, 1680, 2520, 3360, 4200, 5040, 5880, 6720, 7560, 8400, 9240, 10080, 10920, 11760, 12600, 13440]
    rows = [Sample(gpu, us(a + 100), (), idle) for a in at]
    world = World().add(rows, claim("1", 0, 4 * HOUR, gpus="GPU-a")).book()
    together = world.derived()

    for hour in (3, 0, 2, 1):
        world.recompute([hour])

    assert together == world.derived()


# Windows.


def totals(world: World, state: State, start_us: int, end_us: int) -> tuple[dict[str, Decimal], dict[Any, Fraction]]:
    """Buckets, and exact charged seconds by job, of a window."""
    window = Window(start_us, end_us)
    buckets = {i.bucket: i.gpu_seconds for i in chargeback.ledger(world.store, state, window).items}
    scale = scale_of(world.store, window)
    asked = question(window, ["job"], None, None, scale)
    seconds: dict[Any, Fraction] = defaultdict(Fraction)
    with working_tables(world.store):
        fill_kinds(world.store, asked)
        world.store.run("billing/charge", **asked)
        for row in page(world.store, Scale(1, 0), None, 0, largest_first=False)[0]:
            seconds[(row["held"], row["job"])] += Fraction(int(row["micros"]), scale.shares * SECOND_US)
    return buckets, seconds


@pytest.mark.parametrize("number", FEW_FLEETS)
def test_the_parts_of_a_window_add_up_to_it(number: int) -> None:
    instants = random.Random(number).sample(range(4 * HOUR_US), 3)
    world = computed(number)
    books = State.open("sqlite://")
    a, b, c = (T0_US + at for at in sorted(instants))

    first, second, whole = (totals(world, books, *w) for w in ((a, b), (b, c), (a, c)))
    for bucket in ledger_hours.BUCKETS:
        parts = first[0].get(bucket, Decimal(0)) + second[0].get(bucket, Decimal(0))
        # Published rows have six places; shares such as 8/15 need more.
        assert abs(parts - whole[0].get(bucket, Decimal(0))) <= Decimal("0.000002")
    for key in whole[1].keys() | first[1].keys() | second[1].keys():
        assert whole[1].get(key, 0) == first[1].get(key, 0) + second[1].get(key, 0)


# Ingest.


@pytest.mark.parametrize("number", FEW_FLEETS)
def test_order_repetition_and_batching_do_not_matter(number: int) -> None:
    rng = random.Random(number)
    fleet = drawn_fleet(number)
    plain = computed(number)
    other = World()
    parts = batches_of(rng, fleet.rows, 4)
    for part in [*parts, *rng.sample(parts, 2)]:
        other.add(*part)
        if rng.random() < 0.5:
            other.seal()
    other.book()

    assert_same(plain, other)


@pytest.mark.parametrize(
    ("number", "late_first", "claims_in_two"),
    [(0, False, True), (1, True, False)],
    ids=["samples in order and a part of the claims last", "late samples first and all claims with them"],
)
def test_data_that_arrives_after_an_analysis_gives_the_same(number: int, late_first: bool, claims_in_two: bool) -> None:
    rng = random.Random(number)
    fleet = drawn_fleet(number)
    plain = computed(number)
    other = World()
    first, *rest = batches_of(rng, fleet.claims, 2) if claims_in_two else [list(fleet.claims)]
    cut = T0_US + rng.randrange(HOUR_US // 2, 2 * HOUR_US)
    early = [s for s in fleet.samples if s.at_us < cut]
    late = [s for s in fleet.samples if s.at_us >= cut]
    if late_first:
        early, late = late, early
    other.add(*early, *first).book()
    other.add(*late).book()
    other.add(*(r for part in rest for r in part)).book()

    assert_same(plain, other)


def wild_rows(seed: int) -> tuple[list[Sample], list[dict[str, Any]]]:
    """Samples and records that nothing ties together: repartitions with GI ids used again, silences, changing cadence,
    labels of several owners at one instant or none, claims with and without labels, drained nodes."""
    rng = random.Random(seed)
    rows: list[Sample] = []
    until = rng.randint(2, 4) * HOUR
    for index in range(rng.randint(1, 2)):
        start = 0
        while start < until:
            end = min(until, start + rng.randrange(600, 2 * HOUR))
            layout = rng.choice(LAYOUTS)
            gis = {i + rng.randrange(2): profile for i, profile in enumerate(layout)}
            gpus = [Gpu(f"GPU-{index}", index=index, gi=gi, profile=p) for gi, p in gis.items()]
            for gpu in gpus or [Gpu(f"GPU-{index}", index=index)]:
                rows += _wild_stretches(rng, gpu, start, end)
            start = end + rng.choice((0, 60, 700, 4000))
    records = []
    for name in ("p", "q"):
        start = rng.randrange(HOUR)
        words: dict[str, Any] = {"pod": name, "pod_uid": name, "namespace": "lab", "scheduler": "kubernetes"}
        if rng.random() < 0.6:
            records.append(claim(f"lab/{name}", start, start + rng.randrange(300, 2 * HOUR), run_key=name, **words))
        if rng.random() < 0.6:
            records.append(claim(name, start, start + rng.randrange(300, 2 * HOUR), count=rng.choice((1, 2))))
    sharing = rng.choice(("none", "time-slicing"))
    return rows, [*records, node(devices={"": 2}, at=HOUR, sharing=sharing, state=rng.choice(("up", "drain")))]


def _wild_stretches(rng: random.Random, gpu: Gpu, start: int, end: int) -> list[Sample]:
    rows: list[Sample] = []
    step = rng.choice((15, 30, 60, 120))
    while start < end:
        stop = min(end, start + rng.randrange(120, 2400))
        mood, label = rng.choice(MOODS), rng.choice(("job", "pod"))
        for owner in rng.choice(([None], ["p"], ["q"], ["p", "q"])):
            labels = () if owner is None else ((label, owner), *([("namespace", "lab")] if label == "pod" else []))
            for at in range(start, stop, step):
                fields = values(rng, mood) | {"fb_used_bytes": 1e9}
                if rng.random() < 0.1:
                    fields.pop("sm_active_ratio", None)
                rows.append(Sample(gpu, us(at), tuple(sorted(labels)), tuple(sorted(fields.items()))))
        start = stop
    return rows


@pytest.mark.parametrize("seed", range(2))
def test_of_whatever_arrives_the_books_close_and_are_the_same(seed: int) -> None:
    rng = random.Random(seed)
    rows, records = wild_rows(seed)
    plain = World().add(*rows, *records).book()
    other = World()
    first, *rest = batches_of(rng, [*rows, *records], 2)
    other.add(*first).book()
    other.add(*(r for part in rest for r in part)).book()

    assert_same(plain, other)
    start_us, end_us = plain.span_us()
    for hour_us in range(start_us, end_us, HOUR_US):
        plain.recompute([(hour_us - T0_US) // HOUR_US])
    assert_same(other, plain)


def assert_same(plain: World, other: World) -> None:
    """Every derived table is equal, and named where it is not."""
    expected, got = plain.derived(), other.derived()
    for table in expected:
        assert expected[table] == got[table], table


def test_the_last_sample_before_a_silence_is_booked_the_same_when_the_next_comes_late() -> None:
    def at(instants: Iterable[int]) -> list[Sample]:
        return [Sample(Gpu(), us(a), (("job", "1"),), (("gr_engine_ratio", 0.5),)) for a in instants]

    early, late = at(range(30, 1800, 60)), at(range(4 * HOUR + 30, 5 * HOUR, 60))
    plain = World().add(early, late, claim("1", 0, 5 * HOUR)).book()

    assert_same(plain, World().add(early, claim("1", 0, 5 * HOUR)).book().add(late).book())
    assert_same(plain, World().add(late, claim("1", 0, 5 * HOUR)).book().add(early).book())


def test_a_gang_s_later_member_changes_the_hours_that_its_record_changes() -> None:
    linked = {"gr_engine_ratio": 0.9, "sm_active_ratio": 0.5, "tensor_active_ratio": 0.1}
    linked |= {"nvlink_tx_bytes_per_s": 371e9, "nvlink_rx_bytes_per_s": 0.0}
    fields = tuple(sorted(linked.items()))
    gpus = (Gpu(), Gpu("GPU-b", index=1))
    rows = [Sample(g, us(a), (), fields) for g in gpus for a in range(30, 5 * HOUR, 60)]
    words: dict[str, Any] = {"scheduler": "kubernetes", "run_key": "gang", "namespace": "lab"}
    first = claim("lab/gang", 0, 5 * HOUR, gpus="GPU-a", pod="x", pod_uid="u1", **words)
    second = claim("lab/gang", 4 * HOUR, 5 * HOUR, gpus="GPU-b", pod="y", pod_uid="u2", **words)
    plain = World().add(rows, first, second).book()

    assert_same(plain, World().add(rows, first).book().add(second).book())


def test_a_store_in_memory_is_a_store_of_its_own() -> None:
    assert [(0,)] == Store.open(None).sql("select count(*) from sample")
