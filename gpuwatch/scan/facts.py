"""What a scan found: the scorecard's facts, the waste of each team, and whom to ask about each action."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.audit.facts import read_facts
from gpuwatch.audit.figures import hours_text, money_text
from gpuwatch.audit.plan import most_expensive, needs_action
from gpuwatch.audit.scorecard import scorecard
from gpuwatch.billing import chargeback
from gpuwatch.billing.inferred_teams import inferred_teams
from gpuwatch.billing.records import GroupMeasures
from gpuwatch.core.clock import Window
from gpuwatch.rates.list_prices import list_prices
from gpuwatch.rates.matching import match_models
from gpuwatch.report.facts import PLATFORM, UNOWNED
from gpuwatch.report.html.markup import owner_name
from gpuwatch.state import State
from gpuwatch.store.database import Store

ACTIONS_MAX = 10
ASKED_MAX = 2
"""Teams named for an action; the others are counted."""
ASK = {PLATFORM: "the platform team", UNOWNED: "the owners of the jobs"}
"""Whom to ask where no team has the time."""

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


def read_scan(store: Store, state: State, window: Window | None, now_us: int) -> Json:
    """The scorecard as JSON, with `teams` (waste by team, most first) and `ask` in each of its actions.

    Without a window, all that the store knows. Money and hours are decimal text. Prices and teams are those of the last
    pricing.
    """
    facts = read_facts(store, state, window, now_us)
    card = scorecard(facts)
    if facts["window"] is None:
        return card | {"teams": []}
    found = chargeback.ledger(store, state, facts["window"], ("team",))
    groups = _by_detector(facts["findings"])
    card["actions"] = [action | _about(groups.get(action["id"], [])) for action in card["actions"]]
    inferred = inferred_teams(store, facts["window"], ("team",))
    teams = [_team(one, found.currency, inferred) for one in found.groups]
    field = "avoidable_gpu_hours" if card["waste"]["cost"] is None else "avoidable_cost"
    teams.sort(key=lambda one: -Fraction(one[field] or 0))
    return card | {"teams": teams}


def top_actions(card: Mapping[str, Any]) -> list[Json]:
    """The first actions: those with money or time at stake, then decisions left to a default."""
    ranked = sorted(card["actions"], key=lambda one: one["kind"] == "decision")
    return [action | {"rank": rank} for rank, action in enumerate(ranked[:ACTIONS_MAX], 1)]


def _by_detector(findings: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for found in findings:
        if needs_action(found):
            groups[found["detector"]].append(found)
    return groups


def _about(findings: Sequence[Mapping[str, Any]]) -> Json:
    """Whom to ask about findings of one detector, and the subject and summary of the largest; empty for a decision."""
    hours: dict[str, Fraction] = defaultdict(Fraction)
    for found in findings:
        hours[found["team"]] += sum(found["hours"].values(), Fraction(0))
    if not findings:
        return {"ask": "", "largest": "", "summary": ""}
    largest = most_expensive(findings)[0]
    subject = largest["subject"]
    shown = f"{subject['kind']} {subject.get('name') or subject['id']}"
    return {"ask": _names(hours), "largest": shown, "summary": largest["summary"]}


def _names(teams: Mapping[str, Fraction]) -> str:
    ranked = sorted(teams, key=lambda team: (-teams[team], team))
    names = [ASK.get(team) or owner_name(team) for team in ranked[:ASKED_MAX]]
    more = len(ranked) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


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
    return tuple(
        f"{model}: {found[model][0].usd_per_gpu_hour} USD a GPU-hour ({found[model][0].sku})"
        if found.get(model)
        else f"{model}: no list price"
        for model in models
    )
