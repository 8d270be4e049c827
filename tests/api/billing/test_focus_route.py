"""FOCUS over HTTP: the file, what is missing beside it, and nothing of other teams."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import pyarrow.parquet as pq

from gpuwatch.billing.focus.columns import columns
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from tests.worlds.api import BLUE_WORDS, Api
from tests.worlds.world import us

WEEK = "window=2026-W45&format=focus"
ROUTE = f"/api/v1/chargeback?{WEEK}"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_team_gets_no_row_of_another(books: Api) -> None:
    answer = books.get(ROUTE, token=books.token("read", "red"))

    assert {"red"} == {row["x_Team"] for row in rows(answer.text)}
    assert not any(word in answer.text for word in BLUE_WORDS)


def test_another_version_is_refused_in_the_error_shape(filled: Api) -> None:
    answer = filled.get(f"{ROUTE}&focus_version=1.3")

    assert (400, "focus_version") == (answer.status_code, answer.json()["error"]["field"])


def test_the_file_adds_up_to_the_chargeback(filled: Api) -> None:
    answer = filled.get(ROUTE)
    entry = filled.get("/api/v1/chargeback?window=2026-W45").json()["total"]["cost"]

    assert "text/csv; charset=utf-8" == answer.headers["content-type"]
    assert str(len(answer.content)) == answer.headers["content-length"]
    assert "0.000000" == answer.headers["x-gpuwatch-unpriced-gpu-seconds"]
    assert list(columns("1.2")) == list(rows(answer.text)[0])
    assert Decimal(entry) == round(sum(Decimal(row["EffectiveCost"]) for row in rows(answer.text)), 2)


def test_parquet_of_the_newer_version(filled: Api) -> None:
    answer = filled.get(f"{ROUTE}&focus_version=1.4&focus_format=parquet")

    assert list(columns("1.4")) == pq.read_table(io.BytesIO(answer.content)).column_names


def test_time_without_a_price_is_reported_beside_the_file(books: Api) -> None:
    replace_rates(books.service.state, [Rate("A100", "owned", Decimal(2), us(0))], "test", "test", us(0))
    books.service.analyse_once()
    answer = books.get(ROUTE)

    assert [] == rows(answer.text)
    assert Decimal(answer.headers["x-gpuwatch-unpriced-gpu-seconds"]) > 0
    assert "H100" in json.loads(answer.headers["x-gpuwatch-warnings"])[1]
