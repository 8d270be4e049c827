"""What a scan found: the scorecard's facts, the waste of each team, and whom to ask about each action."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any

from gpuwatch.audit.facts import read_facts
from gpuwatch.audit.figures import hours_text, money_text
from gpuwatch.audit.losses import LOSS
from gpuwatch.audit.plan import foremost, hours_at_stake, money_at_stake, needs_action
from gpuwatch.audit.scorecard import scorecard
from gpuwatch.billing import chargeback
from gpuwatch.billing.inferred_teams import inferred_teams
from gpuwatch.billing.records import GroupMeasures
from gpuwatch.core.clock import HOUR_US, Window
from gpuwatch.jobs.loss_parts import kinds_of
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.quality.dumps import only_dumps
from gpuwatch.quality.measure_checks import COUNTERS, lacking_fields
from gpuwatch.quality.rate_checks import unpriced_models
from gpuwatch.rates.list_prices import list_prices
from gpuwatch.rates.matching import match_models
from gpuwatch.report.facts import UNOWNED
from gpuwatch.report.html.markup import name, owner_name
from gpuwatch.scan.lines import counted_late, no_jobs, no_team, with_models
from gpuwatch.scan.losses import unnamed_losses
from gpuwatch.state import State
from gpuwatch.store.database import Store

ACTIONS_MAX = 10
NAMED_MAX, USERS_MAX = 3, 2
"""Jobs and other subjects that an action names, the most expensive; the others are counted."""
ASK = {PLATFORM: "the platform team", UNOWNED: "the owners of the jobs"}
"""Whom to ask where no team has the time."""

_GPU = re.compile(r"GPU \d+ on \S+")

Json = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """What was scanned, how it is priced, and how it continues."""

    name: str
    """For a reader, e.g. `a Prometheus server`."""
    prices: str
    """Where the prices come from; empty for the fleet's own."""
    listed: tuple[str, ...]
    """The list prices of the fleet's models, as text; empty for the fleet's own."""
    commands: tuple[tuple[str, str], ...]
    """What keeps it running: purpose and command."""
    data: str = ""
    """The option that names the data for other commands, e.g. ` --data gpuwatch-scan/data`."""


def read_scan(store: Store, state: State, window: Window | None, now_us: int, of_files: bool = False) -> Json:
    """The scorecard as JSON, with `teams` (waste by team, most first). Each team has its own actions, with whom to `ask` and
    the foremost `subjects`: those still open, then the most expensive. Waste that no
    finding names is among them (losses.py).

    Without a window, all that the store knows. `of_files`: jobs are known from dumps only, which may be older than the window.
    Money and hours are decimal text. Prices and teams are those of the last pricing.
    """
    facts = read_facts(store, state, window, now_us)
    if facts["window"] is None:
        return scorecard(facts, by_team=True) | {"only_dumps": only_dumps(store), "teams": []}
    found = chargeback.ledger(store, state, facts["window"], ("team",))
    kinds = cache(partial(kinds_of, store, facts["window"], cluster=None, pool=None, teams=None))
    facts["losses"] += unnamed_losses(found.items, facts["findings"], found.currency, kinds)
    card = scorecard(facts, by_team=True) | {"only_dumps": only_dumps(store)}
    groups = _groups(facts["findings"])
    card["actions"] = [
        action
        | (_about_loss(action) if action["kind"] == LOSS else _about(groups.get((action["id"], action["team"]), [])))
        for action in card["actions"]
    ]
    inferred = inferred_teams(store, facts["window"], ("team",))
    teams = [_team(one, found.currency, inferred) for one in found.groups]
    field = "avoidable_gpu_hours" if card["waste"]["cost"] is None else "avoidable_cost"
    teams.sort(key=lambda one: (-Fraction(one[field] or 0), -Fraction(one["cost"] or one["gpu_hours"])))
    owners = (_no_jobs(store, facts["window"]) if of_files else []) or no_team(teams)
    late = _counted_late(store, facts["window"], facts["capacity_gpu_hours"])
    unpriced = unpriced_models(store, state) if facts["unpriced_gpu_hours"] else []
    others = with_models(card["unknown"], unpriced)
    unknown = [*_lacking_counters(store, facts["window"]), *owners, *late, *others]
    return card | {"teams": teams, "unknown": unknown}


def _lacking_counters(store: Store, window: Window) -> list[Json]:
    """What exporters leave out that tells work from waiting, with the fix; nothing where every held device has it."""
    rows = lacking_fields(store, window.start_us)
    names = [COUNTERS[name].split(",")[0] for name in COUNTERS if any(row[name] for row in rows)]
    if not names:
        return []
    devices = sum(row["devices"] for row in rows)
    of = "held device delivers" if devices == 1 else "held devices deliver"
    what = f"{devices} {of} no {', '.join(names)}: a busy GPU may be working or waiting."
    fix = "Add the lines that gpuwatch doctor prints to the counters file of dcgm-exporter (option -f)."
    return [{"layer": "", "what": what, "fix": fix}]


def _no_jobs(store: Store, window: Window) -> list[Json]:
    """That the window has no job, where earlier days have some."""
    (row,) = store.rows("scan/jobs_before", start_us=window.start_us, end_us=window.end_us)
    return [] if row["within"] else no_jobs(row["earlier"], row["last_us"], row["first_us"], window)


def _counted_late(store: Store, window: Window, capacity_gpu_hours: Fraction) -> list[Json]:
    """That nodes count only from their first sample or job on, where the scheduler lists them earlier."""
    (row,) = store.rows("scan/counted_late", start_us=window.start_us, end_us=window.end_us)
    return counted_late(row["nodes"], row["last_us"], int(row["left_out_us"]), int(capacity_gpu_hours * HOUR_US))


def top_actions(card: Mapping[str, Any]) -> list[Json]:
    """The first actions: those worth most, then those that have ended, then decisions left to a default."""
    ranked = sorted(card["actions"], key=lambda one: one["kind"] == "decision")
    return [action | {"rank": rank} for rank, action in enumerate(ranked[:ACTIONS_MAX], 1)]


def _groups(findings: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for found in findings:
        if needs_action(found):
            groups[found["detector"], found["team"]].append(found)
    return groups


def _about(findings: Sequence[Mapping[str, Any]]) -> Json:
    """Whom to ask about an action, its foremost subjects, and the summary of the first; empty for a decision."""
    if not findings:
        return {"ask": "", "subjects": [], "summary": ""}
    ranked = foremost(findings)
    team = ranked[0]["team"]
    return {
        "ask": (ASK.get(team) or owner_name(team)) + _people(ranked),
        "subjects": [_subject(found) for found in ranked[:NAMED_MAX]],
        "summary": ranked[0]["summary"],
    }


def _people(findings: Sequence[Mapping[str, Any]]) -> str:
    """` (carol, dan and 2 more)`: the users of the foremost findings; empty where none is known."""
    users = list(dict.fromkeys(name(found["user"]) for found in findings if found["user"]))
    more = f" and {len(users) - USERS_MAX} more" if len(users) > USERS_MAX else ""
    return f" ({', '.join(users[:USERS_MAX])}{more})" if users else ""


def _about_loss(action: Mapping[str, Any]) -> Json:
    """Whom to ask about waste that no finding names, and the pools with most of it."""
    return {
        "ask": ASK.get(action["team"]) or owner_name(action["team"]),
        "subjects": [dict(one) for one in action["places"][:NAMED_MAX]],
        "summary": action["summary"],
    }


def _subject(found: Mapping[str, Any]) -> Json:
    """A job or another subject with what it cost; without a price its GPU-hours, and neither where it claims no time."""
    kind, known = found["subject"]["kind"], found["subject"]["name"] or found["subject"]["id"]
    cost, hours = money_at_stake(found), hours_at_stake(found)
    return {
        "name": _gpu(found) or (known if kind == "job" and not known.isdigit() else f"{kind} {known}"),
        "cost": money_text(cost) if cost and not found["unpriced_gpu_hours"] else None,
        "gpu_hours": hours_text(hours) if hours else None,
    }


def _gpu(found: Mapping[str, Any]) -> str | None:
    """`GPU 3 on n1`; None for other subjects."""
    known = _GPU.match(found.get("headline") or "") if found["subject"]["kind"] == "gpu" else None
    return known[0] if known else None


def _team(one: GroupMeasures, currency: str | None, inferred: Collection[str]) -> Json:
    """A team's row: what it held, and what was avoidable of that. None: not measured, or without a price."""
    found = one.measures
    kinds = (found.working, found.avoidable, found.free, found.not_measured, found.out_of_service)
    known = [kind for kind in kinds if kind.gpu_seconds is not None]
    costs = [kind.cost_in(currency) for kind in known if kind.gpu_seconds]
    return {
        "team": one.group["team"],
        "inferred": one.group["team"] in inferred,
        "gpu_hours": hours_text(sum((Fraction(kind.gpu_seconds or 0) for kind in known), Fraction(0)) / 3600),
        "cost": money_text(None if None in costs else sum((cost for cost in costs if cost is not None), start=0)),
        "avoidable_gpu_hours": None
        if found.avoidable.gpu_seconds is None
        else hours_text(Fraction(found.avoidable.gpu_seconds) / 3600),
        "avoidable_cost": money_text(found.avoidable.cost_in(currency)),
        "avoidable_ratio": found.avoidable.ratio,
        "measured_ratio": found.measured_ratio,
    }


def prices_used(store: Store) -> tuple[str, ...]:
    """The list price of each model of the fleet: `NVIDIA L4: 0.8048 USD a GPU-hour (AWS g6.xlarge)`, or that it has none."""
    models = [model for (model,) in store.sql("select distinct model from device where model is not null order by 1")]
    found = match_models(list_prices(), models)
    (unnamed,) = store.sql("select count(*) from device where model is null and gi < 0 and kind is null")[0]
    lacking = f"{unnamed} GPUs of an unknown model: no price; scontrol show node -d (slurm/scontrol_node.txt) names it, or give rates.csv"
    return ((lacking,) if unnamed else ()) + tuple(
        f"{model}: {found[model][0].usd_per_gpu_hour} USD a GPU-hour ({found[model][0].sku})"
        if found.get(model)
        else f"{model}: no list price"
        for model in models
    )
