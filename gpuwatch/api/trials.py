"""What the routes share that try a limit on the past: its window, and whether the queue is replayed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from gpuwatch.api.auth import Access
from gpuwatch.api.common import window_of
from gpuwatch.api.errors import ApiError, TeamScope
from gpuwatch.core.clock import HOUR_US, Window

Requests = Annotated[
    bool | None, Query(description="Whether the queue is replayed; by default, unless the token is bound to teams.")
]


def replays_queue(access: Access, requests: bool | None) -> bool:
    """Whether the waiting requests are replayed. ApiError 403 `team_scope` for a token bound to teams that asks for it."""
    if requests and access.teams is not None:
        raise TeamScope("requests: the queue has requests of other teams, and the token is bound to teams", "requests")
    return access.teams is None and requests is not False


def past_window(text: str, now_us: int) -> tuple[Window, Window]:
    """The window of a parameter, rolling ones up to the last full hour, and what of it has passed.

    ApiError 400 naming `window` for more than 31 days.
    """
    from gpuwatch.reclaim.limits import WINDOW_US_MAX

    window = window_of(text, now_us // HOUR_US * HOUR_US)
    if window.end_us - window.start_us > WINDOW_US_MAX:
        raise ApiError(400, f"window {text!r}: at most 31 days", "choose a shorter window, such as 30d", "window")
    return window, Window(window.start_us, max(window.start_us + 1, min(window.end_us, now_us)))
