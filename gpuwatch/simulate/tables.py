"""Tables: rates, ownership rules, bundle.toml and node topology texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from gpuwatch.simulate.fleet import Node
from gpuwatch.simulate.models import A30, A100, B200, H100, H200, L4, L40S, Model
from gpuwatch.simulate.moments import DAY_S, Epoch
from gpuwatch.simulate.owners import TEAM_RULES

RATES_FROM_S = -60 * DAY_S
CHANGE_FRACTION = Fraction(43, 100)
CHANGE_ODD_S = 17
PRICING_ORDER = ("reserved", "owned", "spot", "on_demand")

_OTHERS = (
    (H200, "owned", "3.15"), (L40S, "owned", "0.86"), (A30, "owned", "0.52"), (B200, "owned", "4.10"),
    (B200, "on_demand", "6.25"), (L4, "on_demand", "0.70"), (L4, "spot", "0.22"),
)  # fmt: skip


@dataclass(frozen=True)
class Rate:
    """A price of a GPU hour during [start, end) seconds of the window; `end` None = until further notice."""

    model: str
    pricing: str
    usd_per_gpu_hour: Decimal
    start_s: int
    end_s: int | None
    pool: str = ""
    """The pool to which it is limited."""


SPOT_POOL = "spot-market"
"""A pool that the fleet could have, with the price of spot capacity."""


def rates(epoch: Epoch, models: Collection[Model] = ()) -> list[Rate]:
    """The rate card: H100 changes its price within the window; A100 has a list price that its reservation beats.

    The other models are on it where `models` has them.
    """
    others = [
        Rate(model.name, pricing, Decimal(usd), RATES_FROM_S, None, SPOT_POOL if pricing == "spot" else "")
        for model, pricing, usd in _OTHERS
        if model in models
    ]
    change = int(epoch.window_s * CHANGE_FRACTION) + CHANGE_ODD_S
    return [
        Rate(H100.name, "owned", Decimal("2.49"), RATES_FROM_S, change),
        Rate(H100.name, "owned", Decimal("2.85"), change, None),
        Rate(A100.name, "on_demand", Decimal("2.21"), RATES_FROM_S, None),
        Rate(A100.name, "reserved", Decimal("1.29"), RATES_FROM_S, None),
        *others,
    ]


def price(card: Sequence[Rate], model: Model, start: int, end: int) -> Fraction:
    """Exact USD of one whole GPU of that model over [start, end) seconds of the window."""
    edges = {start, end}
    for rate in card:
        edges |= {moment for moment in (rate.start_s, rate.end_s) if moment is not None and start < moment < end}
    total = Fraction(0)
    for low, high in pairwise(sorted(edges)):
        valid = [
            rate
            for rate in card
            if (rate.model, rate.pool) == (model.name, "")
            and rate.start_s <= low
            and (rate.end_s is None or high <= rate.end_s)
        ]
        best = min(valid, key=lambda rate: PRICING_ORDER.index(rate.pricing))
        total += Fraction(best.usd_per_gpu_hour) * (high - low) / 3600
    return total


def rates_csv(card: Sequence[Rate], epoch: Epoch) -> str:
    """rates.csv of the contract, with a column of pools if a rate has one."""
    pools = any(rate.pool for rate in card)
    rows = [
        (
            rate.model,
            rate.pricing,
            str(rate.usd_per_gpu_hour),
            epoch.rfc3339(rate.start_s),
            "" if rate.end_s is None else epoch.rfc3339(rate.end_s),
            *([rate.pool] if pools else []),
        )
        for rate in card
    ]
    header = ("gpu_model", "pricing", "usd_per_gpu_hour", "valid_from", "valid_to", *(["pool"] if pools else []))
    return _csv(header, rows)


def teams_csv() -> str:
    """teams.csv of the contract."""
    return _csv(("match_kind", "match", "team"), TEAM_RULES)


def bundle_toml(cluster: str, step_s: int) -> str:
    """bundle.toml of the contract."""
    return f'cluster = "{cluster}"\nscrape_interval_s = {step_s}\ntimezone = "UTC"\n'


def topo_text(node: Node) -> str:
    """`nvidia-smi topo -m`: GPUs on NVSwitch, in NVLink pairs, or on PCIe; one NIC for each two, two NUMA nodes."""
    count = node.gpu_count
    nics = max(1, count // 2)
    half = max(1, (count + 1) // 2)
    names = [f"GPU{i}" for i in range(count)] + [f"NIC{i}" for i in range(nics)]
    lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for row, name in enumerate(names):
        cells = [_link(row, column, count, half, node) for column in range(len(names))]
        if row < count:
            socket = row // half
            cells += [f"{socket * 64}-{socket * 64 + 63}", str(socket), "N/A"]
        lines.append("\t".join([name, *cells]))
    legend = ["", "NIC Legend:", "", *(f"  NIC{i}: mlx5_{i}" for i in range(nics))]
    return "\n".join(lines + legend) + "\n"


def _link(row: int, column: int, gpus: int, half: int, node: Node) -> str:
    if row == column:
        return " X "
    both = row < gpus and column < gpus
    if both and node.links == "nvswitch":
        return node.model.nvlink_label
    places = [index if index < gpus else (index - gpus) * 2 for index in (row, column)]
    if both and places[0] // 2 == places[1] // 2:
        return node.model.nvlink_label if node.links == "pairs" else "PIX"
    if (row < gpus or column < gpus) and places[0] // 2 == places[1] // 2:
        return "PXB"
    return "NODE" if places[0] // half == places[1] // half else "SYS"


def _csv(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
