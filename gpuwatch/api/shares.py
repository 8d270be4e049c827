"""What requests share: connections for queries, back-tests, and memory for decoding; and the share of one token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuwatch.api.limits import DECOMPRESSED_MAX, MIB
from gpuwatch.api.turns import Turns
from gpuwatch.service.read_pool import READERS_MAX

if TYPE_CHECKING:
    from gpuwatch.service.service import Service

QUESTIONS_AT_ONCE = READERS_MAX - 2
"""Queries of all callers at a time. The other connections are for collectors and for changes by administrators."""
BACKTESTS_AT_ONCE = 3
DECODED_MAX = DECOMPRESSED_MAX + 8 * MIB
"""Bytes of decompressed bodies that wait to be decoded: one of the largest, and small ones."""
WEIGHT_MIN = 64 * 1024
"""What the smallest body counts."""


def question_turns(service: Service) -> Turns:
    """For queries of the store."""

    def each() -> int:
        return service.settings.questions_per_token

    return Turns(QUESTIONS_AT_ONCE, each, lambda: f"questions_per_token: this token runs {each()} queries at a time")


def backtest_turns(service: Service) -> Turns:
    """For back-tests."""

    def each() -> int:
        return service.settings.backtests_per_token

    return Turns(BACKTESTS_AT_ONCE, each, lambda: f"backtests_per_token: this token runs {each()} back-tests at a time")


def decoding_turns() -> Turns:
    """For bodies of senders, by their decompressed size."""
    return Turns(
        DECODED_MAX, lambda: DECOMPRESSED_MAX, lambda: f"{DECODED_MAX} bytes of bodies are waiting to be decoded"
    )
