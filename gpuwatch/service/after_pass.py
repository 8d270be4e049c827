"""Runs after each analysis pass: messages about findings, and the report of a completed week."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuwatch.alerts import budgets as alerts_budgets
from gpuwatch.alerts import report_notice
from gpuwatch.alerts.changes import enqueue
from gpuwatch.alerts.channel import REPORT, Channel
from gpuwatch.alerts.channel_parse import from_config
from gpuwatch.alerts.delivery.destination_guard import Guard
from gpuwatch.alerts.outbox.deliver import Deliverer
from gpuwatch.alerts.repository import Channels
from gpuwatch.core import option_names
from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.core.config_file import table_list
from gpuwatch.core.errors import SourceUnreachable, UsageError
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.read import Finding
from gpuwatch.findings.repository import Actions
from gpuwatch.reclaim import alerts as reclaim_alerts
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.connection import was_interrupted
from gpuwatch.store.database import Store

LOOK_BACK_US = 30 * DAY_US
"""Findings that ended earlier are no longer reported."""
LOOK_AHEAD_US = DAY_US
TEST_TRY_S = 15.0
"""Timeouts of a test message: for the receiving server, and in total."""
TEST_WAIT_S = 30.0
STOP_S = 30.0
log = logging.getLogger(__name__)


class Alerting:
    """Queues messages after each pass and delivers them in a thread with its own event loop."""

    def __init__(
        self,
        state: State,
        config: AlertConfig,
        now_us: Callable[[], int],
        base_url: Callable[[], str],
        settings: Settings,
        delivered: Callable[[str, str], None],
        home: Path | None = None,
        noting: State | None = None,
    ) -> None:
        """`home` holds reports for channels that send them if report_directory is not set. `noting` is the state for what is noted
        after a pass, if another process may do that work now.
        """
        self._state, self._noting = state, noting or state
        self._home = home
        self._now_us = now_us
        self._base_url = base_url
        self._delivered = delivered
        self._take_over(config, settings)
        self._ended = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._work, name="alerts", daemon=True)

    def start(self) -> None:
        """Starts delivering."""
        self._thread.start()

    def stop(self) -> None:
        """Finishes the current message; the rest stays in the outbox."""
        if not self._thread.is_alive():
            return
        self._running.wait(STOP_S)  # wait for the loop, in case it is stopped right after its start
        self._ended = True
        self._end_round()
        self._thread.join(STOP_S)

    def reload(self, config: AlertConfig, settings: Settings) -> None:
        """Applies new channels and settings. The message being sent still uses the old ones."""
        self._take_over(config, settings)
        if self._thread.is_alive():
            self._end_round()

    def after_pass(self, store: Store) -> None:
        """Queues messages about changes, and writes last week's report once the ledger covers the week."""
        now_us = self._now_us()
        messages = self._own("reclaims", reclaim_alerts.alerts, store, now_us)
        if any(channel.enabled for channel in Channels(self._noting).list()):
            window = Window(now_us - LOOK_BACK_US, now_us + LOOK_AHEAD_US)
            actions = Actions(self._noting).current(now_us)
            messages += self._own("budgets", alerts_budgets.alerts, store, now_us)
            found = findings_read.read(store, window=window, actions=actions)
            enqueue(self._noting, [*found, *messages], now_us)
        if (directory := self._report_directory()) is not None:
            self._report(store, directory, now_us)

    def _own(
        self, what: str, alerts: Callable[[Store, State, int], list[Finding]], store: Store, now_us: int
    ) -> list[Finding]:
        """Messages that are not findings. An error here never blocks other messages. Reclaim steps are recorded here even
        if there are no channels.
        """
        try:
            return alerts(store, self._noting, now_us)
        except Exception as error:
            if was_interrupted(error):  # the service stops; the next pass after a start sends them
                log.warning("messages about %s were interrupted", what)
            else:
                log.exception("no messages about %s", what)
            return []

    def _report_directory(self) -> Path | None:
        """Where reports are written; None if they are not needed."""
        if self._settings.report_directory is not None:
            return Path(self._settings.report_directory)
        wanted = any(channel.enabled and REPORT in channel.events for channel in Channels(self._noting).list())
        return self._home if wanted else None

    def _report(self, store: Store, directory: Path, now_us: int) -> None:
        """1. Write the files. 2. Queue messages. 3. Mark the week as done; if a step fails, all are retried."""
        from gpuwatch.report.files import done
        from gpuwatch.report.weekly import notes_of, write_due

        settings = self._settings
        written = write_due(
            store,
            self._noting,
            directory,
            now_us,
            paper=settings.report_paper,
            method=settings.mig_share_method,
        )
        if written is None:
            # Recipients who got an address after the report was sent.
            if (week := report_notice.to_announce_again(self._noting, now_us)) is not None:
                notes = notes_of(store, self._noting, week, now_us, method=settings.mig_share_method)
                report_notice.enqueue(self._noting, notes, now_us, mail_only=True)
                report_notice.mark_announced(self._noting, week)
            return
        report_notice.enqueue(self._noting, written.notes, now_us)
        done(self._noting, written.week, now_us)
        report_notice.mark_announced(self._noting, written.week)
        for path in written.paths:
            log.info("report written", extra={"path": str(path)})

    def send_test(self, name: str) -> None:
        """Sends a test message now. Raises UsageError for an unknown channel, SourceUnreachable if delivery fails."""
        try:
            outcome = asyncio.run(asyncio.wait_for(self._deliverer(TEST_TRY_S).send_test(name), TEST_WAIT_S))
        except TimeoutError:
            raise SourceUnreachable(f"channel {name}: no response within {TEST_WAIT_S:g} s") from None
        if not outcome.sent:
            raise SourceUnreachable(f"channel {name}: {outcome.error}")

    def _deliverer(self, timeout_s: float | None = None) -> Deliverer:
        return Deliverer(
            self._state,
            self._now_us,
            base_url=self._base_url() or None,
            allow_private=self._allow,
            reports=self._report_directory(),
            delivered=self._delivered,
            timeout_s=timeout_s,
        )

    def _work(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._running.set()
        while not self._ended:
            await self._deliverer().run(self._stop, log.warning)
            self._stop.clear()

    def _end_round(self) -> None:
        """Stops the current deliverer; unless the service is stopping, a new one with the current settings follows."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def _take_over(self, config: AlertConfig, settings: Settings) -> None:
        guard = Guard.of(config.allow)
        Channels(self._state, guard).adopt(config.channels, self._now_us())
        self.guard, self._allow = guard, config.allow
        self._settings = settings


@dataclass(frozen=True)
class AlertConfig:
    """The alert settings of gpuwatch.toml."""

    allow: list[str]
    """`allow_private` of [alerts]: private hosts and networks that messages may be sent to."""
    channels: list[Channel]


_TABLE, _ALLOW = "[alerts]", "allow_private"
option_names.note(_TABLE, [_ALLOW])


def configured(config: Mapping[str, Any]) -> AlertConfig:
    """Parses [alerts] and [[channel]]. Raises one UsageError with every problem."""
    problems: list[str] = []
    alerts = config.get("alerts", {})
    allow = alerts.get(_ALLOW, []) if isinstance(alerts, Mapping) else None
    only = f"{_TABLE} has one setting: {_ALLOW}, a list of hosts and networks"
    if not isinstance(alerts, Mapping):
        problems.append(only)
    else:
        homes = {name: option_names.belongs(name, _TABLE) for name in alerts if name != _ALLOW}
        problems += [f"{_TABLE} {name}: {home}" if home else only for name, home in homes.items()]
    if not isinstance(allow, list) or not all(isinstance(entry, str) for entry in allow):
        problems.append(f"{_TABLE} {_ALLOW} is not a list of hosts and networks")
        allow = []
    try:
        guard = Guard.of(allow)
    except UsageError as error:
        problems.append(str(error))
        guard = Guard.of([])
    channels = from_config(table_list(config, "channel", problems), problems, guard)
    if problems:
        raise UsageError(f"settings: {'; '.join(problems)}")
    return AlertConfig(allow, channels)
