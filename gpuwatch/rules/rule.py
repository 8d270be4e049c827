"""A detector's record: its texts, thresholds, and a SQL file of the same stem. Detectors register themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, get_args

from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.registry import discover
from gpuwatch.core.words import duration
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.rules.layers import DAYS, EFFORTS, LAYERS, OTHER

if TYPE_CHECKING:
    from gpuwatch.settings import Settings
    from gpuwatch.state import State
    from gpuwatch.store.database import Store

Evidence = Mapping[str, Any]
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}
Mode = Literal["hours", "runs", "all"]
MEASURES = ("sum", "mean", "max", "min", "first", "last", "devices")
"""How numbers of several rows become one number of the finding: means are weighted by time, devices are counted once."""


def count(number: float, noun: str) -> str:
    """A number with its noun, for a sentence: one decimal, two below 1. The evidence keeps the exact number."""
    text = f"{number:,.{1 if abs(number) >= 1 else 2}f}".rstrip("0").rstrip(".")
    return f"{text} {noun}{'' if text == '1' else 's'}"


def average(number: float, noun: str) -> str:
    """A mean with its noun, for a sentence: a mean with decimals is no number of things, and is called an average."""
    return f"{'' if float(number).is_integer() else 'on average '}{count(number, noun)}"


def lasting(number: float, unit: Literal["minutes", "hours"]) -> str:
    """A time for a sentence: `3 h 28 min`, `4 days 3 h`."""
    return duration(number * (60 if unit == "minutes" else 3600))


def waits(number: float) -> str:
    """The verb for so many that wait, for a headline."""
    return "{waits|waited}" if number == 1 else "{wait|waited}"


def price_text(amount: str | float | Decimal, currency: object) -> str:
    """An amount for a sentence: `$129`, `$4.20`, `CHF 12.00`; cents below 100."""
    value = Decimal(str(amount))
    sign = _SIGNS.get(str(currency), f"{currency} " if currency else "")
    return f"{sign}{value:,.0f}" if abs(value) >= 100 else f"{sign}{value:,.2f}"


def is_time(name: str) -> bool:
    """Whether a threshold is a time in microseconds, by its name: `idle_us_min`, but not `fb_used_ratio`."""
    return re.search(r"_us(_|$)", name) is not None


@dataclass(frozen=True)
class Threshold:
    """One number of a rule and where it comes from."""

    name: str
    value: float
    source: str


@dataclass(frozen=True)
class EvaluationScope:
    """What one evaluation covers: whole hours [since_us, until_us) of a cluster, read from `from_us` on. Microseconds."""

    cluster: str
    since_us: int
    until_us: int
    from_us: int
    known_until_us: int
    now_us: int
    parameters: Mapping[str, Any]
    settings: Settings
    state: State
    """Rate cards, exchange rates and other settings that `prepare` functions read."""

    def sql_parameters(self) -> dict[str, Any]:
        """The `$named` parameters that a rule's SQL may use."""
        own = ("cluster", "since_us", "until_us", "from_us", "known_until_us", "now_us")
        return {**self.parameters, **{name: getattr(self, name) for name in own}}


@dataclass(frozen=True)
class Rule:
    """A detector: the SQL decides (sql/detectors/<stem>.sql), this explains."""

    id: str
    title: str
    why: str
    bucket: str | None
    """The ledger bucket that it claims first. None: it reports possible savings or lost work, and claims no time."""
    thresholds: tuple[Threshold, ...]
    summary: Callable[[Evidence], str]
    remedy: Callable[[Evidence], str]
    headline: Callable[[Evidence], str] | None = None
    """What its subject does, as the first line of a message goes on after the subject's name: `{holds|held} 2 idle GPUs`, with the
    verb as it is open and after its end. None: messages begin with the title."""
    layer: str = OTHER
    """The id of the layer of authority that answers for its findings, one of `layers.LAYERS`. Where a rule touches two
    layers: the one whose decision would have prevented the waste. OTHER: a site's own rule."""
    effort: str = DAYS
    """How much work its remedy is: HOURS, DAYS or WEEKS."""
    severity: Callable[[Evidence, float], str] | None = None
    """(evidence, hours) to a severity; None: by money a day."""
    mode: Mode = "hours"
    """What is evaluated again when records change: the hours that changed, whole chains of runs, or the whole cluster."""
    look_back_us: int = HOUR_US
    """How far before the evaluated hours its SQL reads."""
    gap_us: int = 2 * HOUR_US
    """For findings that are not about a job: a condition that returns within this time is the same cause."""
    least_us: int = 0
    """A shorter condition is stored, but is not a finding yet, and claims no time of the ledger."""
    measures: Mapping[str, str] = field(default_factory=dict)
    """How numbers of several rows become evidence: name to one of MEASURES."""
    confidence: Callable[[Evidence], float] | None = None
    """Evidence to a confidence (0..1). None: the highest of the rows."""
    needs: tuple[str, ...] = ()
    """Inputs without each of which its SQL cannot return a row, `a|b` for one of two: where one is absent and the rule has no
    stored results, it is not run. Names of findings/inputs.sql, or `<pricing>_rates` of the rates in force."""
    priced: bool = False
    """Whether its evidence has amounts of money: it is evaluated again when rates change."""
    prepare: Callable[[Store, EvaluationScope], None] | None = None
    """Creates temporary tables that its SQL reads."""
    unjudged: str | None = None
    """A SQL file whose rows (run_id, device_id, start_us, end_us, reason) could not be evaluated."""
    sql: str | None = None
    """The SQL itself, for a site's own rule. None: the file of its stem."""

    @property
    def stem(self) -> str:
        """The name of its SQL file, module and test."""
        return self.id.replace("-", "_")

    @property
    def parameters(self) -> dict[str, float]:
        """The thresholds by name: microseconds are whole numbers."""
        return {t.name: int(t.value) if is_time(t.name) else t.value for t in self.thresholds}


def version_of(parameters: Mapping[str, float]) -> str:
    """The thresholds in force, as text. A finding keeps those it was evaluated with."""
    return ",".join(f"{name}={value:g}" for name, value in sorted(parameters.items()))


_rules: dict[str, Rule] = {}


def register(rule: Rule) -> Rule:
    """Registers a rule. Raises ValueError when its id is taken or a field has an unknown value."""
    _check(rule)
    if rule.id in _rules:
        raise ValueError(f"detector {rule.id!r} is registered twice: {_rules[rule.id].title!r} and {rule.title!r}")
    _rules[rule.id] = rule
    return rule


def _check(rule: Rule) -> None:
    """Refuses what would only be noticed later: a finding without a layer, a claim that the ledger never grants."""
    fields = [
        ("bucket", rule.bucket, (None, *BUCKET_WORDS)),
        ("layer", rule.layer, tuple(layer.id for layer in LAYERS)),
        ("effort", rule.effort, EFFORTS),
        ("mode", rule.mode, get_args(Mode)),
        *((f"measures[{name!r}]", how, MEASURES) for name, how in rule.measures.items()),
    ]
    for name, value, known in fields:
        if value not in known:
            choices = ", ".join(str(one) for one in known)
            raise ValueError(f"detector {rule.id!r}: {name} is {value!r}; choose one of {choices}")


def rules() -> dict[str, Rule]:
    """All detectors by id."""
    discover("gpuwatch.detectors")
    return dict(sorted(_rules.items()))


def layer_of(detector: str) -> str:
    """The layer that answers for a detector's findings; OTHER for a site's own detectors."""
    known = rules().get(detector)
    return OTHER if known is None else known.layer


def effort_of(detector: str) -> str:
    """HOURS, DAYS or WEEKS of work for the remedy of a detector."""
    known = rules().get(detector)
    return DAYS if known is None else known.effort
