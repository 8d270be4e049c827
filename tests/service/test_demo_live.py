"""The demonstration that goes on: a fleet after its history, told to a service step by step."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gpuwatch.billing import chargeback
from gpuwatch.commands.demo import demo
from gpuwatch.core.clock import SECOND_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.imports.files import import_paths
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.simulate.live import Exporters, LiveFleet
from gpuwatch.simulate.live_demo import Schedulers, start_of
from gpuwatch.simulate.runs import Run
from gpuwatch.state import State
from gpuwatch.state.pairing import open_state_of
from gpuwatch.store.database import Store
from tests.worlds import processes
from tests.worlds.patience import PATIENCE_S
from tests.worlds.world import Gpu, batch, samples

STEP_S = 60
START_US = 1_793_577_600_000_000
DAYS = 0.25


@pytest.fixture(scope="module")
def fleet() -> LiveFleet:
    return LiveFleet(16, DAYS, 3, STEP_S, START_US)


def at_us(fleet: LiveFleet, steps_after: float) -> int:
    """The instant so many steps after the history's end."""
    return START_US + int((fleet.past + steps_after) * STEP_S * SECOND_US)


# What is known when.


def test_nothing_of_the_future_is_known(fleet: LiveFleet) -> None:
    at_s = fleet.past * STEP_S
    for run in fleet.known(at_s):
        assert run.submit_s < at_s
        assert run.start_s is None or run.start_s < at_s
        assert run.end_s is None or run.end_s < at_s


def test_in_the_end_everything_is_known(fleet: LiveFleet) -> None:
    last_s = (fleet.past + fleet.ahead) * STEP_S
    ended = [run for run in fleet.runs if run.end_s is not None and run.end_s < last_s]

    assert ended
    assert ended == [run for run in fleet.known(last_s) if run.end_s is not None]


def test_what_changed_is_reported_once_and_the_living_go_on(fleet: LiveFleet) -> None:
    first_s, last_s = fleet.past * STEP_S, (fleet.past + 600) * STEP_S
    by_name: dict[int, Run] = {run.number: run for run in fleet.known(first_s)}
    for at_s in range(first_s, last_s + 1, 10 * STEP_S):
        by_name |= {run.number: run for run in fleet.changed(max(first_s, at_s - 10 * STEP_S), at_s)}

    assert {run.number: run for run in fleet.known(last_s)} == by_name


def test_a_quiet_time_is_a_sign_of_life_only(fleet: LiveFleet) -> None:
    at_s = fleet.past * STEP_S

    assert len(fleet.changed(at_s, at_s)) <= 2


def test_an_exporter_answers_with_the_newest_instant_and_no_timestamps(fleet: LiveFleet) -> None:
    exporters = Exporters(fleet, lambda: at_us(fleet, 5))
    exporters.start()
    try:
        text = urllib.request.urlopen(exporters.targets[0], timeout=PATIENCE_S).read()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(exporters.targets[0].replace("/metrics", "-x/metrics"), timeout=PATIENCE_S)
    finally:
        exporters.stop()

    assert text == fleet.page(fleet.nodes[0], at_us(fleet, 5.9))
    assert text != fleet.page(fleet.nodes[0], at_us(fleet, 6))
    samples = [line for line in text.decode().splitlines() if not line.startswith("#")]
    assert samples and all(re.fullmatch(r"DCGM_\w+\{[^}]*\} [0-9.]+", line) for line in samples)


def test_after_its_last_day_the_fleet_stands_still(fleet: LiveFleet) -> None:
    last = fleet.past + fleet.ahead

    assert last == fleet.step_at(START_US + 10**15)
    assert fleet.page(fleet.nodes[0], START_US + 10**15) == fleet.page(fleet.nodes[0], at_us(fleet, fleet.ahead))


def test_a_history_ends_now_at_a_whole_step() -> None:
    now_us = START_US + 123_456_789
    start_us = start_of(now_us, 7, 30)

    assert 0 == start_us % (30 * SECOND_US)
    assert 0 <= now_us - start_us - 7 * 86_400 * SECOND_US < 30 * SECOND_US


# Told to a service.


def test_jobs_recorded_step_by_step_are_held_as_long_as_they_ran(tmp_path: Path, fleet: LiveFleet) -> None:
    now = [at_us(fleet, 0)]
    service = Service.open(
        tmp_path / "data", Settings(default_interval_s=STEP_S), {}, now_us=lambda: now[0], live=False
    )
    service.start()
    try:
        fleet.write_history(tmp_path / "bundle", None)
        import_paths(service.store, service.state, "bundle", [tmp_path / "bundle"], cluster=None, now_us=now[0])
        schedulers = Schedulers(fleet, service, tmp_path / "scratch")
        steps = 240
        fleet.write_since(tmp_path / "since", fleet.past, fleet.past + steps)
        for each in (tmp_path / "since" / "slurm", tmp_path / "since" / "k8s"):
            for file in each.iterdir():
                file.unlink()  # the records come from the schedulers only
        for step in range(1, steps + 1, 7):
            now[0] = at_us(fleet, step)
            schedulers.tell()
        now[0] = at_us(fleet, steps)
        schedulers.tell()
        import_paths(service.store, service.state, "bundle", [tmp_path / "since"], cluster=None, now_us=now[0])
        service.analyse_once()
        assert service.analysis().last_error is None
        span = Window(START_US, now[0])
        bill = chargeback.chargeback(service.store, service.state, span, ["job"])
    finally:
        service.stop()

    ran: dict[str, Fraction] = defaultdict(Fraction)
    later = set()
    for run in fleet.known((fleet.past + steps) * STEP_S):
        name = job_name(run)
        if run.start_s is not None and run.end_s is None:
            later.add(name)
        elif run.end_s is not None and run.start_s is not None:
            ran[name] += (run.end_s - run.start_s) * sum((d.share for d in run.devices), Fraction(0))
    live = {n for n in ran if n not in later}
    got = {str(c.group["job"]): Fraction(c.gpu_seconds) for c in bill.items if c.kind == "allocated"}
    wrong = {n: (float(ran[n]), float(got.get(n, 0))) for n in live if abs(ran[n] - got.get(n, 0)) > Fraction(1, 1000)}

    assert len(live) > 5
    assert {} == wrong


def job_name(run: Run) -> str:
    """The subject id of contract.md section 4."""
    if run.scheduler == "slurm":
        return run.job_id
    if run.controller == "ReplicaSet":
        return f"{run.owner.namespace}/{run.pod.rsplit('-', 2)[0]}"
    return f"{run.owner.namespace}/{run.name if run.controller else run.pod}"


@pytest.mark.slow
def test_the_demo_serves_until_it_is_stopped(tmp_path: Path) -> None:
    command = ["demo", "--gpus", "8", "--days", "0.25", "--port", "0", "--data", str(tmp_path / "demo")]
    process = processes.start(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = None
        for line in process.stdout:
            if found := re.search(r"Open (http://\S+)", line.decode()):
                url = found[1]
                break
        assert url is not None
        assert b'"status":"ready"' in urllib.request.urlopen(f"{url}/readyz", timeout=PATIENCE_S).read()
        assert b"gpuwatch" in urllib.request.urlopen(url, timeout=PATIENCE_S).read()
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(PATIENCE_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


# What it may replace.


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(lambda store, state: store.append(batch(samples(Gpu("GPU-a"), [0]))[0]), id="scraped samples"),
        pytest.param(lambda store, state: state.set_setting("colour", "green", "ann", 1), id="somebody's settings"),
    ],
)
def test_a_directory_of_a_real_service_is_never_replaced(
    tmp_path: Path, leave: Callable[[Store, State], object]
) -> None:
    """Nothing was ever imported into it: that does not make it a demo's."""
    with Store.open(tmp_path) as store, open_state_of(store, tmp_path) as state:
        leave(store, state)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    app = typer.Typer()
    app.command()(demo)
    result = CliRunner().invoke(app, ["--no-serve", "--data", str(tmp_path)], obj=lambda: START_US)

    assert isinstance(result.exception, UsageError)
    assert "holds data that is not from a demo" in str(result.exception)
    assert before["state.sqlite"] == (tmp_path / "state.sqlite").read_bytes()
    assert before["gpuwatch.duckdb"] == (tmp_path / "gpuwatch.duckdb").read_bytes()
