"""Why free GPUs are stranded, and what to do about each cause: over a window, by pool and model.

The scan, the scorecard, the reports and the overview take the causes from here; `gpuwatch shapes` has those of one instant, with
the same remedies (hardware/fgd.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gpuwatch.advisor.mode_waits import waited
from gpuwatch.billing import chargeback
from gpuwatch.billing.records import BucketRow
from gpuwatch.core.clock import Window
from gpuwatch.core.words import joined
from gpuwatch.hardware.fgd import REMEDIES, Case, Task, takes
from gpuwatch.hardware.shares import has_profile, model_key
from gpuwatch.ledger.measures import UNHELD
from gpuwatch.ledger.stranding import asked
from gpuwatch.state import State
from gpuwatch.store.database import Store

STRANDED = "stranded"
MODEL, MODE, SCATTERED, UNKNOWN = "model", "mode", "scattered", "unknown"
"""Requests ask for another model; for slices where GPUs are whole, or the other way round; for more GPUs than lie together.
UNKNOWN: the states of the nodes are no longer kept."""
CASE_OF: dict[str, Case] = {MODEL: "NA", MODE: "ML", SCATTERED: "Q2"}
TITLES = {
    MODEL: "Free, but requests ask for another GPU model",
    MODE: "Free, but in the wrong MIG mode for the requests",
    SCATTERED: "Free, but too few GPUs together for the requests",
    UNKNOWN: "Free but stranded",
}
MORE = {
    MODEL: "",
    MODE: "",
    SCATTERED: "The capacity page and `gpuwatch shapes --plan asked` list the moves.",
    UNKNOWN: "The capacity page and `gpuwatch shapes` list what fits on them now.",
}
LAYERS = {MODEL: "scheduling", MODE: "partitioning", SCATTERED: "placement", UNKNOWN: "placement"}
CLAIMED_BY = {"mig-mixed-pool": MODE, "mig-speculative": MODE}
"""Rules whose findings claim stranded time, by its cause; those of other rules are SCATTERED."""
NAMED_MAX = 3
"""Pools and models that a sentence names."""
UNUSED_BELOW = Fraction(1, 20)
"""A pool that was held for a smaller part of its time is called unused."""
_NONE = Fraction(0)


@dataclass(frozen=True)
class Place:
    """The stranded time of a pool's GPUs of one model. `cost` None: no price in the fleet's currency."""

    cluster: str
    pool: str | None
    gpu_model: str | None
    gpu_hours: Fraction
    cost: Fraction | None

    @property
    def name(self) -> str:
        """`pool s03 (H100-80GB)`."""
        return f"pool {self.pool or 'unknown'} ({short_model(self.gpu_model)})"


@dataclass(frozen=True)
class Cause:
    """Stranded time of one cause: what it cost, where it was (most first), what was asked, and what to do."""

    name: str
    places: tuple[Place, ...]
    currency: str | None
    words: str = ""
    """What was asked for instead, in a sentence."""
    more: str = ""
    """What else to do, from the use of these GPUs."""

    @property
    def gpu_hours(self) -> Fraction:
        """GPU-hours, by the GPU's share."""
        return sum((one.gpu_hours for one in self.places), _NONE)

    @property
    def cost(self) -> Fraction | None:
        """None where some has no price."""
        costs = [one.cost for one in self.places]
        known = [cost for cost in costs if cost is not None]
        return sum(known, _NONE) if len(known) == len(costs) else None

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return TITLES[self.name]

    @property
    def remedy(self) -> str:
        """What to do, in sentences."""
        first = REMEDIES[CASE_OF[self.name]] if self.name in CASE_OF else ""
        return " ".join(part for part in (first, MORE[self.name], self.more) if part)

    @property
    def summary(self) -> str:
        """What is stranded where, and why."""
        models = list(dict.fromkeys(short_model(one.gpu_model) for one in self.places))
        pools = list(dict.fromkeys(one.pool or "unknown" for one in self.places))
        where = f"GPUs of {_listed(models)} in {'pool' if len(pools) == 1 else 'pools'} {_listed(pools)}."
        return " ".join(part for part in (where, self.words) if part)


def short_model(model: str | None) -> str:
    """`H100-80GB` for each of the names that exporters and schedulers give it."""
    if not model:
        return "unknown model"
    return model_key(model) or model.removeprefix("NVIDIA ").removeprefix("NVIDIA-").removeprefix("nvidia_").upper()


def causes(
    store: Store, state: State, window: Window, *, cluster: str | None = None, pool: str | None = None
) -> list[Cause]:
    """The causes of the ledger's stranded time in a window, the most expensive first; they add up to it.

    The hours and costs of a pool and model are the ledger's, divided by the states of its nodes; the time that is lost to another
    model or mode is divided by the requests of each day. Prices and teams are those of the last pricing.
    """
    by = ("cluster", "pool", "gpu_model", "mig_profile")
    ledger = chargeback.ledger(store, state, window, by, cluster, pool=pool)
    amounts = _stranded(ledger.items, ledger.currency)
    if not amounts:
        return []
    ends = {"start_us": window.start_us, "end_us": window.end_us, "cluster": cluster}
    days: dict[str, set[int]] = defaultdict(set)
    rows = store.rows("advisor/stranded", **ends)
    for row in rows:
        days[row["cluster"]].add(row["day_us"])
    tasks = {(name, day): found.tasks for name, some in days.items() for day, found in asked(store, name, some).items()}
    shares = _shares(rows, tasks)
    places: dict[str, dict[tuple[str, str | None, str | None], Place]] = defaultdict(dict)
    for (name, of_pool, model, partitioned), (hours, cost) in amounts.items():
        for cause, share in shares.get((name, of_pool or "", model or "", partitioned), {UNKNOWN: Fraction(1)}).items():
            known = places[cause].get((name, of_pool, model), Place(name, of_pool, model, _NONE, _NONE))
            both = None if cost is None or known.cost is None else known.cost + cost * share
            places[cause][name, of_pool, model] = replace(known, gpu_hours=known.gpu_hours + hours * share, cost=both)
    last = {name: tasks[name, max(some)] for name, some in days.items()}
    sorted_places = {cause: tuple(sorted(mine.values(), key=_order)) for cause, mine in places.items()}
    found = [
        Cause(
            cause,
            mine,
            ledger.currency,
            _words(cause, mine, last),
            waited(store, ends, {place.cluster for place in mine}) if cause == MODE else "",
        )
        for cause, mine in sorted_places.items()
    ]
    unused = _unused(ledger.items)
    return sorted(
        (_with_unused(one, unused) for one in found), key=lambda one: (-(one.cost or 0), -one.gpu_hours, one.name)
    )


def unclaimed(found: Sequence[Cause], claimed: Mapping[str, tuple[Fraction, Fraction]]) -> list[Cause]:
    """Causes without what findings claim of them, each place in proportion. `claimed`: (GPU-hours, cost) by rule."""
    hours: dict[str, Fraction] = defaultdict(Fraction)
    costs: dict[str, Fraction] = defaultdict(Fraction)
    for rule, (some, cost) in claimed.items():
        hours[CLAIMED_BY.get(rule, SCATTERED)] += some
        costs[CLAIMED_BY.get(rule, SCATTERED)] += cost
    left = []
    for one in found:
        part = _left(one.gpu_hours, hours[one.name])
        paid = _left(one.cost or _NONE, costs[one.name])
        if part:
            places = (
                replace(p, gpu_hours=p.gpu_hours * part, cost=None if p.cost is None else p.cost * paid)
                for p in one.places
            )
            left.append(replace(one, places=tuple(places)))
    return left


def _left(whole: Fraction, claimed: Fraction) -> Fraction:
    return max(whole - claimed, _NONE) / whole if whole else _NONE


def _order(place: Place) -> tuple[Fraction, Fraction, str, str, str]:
    return -(place.cost or _NONE), -place.gpu_hours, place.cluster, place.pool or "", place.gpu_model or ""


_Key = tuple[str, str | None, str | None, bool]


def _stranded(rows: Iterable[BucketRow], currency: str | None) -> dict[_Key, tuple[Fraction, Fraction | None]]:
    """Stranded GPU-hours and their cost by cluster, pool, model and whether GPUs are partitioned."""
    found: dict[_Key, tuple[Fraction, Fraction | None]] = {}
    for row in rows:
        if row.bucket != STRANDED or not row.gpu_seconds:
            continue
        group = row.group
        key = group["cluster"] or "", group["pool"] or None, group["gpu_model"] or None, bool(group["mig_profile"])
        hours, cost = found.get(key, (_NONE, _NONE))
        priced = row.cost is not None and row.currency == currency and cost is not None
        found[key] = (
            hours + Fraction(row.gpu_seconds) / 3600,
            (cost or _NONE) + Fraction(row.cost or 0) if priced else None,
        )
    return found


def _shares(
    rows: Iterable[Mapping[str, Any]], tasks: Mapping[tuple[str, int], Sequence[Task]]
) -> dict[tuple[str, str, str, bool], dict[str, Fraction]]:
    """The part of each cause in the stranded time of a cluster, pool, model and mode; they add up to 1."""
    lost: dict[tuple[str, str, str, bool], dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for row in rows:
        mine = lost[row["cluster"], row["pool"] or "", row["model"], row["partitioned"]]
        misfit = Fraction(row["misfit"])
        of_mode = _of_mode(tasks[row["cluster"], row["day_us"]], row["model"] or None, row["partitioned"])
        mine[SCATTERED] += max(Fraction(row["lost"]) - misfit, _NONE)
        mine[MODE] += misfit * of_mode
        mine[MODEL] += misfit * (1 - of_mode)
    return {
        key: {cause: part / sum(parts.values()) for cause, part in parts.items() if part}
        for key, parts in lost.items()
        if sum(parts.values())
    }


def _of_mode(tasks: Sequence[Task], model: str | None, partitioned: bool) -> Fraction:
    """Of the requests that a GPU cannot take because of its model or mode: the part that its mode keeps away."""
    mode = other = 0
    for task in tasks:
        if (task.profile is None) == partitioned and takes(task, model) and _could_be(model, task.profile):
            mode += task.weight
        elif (task.profile is None) == partitioned or not takes(task, model):
            other += task.weight
    return Fraction(mode, mode + other) if mode + other else _NONE


def _could_be(model: str | None, profile: str | None) -> bool:
    """Whether GPUs of a model can be in the mode of a request: whole always, partitioned where they have such slices."""
    return profile is None or has_profile(model, profile)


def _words(cause: str, places: Sequence[Place], clusters: Mapping[str, Sequence[Task]]) -> str:
    """What the requests ask for: by model, or whole GPUs and slices. Of a model, also how many cannot use it."""
    weights: dict[str, int] = defaultdict(int)
    for tasks in clusters.values():
        for task in tasks:
            if cause == MODEL:
                named = sorted({short_model(model) for model in task.models}) if task.models else []
                weights[" or ".join(named) or ("any model" if task.models is None else "a model that is not here")] += (
                    task.weight
                )
            elif cause == MODE:
                weights["whole GPUs" if task.profile is None else "MIG slices"] += task.weight
    whole = sum(weights.values())
    if not whole:
        return ""
    ranked = sorted(weights.items(), key=lambda one: (-one[1], one[0]))[:NAMED_MAX]
    parts = [f"{round(100 * Fraction(weight, whole))} % ask for {what}" for what, weight in ranked]
    unfit: dict[str, Fraction] = {}
    for one in places if cause == MODEL else ():
        mine = clusters.get(one.cluster) or ()
        refused = Fraction(sum(task.weight for task in mine if not takes(task, one.gpu_model)))
        if refused:
            unfit.setdefault(short_model(one.gpu_model), refused / sum(task.weight for task in mine))
    cannot = [f"{round(100 * share)} % cannot use {model}" for model, share in list(unfit.items())[:NAMED_MAX]]
    so = f": {joined(cannot)}" if cannot else ""
    return f"Of the requests of up to four weeks before, {', '.join(parts)}{so}."


def _unused(rows: Iterable[BucketRow]) -> set[tuple[str, str]]:
    """The pools (cluster, name) that were hardly held."""
    held: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    whole: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for row in rows:
        if pool := row.group["pool"]:
            key = row.group["cluster"] or "", pool
            whole[key] += Fraction(row.gpu_seconds)
            held[key] += 0 if row.bucket in UNHELD else Fraction(row.gpu_seconds)
    return {key for key, seconds in whole.items() if held[key] < UNUSED_BELOW * seconds}


def _with_unused(one: Cause, unused: set[tuple[str, str]]) -> Cause:
    """Names its pools that were hardly held."""
    pools = list(dict.fromkeys(p.pool for p in one.places if p.pool and (p.cluster, p.pool) in unused))
    if not pools:
        return one
    text = f"{'Pool' if len(pools) == 1 else 'Pools'} {_listed(pools)} {'was' if len(pools) == 1 else 'were'} free at least 95 % of the time."
    return replace(one, words=f"{one.words} {text}".strip())


def _listed(names: Sequence[str]) -> str:
    if len(names) > NAMED_MAX:
        return f"{', '.join(names[:NAMED_MAX])} and {len(names) - NAMED_MAX} more"
    return joined(names)
