"""What a reload does inside the process: which sources stay, settings, channels, plans with mistakes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from bench.remote_write import body
from gpuwatch.alerts.repository import Channels
from gpuwatch.analysis.pipeline import AnalyzeReport
from gpuwatch.commands.serve import read_again
from gpuwatch.core.errors import UsageError
from gpuwatch.core.registry import Sink
from gpuwatch.service import collect
from gpuwatch.service.collect import Collectors, Exchange, unchanged
from gpuwatch.service.config import Plan, load, made
from gpuwatch.service.service import CONFIGURATION, Service
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store
from tests.service.feed import NOW_US, points
from tests.worlds.patience import PATIENCE_S

CHANNEL = {"name": "ops", "kind": "slack", "url": "https://hooks.slack.com/services/T0/B0/abcdefghijklmnop"}


# What is the same.


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {}, "", id="nothing"),
        pytest.param({}, {"dcgm": [{"targets": ["a:1"]}]}, "", id="all new"),
        pytest.param({"dcgm": [{"targets": ["a:1"]}]}, {}, "", id="all gone"),
        pytest.param({"dcgm": [{"targets": ["a:1"]}]}, {"dcgm": [{"targets": ["a:1"]}]}, "a", id="no change"),
        pytest.param({"dcgm": {"targets": ["a:1"]}}, {"dcgm": [{"targets": ["a:1"]}]}, "a", id="written otherwise"),
        pytest.param({"dcgm": [{"targets": ["a:1"]}]}, {"dcgm": [{"targets": ["b:1", "a:1"]}]}, "a", id="one more"),
        pytest.param(
            {"dcgm": [{"targets": ["a:1"]}, {"targets": ["b:1"]}]},
            {"dcgm": [{"targets": ["b:1"]}, {"targets": ["a:1"]}]},
            "ab",
            id="another order",
        ),
        pytest.param(
            {"dcgm": [{"targets": ["a:1", "b:1"]}]},
            {"dcgm": [{"targets": ["a:1", "b:1"], "interval_s": 5}]},
            "",
            id="another interval",
        ),
        pytest.param(
            {"dcgm": [{"targets": ["a:1"], "bearer_token": "x"}]},
            {"dcgm": [{"targets": ["a:1"], "bearer_token": "y"}]},
            "",
            id="another secret",
        ),
        pytest.param(
            {"dcgm": [{"targets": ["a:1"]}, {"dns": ["x:1"]}]},
            {"dcgm": [{"targets": ["a:1", "b:1"]}, {"dns": ["x:1"]}]},
            "a",
            id="a discovery may find what is listed now: it begins anew",
        ),
    ],
)
def test_sources_that_did_not_change(before: dict[str, Any], after: dict[str, Any], expected: str) -> None:
    assert {f"dcgm http://{host}:1/metrics" for host in expected} == unchanged(before, after)


# The collectors.


class Source:
    """A live source that runs until it is cancelled, and counts."""

    kind = "dcgm"
    cluster = "c1"
    interval_s = 15.0

    def __init__(self, name: str, hangs: bool = False) -> None:
        self.name = name
        self.began = threading.Event()
        self.ended = threading.Event()
        self._hangs = hangs

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self._hangs:
                await asyncio.Event().wait()
            raise
        finally:
            self.ended.set()


def clock() -> int:
    return NOW_US


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = Service.open(tmp_path / "data", Settings(), {}, now_us=clock, live=False)
    opened.start()
    yield opened
    opened.stop()


def collecting(service: Service, *live: Source) -> Collectors:
    return Collectors(live, service.submit, service._sources, clock, service._open_claims, service._clocks)


def names(service: Service) -> list[str]:
    return [status.name for status in service.sources()]


def test_an_exchange_ends_begins_and_keeps(service: Service) -> None:
    kept, gone, old = Source("kept"), Source("gone"), Source("changed")
    collectors = collecting(service, kept, gone, old)
    collectors.start()
    assert all(source.began.wait(PATIENCE_S) for source in (kept, gone, old))
    collectors.failed("changed", NOW_US, "refused")

    changed, new, twin = Source("changed"), Source("new"), Source("kept")
    done = collectors.exchange([twin, changed, new], {"kept"})
    assert changed.began.wait(PATIENCE_S) and new.began.wait(PATIENCE_S)

    assert Exchange(["new"], ["gone"], ["changed"], 1) == done
    assert (True, True, False) == (gone.ended.is_set(), old.ended.is_set(), kept.ended.is_set())
    assert not twin.began.is_set(), "the one that runs goes on in its stead"
    assert ["changed", "kept", "new"] == names(service)
    assert {"never"} == {status.state(NOW_US) for status in service.sources()}, "what failed was another source"
    collectors.stop()
    assert kept.ended.is_set() and new.ended.is_set()


def test_the_first_source_of_all_may_come_later(service: Service) -> None:
    collectors = collecting(service)
    collectors.start()
    new = Source("new")

    assert Exchange(["new"], [], [], 0) == collectors.exchange([new], ())
    assert new.began.wait(PATIENCE_S)
    assert Exchange([], ["new"], [], 0) == collectors.exchange([], ())
    assert new.ended.wait(PATIENCE_S)
    assert [] == names(service)
    collectors.stop()


def test_a_source_that_does_not_end_is_left_behind(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "STOP_S", 0.1)
    stuck, new = Source("stuck", hangs=True), Source("new")
    collectors = collecting(service, stuck)
    collectors.start()
    assert stuck.began.wait(PATIENCE_S)

    assert ["new"] == collectors.exchange([new], ()).started
    assert new.began.wait(PATIENCE_S)
    collectors.stop()


def test_what_is_read_shares_a_commit_and_what_is_pushed_does_not_wait(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, patient = service._writer.submit, list[bool]()

    def noted(*arguments: Any, **named: bool) -> Future[None]:
        patient.append(named["patient"])
        return submit(*arguments, **named)

    monkeypatch.setattr(service._writer, "submit", noted)
    asyncio.run(service._collectors.commit("s", [points([NOW_US])]))
    service.receive("remote-write", body([]), "", "c1", "pushed").result(PATIENCE_S)

    assert [True, False] == patient


# The service.


def plan(settings: Settings | None = None, **tables: Any) -> Plan:
    return made(settings or Settings(), tables, live=False)


def test_settings_are_taken_over_but_for_those_that_need_a_restart(service: Service) -> None:
    wanted = Settings(idle_minutes=20, memory_limit="1GB", raw_retention_days=7, public_url="https://g.example.com")

    assert service.reload(lambda: plan(wanted))
    assert Settings(idle_minutes=20, public_url="https://g.example.com") == service.settings
    assert "https://g.example.com" == service.base_url

    service.own_url = "http://127.0.0.1:8765"
    assert service.reload(plan)
    assert ("http://127.0.0.1:8765", Settings()) == (service.base_url, service.settings)


def test_channels_of_the_file_come_and_go_and_those_made_elsewhere_stay(service: Service) -> None:
    channels = Channels(service.state)
    channels.put(CHANNEL | {"name": "mine"}, "ann", NOW_US)

    assert service.reload(lambda: plan(channel=[CHANNEL]))
    assert [("mine", "api"), ("ops", "file")] == [(c.name, c.origin) for c in channels.list()]
    assert service.reload(plan)
    assert ["mine"] == [channel.name for channel in channels.list()]


def test_private_addresses_are_allowed_from_the_reload_on(service: Service) -> None:
    local = CHANNEL | {"kind": "webhook", "url": "http://10.1.2.3/hook"}
    with pytest.raises(UsageError):
        Channels(service.state, service.channel_guard).put(local, "ann", NOW_US)

    assert service.reload(lambda: plan(alerts={"allow_private": ["10.0.0.0/8"]}))
    assert Channels(service.state, service.channel_guard).put(local, "ann", NOW_US)


def test_alerts_go_on_after_a_reload_and_end_at_once(service: Service) -> None:
    alerting = service._alerting
    alerting.start()
    for _ in range(3):
        assert service.reload(lambda: plan(alerts={"allow_private": ["10.0.0.0/8"]}))
    assert alerting._thread.is_alive()

    alerting.stop()
    assert not alerting._thread.is_alive()


def test_a_reload_that_fails_is_reported_and_the_next_clears_it(service: Service) -> None:
    def broken() -> Plan:
        raise RuntimeError("disk on fire")

    assert not service.reload(broken)
    assert [(CONFIGURATION, "failing", "not reloaded: RuntimeError: disk on fire")] == [
        (status.name, status.state(NOW_US), status.error) for status in service.sources()
    ]
    assert service.reload(plan)
    assert [] == names(service)


def directory(path: Path) -> None:
    path.mkdir()


def huge(path: Path) -> None:
    path.write_bytes(b"#" * 10_000_000)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda path: None, "No such file", id="is gone"),
        pytest.param(directory, "Is a directory", id="is a directory"),
        pytest.param(huge, "larger than", id="is huge"),
        pytest.param(endless, "cannot be reloaded", id="is endless"),
        pytest.param(os.mkfifo, "cannot be reloaded", id="was a pipe, which would seem empty now"),
        pytest.param(lambda path: path.write_bytes(b"[gpuwatch\n"), "line 1", id="is no TOML"),
    ],
)
def test_a_file_that_cannot_be_read_changes_nothing(
    service: Service, tmp_path: Path, make: Callable[[Path], object], expected: str
) -> None:
    assert service.reload(lambda: plan(Settings(idle_minutes=20), channel=[CHANNEL]))
    make(tmp_path / "gpuwatch.toml")

    assert not service.reload(lambda: read_again(tmp_path / "gpuwatch.toml", {}))
    assert [True] == [expected in (status.error or "") for status in service.sources()], service.sources()
    assert Settings(idle_minutes=20) == service.settings
    assert ["ops"] == [channel.name for channel in Channels(service.state).list()]


def test_settings_that_change_while_the_books_are_made_hold_in_the_next_pass(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []

    def analyze(store: Store, state: object, settings: Settings, **_: object) -> AnalyzeReport:
        used.append(settings.idle_minutes)
        if len(used) == 1:
            assert service.reload(lambda: plan(Settings(idle_minutes=20)))
        return AnalyzeReport()

    monkeypatch.setattr("gpuwatch.service.analyzer.analyze", analyze)
    for _ in range(3):
        service.analyse_once()

    assert [15, 20] == used, "the third pass has no news"


def test_after_the_end_there_is_no_reload(tmp_path: Path) -> None:
    service = Service.open(tmp_path / "data", Settings(), {}, now_us=clock, live=False)
    service.start()
    service.stop()

    assert not service.reload(plan)


def test_a_plan_names_every_mistake_of_a_file_at_once(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text(
        '[gpuwatch]\nthreads = -1\n[[dcgm]]\ntargets = ["a:1"]\nbearer_token_file = "/nonexistent/token"\n'
        '[[channel]]\nname = "ops"\nkind = "pigeon"\n[smoke]\n'
    )
    with pytest.raises(UsageError) as captured:
        load(config, {"GPUWATCH_DRAM_ROOF": "8"})

    words = ("threads", "dram_roof", "/nonexistent/token", "kind must be one of", "[smoke]")
    assert [] == [word for word in words if word not in str(captured.value)], str(captured.value)


SECRETS = (
    '[[dcgm]]\ntargets = ["https://a:1"]\nbearer_token_file = "{}"\n',
    '[[dcgm]]\nkubernetes = {{ namespace = "g", service = "s", server = "https://k:6443", bearer_token_file = "{}" }}\n',
    '[[kubernetes]]\nserver = "https://k:6443"\nbearer_token_file = "{}"\n',
    '[[prometheus]]\nurl = "https://p:9090"\nbearer_token_file = "{}"\n',
    '[[ray]]\nurl = "https://r:8265"\nbearer_token_file = "{}"\n',
    '[[slurm]]\nurl = "https://s:6820"\nuser = "u"\ntoken_file = "{}"\n',
    '[[yunikorn]]\nurl = "https://y:9080"\nbearer_token_file = "{}"\n',
    '[[channel]]\nname = "ops"\nkind = "slack"\nurl_file = "{}"\n',
)


@pytest.mark.parametrize("text", [pytest.param(text, id=text.split("]]")[0][2:]) for text in SECRETS])
def test_a_secret_file_of_any_kind_must_be_there_and_hold_something(text: str, tmp_path: Path) -> None:
    config, secret = tmp_path / "gpuwatch.toml", tmp_path / "secret"
    config.write_text(text.format(secret))
    for make in (lambda: None, secret.touch, lambda: (secret.unlink(), secret.mkdir())):
        make()
        with pytest.raises(UsageError) as captured:
            load(config, {})
        assert str(secret) in str(captured.value)

    secret.rmdir()
    secret.write_text(CHANNEL["url"])
    assert load(config, {}).settings == Settings()


def test_a_password_in_an_address_is_not_shown(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text('[gpuwatch]\npublic_url = "https://ann:S3CRET@g.example.com"\n')
    with pytest.raises(UsageError, match="public_url") as captured:
        load(config, {})

    assert "S3CRET" not in str(captured.value)


def test_a_label_may_be_named_as_a_file_is(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text('[[dcgm]]\ntargets = ["a:1"]\nlabels = { made_of_file = "no" }\n')

    assert 1 == len(load(config, {}).live)
