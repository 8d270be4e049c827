"""GPUs that tell that they are broken: what is none of the GPU's fault, then what is."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from gpuwatch.detectors.degraded_gpu import DEGRADED_GPU
from gpuwatch.findings.read import read
from tests.worlds.detectors import IDLE, PAGE_HEADINGS, WORK, World, page_headings, page_rows, printed_thresholds
from tests.worlds.subjects import SubjectFinding, findings_of, granted_s, hour_by_hour

RULE = "degraded-gpu"
FINE = WORK | {
    "xid_code": 0,
    "row_remap_pending": 0,
    "row_remap_failed": 0,
    "ecc_dbe_volatile_count": 0,
    "memory_unrepairable": 0,
    "remapped_uncorrectable_rows": 2,
    "pcie_lanes": 16,
    "pcie_lanes_max": 16,
    "pcie_gen": 5,
    "pcie_gen_max": 5,
}
NARROW = FINE | {"pcie_lanes": 8}
DEAD = IDLE | {"xid_code": 79}

Scene = Callable[[World, str], object]


def fleet(world: World, name: str, *, lanes: int, of: int = 16, others: int = 3, length: float = 240) -> World:
    """A GPU with so many lanes, at work, among others of its node that have 16."""
    for number in range(others):
        gpu = f"{name}-{number}"
        world.gpu(gpu, (length, FINE), node=name).job(gpu, [gpu], 0, length, node=name)
    world.gpu(name, (length, FINE | {"pcie_lanes": lanes, "pcie_lanes_max": of}), node=name)
    return world.job(name, [name], 0, length, node=name)


def narrow_only_when_idle(world: World, name: str) -> World:
    """GPUs whose links are narrow while they have nothing to do."""
    for number in range(4):
        quiet = FINE | IDLE | {"pcie_lanes": 4 if number == 0 else 16}
        world.gpu(f"{name}-{number}", (240, quiet), node=name)
    return world


def all_built_with_eight(world: World, name: str) -> World:
    """A server whose slots all have eight lanes."""
    for number in range(4):
        gpu = f"{name}-{number}"
        world.gpu(gpu, (240, NARROW), node=name).job(gpu, [gpu], 0, 240, node=name)
    return world


MUST_NOT_FIRE: dict[str, Scene] = {
    "a GPU that reads well": lambda w, n: w.gpu(n, (240, FINE)),
    "a GPU of which nothing of its health is read": lambda w, n: w.gpu(n, (240, WORK)),
    "XID 13 in a kernel of the application": lambda w, n: w.gpu(n, (240, FINE | {"xid_code": 13})),
    "XID 31 in a kernel of the application": lambda w, n: w.gpu(n, (240, FINE | {"xid_code": 31})),
    "XID 43 after the application was stopped": lambda w, n: w.gpu(n, (240, FINE | {"xid_code": 43})),
    "XID 45 after the application was stopped": lambda w, n: w.gpu(n, (240, FINE | {"xid_code": 45})),
    "XID 63 whose remap is done": lambda w, n: w.gpu(n, (240, FINE | {"xid_code": 63})),
    "rows that were remapped long ago": lambda w, n: w.gpu(n, (240, FINE | {"remapped_uncorrectable_rows": 40})),
    "double-bit errors of the card's whole life": lambda w, n: w.gpu(n, (240, FINE | {"ecc_dbe_aggregate_count": 9})),
    "a GPU that fell silent and told nothing before": lambda w, n: w.gpu(n, (60, FINE), (180, None)),
    "narrow links of idle GPUs": narrow_only_when_idle,
    "a server that was built with eight lanes": all_built_with_eight,
    "one hour with eight lanes": lambda w, n: (
        fleet(w, n, lanes=16).gpu(f"{n}-x", (60, NARROW), (180, FINE), node=n).job(f"{n}-x", [f"{n}-x"], 0, 240, node=n)
    ),
    "a card that can do no more than eight lanes": lambda w, n: fleet(w, n, lanes=8, of=8),
}

MUST_FIRE: dict[str, tuple[Scene, str, str]] = {
    "XID 48 and work goes on": (
        lambda w, n: w.gpu(n, (60, FINE), (120, FINE | {"xid_code": 48})),
        "critical",
        "XID 48",
    ),
    "XID 63 while a remap waits for a reset": (
        lambda w, n: w.gpu(n, (120, FINE | {"xid_code": 63, "row_remap_pending": 1})),
        "critical",
        "row remap pending",
    ),
    "XID 63 and nobody reads whether a remap waits": (
        lambda w, n: w.gpu(n, (120, WORK | {"xid_code": 63})),
        "medium",
        "XID 63",
    ),
    "XID 74": (lambda w, n: w.gpu(n, (120, FINE | {"xid_code": 74})), "critical", "NVLink"),
    "XID 79 of a free GPU": (lambda w, n: w.gpu(n, (60, FINE), (120, DEAD)), "critical", "XID 79"),
    "XID 119": (lambda w, n: w.gpu(n, (120, FINE | {"xid_code": 119})), "critical", "GSP"),
    "XID 149 is not critical": (lambda w, n: w.gpu(n, (120, FINE | {"xid_code": 149})), "high", "XID 149"),
    "a remap that failed": (lambda w, n: w.gpu(n, (120, FINE | {"row_remap_failed": 1})), "critical", "failed"),
    "double-bit errors since the driver was loaded": (
        lambda w, n: w.gpu(n, (120, FINE | {"ecc_dbe_volatile_count": 1})),
        "critical",
        "double-bit",
    ),
    "memory that cannot be repaired": (
        lambda w, n: w.gpu(n, (120, FINE | {"memory_unrepairable": 1})),
        "critical",
        "not repairable",
    ),
    "512 remapped rows": (
        lambda w, n: w.gpu(n, (120, FINE | {"remapped_uncorrectable_rows": 512})),
        "high",
        "too many remapped rows",
    ),
    "eight lanes at work where the others have sixteen": (lambda w, n: fleet(w, n, lanes=8), "medium", "PCIe x8"),
}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> World:
    """All cases that must not fire, side by side in one world."""
    world = World(tmp_path_factory.mktemp("quiet"))
    for number, scene in enumerate(MUST_NOT_FIRE.values()):
        scene(world, f"q{number}")
    world.analyze(240, detectors=[RULE])
    return world


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> World:
    """All cases that must fire."""
    world = World(tmp_path_factory.mktemp("loud"))
    for number, (scene, _, _) in enumerate(MUST_FIRE.values()):
        scene(world, f"q{number}")
    world.analyze(240, detectors=[RULE])
    return world


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_says_nothing_of(quiet: World, case: str) -> None:
    name = f"q{list(MUST_NOT_FIRE).index(case)}"

    assert [] == [one.subject for one in findings_of(quiet, RULE) if one.subject.split("-")[0] == name]


@pytest.mark.parametrize("case", MUST_FIRE)
def test_names(loud: World, case: str) -> None:
    name, (_, severity, sign) = f"q{list(MUST_FIRE).index(case)}", MUST_FIRE[case]
    (one,) = [one for one in findings_of(loud, RULE) if one.subject.split("-")[0] == name]

    assert ("gpu", name, severity) == (one.kind, one.subject, one.severity)
    assert sign in one.evidence["signs"]
    assert sign in DEGRADED_GPU.summary(one.evidence)


@pytest.fixture(scope="module")
def courses(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What happens to single GPUs within thirteen hours."""
    world = World(tmp_path_factory.mktemp("courses"))
    world.gpu("repeats", (90, FINE), (600, FINE | {"xid_code": 48}), (90, FINE))
    world.gpu("application", (30, FINE | {"xid_code": 31}), (60, DEAD), (690, None))
    world.gpu("held", (30, FINE), (150, DEAD), (600, FINE)).job("j", ["held"], 0, 120)
    world.gpu("bus", (56, FINE), (4, DEAD), (360, None), (360, FINE))
    for gi in (1, 2):
        world.gpu("sliced", (780, IDLE | {"row_remap_pending": 1}), gi=gi, profile="3g.40gb")
    world.analyze(780, detectors=[RULE])
    return world


@pytest.fixture(scope="module")
def findings(courses: World) -> dict[str, SubjectFinding]:
    """The findings of `courses` by GPU: one each."""
    listed = findings_of(courses, RULE)
    assert ["application", "bus", "held", "repeats", "sliced"] == [one.subject for one in listed]
    return {one.subject: one for one in listed}


def test_an_xid_that_the_exporter_repeats_for_hours_is_one_event(findings: dict[str, SubjectFinding]) -> None:
    one = findings["repeats"]

    assert ("resolved", 91, 720) == (one.state, one.started, one.ended)
    assert 0 == one.wasted_s  # it works on: nothing of it is lost


def test_an_xid_of_an_application_does_not_date_the_event(findings: dict[str, SubjectFinding]) -> None:
    assert 31 == findings["application"].started


def test_held_time_after_the_event_is_lost_and_time_before_it_is_not(
    courses: World, findings: dict[str, SubjectFinding]
) -> None:
    one = findings["held"]

    assert 31 == one.started
    # In the first hour the GPU worked for half an hour: nobody claims what else there was. The job holds a dead one after it.
    assert Fraction(3600) == granted_s(courses, RULE)["gap"]
    assert Fraction(3600) == one.wasted_s


def test_a_gpu_that_fell_off_the_bus_stays_broken_until_it_is_read_again(findings: dict[str, SubjectFinding]) -> None:
    one = findings["bus"]

    assert ("resolved", 57, 420) == (one.state, one.started, one.ended)
    assert 5 == one.evidence["silent_hours"]


def test_slices_of_one_gpu_are_one_gpu(findings: dict[str, SubjectFinding]) -> None:
    assert 2 == findings["sliced"].devices


def test_a_finding_has_the_index_of_its_gpu(courses: World) -> None:
    found = {one.subject["id"]: one.gpu_index for one in read(courses.store, detectors=[RULE])}

    assert {name: sum(name.encode()) % 1000 for name in found} == found
    assert "held" in found


def test_a_gpu_that_is_silent_since_xid_79_is_open(tmp_path: Path) -> None:
    world = World(tmp_path).gpu("a", (56, FINE), (4, DEAD), (180, None)).gpu("b", (240, FINE))
    world.analyze(240, detectors=[RULE])

    (one,) = findings_of(world, RULE)

    assert ("a", "open", None) == (one.subject, one.state, one.ended)
    assert ["out_of_service"] == list(granted_s(world, RULE))
    assert world.booked_s("out_of_service", start=60, end=240) == one.wasted_s


def test_an_error_in_the_last_sample_lasts_as_long_as_that_sample(tmp_path: Path) -> None:
    world = World(tmp_path).gpu("a", (60, FINE), (1, DEAD)).gpu("b", (61, FINE))
    world.analyze(120, detectors=[RULE])

    ((started_us, ended_us),) = world.store.sql("select start_us, end_us from verdict where detector = $d", d=RULE)

    (owned_until_us,) = world.store.sql(
        "select max(end_us) from capacity join device using (device_id) where gpu = 'a'"
    )[0]
    assert owned_until_us == ended_us
    assert 30_000_000 == ended_us - started_us


@pytest.mark.slow
def test_one_event_keeps_one_key_when_hours_come_one_by_one(tmp_path: Path) -> None:
    def played(name: str) -> World:
        return (
            World(tmp_path / name)
            .gpu("a", (90, FINE), (240, FINE | {"xid_code": 48}), (30, FINE))
            .gpu("b", (56, FINE), (4, DEAD), (300, None))
            .gpu("c", (360, FINE))
        )

    at_once = played("whole")
    at_once.analyze(360, detectors=[RULE])

    expected = [(one.key, one.started, one.wasted_s, one.evidence) for one in findings_of(at_once, RULE)]
    assert 2 == len(expected)
    assert expected == [
        (one.key, one.started, one.wasted_s, one.evidence) for one in hour_by_hour(played("hours"), 6, RULE, step=2)
    ]


def test_judging_again_changes_nothing(loud: World) -> None:
    before = loud.rows("finding")
    loud.analyze(300, detectors=[RULE], since_us=None, until_us=None)

    assert before == loud.rows("finding")


def test_the_page_says_what_the_rule_does() -> None:
    page = Path(__file__).parents[2] / "docs" / "detectors" / f"{RULE}.md"

    assert printed_thresholds(DEGRADED_GPU) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
