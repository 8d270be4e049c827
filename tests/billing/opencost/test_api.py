"""OpenCost's API as its documentation asks it, over two teams' week; and a client of OpenCost from the package index."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.worlds.api import BLUE_WORDS, Api, fill, open_api

EXAMPLES = [
    ("/allocation?window=7d&aggregate=namespace&resolution=1m", 1, "the last seven days by namespace"),
    ("/allocation?window=60m&step=10m&resolution=1m&aggregate=namespace", 6, "an hour in steps of ten minutes"),
    ("/allocation/compute?window=9d&step=3d&resolution=10m&aggregate=namespace", 3, "nine days in steps of three"),
    ("/allocation/compute?window=24h&aggregate=cluster&accumulate=true", 1, "a day of the clusters"),
    ("/allocation?window=30m&resolution=1m", 1, "half an hour of containers"),
    ("/allocation?window=today&aggregate=label:app&includeIdle=true", 1, "today by label"),
    ("/allocation?window=week&aggregate=controllerKind&shareIdle=true&includeIdle=true&idleByNode=true", 1, "a week"),
    ("/allocation?window=2026-11-02T00:00:00Z,2026-11-03T00:00:00Z&aggregate=namespace,label:app", 1, "a day of dates"),
    ("/allocation?window=1793577600,1793664000&aggregate=pod&step=1h", 24, "a day of Unix times"),
    ("/model/allocation?window=lastweek&accumulate=false&step=1d&aggregate=deployment", 7, "Kubecost's prefix"),
    ("/model/allocation/compute?window=lastmonth&aggregate=service", 1, "the alias behind the prefix"),
    ("/allocation?window=month&filterNamespaces=redlab,bluelab&aggregate=node", 1, "older filters"),
    ('/allocation?window=month&filter=namespace:"redlab"%2Bcluster:"c1"', 1, "filters"),
    ("/allocation?window=10d&accumulateBy=week&aggregate=namespace", 2, "weeks"),
]
MONTH = "2026-11-01T00:00:00Z,2026-12-01T00:00:00Z"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    made = open_api(None)
    fill(made.service)
    yield made
    made.service.stop()


@pytest.mark.parametrize(("path", "sets"), [e[:2] for e in EXAMPLES], ids=[e[2] for e in EXAMPLES])
def test_the_requests_of_the_documentation(api: Api, path: str, sets: int) -> None:
    answer = api.get(path)

    assert 200 == answer.status_code, answer.text
    assert {"code": 200, "status": "success"} == {k: v for k, v in answer.json().items() if k in ("code", "status")}
    assert sets == len(answer.json()["data"])


def test_sums_of_a_month(api: Api) -> None:
    """Three GPUs for six hours at 2.00 an hour."""
    data = api.get(f"/allocation?window={MONTH}&aggregate=namespace&includeIdle=true").json()["data"][0]
    line = api.get(f"/allocation/summary/topline?window={MONTH}&idle=true").json()["data"]

    assert 36.0 == pytest.approx(sum(row["totalCost"] for row in data.values()), abs=5e-5)
    assert 36.0 == line["combined"]["allocations"]["total"]["totalCost"]


@pytest.mark.parametrize("path", ["/allocation/summary", "/allocation/compute/summary", "/model/allocation/summary"])
def test_summaries(api: Api, path: str) -> None:
    data = api.get(f"{path}?window={MONTH}&aggregate=cluster").json()["data"]

    assert {"c1"} == set(data["sets"][0]["allocations"])
    assert {"start": "2026-11-01T00:00:00Z", "end": "2026-12-01T00:00:00Z"} == data["window"]


BAD = [
    ("/allocation", "a window is required"),
    ("/allocation?window=bogus", "a window that is none"),
    ("/allocation?window=7d&step=1s", "a step that is too short"),
    ("/allocation?window=7d&filter=namespace:x", "a filter that cannot be read"),
    ("/allocation?window=7d&includeProportionalAssetResourceCosts=true", "parts of nothing"),
    ("/allocation?window=7d&format=pdf", "a format that is none"),
    ("/allocation/summary?window=7d&limit=-1", "a limit below zero"),
    ("/allocation?window=7d&aggregate=namespce", "a property that nobody knows"),
]


@pytest.mark.parametrize("path", [b[0] for b in BAD], ids=[b[1] for b in BAD])
def test_errors_are_opencosts(api: Api, path: str) -> None:
    answer = api.get(path)

    assert (400, 400) == (answer.status_code, answer.json()["code"])
    assert answer.json()["message"].startswith("Error: ")


def test_a_misspelt_parameter_is_reported(api: Api) -> None:
    """In our own shape: OpenCost would pass over it, and show everything."""
    answer = api.get("/allocation?window=7d&filterNamespace=a")

    assert (400, "filterNamespace") == (answer.status_code, answer.json()["error"]["field"])
    assert (400, True) == (answer.json()["code"], answer.json()["message"].startswith("Error: filterNamespace"))


def test_a_slice_pays_its_share(api: Api) -> None:
    """A seventh of a GPU for two hours at 2.00."""
    row = api.get(f"/allocation?window={MONTH}&aggregate=namespace").json()["data"][0]["redlab"]
    ours = row["x_gpuwatch"]

    assert (0.57143, 0.14286, True) == (row["totalCost"], row["gpuCount"], row["gpuAllocation"]["isGPUShared"])
    assert ("1g.10gb", ["GPU-mig/GI-3"]) == (ours["migProfile"], ours["gpuUUIDs"])


def test_a_file_for_spreadsheets(api: Api) -> None:
    answer = api.get(f"/allocation?window={MONTH}&aggregate=controller&format=csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))

    assert "text/csv; charset=utf-8" == answer.headers["content-type"]
    assert {"12.0", "1.14286"} == {row["TotalCost"] for row in rows}


def test_a_client_of_opencost_reads_it(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own request, its own reading of the answer; only the wire between is the test's."""
    sources = pytest.importorskip("unalloc.sources.opencost", reason="pip install unalloc: a reader of OpenCost's API")
    asked: list[tuple[str, dict[str, Any]]] = []

    def get(_: object, path: str, params: dict[str, Any]) -> Any:
        asked.append((path, params))
        answer = api.get(path, params=params)
        assert 200 == answer.status_code, answer.text
        return answer.json()

    monkeypatch.setattr(sources.OpenCostSource, "_get", get)
    rows = sources.OpenCostSource(base_url="http://x").fetch(
        datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 8, tzinfo=UTC)
    )

    assert "/allocation" == asked[0][0]
    assert Decimal(36) == sum((row.amount_usd for row in rows), Decimal(0)).quantize(Decimal("0.001"))
    named = {row.name: row for row in rows}
    job = next(row for name, row in named.items() if name.endswith("slurmjob:9001/redacct"))
    assert (Decimal("12.0"), Decimal("6.0"), "redacct") == (job.amount_usd, job.quantity, job.labels["team"])
    assert "__idle__" in named


def test_teams_see_their_own(api: Api) -> None:
    """Last: from the first token on, everybody needs one."""
    token = api.token("read", "red")
    for path in ("/allocation", "/model/allocation", "/allocation/summary"):
        answer = api.get(f"{path}?window={MONTH}&includeIdle=true&includeAggregatedMetadata=true", token=token)
        assert 200 == answer.status_code
        assert [] == [word for word in (*BLUE_WORDS, "__idle__") if word in answer.text.lower()]
        assert "redlab" in answer.text
    assert [401, 401] == [(answer := api.get(f"/allocation?window={MONTH}")).status_code, answer.json()["code"]]
    assert 403 == api.get(f"/allocation?window={MONTH}", token=api.token("ingest")).status_code
