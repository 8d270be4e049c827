"""Which thresholds a rule has for which runs and devices: presets and the card of detectors put together."""

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
    """The thresholds of one rule somewhere, and the preset they come from. None: it is switched off there."""

    parameters: dict[str, Any] | None
    preset: str


@dataclass(frozen=True)
class ParameterSet:
    """Thresholds of a rule that hold for the runs of one number; number 0 is for all that the tables of `sets` do not name."""

    number: int
    parameters: dict[str, Any] | None
    """None: the rule is switched off for these."""
    preset: str
    """Where they begin; default also where the preset in force says nothing of the rule."""
    sql: str = ""
    """What tells one text of a site's rule from another."""

    @property
    def version(self) -> str:
        """By what a verdict was made, as text; another text is judged anew. What is no threshold has no `=`."""
        if self.parameters is None:
            return "off"
        told = [version_of(self.parameters), self.preset != DEFAULT and f"preset:{self.preset}", self.sql]
        return ",".join(part for part in told if part)


def in_force(
    found: Sequence[Layer],
    rule: str,
    base: Mapping[str, Any],
    cluster: str | None = None,
    pool: str | None = None,
    team: str | None = None,
) -> InForce:
    """What holds of a rule for a pool and a team: the team's word before the pool's, that before what holds everywhere.

    `base` are the rule's thresholds with those of the settings; where a preset is named, they begin anew. A rule that any of
    the three switches off is off. What the card says of a threshold that the rule no longer has is not looked at.
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
    """The steps of a reclaim for a pool and a team; where layers contradict each other, no step comes before an earlier one."""
    known = in_force(found, RECLAIM, {t.name: t.value for t in LADDER}, cluster, pool, team)
    given = dict(known.parameters or {})
    last = 0
    for step in (t.name for t in LADDER if t.name.endswith("_us")):
        given[step] = last = max(last, int(given[step]))
    return InForce(given, known.preset)


def sets(store: Store, cluster: str, state: State, rule: Rule, base: Mapping[str, Any]) -> tuple[ParameterSet, ...]:
    """The distinct thresholds of a rule in a cluster, number 0 first: those of all that the card names nowhere.

    Where there are several, makes two temporary tables: rule_set_run (run_id, number) of the runs of all other numbers, and
    rule_set_device (device_id, number) for verdicts that are about no run. A run has its team and the pool where it held most devices.
    `base` are the rule's thresholds with those of the settings.
    """
    return sets_of(store, cluster, layers(state), rule, base)


def sets_of(
    store: Store, cluster: str, found: Sequence[Layer], rule: Rule, base: Mapping[str, Any]
) -> tuple[ParameterSet, ...]:
    """As `sets`, of layers that need not be in force."""
    sql = "" if rule.sql is None else f"sql:{md5(rule.sql.encode(), usedforsecurity=False).hexdigest()[:8]}"
    general = in_force(found, rule.id, base, cluster)
    numbered = {_key(general, rule): ParameterSet(0, general.parameters, _said(general, rule), sql)}
    rows = []
    named = [layer for layer in found if layer.scope != ALL and layer.cluster in (None, cluster)]
    teams = [None, *dict.fromkeys(layer.name for layer in named if layer.scope == TEAM)]
    pools = [None, *dict.fromkeys(layer.name for layer in named if layer.scope == POOL)]
    for team in teams if named else ():
        for pool in pools:
            known = in_force(found, rule.id, base, cluster, pool, team)
            made = ParameterSet(len(numbered), known.parameters, _said(known, rule), sql)
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


def _said(known: InForce, rule: Rule) -> str:
    return known.preset if values_of(known.preset, rule.id) else DEFAULT


def _key(known: InForce, rule: Rule) -> tuple[Any, ...]:
    return () if known.parameters is None else (_said(known, rule), *sorted(known.parameters.items()))
