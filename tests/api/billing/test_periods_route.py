"""Periods over the API: frozen once, corrected later, opened with a reason; each team sees its own rows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from hashlib import sha256

import pytest

from gpuwatch.billing.periods.repository import FINE, Closing
from gpuwatch.billing.periods.view import forced_why
from gpuwatch.core.clock import Window
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from tests.worlds.api import Api
from tests.worlds.patience import PATIENCE_S
from tests.worlds.world import HOUR, Gpu, batch, minutes, samples, us

pytestmark = pytest.mark.both_engines

PERIODS = "/api/v1/periods"
W45 = {"period": "2026-W45", "force": True}
"""The books have six hours of it."""


def test_a_period_is_not_frozen_at_prices_that_are_out_of_date(books: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an analysis holds the books nothing can be priced: the sender is told to come back."""
    monkeypatch.setattr("gpuwatch.service.service.REPRICE_WAIT_S", 0.01)
    body = W45
    with books.service._analyzer._writing:
        early = books.request("POST", PERIODS, json=body)

    assert (503, "2", 201) == (
        early.status_code,
        early.headers["retry-after"],
        books.request("POST", PERIODS, json=body).status_code,
    )


def test_a_period_with_samples_that_no_analysis_has_seen_is_not_frozen(books: Api) -> None:
    """They arrived a moment ago: the books do not have them yet."""
    for late in batch(samples(Gpu("GPU-red", "rednode"), minutes(7 * HOUR, 7 * HOUR + 60))):
        books.service.submit("late", [late]).result(PATIENCE_S)
    early = books.request("POST", PERIODS, json=W45)

    assert (409, "conflict") == (early.status_code, early.json()["error"]["code"])


def test_a_closed_week_is_the_chargeback_of_it(books: Api) -> None:
    """To the cent, with nothing to correct."""
    answer = books.request("POST", PERIODS, json=W45)
    closed = answer.json()
    total = books.get("/api/v1/chargeback?window=2026-W45").json()["total"]

    assert (201, total["gpu_seconds"], total["cost"], "USD", "loopback", []) == (
        answer.status_code,
        closed["gpu_seconds"],
        closed["cost"],
        closed["currency"],
        closed["closed_by"],
        closed["corrections"],
    )
    assert {"start": "2026-11-02T00:00:00Z", "end": "2026-11-09T00:00:00Z"} == closed["window"]
    assert [closed] == books.get(PERIODS).json()["items"]


def test_what_can_be_closed(books: Api) -> None:
    """Finished, and not yet closed."""
    cases = {
        "the week that runs": ("2026-W46", 409),
        "the month that runs": ("2026-11", 409),
        "a week to come": ("2027-W01", 409),
        "closed already": ("2026-W45", 409),
        "no such week": ("2026-W54", 400),
        "a window that is no period": ("7d", 400),
        "a month that touches no closed week": ("2026-10", 201),
    }
    books.request("POST", PERIODS, json=W45)

    assert {name: status for name, (_, status) in cases.items()} == {
        name: books.request("POST", PERIODS, json={"period": period, "force": True}).status_code
        for name, (period, _) in cases.items()
    }


def test_an_overlap_is_refused(books: Api) -> None:
    """A month that shares days with a closed week would bill them twice."""
    books.request("POST", PERIODS, json={"period": "2026-W44", "force": True})
    answer = books.request("POST", PERIODS, json={"period": "2026-10", "force": True})

    assert (409, True) == (answer.status_code, "overlaps 2026-W44" in answer.json()["error"]["message"])


def test_hours_that_are_not_booked_cannot_be_closed(books: Api) -> None:
    """The analysis comes first."""
    books.service.store.sql("insert into dirty_hour (cluster, hour_us) values ('c1', $hour)", hour=us(0))

    assert 409 == books.request("POST", PERIODS, json=W45).status_code


def repriced(books: Api, price: str) -> None:
    """Another price of every H100, and the pass of the analyzer that follows."""
    replace_rates(books.service.state, [Rate("H100", "owned", Decimal(price), us(0))], "test", "test", us(0))
    books.service.analyse_once()


def test_what_changes_later_is_a_correction(books: Api) -> None:
    """The frozen rows and their digest stay; it is billed when it was found."""
    before = books.request("POST", PERIODS, json=W45).json()
    repriced(books, "3.00")
    after = books.get(PERIODS).json()["items"][0]
    answer = books.get("/api/v1/periods/2026-W45?of=corrections").json()

    assert (before["digest"], before["rows"], "36.00") == (after["digest"], after["rows"], after["cost"])
    assert Decimal("18.00") == sum((Decimal(r["cost"]) for r in after["corrections"]), Decimal(0))
    assert {Decimal(0)} == {Decimal(r["gpu_seconds"]) for r in after["corrections"]}
    assert Decimal("18.00") == sum((Decimal(line["cost"]) for line in answer["items"]), Decimal(0))
    assert {("2026-11-10T00:00:00Z", 1)} == {(line["posted_at"], line["number"]) for line in answer["items"]}


def test_the_text_of_a_closing_has_its_digest(books: Api) -> None:
    """Whoever has the text can compute the digest."""
    closed = books.request("POST", PERIODS, json=W45).json()
    text = books.get("/api/v1/periods/2026-W45/content")

    assert closed["digest"] == sha256(text.content).hexdigest()
    assert 404 == books.get("/api/v1/periods/2026-W45/content?number=2").status_code


def test_rows_come_in_pages_and_add_up(books: Api) -> None:
    """With every word, exact."""
    closed = books.request("POST", PERIODS, json=W45).json()
    rows, cursor = [], ""
    for _ in range(20):
        page = books.get(f"/api/v1/periods/2026-W45?limit=2{cursor}").json()
        rows += page["items"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"

    assert Decimal(closed["gpu_seconds"]) == round(sum(Decimal(row["gpu_seconds"]) for row in rows), 6)
    assert {"9001", "9002"} <= {row["job"] for row in rows}
    assert {"ursula", "boris"} <= {row["user"] for row in rows}


def test_a_reopened_period_keeps_its_trail(books: Api) -> None:
    """Who, when and why; the closing that was stays listed, the next one has a number of its own."""
    first = books.request("POST", PERIODS, json=W45).json()
    signed = books.request("POST", "/api/v1/periods/2026-W45/sign", json={"name": "Ada", "note": "agreed"}).json()
    repriced(books, "3.00")
    opened = books.request("POST", "/api/v1/periods/2026-W45/reopen", json={"reason": "wrong rates"}).json()
    again = books.request("POST", PERIODS, json=W45).json()

    assert [("Ada", "agreed", first["digest"])] == [(s["signer"], s["note"], s["digest"]) for s in signed["signatures"]]
    assert ("reopened", "loopback", "wrong rates", []) == (
        opened["state"],
        opened["closings"][0]["reopened_by"],
        opened["closings"][0]["reason"],
        opened["corrections"],
    )
    assert [(2, None), (1, "wrong rates")] == [(c["number"], c["reason"]) for c in again["closings"]]
    assert (first["digest"], "54.00", []) == (again["closings"][1]["digest"], again["cost"], again["corrections"])


def test_what_is_asked_wrongly_changes_nothing(books: Api) -> None:
    """Each says what is wrong with it."""
    cases: dict[str, tuple[str, dict[str, str], int]] = {
        "never closed": ("2026-W45/reopen", {"reason": "x"}, 404),
        "no reason": ("2026-W44/reopen", {}, 400),
        "a blank reason": ("2026-W44/reopen", {"reason": "   "}, 400),
        "a field that is not known": ("2026-W44/sign", {"name": "Ada", "who": "x"}, 400),
        "the token's own name": ("2026-W44/sign", {"note": "fine"}, 200),
    }
    books.request("POST", PERIODS, json={"period": "2026-W44", "force": True})

    for name, (path, body, status) in cases.items():
        assert status == books.request("POST", f"/api/v1/periods/{path}", json=body).status_code, name
        assert "closed" == books.get("/api/v1/periods/2026-W44").json()["period"]["state"], name


def test_an_open_period_is_not_opened_or_signed(books: Api) -> None:
    """There is nothing that holds."""
    books.request("POST", PERIODS, json=W45)
    books.request("POST", "/api/v1/periods/2026-W45/reopen", json={"reason": "x"})

    assert [409, 409] == [
        books.request("POST", "/api/v1/periods/2026-W45/reopen", json={"reason": "x"}).status_code,
        books.request("POST", "/api/v1/periods/2026-W45/sign", json={"name": "Ada"}).status_code,
    ]


def test_a_team_sees_its_own_rows(books: Api) -> None:
    """And neither notes nor reasons, which may name others; the whole text is not for it."""
    books.request("POST", PERIODS, json=W45)
    books.request("POST", "/api/v1/periods/2026-W45/sign", json={"name": "Ada", "note": "blue agreed"})
    repriced(books, "3.00")
    red, whole = books.token("read", "red"), books.service.local_secret
    listed = books.get(PERIODS, token=red).json()["items"][0]
    fine = books.get("/api/v1/periods/2026-W45", token=red).json()
    lines = books.get("/api/v1/periods/2026-W45?of=corrections", token=red).json()
    every = books.get(PERIODS, token=whole).json()["items"][0]

    assert {"red"} == {row["team"] for part in ("rows", "corrections") for row in listed[part]}
    assert {"red"} == {row["team"] for row in fine["items"] + lines["items"]}
    assert Decimal(listed["cost"]) == sum(Decimal(r["cost"]) for r in every["rows"] if r["team"] == "red")
    assert [None] == [one["note"] for one in listed["signatures"]]
    assert 403 == books.get("/api/v1/periods/2026-W45/content", token=red).status_code


def test_every_change_is_in_the_audit_log(books: Api) -> None:
    """With the rows that were added and removed; the newest first, in pages."""
    repriced(books, "3.00")
    books.request("POST", PERIODS, json=W45)
    periods = books.get("/api/v1/audit?what=periods").json()["items"]
    first = books.get("/api/v1/audit?what=rates&limit=1").json()
    following = books.get(f"/api/v1/audit?what=rates&limit=1&cursor={first['next']}").json()
    change = first["items"][0]["difference"]

    assert ["period 2026-W45 closed"] == [entry["what"] for entry in periods]
    assert (1, 1, "3") == (change["added_count"], change["removed_count"], change["added"][0]["usd_per_gpu_hour"])
    assert (1, None) == (len(following["items"]), following["next"])
    assert first["items"][0]["id"] > following["items"][0]["id"]


def test_an_audit_question_that_is_wrong_is_refused(books: Api) -> None:
    """A misspelt filter would show everything."""
    queries = ("what=nothing", "since=yesterday", "cursor=x")

    assert [400] * 3 == [books.get(f"/api/v1/audit?{query}").status_code for query in queries]


def test_the_audit_log_is_for_admins(books: Api) -> None:
    """It names teams and people."""
    assert [403, 403] == [
        books.get("/api/v1/audit", token=books.token(scope, *teams)).status_code
        for scope, teams in (("read", ()), ("read", ("red",)))
    ]


def test_closing_is_audited(books: Api) -> None:
    """Under the name of who did it."""
    books.request("POST", PERIODS, json=W45, token=books.token("admin", name="finops"))
    entry = books.service.state.audit(1)[0]

    assert ("finops", "period 2026-W45 closed") == (entry.actor, entry.what)


def test_only_admins_close(books: Api) -> None:
    """And open, and sign."""
    token = books.token("read")
    assert [403] * 3 == [
        books.request("POST", PERIODS, json=W45, token=token).status_code,
        books.request("POST", f"{PERIODS}/2026-W45/reopen", json={"reason": "x"}, token=token).status_code,
        books.request("POST", f"{PERIODS}/2026-W45/sign", json={}, token=token).status_code,
    ]


def test_a_week_whose_books_have_holes_is_closed_only_by_force(books: Api) -> None:
    """It could not be undone: the refusal names the days."""
    answer = books.request("POST", PERIODS, json={"period": "2026-W45"})
    error = answer.json()["error"]

    assert (409, "conflict") == (answer.status_code, error["code"])
    assert "7 of its days: 2026-11-02, 2026-11-03" in error["message"]
    assert "force" in error["hint"]


def test_a_token_of_a_team_learns_that_a_closing_was_forced_without_amounts() -> None:
    """How much of others' time has no price is theirs."""
    context = {"forced": True, "days_without_books": 1, "missing_days": ["2026-11-03"], "unpriced_gpu_seconds": "7.5"}
    plain = Closing("2026-W45", 1, Window(0, 1), FINE, 0, "ann", "", {}, (), None, None, None)
    days = "1 day without a whole ledger: 2026-11-03"

    assert [
        None,
        "nothing was missing",
        f"{days}; 7.5 GPU-seconds without a price",
        f"{days}; time without a price",
    ] == [
        forced_why(plain),
        forced_why(replace(plain, context={"forced": True})),
        forced_why(replace(plain, context=context)),
        forced_why(replace(plain, context=context), ["red"]),
    ]
