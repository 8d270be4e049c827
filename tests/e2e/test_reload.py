"""A configuration that changes while the service runs: SIGHUP, what it disturbs, and what it does not."""

from __future__ import annotations

import http.server
import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuwatch.commands.reloading import Again
from gpuwatch.service.service import CONFIGURATION
from tests.e2e.load import Load, Sample, stored
from tests.e2e.process import Server
from tests.worlds.patience import PATIENCE_S, wait_until

RELOADS = 5
STORM = 50
TAKEN = "configuration reloaded"


class Exporter:
    """A dcgm-exporter of one GPU that counts connections and scrapes."""

    def __init__(self, name: str) -> None:
        self.connections = self.scrapes = 0
        exporter = self

        class Page(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                exporter.connections += 1
                super().setup()

            def do_GET(self) -> None:
                exporter.scrapes += 1
                body = f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-{name}",Hostname="{name}"}} 41\n'.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.server.daemon_threads = True
        self.target = f"127.0.0.1:{self.server.server_address[1]}"
        self.name = f"dcgm http://{self.target}/metrics"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@contextmanager
def exporters(*names: str) -> Iterator[list[Exporter]]:
    running = [Exporter(name) for name in names]
    try:
        yield running
    finally:
        for one in running:
            one.server.shutdown()
            one.server.server_close()


def tables(*groups: tuple[float, list[Exporter]], settings: str = "") -> str:
    """The text of a settings file."""
    listed = "".join(
        f"[[dcgm]]\ninterval_s = {interval_s}\ntargets = {json.dumps([e.target for e in group])}\n"
        for interval_s, group in groups
    )
    return f"[gpuwatch]\nanalyze_interval_s = 600\n{settings}\n{listed}"


def reload(server: Server, config: Path, text: str, log_line: str = TAKEN) -> None:
    """Writes the file, sends SIGHUP, and waits until the server has told how it went."""
    before = server.log.count(log_line)
    config.write_text(text)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: server.log.count(log_line) > before, log_line)


def listed(server: Server) -> dict[str, str]:
    """State by name of every source that is read."""
    return {item["source"]: item["state"] for item in server.ask("GET", "/readyz").json["sources"]["items"]}


# A whole server.


def test_what_is_acknowledged_through_five_reloads_is_stored_once(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    with exporters("a", "b") as (a, b):
        config.write_text(tables((1, [a])))
        with Server(tmp_path / "data", config=config) as server:
            with Load(server) as load:
                for at in range(RELOADS):
                    group = [a, b] if at % 2 == 0 else [a]
                    reload(server, config, tables((1, group), settings=f"idle_minutes = {at + 10}"))
                    load.more(8)
            assert 0 == server.stop(), server.log

    assert ({204}, []) == (set(load.statuses), load.broken)
    assert "traceback" not in server.log.lower(), server.log
    assert load.acknowledged == stored(server.directory)


def test_what_is_acknowledged_before_a_kill_in_a_reload_is_stored_once(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    acknowledged: Counter[Sample] = Counter()
    with exporters("a", "b") as (a, b):
        for group in ([a, b], [b], [a, b]):
            config.write_text(tables((1, [a])))
            server = Server(tmp_path / "data", config=config)
            with Load(server) as load:
                load.more(8)
                config.write_text(tables((1, group), settings="idle_minutes = 20"))
                server.process.send_signal(signal.SIGHUP)
                load.more(1)
                server.kill()
            acknowledged += load.acknowledged

    kept = stored(server.directory)
    assert Counter() == acknowledged - kept
    assert {1} == set(kept.values())


def test_sources_come_go_and_change_and_the_others_are_left_alone(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    with exporters("kept", "gone", "slower", "new") as (kept, gone, slower, new):
        config.write_text(tables((1, [kept, gone]), (1, [slower])))
        with Server(tmp_path / "data", config=config) as server:
            wait_until(lambda: {"ok"} == set(listed(server).values()), "three sources that are read")
            reload(server, config, tables((1, [kept, new]), (2, [slower])))
            wait_until(lambda: listed(server).get(new.name) == "ok", "the new source")
            last, kept_before = gone.scrapes, kept.scrapes
            wait_until(lambda: kept.scrapes >= kept_before + 2, "two more scrapes of the one that is kept")

            assert {kept.name: "ok", new.name: "ok"} == {n: s for n, s in listed(server).items() if n != slower.name}
            assert last == gone.scrapes
            assert 1 == kept.connections, "its connection is the one of the start"
            entry = next(json.loads(line) for line in server.log.splitlines() if TAKEN in line)
            assert ([new.name], [gone.name], [slower.name], 1) == (
                entry["started"],
                entry["stopped"],
                entry["restarted"],
                entry["kept"],
            )


def test_a_bad_file_changes_nothing_and_is_reported_until_it_is_mended(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    with exporters("a") as (a,):
        config.write_text(tables((1, [a])))
        with Server(tmp_path / "data", config=config) as server:
            wait_until(lambda: listed(server).get(a.name) == "ok", "the source")
            before = a.scrapes
            reload(server, config, tables(settings="threads = -1\ncolour = 1"), "configuration not reloaded")
            wait_until(lambda: a.scrapes >= before + 2, "two more scrapes")

            assert "failing" == listed(server)[CONFIGURATION]
            assert 200 == server.ask("GET", "/readyz").status
            items = server.ask("GET", "/api/v1/quality").json["items"]
            errors = [str(item) for item in items if CONFIGURATION in str(item.get("source"))]
            assert 1 == len(errors) and "threads" in errors[0] and "colour" in errors[0], items

            reload(server, config, tables((1, [a]), settings="threads = 1"))
            assert CONFIGURATION not in listed(server)
            assert "these settings need a restart" in server.log and '"threads"' in server.log
            assert 1 == a.connections


def test_signals_in_a_storm_are_taken_together(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text(tables())
    with Server(tmp_path / "data", config=config) as server:
        for _ in range(STORM):
            server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: TAKEN in server.log, "the first one is taken over")
        reload(server, config, tables(settings="idle_minutes = 20"))
        wait_until(lambda: '"idle_minutes"' in server.log, "the last one is taken over")

        assert server.ready()
        server.process.send_signal(signal.SIGTERM)
        while server.process.poll() is None:
            server.process.send_signal(signal.SIGHUP)
        assert 0 == server.process.returncode, server.log


def test_a_configuration_that_is_gone_is_a_bad_one(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text(tables())
    with Server(tmp_path / "data", config=config) as server:
        config.unlink()
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "configuration not reloaded" in server.log, "the word")

        assert "check --config" in server.log
        assert server.ready()


# The signal itself.


def test_a_signal_in_the_middle_of_a_signal_never_hangs() -> None:
    again, calls = Again(), threading.Semaphore(0)
    again.call = calls.release
    again.start()

    def storm() -> None:
        def between(frame: object, event: str, argument: object) -> Any:
            again.ask()
            return between

        sys.settrace(between)
        again.ask()
        sys.settrace(None)

    asking = threading.Thread(target=storm, daemon=True)
    asking.start()
    asking.join(PATIENCE_S)

    assert not asking.is_alive()
    assert calls.acquire(timeout=PATIENCE_S)
    again.stop()


def test_asked_before_it_is_started_it_calls_then_and_asked_often_it_calls_once_more() -> None:
    again, going, go = Again(), threading.Event(), threading.Event()
    calls: list[int] = []

    def call() -> None:
        calls.append(len(calls))
        going.set()
        assert go.wait(PATIENCE_S)

    again.call = call
    again.ask()
    again.start()
    assert going.wait(PATIENCE_S)
    for _ in range(5):
        again.ask()
    go.set()
    wait_until(lambda: calls == [0, 1], "one more call for five that asked")
    again.stop()

    assert [0, 1] == calls
