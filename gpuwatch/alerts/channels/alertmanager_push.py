"""Pushes to Alertmanagers: all that fires, again and again, so that it goes on firing; what ended, with its end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gpuwatch.alerts.channel import Channel
from gpuwatch.alerts.channels import alertmanager
from gpuwatch.alerts.channels.http_post import Outcome, backoff_us
from gpuwatch.alerts.firing.repository import Alert, Firing
from gpuwatch.core.clock import MINUTE_US
from gpuwatch.state import State

RESEND_US_MAX = MINUTE_US
"""Time between two pushes of an alert, as Prometheus has it; at most a quarter of what the channel's alerts last."""
CHUNK = 500
"""Alerts of one request."""
REFUSED_ATTEMPTS = 20
"""What an answer that is no hope counts as: it is tried again as seldom as may be, for what fires is still true."""

Send = Callable[[Channel, object, str], Awaitable[Outcome]]


@dataclass
class Trouble:
    """Failures in a row of a channel."""

    attempts: int = 0
    retry_us: int = 0


class Pusher:
    """Pushes what fires. Doing it twice changes nothing: labels are the identity of an alert."""

    def __init__(self, state: State, send: Send, base_url: str | None) -> None:
        self._state, self._send, self._base_url = state, send, base_url
        self._firing = Firing(state)
        self._trouble: dict[str, Trouble] = {}

    async def push(self, channel: Channel, now_us: int, chance: random.Random) -> Outcome | None:
        """Pushes what is new or due again; None where nothing is, or where the channel failed a moment ago."""
        trouble = self._trouble.setdefault(channel.name, Trouble())
        if now_us < trouble.retry_us:
            return None
        resend_us = min(RESEND_US_MAX, channel.more.resolve_minutes * MINUTE_US // 4)
        chosen = await asyncio.to_thread(self._firing.list, channel.name, now_us - resend_us)
        outcome: Outcome | None = None
        for start in range(0, len(chosen), CHUNK):
            part = chosen[start : start + CHUNK]
            answer = await self._send(
                channel, self._message(channel, part, now_us), f"{channel.name}|push|{now_us}|{start}"
            )
            outcome = answer if outcome is None or outcome.sent else outcome
            if answer.sent:
                await asyncio.to_thread(self._firing.told, channel.name, part, now_us)
            elif not answer.permanent:
                break  # one that refuses an alert takes the others, those of the next requests too
        if outcome is not None:
            trouble.attempts = 0 if outcome.sent else trouble.attempts + 1
            tries = REFUSED_ATTEMPTS if outcome.permanent else trouble.attempts
            trouble.retry_us = 0 if outcome.sent else now_us + backoff_us(tries, outcome.retry_after_us, chance)
            await asyncio.to_thread(self._firing.fared, channel.name, _error(outcome), now_us)
        return outcome

    def _message(self, channel: Channel, alerts: Sequence[Alert], now_us: int) -> list[dict[str, object]]:
        lasts_us = now_us + channel.more.resolve_minutes * MINUTE_US
        labels, template = dict(channel.more.labels), channel.more.template
        return [
            alertmanager.alert(a.content, a.severity, a.ended_us or lasts_us, self._base_url, labels, template)
            for a in alerts
        ]


def _error(outcome: Outcome) -> str | None:
    """What went wrong, without words that are true of messages only: these are given up, what fires is not."""
    if outcome.sent:
        return None
    said, given_up, _ = (outcome.error or "failed").partition("; not tried again")
    return f"{said}; check url and authorization" if given_up else said
