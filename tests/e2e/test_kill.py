"""kill -9 of a server under load: what was acknowledged is stored once, and every message arrives.

Numbers of rounds: GPUWATCH_TEST_KILL_ROUNDS (default 3). Each round the server is killed at a random instant while
clients send samples and findings are told to a webhook, then started again on the same directory.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpuwatch.alerts.outbox.deliver import HOLD_US, Deliverer
from gpuwatch.alerts.outbox.repository import Outbox
from gpuwatch.core.clock import SECOND_US
from gpuwatch.findings import read as findings_read
from gpuwatch.imports.files import seal_all
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.e2e.process import PROTOBUF, Server, gpu_labels, idle_job, now_ms, packed
from tests.e2e.receiver import Receiver
from tests.worlds.patience import PATIENCE_S, wait_until

ROUNDS = int(os.environ.get("GPUWATCH_TEST_KILL_ROUNDS", "3"))
SEED = 20261121
CLIENTS = 3
GPUS_A_CLIENT = 20
IDLE_JOB = "research/trainer-"
JOBS_A_ROUND = 2
ALIVE_S_MAX = 2.5
"""A round's server is killed within this of its first answer; its start takes longer than that."""
PASS_S = 1
PAUSE_S = 0.02
"""Between two requests of a client: the server has to answer, sum up and send as well."""
ANSWER_S = 0.2
"""How long the webhook takes: a kill may fall between what was sent and the note of it."""
STEP_MS = 1000
SCALE = 1 << 20
"""Values are whole multiples of 1 / SCALE, which a float keeps exactly."""
FIELD = "DCGM_FI_PROF_SM_ACTIVE"

Record = Callable[[str, object], None]
Sample = tuple[str, int, float]  # GPU, time in microseconds, value


class Client(threading.Thread):
    """Sends a request after another, each with samples of its own, the same one again until it is acknowledged."""

    def __init__(self, number: int, start_ms: int) -> None:
        super().__init__(daemon=True)
        self._gpus = [f"GPU-{number}-{gpu:02d}" for gpu in range(GPUS_A_CLIENT)]
        self._at_ms = start_ms
        self._stopping = threading.Event()
        self.port = 0
        self.acknowledged: set[Sample] = set()
        self.sent: set[Sample] = set()
        self.refused: Counter[int] = Counter()
        self.repeated = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            self._at_ms += STEP_MS
            samples = {(g, self._at_ms * 1000, (self._at_ms + 7 * n) % SCALE / SCALE) for n, g in enumerate(self._gpus)}
            series = [(gpu_labels(gpu, FIELD), [(value, at_us // 1000)]) for gpu, at_us, value in sorted(samples)]
            self.sent |= samples
            content = packed(series)
            while not self._stopping.is_set():
                status = self._post(content)
                if status == 204:
                    self.acknowledged |= samples
                    self._stopping.wait(PAUSE_S)
                    break
                self.repeated += 1
                self.refused[status] += 1
                self._stopping.wait(0.05)

    def stop(self) -> None:
        self._stopping.set()
        self.join(PATIENCE_S)

    def _post(self, content: bytes) -> int:
        """The status, 0 where there was no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("POST", "/api/v1/write", content, PROTOBUF)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()


class Killed:
    """What is left after the rounds."""

    def __init__(self, directory: Path, receiver: Receiver, kills: int) -> None:
        self.directory = directory
        self.receiver = receiver
        self.kills = kills
        self.clients: list[Client] = []


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    folder = tmp_path_factory.mktemp("kill")
    chance = random.Random(SEED)
    with Receiver(answer_s=ANSWER_S) as receiver:
        config = folder / "gpuwatch.toml"
        config.write_text(
            '[alerts]\nallow_private = ["127.0.0.1"]\n\n[[channel]]\nname = "ops"\nkind = "webhook"\n'
            f'url = "{receiver.url}"\nseverity_min = "info"\nrules = ["idle-hoarding"]\n'
        )
        result = Killed(folder / "data", receiver, ROUNDS)
        start_ms = now_ms() // STEP_MS * STEP_MS - 6 * 3_600_000
        result.clients = [Client(number, start_ms) for number in range(CLIENTS)]
        for number in range(ROUNDS):
            server = _started(result, config, number)
            time.sleep(chance.uniform(0, ALIVE_S_MAX))
            server.kill()
        last = _started(result, config, ROUNDS)
        for client in result.clients:
            client.stop()
        wait_until(lambda: _queued(result.directory) == JOBS_A_ROUND * (ROUNDS + 1), "every idle job is found", 600)
        assert 0 == last.stop(), last.log
        with State.open(result.directory) as state:
            # What a killed server was about to send is free again after HOLD_US: not waited for, but played.
            later_us = time.time_ns() // 1000 + HOLD_US + SECOND_US
            deliverer = Deliverer(state, lambda: later_us, allow_private=["127.0.0.1"])
            while asyncio.run(deliverer.deliver_due()):
                pass
            assert 0 == Outbox(state).status()["ops"].pending
        yield result


def _started(killed: Killed, config: Path, number: int) -> Server:
    """A server that has been sent this round's idle jobs, under load."""
    server = Server(killed.directory, config=config, analyze_interval_s=PASS_S)
    for client in killed.clients:
        client.port = server.port
        if not client.is_alive():
            client.start()
    for job in range(JOBS_A_ROUND):
        send_idle_job(server, f"{number}-{job}")
    return server


def send_idle_job(server: Server, name: str) -> None:
    """The load may fill the queue: then the job is sent again."""
    series = idle_job(f"GPU-idle-{name}", f"trainer-{name}", now_ms())
    wait_until(lambda: server.write(series).status == 204, "an idle job is stored")


def _queued(directory: Path) -> int:
    """Findings of whose start the webhook was told, or will be."""
    with closing(sqlite3.connect(directory / "state.sqlite")) as connection:
        found = connection.execute("select count(distinct finding_key) from outbox where event = 'opened'")
        return int(found.fetchone()[0])


def test_nothing_acknowledged_is_lost_or_counted_twice_and_no_message_is_lost(
    killed: Killed, record_property: Record
) -> None:
    # One test for both: with several workers, each would play all rounds for the test that it was given.
    stored_once(killed, record_property)
    every_finding_notified(killed, record_property)


def stored_once(killed: Killed, record_property: Record) -> None:
    """Every acknowledged sample is stored once, and nothing else is."""
    acknowledged = set().union(*(client.acknowledged for client in killed.clients))
    sent = set().union(*(client.sent for client in killed.clients))
    with Store.open(killed.directory, create=False) as store:
        seal_all(store)
        rows = store.sql(
            """select c.gpu, s.observed_us, s.sm_active_ratio
            from sample s
            join context c using (context_id)
            where c.gpu like 'GPU-_-__'"""
        )
        left = store.sql("select count(*) from sample_tail")

    stored = Counter(rows)
    record_property("kills", killed.kills)
    record_property("acknowledged", len(acknowledged))
    record_property("stored", len(rows))
    record_property("requests sent again", sum(client.repeated for client in killed.clients))
    assert [(0,)] == left
    assert {} == {sample: count for sample, count in stored.items() if count > 1}
    assert set() == acknowledged - set(stored)
    assert set() == set(stored) - sent
    assert len(acknowledged) > killed.kills * GPUS_A_CLIENT, "the load was no load"
    assert {0, 503} >= set().union(*(client.refused for client in killed.clients))


def every_finding_notified(killed: Killed, record_property: Record) -> None:
    """Every finding was told, and what came twice had the same key."""
    with Store.open(killed.directory, create=False) as store:
        wanted = {("opened", f.key) for f in findings_read.read(store) if (f.subject["id"] or "").startswith(IDLE_JOB)}
    messages = killed.receiver.messages
    first = {message.key: message for message in reversed(messages)}
    alerts = Counter(alert for message in first.values() for alert in message.alerts)

    record_property("findings", len(wanted))
    record_property("messages", len(messages))
    record_property("messages doubled", len(messages) - len(first))

    assert JOBS_A_ROUND * (killed.kills + 1) == len(wanted)
    assert set() == wanted - set(alerts)
    assert {} == {alert: count for alert, count in alerts.items() if count > 1 and alert[0] == "opened"}
    assert killed.kills >= len(messages) - len(first)
    assert all(first[message.key].alerts == message.alerts for message in messages)
