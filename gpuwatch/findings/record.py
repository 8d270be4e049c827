"""A finding as the API returns it. This module loads no library, so that commands can list the findings of a server."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """Waste that a detector found, as the API returns it. Times are RFC 3339; amounts are decimal text, None where unknown."""

    key: str
    detector: str
    title: str
    severity: str
    state: str
    confidence: float
    cluster: str
    subject: dict[str, str | None]
    team: str
    user: str | None
    started_at: str
    ended_at: str | None
    last_seen_at: str
    wasted_gpu_seconds: str
    wasted_cost: str | None
    currency: str | None
    bucket: str | None
    summary: str
    remedy: str
    evidence: dict[str, Any]
    devices: list[str]
    nodes: list[str]
    suppressed_by: str | None
    resolved_reason: str | None
    inferred: bool = False
    """Whether its team is named by an account or namespace, because no ownership rule decides."""
    gpu_index: int | None = None
    """The index on its node of the one GPU that it is about; None for several, or where no source has it."""
    headline: str = ""
    """What happens to whom, and where, in one sentence; empty where its rule has none."""

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON has it. dataclasses.asdict, which copies at every depth, takes 20 times as long."""
        return {name: copy(value) if isinstance(value, dict | list) else value for name, value in vars(self).items()}


FIELDS = tuple(Finding.__dataclass_fields__)
