"""Derives the price of a GPU-hour from the price of its node, by a named split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from gpuwatch.rates.csv_table import amount, plain, whole_number
from gpuwatch.rates.presets import ALIASES, SPLITS, split_node

COLUMNS = ("node_price", "node_gpus", "node_vcpus", "node_memory_gib", "node_split")
"""Columns of a rate that is priced by its node."""
BY_SIZE = ("aws-scad", "opencost-ratio")
"""Splits that weigh a node's vCPUs and memory."""
GPUS_MAX = 1024
"""GPUs of one node."""


@dataclass(frozen=True)
class Node:
    """A node's price an hour, what it has, and the split (presets.SPLITS) that determines the GPUs' part of it.

    `vcpus` and `memory_gib` are None where a split does not weigh them. Raises ValueError for what cannot be split.
    """

    price: Decimal
    gpus: int
    split: str
    vcpus: Decimal | None = None
    memory_gib: Decimal | None = None

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise ValueError(f"node_split is not one of {', '.join(SPLITS)}")
        if not self.price.is_finite() or self.price < 0:
            raise ValueError("node_price is negative or not a number")
        if not 0 < self.gpus <= GPUS_MAX:
            raise ValueError(f"node_gpus is not a number from 1 to {GPUS_MAX}")
        for name, value in (("node_vcpus", self.vcpus), ("node_memory_gib", self.memory_gib)):
            if value is None and self.split in BY_SIZE:
                raise ValueError(f"{name} is empty: this node_split weighs what the node has")
            if value is not None and (not value.is_finite() or value < 0):
                raise ValueError(f"{name} is negative or not a number")

    @cached_property
    def gpu_hour(self) -> Decimal:
        """The price of one of its GPUs an hour, to 12 decimals."""
        return split_node(self.split, self.price, self.vcpus or 0, self.memory_gib or 0, self.gpus).gpu_hour(self.gpus)

    def __str__(self) -> str:
        has = [f"{self.gpus} GPUs"]
        has += [] if self.vcpus is None else [f"{plain(self.vcpus)} vCPUs"]
        has += [] if self.memory_gib is None else [f"{plain(self.memory_gib)} GiB"]
        return f"{self.split} of a node at {plain(self.price)} with {', '.join(has)}"


def node_of(row: Mapping[str, Any]) -> Node | None:
    """The node of a row of COLUMNS as texts, None where it has none of them. Raises ValueError naming the column."""
    cells = {name: str(row[name]) for name in COLUMNS if row.get(name) not in (None, "")}
    if not cells:
        return None
    for name in ("node_price", "node_gpus", "node_split"):
        if name not in cells:
            raise ValueError(f"{name} is empty: a price by node needs node_price, node_gpus and node_split")
    vcpus, memory = (amount(cells[name], name) if name in cells else None for name in COLUMNS[2:4])
    split = ALIASES.get(cells["node_split"], cells["node_split"])
    price, gpus = amount(cells["node_price"], "node_price"), whole_number(cells["node_gpus"], "node_gpus")
    return Node(price, gpus, split, vcpus, memory)


def shown(node: Node | None) -> dict[str, str | None]:
    """A node in texts, by COLUMNS; node_of parses them back."""
    if node is None:
        return dict.fromkeys(COLUMNS)
    amounts = (node.price, Decimal(node.gpus), node.vcpus, node.memory_gib)
    texts = [None if value is None else plain(value) for value in amounts]
    return dict(zip(COLUMNS, [*texts, node.split], strict=True))
