"""Pushes to continuous channels: every firing alert again and again, and resolved alerts with their end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpuwatch.alerts.channel import Channel
from gpuwatch.alerts.delivery.http_post import Outcome, backoff_us
from gpuwatch.alerts.firing.repository import Firing
from gpuwatch.alerts.kind import Context, ContinuousKind
from gpuwatch.core.clock import MINUTE_US
from gpuwatch.state import State

RESEND_US_MAX = MINUTE_US
"""Time between two pushes of an alert, as in Prometheus; at most a quarter of the channel's `resolve_minutes`."""
CHUNK = 500
"""Alerts of one request."""
REFUSED_ATTEMPTS = 20
"""Failures that a permanent refusal counts as: retries become as rare as they get, but go on while alerts fire."""

Send = Callable[[Channel, object, str], Awaitable[Outcome]]


@dataclass
class Trouble:
    """Failures in a row of a channel."""

    attempts: int = 0
    retry_us: int = 0


class Pusher:
    """Pushes firing alerts. Repeating a push changes nothing: an alert is identified by its labels."""

    def __init__(self, state: State, send: Send, base_url: str | None) -> None:
        self._send, self._base_url = send, base_url
        self._firing = Firing(state)
        self._trouble: dict[str, Trouble] = {}

    async def push(self, kind: ContinuousKind, channel: Channel, now_us: int, chance: random.Random) -> Outcome | None:
        """Pushes new and due alerts; None where there are none, or the channel is waiting to retry."""
        trouble = self._trouble.setdefault(channel.name, Trouble())
        if now_us < trouble.retry_us:
            return None
        lasts_us = now_us + channel.more.resolve_minutes * MINUTE_US
        resend_us = min(RESEND_US_MAX, channel.more.resolve_minutes * MINUTE_US // 4)
        due = await asyncio.to_thread(self._firing.list, channel.name, now_us - resend_us)
        outcome: Outcome | None = None
        for start in range(0, len(due), CHUNK):
            part, key = due[start : start + CHUNK], f"{channel.name}|push|{now_us}|{start}"
            message = kind.push(part, lasts_us, Context(channel, self._base_url, key, now_us))
            result = await self._send(channel, message, key)
            outcome = result if outcome is None or outcome.sent else outcome
            if result.sent:
                await asyncio.to_thread(self._firing.pushed, channel.name, part, now_us)
            elif not result.permanent:
                break  # a receiver that refuses one alert still accepts the others, those of later requests too
        if outcome is not None:
            trouble.attempts = 0 if outcome.sent else trouble.attempts + 1
            tries = REFUSED_ATTEMPTS if outcome.permanent else trouble.attempts
            trouble.retry_us = 0 if outcome.sent else now_us + backoff_us(tries, outcome.retry_after_us, chance)
            await asyncio.to_thread(self._firing.record_push, channel.name, _error(outcome), now_us)
        return outcome


def _error(outcome: Outcome) -> str | None:
    """The error without "not tried again", which is true of messages only: a firing alert is pushed again."""
    if outcome.sent:
        return None
    error, given_up, _ = (outcome.error or "failed").partition("; not tried again")
    return f"{error}; check url and authorization" if given_up else error
