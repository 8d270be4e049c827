"""Charges by job: names and users, totals of all rows where only some are listed, and no change where jobs come and go."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from fastapi import FastAPI

from gpuwatch.dashboards.client import Api, Caller, Client
from gpuwatch.dashboards.components import charge_cells
from gpuwatch.dashboards.pages import reports, teams
from gpuwatch.dashboards.shell.query import Query
from tests.dashboards.laid_out import api, check_layout, links, shown, text

WINDOW = {"start": "2026-11-13T00:00:00Z", "end": "2026-11-20T00:00:00Z"}


def charge(cost: str, kind: str = "allocated", **group: Any) -> dict[str, Any]:
    return {"gpu_seconds": "36000", "cost": cost, "currency": "USD", "kind": kind, "charge": None} | group


def served(jobs: int, following: str | None = None) -> Api:
    """An API with so many jobs of $1; by anything else one row of $900 held and one of $100 of the platform."""
    app = FastAPI(openapi_url=None)

    @app.get("/api/v1/chargeback")
    def chargeback(by: str) -> Any:
        names = by.split(",")
        if names[0] != "job":
            group = dict.fromkeys(names, "c1")
            return {"items": [charge("900.00", **group), charge("100.00", "platform", **group)], "window": WINDOW}
        more = {"name": "train", "user": "ann"} if "name" in names else {}
        rows = [charge("1.00", job=str(4000 + n), cluster="c1", **more) for n in range(jobs)]
        if not more:
            rows.append(charge("2.00", job="sandbox/nb-1", cluster="c1"))
        return {"items": rows, "window": WINDOW, "next": following}

    return Client(app).of(Caller())


def test_a_job_is_shown_by_its_name_with_its_id_and_user() -> None:
    layout = shown("/teams?by=job", source=served(3))
    words = text(layout)

    check_layout(layout)
    assert "train 4001 · ann" in words
    assert "sandbox/nb-1 sandbox/nb-1" not in words
    assert "All 4 rows 40.0 5.00" in " ".join(words.split()).replace("$", "")
    assert "change" not in words
    assert "/ui/jobs/4001?in=c1" in links(layout)


def test_a_long_list_has_pages_and_one_total() -> None:
    first, third = (text(shown(f"/teams?by=job{page}", source=served(120))) for page in ("", "&page=3"))

    assert "Page 1 of 3" in first and "Page 3 of 3" in third
    assert 49 == first.count(" · ann") and 21 == third.count(" · ann")
    assert "All 121 rows" in first and "All 121 rows" in third
    assert "Cost change" in text(shown("/teams?by=job&vs=lastweek", source=served(3)))


def test_totals_are_of_all_charges_where_the_list_is_cut() -> None:
    """The list has the first thousand rows; the headline adds up all."""
    words = text(shown("/teams?by=job", source=served(3, "more")))

    assert "Total $1,000" in words
    assert "Platform $100" in words
    assert "the totals above and the export have all" in words
    assert "All 4 rows" not in words


def test_a_name_that_the_id_has_is_not_repeated() -> None:
    cell = charge_cells.job_cell("ns/train-1", "c1", Query(), "train-1", "")

    assert "ns/train-1" == text(cell)


def test_reports_say_what_no_team_pays() -> None:
    rows = [
        charge("900", team="red"),
        charge("90", "platform", team="__platform__"),
        charge("0", team="__unallocated__"),
    ]
    data = reports.Data(("2026-W47",), "2026-W47", {"teams": None}, {"items": rows, "window": WINDOW})

    assert "The fleet's cost is more than that of the teams: $90.00 is the platform's" in text(
        reports.listed(reports.reports(data, Query()), data, Query())
    )
    assert reports.nobody(reports.Data(("w",), "w", {}, {"items": rows[:1], "window": WINDOW})) is None


def test_buckets_are_drawn_of_all_rows_or_of_none() -> None:
    """The ledger by job and bucket is cut sooner than the charges: bars of a few rows would look like the others had none."""
    data = asyncio.run(teams.load(api(), Query("/teams")))
    whole, cut = (
        text(
            teams.listing(
                replace(data, mixes=(data.mixes or {}) | {"next": following}), data.charges["items"], "team", Query()
            )
        )
        for following in (None, "more")
    )

    assert "Where it went" in whole and "Avoidable" in whole
    assert "Where it went" not in cut and "Avoidable" in cut
