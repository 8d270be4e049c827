"""The live demo: exporters to scrape, and scheduler records as they happen."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.core.model import Rejects, Source
from gpuwatch.core.registry import find_importer
from gpuwatch.service.service import Service
from gpuwatch.simulate.bundle import CLUSTER
from gpuwatch.simulate.live import LiveFleet

KINDS = {"slurm/sacct.txt": "sacct", "slurm/scontrol_job.txt": "scontrol", "k8s/pods.json": "k8s-json"}
SOURCE = "demo schedulers"
WAIT_S = 30.0
log = logging.getLogger(__name__)


class Schedulers:
    """Sends changed runs and a sign of life from the simulated schedulers to the service every `step_s`."""

    def __init__(self, fleet: LiveFleet, service: Service, scratch: Path) -> None:
        self._fleet = fleet
        self._service = service
        self._scratch = scratch
        self._sent_s = self._seconds()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="schedulers", daemon=True)

    def start(self) -> None:
        """Starts sending."""
        self._thread.start()

    def stop(self) -> None:
        """Stops sending."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def tell(self) -> None:
        """Sends what changed since the last time."""
        at_s = self._seconds()
        if at_s <= self._sent_s:
            return
        for name, text in self._fleet.records(at_s, self._fleet.changed(self._sent_s, at_s)).items():
            path = self._scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            rejects = Rejects()
            source = Source(str(path), CLUSTER, observed_us=self._fleet.epoch.us(at_s))
            batches = list(find_importer(KINDS[name]).read(source, rejects))
            self._service.submit(SOURCE, batches, rejects).result(WAIT_S)
        self._sent_s = at_s

    def _seconds(self) -> int:
        return self._fleet.step_at(self._service.now_us()) * self._fleet.step_s

    def _work(self) -> None:
        while not self._stop.wait(self._fleet.step_s):
            try:
                self.tell()
            except (GpuwatchError, TimeoutError) as error:
                log.warning("demo schedulers: %s", error)


def start_of(now_us: int, days: float, step_s: int) -> int:
    """The start of a history of `days` that ends now, at a whole step."""
    step_us = step_s * SECOND_US
    return now_us // step_us * step_us - int(days * 86_400) // step_s * step_us
