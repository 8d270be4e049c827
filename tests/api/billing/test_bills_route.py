"""GET /api/v1/reconcile: for readers of the whole fleet, a page at a time."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from gpuwatch.core.bill import BILL, BILL_FILE
from gpuwatch.core.model import Records
from tests.worlds.api import Api
from tests.worlds.world import T0_US

DAY_US = 86_400_000_000
WINDOW = "2026-11-02T00:00:00Z,2026-11-04T00:00:00Z"
SUMS = ("untracked", "unbilled", "price", "boundaries", "discounts", "taxes", "commitments", "not_gpu", "no_rate")


@pytest.fixture(scope="module", autouse=True)
def billed(filled: Api) -> None:
    """A bill of rednode and a tax, besides what the API's world has."""
    same = {"file_id": 1, "part": 0, "line_key": 0, "provider": "aws", "account": "p", "billing_start_us": T0_US}
    same |= {"start_us": T0_US, "end_us": T0_US + DAY_US, "currency": "USD", "pricing": "Standard"}
    gpu = {
        "line": 1,
        "category": "Usage",
        "resource": "rednode",
        "quantity": Decimal(6),
        "unit": "Hours",
        "gpu_count": 1,
    }
    rows = [
        same | gpu | {"billed_cost": Decimal(18)},
        same | {"line": 2, "category": "Tax", "billed_cost": Decimal("1.5")},
    ]
    file = {"file_id": 1, "kind": "bill-focus", "name": "b", "assembly": "b", "scope": "days", "records": 2}
    with filled.service.store.transaction():
        filled.service.store.append(Records("bill", pa.Table.from_pylist(rows, schema=BILL)))
        filled.service.store.append(Records("bill_file", pa.Table.from_pylist([file], schema=BILL_FILE)))


def ask(filled: Api, token: str | None = None, **words: str | int) -> dict[str, object]:
    reply = filled.get("/api/v1/reconcile", token=token or filled.token("read"), params={"window": WINDOW, **words})
    assert 200 == reply.status_code, reply.text
    found: dict[str, object] = reply.json()
    return found


def test_a_token_of_a_team_sees_no_bill(filled: Api) -> None:
    assert 403 == filled.get("/api/v1/reconcile", token=filled.token("read", "red")).status_code
    assert 403 == filled.get("/api/v1/reconcile", token=filled.token("ingest")).status_code


def test_parts_of_every_row_add_up(filled: Api) -> None:
    found = ask(filled, by="node")
    rows = found["items"] + found["totals"]  # type: ignore[operator]

    assert [row["difference"] for row in rows] == [
        str(sum((Decimal(row[name]) for name in (*SUMS, "not_convertible", "unexplained")), Decimal("0.00")))
        for row in rows
    ]
    assert {"taxes": "1.50", "price": "6.00"} == {name: found["totals"][0][name] for name in ("taxes", "price")}  # type: ignore[index]


def test_a_price_to_correct_is_reported(filled: Api) -> None:
    (entry,) = ask(filled)["suggestions"]  # type: ignore[misc]

    assert ("3.00", "2.00", "on_demand") == (entry["bill_per_gpu_hour"], entry["card_per_gpu_hour"], entry["pricing"])


def test_an_unknown_provider_is_refused(filled: Api) -> None:
    reply = filled.get("/api/v1/reconcile", token=filled.token("read"), params={"window": WINDOW, "provider": "awss"})

    assert (400, "provider") == (reply.status_code, reply.json()["error"]["field"])


def test_pages_add_up_to_the_whole(filled: Api) -> None:
    token = filled.token("read")
    whole = ask(filled, token, by="node")["items"]
    items, cursor = [], None
    for _ in range(20):
        page = ask(filled, token, by="node", limit=1, **({"cursor": cursor} if cursor else {}))  # type: ignore[arg-type]
        items += page["items"]  # type: ignore[operator]
        cursor = page["next"]
        if cursor is None:
            break

    assert whole == items


def test_a_file_is_whole(filled: Api) -> None:
    reply = filled.get("/api/v1/reconcile", token=filled.token("admin"), params={"window": WINDOW, "format": "csv"})

    assert ("text/csv", 200) == (reply.headers["content-type"].split(";")[0], reply.status_code)
    assert reply.text.startswith("day,provider,cluster,currency,bill,gpuwatch,difference,")
