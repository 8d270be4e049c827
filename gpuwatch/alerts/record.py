"""What an alert message is about: a finding and what happened to it, or a report and its recipients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuwatch.report.summary import Summary


@dataclass(frozen=True)
class Alert:
    """A finding, and what happened to it."""

    event: str
    """opened | worsened | resolved"""
    key: str
    """Dedup key of the outbox row: the same when it is sent again."""
    at: str
    finding: Mapping[str, Any]
    """A finding of contract.md section 4, as JSON."""
    previous_severity: str | None = None
    earlier: tuple[str, ...] = ()
    """Earlier events that were never sent; this message includes them."""


@dataclass(frozen=True)
class Note:
    """A report to announce on one channel, and the recipients of an e-mail."""

    summary: Summary
    to: tuple[str, ...]
