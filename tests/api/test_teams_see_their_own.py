"""A token of one team: no answer of any route, in any format, has a name that only another team has."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from openpyxl import load_workbook

from gpuwatch.api.routes.billing.ledger import FILES
from tests.worlds.api import BLUE_WORDS, Api

WINDOW = "2026-W45"
DIMENSIONS = "team,user,queue,namespace,account,job,gpu_model,mig_profile,slice,cluster,pool"
FORMATS = ("json", "csv", "parquet", "xlsx")


@pytest.fixture(scope="module")
def text(filled: Api) -> str:
    """A token of team red."""
    filled.service._sources.add("dcgm http://bluenode:9400/metrics", "dcgm", "c1", 30.0)
    return filled.token("read", "red")


def requests(api: Api) -> list[tuple[str, str]]:
    """(method, path) of every route of the OpenAPI, with the parameters that show most, and those that ask for others."""
    admin = api.service.local_secret
    blue = api.get("/api/v1/findings?team=blue", token=admin).json()["items"][0]["key"]
    red = api.get("/api/v1/findings?team=red", token=admin).json()["items"][0]["key"]
    found = []
    for path, methods in api.get("/api/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            names = {p["name"] for p in operation.get("parameters", []) if p["in"] == "query"}
            queries = {""}
            if "window" in names:
                queries.add(f"window={WINDOW}")
                queries |= {f"window={WINDOW}&team={team}" for team in ("blue", "red,blue") if "team" in names}
            if "by" in names:
                queries.add(f"window={WINDOW}&by={DIMENSIONS}")
            if "step" in names:
                queries.add(f"window={WINDOW}&by={DIMENSIONS}&step=1h")
            if "format" in names:
                queries |= {f"window={WINDOW}&by={DIMENSIONS}&format={name}" for name in FORMATS}
            if "q" in names:
                queries |= {f"window={WINDOW}&q=boris", f"window={WINDOW}&q=ursula"}
            for key, job in ((red, "9001"), (blue, "9002"), (red, "redlab/redpod"), (blue, "bluelab/bluepod")):
                filled = path.replace("{key}", key).replace("{job_id}", job).replace("{action}", "ack")
                filled = filled.replace("{name}", "bluechannel")
                found += [(method.upper(), filled + (f"?{query}" if query else "")) for query in queries]
    return sorted(set(found))


def words_of(content: bytes, kind: str) -> str:
    """Every cell of an answer as text."""
    if kind.startswith("application/vnd.apache.parquet"):
        table = pq.read_table(io.BytesIO(content))
        return json.dumps([table.column_names, table.to_pylist(), str(table.schema.metadata)], default=str)
    if "spreadsheet" in kind:
        book = load_workbook(io.BytesIO(content))
        return json.dumps([[list(row) for row in sheet.values] for sheet in book], default=str)
    return content.decode()


def test_no_answer_has_another_teams_names(filled: Api, text: str) -> None:
    """Every route, method and format; what the request itself says is not told back either, but in errors of its own."""
    leaks, kinds, served = [], set(), 0
    for method, path in requests(filled):
        body: dict[str, Any] = {} if method == "GET" else {"json": {"reason": "x", "period": WINDOW, "items": []}}
        answer = filled.request(method, path, token=text, **body)
        kind = answer.headers.get("content-type", "")
        kinds.add(kind.split(";")[0])
        served += answer.status_code == 200
        result = words_of(answer.content, kind).lower()
        # An error repeats the path that was asked, and nothing that it does not have from there.
        asked = path.lower() if answer.status_code >= 400 else ""
        leaks += [(method, path, word) for word in BLUE_WORDS if word in result and word not in asked]

    assert [] == leaks
    assert set(FILES) <= kinds
    assert served > 30


def test_the_answers_are_not_empty(filled: Api, text: str) -> None:
    """What is searched has the team's own rows."""
    rows = {
        path: json.dumps(filled.get(f"/api/v1/{path}", token=text).json()["items"]).count("red")
        for path in (
            f"chargeback?window={WINDOW}",
            f"ledger?window={WINDOW}&by=team",
            f"slices?window={WINDOW}",
            f"jobs?window={WINDOW}",
            f"mig/gpus?window={WINDOW}",
            "findings",
            "teams",
        )
    }

    assert {} == {path: count for path, count in rows.items() if not count}


def test_an_admin_sees_both(filled: Api, text: str) -> None:
    """So the words that are searched for are there to be found."""
    secret = filled.service.local_secret
    jobs = filled.get(f"/api/v1/jobs?window={WINDOW}", token=secret).text
    slices = filled.get(f"/api/v1/slices?window={WINDOW}", token=secret).text

    assert [True] * 3 == [word in jobs for word in BLUE_WORDS]
    assert "bluelab" in slices


@pytest.mark.parametrize("path", ["quality", "channels", "audit"])
def test_what_has_no_team_is_not_for_a_team(filled: Api, text: str, path: str) -> None:
    """A node's source or a channel's name tells of others."""
    assert 403 == filled.get(f"/api/v1/{path}", token=text).status_code


def test_a_team_pays_its_part_and_no_more(filled: Api, text: str) -> None:
    """Its rows are those of the whole bill that are its own; its total is theirs."""
    whole = filled.get(f"/api/v1/chargeback?window={WINDOW}", token=filled.service.local_secret).json()
    mine = filled.get(f"/api/v1/chargeback?window={WINDOW}", token=text).json()
    file = filled.get(f"/api/v1/chargeback?window={WINDOW}&format=csv", token=text).text

    assert [row["cost_exact"] for row in whole["items"] if row["team"] == "red"] == [
        row["cost_exact"] for row in mine["items"]
    ]
    assert mine["total"]["cost"] == mine["items"][0]["cost"]
    assert ["red"] == [row["team"] for row in csv.DictReader(io.StringIO(file))]


def test_a_fleet_of_a_team_is_what_it_holds(filled: Api, text: str) -> None:
    """Not what others, or nobody, hold."""
    whole = filled.get("/api/v1/fleet", token=filled.service.local_secret).json()["total"]
    mine = filled.get("/api/v1/fleet", token=text).json()["total"]

    assert (2, 1) == (whole["gpus"]["total"], mine["gpus"]["total"])
