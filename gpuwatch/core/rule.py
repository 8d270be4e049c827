"""What a detector is: words, thresholds and a SQL file of the same stem."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.registry import discover

if TYPE_CHECKING:
    from gpuwatch.settings import Settings
    from gpuwatch.state import State
    from gpuwatch.store.database import Store

Evidence = Mapping[str, Any]
Mode = Literal["hours", "runs", "all"]
MEASURES = ("sum", "mean", "max", "min", "first", "last", "devices")
"""How numbers of several rows become one number of the finding: means are weighted by time, devices are counted once."""


def count(number: float, noun: str) -> str:
    """A number in a sentence, with its noun: one decimal, two below 1; the evidence has it whole."""
    told = f"{number:,.{1 if abs(number) >= 1 else 2}f}".rstrip("0").rstrip(".")
    return f"{told} {noun}{'' if told == '1' else 's'}"


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
class Asked:
    """What one judgement is about: whole hours [since_us, until_us) of a cluster, read from from_us on. Microseconds."""

    cluster: str
    since_us: int
    until_us: int
    from_us: int
    known_until_us: int
    now_us: int
    parameters: Mapping[str, Any]
    settings: Settings
    state: State
    """Rate cards, exchange rates and the like, of rules that reckon with them in `prepare`."""

    def named(self) -> dict[str, Any]:
        """As the SQL of a rule has it."""
        own = ("cluster", "since_us", "until_us", "from_us", "known_until_us", "now_us")
        return {**self.parameters, **{name: getattr(self, name) for name in own}}


@dataclass(frozen=True)
class Rule:
    """A detector: the SQL decides (sql/detectors/<stem>.sql), this explains."""

    id: str
    title: str
    why: str
    bucket: str | None
    """The ledger bucket that it claims first; None: it tells of savings, no time is wasted."""
    thresholds: tuple[Threshold, ...]
    summary: Callable[[Evidence], str]
    remedy: Callable[[Evidence], str]
    severity: Callable[[Evidence, float], str] | None = None
    """(evidence, hours) to a severity; None: by money a day."""
    mode: Mode = "hours"
    """What is judged anew: the rows of the hours that changed, whole chains of runs, or everything of the cluster."""
    look_back_us: int = HOUR_US
    """How far before the judged hours its SQL reads."""
    gap_us: int = 2 * HOUR_US
    """Of what is not about a job: a condition that returns within this is the same cause."""
    least_us: int = 0
    """A condition that lasted less is kept and is no finding yet."""
    measures: Mapping[str, str] = field(default_factory=dict)
    """How the numbers of its rows become evidence: name to one of MEASURES."""
    confidence: Callable[[Evidence], float] | None = None
    """Evidence to a confidence; None: the greatest of the rows."""
    prepare: Callable[[Store, Asked], None] | None = None
    """Makes temporary tables that the SQL reads."""
    unjudged: str | None = None
    """A SQL file (run_id, device_id, start_us, end_us, reason) of what could not be judged."""
    sql: str | None = None
    """The statement itself, of a rule of the site; None: the file of its stem."""

    @property
    def stem(self) -> str:
        """The name of its SQL file, module and test."""
        return self.id.replace("-", "_")

    @property
    def parameters(self) -> dict[str, float]:
        """The thresholds by name: microseconds are whole numbers."""
        return {t.name: int(t.value) if is_time(t.name) else t.value for t in self.thresholds}


def version_of(parameters: Mapping[str, float]) -> str:
    """The thresholds that were in force, as text: a finding keeps those it was judged by."""
    return ",".join(f"{name}={value:g}" for name, value in sorted(parameters.items()))


_rules: dict[str, Rule] = {}


def register(rule: Rule) -> Rule:
    """Makes a rule known. Raises ValueError when its id is taken."""
    if rule.id in _rules:
        raise ValueError(f"detector {rule.id!r} is registered twice: {_rules[rule.id].title!r} and {rule.title!r}")
    _rules[rule.id] = rule
    return rule


def rules() -> dict[str, Rule]:
    """All detectors by id."""
    discover("gpuwatch.detectors")
    return dict(sorted(_rules.items()))
