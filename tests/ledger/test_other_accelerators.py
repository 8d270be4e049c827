"""Accelerators of other vendors in the books: held and priced, never measured, and nothing changes for NVIDIA GPUs."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing import chargeback
from gpuwatch.billing.slices import slices
from gpuwatch.capacity.fleet import fleet
from gpuwatch.capacity.now import shapes
from gpuwatch.core.accelerators import AMD, INTEL, NEURON, NEURON_CORE
from gpuwatch.core.clock import Window
from gpuwatch.core.model import PENDING, Records
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.worlds.templates import computed_once
from tests.worlds.world import BUSY, CLUSTER, H100, HOUR, Gpu, World, minutes, node, pod, samples, us

END = 2 * HOUR
NVIDIA = [
    node("n1", {"": 2}, at=END, scheduler="kubernetes", gpu_model=H100),
    *(samples(Gpu(f"GPU-{n}", "n1", n), minutes(0, END), BUSY) for n in range(2)),
    pod("train", "train", 0, END, "n1", count=2),
]
OTHERS = [
    node("amd", {AMD: 2}, at=END, scheduler="kubernetes", gpu_model="AMD Instinct MI300X"),
    pod("rocm", "rocm", 0, END, "amd", profile=AMD, gpu_type="AMD GPU"),
    node("trn", {NEURON: 2}, at=END, scheduler="kubernetes", gpu_model="AWS Neuron device", replicas=2),
    pod("core", "core", 0, END, "trn", profile=NEURON_CORE),
    pod("cores", "cores", 0, END, "trn", profile=NEURON_CORE, count=2),
    pod("xpu", "xpu", 0, END, "xe", profile=INTEL, fraction=0.25),
    node("both", {"": 1, AMD: 1}, at=END, scheduler="kubernetes", gpu_model=H100),
    pod("mixed", "mixed", 0, END, "both", profile=AMD),
]
WAITS = {"cluster": CLUSTER, "scheduler": "kubernetes", "job_id": "lab/wait", "device_count": 1, "node_count": 1}
WAITS |= {"submit_us": us(60), "evidence_us": us(END), "reason": "Unschedulable", "namespace": "lab"}
Analyzed = tuple[World, State]


def analyzed(*rows: Any) -> Analyzed:
    """A fleet of these, analyzed with all rules; a request waits for a GPU that is not there."""
    world = World().add(*rows)
    world.store.append(Records("pending", pa.Table.from_pylist([WAITS], schema=PENDING)))
    world.seal()
    state = State.open("sqlite://")
    prices = [
        Rate(model, "owned", Decimal(price), us(0), None, None, None, None, "USD")
        for model, price in ((H100, "2"), ("AMD Instinct MI300X", "3"))
    ]
    replace_rates(state, prices, "test", "test", 0)
    analyze(world.store, state, world.settings, now_us=us(END))
    return world, state


@computed_once
def mixed() -> Analyzed:
    return analyzed(*NVIDIA, *OTHERS)


def held(world: World) -> list[tuple[str, str, str, Fraction]]:
    rows = world.store.sql(
        """select d.node, d.model, coalesce(r.run_key, s.free_bucket), s.share_num, s.share_den
        from segment s join device d using (device_id) left join run r using (run_id)
        where s.start_us = $start and d.kind is not null order by d.node, d.gpu_index, r.run_key nulls last""",
        start=us(0),
    )
    return [(name, model, who, Fraction(num, den)) for name, model, who, num, den in rows]


def test_they_are_held_by_kind_and_nothing_else_is() -> None:
    """Neuron cores are parts of their device; a part of an Intel GPU leaves the rest free."""
    assert [
        ("amd", "AMD Instinct MI300X", "rocm", 1),
        ("amd", "AMD Instinct MI300X", "schedulable", 1),
        ("both", "AMD GPU", "mixed", 1),
        ("trn", "AWS Neuron device", "core", Fraction(1, 2)),
        ("trn", "AWS Neuron device", "schedulable", Fraction(1, 2)),
        ("trn", "AWS Neuron device", "cores", 1),
        ("xe", "Intel GPU", "xpu", Fraction(1, 4)),
        ("xe", "Intel GPU", "schedulable", Fraction(3, 4)),
    ] == held(mixed()[0])


def test_they_are_not_measured_and_never_accused() -> None:
    world, _ = mixed()
    buckets = world.store.sql(
        """select sum(unobserved_us) = sum(unobserved_us + hoarded_us + gap_us + communication_us + stalled_us + below_roof_us
            + memory_roof_us + compute_us), sum(stranded_us)
        from ledger_hour join device d using (device_id) where d.kind is not null"""
    )

    assert [(True, 0)] == buckets
    assert [] == world.store.sql(
        """select f.detector from finding f join device d on list_contains(f.device_ids, d.device_id) where d.kind is not null
        union all select detector from finding where job_id in ('lab/rocm', 'lab/core', 'lab/cores', 'lab/xpu', 'lab/mixed')"""
    )


def test_they_are_counted_and_priced_by_their_model() -> None:
    world, state = mixed()
    counted = {row["gpu_model"]: row["gpus"] for row in fleet(world.store, us(END))["items"]}
    charges = chargeback.chargeback(world.store, state, Window(us(0), us(END)), ("gpu_model", "team")).items
    cost = {(c.group["gpu_model"], c.group["team"] == "__platform__"): c.cost for c in charges}

    assert (2, 1, 0) == tuple(counted["AMD Instinct MI300X"][name] for name in ("total", "allocated", "reporting"))
    assert None is counted["AMD Instinct MI300X"]["active"]
    assert {Decimal("6.00")} == {cost["AMD Instinct MI300X", free] for free in (False, True)}
    assert None is cost["Intel GPU", False]
    assert [] == slices(world.store, state, Window(us(0), us(END)))["items"]


def test_nothing_changes_for_the_gpus_beside_them() -> None:
    """The same minutes, findings and free GPUs as without them."""
    alone, _ = analyzed(*NVIDIA)
    world, _ = mixed()
    books = (
        "select * exclude (run_id) from ledger_hour join device d using (device_id) where d.node = 'n1' order by all"
    )
    found = "select detector, job_id, started_us, ended_us, wasted_units from finding order by all"

    assert alone.store.sql(books) == world.store.sql(books)
    assert alone.store.sql(found) == world.store.sql(found)
    # The node that has both has a free NVIDIA GPU.
    assert (0, 1) == tuple(shapes(one.store, us(END))["total"]["free_gpus"] for one in (alone, world))
