"""The data of a weekly report, before any text: amounts, rows, quality."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from gpuwatch.advisor.stranded import Cause
from gpuwatch.core.clock import Window
from gpuwatch.findings.read import Finding
from gpuwatch.ledger.hours import HELD_BUCKETS
from gpuwatch.ledger.measures import AVOIDABLE, MEASURED_MIN, NOT_MEASURED, WORKING, Measures
from gpuwatch.ledger.month import Basis
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report.period_records import Budget, Closed, Past

UNOWNED = "__unallocated__"
SPECIAL = (PLATFORM, UNOWNED, "__idle__", "__shared__")
"""Owners that are not teams and get no report of their own."""

HOUR_S = 3600


@dataclass(frozen=True)
class Amount:
    """GPU-seconds (share-weighted) and what they cost, by currency; `unpriced_gpu_seconds` of them have no rate."""

    gpu_seconds: Decimal = Decimal(0)
    costs: tuple[tuple[str, Decimal], ...] = ()
    unpriced_gpu_seconds: Decimal = Decimal(0)

    def __add__(self, other: Amount) -> Amount:
        return added((self, other))

    @property
    def gpu_hours(self) -> Fraction:
        """Share-weighted GPU-hours."""
        return Fraction(self.gpu_seconds) / HOUR_S

    def cost_in(self, currency: str | None) -> Decimal | None:
        """The cost where it is known whole and in this currency; None where some has no rate or another currency."""
        if self.unpriced_gpu_seconds or currency is None or any(c != currency for c, _ in self.costs):
            return None
        return dict(self.costs).get(currency, Decimal(0))


def added(amounts: Iterable[Amount]) -> Amount:
    """The sum of amounts: as `+` gives it, in one go."""
    seconds, lacking = Decimal(0), Decimal(0)
    costs: dict[str, Decimal] = {}
    for amount in amounts:
        seconds += amount.gpu_seconds
        lacking += amount.unpriced_gpu_seconds
        for currency, cost in amount.costs:
            costs[currency] = costs.get(currency, Decimal(0)) + cost
    return Amount(seconds, tuple(sorted(costs.items())), lacking)


def amount_of(gpu_seconds: Decimal, money: Decimal | None, currency: str | None) -> Amount:
    """An Amount of one row; None is time without a rate."""
    if money is None or currency is None:
        return Amount(gpu_seconds, (), gpu_seconds)
    return Amount(gpu_seconds, ((currency, money),))


@dataclass(frozen=True)
class Payer:
    """A row of who pays: a team, a user or a job. `before` is None where nothing can be compared."""

    name: str | None
    amount: Amount
    before: Amount | None = None
    buckets: Mapping[str, Amount] = field(default_factory=dict)
    kind: str = "allocated"
    user: str | None = None
    cluster: str | None = None
    claimed_gpu_seconds: Decimal = Decimal(0)
    """Avoidable below-peak time: what findings claim of it."""
    inferred: bool = False
    """Whether its account or namespace, not an ownership rule, names the team."""
    avoidable: Amount | None = None
    """What was avoidable of its own GPU time; None for a job, and where too little was measured."""

    def of(self, *buckets: str) -> Amount:
        """The sum over these buckets."""
        return added(self.buckets[b] for b in buckets if b in self.buckets)

    def shares(self) -> tuple[Decimal, Decimal] | None:
        """(working, avoidable) part of what was held; None if nothing was, or too little of it was measured."""
        held = self.of(*HELD_BUCKETS).gpu_seconds
        if not held or Fraction(held - self.of(NOT_MEASURED).gpu_seconds) < MEASURED_MIN * Fraction(held):
            return None
        working = self.of(*WORKING).gpu_seconds - self.claimed_gpu_seconds
        avoidable = self.of(*(b for b in AVOIDABLE if b in HELD_BUCKETS)).gpu_seconds + self.claimed_gpu_seconds
        return working / held, avoidable / held


@dataclass(frozen=True)
class Charge:
    """The finest row of the bill; the costs of all add up to it, to the cent."""

    team: str | None
    user: str | None
    cluster: str | None
    job: str | None
    kind: str
    gpu_seconds: Decimal
    cost: Decimal | None
    cost_exact: Decimal | None
    currency: str | None
    error: str | None
    inferred: bool = False

    @property
    def place(self) -> tuple[str | None, str | None, str | None, str | None]:
        """(team, user, cluster, job)"""
        return self.team, self.user, self.cluster, self.job


@dataclass(frozen=True)
class Correction:
    """What a closed period turned out to cost more or less, billed in this week: of one owner and job."""

    period: str
    why: str
    billed_us: int
    team: str | None
    user: str | None
    cluster: str | None
    job: str | None
    gpu_model: str | None
    mig_profile: str | None
    amount: Amount
    cost_exact: Decimal | None


@dataclass(frozen=True)
class SliceHold:
    """A run's hold of one MIG slice. `busy_ratio` is of the slice, None where it was not measured."""

    slice: str
    profile: str
    gpu_model: str
    share: str
    team: str | None
    user: str | None
    job: str | None
    cluster: str
    start: str
    end: str
    amount: Amount
    device_seconds: Decimal
    idle_seconds: Decimal | None
    """None where no exporter measures the slice."""
    busy_ratio: float | None


@dataclass(frozen=True)
class ModelUse:
    """What an owner paid for one GPU model and size of slice (None: whole GPUs)."""

    team: str | None
    gpu_model: str | None
    mig_profile: str | None
    kind: str
    amount: Amount


@dataclass(frozen=True)
class Waited:
    """GPU time that was held idle while requests of other teams waited that it would have fitted: at least so much."""

    amount: Amount
    requests: int
    """Such requests, each counted once."""


@dataclass(frozen=True)
class Versions:
    """Versions of the cards and rules, 0 for none; `method`: how MIG slices share the cost of a GPU, None if unknown."""

    rates: int
    teams: int
    policies: int = 0
    fx: int = 0
    method: str | None = None


@dataclass(frozen=True)
class Quality:
    """Data quality. Ratios are shares of held GPU-seconds, None where nothing was held."""

    unobserved_ratio: float | None
    unowned_ratio: float | None
    unpriced_gpu_seconds: Decimal
    missing_rates: tuple[str, ...]
    stale_hours: int
    """Hours of the week with data that is not analyzed yet."""


@dataclass(frozen=True)
class Facts:
    """The data of one report. `team` is None for the fleet."""

    week: str
    window: Window
    covered: Window
    """The part of the week that the ledger covers."""
    compared: Window | None
    """The same hours one week earlier, None where the ledger does not cover them."""
    team: str | None
    total: Amount
    total_before: Amount | None
    corrections: Amount
    """What late data changed in periods that are closed: part of the total, of no bucket."""
    buckets: Mapping[str, Amount]
    buckets_before: Mapping[str, Amount] | None
    findings: tuple[Finding, ...]
    slices: tuple[SliceHold, ...]
    payers: tuple[Payer, ...]
    jobs: tuple[Payer, ...]
    charges: tuple[Charge, ...]
    quality: Quality
    versions: Versions
    ledger_from_us: int
    priced: Mapping[str | None, Amount] = field(default_factory=dict)
    """By owner: what the buckets cost at their price, before any policy."""
    measures: Measures = field(default_factory=Measures.nothing)
    measures_before: Measures | None = None
    models: tuple[ModelUse, ...] = ()
    waited: Waited | None = None
    """None without data on waiting requests."""
    bound: bool = False
    """The reader may not learn of other teams: neither what waited, nor the digest of everybody's rows."""
    waited_by: Mapping[str, Waited] = field(default_factory=dict)
    """By team, for the fleet."""
    budget: Budget | None = None
    closed: Closed | None = None
    """None where the week is open."""
    corrected: tuple[Correction, ...] = ()
    """The lines of `corrections`."""
    history: tuple[Past, ...] = ()
    team_budgets: Mapping[str, Budget] = field(default_factory=dict)
    """By team, for the fleet."""
    forecast: Budget | None = None
    """Of the month in which the period ends; its amount is no budget. None for a team."""
    job_names: Mapping[tuple[str | None, str | None], str] = field(default_factory=dict)
    basis: Basis | None = None
    """How much of `covered` was measured. None: all of it."""
    stranded: tuple[Cause, ...] = ()
    """The causes of the fleet's stranded time; none for a team."""

    unmeasured: tuple[str, ...] = ()
    """The nodes with held time that was not measured, the most first."""

    only_dumps: bool = False
    """Whether earlier periods lack jobs, because every record of a job comes from a kubectl dump."""

    @property
    def counted(self) -> Basis:
        """How much time the costs were counted in."""
        whole_us = self.covered.end_us - self.covered.start_us
        return self.basis or Basis(whole_us, whole_us)

    @property
    def period_word(self) -> str:
        """`week`, `month` or `period`."""
        return "period" if " to " in self.week else "week" if "-W" in self.week else "month"

    @property
    def currency(self) -> str | None:
        """The one currency of everything, None where there are several or none."""
        found = {currency for currency, _ in self.total.costs}
        return found.pop() if len(found) == 1 else None

    def of(self, *buckets: str, before: bool = False) -> Amount:
        """The sum over these buckets, of the week or of the one it is compared with."""
        every = (self.buckets_before or {}) if before else self.buckets
        return added(every[b] for b in buckets if b in every)
