"""Busy by name, mostly idle SMs: what is no waste or cannot be judged, then what is waste, to the microsecond."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from gpuwatch.detectors.false_utilization import FALSE_UTILIZATION
from gpuwatch.settings import Settings
from tests.worlds.cases import Cases, Scene
from tests.worlds.detectors import (
    IDLE,
    PAGE_HEADINGS,
    T0,
    Found,
    Level,
    World,
    level,
    page_headings,
    page_rows,
    printed_thresholds,
    us,
    without,
)

RULE = "false-utilization"
LINK_BYTES_PER_S = 742e9
"""What an H100's NVLinks carry, both directions."""


def links(ratio: float) -> dict[str, float]:
    """NVLink readings of an H100 whose links are busy for a part of the time."""
    return {
        "nvlink_tx_bytes_per_s": ratio * LINK_BYTES_PER_S / 2,
        "nvlink_rx_bytes_per_s": ratio * LINK_BYTES_PER_S / 2,
    }


WORK = level(0.97, 0.87, 0.45, 0.43, 600, **links(0.05))
HOLLOW = level(0.95, 0.20, 0.03, 0.10, 250, **links(0.0))
"""The example everybody knows: 95 % busy, 20 % of SMs, tensor cores 3 %. Per second .75 is stalled, .075 below the roof."""
LOSS = Fraction(75, 100) + Fraction(75, 2000)
"""Wasted share of a HOLLOW second: `stalled` and half of `below_roof`."""
DECODE = level(0.95, 0.44, 0.05, 0.57, 400, **links(0.0))
NETWORK = {"pcie_tx_bytes_per_s": 10e9, "pcie_rx_bytes_per_s": 10e9}
"""GPUDirect traffic of a busy network card passes the GPU's own PCIe slot."""
GEMM = level(0.98, 0.45, 0.42, 0.20, 550, sm_occupancy_ratio=0.08, **links(0.0))

SPIN = level(0.97, 0.90, 0.0, 0.0, 120, **links(0.0))
"""A kernel that waits in a loop: all SMs are occupied and take hardly more power than at rest."""
HUNG = level(0.97, 0.15, 0.0, 0.0, 130, **links(0.0), pcie_tx_bytes_per_s=1e5, pcie_rx_bytes_per_s=1e5)
SERVING = {"gpuwatch.io/workload-class": "inference"}


def held(readings: Level, **job: object) -> Scene:
    """One GPU that reads the same for two hours, in one job."""
    return lambda w, n: w.gpu(n, (120, readings)).job(n, [n], 0, 120, **job)  # type: ignore[arg-type]


def gang(readings: Level) -> Scene:
    """Two GPUs that read the same for two hours, in one job."""
    return lambda w, n: (
        w.gpu(f"{n}-0", (120, readings)).gpu(f"{n}-1", (120, readings)).job(n, [f"{n}-0", f"{n}-1"], 0, 120)
    )


MUST_NOT_FIRE: dict[str, Scene] = {
    "no sample at all": lambda w, n: w.job(n, 1, 0, 120, node=f"node-{n}"),
    "idle": held(IDLE),
    "well-tuned training": held(WORK),
    "memory-bound decode at the HBM roof": held(DECODE),
    "memory at 60 % of its roof": held(level(0.95, 0.3, 0.05, 0.481, 350, **links(0.0))),
    "a GEMM of low occupancy": held(GEMM),
    "a simulation in single precision": held(level(0.97, 0.45, 0.0, 0.3, 450, fp32_active_ratio=0.42, **links(0.0))),
    "clocks held down by hardware (0x8)": held(HOLLOW | {"clocks_event_reasons": 0x8}),
    "clocks held down by heat (0x20)": held(HOLLOW | {"clocks_event_reasons": 0x20}),
    "clocks held down by hardware heat (0x40)": held(HOLLOW | {"clocks_event_reasons": 0x40}),
    "clocks held down by the power brake (0x80)": held(HOLLOW | {"clocks_event_reasons": 0x80}),
    "a gang that waits on its links": gang(HOLLOW | links(0.5)),
    "label latency-critical": held(HOLLOW, labels={"latency-critical": "true"}),
    "label gpuwatch.io/latency-critical": held(HOLLOW, labels={"gpuwatch.io/latency-critical": "True"}),
    "label workload-class": held(HOLLOW, labels={"gpuwatch.io/workload-class": "latency-critical"}),
    "an exempt label that has not expired": held(HOLLOW, labels={"gpuwatch.io/exempt-until": "2026-12-31"}),
    "SM_ACTIVE missing": held(without(HOLLOW, "sm_active_ratio")),
    "GPU_UTIL alone": held({"gpu_util_ratio": 0.98, "power_watts": 200}),
    "DRAM_ACTIVE missing": held(without(DECODE, "dram_active_ratio")),
    "tensor activity missing": held(without(GEMM, "tensor_active_ratio")),
    "a MIG slice with GPU_UTIL 0 and no profiling": lambda w, n: w.gpu(
        n, (120, {"gpu_util_ratio": 0.0, "power_watts": 250}), gi=1, profile="1g.10gb", job=n
    ).job(n, 1, 0, 120, profile="1g.10gb"),
    "samples of two minutes in every five": lambda w, n: w.gpu(n, *(((2, HOLLOW), (3, None)) * 24)).job(n, [n], 0, 120),
    "four of every six windows": lambda w, n: w.gpu(n, *(((20, HOLLOW), (10, WORK)) * 8)).job(n, [n], 0, 240),
    "20 minutes between silences": lambda w, n: w.gpu(n, *(((20, HOLLOW), (15, None)) * 5)).job(n, [n], 0, 175),
    "a job that ends with its warm-up": lambda w, n: w.gpu(n, (30, HOLLOW)).job(n, [n], 5, 15),
    "four windows between warm-up and teardown": lambda w, n: w.gpu(n, (60, HOLLOW)).job(n, [n], 0, 34),
    "only while it starts": lambda w, n: w.gpu(n, (30, HOLLOW), (90, WORK)).job(n, [n], 0, 120),
    "engine just below busy": held(HOLLOW | {"gr_engine_ratio": 0.79, "gpu_util_ratio": 0.79}),
    "half of the SMs": held(HOLLOW | {"sm_active_ratio": 0.5}),
    "two owners of 30 minutes": lambda w, n: w.gpu(n, (60, HOLLOW)).job(f"{n}a", [n], 0, 30).job(f"{n}b", [n], 30, 60),
    "bursts of serving": lambda w, n: w.gpu(n, *(((2, HOLLOW), (3, IDLE)) * 24)).job(n, [n], 0, 120),
    "one of two GPUs, and no source says which": lambda w, n: (
        w.gpu(f"{n}-0", (120, HOLLOW), node=f"node-{n}")
        .gpu(f"{n}-1", (120, WORK), node=f"node-{n}")
        .job(n, 1, 0, 120, node=f"node-{n}")
    ),
    "a gang over two nodes that waits on its network": lambda w, n: (
        w.gpu(f"{n}-0", (120, HOLLOW | NETWORK), node=f"{n}-a")
        .gpu(f"{n}-1", (120, HOLLOW | NETWORK), node=f"{n}-b")
        .job(n, [f"{n}-0"], 0, 120, node=f"{n}-a")
        .job(n, [f"{n}-1"], 0, 120, node=f"{n}-b")
    ),
    "integer work: no tensor cores, no memory, much power": held(SPIN | {"power_watts": 420}),
    "double precision without its reading": held(SPIN | {"power_watts": 380}),
    "double precision": held(SPIN | {"fp64_active_ratio": 0.3}),
    "a loop whose power nobody reads": held(without(SPIN, "power_watts")),
    "a loop on a slice: power is that of the board": lambda w, n: w.gpu(
        n, (120, SPIN), gi=1, profile="1g.10gb", job=n
    ).job(n, 1, 0, 120, profile="1g.10gb"),
    "integer work on a card of 72 watts": lambda w, n: w.gpu(
        n, (120, without(SPIN, *links(0.0), power_watts=32)), model="NVIDIA L4"
    ).job(n, [n], 0, 120),
    "a model whose power limit is unknown": lambda w, n: w.gpu(n, (120, SPIN), model="NVIDIA X1").job(n, [n], 0, 120),
    "a light model that reads its memory": held(SPIN | {"dram_active_ratio": 0.05}),
    "a light model on tensor cores": held(SPIN | {"tensor_active_ratio": 0.02}),
    "a loop with clocks held down": held(SPIN | {"clocks_event_reasons": 0x8}),
    "checkpoints and evaluations": lambda w, n: w.gpu(n, *(((20, WORK), (5, HOLLOW), (5, IDLE)) * 6)).job(
        n, [n], 0, 180
    ),
}

MUST_FIRE: dict[str, Scene] = {
    "two hours": held(HOLLOW),
    "five windows": lambda w, n: w.gpu(n, (10, WORK), (25, HOLLOW), (60, WORK)).job(n, [n], 0, 95),
    "five of six windows": lambda w, n: w.gpu(n, *(((25, HOLLOW), (5, WORK)) * 4)).job(n, [n], 0, 120),
    "busy by GPU_UTIL": held(HOLLOW | {"gr_engine_ratio": 0.5}),
    "software power cap": held(HOLLOW | {"clocks_event_reasons": 0x4}),
    "no NVLink readings": held(without(HOLLOW, *links(0.0))),
    "a model without NVLink": lambda w, n: w.gpu(n, (120, without(HOLLOW, *links(0.0))), model="NVIDIA L40S").job(
        n, [n], 0, 120
    ),
    "no power, no GPU_UTIL": held(without(HOLLOW, "power_watts", "gpu_util_ratio")),
    "a slice": lambda w, n: w.gpu(n, (120, HOLLOW), gi=1, profile="1g.10gb", job=n).job(
        n, 1, 0, 120, profile="1g.10gb"
    ),
    "two shapes": lambda w, n: (
        w.gpu(f"{n}-0", (120, HOLLOW))
        .gpu(f"{n}-1", (120, level(0.9, 0.4, 0.1, 0.2, 250, **links(0.0))))
        .gpu(f"{n}-2", (120, WORK))
        .job(n, [f"{n}-{i}" for i in range(3)], 0, 120)
    ),
    "a loop": held(SPIN),
    "a loop, power at 24 %": held(SPIN | {"power_watts": 168}),
    "a server that polls": held(HOLLOW, labels=SERVING),
    "a gang that hung after an hour": lambda w, n: (
        w.gpu(f"{n}-0", (60, WORK), (120, HUNG))
        .gpu(f"{n}-1", (60, WORK), (120, HUNG))
        .job(n, [f"{n}-0", f"{n}-1"], 0, 180)
    ),
    "a gang of loops that never worked": gang(SPIN),
    "fed by the host": held(HOLLOW | {"pcie_tx_bytes_per_s": 1e8, "pcie_rx_bytes_per_s": 2e9}),
    "idle in the middle": lambda w, n: w.gpu(n, (60, HOLLOW), (30, IDLE), (60, HOLLOW)).job(n, [n], 0, 150),
    "lent for half an hour": lambda w, n: w.gpu(n, (120, HOLLOW)).job(n, [n], 0, 120).job(f"other-{n}", [n], 31, 61),
    "requeued": lambda w, n: (
        w.gpu(n, (120, HOLLOW))
        .job(n, [n], 0, 60, run_key=f"{n}@0", state="REQUEUED")
        .job(n, [n], 60, 120, run_key=f"{n}@60")
    ),
    "61 minutes later": lambda w, n: (
        w.gpu(n, (181, HOLLOW)).job(n, [n], 0, 60, run_key=f"{n}@0").job(n, [n], 121, 181, run_key=f"{n}@121")
    ),
} | {
    f"every {step} seconds": lambda w, n, step=step: w.gpu(n, (240, HOLLOW), step_s=step).job(n, [n], 0, 240)
    for step in (10, 30, 90, 119, 120, 180, 240, 300)
}


CASES = Cases(MUST_NOT_FIRE, MUST_FIRE)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of all cases."""
    with CASES.analyzed(tmp_path_factory.mktemp("fleet"), detectors=[RULE, "idle-hoarding"]) as world:
        yield world


def found(world: World, case: str) -> list[Found]:
    """Findings of a case, whatever its jobs are called."""
    return [f for f in world.findings(RULE) if f.job.startswith(CASES.name(case))]


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_it_does_not_accuse(fleet: World, case: str) -> None:
    """A false accusation costs more than a miss."""
    assert [] == found(fleet, case)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(
            "two hours", [(10, 115, 105 * 60 * LOSS)], id="warm-up and the window of the teardown are not judged"
        ),
        pytest.param("five windows", [(10, 35, 25 * 60 * LOSS)], id="five windows are enough"),
        pytest.param(
            "five of six windows", [(10, 115, 90 * 60 * LOSS)], id="working windows in between are not claimed"
        ),
        pytest.param("software power cap", [(10, 115, 105 * 60 * LOSS)], id="the software power cap is no excuse"),
        pytest.param("no NVLink readings", [(10, 115, 105 * 60 * LOSS)], id="a lone GPU needs no NVLink readings"),
        pytest.param("a model without NVLink", [(10, 115, 105 * 60 * LOSS)], id="a model without NVLink is judged"),
        pytest.param("no power, no GPU_UTIL", [(10, 115, 105 * 60 * LOSS)], id="neither power nor GPU_UTIL is needed"),
        pytest.param("a slice", [(10, 115, 105 * 60 * LOSS / 7)], id="a slice wastes its share of the GPU"),
        pytest.param(
            "idle in the middle",
            [(10, 145, (50 + 55) * 60 * LOSS)],
            id="idle half an hour in the middle is not claimed",
        ),
        pytest.param(
            "lent for half an hour",
            [(65, 115, 50 * 60 * LOSS)],
            id="minutes of another owner are not claimed",
        ),
        pytest.param(
            "requeued", [(10, 115, (45 + 45) * 60 * LOSS)], id="a requeued run continues it, with its own warm-up"
        ),
        pytest.param(
            "61 minutes later",
            [(10, 55, 45 * 60 * LOSS), (135, 175, 40 * 60 * LOSS)],
            id="a run after 61 minutes is another finding",
        ),
        *(
            pytest.param(case, [(10, 235, 225 * 60 * LOSS)], id=f"sampled {case}")
            for case in MUST_FIRE
            if case.startswith("every ")
        ),
    ],
)
def test_it_finds_the_hollow_time(fleet: World, case: str, expected: list[tuple[float, float, Fraction]]) -> None:
    """Start and end in minutes, wasted GPU-seconds exactly."""
    assert expected == [(f.started, f.ended, f.wasted_s) for f in found(fleet, case)]


def test_busy_is_what_gpu_util_says_where_the_engine_says_less(fleet: World) -> None:
    """GPU_UTIL 95 % with the engine at 50 %: .45 of each second is a gap and not claimed."""
    (finding,) = found(fleet, "busy by GPU_UTIL")

    assert 105 * 60 * (Fraction(30, 100) + Fraction(75, 2000)) == finding.wasted_s


def test_two_shapes_in_one_job_are_one_finding(fleet: World) -> None:
    """Two hollow GPUs of three, each hollow in its own way; the working one is not named."""
    (finding,) = found(fleet, "two shapes")
    name = CASES.name("two shapes")
    # .5 stalled, and .4 - .25 below the roof, of the second
    second = Fraction(50, 100) + Fraction(15, 200)

    assert (f"{name}-0", f"{name}-1") == finding.devices
    assert (2, 3) == (finding.evidence["hollow_devices"], finding.evidence["devices"])
    assert 105 * 60 * (LOSS + second) == finding.wasted_s


def test_it_names_the_cause(fleet: World) -> None:
    """PCIe above 1 GB/s on idle SMs is the host's work."""
    (host,), (small,) = found(fleet, "fed by the host"), found(fleet, "two hours")

    assert ("host", "small kernels") == (host.evidence["cause"], small.evidence["cause"])
    assert FALSE_UTILIZATION.remedy(host.evidence).startswith("The host feeds the GPU too slowly")
    assert (
        "1 of 1 device busy 95 % of the time with 20 % of SMs active and tensor cores at 3 %."
        == FALSE_UTILIZATION.summary(small.evidence)
    )


@pytest.mark.parametrize(
    ("case", "cause", "remedy"),
    [
        ("a loop", "spin", "A kernel occupies the SMs and waits in a loop"),
        ("a loop, power at 24 %", "spin", "A kernel occupies the SMs and waits in a loop"),
        ("a gang of loops that never worked", "spin", "A kernel occupies the SMs and waits in a loop"),
        ("a gang that hung after an hour", "hung", "Nothing moves between the GPUs since they last worked"),
        ("a server that polls", "server", "An inference server with little to do: share the GPU"),
        ("two hours", "small kernels", "Kernels are too small"),
    ],
)
def test_the_remedy_follows_the_evidence(fleet: World, case: str, cause: str, remedy: str) -> None:
    (one,) = found(fleet, case)

    assert cause == one.evidence["cause"]
    assert FALSE_UTILIZATION.remedy(one.evidence).startswith(remedy)


def test_a_loop_wastes_the_sms_that_wait(fleet: World) -> None:
    """.07 of each second is stalled, and half of .90 below the roof is claimed."""
    (one,) = found(fleet, "a loop")

    assert 105 * 60 * (Fraction(7, 100) + Fraction(45, 100)) == one.wasted_s
    assert 0.85 == one.confidence
    assert "with 90 % of SMs active and tensor cores at 0 %, at 17 % of its power." in FALSE_UTILIZATION.summary(
        one.evidence
    )


def test_it_says_how_sure_it_is(fleet: World) -> None:
    """95 / 20 is the strong form."""
    (strong,), (mixed,) = found(fleet, "two hours"), found(fleet, "two shapes")

    assert (0.95, 0.85) == (strong.confidence, mixed.confidence)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("SM_ACTIVE missing", "SM_ACTIVE missing"),
        ("GPU_UTIL alone", "SM_ACTIVE missing"),
    ],
)
def test_what_cannot_be_judged_is_noted(fleet: World, case: str, reason: str) -> None:
    """Never a finding, never a fall-back to GPU_UTIL: the span that looked busy, and what is missing."""
    rows = fleet.store.sql(
        """select r.job_id, min(u.start_us), max(u.end_us), u.reason
        from unjudged u
        join run r using (run_id)
        where u.detector = $rule and r.job_id = $job
        group by r.job_id, u.reason""",
        rule=RULE,
        job=CASES.name(case),
    )

    assert [(CASES.name(case), us(0), us(120), reason)] == rows


@pytest.mark.parametrize(
    "case", ["two hours", "idle", "a MIG slice with GPU_UTIL 0 and no profiling", "no sample at all"]
)
def test_what_was_judged_or_did_not_look_busy_is_not_noted(fleet: World, case: str) -> None:
    """The note is for readings that looked busy and had no SM_ACTIVE."""
    rows = fleet.store.sql(
        "select r.job_id from unjudged u join run r using (run_id) where r.job_id = $job", job=CASES.name(case)
    )

    assert [] == rows


def test_waste_stays_within_the_buckets_it_claims(fleet: World) -> None:
    """`stalled` and half of `below_roof`, of the same job."""
    over = {
        f.job: (f.wasted_s, most)
        for f in fleet.findings(RULE)
        if f.wasted_s > (most := fleet.booked_s("stalled", job=f.job) + fleet.booked_s("below_roof", job=f.job) / 2)
    }

    assert {} == over


def test_idle_hoarding_wins_on_the_same_seconds(fleet: World) -> None:
    """The idle half hour is claimed once, as hoarded."""
    (hollow,) = found(fleet, "idle in the middle")
    (idle,) = fleet.findings("idle-hoarding", hollow.job)

    assert 29 * 60 == idle.wasted_s
    assert 30 * 60 == fleet.booked_s("hoarded", job=hollow.job)
    assert hollow.wasted_s + idle.wasted_s <= fleet.booked_s("hoarded", "stalled", "below_roof", job=hollow.job)


# What happens to a finding over time -------------------------------------------------------------------------------


def test_it_is_open_while_it_lasts_and_resolves_when_the_job_works(world: World) -> None:
    """The same finding with the same key: opened once, closed at the end of the last hollow window."""
    world.gpu("G0", (60, HOLLOW)).job("7", ["G0"], 0, None, heard=60).analyze(now=60, detectors=[RULE])
    (first,) = world.findings(RULE)
    world.gpu("G0", (60, WORK), start=60).job("7", ["G0"], 0, None, heard=120).analyze(now=120, detectors=[RULE])
    (second,) = world.findings(RULE)

    assert ("open", 10, None, 60, 50 * 60 * LOSS) == (
        first.state, first.started, first.ended, first.last_seen, first.wasted_s,
    )  # fmt: skip
    assert ("resolved", 10, 60, 50 * 60 * LOSS) == (second.state, second.started, second.ended, second.wasted_s)
    assert (first.key, us(60)) == (second.key, second.opened_us)


def test_analysing_again_keeps_everything(world: World) -> None:
    """Findings and notes alike, also when the whole window is computed anew."""
    world.gpu("G0", (60, HOLLOW)).job("7", ["G0"], 0, 60)
    world.gpu("G1", (60, without(HOLLOW, "sm_active_ratio"))).job("8", ["G1"], 0, 60).analyze(now=60, detectors=[RULE])
    before = world.rows("finding"), world.rows("unjudged")
    world.analyze(now=100, since_us=T0, detectors=[RULE])

    assert [1, 1] == [len(rows) for rows in before]
    assert before == (world.rows("finding"), world.rows("unjudged"))


def test_another_roof_resolves_the_finding_as_changed_by_the_rule(world: World) -> None:
    """With a memory roof of .16 the same readings are memory-bound work."""
    world.gpu("G0", (60, HOLLOW)).job("7", ["G0"], 0, 60).analyze(now=60, detectors=[RULE])
    world.settings = Settings(dram_roof=0.16)
    world.analyze(now=90, since_us=T0, detectors=[RULE])

    (finding,) = world.findings(RULE)

    assert ("resolved", "rule_changed") == (finding.state, finding.reason)
    assert 0 == finding.wasted_s


def test_late_labels_do_not_touch_another_jobs_finding(world: World) -> None:
    """A record about G1 comes later: the key and the opening of the finding on G0 stay."""
    world.gpu("G0", (60, HOLLOW)).gpu("G1", (60, HOLLOW)).job("7", ["G0"], 0, 60).analyze(now=60, detectors=[RULE])
    before = world.findings(RULE)
    world.job("8", ["G1"], 0, 60).analyze(now=90, detectors=[RULE])

    assert before == world.findings(RULE, "7")
    assert ["7", "8"] == [f.job for f in world.findings(RULE)]


# Words ---------------------------------------------------------------------------------------------------------------


def test_the_page_is_true(checkout: Path) -> None:
    """Every threshold and default of the module stands on the page, and nothing else."""
    page = checkout / "docs/detectors/false-utilization.md"

    assert printed_thresholds(FALSE_UTILIZATION) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)


def test_the_page_has_the_lines_that_enable_the_fields(checkout: Path, shared: Path) -> None:
    """Those of the exporter's own counters file, with the comment mark taken off."""
    counters = shared / "wire/dcgm/default-counters.csv"
    if not counters.is_file():
        pytest.skip("no counters file among the shared inputs")
    off = [
        line[2:].split(",") for line in counters.read_text("utf-8").splitlines() if line.startswith("# DCGM_FI_PROF_SM")
    ]
    page = [
        line.split(",") for line in (checkout / "docs/detectors/false-utilization.md").read_text("utf-8").splitlines()
    ]
    lines = [[cell.strip() for cell in line] for line in page]

    assert ["DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY"] == [line[0] for line in off]
    assert [] == [line for line in off if [cell.strip() for cell in line] not in lines]
