"""Pages that change what people set: who sees which controls, what a form sends, and where a mistake is shown."""

from __future__ import annotations

import asyncio
import tomllib
from typing import Any

import pytest
from dash.exceptions import PreventUpdate
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from gpuwatch.dashboards.client import Api, ApiFailure, Caller, Client, Row
from gpuwatch.dashboards.editing import dates, history, lists, preview, toml_text
from gpuwatch.dashboards.editing.outcome import Outcome, mistakes
from gpuwatch.dashboards.pages.setup import channel_form, threshold_form, tokens
from gpuwatch.dashboards.shell import forms
from tests.dashboards import fake_api, fake_setup
from tests.dashboards.fake_names import HOSTILE, NOW, at
from tests.dashboards.laid_out import asked, check_layout, links, shown, text

PAGES = (
    "/rates", "/rates?edit=add", "/rates?edit=change&row=1", "/rates?edit=end&row=2", "/rates?edit=remove&row=3",
    "/owned", "/owned?edit=add", "/owned?edit=change&row=0", "/owners", "/owners?edit=add", "/owners?edit=change&row=1",
    "/owners?edit=remove&row=0", "/budgets?edit=add", "/budgets?edit=change&row=0", "/periods?edit=close",
    "/periods/2026-W46?edit=sign", "/periods/2026-W46?edit=reopen", "/periods/2026-W44?edit=close", "/tokens",
    "/tokens?edit=add", "/tokens?edit=revoke&row=ab12", "/audit", "/audit?what=sign-ins&since=7", "/imports",
    "/imports?edit=forget&row=7", "/recipients", "/recipients?edit=add", "/recipients?edit=change&row=1", "/policies",
    "/policies?edit=change", "/detectors/idle-hoarding?edit=set",
)  # fmt: skip
LISTED = tuple(path for path in PAGES if "edit" not in path)
CONTROLS = (
    "New price",
    "End",
    "Remove",
    "Edit",
    "Add a rate",
    "Add hardware",
    "Add a rule",
    "Undo",
    "Close a period",
)


def as_reader() -> Api:
    """The fake API for a token with the scope read."""
    return Client(fake_api.create(tokens=True)).of(Caller(token=fake_api.READ))


@pytest.mark.parametrize("path", PAGES)
def test_a_page_lays_out_hostile_names(path: str) -> None:
    check_layout(shown(path))


@pytest.mark.parametrize("path", LISTED)
def test_a_page_without_rows_says_so(path: str) -> None:
    check_layout(shown(path, "empty"))


@pytest.mark.parametrize("path", ["/rates", "/owned", "/owners", "/imports", "/periods"])
def test_a_reader_sees_the_values_and_no_control(path: str) -> None:
    own, other = text(shown(path)), text(shown(path, source=as_reader()))

    assert any(word in own for word in CONTROLS)
    assert [] == [word for word in CONTROLS if f" {word} " in f" {other} "]
    assert "Changes" not in other


def test_a_form_is_not_shown_to_a_reader() -> None:
    for path in ("/rates?edit=add", "/owners?edit=add", "/periods?edit=close", "/imports?edit=forget&row=7"):
        assert "Cancel" not in text(shown(path, source=as_reader()))


def test_a_past_rate_has_no_control_and_a_future_one_may_go() -> None:
    found = links(shown("/rates"))

    assert [] == [href for href in found if "row=0" in href]
    assert ["/ui/rates?edit=change&row=1", "/ui/rates?edit=end&row=1"] == [href for href in found if "row=1" in href]
    assert ["/ui/rates?edit=remove&row=3"] == [href for href in found if "row=3" in href]


def recorded(status: int = 200, answer: Row | None = None) -> tuple[Api, list[Any]]:
    """The fake lists, and what is written to them: (method, path, body, If-Match)."""
    app, seen = FastAPI(openapi_url=None), list[Any]()

    @app.api_route("/api/v1/{path:path}", methods=["GET", "PUT", "POST", "DELETE"])
    async def any_route(path: str, request: Request) -> Any:
        if request.method == "GET":
            return {"items": fake_setup.LISTS[path], "version": 3, "next": None, "at": NOW.isoformat()}
        body = await request.body()
        seen.append((request.method, path, (await request.json()) if body else None, request.headers.get("if-match")))
        return JSONResponse(answer or {"changed": True, "warnings": []}, status)

    return Client(app).of(Caller()), seen


def pressed(api: Api, path: str, action: str, **values: str) -> Outcome:
    """What a button of the page's form does."""
    found = {"version": "3", "now": "2026-11-20T23:59:59Z", "past": "no"} | values
    return asyncio.run(forms.outcome(api, asked(path), action, found))


def test_a_new_price_ends_the_present_rate_where_it_begins() -> None:
    api, seen = recorded()
    done = pressed(api, "/rates?edit=change&row=1", "save", usd_per_gpu_hour="1.9", valid_from="2026-12-01")
    ((method, path, body, tag),) = seen
    start = "2026-12-01T00:00:00Z"

    assert ("PUT", "rates", '"3"', "The rate card is changed.") == (method, path, tag, done.message)
    assert fake_setup.RATES[0] == body["items"][0]
    assert ("2.1", start) == (body["items"][1]["usd_per_gpu_hour"], body["items"][1]["valid_to"])
    assert ("1.9", start, None) == tuple(body["items"][2][n] for n in ("usd_per_gpu_hour", "valid_from", "valid_to"))
    assert fake_setup.RATES[2:] == body["items"][3:]


@pytest.mark.parametrize(
    ("path", "values", "field"),
    [
        pytest.param(
            "/rates?edit=change&row=1", {"valid_from": "2026-11-20"}, "valid_from", id="a new price in the past"
        ),
        pytest.param(
            "/rates?edit=end&row=1", {"valid_to": "2026-01-02T00:00:00Z"}, "valid_to", id="an end in the past"
        ),
        pytest.param("/rates?edit=add", {"valid_from": "2020-01-01"}, "valid_from", id="a new rate in the past"),
    ],
)
def test_the_past_is_not_changed_without_consent(path: str, values: dict[str, str], field: str) -> None:
    api, seen = recorded()

    assert [field] == list(pressed(api, path, "save", **values).wrong)
    assert [] == seen
    assert {} == pressed(api, path, "save", **values, past="yes").wrong
    assert 1 == len(seen)


def test_hardware_is_sent_without_what_the_api_computes() -> None:
    api, seen = recorded()
    pressed(api, "/owned?edit=end&row=0", "save", valid_to="2027-01-01")

    assert "2027-01-01T00:00:00Z" == seen[0][2]["items"][0]["valid_to"]
    assert not {"formula", "usd_per_gpu_hour"} & seen[0][2]["items"][0].keys()


def test_a_rule_goes_to_its_place_in_the_list() -> None:
    api, seen = recorded()
    pressed(api, "/owners?edit=change&row=1", "save", match_kind="label", key="cc", match="7", team="a", place="1")
    pressed(api, "/owners?edit=add", "save", match_kind="user", match="ann", team="a", place="99")

    assert [{"match_kind": "label:cc", "match": "7", "team": "a"}, fake_setup.RULES[0]] == seen[0][2]["items"]
    assert {"match_kind": "user", "match": "ann", "team": "a"} == seen[1][2]["items"][-1]


def test_a_preview_writes_nothing() -> None:
    """It asks what would be; the answer names closed periods."""
    answer = {"items": [], "window": {"start": fake_setup.BEGAN, "end": fake_setup.ENDED}, "closed": ["2025-12"]}
    api, seen = recorded(answer=answer)
    pressed(api, "/rates?edit=end&row=1", "preview", valid_to="2026-01-01")
    row = {"team": "a", "now": "10", "then": "12.5", "difference": "2.5", "currency": "USD"}
    page_text = text(preview.drawn(answer | {"items": [row, row | {"team": "b", "then": "10", "difference": "0"}]}))

    assert [("POST", "rates/what-if")] == [entry[:2] for entry in seen]
    assert "1 of 2 teams would have paid another amount" in page_text
    assert "2025-12 is closed: the bill stays, and the difference is posted as a correction." in page_text
    assert "b" not in page_text.split()
    assert "All together $20.00 $22.50 +$2.50 +12 %" in " ".join(page_text.split())


def test_a_preview_counts_teams_and_adds_up_one_currency() -> None:
    """The platform is no team; an unknown amount has no sum."""
    row = {"team": "a", "now": "0", "then": "2.5", "difference": "2.5", "currency": "USD"}
    rest = row | {"team": "__platform__", "now": "10", "then": "8", "difference": "-2"}
    answer = {"items": [row, rest], "window": {"start": fake_setup.BEGAN, "end": fake_setup.ENDED}}
    page_text = " ".join(text(preview.drawn(answer)).split())

    assert "1 of 1 teams would have paid another amount" in page_text
    assert "a $0 $2.50 +$2.50 –" in page_text
    assert "All together $10.00 $10.50 +$0.50 +5 %" in page_text
    for other in ({"currency": "EUR"}, {"then": None}):
        assert preview.total([row, rest | other]) is None


def test_what_only_begins_later_posts_no_correction() -> None:
    """The effect is shown as if the price held all of the time; saving it leaves closed bills alone, unless the past is changed."""
    row = {"team": "a", "now": "10", "then": "12", "difference": "2", "currency": "USD"}
    answer = {"items": [row], "window": {"start": fake_setup.BEGAN, "end": fake_setup.ENDED}, "closed": ["2025-12"]}
    later, past = (
        text(
            pressed(
                recorded(answer=answer)[0], "/rates?edit=change&row=1", "preview", valid_from="2026-12-01", **more
            ).below
        )
        for more in ({"past": "no"}, {"past": "yes"})
    )

    assert "Saving it changes nothing before 2026-12-01: the bills of the past stay as they are." in later
    assert "posted as a correction" not in later
    assert "2025-12 is closed: the bill stays, and the difference is posted as a correction." in past
    assert "Saving it changes nothing" not in past


def asked_of(path: str, **values: str) -> tuple[Any, str]:
    """What the preview of a form sends, and its text where no charge changes."""
    row = {"team": "a", "now": "10", "then": "10", "difference": "0", "currency": "USD"}
    span = {"start": "2026-10-22T00:00:00Z", "end": "2026-11-21T00:00:00Z"}
    api, seen = recorded(answer={"items": [row], "window": span, "closed": []})
    below = pressed(api, path, "preview", **values).below
    ((_, _, body, _),) = seen
    return body["items"], text(below)


def test_a_preview_asks_as_if_a_price_held_all_of_the_time() -> None:
    """Whatever its date is, other rates of the same scope give way, those of other scopes stay, and the form has a time to choose."""
    items, words = asked_of("/rates?edit=change&row=1", usd_per_gpu_hour="3", valid_from="2026-12-01")
    always = {"valid_from": "1970-01-01T00:00:00Z", "valid_to": None}
    new = fake_setup.RATES[1] | always | {"usd_per_gpu_hour": "3"}

    assert [*fake_setup.RATES[2:], new] == items
    assert "No charge of this time uses this rate." in words
    assert [*fake_setup.RATES[2:]] == asked_of("/rates?edit=end&row=1", valid_to="2026-12-01")[0]
    assert "The rate has the same values as now." in asked_of("/rates?edit=change&row=1", usd_per_gpu_hour="2.10")[1]
    assert "Show the effect on" in str(shown("/rates?edit=change&row=1"))


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/owners?edit=add", {"match_kind": "user", "match": "ann", "team": "a", "place": "1"}),
        ("/policies?edit=change", {"document": ""}),
    ],
    ids=["team map", "policies"],
)
def test_a_preview_is_of_a_time_of_choice(path: str, values: dict[str, str]) -> None:
    asked_for: list[tuple[str, str]] = []

    class Recorder:
        """Answers every request with no charges."""

        async def change(self, method: str, at: str, body: object, *, window: str, patient: bool) -> dict[str, Any]:
            asked_for.append((at, window))
            return {"items": [], "window": {"start": fake_setup.BEGAN, "end": fake_setup.ENDED}, "closed": []}

        async def get(self, at: str, **_: object) -> dict[str, Any]:
            return {"items": fake_setup.LISTS[at], "version": 3, "next": None}

    api: Any = Recorder()
    what = f"{path.partition('?')[0].replace('owners', 'teams').strip('/')}/what-if"
    for effect in ({"effect": "month"}, {}):
        asyncio.run(forms.outcome(api, asked(path), "preview", {"version": "3"} | values | effect))

    assert [(what, "month"), (what, "30d")] == asked_for
    assert "Show the effect on" in str(shown(path))


def test_a_preview_from_a_date_on_says_why_nothing_changes() -> None:
    path = "/rates?edit=change&row=1"
    items, words = asked_of(path, usd_per_gpu_hour="3", valid_from="2026-12-01", holds="dated", effect="month")

    assert ["2026-12-01T00:00:00Z"] == [row["valid_from"] for row in items if row["usd_per_gpu_hour"] == "3"]
    assert "The rate begins on 1 Dec 2026, after this time." in words
    assert "No charge from 1 Nov 2026 on uses" in asked_of(path, valid_from="2026-11-01", holds="dated")[1]


@pytest.mark.parametrize(
    ("path", "values", "field"),
    [
        pytest.param("/rates?edit=change&row=1", {"valid_from": "2025-12-01"}, "valid_from", id="a new price before"),
        pytest.param("/rates?edit=end&row=1", {"valid_to": "2026-01-01"}, "valid_to", id="an end at the beginning"),
    ],
)
@pytest.mark.parametrize("action", ["save", "preview"])
def test_a_row_is_not_ended_before_it_began(path: str, values: dict[str, str], field: str, action: str) -> None:
    api, seen = recorded()
    done = pressed(api, path, action, **values, past="yes", holds="dated")

    assert {field: "The present rate began on 1 Jan 2026: choose a later date"} == done.wrong
    assert [] == seen


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            ApiFailure(400, "bad", "items.7.usd_per_gpu_hour: String should match", field="items.7.usd_per_gpu_hour"),
            {"usd_per_gpu_hour": "usd_per_gpu_hour: String should match"},
            id="a field of a row",
        ),
        pytest.param(
            ApiFailure(400, "bad", "items.0: quantity is for pricing reserved; items.1: valid_from 'x' is no time"),
            {"quantity": "quantity is for pricing reserved", "valid_from": "valid_from 'x' is no time"},
            id="two rows",
        ),
        pytest.param(
            ApiFailure(400, "bad", "rates: H100 and H100 are valid at once; end the first"),
            {"form": "rates: H100 and H100 are valid at once\nend the first"},
            id="no field",
        ),
        pytest.param(
            ApiFailure(400, "bad", "token expiry: lies in the past", field="valid_from"),
            {"valid_from": "token expiry: lies in the past"},
            id="the API names the field",
        ),
        pytest.param(
            ApiFailure(412, "changed_meanwhile", "nothing was changed: it is another", "read it again"),
            {"form": "nothing was changed: it is another. read it again"},
            id="somebody else was faster",
        ),
    ],
)
def test_a_mistake_is_shown_at_its_field(error: ApiFailure, expected: dict[str, str]) -> None:
    assert expected == mistakes(error, ("usd_per_gpu_hour", "quantity", "valid_from"))


def test_a_failure_of_the_api_changes_nothing_on_the_page() -> None:
    answer = {"error": {"code": "changed_meanwhile", "message": "version 4 is in force", "hint": "read it again"}}
    api, _ = recorded(412, answer)
    done = pressed(api, "/rates?edit=end&row=1", "save", valid_to="2027-01-01")

    assert (None, {"form": "version 4 is in force. read it again"}) == (done.go, done.wrong)


@pytest.mark.parametrize(
    "path",
    [
        "/jobs",
        "/rates?edit=end&row=1",
        "/tokens",
        "/imports",
        "/owners",
        "/channels",
        "/policies",
        "/recipients?edit=add",
        "/nowhere",
    ],
)
def test_a_button_that_no_page_has_does_nothing(path: str) -> None:
    with pytest.raises(PreventUpdate):
        pressed(recorded()[0], path, "explode")


def test_a_token_is_shown_once() -> None:
    api, seen = recorded(answer={"token": "gw_x_y", "name": "n"})
    done = pressed(api, "/tokens?edit=add", "create", name="n", scope="read", teams="a, b", expires_at="2027-01-01")

    assert {"name": "n", "scope": "read", "teams": ["a", "b"], "expires_at": "2027-01-01T00:00:00Z"} == seen[0][2]
    assert ("gw_x_y", None) == (text(done.below).split()[8], done.go)


def test_long_lists_are_read_whole() -> None:
    """A page of the API at a time, all of one version."""
    app, asked_for = FastAPI(openapi_url=None), list[str]()

    @app.get("/api/v1/rates")
    def rates(cursor: str = "") -> Row:
        asked_for.append(cursor)
        return {"items": [{"at": cursor}], "version": 5, "next": {"": "b", "b": "c"}.get(cursor)}

    found = asyncio.run(lists.whole(Client(app).of(Caller()), "rates"))

    assert (["", "b", "c"], 3, "5") == (asked_for, len(found.items), found.version)


def test_a_change_names_its_rows_and_counts_the_others() -> None:
    page_text = text(history.table(fake_setup.CHANGES))

    assert "and 695 more rows" in page_text
    assert "price per GPU-hour 2.1" in page_text
    assert "admin" in page_text


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (None, None, "always"),
        (dates.EPOCH, None, "always"),
        ("2026-08-30T00:00:00Z", None, "from 30 Aug 2026"),
        ("2025-12-31T22:06:30Z", "2026-11-10T00:00:00Z", "31 Dec 2025 22:06 – 10 Nov 2026"),
        (dates.EPOCH, "2026-11-10T23:04:23Z", "until 10 Nov 2026 23:04"),
        ("soon", None, "from soon"),
    ],
)
def test_the_time_of_a_row_is_written_as_people_write_it(start: object, end: object, words: str) -> None:
    assert words == text(dates.validity({dates.FROM: start, dates.UNTIL: end}))


def test_a_change_is_written_in_words() -> None:
    before = {
        "valid_from": dates.EPOCH,
        "team": "nlp",
        "alert_at": [80, 100],
        "forced": True,
        "amount": "44300",
        "valid_to": None,
    }
    after = {"gpu_model": "H100", "usd_per_gpu_hour": "2.1", "valid_from": "2026-08-30T22:06:30Z"}

    assert "team nlp · alert at % 80, 100 · forced yes · amount 44300" == history.words(before)
    assert "GPU model H100 · price per GPU-hour 2.1 · valid from 30 Aug 2026 22:06" == history.words(after)
    assert "and 1 more row" == text(history.listed([{"team": "a"}] * 5, 6)).rpartition("team a")[2].strip()
    opened = history.listed([{"team": name} for name in "abcdefg"], 9).children[-1]
    assert "and 4 more rows team f team g and 2 more" == " ".join(text(opened).split())


@pytest.mark.parametrize(
    ("sent", "places", "words"),
    [("2.1", 2, "2.10"), ("4", 2, "4.00"), ("0.2275", 2, "0.2275"), ("n/a", 2, "n/a"), ("267700", 0, "267,700"), ("99.5", 0, "99.5")],
)  # fmt: skip
def test_amounts_of_one_column_have_the_same_decimals_or_all_they_have(sent: str, places: int, words: str) -> None:
    assert words == lists.amount(sent, places)


CHANNEL: Row = {
    "name": "ops", "kind": "webhook", "url_hint": "hooks.example/…", "severity_min": "low", "severity_max": "critical",
    "teams": ["red"], "rules": None, "clusters": None, "fallback": False, "events": ["opened"], "group_by": [],
    "enabled": True, "origin": "api", "digest": "off", "quiet_hours": "22:00-07:00", "timezone": "UTC", "labels": {},
    "signing_secret_set": True, "authorization_set": False, "status": {"pending": 1},
}  # fmt: skip


def test_a_channel_keeps_what_its_form_does_not_change() -> None:
    """An empty secret is not sent, so the stored one stays; channels of gpuwatch.toml are left to the file."""
    items = [CHANNEL, CHANNEL | {"name": "mail", "kind": "email"}, CHANNEL | {"name": "filed", "origin": "file"}]
    query = asked("/channels?edit=change&row=ops")
    values = channel_form.as_text(CHANNEL) | {
        "url": "",
        "signing_secret": "",
        "teams": "",
        "quiet_hours": "",
        "version": "x",
    }
    mail, ops = channel_form.changed(
        items, query, {one.name: values.get(one.name, "") for one in channel_form.shown("webhook")}
    )

    assert "mail" == mail["name"]
    assert not {"url", "signing_secret", "status", "url_hint", "signing_secret_set", "version"} & ops.keys()
    assert (None, None, ["opened"], True) == tuple(ops[n] for n in ("teams", "quiet_hours", "events", "enabled"))
    assert {"group_by": [], "labels": {}, "kind": "webhook"} == {n: ops[n] for n in ("group_by", "labels", "kind")}


def test_a_channel_of_a_taken_name_is_refused_and_a_removed_one_goes() -> None:
    with pytest.raises(ApiFailure, match="taken"):
        channel_form.changed([CHANNEL], asked("/channels?edit=add"), {"name": "ops"})
    assert [] == channel_form.changed([CHANNEL], asked("/channels?edit=remove&row=ops"), {})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"scope": "all"}, {"thresholds": {"r": {"a": 1, "b": 5.0, "t_us": "20m"}, "s": {"a": 2}}}, id="for everybody"),
        pytest.param(
            {"scope": "all", "off": "yes", "b": "", "a": "default"}, {"off": ["z", "r"], "thresholds": {"r": {"t_us": "20m"}, "s": {"a": 2}}},
            id="disabled, and an own value dropped",
        ),
        pytest.param(
            {"scope": "pool", "where": "p", "cluster": "c"},
            {"pools": [{"pool": "p", "cluster": "c", "preset": None, "off": ["r"], "thresholds": {"r": {"b": 5.0, "t_us": "20m"}}}]},
            id="for a pool that has settings",
        ),
        pytest.param(
            {"scope": "team", "where": "new"},
            {"teams": [{"team": "new", "preset": None, "off": [], "thresholds": {"r": {"b": 5.0, "t_us": "20m"}}}]},
            id="for a team that has none",
        ),
    ],
)  # fmt: skip
def test_thresholds_are_set_where_they_are_for(values: dict[str, str], expected: Row) -> None:
    """Everything else of the card stays."""
    pool = {"pool": "p", "cluster": "c", "preset": None, "off": ["r"], "thresholds": {}}
    card = {
        "preset": "default",
        "off": ["z"],
        "thresholds": {"r": {"a": 1}, "s": {"a": 2}},
        "pools": [pool],
        "teams": [],
        "version": 4,
    }
    given = {"b": "5", "t_us": "20m"} | values
    limits = {name: text for name, text in given.items() if name not in threshold_form.OWN and text}
    document = {name: card[name] for name in threshold_form.DOCUMENT}

    assert document | expected == threshold_form.changed(card, "r", limits, given)


def test_a_document_is_toml_that_reads_back() -> None:
    """Whatever characters its names have, and without what is null."""
    policy = {
        "name": f'a "quoted" {HOSTILE}\n\x7f', "valid_to": None, "minimum_billing_seconds": 60, "basis": {"time": "1"},
        "payers": {"idle": {"payer": "even", "scope": ["pool"]}}, "quotas": [{"team": "a", "gpus": "2", "pool": None}],
        "discounts": [{"label:cost.center": "x", "factor": "0.5"}], "shared": [], "on": True,
        "split": [{"percentages": {"a b": "50"}}, {"percentages": {}}],
    }  # fmt: skip

    def known(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: known(one) for name, one in value.items() if one is not None and one != {}}
        return [known(one) for one in value] if isinstance(value, list) else value

    assert known({"policies": [policy, policy]}) == known(
        tomllib.loads(toml_text.written({"policies": [policy, policy]}))
    )


def test_mistakes_of_a_document_have_their_lines() -> None:
    error = ApiFailure(
        400, "bad", "nothing was changed: line 3: policies.0.basis: is no table; line 9: policies.1.name: twice"
    )
    limit = ApiFailure(
        400, "bad", "nothing was changed: thresholds.idle-hoarding.idle_us_min: 'x' is no time of at most 366 days"
    )

    assert {"form": "line 3: policies.0.basis: is no table\nline 9: policies.1.name: twice"} == mistakes(
        error, ("document",)
    )
    assert {"idle_us_min": "idle_us_min: 'x' is no time of at most 366 days"} == mistakes(limit, ("idle_us_min",))


def test_tokens_show_when_they_expire_as_a_date() -> None:
    row = {"id": "1f", "name": "a", "scope": "read", "created_at": at(NOW), "created_by": "ada", "revoked_at": None}
    for expires, words in (
        (None, "never"),
        ("2027-01-31T00:00:00Z", "31 Jan 2027"),
        ("2027-01-31T08:30:00Z", "31 Jan 2027 08:30"),
    ):
        cells = tokens.line(row | {"expires_at": expires}, tokens.Data([], at(NOW)), asked("/tokens"))

        assert words == text(cells[3])
