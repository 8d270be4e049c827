"""Spot rates price capacity that is known to be spot; all other capacity keeps its price."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from gpuwatch.billing.chargeback import price_all
from gpuwatch.quality.rate_checks import rate_warnings
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import load_rates, replace_rates
from tests.billing.test_chargeback import priced
from tests.worlds.world import BUSY, H100, HOUR, Gpu, World, minutes, node, samples, us

LISTED = Rate("*", "on_demand", Decimal(4), us(-HOUR))
SPOT = Rate(H100, "spot", Decimal(1), us(-HOUR))
LABELS = [
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
]


def fleet(labels: dict[str, str]) -> World:
    """A GPU of n1, which has these labels, and one of n2, which has none."""
    rows: list[Any] = [node("n1", at=0, labels=json.dumps(labels)), node("n2", at=0)]
    return World().add(*rows, *(samples(Gpu(f"GPU-{n}", f"n{n}"), minutes(0, HOUR), BUSY) for n in (1, 2))).book()


def paid(world: World) -> dict[str, tuple[str, str]]:
    """Pricing and price of each node's GPU in the first hour."""
    found = world.store.sql(
        "select node, pricing, usd_per_gpu_hour from device_price p join device d using (device_id, cluster) "
        "where p.start_us <= $at and p.end_us > $at",
        at=us(60),
    )
    return {name: (pricing, f"{Decimal(price):f}") for name, pricing, price in found}


def test_a_spot_rate_leaves_nodes_alone_that_no_label_calls_spot() -> None:
    world = fleet({"karpenter.sh/capacity-type": "on-demand", "cloud.google.com/gke-spot": "false"})
    state = priced(world, LISTED, SPOT)
    assert {"n1": ("on_demand", "4"), "n2": ("on_demand", "4")} == paid(world)
    (warning,) = rate_warnings(world.store, load_rates(state))
    assert "no node is known to be spot capacity" in warning


@pytest.mark.parametrize(("label", "value"), LABELS, ids=[label for label, _ in LABELS])
def test_a_label_of_the_node_says_that_it_is_spot(label: str, value: str) -> None:
    world = fleet({label: value})
    state = priced(world, LISTED, SPOT)
    assert {"n1": ("spot", "1"), "n2": ("on_demand", "4")} == paid(world)
    assert [] == rate_warnings(world.store, load_rates(state))


def test_a_rate_that_assumes_spot_prices_every_gpu_of_its_scope() -> None:
    world = fleet({})
    priced(world, LISTED, Rate(H100, "spot", Decimal(1), us(-HOUR), assume_spot=True))
    assert {"n1": ("spot", "1"), "n2": ("spot", "1")} == paid(world)


def test_a_node_that_becomes_spot_is_priced_again() -> None:
    world = fleet({})
    state = priced(world, LISTED, SPOT)
    world.store.sql("update node set labels = $labels where node = 'n2'", labels=json.dumps(dict(LABELS[:1])))
    price_all(world.store, state)
    assert {"n1": ("on_demand", "4"), "n2": ("spot", "1")} == paid(world)


def test_a_commitment_comes_before_spot_only_where_it_is_as_specific() -> None:
    world = fleet(dict(LABELS[:1]))
    state = priced(world, LISTED, SPOT)
    replace_rates(state, [LISTED, SPOT, Rate(H100, "reserved", Decimal(2), us(-HOUR), quantity=2)], "t", "t", 1)
    price_all(world.store, state)
    assert {"n1": ("reserved", "2"), "n2": ("reserved", "2")} == paid(world)
