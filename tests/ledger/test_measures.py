"""The measures: every bucket in one of them, the same in SQL and Python, and unknown where nothing was measured."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from gpuwatch.ledger import measures
from gpuwatch.ledger.hours import BUCKETS
from gpuwatch.ledger.measures import AT_ROOF, AVOIDABLE, FREE, UNKNOWN, WORKING, Measures
from gpuwatch.store.database import Store
from tests.worlds.measures import measures_of


def test_every_bucket_is_in_one_measure() -> None:
    assert sorted(BUCKETS) == sorted((*WORKING, *AVOIDABLE, *FREE, *UNKNOWN))
    assert set(AT_ROOF) < set(WORKING)


@pytest.mark.parametrize("bucket", BUCKETS)
def test_sql_adds_up_the_same_buckets(bucket: str) -> None:
    held = {name: int(name == bucket) for name in (*AVOIDABLE, *WORKING)}
    with Store.open(None, threads=1) as store:
        measures.prepare(store)
        found = store.sql(
            """select
                working($below_roof, $memory_roof, $compute, 0),
                avoidable($hoarded, $gap, $communication, $stalled, $stranded, $below_roof, 0)""",
            **held,
        )

    assert [(int(bucket in WORKING), int(bucket in AVOIDABLE))] == found


def test_claimed_time_moves_from_working_to_avoidable_and_never_more_than_there_is() -> None:
    with Store.open(None, threads=1) as store:
        measures.prepare(store)
        moved = store.sql("select working(10, 1, 1, 4), avoidable(0, 0, 0, 0, 0, 10, 4)")
        most = store.sql("select working(10, 1, 1, 40), avoidable(0, 0, 0, 0, 0, 10, 40)")

    assert ([(8, 4)], [(2, 10)]) == (moved, most)


def of(**hours: int) -> Measures:
    return measures_of({bucket: (Fraction(size), Decimal(size)) for bucket, size in hours.items()})


def test_time_without_any_measurement_is_unknown_and_not_zero() -> None:
    found = of(unobserved=10, schedulable=5)

    assert (None, None) == (found.working.gpu_seconds, found.avoidable.gpu_seconds)
    assert (None, None) == (found.working.cost_in("USD"), found.roofline_efficiency)
    assert (0.0, False) == (found.measured_ratio, found.shares_known)
    assert Decimal(18000) == found.free.gpu_seconds


def test_stranded_time_is_known_even_if_no_held_time_is() -> None:
    found = of(unobserved=10, stranded=5)

    assert (None, Decimal(18000)) == (found.working.gpu_seconds, found.avoidable.gpu_seconds)
    assert found.avoidable.ratio is None


@pytest.mark.parametrize(
    ("unseen", "known"),
    [
        pytest.param(10, True, id="half measured is enough"),
        pytest.param(11, False, id="less than half is not"),
    ],
)
def test_no_share_is_published_where_less_than_half_was_measured(unseen: int, known: bool) -> None:
    found = of(compute=5, hoarded=5, unobserved=unseen)
    shares = (found.working.ratio, found.avoidable.ratio, found.roofline_efficiency)

    assert ((0.25, 0.25, 1.0) if known else (None, None, None)) == shares
    assert Decimal(18000) == found.avoidable.gpu_seconds, "time is a fact, its share is not"


def test_nothing_held_is_no_unknown() -> None:
    found = of(schedulable=10)

    assert (Decimal(0), 0.0) == (found.working.gpu_seconds, found.avoidable.ratio)
    assert (None, True) == (found.measured_ratio, found.shares_known)
