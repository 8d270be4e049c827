"""Prices of GPU-hours out of prices of nodes: published examples, and what is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.rates.card import Rate, describe, parse_rates
from gpuwatch.rates.card import shown as rate_shown
from gpuwatch.rates.node_split import COLUMNS, Node, node_of, shown
from gpuwatch.rates.repository import from_stored, stored

HEADER = ",".join(("gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to", *COLUMNS))
START = "V100,on_demand,{price},2026-11-01T00:00:00Z,,"


def read(*lines: str) -> tuple[tuple[Rate, ...], Rejects]:
    rejects = Rejects()
    return parse_rates("\n".join([HEADER, *lines]), "rates.csv", rejects), rejects


@pytest.mark.parametrize(
    ("reason", "cells", "price"),
    [
        pytest.param("node_price is empty: a price by node needs", ",8,64,488,aws-scad", "", id="no price of the node"),
        pytest.param("node_gpus is empty", "10,,64,488,aws-scad", "", id="no number of GPUs"),
        pytest.param("node_split is empty", "10,8,64,488,", "", id="no split"),
        pytest.param("node_split is not one of aws-scad", "10,8,64,488,fair", "", id="a split that nobody knows"),
        pytest.param("node_vcpus is empty: this node_split", "10,8,,488,aws-scad", "", id="a split by size, no size"),
        pytest.param("node_price is negative", "-10,8,64,488,aws-scad", "", id="a negative price"),
        pytest.param("node_memory_gib is negative", "10,8,64,-1,aws-scad", "", id="less than no memory"),
        pytest.param("node_price is not a plain decimal", "1e400,8,64,488,aws-scad", "", id="an exponent"),
        pytest.param("node_price is not a plain decimal", "NaN,8,64,488,aws-scad", "", id="not a number"),
        pytest.param("node_gpus is not a whole number above 0", "10,0,64,488,aws-scad", "", id="a node without GPUs"),
        pytest.param("node_gpus is not a number from 1 to", "10,9999,64,488,aws-scad", "", id="a node that large"),
        pytest.param("usd_per_gpu_hour is not what node_price", "10,8,64,488,aws-scad", "0.5", id="two prices"),
        pytest.param("usd_per_gpu_hour is not a plain decimal", ",,,,", "", id="no price at all"),
    ],
)
def test_a_line_that_is_refused(reason: str, cells: str, price: str) -> None:
    kept, rejects = read(START.format(price=price) + cells, START.format(price=2).replace("V100", "T4"))

    assert [1] == list(rejects.counts.values())
    assert reason in next(iter(rejects.counts))
    assert 2 == next(iter(rejects.first.values()))[1]
    assert ["T4"] == [rate.gpu_model for rate in kept]


@pytest.mark.parametrize(
    ("expected", "cells"),
    [
        # AWS's own example of accelerated instances: a p3.16xlarge at 10 USD. It rounds 10 / 178.4 to 0.056, so 0.504.
        pytest.param("0.504484304933", "10,8,64,488,aws-scad", id="AWS: 9 x 10 / (9 x 8 + 0.9 x 64 + 0.1 x 488)"),
        pytest.param("0.504484304933", "10,8,64,488,aws-split", id="its other name"),
        pytest.param("11.875", "100,8,,,datadog-ccm", id="Datadog: 95 of 100 for 8 GPUs"),
        pytest.param("11.875", "100,8,192,2048,datadog", id="whatever else the node has"),
        pytest.param("12.29", "98.32,8,,,gpu-only", id="the whole price"),
        pytest.param("9", "10,1,1,1,aws-scad", id="9 : 0.9 : 0.1"),
    ],
)
def test_the_gpu_hour_of_a_node(expected: str, cells: str) -> None:
    (rate,), rejects = read(START.format(price="") + cells)

    assert {} == rejects.counts
    assert Decimal(expected) == rate.usd_per_gpu_hour


def test_a_rate_keeps_where_its_price_comes_from() -> None:
    (rate,), _ = read(START.format(price="") + "10,8,64,488,aws-scad")

    assert rate == from_stored(stored(rate))
    assert {"usd_per_gpu_hour": "0.504484304933", "node_price": "10", "node_split": "aws-scad"}.items() <= (
        rate_shown(rate).items()
    )
    assert rate.node == node_of(shown(rate.node))
    assert "aws-scad of a node at 10 with 8 GPUs, 64 vCPUs, 488 GiB" in describe(rate)
    (again,), rejects = read(START.format(price="0.504484304933") + "10,8,64,488,aws-scad")
    assert (rate, {}) == (again, rejects.counts)


def test_a_price_that_is_not_the_nodes_is_refused_however_it_is_made() -> None:
    with pytest.raises(UsageError, match="not what node_price gives"):
        Rate("H100", "spot", Decimal(1), 0, node=Node(Decimal(100), 8, "gpu-only"))
    assert dict.fromkeys(COLUMNS) == shown(None)
