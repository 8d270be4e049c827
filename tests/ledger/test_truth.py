"""Simulated fleets through the whole chain: every second and cent is where the simulator's truth says, and so are findings."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.billing.kinds import fill_kinds
from gpuwatch.core.clock import SECOND_US, Window, parse_rfc3339
from gpuwatch.imports.files import import_paths
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.ledger.totals import Scale, page, question, scale_of, working_tables
from gpuwatch.settings import Settings
from gpuwatch.simulate import simulate
from gpuwatch.state import State
from gpuwatch.store.database import Store

FLEETS = [(16, 1, 1), (16, 1, 2), (32, 2, 11)]
"""(GPUs, days, seed); longer ones have room for more of what detectors look for. `make accuracy` measures many more."""
SCENES = "noisy-neighbour,preemption-thrash,scheduler-conflict,mig-mismatch,degraded-gpu"
"""What one more fleet has: shared GPUs, work that is taken off, GPUs of two schedulers, a GPU that is replaced, nodes that join late."""
STEP_S = 60
DIMENSIONS = ("team", "user", "account", "namespace", "queue", "job", "gpu_model", "mig_profile")
RECALL_MIN = PRECISION_MIN = 0.95

Amounts = dict[str, tuple[Fraction, Fraction]]


@dataclass(frozen=True)
class Analysed:
    """A simulated fleet after import and analysis, and what was planted in it."""

    name: str
    store: Store
    truth: dict[str, Any]


def analysed(where: Path, gpus: int, days: int, seed: int, scenes: str = "none") -> Analysed:
    bundle = where / f"{gpus}-{days}-{seed}"
    simulate(bundle, gpus=gpus, days=days, seed=seed, step_s=STEP_S, scenes=scenes)
    truth = json.loads((bundle / "truth.json").read_text("utf-8"))
    (bundle / "truth.json").unlink()
    store, state = Store.open(None, threads=2), State.open("sqlite://")
    report = import_paths(store, state, "bundle", [bundle], cluster=None, now_us=0)
    assert [] == report.unreadable
    assert [] == analyze(store, state, Settings(), now_us=0).failed_rules
    return Analysed(f"{gpus} GPUs, {days} days, seed {seed}", store, truth)


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> list[Analysed]:
    """Every fleet, analysed once."""
    where = tmp_path_factory.mktemp("fleets")
    return [analysed(where, *fleet) for fleet in FLEETS] + [analysed(where, 56, 1, 21, SCENES)]


def amounts(fleet: Analysed, dimension: str | None, held: bool) -> Amounts:
    """Exact GPU-seconds and cost by a dimension, of what was held or of what nobody held; nothing rounded."""
    ends = fleet.truth["window"]
    window = Window(parse_rfc3339(ends["start"]), parse_rfc3339(ends["end"]))
    scale = scale_of(fleet.store, window)
    asked = question(window, [dimension] if dimension else [], None, None, scale)
    sums: dict[str, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    with working_tables(fleet.store):
        fill_kinds(fleet.store, asked)
        fleet.store.run("billing/charge", **asked)
        for row in page(fleet.store, Scale(1, 0), None, 0, largest_first=False)[0]:
            if row["held"] == held:
                amount = sums[row[dimension] or "" if dimension else ""]
                amount[0] += Fraction(int(row["micros"]), scale.shares * SECOND_US)
                amount[1] += Fraction(int(row["amount"]), scale.hour)
    return {key: (seconds, price) for key, (seconds, price) in sums.items()}


def exact(plain: dict[str, str]) -> tuple[Fraction, Fraction]:
    return Fraction(plain["gpu_seconds_exact"]), Fraction(plain["cost_exact"])


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_held_seconds_and_cost_are_the_truth(fleets: list[Analysed], dimension: str) -> None:
    for fleet in fleets:
        expected = {key: exact(plain) for key, plain in fleet.truth["held"][dimension].items()}
        got = amounts(fleet, dimension, held=True)

        differing = {
            key: (expected.get(key), got.get(key))
            for key in expected.keys() | got.keys()
            if expected.get(key) != got.get(key)
        }
        assert {} == differing, fleet.name


def test_what_nobody_held_is_the_platform_s(fleets: list[Analysed]) -> None:
    for fleet in fleets:
        by_model = {key: exact(plain) for key, plain in fleet.truth["platform"]["by_gpu_model"].items()}

        assert exact(fleet.truth["totals"]["platform"]) == amounts(fleet, None, held=False)[""], fleet.name
        assert by_model == amounts(fleet, "gpu_model", held=False), fleet.name


def test_the_remainder_of_mig_layouts_is_a_bucket_of_its_own(fleets: list[Analysed]) -> None:
    for fleet in fleets:
        rows = fleet.store.sql(
            "select share_den, sum(mig_remainder_us::hugeint * share_num)::varchar from ledger_hour group by share_den"
        )

        remainder = sum((Fraction(int(units), den * SECOND_US) for den, units in rows), Fraction(0))
        assert exact(fleet.truth["platform"]["mig_remainder"])[0] == remainder, fleet.name


def test_held_and_free_time_are_all_there_was(fleets: list[Analysed]) -> None:
    for fleet in fleets:
        held, free = (sum(s for s, _ in amounts(fleet, "job", held).values()) for held in (True, False))
        buckets = " + ".join(f"{bucket}_us" for bucket in ledger_hours.BUCKETS)
        rows = fleet.store.sql(
            f"select share_den, sum(({buckets})::hugeint * share_num)::varchar from ledger_hour group by share_den"
        )

        capacity = exact(fleet.truth["totals"]["capacity"])[0]
        assert capacity == held + free, fleet.name
        assert capacity == sum(Fraction(int(units), den * SECOND_US) for den, units in rows), fleet.name


def test_every_gpu_and_slice_of_the_fleet_is_known(fleets: list[Analysed]) -> None:
    for fleet in fleets:
        expected = len(fleet.truth["gpus"])

        # Devices that no exporter shows have names of their own, so only their number can be compared.
        assert expected == len(fleet.store.sql("select distinct parent_id from device")), fleet.name


# Findings.


def found(fleet: Analysed) -> set[tuple[str, str]]:
    """Detector and subject: a job, or where devices were never measured their node."""
    return set(fleet.store.sql("select detector, coalesce(job_id, subject_id) from finding"))


def subject(case: dict[str, Any]) -> tuple[str, str]:
    """The same of what was planted."""
    return case["detector"], case["subject"]["id"] if case["subject"]["kind"] == "node" else case["job_id"]


def cases(fleet: Analysed, kind: str) -> set[tuple[str, str]]:
    return {subject(case) for case in fleet.truth[kind]}


def test_no_decoy_is_accused(fleets: list[Analysed]) -> None:
    for fleet in fleets:
        assert set() == found(fleet) & (cases(fleet, "decoys") - cases(fleet, "planted")), fleet.name


@pytest.mark.parametrize("detector", ["idle-hoarding", "false-utilization", "blind-spot"])
def test_what_was_planted_is_found_and_little_else(fleets: list[Analysed], detector: str) -> None:
    hits, misses, extras = [], [], []
    for fleet in fleets:
        planted = {case for case in cases(fleet, "planted") if case[0] == detector}
        accused = {case for case in found(fleet) if case[0] == detector}
        hits += [(fleet.name, job) for _, job in planted & accused]
        misses += [(fleet.name, job) for _, job in planted - accused]
        extras += [(fleet.name, job) for _, job in accused - planted]

    confusion = f"{len(hits)} found, missed {misses}, accused without cause {extras}"
    assert hits, confusion
    assert len(hits) >= RECALL_MIN * (len(hits) + len(misses)), confusion
    assert len(hits) >= PRECISION_MIN * (len(hits) + len(extras)), confusion


def test_findings_name_the_devices_concerned(fleets: list[Analysed]) -> None:
    wrong = []
    for fleet in fleets:
        names = {
            d: gpu if gi < 0 else f"{gpu}/GI-{gi}"
            for d, gpu, gi in fleet.store.sql("select device_id, gpu, gi from device")
        }
        planted = {subject(case): case for case in fleet.truth["planted"]}
        for detector, job, ids in fleet.store.sql(
            "select detector, coalesce(job_id, subject_id), device_ids from finding order by all"
        ):
            case = planted.get((detector, job))
            if case is None:
                continue
            got = {names[d] for d in ids}
            same = len(case["devices"]) == len(got) and (not case["observed"] or set(case["devices"]) == got)
            if not same:
                wrong.append((fleet.name, detector, job, case["devices"], sorted(got)))

    assert [] == wrong
