"""Delivery: takes due messages from the outbox, sends them, and records the outcome."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from aiohttp.abc import AbstractResolver

from gpuwatch.alerts import report_notice
from gpuwatch.alerts.channel import REPORT, Channel
from gpuwatch.alerts.delivery import email_send, signature
from gpuwatch.alerts.delivery.destination_guard import Guard
from gpuwatch.alerts.delivery.email_server import Mail
from gpuwatch.alerts.delivery.http_post import TIMEOUT_S, Outcome, backoff_us, post
from gpuwatch.alerts.firing.push import Pusher
from gpuwatch.alerts.firing.repository import Firing
from gpuwatch.alerts.kind import ChannelKind, Context, ContinuousKind, MessageKind, channel_kinds, find_kind
from gpuwatch.alerts.lines import clean
from gpuwatch.alerts.outbox.digest import choose, fold, read
from gpuwatch.alerts.outbox.records import Batch, Status
from gpuwatch.alerts.outbox.repository import Outbox
from gpuwatch.alerts.record import Alert, Note
from gpuwatch.alerts.repository import Channels
from gpuwatch.core.clock import SECOND_US, rfc3339
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.report.files import mailed_files
from gpuwatch.state import State

POLL_S = 5.0
"""Interval between two checks of the outbox; doubled after each failure in a row, up to POLL_S_MAX."""
POLL_S_MAX = 160.0

HOLD_US = 120 * SECOND_US
"""How long a sender holds a message: longer than a request can last. After a crash it is sent again then."""

MESSAGES_MAX = 50
"""Messages to one channel in one pass."""

DRAIN_S = 30.0
"""Time after which a channel starts no further message in a pass, because other channels wait for the pass to end."""


class Deliverer:
    """Sends due messages. Several may run at once, in one process or more: the outbox gives each message to one of them."""

    def __init__(
        self,
        state: State,
        now_us: Callable[[], int],
        *,
        base_url: str | None = None,
        allow_private: Collection[str] = (),
        timeout_s: float | None = None,
        reports: Path | None = None,
        tls: ssl.SSLContext | None = None,
        resolver: AbstractResolver | None = None,
        chance: random.Random | None = None,
        delivered: Callable[[str, str], None] = lambda kind, outcome: None,
    ) -> None:
        """Raises UsageError for a wrong entry in `allow_private`.

        `base_url` is the address of the service, for links. `allow_private` names hosts, addresses and networks that may
        be used although they are not public, and over plain http. `reports` is the directory of report files to attach to
        e-mails. `tls` verifies mail servers. `delivered` is called with the kind of channel and the outcome of each
        message: sent, failed or given up.
        """
        self._channels = Channels(state)
        self._outbox = Outbox(state)
        self._now_us = now_us
        self._base_url = base_url
        self._guard = Guard.of(allow_private)
        self._timeout_s = timeout_s
        self._reports = reports
        self._tls = tls
        self._resolver = resolver
        self._chance = chance or random.Random()
        self._delivered = delivered
        self._pusher = Pusher(state, self._send, base_url)

    async def run(self, stop: asyncio.Event, report: Callable[[str], None] = lambda _: None) -> None:
        """Delivers until `stop` is set and the current request has ended.

        Problems around a delivery, such as a busy database, are passed to `report` (one line, no secret) and retried.
        """
        pause_s = POLL_S
        while not stop.is_set():
            try:
                await self.deliver_due()
                pause_s = POLL_S
            except GpuwatchError as error:
                report(f"alerts: {error}")
                pause_s = min(2 * pause_s, POLL_S_MAX)
            except Exception as error:  # noqa: BLE001 - the loop survives a defect; the error type holds no secret
                report(f"alerts: {type(error).__name__} while delivering; trying again")
                pause_s = min(2 * pause_s, POLL_S_MAX)
            try:
                await asyncio.wait_for(stop.wait(), pause_s)
            except TimeoutError:
                continue

    async def deliver_due(self) -> int:
        """One concurrent pass over all enabled channels; returns how many messages were delivered.

        A channel that fails does not delay the others. Raises the first StoreError, after the others are done.
        """
        channels = await asyncio.to_thread(self._channels.list)
        waiting = await asyncio.to_thread(self._outbox.waiting)
        kinds = channel_kinds()
        passes = [
            self._serve(channel)
            for channel in channels
            if channel.enabled and (channel.name in waiting or isinstance(kinds.get(channel.kind), ContinuousKind))
        ]
        results = await asyncio.gather(*passes, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return sum(result for result in results if isinstance(result, int))

    async def send_test(self, name: str) -> Outcome:
        """Sends a test message now, past the outbox. Raises UsageError for an unknown channel."""
        channel = await asyncio.to_thread(self._channels.get, name)
        kind, key = find_kind(channel.kind), f"{name}|test|{uuid4().hex}"
        context = self._context(channel, key)
        return await self._transmit(kind, kind.test(context), context)

    async def _serve(self, channel: Channel) -> int:
        """One pass over a channel; returns how many messages were delivered."""
        kind = find_kind(channel.kind)
        if isinstance(kind, ContinuousKind):
            return await self._push(kind, channel)
        if isinstance(kind, MessageKind):
            return await self._drain(kind, channel)
        raise TypeError(f"channel kind {channel.kind}: neither MessageKind nor ContinuousKind")

    async def _push(self, kind: ContinuousKind, channel: Channel) -> int:
        """Pushes firing alerts that are due; 1 where the receiver accepted them."""
        outcome = await self._pusher.push(kind, channel, self._now_us(), self._chance)
        if outcome is not None:
            self._delivered(channel.kind, "sent" if outcome.sent else "failed")
        return int(outcome is not None and outcome.sent)

    async def _drain(self, kind: MessageKind, channel: Channel) -> int:
        """Messages of a channel in order, until one fails or none is due."""
        arrived, loop = 0, asyncio.get_running_loop()
        until_s = loop.time() + DRAIN_S
        for place in range(MESSAGES_MAX):
            if place and loop.time() >= until_s:
                break
            now_us = self._now_us()
            quiet = channel.timing.quiet_until_us(now_us) is not None
            batch = await asyncio.to_thread(
                self._outbox.claim,
                channel.name,
                now_us,
                HOLD_US,
                kind.findings_max,
                channel.timing.passing if quiet else None,
                partial(choose, channel),
            )
            if batch is None:
                break
            outcome = await self._deliver(kind, channel, batch)
            if outcome.sent:
                arrived += 1
            elif not outcome.permanent:
                break
        return arrived

    async def _deliver(self, kind: MessageKind, channel: Channel, batch: Batch) -> Outcome:
        """1. Reads the rows and discards unreadable ones. 2. Sends the rest as one message. 3. Records the outcome."""
        readable: list[Alert | Note] = []
        for row in batch.rows:
            try:
                readable.append(report_notice.read(row) if row.event == REPORT else read(row))
            except ValueError as error:
                await asyncio.to_thread(self._outbox.discard, row, f"cannot be sent: {error}")
        if not readable:
            return Outcome(False, permanent=True)
        try:
            message, context = await asyncio.to_thread(self._message, kind, channel, readable, batch.key)
        except Exception as error:  # noqa: BLE001 - one bad row must not block the rows behind it
            outcome = Outcome(False, f"cannot be written as a message ({type(error).__name__})", permanent=True)
        else:
            try:
                outcome = await self._transmit(kind, message, context, max(row.attempts for row in batch.rows))
            except Exception as error:  # noqa: BLE001 - a defect in sending is a failed attempt like any other
                outcome = Outcome(False, f"sending broke down ({type(error).__name__})")
        now_us = self._now_us()
        if outcome.sent:
            await asyncio.to_thread(self._outbox.sent, batch, now_us)
        else:
            retry_us = None if outcome.permanent else now_us + self._backoff_us(batch, outcome.retry_after_us)
            await asyncio.to_thread(self._outbox.failed, batch, outcome.error or "failed", retry_us, now_us)
        self._delivered(channel.kind, "sent" if outcome.sent else "given up" if outcome.permanent else "failed")
        return outcome

    def _context(self, channel: Channel, key: str) -> Context:
        to = () if channel.mail is None else channel.mail.to
        return Context(channel, self._base_url, key, self._now_us(), to)

    def _message(
        self, kind: MessageKind, channel: Channel, readable: Sequence[Alert | Note], key: str
    ) -> tuple[Any, Context]:
        """The message of a batch, and the context that it was written in."""
        first, context = readable[0], self._context(channel, key)
        if isinstance(first, Note):
            if kind.mails:
                files = mailed_files(self._reports, first.summary.stem)
                context = replace(context, to=first.to or context.to, files=files)
            return kind.report(first.summary, context), context
        alerts = fold([alert for alert in readable if isinstance(alert, Alert)])
        if channel.timing.digest != "off" or len(alerts) > 1:
            return kind.digest(alerts, shared(channel, alerts), context), context
        return kind.single(alerts[0], context), context

    async def _transmit(self, kind: ChannelKind, message: Any, context: Context, attempts: int = 0) -> Outcome:
        mail = context.channel.mail
        if kind.mails and mail is not None:
            return await self._mail(mail, message, context.to, attempts)
        return await self._send(context.channel, message, context.key)

    async def _send(self, channel: Channel, message: object, key: str) -> Outcome:
        headers, more, now_us = {"Idempotency-Key": clean(key)}, channel.more, self._now_us()
        body = json.dumps(message).encode()
        if more.signing_secret is not None:
            headers |= signature.headers(more.signing_secret, key, body, now_us // SECOND_US)
        if more.authorization is not None:
            headers["Authorization"] = more.authorization
        url, timeout_s = find_kind(channel.kind).endpoint(channel.url), self._timeout_s or TIMEOUT_S
        return await post(url, body, headers, self._guard, now_us, timeout_s, self._resolver)

    async def _mail(self, mail: Mail, message: EmailMessage, to: Sequence[str], attempts: int) -> Outcome:
        if not to:
            return Outcome(False, "no recipients: name some in `to`", permanent=True)
        timeout_s = self._timeout_s or email_send.TIMEOUT_S
        return await asyncio.to_thread(email_send.send, mail, message, to, self._guard, timeout_s, self._tls, attempts)

    def _backoff_us(self, batch: Batch, asked_us: int | None) -> int:
        """The delay that the receiver asked for, or doubled each time, within bounds and with jitter."""
        return backoff_us(max(row.attempts for row in batch.rows), asked_us, self._chance)


def listing(state: State) -> list[dict[str, Any]]:
    """Channels as `GET /api/v1/channels` shows them: settings, a hint of the address, and delivery status. No secret."""
    statuses = Outbox(state).status() | Firing(state).status()
    return [
        channel.public() | {"status": _shown(statuses.get(channel.name, Status()))}
        for channel in Channels(state).list()
    ]


def shared(channel: Channel, alerts: Sequence[Alert]) -> Sequence[str]:
    """The fields, of those that the channel groups by, in which all findings of a message agree."""
    by, findings = channel.by_group, [alert.finding for alert in alerts]
    values = {"team": "team", "user": "user", "rule": "detector", "severity": "severity"}
    return [name for name in by if len({str(finding.get(values[name])) for finding in findings}) == 1]


def _shown(status: Status) -> dict[str, Any]:
    return {
        "last_sent_at": None if status.last_sent_us is None else rfc3339(status.last_sent_us),
        "last_error": status.last_error,
        "last_error_at": None if status.last_error_us is None else rfc3339(status.last_error_us),
        "pending": status.pending,
        "dead": status.dead,
    }
