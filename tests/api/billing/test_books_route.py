"""Ledger, chargeback and slices over the API: pages add up, files say the same, a window stays what it was."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from openpyxl import load_workbook

from gpuwatch.core.clock import HOUR_US
from tests.worlds.api import NOW_US, Api

WEEK = "window=2026-W45"


@pytest.fixture
def later(filled: Api) -> Iterator[Api]:
    """A clock that may be moved, and is put back."""
    yield filled
    filled.moment[0] = NOW_US


def walked(api: Api, path: str, limit: int, hours: int = 0) -> list[dict[str, Any]]:
    """Every page of a list one after another, `hours` apart."""
    pages = [api.get(f"{path}&limit={limit}").json()]
    while pages[-1]["next"]:
        api.moment[0] += hours * HOUR_US
        pages.append(api.get(f"{path}&limit={limit}&cursor={pages[-1]['next']}").json())
    return pages


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"ledger?{WEEK}&by=team,bucket", id="ledger"),
        pytest.param(f"chargeback?{WEEK}&by=team,job", id="chargeback"),
        pytest.param(f"slices?{WEEK}", id="slices"),
        pytest.param(f"slices?{WEEK}&cluster=c1", id="slices of a cluster"),
        pytest.param(f"jobs?{WEEK}", id="jobs"),
    ],
)
def test_pages_are_the_whole(filled: Api, path: str) -> None:
    """No row twice, none left out, in the same order."""
    whole = filled.get(f"/api/v1/{path}").json()["items"]
    pages = walked(filled, f"/api/v1/{path}", 1)

    assert whole == [row for page in pages for row in page["items"]]
    assert len(whole) == len(pages) > 1


@pytest.mark.parametrize("path", ["ledger?window=7d", "chargeback?window=7d&by=job", "slices?window=7d"])
def test_the_window_of_the_first_page_holds(later: Api, path: str) -> None:
    """The last seven days move on while somebody turns pages; the sums must not."""
    later.moment[0] = NOW_US - 24 * HOUR_US
    pages = walked(later, f"/api/v1/{path}", 1, hours=30)

    assert len(pages) > 1
    assert {"2026-11-02T00:00:00Z"} == {page["window"]["start"] for page in pages}


def test_a_cursor_belongs_to_its_question(filled: Api) -> None:
    """With another filter it would skip rows."""
    cursor = filled.get(f"/api/v1/chargeback?{WEEK}&by=job&limit=1").json()["next"]
    answer = filled.get(f"/api/v1/chargeback?{WEEK}&by=user&limit=1&cursor={cursor}")

    assert (400, "cursor") == (answer.status_code, answer.json()["error"]["field"])


def test_the_ledger_closes(filled: Api) -> None:
    """The rows are the capacity, in steps as well; the funnel only narrows."""
    whole = filled.get(f"/api/v1/ledger?{WEEK}").json()
    steps = filled.get(f"/api/v1/ledger?{WEEK}&step=1h").json()
    funnel = [Decimal(whole["funnel"][name]["gpu_seconds"]) for name in ("total", "reporting", "allocated", "active")]

    assert Decimal(whole["capacity_gpu_seconds"]) == sum(Decimal(row["gpu_seconds"]) for row in whole["items"])
    assert Decimal(whole["capacity_gpu_seconds"]) == sum(Decimal(row["gpu_seconds"]) for row in steps["items"])
    assert "2026-11-02T05:00:00Z" == max(row["start"] for row in steps["items"])
    assert sorted(funnel, reverse=True) == funnel


def test_the_bill_is_the_sum_of_its_rows(filled: Api) -> None:
    """Three GPUs of $2 an hour for six hours, to the cent."""
    answer = filled.get(f"/api/v1/chargeback?{WEEK}&by=team").json()

    assert ("36.00", "USD") == (answer["total"]["cost"], answer["total"]["currency"])
    assert Decimal("36.00") == sum(Decimal(row["cost"]) for row in answer["items"])


def test_files_have_the_rows_of_the_answer(filled: Api) -> None:
    """CSV, Parquet and XLSX, each whole whatever the limit."""
    path = f"/api/v1/chargeback?{WEEK}&by=team,job&limit=1&format="
    rows = filled.get(f"/api/v1/chargeback?{WEEK}&by=team,job").json()["items"]
    text = filled.get(path + "csv")
    table = pq.read_table(io.BytesIO(filled.get(path + "parquet").content))
    sheet = load_workbook(io.BytesIO(filled.get(path + "xlsx").content)).worksheets[0]

    assert [row["cost"] for row in rows] == [row["cost"] for row in csv.DictReader(io.StringIO(text.text))]
    assert [Decimal(row["cost"]) for row in rows] == table.column("cost").to_pylist()
    assert len(rows) + 1 == sheet.max_row
    assert 'attachment; filename="chargeback-2026-11-02-to-2026-11-09.csv"' == text.headers["content-disposition"]


def test_only_the_teams_asked_for(filled: Api) -> None:
    """And what nobody held only where it is named."""

    def teams(query: str) -> list[str]:
        return sorted(row["team"] for row in filled.get(f"/api/v1/chargeback?{WEEK}&{query}").json()["items"])

    assert ["red"] == teams("team=red")
    assert ["__platform__", "red"] == teams("team=red,__platform__")
    assert ["__platform__", "blue", "red"] == teams("")


def test_a_cluster_that_is_not_there(filled: Api) -> None:
    """Nothing, not everything."""
    counts = [
        len(filled.get(f"/api/v1/{path}?{WEEK}&cluster=c9").json()["items"])
        for path in ("ledger", "chargeback", "slices", "jobs")
    ]

    assert [0, 0, 0, 0] == counts


def test_service_in_memory_answers_too(tmp_path: Path) -> None:
    """What tests and demos of others open."""
    from tests.worlds.api import open_api

    api = open_api(None)

    assert [200, 200] == [api.get(f"/api/v1/{name}").status_code for name in ("fleet", "rates")]
    api.service.stop()


@pytest.mark.parametrize(
    ("route", "pool", "jobs"),
    [
        pytest.param("chargeback?by=team,job&", "nowhere", set(), id="charges of a pool that is not there"),
        pytest.param("ledger?by=team,job&", "nowhere", set(), id="books of a pool that is not there"),
        pytest.param("slices?", "batch", set(), id="a pool without slices"),
        pytest.param(
            "chargeback?by=team,job&", "batch", {"9001", "9002"}, id="charges of the pool, not of the MIG board"
        ),
        pytest.param("ledger?by=team,job&", "batch", {"9001", "9002"}, id="books of the pool"),
    ],
)
def test_a_pool_picks_its_rows(filled: Api, route: str, pool: str, jobs: set[str]) -> None:
    items = filled.get(f"/api/v1/{route}window=2026-W45&pool={pool}").json()["items"]

    assert jobs == {item["job"] for item in items if item["job"] is not None}


@pytest.mark.parametrize("path", ["ledger?by=team&", "chargeback?by=team&"])
def test_a_day_of_new_york_is_the_hours_of_that_day(filled: Api, path: str) -> None:
    """The sum over a local day, here one of 25 hours, is that of the same instants; rows of UTC days are refused in it, in words."""
    local = filled.get(f"/api/v1/{path}window=2026-11-01@America/New_York").json()
    exact = filled.get(f"/api/v1/{path}window=2026-11-01T04:00:00Z,2026-11-02T05:00:00Z").json()
    assert exact == local and local["items"]
    assert {"start": "2026-11-01T04:00:00Z", "end": "2026-11-02T05:00:00Z"} == local["window"]
    assert [] == filled.get(f"/api/v1/{path}window=2026-11-01").json()["items"]

    refused = filled.get(f"/api/v1/{path.replace('by=team', 'by=day')}window=2026-W45@America/New_York")
    assert 400 == refused.status_code
    assert "leave out @America/New_York" in refused.json()["error"]["message"]
