"""What an OpenCost question asks for: its parameters, read as OpenCost reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from gpuwatch.billing.opencost import filter as filters
from gpuwatch.billing.opencost.subject import Aggregate, needed, parse_aggregate
from gpuwatch.billing.opencost.window import CALENDAR, Sets, cut, parse_window
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError

YES = frozenset({"1", "t", "T", "true", "TRUE", "True"})
"""What Go's ParseBool takes for true; anything else is false."""
METRICS = ("cumulative", "hourly", "daily", "monthly")
FORMATS = ("json", "csv")
LIMIT_MAX = 1_000_000
_WHOLE = re.compile(r"\d{1,7}", re.ASCII)
_AMOUNT = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)

READ = {
    "window": "today, yesterday, week (from Sunday), lastweek, month, lastmonth, 7d or 24h (rounded outward), "
    "`24h offset 2h`, START,END in RFC 3339, or two Unix times",
    "aggregate": "cluster, node, namespace, controllerKind, controller, deployment, statefulset, daemonset, job, "
    "service, pod, container, providerID, label:x, annotation:x, department, environment, owner, product, team; several "
    "with commas, or all",
    "step": "length of each set: a duration, or hour, day, week, month, quarter",
    "accumulate": "true or all, hour, day, week, month, quarter: what sets are added up to",
    "accumulateBy": "as accumulate, and before it; or none",
    "includeIdle": "whether to include __idle__ rows",
    "idle": "as includeIdle, and before it",
    "shareIdle": "true or weighted, even: idle goes to who used the pool; needs includeIdle",
    "idleByNode": "idle is that of each node instead of each cluster",
    "splitIdle": "a row of idle for each pool",
    "shareSplit": "weighted or even: how to divide shared costs",
    "shareNamespaces": "namespaces whose cost the others share",
    "shareLabels": "labels (name:value) whose cost the others share",
    "shareCost": "an amount a month that all share",
    "filter": 'such as namespace:"a","b"+label[app]!:"x"',
    "includeProportionalAssetResourceCosts": "the part of each pool that a row has; needs includeIdle",
    "includeAggregatedMetadata": "labels that all of a row share",
    "costMetric": "cumulative, hourly, daily or monthly",
    "format": "json or csv",
    "limit": "rows of each set, most expensive first",
    "offset": "rows of each set that are passed over",
    "currency": "gpuwatch only: the currency to report where there are several",
    **{name: "comma-separated, * at the end of a prefix" for name in filters.LEGACY},
    **{name: "comma-separated name:value" for name in filters.LEGACY_PAIRS},
    filters.LEGACY_CONTROLLERS: "comma-separated name or kind:name",
}
"""Parameters that change the answer, and what they take."""
IGNORED = (
    "resolution", "sharelb", "shareTenancyCosts", "includeSharedCostBreakdown", "external", "reconcile",
    "reconcileNetwork", "shareLabelsAndNamespaces", "profile",
)  # fmt: skip
"""Parameters of OpenCost and its relatives that say nothing about GPUs."""


@dataclass(frozen=True)
class Query:
    """A question, checked."""

    sets: Sets
    aggregates: tuple[Aggregate, ...]
    filter: filters.Node
    shared: filters.Node
    share_cost: Decimal
    """Of the currency, each month of 730 hours."""
    share_evenly: bool
    include_idle: bool
    share_idle: str
    """none, weighted or even."""
    idle_by_node: bool
    split_idle: bool
    proportional: bool
    metadata: bool
    metric: str
    format: str
    limit: int | None
    offset: int
    currency: str | None

    @property
    def window(self) -> Window:
        return self.sets.window

    @property
    def words(self) -> set[str]:
        """Words of a Subject that the answer takes."""
        more = filters.fields(self.filter) | filters.fields(self.shared)
        more |= {"label"} if self.metadata else set()
        more |= {"node"} if self.idle_by_node else set()
        return needed(self.aggregates, more)


def weighs_others(query: Query) -> str | None:
    """The first parameter by which the cost of rows shows in that of others; None if there is none."""
    shared = filters.fields(query.shared)
    sharing = {
        "shareIdle": query.share_idle != "none",
        "shareCost": query.share_cost > 0,
        "shareNamespaces": "namespace" in shared,
        "shareLabels": "label" in shared,
        "includeProportionalAssetResourceCosts": query.proportional,
    }
    return next((name for name, shares in sharing.items() if shares), None)


def parse_query(given: Mapping[str, str], now_us: int) -> Query:
    """The question of these parameters. Raises UsageError with what OpenCost answers 400 to."""
    window = parse_window(given.get("window", "").strip(), now_us)
    include_idle = _flag(given, "idle") if "idle" in given else _flag(given, "includeIdle")
    proportional = _flag(given, "includeProportionalAssetResourceCosts")
    if proportional and not include_idle:
        raise UsageError("bad request - includeIdle must be set true if includeProportionalAssetResourceCosts is true")
    share_idle = {"weighted": "weighted", "even": "even"}.get(given.get("shareIdle", "").lower())
    wanted = filters.parse(given.get("filter", ""))
    return Query(
        sets=cut(window, given.get("step") or None, _accumulate(given)),
        aggregates=parse_aggregate(given.get("aggregate", "")),
        filter=filters.Group(
            True, tuple(node for node in (wanted, filters.legacy(given)) if node != filters.EVERYTHING)
        ),
        shared=filters.legacy(given, share=True),
        share_cost=_amount(given, "shareCost"),
        share_evenly=_word(given, "shareSplit", ("weighted", "even")) == "even",
        include_idle=include_idle,
        share_idle=(share_idle or ("weighted" if _flag(given, "shareIdle") else "none")) if include_idle else "none",
        idle_by_node=_flag(given, "idleByNode"),
        split_idle=_flag(given, "splitIdle"),
        proportional=proportional,
        metadata=_flag(given, "includeAggregatedMetadata"),
        metric=_word(given, "costMetric", METRICS),
        format=_word(given, "format", FORMATS),
        limit=_whole(given, "limit"),
        offset=_whole(given, "offset") or 0,
        currency=given.get("currency") or None,
    )


def _flag(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "") in YES


def _accumulate(given: Mapping[str, str]) -> str:
    for name in ("accumulateBy", "accumulate"):
        text = given.get(name, "")
        if text in ("all", "none", *CALENDAR):
            return text
        if text in YES:
            return "all"
    return "none"


def _word(given: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    text = given.get(name) or known[0]
    if text not in known:
        raise UsageError(f"{name} {text[:50]!r}: use one of {', '.join(known)}")
    return text


def _whole(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name, "")
    if not text:
        return None
    if not _WHOLE.fullmatch(text) or int(text) > LIMIT_MAX:
        raise UsageError(f"{name} {text[:50]!r}: use a whole number up to {LIMIT_MAX}")
    # As in OpenCost's relatives, no limit is 0.
    return int(text) or None


def _amount(given: Mapping[str, str], name: str) -> Decimal:
    text = given.get(name) or "0"
    if not _AMOUNT.fullmatch(text):
        raise UsageError(f"{name} {text[:50]!r}: use an amount a month such as 30.42")
    return Decimal(text)
