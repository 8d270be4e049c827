"""Effective thresholds of a rule by run and device: presets combined with threshold overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Any

import pyarrow as pa

from gpuwatch.findings.presets import DEFAULT, LADDER, PRESETS, RECLAIM, values_of
from gpuwatch.findings.threshold_overrides import ALL, POOL, TEAM, Layer, layers
from gpuwatch.rules.rule import Rule, version_of
from gpuwatch.state import State
from gpuwatch.store.database import Store

_SET = pa.schema([("team", pa.string()), ("pool", pa.string()), ("number", pa.int32())])


@dataclass(frozen=True)
class InForce:
    """The effective thresholds of one rule and their preset. None: the rule is switched off."""

    parameters: dict[str, Any] | None
    preset: str


@dataclass(frozen=True)
class ParameterSet:
    """Thresholds of a rule for the runs of one number; number 0 is for all runs that the tables of `sets` do not contain."""

    number: int
    parameters: dict[str, Any] | None
    """None: the rule is switched off for these."""
    preset: str
    """The preset they start from; also default if the preset in force does not mention the rule."""
    sql: str = ""
    """Identifies the SQL text of a site's rule."""

    @property
    def version(self) -> str:
        """The version stored with each result; a changed version is evaluated again. Parts that are not thresholds have no `=`."""
        if self.parameters is None:
            return "off"
        parts = [version_of(self.parameters), self.preset != DEFAULT and f"preset:{self.preset}", self.sql]
        return ",".join(part for part in parts if part)


def in_force(
    found: Sequence[Layer],
    rule: str,
    base: Mapping[str, Any],
    cluster: str | None = None,
    pool: str | None = None,
    team: str | None = None,
) -> InForce:
    """The thresholds of a rule for a pool and a team: the team's override wins over the pool's, that over the general one.

    `base` are the rule's thresholds with those of the settings; a preset starts again from them. A rule that any of the three
    layers switches off is off. Overrides of thresholds that the rule no longer has are ignored.
    """
    mine = [layer for layer in found if _applies(layer, cluster, pool, team)]
    preset = next((layer.preset for layer in reversed(mine) if layer.preset in PRESETS), None) or DEFAULT
    if any(rule in layer.off for layer in mine):
        return InForce(None, preset)
    given = dict(base)
    for layer in mine:
        if layer.preset in PRESETS:
            given = dict(base) | values_of(layer.preset or DEFAULT, rule)
        given |= {name: value for owner, name, value in layer.thresholds if owner == rule}
    return InForce({name: given[name] for name in base}, preset)


def steps(found: Sequence[Layer], cluster: str | None, pool: str | None, team: str | None) -> InForce:
    """The steps of a reclaim for a pool and a team; if layers conflict, no step comes before the step it follows."""
    known = in_force(found, RECLAIM, {t.name: t.value for t in LADDER}, cluster, pool, team)
    given = dict(known.parameters or {})
    last = 0
    for step in (t.name for t in LADDER if t.name.endswith("_us")):
        given[step] = last = max(last, int(given[step]))
    return InForce(given, known.preset)


def sets(store: Store, cluster: str, state: State, rule: Rule, base: Mapping[str, Any]) -> tuple[ParameterSet, ...]:
    """The distinct thresholds of a rule in a cluster, number 0 first: those of everything without an override.

    Where there are several, makes two temporary tables: rule_set_run (run_id, number) of the runs of all other numbers, and
    rule_set_device (device_id, number) for results that are not about a run. A run has its team and the pool where it held most devices.
    `base` are the rule's thresholds with those of the settings.
    """
    return sets_of(store, cluster, layers(state), rule, base)


def sets_of(
    store: Store, cluster: str, found: Sequence[Layer], rule: Rule, base: Mapping[str, Any]
) -> tuple[ParameterSet, ...]:
    """Like `sets`, for layers that need not be in force."""
    sql = "" if rule.sql is None else f"sql:{md5(rule.sql.encode(), usedforsecurity=False).hexdigest()[:8]}"
    general = in_force(found, rule.id, base, cluster)
    numbered = {_key(general, rule): ParameterSet(0, general.parameters, _preset_of(general, rule), sql)}
    rows = []
    named = [layer for layer in found if layer.scope != ALL and layer.cluster in (None, cluster)]
    teams = [None, *dict.fromkeys(layer.name for layer in named if layer.scope == TEAM)]
    pools = [None, *dict.fromkeys(layer.name for layer in named if layer.scope == POOL)]
    for team in teams if named else ():
        for pool in pools:
            known = in_force(found, rule.id, base, cluster, pool, team)
            made = ParameterSet(len(numbered), known.parameters, _preset_of(known, rule), sql)
            rows.append({"team": team, "pool": pool, "number": numbered.setdefault(_key(known, rule), made).number})
    if len(numbered) == 1:
        return tuple(numbered.values())
    with store.view("named_set", pa.Table.from_pylist(rows, schema=_SET)):
        store.run("findings/preset_sets", cluster=cluster)
    return tuple(numbered.values())


def _applies(layer: Layer, cluster: str | None, pool: str | None, team: str | None) -> bool:
    if layer.scope == POOL:
        return pool is not None and layer.name == pool and (layer.cluster is None or layer.cluster == cluster)
    if layer.scope == TEAM:
        return team is not None and layer.name == team
    return True


def _preset_of(known: InForce, rule: Rule) -> str:
    return known.preset if values_of(known.preset, rule.id) else DEFAULT


def _key(known: InForce, rule: Rule) -> tuple[Any, ...]:
    return () if known.parameters is None else (_preset_of(known, rule), *sorted(known.parameters.items()))
