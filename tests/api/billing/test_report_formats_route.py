"""The formats of a report over the API: in order, as the report's route takes them, for a token of a team too."""

from __future__ import annotations

from gpuwatch.report.format_registry import report_formats
from tests.worlds.api import Api

SHIPPED = {"html": "HTML", "pdf": "PDF", "xlsx": "Excel", "csv": "CSV", "focus": "FOCUS", "parquet": "Parquet"}


def test_every_format_is_listed_in_order_with_its_label(filled: Api) -> None:
    token = filled.token("read")
    found = filled.get("/api/v1/reports/formats", token=token).json()

    assert list(report_formats()) == [one["format"] for one in found["items"]]
    assert SHIPPED == {one["format"]: one["label"] for one in found["items"] if one["format"] in SHIPPED}
    assert ["html", "pdf"] == [one["format"] for one in found["items"] if one["inline"]]
    assert "A page that opens in any browser" == found["items"][0]["about"]
    assert found["next"] is None


def test_a_token_of_a_team_sees_the_same_formats(filled: Api) -> None:
    every, own = filled.token("read"), filled.token("read", "red")

    assert (
        filled.get("/api/v1/reports/formats", token=every).content
        == filled.get("/api/v1/reports/formats", token=own).content
    )
