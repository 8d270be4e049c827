"""The pages of the fleet and of one GPU: faults first, free and unread look different, nothing unknown is zero."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.dashboards.components import gpu_facts, heat_map
from gpuwatch.dashboards.pages.job import runs
from gpuwatch.dashboards.shell.query import Query
from tests.dashboards.fake_api import HOSTILE, finding
from tests.dashboards.laid_out import answering, check_layout, links, shown, text

TIMES = ["2026-11-02T00:00:00Z", "2026-11-02T01:00:00Z", "2026-11-02T02:00:00Z"]
WINDOW = {"start": TIMES[0], "end": TIMES[2]}


def gpu(place: int, **more: Any) -> dict[str, Any]:
    """A GPU without faults: busy, free, then held without a reading."""
    return {
        "cluster": "sim", "node": "n1", "pool": "batch", "model": "NVIDIA H100", "gpu": f"GPU-{place:08x}-a",
        "gpu_index": place, "driver": "550.90", "first_at": TIMES[0], "last_at": TIMES[2], "slices": 0, "xids": [],
        "ecc_dbe_count": None, "row_remap_pending": None, "row_remap_failed": None,
        "remapped_uncorrectable_rows": None, "gpu_temp_max_celsius": None, "pcie_lanes": 16, "pcie_lanes_max": 16,
        "values": [0.9, None, None], "held": [1.0, 0.0, 1.0], "estimated": False, **more,
    }  # fmt: skip


def fleet(*items: dict[str, Any], measure: str = "gr_engine_ratio") -> dict[str, Any]:
    """An answer of GET /gpus."""
    return {"items": list(items), "measure": measure, "step_s": 3600, "times": TIMES, "window": WINDOW, "next": None}


def test_free_unread_and_unknown_steps_differ() -> None:
    item = gpu(0, values=[0.9, None, None, None], held=[1.0, 0.0, 1.0, None])

    assert [None, heat_map.FREE, heat_map.UNREAD, None] == heat_map.ground(item, item["values"])


def test_rows_with_one_name_stay_apart() -> None:
    """Plotly merges categories of one name."""
    assert ["a", "a (2)", "b", "a (3)"] == heat_map.unique(["a", "a", "b", "a"])
    figure = heat_map.figure(fleet(gpu(0), gpu(0, gpu="GPU-other")), "light")

    assert figure is not None
    assert ["n1 · 0", "n1 · 0 (2)"] == figure["data"][1]["y"]


def test_rows_whose_holder_is_estimated_are_marked() -> None:
    known = text(shown("/fleet", source=answering({"gpus": fleet(gpu(0))})))
    found = text(shown("/fleet", source=answering({"gpus": fleet(gpu(0), gpu(1, estimated=True))})))
    figure = heat_map.figure(fleet(gpu(0), gpu(1, estimated=True)), "light")

    assert figure is not None and ["n1 · 0", "n1 · 1 ≈"] == figure["data"][1]["y"]
    assert "≈" not in known
    assert "≈ 1 row: no source says which GPU of the node a job held, so its time is on one that was free." in found


def test_slices_are_below_their_gpu() -> None:
    """In one line they pushed the last column of the table off the page."""
    cell = gpu_facts.gpu_name(gpu(3, gpu="GPU-1c1abed6-x", slices=7))

    assert ["3 · GPU-1c1abed6", "7 slices"] == [text(part) for part in cell.children]
    assert "0 · n1/gpu0" == text(gpu_facts.gpu_name(gpu(0, gpu="n1/gpu0"))).strip()


def test_a_name_is_no_markup_of_a_figure() -> None:
    """Plotly draws links that stand in a name."""
    figure = heat_map.figure(fleet(gpu(0, node='<a href="https://x.org">n</a>')), "light")

    assert figure is not None
    assert [] == [name for name in figure["data"][1]["y"] if "<" in name]


@pytest.mark.parametrize("measure", list(heat_map.MEASURES))
def test_every_measure_is_drawn_in_light_and_dark(measure: str) -> None:
    for scheme in ("light", "dark"):
        figure = heat_map.figure(fleet(gpu(0), measure=measure), scheme)  # type: ignore[arg-type]
        assert figure is not None
        assert [[0.9, None, None]] == figure["data"][1]["z"]


def test_gpus_with_faults_are_first_and_are_counted() -> None:
    broken = gpu(2, xids=[48], ecc_dbe_count=1, row_remap_pending=1, remapped_uncorrectable_rows=7, pcie_lanes=8)
    page = shown("/fleet", source=answering({"gpus": fleet(gpu(0), gpu(1, driver="535.1"), broken)}))
    page_text = text(page)

    assert "3 GPUs" in page_text and "XID 48" in page_text and "7   pending" in page_text
    assert "8 of 16" in page_text and "550.90 on 2, 535.1 on 1" in page_text
    rows = [href for href in links(page) if "/ui/fleet/GPU-" in href]
    assert ["/ui/fleet/GPU-00000002-a?in=sim", "/ui/fleet/GPU-00000000-a?in=sim"] == rows[:2]
    assert page_text.index("1 GPU with a fault in this window") < page_text.index("How busy each GPU")
    assert "2 more GPUs" in page_text
    check_layout(page)


def test_a_fleet_without_faults_begins_with_its_map() -> None:
    page_text = text(shown("/fleet", source=answering({"gpus": fleet(gpu(0), gpu(1))})))

    assert "a fault" not in page_text
    assert page_text.index("How busy each GPU") < page_text.index("a row opens the GPU")


def test_faults_that_no_source_reads_are_not_counted_as_none() -> None:
    """As where only Slurm's records are known; one reading is enough for a count."""
    dark = {"xids": None, "driver": None, "pcie_lanes": None, "pcie_lanes_max": None}
    page_text = text(shown("/fleet", source=answering({"gpus": fleet(gpu(0, **dark), gpu(1, **dark))})))
    read = text(shown("/fleet", source=answering({"gpus": fleet(gpu(0, **dark), gpu(1, ecc_dbe_count=0))})))

    assert 4 == page_text.count("Not measured"), page_text
    assert 1 == read.count("Not measured"), read


def test_what_no_source_reads_is_not_none() -> None:
    assert "none" == text(gpu_facts.xids(gpu(0)))
    assert "–" == text(gpu_facts.xids(gpu(0, xids=None)))
    assert "–" == text(gpu_facts.count(None))
    assert not gpu_facts.is_narrow(gpu(0, pcie_lanes=None))


def test_an_empty_fleet_says_so() -> None:
    assert "No GPUs yet" in text(shown("/fleet", source=answering({"gpus": fleet()})))
    assert "No GPUs match" in text(shown("/fleet?q=x", source=answering({"gpus": fleet()})))


def test_a_gpu_shows_its_owners_and_findings() -> None:
    owner = {"started_at": TIMES[0], "ended_at": TIMES[1], "slice": None, "profile": None, "job": "42", "name": HOSTILE,
             "user": "bob", "team": "nlp"}  # fmt: skip
    answer = {
        "gpu": gpu(3), "times": TIMES, "step_s": 3600, "window": WINDOW, "owners": [owner], "findings": [finding(0)],
        "values": {"gr_engine_ratio": [0.9, None, None], "power_watts": [None, None, None]},
    }  # fmt: skip
    page = shown("/fleet/GPU-00000003-a", source=answering({"gpus/GPU-00000003-a": answer}))
    page_text = text(page)

    assert "How the GPU was used" in page_text and "Mean power" not in page_text
    assert "Findings: 1 open, 0 ended" in page_text and "GPU 3 on n1" in page_text and "16 of 16" in page_text
    assert "/ui/jobs/42?in=sim" in links(page)
    check_layout(page)


def test_a_gpu_without_readings_says_so() -> None:
    answer = {"gpu": gpu(3), "times": TIMES, "values": {}, "owners": [], "findings": [], "window": WINDOW}
    page_text = text(shown("/fleet/GPU-x", source=answering({"gpus/GPU-x": answer})))

    assert "Nothing was read" in page_text and "Nobody held" in page_text and "No rule found anything" in page_text


def test_a_phone_names_every_fault_below_the_node() -> None:
    """Its columns of memory, rows and PCIe are hidden."""
    failed = gpu(1, row_remap_failed=1, remapped_uncorrectable_rows=7)

    assert ["row remap failed"] == gpu_facts.fault_words(failed)
    assert ["1 memory errors", "PCIe 8 of 16 lanes"] == gpu_facts.fault_words(gpu(2, ecc_dbe_count=1, pcie_lanes=8))
    assert [] == gpu_facts.fault_words(gpu(3, ecc_dbe_count=0, row_remap_failed=0))
    assert "1 · GPU-00000001 · row remap failed" in text(gpu_facts.table([failed], Query(), 0, 1))


def test_gpus_without_a_driver_are_counted() -> None:
    page_text = text(shown("/fleet", source=answering({"gpus": fleet(gpu(0), gpu(1, driver=None))})))

    assert "550.90 on 1, not known on 1" in page_text


def test_the_findings_of_a_gpu_say_whether_they_go_on() -> None:
    """Open ones first; one that ended has its end."""
    over = {**finding(1, "resolved"), "ended_at": TIMES[1]}
    answer = {
        "gpu": gpu(3),
        "times": TIMES,
        "values": {},
        "owners": [],
        "findings": [over, finding(0)],
        "window": WINDOW,
    }
    page = shown("/fleet/GPU-x", source=answering({"gpus/GPU-x": answer}))

    assert "Findings: 1 open, 1 ended" in text(page)
    assert text(page).index("GPUs held and idle") < text(page).index("ended 2 Nov 01:00")
    assert "/ui/fleet?q=n1" in links(page)


@pytest.mark.parametrize(
    ("suspended", "words"),
    [
        pytest.param(None, [], id="no record says so: no column"),
        pytest.param(7200.0, ["Suspended", "2 h"], id="for two hours"),
    ],
)
def test_a_job_page_tells_how_long_a_run_was_suspended(suspended: float | None, words: list[str]) -> None:
    run = {"started_at": "2026-11-02T00:00:00Z", "ended_at": None, "state": "RUNNING", "gpus": 2}
    table = runs({"runs": [run | {"suspended_seconds": suspended}]})

    assert words == [word for word in ("Suspended", "2 h") if word in text(table)]
