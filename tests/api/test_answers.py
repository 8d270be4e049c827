"""Answers that are kept: never older than what they were made from, never another team's, never more than there is room for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.api.answers import Answers
from gpuwatch.core.clock import MINUTE_US
from gpuwatch.imports.files import import_paths
from gpuwatch.store import remembered
from gpuwatch.store.database import Store
from tests.api.billing.test_policies_route import DOCUMENT
from tests.worlds.api import BLUE, NOW_US, RED, Api
from tests.worlds.patience import PATIENCE_S
from tests.worlds.world import HOUR, Gpu, batch, minutes, samples, us

DAY = "2026-11-02,2026-11-03"
ROUTES = (
    "overview?window=2026-W45",
    "jobs?window=2026-W45",
    "slices?window=2026-W45",
    f"chargeback?window={DAY}&by=team",
    f"ledger?window={DAY}&by=bucket&step=1h",
    "findings",
    "fleet",
    "reclaim",
    "budgets",
    "quality",
    "topology/map",
    "capacity/pending",
    "capacity/place",
    "gpus?window=2026-W45",
)
TEXT = """# TYPE DCGM_FI_DEV_GPU_UTIL gauge
"""


def bodies(api: Api) -> dict[str, bytes]:
    answers = {route: api.get(f"/api/v1/{route}") for route in ROUTES}
    assert {200} == {answer.status_code for answer in answers.values()}
    return {route: answer.content for route, answer in answers.items()}


def arrives(api: Api, _: Path) -> None:
    for late in batch(samples(Gpu("GPU-red", "rednode"), minutes(7 * HOUR, 9 * HOUR))):
        api.service.submit("late", [late]).result(PATIENCE_S)
    api.service.analyse_once()


def imports(api: Api, directory: Path) -> None:
    file = directory / "new.prom"
    lines = "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-new",gpu="0",Hostname="newnode",modelName="H100"}} 5 {us(minute * 60) // 1000}\n'
        for minute in range(120)
    )
    file.write_text(TEXT + lines)
    report = import_paths(api.service.store, api.service.state, "openmetrics", [file], cluster="c1", now_us=NOW_US)
    assert report.files == 1
    api.service.wake()
    api.service.analyse_once()


def forgets(api: Api, _: Path) -> None:
    found = api.get("/api/v1/imports").json()["items"]
    assert 200 == api.request("DELETE", f"/api/v1/imports/{found[0]['id']}").status_code
    api.service.analyse_once()


def prices(api: Api, _: Path) -> None:
    card = {
        "items": [
            {"gpu_model": "H100", "pricing": "owned", "usd_per_gpu_hour": "3", "valid_from": "2026-11-01T00:00:00Z"}
        ]
    }
    assert 200 == api.request("PUT", "/api/v1/rates", json=card).status_code


def sets_policies(api: Api, _: Path) -> None:
    assert 200 == api.request("PUT", "/api/v1/policies", json=DOCUMENT).status_code


def sets_budgets(api: Api, _: Path) -> None:
    card = {"items": [{"team": "red", "period": "month", "amount": "10", "currency": "USD"}]}
    assert 200 == api.request("PUT", "/api/v1/budgets", json=card).status_code


def acknowledges(api: Api, _: Path) -> None:
    """The findings of the week have ended; an owner's action shows on an open one."""
    with api.service.store.transaction():
        api.service.store.sql("update finding set state = 'open', resolved_reason = null, ended_us = null")
    key = api.get("/api/v1/findings").json()["items"][0]["key"]
    assert 200 == api.request("POST", f"/api/v1/findings/{key}/ack", json={"reason": "known"}).status_code
    assert "acked" in {item["state"] for item in api.get("/api/v1/findings").json()["items"]}


def closes(api: Api, _: Path) -> None:
    assert 201 == api.request("POST", "/api/v1/periods", json={"period": "2026-W45", "force": True}).status_code


def waits(api: Api, _: Path) -> None:
    api.moment[0] += MINUTE_US


CHANGES = (waits, acknowledges, prices, sets_policies, sets_budgets, arrives, imports, forgets, closes)
SAME = {sets_policies, closes}
"""Changes that need not show in one of the answers."""


def test_after_each_kind_of_change_a_kept_answer_is_what_a_new_one_would_be(books: Api, tmp_path: Path) -> None:
    before = bodies(books)
    for change in CHANGES:
        change(books, tmp_path)
        kept = bodies(books)
        books.app.state.answers = Answers()
        remembered._memories.clear()
        assert kept == bodies(books), change.__name__
        assert kept != before or change in SAME, change.__name__
        before = kept


@pytest.fixture
def lent(filled: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How often a connection was lent."""
    counted: list[int] = []
    lend = filled.service.reader

    @contextmanager
    def reader() -> Iterator[Store]:
        counted.append(1)
        with lend() as store:
            yield store

    monkeypatch.setattr(filled.service, "reader", reader)
    filled.app.state.answers = Answers()
    yield counted
    filled.app.state.answers = Answers()


def test_a_question_that_was_answered_needs_no_connection(filled: Api, lent: list[int]) -> None:
    text = filled.token("admin")
    answers = [filled.get(f"/api/v1/chargeback?window={DAY}", token=text) for _ in range(3)]

    assert (1, 1) == (len({answer.content for answer in answers}), len(lent))


def test_teams_do_not_share_answers(filled: Api, lent: list[int]) -> None:
    texts = [filled.token("read", team["team"]) for team in (RED, BLUE)]
    found = [filled.get(f"/api/v1/jobs?window={DAY}", token=text).content for text in texts * 2]

    assert (2, found[:2]) == (len(lent), found[2:])
    assert b"bluetrain" not in found[0] and b"redtrain" not in found[1]


def test_an_error_is_not_kept(filled: Api, lent: list[int]) -> None:
    wrong = [filled.get("/api/v1/chargeback?by=colour", token=filled.token("admin")).status_code for _ in range(2)]

    assert ([400, 400], 0) == (wrong, filled.app.state.answers.bytes)


class Fixed:
    """What an answer is made from, for `Answers` alone."""

    def __init__(self, store: Store) -> None:
        self.store, self.state, self.mirror = store, self, None

    def version(self) -> str:
        return "1"

    def reader(self) -> AbstractContextManager[Store]:
        return self.store.cursor()


def test_the_oldest_go_and_the_largest_are_not_kept() -> None:
    answers = Answers(bytes_max=25, one_max=12)
    with Store.open(None) as store:
        service: Any = Fixed(store)
        made: list[str] = []

        def ask(key: str, size: int = 8) -> None:
            answers.body(service, key, lambda _: made.append(key) or "x" * size)

        for key in "abca":
            ask(key)
        assert "abca" == "".join(made)
        ask("large", 20)
        ask("large", 20)
        assert (["large"] * 2, True) == (made[4:], answers.bytes <= 25)


def test_only_a_change_of_a_table_that_was_read_makes_an_answer_old() -> None:
    answers = Answers()
    with Store.open(None) as store:
        service: Any = Fixed(store)

        def ask() -> bytes:
            return answers.body(service, "q", lambda reader: reader.sql("select count(*) from state_link")[0][0])

        assert b"0" == ask()
        with store.transaction():
            store.sql("insert into dirty_hour by name select 'c' as cluster, 0 as hour_us")
        counts = store.changes.counts()
        store.link_state("s")

        assert (1, 0, 1) == (counts["dirty_hour"], counts["state_link"], store.changes.counts()["state_link"])
        assert b"1" == ask()


def test_an_answer_has_a_tag_and_is_not_sent_twice(filled: Api) -> None:
    text = filled.token("admin")
    path = "/api/v1/findings"
    first = filled.get(path, token=text)
    tag = first.headers["etag"]
    again = filled.get(path, token=text, headers={"If-None-Match": f'"other", W/{tag}'})
    other = filled.get(path, token=text, headers={"If-None-Match": '"other"'})

    assert (304, b"", tag) == (again.status_code, again.content, again.headers["etag"])
    assert (200, first.content) == (other.status_code, other.content)
    assert "content-type" not in again.headers
    assert "etag" not in filled.get("/api/v1/findings/none-0", token=text).headers


@pytest.mark.parametrize("path", ["findings?format=csv", "chargeback?window=2026-W45&format=csv"])
def test_a_csv_file_that_the_client_has_is_not_sent_again(filled: Api, path: str) -> None:
    text = filled.token("admin")
    first = filled.get(f"/api/v1/{path}", token=text)
    tag = first.headers["etag"]
    again = filled.get(f"/api/v1/{path}", token=text, headers={"If-None-Match": tag})
    other = filled.get(f"/api/v1/{path}", token=text, headers={"If-None-Match": '"other"'})
    red = filled.get(f"/api/v1/{path}", token=filled.token("read", "red"), headers={"If-None-Match": tag})

    assert (304, b"", tag) == (again.status_code, again.content, again.headers["etag"])
    assert "content-type" not in again.headers
    assert (200, first.content, "text/csv; charset=utf-8") == (
        other.status_code,
        other.content,
        other.headers["content-type"],
    )
    assert (200, True) == (red.status_code, red.headers["etag"] != tag)


@pytest.mark.parametrize(
    "path",
    [
        "chargeback?window=2026-W45&format=focus",
        "chargeback?window=2026-W45&format=focus&focus_format=parquet",
        "reports/weekly?week=2026-W45",
        "reports/weekly?week=2026-W45&format=pdf",
        "reports/weekly?week=2026-W45&format=xlsx",
    ],
)
def test_a_file_that_the_client_has_is_not_sent_again(filled: Api, path: str) -> None:
    text = filled.token("admin")
    first = filled.get(f"/api/v1/{path}", token=text)
    assert 200 == first.status_code, first.text
    tag = first.headers["etag"]
    again = filled.get(f"/api/v1/{path}", token=text, headers={"If-None-Match": tag})
    other = filled.get(f"/api/v1/{path}", token=text, headers={"If-None-Match": '"other"'})

    assert (304, b"", tag) == (again.status_code, again.content, again.headers["etag"])
    assert (200, first.content) == (other.status_code, other.content)


def test_a_focus_file_that_is_not_sent_again_still_says_what_it_leaves_out(filled: Api) -> None:
    """Time without a rate is in no row: it can grow while the file stays the same."""
    text, path = filled.token("admin"), "/api/v1/chargeback?window=2026-W45&format=focus"
    first = filled.get(path, token=text)
    again = filled.get(path, token=text, headers={"If-None-Match": first.headers["etag"]})
    left_out = "x-gpuwatch-unpriced-gpu-seconds"

    assert (304, first.headers[left_out]) == (again.status_code, again.headers[left_out])
    assert {"content-length", "content-disposition"}.isdisjoint(again.headers)


@pytest.mark.parametrize("path", ["/allocation?window=7d", "/model/allocation/summary?window=7d"])
def test_answers_of_opencost_have_a_tag(filled: Api, path: str) -> None:
    text = filled.token("admin")
    first = filled.get(path, token=text)
    again = filled.get(path, token=text, headers={"If-None-Match": first.headers["etag"]})

    assert (200, 304, b"") == (first.status_code, again.status_code, again.content)


@pytest.mark.parametrize("form", ["xlsx", "parquet"])
def test_workbooks_and_tables_have_a_tag(filled: Api, form: str) -> None:
    """A workbook names the second in which it was made."""
    answer = filled.get(f"/api/v1/chargeback?window=2026-W45&format={form}", token=filled.token("admin"))

    assert (200, True) == (answer.status_code, "etag" in answer.headers)


def test_every_table_is_one_that_a_statement_can_name() -> None:
    """What a statement reads is found by its words: no view, and no macro that reads a table, may stand in between."""
    with Store.open(None) as store:
        views = store.sql("select view_name from duckdb_views() where not internal and not temporary")
        macros = store.sql(
            "select macro_definition from duckdb_functions() where not internal and macro_definition is not null"
        )

        assert [] == views
        assert not [text for (text,) in macros if store.changes.read_by(text)]
