"""Chargeback policies: which team pays for which cost, and from which day."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from gpuwatch.core.clock import DAY_US, SECOND_US, day_floor, rfc3339
from gpuwatch.rates.models import model_tokens

KIND = "policies"
"""The versioned list that stores them."""
PARTS = 10_000
"""Factors and weights have four decimals, so they are whole numbers of ten-thousandths."""
BASES = ("allocated", "used", "effective")
"""The held time a team pays for: all of it, time in which the engine ran, or time at a roofline of the GPU."""
FREE_CAUSES = ("idle", "stranded", "out_of_service", "mig_remainder")
"""Causes of unheld time, by ledger bucket; `idle` is the bucket `schedulable`."""
UNUSED, DISCOUNT, MINIMUM, LOST_WORK = "unused", "discount", "minimum", "lost_work"
CAUSES = (*FREE_CAUSES, UNUSED, LOST_WORK)
"""Costs whose payer a policy can set."""
PLATFORM, PROPORTIONAL, EVEN, QUOTA_HOLDER, OWNER, CAUSER = (
    "platform",
    "proportional",
    "even",
    "quota_holder",
    "owner",
    "cause",
)
PAYERS = (PLATFORM, PROPORTIONAL, EVEN, QUOTA_HOLDER, OWNER, CAUSER)
SCOPE = ("cluster", "pool", "gpu_model")
"""Default scope of a split: a team shares a cost only where it held something, so it never pays for models it did not use."""
SHARE_METHODS = ("dominant", "compute", "memory", "sm")
CHECKPOINT_MINUTES = 60
"""Work that an interrupted run loses when the time of its last checkpoint is unknown."""
DISCOUNT_WORDS = ("qos", "priority", "queue", "label", "preemptible")
PERIODS = ("hour", "day", "month")
SPLITS = (PROPORTIONAL, EVEN, "fixed")


@dataclass(frozen=True)
class Payer:
    """Who pays one cost; `scope` are the dimensions within which a proportional or even split is made."""

    payer: str = PLATFORM
    scope: tuple[str, ...] = SCOPE


@dataclass(frozen=True)
class Quota:
    """GPUs reserved for a team; None in a scope field means any."""

    team: str
    gpus: Decimal
    cluster: str | None = None
    pool: str | None = None
    gpu_model: str | None = None


@dataclass(frozen=True)
class Discount:
    """The factor 0..1 of its price that a run pays if its field `word` matches `match` (`*` matches any text).

    `word` is one of DISCOUNT_WORDS; `label` has a `key`; `preemptible` matches "true".
    """

    word: str
    match: str
    factor: Decimal
    key: str = ""


@dataclass(frozen=True)
class SharedCost:
    """A cost on top of device costs: `amount` per `per`, divided among teams each day by `split`. Without `teams`, every
    team that held something that day takes part. The `percentages` of a fixed split add up to 100.
    """

    name: str
    amount: Decimal
    per: str
    currency: str
    split: str
    teams: tuple[str, ...] = ()
    percentages: tuple[tuple[str, Decimal], ...] = ()


@dataclass(frozen=True)
class Policy:
    """Chargeback rules from `valid_from_us` (a UTC midnight) until `valid_to_us`, the next policy, or indefinitely."""

    name: str
    valid_from_us: int
    valid_to_us: int | None = None
    basis: tuple[tuple[str, Decimal], ...] = (("allocated", Decimal(1)),)
    payers: tuple[tuple[str, Payer], ...] = ()
    quotas: tuple[Quota, ...] = ()
    discounts: tuple[Discount, ...] = ()
    minimum_billing_seconds: int = 0
    checkpoint_minutes: int = CHECKPOINT_MINUTES
    mig_share_method: str | None = None
    """None: the value of the setting."""
    shared: tuple[SharedCost, ...] = ()
    preset: str | None = field(default=None, compare=False)

    @property
    def plain(self) -> bool:
        """Whether teams pay for what they hold, the platform pays for the rest, and nothing else is charged."""
        moved = any(entry.payer in (PROPORTIONAL, EVEN, QUOTA_HOLDER) for _, entry in self.payers)
        adds = self.discounts or self.shared or self.minimum_billing_seconds
        return self.parts("allocated") == PARTS and not (moved or self.moves_lost_work or adds)

    @property
    def moves_lost_work(self) -> bool:
        """Whether the platform, not the owner of the run, pays for work that a node failure or preemption destroyed.

        The platform counts as the cause of both: no record shows for whose benefit a run was preempted.
        """
        return self.payer(LOST_WORK).payer in (PLATFORM, CAUSER)

    def payer(self, cause: str) -> Payer:
        """Who pays a cost. The default is the platform, and for lost work the owner of the run."""
        return dict(self.payers).get(cause, Payer(OWNER if cause == LOST_WORK else PLATFORM))

    def parts(self, basis: str) -> int:
        """The weight of a basis in ten-thousandths."""
        return int(dict(self.basis).get(basis, Decimal(0)) * PARTS)

    @property
    def minimum_us(self) -> int:
        """The increment of billing in microseconds, 0 for none."""
        return self.minimum_billing_seconds * SECOND_US


DEFAULT = Policy("default", 0)
"""Applies on days without a policy: teams pay for what they hold, the platform for the rest."""


@dataclass(frozen=True)
class Policies:
    """Policies in order of time, without overlap. `version` is None for a proposal that is not in force."""

    items: tuple[Policy, ...] = ()
    version: int | None = None

    def at(self, at_us: int) -> Policy:
        """The policy in force at an instant."""
        place = bisect_right([item.valid_from_us for item in self.items], at_us) - 1
        if place < 0:
            return DEFAULT
        found = self.items[place]
        return found if found.valid_to_us is None or at_us < found.valid_to_us else DEFAULT

    def days(self, start_us: int, end_us: int) -> list[tuple[int, Policy]]:
        """(midnight, policy) of each UTC day that touches [start_us, end_us)."""
        first = day_floor(start_us)
        return [(day_us, self.at(day_us)) for day_us in range(first, end_us, DAY_US)]

    def plain(self, start_us: int, end_us: int) -> bool:
        """Whether every day of a span is charged as it would be without a policy."""
        first = day_floor(start_us)
        touching = [
            p
            for p in self.items
            if p.valid_from_us < end_us and (p.valid_to_us is None or p.valid_to_us > first) and not p.plain
        ]
        return not any(self.at(max(p.valid_from_us, first)) is p for p in touching)


def matches(
    cluster: str | None, pool: str | None, model: str | None, place: tuple[str, str | None, str | None]
) -> bool:
    """Whether a (cluster, pool, GPU model) of the fleet lies in a scope; a model is named by some of its words."""
    named = model_tokens(model) if model else frozenset()
    return (
        cluster in (None, place[0])
        and pool in (None, place[1])
        and (model is None or model == place[2] or (bool(named) and named <= model_tokens(place[2] or "")))
    )


def methods_of(items: Sequence[Policy], default: str = SHARE_METHODS[0]) -> list[tuple[int, str]]:
    """(from_us, method) of policies in order of time: only the instants at which the method changes."""
    edges: dict[int, str] = {}
    for item in items:
        edges[item.valid_from_us] = item.mig_share_method or default
        if item.valid_to_us is not None:
            edges[item.valid_to_us] = default
    found: list[tuple[int, str]] = []
    for at_us, method in edges.items():
        if method != (found[-1][1] if found else default):
            found.append((at_us, method))
    return found


def as_dict(policy: Policy) -> dict[str, object]:
    """A policy as JSON, in the form that policy.parse accepts."""
    payers: Mapping[str, Payer] = dict(policy.payers)
    return {
        "name": policy.name,
        "valid_from": rfc3339(policy.valid_from_us),
        "valid_to": None if policy.valid_to_us is None else rfc3339(policy.valid_to_us),
        **({"preset": policy.preset} if policy.preset else {}),
        "basis": {name: f"{weight.normalize():f}" for name, weight in policy.basis},
        "payers": {
            cause: {"payer": payers[cause].payer}
            | ({"scope": list(payers[cause].scope)} if payers[cause].payer in (PROPORTIONAL, EVEN) else {})
            for cause in CAUSES
            if cause in payers
        },
        "quotas": [
            {"team": q.team, "gpus": f"{q.gpus:f}", "cluster": q.cluster, "pool": q.pool, "gpu_model": q.gpu_model}
            for q in policy.quotas
        ],
        "discounts": [
            {f"label:{d.key}" if d.word == "label" else d.word: d.match, "factor": f"{d.factor:f}"}
            for d in policy.discounts
        ],
        "minimum_billing_seconds": policy.minimum_billing_seconds,
        "checkpoint_minutes": policy.checkpoint_minutes,
        **({"mig_share_method": policy.mig_share_method} if policy.mig_share_method else {}),
        "shared": [
            {
                "name": s.name,
                "amount": f"{s.amount:f}",
                "per": s.per,
                "currency": s.currency,
                "split": s.split,
                **({"teams": list(s.teams)} if s.teams else {}),
                **({"percentages": {team: f"{part:f}" for team, part in s.percentages}} if s.percentages else {}),
            }
            for s in policy.shared
        ],
    }
