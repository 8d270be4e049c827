"""FOCUS as CSV: what was written comes back, whatever it says."""

from __future__ import annotations

import csv
import io
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.billing.focus.columns import columns
from gpuwatch.billing.focus.files import FORMULA, SLICE_ROWS, Csv
from gpuwatch.billing.focus.tables import DECIMAL, schema

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["", " ", '"', '""', ",", "\n", "\r\n", "=cmd|' /C calc'!A0", "+1", "-1", "@x", "NULL", "1e5", "ä,ö", '{"a":"b"}']
)
row = st.fixed_dictionaries(
    {"x_Team": st.none() | texts, "Tags": st.none() | texts, "AvailabilityZone": st.none() | texts}
)


def table(rows: list[dict[str, Any]], **numbers: list[int | None]) -> pa.Table:
    """Rows of version 1.2 of which only these columns say anything; numbers in units of 10^-12."""
    arrays = []
    for field in schema("1.2"):
        if field.name in numbers:
            arrays.append(pa.array([None if n is None else Decimal(plain(n)) for n in numbers[field.name]], DECIMAL))
        else:
            arrays.append(pa.array([one.get(field.name) for one in rows], field.type))
    return pa.Table.from_arrays(arrays, schema=schema("1.2"))


def plain(units: int) -> str:
    """Units of 10^-12 with twelve places, of any size."""
    digits = f"{abs(units):013d}"
    return f"{'-' if units < 0 else ''}{digits[:-12]}.{digits[-12:]}"


def written(*tables: pa.Table) -> list[dict[str, str]]:
    file = io.BytesIO()
    sink = Csv(file, "1.2")
    for one in tables:
        sink.write(one)
    return list(csv.DictReader(io.StringIO(file.getvalue().decode(), newline="")))


def guarded(text: str) -> str:
    return f"'{text}" if re.match(FORMULA, text) else text


def test_a_table_without_rows_is_a_header() -> None:
    file = io.BytesIO()
    Csv(file, "1.2").write(table([]))

    assert ",".join(columns("1.2")) + "\n" == file.getvalue().decode()


@settings(max_examples=60, deadline=None)
@given(st.lists(row, min_size=1, max_size=5))
def test_text_comes_back(rows: list[dict[str, str | None]]) -> None:
    """Also where all rows say the same, which is written once; NULL is an empty cell, as empty text is to a reader.

    What a spreadsheet would run as a formula has an apostrophe before it.
    """
    found = written(table(rows))

    assert [{name: guarded(value or "") for name, value in one.items()} for one in rows] == [
        {name: line[name] for name in rows[0]} for line in found
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(10**7), 10**7), min_size=1, max_size=5)
)
def test_numbers_are_plain_decimals_and_come_back(units: list[int | None]) -> None:
    """Zero, the smallest and the largest: twelve places, no exponent, no plus."""
    found = [line["EffectiveCost"] for line in written(table([{}] * len(units), EffectiveCost=units))]

    assert ["" if n is None else plain(n) for n in units] == found


@pytest.mark.parametrize("text", ["same", "", 'a "b", c', None])
def test_more_rows_than_are_written_at_a_time(text: str | None) -> None:
    """One of them differs, in the second part."""
    rows: list[dict[str, Any]] = [{"x_Team": text} for _ in range(SLICE_ROWS + 3)]
    rows[SLICE_ROWS + 1] = {"x_Team": "other"}
    found = [line["x_Team"] for line in written(table(rows), table(rows[:2]))]

    assert [one["x_Team"] or "" for one in [*rows, *rows[:2]]] == found
