"""Posts one message: allowed destinations, time limits, and the meaning of the response."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from gpuwatch.alerts.delivery.destination_guard import Gate, Guard
from gpuwatch.core.clock import HOUR_US, SECOND_US, to_us
from gpuwatch.core.errors import UsageError

TIMEOUT_S = 15.0
"""For everything: name resolution, connection, request, response."""

MAX_ANSWER = 4096
"""Bytes of a response to read: Slack sends one word."""

RETRY_AFTER_US_MAX = HOUR_US
"""Longest delay that a receiver can ask for."""

BACKOFF_S_MIN = 5.0
BACKOFF_S_MAX = 900.0

TRY_AGAIN = frozenset({408, 425, 429})
"""Temporary errors below 500."""

_WORD = re.compile(r"[a-z]+(_[a-z]+)+")
"""Slack's error words, such as no_service. No other part of a response is shown: it might hold the address."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a request. `error` is for people, without secrets; `retry_after_us` is the delay the receiver asked for."""

    sent: bool
    error: str | None = None
    permanent: bool = False
    retry_after_us: int | None = None


async def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    guard: Guard,
    now_us: int,
    timeout_s: float = TIMEOUT_S,
    resolver: AbstractResolver | None = None,
) -> Outcome:
    """Posts JSON. Never raises for what the network or the receiver does; follows no redirect, uses no proxy."""
    try:
        gate = Gate(guard, guard.check_url(url))
    except UsageError as error:
        return Outcome(False, str(error), permanent=True)
    try:
        return await _exchange(url, body, headers, gate, now_us, timeout_s, resolver)
    except TimeoutError:
        return Outcome(False, f"{gate.host} gave no answer within {timeout_s:g} s")
    except aiohttp.ClientConnectorDNSError:
        return Outcome(False, f"the name {gate.host} cannot be resolved; check it, or this machine's DNS")
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError):
        return Outcome(
            False, f"{gate.host}: its TLS certificate is not accepted; check the address, or this machine's clock"
        )
    except OSError as error:  # aiohttp's connection errors are OSErrors too
        if gate.refused and not gate.opened:
            return Outcome(False, _refusal(gate), permanent=True)
        return Outcome(False, f"{gate.host} cannot be reached: {error.strerror or 'connection closed'}")
    except aiohttp.InvalidURL:
        return Outcome(False, "the address cannot be read as a URL", permanent=True)
    except aiohttp.ClientError as error:
        # By type only: the text of these errors may hold the address.
        return Outcome(False, f"{gate.host} closed or broke the exchange ({type(error).__name__})")


async def _exchange(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    gate: Gate,
    now_us: int,
    timeout_s: float,
    resolver: AbstractResolver | None,
) -> Outcome:
    """A new connection for each request: one that was checked for another host must not be reused."""
    connector = aiohttp.TCPConnector(
        socket_factory=gate.socket, resolver=resolver, force_close=True, limit=1, use_dns_cache=False
    )
    session = aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )
    sent_as = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "gpuwatch", **headers}
    async with (
        session,
        session.post(URL(url, encoded=True), data=body, headers=sent_as, allow_redirects=False) as answer,
    ):
        if 200 <= answer.status < 300:
            return Outcome(True)
        text = "" if 300 <= answer.status < 400 else (await answer.content.read(MAX_ANSWER)).decode("utf-8", "replace")
        return judge(answer.status, answer.headers.get("Retry-After"), text.strip(), url, now_us)


def judge(status: int, retry_after: str | None, text: str, url: str, now_us: int) -> Outcome:
    """The meaning of a response other than 2xx. Pure.

    https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks#handling_errors
    """
    word = f" {text}" if _WORD.fullmatch(text) and len(text) <= 64 and text not in url else ""
    if 300 <= status < 400:
        return Outcome(False, f"it answers {status}, a redirect; these are not followed: enter the final address", True)
    if status >= 500 or status in TRY_AGAIN:
        return Outcome(False, f"it answers {status}{word}", retry_after_us=wait_us(retry_after, now_us))
    return Outcome(False, f"it answers {status}{word}; not tried again: {_advice(status)}", permanent=True)


def backoff_us(attempts: int, asked_us: int | None, chance: random.Random) -> int:
    """How long to wait after `attempts` failures: what the receiver asked for, or twice as long each time, within bounds;
    always a little by chance.
    """
    wait_s = min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2 ** min(attempts, 20))
    jittered_us = int(wait_s * SECOND_US * chance.uniform(0.5, 1.0))
    return jittered_us if asked_us is None else asked_us + int(chance.uniform(0, 1) * SECOND_US)


def wait_us(retry_after: str | None, now_us: int) -> int | None:
    """Microseconds that a Retry-After header (seconds, or a date) asks for, at most RETRY_AFTER_US_MAX; None for none."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]) * SECOND_US, RETRY_AFTER_US_MAX)
    try:
        wanted_us = to_us(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wanted_us - now_us, 0), RETRY_AFTER_US_MAX)


def _advice(status: int) -> str:
    if status in (401, 403, 404, 410):
        return "the webhook is gone or forbids it; make a new one and enter its address"
    return "the receiver does not accept the message"


def _refusal(gate: Gate) -> str:
    return f"{gate.host} leads to an address that is not public; name it in allow_private of gpuwatch.toml to use it"
