"""The demo's fleet: its scenes, its names, the parts of its history, and what its people decided."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwatch.billing import budgets, chargeback
from gpuwatch.billing.periods.repository import Periods
from gpuwatch.cli import app
from gpuwatch.collectors.dcgm.openmetrics import BATCH_POINTS
from gpuwatch.core.clock import SECOND_US, parse_rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.attribution import INTERVAL_US_MAX
from gpuwatch.ledger.totals import ledger_window
from gpuwatch.simulate.bundle import FILE_SAMPLES, Packed
from gpuwatch.simulate.demo.fleet import DemoFleet, _chosen, demo_fleet
from gpuwatch.simulate.demo.plan import COARSE_S, SIZES, complete_weeks, parts, scene_ends
from gpuwatch.simulate.demo.pod_pools import explained, pools_of
from gpuwatch.simulate.moments import DAY_S, Epoch
from gpuwatch.simulate.scene import scenes
from gpuwatch.state.pairing import open_state_of
from gpuwatch.store.database import Store

MONDAY_US = parse_rfc3339("2026-11-23T06:00:00Z")
PAST_S = 28 * DAY_S
START_US = MONDAY_US - PAST_S * SECOND_US
TAG = re.compile(r"\bs\d\d-")


@pytest.fixture(scope="module")
def fleet() -> DemoFleet:
    return demo_fleet(40, Epoch(START_US, PAST_S + DAY_S), PAST_S, 30, 1)


# The plan.


def test_the_full_size_has_a_scene_of_every_detector() -> None:
    """But of nodes out of service: their eight GPUs do not fit beside those of the others."""
    chosen = {made.detector for _, made in _chosen(SIZES["full"].gpus, PAST_S)}

    assert {made.detector for made in scenes()} - {"node-out-of-service"} == chosen


@pytest.mark.parametrize("weekday", range(7))
def test_the_parts_follow_each_other_and_cover_the_history(weekday: int) -> None:
    start_us = START_US + weekday * DAY_S * SECOND_US
    found = parts(start_us, PAST_S)

    assert (0, PAST_S) == (found[0].start_s, found[-1].end_s)
    assert all(one.end_s == two.start_s for one, two in pairwise(found))
    assert all(part.start_s % COARSE_S == 0 for part in found)


def test_chunks_of_a_node_share_a_file_that_an_import_reads_at_once() -> None:
    packed = Packed()
    found = [
        packed.file_of(node, samples) for node, samples in (("n1", 500_000), ("n1", 400_000), ("n2", 5), ("n1", 1))
    ]

    assert FILE_SAMPLES < BATCH_POINTS
    assert [
        ("n1-0000.prom.gz", False),
        ("n1-0000.prom.gz", True),
        ("n2-0000.prom.gz", False),
        ("n1-0001.prom.gz", False),
    ] == found


def test_the_ledger_holds_the_values_of_the_coarsest_part() -> None:
    assert COARSE_S * SECOND_US <= INTERVAL_US_MAX
    assert 4 <= 3600 / COARSE_S, "the ledger needs four readings an hour to see how far apart they are"


def test_a_history_of_hours_has_one_fine_part() -> None:
    assert [(0, 6 * 3600, 120)] == [(p.start_s, p.end_s, p.step_s) for p in parts(START_US, 6 * 3600)]


def test_scenes_of_earlier_weeks_end_on_their_saturdays() -> None:
    ends = [START_US + end * SECOND_US for end in scene_ends(START_US, PAST_S)]

    assert [parse_rfc3339("2026-11-21T18:00:00Z"), parse_rfc3339("2026-11-14T18:00:00Z")] == ends


def test_only_whole_weeks_are_complete() -> None:
    assert ["2026-W47", "2026-W46", "2026-W45"] == [name for name, _ in complete_weeks(START_US, PAST_S)]


# The fleet.


def test_it_has_as_many_gpus_as_asked_for_and_both_schedulers(fleet: DemoFleet) -> None:
    nodes = fleet.fleet.nodes

    assert 40 == sum(node.gpu_count for node in nodes)
    assert {"slurm", "kubernetes"} == {node.scheduler for node in nodes}


def test_no_name_shows_that_it_comes_from_a_scene(fleet: DemoFleet) -> None:
    texts = [text for node in fleet.fleet.nodes for text in (node.name, node.pool)]
    texts += [text for run in fleet.runs for text in (run.name, run.job_id, run.pod, run.pool, run.owner.namespace)]
    texts.append(json.dumps(fleet.objects))

    assert [] == [text for text in texts if TAG.search(text)]
    assert len(fleet.fleet.nodes) == len({node.name for node in fleet.fleet.nodes})


def test_queues_cohorts_and_workloads_of_the_full_size_have_names_of_a_company() -> None:
    made = demo_fleet(SIZES["full"].gpus, Epoch(START_US, PAST_S), PAST_S, COARSE_S, 1)
    kinds = {str(each["kind"]) for each in made.objects}

    assert {"ClusterQueue", "Workload"} <= kinds
    assert [] == re.findall(r"\bs\d\d-[\w-]+", json.dumps(made.objects))


def test_no_device_is_held_twice_at_a_time(fleet: DemoFleet) -> None:
    held: dict[str, list[tuple[int, int]]] = {}
    for run in fleet.runs:
        if run.start_s is not None:
            for device in run.devices:
                held.setdefault(device.id, []).append(run.held(PAST_S + DAY_S))

    assert all(one[1] <= two[0] for spans in held.values() for one, two in pairwise(sorted(spans)))


def test_scenes_show_again_in_the_weeks_before(fleet: DemoFleet) -> None:
    last = scene_ends(START_US, PAST_S)[0]

    assert any(run.number >= 500_000 and run.end_s == last for run in fleet.runs)


# What people decided.


def test_a_demo_of_three_weeks_has_budgets_two_closed_weeks_and_a_correction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tmp_path / "demo"
    monkeypatch.setattr("gpuwatch.cli._now_us", lambda: MONDAY_US)
    arguments = ["demo", "--gpus", "8", "--days", "22", "--no-serve", "--data", str(where)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)

    assert 0 == done.exit_code
    with Store.open(where, create=False) as store, open_state_of(store, where) as state:
        window = ledger_window(store)
        assert window is not None
        items = chargeback.chargeback(store, state, window, ("team",)).items

        assert 2 == len(Periods(state).in_force())
        assert budgets.load_budgets(state)
        assert any(item.kind == "correction" for item in items)


def test_an_unknown_size_names_those_there_are() -> None:
    result = CliRunner().invoke(app, ["demo", "--size", "huge"])

    assert isinstance(result.exception, UsageError | SystemExit) and 0 != result.exit_code


def test_pods_select_the_nodes_of_their_pool(fleet: DemoFleet) -> None:
    pools = pools_of(fleet.fleet)
    selected = [run for run in fleet.runs if run.scheduler == "kubernetes" and run.pool in pools]

    assert len(selected) > len([run for run in fleet.runs if run.scheduler == "kubernetes"]) / 2
    assert all({"nodeSelector": {"nodepool": run.pool}} == run.placement for run in selected)


def test_a_scheduler_without_room_for_a_pod_has_looked_at_every_node(fleet: DemoFleet) -> None:
    pools = pools_of(fleet.fleet)
    waiting = [run for run in fleet.runs if run.scheduler == "kubernetes" and run.start_s is None and not run.creating]

    assert waiting
    for run in (explained(each, pools) for each in waiting):
        mine, nodes = pools[run.pool], pools.total()
        resource = f"nvidia.com/mig-{run.profile}" if run.profile else "nvidia.com/gpu"
        others = f"{nodes - mine} node(s) didn't match Pod's node affinity/selector"
        assert f"0/{nodes} nodes are available: {others}, {mine} Insufficient {resource}. " in run.reason


def test_nodes_of_an_earlier_scene_run_ordinary_jobs_once_it_is_over(fleet: DemoFleet) -> None:
    """Otherwise most of the fleet would stand free for hours on that Saturday."""

    def held_s(start_s: int, end_s: int) -> int:
        spans = [(run.held(PAST_S + DAY_S), len(run.devices)) for run in fleet.runs if run.start_s is not None]
        return sum(max(0, min(end_s, end) - max(start_s, start)) * gpus for (start, end), gpus in spans)

    newest, *_ = scene_ends(START_US, PAST_S)
    hours = 6 * 3600
    assert held_s(newest + 1800, newest + hours) > held_s(newest - hours, newest - 1800) / 2
