"""The service: store, state, writer, collectors, analyzer and alerts of one data directory."""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from gpuwatch.billing import chargeback
from gpuwatch.core.errors import GpuwatchError, StoreError
from gpuwatch.core.model import Rejects
from gpuwatch.findings import custom_rules
from gpuwatch.imports.uploads import ARRIVING, Bills
from gpuwatch.policy.repository import set_ownership_default
from gpuwatch.quality.clocks import Clocks
from gpuwatch.quality.status import Sources
from gpuwatch.service import leading
from gpuwatch.service.after_pass import Alerting
from gpuwatch.service.analyzer import AfterPass, Analyzer
from gpuwatch.service.collect import Collectors, unchanged
from gpuwatch.service.config import Plan, made
from gpuwatch.service.group_commit import Batches, GroupCommit, Proof
from gpuwatch.service.holding import ALWAYS, Always
from gpuwatch.service.imports import Imports
from gpuwatch.service.lake_metrics import LakeMetrics
from gpuwatch.service.metrics import Telemetry
from gpuwatch.service.mirroring import Mirroring
from gpuwatch.service.opening import opened
from gpuwatch.service.publishing import Publishing
from gpuwatch.service.pushed import Pushed, Received
from gpuwatch.service.read_pool import Probe, Readers
from gpuwatch.service.roles import ALL, Role, check_receives, check_work, is_replica, part_of
from gpuwatch.service.routing import keep_settled, routing_of
from gpuwatch.service.service_state import StateOfService
from gpuwatch.service.timekeeping import Timekeeping
from gpuwatch.service.uptime import Uptime
from gpuwatch.settings import Settings, taken_over
from gpuwatch.state import State
from gpuwatch.store.database import Store

REPRICE_WAIT_S = 5.0
CONFIGURATION = "gpuwatch.toml"
"""Name under which a configuration that could not be reloaded is listed among the sources."""
log = logging.getLogger(__name__)


class Service(StateOfService):
    """Everything behind the API. `start` runs it; `stop` ends it without losing acknowledged data."""

    def __init__(
        self,
        store: Store,
        state: State,
        plan: Plan,
        now_us: Callable[[], int],
        directory: Path | None,
        live: bool,
        scratch: str | None = None,
        uptime: Uptime | None = None,
        role: Role = ALL,
        holding: Always = ALWAYS,
    ) -> None:
        self.role, self.holding = role, holding
        self._scratch = scratch
        self.store = store
        self.state = state
        self.settings = settings = plan.settings
        self.plan = plan = part_of(role, plan)
        self.directory = directory
        self.version = installed_version("gpuwatch")
        self.local_secret = secrets.token_urlsafe(32)
        self.own_url = ""
        self.times = Timekeeping(store, now_us, uptime, settings.raw_retention_days)
        self._now_us = now_us = self.times.clock.now_us
        self._live = live
        self._sources = Sources(now_us)
        self._clocks = Clocks()
        self._telemetry = Telemetry(self._sources.all, now_us)
        self.metrics, self.fleet_metrics = self._telemetry.registry, self._telemetry.fleet_registry
        self.telemetry = self._telemetry
        self._probe = Probe(store.cursor())
        self._commits = 0
        self.on_fatal: Callable[[str], None] = lambda why: None
        proof = Proof(self.times.proven_us, self._clocks.record_ahead)
        counted, failed, span = self._committed, self._fatal, self.times.span
        self._writer = GroupCommit(
            store.cursor(), now_us, settings.raw_retention_days, counted, failed, span, proof, holding.check
        )
        home, delivered = None if directory is None else directory / "reports", self._telemetry.delivered
        self._alerting = Alerting(
            state, plan.alerts, now_us, lambda: self.base_url, settings, delivered, home, holding.fenced(state)
        )
        self._telemetry.queued.set_function(lambda: self._writer.rows_queued)
        self._telemetry.clock_doubted.set_function(lambda: self.times.clock.doubt() is not None)
        self.times.on_steps = self._telemetry.clock_stepped
        after: AfterPass = lambda store: leading.after_pass(self, self._alerting, store, self._analyzer.passes)
        corrects: Callable[[], bool] = lambda: leading.leads(self) or holding is ALWAYS
        parts = (self.times, after, self._telemetry.analysed, lambda: self._commits, role.analyses, corrects)
        self._analyzer = Analyzer(store.cursor(), state, settings, *parts)
        self.mirror = Mirroring(store.cursor(), plan.lake, now_us) if plan.lake and is_replica(role, plan) else None
        self._readers = Readers(store)
        self.publishing = Publishing(store.cursor(), None if self.mirror else plan.lake, now_us, holding)
        if plan.lake is not None:
            self.metrics.register(LakeMetrics((self.mirror or self.publishing).step, now_us))
        self.routing = routing_of(role, plan, holding)
        # No sender waits for collected data, so many sources share a commit.
        patient = partial(self.submit, patient=True)
        looked_up = (now_us, self._open_claims, self._clocks, self._open_rows, self.times.clock)
        self._collectors = Collectors(plan.live, patient, self._sources, *looked_up)
        self._pushed = Pushed(self.submit, self.times, self._sources, self._clocks, self._telemetry.refused)
        self._receivers = self._pushed.receivers
        self._copying = threading.Lock()
        self._reloading = threading.Lock()
        self._stopped = False
        self.imports = Imports(store, state, self._analyzer, self._writer, now_us, self.wake, self._check_receives)
        self.bills = Bills(self.submit, self.reader, now_us, Path(directory or scratch or "") / ARRIVING)

    @classmethod
    def open(
        cls,
        directory: Path | None,
        settings: Settings,
        config: Mapping[str, Any] | Plan,
        *,
        now_us: Callable[[], int],
        live: bool = True,
        new_state: bool = False,
        new_store: bool = False,
        uptime: Uptime | None = None,
        role: Role = ALL,
        holding: Always = ALWAYS,
    ) -> Service:
        """Opens store and state of a directory (None: in memory). `config` is a parsed configuration, or the other tables
        of gpuwatch.toml. Steps of the clock are noticed by `uptime`. Raises UsageError with every problem, StoreError for a directory in use, or without its store or state.
        A `role` other than ALL does its part alone. With a lease (`holding`), only while this process has it.
        """
        plan = config if isinstance(config, Plan) else made(settings, config, live)
        both = opened(directory, replace(plan, settings=settings), role, new_state, new_store)
        try:
            service = cls(both.store, both.state, plan, now_us, directory, live, both.scratch, uptime, role, holding)
            check_work(role, both.state, plan)
            return service
        except BaseException:
            both.close()
            raise

    def start(self) -> None:
        """Starts writer, analyzer, collectors and alerts. Costs left unpriced by an older version are priced first, so
        that no message goes out without prices.
        """
        self._note_ownership_default(self.settings)
        with self._readers.lend() as store:
            if self.role.analyses:
                chargeback.price_all(store, self.state)
            # Before the first pass, so that findings of custom rules use their texts.
            custom_rules.load(self.settings.detectors_dir, store)
        if self.role.analyses:
            keep_settled(self.routing, self.publishing, self.plan.live, self.store)
            self._writer.start()
        if self._live and (self.role.analyses or self.role.leads):
            self._analyzer.start()
        if self._live and self.role.leads:
            self._alerting.start()
        if self._live and self.role.analyses:
            self._collectors.start()
            self.publishing.start()
        if self._live and self.mirror is not None:
            self.mirror.start()

    def stop(self) -> None:
        """Stops the sources, writes accepted data, then closes the store."""
        with self._reloading:
            self._stopped = True
        self._collectors.stop()
        self._pushed.stop()
        self._writer.stop()
        self._analyzer.stop()
        self.publishing.stop()
        if self.mirror is not None:
            self.mirror.stop()
        self._alerting.stop()
        self._readers.close()
        self._probe.close()
        try:
            self.store.checkpoint()
        except StoreError as error:
            log.error("no checkpoint at stop", extra={"error": str(error)})
        self.store.close()
        self.state.close()
        if self.routing is not None:
            self.routing.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def reload(self, read: Callable[[], Plan]) -> bool:
        """Applies the configuration returned by `read` while the service keeps running.

        New sources start, removed ones stop, changed ones restart, and all others are left alone. Returns False if it
        has mistakes; then nothing changes, and the mistakes are listed until a reload succeeds.
        """
        with self._reloading:
            if self._stopped:
                return False
            try:
                plan = part_of(self.role, read())
                settings, now, later = taken_over(self.settings, plan.settings)
                later += ["lake"] if plan.lake != self.plan.lake else []
                self._alerting.reload(plan.alerts, settings)
                self.settings = settings
                self._note_ownership_default(settings)
                self._analyzer.use(settings)
                done = self._collectors.exchange(plan.live, unchanged(self.plan.tables, plan.tables))
            except Exception as error:  # noqa: BLE001 - a configuration that fails never stops the service
                words = str(error) if isinstance(error, GpuwatchError) else f"{type(error).__name__}: {error}"
                log.error("configuration not reloaded", extra={"error": words})
                self._sources.failed(CONFIGURATION, self.now_us(), f"not reloaded: {words}", CONFIGURATION)
                return False
            self.plan = replace(plan, lake=self.plan.lake)
            self._sources.forget(CONFIGURATION)
            log.info("configuration reloaded", extra={"settings": now, **asdict(done)})
            if later:
                log.warning("these settings need a restart", extra={"settings": later})
            return True

    # Used by the API, with what StateOfService answers --------------------------------------------------------------

    def submit(
        self, source: str, batches: Batches, rejects: Rejects | None = None, *, patient: bool = False
    ) -> Future[None]:
        """Queues batches to be written; the future completes when they are on disk, a little later if `patient`.

        Raises StoreBusy if the queue is full, StoreError if the role of this process stores none.
        """
        self._check_receives()
        return self._writer.submit(source, batches, rejects, patient=patient)

    def receive(
        self,
        name: str,
        body: bytes,
        content_type: str,
        cluster: str,
        source: str,
        decoded: Callable[[], None] = lambda: None,
    ) -> Future[Received]:
        """Decodes and stores a pushed body; the future completes when it is on disk.

        It fails with UnreadableInput if the body cannot be decoded, StoreError if it cannot be stored. Calls `decoded`
        when the body itself is no longer needed, unless StoreBusy is raised.
        """
        return self._pushed.receive(name, body, content_type, cluster, source, decoded)

    def reprice(self) -> bool:
        """Prices with the latest rates and rules now; False if a pass does it: one that runs long, or another process's."""
        if not self.role.analyses:
            return False
        with self._readers.lend(question_s=None) as store:
            return self._analyzer.reprice(store, REPRICE_WAIT_S)

    def wake(self) -> None:
        """Requests an analysis pass now."""
        self._commits += 1
        self._analyzer.wake()

    def analyse_once(self) -> None:
        """Runs one analysis pass in the caller's thread, for tests and before the first page is served."""
        self._analyzer.run_once()

    def send_test(self, channel: str) -> None:
        """Sends a test message through a channel now. Raises UsageError or SourceUnreachable."""
        self._alerting.send_test(channel)

    # ------------------------------------------------------------------------------------------------------------------

    def _note_ownership_default(self, settings: Settings) -> None:
        """A replica leaves the shared state as the cells have it."""
        if self.mirror is None:
            set_ownership_default(self.state, settings.ownership_default, CONFIGURATION, self._now_us())

    def _check_receives(self) -> None:
        self.holding.check()
        check_receives(self.role, self.mirror is not None)

    def _committed(self, seconds: float, rows: int, requests: int) -> None:
        self._commits += 1
        self._telemetry.committed(seconds, rows, requests)

    def _fatal(self, why: str) -> None:
        log.critical("the store must be reopened", extra={"error": why})
        self.on_fatal(why)
