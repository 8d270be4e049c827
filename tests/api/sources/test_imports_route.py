"""GET and DELETE /api/v1/imports, and the commands that use them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.billing.test_bills_import import bill, costs, post
from tests.worlds.api import Api


def listed(api: Api, token: str | None = None) -> Any:
    return api.get("/api/v1/imports", token=token or api.token("admin"))


def taken_back(api: Api, identity: object, token: str | None = None) -> Any:
    return api.request("DELETE", f"/api/v1/imports/{identity}", token=token or api.token("admin"))


def test_an_uploaded_bill_is_listed_and_taken_back(api: Api) -> None:
    post(api, bill("1", "2.5"))
    post(api, bill("7", day=3), name="other.csv")
    items = listed(api).json()["items"]

    assert [(2, "other.csv", 1), (1, "focus.csv", 2)] == [(i["id"], i["path"], i["records"]) for i in items]
    assert {"kind": "bill-focus", "cluster": "default", "timezone": None, "files": 1, "state": "complete"} == {
        name: items[1][name] for name in ("kind", "cluster", "timezone", "files", "state")
    }

    answer = taken_back(api, 1)

    assert (200, {"id": 1, "path": "focus.csv", "files": 1, "kept_files": 0, "records": 2}) == (
        answer.status_code,
        answer.json(),
    )
    assert (["7"], [2]) == (costs(api), [i["id"] for i in listed(api).json()["items"]])
    assert ["import 1 forgotten"] == [e.what for e in api.service.state.audit() if e.what.startswith("import")]


def test_what_was_taken_back_can_be_imported_again(api: Api) -> None:
    post(api, bill("1"))
    taken_back(api, 1)

    again = post(api, bill("1")).json()

    assert (1, 0) == (again["files"], again["repeated"])
    assert (["1"], [2]) == (costs(api), [i["id"] for i in listed(api).json()["items"]])


@pytest.mark.parametrize("identity", [7, 2**53])
def test_an_unknown_import_is_not_found(api: Api, identity: int) -> None:
    answer = taken_back(api, identity)

    assert (404, f"import {identity}: there is none with this id; gpuwatch imports lists them") == (
        answer.status_code,
        answer.json()["error"]["message"],
    )


@pytest.mark.parametrize("identity", ["0", "-1", "a", str(2**54)])
def test_an_id_that_cannot_be_is_refused(api: Api, identity: str) -> None:
    assert taken_back(api, identity).status_code in (400, 422)


@pytest.mark.parametrize("scope", ["read", "ingest"])
def test_only_an_admin_takes_an_import_back(api: Api, scope: str) -> None:
    post(api, bill("1"))

    assert 403 == taken_back(api, 1, api.token(scope)).status_code
    assert ["1"] == costs(api)


def test_a_token_bound_to_teams_sees_no_imports(api: Api) -> None:
    token = api.token("read", "ml")
    answer = listed(api, token)

    assert (403, "team_scope") == (answer.status_code, answer.json()["error"]["code"])
    assert 403 == taken_back(api, 1, token).status_code
