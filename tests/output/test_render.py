"""Answers as files: numbers are numbers, text is text, and no cell is a formula."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from decimal import Decimal
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from gpuwatch.billing.listings import chargeback_listing
from gpuwatch.billing.records import Charge, Chargeback
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.output.listing import Listing
from gpuwatch.output.render import check_format, render

SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
BILL = Chargeback(
    items=(
        Charge(
            {"team": "a", "job": "100001"},
            "allocated",
            Decimal("123.500000"),
            Decimal("12.34"),
            Decimal("12.344"),
            "USD",
            None,
        ),
        Charge({"team": "=cmd|' /C calc'!A0", "job": None}, "allocated", Decimal(1), None, None, None, "no rate"),
    ),
    window=Window(0, 3_600_000_000),
    gpu_seconds=Decimal("124.500000"),
    cost=Decimal("12.34"),
    currency="USD",
    unpriced_gpu_seconds=Decimal(1),
    by=("team", "job"),
    next_offset=None,
)
LISTING = chargeback_listing(BILL)


def rows_of(text: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.decode())))


def cell_of(content: bytes, reference: str, sheet: int = 1) -> str | float | None:
    """The text or the number of a cell as the file has it; no cell may be a formula."""
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        found = ElementTree.fromstring(book.read(f"xl/worksheets/sheet{sheet}.xml")).find(
            f".//{SHEET}c[@r='{reference}']"
        )
        shared = ElementTree.fromstring(book.read("xl/sharedStrings.xml")).findall(f"{SHEET}si")
    if found is None:
        return None
    assert found.find(f"{SHEET}f") is None
    text = found.findtext(f"{SHEET}v") or ""
    if found.get("t") == "s":
        return "".join(part.text or "" for part in shared[int(text)].iter(f"{SHEET}t"))
    assert found.get("t") in (None, "n")
    return float(text)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        pytest.param("plain", "plain", id="plain text stays"),
        pytest.param("a=b", "a=b", id="a sign within stays"),
        pytest.param("-12.34", "-12.34", id="a credit is a number"),
        pytest.param("", None, id="nothing is empty"),
    ],
)
def test_amounts_in_csv_stay_as_they_are(expected: str, value: str | None) -> None:
    name = "cost" if value == "-12.34" else "team"
    content, _ = render(Listing([name, "kind"], [{name: value, "kind": "x"}]), "csv")

    assert [[name, "kind"], [expected, "x"]] == rows_of(content)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_csv_text_never_becomes_a_formula(start: str) -> None:
    content, _ = render(Listing(["team"], [{"team": f"{start}1+1"}]), "csv")

    assert [["team"], [f"'{start}1+1"]] == rows_of(content)


def test_text_in_an_amount_s_column_is_no_formula_either() -> None:
    content, _ = render(Listing(["cost"], [{"cost": "=1+1"}]), "csv")

    assert [["cost"], ["'=1+1"]] == rows_of(content)


def test_json_is_the_answer_with_what_stands_beside_it() -> None:
    content, media_type = render(LISTING, "json")

    document = json.loads(content)
    assert "application/json" == media_type
    assert list(LISTING.items) == document["items"]
    assert {"gpu_seconds": "124.500000", "cost": "12.34", "currency": "USD", "unpriced_gpu_seconds": "1"} == document[
        "total"
    ]


def test_parquet_has_exact_decimals_and_text() -> None:
    content, media_type = render(LISTING, "parquet")

    table = pq.read_table(io.BytesIO(content))
    assert "application/vnd.apache.parquet" == media_type
    assert [Decimal("123.500000"), Decimal("1.000000")] == table["gpu_seconds"].to_pylist()
    assert [Decimal("12.34"), None] == table["cost"].to_pylist()
    assert [Decimal("12.344000000000"), None] == table["cost_exact"].to_pylist()
    assert ["100001", None] == table["job"].to_pylist()
    assert list(LISTING.columns) == table.column_names


def test_parquet_of_no_rows_has_the_same_columns() -> None:
    full, empty = (
        pq.read_table(io.BytesIO(render(Listing(LISTING.columns, items), "parquet")[0])).schema
        for items in (LISTING.items, [])
    )

    assert full == empty


def test_xlsx_has_numbers_under_a_frozen_header() -> None:
    content, media_type = render(LISTING, "xlsx")

    assert media_type.endswith("spreadsheetml.sheet")
    assert ["team", "job", "gpu_seconds"] == [cell_of(content, name) for name in ("A1", "B1", "C1")]
    assert ["a", "100001", 123.5, 12.34] == [cell_of(content, name) for name in ("A2", "B2", "C2", "D2")]
    assert [None, None] == [cell_of(content, name) for name in ("B3", "D3")]
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert 'ySplit="1"' in sheet and 'state="frozen"' in sheet
    assert all(float(width) >= 8 for width in re.findall(r'<col [^>]*width="([0-9.]+)"', sheet))


def test_xlsx_text_is_no_formula() -> None:
    content, _ = render(LISTING, "xlsx")

    assert "=cmd|' /C calc'!A0" == cell_of(content, "A3")


def test_the_same_answer_is_the_same_file() -> None:
    assert render(LISTING, "xlsx") == render(LISTING, "xlsx")


def test_totals_stand_on_a_sheet_of_their_own() -> None:
    content, _ = render(LISTING, "xlsx")

    texts = [cell_of(content, f"A{row}", 2) for row in range(1, 6)]
    assert ["window start", "window end", "total gpu_seconds", "total cost", "total currency"] == texts
    assert [124.5, 12.34, "USD"] == [cell_of(content, f"B{row}", 2) for row in range(3, 6)]


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        pytest.param("focus", "unknown", id="a format that is no listing"),
        pytest.param("pdf", "unknown", id="a format that does not exist"),
    ],
)
def test_another_format_is_refused(form: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        render(LISTING, form)
    with pytest.raises(UsageError, match="use table"):
        check_format(form, ["table"])


def test_more_rows_than_a_sheet_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.output.render.XLSX_ROWS_MAX", 1)
    with pytest.raises(UsageError, match="2 rows"):
        render(LISTING, "xlsx")
