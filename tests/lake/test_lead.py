"""The lead: one process does what is fleet-wide, and another one goes on where it was killed. No alert is lost, none is sent twice."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.api.app import create_app
from gpuwatch.billing.periods.corrections.repository import Corrections
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.errors import Misdirected, NotHolder
from gpuwatch.lake import mirror
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.publish import Publisher
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.service import after_pass, closing, leading
from gpuwatch.service.config import Plan
from gpuwatch.service.holding import Holding, seconds
from gpuwatch.service.roles import CELL, left_undone
from gpuwatch.service.roles import LEAD as LEAD_ROLE
from gpuwatch.service.service import Service
from gpuwatch.service.standby import Standby
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.state.copying import fill
from gpuwatch.state.lease import LEAD, Fence, Leases, fenced, is_held
from gpuwatch.state.server import Server
from gpuwatch.store.database import Store
from tests.lake.cells import NOW_US
from tests.lake.conftest import START_US, Fleet, Make, bring
from tests.lake.leasing import Cell, holder, running
from tests.lake.test_replica import replica_of
from tests.worlds.api import Api, Clock
from tests.worlds.patience import wait_until
from tests.worlds.postgres import Postgres

pytestmark = pytest.mark.slow
ANSWER_S = 0.4
"""How long the receiver thinks: a kill comes in the middle of a message."""
LONG_US = 10**17
CONSTANTS = {
    "gpuwatch.service.after_pass.LOOK_BACK_US": LONG_US,
    "gpuwatch.alerts.outbox.deliver.HOLD_US": 3_000_000,
    "gpuwatch.alerts.outbox.deliver.POLL_S": 0.2,
}
"""The findings are of November 2026; a message whose sender was killed is taken again after seconds."""


@dataclass
class Hook:
    """A receiver of messages: their bodies by key."""

    bodies: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    port: int = 0

    @property
    def count(self) -> int:
        return sum(len(each) for each in self.bodies.values())


@contextmanager
def hooked() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.bodies[self.headers["Idempotency-Key"]].append(body)
            time.sleep(ANSWER_S)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield hook
        server.shutdown()
        thread.join()


@pytest.fixture
def state_url(catalogues: Postgres, fleet: Fleet) -> str:
    """The state of the fleet on a server."""
    url = catalogues.url(catalogues.new(empty=True))
    with State.open(fleet.directory) as saved, State.open(Server(url)) as state:
        fill(saved, state)
    return url


def publish(settings: LakeSettings, directory: Path, change: str) -> list[str]:
    """Changes findings and publishes them; returns the keys of those that are open."""
    with Lake.open(settings, create=True) as lake, Store.open(directory) as store:
        store.sql(change)
        Publisher(settings, lambda: NOW_US).publish(lake, store)
        return sorted(key for (key,) in store.sql("select key from finding where state = 'open'"))


def sent(state: State) -> dict[tuple[str, str], str]:
    """The state of each message by finding and event."""
    rows = state.read("select finding_key, event, state from outbox")
    assert len(rows) == len({(row["finding_key"], row["event"], row["state"]) for row in rows})
    return {(row["finding_key"], row["event"]): row["state"] for row in rows}


def test_two_leads_of_which_one_is_killed(make_lake: Make, fleet: Fleet, state_url: str, tmp_path: Path) -> None:
    settings, rng = make_lake("postgresql"), random.Random(6)
    wanted = publish(settings, fleet.directory, "update finding set state = 'open', resolved_reason = null")
    assert 1 < len(wanted)
    with hooked() as hook, State.open(Server(state_url)) as state:
        channel = f'name = "ops"\nkind = "webhook"\nurl = "http://127.0.0.1:{hook.port}/x"\nseverity_min = "info"\n'
        tables = f'[alerts]\nallow_private = ["127.0.0.1"]\n[[channel]]\n{channel}'
        leads = [
            Cell(settings, state_url, tmp_path / name, role="lead", tables=tables, constants=CONSTANTS)
            for name in ("first", "second")
        ]
        with running(*leads):
            for round_, event in enumerate(("opened", "resolved")):
                before = hook.count
                if round_:
                    publish(settings, fleet.directory, "update finding set state = 'resolved', resolved_reason = 'x'")
                wait_until(lambda before=before: hook.count > before, f"{event} is sent", poll_s=0.02)  # type: ignore[misc]
                now = holder(*leads)
                other = next(each for each in leads if each is not now)
                time.sleep(rng.uniform(0, 2 * ANSWER_S))
                now.kill()
                assert is_held(state, LEAD) and holder(other) is other
                wait_until(
                    lambda event=event: {"sent"} == {sent(state).get((key, event)) for key in wanted},  # type: ignore[misc]
                    f"all is sent: {event}",
                    poll_s=0.3,
                )
                now.start()
                wait_until(lambda now=now: now.readiness()[0] == 503, "it waits", poll_s=0.1)  # type: ignore[misc]
        messages: dict[tuple[str, str], set[str]] = defaultdict(set)
        for key, bodies in hook.bodies.items():
            read = [json.loads(body) for body in bodies]
            assert [(read[0]["event"], read[0]["finding"])] * len(read) == [
                (one["event"], one["finding"]) for one in read
            ]
            messages[read[0]["finding"]["key"], read[0]["event"]].add(key)
        assert {(key, event) for key in wanted for event in ("opened", "resolved")} == messages.keys(), "none is lost"
        assert {1} == {len(keys) for keys in messages.values()}, "none has two keys"


def test_a_lead_that_waits_has_its_copy_already(
    few: None, make_lake: Make, fleet: Fleet, state_url: str, tmp_path: Path
) -> None:
    """It takes the lease with the lake as it is, and lets go of the directory before it serves."""
    made, directory, stopping = make_lake("postgresql"), tmp_path / "second", threading.Event()
    publish(made, fleet.directory, "select 1")
    first, second = Leases(Server(state_url), LEAD, "", 3600), Leases(Server(state_url), LEAD, "", 5)
    taken = first.take()
    assert taken is not None
    plan = Plan(Settings(state_url=state_url), {}, (), after_pass.configured({}), lake=replica_of(made))
    waiting, found = Standby(second, plan, directory, lambda: NOW_US), []
    thread = threading.Thread(target=lambda: found.append(waiting.wait(stopping)))
    thread.start()
    try:
        wait_until(lambda: waiting.copy and waiting.copy.status.as_of_us, "the copy is whole")
        publish(made, fleet.directory, "update finding set severity = 'high'")
        pulls = waiting.copy.pulls  # type: ignore[union-attr]
        wait_until(lambda: waiting.copy.pulls > pulls, "it is kept as new as the lake")  # type: ignore[union-attr]
        assert [] == found
        first.release(taken.epoch)
        wait_until(lambda: found, "it has the lease")
        holding = found[0]
        assert holding is not None and holding.valid and waiting.copy is None
        with Store.open(directory) as store:
            last = mirror.last_pull(store)
            assert last is not None and last.whole
            assert [("high",)] == store.sql("select distinct severity from finding")
            assert store.sql("select count(*) from ledger_hour")[0][0] > 500
        holding.stop()
    finally:
        stopping.set()
        thread.join()
        for each in (first, second):
            each.close()


def test_a_lead_that_was_paused_notes_nothing(catalogues: Postgres) -> None:
    """Its transactions are refused in the state itself, whatever it was about to write."""
    url = catalogues.url(catalogues.new(empty=True))
    with State.open(Server(url)) as state:
        first, second = (Leases(Server(url), LEAD, "", 30) for _ in range(2))
        taken = first.take()
        assert taken is not None
        mine = fenced(state, Fence(LEAD, first.holder, taken.epoch))
        mine.note("week", "1")
        first.release(1)
        assert second.take() is not None
        with pytest.raises(NotHolder, match="no longer has the lease lead"):
            mine.note("week", "2")
        assert "1" == state.setting("week") == mine.setting("week")
        state.note("week", "3")
        for each in (first, second):
            each.close()


def test_a_cell_with_a_channel_needs_a_lead(make_lake: Make, fleet: Fleet, state_url: str, tmp_path: Path) -> None:
    tables = '[[channel]]\nname = "ops"\nkind = "webhook"\nurl = "https://hooks.example.com/x"\n'
    cell = Cell(make_lake("postgresql"), state_url, fleet.directory, tables=tables)
    lead = Leases(Server(state_url), LEAD, "", 3600)
    with running(cell):
        assert holder(cell) is cell
        words = (
            "channel ops is configured, but role cell sends no alerts and writes no reports. No process has the lead"
        )
        assert any(words in each for each in cell.readiness()[1]["reasons"])
        status, _, body = cell.ask("POST", "/api/v1/periods", b'{"period": "2026-W45"}')
        assert (421, "misdirected") == (status, body["error"]["code"]), body
        assert lead.take() is not None
        assert not any(words in each for each in cell.readiness()[1]["reasons"])
        cell.signal(signal.SIGTERM)
        assert 0 == cell.end()
    lead.close()
    assert [] == left_undone(CELL, None, None, True)  # type: ignore[arg-type]


class Counting:
    """Stands in for the messages after a pass."""

    rounds = 0

    def after_pass(self, store: Store) -> None:
        self.rounds += 1


def test_a_cell_that_does_everything_leaves_to_the_lead_what_both_would_do(
    make_lake: Make, fleet: Fleet, state_url: str
) -> None:
    """No message twice, no correction by its part of the fleet, no period closed by it; without a lead it does all three."""
    settings, made = Settings(state_url=state_url), make_lake("postgresql")
    own, lead = Leases(Server(state_url), "cell east", "", 3600), Leases(Server(state_url), LEAD, "", 3600)
    taken = own.take()
    assert taken is not None
    plan = Plan(settings, {}, (), after_pass.configured({}), lake=made)
    holding = Holding(own, taken, seconds())
    service = Service.open(fleet.directory, settings, plan, now_us=lambda: NOW_US, holding=holding, new_store=True)
    messages = Counting()

    def does() -> tuple[int, bool, bool]:
        """Messages of a round, whether closed periods are compared, and whether one is closed."""
        before = messages.rounds
        leading.after_pass(service, messages, service.store, 1)  # type: ignore[arg-type]
        try:
            closing.needs(service, service.store)
            closes = True
        except Misdirected as error:
            assert "send it to the one with --role lead" in str(error)
            closes = False
        return messages.rounds - before, service._analyzer._corrects(), closes

    try:
        assert (1, True, True) == does()
        won = lead.take()
        assert won is not None
        assert (0, False, False) == does()
        lead.release(won.epoch)
        assert (1, True, True) == does()
    finally:
        service.stop()
        for each in (own, lead):
            each.close()


def test_the_lead_closes_a_period_and_corrects_it(
    make_lake: Make, fleet: Fleet, state_url: str, tmp_path: Path
) -> None:
    """Over the copy of all cells: the frozen charges are those of the cell, and late data becomes one correction."""
    made, settings, moment = make_lake("postgresql"), Settings(state_url=state_url), [START_US + 8 * DAY_US]
    publish(made, fleet.directory, "select 1")
    leases = Leases(Server(state_url), LEAD, "http://lead:1", 3600)
    taken = leases.take()
    assert taken is not None
    holding = Holding(leases, taken, seconds())
    plan = Plan(settings, {}, (), after_pass.configured({}), lake=replica_of(made))
    service = Service.open(tmp_path / "lead", settings, plan, now_us=lambda: moment[0], role=LEAD_ROLE, holding=holding)
    try:
        assert service.mirror is not None
        service.mirror.start()
        wait_until(lambda: not service.mirror.problems(), "the copy is whole")  # type: ignore[union-attr]
        clock = Clock()
        api = Api(service, create_app(service, clock=clock), clock, moment)
        charged = api.get("/api/v1/chargeback?window=2026-11-02,2026-11-09&by=team").json()["items"]
        closed = api.request("POST", "/api/v1/periods", json={"period": "2026-W45", "force": True})
        assert 201 == closed.status_code, closed.text
        assert [] == Corrections(service.state).of("2026-W45")

        with Store.open(fleet.directory) as store, State.open(fleet.directory) as state:
            bring(store, state, fleet.hours[0], fleet.now_us + HOUR_US)
        assert [] == Corrections(service.state).of("2026-W45")
        pulled = service.mirror.pulls
        publish(made, fleet.directory, "select 1")
        wait_until(lambda: service.mirror.pulls > pulled, "the new hour is copied")  # type: ignore[union-attr]
        service.analyse_once()
        posted = Corrections(service.state).of("2026-W45")
        assert posted and {"late data"} == {line.why for line in posted}
        service.analyse_once()
        assert posted == Corrections(service.state).of("2026-W45"), "again: nothing"
        assert charged != api.get("/api/v1/chargeback?window=2026-11-02,2026-11-09&by=team").json()["items"]

        leases.release(holding.epoch)
        with pytest.raises(NotHolder):
            holding.fenced(service.state).note("x", "1")
    finally:
        service.stop()
        leases.close()


WEBHOOK = """
name = "ops"
kind = "webhook"
url = "https://hooks.example.com/x"
severity_min = "info"
events = ["opened", "resolved", "report"]
"""
DONE = (
    "select channel, finding_key, event from outbox order by 1, 2, 3",
    "select name, value from setting where name like 'report%' order by 1",
    "select name, number, reopened_us from period_closing order by 1, 2",
    "select count(*) as corrections from period_correction",
)
"""What a lead has done: messages, the week that was announced, closed periods and their corrections."""


def test_the_next_lead_repeats_nothing(
    make_lake: Make, fleet: Fleet, state_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alerts, the report of the week, a closed period and its correction: each is there once, whoever leads, and how often."""
    monkeypatch.setattr(after_pass, "LOOK_BACK_US", LONG_US)
    made, settings, moment = make_lake("postgresql"), Settings(state_url=state_url), [START_US + 10 * DAY_US]
    wanted = publish(made, fleet.directory, "update finding set state = 'open', resolved_reason = null")
    config = after_pass.configured({"channel": [tomllib.loads(WEBHOOK)]})
    plan = Plan(settings, {}, (), config, lake=replica_of(made))
    leases = [Leases(Server(state_url), LEAD, f"http://lead{number}:1", 3600) for number in range(2)]
    services: list[Service] = []

    def lead(number: int) -> Service:
        taken = leases[number].take()
        assert taken is not None
        holding, directory = Holding(leases[number], taken, seconds()), tmp_path / f"lead{number}"
        service = Service.open(directory, settings, plan, now_us=lambda: moment[0], role=LEAD_ROLE, holding=holding)
        services.append(service)
        assert service.mirror is not None
        service.mirror.start()
        wait_until(lambda: not service.mirror.problems(), "the copy is whole")  # type: ignore[union-attr]
        return service

    def done() -> list[list[dict[str, Any]]]:
        with State.open(Server(state_url)) as state:
            return [[dict(row) for row in state.read(query)] for query in DONE]

    try:
        first = lead(0)
        clock = Clock()
        api = Api(first, create_app(first, clock=clock), clock, moment)
        closed = api.request("POST", "/api/v1/periods", json={"period": "2026-W45", "force": True})
        assert 201 == closed.status_code, closed.text
        with Store.open(fleet.directory) as store, State.open(fleet.directory) as state:
            bring(store, state, fleet.hours[0], fleet.now_us + HOUR_US)
        pulled = first.mirror.pulls  # type: ignore[union-attr]
        publish(made, fleet.directory, "update finding set state = 'open', resolved_reason = null")
        wait_until(lambda: first.mirror.pulls > pulled, "the new hour is copied")  # type: ignore[union-attr]
        first.analyse_once()
        messages, weeks, periods, corrections = before = done()
        assert set(wanted) <= {row["finding_key"] for row in messages if row["event"] == "opened"}
        assert "report" in {row["event"] for row in messages}
        assert any("2026-W45" in row["value"] for row in weeks)
        assert ["2026-W45"] == [row["name"] for row in periods] and 0 < corrections[0]["corrections"]

        leases[0].release(first.holding.epoch)  # type: ignore[arg-type]
        second = lead(1)
        for service in (second, first, second):
            service.analyse_once()
            assert before == done()
        api = Api(second, create_app(second, clock=clock), clock, moment)
        again = api.request("POST", "/api/v1/periods", json={"period": "2026-W45", "force": True})
        assert 409 == again.status_code, again.text
        assert before == done()
    finally:
        for service in services:
            service.stop()
        for each in leases:
            each.close()
