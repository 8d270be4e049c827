"""Sums and means of measurements: the same bits in whatever order the rows are read."""

from __future__ import annotations

import random

import pytest

from gpuwatch.store.database import Store

CLOSE = 1e-12


def values() -> list[tuple[float, int]]:
    """Readings of very different sizes, with weights in microseconds: what loses digits in a floating-point sum."""
    rng = random.Random(5)
    return [(rng.uniform(0, 1) * 10 ** rng.randint(-4, 9), rng.randint(1, 3_600_000_000)) for _ in range(500)]


def measured(aggregate: str, seed: int) -> float:
    rows = values()
    random.Random(seed).shuffle(rows)
    with Store.open(None, threads=1) as store:
        columns = {"x": [x for x, _ in rows], "weight": [weight for _, weight in rows]}
        store.sql("create temp table reading (x double, weight bigint)")
        store.sql("insert into reading select unnest($x::double[]), unnest($weight::bigint[])", **columns)
        found: float = store.sql(f"select {aggregate} from reading")[0][0]
    return found


@pytest.mark.parametrize(
    ("exact", "plain"),
    [
        pytest.param("exact_sum(x)", "sum(x)", id="sum"),
        pytest.param("exact_mean(x)", "avg(x)", id="mean"),
        pytest.param("exact_weighted_mean(x, weight)", "sum(x * weight) / sum(weight)", id="weighted mean"),
    ],
)
def test_the_order_of_rows_changes_no_bit(exact: str, plain: str) -> None:
    found = {measured(exact, seed) for seed in range(4)}
    usual = {measured(plain, seed) for seed in range(4)}

    assert len(usual) > 1, "these numbers would not show it"
    assert 1 == len(found)
    assert pytest.approx(usual.pop(), rel=CLOSE) == found.pop()


def test_what_is_missing_counts_for_nothing() -> None:
    with Store.open(None) as store:
        store.sql("create temp table reading as select * from (values (1.0, 1), (null, 5), (3.0, 3)) t (x, weight)")
        found = store.sql("select exact_sum(x), exact_mean(x), exact_weighted_mean(x, weight) from reading")
        none = store.sql("select exact_sum(x), exact_mean(x), exact_weighted_mean(x, weight) from reading where false")

    assert [(4.0, 2.0, 2.5)] == found
    assert [(None, None, None)] == none


def test_a_correlation_is_that_of_pearson() -> None:
    with Store.open(None) as store:
        store.sql("create temp table pair as select * from (values (1, 9), (2, 7), (3, 8), (4, 1)) t (a, b)")
        ((exact, usual, flat),) = store.sql(
            "select exact_correlation(a, b), corr(a, b), exact_correlation(a, 5) from pair"
        )

    assert pytest.approx(usual, rel=CLOSE) == exact
    assert flat is None
