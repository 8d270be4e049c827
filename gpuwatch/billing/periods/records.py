"""Records of closed periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuwatch.billing.periods.frozen import Row
from gpuwatch.core.clock import Window


@dataclass(frozen=True)
class Frozen:
    """The content of a closing: all rows, the cents published by team, a summary, and the versions it was priced with.

    `versions` are those of the cards when the rows were read. `context` is not part of the signed content: whether the
    closing was forced, time without a price, and days without a complete ledger.
    """

    rows: Sequence[Row]
    published: Sequence[Row]
    summary: Sequence[Row]
    versions: Mapping[str, int]
    context: Mapping[str, Any]


@dataclass(frozen=True)
class Signature:
    """A signature of a closing; `digest` is that of the signed content."""

    name: str
    number: int
    digest: str
    signer: str
    note: str
    at_us: int
    actor: str


@dataclass(frozen=True)
class InForce:
    """The closing of a period that is in force, without its content."""

    name: str
    number: int
    window: Window
    level: str
    versions: Mapping[str, int]
    """Versions of the cards that it was priced with; {} if they were not recorded."""
    infer: bool = False
    """Whether teams were inferred where no rule decided; earlier releases never did."""
