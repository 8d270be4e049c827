"""Classes of work: the worked examples, what nobody can tell, and roofs of one model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gpuwatch.core import rooflines
from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.errors import UsageError
from gpuwatch.core.rooflines import Roofs
from gpuwatch.ledger import workload_class
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store
from tests.worlds.detectors import IDLE, T0, WORK, World, level

READING = ("gr", "sm", "tensor", "dram", "fp", "link", "pcie", "gang")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A store with the expression in it."""
    with Store.open(None) as made:
        made.run("views/workload_class")
        yield made


def class_of(store: Store, roof: Roofs = Roofs(), **reading: object) -> str | None:  # noqa: B008 - frozen
    """The class of one reading; what is not given was not read."""
    numbers = {name: reading.get(name) for name in READING} | {"gang": reading.get("gang", False)}
    return store.sql(
        """select workload_class(
            {'gr': $gr::double, 'sm': $sm::double, 'tensor': $tensor::double, 'dram': $dram::double, 'fp': $fp::double,
             'link': $link::double, 'pcie': $pcie::double, 'gang': $gang::boolean},
            $roof
        )""",
        roof=asdict(roof),
        **numbers,
    )[0][0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("expected", "gr", "sm", "tensor", "dram", "more"),
    [
        pytest.param("idle", 0.01, 0, 0, 0, {}, id="nothing runs"),
        pytest.param("compute-tensor", 0.99, 0.92, 0.48, 0.45, {"gang": True, "link": 0.1}, id="well-tuned training"),
        pytest.param("compute-tensor", 0.98, 0.45, 0.42, 0.20, {}, id="a GEMM of low occupancy"),
        pytest.param("compute-tensor", 0.80, 0.70, 0.36, 0.35, {}, id="training that saves every quarter of an hour"),
        pytest.param("memory-bandwidth", 0.98, 0.85, 0.06, 0.66, {}, id="decode at the memory roof"),
        pytest.param("memory-bandwidth", 0.95, 0.30, 0.05, 0.481, {}, id="decode at 60 % of it, with 30 % of the SMs"),
        pytest.param("memory-bandwidth", 0.95, 0.70, 0.30, 0.55, {}, id="prefill and decode in turns"),
        pytest.param("compute-other", 0.97, 0.90, 0, 0.30, {"fp": 0.6}, id="a simulation in FP32"),
        pytest.param(
            "communication", 0.98, 0.35, 0.12, 0.15, {"gang": True, "link": 0.5}, id="a gang that waits on NVLink"
        ),
        pytest.param(
            "communication", 0.98, 0.20, 0.05, 0.1, {"gang": True, "pcie": 2e10}, id="a gang that waits on its network"
        ),
        pytest.param("small-kernel", 0.98, 0.20, 0.05, 0.1, {"link": 0.5}, id="a lone GPU waits on nobody"),
        pytest.param("host", 0.35, 0.30, 0.15, 0.15, {}, id="data loading"),
        pytest.param("host", 0.95, 0.20, 0.03, 0.10, {"pcie": 2e9}, id="fed over PCIe"),
        pytest.param("small-kernel", 0.95, 0.20, 0.03, 0.10, {}, id="busy by name, a fifth of the SMs"),
        pytest.param("mixed", 0.95, 0.60, 0.10, 0.20, {}, id="none of these"),
    ],
)
def test_the_worked_examples(
    store: Store, expected: str, gr: float, sm: float, tensor: float, dram: float, more: dict[str, object]
) -> None:
    """Those of the waterfall, and their neighbours."""
    assert expected == class_of(store, gr=gr, sm=sm, tensor=tensor, dram=dram, **more)


@pytest.mark.parametrize("lacking", ["gr", "sm", "dram", "tensor"])
def test_what_was_not_read_has_no_class(store: Store, lacking: str) -> None:
    """Unknown is not zero: without one of these nobody can tell waste from work."""
    reading = {"gr": 0.95, "sm": 0.2, "tensor": 0.03, "dram": 0.1}

    assert class_of(store, **{name: value for name, value in reading.items() if name != lacking}) is None


def test_every_class_is_known(store: Store) -> None:
    """The expression says no word that the list lacks."""
    text = (Path(workload_class.__file__).parents[2] / "sql/views/workload_class.sql").read_text("utf-8")
    words = {part.split("'")[0] for part in text.split("then '")[1:]} | {text.split("else '")[1].split("'")[0]}

    assert set(workload_class.CLASSES) == words


def test_a_model_may_have_other_roofs(store: Store) -> None:
    """With a memory roof of .92 the same reading is 54 % of it."""
    settings = Settings(roofs="H200: dram 0.92; *: link_min 0.4")
    other = workload_class.roofs_of(settings, "NVIDIA H200")
    reading = {"gr": 0.95, "sm": 0.3, "tensor": 0.05, "dram": 0.5}

    assert (0.92, 0.4, 0.93) == (other.dram, other.link_min, other.tensor)
    assert 0.4 == workload_class.roofs_of(settings, "NVIDIA H100 PCIe").link_min
    assert ("memory-bandwidth", "mixed") == (class_of(store, **reading), class_of(store, other, **reading))


def test_the_longest_name_decides() -> None:
    """H100 PCIE before H100; part of a word is no name."""
    roofs = rooflines.read("H100: dram 0.9; H100 PCIe: dram 0.7; L4: dram 0.6")

    assert (0.9, 0.7, 0.8) == tuple(
        rooflines.of_model(model, Roofs(), roofs).dram
        for model in ("NVIDIA H100 80GB HBM3", "NVIDIA H100-PCIE-80GB", "NVIDIA L40S")
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("H100", "write MODEL: NAME NUMBER"),
        ("H100: drum 0.9", "did you mean dram?"),
        ("H100: dram much", "'much' is not a number"),
        ("H100: dram 1.5", "dram 1.5: a ratio must be above 0 and at most 1"),
        ("H100: dram 0.9; h100: dram 0.8", "given twice"),
    ],
)
def test_what_cannot_be_read_says_which_part(text: str, message: str) -> None:
    """And the setting refuses it."""
    with pytest.raises(UsageError, match=r".*") as error:
        rooflines.read(text)

    assert message in str(error.value)
    with pytest.raises(UsageError, match="roofs"):
        Settings(roofs=text)


def test_hours_of_jobs_have_classes(tmp_path: Path) -> None:
    """Most of the time decides, and idle only where there is nothing else."""
    world = World(tmp_path)
    decode = level(0.98, 0.85, 0.06, 0.66, 500)
    world.gpu("G0", (60, WORK), (60, decode), (240, IDLE)).job("7", ["G0"], 0, 360)
    world.gpu("G1", (120, IDLE)).job("8", ["G1"], 0, 120)
    world.gpu("G2", (10, WORK)).job("9", ["G2"], 0, 10).analyze(detectors=["blind-spot"])
    runs = dict(world.store.sql("select job_id, run_id from run"))
    classes = workload_class.of_runs(world.store, world.cluster, list(runs.values()))
    first = workload_class.of_runs(world.store, world.cluster, [runs["7"]], T0, T0 + HOUR_US)

    assert {"7": "memory-bandwidth", "8": "idle"} == {job: classes[run] for job, run in runs.items() if run in classes}
    assert {runs["7"]: "compute-tensor"} == first


def test_the_page_lists_every_number(checkout: Path) -> None:
    """Names and defaults of the table are those of the code."""
    rows = (
        line.split("|") for line in (checkout / "docs/understand/workload-classes.md").read_text("utf-8").splitlines()
    )
    documented = {
        cells[1].strip(" `"): cells[2].strip() for cells in rows if len(cells) == 5 and cells[1].startswith(" `")
    }

    assert {name: f"{value:g}" for name, value in asdict(replace(Roofs())).items()} == documented
