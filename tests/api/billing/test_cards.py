"""Rates and teams over the API: read, replaced whole, every bad row named, audited, priced anew."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.node_split import COLUMNS
from gpuwatch.state import State
from tests.worlds.api import Api

RATE = {
    "gpu_model": "H100",
    "pricing": "owned",
    "usd_per_gpu_hour": "2.50",
    "valid_from": "2026-01-01T00:00:00Z",
    "valid_to": None,
    "cluster": None,
    "pool": None,
    "mig_profile": None,
    "currency": "USD",
    "quantity": None,
    "commitment_id": None,
    "sku": None,
    "list_price": None,
    "contracted_price": None,
    **dict.fromkeys(COLUMNS),
    "assume_spot": False,
}
RESERVED = RATE | {"pricing": "reserved", "quantity": 8, "commitment_id": "ri-1", "sku": "h100-1y", "list_price": "4"}
CSV = {"Content-Type": "text/csv"}
HEADER = "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to\n"


def put(api: Api, path: str, **more: Any) -> tuple[int, Any]:
    """(status, answer) of a PUT."""
    answer = api.request("PUT", f"/api/v1/{path}", **more)
    return answer.status_code, answer.json()


def test_rates_come_back_as_they_were_sent(api: Api) -> None:
    """And the second time nothing changes."""
    first = put(api, "rates", json={"items": [RATE]})
    second = put(api, "rates", json={"items": [RATE]})

    assert (200, {"changed": True, "version": 1, "rows": 1, "warnings": []}) == first
    assert (200, {"changed": False, "version": 1, "rows": 1, "warnings": []}) == second
    assert {"items": [RATE | {"usd_per_gpu_hour": "2.5"}], "version": 1, "next": None} == api.get(
        "/api/v1/rates"
    ).json()


def test_a_commitment_comes_back_as_it_was_sent(api: Api) -> None:
    """With everything that few rates have."""
    put(api, "rates", json={"items": [RESERVED]})

    assert [RESERVED | {"usd_per_gpu_hour": "2.5"}] == api.get("/api/v1/rates").json()["items"]


def test_rates_may_be_the_file(api: Api) -> None:
    """The columns of rates.csv."""
    status, answer = put(api, "rates", content=f"{HEADER}H100,spot,1.25,2026-01-01T00:00:00Z,\n", headers=CSV)

    assert (200, 1) == (status, answer["rows"])
    assert ["1.25"] == [row["usd_per_gpu_hour"] for row in api.get("/api/v1/rates").json()["items"]]


@pytest.mark.parametrize(
    ("path", "more", "words"),
    [
        pytest.param("rates", {"json": {"items": [RATE, RATE]}}, ["valid at once"], id="two rates at once"),
        pytest.param(
            "rates",
            {"json": {"items": [RATE, RATE | {"valid_from": "soon"}, RATE | {"mig_profile": "huge"}]}},
            ["items.1: valid_from", "items.2: mig_profile"],
            id="two bad rows, both named",
        ),
        pytest.param(
            "rates",
            {"content": f"{HEADER}H100,free,1,2026-01-01,\nH100,spot,x,2026-01-01,\nH100,spot,1,2026-01-01,\n", "headers": CSV},
            ["line 2: pricing", "line 3: usd_per_gpu_hour"],
            id="two bad lines, both named",
        ),
        pytest.param(
            "rates",
            {"content": f"{HEADER}H100,free,1,2026-01-01,\nA100,free,1,2026-01-01,\n", "headers": CSV},
            ["line 2: pricing", "line 3: pricing"],
            id="the same mistake twice, both named",
        ),
        pytest.param("rates", {"content": "model\nx\n", "headers": CSV}, ["no column"], id="another file"),
        pytest.param(
            "rates", {"json": {"items": [RATE | {"usd_per_gpu_hour": "-1"}]}}, ["usd_per_gpu_hour"], id="a negative price"
        ),
        pytest.param(
            "rates", {"json": {"items": [RATE | {"usd_per_gpu_hour": 2.5}]}}, ["usd_per_gpu_hour"], id="a float is no money"
        ),
        pytest.param(
            "rates",
            {"content": f"{HEADER.strip()},currency\nH100,spot,1,2026-01-01,,USD\nA100,spot,1,2026-01-01,,\n", "headers": CSV},
            ["line 3: currency is empty"],
            id="a currency column with an empty cell",
        ),
        pytest.param("rates", {"json": {"items": [RATE | {"currency": None}]}}, ["currency"], id="no currency in JSON"),
        pytest.param(
            "rates", {"json": {"items": [RATE | {"quantity": 4}]}}, ["items.0: quantity is for"], id="a quantity that is not reserved"
        ),
        pytest.param(
            "rates",
            {"json": {"items": [RATE, RATE | {"gpu_model": "A30", "mig_profile": "1g.10gb"}]}},
            ["items.1: mig_profile is none of this model"],
            id="a profile that the model has not",
        ),
        pytest.param(
            "rates",
            {"content": f"{HEADER}H100,spot,1,2026-01-01,\nH100,spot,1,2026-02-01,\n", "headers": CSV},
            ["line 3: validity overlaps", "line 3 overlaps line 2"],
            id="two lines at once, both named",
        ),
        pytest.param(
            "teams",
            {"content": "match_kind,match,team\nuser,a*,x\nuser,ab*,y\n", "headers": CSV},
            ["line 3: an earlier line gives all", "after line 2"],
            id="a rule that can never decide",
        ),
        pytest.param(
            "teams",
            {"json": {"items": [{"match_kind": "user", "match": m, "team": m[:1]} for m in ("*", "b")]}},
            ["items.1: items.0 gives all that this one matches"],
            id="a rule that can never decide, in JSON",
        ),
        pytest.param(
            "rates",
            {"json": {"items": [RATE | {"valid_to": "2026-01-01T00:00:00Z"}]}},
            ["items.0: valid_to"],
            id="an end that is no later",
        ),
        pytest.param(
            "teams",
            {"json": {"items": [{"match_kind": "colour", "match": "x", "team": "y"}]}},
            ["items.0: match_kind"],
            id="no such kind",
        ),
        pytest.param(
            "teams",
            {"json": {"items": [{"match_kind": "user", "match": "x", "team": t} for t in ("a", "b")]}},
            ["items.1", "items.0"],
            id="one user in two teams",
        ),
        pytest.param(
            "teams",
            {"json": {"items": [{"match_kind": "user", "match": "x", "team": "a"}] * 2}},
            ["items.1: items.0 is the same rule"],
            id="one rule twice",
        ),
        pytest.param(
            "teams",
            {"content": "match_kind,match,team\nuser,x,__platform__\n", "headers": CSV},
            ["line 2: team begins with __"],
            id="a name of the ledger's own",
        ),
    ],
)  # fmt: skip
def test_a_bad_row_changes_nothing(api: Api, path: str, more: dict[str, Any], words: list[str]) -> None:
    """All or nothing, and every bad row is named."""
    status, answer = put(api, path, **more)

    assert 400 == status
    assert [] == [word for word in words if word not in answer["error"]["message"]]
    assert 0 == api.service.state.card_version(path)


def test_the_order_of_teams_is_kept(api: Api) -> None:
    """It decides."""
    items = [{"match_kind": "user", "match": f"u{n}*", "team": f"t{n}"} for n in (3, 1, 2)]
    put(api, "teams", json={"items": items})

    assert items == api.get("/api/v1/teams").json()["items"]


def test_a_token_of_a_team_sees_its_rules(api: Api) -> None:
    """And prices, which are nobody's use."""
    put(api, "teams", json={"items": [{"match_kind": "user", "match": t, "team": t} for t in ("red", "blue")]})
    text = api.token("read", "red")

    assert ["red"] == [row["team"] for row in api.get("/api/v1/teams", token=text).json()["items"]]


def test_a_change_is_audited_under_the_name_of_the_token(api: Api) -> None:
    """Who, what, when."""
    put(api, "rates", json={"items": [RATE]}, token=api.token("admin", name="finops"))
    entry = api.service.state.audit(1)[0]

    assert ("finops", "rates replaced", api.service.now_us()) == (entry.actor, entry.what, entry.at_us)


def test_charges_are_priced_again(filled: Api) -> None:
    """At once: the next answer has the new price."""

    def total() -> str:
        return str(filled.get("/api/v1/chargeback?window=2026-W45").json()["total"]["cost"])

    before = total()
    put(filled, "rates", json={"items": [RATE | {"usd_per_gpu_hour": "4"}]})

    assert ("36.00", "72.00") == (before, total())


def test_pages_of_a_card(api: Api) -> None:
    """One after another they are the whole; a page of an older version is refused."""
    items = [{"match_kind": "user", "match": f"u{n}", "team": "t"} for n in range(5)]
    put(api, "teams", json={"items": items})
    seen: list[Any] = []
    path: str | None = "/api/v1/teams?limit=2"
    cursors = []
    while path:
        answer = api.get(path).json()
        seen += answer["items"]
        cursors.append(answer["next"])
        path = answer["next"] and f"/api/v1/teams?limit=2&cursor={answer['next']}"
    put(api, "teams", json={"items": items[1:]})

    assert items == seen
    assert 400 == api.get(f"/api/v1/teams?limit=2&cursor={cursors[0]}").status_code


def test_a_state_that_cannot_be_reached(bare: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 and come back."""
    from gpuwatch.core.errors import StoreError

    def gone(self: State) -> None:
        raise StoreError("state: disk is gone")

    monkeypatch.setattr("gpuwatch.api.routes.billing.rates.load_rates", gone)

    assert 503 == bare.get("/api/v1/rates").status_code


def test_a_rate_for_a_model_that_is_not_there_is_kept_with_a_warning(books: Api) -> None:
    """Hardware comes later than its price."""
    status, answer = put(books, "rates", json={"items": [RATE, RATE | {"gpu_model": "B300"}]})

    assert (200, True, 2) == (status, answer["changed"], answer["rows"])
    assert ["line 2: the fleet has no 'B300'"] == [text.partition(",")[0] for text in answer["warnings"]]
    assert "NVIDIA H100 80GB HBM3" in answer["warnings"][0]


def test_a_model_that_loses_its_price_is_named(books: Api) -> None:
    status, answer = put(books, "rates", json={"items": [RATE | {"gpu_model": "B300"}]})
    again, complete = put(books, "rates", json={"items": [RATE]})

    lost = "no rate prices 'NVIDIA H100 80GB HBM3': its GPU-hours have no cost; add a line for it, or one for *"
    assert (200, lost) == (status, answer["warnings"][-1])
    assert (200, []) == (again, complete["warnings"])


def test_a_rule_that_matches_no_run_is_reported(books: Api) -> None:
    """It may be for a run to come."""
    rules = [("user", "ursala", "red"), ("user", "urs*", "red"), ("user", "*", "rest")]
    lines = ["match_kind,match,team", *(",".join(rule) for rule in rules)]
    status, answer = put(books, "teams", content="\n".join(lines), headers=CSV)
    check = next(c for c in books.get("/api/v1/quality").json()["checks"] if c["id"] == "rules")

    assert 200 == status
    assert ["line 2: user,ursala,red matches no run: check its spelling (case matters)"] == answer["warnings"]
    assert ("warn", True) == (check["status"], all(text in check["what"] for text in answer["warnings"]))


CROSSING = [("user", "urs*", "red"), ("user", "*ula", "blue"), ("user", "*", "rest")]


@pytest.mark.parametrize(
    ("refused", "before"),
    [
        pytest.param(False, [("user", "ursula", "blue")], id="a rule for the very name comes first"),
        pytest.param(False, [("user", "urs*ula", "blue")], id="a rule for what both match comes first"),
        pytest.param(True, [], id="a run's user is matched two ways"),
    ],
)
def test_two_rules_that_give_one_name_to_two_teams_are_refused(
    books: Api, refused: bool, before: list[tuple[str, str, str]]
) -> None:
    rules = [dict(zip(("match_kind", "match", "team"), rule, strict=True)) for rule in (*before, *CROSSING)]
    kept = books.get("/api/v1/teams").json()
    for more, row, by in (
        ({"json": {"items": rules}}, "items.1", "items.0"),
        ({"content": "\n".join(["match_kind,match,team", *(",".join(r.values()) for r in rules)]), "headers": CSV},
         "line 3", "line 2"),
    ):  # fmt: skip
        status, answer = put(books, "teams", **more)

        assert (400 if refused else 200) == status
        if refused:
            line = f"{row}: user 'ursula' is matched two ways, also by {by} (urs* to red); put a rule for what both"
            assert line in answer["error"]["message"]
            assert kept == books.get("/api/v1/teams").json()


def test_doctor_tells_what_a_bundle_matches_two_ways(books: Api) -> None:
    """A bundle is read before its runs are known: its rules decide in their order."""
    replace_team_rules(books.service.state, [TeamRule(*rule) for rule in CROSSING], "test", "teams.csv", 1)
    check = next(c for c in books.get("/api/v1/quality").json()["checks"] if c["id"] == "rules")

    assert "user 'ursula' matches two rules: (urs* to red), which decides, and (*ula to blue)" in check["what"]


def test_the_api_warns_of_a_team_that_nobody_names(api: Api) -> None:
    replace_team_rules(api.service.state, [TeamRule("account", "v", "vision")], "test", "test", 0)
    budgets = [{"team": team, "period": "month", "amount": "5", "currency": "USD"} for team in ("vison", "vision")]
    recipients = [{"team": team, "to": ["ann@example.com"]} for team in ("vison", "*")]
    for path, items in (("budgets", budgets), ("recipients", recipients)):
        answer = api.request("PUT", f"/api/v1/{path}", json={"items": items})
        assert ["no run or rule names team 'vison'; known: vision"] == answer.json()["warnings"], path
        assert 2 == answer.json()["rows"]


def test_a_token_of_a_team_sees_its_own_team_only(filled: Api) -> None:
    token = filled.token("read", "red")
    admin = filled.service.local_secret
    assert ["red"] == filled.get("/api/v1/teams?known=true", token=token).json()["known"]
    assert {"red", "blue"} <= set(filled.get("/api/v1/teams?known=true", token=admin).json()["known"])
    assert filled.get("/api/v1/teams", token=admin).json()["known"] is None
