"""The server as a process: signals, ports, configuration, a full disk, a clock that jumps, commands beside it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwatch.cli import app
from gpuwatch.core.model import Rejects
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.store import lockfile
from gpuwatch.store.database import Store
from tests.e2e.load import Load, Sample, stored
from tests.e2e.process import PROTOBUF, Ended, Server, gpu_labels, idle_job, now_ms, packed
from tests.e2e.receiver import Receiver
from tests.service.feed import NOW_US, points
from tests.worlds.patience import PATIENCE_S, wait_until

USAGE, UNREACHABLE = 2, 3
MIB = 1 << 20
AT_ONCE = 6_000
"""Samples in a request: some requests fill half a MiB of disk."""
HOUR_US = 3_600_000_000
KEPT = ("gpuwatch.duckdb", "state.sqlite", "tmp")
"""What a server that ended leaves in its directory."""
RUNNER = CliRunner()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("process") / "data", analyze_interval_s=1) as running:
        assert 204 == running.write(idle_job("GPU-a", "trainer-0", now_ms())).status
        wait_until(lambda: bool(running.ask("GET", "/api/v1/findings").json["items"]), "a finding")
        yield running
        assert 0 == running.stop(signal.SIGINT), running.log


def run_command(name: str, *arguments: str, data: Path) -> Ended:
    """A command that ends by itself, in this process: `serve` too, where it must not start."""
    done = RUNNER.invoke(app, [*name.split(" "), *arguments, "--data", str(data)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return Ended(done.exit_code, done.stdout, done.stderr)


# Ends.


def test_a_signal_under_load_ends_in_order_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Load(server) as load:
        load.more(8)
        code = server.stop(signal.SIGTERM)

    assert 0 == code, server.log
    assert {204, 503} >= set(load.statuses)
    assert "traceback" not in server.log.lower(), server.log
    assert [] == [path.name for path in server.directory.iterdir() if path.name not in KEPT]
    assert Counter() == load.acknowledged - stored(server.directory)


def test_a_signal_right_after_the_start_is_not_lost(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", cold=True)

    assert 0 == server.stop()


# Does not start.


def test_a_second_server_on_a_directory_names_the_process_that_holds_it(server: Server) -> None:
    done = run_command("serve", "--port", "0", data=server.directory)

    assert (UNREACHABLE, "") == (done.code, done.out)
    assert f"process {server.pid}" in done.err
    assert 1 == done.err.count("\n"), done.err
    assert server.ready()
    assert json.loads((server.directory / "serve.json").read_text())["pid"] == server.pid


def test_a_port_in_use_is_named_and_nothing_is_left_behind(server: Server, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    done = run_command("serve", "--port", str(server.port), data=directory)

    assert (UNREACHABLE, "") == (done.code, done.out)
    assert f"port {server.port}" in done.err
    assert 1 == done.err.count("\n"), done.err
    assert not directory.exists()


def test_beyond_this_machine_a_token_must_exist(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    done = run_command("serve", "--port", "0", "--host", "0.0.0.0", data=directory)

    assert (USAGE, "") == (done.code, done.out)
    assert "gpuwatch token create" in done.err
    token = run_command("token create", "--scope", "admin", data=directory).out.strip()
    with Server(directory, host="0.0.0.0") as server:
        assert 401 == server.ask("GET", "/api/v1/me").status
        assert 200 == server.ask("GET", "/api/v1/me", headers={"Authorization": f"Bearer {token}"}).status
        beside = run_command("findings", "--format", "json", data=directory)
        assert (0, {"items": []}) == (beside.code, json.loads(beside.out or "null")), beside.err


def test_every_mistake_of_the_configuration_is_named_at_once(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text(
        """
[gpuwatch]
threads = -1
colour = "green"

[alerts]
allow_privat = []

[[channel]]
name = "ops"
kind = "pigeon"
url = "https://hooks.example.com/T0PSECRETT0KEN"

[[dcgm]]
targets = "n1:9400"

[smoke]
signal = 1
"""
    )
    done = run_command("serve", "--port", "0", "--config", str(config), data=tmp_path / "data")

    assert (USAGE, "") == (done.code, done.out)
    assert "T0PSECRETT0KEN" not in done.err
    assert [] == [name for name in ("threads", "colour", "smoke") if name not in done.err], done.err
    assert 1 == done.err.count("\n"), done.err


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param('[alerts]\nallow_privat = []\n[[channel]]\nname = "ops"\nkind = "pigeon"\nurl = "ftp://x"\n',
                     ("allow_private", "kind must be one of alertmanager, email", "url"), id="of alerts and channels"),
        pytest.param("[[dcgm]]\ncolour = 1\n[[dcgm]]\nsmell = 2\n", ("colour", "smell"), id="of two sources"),
        pytest.param("[gpuwatch\n", ("gpuwatch.toml", "line 1"), id="of TOML itself"),
    ],
)  # fmt: skip
def test_mistakes_of_one_kind_are_named_together(text: str, named: tuple[str, ...], tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text(text)
    done = run_command("serve", "--port", "0", "--config", str(config), data=tmp_path / "data")

    assert (USAGE, "") == (done.code, done.out)
    assert [] == [word for word in named if word not in done.err], done.err
    assert not (tmp_path / "data" / "serve.json").exists()


# Commands beside it.


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("findings", ["--format", "json"], id="findings"),
        pytest.param("chargeback", ["--window", "24h", "--format", "json"], id="chargeback"),
        pytest.param("ledger", ["--window", "24h", "--format", "json"], id="ledger"),
        pytest.param("doctor", ["--format", "json"], id="doctor"),
        pytest.param("token list", ["--format", "json"], id="token list"),
    ],
)
def test_a_command_on_a_directory_in_use_answers(server: Server, name: str, arguments: list[str]) -> None:
    done = run_command(name, *arguments, data=server.directory)

    assert done.code in ((0, 1) if name == "doctor" else (0,)), done.err
    assert "items" in json.loads(done.out)
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("analyze", [], id="analyze"),
        pytest.param("import openmetrics", ["/dev/null"], id="import"),
    ],
)
def test_a_command_that_must_write_names_the_process(server: Server, name: str, arguments: list[str]) -> None:
    done = run_command(name, *arguments, data=server.directory)

    assert (UNREACHABLE, True) == (done.code, f"process {server.pid}" in done.err), done.err
    assert "Traceback" not in done.err


def test_a_backup_while_it_serves_is_a_directory_that_serves(server: Server, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    done = run_command("backup", str(copy), data=server.directory)
    assert 0 == done.code, done.err
    wanted = {f["key"] for f in server.ask("GET", "/api/v1/findings").json["items"]}
    found = json.loads(run_command("findings", "--format", "json", data=copy).out)

    assert wanted == {f["key"] for f in found["items"]} != set()


def ended_process() -> int:
    """The id of a process that is gone."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(PATIENCE_S)
    return done.pid


@pytest.mark.parametrize(
    "pid",
    [
        pytest.param(ended_process, id="gone"),
        pytest.param(os.getppid, id="another program's by now"),
    ],
)
def test_a_note_of_a_server_that_was_killed_leads_nobody_astray(pid: Callable[[], int], tmp_path: Path) -> None:
    directory = tmp_path / "data"
    Store.open(directory).close()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    lockfile.leave(directory, lockfile.Note(pid(), f"http://127.0.0.1:{port}", "secret"))
    done = run_command("findings", "--format", "json", data=directory)

    assert (0, {"items": []}) == (done.code, json.loads(done.out or "null")), done.err


def test_bills_are_imported_beside_a_server_and_nothing_else(tmp_path: Path) -> None:
    """Everything else says what to do."""
    directory, bill, jobs = tmp_path / "data", tmp_path / "bill.csv", tmp_path / "jobs.txt"
    bill.write_text(
        "BilledCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ProviderName\n"
        "12.50,USD,2026-11-02 00:00:00,2026-11-03 00:00:00,Tax,AWS\n"
    )
    jobs.write_text("JobID|State\n1|COMPLETED\n")
    Store.open(directory).close()
    with Server(directory):
        done = [run_command("import bill-focus", str(bill), "--format", "json", data=directory) for _ in range(2)]
        other = run_command("import sacct", str(jobs), data=directory)

    assert [(0, 1), (1, 0)] == [
        (item["repeated"], item["records"]) for one in done for item in json.loads(one.out or "{}")["items"]
    ]
    assert (3, True) == (other.code, "stop it, import, then start it again" in other.err)


# Secrets.


def test_logs_hold_no_secret(tmp_path: Path) -> None:
    directory, config = tmp_path / "data", tmp_path / "gpuwatch.toml"
    token = run_command("token create", "--scope", "admin", data=directory).out.strip()
    with Receiver(status=500) as receiver:
        config.write_text(
            '[alerts]\nallow_private = ["127.0.0.1"]\n\n[[channel]]\nname = "ops"\nkind = "slack"\n'
            f'url = "{receiver.url}"\nseverity_min = "info"\n'
        )
        with Server(directory, config=config, analyze_interval_s=1) as server:
            asks = {"Authorization": f"Bearer {token}"}
            local = json.loads((directory / "serve.json").read_text())["secret"]
            server.ask("POST", "/api/v1/write", packed(idle_job("GPU-a", "trainer-0", now_ms())), PROTOBUF | asks)
            test = server.ask("POST", "/api/v1/channels/ops/test", b"", asks)
            wrong = server.ask("GET", "/api/v1/me", headers={"Authorization": "Bearer " + token[:-1]})
            shown = [server.ask("GET", path, headers=asks).body.decode() for path in
                     ("/api/v1/channels", "/api/v1/quality", "/metrics", "/readyz", "/api/v1/me")]  # fmt: skip
        assert (False, 401) == (test.json["ok"], wrong.status)
        assert receiver.messages
    output = "\n".join([server.log, test.body.decode(), *shown])

    assert [] == [secret for secret in (token, token[:-1], "T0PSECRETT0KEN", local) if secret in output]
    assert 0o600 == os.stat(directory / "state.sqlite").st_mode & 0o777


# A full disk.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Callable[[int], None]]]:
    """A file system of its own, and a function that sets its size in bytes."""
    if os.geteuid() != 0:
        pytest.skip("not root: a small file system cannot be mounted")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={256 * MIB}", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")

    def resize(size: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True, capture_output=True)

    try:
        yield disk, resize
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True, capture_output=True)


def test_a_full_disk_is_503_and_readable_until_there_is_room(
    small_disk: tuple[Path, Callable[[int], None]],
) -> None:
    disk, resize = small_disk
    acknowledged: set[Sample] = set()

    def write(start_ms: int) -> int:
        """A few thousand samples at a time."""
        times = [start_ms + n for n in range(AT_ONCE)]
        status = filled.write([(gpu_labels("GPU-full"), [(n % 97 / 97, at) for n, at in enumerate(times)])]).status
        if status == 204:
            acknowledged.update(("GPU-full", at) for at in times)
        return status

    with Server(disk / "data", analyze_interval_s=1) as filled:
        assert 204 == filled.write(idle_job("GPU-a", "trainer-0", now_ms())).status
        wait_until(lambda: bool(filled.ask("GET", "/api/v1/findings").json["items"]), "a finding")
        at_ms = now_ms() - 3_600_000
        assert 204 == write(at_ms)
        resize(sum(f.stat().st_blocks * 512 for f in disk.rglob("*") if f.is_file()) + MIB // 2)
        statuses = {write(at_ms := at_ms + AT_ONCE) for _ in range(12)}
        assert {503} <= statuses <= {204, 503}, statuses
        refused = filled.ask("POST", "/api/v1/write", packed([(gpu_labels("GPU-x"), [(0.5, now_ms())])]), PROTOBUF)
        if refused.status == 503:
            assert {"retry-after"} <= set(refused.headers)
        assert 200 == filled.ask("GET", "/api/v1/findings").status
        assert 200 == filled.ask("GET", "/api/v1/chargeback?window=24h").status
        assert 200 == filled.ask("GET", "/healthz").status

        resize(256 * MIB)
        wait_until(lambda: write(at_ms + AT_ONCE) == 204, "samples are taken again")
        wait_until(filled.ready, "ready again")
        assert filled.process.poll() is None
        assert 0 == filled.stop(), filled.log
    assert acknowledged <= stored(disk / "data", "GPU-full").keys()


# A clock that jumps.


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[tuple[Service, list[int]]]:
    """A service whose clock is set by the test."""
    now = [NOW_US]
    service = Service.open(tmp_path / "data", Settings(), {}, now_us=lambda: now[0], live=False)
    service.start()
    yield service, now
    service.stop()


def sent(service: Service, at_us: int) -> int:
    """How many of one sample are refused."""
    rejects = Rejects()
    service.submit("s", [points([at_us])], rejects).result(PATIENCE_S)
    return rejects.total


def test_a_clock_that_is_set_back_refuses_what_is_now_in_the_future_and_goes_on(
    clock: tuple[Service, list[int]],
) -> None:
    service, now = clock
    assert 0 == sent(service, NOW_US)
    service.analyse_once()
    now[0] = NOW_US - 2 * HOUR_US

    assert 1 == sent(service, NOW_US)
    assert 0 == sent(service, now[0])
    service.analyse_once()
    assert service.analysis().last_error is None
    assert [(2,)] == service.store.sql("select count(*) from (from sample union all by name from sample_tail)")


def test_a_clock_that_is_set_forward_and_back_loses_nothing_that_is_kept(clock: tuple[Service, list[int]]) -> None:
    service, now = clock
    assert 0 == sent(service, NOW_US)
    service.analyse_once()
    now[0] = NOW_US + 3 * HOUR_US
    assert 0 == sent(service, NOW_US + 1)
    service.analyse_once()
    now[0] = NOW_US
    assert 0 == sent(service, NOW_US + 2)
    service.analyse_once()

    assert service.analysis().last_error is None
    assert [(3,)] == service.store.sql("select count(*) from (from sample union all by name from sample_tail)")


def test_a_clock_that_jumps_years_ahead_and_back_does_not_delete_the_raw_samples(
    clock: tuple[Service, list[int]],
) -> None:
    service, now = clock
    assert 0 == sent(service, NOW_US)
    service.analyse_once()
    now[0] = NOW_US + 365 * 24 * HOUR_US
    service.wake()
    service.analyse_once()
    now[0] = NOW_US

    assert service.analysis().last_error is None
    assert [(1,)] == service.store.sql("select count(*) from (from sample union all by name from sample_tail)")


def test_samples_of_a_sender_whose_clock_is_wrong_are_refused_and_named(server: Server) -> None:
    hour_ms = 3_600_000
    refused = [
        server.write([(gpu_labels("GPU-clock"), [(0.5, now_ms() + shift)])]).headers.get("x-gpuwatch-rejected", "0")
        for shift in (-20 * 24 * hour_ms, hour_ms, 0)
    ]

    assert ["1", "1", "0"] == refused
    printed = json.dumps(server.ask("GET", "/api/v1/quality").json)
    assert "check the clocks" in printed
