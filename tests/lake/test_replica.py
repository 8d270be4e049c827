"""`serve --role api` with a lake: it starts from an empty directory, answers as the cell does, and takes no data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from gpuwatch.api.app import create_app
from gpuwatch.core.errors import Misdirected, StoreBusy, StoreError, UsageError
from gpuwatch.lake import pull
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.publish import Publisher
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.policy.inferred import INFER, NONE
from gpuwatch.policy.repository import ownership_default
from gpuwatch.service import after_pass, mirroring
from gpuwatch.service.answering import ANSWER, Answered
from gpuwatch.service.config import Plan
from gpuwatch.service.roles import API
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.state.copying import fill
from gpuwatch.state.server import Server
from gpuwatch.store.database import Store
from tests.lake.cells import NOW_US
from tests.lake.conftest import Fleet, Make
from tests.worlds.api import Api, Clock
from tests.worlds.patience import wait_until
from tests.worlds.postgres import Postgres

MINUTE_US = 60_000_000
CHANGES = (
    "update ledger_hour set estimated = not estimated",
    "update day_stamp set stamp = uuid()::varchar",
    "update run set name = 'x'",
)
WINDOW = "window=2026-11-02,2026-11-04"
QUESTIONS = (
    f"chargeback?{WINDOW}&by=team",
    f"chargeback?{WINDOW}&by=job",
    f"chargeback?{WINDOW}&format=focus",
    f"findings?{WINDOW}",
    f"ledger?{WINDOW}&by=cluster",
    f"overview?{WINDOW}",
    f"jobs?{WINDOW}",
    "reports/weekly?week=2026-W45&format=csv",
    "fleet",
)


OF_THE_STATE = (
    "/api/v1/audit",
    "/api/v1/budgets/set",
    "/api/v1/channels",
    "/api/v1/deliveries",
    "/api/v1/detectors/card",
    "/api/v1/fx",
    "/api/v1/me",
    "/api/v1/owned",
    "/api/v1/periods",
    "/api/v1/policies",
    "/api/v1/rates",
    "/api/v1/rates/in-force",
    "/api/v1/recipients",
    "/api/v1/reports/formats",
    "/api/v1/spot",
    "/api/v1/teams",
    "/api/v1/tokens",
    "/api/v1/views",
    "/healthz",
    "/metrics",
    "/readyz",
)
"""Answers of the state, which all processes share, or of the process itself."""


def without_instant(api: Api) -> set[str]:
    """The routes whose plain GET is answered without saying as of when the answer is."""
    asked = {
        path: api.get(path)
        for path, methods in api.app.openapi()["paths"].items()
        if "get" in methods and not any(one["required"] for one in methods["get"].get("parameters", ()))
    }
    return {path for path, answer in asked.items() if answer.is_success and "gpuwatch-as-of" not in answer.headers}


@pytest.fixture
def shared(catalogues: Postgres, fleet: Fleet) -> str:
    """The URL of a server with the state of the fleet."""
    url = catalogues.url(catalogues.new(empty=True))
    with State.open(fleet.directory) as saved, State.open(Server(url)) as state:
        fill(saved, state)
    return url


def publish(settings: LakeSettings, directory: Path, *changes: str) -> None:
    with Lake.open(settings, create=True) as lake, Store.open(directory) as store:
        for change in changes:
            store.sql(change)
        Publisher(settings, lambda: NOW_US).publish(lake, store)


@contextmanager
def serving(directory: Path, settings: Settings, lake: LakeSettings | None, moment: list[int]) -> Iterator[Api]:
    """A process of role api, with a lake or on a directory of its own; it has not been started."""
    plan = Plan(settings, {}, (), after_pass.configured({}), lake=lake)
    service = Service.open(directory, settings, plan, now_us=lambda: moment[0], role=API)
    clock = Clock()
    try:
        yield Api(service, create_app(service, clock=clock), clock, moment)
    finally:
        service.stop()


def replica_of(made: LakeSettings, pull_s: float = 0.1) -> LakeSettings:
    """As a replica is configured: it has no name."""
    return LakeSettings(**{**made.__dict__, "cell": "", "pull_s": pull_s})


def test_a_replica_answers_as_the_cell_does(make_lake: Make, fleet: Fleet, shared: str, tmp_path: Path) -> None:
    made, settings, moment = make_lake("postgresql"), Settings(state_url=shared), [NOW_US]
    publish(made, fleet.directory)
    with serving(fleet.directory, Settings(), None, moment) as own:
        own.service.start()
        wanted = {path: own.get(f"/api/v1/{path}").content for path in QUESTIONS}
        assert "mirror" not in own.get("/readyz").json()

    with serving(tmp_path / "replica", settings, replica_of(made), moment) as api:
        with pytest.raises(StoreBusy, match="the ledger is being copied from the lake"), api.service.reader():
            pass
        refused = api.get("/readyz")
        assert (503, "unready") == (refused.status_code, refused.json()["status"])
        assert 503 == api.get(f"/api/v1/{QUESTIONS[0]}").status_code

        api.service.start()
        wait_until(lambda: api.service.mirror and api.service.mirror.status.as_of_us, "the copy is whole")
        assert wanted == {path: api.get(f"/api/v1/{path}").content for path in QUESTIONS}
        assert all(len(answer) > 150 for answer in wanted.values())
        ready = api.get("/readyz").json()
        assert ("ready", "2026-11-04T00:00:00Z", 0) == (
            ready["status"],
            ready["mirror"]["as_of"],
            ready["mirror"]["age_s"],
        )
        assert [{"cell": "east", "published": "2026-11-04T00:00:00Z"}] == ready["mirror"]["cells"]

        assert set(OF_THE_STATE) == without_instant(api), "every answer from the copy has the instant that it is of"

        taken = api.request("POST", "/api/v1/events", json=[])
        assert (503, "not_holder") == (taken.status_code, taken.json()["error"]["code"])
        assert "cluster default: no process holds a cell yet" in taken.json()["error"]["message"]
        with pytest.raises(
            Misdirected, match="its role is api and its data come from a lake: .* gpuwatch lake clusters lists"
        ):
            api.service.submit("a bill", [])
        assert not api.service.reprice() and api.service.analysis().last_success_us is None

        publish(made, fleet.directory, "update finding set severity = 'high'", "delete from run_team")
        query = "select count(distinct severity), (select count(*) from run_team) from finding"

        def seen() -> bool:
            with api.service.reader() as store:
                return store.sql(query) == [(1, 0)]

        wait_until(seen, "what was published is here")

    with serving(tmp_path / "replica", settings, replica_of(made), moment) as api:
        api.service.start()
        wait_until(lambda: not api.service.problems(), "a kept directory is used again")


def test_a_lake_that_is_away_makes_answers_old_and_not_wrong(
    few: None, make_lake: Make, fleet: Fleet, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirroring, "RETRY_S_MAX", 0.2)
    made, moment = make_lake("postgresql"), [NOW_US]
    publish(made, fleet.directory)
    settings = Settings(state_url=shared, ownership_default=NONE)
    with serving(tmp_path / "replica", settings, replica_of(made), moment) as api:
        api.service.start()
        wait_until(lambda: api.service.mirror and api.service.mirror.status.as_of_us, "the copy is whole")
        assert api.service.reload(lambda: Plan(settings, {}, (), after_pass.configured({}), lake=replica_of(made)))
        assert INFER == ownership_default(api.service.state), "it leaves the shared state as the cells have it"

        def away(*_: object, **__: object) -> Lake:
            raise StoreError("the lake is away")

        def broken(*_: object, **__: object) -> None:
            raise StoreError("the lake is away")

        with monkeypatch.context() as patch:
            patch.setattr(Lake, "open", away)
            patch.setattr(pull.Puller, "pull", broken)
            wait_until(lambda: api.service.mirror and api.service.mirror.status.error, "the lake is away")
            assert [] == api.service.concerns(), "a minute is no reason yet"
            moment[0] += 2 * MINUTE_US
            (concern,) = api.service.concerns()
            assert "the copy of the lake is late: answers are as of 2026-11-04T00:00:00Z: the lake is away" == concern
            ready = api.get("/readyz")
            assert (200, "degraded", 120) == (
                ready.status_code,
                ready.json()["status"],
                ready.json()["mirror"]["age_s"],
            )
            with api.service.reader() as store:
                assert store.sql("select count(*) from ledger_hour")[0][0] > 500
        wait_until(lambda: not api.service.concerns(), "it comes back")


def test_nothing_is_answered_from_parts_of_several_snapshots(
    few: None, make_lake: Make, fleet: Fleet, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "ROWS_MAX", 300)
    made = make_lake("postgresql")
    publish(made, fleet.directory)
    seen: list[tuple[bool, bool]] = []
    with serving(tmp_path / "replica", Settings(state_url=shared), replica_of(made), [NOW_US]) as api:
        copy = api.service.mirror
        assert copy is not None
        note = pull.mirror.note_units

        def noted(*arguments: object) -> None:
            seen.append((bool(copy.problems()), copy.status.as_of_us is None))
            note(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(pull.mirror, "note_units", noted)
        api.service.start()
        wait_until(lambda: copy.status.as_of_us, "the copy is whole")
        assert [] == copy.problems() and {(True, True)} == set(seen)
        publish(made, fleet.directory, *CHANGES)
        wait_until(lambda: len({each for each in seen if not each[1]}) > 0, "a pull of several transactions")
        assert {True} == {unready for unready, _ in seen}
        wait_until(lambda: not copy.problems(), "it is whole again")


def test_what_a_replica_cannot_work_with_is_named(
    few: None, make_lake: Make, fleet: Fleet, shared: str, tmp_path: Path
) -> None:
    made = replica_of(make_lake("postgresql"))
    with (
        pytest.raises(UsageError, match=r"--role api with \[lake\]: set state_url"),
        serving(tmp_path / "replica", Settings(), made, [NOW_US]),
    ):
        pass
    with (
        pytest.raises(StoreError, match="has data of its own, which the copy of the lake would replace"),
        serving(fleet.directory, Settings(state_url=shared), made, [NOW_US]),
    ):
        pass
    nothing = shared.replace("state_", "no_state_")
    with pytest.raises(StoreError), serving(tmp_path / "replica", Settings(state_url=nothing), made, [NOW_US]):
        pass
    with pytest.raises(UsageError, match=r"\[lake\] cell is missing"):
        Service.open(
            None, Settings(), Plan(Settings(), {}, (), after_pass.configured({}), lake=made), now_us=lambda: NOW_US
        )


def test_an_answer_is_of_one_snapshot(make_lake: Make, fleet: Fleet, shared: str, tmp_path: Path) -> None:
    """A pull that ends between two statements of an answer changes nothing in it, and the answer says as of when it is."""
    made, settings, moment = make_lake("postgresql"), Settings(state_url=shared), [NOW_US]
    publish(made, fleet.directory)
    with serving(tmp_path / "replica", settings, replica_of(made, 0.05), moment) as api:
        api.service.start()
        wait_until(lambda: not api.service.problems(), "the copy is whole")
        first = api.get(f"/api/v1/{QUESTIONS[4]}")
        assert "2026-11-04T00:00:00Z" == first.headers["gpuwatch-as-of"]
        assert "gpuwatch-as-of" not in api.get("/healthz").headers

        severities, runs = "select distinct severity from finding", "select count(*) from run_team"
        inside: list[object] = []

        def between(store: Store) -> dict[str, object]:
            inside.append((store.sql(severities), store.sql(runs)))
            with store.workspace() as work, work.view("one", pa.table({"n": [1]})):
                work.sql("create temp table mine as from one")
            publish(made, fleet.directory, "update finding set severity = 'high'", "delete from run_team")
            moment[0] += MINUTE_US
            as_of = api.service.mirror and api.service.mirror.status.as_of_us
            wait_until(lambda: api.service.mirror.status.as_of_us > as_of, "it is copied")  # type: ignore[union-attr,operator]
            with Store.cursor(api.service.store) as other:
                assert [("high",)] == other.sql(severities), "others see it already"
            inside.append((store.sql(severities), store.sql(runs)))
            with store.workspace() as work:
                assert [(1,)] == work.sql("from mine")
            return {}

        answer = Answered()
        ANSWER.set(answer)
        try:
            api.app.state.answers.body(api.service, "a question", between)
            assert inside[0] == inside[1] and [("high",)] != inside[0][0]  # type: ignore[index]
            assert NOW_US == answer.as_of_us, "that of the snapshot, not of the pull meanwhile"
            with pytest.raises(StoreBusy, match="renewed in the middle of the answer"), api.service.reader():
                pass
        finally:
            ANSWER.set(None)
        later = api.get(f"/api/v1/{QUESTIONS[4]}")
        assert "2026-11-04T00:01:00Z" == later.headers["gpuwatch-as-of"]
        with api.service.reader() as store:
            assert [("high",)] == store.sql(severities) and [(0,)] == store.sql(runs)
            assert store.rows("service/cluster"), "temporary tables of the answer before are gone"
            store.sql("create temp table mine as select 2")
        with pytest.raises(Misdirected, match="changes no data"), api.service.reader() as store, store.transaction():
            store.sql("delete from finding")
        with api.service.reader() as store:
            assert [("high",)] == store.sql(severities)


def test_half_a_copy_answers_nothing(
    make_lake: Make, fleet: Fleet, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull of several transactions that begins after the question was let in."""
    made, settings = make_lake("postgresql"), Settings(state_url=shared)
    publish(made, fleet.directory)
    with serving(tmp_path / "replica", settings, replica_of(made), [NOW_US]) as api:
        api.service.start()
        wait_until(lambda: not api.service.problems(), "the copy is whole")
        with Store.cursor(api.service.store) as other:
            other.sql("update mirror.pull_note set whole = false")
        with pytest.raises(StoreBusy, match="is being copied from the lake"), api.service.reader():
            pass
