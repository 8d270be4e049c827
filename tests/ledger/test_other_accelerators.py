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
from gpuwatch.capacity.pending import pending
from gpuwatch.core.accelerators import AMD, INTEL, MPS, NEURON, NEURON_CORE, REPLICA, SHARD, TPU
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


def asks(job: str, profile: str | None, devices: int, scheduler: str = "kubernetes") -> dict[str, Any]:
    """A request that has waited for an hour and a half for devices of a kind."""
    row = dict.fromkeys(PENDING.names) | WAITS | {"job_id": job, "profile": profile, "device_count": devices}
    message = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    return (
        row
        | {"scheduler": scheduler, "submit_us": us(60), "queue": None}
        | ({"message": message} if scheduler == "kubernetes" else {"reason": "Resources"})
    )


REQUESTS = [
    asks("lab/amd", AMD, 2),
    asks("lab/tpu", TPU, 2),
    asks("lab/replica", REPLICA, 2),
    asks("77", SHARD, 2, "slurm"),
    asks("78", MPS, 50, "slurm"),
]


def asked_for(*requests: dict[str, Any]) -> World:
    """Two nodes with one free GPU each, which fit no request for two, and what waits."""
    world = World().add(*(node(name, {"": 2}, at=END, scheduler="kubernetes", gpu_model=H100) for name in ("n1", "n2")))
    for name in ("n1", "n2"):
        world.add(
            *(samples(Gpu(f"GPU-{name}-{n}", name, n), minutes(0, END), BUSY) for n in range(2)),
            pod(f"one-{name}", f"one-{name}", 0, END, name, count=1),
        )
    world.store.append(Records("pending", pa.Table.from_pylist(list(requests), schema=PENDING)))
    world.seal()
    analyze(world.store, State.open("sqlite://"), world.settings, now_us=us(END))
    return world


FOUND = "select detector, subject_id, started_us, ended_us, wasted_units, severity from finding order by all"
ABOUT_ROOM = ("fragmentation", "starvation", "partial-island", "mig-mixed-pool", "mig-speculative")


def test_requests_for_other_devices_and_shares_make_no_finding_about_gpus() -> None:
    """Fragmentation is found for the same request for whole GPUs; for others nothing is found."""
    nobody, others, gpus = asked_for(), asked_for(*REQUESTS), asked_for(asks("lab/gpus", None, 2))

    assert nobody.store.sql(FOUND) == others.store.sql(FOUND)
    assert "fragmentation" in {row[0] for row in gpus.store.sql(FOUND)}
    assert not {row[0] for row in others.store.sql(FOUND)} & set(ABOUT_ROOM)
    assert shapes(nobody.store, us(END)) == shapes(others.store, us(END))


def test_the_queue_shows_them_as_what_they_ask_for() -> None:
    world = asked_for(*REQUESTS, asks("lab/both", None, 1), asks("lab/both", AMD, 4))
    listed = pending(world.store, State.open("sqlite://"), us(END))["items"]

    assert {
        "lab/amd": (2, AMD, "other"),
        "lab/tpu": (2, TPU, "other"),
        "lab/replica": (2, REPLICA, "other"),
        "77": (2, SHARD, "other"),
        "78": (50, MPS, "other"),
        "lab/both": (1, None, "gpus"),
    } == {row["job"]: (row["gpus"], row["profile"], row["waits_for"]) for row in listed}
    assert {None} == {row["start"] for row in listed if row["job"] != "lab/both"}
