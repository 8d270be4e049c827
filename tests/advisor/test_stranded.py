"""Why free GPUs are stranded: the causes of a window by pool and model, which add up to the ledger's stranded time."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.advisor.give_back import sentence, with_give_back
from gpuwatch.advisor.stranded import MODE, MODEL, SCATTERED, Cause, Place, causes, unclaimed
from gpuwatch.billing import chargeback
from gpuwatch.core.clock import Window
from gpuwatch.core.model import PENDING, Records
from gpuwatch.hardware.fgd import REMEDIES
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from tests.worlds.world import CLUSTER, HOUR, Gpu, World, claim, minutes, node, samples, us

DAY = 24 * HOUR
END = DAY + HOUR
WINDOW = Window(us(DAY), us(END))
"""The fleets are seen in the first hour of the second day; requests of the first day judge it."""


def machine(name: str, gpus: int, held: int = 0, model: str = "h100", from_s: float = DAY) -> list[Any]:
    """A node of GPUs from a time on, of which the first are held; its pool has its name."""
    rows: list[Any] = [node(name, {model: gpus}, pool=f"pool-{name}")]
    for n in range(gpus):
        rows += samples(Gpu(f"GPU-{name}-{n}", name, n, model=MODELS[model]), minutes(from_s, END))
    for n in range(held):
        rows.append(claim(f"{name}-{n}", DAY, END, name, gpus=f"GPU-{name}-{n}", submit_us=us(DAY)))
    return rows


MODELS = {"h100": "NVIDIA H100 80GB HBM3", "a100": "NVIDIA A100-SXM4-80GB", "l40s": "NVIDIA L40S"}


def asked(job: str, gpus: int, **words: Any) -> dict[str, Any]:
    row = {"cluster": CLUSTER, "scheduler": "slurm", "job_id": job, "device_count": gpus, "node_count": 1}
    return row | {"submit_us": us(HOUR), "evidence_us": us(HOUR), "reason": "Priority"} | words


def found(rows: list[Any], requests: list[dict[str, Any]], give_back: bool = False) -> list[Cause]:
    """The causes of the window, and a check that they add up to the ledger's stranded time and cost."""
    made = World().add(*rows)
    made.store.append(Records("pending", pa.Table.from_pylist(requests, schema=PENDING)))
    with made.book().store as store, State.open("sqlite://") as state:
        replace_rates(state, [Rate("*", "owned", Decimal(2), 0)], "test", "test", 0)
        chargeback.price_all(store, state)
        ledger = chargeback.ledger(store, state, WINDOW)
        stranded = [row for row in ledger.items if row.bucket == "stranded"]
        listed = causes(store, state, WINDOW)
        assert sum(Fraction(row.gpu_seconds) for row in stranded) / 3600 == sum(one.gpu_hours for one in listed)
        assert sum(Fraction(row.cost or 0) for row in stranded) == sum(one.cost or 0 for one in listed)
        return with_give_back(store, state, WINDOW, listed) if give_back else listed


def test_without_stranded_time_there_is_no_cause() -> None:
    """Any request of one GPU fits on every free GPU."""
    assert [] == found(machine("n1", 4), [asked("1", 1)])
    assert [] == found(machine("n1", 4), [])


def test_a_model_that_half_of_the_requests_do_not_want() -> None:
    """Of two requests one wants an A100: half of the four H100 and of the two A100 is of no use to the other."""
    rows = [*machine("n1", 4), *machine("n2", 2, model="a100")]

    (one,) = found(rows, [asked("1", 1, gpu_type="a100"), asked("2", 1, gpu_type="h100")])

    assert (MODEL, Fraction(3), Fraction(6), "USD") == (one.name, one.gpu_hours, one.cost, one.currency)
    assert [("H100-80GB", 4), ("A100-80GB", 2)] == [
        (place.name[-10:-1].lstrip("("), place.cost) for place in one.places
    ]
    assert (
        "50 % ask for A100-80GB, 50 % ask for H100-80GB: 50 % cannot use H100-80GB and 50 % cannot use A100-80GB."
        in one.summary
    )
    assert one.remedy.startswith(REMEDIES["NA"])
    assert "Pack small jobs" not in one.remedy


def test_slices_are_asked_of_whole_gpus() -> None:
    """Three of four requests want a MIG slice, and any GPU of the model."""
    requests = [asked(str(n), 1, profile="1g.10gb") for n in range(3)] + [asked("whole", 1)]

    (one,) = found(machine("n1", 4), requests)

    assert (MODE, Fraction(3), Fraction(6)) == (one.name, one.gpu_hours, one.cost)
    assert "75 % ask for MIG slices, 25 % ask for whole GPUs" in one.summary
    assert one.remedy.startswith(REMEDIES["ML"])


def test_how_many_requests_waited_says_whether_the_mode_mattered() -> None:
    """Two jobs hold whole GPUs: one started at once, one after 20 minutes. No slice was ever given."""
    rows = machine("n1", 4, held=1)
    rows.append(claim("late", DAY + 1200, END, "n1", gpus="GPU-n1-1", submit_us=us(DAY)))

    (one,) = found(rows, [asked(str(n), 1, profile="1g.10gb") for n in range(3)] + [asked("whole", 1)])

    waits = "Of the requests that started in this window, 1 of 2 for whole GPUs had waited longer than 10 min"
    assert one.remedy == f"{REMEDIES['ML']} {waits}, for whatever reason."


def test_slices_are_asked_where_no_gpu_has_any() -> None:
    """An L40S cannot be partitioned: the request wants another model, and no other mode would help."""
    (one,) = found(machine("n1", 4, model="l40s"), [asked("1", 1, profile="1g.10gb"), asked("whole", 1)])

    assert (MODEL, Fraction(2), Fraction(4)) == (one.name, one.gpu_hours, one.cost)
    assert one.remedy.startswith(REMEDIES["NA"])


def test_gpus_that_do_not_lie_together() -> None:
    """Half of the requests want four GPUs on a node, which two nodes with two free ones each do not have."""
    rows = [*machine("n1", 4, held=2), *machine("n2", 4, held=2)]

    (one,) = found(rows, [asked("1", 4), asked("2", 1)])

    assert (SCATTERED, Fraction(2), Fraction(4)) == (one.name, one.gpu_hours, one.cost)
    assert one.remedy.startswith(REMEDIES["Q2"])
    assert "were free" not in one.summary, "half of the GPUs are held"


def test_two_causes_at_once_the_most_expensive_first() -> None:
    """Of four requests two want another model, and one wants eight GPUs of a node with four."""
    requests = [asked("1", 1, gpu_type="a100"), asked("2", 1, gpu_type="a100"), asked("3", 8), asked("4", 1)]

    first, second = found([*machine("n1", 4), *machine("n2", 8, held=8)], requests)

    assert [(MODEL, 2, 4), (SCATTERED, 1, 2)] == [(one.name, one.gpu_hours, one.cost) for one in (first, second)]
    assert "a model that is not here" in first.summary


def test_what_findings_claim_is_taken_from_its_cause() -> None:
    place = Place("c", "p", "NVIDIA H100 80GB HBM3", Fraction(10), Fraction(20))
    both = [Cause(MODE, (place,), "USD"), Cause(SCATTERED, (place,), "USD")]

    mode, scattered = unclaimed(
        both, {"mig-mixed-pool": (Fraction(4), Fraction(8)), "fragmentation": (Fraction(1), Fraction(2))}
    )

    assert (6, 12) == (mode.gpu_hours, mode.cost)
    assert (9, 18) == (scattered.gpu_hours, scattered.cost)
    assert [SCATTERED] == [one.name for one in unclaimed(both, {"mig-mixed-pool": (Fraction(11), Fraction(22))})]


LEVEL = {
    "level": "p95", "freed_gpus": 48, "saving_a_month": "241075.20", "delayed_requests": 42, "requests": 462,
    "too_large_requests": 0, "longest_delay_seconds": 32_400.0,
}  # fmt: skip
LESS = LEVEL | {
    "level": "p99", "freed_gpus": 8, "saving_a_month": "40179.20", "delayed_requests": 3, "longest_delay_seconds": 1500.0,
}  # fmt: skip
NOTHING = LEVEL | {"freed_gpus": 0, "saving_a_month": "0.00"}
ANY = "H100-80GB: if any job could run on any of them,"


@pytest.mark.parametrize(
    ("gpus", "levels", "expected"),
    [
        pytest.param(82, [NOTHING], "", id="nothing is freed"),
        pytest.param(
            82, [LESS | {"level": "peak"}, LESS, LEVEL], f"{ANY} 74 of 82 GPUs would have been enough for 99 % of the time; "
            "8 could go (40,179 USD a month), and 3 of 462 requests would have waited, at most 25 min.",
            id="99 %, whatever the others free",
        ),
        pytest.param(82, [NOTHING | {"level": "p99"}, LEVEL], "", id="95 % of the time is not enough"),
        pytest.param(
            48, [LEVEL | {"level": "p99"}],
            "H100-80GB: none of the 48 GPUs was needed for 99 % of the time (241,075 USD a month).", id="all",
        ),
        pytest.param(
            82, [LEVEL | {"level": "p99", "saving_a_month": None, "delayed_requests": 0}], f"{ANY} 34 of 82 GPUs "
            "would have been enough for 99 % of the time; 48 could go, and no request would have waited.", id="no price, no wait",
        ),
    ],
)  # fmt: skip
def test_what_merged_pools_would_not_need(gpus: int, levels: list[dict[str, Any]], expected: str) -> None:
    item = {"gpu_model": "NVIDIA H100 80GB HBM3", "gpus": gpus, "currency": "USD", "levels": levels}

    assert expected == sentence(item)


def test_the_remedy_says_what_could_go() -> None:
    """Two nodes are empty: of twelve GPUs four are held."""
    rows = [*machine("n1", 4, held=4), *machine("n2", 4), *machine("n3", 4)]

    (one,) = found(rows, [asked("1", 1, gpu_type="a100"), asked("2", 1)], give_back=True)

    assert MODEL == one.name
    assert "8 of 12 GPUs would have been enough for 99 % of the time; 4 could go (5,840 USD a month)" in one.remedy


def test_nodes_that_came_lately_could_not_go() -> None:
    """Both empty nodes came within the hour: nobody knows what is needed of them, and a month of them was never paid."""
    late = [*machine("n2", 4, from_s=END - 1800), *machine("n3", 4, from_s=END - 1200)]
    rows = [*machine("n1", 4, held=4), *late]

    (one,) = found(rows, [asked("1", 1, gpu_type="a100"), asked("2", 1)], give_back=True)

    assert MODEL == one.name
    assert "GPUs" not in one.more
