"""Commitments to a number of GPUs: whom they cover, and when."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.rates.card import BEGINNING_US, Rate
from gpuwatch.rates.coverage import Cover, FleetGpu, cover
from gpuwatch.rates.matching import price_spans, resolve

MODEL = "NVIDIA H100 80GB HBM3"


def reserved(quantity: int | None, start: int = 0, end: int | None = None, **more: object) -> Rate:
    words: dict[str, object] = {"commitment_id": "ri-1"} | more
    return Rate("H100", "reserved", Decimal(1), start, end, quantity=quantity, **words)  # type: ignore[arg-type]


def on_demand(usd: str = "3", **more: object) -> Rate:
    return Rate("H100", "on_demand", Decimal(usd), 0, **more)  # type: ignore[arg-type]


def gpu(name: str, start: int = 10, end: int | None = None, cluster: str = "c1", pool: str | None = None) -> FleetGpu:
    return FleetGpu(cluster, name, pool, MODEL, start, end)


def covered_spans(covers: dict[tuple[str, str], Cover]) -> dict[str, list[tuple[str | None, int, int | None]]]:
    """GPU -> (commitment, start, end)."""
    return {
        key[1]: sorted((rate.commitment, *span) for rate, spans in found.items() for span in spans)
        for key, found in covers.items()
    }


@pytest.mark.parametrize(
    ("expected", "rates", "gpus"),
    [
        pytest.param({}, [on_demand()], [gpu("a")], id="no commitment covers nobody"),
        pytest.param({}, [reserved(None)], [gpu("a")], id="a reserved rate without a quantity needs no turns"),
        pytest.param({}, [reserved(2)], [], id="no GPUs, nobody"),
        pytest.param({}, [reserved(2, cluster="c2")], [gpu("a")], id="another cluster is not meant"),
        pytest.param(
            {}, [reserved(2), on_demand(pool="p")], [gpu("a", pool="p")], id="a better rate leaves the commitment alone"
        ),
        pytest.param(
            {"b": [("ri-1", BEGINNING_US, None)]},
            [reserved(1)],
            [gpu("a", 20), gpu("b", 10)],
            id="who was there first is covered",
        ),
        pytest.param(
            {"a": [("ri-1", BEGINNING_US, None)]},
            [reserved(1)],
            [gpu("b"), gpu("a")],
            id="of those seen at once the smaller UUID",
        ),
        pytest.param(
            {"a": [("ri-1", BEGINNING_US, None)], "b": [("ri-1", 50, None)]},
            [reserved(1)],
            [gpu("a", 10, 50), gpu("b", 10), gpu("c", 20)],
            id="where one leaves the next takes its place",
        ),
        pytest.param(
            {"a": [("ri-1", 30, 40)], "b": [("ri-1", 30, 40)]},
            [reserved(5, 30, 40)],
            [gpu("a"), gpu("b", 35)],
            id="only while it is valid",
        ),
        pytest.param(
            {"a": [("ri-1", BEGINNING_US, None)], "b": [("ri-2", 30, None)]},
            [reserved(1), reserved(1, 30, commitment_id="ri-2")],
            [gpu("a"), gpu("b"), gpu("c")],
            id="a second commitment covers the next ones",
        ),
        pytest.param(
            {"a": [("ri-1", BEGINNING_US, None)], "b": [("ri-1", BEGINNING_US, None)]},
            [reserved(2)],
            [gpu("a", cluster="c1"), gpu("b", cluster="c2"), gpu("c", cluster="c1")],
            id="one commitment over two clusters",
        ),
    ],
)
def test_whom_a_commitment_covers(
    expected: dict[str, list[tuple[str, int, int | None]]], rates: list[Rate], gpus: list[FleetGpu]
) -> None:
    assert expected == covered_spans(cover(rates, gpus))


def test_the_others_get_the_next_pricing() -> None:
    rates = [reserved(1, 20, 30), on_demand()]
    covers = cover(rates, [gpu("a"), gpu("b")])

    def prices(name: str) -> list[tuple[int, int | None, str]]:
        spans = price_spans(rates, "c1", None, MODEL, None, covers.get(("c1", name), {}))
        return [(start, end, rate.pricing) for start, end, rate in spans if rate is not None]

    assert [(0, 20, "on_demand"), (20, 30, "reserved"), (30, None, "on_demand")] == prices("a")
    assert [(0, None, "on_demand")] == prices("b")


def test_resolve_leaves_commitments_to_a_number_out() -> None:
    assert "on_demand" == getattr(resolve([reserved(9), on_demand()], "c1", None, MODEL, None, 5), "pricing", None)


times = st.integers(0, 40)
spans = st.tuples(times, st.one_of(st.none(), st.integers(1, 20)))


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.tuples(spans, st.integers(1, 3), st.sampled_from([None, "c1", "c2"])), min_size=1, max_size=3),
    st.lists(st.tuples(spans, st.sampled_from(["c1", "c2"])), max_size=6),
    st.randoms(use_true_random=False),
)
def test_a_turn_at_every_instant(rates: list, gpus: list, random: object) -> None:  # type: ignore[type-arg]
    """At every instant exactly those are covered whom dealing by hand would cover, whatever the order of the input."""
    card = [
        reserved(quantity, start, None if length is None else start + length, cluster=cluster, commitment_id=f"ri-{n}")
        for n, ((start, length), quantity, cluster) in enumerate(rates)
    ]
    fleet = [
        gpu(f"g{n}", start, None if length is None else start + length, cluster)
        for n, ((start, length), cluster) in enumerate(gpus)
    ]
    shuffled = list(fleet)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    covers = cover(card, fleet)

    assert covers == cover(card, shuffled)
    for at in range(62):
        left = {rate: rate.quantity or 0 for rate in card}
        for one in sorted(fleet, key=lambda one: (one.start_us, one.gpu)):
            if not one.start_us <= at or (one.end_us is not None and at >= one.end_us):
                continue
            spans_at = price_spans(card, one.cluster, None, MODEL, None, covers.get(one.key, {}))
            got = next(rate for start, end, rate in spans_at if start <= at and (end is None or at < end))
            choices = [
                rate for rate in card if rate.valid_at(at) and rate.cluster in (None, one.cluster) and left[rate]
            ]
            choices.sort(key=lambda rate: (rate.cluster is None, rate.valid_from_us, rate.commitment))
            assert (choices[0] if choices else None) == got
            if choices:
                left[choices[0]] -= 1
