"""GET /api/v1/reports/weekly and the recipients card: who may see which report, and as what."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from decimal import Decimal

import pytest

from tests.worlds.api import BLUE_WORDS, Api, fill, open_api

WEEK = "2026-W45"
URL = f"/api/v1/reports/weekly?week={WEEK}"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    made = open_api(tmp_path_factory.mktemp("reports"))
    fill(made.service)
    yield made
    made.service.stop()


@pytest.fixture(scope="module")
def red(api: Api) -> str:
    """A token of team red."""
    api.token("admin", name="first")
    return api.token("read", "red")


def test_what_is_wrong_is_named(api: Api, red: str) -> None:
    """Week, team, format: never an empty report."""
    token = api.token("read")
    for path, status in (
        ("week=2026-W99", 400),
        ("week=today", 400),
        ("week=2020-W01", 404),
        (f"week={WEEK}&team=nobody", 404),
        (f"week={WEEK}&format=docx", 400),
        (f"week={WEEK}&formats=pdf", 400),
        (f"week={WEEK}&format=zip&formats=docx", 400),
    ):
        answer = api.get(f"/api/v1/reports/weekly?{path}", token=token)
        assert (path, status, True) == (path, answer.status_code, "message" in answer.json()["error"])


def test_a_token_of_a_team_sees_its_report_only(api: Api, red: str) -> None:
    """Without a team it is its own; another's does not exist; the ZIP has no other file."""
    page = api.get(URL, token=red)
    archive = zipfile.ZipFile(io.BytesIO(api.get(f"{URL}&format=zip&formats=html,csv", token=red).content))

    assert [] == [word for word in BLUE_WORDS if word in page.text]
    assert "Team red" in page.text
    assert 404 == api.get(f"{URL}&team=blue", token=red).status_code
    assert [f"{WEEK}/team-red.html", f"{WEEK}/team-red.csv"] == archive.namelist()
    assert 403 == api.get(URL, token=api.token("ingest")).status_code
    assert 401 == api.get(URL).status_code


@pytest.mark.parametrize(
    ("form", "begins", "media"),
    [
        ("html", b"<!DOCTYPE html>", "text/html; charset=utf-8"),
        ("pdf", b"%PDF", "application/pdf"),
        ("xlsx", b"PK", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("csv", b"\xef\xbb\xbfsection", "text/csv; charset=utf-8"),
        ("parquet", b"PAR1", "application/vnd.apache.parquet"),
        ("zip", b"PK", "application/zip"),
    ],
)
def test_every_format_is_served(api: Api, red: str, form: str, begins: bytes, media: str) -> None:
    """As a file of that kind; a page may do nothing but be shown."""
    answer = api.get(f"{URL}&format={form}", token=red)

    assert (200, media) == (answer.status_code, answer.headers["content-type"])
    assert answer.content.startswith(begins)
    assert ("sandbox" in answer.headers.get("content-security-policy", "")) == (form == "html")
    assert "gpuwatch-2026-W45" in answer.headers["content-disposition"]


def test_the_report_says_what_the_chargeback_says(api: Api, red: str) -> None:
    """To the cent."""
    charged = api.get(f"/api/v1/chargeback?window={WEEK}", token=red).json()["total"]["cost"]
    text = api.get(URL, token=red).text.replace("\u00a0", " ")

    assert f"Team red pays ${Decimal(charged)}" in text


def test_recipients_are_read_and_replaced(api: Api, red: str) -> None:
    """By an administrator; a bad address changes nothing."""
    admin, items = api.token("admin"), [{"team": "red", "to": ["ann@example.com"]}]
    put = api.request("PUT", "/api/v1/recipients", token=admin, json={"items": items})
    bad = api.request("PUT", "/api/v1/recipients", token=admin, json={"items": [{"team": "red", "to": ["x\r\ny"]}]})

    assert ({"changed": True, "version": 1, "rows": 1, "warnings": []}, 400) == (put.json(), bad.status_code)
    assert items == api.get("/api/v1/recipients", token=admin).json()["items"]
    assert 403 == api.request("PUT", "/api/v1/recipients", token=red, json={"items": []}).status_code
    assert 403 == api.get("/api/v1/recipients", token=red).status_code


def test_a_report_of_any_window_says_what_the_chargeback_of_it_says(api: Api, red: str) -> None:
    """Of hours and minutes that are no week, for a token of one team; the name of the file has no colons."""
    window = "2026-11-02T00:30:00Z,2026-11-05T18:15:00Z"
    charged = api.get(f"/api/v1/chargeback?window={window}", token=red).json()["total"]["cost"]
    answer = api.get(f"/api/v1/reports/weekly?window={window}", token=red)
    text = answer.text.replace("\u00a0", " ")

    assert 0 < Decimal(charged)
    assert f"Team red pays ${Decimal(charged)} in period 2026-11-02 00:30 to 2026-11-05 18:15" in text
    assert [] == [word for word in BLUE_WORDS if word in text]
    assert "gpuwatch-2026-11-02-0030-to-2026-11-05-1815-team-red.html" in answer.headers["content-disposition"]
    assert 404 == api.get(f"/api/v1/reports/weekly?window={window}&team=blue", token=red).status_code


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(f"week={WEEK}&window=7d", "a week or of a window", id="both"),
        pytest.param("window=nonsense", "is not valid", id="no window"),
        pytest.param("window=2026-01-01T00:00:00Z,2026-11-05T00:00:00Z", "longer than 92 days", id="too long"),
    ],
)
def test_a_window_that_is_none_is_refused(api: Api, red: str, path: str, expected: str) -> None:
    answer = api.get(f"/api/v1/reports/weekly?{path}", token=red)

    assert 400 == answer.status_code
    assert expected in answer.json()["error"]["message"]
