"""Moves that make room, better MIG layouts, the history of fragmentation, and who stranded what."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpuwatch.billing import chargeback
from gpuwatch.capacity.history import by_job, history
from gpuwatch.capacity.plan import parsed, plans
from gpuwatch.cli import app
from gpuwatch.commands.advice import capacity as command
from gpuwatch.core.clock import DAY_US, HOUR_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import PENDING, Records
from gpuwatch.hardware.mig_plan import repartition, served
from gpuwatch.hardware.mig_profiles import GEOMETRIES
from gpuwatch.hardware.shares import maximal_layouts
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.ledger.test_stranding import DAY, END, asked, machine, world
from tests.worlds.world import CLUSTER, H100, HOUR, T0_US, World, claim, node, us

WINDOW = Window(T0_US + DAY_US, T0_US + DAY_US + HOUR_US)


@pytest.fixture(scope="module")
def split() -> Iterator[World]:
    """Two nodes of four GPUs, of each one is held; four GPUs were asked for the day before. A GPU-hour costs 2 dollars."""
    made = world(machine("n1", 4, held=1), machine("n2", 4, held=1), requests=[asked("big", 4)]).book()
    with made.store, State.open("sqlite://") as state:
        replace_rates(state, [Rate(H100, "owned", Decimal(2), 0, None, None, None, None, "USD")], "test", "test", 0)
        chargeback.price_all(made.store, state)
        yield made


def test_the_shape_that_was_asked_for_and_finds_no_place_is_planned(split: World) -> None:
    [one] = plans(split.store, us(END))["items"]

    assert ("4", False, True, True, 1, 6) == tuple(
        one[name] for name in ("shape", "placeable", "possible", "exact", "moved_gpus", "free_gpus")
    )
    assert [{"job": "n1-0", "node": "n1", "gpus": 1, "preemptible": False, "to": "n2"}] == one["moves"]
    assert (["n1"], ["n1"], False) == (one["places"], one["drained"], one["at_once"])
    assert [("n1-0", 1, 3), ("n2-0", 1, 3)] == [(b["job"], b["gpus"], b["free_gpus"]) for b in one["blockers"]]


def test_a_shape_that_fits_needs_no_moves(split: World) -> None:
    [one] = plans(split.store, us(END), shape="3")["items"]

    assert (True, True, 0, []) == tuple(one[name] for name in ("placeable", "possible", "moved_gpus", "moves"))


def test_what_cannot_be_had_has_no_moves(split: World) -> None:
    assert [(False, None, [])] == [
        (one["possible"], one["moved_gpus"], one["moves"]) for one in plans(split.store, us(END), shape="2x4")["items"]
    ]


def test_no_node_is_so_large(split: World) -> None:
    assert [] == plans(split.store, us(END), shape="8")["items"]


@pytest.mark.parametrize("text", ["", "x", "0", "8x", "2x8x1", "-1", "9999", "²"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        parsed(text)


def test_history_tells_what_was_free_and_stranded(split: World) -> None:
    [row] = history(split.store, WINDOW, HOUR_US)["items"]

    assert (6.0, 6.0, 1.0, 3, 1) == tuple(
        row[name] for name in ("free_gpus", "stranded_gpus", "rate", "largest_gang", "requests")
    )
    assert {"1": 6.0, "2": 2.0, "4": 0.0, "8": 0.0} == row["slots"]


def test_history_comes_in_pages() -> None:
    window = Window(WINDOW.start_us, WINDOW.end_us + HOUR_US)
    with world(machine("n1", 2, end=DAY + 2 * HOUR)).book().store as store:
        whole = history(store, window, HOUR_US)
        first = history(store, window, HOUR_US, limit=1)
        second = history(store, window, HOUR_US, limit=1, offset=first["next_offset"])

    assert [2.0, 2.0] == [row["free_gpus"] for row in whole["items"]]
    assert whole["items"] == first["items"] + second["items"]
    assert (None, 1, None) == (whole["next_offset"], first["next_offset"], second["next_offset"])


def test_stranded_time_is_shown_for_the_jobs_that_cause_it(split: World) -> None:
    rows = by_job(split.store, WINDOW)["items"]

    assert [("n1-0", 3.0, "6.00", "USD"), ("n2-0", 3.0, "6.00", "USD")] == [
        (row["job"], row["stranded_gpu_hours"], row["cost"], row["currency"]) for row in rows
    ]


def test_jobs_come_in_pages(split: World) -> None:
    first = by_job(split.store, WINDOW, limit=1)
    second = by_job(split.store, WINDOW, limit=1, offset=first["next_offset"])

    assert ["n1-0", "n2-0"] == [row["job"] for row in first["items"] + second["items"]]
    assert (1, None) == (first["next_offset"], second["next_offset"])


def test_who_stranded_less_than_the_least_is_not_there() -> None:
    """Half a GPU-second each: 0.000 GPU-hours and no cent."""
    rows = [*machine("n1", 2), claim("blink", DAY, DAY + 1, "n1", gpus="GPU-n1-0", submit_us=us(DAY))]
    made = world(rows, requests=[asked("big", 2), asked("small", 1)]).book()
    with made.store as store:
        assert [(HOUR_US // 7200,)] == store.sql(
            "select sum(stranded_us)::bigint from ledger_hour where run_id is null"
        )
        assert {"items": [], "next_offset": None} == by_job(store, WINDOW)


def test_free_parts_that_lost_as_much_are_each_reported() -> None:
    """Two free halves and one free GPU of the same state lose as much: nothing of it goes missing."""
    made = world(machine("n1", 4, held=1), requests=[asked("big", 4)]).book()
    with made.store as store:
        (hour,) = {row["hour_us"] for row in made.rows("stranding")}
        store.sql("delete from stranding")
        for milli, gpus in ((500, 2), (1000, 1)):
            store.sql(
                "insert into stranding values ($c, $h, 'n1', $m, false, $milli, $gpus, $h, $h + 3600000000, 1, 0, 1)",
                c=CLUSTER, h=hour, m=H100, milli=milli, gpus=gpus,
            )  # fmt: skip

        assert [2.0] == [row["stranded_gpu_hours"] for row in by_job(store, WINDOW)["items"]]


def test_what_must_stay_is_not_moved() -> None:
    """Of two jobs in the way one is a server that says it is latency-critical."""
    rows = [*machine("n1", 4), *machine("n2", 4)]
    label = json.dumps({"gpuwatch.io/latency-critical": "true"})
    for name, labels in (("n1", label), ("n2", None)):
        rows.append(claim(name, DAY, END, name, gpus=f"GPU-{name}-0", submit_us=us(DAY), labels=labels))
    with world(rows, requests=[asked("big", 4)]).book().store as store:
        [one] = plans(store, us(END))["items"]

    assert ["n2"] == [move["job"] for move in one["moves"]]
    assert ["n1", "n2"] == [row["job"] for row in one["blockers"]]


def test_no_room_is_made_on_a_node_that_takes_no_jobs() -> None:
    """Two small jobs could leave the third node, and two GPUs be free there: nobody gets them while it is drained."""
    rows = [*machine("n1", 4), *machine("n2", 4), *machine("n3", 4, held=2)]
    gpus = {
        name: ",".join(f"GPU-{name}-{n}" for n in numbers)
        for name, numbers in (("n1", "012"), ("n2", "012"), ("n3", "23"))
    }
    rows += [claim(name, DAY, END, name, gpus=gpus[name], submit_us=us(DAY)) for name in gpus]
    up = world(rows).book()
    drained = world([*rows, node("n3", {"": 4}, DAY + 60, state="drain")]).book()
    with up.store, drained.store:
        found = [plans(made.store, us(END), shape="2")["items"][0] for made in (up, drained)]

    assert ["n3", "n3"] == [move["node"] for move in found[0]["moves"]]
    assert [(2, True), (2, False)] == [(one["free_gpus"], one["possible"]) for one in found]


def moves_beside(one: dict[str, Any], other: dict[str, Any], **more: dict[str, Any]) -> dict[str, Any]:
    """The plan for four GPUs where two nodes of four have a job of one GPU each: `n1-0` and `n2-0`, with these words.

    `more`: words of the nodes' records. Without any words `n1-0` moves to n2.
    """
    rows: list[Any] = []
    for name, words in (("n1", one), ("n2", other)):
        rows += machine(name, 4)
        rows.append(claim(f"{name}-0", DAY, END, name, gpus=f"GPU-{name}-0", submit_us=us(DAY), **words))
        if name in more:
            rows.append(node(name, {"": 4}, DAY, **more[name]))
    with world(rows).book().store as store:
        [found] = plans(store, us(END), shape="4")["items"]
    return found


def steps(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(move["job"], move["to"]) for move in found["moves"]]


CPUS = {"cpu_milli": 64_000, "memory_bytes": 2**40}
EIGHT = {"cpu_milli": 8_000, "memory_bytes": 2**36}


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        pytest.param((0, 0), [("n1-0", "n2")], id="CPUs everywhere"),
        pytest.param((0, 57_000), [("n2-0", "n1")], id="too few on n2"),
        pytest.param((57_000, 57_000), [], id="too few on both"),
        pytest.param((0, 56_000), [("n1-0", "n2")], id="just enough on n2"),
    ],
)
def test_a_job_is_not_moved_where_its_cpus_are_not_free(used: tuple[int, int], expected: list[tuple[str, str]]) -> None:
    """The jobs have 8 CPUs each, within what is used."""
    records = {f"n{n + 1}": CPUS | {"cpu_milli_used": cpus, "memory_bytes_used": 0} for n, cpus in enumerate(used)}
    found = moves_beside(EIGHT, EIGHT, **records)

    assert (expected, bool(expected)) == (steps(found), found["possible"])


def test_a_job_is_not_moved_where_its_memory_is_not_free() -> None:
    full = CPUS | {"cpu_milli_used": 8_000, "memory_bytes_used": 2**40 - 2**35}
    found = moves_beside(EIGHT, EIGHT, n1=CPUS | {"cpu_milli_used": 8_000, "memory_bytes_used": 2**36}, n2=full)

    assert [("n2-0", "n1")] == steps(found)


def features(*names: str) -> dict[str, Any]:
    return {
        "labels": json.dumps({"partitions": "gpu,debug" if "debug" in names else "gpu", "features": ",".join(names)})
    }


def test_a_job_is_not_moved_to_a_node_without_the_features_or_the_partition_that_it_needs() -> None:
    rule = {"node_rule": json.dumps({"constraint": "ib"})}
    debug = {"queue": "debug"}

    assert [("n1-0", "n2")] == steps(moves_beside(rule, {}, n1=features("ib"), n2=features("ib")))
    assert [("n2-0", "n1")] == steps(moves_beside(rule, {}, n1=features("ib"), n2=features("eth")))
    assert [] == steps(
        moves_beside(
            rule, rule | {"node_rule": json.dumps({"constraint": "eth"})}, n1=features("ib"), n2=features("eth")
        )
    )
    assert [("n2-0", "n1")] == steps(moves_beside(debug, {"queue": "gpu"}, n1=features("debug"), n2=features("x")))


def test_a_pod_is_not_moved_to_a_node_that_its_selector_does_not_fit() -> None:
    rule = {"scheduler": "kubernetes", "node_rule": json.dumps({"terms": [[["zone", "In", ["a"]]]]})}
    records = {
        name: {"scheduler": "kubernetes", "labels": json.dumps({"zone": zone}), **CPUS}
        for name, zone in (("n1", "a"), ("n2", "b"))
    }
    free = {"scheduler": "kubernetes"}

    assert [("n2-0", "n1")] == steps(moves_beside(rule, free, **records))
    assert [("n1-0", "n2")] == steps(moves_beside(free, rule, **records))


def test_what_is_not_known_of_a_move_is_named() -> None:
    known = {
        name: CPUS | {"cpu_milli_used": 8_000, "memory_bytes_used": 2**36} | features("ib") for name in ("n1", "n2")
    }
    asked = "what the shape asks for of CPUs and memory"
    reserved = "reservations (scontrol show reservation)"

    assert f"{asked}; {reserved}" == moves_beside(EIGHT, EIGHT, **known)["not_known"]
    runs = "CPUs and memory of running jobs (AllocTRES)"
    assert f"{asked}; {runs}; {reserved}" == moves_beside({}, EIGHT, **known)["not_known"]
    assert "CPUs and memory of nodes (scontrol show node)" in str(moves_beside({}, {})["not_known"])


def test_an_empty_store_has_neither_plans_nor_history() -> None:
    with World().store as store:
        assert [] == history(store, WINDOW, HOUR_US)["items"]
        assert [] == by_job(store, WINDOW)["items"]
        assert ([], []) == (plans(store, us(END))["items"], plans(store, us(END))["repartition"])


# MIG layouts ------------------------------------------------------------------------------------------------------

SMALL = ("1g.10gb",) * 7
HALVES = ("3g.40gb", "3g.40gb")


def repartitioned(demand: list[dict[str, int]], **layouts: tuple[str, ...]) -> tuple[list[tuple[str, ...]], int, int]:
    found = repartition("H100-80GB", layouts, sorted(layouts), demand, HOUR_US)
    return [new for _, _, new in found.changes], found.served_before, found.served_after


def demanded(**counts: int) -> list[dict[str, int]]:
    return [{f"{name[1:3]}.{name[3:]}gb": count * HOUR_US for name, count in counts.items()}] * 3


def test_a_layout_that_serves_all_stays() -> None:
    assert ([], 7 * 3 * HOUR_US, 7 * 3 * HOUR_US) == repartitioned(demanded(p1g10=7), a=SMALL)


def test_no_demand_changes_nothing() -> None:
    assert ([], 0, 0) == repartitioned([], a=SMALL)


def test_a_gpu_gets_the_layout_that_was_wanted() -> None:
    changes, before, after = repartitioned(demanded(p3g40=2), a=SMALL)

    assert [HALVES] == changes
    assert (0, 2 * 4 * 3 * HOUR_US) == (before, after)


def test_what_is_wanted_is_not_given_up() -> None:
    changes, before, after = repartitioned(demanded(p1g10=7, p3g40=2), a=SMALL, b=SMALL)

    assert [HALVES] == changes
    assert before + 8 * 3 * HOUR_US == after


def test_held_gpus_keep_their_layout() -> None:
    found = repartition("H100-80GB", {"a": SMALL}, [], demanded(p3g40=2), HOUR_US)

    assert () == found.changes
    assert 0 == found.served_after


LAYOUTS = sorted(maximal_layouts("H100-80GB"))
_HOURS = st.lists(
    st.dictionaries(st.sampled_from(("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb", "none")), st.integers(0, 5 * HOUR_US)),
    min_size=1,
    max_size=3,
)


@hypothesis_settings(max_examples=25, deadline=None)
@given(chosen=st.lists(st.sampled_from(LAYOUTS), min_size=1, max_size=4), held=st.integers(0, 3), demand=_HOURS)
def test_what_a_plan_promises_its_layouts_serve(
    chosen: list[tuple[str, ...]], held: int, demand: list[dict[str, int]]
) -> None:
    """Applied to the fleet; and instances of GPUs that somebody holds stay as they are."""
    layouts = {f"g{n}": layout for n, layout in enumerate(chosen)}
    found = repartition("H100-80GB", layouts, list(layouts)[held:], demand, HOUR_US)
    after = layouts | {gpu: better for gpu, _, better in found.changes}
    sizes = {name: profile.memory_slices for name, profile in GEOMETRIES["H100-80GB"].profiles.items()}
    supply = Counter(profile for layout in after.values() for profile in layout)

    assert served(demand, supply, sizes, HOUR_US) == found.served_after
    assert found.served_before + len(found.changes) <= found.served_after
    assert not {gpu for gpu, _, _ in found.changes} & {*list(layouts)[:held]}
    assert all(layouts[gpu] == old for gpu, old, _ in found.changes)


def waiting(made: World, rows: list[dict[str, Any]]) -> None:
    made.store.append(Records("pending", pa.Table.from_pylist(rows, schema=PENDING)))


def test_the_demand_of_the_week_has_what_waited() -> None:
    from tests.worlds.world import Gpu, minutes, samples

    made = World()
    for gi, profile in enumerate(SMALL):
        made.add(samples(Gpu("GPU-m", "m1", 0, gi, profile), minutes(DAY, DAY + 2 * HOUR)))
    row = asked("half", 1, at=DAY, profile="3g.40gb", gpu_type="h100", reason="Resources")
    waiting(made, [row | {"evidence_us": us(DAY + HOUR)}])
    with made.book().store as store:
        [one] = plans(store, us(DAY + 2 * HOUR))["repartition"]

    assert ["GPU-m"] == [change["gpu"] for change in one["changes"]]
    assert "3g.40gb" in one["changes"][0]["better"]
    assert (0.0, 1.0) == (one["served_ratio"], one["served_ratio_after"])


# The command ------------------------------------------------------------------------------------------------------


def test_the_command_plans_nothing_of_empty_books(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    found = CliRunner().invoke(app, ["shapes", "--plan", "8", "--data", str(tmp_path), "--format", "json"])

    assert 0 == found.exit_code, found.output
    assert ([], []) == tuple(json.loads(found.stdout)[name] for name in ("items", "repartition"))


def test_the_command_refuses_what_is_no_shape(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    found = CliRunner().invoke(app, ["shapes", "--plan", "many", "--data", str(tmp_path)])

    assert 2 == found.exit_code
    assert "expected GPUs (8)" in found.stderr + str(found.exception)


def test_better_layouts_are_reported_in_lines() -> None:
    change = {"gpu": "GPU-m", "layout": ["1g.10gb"] * 7, "better": ["3g.40gb", "3g.40gb"]}
    row = {"cluster": "c1", "changes": [change], "served_ratio": 0.25, "served_ratio_after": 1.0}

    assert [
        "c1: GPU-m 1g.10gb+1g.10gb+1g.10gb+1g.10gb+1g.10gb+1g.10gb+1g.10gb -> 3g.40gb+3g.40gb",
        "c1: 25.0 % of last week's MIG demand found an instance; with better layouts 100.0 %",
    ] == list(command._layouts({"repartition": [row]}))
