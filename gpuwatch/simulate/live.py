"""A live fleet: its history is a bundle, and its future happens as time passes."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gpuwatch.core.clock import SECOND_US, Window
from gpuwatch.simulate import kubernetes, slurm, tables
from gpuwatch.simulate.bundle import (
    CLUSTER,
    Lack,
    Packed,
    Progress,
    write_file,
    write_history,
    write_metrics,
    write_texts,
)
from gpuwatch.simulate.demo.fleet import DemoFleet, demo_fleet
from gpuwatch.simulate.demo.plan import Part, complete_weeks, parts
from gpuwatch.simulate.demo.pod_pools import explained, pools_of
from gpuwatch.simulate.exposition import page
from gpuwatch.simulate.fleet import Fleet, build_fleet
from gpuwatch.simulate.models import A100, H100
from gpuwatch.simulate.moments import DAY_S, Epoch
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.schedule import schedule
from gpuwatch.simulate.staging import FIRST_NUMBER
from gpuwatch.simulate.telemetry import Readings, node_readings

AHEAD_S = DAY_S
"""How long a fleet continues after its history."""


class LiveFleet:
    """History of `days` from `start_us` (a whole number of steps), and AHEAD_S more.

    With `shows` it has scenes, the names of a company, and a history that is sampled less finely in its older parts.
    """

    def __init__(self, gpus: int, days: float, seed: int, step_s: int, start_us: int, shows: bool = False) -> None:
        self.step_s = step_s
        self.seed = seed
        self.past = int(days * DAY_S) // step_s
        self.ahead = AHEAD_S // step_s
        self.epoch = Epoch(start_us, (self.past + self.ahead) * step_s)
        self._shows = shows
        if shows:
            made = demo_fleet(gpus, self.epoch, self.past * step_s, step_s, seed)
        else:
            fleet = build_fleet(gpus, seed)
            made = DemoFleet(fleet, schedule(fleet, self.epoch.window_s, step_s, seed), ())
        self.fleet, self.runs, self._objects = made.fleet, made.runs, made.objects
        self.gres = {node.pool: node.model.gres for node in self.fleet.nodes if node.scheduler == "slurm"}
        self._readings: dict[str, list[Readings]] = {}

    @property
    def nodes(self) -> list[str]:
        """Nodes with an exporter."""
        return [node.name for node in self.fleet.nodes if node.counters != "none"]

    def step_at(self, now_us: int) -> int:
        """The number of whole steps from the start to an instant, within the simulated time."""
        return max(0, min((now_us - self.epoch.start_us) // (self.step_s * SECOND_US), self.past + self.ahead))

    def write_history(self, out: Path, progress: Progress | None) -> None:
        """The bundle of the history, dumped at its end."""
        at = Epoch(self.epoch.start_us, self.past * self.step_s)
        runs = self.known(at.window_s)
        late = self.late_run()
        listed = parts(at.start_us, at.window_s) if self._shows else (Part(0, at.window_s, self.step_s),)
        packed = Packed() if self._shows else None
        for number, part in enumerate(listed):
            nodes = tuple(replace(n, from_s=max(n.from_s, part.start_s)) for n in self.fleet.nodes)
            until, lack = Epoch(at.start_us, part.end_s), Lack(part.without)
            within = [run for run in runs if run.start_s is not None and run.start_s < part.end_s]

            def done(count: int, total: int, base: int = number) -> None:
                if progress is not None:
                    progress(base * total + count, len(listed) * total)

            seeds = (self.seed, 3, *([number] if number else []))
            write_history(out, Fleet(nodes), within, until, part.step_s, seeds, done, lack, packed)
        models = {node.model for node in self.fleet.nodes} - {H100, A100}
        known = [run for run in runs if late is None or run.number != late.number]
        write_texts(out, self.fleet, known, at, self.step_s, tables.rates(at, models), self._objects)

    @property
    def weeks(self) -> list[tuple[str, Window]]:
        """The complete ISO weeks of the history, the newest first."""
        return list(complete_weeks(self.epoch.start_us, self.past * self.step_s)) if self._shows else []

    def late_run(self) -> Run | None:
        """The job whose accounting arrives after its week was closed: the largest of Slurm in the week before the last."""
        if len(self.weeks) < 2:
            return None
        low, high = (
            (us - self.epoch.start_us) // SECOND_US for us in (self.weeks[1][1].start_us, self.weeks[1][1].end_us)
        )
        within = [
            run
            for run in self.runs
            if run.scheduler == "slurm" and not run.scenario and run.number < FIRST_NUMBER and run.array is None
            and run.start_s is not None and run.end_s is not None and low <= run.start_s and run.end_s <= high
        ]  # fmt: skip
        return max(
            within, key=lambda run: (run.gpus * ((run.end_s or 0) - (run.start_s or 0)), run.number), default=None
        )

    def write_late(self, out: Path) -> bool:
        """The accounting of the late job as a bundle; False if there is none."""
        late, at = self.late_run(), Epoch(self.epoch.start_us, self.past * self.step_s)
        if late is not None:
            write_file(out / "bundle.toml", tables.bundle_toml(CLUSTER, self.step_s).encode(), at)
            write_file(out / "slurm/sacct.txt", slurm.sacct([late], at, CLUSTER, self.gres).encode(), at)
        return late is not None

    def write_since(self, out: Path, first: int, last: int) -> None:
        """A bundle of what happened in the steps [first, last)."""
        at = Epoch(self.epoch.start_us, last * self.step_s)
        self._prepare()
        write_metrics(out, self.fleet, self._readings, self.epoch, first, last, self.step_s, self.past)
        write_file(out / "bundle.toml", tables.bundle_toml(CLUSTER, self.step_s).encode(), at)
        for name, text in self.records(at.window_s, self.known(at.window_s)).items():
            write_file(out / name, text.encode(), at)

    def known(self, at_s: int) -> list[Run]:
        """The runs as known to the schedulers `at_s` seconds after the start."""
        found = [run for each in self.runs if (run := _known(each, at_s)) is not None]
        if not self._shows:
            return found
        pools = pools_of(self.fleet)
        return [explained(run, pools) for run in found]

    def changed(self, since_s: int, at_s: int) -> list[Run]:
        """Runs that were submitted, started or ended in [since_s, at_s), and one running job as a sign of life."""
        runs = self.known(at_s)
        before = {(run.scheduler, run.number): run for run in self.known(since_s)}
        news = [run for run in runs if before.get((run.scheduler, run.number)) != run]
        for scheduler in ("slurm", "kubernetes"):
            news += [r for r in runs if r.scheduler == scheduler and r.start_s is not None and r.end_s is None][:1]
        return news

    def records(self, at_s: int, runs: Sequence[Run]) -> dict[str, str]:
        """The schedulers' output for these runs: texts by file name in a bundle."""
        at = Epoch(self.epoch.start_us, at_s)
        return {
            "slurm/sacct.txt": slurm.sacct(runs, at, CLUSTER, self.gres),
            "slurm/scontrol_job.txt": slurm.scontrol_jobs(runs, at, self.gres),
            "k8s/pods.json": kubernetes.pods(runs, at),
        }

    def page(self, node: str, now_us: int) -> bytes:
        """The response of a node's exporter at an instant."""
        self._prepare()
        index = max(0, min(self.step_at(now_us), self.past + self.ahead) - 1 - self.past)
        owner = next(n for n in self.fleet.nodes if n.name == node)
        return page(owner, self._readings[node], index)

    def _prepare(self) -> None:
        """Readings of the time after the history, generated when first used."""
        if self._readings:
            return
        on_node: dict[str, list[Run]] = defaultdict(list)
        for run in self.runs:
            for name in run.nodes:
                on_node[name].append(run)
        made: dict[str, list[Readings]] = {}
        for number, node in enumerate(self.fleet.nodes):
            if node.counters != "none":
                later = replace(node, from_s=self.past * self.step_s, every=1)
                made[node.name] = node_readings(
                    later, on_node[node.name], self.ahead, self.step_s, (self.seed, 9, number)
                )
        self._readings = made


def _known(run: Run, at_s: int) -> Run | None:
    """A run as it is known at an instant: not yet, pending, running or ended."""
    if run.submit_s >= at_s:
        return None
    if run.start_s is None or run.start_s >= at_s:
        return replace(run, start_s=None, end_s=None, state="PENDING", devices=(), courses=(), restarted_s=None)
    restarted_s = (
        None if run.restarted_s is not None and run.restarted_s + kubernetes.RESTART_S >= at_s else run.restarted_s
    )
    if run.end_s is None or run.end_s >= at_s:
        return replace(run, end_s=None, state="RUNNING", restarted_s=restarted_s)
    return replace(run, restarted_s=restarted_s)


class Exporters:
    """The exporters of a fleet over HTTP on one port of this machine: http://127.0.0.1:PORT/NODE/metrics."""

    def __init__(self, fleet: LiveFleet, now_us: Callable[[], int], port: int = 0) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 120

            def do_GET(self) -> None:
                name = self.path.removeprefix("/").removesuffix("/metrics")
                found = name in fleet.nodes
                body = fleet.page(name, now_us()) if found else b"no such node\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are not logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="exporters", daemon=True)
        self.targets = [f"http://127.0.0.1:{self._server.server_address[1]}/{node}/metrics" for node in fleet.nodes]

    def start(self) -> None:
        """Starts serving."""
        self._thread.start()

    def stop(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()
