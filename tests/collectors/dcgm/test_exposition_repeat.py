"""Pages that differ in their values only are read as every page is, and the others are not taken for one."""

from __future__ import annotations

import random

import pytest

from gpuwatch.collectors.dcgm.exposition_repeat import Repeats
from gpuwatch.collectors.dcgm.scrape.config import Target
from gpuwatch.collectors.dcgm.scrape.source import Pages
from gpuwatch.core.model import Points, Rejects

AT_US = 1_793_577_600_000_000
POWER = 'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",Hostname="n1"}'
HEAT = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",Hostname="n1"}'
HEAD = "# HELP DCGM_FI_DEV_POWER_USAGE watts\n"
FIRST = f"{HEAD}{POWER} 100.5\n{HEAT} 40\n"

Reading = tuple[str, int, float]


def readings(pages: Pages, text: str) -> tuple[list[Reading], dict[str, int]]:
    """(column, time, value) of a page, and what was refused."""
    page = pages.page(text.encode(), AT_US)
    found = []
    for batch in page.batches:
        if isinstance(batch, Points):
            fields = batch.series["field"].to_pylist()
            found += [(fields[r["series"]], r["observed_us"], r["value"]) for r in batch.rows.to_pylist()]
    return sorted(found), page.rejects.counts


def fresh() -> Pages:
    return Pages(Target("http://n1:9400/metrics"), "dcgm n1")


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(FIRST, id="the same page"),
        pytest.param(FIRST.replace(" 40", " 41").replace("100.5", "1.005e+02"), id="other values"),
        pytest.param(FIRST.replace("100.5", "NaN"), id="a value that is no number"),
        pytest.param(FIRST.replace("100.5", "1_005"), id="a value that only Python reads"),
        pytest.param(FIRST.replace("100.5", "x"), id="a value that is none"),
        pytest.param(FIRST.replace("100.5", ""), id="a value that is not there"),
        pytest.param(FIRST.replace(" 40", f" 40 {AT_US // 1000 - 5}"), id="a time of its own"),
        pytest.param(FIRST.replace("GPU-a", "GPU-b"), id="another GPU"),
        pytest.param(f"{HEAD}{HEAT} 40\n{POWER} 100.5\n", id="another order"),
        pytest.param(FIRST.removesuffix("\n"), id="no line feed at its end"),
        pytest.param(FIRST + "# EOF\n", id="a comment more"),
        pytest.param(FIRST.replace("\n", "\r\n"), id="other line ends"),
        pytest.param(f"{HEAD}{POWER} 100.5\n", id="a series less"),
    ],
)
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(FIRST, id="after a plain page"),
        pytest.param(FIRST + "up 1\n", id="after one with a series without labels"),
        pytest.param("# HELP x {a} 100.5\n" + FIRST, id="after one with a comment that looks like a sample"),
        pytest.param(FIRST.replace("100.5", "x"), id="after one with a bad line"),
        pytest.param(FIRST.replace("GPU-a", 'GPU-{a} 1"').replace('""', '\\""'), id="after one with odd labels"),
    ],
)
def test_a_page_after_another_is_read_as_if_it_were_the_first(first: str, second: str) -> None:
    pages = fresh()
    pages.page(first.encode(), AT_US - 1)

    assert readings(fresh(), second) == readings(pages, second)


def test_only_a_page_that_differs_in_its_values_is_a_repeat() -> None:
    repeats = Repeats()
    page = fresh()._samples(FIRST.encode(), Rejects())
    repeats.learn(FIRST.encode(), page)
    again = repeats.read(FIRST.replace("100.5", "7").encode())

    assert again is not None
    assert [7.0, 40.0] == again.value.tolist()
    assert page.series.tolist() == again.series.tolist()
    assert repeats.read(FIRST.replace("GPU-a", "GPU-b").encode()) is None


def test_series_that_were_forgotten_are_not_those_of_the_last_page() -> None:
    pages = fresh()
    pages.page(FIRST.encode(), AT_US)
    pages._forget()

    assert readings(fresh(), FIRST) == readings(pages, FIRST)


def test_any_page_after_any_other(seed: int = 7) -> None:
    dice = random.Random(seed)
    pieces = [POWER, HEAT, " ", "} ", "\n", "1", "2.5", "_", "# HELP a {b} 1", "NaN", '"', "{", "up 1", "\r", "x"]
    pages = fresh()
    for _ in range(400):
        text = FIRST
        for _ in range(dice.randrange(3)):
            at = dice.randrange(len(text))
            text = text[:at] + dice.choice(pieces) + text[at + dice.randrange(4) :]
        try:
            expected = readings(fresh(), text)
        except Exception as error:  # noqa: BLE001 - then the other way must say the same
            with pytest.raises(type(error)):
                readings(pages, text)
        else:
            assert expected == readings(pages, text), text
