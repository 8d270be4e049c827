"""Refused queries: what the server answered, and whether asking for less, asking later or new settings would help."""

from __future__ import annotations

import json
import re

from gpuwatch.core.errors import SourceUnreachable

MAX_ERROR_TEXT = 300
MAX_WAIT_S = 300.0
"""Of a Retry-After that is believed."""

LARGE, LATER, NEVER = "large", "later", "never"
"""The remedy for a refusal: ask for less, ask later, or change the settings."""
_LARGE_TEXT = re.compile(
    r"too many (?:samples|series|chunks|points|bytes|time ?series)|too large|exceed|limit|time-?out|timed out|deadline"
    r"|-search\.max(?:Samples|Unique|Export|Series|Memory)|larger than|cannot select more|not enough memory",
    re.IGNORECASE,
)
_SERIES_TEXT = re.compile(r"-search\.max|series|chunks", re.IGNORECASE)
_TIMEOUT_TEXT = re.compile(r"time-?out|timed out|deadline", re.IGNORECASE)
CHECK_PATH = "check the address: the path of Mimir ends in /prometheus, that of a VictoriaMetrics cluster in /select/0/prometheus"


class Refused(SourceUnreachable):
    """A query that was not answered. `remedy` is LARGE, LATER or NEVER; `status` is 0 without an HTTP answer."""

    @property
    def of_series(self) -> bool:
        """Whether the limit is on series: a shorter span may not help, since VictoriaMetrics counts whole blocks of
        hours per series."""
        return self.remedy == LARGE and _SERIES_TEXT.search(str(self)) is not None

    def __init__(self, text: str, remedy: str, retry_after_s: float | None = None, status: int = 0) -> None:
        super().__init__(text)
        self.status = status
        self.remedy = remedy
        self.retry_after_s = retry_after_s


def refusal(url: str, status: int, body: bytes, retry_after: str | None) -> Refused:
    """The error for an answer other than 200, with the server's message, the remedy and the fix."""
    text, remedy = _explain(url, status, body)
    return Refused(text, remedy, _seconds(retry_after) if remedy == LATER else None, status)


def _explain(url: str, status: int, body: bytes) -> tuple[str, str]:
    """(message, remedy)."""
    kind, text = _error_of(body)
    message = f"{url} answered {status}" + (f": {_short(text)}" if text else "")
    if status == 429:
        return f"{message}; it requests a pause", LATER
    if status in (401, 403):
        return f"{message}; check user and password, token, tenant or client certificate", NEVER
    if status == 404:
        return f"{message}; no Prometheus API at this address: {CHECK_PATH}", NEVER
    if 300 <= status < 400:
        return f"{message}; it redirects: configure the final address", NEVER
    if status == 503:
        if kind == "timeout" or _TIMEOUT_TEXT.search(text):
            return message, LARGE
        return f"{message}; it is not ready or overloaded", LATER
    if status in (413, 504) or _LARGE_TEXT.search(text):
        return f"{message}; raise that limit of the server", LARGE
    if status >= 500 or status == 408:
        return message, LATER
    return message, NEVER


def _error_of(body: bytes) -> tuple[str, str]:
    """(errorType, error) of an error answer; the first line of any other."""
    try:
        answer = json.loads(body)
        kind, text = str(answer.get("errorType") or ""), str(answer.get("error") or answer.get("message") or "")
    except (ValueError, AttributeError, RecursionError):
        kind, text = "", body.decode(errors="replace")
        text = "" if text.lstrip()[:1] == "<" else text
    line = " ".join(text.split())
    return kind, line


def _short(text: str) -> str:
    """An error text without its middle: VictoriaMetrics puts the query first and the cause last."""
    if len(text) <= MAX_ERROR_TEXT:
        return text
    return f"{text[: MAX_ERROR_TEXT // 3]} ... {text[-MAX_ERROR_TEXT * 2 // 3 :]}"


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After in seconds, bounded; a date is ignored."""
    text = (retry_after or "").strip()
    return min(float(text), MAX_WAIT_S) if text.isascii() and text.isdigit() and len(text) < 9 else None
