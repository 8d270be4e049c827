"""The audit log has every change of what money follows from, under the name of the token, and nothing that changed nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.worlds.api import Api

pytestmark = pytest.mark.both_engines

JSON = "application/json"
CSV = "text/csv"
POLICIES = {"policies": [{"name": "fair", "valid_from": "2026-11-02", "payers": {"idle": "proportional"}}]}
OTHER = {"policies": [{"name": "own", "valid_from": "2026-11-02"}]}
CHANGES = {
    "rates": (
        "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to\nH100,spot,{}.25,2026-01-01T00:00:00Z,\n",
        "rates",
        CSV,
    ),
    "teams": ("match_kind,match,team\nnamespace,vision,team{}\n", "teams", CSV),
    "fx": ("from,to,rate,valid_from\nEUR,USD,1.{},2026-01-01\n", "fx", CSV),
    "owned": (
        "name,gpu_model,gpus,capex,years,kw,price_per_kwh,valid_from\ndgx,H100,8,{}00000,4,10.2,0.12,2026-01-01\n",
        "owned",
        CSV,
    ),
    "budgets": ("team,period,amount,currency\nvision,month,{}00,USD\n", "budgets", CSV),
    "recipients": ('{{"items": [{{"team": "vision{}", "to": ["ann@example.com"]}}]}}', "recipients", JSON),
    "policies": ("", "policies", JSON),
}
"""What is put to a route, with a place for a number, and what the audit log calls it."""


def body(kind: str, number: int) -> str:
    if kind == "policies":
        return json.dumps(POLICIES if number == 1 else OTHER)
    return CHANGES[kind][0].format(number)


def put(api: Api, kind: str, number: int, token: str) -> bool:
    """Whether it changed anything."""
    more = {"content": body(kind, number), "headers": {"Content-Type": CHANGES[kind][2]}}
    answer = api.request("PUT", f"/api/v1/{kind}", token=token, **more)
    assert 200 == answer.status_code, answer.text
    return bool(answer.json()["changed"])


def entries(api: Api, token: str, what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/api/v1/audit?what={what}", token=token).json()["items"]
    return found


@pytest.mark.parametrize("kind", sorted(CHANGES))
def test_a_change_is_noted_once_and_one_that_changes_nothing_is_not(api: Api, kind: str) -> None:
    """With the token's name, the rows that came and went, and both versions."""
    ann, bob = (api.token("admin", name=name) for name in ("ann", "bob"))
    changed = [put(api, kind, 1, ann), put(api, kind, 1, bob), put(api, kind, 2, bob)]
    second, first = entries(api, ann, kind)

    assert [True, False, True] == changed
    assert [("ann", f"{kind} replaced"), ("bob", f"{kind} replaced")] == [
        (e["actor"], e["what"]) for e in (first, second)
    ]
    assert [None, 1, 2] == [first["before"], second["before"]["version"], second["after"]["version"]]
    assert 0 == first["difference"]["removed_count"] < first["difference"]["added_count"]
    assert second["difference"]["added"] != second["difference"]["removed"]


@pytest.mark.parametrize("kind", ["fx", "rates"])
def test_times_of_a_difference_are_rfc_3339(api: Api, kind: str) -> None:
    ann = api.token("admin", name="ann")
    put(api, kind, 1, ann)
    row = next(row for row in entries(api, ann, kind)[0]["difference"]["added"] if "valid_from" in row)

    assert ("2026-01-01T00:00:00Z", []) == (row["valid_from"], [name for name in row if name.endswith("_us")])


@pytest.mark.parametrize("kind", sorted(CHANGES))
def test_what_is_refused_is_not_noted(api: Api, kind: str) -> None:
    """A body that cannot be read changes nothing, and who may only read changes nothing."""
    admin, reader = api.token("admin"), api.token("read")
    headers = {"Content-Type": CHANGES[kind][2]}
    bad = api.request("PUT", f"/api/v1/{kind}", token=admin, content="nonsense", headers=headers)
    forbidden = api.request("PUT", f"/api/v1/{kind}", token=reader, content=body(kind, 1), headers=headers)

    assert (400, 403) == (bad.status_code, forbidden.status_code)
    assert [] == entries(api, admin, kind)


def test_the_same_budgets_from_elsewhere_are_no_change(api: Api) -> None:
    """The line on which a budget stood says nothing about it."""
    token = api.token("admin")
    rows = [{"team": "vision", "period": "month", "amount": "100", "currency": "USD"}]
    put(api, "budgets", 1, token)
    again = api.request("PUT", "/api/v1/budgets", token=token, json={"items": rows})

    assert False is again.json()["changed"]


def test_what_happens_to_a_period_is_noted(books: Api) -> None:
    """Closed, signed, opened again: who, and the reason."""
    token = books.token("admin", name="finops")
    sent = {"token": token, "headers": {}}
    books.request("POST", "/api/v1/periods", json={"period": "2026-W45", "force": True}, **sent)
    books.request("POST", "/api/v1/periods/2026-W45/sign", json={"name": "Ada", "note": "agreed"}, **sent)
    books.request("POST", "/api/v1/periods/2026-W45/reopen", json={"reason": "wrong rate"}, **sent)
    found = entries(books, token, "periods")

    assert ["reopened", "signed", "closed"] == [entry["what"].split()[-1] for entry in found]
    assert {"finops"} == {entry["actor"] for entry in found}
    assert "wrong rate" == found[0]["after"]["reason"]
